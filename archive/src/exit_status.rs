//! Exit statuses of the commands.

use std::process::ExitCode;

use crate::Error;

/// An exit status, with the number of `<sysexits.h>` where it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// The request was answered.
    Success = 0,
    /// There is no data for the request.
    NoData = 1,
    /// The command line is invalid, or the request impossible.
    Usage = 2,
    /// An archive is damaged.
    Damaged = 65,
    /// A file cannot be read or written.
    Io = 74,
    /// The same command may succeed later.
    Later = 75,
    /// The other side does not understand.
    Protocol = 76,
}

impl ExitStatus {
    /// Returns the end of a help: a line for each status, with its explanation.
    pub fn list(meanings: &[(Self, &str)]) -> String {
        let lines = meanings.iter();
        let lines = lines.map(|(status, meaning)| format!("\n  {:>2}  {meaning}", *status as u8));
        format!("Exit status:{}", lines.collect::<String>())
    }

    /// Returns the status of a command that fails with an error.
    pub const fn from_error(error: &Error) -> Self {
        match error {
            Error::NoData { .. } => Self::NoData,
            // The request is impossible: archives that do not belong together, names that
            // are taken.
            Error::Ambiguous { .. }
            | Error::SeveralHosts { .. }
            | Error::NoMetric { .. }
            | Error::PmidTaken { .. }
            | Error::NameTaken { .. }
            | Error::LeafAndBranch { .. }
            | Error::EventParameters { .. }
            | Error::Rules(_)
            | Error::Series(_)
            | Error::Unconvertible { .. }
            | Error::HostDiffers { .. }
            | Error::Overlap { .. }
            | Error::DescDiffers { .. }
            | Error::PmidDiffers { .. } => Self::Usage,
            Error::Io { .. }
            | Error::NotFound { .. }
            | Error::Missing { .. }
            | Error::Exists { .. } => Self::Io,
            Error::Written { .. } => Self::Later,
            _ => Self::Damaged,
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status as u8)
    }
}
