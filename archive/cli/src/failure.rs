//! Errors of the commands and their exit statuses.

use mmv_arguments::ArgumentError;
use mmv_arguments::time::TimeError;
use pcp_archive::Error;
use pcp_archive::internal::ExitStatus;

/// The exit statuses of the command, in the order of the help.
pub(crate) const STATUSES: [(ExitStatus, &str); 6] = [
    (ExitStatus::Success, "success"),
    (ExitStatus::NoData, "no data for the request, findings of \"check\", or --fail-if holds"),
    (ExitStatus::Usage, "invalid command line, or an impossible request"),
    (ExitStatus::Damaged, "the archive is damaged; all that can be read is in the output"),
    (ExitStatus::Io, "a file cannot be read, or the output cannot be written"),
    (ExitStatus::Later, "another process writes the archive"),
];

/// The error of a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line is invalid.
    #[error("{0}")]
    Usage(String),
    /// The archive is valid and has no data for the request.
    #[error("{0}")]
    NoData(String),
    /// A check found something and printed it.
    #[error("the check found errors or warnings")]
    Findings,
    /// A comparison or a report was printed, and a condition of `--fail-if` holds.
    #[error("{0}")]
    Condition(String),
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
    /// The reader of the output has closed it, as in `dump | head`, which is not a failure.
    #[error("the output is closed")]
    Closed,
}

impl Failure {
    /// Returns the exit status; success if the reader closed the output.
    pub(crate) const fn status(&self) -> ExitStatus {
        match self {
            Self::Closed => ExitStatus::Success,
            Self::NoData(_) | Self::Findings | Self::Condition(_) => ExitStatus::NoData,
            Self::Usage(_) => ExitStatus::Usage,
            Self::Lost => ExitStatus::Damaged,
            Self::Archive(error) => ExitStatus::from_error(error),
            Self::Input(_) | Self::Image(_) | Self::Output(_) => ExitStatus::Io,
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

impl From<TimeError> for Failure {
    fn from(error: TimeError) -> Self {
        Self::Usage(error.to_string())
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

impl From<pcp_archive::scan::SelectorError> for Failure {
    fn from(error: pcp_archive::scan::SelectorError) -> Self {
        Self::Usage(error.to_string())
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
