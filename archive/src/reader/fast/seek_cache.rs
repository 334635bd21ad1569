//! Remembers what a search by time came past, so that the next one nearby need not.

use crate::Timestamp;

/// The most records that are remembered; those before them are forgotten.
const MAX_RECORDS: usize = 4096;

/// The records from an entry of the temporal index on that a search has passed.
///
/// A search for another time that starts at the same entry continues from the cached
/// place, and finds the same record as from the entry itself. Timestamps may go back,
/// so the highest one up to a place counts.
///
/// ```text
/// entry -> 10 s  20 s  15 s  30 s  40 s
/// highest  10    20    20    30             for 18 s from after the first record,
///                                           for 25 s from after the third
/// ```
#[derive(Debug)]
pub(crate) struct SeekCache<P> {
    /// Start of the search; the cache is valid from no other place.
    start: Option<P>,
    /// The highest timestamp from the start through a record, and the place
    /// after it.
    passed: Vec<(Timestamp, P)>,
}

impl<P> Default for SeekCache<P> {
    fn default() -> Self {
        Self { start: None, passed: Vec::new() }
    }
}

impl<P: Copy + PartialEq> SeekCache<P> {
    /// Forgets all. The next record that is passed is the one at `start`.
    pub(crate) fn restart(&mut self, start: Option<P>) {
        self.start = start;
        self.passed.clear();
    }

    /// Remembers a record that was passed: its timestamp, and the place after
    /// it.
    pub(crate) fn pass(&mut self, timestamp: Timestamp, after: P) {
        if self.start.is_none() {
            return;
        }
        let highest = self.passed.last().map_or(timestamp, |(highest, _)| timestamp.max(*highest));
        if self.passed.len() == MAX_RECORDS {
            self.passed.clear();
        }
        self.passed.push((highest, after));
    }

    /// Returns a later place where a search from `start` may begin: the search would pass every
    /// record up to there.
    pub(crate) fn resume(&self, start: P, is_behind: impl Fn(Timestamp) -> bool) -> Option<P> {
        let passed = &self.passed;
        let over = passed.partition_point(|(highest, _)| !is_behind(*highest));
        let (_, after) = passed.get(over.checked_sub(1)?)?;
        (self.start == Some(start)).then_some(*after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timestamp(seconds: usize) -> Timestamp {
        Timestamp::new(seconds as i64, 0).unwrap()
    }

    fn resume(cache: &SeekCache<usize>, start: usize, target: usize) -> Option<usize> {
        cache.resume(start, |at| at >= timestamp(target))
    }

    #[test]
    fn a_search_goes_on_after_records_that_are_all_earlier() {
        let mut cache = SeekCache::default();
        cache.restart(Some(100));
        for (number, seconds) in [10, 20, 15, 30].into_iter().enumerate() {
            cache.pass(timestamp(seconds), 101 + number);
        }
        let found = |target| resume(&cache, 100, target);
        assert_eq!((found(10), found(11)), (None, Some(101)));
        assert_eq!((found(18), found(20), found(25)), (Some(101), Some(101), Some(103)));
        assert_eq!((found(30), found(99)), (Some(103), Some(104)));
        assert_eq!(resume(&cache, 99, 25), None, "from another place");
    }

    #[test]
    fn a_long_trail_forgets_its_beginning_and_nothing_that_matters() {
        let mut cache = SeekCache::default();
        cache.restart(Some(0));
        cache.pass(timestamp(99_999), 1);
        (1..MAX_RECORDS + 2).for_each(|at| cache.pass(timestamp(at), at + 1));
        assert_eq!(resume(&cache, 0, 5_000), None);
        assert_eq!(resume(&cache, 0, 100_000), Some(MAX_RECORDS + 2));
        assert!(cache.passed.len() <= MAX_RECORDS);
    }

    #[test]
    fn without_a_start_nothing_is_remembered() {
        let mut cache = SeekCache::default();
        cache.pass(timestamp(10), 1);
        assert_eq!(resume(&cache, 0, 20), None);
        cache.restart(None);
        cache.pass(timestamp(10), 1);
        assert_eq!(resume(&cache, 0, 20), None);
    }
}
