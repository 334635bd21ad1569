//! What a search by time came past, so that the next one nearby need not.

use pcp_types::Timestamp;

use super::records::Position;

/// So many records are remembered at most; those before them are forgotten.
const MOST: usize = 4096;

/// The records from an entry of the temporal index on that a search has passed.
///
/// A search for another time that starts at the same entry goes on where the
/// trail says, and comes to the same record as from the entry itself: stamps may
/// go back, so what counts is the highest one up to a place.
///
/// ```text
/// entry -> 10 s  20 s  15 s  30 s  40 s
/// highest  10    20    20    30             for 18 s from behind the first record,
///                                           for 25 s from behind the third
/// ```
#[derive(Debug, Default)]
pub(super) struct Trail {
    /// Where it starts; it says nothing of other places.
    start: Option<Position>,
    /// The highest stamp from the start to behind a record, and that place.
    passed: Vec<(Timestamp, Position)>,
}

impl Trail {
    /// Forgets all. The next record that is passed is the one at `start`.
    pub(super) fn restart(&mut self, start: Option<Position>) {
        self.start = start;
        self.passed.clear();
    }

    /// Remembers a record that was passed: its time, and the place behind it.
    pub(super) fn pass(&mut self, stamp: Timestamp, behind: Position) {
        if self.start.is_none() {
            return;
        }
        let highest = self.passed.last().map_or(stamp, |(highest, _)| stamp.max(*highest));
        if self.passed.len() == MOST {
            self.passed.clear();
        }
        self.passed.push((highest, behind));
    }

    /// Where a search from `start` may begin as well: no record up to there is
    /// behind what is sought.
    pub(super) fn resume(
        &self,
        start: Position,
        is_behind: impl Fn(Timestamp) -> bool,
    ) -> Option<Position> {
        let passed = &self.passed;
        let over = passed.partition_point(|(highest, _)| !is_behind(*highest));
        let (_, behind) = passed.get(over.checked_sub(1)?)?;
        (self.start == Some(start)).then_some(*behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(seconds: usize) -> Timestamp {
        Timestamp::new(seconds as i64, 0).unwrap()
    }

    fn place(offset: usize) -> Position {
        Position { volume: 0, offset: offset as u64 }
    }

    fn resume(trail: &Trail, start: usize, target: usize) -> Option<usize> {
        let found = trail.resume(place(start), |at| at >= stamp(target));
        found.map(|place| place.offset as usize)
    }

    #[test]
    fn a_search_goes_on_behind_records_that_are_all_earlier() {
        let mut trail = Trail::default();
        trail.restart(Some(place(100)));
        for (number, seconds) in [10, 20, 15, 30].into_iter().enumerate() {
            trail.pass(stamp(seconds), place(101 + number));
        }
        let found = |target| resume(&trail, 100, target);
        assert_eq!((found(10), found(11)), (None, Some(101)));
        assert_eq!((found(18), found(20), found(25)), (Some(101), Some(101), Some(103)));
        assert_eq!((found(30), found(99)), (Some(103), Some(104)));
        assert_eq!(resume(&trail, 99, 25), None, "from another place");
    }

    #[test]
    fn a_long_trail_forgets_its_beginning_and_nothing_that_matters() {
        let mut trail = Trail::default();
        trail.restart(Some(place(0)));
        trail.pass(stamp(99_999), place(1));
        (1..MOST + 2).for_each(|at| trail.pass(stamp(at), place(at + 1)));
        assert_eq!(resume(&trail, 0, 5_000), None);
        assert_eq!(resume(&trail, 0, 100_000), Some(MOST + 2));
        assert!(trail.passed.len() <= MOST);
    }

    #[test]
    fn without_a_start_nothing_is_remembered() {
        let mut trail = Trail::default();
        trail.pass(stamp(10), place(1));
        assert_eq!(resume(&trail, 0, 20), None);
        trail.restart(None);
        trail.pass(stamp(10), place(1));
        assert_eq!(resume(&trail, 0, 20), None);
    }
}
