//! Histograms: metrics on a domain of buckets.

use std::sync::{Mutex, PoisonError};

use pcp_types::Units;

use super::{MetricBuilder, Registrar};
use crate::metric::histogram::Cells;
use crate::metric::{Buckets, Counter, Histogram, OwnedCounter, OwnedHistogram};
use crate::registration::{IndomSpec, MetricSpec, SerialChoice, serial_of};
use crate::{Error, Label};

/// A domain whose instances are the buckets of histograms; any number of these
/// can share it. `I` is the registry's kind of domain.
#[derive(Debug, Clone)]
#[must_use]
pub struct BucketIndom<I> {
    indom: I,
    buckets: Buckets,
}

impl<I> BucketIndom<I> {
    /// The buckets.
    pub fn buckets(&self) -> Buckets {
        self.buckets
    }
}

/// The domains of buckets that [`MetricBuilder::build_histogram_of`] made.
#[derive(Debug)]
pub struct SharedBuckets<I>(Mutex<Vec<BucketIndom<I>>>);

impl<I> Default for SharedBuckets<I> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// The domain of these buckets that histograms share; registered by the first.
fn shared<R: Registrar>(registry: &R, buckets: Buckets) -> Result<BucketIndom<R::Indom>, Error> {
    let SharedBuckets(known) = registry.shared_buckets();
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(indom) = known.iter().find(|indom| indom.buckets == buckets) {
        return Ok(indom.clone());
    }
    let indom = add_buckets(registry, buckets)?;
    known.push(indom.clone());
    Ok(indom)
}

/// Registers a domain of buckets.
pub(crate) fn add_buckets<R: Registrar>(
    registry: &R,
    buckets: Buckets,
) -> Result<BucketIndom<R::Indom>, Error> {
    let mut spec = IndomSpec::new("buckets".to_owned());
    // Buckets have the numbers of their positions, so other buckets are another domain.
    let (precision, max) = (buckets.precision(), buckets.max());
    spec.serial = SerialChoice::From(serial_of(&format!("buckets {precision} {max}")));
    spec.help.short = Some("ranges of values, first..last".to_owned());
    spec.add_numbered((0..buckets.count()).filter_map(|index| buckets.name(index)));
    // Two labels, as PCP takes an object apart and loses its name.
    spec.labels =
        vec![Label::new("bucket_precision", u64::from(precision)), Label::new("bucket_max", max)];
    Ok(BucketIndom { indom: registry.add_indom(spec)?, buckets })
}

fn add_histogram<R: Registrar>(
    registry: &R,
    spec: MetricSpec,
    indom: &BucketIndom<R::Indom>,
) -> Result<Cells, Error> {
    let units = spec.units;
    let mut sum = spec.clone();
    sum.name = format!("{}.sum", spec.name);
    sum.item = None;
    sum.labels = Vec::new();
    let mut counts = spec;
    counts.name = format!("{}.bucket", counts.name);
    counts.units = Units::count();
    counts.optional = true;
    counts.labels.push(Label::new("histogram", units.to_string()));
    let (counts, sum) = registry.add_histogram(counts, sum, &indom.indom)?;
    Ok(Cells::new(indom.buckets, counts, sum.cell, units))
}

impl<R: Registrar> MetricBuilder<'_, Counter<u64>, R> {
    /// Registers a histogram of values in the chosen units: the metric
    /// `NAME.bucket`, which counts values by bucket and has a label `histogram`
    /// with their units, and the metric `NAME.sum`. The file gets the
    /// [sentinel flag](crate::RegistryBuilder::sentinel), as a bucket that was never hit has
    /// no value.
    ///
    /// ```
    /// use mmv_writer::{Buckets, Registry, Units};
    ///
    /// # fn main() -> Result<(), mmv_writer::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// let registry = Registry::builder("web").directory(directory.path()).build()?;
    /// let buckets = registry.buckets(Buckets::new(3, 60_000_000))?; // up to a minute
    /// let latency = registry.counter::<u64>("request.latency").units(Units::microseconds());
    /// let latency = latency.build_histogram(&buckets)?;
    /// let _published = registry.publish()?;
    ///
    /// latency.record(1_234);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`MetricBuilder::build`], and [`Error::OtherRegistry`].
    pub fn build_histogram(self, buckets: &BucketIndom<R::Indom>) -> Result<Histogram, Error> {
        Ok(Histogram::new(add_histogram(self.registry, self.spec, buckets)?))
    }

    /// As [`build_histogram`](Self::build_histogram), with a domain that all histograms registered
    /// by this method share if they have the same buckets.
    ///
    /// ```
    /// # use mmv_writer::{Buckets, Registry, Units};
    /// # fn main() -> Result<(), mmv_writer::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let registry = Registry::builder("web").directory(directory.path()).build()?;
    /// let latency = registry.counter::<u64>("latency").units(Units::microseconds());
    /// let latency = latency.build_histogram_of(Buckets::for_units(Units::microseconds()))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`build_histogram`](Self::build_histogram) and
    /// [`IndomBuilder::build`](crate::IndomBuilder::build).
    pub fn build_histogram_of(self, buckets: Buckets) -> Result<Histogram, Error> {
        let indom = shared(self.registry, buckets)?;
        self.build_histogram(&indom)
    }
}

impl<R: Registrar> MetricBuilder<'_, OwnedCounter<u64>, R> {
    /// As for a shared counter, with one writer.
    ///
    /// # Errors
    ///
    /// As `build_histogram` of a shared counter.
    pub fn build_histogram(self, buckets: &BucketIndom<R::Indom>) -> Result<OwnedHistogram, Error> {
        Ok(OwnedHistogram::new(add_histogram(self.registry, self.spec, buckets)?))
    }

    /// As for a shared counter, with one writer.
    ///
    /// # Errors
    ///
    /// As `build_histogram_of` of a shared counter.
    pub fn build_histogram_of(self, buckets: Buckets) -> Result<OwnedHistogram, Error> {
        let indom = shared(self.registry, buckets)?;
        self.build_histogram(&indom)
    }
}
