//! The command line: arguments in, exit status out.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use pcp_types::printable;

use super::agent::{self, Agent};
use super::capture::CaptureError;
use super::demo::DemoError;
use super::recording::RecordedCommand;
use super::{capture, demo, help, inspect};
use crate::config::{
    Invocation, find_mmv_file, missing_mmv_file, parse_duration, recorder_directory,
};
use crate::control::signals::HeldSignals;
use crate::control::{status_socket, stderr_log};
use crate::error::{
    EXIT_CONFIG, EXIT_FINDINGS, EXIT_INTERNAL, EXIT_IO, EXIT_OK, EXIT_PERMISSION, EXIT_USAGE,
};
use crate::run;
use crate::telemetry::status;

/// Harvests the MMV files of instrumented programs and logs their metrics
/// into archives of Performance Co-Pilot.
#[derive(Debug, Parser)]
#[command(name = "mmv-agent", version)]
#[command(after_help = help::EXAMPLES, after_long_help = help::PROGRAM.text())]
struct Cli {
    #[command(subcommand)]
    command: AgentCommand,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    /// Harvest MMV files and log their metrics until TERM or INT.
    #[command(after_long_help = help::RUN.text())]
    Run(Invocation),
    /// Check a configuration and print a one-line summary: directories, groups and
    /// their intervals.
    ///
    /// Warns on standard error of directories that are missing, and of groups that can
    /// never log anything since groups above them take all of their metrics.
    #[command(after_long_help = help::CHECK_CONFIG.text())]
    CheckConfig(CheckOptions),
    /// Print the status of a running agent: files, groups and their bytes a day,
    /// losses, lateness, the archives and how long they are kept.
    ///
    /// With `--json` one object: `sources` (`file`, `state` harvested, waiting or quarantined,
    /// `since` in seconds, `reason`, `values`), `groups` (`name`, `interval`, `values`,
    /// `bytes-a-day`), counts since the start (`records`, `values`, `dropped`, `late`, `missed`),
    /// `lateness` (`p50`, `p99`, `max`, in seconds), `values-a-second`, `bytes-a-second`, `queued`,
    /// `queue-limit`, `archive`, `kept`, `compression` (`bytes` and `nanoseconds` of a value),
    /// `forecast` (`bytes-a-day`, `compressed-to`, `days`, `limit`) and `last-error`.
    /// docs/operators.md explains each.
    #[command(after_long_help = help::STATUS.text())]
    Status(StatusOptions),
    /// Copy the flight recorder's samples into an archive: the last minutes in greater detail
    /// than in the agent's other archives.
    ///
    /// The flight recorder runs if the configuration has a table `[hindsight]`. Its own
    /// archives are in a directory that `status` prints, and are read like all others; the
    /// agent deletes them after minutes. No agent needs to run. An existing archive is not
    /// overwritten.
    #[command(after_long_help = help::CAPTURE.text())]
    Capture(CaptureOptions),
    /// Print and validate an MMV file of any version.
    #[command(after_long_help = help::INSPECT.text())]
    Inspect(InspectOptions),
    /// Run a command, log the metrics of it and its children into an archive, and print
    /// a summary.
    ///
    /// The command gets a directory for MMV files in `$PCP_TMP_DIR`. What a program
    /// counts between the last sample and its end is lost.
    #[command(after_long_help = help::RECORD.text())]
    Record(RecordOptions),
    /// Run a five-second demonstration: an instrumented program, the agent, and a
    /// report of what was logged. Needs no set-up and no root.
    #[command(after_long_help = help::DEMO.text())]
    Demo,
    /// Print a completion script for a shell.
    #[command(after_long_help = help::COMPLETIONS.text())]
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Returns the command line, for manual pages.
pub fn command() -> clap::Command {
    Cli::command()
}

#[derive(Debug, Args)]
struct RecordOptions {
    /// Time between two samples: 100ms, 2s, 1m
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "100ms")]
    interval: Duration,
    /// The base name of the archive [default: the command's name and the time, in
    /// the current directory]
    #[arg(long, value_name = "BASE")]
    output: Option<PathBuf>,
    /// The command
    #[arg(value_name = "COMMAND")]
    program: PathBuf,
    /// Its arguments
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

#[derive(Debug, Args)]
struct CheckOptions {
    /// The configuration file
    #[arg(value_name = "FILE", required_unless_present = "pmlogger_config")]
    config: Option<PathBuf>,
    /// A configuration file of pmlogger
    #[arg(long, value_name = "FILE")]
    pmlogger_config: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct StatusOptions {
    #[command(flatten)]
    agent: AgentOptions,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct CaptureOptions {
    #[command(flatten)]
    agent: AgentOptions,
    /// Only the last part before the newest sample: 30s, 5min [default: all samples]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    last: Option<Duration>,
    /// The base name of the archive
    #[arg(long, value_name = "BASE")]
    output: PathBuf,
}

/// Selects the agent.
#[derive(Debug, Args)]
struct AgentOptions {
    /// The agent's directory for archives [default: the agent of this user, else
    /// that of the system]
    #[arg(long, value_name = "DIR")]
    archive_dir: Option<PathBuf>,
}

impl AgentOptions {
    /// Returns the status socket of the agent: the first that answers, else the likeliest.
    fn socket(&self) -> Result<PathBuf, CaptureError> {
        match agent::find(self.archive_dir.as_deref()) {
            Agent::At(socket) => Ok(socket),
            Agent::Elsewhere { directory, process } => {
                Err(CaptureError::Elsewhere { directory, process })
            }
        }
    }
}

#[derive(Debug, Args)]
struct InspectOptions {
    /// The file; a name without a slash is also that of a file in the directory of MMV
    /// files
    #[arg(value_name = "FILE.mmv")]
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command of these arguments, the first of which is the program's name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut held = HeldSignals::hold();
    let parsed = Cli::try_parse_from(arguments);
    if !matches!(parsed, Ok(Cli { command: AgentCommand::Run(_) })) {
        // Children of other commands inherit the signal mask.
        held.release();
    }
    match parsed {
        Ok(cli) => match cli.command {
            AgentCommand::Run(invocation) => run_command(&invocation, held),
            AgentCommand::CheckConfig(options) => check_command(options),
            AgentCommand::Status(options) => status_command(&options),
            AgentCommand::Capture(options) => capture_command(&options),
            AgentCommand::Inspect(options) => inspect_command(&options),
            AgentCommand::Record(options) => record_command(options),
            AgentCommand::Demo => demo_command(),
            AgentCommand::Completions { shell } => completions_command(shell),
        },
        Err(error) => {
            // Help and version go to stdout and are not errors. Failing output cannot be reported.
            let text = error.to_string();
            let _ = match printable::lines(text.as_bytes()) {
                // With colors, on a terminal.
                Cow::Borrowed(_) => error.print(),
                Cow::Owned(shown) => io::stderr().write_all(&shown),
            };
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(EXIT_USAGE))
        }
    }
}

fn run_command(invocation: &Invocation, held: HeldSignals) -> ExitCode {
    stderr_log::start();
    match run::run(invocation, held) {
        Ok(_) => ExitCode::from(EXIT_OK),
        Err(error) => {
            tracing::error!("{error}");
            error.exit_code()
        }
    }
}

fn check_command(options: CheckOptions) -> ExitCode {
    let CheckOptions { config, pmlogger_config } = options;
    let invocation = Invocation { config, pmlogger_config, ..Invocation::default() };
    match invocation.settings() {
        Ok(settings) => {
            let files = [&invocation.config, &invocation.pmlogger_config].into_iter().flatten();
            let files: Vec<_> = files.map(|file| printable::path(file).into_owned()).collect();
            for warning in settings.warnings() {
                say(&format!("{}: warning: {warning}", files.join(", ")));
            }
            // With a closed stdout the exit status suffices.
            let _ = writeln!(
                io::stdout(),
                "{}: valid: {}",
                files.join(", "),
                said(&settings.summary())
            );
            ExitCode::from(EXIT_OK)
        }
        Err(error) => fail(&error, EXIT_CONFIG),
    }
}

fn status_command(options: &StatusOptions) -> ExitCode {
    let asked = options.agent.socket().and_then(|socket| {
        status_socket::ask(&socket)
            .map_err(|source| CaptureError::NoAgent { socket: socket.clone(), source })
    });
    let status = match asked {
        Ok(status) => status,
        Err(error) => return fail(&error, error.exit_code()),
    };
    let code = if status.has_error() { EXIT_FINDINGS } else { EXIT_OK };
    printed(status::print(&status, options.json, &mut io::stdout().lock()), code)
}

fn capture_command(options: &CaptureOptions) -> ExitCode {
    let CaptureOptions { agent, last, output } = options;
    let captured = agent
        .socket()
        .map(|socket| recorder_directory(&socket))
        .and_then(|directory| capture::capture(&directory, *last, output));
    let captured = match captured {
        Ok(captured) => captured,
        Err(error) => return fail(&error, error.exit_code()),
    };
    say(&captured);
    if let Some(last) = last
        && captured.is_short_of(*last)
    {
        say(&"the flight recorder has no older samples");
    }
    ExitCode::from(EXIT_OK)
}

fn inspect_command(options: &InspectOptions) -> ExitCode {
    let file = find_mmv_file(&options.file);
    let report = match inspect::inspect(&file) {
        Ok(report) => report,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return fail(&missing_mmv_file(&file), EXIT_IO);
        }
        Err(error) => {
            let denied = error.kind() == io::ErrorKind::PermissionDenied;
            let code = if denied { EXIT_PERMISSION } else { EXIT_IO };
            return fail(&format!("{}: {error}", printable::path(&file)), code);
        }
    };
    let result = inspect::print(&report, options.json, &mut io::BufWriter::new(io::stdout()));
    printed(result, inspect::exit_code(&report))
}

fn record_command(options: RecordOptions) -> ExitCode {
    let RecordOptions { interval, output, program, arguments } = options;
    let recording = RecordedCommand { program, arguments, interval, output };
    recording.record().map_or_else(|error| fail(&error, error.exit_code()), ExitCode::from)
}

fn demo_command() -> ExitCode {
    match demo::demo() {
        Err(DemoError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::from(EXIT_OK)
        }
        Err(error @ DemoError::Interrupted { signal }) => fail(&error, 128 + signal),
        Err(error) => fail(&error, EXIT_INTERNAL),
        Ok(()) => ExitCode::from(EXIT_OK),
    }
}

fn completions_command(shell: Shell) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command(), "mmv-agent", &mut text);
    // The script for bash has two spellings of the program's name, of which one is never looked
    // up.
    let text = String::from_utf8_lossy(&text).replace("mmv__subcmd__agent", "mmv__agent");
    printed(io::stdout().write_all(text.as_bytes()), EXIT_OK)
}

/// Returns the exit status after output. A closed pipe is not an error; `head` closes its input like
/// that.
fn printed(result: io::Result<()>, code: u8) -> ExitCode {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => fail(&error, EXIT_IO),
        _ => ExitCode::from(code),
    }
}

fn fail(error: &impl Display, code: u8) -> ExitCode {
    say(error);
    ExitCode::from(code)
}

/// Returns the lines of a message as they are printed.
fn said(text: &str) -> String {
    String::from_utf8_lossy(&printable::lines(text.as_bytes())).into_owned()
}

fn say(text: &impl Display) {
    // A closed stderr leaves no way to report that.
    let text = text.to_string();
    let _ = writeln!(io::stderr(), "mmv-agent: {}", said(&text));
}

#[cfg(test)]
mod tests {
    use pcp_archive::Version;

    use super::*;

    fn parse(arguments: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from([&["mmv-agent"], arguments].concat())
    }

    #[test]
    fn the_options_are_those_documented() {
        let cli = parse(&[
            "run",
            "--config",
            "/c",
            "--pmlogger-config",
            "/p",
            "--mmv-dir",
            "/m",
            "--output",
            "/o",
            "--interval",
            "100ms",
            "--samples",
            "3",
            "--duration",
            "2s",
            "--archive-version",
            "2",
            "--own-metrics",
            "true",
            "--events",
            "false",
        ]);
        let Ok(Cli { command: AgentCommand::Run(invocation) }) = cli else { panic!("{cli:?}") };
        let expected = Invocation {
            config: Some("/c".into()),
            pmlogger_config: Some("/p".into()),
            mmv_dir: Some("/m".into()),
            archive_dir: None,
            output: Some("/o".into()),
            interval: Some(Duration::from_millis(100)),
            samples: Some(3),
            duration: Some(Duration::from_secs(2)),
            archive_version: Some(Version::V2),
            own_metrics: Some(true),
            events: Some(false),
        };
        assert_eq!(invocation, expected);
    }

    #[test]
    fn wrong_arguments_are_a_usage_error() {
        for arguments in [
            &["run", "--interval", "0s"][..],
            &["run", "--samples", "0"],
            &["run", "--output", "a", "--archive-dir", "b"],
            &["inspect"],
            &["check-config"],
            &["fly"],
        ] {
            assert_eq!(parse(arguments).unwrap_err().exit_code(), 2, "{arguments:?}");
        }
    }
}
