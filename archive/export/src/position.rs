//! A place between two records of a host, to be stored and to go on from.

use serde::{Deserialize, Serialize};

/// The place of a record: all before it was read.
///
/// Volumes are counted as if none were compressed, so a place stays valid when the volume is
/// compressed later.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The base name of the archive, without its directory.
    pub archive: String,
    /// The data volume.
    pub volume: u32,
    /// Bytes from the start of the volume.
    pub offset: u64,
    /// The time of the last record before it, nanoseconds since 1970 UTC; of the archive's
    /// start before the first.
    pub time: i64,
}

impl Position {
    /// Whether a record of the same archive is before this place.
    pub fn is_after(&self, volume: u32, offset: u64) -> bool {
        (volume, offset) < (self.volume, self.offset)
    }
}
