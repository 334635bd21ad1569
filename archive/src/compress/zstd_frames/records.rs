//! Splits bytes into records, finds for each the previous one of the same length, and compares
//! byte strings.

use std::ops::Range;

use zerocopy::little_endian::U64;

use super::sequences::MIN_MATCH;
use crate::format::frame;

/// How many lengths of records are remembered.
const LENGTHS: usize = 16;

/// A part of some records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) range: Range<usize>,
    /// How far before it a record of the same length is.
    pub(super) distance: Option<usize>,
}

/// The records in some bytes. What is none is one part.
pub(super) fn parts(bytes: &[u8]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut known: Vec<(usize, usize)> = Vec::new();
    let mut start = 0;
    while let Some(rest) = bytes.get(start..).filter(|rest| !rest.is_empty()) {
        let len = frame::parse_length(rest).map_or(rest.len(), |len| len as usize).min(rest.len());
        let before = known.iter().position(|(known, _)| *known == len);
        let distance = before.map(|place| start - known.swap_remove(place).1);
        known.truncate(LENGTHS - 1);
        known.insert(0, (len, start));
        parts.push(Part { range: start..start + len, distance });
        start += len;
    }
    parts
}

/// How many bytes are the same at the start of two slices of one length.
pub(super) fn equal(now: &[u8], then: &[u8]) -> usize {
    let (now_words, now_rest) = now.as_chunks::<8>();
    let (then_words, then_rest) = then.as_chunks::<8>();
    for (word, (now, then)) in now_words.iter().zip(then_words).enumerate() {
        let differ = U64::from_bytes(*now).get() ^ U64::from_bytes(*then).get();
        if differ != 0 {
            return 8 * word + differ.trailing_zeros() as usize / 8;
        }
    }
    let rest = now_rest.iter().zip(then_rest).take_while(|(now, then)| now == then);
    8 * now_words.len() + rest.count()
}

/// How many bytes there are before the next ones that are the same and make a match.
pub(super) fn differing(now: &[u8], then: &[u8]) -> usize {
    let mut same = 0;
    for (place, (now, then)) in now.iter().zip(then).enumerate() {
        same = if now == then { same + 1 } else { 0 };
        if same == MIN_MATCH {
            return place + 1 - MIN_MATCH;
        }
    }
    now.len()
}
