//! Checks that decompressed bytes are records, while they are decompressed.
//!
//! In: the bytes, in pieces, in order. Out: for how many bytes nothing was a record. A file
//! of a few kilobytes can decompress to gigabytes that are not records; this is what ends
//! them early. Only the words around records are looked at ([`frame`]).

use crate::files::count_leading_zeros;
use crate::format::frame::{self, LENGTH_WORD, OVERHEAD};

/// The longest record that bytes after damage are tried as.
const MAX_TRIED_RECORD: u64 = 1 << 20;
/// The longest record that can be followed: the words before and after it are compared.
const MAX_FOLLOWED_RECORD: u64 = 1 << 28;

/// The walk from record to record.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Offset of the next record or, after damage, of the next byte to search from.
    next: u64,
    /// The length of the record at `next`, once its first word was there.
    len: Option<u64>,
    /// Start of the damage that lasts.
    damaged: Option<u64>,
}

impl Frames {
    /// Walks on through `bytes`, which start at `start` and end where the bytes of the call
    /// before ended, or later. Returns where the last records ended, if nothing after that is
    /// a record.
    pub(super) fn walk(&mut self, bytes: &[u8], start: u64) -> Option<u64> {
        let end = start + bytes.len() as u64;
        let word = |at: u64| {
            let at = usize::try_from(at.checked_sub(start)?).ok()?;
            bytes.get(at..at.checked_add(LENGTH_WORD)?)
        };
        loop {
            // A record cannot start in bytes that are gone, but in those after them.
            if self.len.is_none() {
                self.next = self.next.max(start);
            }
            let len = if let Some(len) = self.len {
                len
            } else {
                let Some(head) = word(self.next) else { return self.damaged };
                let most =
                    if self.damaged.is_some() { MAX_TRIED_RECORD } else { MAX_FOLLOWED_RECORD };
                let Some(len) = length(head).filter(|len| *len <= most) else {
                    self.damaged.get_or_insert(self.next);
                    // A length word may begin with the last three zeros.
                    let from = bytes.get((self.next - start) as usize..).unwrap_or_default();
                    let zeros = count_leading_zeros(from) as u64;
                    self.next += zeros.saturating_sub(3).max(1);
                    continue;
                };
                len
            };
            if end < self.next + len {
                self.len = self.damaged.is_none().then_some(len);
                return self.damaged;
            }
            self.len = None;
            let trailer = word(self.next + len - LENGTH_WORD as u64).map(frame::parse_trailer);
            // After damage, two words of 8 are more likely numbers than an empty record.
            let is_likely = self.damaged.is_none() || len > OVERHEAD as u64;
            if trailer == Some(Ok(len as u32)) && is_likely {
                self.damaged = None;
                self.next += len;
            } else {
                self.damaged.get_or_insert(self.next);
                self.next += 1;
            }
        }
    }
}

/// Returns the length of the record that begins with a word, if that can be one.
fn length(word: &[u8]) -> Option<u64> {
    frame::parse_length(word).ok().map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(body: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let encoded = frame::encode(&mut out, |out| {
            out.resize(out.len() + body, 0xab);
            Ok(())
        });
        encoded.unwrap();
        out
    }

    /// Returns the verdict of the walk after each piece of this size.
    fn walked(bytes: &[u8], piece: usize) -> Vec<Option<u64>> {
        let mut frames = Frames::default();
        let ends = (piece..=bytes.len()).step_by(piece);
        ends.map(|end| frames.walk(&bytes[..end], 0)).collect()
    }

    #[test]
    fn records_are_followed_whatever_the_pieces_are() {
        let bytes = [record(1), record(300), record(7), record(5000), record(12)].concat();
        for piece in [1, 3, 8, 100, 10_000] {
            assert!(walked(&bytes, piece).iter().all(Option::is_none), "{piece}");
        }
    }

    #[test]
    fn damage_lasts_until_the_next_record() {
        let before = record(20);
        let hole = vec![0; 1000];
        let bytes = [before.clone(), hole, record(50), record(9)].concat();
        for piece in [1, 7, 64] {
            let states = walked(&bytes, piece);
            let begun = states.iter().position(Option::is_some).unwrap();
            assert!(begun * piece <= before.len() + 4 + piece, "{piece}");
            assert_eq!(states[begun], Some(before.len() as u64));
            let over = states.iter().rposition(Option::is_some).unwrap();
            assert!(over * piece <= bytes.len() - record(9).len(), "{piece}: {over}");
        }
    }

    #[test]
    fn a_wrong_trailer_is_damage_and_so_is_a_length_that_cannot_be() {
        let mut wrong = [record(20), record(20)].concat();
        wrong[27] ^= 1;
        assert_eq!(Frames::default().walk(&wrong[..28], 0), Some(0));
        for bytes in [&[0; 64][..], &[0xff; 64], b"a text that is no archive at all"] {
            assert_eq!(Frames::default().walk(bytes, 0), Some(0));
        }
    }

    #[test]
    fn bytes_that_are_gone_are_passed_by() {
        let first = record(500);
        let second = record(30);
        let mut frames = Frames::default();
        assert_eq!(frames.walk(&first[..100], 0), None);
        let all = [first.clone(), second.clone(), vec![0; 64]].concat();
        assert_eq!(frames.walk(&all[300..560], 300), Some((first.len() + second.len()) as u64));
        assert_eq!(frames.walk(&all[560..], 560), Some((first.len() + second.len()) as u64));
    }
}
