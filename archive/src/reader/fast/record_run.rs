//! Records of one shape that follow each other.
//!
//! In: the bytes of a window from one record on. Out: how many records from
//! there have the shape of the first, and their timestamps, so that a scan reads
//! a value's place in all of them before the next place: the values of a column
//! then go to memory together.

use std::ops::Range;
use std::time::Instant;

use super::{Excerpt, RecordShapes};
use crate::files::RecordFile;
use crate::format::frame::LENGTH_WORD;
use crate::format::{Bytes, ShapeId, timestamp};
use crate::{Record, Result, Timestamp, Version};

/// Finds runs, and keeps the memory that the last one used.
#[derive(Debug, Default)]
pub(crate) struct RunFinder {
    len: usize,
    timestamps: Vec<Timestamp>,
    excerpts: Vec<u8>,
}

/// Records that follow each other, all of one shape, none of them a mark.
#[derive(Debug)]
pub(crate) struct RecordRun<'r> {
    pub(crate) shape: ShapeId,
    /// The records, or their excerpts, and the bytes after them.
    pub(crate) bytes: &'r [u8],
    /// The length of each.
    pub(crate) stride: usize,
    pub(crate) is_excerpt: bool,
    /// The timestamps of the records, one at least.
    pub(crate) timestamps: &'r [Timestamp],
}

impl RunFinder {
    /// More would not fit a processor's first cache.
    const MAX_RECORDS: usize = 16;

    /// Returns the run at the start of `bytes`, whose first record has `len` bytes: its shape is
    /// known and wanted, and the run ends before a timestamp that `is_over`.
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
        let timestamps = &*self.timestamps;
        Some(RecordRun { shape, bytes, stride: len, is_excerpt: false, timestamps })
    }

    /// Returns the run at `offset` of a file by excerpts of at most `count` records; it ends
    /// before a timestamp that `is_over`. `None` if the record there is another one, or cannot be
    /// read: then a reader of whole records finds out what is there.
    pub(crate) fn find_by_excerpts(
        &mut self,
        file: &mut RecordFile,
        offset: u64,
        excerpt: &Excerpt,
        count: usize,
        is_over: impl Fn(Timestamp) -> bool,
    ) -> Option<RecordRun<'_>> {
        self.timestamps.clear();
        self.len = excerpt.record_len;
        let most = (count * excerpt.record_len) as u64;
        let count = file.available(offset, 0, most).ok()? as usize / excerpt.record_len;
        let began = Instant::now();
        read_pieces(file, offset, excerpt, count, &mut self.excerpts).ok()?;
        let pieces = (count * excerpt.pieces.len()) as u32;
        file.announce(offset + (count * excerpt.record_len) as u64, pieces, began.elapsed());
        let version = excerpt.version;
        for found in self.excerpts.chunks_exact(excerpt.len.max(1)) {
            let body = found.get(LENGTH_WORD..).unwrap_or_default();
            match timestamp::parse(version, &mut Bytes::new(body)) {
                Ok(timestamp) if !is_over(timestamp) && excerpt.is_of(found) => {
                    self.timestamps.push(timestamp);
                }
                _ => break,
            }
        }
        if self.timestamps.is_empty() {
            return None;
        }
        Some(RecordRun {
            shape: excerpt.shape,
            bytes: &self.excerpts,
            stride: excerpt.len,
            is_excerpt: true,
            timestamps: &self.timestamps,
        })
    }

    /// Returns the length in bytes of the first `count` records of the run found last.
    pub(crate) const fn size(&self, count: usize) -> u64 {
        (count * self.len) as u64
    }
}

/// Reads the pieces of an excerpt of records that follow each other, those that touch at once:
/// the end of a record and the start of the next one.
fn read_pieces(
    file: &mut RecordFile,
    offset: u64,
    excerpt: &Excerpt,
    count: usize,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    bytes.resize(count * excerpt.len, 0);
    let records = (0..count).map(|record| offset + (record * excerpt.record_len) as u64);
    let pieces = records.flat_map(|start| {
        excerpt.pieces.iter().map(move |piece| start + piece.start as u64..start + piece.end as u64)
    });
    let mut rest = &mut **bytes;
    let mut next = offset..offset;
    let mut read = |range: &Range<u64>| {
        let (target, after) =
            std::mem::take(&mut rest).split_at_mut((range.end - range.start) as usize);
        rest = after;
        file.read_at(target, range.start)
    };
    for piece in pieces {
        if piece.start == next.end {
            next.end = piece.end;
        } else {
            read(&next)?;
            next = piece;
        }
    }
    read(&next)
}
