//! What keeps the agent from starting or going on.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::config::ConfigError;

/// Stopped as it was told to.
pub const EXIT_OK: u8 = 0;
/// Some entries of an inspected file had to be left out.
pub const EXIT_FINDINGS: u8 = 1;
/// An inspected file is refused (`EX_DATAERR`).
pub const EXIT_DATA: u8 = 65;
/// Something of the agent itself failed (`EX_SOFTWARE`).
pub const EXIT_INTERNAL: u8 = 70;
/// The system refused an operation (`EX_IOERR`).
pub const EXIT_IO: u8 = 74;
/// Another agent is in the way (`EX_TEMPFAIL`).
pub const EXIT_BUSY: u8 = 75;
/// It was a question of permission (`EX_NOPERM`).
pub const EXIT_PERMISSION: u8 = 77;
/// The settings make no sense (`EX_CONFIG`).
pub const EXIT_CONFIG: u8 = 78;

/// Why the agent does not run, or no longer.
///
/// Nothing that a single MMV file or a full disk can do is here: the agent
/// lives with those.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The archive folder cannot be made or written to.
    #[error("{}: archives cannot be written here: {source}", folder.display())]
    ArchiveFolder {
        /// The folder.
        folder: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The interval is zero.
    #[error("the interval is zero")]
    NoInterval,
    /// Another agent writes to the folder.
    #[error("{}: the agent with process {holder} writes here already", folder.display())]
    Locked {
        /// The folder.
        folder: PathBuf,
        /// The other's process number; may be empty if it has just started.
        holder: String,
    },
    /// A signal handler or a thread cannot be set up.
    #[error("{what}: {source}")]
    Setup {
        /// What was to be set up.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A thread of the agent has panicked.
    #[error("the thread \"{thread}\" has failed")]
    Thread {
        /// Its name.
        thread: &'static str,
    },
}

impl Error {
    /// The exit status that says what kind of trouble it was.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::ArchiveFolder { source, .. } | Self::Setup { source, .. } => {
                match source.kind() {
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                        EXIT_PERMISSION
                    }
                    _ => EXIT_IO,
                }
            }
            Self::Config(_) | Self::NoInterval => EXIT_CONFIG,
            Self::Locked { .. } => EXIT_BUSY,
            Self::Thread { .. } => EXIT_INTERNAL,
        })
    }
}
