//! `mmv-agent record -- COMMAND`: logs the metrics of a command and its children while
//! they run, into an archive of its own.
//!
//! The command gets its own `$PCP_TMP_DIR`, where MMV files go into `mmv`; standard input
//! and output, the current directory and all other variables of the environment are inherited. The
//! agent samples that directory in this process until the command has ended. Files stay there when
//! their programs end, so that nothing is lost of a program that runs for a millisecond.

mod directory;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pcp_types::printable;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use super::archive_summary::summarize;
use crate::config::{Destination, Settings};
use crate::error::{EXIT_INTERNAL, EXIT_IO, EXIT_OK};
use crate::run::{self, Summary};
use directory::RecordingDirectory;

/// A shell's exit status for a command that does not exist.
pub(super) const NOT_FOUND: u8 = 127;
/// A shell's exit status for a command that cannot be run.
pub(super) const NOT_RUN: u8 = 126;

/// The parameters of `mmv-agent record`.
#[derive(Debug, Clone)]
pub(crate) struct RecordedCommand {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    pub interval: Duration,
    /// Base name of the archive; `None` for the program's name and the time, in the current
    /// directory.
    pub output: Option<PathBuf>,
}

/// The reason why a recording failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum RecordingError {
    /// The command does not run.
    #[error("{}: {source}", command.display())]
    Command { command: PathBuf, source: io::Error },
    /// A directory for MMV files or a signal handler cannot be set up.
    #[error("{what}: {source}")]
    Setup {
        /// The part that cannot be set up.
        what: &'static str,
        source: io::Error,
    },
    #[error(transparent)]
    Agent(#[from] crate::error::Error),
    /// The archive cannot be read back.
    #[error(transparent)]
    Archive(#[from] pcp_archive::Error),
}

impl RecordingError {
    /// Returns the exit status: a shell's for a command that does not run.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Command { source, .. } if source.kind() == io::ErrorKind::NotFound => NOT_FOUND,
            Self::Command { .. } => NOT_RUN,
            Self::Setup { .. } => EXIT_IO,
            Self::Agent(_) | Self::Archive(_) => EXIT_INTERNAL,
        }
    }
}

impl RecordedCommand {
    /// Runs the command to its end, and prints a summary on standard error. Returns the
    /// command's exit status, or 128 and the number of the signal that killed it;
    /// [`EXIT_IO`] if records are missing and the command succeeded.
    ///
    /// TERM, HUP and QUIT are passed on to the command. INT, which a terminal
    /// sends to both, is left to it.
    ///
    /// # Errors
    ///
    /// Any [`RecordingError`].
    pub(crate) fn record(&self) -> Result<u8, RecordingError> {
        let directory = RecordingDirectory::new().map_err(|source| RecordingError::Setup {
            what: "a directory for MMV files",
            source,
        })?;
        let destination = Destination::Base(self.base());
        let mut settings = Settings::new(directory.mmv_dir(), destination, self.interval);
        settings.reads_ended = true;
        let agent = run::start(&settings)?;
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT])
            .map_err(|source| RecordingError::Setup { what: "signals", source })?;
        let mut child = self.start(directory.path())?;
        let handle = pass_on(signals, &child);
        let ended = child.wait();
        handle.close();
        let summary = agent.stop()?;
        let status = ended.map_err(|source| self.failed(source))?;
        let missing = missing(&summary);
        match &missing {
            Some(text) => say(text),
            None if summary.archiver.archives.is_empty() => {
                say("the command published no metrics, or ended before they were sampled");
            }
            None => {}
        }
        let first = summary.archiver.archives.first();
        if let Some((base, wanted)) = first.zip(self.output.as_ref()).filter(|(a, b)| a != b) {
            let base = base.display();
            let wanted = wanted.display();
            say(&format!("there is an archive {wanted} already, so this one is {base}"));
        }
        for base in &summary.archiver.archives {
            say(&format!(
                "{}.0, .meta, .index\n\n{}",
                base.display(),
                summarize(base, "mmv", &[])?
            ));
        }
        match code(status) {
            EXIT_OK if missing.is_some() => Ok(EXIT_IO),
            code => Ok(code),
        }
    }

    fn start(&self, directory: &Path) -> Result<Child, RecordingError> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env("PCP_TMP_DIR", directory);
        command.spawn().map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> RecordingError {
        RecordingError::Command { command: self.program.clone(), source }
    }

    fn base(&self) -> PathBuf {
        if let Some(output) = &self.output {
            return output.clone();
        }
        let mut name = self.program.file_name().unwrap_or_default().to_owned();
        name.push(Timestamp::now().strftime("-%Y%m%d.%H.%M.%S").to_string());
        PathBuf::from(name)
    }
}

/// Passes signals on to the command as long as it has not been waited for.
fn pass_on(mut signals: Signals, child: &Child) -> Handle {
    let handle = signals.handle();
    let pid = Pid::from_raw(child.id().cast_signed());
    thread::spawn(move || {
        for signal in signals.forever().filter(|signal| *signal != SIGINT) {
            let passed = Signal::try_from(signal).and_then(|signal| kill(pid, signal));
            // The command may have ended by itself.
            let _ = passed;
        }
    });
    handle
}

/// Returns a message about records that are in no archive, if there are any.
fn missing(summary: &Summary) -> Option<String> {
    let lost = summary.archiver.lost;
    let dropped = summary.sampler.dropped;
    let lost = (lost > 0).then(|| {
        let reason = summary.archiver.error.as_deref().unwrap_or("unknown error");
        format!("{lost} records could not be written: {reason}")
    });
    let dropped =
        (dropped > 0).then(|| format!("{dropped} records were dropped: the disk is too slow"));
    let texts: Vec<String> = lost.into_iter().chain(dropped).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// Returns the exit status that a shell would report.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

fn say(text: &str) {
    // A closed stderr leaves no way to report that.
    let text = printable::lines(text.as_bytes());
    let _ = writeln!(io::stderr(), "mmv-agent: {}", String::from_utf8_lossy(&text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_status_is_that_of_a_shell() {
        for (raw, expected) in [(0, 0), (7 << 8, 7), (255 << 8, 255), (9, 137), (15, 143)] {
            assert_eq!(code(ExitStatus::from_raw(raw)), expected, "{raw:#x}");
        }
    }

    #[test]
    fn records_that_are_missing_have_a_reason() {
        let mut summary = Summary::default();
        assert_eq!(missing(&summary), None);
        summary.archiver.lost = 3;
        summary.archiver.error = Some("run.0: write: No space".to_owned());
        let lost = "3 records could not be written: run.0: write: No space";
        assert_eq!(missing(&summary).as_deref(), Some(lost));
        summary.sampler.dropped = 2;
        let expected = format!("{lost}; 2 records were dropped: the disk is too slow");
        assert_eq!(missing(&summary), Some(expected));
    }

    #[test]
    fn an_archive_is_called_after_the_program_and_the_time() {
        let program = "/usr/bin/make".into();
        let arguments = Vec::new();
        let mut recording =
            RecordedCommand { program, arguments, interval: Duration::from_secs(1), output: None };
        let name = recording.base().display().to_string();
        assert!(name.starts_with("make-20") && name.len() == "make-20240501.10.00.00".len());
        recording.output = Some("there/run".into());
        assert_eq!(recording.base(), Path::new("there/run"));
    }
}
