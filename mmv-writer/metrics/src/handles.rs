//! The facade's handles, on those of mmv-writer.

use std::sync::{Mutex, OnceLock, PoisonError};

use metrics::{CounterFn, GaugeFn, HistogramFn};
use mmv_writer::{Buckets, Counter, Gauge};

use crate::series::{Series, SeriesPlace};
use crate::warning;

/// The counter of a key.
#[derive(Debug)]
pub(crate) struct Counting {
    counter: Counter<u64>,
    /// Held while a count is set, not while it is added to.
    setting: Mutex<()>,
}

impl Counting {
    pub(crate) fn new(counter: Counter<u64>) -> Self {
        Self { counter, setting: Mutex::new(()) }
    }
}

impl CounterFn for Counting {
    fn increment(&self, value: u64) {
        self.counter.add(value);
    }

    fn absolute(&self, value: u64) {
        let _setting = self.setting.lock().unwrap_or_else(PoisonError::into_inner);
        self.counter.add(value.saturating_sub(self.counter.value()));
    }
}

/// The gauge of a key.
#[derive(Debug)]
pub(crate) struct Gauging(pub(crate) Gauge<f64>);

impl GaugeFn for Gauging {
    fn increment(&self, value: f64) {
        self.0.add(value);
    }

    fn decrement(&self, value: f64) {
        self.0.sub(value);
    }

    fn set(&self, value: f64) {
        self.0.set(value);
    }
}

/// A histogram: a counter for each bucket, made when the bucket is first hit, and a sum.
#[derive(Debug)]
pub(crate) struct Recording {
    buckets: Buckets,
    /// Factor that converts values to the metric's units.
    factor: f64,
    series: Series<Counter<u64>>,
    /// Start of the names of the buckets' instances.
    prefix: String,
    /// Counters of the buckets; empty for a set of labels without a place.
    counts: Box<[OnceLock<Counter<u64>>]>,
    /// Counter of all values of a set of labels without a place.
    overflow: Option<Counter<u64>>,
    sum: Counter<u64>,
}

impl Recording {
    /// Makes a histogram. With `overflow`, that counts all values in place of buckets.
    pub(crate) fn new(
        buckets: Buckets,
        factor: f64,
        series: Series<Counter<u64>>,
        labels: Option<String>,
        sum: Counter<u64>,
        overflow: Option<Counter<u64>>,
    ) -> Self {
        let prefix = labels.map_or(String::new(), |labels| labels + ",");
        let count = if overflow.is_some() { 0 } else { buckets.count() };
        let counts = (0..count).map(|_| OnceLock::new()).collect();
        Self { buckets, factor, series, prefix, counts, overflow, sum }
    }

    fn name(&self, index: usize) -> String {
        let (first, last) = self.buckets.bounds(index).unwrap_or_default();
        let end = if last == u64::MAX { String::new() } else { last.to_string() };
        format!("{}bucket={first}..{end}", self.prefix)
    }

    fn create(&self, index: usize) -> Counter<u64> {
        match self.series.get_or_create(&self.name(index)) {
            Ok(SeriesPlace::Own(counter) | SeriesPlace::Overflow(counter)) => counter,
            Err(error) => {
                warning(&format_args!("{} is not counted: {error}", self.series.name()));
                Counter::noop()
            }
        }
    }

    /// Removes the buckets that were hit.
    pub(crate) fn remove_buckets(&self) {
        for (index, count) in self.counts.iter().enumerate() {
            if count.get().is_some() {
                self.series.remove(&self.name(index));
            }
        }
    }
}

impl HistogramFn for Recording {
    fn record(&self, value: f64) {
        self.record_many(value, 1);
    }

    fn record_many(&self, value: f64, count: usize) {
        if value.is_nan() {
            return;
        }
        // Negative ones become 0, what is too large the largest.
        let value = (value * self.factor).round() as u64;
        let index = self.buckets.index(value);
        let bucket = self.counts.get(index);
        let bucket = bucket.map(|bucket| bucket.get_or_init(|| self.create(index)));
        if let Some(bucket) = bucket.or(self.overflow.as_ref()) {
            bucket.add(count as u64);
        }
        self.sum.add(value.wrapping_mul(count as u64));
    }
}
