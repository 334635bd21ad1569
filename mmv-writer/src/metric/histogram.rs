//! Distributions of values.

use super::Buckets;
use crate::mapping::{Cell, CellStrip, Word};
use mmv_format::layout::NO_VALUE;

/// A distribution of values, shared between threads: a counter for each bucket, and
/// the sum of all values. Any quantile over any time can be computed
/// from two readings of the buckets.
///
/// Buckets that were never hit have no value, so readers log only those in use.
/// Recording is two atomic adds.
#[derive(Debug, Clone)]
#[must_use]
pub struct Histogram {
    cells: Cells,
}

/// The same with one writer: loads and stores only.
#[derive(Debug)]
#[must_use]
pub struct OwnedHistogram {
    cells: Cells,
    /// The value of the sum's cell. A load would wait for the last store.
    sum: u64,
}

/// The cells of a histogram.
#[derive(Debug, Clone)]
pub(crate) struct Cells {
    buckets: Buckets,
    /// One for each bucket.
    counts: CellStrip,
    sum: Cell,
}

impl Cells {
    /// Makes the cells those of a histogram without values.
    pub(crate) fn new(buckets: Buckets, counts: CellStrip, sum: Cell) -> Self {
        counts.iter().for_each(|count| count.store(NO_VALUE));
        Self { buckets, counts, sum }
    }

    /// Cells that no reader sees.
    fn noop() -> Self {
        let buckets = Buckets::new(0, 0);
        Self::new(buckets, CellStrip::private(buckets.count()), Cell::private())
    }

    /// The count of the bucket of a value. The last bucket holds all values above
    /// that of `max`.
    #[inline]
    fn count_of(&self, value: u64) -> Word<'_> {
        self.counts.get_or_last(self.buckets.position(value))
    }

    fn count(&self) -> u64 {
        let hit = self.counts.iter().map(Word::load).filter(|count| *count != NO_VALUE);
        hit.fold(0, u64::wrapping_add)
    }
}

// A count without a value overflows when it is hit; no other count ever does.
const _: () = assert!(NO_VALUE == u64::MAX);

impl Histogram {
    /// A histogram that no reader sees.
    pub fn noop() -> Self {
        Self::new(Cells::noop())
    }

    pub(crate) fn new(cells: Cells) -> Self {
        Self { cells }
    }

    /// Counts a value, in the unit that the metric was registered with.
    #[inline]
    pub fn record(&self, value: u64) {
        let cells = &self.cells;
        let count = cells.count_of(value);
        // First, since its address is known: the bucket's is computed meanwhile.
        cells.sum.add(value);
        // The first hit replaces "no value" by 0 before it counts. Other threads may do
        // the same in between; nothing goes back to "no value". Loading first costs a
        // tenth less than checking the result of the addition.
        if count.load() == NO_VALUE {
            count.replace(NO_VALUE, 0);
        }
        count.add(1);
    }

    /// How many values were recorded: adds up the buckets.
    pub fn count(&self) -> u64 {
        self.cells.count()
    }

    /// The sum of all values, modulo 2^64.
    pub fn sum(&self) -> u64 {
        self.cells.sum.load()
    }
}

impl Default for Histogram {
    /// A histogram that no reader sees.
    fn default() -> Self {
        Self::noop()
    }
}

impl OwnedHistogram {
    /// A histogram that no reader sees.
    pub fn noop() -> Self {
        Self::new(Cells::noop())
    }

    pub(crate) fn new(cells: Cells) -> Self {
        let sum = cells.sum.load();
        Self { cells, sum }
    }

    /// Counts a value, in the unit that the metric was registered with.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let Self { cells, sum } = self;
        let count = cells.count_of(value);
        let (more, was_absent) = count.load().overflowing_add(1);
        count.store(more + u64::from(was_absent));
        *sum = sum.wrapping_add(value);
        cells.sum.store(*sum);
    }

    /// How many values were recorded: adds up the buckets.
    pub fn count(&self) -> u64 {
        self.cells.count()
    }

    /// The sum of all values, modulo 2^64.
    pub fn sum(&self) -> u64 {
        self.cells.sum.load()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_of_many_threads_is_lost_not_even_the_first() {
        for _ in 0..50 {
            let histogram = Histogram::noop();
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| (0..500).for_each(|value| histogram.record(value % 2)));
                }
            });
            assert_eq!((histogram.count(), histogram.sum()), (2000, 1000));
        }
    }

    #[test]
    fn an_owned_histogram_counts_the_same() {
        let mut histogram = OwnedHistogram::noop();
        assert_eq!(histogram.count(), 0);
        for value in [0, 0, 7, u64::MAX] {
            histogram.record(value);
        }
        assert_eq!((histogram.count(), histogram.sum()), (4, 6));
    }
}
