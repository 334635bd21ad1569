//! Domains of a live registry with fixed instances, for metrics that have one handle
//! on them all: striped counters and histograms.

use super::LiveRegistry;
use crate::Error;
use crate::builder::{BucketIndom, Registrar, SharedBuckets, add_buckets, add_stripes, sealed};
use crate::mapping::CellStrip;
use crate::metric::{Buckets, ValueSlot};
use crate::registration::{Indom, IndomSpec, MetricSpec};

/// A domain of a [`LiveRegistry`] with fixed instances, made by
/// [`LiveRegistry::stripes`]. Clones are the same domain.
#[derive(Debug, Clone)]
#[must_use]
pub struct FixedIndom(Indom);

impl LiveRegistry {
    /// A domain for striped counters, as
    /// [`Registry::stripes`](crate::Registry::stripes).
    ///
    /// To stripe a counter for each instance of another domain, register a metric for
    /// each instance: a metric has one domain, and here that is the stripes.
    ///
    /// # Errors
    ///
    /// As [`IndomBuilder::build`](crate::IndomBuilder::build).
    pub fn stripes(&self, count: usize) -> Result<FixedIndom, Error> {
        add_stripes(self, count)
    }

    /// A domain of buckets for histograms, as
    /// [`Registry::buckets`](crate::Registry::buckets). All histograms of a registry
    /// that have the same buckets should share it.
    ///
    /// For a histogram of each instance of another domain, register a metric for each:
    /// a metric has one domain, and here that is the buckets. It can be registered when
    /// the instance is created, and stays when the instance is removed.
    ///
    /// ```
    /// use mmv_writer::{Buckets, Registry, Units};
    ///
    /// # fn main() -> Result<(), mmv_writer::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// let registry = Registry::builder("web").directory(directory.path()).live().build()?;
    /// let buckets = registry.buckets(Buckets::new(3, 60_000_000))?; // up to a minute
    /// let latency = |path: &str| {
    ///     let latency = registry.counter::<u64>(format!("latency.{path}"));
    ///     latency.units(Units::microseconds()).build_histogram(&buckets)
    /// };
    /// let search = latency("search")?;
    /// search.record(1_234);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`IndomBuilder::build`](crate::IndomBuilder::build).
    pub fn buckets(&self, buckets: Buckets) -> Result<BucketIndom<FixedIndom>, Error> {
        add_buckets(self, buckets)
    }
}

impl Registrar for LiveRegistry {}

impl sealed::Registrar for LiveRegistry {
    type Indom = FixedIndom;

    fn add_indom(&self, spec: IndomSpec) -> Result<FixedIndom, Error> {
        self.shared.change(|state| state.registrations.add_indom(spec)).map(FixedIndom)
    }

    fn add_singular(&self, spec: MetricSpec) -> Result<ValueSlot, Error> {
        self.shared.change(|state| state.registrations.add_singular(spec))
    }

    fn add_fixed(&self, spec: MetricSpec, indom: &FixedIndom) -> Result<Vec<ValueSlot>, Error> {
        self.shared.change(|state| state.registrations.add_fixed(spec, &indom.0))
    }

    fn shared_buckets(&self) -> &SharedBuckets<FixedIndom> {
        &self.buckets
    }

    fn add_histogram(
        &self,
        counts: MetricSpec,
        sum: MetricSpec,
        indom: &FixedIndom,
    ) -> Result<(CellStrip, ValueSlot), Error> {
        self.shared.change(|state| state.registrations.add_histogram(counts, sum, &indom.0))
    }
}
