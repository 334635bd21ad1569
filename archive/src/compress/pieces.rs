//! A volume in pieces that are compressed one by one.

use std::fs::File;
use std::io::{self, Read as _};

use crate::format::frame;

/// About how many bytes a piece has: the more, the smaller the file; the fewer, the less is
/// decompressed for one record.
pub(super) const PIECE: usize = 1 << 20;
/// The longest record that is not cut.
const MAX_RECORD: usize = 8 << 20;

/// The pieces of a volume, each of whole records: first the label, by which a reader
/// knows the file, then as many records as [`PIECE`] has room for. Where no record can be
/// recognized pieces end anywhere.
#[derive(Debug)]
pub(super) struct Pieces<'f> {
    file: &'f File,
    /// Bytes that belong to the next pieces.
    rest: Vec<u8>,
    is_first: bool,
}

impl<'f> Pieces<'f> {
    pub(super) const fn of(file: &'f File) -> Self {
        Self { file, rest: Vec::new(), is_first: true }
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut wanted = PIECE;
        loop {
            let missing = wanted.saturating_sub(self.rest.len());
            let read = self.file.take(missing as u64).read_to_end(&mut self.rest)?;
            if self.rest.is_empty() {
                return Ok(None);
            }
            let is_end = read < missing;
            let most = if std::mem::take(&mut self.is_first) { 1 } else { usize::MAX };
            let len = match whole_records(&self.rest, most) {
                (0, Some(needed)) if !is_end && needed <= MAX_RECORD => {
                    wanted = needed;
                    continue;
                }
                (0, _) | (_, None) => self.rest.len(),
                (len, Some(_)) => len,
            };
            let rest = self.rest.split_off(len);
            return Ok(Some(std::mem::replace(&mut self.rest, rest)));
        }
    }
}

/// The bytes of the whole records at the start, at most so many, and the length of the
/// next one; `None` if what follows them is no record.
fn whole_records(bytes: &[u8], most: usize) -> (usize, Option<usize>) {
    let mut len = 0;
    for _ in 0..most {
        let rest = bytes.get(len..).unwrap_or_default();
        if rest.len() < frame::LENGTH_WORD {
            return (len, Some(frame::LENGTH_WORD));
        }
        let Ok(next) = frame::parse_length(rest) else { return (len, None) };
        if next as usize > rest.len() {
            return (len, Some(next as usize));
        }
        len += next as usize;
    }
    (len, Some(0))
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

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

    fn pieces(bytes: &[u8]) -> Vec<usize> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        let mut pieces = Pieces::of(&file);
        let all: Vec<_> = std::iter::from_fn(|| pieces.next().unwrap()).collect();
        assert!(all.concat() == bytes);
        all.iter().map(Vec::len).collect()
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
}
