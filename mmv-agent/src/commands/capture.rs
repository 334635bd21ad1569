//! `mmv-agent capture`: extracts the last minutes of the flight recorder into an archive.
//!
//! The command reads the flight recorder's archives with the rights of its user; no agent needs to
//! run.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pcp_archive::extract::Extract;
use pcp_archive::internal::staging::Staging;
use pcp_archive::scan::Selection;
use pcp_archive::{ArchiveSet, ArchiveWriter, Source, Timestamp, WriterOptions};
use pcp_types::printable;

use crate::config::name_of_group;
use crate::control::QueryError;
use crate::error::{EXIT_CONFIG, EXIT_FINDINGS, EXIT_IO, EXIT_PERMISSION};

const WRITTEN_AT_ONCE: usize = 256 << 10;

/// The reason why a capture or the status failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CaptureError {
    /// No agent answers.
    #[error("{}: {source}", socket.display())]
    NoAgent { socket: PathBuf, source: QueryError },
    /// The agent that writes to the directory has its socket elsewhere.
    #[error(
        "{}: process {process} writes there; its socket is elsewhere, in the runtime directory \
         that it was started with",
        directory.display()
    )]
    Elsewhere {
        /// Directory of its archives.
        directory: PathBuf,
        process: u32,
    },
    /// The user is not in the group that may capture.
    #[error(
        "{}: permission denied: only members of the group \"{group}\" may capture; capture-group \
         in the agent's configuration names another group",
        directory.display()
    )]
    Denied {
        /// Directory of the flight recorder.
        directory: PathBuf,
        /// Group that may read it.
        group: String,
    },
    /// There is no flight recorder.
    #[error(
        "{}: no flight recorder has written here: the agent's configuration has no [hindsight], \
         or the agent is another one: see --archive-dir",
        directory.display()
    )]
    NoRecorder {
        /// Directory to which it would write.
        directory: PathBuf,
    },
    #[error("{}: the flight recorder has no samples", directory.display())]
    NoSamples {
        /// Directory of the flight recorder.
        directory: PathBuf,
    },
    /// The archive cannot be written, or those of the flight recorder cannot be read.
    #[error(transparent)]
    Archive(#[from] pcp_archive::Error),
}

impl CaptureError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::NoRecorder { .. } => EXIT_CONFIG,
            Self::NoSamples { .. } => EXIT_FINDINGS,
            Self::Denied { .. } => EXIT_PERMISSION,
            Self::NoAgent { .. } | Self::Elsewhere { .. } | Self::Archive(_) => EXIT_IO,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct CaptureSummary {
    /// Base name of the archive.
    pub base: PathBuf,
    /// Number of samples.
    pub samples: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Time of the first sample.
    pub start: Timestamp,
    /// Time of the last sample.
    pub end: Timestamp,
    /// Number of archives of the flight recorder that were left out, since metrics had another
    /// meaning in them.
    pub left_out: usize,
    /// Errors of archives of the flight recorder that cannot be read.
    pub unreadable: Vec<String>,
}

impl CaptureSummary {
    /// Returns true if it is clearly shorter than requested.
    pub(crate) fn is_short_of(&self, time: Duration) -> bool {
        self.seconds() < 0.9 * time.as_secs_f64()
    }

    fn seconds(&self) -> f64 {
        self.end.seconds_since(self.start)
    }
}

impl fmt::Display for CaptureSummary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { base, samples, bytes, start, end, left_out, unreadable } = self;
        let base = printable::path(base);
        let megabytes = *bytes as f64 / 1e6;
        let first = time_of(*start);
        let last = time_of(*end);
        write!(
            out,
            "{base}.0, .meta, .index: {samples} samples of {:.1} s, {megabytes:.1} MB, from \
             {first} to {last}",
            self.seconds()
        )?;
        if *left_out > 0 {
            write!(out, "; samples before are left out: a metric meant something else")?;
        }
        for error in unreadable {
            write!(out, "; an archive of the flight recorder is left out: {error}")?;
        }
        Ok(())
    }
}

/// Formats a time in UTC, to the millisecond.
fn time_of(timestamp: Timestamp) -> String {
    let time = jiff::Timestamp::new(timestamp.seconds(), timestamp.nanoseconds().cast_signed());
    time.map_or_else(|_| timestamp.to_string(), |time| format!("{time:.3}"))
}

/// Extracts the samples of the last `time`, or all, from the flight recorder's archives in
/// `directory`. The new archive must not exist.
///
/// # Errors
///
/// Any [`CaptureError`]; then there is no archive.
pub(crate) fn capture(
    directory: &Path,
    time: Option<Duration>,
    output: &Path,
) -> Result<CaptureSummary, CaptureError> {
    check_access(directory)?;
    let staging = Staging::new(output)?;
    let Recordings { archives, left_out, unreadable } = open(directory)?;
    let source = Source::from(&archives);
    let end = source.end();
    let mut selection = Selection::new(source);
    selection.select("");
    let mut extract = Extract::new(selection);
    if let Some(time) = time {
        extract = extract.window(end.saturating_sub(time)..=Timestamp::MAX);
    }
    let options = WriterOptions { buffer_bytes: WRITTEN_AT_ONCE, ..WriterOptions::default() };
    let mut writer = ArchiveWriter::create_with(staging.hidden(), source.label().into(), options)?;
    let mut samples = 0;
    let mut last = None;
    extract.write(&mut writer, |record| {
        // The first record of an archive has the time of the sample after it.
        if !record.is_mark() && last.replace(record.timestamp()) != Some(record.timestamp()) {
            samples += 1;
        }
    })?;
    writer.sync()?;
    let summary = writer.finish()?;
    let Some((start, end)) = summary.span else {
        return Err(CaptureError::NoSamples { directory: directory.to_owned() });
    };
    staging.commit()?;
    let base = output.to_owned();
    Ok(CaptureSummary { base, samples, bytes: summary.bytes, start, end, left_out, unreadable })
}

/// The archives of the flight recorder that agree with the newest one.
struct Recordings {
    archives: ArchiveSet,
    /// Number of archives that do not agree.
    left_out: usize,
    unreadable: Vec<String>,
}

fn open(directory: &Path) -> Result<Recordings, CaptureError> {
    let mut left_out = 0;
    let mut archives = ArchiveSet::open_held([directory]).map_err(|error| match error {
        pcp_archive::Error::NotFound { .. } | pcp_archive::Error::NoData { .. } => {
            CaptureError::NoSamples { directory: directory.to_owned() }
        }
        error => error.into(),
    })?;
    let unreadable = archives.unreadable().iter().map(ToString::to_string).collect();
    while !archives.left_out().is_empty() {
        left_out += 1;
        let kept = Source::from(&archives).archives().iter().skip(1);
        let bases: Vec<PathBuf> = kept.map(|archive| archive.base().to_owned()).collect();
        archives = ArchiveSet::open_held(&bases)?;
    }
    Ok(Recordings { archives, left_out, unreadable })
}

/// Makes sure that the directory exists and can be read.
fn check_access(directory: &Path) -> Result<(), CaptureError> {
    let directory = directory.to_owned();
    let Err(source) = fs::read_dir(&directory) else { return Ok(()) };
    match (source.kind(), fs::metadata(&directory)) {
        (io::ErrorKind::NotFound, _) => Err(CaptureError::NoRecorder { directory }),
        (io::ErrorKind::PermissionDenied, Ok(found)) => {
            Err(CaptureError::Denied { directory, group: name_of_group(found.gid()) })
        }
        _ => Err(pcp_archive::Error::Io { file: directory, operation: "read", source }.into()),
    }
}
