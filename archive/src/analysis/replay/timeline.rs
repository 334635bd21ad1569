//! The timestamps of the records, and where the marks are.
//!
//! No observation before a mark can be a neighbour of a moment after it.
//! Records are numbered in file order and marks are counted among them, so "no
//! mark in between" is a comparison of record numbers, and the search for
//! neighbours never compares two floating point times for order.

use std::ops::{Range, RangeInclusive};

use crate::Timestamp;
use crate::analysis::growth::walls::Wall;
use crate::reader::column::Rows;

/// The timestamps of all records that were read, in order.
#[derive(Debug)]
pub(crate) struct Timeline {
    start: Timestamp,
    timestamps: Vec<Timestamp>,
    /// The times in seconds, the form of PCP's arithmetic: each is used many times.
    seconds: Vec<f64>,
    marks: Vec<u32>,
}

/// The records that can hold the neighbours of one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reach {
    /// Seconds since the archive's start.
    pub(crate) at: f64,
    /// The records not after the moment, back to the nearest mark.
    pub(crate) prior: Range<u32>,
    /// The records not before the moment, up to the nearest mark.
    pub(crate) next: Range<u32>,
}

/// A place among the records that have a value, and the record.
pub(crate) type Neighbour = (usize, u32);

impl Reach {
    /// Returns the places, among the records that have a value, of the newest one before the
    /// moment and of the oldest one after it.
    pub(crate) fn neighbours(&self, records: &Rows) -> (Option<Neighbour>, Option<Neighbour>) {
        let prior = records.last_before(self.prior.end);
        let next = records.first_from(self.next.start);
        let prior = prior.filter(|(_, record)| self.prior.contains(record));
        (prior, next.filter(|(_, record)| self.next.contains(record)))
    }

    /// Returns the part that is not beyond the nearest of some walls, in the order of rows.
    pub(crate) fn limited(&self, walls: &[Wall]) -> Self {
        let passed = walls.partition_point(|wall| wall.row < self.prior.end);
        let newest = passed.checked_sub(1).and_then(|place| walls.get(place)).map(|wall| wall.row);
        let oldest = walls.get(passed).map(|wall| wall.row);
        Self {
            at: self.at,
            prior: self.prior.start.max(newest.unwrap_or(0))..self.prior.end,
            next: self.next.start..self.next.end.min(oldest.unwrap_or(u32::MAX)),
        }
    }
}

impl Timeline {
    /// Returns the timeline of the rows of a chunk, in an archive that starts at `start`.
    pub(crate) fn new(start: Timestamp, timestamps: Vec<Timestamp>, marks: Vec<u32>) -> Self {
        let seconds = timestamps.iter().map(|timestamp| timestamp.seconds_since(start)).collect();
        Self { start, timestamps, seconds, marks }
    }

    pub(crate) fn timestamps(&self) -> &[Timestamp] {
        &self.timestamps
    }

    pub(crate) fn marks(&self) -> &[u32] {
        &self.marks
    }

    pub(crate) fn timestamp(&self, record: u32) -> Option<Timestamp> {
        self.timestamps.get(record as usize).copied()
    }

    pub(crate) fn rows_within(&self, span: RangeInclusive<Timestamp>) -> Range<u32> {
        let start = self.timestamps.partition_point(|timestamp| timestamp < span.start());
        let end = self.timestamps.partition_point(|timestamp| timestamp <= span.end());
        start as u32..end as u32
    }

    /// Returns a record's time in the form of PCP's arithmetic: seconds since the start.
    pub(crate) fn seconds(&self, record: u32) -> f64 {
        self.seconds.get(record as usize).copied().unwrap_or(f64::NAN)
    }

    /// Seconds since the archive's start of any moment.
    pub(crate) fn seconds_of(&self, at: Timestamp) -> f64 {
        at.seconds_since(self.start)
    }

    /// Returns the records that can hold the neighbours of `at`.
    ///
    /// Records at 0, 10, 20 s, a mark at 20.001 s, records at 40, 50 s: before
    /// 20.0005 s are 0, 10 and 20, after it is nothing; before 25 s is nothing,
    /// after it 40 and 50; the mark itself has neither. Had it the timestamp of
    /// the record at 40 s, that record would be before 40 s and after.
    pub(crate) fn reach(&self, at: Timestamp) -> Reach {
        let not_after = self.timestamps.partition_point(|&timestamp| timestamp <= at) as u32;
        let before = self.timestamps.partition_point(|&timestamp| timestamp < at) as u32;
        let passed = self.marks.partition_point(|&mark| mark < not_after);
        let wall_behind =
            passed.checked_sub(1).and_then(|i| self.marks.get(i)).map_or(0, |m| m + 1);
        // A record after a mark of the same time is on this side.
        let next = if wall_behind < not_after { before.max(wall_behind) } else { before };
        let ahead = self.marks.partition_point(|&mark| mark < next);
        let wall_ahead = self.marks.get(ahead).copied().unwrap_or(self.timestamps.len() as u32);
        Reach { at: self.seconds_of(at), prior: wall_behind..not_after, next: next..wall_ahead }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::growth::walls::CounterOrigin;

    fn time(millis: i64) -> Timestamp {
        Timestamp::from_nanos(i128::from(millis) * 1_000_000)
    }

    fn with_a_mark() -> Timeline {
        let timestamps = [0, 10_000, 20_000, 20_001, 40_000, 50_000].map(time);
        Timeline::new(time(0), timestamps.to_vec(), vec![3])
    }

    #[test]
    fn a_record_at_the_moment_is_both_neighbours() {
        let reach = with_a_mark().reach(time(10_000));
        assert_eq!((reach.prior, reach.next), (0..2, 1..3));
    }

    #[test]
    fn a_mark_hides_what_is_beyond_it() {
        let timeline = with_a_mark();
        let reach = timeline.reach(time(20_000));
        assert_eq!((reach.prior, reach.next), (0..3, 2..3));
        let just_before_the_mark = timeline.reach(Timestamp::from_nanos(20_000_500_000));
        assert!(just_before_the_mark.next.is_empty());
        assert_eq!(just_before_the_mark.prior, 0..3);
        for inside in [20_001, 25_000] {
            assert!(timeline.reach(time(inside)).prior.is_empty(), "{inside}");
        }
        let after = timeline.reach(time(45_000));
        assert_eq!((after.prior, after.next), (4..5, 5..6));
    }

    #[test]
    fn record_at_the_time_of_a_mark_is_seen_then() {
        let timeline = Timeline::new(time(0), [0, 10, 10, 10, 20].map(time).to_vec(), vec![2]);
        let reach = timeline.reach(time(10));
        assert_eq!((reach.prior, reach.next), (3..4, 3..5));
    }

    #[test]
    fn neighbours_are_the_closest_within_reach() {
        let at = |prior, next| Reach { at: 0.0, prior, next }.neighbours(&Rows::from([2, 4, 8]));
        assert_eq!(at(0..6, 6..9), (Some((1, 4)), Some((2, 8))));
        assert_eq!(at(0..5, 4..9), (Some((1, 4)), Some((1, 4))), "one at the moment is both");
        assert_eq!(at(5..6, 6..8), (None, None), "nothing between the marks");
        assert_eq!(at(0..0, 0..9), (None, Some((0, 2))));
    }

    #[test]
    fn a_wall_is_a_limit_on_both_sides() {
        let wall = |row| Wall {
            row,
            origin: CounterOrigin::Unknown,
            at: Timestamp::EPOCH,
            is_birth: false,
        };
        let reach = |prior, next| Reach { at: 0.0, prior, next };
        let limited = |prior, next| reach(prior, next).limited(&[wall(4), wall(9)]);
        assert_eq!(limited(0..3, 3..20), reach(0..3, 3..4));
        assert_eq!(limited(0..4, 4..20), reach(0..4, 4..4), "between the last record and it");
        assert_eq!(limited(0..5, 4..20), reach(4..5, 4..9), "at the wall");
        assert_eq!(limited(0..12, 12..20), reach(9..12, 12..20));
    }
}
