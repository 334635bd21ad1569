//! Where histograms were reset, because their program restarted.
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

use super::super::rate::growth;
use super::super::timeline::Reach;
use super::super::{Column, Decrease};

/// The records at which each histogram of a metric was reset, ascending.
#[derive(Debug, Clone, Default)]
pub(super) struct Resets(Vec<Vec<u32>>);

impl Resets {
    /// The resets of some histograms, given all columns that belong to one, each with
    /// the place of its histogram.
    pub(super) fn find(histograms: usize, columns: &[(usize, &Column)]) -> Self {
        let mut all = vec![Vec::new(); histograms];
        for &(histogram, column) in columns {
            let Some(resets) = all.get_mut(histogram) else { continue };
            resets.extend(last_before_falls(column).filter_map(|record| {
                let own = columns.iter().filter(|(other, _)| *other == histogram);
                let next = own.filter_map(|(_, own)| own.rows().first_from(record + 1));
                next.map(|(_, record)| record).min()
            }));
        }
        for resets in &mut all {
            resets.sort_unstable();
            resets.dedup();
        }
        Self(all)
    }

    /// What is in reach of a moment without passing a reset of a histogram.
    pub(super) fn limit(&self, histogram: usize, reach: &Reach) -> Reach {
        let resets = self.of(histogram);
        let passed = resets.partition_point(|&reset| reset < reach.prior.end);
        let newest = passed.checked_sub(1).and_then(|place| resets.get(place)).copied();
        let oldest = resets.get(passed).copied();
        Reach {
            at: reach.at,
            prior: reach.prior.start.max(newest.unwrap_or(0))..reach.prior.end,
            next: reach.next.start..reach.next.end.min(oldest.unwrap_or(u32::MAX)),
        }
    }

    /// Whether a histogram was reset in one of these records.
    pub(super) fn are_in(&self, histogram: usize, records: &Range<u32>) -> bool {
        self.of(histogram).iter().any(|reset| records.contains(reset))
    }

    fn of(&self, histogram: usize) -> &[u32] {
        self.0.get(histogram).map_or(&[], Vec::as_slice)
    }
}

/// The record of each value of a column that is followed by a smaller one.
fn last_before_falls(column: &Column) -> impl Iterator<Item = u32> {
    let pairs = column.iter().zip(column.iter().skip(1));
    let falls = pairs.filter(|((_, one), (_, next))| {
        growth(*one, std::iter::empty(), *next, Decrease::Reset).is_none()
    });
    falls.map(|((record, _), _)| record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Value, ValueType};

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
            Resets::find(1, &columns).0.remove(0)
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
        assert!(resets.are_in(0, &(4..5)) && !resets.are_in(0, &(5..9)));
    }
}
