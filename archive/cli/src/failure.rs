//! Why a command fails, and its exit status.

use std::process::ExitCode;

use pcp_archive::Error;

/// Why a command fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line is invalid.
    #[error("{0}")]
    Usage(String),
    /// The archive is fine and has nothing of what is requested.
    #[error("{0}")]
    NoData(String),
    /// A check found something and printed it.
    #[error("the check found errors or warnings")]
    Findings,
    /// Parts of the archive are damaged; everything else was printed.
    #[error("parts of the archive are damaged and were skipped")]
    Lost,
    /// The archive cannot be opened or read.
    #[error(transparent)]
    Archive(#[from] Error),
    /// A file other than the archive cannot be read.
    #[error("{0}")]
    Input(String),
    /// An image cannot be written.
    #[error("{0}")]
    Image(String),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] std::io::Error),
    /// The reader of the output has closed it, as in `dump | head`. No failure.
    #[error("the output is closed")]
    Closed,
}

impl Failure {
    /// 1 no data or findings, 2 usage, 65 damaged input, 74 input or output error, with
    /// the codes of `<sysexits.h>` where it has one; 0 if the reader closed the output.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Closed => 0,
            Self::NoData(_) | Self::Findings => 1,
            Self::Usage(_) => 2,
            Self::Lost => 65,
            Self::Archive(error) => return archive_exit_code(error),
            Self::Input(_) | Self::Image(_) | Self::Output(_) => 74,
        })
    }
}

fn archive_exit_code(error: &Error) -> ExitCode {
    ExitCode::from(match error {
        Error::NoData { .. } => 1,
        // The request is impossible: archives that do not belong together, names that
        // are taken.
        Error::Ambiguous { .. }
        | Error::SeveralHosts { .. }
        | Error::NoMetric { .. }
        | Error::PmidTaken { .. }
        | Error::NameTaken { .. }
        | Error::LeafAndBranch { .. }
        | Error::EventParameters { .. }
        | Error::HostDiffers { .. }
        | Error::Overlap { .. }
        | Error::DescDiffers { .. }
        | Error::PmidDiffers { .. } => 2,
        Error::Io { .. }
        | Error::NotFound { .. }
        | Error::Missing { .. }
        | Error::Exists { .. } => 74,
        // Later it may be possible.
        Error::Written { .. } => 75,
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

impl From<pcp_archive::replay::ExpressionError> for Failure {
    fn from(error: pcp_archive::replay::ExpressionError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<pcp_types::Error> for Failure {
    fn from(error: pcp_types::Error) -> Self {
        Self::Usage(error.to_string())
    }
}
