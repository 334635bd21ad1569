//! The command line and its subcommands.
//!
//! Input: arguments. Output: text, an exit status, and with `run`, `record` and `demo` an agent on
//! threads of this process.
//!
//! Invariant: other commands never change anything that a running agent reads or writes.

mod agent;
mod archive_summary;
mod capture;
pub mod cli;
mod demo;
mod help;
mod inspect;
mod recording;
