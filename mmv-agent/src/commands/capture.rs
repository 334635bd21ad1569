//! `mmv-agent capture`: the samples that a running agent keeps in memory, as an
//! archive.
//!
//! The agent sends the samples of its flight recorder; the command writes the archive,
//! with the permissions of its user: the agent writes no file that others name.

mod replay;

use std::fmt;
use std::io::{self, BufRead, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pcp_archive::Timestamp;
use pcp_archive::staging::Staging;
use pcp_types::printable;

use crate::config::name_of_group;
use crate::control::Unanswered;
use crate::control::capture_socket::socket;
use crate::error::{EXIT_BUSY, EXIT_CONFIG, EXIT_DATA, EXIT_FINDINGS, EXIT_IO, EXIT_PERMISSION};
pub(crate) use crate::flight_recorder::wire::Refusal;
use crate::flight_recorder::{Chunk, Hello, Message, Request, wire};
use replay::Replay;

/// How long the agent may be silent: another capture may be under way.
const PATIENCE: Duration = Duration::from_secs(60);

/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why there is no archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// No agent answers, or no longer.
    #[error("{}: {source}", socket.display())]
    NoAgent {
        /// Where it was asked.
        socket: PathBuf,
        /// Why.
        source: Unanswered,
    },
    /// The agent that writes to the directory has its socket elsewhere.
    #[error(
        "{}: process {process} writes there; its socket is elsewhere, in the runtime directory \
         that it was started with",
        directory.display()
    )]
    Elsewhere {
        /// The directory of its archives.
        directory: PathBuf,
        /// The agent.
        process: u32,
    },
    /// The user is not in the group that may capture.
    #[error(
        "{}: permission denied: only members of the group \"{group}\" may capture, or of another \
         that capture-group names in the agent's configuration",
        socket.display()
    )]
    Denied {
        /// Where it was asked.
        socket: PathBuf,
        /// The group of the socket.
        group: String,
    },
    /// The agent has no samples to give.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The agent is of another version.
    #[error("the agent is of version {found}, this program of {}", VERSION)]
    Version {
        /// Its version.
        found: String,
    },
    /// The agent's answer is invalid.
    #[error("{}: the agent's answer cannot be understood: {what}", socket.display())]
    Damaged {
        /// Where it was asked.
        socket: PathBuf,
        /// What it is.
        what: String,
    },
    /// The archive cannot be written.
    #[error(transparent)]
    Archive(#[from] pcp_archive::Error),
}

impl Error {
    /// The exit status.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(Refusal::NotConfigured) => EXIT_CONFIG,
            Self::Refused(Refusal::Nothing) => EXIT_FINDINGS,
            Self::Refused(Refusal::Busy) => EXIT_BUSY,
            Self::Denied { .. } => EXIT_PERMISSION,
            Self::NoAgent { .. } | Self::Elsewhere { .. } | Self::Archive(_) => EXIT_IO,
            Self::Refused(Refusal::Request) | Self::Version { .. } | Self::Damaged { .. } => {
                EXIT_DATA
            }
        }
    }
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct Captured {
    /// The archive's base name.
    pub base: PathBuf,
    /// Samples in it.
    pub samples: u64,
    /// Values in them.
    pub values: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// The times of the first sample and of the last one.
    pub span: (Timestamp, Timestamp),
    /// Samples that are not in it: metrics meant something else then.
    pub left_out: u64,
}

impl Captured {
    /// Whether it is clearly less than was asked for.
    pub(crate) fn is_short_of(&self, time: Duration) -> bool {
        self.seconds() < 0.9 * time.as_secs_f64()
    }

    fn seconds(&self) -> f64 {
        self.span.1.seconds_since(self.span.0)
    }
}

impl fmt::Display for Captured {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { base, samples, values, bytes, span, left_out } = self;
        let (base, megabytes) = (printable::path(base), *bytes as f64 / 1e6);
        let [first, last] = [span.0, span.1].map(time_of);
        write!(
            out,
            "{base}.0, .meta, .index: {samples} samples of {:.1} s, {values} values, {megabytes:.1} \
             MB, from {first} to {last}",
            self.seconds()
        )?;
        if *left_out > 0 {
            write!(out, "; {left_out} samples before are left out: a metric meant something else")?;
        }
        Ok(())
    }
}

/// A time in UTC, to the millisecond.
fn time_of(timestamp: Timestamp) -> String {
    let time = jiff::Timestamp::new(timestamp.seconds(), timestamp.nanoseconds().cast_signed());
    time.map_or_else(|_| timestamp.to_string(), |time| format!("{time:.3}"))
}

/// Asks the agent with the status socket `status` for the samples of the
/// last `time`, or all that it has, and makes an archive of them, which must not
/// exist.
///
/// # Errors
///
/// Any [`Error`]; then there is no archive.
pub(crate) fn capture(
    status: &Path,
    time: Option<Duration>,
    output: &Path,
) -> Result<Captured, Error> {
    let staging = Staging::new(output)?;
    let socket = socket(status);
    let (hello, chunks) = ask(&socket, time)?;
    let mut replay = Replay::new(&hello, output, staging);
    for chunk in &chunks {
        replay.add(chunk).map_err(|error| match error {
            replay::Error::Archive(error) => Error::Archive(error),
            error => Error::Damaged { socket: socket.clone(), what: error.to_string() },
        })?;
    }
    replay.finish()?.ok_or(Error::Refused(Refusal::Nothing))
}

/// The agent's whole answer.
fn ask(socket: &Path, time: Option<Duration>) -> Result<(Hello, Vec<Chunk>), Error> {
    let failed = |source| unanswered(socket, source);
    let mut stream = UnixStream::connect(socket).map_err(|error| denied(socket, error))?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let request = Request { last: time.map(|time| time.as_secs_f64()) };
    let mut line = serde_json::to_vec(&request).map_err(|error| failed(error.into()))?;
    line.push(b'\n');
    // An agent that refuses the connection has closed it, perhaps.
    let _ = stream.write_all(&line);

    listen(&mut BufReader::with_capacity(1 << 16, stream), socket)
}

/// Why nobody answers at a socket.
fn denied(socket: &Path, source: io::Error) -> Error {
    let socket = socket.to_owned();
    match socket.metadata() {
        Ok(found) if source.kind() == io::ErrorKind::PermissionDenied => {
            Error::Denied { socket, group: name_of_group(found.gid()) }
        }
        _ => unanswered(&socket, source),
    }
}

fn unanswered(socket: &Path, source: io::Error) -> Error {
    Error::NoAgent { socket: socket.to_owned(), source: Unanswered::of(source, PATIENCE) }
}

/// The answer of the agent at a socket.
fn listen(input: &mut impl BufRead, socket: &Path) -> Result<(Hello, Vec<Chunk>), Error> {
    let failed = |source| unanswered(socket, source);
    let damaged = |what: &str| Error::Damaged { socket: socket.to_owned(), what: what.to_owned() };
    let (mut hello, mut shape, mut chunks) = (None, None, Vec::new());
    let mut shapes = 0;
    loop {
        let line = wire::read_line(input).map_err(failed)?;
        let line = line.ok_or_else(|| failed(io::ErrorKind::UnexpectedEof.into()))?;
        match serde_json::from_slice(&line).map_err(|error| damaged(&error.to_string()))? {
            Message::Refused(refusal) => return Err(refusal.into()),
            Message::Hello(found) if found.version != VERSION => {
                return Err(Error::Version { found: found.version });
            }
            Message::Hello(found) => hello = Some(found),
            Message::Shape(flat) => {
                shapes += 1;
                let found = flat.unflatten(shapes).ok_or_else(|| damaged("metadata"))?;
                shape = Some(Arc::new(found));
            }
            Message::Chunk(flat) => {
                let shape = shape.clone().ok_or_else(|| damaged("samples without metadata"))?;
                chunks.push(flat.read(shape, input).map_err(failed)?);
            }
            Message::End => break,
        }
    }
    Ok((hello.ok_or_else(|| damaged("no greeting"))?, chunks))
}

#[cfg(test)]
mod tests;
