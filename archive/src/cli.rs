//! The `mmv-archive` command: what it takes and where it goes.
//!
//! A subcommand a file. Each opens its archives, asks the library and prints;
//! nothing here knows a byte of the format or a rule of replay. Data goes to
//! standard output, everything else to standard error. Exit status: 0 fine,
//! 1 the archive holds nothing of what was asked for or a check found
//! something, 2 usage, 65 the archive is damaged, 74 it cannot be read or the
//! output cannot be written.

mod archives;
mod check;
mod columns;
mod convert;
mod dump;
mod extract;
mod failure;
mod follow;
mod grid;
mod info;
mod metrics;
mod number;
mod output;
mod plot;
mod progress;
mod repair;
mod report;
mod summary;
mod time;
mod value;
mod window;
mod zone;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use archives::ArchiveArgument;
use failure::Failure;

const EXIT_STATUS: &str = "\
Exit status: 0 fine; 1 the archive holds nothing of what was asked for, or a check found something; \
2 the command line makes no sense; 65 the archive is damaged; 74 it cannot be read, or the output \
cannot be written.";

/// Read and replay archives of performance metrics (Performance Co-Pilot,
/// versions 2 and 3).
#[derive(Debug, Parser)]
#[command(name = "mmv-archive", version, max_term_width = 100, after_help = EXIT_STATUS)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print what an archive is: host, time span, volumes, counts.
    Info(info::Arguments),
    /// Print the metrics of an archive: descriptors, instances, labels, help.
    Metrics(metrics::Arguments),
    /// Print an archive record by record, in the form of pmdumplog.
    Dump(dump::Arguments),
    /// Print the values of metrics as they are logged, until interrupted.
    Follow(follow::Arguments),
    /// Print what is wrong with an archive, by all rules of pmlogcheck and more.
    Check(check::Arguments),
    /// Make a whole archive of a damaged one.
    Repair(repair::RepairArguments),
    /// Make the index of an archive anew.
    Reindex(repair::ReindexArguments),
    /// Write a part of an archive, or several archives as one, as a new archive.
    Extract(extract::Arguments),
    /// Write an archive anew: in version 3 or 2, with other names, or compressed.
    Convert(convert::Arguments),
    /// Print the values of metrics at even steps of time, or as logged.
    Report(report::Arguments),
    /// Print averages, minima and maxima of metrics over a stretch of time.
    Summary(summary::Arguments),
    /// Draw metrics over time, in the terminal or as a picture.
    Plot(plot::Arguments),
    /// Print what a shell needs to complete the command line.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// The command line, for manual pages.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the command with the arguments of the process, its own name first.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors and go to standard output.
            let status = if error.use_stderr() { 2 } else { 0 };
            return ended(error.print().map_err(Failure::from), ExitCode::from(status));
        }
    };
    let result = match &arguments.command {
        Command::Info(info) => info.run(),
        Command::Metrics(metrics) => metrics.run(),
        Command::Dump(dump) => dump.run(),
        Command::Follow(follow) => follow.run(),
        Command::Check(check) => check.run(),
        Command::Repair(repair) => repair.run(),
        Command::Reindex(reindex) => reindex.run(),
        Command::Extract(extract) => extract.run(),
        Command::Convert(convert) => convert.run(),
        Command::Report(report) => report.run(),
        Command::Summary(summary) => summary.run(),
        Command::Plot(plot) => plot.run(),
        Command::Completions { shell } => completions(*shell),
    };
    ended(result, ExitCode::SUCCESS)
}

fn completions(shell: Shell) -> Result<(), Failure> {
    let mut out = output::Output::new();
    clap_complete::generate(shell, &mut command(), "mmv-archive", &mut out.text);
    out.finish()
}

/// The exit status after all is done, or after a failure that is told first.
fn ended(result: Result<(), Failure>, done: ExitCode) -> ExitCode {
    match result {
        Ok(()) | Err(Failure::Closed) => done,
        // They were printed.
        Err(failure @ Failure::Findings) => failure.exit_code(),
        Err(failure) => {
            warn(&failure);
            failure.exit_code()
        }
    }
}

/// A line on standard error. That nobody reads it is no reason to fail.
fn warn(message: &dyn std::fmt::Display) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "mmv-archive: {message}");
}

/// What COLUMNS says, else a width that most terminals have.
fn terminal_width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    columns.filter(|width| *width >= 20).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_option_is_explained() {
        for command in Arguments::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                let name = (command.get_name(), argument.get_id());
                assert!(argument.get_help().is_some(), "{name:?}");
            }
        }
    }
}
