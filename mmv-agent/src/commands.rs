//! The command line and its subcommands.
//!
//! In come arguments; out go text, an exit code, and with `run`, `record` and `demo`
//! an agent on threads of this process.
//!
//! Invariant: a command other than those never changes anything that a running agent
//! reads or writes.

mod agent;
mod archive_summary;
mod capture;
pub mod cli;
mod demo;
mod help;
mod inspect;
mod recording;
