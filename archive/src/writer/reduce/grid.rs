//! The times at which reduced values are, and the intervals between them.

use std::ops::Range;
use std::time::Duration;

use crate::Timestamp;

/// Equal intervals, each with its end and without its start; number 0 ends at the origin.
#[derive(Debug, Clone, Copy)]
pub(super) struct IntervalGrid {
    origin: Timestamp,
    /// Nanoseconds, at least 1.
    length: i128,
}

/// Consecutive rows of a chunk in one interval.
#[derive(Debug, Clone)]
pub(super) struct IntervalRows {
    pub(super) interval: i128,
    pub(super) rows: Range<usize>,
}

/// The values of a column in consecutive rows of one interval, without a wall.
pub(super) struct Piece<'c> {
    pub(super) interval: i128,
    /// As in [`Column::words`](crate::scan::Column).
    pub(super) words: &'c [u64],
    pub(super) timestamps: &'c [Timestamp],
    /// Time since the row before, in seconds.
    pub(super) seconds: &'c [f64],
}

impl IntervalGrid {
    pub(super) fn new(origin: Timestamp, interval: Duration) -> Self {
        let length = i128::try_from(interval.as_nanos()).unwrap_or(i128::MAX).max(1);
        Self { origin, length }
    }

    pub(super) fn with_origin(self, origin: Timestamp) -> Self {
        Self { origin, ..self }
    }

    /// Returns the number of the interval that a time is in.
    pub(super) fn interval(&self, at: Timestamp) -> i128 {
        let since = at.nanos_since(self.origin);
        let whole = since.div_euclid(self.length);
        whole + i128::from(since.rem_euclid(self.length) > 0)
    }

    /// Returns the end of an interval.
    pub(super) fn end(&self, interval: i128) -> Timestamp {
        let since = interval.saturating_mul(self.length);
        Timestamp::from_nanos(self.origin.as_nanos().saturating_add(since))
    }

    /// Returns the intervals that end after one time and before another.
    pub(super) fn ends_within(&self, after: Timestamp, before: Timestamp) -> Range<i128> {
        let first = after.nanos_since(self.origin).div_euclid(self.length) + 1;
        first..self.interval(before).max(first)
    }

    /// Returns the intervals that end after a time, which is in `interval`, and before another one
    /// ends: [`ends_within`](Self::ends_within) without a division.
    pub(super) fn ends_before_interval(
        &self,
        after: Timestamp,
        interval: i128,
        other: i128,
    ) -> Range<i128> {
        let first = interval + i128::from(self.end(interval) == after);
        first..other.max(first)
    }

    /// Divides rows, whose times do not go back, into intervals.
    pub(super) fn divide(&self, timestamps: &[Timestamp]) -> Vec<IntervalRows> {
        let mut all = Vec::new();
        let mut start = 0;
        while let Some(&first) = timestamps.get(start) {
            let interval = self.interval(first);
            let end = self.end(interval);
            let rest = timestamps.get(start..).unwrap_or_default();
            // An end beyond the last time is that time.
            let count = rest.partition_point(|timestamp| *timestamp <= end).max(1);
            all.push(IntervalRows { interval, rows: start..start + count });
            start += count;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::new(seconds, 0).unwrap()
    }

    #[test]
    fn interval_has_its_end_and_not_its_start() {
        let grid = IntervalGrid::new(at(5), Duration::from_secs(10));
        let numbers = [-5, -4, 5, 6, 15, 16].map(|seconds| grid.interval(at(seconds)));
        assert_eq!(numbers, [-1, 0, 0, 1, 1, 2]);
        assert_eq!([-1, 0, 2].map(|number| grid.end(number)), [at(-5), at(5), at(25)]);
        assert_eq!(grid.ends_within(at(5), at(25)), 1..2);
        assert_eq!(grid.ends_within(at(4), at(26)), 0..3);
        assert!(grid.ends_within(at(6), at(15)).is_empty());
        for (after, before) in (-20..30).flat_map(|after| (after + 1..40).map(move |b| (after, b)))
        {
            let (after, before) = (at(after), at(before));
            let found =
                grid.ends_before_interval(after, grid.interval(after), grid.interval(before));
            assert_eq!(found, grid.ends_within(after, before));
        }
    }

    #[test]
    fn rows_are_divided_at_the_ends() {
        let grid = IntervalGrid::new(at(0), Duration::from_secs(10));
        let parts = grid.divide(&[1, 9, 10, 11, 11, 40].map(at));
        let parts: Vec<_> = parts.into_iter().map(|part| (part.interval, part.rows)).collect();
        assert_eq!(parts, [(1, 0..3), (2, 3..5), (4, 5..6)]);
    }

    #[test]
    fn extreme_times_and_intervals_do_not_overflow() {
        for length in [Duration::ZERO, Duration::MAX] {
            let grid = IntervalGrid::new(Timestamp::MIN, length);
            for time in [Timestamp::MIN, Timestamp::EPOCH, Timestamp::MAX] {
                grid.end(grid.interval(time) + 3);
                assert_eq!(grid.divide(&[time]).len(), 1);
            }
        }
    }
}
