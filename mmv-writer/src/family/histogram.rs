//! Families of histograms: a metric with an instance for each bucket of each series, and one
//! with the sum of each series.

use std::sync::{Arc, Mutex, PoisonError};

use pcp_types::Units;

use super::kind::{Creation, OverflowSeries, SeriesHandle, SeriesMetric, sealed};
use super::{DEFAULT_MAX_HISTOGRAMS, Family, Labels, register_series};
use crate::builder::{HistogramBuilder, HistogramSpecs, MetricBuilder};
use crate::mapping::Cell;
use crate::metric::histogram::{BucketSource, LazyCells};
use crate::metric::{Buckets, Histogram};
use crate::published::warn;
use crate::registration::MetricSpec;
use crate::{Error, Registry};

/// Limit on the bytes of the name of a series, which leaves room for `,bucket=` and two numbers
/// of 64 bits in the names of its buckets.
const MAX_NAME: usize = 205;

/// A metric of histograms in the files of its registry.
#[expect(missing_debug_implementations, reason = "only a sealed trait names it")]
pub struct HistogramMetric {
    /// The metric `NAME.sum`.
    sum: SeriesMetric,
    counts: Arc<CountsMetric>,
    units: Units,
}

/// The metric `NAME.bucket`.
struct CountsMetric {
    metric: SeriesMetric,
    buckets: Buckets,
}

/// The buckets of one histogram.
struct LazyBuckets {
    counts: Arc<CountsMetric>,
    /// Name of the series; `None` for a histogram without labels.
    series: Option<String>,
    /// The series that records what does not fit. `None` for a histogram with room for all of its
    /// buckets, as that series itself is: so nothing refers to itself.
    overflow: Option<OverflowOf>,
    registered: Mutex<HistogramMetrics>,
}

struct OverflowOf {
    metric: Arc<HistogramMetric>,
    series: Arc<OverflowSeries<Histogram>>,
}

#[derive(Default)]
struct HistogramMetrics {
    buckets: Vec<usize>,
    is_closed: bool,
}

impl CountsMetric {
    /// Registers the metric, with room for all buckets of one histogram.
    fn register(
        registry: &Registry,
        counts: MetricSpec,
        buckets: Buckets,
    ) -> Result<Arc<Self>, Error> {
        let metric = register_series(registry, counts, buckets.count())?;
        Ok(Arc::new(Self { metric, buckets }))
    }

    /// Returns the name of a bucket's instance.
    fn bucket_name(&self, series: Option<&str>, bucket: usize) -> String {
        let range = self.buckets.name(bucket).unwrap_or_default();
        match series {
            Some(series) => format!("{series},bucket={range}"),
            None => format!("bucket={range}"),
        }
    }
}

impl SeriesHandle for Histogram {}

impl sealed::SeriesHandle for Histogram {
    type Metric = HistogramMetric;

    const MAX_NAME: usize = MAX_NAME;

    fn private() -> Self {
        Self::noop()
    }

    fn series(metric: &HistogramMetric) -> &SeriesMetric {
        &metric.sum
    }

    fn create(
        metric: &Arc<HistogramMetric>,
        overflow: Option<&Arc<OverflowSeries<Self>>>,
        creation: &mut Creation<'_>,
    ) -> Result<Self, Error> {
        let series = creation.name.to_owned();
        let slot = match overflow {
            Some(_) => creation.state.create_value(metric.sum.id, &series)?,
            None => creation.state.create_promised_value(metric.sum.id, &series)?,
        };
        let sum = metric.sum.kept.keeping(slot).cell;
        let overflow = overflow
            .map(|series| OverflowOf { metric: Arc::clone(metric), series: Arc::clone(series) });
        let counts = Arc::clone(&metric.counts);
        let buckets = LazyBuckets::new(counts, Some(series), overflow);
        Ok(buckets.histogram(metric.units, sum))
    }

    fn remove_parts(&self, metric: &HistogramMetric, creation: &mut Creation<'_>) {
        for bucket in self.close() {
            let name = metric.counts.bucket_name(Some(creation.name), bucket);
            let (_, released) = creation.state.remove(metric.counts.metric.id.indom, &name);
            creation.released.extend(released);
        }
    }
}

impl LazyBuckets {
    fn new(
        counts: Arc<CountsMetric>,
        series: Option<String>,
        overflow: Option<OverflowOf>,
    ) -> Self {
        Self { counts, series, overflow, registered: Mutex::default() }
    }

    /// Makes the histogram with these buckets.
    fn histogram(self, units: Units, sum: Cell) -> Histogram {
        Histogram::lazy(LazyCells::new(self.counts.buckets, units, sum, Arc::new(self)))
    }
}

impl BucketSource for LazyBuckets {
    fn register(&self, bucket: usize) -> Option<Cell> {
        let SeriesMetric { kept, files, id } = &self.counts.metric;
        let mut state = files.write();
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        if registered.is_closed {
            return Some(Cell::private());
        }
        let name = self.counts.bucket_name(self.series.as_deref(), bucket);
        let created = match &self.overflow {
            Some(_) => state.create_value(*id, &name),
            None => state.create_promised_value(*id, &name),
        };
        match created {
            Ok(slot) => {
                registered.buckets.push(bucket);
                files.announce(&mut state);
                Some(kept.keeping(slot).cell)
            }
            Err(_) if self.overflow.is_some() => None,
            Err(error) => {
                warn(&format!("{name} is not counted: {error}\n"));
                Some(Cell::private())
            }
        }
    }

    fn record_overflow(&self, value: u64, times: u64) {
        if let Some(overflow) = &self.overflow {
            overflow.series.handle(&overflow.metric).record_many(value, times);
        }
    }

    fn close(&self) -> Vec<usize> {
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        registered.is_closed = true;
        std::mem::take(&mut registered.buckets)
    }
}

impl std::fmt::Debug for LazyBuckets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LazyBuckets").field("series", &self.series).finish_non_exhaustive()
    }
}

impl HistogramBuilder<'_> {
    /// Sets the limit on the series of a family; 1000 by default. Values of others are recorded
    /// in its series `overflow`: see [cardinality](Family#cardinality).
    pub fn max_series(mut self, most: usize) -> Self {
        self.metric = self.metric.max_series(most);
        self
    }

    /// Registers a histogram for each set of labels that is used.
    ///
    /// ```
    /// # use mmv_writer::{Family, Histogram, Labels, Registry, Units};
    /// #[derive(Labels, Clone, PartialEq, Eq, Hash)]
    /// struct Endpoint {
    ///     endpoint: &'static str,
    /// }
    ///
    /// # fn main() -> Result<(), mmv_writer::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let registry = Registry::builder("shop").directory(directory.path()).build()?;
    /// let latency = registry.histogram("latency").units(Units::microseconds());
    /// let latency: Family<Endpoint, Histogram> = latency.build_family()?;
    /// latency.get(&Endpoint { endpoint: "/cart" }).record(1_234);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The metric `NAME.sum` has an instance for each series, `endpoint=/cart`, and
    /// `NAME.bucket` one for each bucket that was hit, `endpoint=/cart,bucket=1216..1279`. A
    /// bucket takes 344 bytes of the file. A value whose bucket does not fit is recorded in
    /// the series `overflow`.
    ///
    /// # Errors
    ///
    /// The errors of [`MetricBuilder::build`], and [`Error::FixedInstances`] in a sealed registry.
    pub fn build_family<L: Labels>(self) -> Result<Family<L, Histogram>, Error> {
        let (metric, buckets) = self.into_parts();
        let MetricBuilder { registry, spec, max_series, .. } = metric;
        let units = spec.units;
        let HistogramSpecs { counts, sum } = HistogramSpecs::new(spec);
        let counts_name = counts.name.clone();
        let counts = CountsMetric::register(registry, counts, buckets)?;
        let sum = register_series(registry, sum, 1).inspect_err(|_| {
            registry.remove(&counts_name);
        })?;
        let metric = HistogramMetric { sum, counts, units };
        Ok(Family::new(metric, max_series.unwrap_or(DEFAULT_MAX_HISTOGRAMS)))
    }

    /// Registers a histogram whose buckets are registered when they are first hit, as those of a
    /// family are: for many buckets of which few are used. The file keeps room for all of them, and
    /// does not need the [sentinel flag](crate::pcp::RegistryBuilderExt::sentinel).
    ///
    /// # Errors
    ///
    /// The errors of [`build_family`](Self::build_family).
    pub fn build_sparse(self) -> Result<Histogram, Error> {
        let (metric, buckets) = self.into_parts();
        let MetricBuilder { registry, spec, .. } = metric;
        let units = spec.units;
        let HistogramSpecs { counts, sum } = HistogramSpecs::new(spec);
        let counts_name = counts.name.clone();
        let counts = CountsMetric::register(registry, counts, buckets)?;
        let sum = registry.add_singular(sum).inspect_err(|_| {
            registry.remove(&counts_name);
        })?;
        Ok(LazyBuckets::new(counts, None, None).histogram(units, sum.cell))
    }
}
