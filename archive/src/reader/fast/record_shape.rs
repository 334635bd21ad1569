//! Records that repeat an earlier one except for their timestamp and values.
//!
//! A logger writes the same metrics again and again. All that
//! [`Record::check`] finds out about such a record was found out about the
//! one before it, as long as the bytes that it looked at are the same:
//!
//! ```text
//! length  time  number of sets  set, set, ..      block,        block, ..   length
//! ====    ....  ====            ==== ===.         ====........  ====......  ====
//! ```
//!
//! `=` is what a record has in common with others of its shape and `.` what is
//! its own: the time, the payloads of blocks with their padding, and words that
//! are values themselves. Two records of one shape have the same metrics,
//! instances and formats, and each value at the same place with the same
//! length. So the places of the values have to be found only once.
//!
//! The comparison runs over the value sets without a branch and then from
//! header to header of the blocks, several times as fast as the check.

use std::ops::Range;

use crate::format::ShapeId;
use crate::format::frame::LENGTH_WORD;
use crate::format::result::count_offset;
use crate::format::value_block::HEADER;
use crate::{Record, RecordError, Version};

/// Limit on the shapes that are known at a time: loggers write groups of metrics at different
/// intervals.
const MAX_KNOWN: usize = 8;
/// Larger records are checked one by one, so that shapes hold 8 MiB at most.
const MAX_SIZE: usize = 512 * 1024;
/// After this many records in a row that repeated nothing, only one in as many
/// is learnt.
const MAX_MISSES: u32 = 16;
/// Bytes that are compared without a branch.
const STRETCH: usize = 2048;

/// The shapes of the records of one archive so far.
#[derive(Debug, Default)]
pub(crate) struct RecordShapes {
    /// The one met last in front.
    known: Vec<RecordShape>,
    /// Records since the last one that repeated another.
    misses: u32,
}

#[derive(Debug)]
struct RecordShape {
    id: ShapeId,
    /// Of the whole record.
    len: usize,
    /// From the number of value sets to the first block, with zeros for words
    /// that are values themselves.
    sets: Vec<u8>,
    /// Ones where `sets` has to be equal; empty if that is everywhere.
    mask: Vec<u8>,
    /// Offset of the number of value sets.
    start: usize,
    /// Starts of the blocks, and their headers.
    headers: Vec<(u32, u32)>,
}

impl RecordShapes {
    /// Parses as [`Record::parse`], with a check that is cheap if the record is like an earlier
    /// one.
    pub(crate) fn parse<'a>(
        &mut self,
        version: Version,
        bytes: &'a [u8],
        volume: u32,
        offset: u64,
    ) -> Result<Record<'a>, RecordError> {
        let record = Record::parse_head(version, bytes, volume, offset)?;
        Ok(record.with_shape(self.check(version, &record)?))
    }

    /// Checks a record as [`Record::check`] does, and returns its shape if
    /// there may be others like it.
    fn check(
        &mut self,
        version: Version,
        record: &Record<'_>,
    ) -> Result<Option<ShapeId>, RecordError> {
        let bytes = record.bytes();
        if let Some(known) = self.find(bytes) {
            self.misses = 0;
            return Ok(Some(known));
        }
        record.check()?;
        self.misses = self.misses.saturating_add(1);
        let is_hopeless = self.misses > MAX_MISSES && !self.misses.is_multiple_of(MAX_MISSES);
        if record.is_mark() || bytes.len() > MAX_SIZE || is_hopeless {
            return Ok(None);
        }
        self.known.truncate(MAX_KNOWN - 1);
        let shape = RecordShape::new(version, record);
        let id = shape.id;
        self.known.insert(0, shape);
        Ok(Some(id))
    }

    pub(crate) fn find(&mut self, bytes: &[u8]) -> Option<ShapeId> {
        let place = self.known.iter().position(|shape| shape.is_of(bytes))?;
        self.known.get_mut(..=place)?.rotate_right(1);
        self.known.first().map(|shape| shape.id)
    }

    pub(crate) fn is_found_last(&self, bytes: &[u8]) -> bool {
        self.known.first().is_some_and(|shape| shape.is_of(bytes))
    }
}

impl RecordShape {
    fn new(version: Version, record: &Record<'_>) -> Self {
        let bytes = record.bytes();
        let start = count_offset(version);
        let mut words = Vec::new();
        let mut headers = Vec::new();
        let mut end = bytes.len() - LENGTH_WORD;
        for set in record.value_sets() {
            for (_, payload) in set.payloads() {
                if set.is_in_place() {
                    words.push(payload);
                    continue;
                }
                let at = payload.start - HEADER;
                end = end.min(at);
                // No record has 2^32 bytes.
                headers.push((at as u32, word(bytes, at).unwrap_or_default()));
            }
        }
        let mut sets = bytes.get(start..end).unwrap_or_default().to_vec();
        let mut mask = if words.is_empty() { Vec::new() } else { vec![0xff; sets.len()] };
        for Range { start: at, end } in words {
            let own = at - start..end - start;
            sets.get_mut(own.clone()).unwrap_or_default().fill(0);
            mask.get_mut(own).unwrap_or_default().fill(0);
        }
        Self { id: ShapeId::next(), len: bytes.len(), sets, mask, start, headers }
    }

    fn is_of(&self, bytes: &[u8]) -> bool {
        let frame = Some((self.len as u32).to_be());
        let Self { start, sets, .. } = self;
        bytes.len() == self.len
            && word(bytes, 0) == frame
            && word(bytes, self.len - LENGTH_WORD) == frame
            && bytes.get(*start..start + sets.len()).is_some_and(|found| self.has_sets(found))
            && self.has_headers(bytes)
    }

    fn has_sets(&self, found: &[u8]) -> bool {
        if self.mask.is_empty() {
            return found == self.sets;
        }
        let stretches = found.chunks(STRETCH).zip(self.sets.chunks(STRETCH));
        !stretches.zip(self.mask.chunks(STRETCH)).any(|((found, sets), mask)| {
            let each = found.iter().zip(sets).zip(mask);
            each.fold(0, |all, ((found, set), mask)| all | ((found & mask) ^ set)) != 0
        })
    }

    /// Compares all headers without a branch for each: nearly all records are alike.
    fn has_headers(&self, bytes: &[u8]) -> bool {
        let mut differences = 0;
        for &(at, header) in &self.headers {
            // No shape has a header that is not inside.
            let Some(found) = bytes.get(at as usize..at as usize + HEADER) else { return false };
            let found = found.first_chunk().copied().map_or(0, u32::from_ne_bytes);
            differences |= found ^ header;
        }
        differences == 0
    }
}

/// Reads four bytes in host order, for comparison only.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}
