//! The `mmv-archive` command.
//!
//! [`run`] parses the command line and runs a subcommand; each has a module in
//! `commands`. A subcommand opens its archives, calls the library
//! [`pcp_archive`] and prints the result: the byte format and the rules of
//! replay are the library's. Data goes to standard output, everything else to
//! standard error.
//!
//! | module | contents |
//! |---|---|
//! | `options` | options that several subcommands share |
//! | `time` | times, windows and time zones on the command line and as text |
//! | `selection` | metrics and instances by name; warnings about missing ones |
//! | `completions` | completion scripts of shells |
//! | `cancellation` | stops a command whose answer is no longer needed |
//! | `columns` | the columns of a report: one for each metric and instance |
//! | `comparison` | what differs between runs, and how certain that is |
//! | `explanation` | what changed in a window, when, and what moved together |
//! | `formats` | samples as a table, CSV or JSON Lines |
//! | `groups` | metrics that are read in one pass |
//! | `movement` | how much programs moved away from what is usual |
//! | `order` | the order in which metrics are shown |
//! | `screen` | the columns that a screen shows first |
//! | `text` | values, numbers and descriptors as text; the output buffer |
//! | `left_out` | warnings about values that readers left out |
//! | `image` | plots as SVG and PNG |
//! | `output_file` | writes pictures and pages |
//! | `page` | the page of snapshots and of `view` |
//! | `failure` | why a command fails, and its exit status |
//! | `hint` | what there is in place of an archive that does not exist |

#![warn(clippy::unwrap_used)]
#![cfg_attr(not(feature = "view"), expect(dead_code, reason = "what a page needs of a server"))]
// Byte orders are the business of `pcp-archive`.
#![cfg_attr(
    not(test),
    warn(clippy::big_endian_bytes, clippy::little_endian_bytes, clippy::host_endian_bytes)
)]

mod cancellation;
mod columns;
mod commands;
mod comparison;
mod completions;
mod explanation;
mod failure;
mod formats;
mod groups;
mod hint;
mod image;
mod left_out;
mod movement;
mod options;
mod order;
mod output_file;
mod page;
mod screen;
mod selection;
mod text;
mod time;
mod walk;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use mmv_arguments::program::explain;
use pcp_archive::internal::ExitStatus;
use signal_hook::consts::SIGXFSZ;

#[cfg(feature = "view")]
use commands::view;
use commands::{
    check, compare, convert, dump, events, explain, extract, follow, info, mcp, metrics, plot,
    reduce, repair, report, snapshot, summary,
};
use failure::{Failure, STATUSES};
use text::{Output, warn};

/// A note in the help about bytes of archives that are not printable.
const NOTES: &str = "\
Names and texts are bytes: each byte that is not valid UTF-8 is printed as \\xHH, also in JSON, and \
a backslash that would look like such a byte as \\x5c. Names are selected by the text that is \
printed. Control characters and those that change the direction of text are printed as their bytes, \
in JSON as \\uHHHH; in CSV a text that begins with =, +, - or @ and is no number has an apostrophe \
in front.";

/// Commands to begin with, after all of the command's help.
const EXAMPLES: &str = "\
Examples:
  Begin with the names of the metrics that the agent of this machine logs:
    mmv-archive metrics @ --names
  Then print the values of one of them, each second:
    mmv-archive report @ --last 1m mmv.shop.orders
  Or draw it:
    mmv-archive plot @ --last 1h mmv.shop.orders

\"mmv-archive COMMAND --help\" has examples of each command.";

/// Returns the text after the long help.
fn notes() -> String {
    format!("{NOTES}\n\n{}\n\n{EXAMPLES}", ExitStatus::list(&STATUSES))
}

/// Read and replay archives of performance metrics (Performance Co-Pilot, versions 2 and 3)
#[derive(Debug, Parser)]
#[command(name = "mmv-archive", version, max_term_width = 100)]
#[command(after_help = EXAMPLES, after_long_help = notes())]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print label, time span, volumes and counts of an archive
    Info(info::InfoCommand),
    /// Print descriptors, instances, labels and help text of metrics
    Metrics(metrics::MetricsCommand),
    /// Print an archive record by record, in the format of pmdumplog
    Dump(dump::DumpCommand),
    /// Print what happened: when programs started and ended, and where samples are missing
    Events(events::EventsCommand),
    /// Print the values of metrics as they are logged, until interrupted
    Follow(follow::FollowCommand),
    /// Check an archive by all rules of pmlogcheck and more
    Check(check::CheckCommand),
    /// Rebuild a damaged archive from all records that can be read
    Repair(repair::RepairCommand),
    /// Write part of an archive, or several archives as one, to a new archive
    Extract(extract::ExtractCommand),
    /// Write one value an interval to a new archive, for history: no count is lost, and no peak
    Reduce(reduce::ReduceCommand),
    /// Rewrite an archive: in version 2 or 3, with other names, or compressed
    Convert(convert::ConvertCommand),
    /// Print the values of metrics at regular intervals, or as logged
    #[command(override_usage = "mmv-archive report [OPTIONS] <ARCHIVE> <METRIC>...\n       \
                                mmv-archive report [OPTIONS] <ARCHIVE> --derived \
                                <EXPRESSION|FILE> [METRIC]...")]
    Report(report::ReportCommand),
    /// Print averages, minima and maxima of metrics over a time window
    Summary(summary::SummaryCommand),
    /// Print which metrics differ between runs, by how much, and how certain that is
    #[command(override_usage = "mmv-archive compare [OPTIONS] base=<ARCHIVE> new=<ARCHIVE> \
                                [METRIC]...\n       \
                                mmv-archive compare [OPTIONS] <ARCHIVE> --before <FROM..TO> \
                                --after <FROM..TO> [METRIC]...")]
    Compare(compare::CompareCommand),
    /// Print what changed in a window of time, when, and what happened then
    Explain(explain::ExplainCommand),
    /// Plot metrics over time, in the terminal or to an SVG or PNG file
    #[command(override_usage = "mmv-archive plot [OPTIONS] <ARCHIVE> <METRIC>...\n       \
                                mmv-archive plot [OPTIONS] <ARCHIVE> --derived \
                                <EXPRESSION|FILE> [METRIC]...")]
    Plot(plot::PlotCommand),
    /// Write metrics over time to one file, a page that a browser opens from disk
    Snapshot(snapshot::SnapshotCommand),
    /// Show metrics over time in a browser, reading archives on demand
    #[cfg(feature = "view")]
    View(view::ViewCommand),
    /// Answer an assistant's questions, by the Model Context Protocol on standard input and output
    #[command(long_about = mcp::ABOUT)]
    Mcp(mcp::McpCommand),
    /// Print the completion script of a shell
    #[command(after_long_help = completions::EXAMPLES)]
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
    // Unhandled, the signal of a file that is too long ends a process without a message; handled,
    // writing fails. Where it cannot be handled nothing is worse than before.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let [_, first, words @ ..] = arguments.as_slice()
        && first == completions::COMPLETE_METRICS
    {
        return finish(print_metric_names(words));
    }
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            return explain(&error).map_or_else(|error| finish(Err(error.into())), ExitCode::from);
        }
    };
    let result = match &arguments.command {
        Command::Info(info) => info.run(),
        Command::Metrics(metrics) => metrics.run(),
        Command::Dump(dump) => dump.run(),
        Command::Events(events) => events.run(),
        Command::Follow(follow) => follow.run(),
        Command::Check(check) => check.run(),
        Command::Repair(repair) => repair.run(),
        Command::Extract(extract) => extract.run(),
        Command::Reduce(reduce) => reduce.run(),
        Command::Convert(convert) => convert.run(),
        Command::Report(report) => report.run(),
        Command::Summary(summary) => summary.run(),
        Command::Compare(compare) => compare.run(),
        Command::Explain(explain) => explain.run(),
        Command::Plot(plot) => plot.run(),
        Command::Snapshot(snapshot) => snapshot.run(),
        #[cfg(feature = "view")]
        Command::View(view) => view.run(),
        Command::Mcp(mcp) => mcp.run(),
        Command::Completions { shell } => completions(*shell),
    };
    finish(result)
}

fn completions(shell: Shell) -> Result<(), Failure> {
    let mut out = Output::new();
    out.text.extend_from_slice(completions::script(shell, command()).as_bytes());
    out.finish()
}

/// Prints the names that the last word can become, for completion scripts.
fn print_metric_names(words: &[OsString]) -> Result<(), Failure> {
    let mut out = Output::new();
    for name in completions::metric_names(&command(), words) {
        out.text.extend_from_slice(format!("{name}\n").as_bytes());
    }
    out.finish()
}

/// Prints a failure, and returns the exit status.
fn finish(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) | Err(Failure::Closed) => ExitCode::SUCCESS,
        // The findings were printed.
        Err(failure @ Failure::Findings) => failure.status().into(),
        Err(failure) => {
            let hint = match &failure {
                Failure::Archive(error) => hint::hint(error),
                _ => String::new(),
            };
            warn(&format_args!("{failure}{hint}"));
            failure.status().into()
        }
    }
}
