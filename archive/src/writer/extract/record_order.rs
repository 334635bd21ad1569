//! Finds records that are earlier than one before them.
//!
//! A clock that is set back makes such records. Their values were taken after those of the
//! records before them, so a copy keeps the order of the records rather than their times.

use std::path::PathBuf;
use std::time::Duration;

use crate::{Record, Source, Timestamp};

/// Records of a source that are earlier than one before them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepsBack {
    /// The file of the first of them.
    pub file: PathBuf,
    /// Its offset, in bytes from the start of the file.
    pub offset: u64,
    /// The time of the record.
    pub timestamp: Timestamp,
    /// The time of the latest record before it.
    pub latest: Timestamp,
    /// The number of such records.
    pub records: u64,
    /// The longest time between one of them and the latest record before it.
    pub longest: Duration,
}

/// The times of the records that were copied.
#[derive(Debug, Default)]
pub(super) struct RecordOrder {
    latest: Option<Timestamp>,
    steps_back: Option<StepsBack>,
}

impl RecordOrder {
    pub(super) fn pass(&mut self, record: &Record<'_>, source: Source<'_>) {
        let timestamp = record.timestamp();
        let latest = *self.latest.get_or_insert(timestamp);
        if timestamp >= latest {
            self.latest = Some(timestamp);
            return;
        }
        let steps_back = self.steps_back.get_or_insert_with(|| StepsBack {
            file: source.file_of(record),
            offset: record.offset(),
            timestamp,
            latest,
            records: 0,
            longest: Duration::ZERO,
        });
        steps_back.records += 1;
        let nanos = latest.nanos_since(timestamp).try_into().unwrap_or(u64::MAX);
        steps_back.longest = steps_back.longest.max(Duration::from_nanos(nanos));
    }

    pub(super) fn into_steps_back(self) -> Option<StepsBack> {
        self.steps_back
    }
}
