//! Records of one shape that follow each other.
//!
//! In: the bytes of a window from one record on. Out: how many records from
//! there have the shape of the first, and their timestamps, so that a scan reads
//! a value's place in all of them before the next place: the values of a column
//! then go to memory together.

use super::RecordShapes;
use crate::format::ShapeId;
use crate::{Record, Timestamp, Version};

/// Finds runs, and keeps the memory that the last one used.
#[derive(Debug, Default)]
pub(crate) struct RunFinder {
    /// The length of each record.
    len: usize,
    timestamps: Vec<Timestamp>,
}

/// Records that follow each other, all of one shape, none of them a mark.
#[derive(Debug)]
pub(crate) struct RecordRun<'r> {
    pub(crate) shape: ShapeId,
    /// The records, and the bytes after them.
    pub(crate) bytes: &'r [u8],
    /// The length of each record.
    pub(crate) stride: usize,
    /// The timestamps of the records, one at least.
    pub(crate) timestamps: &'r [Timestamp],
}

impl RunFinder {
    /// More would not fit a processor's first cache.
    const MAX_RECORDS: usize = 16;

    /// The run at the start of `bytes`, whose first record has `len` bytes: its
    /// shape is known and wanted, and the run ends before a timestamp that
    /// `is_over`.
    pub(crate) fn find<'r>(
        &'r mut self,
        version: Version,
        bytes: &'r [u8],
        len: usize,
        shapes: &mut RecordShapes,
        is_wanted: impl Fn(ShapeId) -> bool,
        is_over: impl Fn(Timestamp) -> bool,
    ) -> Option<RecordRun<'r>> {
        let first = bytes.get(..len).unwrap_or_default();
        let shape = shapes.find(first).filter(|shape| is_wanted(*shape))?;
        // A malformed timestamp is reported when the record is read by itself.
        let timestamp = |record: &[u8]| {
            Record::parse_timestamp(version, record).ok().filter(|found| !is_over(*found))
        };
        let more = bytes.chunks_exact(len.max(1)).skip(1).take(Self::MAX_RECORDS - 1);
        let same =
            more.map_while(|record| timestamp(record).filter(|_| shapes.is_found_last(record)));
        self.len = len;
        self.timestamps.clear();
        self.timestamps.push(timestamp(first)?);
        self.timestamps.extend(same);
        Some(RecordRun { shape, bytes, stride: len, timestamps: &self.timestamps })
    }

    /// Bytes of the first records of the run found last.
    pub(crate) const fn size(&self, count: usize) -> u64 {
        (count * self.len) as u64
    }
}
