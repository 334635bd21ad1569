//! How often which values occurred.

use std::sync::Arc;

use super::Buckets;
use crate::layout::NO_VALUE;
use crate::mapping::Cell;

/// How often which values occurred, shared between threads: a counter for each
/// bucket, and the sum of all values. Any quantile over any time can be computed
/// from two readings of the buckets.
///
/// Buckets that were never hit have no value, so readers log only those in use.
/// Recording is one load and two atomic adds.
#[derive(Debug, Clone)]
#[must_use]
pub struct Histogram {
    cells: Arc<Cells>,
}

/// The same with one writer: loads and stores only.
#[derive(Debug)]
#[must_use]
pub struct OwnedHistogram {
    cells: Cells,
}

/// The cells of a histogram.
#[derive(Debug)]
pub(crate) struct Cells {
    buckets: Buckets,
    /// One for each bucket.
    counts: Vec<Cell>,
    sum: Cell,
}

impl Cells {
    pub(crate) fn new(buckets: Buckets, counts: Vec<Cell>, sum: Cell) -> Self {
        Self { buckets, counts, sum }
    }

    /// Cells that nobody reads.
    fn unread() -> Self {
        let buckets = Buckets::new(0, 0);
        let unread = |_| {
            let cell = Cell::detached();
            cell.store(NO_VALUE);
            cell
        };
        Self::new(buckets, (0..buckets.count()).map(unread).collect(), Cell::detached())
    }

    fn count(&self) -> u64 {
        let hit = self.counts.iter().map(Cell::load).filter(|count| *count != NO_VALUE);
        hit.fold(0, u64::wrapping_add)
    }
}

impl Histogram {
    /// A histogram that nobody reads.
    pub fn noop() -> Self {
        Self { cells: Arc::new(Cells::unread()) }
    }

    pub(crate) fn new(cells: Cells) -> Self {
        Self { cells: Arc::new(cells) }
    }

    /// Counts a value, in the unit that the metric was registered with.
    #[inline]
    pub fn record(&self, value: u64) {
        let cells = &*self.cells;
        if let Some(cell) = cells.counts.get(cells.buckets.index(value)) {
            // A bucket that was hit once never goes back to "no value".
            if cell.load() == NO_VALUE {
                cell.update(|count| if count == NO_VALUE { 1 } else { count + 1 });
            } else {
                cell.add(1);
            }
        }
        cells.sum.add(value);
    }

    /// How many values were recorded: adds the buckets up.
    pub fn count(&self) -> u64 {
        self.cells.count()
    }

    /// The sum of all values, modulo 2^64.
    pub fn sum(&self) -> u64 {
        self.cells.sum.load()
    }
}

impl OwnedHistogram {
    /// A histogram that nobody reads.
    pub fn noop() -> Self {
        Self { cells: Cells::unread() }
    }

    pub(crate) fn new(cells: Cells) -> Self {
        Self { cells }
    }

    /// Counts a value, in the unit that the metric was registered with.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let cells = &self.cells;
        if let Some(cell) = cells.counts.get(cells.buckets.index(value)) {
            let count = cell.load();
            cell.store(if count == NO_VALUE { 1 } else { count + 1 });
        }
        cells.sum.store(cells.sum.load().wrapping_add(value));
    }

    /// How many values were recorded: adds the buckets up.
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
