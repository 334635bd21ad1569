use serde::{Deserialize, Serialize};

/// The process on which a file's values depend (its PROCESS flag is set).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Producer {
    /// The pid in the header.
    pub pid: i32,
    /// Generation of the file's metadata, since another process may take over a file.
    pub generation: u64,
    /// Start time of the process in clock ticks since boot.
    pub started: u64,
    /// Set once the process has ended and the last values were read.
    #[serde(default)]
    pub ended: bool,
}

impl Producer {
    /// A start time that no process has.
    pub(crate) const NEVER: u64 = u64::MAX;

    /// Returns true if `now` is another process with the same pid, although the file is unchanged.
    pub(crate) fn is_other(self, now: Self) -> bool {
        let same = (self.pid, self.generation) == (now.pid, now.generation);
        same && self.started != now.started
    }
}
