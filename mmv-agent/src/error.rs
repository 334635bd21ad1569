//! Errors of the agent, and exit statuses.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use pcp_types::printable::{line, path as shown_path};

use crate::config::ConfigError;

pub(crate) const EXIT_OK: u8 = 0;
/// Some entries of an inspected file are skipped.
pub(crate) const EXIT_FINDINGS: u8 = 1;
/// The command line is invalid.
pub(crate) const EXIT_USAGE: u8 = 2;
/// An inspected file is rejected (`EX_DATAERR`).
pub(crate) const EXIT_DATA: u8 = 65;
/// An internal failure (`EX_SOFTWARE`).
pub(crate) const EXIT_INTERNAL: u8 = 70;
/// A system call failed (`EX_IOERR`).
pub(crate) const EXIT_IO: u8 = 74;
/// Another agent writes there (`EX_TEMPFAIL`).
pub(crate) const EXIT_BUSY: u8 = 75;
/// No permission (`EX_NOPERM`).
pub(crate) const EXIT_PERMISSION: u8 = 77;
/// The configuration is invalid (`EX_CONFIG`).
pub(crate) const EXIT_CONFIG: u8 = 78;

/// The reason why the agent does not run. A bad MMV file or a full disk never is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// The archive directory cannot be created or written to.
    #[error("{}: cannot write archives here: {source}", shown_path(directory))]
    ArchiveDirectory { directory: PathBuf, source: io::Error },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the interval is 0; it must be longer")]
    NoInterval,
    /// Another agent writes to the directory.
    #[error(
        "{}: another agent already writes here: process {holder}",
        shown_path(directory), holder = line(holder)
    )]
    Locked {
        directory: PathBuf,
        /// Pid of the other agent; may be empty if it has just started.
        holder: String,
    },
    /// Fewer files may be open than the agent needs for itself.
    #[error(
        "the limit of {limit} open files is too low: the agent needs {needed}, and one or two for \
         each MMV file; raise it with ulimit -n, or LimitNOFILE in its unit"
    )]
    TooFewDescriptors {
        /// Limit of this process.
        limit: u64,
        /// Number that the agent needs.
        needed: u64,
    },
    /// A signal handler or a thread cannot be set up.
    #[error("{what}: {source}")]
    Setup {
        /// The part that cannot be set up.
        what: &'static str,
        source: io::Error,
    },
    /// A thread of the agent has panicked.
    #[error("internal error: the thread \"{thread}\" panicked; please report it with the log")]
    Thread {
        /// Name of the thread.
        thread: &'static str,
    },
}

impl Error {
    /// Returns a conversion of I/O errors while `what` is set up, for `map_err`.
    pub(crate) fn setup(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Setup { what, source }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::ArchiveDirectory { source, .. } | Self::Setup { source, .. } => {
                match source.kind() {
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                        EXIT_PERMISSION
                    }
                    _ => EXIT_IO,
                }
            }
            Self::Config(_) | Self::NoInterval => EXIT_CONFIG,
            Self::Locked { .. } => EXIT_BUSY,
            Self::TooFewDescriptors { .. } => EXIT_IO,
            Self::Thread { .. } => EXIT_INTERNAL,
        })
    }
}
