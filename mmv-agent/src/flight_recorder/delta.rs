//! Encodes a sample as its difference from the previous one.
//!
//! Values are numbered consecutively, source by source, numbers before strings. Three
//! lists, each of them ended by a zero byte:
//!
//! | list | an entry |
//! |---|---|
//! | numbers that differ | a byte: 16 times the numbers passed over since the last entry (15: more, 15 less than that follow as a varint), and the size of what follows: the change |
//! | values that appear or disappear | a varint: values passed over, and 1 |
//! | strings that differ | two varints: strings passed over, and 1; the length; then the bytes |
//!
//! The change of a number is its difference from the one before, modulo 2^64. Of
//! size 1..=8 it is in zigzag (0, -1, 1, -2 ...), the lowest bytes of it: counters
//! move by little. Of size 9..=15 it is the highest 1..=7 bytes, and all below are
//! zero: so do many floats. What did not change takes nothing; what did, one byte
//! and 1 to 8 for the change. A counter that went from 1000 to 1100, first of all
//! numbers, is `01 c8`: nothing passed over, one byte, and 200 is 100 in zigzag.

#![allow(
    clippy::big_endian_bytes,
    clippy::little_endian_bytes,
    reason = "chunks are encoded here alone"
)]

use crate::source::{Values, low_half};

/// Bytes that are no sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a sample cannot be read")]
pub(crate) struct Damaged;

/// A number of a source: where it is, and how wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The index among the source's values.
    pub index: u32,
    /// Only the lower four bytes of the word are its value.
    pub narrow: bool,
}

/// Which values of a source are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Gather {
    /// The number of the source.
    pub source: usize,
    /// Its numbers.
    pub cells: Vec<Cell>,
    /// Its strings, as indexes among the source's values.
    pub texts: Vec<u32>,
}

/// The values of a tick, by the number of the source.
type Now<'v> = [Option<&'v Values>];

impl Gather {
    /// Those of its source.
    fn values<'v>(&self, now: &Now<'v>) -> Option<&'v Values> {
        now.get(self.source).copied().flatten()
    }

    /// About how many bytes it takes.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + size_of::<Cell>() * self.cells.capacity() + 4 * self.texts.capacity()
    }
}

/// Appends what differs between `known` and the values `now`, and brings `known`
/// up to date. There is one of `known` for each of `gathers`; a source that is not
/// there stays as it was.
pub(crate) fn encode(gathers: &[Gather], known: &mut [Values], now: &Now<'_>, out: &mut Vec<u8>) {
    encode_numbers(gathers, known, now, out);
    encode_presence(gathers, known, now, out);
    encode_texts(gathers, known, now, out);
}

fn encode_numbers(gathers: &[Gather], known: &mut [Values], now: &Now<'_>, out: &mut Vec<u8>) {
    let mut passed = 0;
    for (gather, known) in gathers.iter().zip(known) {
        let Some(now) = gather.values(now) else {
            passed += gather.cells.len();
            continue;
        };
        let words = now.words();
        for (cell, was) in gather.cells.iter().zip(known.words_mut()) {
            let word = words.get(cell.index as usize).copied().unwrap_or(0);
            let is = if cell.narrow { u64::from(low_half(word)) } else { word };
            if is == *was {
                passed += 1;
                continue;
            }
            put_change(passed, is.wrapping_sub(*was), out);
            (*was, passed) = (is, 0);
        }
    }
    out.push(0);
}

fn put_change(passed: usize, change: u64, out: &mut Vec<u8>) {
    let bytes = change.cast_signed();
    let zigzag = ((bytes << 1) ^ (bytes >> 63)).cast_unsigned();
    let low = 8 - (zigzag.leading_zeros() / 8) as usize;
    let high = 8 - (change.trailing_zeros() / 8) as usize;
    let (size, bytes, len) = if high < low {
        (8 + high, change.to_be_bytes(), high)
    } else {
        (low, zigzag.to_le_bytes(), low)
    };
    out.push((passed.min(15) << 4 | size) as u8);
    if let Some(more) = passed.checked_sub(15) {
        put_varint(more as u64, out);
    }
    out.extend_from_slice(&bytes[..len]);
}

fn encode_presence(gathers: &[Gather], known: &mut [Values], now: &Now<'_>, out: &mut Vec<u8>) {
    let mut passed = 0;
    for (gather, known) in gathers.iter().zip(known) {
        let Some(now) = gather.values(now) else {
            passed += gather.cells.len() + gather.texts.len();
            continue;
        };
        let cells = gather.cells.iter().map(|cell| cell.index);
        for (place, index) in cells.chain(gather.texts.iter().copied()).enumerate() {
            passed += 1;
            if known.is_present(place) != now.is_present(index as usize) {
                known.flip(place);
                put_varint(passed as u64, out);
                passed = 0;
            }
        }
    }
    out.push(0);
}

fn encode_texts(gathers: &[Gather], known: &mut [Values], now: &Now<'_>, out: &mut Vec<u8>) {
    let mut passed = 0;
    for (gather, known) in gathers.iter().zip(known) {
        let Some(now) = gather.values(now) else {
            passed += gather.texts.len() as u64;
            continue;
        };
        for (number, &index) in gather.texts.iter().enumerate() {
            passed += 1;
            let text = now.text(index as usize);
            if text != known.text(gather.cells.len() + number) {
                known.set_text(number, text);
                put_varint(passed, out);
                put_varint(text.len() as u64, out);
                out.extend_from_slice(text);
                passed = 0;
            }
        }
    }
    out.push(0);
}

/// Appends a number in groups of seven bits, the lowest first.
pub(crate) fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Samples that are read one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    /// All samples in `bytes`.
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    /// Whether there are more bytes.
    pub(crate) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// The next number that [`put_varint`] has put.
    ///
    /// # Errors
    ///
    /// [`Damaged`] if there is none.
    pub(crate) fn varint(&mut self) -> Result<u64, Damaged> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Damaged)
    }

    /// Changes `values` to what they were at the next sample. True if a record
    /// needs another shape for them.
    ///
    /// # Errors
    ///
    /// [`Damaged`]; then `values` are of no use.
    pub(crate) fn sample(&mut self, values: &mut [Values]) -> Result<bool, Damaged> {
        self.numbers(values)?;
        let flipped = self.presence(values)?;
        let resized = self.texts(values)?;
        Ok(flipped || resized)
    }

    fn numbers(&mut self, values: &mut [Values]) -> Result<(), Damaged> {
        let mut words = values.iter_mut().flat_map(Values::words_mut);
        loop {
            let [head] = self.array()?;
            let size = usize::from(head & 15);
            if size == 0 {
                return Ok(());
            }
            let mut passed = u64::from(head >> 4);
            if passed == 15 {
                passed = self.varint()?.checked_add(15).ok_or(Damaged)?;
            }
            let change = self.change(size)?;
            let passed = usize::try_from(passed).map_err(|_| Damaged)?;
            let word = words.nth(passed).ok_or(Damaged)?;
            *word = word.wrapping_add(change);
        }
    }

    fn change(&mut self, size: usize) -> Result<u64, Damaged> {
        let mut bytes = [0; 8];
        if let Some(high @ 1..) = size.checked_sub(8) {
            bytes[..high].copy_from_slice(self.take(high)?);
            return Ok(u64::from_be_bytes(bytes));
        }
        bytes[..size].copy_from_slice(self.take(size)?);
        let zigzag = u64::from_le_bytes(bytes);
        Ok((zigzag >> 1) ^ (zigzag & 1).wrapping_neg())
    }

    fn presence(&mut self, values: &mut [Values]) -> Result<bool, Damaged> {
        let (mut any, mut place) = (false, Place::default());
        while let Some(passed) = self.varint()?.checked_sub(1) {
            let (source, index) = place.pass(passed, values, Values::len).ok_or(Damaged)?;
            any = true;
            if !values.get_mut(source).is_some_and(|values| values.flip(index)) {
                return Err(Damaged);
            }
        }
        Ok(any)
    }

    fn texts(&mut self, values: &mut [Values]) -> Result<bool, Damaged> {
        let (mut any, mut place) = (false, Place::default());
        while let Some(passed) = self.varint()?.checked_sub(1) {
            let (source, number) = place.pass(passed, values, Values::texts).ok_or(Damaged)?;
            let len = usize::try_from(self.varint()?).map_err(|_| Damaged)?;
            let text = self.take(len)?;
            let values = values.get_mut(source).ok_or(Damaged)?;
            any |= values.set_text(number, text).ok_or(Damaged)?;
        }
        Ok(any)
    }

    fn take(&mut self, len: usize) -> Result<&'b [u8], Damaged> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        self.take(N)?.try_into().map_err(|_| Damaged)
    }
}

/// How far a list has come: the source, and the index in it of what is next.
#[derive(Debug, Default)]
struct Place {
    source: usize,
    next: usize,
}

impl Place {
    /// Skips this many values; returns source and index of the next one.
    fn pass(
        &mut self,
        passed: u64,
        values: &[Values],
        len: impl Fn(&Values) -> usize,
    ) -> Option<(usize, usize)> {
        let mut index = usize::try_from(passed).ok()?.checked_add(self.next)?;
        loop {
            let len = len(values.get(self.source)?);
            if index < len {
                self.next = index + 1;
                return Some((self.source, index));
            }
            index -= len;
            (self.source, self.next) = (self.source + 1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gather(source: usize, cells: u32, texts: u32) -> Gather {
        let cell = |index| Cell { index, narrow: false };
        Gather {
            source,
            cells: (0..cells).map(cell).collect(),
            texts: (cells..cells + texts).collect(),
        }
    }

    fn encoded(gathers: &[Gather], known: &mut [Values], now: &[Option<&Values>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(gathers, known, now, &mut bytes);
        bytes
    }

    #[test]
    fn a_change_takes_its_bytes_and_what_stays_takes_none() {
        let gathers = [gather(0, 20, 0)];
        let mut known = [Values::blank(20, 0)];
        let mut now = Values::blank(20, 0);
        assert_eq!(encoded(&gathers, &mut known, &[Some(&now)]), [0, 0, 0]);
        now.words_mut()[0] = 100;
        now.words_mut()[3] = u64::MAX;
        now.words_mut()[19] = 1.5f64.to_bits();
        let expected = [0x01, 200, 0x21, 1, 0xfa, 0, 0x3f, 0xf8, 0, 0, 0];
        assert_eq!(encoded(&gathers, &mut known, &[Some(&now)]), expected);
        assert_eq!(known[0].words(), now.words());
        assert_eq!(encoded(&gathers, &mut known, &[Some(&now)]), [0, 0, 0]);
    }

    #[test]
    fn only_the_lower_half_of_a_narrow_number_counts() {
        let cells = vec![Cell { index: 0, narrow: true }];
        let gathers = [Gather { source: 0, cells, texts: Vec::new() }];
        let now = Values::of_words(&[0xdead_0000_0005]);
        let mut known = [Values::blank(1, 0)];
        assert_eq!(encoded(&gathers, &mut known, &[Some(&now)]), [0x01, 10, 0, 0, 0]);
    }

    /// Values of two sources with three numbers and two strings each.
    fn any_values() -> impl Strategy<Value = Vec<Values>> {
        let number = prop_oneof![any::<u64>(), 0..300u64, any::<f64>().prop_map(f64::to_bits)];
        let text = "[a-z]{0,9}";
        let one = (
            prop::collection::vec(number, 3),
            prop::collection::vec(text, 2),
            prop::collection::vec(any::<bool>(), 5),
        );
        let one = one.prop_map(|(words, texts, absent)| {
            let mut values = Values::blank(3, 2);
            values.words_mut().copy_from_slice(&words);
            for (number, text) in texts.iter().enumerate() {
                values.set_text(number, text.as_bytes());
            }
            for (index, _) in absent.iter().enumerate().filter(|(_, absent)| **absent) {
                values.flip(index);
            }
            values
        });
        prop::collection::vec(one, 2)
    }

    fn same(one: &Values, other: &Values) -> bool {
        one.words() == other.words()
            && (0..5).all(|index| one.is_present(index) == other.is_present(index))
            && (3..5).all(|index| one.text(index) == other.text(index))
    }

    proptest! {
        #[test]
        fn samples_are_read_as_they_were_taken(
            samples in prop::collection::vec((any_values(), any::<bool>()), 1..8),
        ) {
            let gathers = [gather(0, 3, 2), gather(1, 3, 2)];
            let blank = || vec![Values::blank(3, 2), Values::blank(3, 2)];
            let (mut known, mut found, mut bytes) = (blank(), blank(), Vec::new());
            let mut expected = Vec::new();
            for (sample, whole) in &samples {
                let now = [whole.then_some(&sample[0]), Some(&sample[1])];
                encode(&gathers, &mut known, &now, &mut bytes);
                expected.push((*whole, sample));
            }
            let mut reader = Reader::new(&bytes);
            for (whole, sample) in expected {
                reader.sample(&mut found).unwrap();
                prop_assert!(!whole || same(&found[0], &sample[0]));
                prop_assert!(same(&found[1], &sample[1]));
            }
            prop_assert!(reader.is_at_end());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut values = vec![Values::blank(3, 2), Values::blank(3, 2)];
            let mut reader = Reader::new(&bytes);
            while !reader.is_at_end() && reader.sample(&mut values).is_ok() {}
        }
    }

    #[test]
    fn a_number_in_groups_of_seven_bits_comes_back() {
        for number in [0, 1, 127, 128, 300, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(number, &mut bytes);
            assert_eq!(Reader::new(&bytes).varint(), Ok(number));
        }
        assert_eq!(Reader::new(&[0x80]).varint(), Err(Damaged));
        assert_eq!(Reader::new(&[0x80; 11]).varint(), Err(Damaged));
    }
}
