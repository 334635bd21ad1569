//! Live domains whose instances are stated with them, for metrics that have one
//! handle on them all: striped counters and histograms.

use std::fmt;
use std::sync::Arc;

use super::{LiveRegistry, Shared};
use crate::mapping::Row;
use crate::metric::Buckets;
use crate::metric::sealed::Seat;
use crate::registry::model::Help;
use crate::registry::{BucketIndom, MetricSpec, sealed};
use crate::{Error, Label};

/// A domain of a [`LiveRegistry`] whose instances stay as they are; made by
/// [`LiveRegistry::stripes`]. Clones are the same domain.
#[derive(Clone)]
#[must_use]
pub struct StatedIndom {
    shared: Arc<Shared>,
    index: usize,
    count: usize,
}

impl LiveRegistry {
    /// A domain for striped counters, as
    /// [`Registry::stripes`](crate::Registry::stripes).
    ///
    /// A counter that is striped for each instance of another domain is a metric
    /// each: a metric has one domain, and here that is the stripes.
    ///
    /// # Errors
    ///
    /// As [`LiveIndomBuilder::build`](crate::LiveIndomBuilder::build).
    pub fn stripes(&self, count: usize) -> Result<StatedIndom, Error> {
        sealed::add_stripes(self, count)
    }

    /// A domain of buckets for histograms, as
    /// [`Registry::buckets`](crate::Registry::buckets). All histograms of a registry
    /// that have the same buckets should share it.
    ///
    /// A histogram for each instance of another domain is a metric each, as one
    /// metric has one domain, and here that is the buckets. It can be registered when
    /// the instance comes, and stays when that goes.
    ///
    /// ```
    /// use mmv_writer::{Buckets, Registry, Units};
    ///
    /// # fn main() -> Result<(), mmv_writer::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// let registry = Registry::builder("web").directory(directory.path()).sentinel();
    /// let registry = registry.live().build()?;
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
    /// As [`LiveIndomBuilder::build`](crate::LiveIndomBuilder::build).
    pub fn buckets(&self, buckets: Buckets) -> Result<BucketIndom<StatedIndom>, Error> {
        sealed::add_buckets(self, buckets)
    }
}

impl sealed::Registrar for LiveRegistry {
    type Indom = StatedIndom;

    fn add_indom(
        &self,
        name: &str,
        help: &str,
        labels: Vec<Label>,
        names: Vec<String>,
    ) -> Result<StatedIndom, Error> {
        let count = names.len();
        let name = name.to_owned();
        let help = Help { short: Some(help.to_owned()), long: None };
        let index =
            self.shared.change(|state| state.add_domain(name, None, &help, labels, names))?;
        Ok(StatedIndom { shared: Arc::clone(&self.shared), index, count })
    }

    fn add_singular(&self, spec: MetricSpec) -> Result<Seat, Error> {
        self.shared.change(|state| state.add_singular(spec))
    }

    fn add_striped(&self, spec: MetricSpec, indom: &StatedIndom) -> Result<Vec<Seat>, Error> {
        self.check(&spec, indom)?;
        self.shared.change(|state| state.add_stated(spec, indom.index))
    }

    fn add_histogram(
        &self,
        counts: MetricSpec,
        sum: MetricSpec,
        indom: &StatedIndom,
    ) -> Result<(Row, Seat), Error> {
        self.check(&counts, indom)?;
        self.shared.change(|state| state.add_histogram(counts, sum, indom.index))
    }
}

impl LiveRegistry {
    fn check(&self, spec: &MetricSpec, indom: &StatedIndom) -> Result<(), Error> {
        if Arc::ptr_eq(&self.shared, &indom.shared) {
            return Ok(());
        }
        Err(Error::OtherRegistry { name: spec.name.clone() })
    }
}

impl fmt::Debug for StatedIndom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatedIndom").field("count", &self.count).finish_non_exhaustive()
    }
}
