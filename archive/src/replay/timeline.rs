//! When the records of an archive were written, and where its marks are.
//!
//! A mark is a wall: nothing before it can be a neighbour of a moment after
//! it. Records are numbered in file order and marks are counted among them,
//! so "no mark in between" is a comparison of record numbers, and the search
//! for neighbours never compares two floating point times for order.

use std::ops::Range;

use pcp_types::Timestamp;

/// The stamps of all records that were read, in order.
#[derive(Debug)]
pub(crate) struct Timeline {
    start: Timestamp,
    stamps: Vec<Timestamp>,
    /// Record numbers, ascending.
    marks: Vec<u32>,
}

/// Which records can hold the neighbours of one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reach {
    /// Seconds since the archive's start.
    pub(crate) at: f64,
    /// The records not after the moment, back to the nearest mark.
    pub(crate) prior: Range<u32>,
    /// The records not before the moment, up to the nearest mark.
    pub(crate) next: Range<u32>,
}

impl Timeline {
    /// A timeline without records of an archive that starts at `start`.
    pub(crate) fn new(start: Timestamp) -> Self {
        Self { start, stamps: Vec::new(), marks: Vec::new() }
    }

    /// The number of a further record, or `None` if its stamp lies before the
    /// last one's: time cannot be searched then, and the record is left out.
    pub(crate) fn push(&mut self, stamp: Timestamp, is_mark: bool) -> Option<u32> {
        if self.stamps.last().is_some_and(|&last| stamp < last) {
            return None;
        }
        let number = u32::try_from(self.stamps.len()).ok()?;
        self.stamps.push(stamp);
        if is_mark {
            self.marks.push(number);
        }
        Some(number)
    }

    /// The stamp of the last record.
    pub(crate) fn end(&self) -> Option<Timestamp> {
        self.stamps.last().copied()
    }

    /// The marks, ascending.
    pub(crate) fn marks(&self) -> &[u32] {
        &self.marks
    }

    /// The stamp of a record.
    pub(crate) fn stamp(&self, record: u32) -> Option<Timestamp> {
        self.stamps.get(record as usize).copied()
    }

    /// A record's time as PCP's arithmetic takes it: seconds since the start.
    pub(crate) fn seconds(&self, record: u32) -> f64 {
        self.stamp(record).map_or(f64::NAN, |stamp| stamp.seconds_since(self.start))
    }

    /// Seconds since the archive's start of any moment.
    pub(crate) fn seconds_of(&self, at: Timestamp) -> f64 {
        at.seconds_since(self.start)
    }

    /// The records strictly between two moments.
    pub(crate) fn between(&self, since: Timestamp, at: Timestamp) -> Range<u32> {
        let after = self.stamps.partition_point(|&stamp| stamp <= since) as u32;
        let before = self.stamps.partition_point(|&stamp| stamp < at) as u32;
        after..before.max(after)
    }

    /// Where the neighbours of `at` can be.
    ///
    /// Records at 0, 10, 20 s, a mark at 20.001 s, records at 40, 50 s: behind
    /// 20.0005 s lie 0, 10 and 20, ahead of it nothing; behind 25 s lies
    /// nothing, ahead 40 and 50; the mark itself has neither. Had it the time
    /// of the record at 40 s, that record would lie behind 40 s and ahead.
    pub(crate) fn reach(&self, at: Timestamp) -> Reach {
        let not_after = self.stamps.partition_point(|&stamp| stamp <= at) as u32;
        let before = self.stamps.partition_point(|&stamp| stamp < at) as u32;
        let passed = self.marks.partition_point(|&mark| mark < not_after);
        let wall_behind =
            passed.checked_sub(1).and_then(|i| self.marks.get(i)).map_or(0, |m| m + 1);
        // A record of the moment behind a mark of the moment is on this side.
        let next = if wall_behind < not_after { before.max(wall_behind) } else { before };
        let ahead = self.marks.partition_point(|&mark| mark < next);
        let wall_ahead = self.marks.get(ahead).copied().unwrap_or(self.stamps.len() as u32);
        Reach { at: self.seconds_of(at), prior: wall_behind..not_after, next: next..wall_ahead }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_nanos(i128::from(millis) * 1_000_000)
    }

    /// The records of the module's example: 0, 10, 20, mark, 40, 50.
    fn with_a_mark() -> Timeline {
        let mut timeline = Timeline::new(at(0));
        for (millis, is_mark) in [
            (0, false),
            (10_000, false),
            (20_000, false),
            (20_001, true),
            (40_000, false),
            (50_000, false),
        ] {
            timeline.push(at(millis), is_mark).unwrap();
        }
        timeline
    }

    #[test]
    fn a_record_at_the_moment_is_both_neighbours() {
        let reach = with_a_mark().reach(at(10_000));
        assert_eq!((reach.prior, reach.next), (0..2, 1..3));
    }

    #[test]
    fn a_mark_hides_what_is_beyond_it() {
        let timeline = with_a_mark();
        let reach = timeline.reach(at(20_000));
        assert_eq!((reach.prior, reach.next), (0..3, 2..3));
        let just_before_the_mark = timeline.reach(Timestamp::from_nanos(20_000_500_000));
        assert!(just_before_the_mark.next.is_empty());
        assert_eq!(just_before_the_mark.prior, 0..3);
        for inside in [20_001, 25_000] {
            assert!(timeline.reach(at(inside)).prior.is_empty(), "{inside}");
        }
        let after = timeline.reach(at(45_000));
        assert_eq!((after.prior, after.next), (4..5, 5..6));
    }

    #[test]
    fn a_record_with_the_time_of_the_mark_before_it_is_seen_at_that_time() {
        let mut timeline = Timeline::new(at(0));
        for (millis, is_mark) in [(0, false), (10, false), (10, true), (10, false), (20, false)] {
            timeline.push(at(millis), is_mark).unwrap();
        }
        let reach = timeline.reach(at(10));
        assert_eq!((reach.prior, reach.next), (3..4, 3..5));
    }

    #[test]
    fn a_stamp_that_goes_back_is_left_out() {
        let mut timeline = with_a_mark();
        assert_eq!(timeline.push(at(49_999), false), None);
        assert_eq!(timeline.push(at(50_000), false), Some(6), "an equal one is not");
        assert_eq!(timeline.end(), Some(at(50_000)));
    }
}
