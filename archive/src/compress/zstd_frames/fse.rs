//! Finite state entropy, the entropy coder of zstd: symbols of few bits, of which a
//! frequent one takes a fraction of a bit (RFC 8878, section 4.1).

use super::bits::BitWriter;

/// The longest table of any use.
const MAX_LOG: u32 = 9;
/// The shortest that can be described.
pub(super) const MIN_LOG: u32 = 5;
/// No alphabet of zstd that is coded in this way has more symbols.
pub(super) const MAX_SYMBOLS: usize = 64;

/// How often each symbol is in a table of `1 << log` states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Distribution {
    log: u32,
    /// Up to the last symbol that occurs.
    shares: Vec<u16>,
}

impl Distribution {
    /// One for symbols that occur so often; `None` if fewer than two do.
    pub(super) fn of(counts: &[u32], most_log: u32) -> Option<Self> {
        let used = counts.iter().filter(|count| **count > 0).count();
        if used < 2 {
            return None;
        }
        let symbols = counts.iter().rposition(|count| *count > 0)? + 1;
        let counts = counts.get(..symbols)?;
        let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        // Finer shares than the numbers themselves have are of no use.
        let fine = total.ilog2().saturating_sub(1);
        let needed = used.next_power_of_two().ilog2() + 1;
        let log = fine.max(needed).clamp(MIN_LOG, most_log);
        let size = 1_i64 << log;
        let share = |count: u32| match (u64::from(count) << log) / total {
            0 if count > 0 => 1,
            share => share as u16,
        };
        let mut shares: Vec<u16> = counts.iter().map(|count| share(*count)).collect();
        let mut left = size - shares.iter().map(|share| i64::from(*share)).sum::<i64>();
        // What was rounded goes to the symbols for which it makes the largest difference, or
        // comes from those where it makes the smallest.
        while left != 0 {
            let step = left.signum();
            let gain = |(symbol, share): &(usize, &u16)| {
                let count = f64::from(counts.get(*symbol).copied().unwrap_or(0));
                let share = f64::from(**share);
                count * ((share + step as f64) / share).log2()
            };
            let may = |(_, share): &(usize, &u16)| **share > 1 || (step > 0 && **share > 0);
            let all = shares.iter().enumerate().filter(may);
            let best = all.max_by(|one, other| gain(one).total_cmp(&gain(other)))?.0;
            let share = shares.get_mut(best)?;
            *share = share.checked_add_signed(step as i16)?;
            left -= step;
        }
        Some(Self { log, shares })
    }

    /// Writes it, as section 4.1.1 of the RFC has it.
    pub(super) fn describe(&self, out: &mut Vec<u8>) {
        let (mut bits, mut count) = (0_u64, 0);
        let mut add = |value: u32, width: u32| {
            bits |= u64::from(value) << count;
            count += width;
            while count >= 8 {
                out.push(bits as u8);
                bits >>= 8;
                count -= 8;
            }
        };
        add(self.log - MIN_LOG, 4);
        let mut left = (1_u32 << self.log) + 1;
        let mut width = self.log + 1;
        let mut symbols = self.shares.iter().peekable();
        while let Some(share) = symbols.next() {
            let share = u32::from(*share);
            // Small numbers take a bit less, as far as the remaining range has room.
            let limit = 1 << (width - 1);
            let short = 2 * limit - 1 - left;
            let value = share + 1;
            match value {
                value if value < short => add(value, width - 1),
                value if value < limit => add(value, width),
                value => add(value + short, width),
            }
            left -= share;
            if share == 0 {
                let mut zeros = 0;
                while symbols.next_if(|share| **share == 0).is_some() {
                    zeros += 1;
                }
                (0..zeros / 3).for_each(|_| add(3, 2));
                add(zeros % 3, 2);
            }
            while left > 1 && left < 1 << (width - 1) {
                width -= 1;
            }
        }
        if count > 0 {
            out.push(bits as u8);
        }
    }
}

/// How a symbol moves a state.
#[derive(Debug, Clone, Copy, Default)]
struct Move {
    /// The number of bits to write, in the upper half: that of a state is in the upper half
    /// of its sum with this.
    bits: u32,
    /// Where the symbol's states begin, less the least of what is left of a state.
    first: i32,
}

/// The states of an encoder.
#[derive(Debug)]
pub(super) struct Table {
    log: u32,
    next: [u16; 1 << MAX_LOG],
    moves: [Move; MAX_SYMBOLS],
}

impl Table {
    /// The table of a distribution, which decoders make as well.
    pub(super) fn new(distribution: &Distribution) -> Self {
        let log = distribution.log;
        let size = 1_usize << log;
        let mut spread = [0_u8; 1 << MAX_LOG];
        let step = (size >> 1) + (size >> 3) + 3;
        let mut place = 0;
        for (symbol, share) in (0_u8..).zip(&distribution.shares) {
            for _ in 0..*share {
                if let Some(state) = spread.get_mut(place) {
                    *state = symbol;
                }
                place = (place + step) & (size - 1);
            }
        }
        let mut table =
            Self { log, next: [0; 1 << MAX_LOG], moves: [Move::default(); MAX_SYMBOLS] };
        let mut begins = [0_usize; MAX_SYMBOLS];
        let mut total = 0;
        let all = begins.iter_mut().zip(&mut table.moves).zip(&distribution.shares);
        for ((begin, step), share) in all {
            *begin = total;
            *step = Move::new(log, *share, total);
            total += usize::from(*share);
        }
        for (state, symbol) in spread.iter().take(size).enumerate() {
            let Some(begin) = begins.get_mut(usize::from(*symbol)) else { continue };
            if let Some(next) = table.next.get_mut(*begin) {
                *next = (size + state) as u16;
            }
            *begin += 1;
        }
        table
    }

    /// The state in which a decoder has read a symbol last.
    pub(super) fn start(&self, symbol: u8) -> u32 {
        let step = self.step(symbol);
        let count = step.bits.wrapping_add(1 << 15) >> 16;
        self.after((count << 16).wrapping_sub(step.bits), count, step)
    }

    /// Goes to the state from which a decoder reads a symbol and comes to this one.
    pub(super) fn encode(&self, state: &mut u32, symbol: u8, bits: &mut BitWriter) {
        let step = self.step(symbol);
        let count = state.wrapping_add(step.bits) >> 16;
        bits.add(u64::from(*state), count);
        *state = self.after(*state, count, step);
    }

    /// Writes the state that a decoder begins with.
    pub(super) fn finish(&self, state: u32, bits: &mut BitWriter) {
        bits.add(u64::from(state), self.log);
    }

    fn step(&self, symbol: u8) -> Move {
        self.moves.get(usize::from(symbol)).copied().unwrap_or_default()
    }

    fn after(&self, state: u32, count: u32, step: Move) -> u32 {
        let at = (state >> count).wrapping_add_signed(step.first) as usize;
        u32::from(self.next.get(at).copied().unwrap_or_default())
    }
}

impl Move {
    fn new(log: u32, share: u16, begin: usize) -> Self {
        let share = u32::from(share);
        let first = begin as i32 - share as i32;
        match share {
            0 => Self::default(),
            1 => Self { bits: (log << 16) - (1 << log), first },
            _ => {
                let most = log - (share - 1).ilog2();
                Self { bits: (most << 16) - (share << most), first }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_no_symbol_that_occurs_has_none() {
        let cases: [&[u32]; 5] = [
            &[1, 1],
            &[1_000_000, 1, 0, 0, 0, 0, 0, 3],
            &[1; 53],
            &[0, 0, 7, 0, 0, 0, 0, 0, 0, 9, 100],
            &[u32::MAX, u32::MAX, 5],
        ];
        for counts in cases {
            for most in 6..=9 {
                let found = Distribution::of(counts, most).unwrap();
                let sum: u32 = found.shares.iter().map(|share| u32::from(*share)).sum();
                assert_eq!(sum, 1 << found.log);
                for (count, share) in counts.iter().zip(&found.shares) {
                    assert_eq!(*count > 0, *share > 0, "{counts:?}: {found:?}");
                }
            }
        }
        assert_eq!(Distribution::of(&[0, 5, 0], 9), None);
        assert_eq!(Distribution::of(&[], 9), None);
    }

    /// Reads a description as the RFC says.
    fn read(bytes: &[u8]) -> (u32, Vec<u16>, usize) {
        let mut at = 0;
        let peek = |at: usize, count: u32| {
            (0..count).fold(0, |found, bit| {
                let place = at + bit as usize;
                let byte = bytes.get(place / 8).copied().unwrap_or(0);
                found | u32::from(byte >> (place % 8) & 1) << bit
            })
        };
        let log = peek(at, 4) + 5;
        at += 4;
        let (mut left, mut shares) = ((1 << log) + 1, Vec::new());
        while left > 1 {
            let width = u32::ilog2(left) + 1;
            let limit = 1 << (width - 1);
            let short = 2 * limit - 1 - left;
            let low = peek(at, width - 1);
            let value = if low < short {
                at += width as usize - 1;
                low
            } else {
                let value = peek(at, width);
                at += width as usize;
                if value >= limit { value - short } else { value }
            };
            let share = value - 1;
            left -= share;
            shares.push(share as u16);
            if share == 0 {
                loop {
                    let zeros = peek(at, 2);
                    at += 2;
                    shares.extend((0..zeros).map(|_| 0));
                    if zeros < 3 {
                        break;
                    }
                }
            }
        }
        (log, shares, at.div_ceil(8))
    }

    #[test]
    fn a_description_is_read_as_it_was() {
        let mut random = 1_u32;
        for case in 0..2_000_u32 {
            let mut next = |below: u32| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (random >> 8) % below
            };
            let symbols = 2 + next(50);
            let counts: Vec<u32> =
                (0..symbols).map(|_| if next(3) == 0 { 0 } else { 1 << next(20) }).collect();
            let most = MIN_LOG + 1 + case % 4;
            let Some(made) = Distribution::of(&counts, most) else { continue };
            let mut out = Vec::new();
            made.describe(&mut out);
            assert_eq!(read(&out), (made.log, made.shares, out.len()), "{counts:?}");
        }
    }
}
