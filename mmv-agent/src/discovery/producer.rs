//! The process that feeds a file.

use serde::{Deserialize, Serialize};

/// The process on which a file's values depend (its PROCESS flag is set).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Producer {
    /// The process number in the header.
    pub pid: i32,
    /// The generation of the file's metadata: a process may take over a file.
    pub generation: u64,
    /// When the process was started, in clock ticks since boot.
    pub started: u64,
    /// The process has ended, and the last values were read.
    #[serde(default)]
    pub ended: bool,
}

impl Producer {
    /// A start time that no process has.
    pub(crate) const NEVER: u64 = u64::MAX;

    /// Whether `now` is another process with the same number, although the file is
    /// unchanged.
    pub(crate) fn is_other(self, now: Self) -> bool {
        let same = (self.pid, self.generation) == (now.pid, now.generation);
        same && self.started != now.started
    }
}
