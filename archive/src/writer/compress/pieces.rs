//! A volume in pieces that are compressed one by one.

use std::io::{self, Read};

use crate::format::frame;
use crate::{Record, Timestamp, Version};

/// About how many bytes a piece has: the more, the smaller the file; the fewer, the less is
/// decompressed for one record.
pub(super) const PIECE: usize = 1 << 20;
/// The longest record that is not cut.
const MAX_RECORD: usize = 8 << 20;

/// The pieces of a volume, each of whole records: first the label, by which a reader
/// knows the file, then as many records as [`PIECE`] has room for. Where no record can be
/// recognized pieces end anywhere.
#[derive(Debug)]
pub(super) struct Pieces<R> {
    file: R,
    /// Bytes that belong to the next pieces.
    rest: Vec<u8>,
    is_first: bool,
    records: Option<u64>,
    /// They end where anything else begins.
    only_records: bool,
    /// Set where records have to be in the order of time.
    order: Option<Order>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    version: Version,
    last: Option<Timestamp>,
}

impl Order {
    pub(super) const fn new(version: Version) -> Self {
        Self { version, last: None }
    }

    /// Passes whole records; returns whether none of them is earlier than the one before it.
    fn pass(&mut self, mut records: &[u8]) -> bool {
        while let Ok(len) = frame::parse_length(records)
            && let Some((record, rest)) = records.split_at_checked(len as usize)
        {
            let Ok(timestamp) = Record::parse_timestamp(self.version, record) else { return false };
            if self.last.is_some_and(|last| timestamp < last) {
                return false;
            }
            self.last = Some(timestamp);
            records = rest;
        }
        true
    }
}

impl<R: Read> Pieces<R> {
    pub(super) const fn new(file: R) -> Self {
        Self {
            file,
            rest: Vec::new(),
            is_first: true,
            records: Some(0),
            only_records: false,
            order: None,
        }
    }

    /// Reads pieces up to what is not a record: of a small file that can be gigabytes.
    pub(super) fn of_records(file: R) -> Self {
        Self { only_records: true, ..Self::new(file) }
    }

    /// Reads pieces of a data volume, up to a record that is earlier than the one before it.
    pub(super) fn of_volume(file: R, order: Order) -> Self {
        Self { order: Some(order), ..Self::of_records(file) }
    }

    /// Returns the order of the records so far.
    pub(super) const fn order(&self) -> Option<Order> {
        self.order
    }

    /// Returns the number of records in the pieces so far, the label included; `None` if they had
    /// anything else.
    pub(super) const fn records(&self) -> Option<u64> {
        self.records
    }

    /// Returns the next piece; `None` at the end.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut wanted = PIECE;
        loop {
            if self.only_records && self.records.is_none() {
                return Ok(None);
            }
            let missing = wanted.saturating_sub(self.rest.len());
            let read = self.file.by_ref().take(missing as u64).read_to_end(&mut self.rest)?;
            if self.rest.is_empty() {
                return Ok(None);
            }
            let is_end = read < missing;
            let is_label = std::mem::take(&mut self.is_first);
            let most = if is_label { 1 } else { usize::MAX };
            let mut found = whole_records(&self.rest, most);
            if let Some(order) = self.order.as_mut().filter(|_| !is_label)
                && !order.pass(self.rest.get(..found.len).unwrap_or_default())
            {
                found.next = None;
            }
            let len = match (found.len, found.next) {
                (0, Some(needed)) if !is_end && needed <= MAX_RECORD => {
                    wanted = needed;
                    continue;
                }
                (0, _) | (_, None) => {
                    self.records = None;
                    if self.only_records {
                        continue;
                    }
                    self.rest.len()
                }
                (len, Some(_)) => {
                    self.records = self.records.map(|records| records + found.count);
                    len
                }
            };
            let rest = self.rest.split_off(len);
            return Ok(Some(std::mem::replace(&mut self.rest, rest)));
        }
    }
}

/// Whole records at the start of some bytes.
#[derive(Debug, Default)]
struct WholeRecords {
    /// Bytes of the records.
    len: usize,
    count: u64,
    /// The length of the next one; `None` if what follows them is not a record.
    next: Option<usize>,
}

/// Returns the whole records at the start, at most `most`.
fn whole_records(bytes: &[u8], most: usize) -> WholeRecords {
    let mut found = WholeRecords { next: Some(0), ..WholeRecords::default() };
    for _ in 0..most {
        let rest = bytes.get(found.len..).unwrap_or_default();
        if rest.len() < frame::LENGTH_WORD {
            return WholeRecords { next: Some(frame::LENGTH_WORD), ..found };
        }
        let Ok(next) = frame::parse_length(rest) else {
            return WholeRecords { next: None, ..found };
        };
        let next = next as usize;
        let Some(record) = rest.get(..next) else {
            return WholeRecords { next: Some(next), ..found };
        };
        if frame::parse(record).is_err() {
            return WholeRecords { next: None, ..found };
        }
        found.len += next;
        found.count += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        frame::encode(&mut out, |out| {
            out.resize(len - frame::LENGTH_WORD, 7);
            Ok(())
        })
        .unwrap();
        assert_eq!(out.len(), len);
        out
    }

    fn counted(bytes: &[u8]) -> (Vec<usize>, Option<u64>) {
        let mut pieces = Pieces::new(bytes);
        let all: Vec<_> = std::iter::from_fn(|| pieces.next().unwrap()).collect();
        assert!(all.concat() == bytes);
        (all.iter().map(Vec::len).collect(), pieces.records())
    }

    fn pieces(bytes: &[u8]) -> Vec<usize> {
        counted(bytes).0
    }

    #[test]
    fn a_piece_has_whole_records_and_the_first_is_the_label() {
        let records: Vec<_> = std::iter::repeat_with(|| record(300_000)).take(7).collect();
        let bytes = [record(132), records.concat()].concat();
        assert_eq!(pieces(&bytes), [132, 900_000, 900_000, 300_000]);
        assert_eq!(pieces(&record(132)), [132]);
        assert_eq!(pieces(b""), [0; 0]);
    }

    #[test]
    fn a_long_record_is_a_piece() {
        let bytes = [record(132), record(100), record(3 << 20), record(100)].concat();
        assert_eq!(pieces(&bytes), [132, 100, 3 << 20, 100]);
    }

    #[test]
    fn what_is_no_record_is_cut_anywhere() {
        for garbage in [[0xff; 4], [0; 4], [0x7f, 0xff, 0xff, 0xff]] {
            let mut bytes = [record(132), record(100)].concat();
            bytes.extend(garbage.repeat(PIECE / 2));
            assert_eq!(pieces(&bytes).len(), 4, "{garbage:?}");
        }
        let torn = [record(132), record(100), record(100)[..50].to_vec()].concat();
        assert_eq!(pieces(&torn), [132, 100, 50]);
    }
    #[test]
    fn records_are_counted_where_there_is_nothing_else() {
        let whole = [record(132), record(100), record(3 << 20), record(100)].concat();
        assert_eq!(counted(&whole).1, Some(4));
        assert_eq!(counted(b"").1, Some(0));
        assert_eq!(counted(&whole[..whole.len() - 1]).1, None, "cut off");
        assert_eq!(counted(&whole[..2]).1, None, "less than a length");
        let mut other = whole.clone();
        other[231] ^= 1;
        assert_eq!(counted(&other).1, None, "the lengths of a record differ");
        assert_eq!(counted(&[&whole[..], &[0; 8]].concat()).1, None, "zeros");
    }
}
