//! Chunks of samples as Prometheus stores them (`tsdb/docs/format/chunks.md`, `XOR`).
//!
//! | bits | content |
//! |---|---|
//! | 16 | number of samples |
//! | varint | time of the first sample, zigzag |
//! | 64 | its value |
//! | uvarint | from the first time to the second |
//! | .. | the second value |
//! | .. | for each other sample: the change of the distance in time, then the value |
//!
//! A change of distance is `0` if there is none, else `10`, `110`, `1110` or `1111` and 14, 17,
//! 20 or 64 bits. A value is the exclusive or with the one before: `0` if that is 0, `10` and
//! its bits if they are within those of the one before, else `11`, 5 bits with the number of
//! leading zeros, 6 bits with that of the bits that follow (0 is 64), and these.

/// The number of samples that Prometheus puts into a chunk.
pub(super) const SAMPLES: usize = 120;

/// Encodes at most 65535 samples with rising times.
pub(super) fn encode(samples: &[(i64, f64)]) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.push(samples.len() as u64, 16);
    let mut time = 0_i64;
    let mut distance = 0_i64;
    let mut value = Xor::default();
    for (place, &(at, number)) in samples.iter().enumerate() {
        let now = at.wrapping_sub(time);
        match place {
            0 => {
                bits.uvarint((at << 1 ^ at >> 63).cast_unsigned());
                bits.push(number.to_bits(), 64);
                value.before = number.to_bits();
            }
            1 => {
                bits.uvarint(now.cast_unsigned());
                value.push(number.to_bits(), &mut bits);
            }
            _ => {
                push_change(now.wrapping_sub(distance), &mut bits);
                value.push(number.to_bits(), &mut bits);
            }
        }
        time = at;
        distance = if place == 0 { 0 } else { now };
    }
    bits.bytes
}

/// Appends the change of the distance in time.
fn push_change(change: i64, bits: &mut Bits) {
    match change {
        0 => bits.push(0, 1),
        -0x1fff..=0x2000 => {
            bits.push(0b10, 2);
            bits.push(change.cast_unsigned(), 14);
        }
        -0xffff..=0x1_0000 => {
            bits.push(0b110, 3);
            bits.push(change.cast_unsigned(), 17);
        }
        -0x7_ffff..=0x8_0000 => {
            bits.push(0b1110, 4);
            bits.push(change.cast_unsigned(), 20);
        }
        _ => {
            bits.push(0b1111, 4);
            bits.push(change.cast_unsigned(), 64);
        }
    }
}

/// The previous value, and the window of the last exclusive or that was written in full.
#[derive(Default)]
struct Xor {
    before: u64,
    window: Option<(u32, u32)>,
}

impl Xor {
    fn push(&mut self, value: u64, bits: &mut Bits) {
        let xor = value ^ std::mem::replace(&mut self.before, value);
        if xor == 0 {
            bits.push(0, 1);
            return;
        }
        // Only five bits are available.
        let leading = xor.leading_zeros().min(31);
        let trailing = xor.trailing_zeros();
        if let Some((known_leading, known_trailing)) = self.window
            && leading >= known_leading
            && trailing >= known_trailing
        {
            bits.push(0b10, 2);
            bits.push(xor >> known_trailing, 64 - known_leading - known_trailing);
            return;
        }
        self.window = Some((leading, trailing));
        let width = 64 - leading - trailing;
        bits.push(0b11, 2);
        bits.push(leading.into(), 5);
        bits.push(u64::from(width) & 63, 6);
        bits.push(xor >> trailing, width);
    }
}

/// A writer of bits, the highest of each byte first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    /// The number of free bits in the last byte.
    free: u32,
}

impl Bits {
    /// Appends the lowest bits of a number, at most 64.
    fn push(&mut self, number: u64, mut width: u32) {
        while width > 0 {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = 8;
            }
            let count = self.free.min(width);
            let part = (number >> (width - count)) & ((1 << count) - 1);
            if let Some(last) = self.bytes.last_mut() {
                *last |= (part as u8) << (self.free - count);
            }
            self.free -= count;
            width -= count;
        }
    }

    fn uvarint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.push(number & 0x7f | 0x80, 8);
            number >>= 7;
        }
        self.push(number, 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A reader of the same format, written from its description.
    struct Reader<'b> {
        bytes: &'b [u8],
        at: usize,
    }

    impl Reader<'_> {
        fn bit(&mut self) -> u64 {
            let bit = self.bytes[self.at / 8] >> (7 - self.at % 8) & 1;
            self.at += 1;
            bit.into()
        }

        fn bits(&mut self, width: u32) -> u64 {
            (0..width).fold(0, |number, _| number << 1 | self.bit())
        }

        fn uvarint(&mut self) -> u64 {
            let mut number = 0;
            let mut shift = 0;
            loop {
                let byte = self.bits(8);
                number |= (byte & 0x7f) << shift;
                if byte < 0x80 {
                    return number;
                }
                shift += 7;
            }
        }

        fn change(&mut self) -> i64 {
            let ones = (0..4).take_while(|_| self.bit() == 1).count();
            let width = [0, 14, 17, 20, 64][ones];
            let number = self.bits(width);
            let is_negative = width > 0 && width < 64 && number > 1 << (width - 1);
            if is_negative { number as i64 - (1 << width) } else { number as i64 }
        }
    }

    fn decode(bytes: &[u8]) -> Vec<(i64, u64)> {
        let mut reader = Reader { bytes, at: 0 };
        let count = reader.bits(16);
        let mut time = 0_i64;
        let mut distance = 0_i64;
        let mut value = 0_u64;
        let mut leading = 0;
        let mut trailing = 0;
        let mut samples = Vec::new();
        for place in 0..count {
            if place == 0 {
                let zigzag = reader.uvarint();
                time = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
                value = reader.bits(64);
                samples.push((time, value));
                continue;
            }
            distance = if place == 1 {
                reader.uvarint() as i64
            } else {
                distance.wrapping_add(reader.change())
            };
            time = time.wrapping_add(distance);
            if reader.bit() == 1 {
                if reader.bit() == 1 {
                    leading = reader.bits(5) as u32;
                    let width = match reader.bits(6) as u32 {
                        0 => 64,
                        width => width,
                    };
                    trailing = 64 - leading - width;
                }
                value ^= reader.bits(64 - leading - trailing) << trailing;
            }
            samples.push((time, value));
        }
        samples
    }

    proptest! {
        /// forall samples: decode(encode(samples)) = samples
        #[test]
        fn chunks_decode_to_what_was_encoded(
            start in -(1_i64 << 42)..1 << 42,
            steps in proptest::collection::vec((1_i64..1 << 22, any::<u64>()), 0..200),
        ) {
            let mut time = start;
            let samples: Vec<(i64, f64)> = steps.iter().map(|(step, bits)| {
                time += step;
                (time, f64::from_bits(*bits))
            }).collect();
            let expected: Vec<_> = samples.iter().map(|(at, value)| (*at, value.to_bits())).collect();
            prop_assert_eq!(decode(&encode(&samples)), expected);
        }

        #[test]
        fn values_that_hardly_change_decode_too(values in proptest::collection::vec(0_u32..4, 2..130)) {
            let samples: Vec<(i64, f64)> =
                (0..).map(|n| n * 1_000).zip(values.iter().map(|value| f64::from(*value))).collect();
            let expected: Vec<_> = samples.iter().map(|(at, value)| (*at, value.to_bits())).collect();
            prop_assert_eq!(decode(&encode(&samples)), expected);
        }
    }

    #[test]
    fn a_constant_takes_two_bits_a_sample() {
        let samples: Vec<(i64, f64)> = (0..SAMPLES as i64).map(|n| (n * 1_000, 7.0)).collect();
        // 2 bytes, time and value of the first, the first distance; then 2 bits each.
        assert_eq!(encode(&samples).len(), (16 + 8 + 64 + 16 + 1 + 118 * 2_usize).div_ceil(8));
    }
}
