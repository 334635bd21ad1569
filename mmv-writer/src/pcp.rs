//! Settings of PCP's own metrics: numbers of files, metrics and instances, domains of instances,
//! and the versions and flags of the format.
//!
//! A program that uses the options below imports their trait:
//!
//! ```
//! use mmv_writer::Registry;
//! use mmv_writer::pcp::{MetricBuilderExt as _, RegistryBuilderExt as _};
//!
//! # fn main() -> Result<(), mmv_writer::Error> {
//! # let directory = tempfile::tempdir().unwrap();
//! let registry = Registry::builder("acme").cluster(321);
//! # let registry = registry.directory(directory.path());
//! let registry = registry.build()?;
//! let products = registry.counter("products").item(7).build()?; // the PMID 70.321.7
//! # Ok(())
//! # }
//! ```

pub use mmv_format::directory::MmvDirectory;
pub use mmv_format::layout::Version;
pub use mmv_format::mmv_directory;
pub use pcp_types::{InstanceId, Semantics, ValueType};

use crate::builder::{HistogramBuilder, MetricBuilder};
use crate::identity::Absent;
use crate::metric::Handle;
use crate::options::RegistryBuilder;
use crate::system::process_id;
use crate::{Error, Registry};

pub use crate::builder::IndomBuilder;
pub use crate::family::NamedFamily;
pub use crate::metric::{Elapsed, Instances};
pub use crate::registry::Indom;

/// Options of a registry's files in the format's terms. Implemented for [`RegistryBuilder`] only.
pub trait RegistryBuilderExt: Sized {
    /// Asks for a cluster, 1..=4095, the middle part of all PMIDs. By default, or
    /// with 0, readers choose one. A file with instance domains needs one of at most
    /// 2047.
    #[must_use]
    fn cluster(self, cluster: u32) -> Self;

    /// Asks for the clusters of overflow files, which hold what does not fit the
    /// first: this one for the second file, the next one for the third and so on. By
    /// default readers choose, as for any file that asks for none.
    ///
    /// Set it if cluster numbers must not depend on other programs: when a file without
    /// one appears, PCP's reader changes the clusters that it has given to files after it
    /// in the alphabet. Labels of the whole registry reach overflow files, and files
    /// of [several processes](RegistryBuilder::per_process) have overflow files, only
    /// with this.
    #[must_use]
    fn overflow_cluster(self, cluster: u32) -> Self;

    /// Gives the file the sentinel flag from the start, whether or not it needs it: for
    /// all metrics of the file, readers take a 64-bit integer with all bits set (-1 of an
    /// `i64`, the largest `u64`), NaN and an empty text for "no value".
    ///
    /// Without this, a file has the flag from the first metric on that needs it: an
    /// optional value or a histogram; or, in a growing registry, a second family on a domain,
    /// as an instance may have a value of one and none of the other. For each such missing
    /// value pmdammv of PCP 7 logs a warning at each fetch; to avoid it, the registry stores
    /// "no value" there as long as half of the room for values is free.
    #[must_use]
    fn sentinel(self) -> Self;

    /// Keeps the file without the [sentinel flag](Self::sentinel), so that -1 and NaN are values
    /// of every metric. Optional values and histograms are then rejected
    /// ([`Error::NeedsSentinel`]), and instances that come and go
    /// have gaps.
    #[must_use]
    fn no_sentinel(self) -> Self;

    /// Pins the version of the format; what it cannot hold is rejected.
    #[must_use]
    fn version(self, version: Version) -> Self;
}

impl RegistryBuilderExt for RegistryBuilder {
    fn cluster(mut self, cluster: u32) -> Self {
        self.cluster = cluster;
        self
    }

    fn overflow_cluster(mut self, cluster: u32) -> Self {
        self.overflow_cluster = Some(cluster);
        self
    }

    fn sentinel(mut self) -> Self {
        self.absent = Absent::Always;
        self
    }

    fn no_sentinel(mut self) -> Self {
        self.absent = Absent::Never;
        self
    }

    fn version(mut self, version: Version) -> Self {
        self.pinned = Some(version);
        self
    }
}

/// Domains of instances, which several metrics can share. Implemented for [`Registry`] only.
///
/// Where the instances are those of one metric, [`Family`](crate::Family) is simpler.
///
/// ```
/// use mmv_writer::Registry;
/// use mmv_writer::pcp::{IndomMetricExt as _, RegistryExt as _};
///
/// # fn main() -> Result<(), mmv_writer::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let registry = Registry::builder("acme").directory(directory.path()).build()?;
/// let queues = registry.indom("queues").names(["in", "out"]).build()?;
/// let entered = registry.counter("entered").build_instances(&queues)?;
/// let depth = registry.gauge("depth").build_instances(&queues)?;
/// # Ok(())
/// # }
/// ```
pub trait RegistryExt {
    /// Begins an instance domain; `name` appears in error messages only.
    fn indom(&self, name: impl Into<String>) -> IndomBuilder<'_>;

    /// Registers a domain with this process as its only instance, for a file that is one
    /// [of several](RegistryBuilder::per_process). Register it first, so that it has the same
    /// serial in each.
    ///
    /// # Errors
    ///
    /// The errors of [`IndomBuilder::build`].
    fn process(&self) -> Result<Indom, Error>;
}

impl RegistryExt for Registry {
    fn indom(&self, name: impl Into<String>) -> IndomBuilder<'_> {
        IndomBuilder::new(self, name.into())
    }

    fn process(&self) -> Result<Indom, Error> {
        let pid = process_id();
        let processes = self.indom("processes").help("processes of the application");
        processes.instance(pid.cast_signed(), pid.to_string()).build()
    }
}

/// Metrics on a domain of instances. Implemented for [`MetricBuilder`] only.
pub trait IndomMetricExt<H> {
    /// Registers the metric on a domain with fixed instances: a value and a handle for each.
    ///
    /// # Errors
    ///
    /// The errors of [`MetricBuilder::build`], and [`Error::OtherRegistry`].
    fn build_instances(self, indom: &Indom) -> Result<Instances<H>, Error>;

    /// Registers the metric on a domain whose instances come and go: they get values when they
    /// are requested.
    ///
    /// # Errors
    ///
    /// The errors of [`MetricBuilder::build`], [`Error::OtherRegistry`], and
    /// [`Error::FixedInstances`] for a domain with fixed instances, as all are in a sealed
    /// registry.
    fn build_named(self, indom: &Indom) -> Result<NamedFamily<H>, Error>
    where
        H: Clone;
}

impl<H: Handle> IndomMetricExt<H> for MetricBuilder<'_, H> {
    fn build_instances(self, indom: &Indom) -> Result<Instances<H>, Error> {
        let slots = self.registry.add_fixed(self.spec, indom)?;
        let handles = slots.into_iter().map(H::from_slot).collect();
        Ok(Instances::new(indom.registered().record.members.clone(), handles))
    }

    fn build_named(self, indom: &Indom) -> Result<NamedFamily<H>, Error>
    where
        H: Clone,
    {
        NamedFamily::register(self, indom)
    }
}

/// The number of a metric. Implemented for [`MetricBuilder`] and [`HistogramBuilder`] only.
pub trait MetricBuilderExt: Sized {
    /// Sets the item number, 0..=1023, the last part of the PMID; without this, the lowest from 1
    /// on that is free, and 0 when all of those are taken. Of a histogram it is that of the
    /// metric that counts values by bucket.
    #[must_use]
    fn item(self, item: u32) -> Self;
}

impl<H: Handle> MetricBuilderExt for MetricBuilder<'_, H> {
    fn item(mut self, item: u32) -> Self {
        self.spec.item = Some(item);
        self
    }
}

impl MetricBuilderExt for HistogramBuilder<'_> {
    fn item(mut self, item: u32) -> Self {
        self.metric.spec.item = Some(item);
        self
    }
}
