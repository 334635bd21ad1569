use std::io;
use std::path::PathBuf;

use pcp_types::printable;

/// Error of a file that could not be created, filled or renamed.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {action}: {source}", path = printable::path(path))]
pub struct FileError {
    /// The step that failed, as an infinitive: "create".
    pub action: &'static str,
    /// The directory or file.
    pub path: PathBuf,
    /// The error of the system call.
    pub source: io::Error,
}

impl FileError {
    /// Returns a function that makes an error of a system error, for `map_err`.
    pub fn with(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self { action, path, source }
    }
}

/// Error of publishing a file.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The system refused an operation.
    #[error(transparent)]
    File(#[from] FileError),
    /// A running process has a file of this name.
    #[error("{path}: a running process publishes this file", path = printable::path(path))]
    Running {
        /// The path of that file.
        path: PathBuf,
        /// The number of the process; `None` if it has none in this PID namespace.
        process: Option<u32>,
    },
}
