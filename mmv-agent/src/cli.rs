//! The commands.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use mmv_archive::Version;

use crate::config::{
    Destination, Invocation, QuantityError, Settings, UNIT_SOCKET, archive_version,
    default_archive_dir, parse_duration,
};
use crate::error::{EXIT_CONFIG, EXIT_FINDINGS, EXIT_INTERNAL, EXIT_IO, EXIT_OK, EXIT_PERMISSION};
use crate::host::Host;
use crate::recording::Recording;
use crate::{capture, demo, inspect, logging, run, status};

/// Harvests the MMV files of instrumented programs and logs their metrics
/// into archives of Performance Co-Pilot.
#[derive(Debug, Parser)]
#[command(name = "mmv-agent", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Harvest until told to stop (TERM or INT).
    ///
    /// Exit status: 0 stopped as told, 74 the system refused something, 75
    /// another agent writes there, 77 without permission, 78 the configuration is wrong.
    Run(RunOptions),
    /// Read a configuration as `run` would, and say in a line what it comes to:
    /// directories, groups and their intervals.
    ///
    /// Exit status: 0 fine, 78 wrong: file, line and key are told.
    CheckConfig(CheckOptions),
    /// Print what a running agent is doing: files, groups with what they come
    /// to in a day, losses, lateness, the archives and how long they are kept.
    ///
    /// With `--json` one object: `sources` (`file`, `state` harvested, waiting or
    /// quarantined, `since` in seconds, `reason`, `values`), `groups` (`name`,
    /// `interval`, `values`, `bytes-a-day`), counts since the start (`records`,
    /// `values`, `dropped`, `late`, `missed`), `lateness` (`p50`, `p99`, `max`,
    /// in seconds), `values-a-second`, `bytes-a-second`, `queued`, `queue-limit`,
    /// `archive`, `kept`, `forecast` (`bytes-a-day`, `compressed-to`, `days`,
    /// `limit`) and `last-error`. The chapter for operators has what each means.
    ///
    /// Exit status: 0 fine, 1 it cannot write at present, 74 no agent answers.
    Status(StatusOptions),
    /// Write the samples that a running agent keeps in memory into an archive: what
    /// happened in the last minutes, more closely than its own archives have it.
    ///
    /// The agent keeps them if its configuration has a part \[hindsight\]. An archive
    /// that exists is not touched.
    ///
    /// Exit status: 0 written, 1 there are no samples, 65 the agent is of another
    /// version, 74 no agent answers or the archive cannot be written, 78 the agent
    /// keeps none.
    Capture(CaptureOptions),
    /// Print and validate an MMV file of any version.
    ///
    /// Exit status: 0 sound, 1 some entries have to be left out, 65 refused.
    Inspect(InspectOptions),
    /// Run a command and log what it and its children publish, in an archive of
    /// its own; say at the end what was logged.
    ///
    /// The command finds a folder for MMV files in `$PCP_TMP_DIR`. What a program
    /// counts between the last sample and its end is not seen.
    ///
    /// Exit status: that of the command, 128 and the number of the signal that
    /// killed it, 126 or 127 if it cannot be run; 70 and 74 for own failures.
    Record(RecordOptions),
    /// Show the whole road in five seconds: an instrumented program, the agent,
    /// and a report of what was logged. Needs no set-up and no root.
    Demo,
    /// Print what a shell needs to complete the command line.
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// The command line, for manual pages.
pub fn command() -> clap::Command {
    Cli::command()
}

#[derive(Debug, Args)]
struct RunOptions {
    /// The configuration file, in TOML; options given here win over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A configuration file of pmlogger: its statements take the place of the
    /// groups of the other file. No macros.
    #[arg(long, value_name = "FILE")]
    pmlogger_config: Option<PathBuf>,
    /// The directory of MMV files [default: `$PCP_TMP_DIR/mmv` from the
    /// environment, else from `$PCP_CONF` or /etc/pcp.conf, else
    /// /var/lib/pcp/tmp/mmv]
    #[arg(long, value_name = "DIR")]
    mmv_dir: Option<PathBuf>,
    /// The folder for archives, which are called HOST/YYYYMMDD.HH.MM by their
    /// start in UTC [default: `$LOGS_DIRECTORY` as systemd sets it, else
    /// /var/log/mmv-agent]
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    archive_dir: Option<PathBuf>,
    /// The base name of the archive, in place of a folder
    #[arg(long, value_name = "BASE")]
    output: Option<PathBuf>,
    /// Time between two samples: 100ms, 2s, 1m, 1h, 1d [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    interval: Option<Duration>,
    /// Stop after so many samples
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    samples: Option<u64>,
    /// Stop after so much time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// The version of archives: 3, or 2 for readers before PCP 6, with times cut to
    /// microseconds [default: 3]
    #[arg(long, value_name = "VERSION", value_parser = archive_version)]
    archive_version: Option<Version>,
    /// Publish the agent's own metrics, mmv.agent.*, and log them [default: true]
    #[arg(long, value_name = "BOOL")]
    own_metrics: Option<bool>,
    /// Log what happens to files and samples, as mmv.agent.events [default: true]
    #[arg(long, value_name = "BOOL")]
    events: Option<bool>,
}

impl RunOptions {
    fn invocation(self) -> Invocation {
        let folder = self.archive_dir.map(Destination::Folder);
        Invocation {
            config: self.config,
            pmlogger_config: self.pmlogger_config,
            mmv_dir: self.mmv_dir,
            destination: self.output.map(Destination::Base).or(folder),
            interval: self.interval,
            samples: self.samples,
            duration: self.duration,
            archive_version: self.archive_version,
            own_metrics: self.own_metrics,
            events: self.events,
        }
    }
}

#[derive(Debug, Args)]
struct RecordOptions {
    /// Time between two samples: 100ms, 2s, 1m
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "100ms")]
    interval: Duration,
    /// The base name of the archive [default: the command's name and the time, in
    /// the folder where we are]
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
    /// How much time up to now: 30s, 5m [default: all that there is]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    last: Option<Duration>,
    /// The base name of the archive
    #[arg(long, value_name = "BASE")]
    output: PathBuf,
}

/// Which agent is meant.
#[derive(Debug, Args)]
struct AgentOptions {
    /// The folder for archives of the agent [default: the agent that systemd
    /// runs, else the one of /var/log/mmv-agent]
    #[arg(long, value_name = "DIR")]
    archive_dir: Option<PathBuf>,
}

impl AgentOptions {
    /// Where the agent tells its status.
    fn socket(&self) -> PathBuf {
        let unit = PathBuf::from(UNIT_SOCKET);
        if self.archive_dir.is_none() && unit.exists() {
            return unit;
        }
        let folder = self.archive_dir.clone().unwrap_or_else(default_archive_dir);
        let settings = Settings::new(PathBuf::new(), Destination::Folder(folder));
        settings.socket(&Host::here().name).unwrap_or(unit)
    }
}

#[derive(Debug, Args)]
struct InspectOptions {
    /// The file
    #[arg(value_name = "FILE.mmv")]
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Does what the arguments say, the program's name first.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match Cli::try_parse_from(arguments) {
        Ok(cli) => match cli.command {
            Command::Run(options) => run_command(options),
            Command::CheckConfig(options) => check_command(options),
            Command::Status(options) => status_command(&options),
            Command::Capture(options) => capture_command(&options),
            Command::Inspect(options) => inspect_command(&options),
            Command::Record(options) => record_command(options),
            Command::Demo => demo_command(),
            Command::Completions { shell } => completions_command(shell),
        },
        Err(error) => {
            // Help and version go to stdout and are no error; if nobody reads
            // them there is nobody to tell.
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
    }
}

fn duration(text: &str) -> Result<Duration, QuantityError> {
    parse_duration(text)
}

fn run_command(options: RunOptions) -> ExitCode {
    logging::start();
    match run::run(&options.invocation()) {
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
            let files: Vec<_> = files.map(|file| file.display().to_string()).collect();
            // The exit status says it to whoever does not read.
            let _ = writeln!(io::stdout(), "{}: fine: {}", files.join(", "), settings.summary());
            ExitCode::from(EXIT_OK)
        }
        Err(error) => {
            say(&error.to_string());
            ExitCode::from(EXIT_CONFIG)
        }
    }
}

fn status_command(options: &StatusOptions) -> ExitCode {
    let socket = options.agent.socket();
    let status = match status::ask(&socket) {
        Ok(status) => status,
        Err(error) => {
            say(&format!("{}: no agent answers: {error}", socket.display()));
            return ExitCode::from(EXIT_IO);
        }
    };
    match status::print(&status, options.json, &mut io::stdout().lock()) {
        // Whoever stopped reading has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            say(&error.to_string());
            ExitCode::from(EXIT_IO)
        }
        _ if status.archive.error.is_some() => ExitCode::from(EXIT_FINDINGS),
        _ => ExitCode::from(EXIT_OK),
    }
}

fn capture_command(options: &CaptureOptions) -> ExitCode {
    let CaptureOptions { agent, last, output } = options;
    let captured = match capture::capture(&agent.socket(), *last, output) {
        Ok(captured) => captured,
        Err(error) => {
            say(&error.to_string());
            return ExitCode::from(error.exit_code());
        }
    };
    say(&captured.to_string());
    if let Some(last) = last
        && captured.is_short_of(*last)
    {
        say("that is all that the agent has");
    }
    ExitCode::from(EXIT_OK)
}

fn inspect_command(options: &InspectOptions) -> ExitCode {
    let report = match inspect::inspect(&options.file) {
        Ok(report) => report,
        Err(error) => {
            say(&format!("{}: {error}", options.file.display()));
            return ExitCode::from(match error.kind() {
                io::ErrorKind::PermissionDenied => EXIT_PERMISSION,
                _ => EXIT_IO,
            });
        }
    };
    let printed = inspect::print(&report, options.json, &mut io::BufWriter::new(io::stdout()));
    match printed {
        // Whoever stopped reading has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            say(&error.to_string());
            ExitCode::from(EXIT_IO)
        }
        _ => ExitCode::from(inspect::exit_code(&report)),
    }
}

fn record_command(options: RecordOptions) -> ExitCode {
    let RecordOptions { interval, output, program, arguments } = options;
    let recording = Recording { program, arguments, interval, output };
    ExitCode::from(recording.record().unwrap_or_else(|error| {
        say(&error.to_string());
        error.exit_code()
    }))
}

fn demo_command() -> ExitCode {
    match demo::demo() {
        // Whoever stopped reading has seen enough.
        Err(demo::Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::from(EXIT_OK)
        }
        Err(error) => {
            say(&error.to_string());
            ExitCode::from(EXIT_INTERNAL)
        }
        Ok(()) => ExitCode::from(EXIT_OK),
    }
}

fn completions_command(shell: Shell) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command(), "mmv-agent", &mut text);
    match io::stdout().write_all(&text) {
        // Whoever stopped reading has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            say(&error.to_string());
            ExitCode::from(EXIT_IO)
        }
        _ => ExitCode::from(EXIT_OK),
    }
}

fn say(text: &str) {
    // With stderr closed there is no one to tell that either.
    let _ = writeln!(io::stderr(), "mmv-agent: {text}");
}

#[cfg(test)]
mod tests {
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
        let Ok(Cli { command: Command::Run(options) }) = cli else { panic!("{cli:?}") };
        let expected = Invocation {
            config: Some("/c".into()),
            pmlogger_config: Some("/p".into()),
            mmv_dir: Some("/m".into()),
            destination: Some(Destination::Base("/o".into())),
            interval: Some(Duration::from_millis(100)),
            samples: Some(3),
            duration: Some(Duration::from_secs(2)),
            archive_version: Some(Version::V2),
            own_metrics: Some(true),
            events: Some(false),
        };
        assert_eq!(options.invocation(), expected);
    }

    #[test]
    fn what_makes_no_sense_is_a_usage_error() {
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
