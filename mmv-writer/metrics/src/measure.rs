//! The three kinds of the facade's handles, on those of mmv-writer.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{CounterFn, GaugeFn, HistogramFn, Unit};
use mmv_writer::handle::{Measured, SeriesHandle};
use mmv_writer::{
    Buckets, Counter, Error, Family, Gauge, Histogram, HistogramBuilder, MetricBuilder, Registry,
    Units,
};

use crate::labels::KeyLabels;
use crate::units;

/// The registered metrics of each kind.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    counters: MetricsByName<Counter>,
    gauges: MetricsByName<Gauge>,
    histograms: MetricsByName<Histogram>,
}

/// Metrics by their names in the facade.
pub(crate) type MetricsByName<H> = HashMap<String, Metric<H>>;

/// A name of the facade, which is two metrics: with labels and without.
#[derive(Debug)]
pub(crate) struct Metric<H: SeriesHandle> {
    pub(crate) plain: Option<H>,
    pub(crate) labelled: Option<Family<KeyLabels, H>>,
}

impl<H: SeriesHandle> Default for Metric<H> {
    fn default() -> Self {
        Self { plain: None, labelled: None }
    }
}

/// A metric to be registered.
#[derive(Debug)]
pub(crate) struct MetricSpec<'a> {
    pub(crate) name: String,
    pub(crate) unit: Option<Unit>,
    pub(crate) help: &'a str,
    /// The facade's name, if the metric has another one.
    pub(crate) long_help: Option<String>,
    /// Buckets of a histogram; `None` for those of its units.
    pub(crate) buckets: Option<Buckets>,
    /// Limit on the series; `None` for that of a [`Family`].
    pub(crate) max_series: Option<usize>,
}

/// A kind of handle that a key can have.
pub(crate) trait Measure: fmt::Debug + Send + Sync + Sized + 'static {
    /// The handle of the facade.
    type Facade: fmt::Debug + Clone + From<Arc<Self>>;

    /// The handle of mmv-writer.
    type Handle: SeriesHandle;

    /// Name of the kind in the facade.
    const KIND: &'static str;

    /// Endings of the names of the metrics in the file.
    const ENDINGS: &'static [&'static str];

    fn new(handle: Self::Handle, unit: Option<Unit>) -> Self;

    /// Returns the registered metrics of this kind.
    fn metrics_by_name(metrics: &mut Metrics) -> &mut MetricsByName<Self::Handle>;

    /// Registers a metric without labels.
    fn register(registry: &Registry, metric: &MetricSpec<'_>) -> Result<Self::Handle, Error>;

    /// Registers a metric with labels.
    fn register_family(
        registry: &Registry,
        metric: &MetricSpec<'_>,
    ) -> Result<Family<KeyLabels, Self::Handle>, Error>;
}

/// The counter of a key.
#[derive(Debug)]
pub(crate) struct FacadeCounter {
    pub(crate) counter: Counter,
    /// Held while a count is set, not while it is added to.
    setting: Mutex<()>,
}

/// The gauge of a key.
#[derive(Debug)]
pub(crate) struct FacadeGauge(Gauge);

/// The histogram of a key.
#[derive(Debug)]
pub(crate) struct FacadeHistogram {
    histogram: Histogram,
    /// Factor that converts values to the metric's units.
    factor: f64,
}

impl MetricSpec<'_> {
    /// Begins a counter or a gauge.
    fn builder<'r, H: Measured + Clone>(
        &self,
        registry: &'r Registry,
        units: Units,
    ) -> MetricBuilder<'r, H> {
        let mut builder = registry.metric(&self.name).units(units);
        if !self.help.is_empty() {
            builder = builder.help(self.help);
        }
        if let Some(text) = &self.long_help {
            builder = builder.long_help(text);
        }
        if let Some(most) = self.max_series {
            builder = builder.max_series(most);
        }
        builder
    }

    fn counter<'r>(&self, registry: &'r Registry) -> MetricBuilder<'r, Counter> {
        let units = self.unit.map_or(Units::count(), |unit| units::from_facade(Some(unit)));
        self.builder(registry, units)
    }

    fn gauge<'r>(&self, registry: &'r Registry) -> MetricBuilder<'r, Gauge> {
        self.builder(registry, units::from_facade(self.unit))
    }

    fn histogram<'r>(&self, registry: &'r Registry) -> HistogramBuilder<'r> {
        let (units, _) = units::histogram_units(self.unit);
        let mut builder = registry.histogram(&self.name).units(units);
        if !self.help.is_empty() {
            builder = builder.help(self.help);
        }
        if let Some(text) = &self.long_help {
            builder = builder.long_help(text);
        }
        if let Some(buckets) = self.buckets {
            builder = builder.buckets(buckets);
        }
        if let Some(most) = self.max_series {
            builder = builder.max_series(most);
        }
        builder
    }
}

impl Measure for FacadeCounter {
    type Facade = metrics::Counter;
    type Handle = Counter;
    const KIND: &'static str = "counter";
    const ENDINGS: &'static [&'static str] = &[""];

    fn new(counter: Counter, _: Option<Unit>) -> Self {
        Self { counter, setting: Mutex::new(()) }
    }

    fn metrics_by_name(metrics: &mut Metrics) -> &mut MetricsByName<Counter> {
        &mut metrics.counters
    }

    fn register(registry: &Registry, metric: &MetricSpec<'_>) -> Result<Counter, Error> {
        metric.counter(registry).build()
    }

    fn register_family(
        registry: &Registry,
        metric: &MetricSpec<'_>,
    ) -> Result<Family<KeyLabels, Counter>, Error> {
        metric.counter(registry).build_family()
    }
}

impl Measure for FacadeGauge {
    type Facade = metrics::Gauge;
    type Handle = Gauge;
    const KIND: &'static str = "gauge";
    const ENDINGS: &'static [&'static str] = &[""];

    fn new(gauge: Gauge, _: Option<Unit>) -> Self {
        Self(gauge)
    }

    fn metrics_by_name(metrics: &mut Metrics) -> &mut MetricsByName<Gauge> {
        &mut metrics.gauges
    }

    fn register(registry: &Registry, metric: &MetricSpec<'_>) -> Result<Gauge, Error> {
        metric.gauge(registry).build()
    }

    fn register_family(
        registry: &Registry,
        metric: &MetricSpec<'_>,
    ) -> Result<Family<KeyLabels, Gauge>, Error> {
        metric.gauge(registry).build_family()
    }
}

impl Measure for FacadeHistogram {
    type Facade = metrics::Histogram;
    type Handle = Histogram;
    const KIND: &'static str = "histogram";
    const ENDINGS: &'static [&'static str] = &[".bucket", ".sum"];

    fn new(histogram: Histogram, unit: Option<Unit>) -> Self {
        let (_, factor) = units::histogram_units(unit);
        Self { histogram, factor }
    }

    fn metrics_by_name(metrics: &mut Metrics) -> &mut MetricsByName<Histogram> {
        &mut metrics.histograms
    }

    fn register(registry: &Registry, metric: &MetricSpec<'_>) -> Result<Histogram, Error> {
        metric.histogram(registry).build_sparse()
    }

    fn register_family(
        registry: &Registry,
        metric: &MetricSpec<'_>,
    ) -> Result<Family<KeyLabels, Histogram>, Error> {
        metric.histogram(registry).build_family()
    }
}

impl CounterFn for FacadeCounter {
    fn increment(&self, value: u64) {
        self.counter.add(value);
    }

    fn absolute(&self, value: u64) {
        let _setting = self.setting.lock().unwrap_or_else(PoisonError::into_inner);
        self.counter.add(value.saturating_sub(self.counter.value()));
    }
}

impl GaugeFn for FacadeGauge {
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

impl HistogramFn for FacadeHistogram {
    fn record(&self, value: f64) {
        self.record_many(value, 1);
    }

    fn record_many(&self, value: f64, count: usize) {
        if value.is_nan() {
            return;
        }
        // Negative ones become 0, what is too large the largest.
        let value = (value * self.factor).round() as u64;
        self.histogram.record_many(value, count as u64);
    }
}
