//! Errors of the commands and their exit statuses.

use std::process::ExitCode;

use pcp_archive::Error;

/// An exit status of the command, with the number of `<sysexits.h>` where it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    Success = 0,
    NoData = 1,
    Usage = 2,
    Damaged = 65,
    Io = 74,
    Written = 75,
}

impl Status {
    /// All of them, in the order of the help.
    const ALL: [Self; 6] =
        [Self::Success, Self::NoData, Self::Usage, Self::Damaged, Self::Io, Self::Written];

    /// Returns the explanation in the help.
    const fn meaning(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::NoData => "no data for the request, findings of \"check\", or --fail-if holds",
            Self::Usage => "invalid command line, or an impossible request",
            Self::Damaged => "the archive is damaged; all that can be read is in the output",
            Self::Io => "a file cannot be read, or the output cannot be written",
            Self::Written => "another process writes the archive",
        }
    }

    /// Returns the end of the help: a line for each status.
    pub(crate) fn list() -> String {
        let lines =
            Self::ALL.map(|status| format!("\n  {:>2}  {}", status as u8, status.meaning()));
        format!("Exit status:{}", lines.concat())
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}

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
    pub(crate) const fn status(&self) -> Status {
        match self {
            Self::Closed => Status::Success,
            Self::NoData(_) | Self::Findings | Self::Condition(_) => Status::NoData,
            Self::Usage(_) => Status::Usage,
            Self::Lost => Status::Damaged,
            Self::Archive(error) => status_of(error),
            Self::Input(_) | Self::Image(_) | Self::Output(_) => Status::Io,
        }
    }
}

const fn status_of(error: &Error) -> Status {
    match error {
        Error::NoData { .. } => Status::NoData,
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
        | Error::PmidDiffers { .. } => Status::Usage,
        Error::Io { .. }
        | Error::NotFound { .. }
        | Error::Missing { .. }
        | Error::Exists { .. } => Status::Io,
        // Later it may be possible.
        Error::Written { .. } => Status::Written,
        _ => Status::Damaged,
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
