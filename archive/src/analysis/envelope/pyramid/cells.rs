//! The runs of one series, in little memory.
//!
//! A run is a row of six words. Of each [`BLOCK`] rows only the bytes are kept that are not
//! the same in all of them: an exponent, an even number of observations, the zeros of small
//! integers take no room. Minimum, maximum, last value and number of observations come back
//! as they were, the mean to within 2^-24 of the distance between minimum and maximum.

use std::ops::Range;

use crate::analysis::envelope::{Cell, Run};

/// The rows that are compressed together.
const BLOCK: usize = 64;
const WORDS: usize = 6;

/// Minimum, maximum and last value; the weight, or 0 for the usual one; the mean as a part of
/// the distance from minimum to maximum, and the number of observations; the columns between
/// the run before and this one, how many this one has apart from its first, and whether it is
/// joined.
type Row = [u64; WORDS];

const IS_JOINED: u64 = 1 << 63;
const LOW: u64 = 0xffff_ffff;

/// The usual weight of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Weight {
    /// One value for each observation.
    Count,
    /// The seconds of a column.
    Seconds(f64),
}

/// Runs in the order of their columns.
#[derive(Debug, Default)]
pub(super) struct Cells {
    blocks: Vec<CellBlock>,
    /// The rows after those of the blocks, fewer than one has.
    open: Vec<Row>,
    /// The column after the last one.
    end: u32,
}

#[derive(Debug)]
struct CellBlock {
    /// The column after its last one.
    end: u32,
    bytes: Box<[u8]>,
}

impl Cells {
    /// Adds a run of later columns.
    pub(super) fn push(&mut self, run: &Run, usual: Weight) {
        let row = row(run, self.end, usual);
        self.end = run.columns.end;
        self.open.push(row);
        if self.open.len() == BLOCK {
            let bytes = encode_rows(&self.open).into_boxed_slice();
            self.blocks.push(CellBlock { end: self.end, bytes });
            self.open.clear();
        }
    }

    pub(super) fn runs(&self, columns: Range<u32>, usual: Weight) -> Vec<Run> {
        let first = self.blocks.partition_point(|block| block.end <= columns.start);
        let mut end = first.checked_sub(1).and_then(|n| self.blocks.get(n)).map_or(0, |b| b.end);
        let mut runs = Vec::new();
        let mut add = |row: &Row, end: &mut u32| {
            let run = run(row, *end, usual);
            *end = run.columns.end;
            if run.columns.end > columns.start && run.columns.start < columns.end {
                runs.push(run);
            }
        };
        for block in self.blocks.get(first..).unwrap_or_default() {
            if end >= columns.end {
                return runs;
            }
            for row in &opened(&block.bytes) {
                add(row, &mut end);
            }
        }
        self.open.iter().for_each(|row| add(row, &mut end));
        runs
    }

    pub(super) fn take(&mut self, usual: Weight) -> Vec<Run> {
        std::mem::take(self).runs(0..u32::MAX, usual)
    }

    pub(super) fn bytes(&self) -> usize {
        let blocks: usize = self.blocks.iter().map(|block| block.bytes.len()).sum();
        blocks
            + self.blocks.capacity() * size_of::<CellBlock>()
            + self.open.capacity() * size_of::<Row>()
    }
}

fn row(run: &Run, end: u32, usual: Weight) -> Row {
    let Cell { minimum, maximum, last, count, joined, weight, .. } = run.cell;
    let is_usual = match usual {
        Weight::Count => true,
        // Sums of parts of a second are not exact.
        Weight::Seconds(seconds) => (weight - seconds).abs() <= 1e-9 * seconds,
    };
    let own = if is_usual { 0 } else { weight.to_bits() };
    let part = u64::from(part(run.cell.mean(), minimum, maximum).to_bits());
    let gap = u64::from(run.columns.start - end);
    let more = (run.columns.len() as u64 - 1) << 32;
    let joined = if joined { IS_JOINED } else { 0 };
    let observed = part | u64::from(count) << 32;
    [minimum.to_bits(), maximum.to_bits(), last.to_bits(), own, observed, gap | more | joined]
}

fn run(row: &Row, end: u32, usual: Weight) -> Run {
    let [minimum, maximum, last, own, observed, place] = *row;
    let [minimum, maximum, last] = [minimum, maximum, last].map(f64::from_bits);
    let count = (observed >> 32) as u32;
    let weight = match usual {
        _ if own > 0 => f64::from_bits(own),
        Weight::Count => f64::from(count),
        Weight::Seconds(seconds) => seconds,
    };
    let mean = at_part(f32::from_bits((observed & LOW) as u32), minimum, maximum);
    let start = end + (place & LOW) as u32;
    let columns = start..start + ((place & !IS_JOINED) >> 32) as u32 + 1;
    let joined = place & IS_JOINED != 0;
    let cell = Cell { minimum, maximum, last, count, joined, sum: mean * weight, weight };
    Run { columns, cell }
}

/// Returns where a value is between two others, from 0 to 1.
fn part(value: f64, least: f64, greatest: f64) -> f32 {
    if value <= least {
        return 0.0;
    }
    if value >= greatest {
        return 1.0;
    }
    // Halves, as the difference of the largest doubles is none.
    ((value / 2.0 - least / 2.0) / (greatest / 2.0 - least / 2.0)) as f32
}

/// Returns the value at a part of the way between two others.
fn at_part(part: f32, least: f64, greatest: f64) -> f64 {
    match part {
        0.0 => least,
        1.0 => greatest,
        part => 2.0 * (least / 2.0 + f64::from(part) * (greatest / 2.0 - least / 2.0)),
    }
}

/// Encodes rows: for each word a mask of the bytes that differ between rows, the first row, then
/// each differing byte for all rows.
fn encode_rows(rows: &[Row]) -> Vec<u8> {
    let first = rows.first().copied().unwrap_or_default();
    let mut differing = [0; WORDS];
    for row in rows {
        for (bits, (word, first)) in differing.iter_mut().zip(row.iter().zip(&first)) {
            *bits |= word ^ first;
        }
    }
    let mut bytes = Vec::with_capacity(WORDS + size_of::<Row>() + size_of_val(rows));
    let places = |bits: u64| (0..8).filter(move |place| bits >> (8 * place) & 0xff != 0);
    bytes.extend(differing.map(|bits| places(bits).fold(0, |mask, place| mask | 1 << place)));
    bytes
        .extend(first.iter().flat_map(|word| (0..8).map(move |place| (word >> (8 * place)) as u8)));
    for (number, bits) in differing.into_iter().enumerate() {
        for place in places(bits) {
            bytes.extend(rows.iter().map(|row| {
                let word = row.get(number).copied().unwrap_or_default();
                (word >> (8 * place)) as u8
            }));
        }
    }
    bytes
}

fn opened(bytes: &[u8]) -> [Row; BLOCK] {
    let (masks, rest) = bytes.split_at_checked(WORDS).unwrap_or_default();
    let (first, mut planes) = rest.split_at_checked(size_of::<Row>()).unwrap_or_default();
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(first.chunks_exact(8)) {
        *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    let mut rows = [words; BLOCK];
    for (number, mask) in masks.iter().enumerate() {
        for place in (0..8).filter(|place| mask >> place & 1 != 0) {
            let (plane, rest) = planes.split_at_checked(BLOCK).unwrap_or_default();
            planes = rest;
            for (row, byte) in rows.iter_mut().zip(plane) {
                if let Some(word) = row.get_mut(number) {
                    *word = *word & !(0xff << (8 * place)) | u64::from(*byte) << (8 * place);
                }
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![
            4 => (-1000i32..1000).prop_map(f64::from),
            2 => any::<f64>().prop_filter("a number", |number| !number.is_nan()),
            1 => prop_oneof![Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(0.0)],
        ]
    }

    /// Columns to pass, columns, three values, the part of the mean, and the rest of a cell.
    type RunParts = (u32, u32, [f64; 3], f64, u32, bool, bool);

    fn made() -> impl Strategy<Value = RunParts> {
        let columns = (prop_oneof![5 => Just(0u32), 1 => 0u32..50], 1u32..4);
        let values = ([number(), number(), number()], 0.0f64..1.0);
        let rest = (1u32..2000, any::<bool>(), any::<bool>());
        (columns, values, rest).prop_map(
            |((gap, len), (values, part), (count, joined, is_usual))| {
                (gap, len, values, part, count, joined, is_usual)
            },
        )
    }

    fn runs(made: Vec<RunParts>, usual: Weight) -> Vec<Run> {
        let mut end = 0;
        let runs = made.into_iter().map(|(gap, len, mut values, part, count, joined, is_usual)| {
            values.sort_by(f64::total_cmp);
            let [minimum, last, maximum] = values;
            let weight = match usual {
                Weight::Count => f64::from(count),
                Weight::Seconds(seconds) if is_usual => seconds,
                Weight::Seconds(seconds) => seconds / 3.0,
            };
            let mean = at_part(part as f32, minimum, maximum);
            let start = end + gap;
            end = start + len;
            let cell = Cell { minimum, maximum, last, count, joined, sum: mean * weight, weight };
            Run { columns: start..end, cell }
        });
        runs.collect()
    }

    fn assert_alike(found: &Run, expected: &Run) {
        let exact = |run: &Run| {
            let cell = run.cell;
            let values = [cell.minimum, cell.maximum, cell.last, cell.weight].map(f64::to_bits);
            (run.columns.clone(), values, cell.count, cell.joined)
        };
        assert_eq!(exact(found), exact(expected));
        let cell = found.cell;
        let mean = expected.cell.mean();
        let near = (cell.maximum / 2.0 - cell.minimum / 2.0) * 2f64.powi(-23);
        let is_same = cell.mean().to_bits() == mean.to_bits();
        let is_near = is_same || (cell.mean() / 2.0 - mean / 2.0).abs() <= near;
        assert!(is_near || mean.is_nan(), "{found:?} {expected:?}");
    }

    proptest! {
        /// forall runs, columns: those that have some of the columns come back.
        #[test]
        fn runs_come_back(
            made in vec(made(), 0..300),
            from in 0u32..400,
            len in 0u32..400,
            is_rate in any::<bool>(),
        ) {
            let usual = if is_rate { Weight::Seconds(16.0) } else { Weight::Count };
            let all = runs(made, usual);
            let mut cells = Cells::default();
            for run in &all {
                cells.push(run, usual);
            }
            let expected: Vec<&Run> = all
                .iter()
                .filter(|run| run.columns.end > from && run.columns.start < from + len)
                .collect();
            let found = cells.runs(from..from + len, usual);
            prop_assert_eq!(found.len(), expected.len());
            found.iter().zip(expected).for_each(|(one, other)| assert_alike(one, other));
            let found = cells.take(usual);
            prop_assert_eq!(found.len(), all.len());
            found.iter().zip(&all).for_each(|(one, other)| assert_alike(one, other));
            prop_assert_eq!(cells.take(usual).len(), 0);
        }
    }

    #[test]
    fn what_is_the_same_in_all_rows_takes_no_room() {
        let mut cells = Cells::default();
        for n in 0..2048 {
            let minimum = f64::from(n % 50);
            let maximum = f64::from(n % 50 + 100);
            let last = maximum;
            let count = 16;
            let joined = true;
            let sum = 16.0 * minimum;
            let weight = 16.0;
            let cell = Cell { minimum, maximum, last, count, joined, sum, weight };
            cells.push(&Run { columns: n..n + 1, cell }, Weight::Seconds(16.0));
        }
        let each = cells.bytes() / 2048;
        assert!(each < 16, "{each} bytes");
    }
}
