//! Why a command did not succeed, and the exit status that says so.

use std::process::ExitCode;

use crate::Error;

/// Why a command did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line asks for something that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The archive is fine, but holds nothing of what was asked for.
    #[error("{0}")]
    NoData(String),
    /// A check found something, and it was printed.
    #[error("the archive is not whole")]
    Findings,
    /// Parts of the archive are damaged; all else was printed.
    #[error("parts of the archive are damaged; the rest was read")]
    Lost,
    /// The archive cannot be opened or read.
    #[error(transparent)]
    Archive(#[from] Error),
    /// A file other than the archive cannot be read.
    #[error("{0}")]
    Input(String),
    /// A picture cannot be written.
    #[error("{0}")]
    Picture(String),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] std::io::Error),
    /// Nobody reads the output any more, which is no failure: `dump | head`.
    #[error("the output is closed")]
    Closed,
}

impl Failure {
    /// 1 no data or findings, 2 usage, 65 corrupt input, 74 input or output error, as in
    /// `<sysexits.h>` where there is a code for it; 0 if the reader has left.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Closed => 0,
            Self::NoData(_) | Self::Findings => 1,
            Self::Usage(_) => 2,
            Self::Lost => 65,
            Self::Archive(error) => return archive_exit_code(error),
            Self::Input(_) | Self::Picture(_) | Self::Output(_) => 74,
        })
    }
}

fn archive_exit_code(error: &Error) -> ExitCode {
    ExitCode::from(match error {
        Error::NoData { .. } => 1,
        // What was asked for cannot be: archives that do not belong together,
        // names that cannot be given.
        Error::Ambiguous { .. }
        | Error::NoMetric { .. }
        | Error::PmidTaken { .. }
        | Error::NameTaken { .. }
        | Error::LeafAndFolder { .. }
        | Error::EventParameters { .. }
        | Error::HostDiffers { .. }
        | Error::Overlap { .. }
        | Error::DescDiffers { .. }
        | Error::PmidDiffers { .. } => 2,
        Error::Io { .. }
        | Error::NotFound { .. }
        | Error::Missing { .. }
        | Error::Exists { .. } => 74,
        _ => 65,
    })
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Output(error),
        }
    }
}

impl From<crate::replay::ExpressionError> for Failure {
    fn from(error: crate::replay::ExpressionError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<super::time::TimeError> for Failure {
    fn from(error: super::time::TimeError) -> Self {
        Self::Usage(error.to_string())
    }
}
