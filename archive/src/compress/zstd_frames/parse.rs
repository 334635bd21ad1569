//! What of records is as before: found by their layout instead of by a search.
//!
//! A record has the layout of the last one of its length, and most of its bytes: all but the
//! lowest ones of each value. So both are compared byte by byte; where they differ in more,
//! two other [places](super::places) are tried. Only where no record of that length came
//! before, matches are searched for.

use std::ops::Range;

use zerocopy::little_endian::U32;

use super::places::{self, OTHERS, Place, SWITCH};
use super::records::{Part, differing, equal, parts};
use super::sequences::{MIN_MATCH, Sequence};

/// The table of what is searched for has this many entries, as a power of two.
const HASH_BITS: u32 = 14;

/// Finds what is repeated in records.
#[derive(Debug)]
pub(super) struct Parser<'b> {
    bytes: &'b [u8],
    parts: Vec<Part>,
    /// For what is searched: where something with this hash was last, plus one.
    hashed: Vec<u32>,
    /// Where matches may be besides the last record.
    others: [Option<Place>; OTHERS],
}

/// Bytes as matches, and what is between them.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub(super) sequences: Vec<Sequence>,
    /// Those of all sequences, and those after the last one.
    pub(super) literals: Vec<u8>,
}

impl<'b> Parser<'b> {
    /// Of whole records, or of any bytes.
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        let parts = parts(bytes);
        let is_searched = parts.iter().any(|part| part.distance.is_none());
        let hashed = vec![0; if is_searched { 1 << HASH_BITS } else { 0 }];
        let others = places::choose(bytes, &parts);
        Self { bytes, parts, hashed, others }
    }

    /// The matches within a range; ranges follow each other.
    pub(super) fn parse(&mut self, range: Range<usize>, parsed: &mut Parsed) {
        parsed.sequences.clear();
        parsed.literals.clear();
        // The first byte that is in no sequence yet.
        let mut begin = range.start;
        let first = self.parts.partition_point(|part| part.range.end <= range.start);
        for place in first..self.parts.len() {
            let Some(part) = self.parts.get(place) else { break };
            if part.range.start >= range.end {
                break;
            }
            let part_range = part.range.start.max(range.start)..part.range.end.min(range.end);
            match part.distance {
                Some(distance) => {
                    // 0 where there is none.
                    let others = self.others.map(|other| other.map_or(0, |o| o.distance(distance)));
                    compare(self.bytes, part_range, distance, others, &mut begin, parsed);
                }
                None => search(self.bytes, part_range, &mut self.hashed, &mut begin, parsed),
            }
        }
        parsed.literals.extend_from_slice(self.bytes.get(begin..range.end).unwrap_or_default());
    }
}

impl Parsed {
    /// Adds a match and what is before it, from `begin` on.
    fn push(&mut self, bytes: &[u8], begin: &mut usize, matched: Range<usize>, distance: usize) {
        let literals = bytes.get(*begin..matched.start).unwrap_or_default();
        self.literals.extend_from_slice(literals);
        let (len, distance) = (matched.len() as u32, distance as u32);
        self.sequences.push(Sequence { literals: literals.len() as u32, len, distance });
        *begin = matched.end;
    }
}

/// Adds what is as `distance` before, or as at one of the other distances where more is.
fn compare(
    bytes: &[u8],
    range: Range<usize>,
    distance: usize,
    others: [usize; OTHERS],
    begin: &mut usize,
    parsed: &mut Parsed,
) {
    let Some(now) = bytes.get(range.clone()) else { return };
    let Some(then) = bytes.get(range.start - distance..range.end - distance) else { return };
    let mut at = 0;
    let mut used = distance;
    while let Some((now, then)) =
        now.get(at..).zip(then.get(at..)).filter(|(now, _)| !now.is_empty())
    {
        let from = range.start + at;
        let mut best = (distance, equal(now, then));
        for other in others.into_iter().filter(|other| (1..=from).contains(other)) {
            let then = bytes.get(from - other..from - other + now.len()).unwrap_or_default();
            let len = equal(now, then);
            // A distance that is not the last one takes some bits to describe.
            let least = match best.1.max(MIN_MATCH) {
                longest if other == used => longest,
                longest if best.0 == used => longest + SWITCH,
                longest => longest + 1,
            };
            if len >= least {
                best = (other, len);
            }
        }
        let (chosen, len) = best;
        if len >= MIN_MATCH {
            parsed.push(bytes, begin, from..from + len, chosen);
            used = chosen;
        }
        at += len
            + differing(now.get(len..).unwrap_or_default(), then.get(len..).unwrap_or_default());
    }
}

/// Adds what is as anywhere before: as at the last distance, or where the hash leads.
fn search(
    bytes: &[u8],
    range: Range<usize>,
    hashed: &mut [u32],
    begin: &mut usize,
    parsed: &mut Parsed,
) {
    let now = bytes.get(..range.end).unwrap_or_default();
    let mut at = range.start;
    let mut last = 1;
    while let Some(four) = now.get(at..).and_then(<[u8]>::first_chunk) {
        let hash = U32::from_bytes(*four).get().wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS);
        let place =
            hashed.get_mut(hash as usize).map(|place| std::mem::replace(place, at as u32 + 1));
        let found = (at + 1).saturating_sub(place.unwrap_or(0) as usize);
        // A distance that is not the last one takes some two bytes to describe.
        let candidates = [(last, MIN_MATCH + 1), (found, MIN_MATCH + 3)];
        let matched = candidates.into_iter().find_map(|(distance, least)| {
            let then = at.checked_sub(distance).filter(|_| distance > 0)?;
            let len = equal(now.get(at..)?, now.get(then..now.len() - distance)?);
            (len >= least).then_some((distance, len))
        });
        let Some((distance, len)) = matched else {
            at += 1;
            continue;
        };
        parsed.push(bytes, begin, at..at + len, distance);
        at += len;
        last = distance;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::frame;

    /// What matches and literals stand for.
    fn restore(before: &[u8], parsed: &Parsed) -> Vec<u8> {
        let mut out = before.to_vec();
        let mut literals = parsed.literals.iter();
        for Sequence { literals: count, len, distance } in &parsed.sequences {
            assert!(*len as usize >= MIN_MATCH);
            out.extend(literals.by_ref().take(*count as usize));
            for _ in 0..*len {
                out.push(out[out.len() - *distance as usize]);
            }
        }
        out.extend(literals);
        out
    }

    /// A record with these values, of 8 bytes each.
    fn record(values: &[u64]) -> Vec<u8> {
        let mut out = Vec::new();
        let body: Vec<u8> = values.iter().flat_map(|value| value.to_be_bytes()).collect();
        frame::encode(&mut out, |out| {
            out.extend(body);
            Ok(())
        })
        .unwrap();
        out
    }

    #[test]
    fn a_record_is_the_last_one_of_its_length_and_what_has_changed() {
        let bytes = [record(&[1, 2, 3]), record(&[9]), record(&[1, 500, 3]), record(&[9])].concat();
        let mut parser = Parser::new(&bytes);
        let mut parsed = Parsed::default();
        parser.parse(0..bytes.len(), &mut parsed);
        assert!(restore(&[], &parsed) == bytes);
        let [.., longer, again, shorter] = parsed.sequences.as_slice() else { panic!() };
        assert_eq!((longer.distance, again.distance, shorter.distance), (48, 48, 48));
        assert_eq!((again.literals, again.len), (2, 12));
        assert_eq!((shorter.literals, shorter.len), (0, 16));
    }

    #[test]
    fn anything_is_restored_in_ranges_of_any_length() {
        let mut random = 1_u32;
        let mut next = |below: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) % below
        };
        for case in 0..500 {
            let mut bytes = Vec::new();
            let mut values = [0_u64; 6];
            for _ in 0..next(30) {
                values[next(6) as usize] += u64::from(next(300));
                bytes.extend(record(&values[..=next(6) as usize]));
            }
            if case % 3 == 0 {
                bytes.extend((0..next(60)).map(|_| next(3) as u8));
            }
            let mut parser = Parser::new(&bytes);
            let mut done = Vec::new();
            while done.len() < bytes.len() {
                let end = (done.len() + 1 + next(200) as usize).min(bytes.len());
                let mut parsed = Parsed::default();
                parser.parse(done.len()..end, &mut parsed);
                done = restore(&done, &parsed);
                assert!(done == bytes[..end]);
            }
        }
    }
}
