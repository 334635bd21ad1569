//! Distributions of values.

mod lazy;

use std::time::Duration;

use pcp_types::Units;

use super::static_metric::{
    RegisteredHistogram, StaticDescription, StaticMetric, StaticPlace, StaticRegistry, checked_help,
};
use super::timing::AddDuration;
use super::{Buckets, Timing};
use crate::Error;
use crate::mapping::{Cell, CellStrip, Word};
use crate::system::Instant;
pub(crate) use lazy::{BucketSource, LazyCells};
use mmv_format::layout::NO_VALUE;

/// A distribution of values, shared between threads: a counter for each bucket, and
/// the sum of all values. Any quantile over any time can be computed
/// from two readings of the buckets.
///
/// Buckets that were never hit have no value, so readers log only those in use.
/// Recording is two atomic adds. The first hit of a bucket of a
/// [`Family`](crate::Family)'s histogram also takes a lock and registers the bucket.
///
/// ```
/// use std::time::Duration;
///
/// use mmv_writer::{Buckets, Registry, Units};
///
/// # fn main() -> Result<(), mmv_writer::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// let registry = Registry::builder("web").directory(directory.path()).build()?;
/// let latency = registry.histogram("latency").units(Units::microseconds());
/// let latency = latency.buckets(Buckets::new(3, 60_000_000)).build()?; // up to a minute
///
/// latency.record_duration(Duration::from_millis(3)); // 3000 microseconds
/// {
///     let _timing = latency.start();
///     // the work; its time is recorded at the end of the block
/// }
/// let sum = latency.time(|| 1 + 1);
/// # assert_eq!((sum, latency.count()), (2, 3));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Histogram {
    cells: SharedCells,
}

#[derive(Debug, Clone)]
enum SharedCells {
    /// All buckets are registered with the histogram.
    All(Cells),
    /// In a family: buckets are registered when they are hit.
    Lazy(LazyCells),
    Static(StaticMetric<Cells>),
}

/// A distribution of values with one writer, which only loads and stores.
#[derive(Debug)]
#[must_use]
pub struct OwnedHistogram {
    cells: Cells,
    /// A copy of the sum's cell: a load from there would wait for the last store.
    sum: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Cells {
    buckets: Buckets,
    counts: CellStrip,
    sum: Cell,
    /// Nanoseconds in the unit of the values; 1 if that is not a unit of time.
    per_unit: u64,
}

impl Cells {
    pub(crate) fn new(buckets: Buckets, counts: CellStrip, sum: Cell, units: Units) -> Self {
        counts.iter().for_each(|count| count.store(NO_VALUE));
        Self { buckets, counts, sum, per_unit: nanoseconds_in(units) }
    }

    /// Makes cells that no reader sees.
    fn private(buckets: Buckets, units: Units) -> Self {
        Self::new(buckets, CellStrip::private(buckets.count()), Cell::private(), units)
    }

    /// Makes cells of the fewest buckets, which no reader sees.
    fn noop() -> Self {
        Self::private(Buckets::new(0, 0), Units::nanoseconds())
    }

    /// Counts a value this many times; exact under any number of threads.
    #[inline]
    fn record_many(&self, value: u64, times: u64) {
        let count = self.count_of(value);
        // First, since its address is known: the bucket's is computed meanwhile.
        self.sum.add(value.wrapping_mul(times));
        // The first hit replaces "no value" by 0 before it counts. Other threads may do
        // the same in between; nothing goes back to "no value". Loading first costs a
        // tenth less than checking the result of the addition.
        if count.load() == NO_VALUE {
            count.replace(NO_VALUE, 0);
        }
        count.add(times);
    }

    #[inline]
    fn record(&self, value: u64) {
        self.record_many(value, 1);
    }

    #[inline]
    fn in_units(&self, time: Duration) -> u64 {
        duration_in_units(time, self.per_unit)
    }

    /// Returns the count of the bucket of a value. The last bucket holds all values above that of
    /// `max`.
    #[inline]
    fn count_of(&self, value: u64) -> Word<'_> {
        self.counts.get_or_last(self.buckets.position(value))
    }

    fn count(&self) -> u64 {
        let hit = self.counts.iter().map(Word::load).filter(|count| *count != NO_VALUE);
        hit.fold(0, u64::wrapping_add)
    }
}

impl StaticPlace for Cells {
    type Options = Option<Buckets>;

    fn private(description: &StaticDescription, buckets: Option<Buckets>) -> Self {
        let units = description.units.unwrap_or(Units::NONE);
        Self::private(buckets.unwrap_or(Buckets::for_units(units)), units)
    }

    fn register(
        registry: &dyn StaticRegistry,
        description: &StaticDescription,
        buckets: Option<Buckets>,
    ) -> Result<Self, Error> {
        let units = description.units.unwrap_or(Units::NONE);
        let buckets = buckets.unwrap_or(Buckets::for_units(units));
        let RegisteredHistogram { buckets, counts, sum } =
            registry.add_histogram(description, buckets)?;
        Ok(Self::new(buckets, counts, sum, units))
    }

    fn take_over(&self, private: &Self) {
        debug_assert_eq!(self.buckets, private.buckets);
        // Nobody else has these cells yet.
        self.sum.store(private.sum.load());
        for (to, from) in self.counts.iter().zip(private.counts.iter()) {
            to.store(from.load());
        }
    }
}

/// Converts a time to a unit of `per_unit` nanoseconds, rounded.
#[inline]
fn duration_in_units(time: Duration, per_unit: u64) -> u64 {
    let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let whole = nanoseconds / per_unit;
    let part = nanoseconds % per_unit;
    // No sum overflows: there is a part only where a unit is longer than 1 ns.
    whole + u64::from(part >= per_unit.div_ceil(2) && part > 0)
}

/// Returns the nanoseconds in a unit of time; 1 for other units.
fn nanoseconds_in(units: Units) -> u64 {
    let seconds = units.time_scale_in_seconds();
    let is_time = (units.space_dimension(), units.time_dimension(), units.count_dimension());
    match (is_time, seconds) {
        ((0, 1, 0), Some(seconds)) => (seconds * 1e9).round().max(1.0) as u64,
        _ => 1,
    }
}

// A count without a value overflows when it is hit; no other count ever does.
const _: () = assert!(NO_VALUE == u64::MAX);

impl Histogram {
    /// Makes a histogram for a `static`; see [`Counter::new`](crate::Counter::new).
    ///
    /// ```
    /// use mmv_writer::{Histogram, Units};
    ///
    /// static LATENCY: Histogram = Histogram::new("latency").units(Units::microseconds());
    ///
    /// let _timing = LATENCY.start();
    /// ```
    pub const fn new(name: &'static str) -> Self {
        Self { cells: SharedCells::Static(StaticMetric::new(name, None)) }
    }

    /// Sets the units of the values of a histogram in a static; without this, a plain number.
    /// Those of a registered one stay.
    pub const fn units(mut self, units: Units) -> Self {
        if let SharedCells::Static(metric) = &mut self.cells {
            metric.description.units = Some(units);
        }
        self
    }

    /// Sets the help text of a histogram in a static, at most 255 bytes. That of a registered one
    /// stays.
    pub const fn help(mut self, text: &'static str) -> Self {
        if let SharedCells::Static(metric) = &mut self.cells {
            metric.description.help = Some(checked_help(text));
        }
        self
    }

    /// Sets the buckets of a histogram in a static; without this, [`Buckets::for_units`]. Those of
    /// a registered one stay.
    pub const fn buckets(mut self, buckets: Buckets) -> Self {
        if let SharedCells::Static(metric) = &mut self.cells {
            metric.options = Some(buckets);
        }
        self
    }

    /// Makes a histogram that no reader sees.
    pub fn noop() -> Self {
        Self::from_cells(Cells::noop())
    }

    pub(crate) fn from_cells(cells: Cells) -> Self {
        Self { cells: SharedCells::All(cells) }
    }

    pub(crate) fn static_metric(&self) -> Option<&StaticMetric<Cells>> {
        match &self.cells {
            SharedCells::Static(metric) => Some(metric),
            SharedCells::All(_) | SharedCells::Lazy(_) => None,
        }
    }

    /// Makes a histogram whose buckets are registered when they are first hit.
    pub(crate) fn lazy(cells: LazyCells) -> Self {
        Self { cells: SharedCells::Lazy(cells) }
    }

    /// Ends the registration of buckets, and returns those that were registered one by one.
    pub(crate) fn close(&self) -> Vec<usize> {
        match &self.cells {
            SharedCells::All(_) | SharedCells::Static(_) => Vec::new(),
            SharedCells::Lazy(cells) => cells.close(),
        }
    }

    /// Counts a value, in the unit that the metric was registered with.
    #[doc(alias = "observe")]
    #[inline]
    pub fn record(&self, value: u64) {
        match &self.cells {
            SharedCells::All(cells) => cells.record(value),
            SharedCells::Lazy(cells) => cells.record(value),
            SharedCells::Static(metric) => metric.with(|cells| cells.record(value)),
        }
    }

    /// Counts a value this many times, as one update.
    #[inline]
    pub fn record_many(&self, value: u64, times: u64) {
        match &self.cells {
            SharedCells::All(cells) => cells.record_many(value, times),
            SharedCells::Lazy(cells) => cells.record_many(value, times),
            SharedCells::Static(metric) => metric.with(|cells| cells.record_many(value, times)),
        }
    }

    /// Counts a time, rounded to the unit that the metric was registered with; to
    /// nanoseconds if that is not a unit of time.
    #[inline]
    pub fn record_duration(&self, time: Duration) {
        match &self.cells {
            SharedCells::All(cells) => cells.record(cells.in_units(time)),
            SharedCells::Lazy(cells) => cells.record(cells.in_units(time)),
            SharedCells::Static(metric) => {
                metric.with(|cells| cells.record(cells.in_units(time)));
            }
        }
    }

    /// Starts to measure a time, which is recorded as by
    /// [`Histogram::record_duration`] when the guard is dropped.
    #[must_use = "the time is recorded when this is dropped"]
    pub fn start(&self) -> Timing<'_> {
        Timing::new(self)
    }

    /// Records the time that `work` takes, also if it panics.
    pub fn time<R>(&self, work: impl FnOnce() -> R) -> R {
        let _timing = self.start();
        work()
    }

    /// Returns the number of recorded values: the sum of the buckets.
    pub fn count(&self) -> u64 {
        match &self.cells {
            SharedCells::All(cells) => cells.count(),
            SharedCells::Lazy(cells) => cells.count(),
            SharedCells::Static(metric) => metric.with(Cells::count),
        }
    }

    /// Returns the sum of all values, modulo 2^64.
    pub fn sum(&self) -> u64 {
        match &self.cells {
            SharedCells::All(cells) => cells.sum.load(),
            SharedCells::Lazy(cells) => cells.sum(),
            SharedCells::Static(metric) => metric.with(|cells| cells.sum.load()),
        }
    }
}

impl AddDuration for Histogram {
    fn add_duration(&self, time: Duration) {
        self.record_duration(time);
    }
}

impl Default for Histogram {
    /// Makes a histogram that no reader sees.
    fn default() -> Self {
        Self::noop()
    }
}

impl OwnedHistogram {
    /// Makes a histogram that no reader sees.
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

    /// Counts a time, rounded to the unit that the metric was registered with; to
    /// nanoseconds if that is not a unit of time.
    #[inline]
    pub fn record_duration(&mut self, time: Duration) {
        self.record(self.cells.in_units(time));
    }

    /// Records the time that `work` takes; nothing if it panics.
    pub fn time<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let since = Instant::now();
        let result = work();
        self.record_duration(since.elapsed());
        result
    }

    /// Returns the number of recorded values: the sum of the buckets.
    pub fn count(&self) -> u64 {
        self.cells.count()
    }

    /// Returns the sum of all values, modulo 2^64.
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
    fn a_value_of_many_is_counted_as_often() {
        let histogram = Histogram::noop();
        histogram.record_many(3, 0);
        assert_eq!((histogram.count(), histogram.sum()), (0, 0));
        histogram.record_many(3, 1_000_000_000);
        histogram.record(3);
        assert_eq!((histogram.count(), histogram.sum()), (1_000_000_001, 3_000_000_003));
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

    fn in_units(units: Units) -> Histogram {
        Histogram::from_cells(Cells::private(Buckets::new(0, 0), units))
    }

    #[test]
    fn a_duration_is_counted_in_the_unit_of_the_histogram() {
        let hour = Units::new([0, 1, 0], [0, 5, 0]).unwrap();
        for (units, nanoseconds, value) in [
            (Units::nanoseconds(), 7, 7),
            (Units::microseconds(), 1_499, 1),
            (Units::microseconds(), 1_500, 2),
            (Units::milliseconds(), 3_000_000, 3),
            (Units::seconds(), 499_999_999, 0),
            (Units::seconds(), 500_000_000, 1),
            (hour, 5_400_000_000_000, 2),
            (hour, 5_399_999_999_999, 1),
            (Units::bytes(), 12, 12),
            (Units::NONE, 13, 13),
            (Units::seconds().per_second(), 14, 14),
        ] {
            let histogram = in_units(units);
            histogram.record_duration(Duration::from_nanos(nanoseconds));
            assert_eq!((histogram.count(), histogram.sum()), (1, value), "{units}");
            let SharedCells::All(cells) = histogram.cells else { panic!("not of a family") };
            let mut owned = OwnedHistogram::new(cells);
            owned.record_duration(Duration::from_nanos(nanoseconds));
            assert_eq!((owned.count(), owned.sum()), (2, 2 * value), "{units}");
        }
        let histogram = in_units(Units::nanoseconds());
        histogram.record_duration(Duration::MAX);
        assert_eq!(histogram.sum(), u64::MAX);
    }

    #[test]
    fn times_measured_at_once_are_all_recorded() {
        let histogram = in_units(Units::nanoseconds());
        let pause = Duration::from_millis(2);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    histogram.time(|| std::thread::sleep(pause));
                    histogram.start().discard();
                });
            }
        });
        assert_eq!(histogram.count(), 3);
        assert!(Duration::from_nanos(histogram.sum()) >= 3 * pause);
        let mut owned = OwnedHistogram::noop();
        owned.time(|| std::thread::sleep(pause));
        assert!(Duration::from_nanos(owned.sum()) >= pause);
    }
}
