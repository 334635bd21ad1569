//! Where histograms and counters were reset, because their program restarted.
//!
//! A histogram is reset as a whole. The evidence is a bucket, or the sum, that is less
//! than before; the reset is at the first record after the higher value that has
//! anything of the histogram, since a bucket that has counted is logged with all
//! others until the program ends.
//!
//! | record | bucket 4 | bucket 8 | sum | |
//! |---|---|---|---|---|
//! | 0 | 100 | 15 | 700 | |
//! | 1 | 2 | - | 8 | the reset: bucket 4 and the sum are less |
//! | 2 | 3 | - | 12 | |
//! | 3 | 3 | 1 | 21 | bucket 8 is less than in record 0, so the reset was at record 1 |
//!
//! No value before a reset is joined to one after it: at record 2, bucket 8 has
//! counted nothing, while a line from 15 to 1 would have it count down.

use std::ops::Range;

use super::timeline::Reach;
use super::{Column, Decrease};
use crate::ValueType;
use crate::growth::growth;

/// The records at which each histogram of a metric was reset, ascending.
#[derive(Debug, Clone, Default)]
pub(super) struct Resets(Vec<Vec<u32>>);

impl Resets {
    /// The resets of some histograms, given all columns that belong to one, each with
    /// the place of its histogram. A fall over one of the `known` boundaries, records in
    /// ascending order, is not evidence of another one.
    pub(super) fn find(histograms: usize, columns: &[(usize, &Column)], known: &[u32]) -> Self {
        let of = |histogram| {
            let own = columns.iter().filter(|(other, _)| *other == histogram);
            let own: Vec<&Column> = own.map(|(_, column)| *column).collect();
            let mut resets: Vec<u32> =
                falls(&own, 0..own.len(), known).into_iter().map(|fall| fall.end).collect();
            resets.sort_unstable();
            resets.dedup();
            resets
        };
        Self((0..histograms).map(of).collect())
    }

    /// What is in reach of a moment without passing a reset of a histogram.
    pub(super) fn limit(&self, histogram: usize, reach: &Reach) -> Reach {
        reach.limited(self.of(histogram))
    }

    /// The records at which a histogram was reset, ascending.
    pub(super) fn of(&self, histogram: usize) -> &[u32] {
        self.0.get(histogram).map_or(&[], Vec::as_slice)
    }
}

/// Where some of the columns that are reset together fell: from the last record before a
/// fall to the first one after it with a value of any of the columns.
pub(super) fn falls(columns: &[&Column], falling: Range<usize>, known: &[u32]) -> Vec<Range<u32>> {
    let fallen = columns.get(falling).unwrap_or_default().iter();
    let last = fallen.flat_map(|column| last_before_falls(column, known));
    let falls = last.filter_map(|record| {
        let next = columns.iter().filter_map(|own| own.rows().first_from(record + 1));
        Some(record..next.map(|(_, record)| record).min()?)
    });
    falls.collect()
}

/// The record of each value of a column that is followed by a smaller one, without a
/// known boundary in between.
fn last_before_falls(column: &Column, known: &[u32]) -> impl Iterator<Item = u32> {
    // The words of numbers without sign are in the order of the numbers.
    let is_plain = matches!(column.value_type(), ValueType::U32 | ValueType::U64);
    let len = if is_plain && column.words().is_sorted() { 0 } else { column.len() };
    let pairs = column.iter().take(len).zip(column.iter().skip(1));
    let passed = |record: u32| known.partition_point(|known| *known <= record);
    let falls = pairs.filter(move |((record, one), (later, next))| {
        growth(*one, std::iter::empty(), *next, Decrease::Reset).is_none()
            && passed(*record) == passed(*later)
    });
    falls.map(|((record, _), _)| record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    fn column(values: &[(u32, u64)]) -> Column {
        let mut column = Column::new(None, ValueType::U64);
        for (record, value) in values {
            column.push(*record, Value::U64(*value));
        }
        column
    }

    fn resets(columns: &[Column]) -> Vec<u32> {
        {
            let columns: Vec<_> = columns.iter().map(|column| (0, column)).collect();
            Resets::find(1, &columns, &[]).0.remove(0)
        }
    }

    #[test]
    fn the_example_of_the_module_has_one_reset() {
        let four = column(&[(0, 100), (1, 2), (2, 3), (3, 3)]);
        let eight = column(&[(0, 15), (3, 1)]);
        let sum = column(&[(0, 700), (1, 8), (2, 12), (3, 21)]);
        assert_eq!(resets(&[four.clone(), eight.clone(), sum]), [1]);
        // Bucket 8 alone tells where, since bucket 4 is in record 1.
        let grown = column(&[(0, 1), (1, 2), (2, 3), (3, 3)]);
        assert_eq!(resets(&[grown, eight.clone()]), [1]);
        assert_eq!(resets(&[eight]), [3]);
        assert_eq!(resets(&[four]), [1]);
    }

    #[test]
    fn a_reset_is_a_limit_on_both_sides() {
        let resets = Resets(vec![vec![4, 9]]);
        let reach = |prior, next| Reach { at: 0.0, prior, next };
        let limited = |prior, next| resets.limit(0, &reach(prior, next));
        assert_eq!(limited(0..3, 3..20), reach(0..3, 3..4));
        assert_eq!(limited(0..4, 4..20), reach(0..4, 4..4), "between the last record and it");
        assert_eq!(limited(0..5, 4..20), reach(4..5, 4..9), "at the reset");
        assert_eq!(limited(0..12, 12..20), reach(9..12, 12..20));
    }
}
