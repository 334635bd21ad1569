//! Errors of the commands and their exit statuses.

use mmv_arguments::ArgumentError;
use pcp_archive::Error;
use pcp_archive::internal::ExitStatus;

/// The exit statuses of the command, in the order of the help.
pub(crate) const STATUSES: [(ExitStatus, &str); 7] = [
    (ExitStatus::Success, "success"),
    (ExitStatus::NoData, "no data for the request"),
    (ExitStatus::Usage, "invalid command line, or an impossible request"),
    (ExitStatus::Damaged, "some archives are damaged; everything else was exported"),
    (ExitStatus::Io, "archives cannot be read, or the output cannot be written"),
    (ExitStatus::Later, "some data was not sent; the next run continues"),
    (ExitStatus::Protocol, "the URL is not that of a receiver"),
];

/// The error of a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The archives are valid and have no data for the request.
    #[error("{0}")]
    NoData(String),
    /// The command line is invalid.
    #[error("{0}")]
    Usage(String),
    /// An archive cannot be opened or read.
    #[error(transparent)]
    Archive(#[from] Error),
    /// Archives of some hosts cannot be read, or not fully. Each was reported, and everything else
    /// was done.
    #[error("the archives of {hosts} of {all} hosts could not be read completely")]
    Hosts { hosts: usize, all: usize },
    /// No connections can be accepted.
    #[cfg(feature = "serve")]
    #[error("cannot listen: {0}")]
    Serve(#[source] std::io::Error),
    /// Two directories of hosts have the same name.
    #[cfg(feature = "parquet")]
    #[error("two hosts are named {0}, and their tables would share a directory")]
    SameName(String),
    /// A table cannot be written.
    #[cfg(feature = "parquet")]
    #[error("cannot write {0}")]
    Table(#[from] crate::tables::WriteError),
    /// Some data could not be sent yet. Each reason was reported.
    #[cfg(feature = "push")]
    #[error(
        "the archives of {hosts} of {all} hosts were not sent completely; the next run continues"
    )]
    Unsent { hosts: usize, all: usize },
    /// Requests cannot go to this URL.
    #[cfg(feature = "push")]
    #[error("--url: {0}")]
    Url(String),
    /// The sender cannot publish its own metrics under this name.
    #[cfg(feature = "push")]
    #[error("--metrics: {0}")]
    OwnMetrics(#[source] mmv_writer::Error),
    /// The receiver does not answer, or not now.
    #[cfg(feature = "push")]
    #[error("gave up: {0}; the next run continues")]
    GaveUp(String),
    /// The URL is not that of a receiver.
    #[cfg(feature = "push")]
    #[error("the receiver does not accept these requests: {0}")]
    NoReceiver(String),
    /// A signal ended the command. What was sent is stored.
    #[cfg(feature = "push")]
    #[error("stopped by a signal; the next run continues")]
    Stopped,
    /// The state directory cannot be read or written.
    #[cfg(feature = "push")]
    #[error("{0}")]
    State(String),
    /// A secret or certificate cannot be used.
    #[cfg(feature = "push")]
    #[error("{0}")]
    Secret(String),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] std::io::Error),
    /// The reader of the output has closed it, which is not a failure.
    #[error("the output is closed")]
    Closed,
}

impl Failure {
    /// Returns the exit status; success if the reader closed the output.
    pub(crate) const fn status(&self) -> ExitStatus {
        match self {
            Self::Closed => ExitStatus::Success,
            Self::NoData(_) => ExitStatus::NoData,
            Self::Usage(_) => ExitStatus::Usage,
            Self::Archive(error) => ExitStatus::from_error(error),
            Self::Hosts { .. } => ExitStatus::Damaged,
            #[cfg(feature = "serve")]
            Self::Serve(_) => ExitStatus::Io,
            #[cfg(feature = "parquet")]
            Self::SameName(_) => ExitStatus::Usage,
            #[cfg(feature = "parquet")]
            Self::Table(_) => ExitStatus::Io,
            Self::Output(_) => ExitStatus::Io,
            #[cfg(feature = "push")]
            Self::Url(_) | Self::OwnMetrics(_) => ExitStatus::Usage,
            #[cfg(feature = "push")]
            Self::State(_) | Self::Secret(_) => ExitStatus::Io,
            #[cfg(feature = "push")]
            Self::Unsent { .. } | Self::GaveUp(_) | Self::Stopped => ExitStatus::Later,
            #[cfg(feature = "push")]
            Self::NoReceiver(_) => ExitStatus::Protocol,
        }
    }
}

impl From<ArgumentError> for Failure {
    fn from(error: ArgumentError) -> Self {
        match error {
            ArgumentError::Usage(reason) => Self::Usage(reason),
            ArgumentError::NoData(reason) => Self::NoData(reason),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Output(error),
        }
    }
}
