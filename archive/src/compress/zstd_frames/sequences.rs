//! Matches and the lengths of the literals before them (RFC 8878, section 3.1.1.3.2).

use super::bits::BitWriter;
use super::fse::{Distribution, MAX_SYMBOLS, Table};

/// How fine the distributions may be: of the lengths of literals, of distances, of the
/// lengths of matches.
const LOGS: [u32; 3] = [9, 8, 9];
/// Table modes.
const ONE_SYMBOL: u8 = 1;
const DESCRIBED: u8 = 2;

/// The shortest match.
pub(super) const MIN_MATCH: usize = 3;

/// From which length on each code with further bits is, and how many these are.
const LITERALS: [(u32, u32); 20] = [
    (16, 1),
    (18, 1),
    (20, 1),
    (22, 1),
    (24, 2),
    (28, 2),
    (32, 3),
    (40, 3),
    (48, 4),
    (64, 6),
    (128, 7),
    (256, 8),
    (512, 9),
    (1024, 10),
    (2048, 11),
    (4096, 12),
    (8192, 13),
    (16384, 14),
    (32768, 15),
    (65536, 16),
];
/// The same of matches, less the shortest.
const MATCHES: [(u32, u32); 21] = [
    (32, 1),
    (34, 1),
    (36, 1),
    (38, 1),
    (40, 2),
    (44, 2),
    (48, 3),
    (56, 3),
    (64, 4),
    (80, 4),
    (96, 5),
    (128, 7),
    (256, 8),
    (512, 9),
    (1024, 10),
    (2048, 11),
    (4096, 12),
    (8192, 13),
    (16384, 14),
    (32768, 15),
    (65536, 16),
];

/// Literals and the match that follows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sequence {
    /// How many literals.
    pub literals: u32,
    /// How many bytes are as before, at least [`MIN_MATCH`].
    pub len: u32,
    /// How many bytes before.
    pub distance: u32,
}

/// A number as a code and further bits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Code {
    symbol: u8,
    bits: u32,
    count: u32,
}

/// The three numbers of a sequence.
pub(super) type Codes = [Code; 3];

impl Code {
    fn of(value: u32, table: &[(u32, u32)], direct: u32) -> Self {
        if value < direct {
            return Self { symbol: value as u8, bits: 0, count: 0 };
        }
        let place = table.partition_point(|(from, _)| *from <= value).saturating_sub(1);
        let (from, count) = table.get(place).copied().unwrap_or_default();
        Self { symbol: (direct as usize + place) as u8, bits: value - from, count }
    }

    fn of_distance(value: u32) -> Self {
        let count = value.max(1).ilog2();
        Self { symbol: count as u8, bits: value - (1 << count), count }
    }
}

/// The distances of the last matches, which have short codes (RFC 8878, section 3.1.1.5).
#[derive(Debug, Clone, Copy)]
pub(super) struct Repeated([u32; 3]);

impl Default for Repeated {
    /// What a frame begins with.
    fn default() -> Self {
        Self([1, 4, 8])
    }
}

impl Repeated {
    /// The number that encodes a distance, which becomes the last one.
    fn number(&mut self, distance: u32, has_literals: bool) -> u32 {
        let [first, second, third] = self.0;
        let place = self.0.iter().position(|known| *known == distance);
        match place {
            Some(0) if has_literals => return 1,
            Some(1) => self.0 = [second, first, third],
            Some(2) => self.0 = [third, first, second],
            // Without literals the last distance has no number: its match would have gone on.
            _ => {
                self.0 = [distance, first, second];
                return distance + 3;
            }
        }
        place.unwrap_or(0) as u32 + u32::from(has_literals)
    }
}

/// Writes sequences, and updates the repeated distances.
pub(super) fn encode(
    sequences: &[Sequence],
    repeated: &mut Repeated,
    codes: &mut Vec<Codes>,
    bits: &mut BitWriter,
    out: &mut Vec<u8>,
) {
    match sequences.len() {
        count @ 0..0x80 => out.push(count as u8),
        count @ 0x80..0x7f00 => out.extend([(count >> 8) as u8 + 0x80, count as u8]),
        count => out.extend([0xff, (count - 0x7f00) as u8, ((count - 0x7f00) >> 8) as u8]),
    }
    if sequences.is_empty() {
        return;
    }
    codes.clear();
    let mut counts = [[0_u32; MAX_SYMBOLS]; 3];
    for Sequence { literals, len, distance } in sequences {
        let distance = repeated.number(*distance, *literals > 0);
        let code = [
            Code::of(*literals, &LITERALS, 16),
            Code::of_distance(distance),
            Code::of(len - MIN_MATCH as u32, &MATCHES, 32),
        ];
        for (counts, code) in counts.iter_mut().zip(&code) {
            if let Some(count) = counts.get_mut(usize::from(code.symbol)) {
                *count += 1;
            }
        }
        codes.push(code);
    }
    let modes = out.len();
    out.push(0);
    let mut mode = 0;
    let tables = [0, 1, 2].map(|kind| {
        let counts = counts.get(kind).map_or(&[][..], |counts| counts);
        let most = LOGS.get(kind).copied().unwrap_or_default();
        let distribution = Distribution::of(counts, most);
        mode = mode << 2 | if distribution.is_some() { DESCRIBED } else { ONE_SYMBOL };
        match &distribution {
            Some(distribution) => distribution.describe(out),
            None => out.push(counts.iter().position(|count| *count > 0).unwrap_or(0) as u8),
        }
        distribution.as_ref().map(Table::new)
    });
    if let Some(byte) = out.get_mut(modes) {
        *byte = mode << 2;
    }
    write(&tables, codes, bits);
    bits.finish(out);
}

/// The numbers, from the last one back.
fn write(
    [literals, distances, matches]: &[Option<Table>; 3],
    codes: &[Codes],
    bits: &mut BitWriter,
) {
    let Some((last, others)) = codes.split_last() else { return };
    let start = |table: &Option<Table>, code: &Code| {
        table.as_ref().map_or(0, |table| table.start(code.symbol))
    };
    let [literal, distance, len] = last;
    let mut states = [start(literals, literal), start(distances, distance), start(matches, len)];
    further(last, bits);
    for code in others.iter().rev() {
        let [literal, distance, len] = code;
        let [literal_state, distance_state, len_state] = &mut states;
        for (table, state, code) in [
            (distances, distance_state, distance),
            (matches, len_state, len),
            (literals, literal_state, literal),
        ] {
            if let Some(table) = table {
                table.encode(state, code.symbol, bits);
            }
        }
        bits.flush();
        further(code, bits);
    }
    let [literal_state, distance_state, len_state] = states;
    for (table, state) in
        [(matches, len_state), (distances, distance_state), (literals, literal_state)]
    {
        if let Some(table) = table {
            table.finish(state, bits);
        }
    }
    bits.flush();
}

/// Bits that are not in the codes.
fn further([literal, distance, len]: &Codes, bits: &mut BitWriter) {
    if literal.count + len.count + distance.count == 0 {
        return;
    }
    bits.add(u64::from(literal.bits), literal.count);
    bits.add(u64::from(len.bits), len.count);
    bits.flush();
    bits.add(u64::from(distance.bits), distance.count);
    bits.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_that_come_again_have_numbers_that_depend_on_literals() {
        let mut repeated = Repeated::default();
        assert_eq!(repeated.number(100, true), 103);
        assert_eq!(repeated.number(100, true), 1);
        assert_eq!(repeated.number(1, true), 2);
        assert_eq!(repeated.number(100, false), 1);
        assert_eq!(repeated.number(4, false), 2);
        assert_eq!(repeated.0, [4, 100, 1]);
        assert_eq!(repeated.number(4, false), 7);
        assert_eq!(repeated.0, [4, 4, 100]);
    }

    #[test]
    fn codes_are_those_of_the_format() {
        let literal = |value| {
            let Code { symbol, bits, count } = Code::of(value, &LITERALS, 16);
            (symbol, bits, count)
        };
        assert_eq!(literal(15), (15, 0, 0));
        assert_eq!(literal(16), (16, 0, 1));
        assert_eq!(literal(23), (19, 1, 1));
        assert_eq!(literal(64), (25, 0, 6));
        assert_eq!(literal(131_071), (35, 65_535, 16));
        let matched = |len: u32| {
            let Code { symbol, bits, count } = Code::of(len - 3, &MATCHES, 32);
            (symbol, bits, count)
        };
        assert_eq!(matched(34), (31, 0, 0));
        assert_eq!(matched(36), (32, 1, 1));
        assert_eq!(matched(131), (43, 0, 7));
        assert_eq!(matched(131_074), (52, 65_535, 16));
        let distance = Code::of_distance(1_000_003);
        assert_eq!((distance.symbol, distance.bits), (19, 1_000_003 - (1 << 19)));
    }
}
