//! The bytes of a record that a scan of few metrics needs.
//!
//! A record has the values of all metrics at one time. Where one of a shape was read and
//! checked as a whole, those that follow are likely to be like it; a scan that wants few of the
//! values then reads only this of them:
//!
//! ```text
//! length  time  number of sets   set        block            length
//! ====    ....  ====             ====       ====....         ====
//! ```
//!
//! What is `=` is compared with the first record. All that decides where a wanted value is, and
//! what it is, is among it, so a value that is taken is the one that a reader of the whole record
//! finds. The other sets are not looked at: damage that is only in them goes unnoticed, and costs
//! the wanted metrics nothing.
//!
//! A record with none of a wanted metric's values has no excerpt: in the next one, of the same
//! length, the metric might be in the place of another that is not looked at. The events of
//! mmv-agent are an exception, since it logs them in records of their own.

use std::ops::Range;

use crate::format::ShapeId;
use crate::format::frame::LENGTH_WORD;
use crate::format::result::{count_offset, head_size};
use crate::format::value_block::HEADER;
use crate::{Record, ValueSetView, Version};

/// Excerpts that are read at once are no longer than this together.
const MAX_SIZE: usize = 256 * 1024;

#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadCost {
    /// Bytes that can be copied in the time that it takes to ask for a piece.
    asking: usize,
    /// Pieces that are closer than this are read together with what is between them.
    gap: usize,
}

impl ReadCost {
    /// From memory, by system calls.
    pub(crate) const USUAL: Self = Self { asking: 4096, gap: 2048 };
    /// As if it cost nothing, so that excerpts of short records are read as well.
    #[cfg(test)]
    pub(crate) const NONE: Self = Self { asking: 0, gap: 0 };

    fn is_worth(self, pieces: &[Range<usize>], len: usize) -> bool {
        // The end of a record and the start of the next one are read together.
        let read = pieces.iter().map(Range::len).sum::<usize>() * usize::from(self.asking > 0);
        2 * (self.asking * (pieces.len() - 1) + read) <= len
    }
}

/// The pieces of a record that are read; see the [module](self).
#[derive(Debug)]
pub(crate) struct Excerpt {
    pub(crate) shape: ShapeId,
    pub(crate) version: Version,
    pub(crate) record_len: usize,
    /// The pieces of a record that are read, ascending: the first begins with the record, the last
    /// ends with it.
    pub(crate) pieces: Vec<Range<usize>>,
    /// Length of all pieces together.
    pub(crate) len: usize,
    /// The bytes that the pieces have in common with those of other records, with zeros for the
    /// others.
    expected: Vec<u8>,
    /// Ones where `expected` has to be equal.
    mask: Vec<u8>,
}

impl Excerpt {
    /// Returns the excerpt with the values of these `sets` of a record that was checked; `None`
    /// if reading the whole record takes no longer.
    pub(crate) fn new(
        record: &Record<'_>,
        shape: ShapeId,
        sets: &[ValueSetView<'_>],
        effort: ReadCost,
    ) -> Option<Self> {
        let bytes = record.bytes();
        let version = record.version();
        let head = head_size(version);
        let count = count_offset(version);
        let tail = bytes.len().checked_sub(LENGTH_WORD)?..bytes.len();
        let mut pieces = vec![0..head, tail.clone()];
        let mut constant = vec![0..LENGTH_WORD, count..head, tail];
        let mut own = Vec::new();
        for set in sets {
            let whole = set.range()?;
            pieces.push(whole.clone());
            constant.push(whole);
            for (_, payload) in set.payloads() {
                if set.is_in_place() {
                    own.push(payload);
                    continue;
                }
                let start = payload.start.checked_sub(HEADER)?;
                constant.push(start..payload.start);
                pieces.push(start..payload.end);
            }
        }
        let pieces = joined(pieces, effort.gap);
        if !effort.is_worth(&pieces, bytes.len()) {
            return None;
        }
        let mut expected = vec![0; bytes.len()];
        let mut mask = vec![0; bytes.len()];
        for range in constant {
            mask.get_mut(range.clone())?.fill(0xff);
            expected.get_mut(range.clone())?.copy_from_slice(bytes.get(range)?);
        }
        for range in own {
            mask.get_mut(range.clone())?.fill(0);
            expected.get_mut(range)?.fill(0);
        }
        Some(Self {
            shape,
            version,
            record_len: bytes.len(),
            len: pieces.iter().map(Range::len).sum(),
            expected: cut(&expected, &pieces),
            mask: cut(&mask, &pieces),
            pieces,
        })
    }

    pub(crate) fn most(&self) -> usize {
        (MAX_SIZE / self.len.max(1)).max(1)
    }

    /// Returns the offset in the pieces of a place of the record.
    pub(crate) fn place(&self, at: u32) -> Option<u32> {
        let mut before = 0;
        for piece in &self.pieces {
            if piece.contains(&(at as usize)) {
                return Some((before + at as usize - piece.start) as u32);
            }
            before += piece.len();
        }
        None
    }

    /// Returns whether pieces are those of a record of the shape, as far as they show.
    pub(crate) fn is_of(&self, pieces: &[u8]) -> bool {
        let each = pieces.iter().zip(&self.expected).zip(&self.mask);
        let differs =
            each.fold(0, |all, ((found, expected), mask)| all | ((found & mask) ^ expected));
        pieces.len() == self.len && differs == 0
    }
}

/// Returns the pieces in order, those that are no further apart than `gap` as one.
fn joined(mut pieces: Vec<Range<usize>>, gap: usize) -> Vec<Range<usize>> {
    pieces.sort_unstable_by_key(|piece| piece.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for piece in pieces {
        match joined.last_mut().filter(|last| piece.start <= last.end + gap) {
            Some(last) => last.end = last.end.max(piece.end),
            None => joined.push(piece),
        }
    }
    joined
}

fn cut(bytes: &[u8], pieces: &[Range<usize>]) -> Vec<u8> {
    pieces.iter().filter_map(|piece| bytes.get(piece.clone())).flatten().copied().collect()
}
