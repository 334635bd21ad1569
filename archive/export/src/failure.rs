//! Why a command fails, and its exit status.

use std::process::ExitCode;

use pcp_archive::Error;

/// Why a command fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The archives are fine and have nothing of what is requested.
    #[error("{0}")]
    NoData(String),
    /// An archive cannot be opened or read.
    #[error(transparent)]
    Archive(#[from] Error),
    /// Archives of some hosts cannot be read, or not fully; all else was done, and each was
    /// reported.
    #[error("archives of {hosts} of {all} hosts were not read, or not fully")]
    Hosts {
        /// How many.
        hosts: usize,
        /// Of how many.
        all: usize,
    },
    /// No connections can be accepted.
    #[cfg(feature = "serve")]
    #[error("cannot listen: {0}")]
    Serve(#[source] std::io::Error),
    /// Two directories of hosts have the same name.
    #[cfg(feature = "parquet")]
    #[error("two directories are named {0}: folders of tables have names of hosts")]
    SameName(String),
    /// A table cannot be written.
    #[cfg(feature = "parquet")]
    #[error("cannot write {0}")]
    Table(#[from] crate::tables::WriteError),
    /// Some of what there is has to wait. Each reason was reported.
    #[cfg(feature = "push")]
    #[error("archives of {hosts} of {all} hosts are not fully sent; the next run goes on")]
    Unsent {
        /// How many.
        hosts: usize,
        /// Of how many.
        all: usize,
    },
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
    #[error("gave up: {0}; the next run goes on")]
    GaveUp(String),
    /// What answers is no receiver.
    #[cfg(feature = "push")]
    #[error("the receiver does not accept such requests: {0}")]
    NoReceiver(String),
    /// A signal ended the command. What was sent is stored.
    #[cfg(feature = "push")]
    #[error("stopped by a signal; the next run goes on")]
    Stopped,
    /// What was sent cannot be read or stored.
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
    /// The reader of the output has closed it. No failure.
    #[error("the output is closed")]
    Closed,
}

impl Failure {
    /// 1 no data, 2 an impossible request, 65 damaged input, 74 input or output error, 75
    /// something has to wait, 76 no receiver, with the codes of
    /// `<sysexits.h>` where it has one; 0 if the reader closed the output.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Closed => 0,
            Self::NoData(_) => 1,
            Self::Archive(error) => archive_exit_code(error),
            Self::Hosts { .. } => 65,
            #[cfg(feature = "serve")]
            Self::Serve(_) => 74,
            #[cfg(feature = "parquet")]
            Self::SameName(_) => 2,
            #[cfg(feature = "parquet")]
            Self::Table(_) => 74,
            Self::Output(_) => 74,
            #[cfg(feature = "push")]
            Self::Url(_) | Self::OwnMetrics(_) => 2,
            #[cfg(feature = "push")]
            Self::State(_) | Self::Secret(_) => 74,
            #[cfg(feature = "push")]
            Self::Unsent { .. } | Self::GaveUp(_) | Self::Stopped => 75,
            #[cfg(feature = "push")]
            Self::NoReceiver(_) => 76,
        })
    }
}

const fn archive_exit_code(error: &Error) -> u8 {
    match error {
        Error::NoData { .. } => 1,
        Error::Ambiguous { .. } | Error::SeveralHosts { .. } => 2,
        Error::Io { .. } | Error::NotFound { .. } | Error::Missing { .. } => 74,
        _ => 65,
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
