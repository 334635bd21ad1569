//! Resets of histograms and counters, because their program restarted.
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

use super::{Column, Decrease};
use crate::ValueType;
use crate::analysis::growth::growth;
use crate::analysis::growth::walls::Wall;

/// Returns where some of the columns that are reset together fell: from the last record before a
/// fall to the first one after it with a value of any of the columns.
pub(super) fn falls(columns: &[&Column], falling: Range<usize>, walls: &[Wall]) -> Vec<Range<u32>> {
    let fallen = columns.get(falling).unwrap_or_default().iter();
    let last = fallen.flat_map(|column| last_before_falls(column, walls));
    let falls = last.filter_map(|record| {
        let next = columns.iter().filter_map(|own| own.rows().first_from(record + 1));
        Some(record..next.map(|(_, record)| record).min()?)
    });
    falls.collect()
}

/// Returns the record of each value of a column that is followed by a smaller one, without a wall
/// in between.
fn last_before_falls(column: &Column, walls: &[Wall]) -> impl Iterator<Item = u32> {
    // The words of numbers without sign are in the order of the numbers.
    let is_plain = matches!(column.value_type(), ValueType::U32 | ValueType::U64);
    let len = if is_plain && column.words().is_sorted() { 0 } else { column.len() };
    let pairs = column.iter().take(len).zip(column.iter().skip(1));
    let passed = |record: u32| walls.partition_point(|wall| wall.row <= record);
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
        let columns: Vec<&Column> = columns.iter().collect();
        let mut resets: Vec<u32> =
            falls(&columns, 0..columns.len(), &[]).into_iter().map(|fall| fall.end).collect();
        resets.sort_unstable();
        resets.dedup();
        resets
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
}
