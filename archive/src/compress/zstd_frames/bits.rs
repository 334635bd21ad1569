//! Bits as zstd reads them: from the last one back.

use zerocopy::little_endian::U64;

/// A stream of bits, which is read backwards: what is added last is read first.
#[derive(Debug, Default)]
pub(super) struct BitWriter {
    /// Whole bytes; those after `len` are room for the next ones.
    bytes: Vec<u8>,
    len: usize,
    /// Bits that are no whole bytes yet, the first one lowest.
    waiting: u64,
    count: u32,
}

impl BitWriter {
    /// Adds the lowest `count` bits of `value`, at most 56 since the last
    /// [`flush`](Self::flush).
    pub(super) fn add(&mut self, value: u64, count: u32) {
        self.waiting |= (value & ((1 << count) - 1)) << self.count;
        self.count += count;
    }

    /// Makes room for 56 further bits.
    pub(super) fn flush(&mut self) {
        if self.bytes.len() < self.len + 8 {
            self.bytes.resize(2 * self.len + 1024, 0);
        }
        if let Some(room) = self.bytes.get_mut(self.len..self.len + 8) {
            room.copy_from_slice(&U64::new(self.waiting).to_bytes());
        }
        let whole = self.count & !7;
        self.waiting >>= whole;
        self.count &= 7;
        self.len += whole as usize / 8;
    }

    /// The bytes with a last bit that marks the end; the writer is empty then.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.flush();
        self.add(1, 1);
        self.add(0, 7);
        self.flush();
        out.extend_from_slice(self.bytes.get(..self.len).unwrap_or_default());
        (self.len, self.waiting, self.count) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_fill_bytes_from_the_lowest_and_a_one_follows_the_last() {
        let mut bits = BitWriter::default();
        bits.add(0b101, 3);
        bits.add(0xffff_ffff_ffff_fff0, 5);
        bits.add(0x1234, 16);
        let mut out = vec![9];
        bits.finish(&mut out);
        assert_eq!(out, [9, 0b1000_0101, 0x34, 0x12, 1]);
        bits.add(0b11, 2);
        out.clear();
        bits.finish(&mut out);
        assert_eq!(out, [0b111], "the writer was empty");
    }

    #[test]
    fn a_long_stream_has_all_bits() {
        let mut bits = BitWriter::default();
        for number in 0..10_000 {
            bits.add(number, 55);
            bits.flush();
        }
        let mut out = Vec::new();
        bits.finish(&mut out);
        assert_eq!(out.len(), (10_000 * 55 + 1_usize).div_ceil(8));
        let at = |bit: usize| u64::from(out[bit / 8] >> (bit % 8) & 1);
        for number in [0, 1, 4711, 9_999] {
            let found = (0..55).fold(0, |found, bit| found | at(number * 55 + bit) << bit);
            assert_eq!(found, number as u64);
        }
    }
}
