//! Exports archives of Performance Co-Pilot to existing engines: the `mmv-export` command and its
//! parts.
//!
//! The archive is the queue: each reader stores its position and continues from there. Nothing
//! here stores metrics or evaluates queries.
//!
//! ```text
//! HOST/archives --> tree --> walk --> samples --> push, serve
//!                    \--> tables
//!                    mapping: names, labels, units
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`mapping`] | names, units and labels of metrics in other engines (`docs/export-mapping.md`) |
//! | [`tree`] | hosts and their archives |
//! | [`selection`] | the metrics and instances that are exported |
//! | [`position`] | a position between two records, to resume from |
//! | [`walk`] | the values of a host's archives in order |
//! | [`samples`] | the values as samples of Prometheus: milliseconds, doubles, stale markers, histograms |
//! | [`tables`] | the values as tables: Parquet, CSV, JSON Lines |
//! | `serve` | `mmv-export serve`: remote read and scrapes |
//! | `push` | batches of samples for receivers, each sent exactly once |
//! | `commands`, `options`, `window` | the subcommands of `mmv-export` |
//! | `open_files` | the limit on open files |
//! | `shared_values` | interned label sets and names |
//! | `failure`, `text` | exit statuses, printable output |

#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
// Byte orders are the business of `pcp-archive`.
#![cfg_attr(
    not(test),
    deny(clippy::big_endian_bytes, clippy::little_endian_bytes, clippy::host_endian_bytes)
)]

mod commands;
mod failure;
pub mod mapping;
#[cfg(feature = "push")]
mod open_files;
mod options;
pub mod position;
#[cfg(feature = "push")]
mod push;
pub mod samples;
pub mod selection;
#[cfg(feature = "serve")]
mod serve;
mod shared_values;
#[cfg(feature = "parquet")]
pub mod tables;
#[cfg(test)]
mod test_support;
mod text;
pub mod tree;
pub mod walk;
#[cfg(feature = "parquet")]
mod window;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use mmv_arguments::program::{completion_script, explain};
use pcp_archive::internal::ExitStatus;

use commands::mapping as mapping_command;
#[cfg(feature = "parquet")]
use commands::parquet as parquet_command;
use failure::{Failure, STATUSES};
use text::warn;

const NOTES: &str = "docs/export-mapping.md has the rules for names, labels and units.";

/// First commands to try, at the end of the help.
const EXAMPLES: &str = "\
Examples:
  Begin with the names that the metrics of this machine's agent have elsewhere:
    mmv-export mapping @
  Then let Prometheus query the archives, without an import:
    mmv-export serve @
  Or write tables for DuckDB and others:
    mmv-export parquet @ -o lake

\"mmv-export COMMAND --help\" has examples of each command.";

/// The end of the help of `completions`.
const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  Install the script of bash for this user:
    mmv-export completions bash \\
        >~/.local/share/bash-completion/completions/mmv-export
  Complete in this fish only:
    mmv-export completions fish | source";

/// Returns the end of the long help.
fn notes() -> String {
    format!("{NOTES}\n\n{}\n\n{EXAMPLES}", ExitStatus::list(&STATUSES))
}

/// Export archives of performance metrics (Performance Co-Pilot) to other engines
#[derive(Debug, Parser)]
#[command(name = "mmv-export", version, max_term_width = 100)]
#[command(after_help = EXAMPLES, after_long_help = notes())]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the names that metrics have in Prometheus and in tables
    Mapping(mapping_command::MappingCommand),
    /// Answer Prometheus' remote reads and scrapes from archives, until interrupted
    #[cfg(feature = "serve")]
    Serve(serve::ServeCommand),
    /// Write tables in Parquet or as text for engines that read files
    #[cfg(feature = "parquet")]
    Parquet(parquet_command::ParquetCommand),
    /// Send archives to a receiver of Prometheus remote write or OTLP
    #[cfg(feature = "push")]
    Push(commands::push::PushCommand),
    /// Print the completion script of a shell
    #[command(after_long_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// Shell to print the script for
        shell: Shell,
    },
}

/// Returns the command line, for manual pages and completions.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the command. The first argument is the name of the program.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            return explain(&error).map_or_else(|error| finish(Err(error.into())), ExitCode::from);
        }
    };
    let result = match &arguments.command {
        Command::Mapping(mapping) => mapping.run(),
        #[cfg(feature = "serve")]
        Command::Serve(serve) => serve.run(),
        #[cfg(feature = "parquet")]
        Command::Parquet(parquet) => parquet.run(),
        #[cfg(feature = "push")]
        Command::Push(push) => push.run(),
        Command::Completions { shell } => text::print(&completion_script(*shell, command())),
    };
    finish(result)
}

/// Prints a failure, and returns the exit status.
fn finish(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) | Err(Failure::Closed) => ExitCode::SUCCESS,
        Err(failure) => {
            warn(&failure);
            failure.status().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_comes_before_metrics_in_every_command() {
        for command in Arguments::command().get_subcommands() {
            let names: Vec<&str> =
                command.get_positionals().map(|argument| argument.get_id().as_str()).collect();
            let is_reader = command.get_name() != "completions";
            let expected: &[&str] = if is_reader { &["archive", "metrics"] } else { &["shell"] };
            assert_eq!(names, expected, "{}", command.get_name());
        }
    }
}
