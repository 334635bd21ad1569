//! A position between two records of a host, which is stored to resume from it.

use serde::{Deserialize, Serialize};

/// The position of a record: all records before it were read.
///
/// Offsets are those of uncompressed volumes, so a position stays valid when the volume is
/// compressed later.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The base name of the archive, without its directory.
    pub archive: String,
    /// The number of the data volume.
    pub volume: u32,
    /// Bytes from the start of the volume.
    pub offset: u64,
    /// The time of the last record before it, in nanoseconds since 1970 UTC; the start of the
    /// archive before the first record.
    pub time: i64,
}

impl Position {
    /// Returns whether a record of the same archive is before this position.
    pub fn is_after(&self, volume: u32, offset: u64) -> bool {
        (volume, offset) < (self.volume, self.offset)
    }
}
