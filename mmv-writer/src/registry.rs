//! The sealed registry: everything is registered, then published, and stays.
//!
//! A registry makes one file, and overflow files where that is full. The file
//! exists from the start, under a temporary name, and values get their final
//! place in it when they are registered: a handle counts from its first moment,
//! before publication as after. [`Registry::publish`] adds the descriptions and
//! gives the file its name. So values are the first section, where libpcp_mmv writes
//! them after sections whose sizes it has to know; readers follow the table of contents.

mod draft;
mod image;

use std::sync::{Mutex, MutexGuard, PoisonError};

use pcp_types::InstanceId;

use crate::builder::{
    BucketIndom, IndomBuilder, MetricBuilder, Registrar, SharedBuckets, add_buckets, add_stripes,
    metric_kinds, sealed,
};
use crate::mapping::CellStrip;
use crate::metric::{
    Buckets, Counter, Discrete, Elapsed, Gauge, Handle, Instances, Number, Text, Timer, ValueSlot,
};
use crate::options::RegistryBuilder;
use crate::overflow::remove_stale;
use crate::published::Published;
use crate::registration::{self, IndomSpec, MetricSpec, Registrations};
use crate::{Error, Label};
use draft::Draft;

/// Metrics of one file, before it is published.
///
/// What does not fit (1023 metrics, 255 labels, 2047 domains) goes into overflow
/// files, with the same metric names: `app.2` and so on after `app`. These are
/// published and withdrawn together with the first.
///
/// Dropping a registry without publishing it removes the temporary files.
#[derive(Debug)]
pub struct Registry {
    registrations: Mutex<Registrations<Draft>>,
    buckets: SharedBuckets<Indom>,
}

/// A registered instance domain: what metrics with instances are registered on.
#[derive(Debug, Clone)]
#[must_use]
pub struct Indom(registration::Indom);

impl Indom {
    /// The domain's number within the file.
    pub fn serial(&self) -> u32 {
        self.0.record.serial
    }

    /// Number and name of each instance, in order.
    pub fn instances(&self) -> &[(InstanceId, String)] {
        &self.0.record.members
    }
}

metric_kinds!(Registry);

impl Registry {
    /// A registry for the file `name` in this machine's MMV directory, with default
    /// options.
    ///
    /// # Errors
    ///
    /// As [`RegistryBuilder::build`].
    pub fn new(name: impl Into<String>) -> Result<Self, Error> {
        Self::builder(name).build()
    }

    /// Options for a registry. `name` is the file's name and the first part, after
    /// `mmv.`, of all metric names: letters, digits, `_` and single dots.
    pub fn builder(name: impl Into<String>) -> RegistryBuilder {
        RegistryBuilder::new(name.into())
    }

    /// An instance domain; `name` appears in error messages only.
    pub fn indom(&self, name: impl Into<String>) -> IndomBuilder<'_, Self> {
        IndomBuilder::new(self, name.into())
    }

    /// A domain for striped counters: `count` instances named `0`, `1` and so on
    /// that a thread each may claim, and one more, `shared`. As many stripes as
    /// threads that count at once is a good number; any number of counters can
    /// share the domain. See [`MetricBuilder::build_striped`].
    ///
    /// # Errors
    ///
    /// As [`IndomBuilder::build`].
    pub fn stripes(&self, count: usize) -> Result<Indom, Error> {
        add_stripes(self, count)
    }

    /// A domain of buckets for histograms, with the labels `bucket_precision` and
    /// `bucket_max`. Costs 312 bytes a bucket, and each histogram on it 32 a bucket.
    ///
    /// # Errors
    ///
    /// As [`IndomBuilder::build`].
    pub fn buckets(&self, buckets: Buckets) -> Result<BucketIndom<Indom>, Error> {
        add_buckets(self, buckets)
    }

    /// A domain with this process as its only instance, for a file that is one
    /// [of several](RegistryBuilder::per_process). Register it first, so that it has
    /// the same serial in each.
    ///
    /// # Errors
    ///
    /// As [`IndomBuilder::build`].
    pub fn process(&self) -> Result<Indom, Error> {
        let pid = std::process::id();
        let builder = self.indom("processes").help("processes of the application");
        builder.instance(pid.cast_signed(), pid.to_string()).build()
    }

    /// Attaches a label to all metrics of the file, which needs an explicit
    /// cluster.
    ///
    /// # Errors
    ///
    /// [`Error::LabelNeedsCluster`], [`Error::LabelName`],
    /// [`Error::LabelValue`], [`Error::Length`], [`Error::NameTaken`],
    /// [`Error::Full`] and [`Error::Version`].
    pub fn label(&self, label: Label) -> Result<(), Error> {
        self.registrations().add_label(label)
    }

    /// Completes the file and gives it its name, replacing an older one of this process, or
    /// of one that has ended: a reader finds the old file or the new one, complete.
    ///
    /// The version is the lowest that can hold what was registered, or the one
    /// that was pinned.
    ///
    /// # Errors
    ///
    /// [`Error::Running`] if another running process has a file of the name,
    /// [`Error::Forked`] in a forked child whose parent made the registry, and
    /// [`Error::Io`], for instance when the disk is full; an old file is then still there.
    pub fn publish(self) -> Result<Published, Error> {
        let registrations = self.registrations.into_inner();
        let registrations = registrations.unwrap_or_else(PoisonError::into_inner);
        let (first, overflow) = registrations.into_files();
        let publish = |file: registration::RegisteredFile<Draft>| {
            let (pinned, labels, draft) = file.into_parts();
            draft.publish(pinned, labels)
        };
        // The first file last: a reader that finds it finds all.
        let overflow = overflow.map(publish).collect::<Result<Vec<_>, _>>()?;
        let published = publish(first)?.with_overflow(overflow);
        remove_stale(published.path(), published.overflow());
        Ok(published)
    }

    fn registrations(&self) -> MutexGuard<'_, Registrations<Draft>> {
        self.registrations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RegistryBuilder {
    /// Creates the temporary file, after removing those that killed processes
    /// left under the same name.
    ///
    /// # Errors
    ///
    /// [`Error::FileName`], [`Error::Length`], [`Error::OutOfRange`] for the
    /// cluster, and [`Error::Io`].
    pub fn build(self) -> Result<Registry, Error> {
        let registrations = Registrations::new(self.identity()?, (), self.pinned, self.lenient)?;
        Ok(Registry { registrations: Mutex::new(registrations), buckets: SharedBuckets::default() })
    }
}

impl Registrar for Registry {}

impl sealed::Registrar for Registry {
    type Indom = Indom;

    fn add_indom(&self, spec: IndomSpec) -> Result<Indom, Error> {
        self.registrations().add_indom(spec).map(Indom)
    }

    fn add_singular(&self, spec: MetricSpec) -> Result<ValueSlot, Error> {
        self.registrations().add_singular(spec)
    }

    fn add_fixed(&self, spec: MetricSpec, indom: &Indom) -> Result<Vec<ValueSlot>, Error> {
        self.registrations().add_fixed(spec, &indom.0)
    }

    fn shared_buckets(&self) -> &SharedBuckets<Indom> {
        &self.buckets
    }

    fn add_histogram(
        &self,
        counts: MetricSpec,
        sum: MetricSpec,
        indom: &Indom,
    ) -> Result<(CellStrip, ValueSlot), Error> {
        self.registrations().add_histogram(counts, sum, &indom.0)
    }
}

impl IndomBuilder<'_, Registry> {
    /// Adds an instance with a number of its own: 0 or more, and a name of 1..=255 bytes,
    /// each unique in the domain. Archives and PCP's programs tell instances apart by their
    /// numbers: give a name the same number in every run.
    pub fn instance(mut self, id: i32, name: impl Into<String>) -> Self {
        self.spec.instances.push((Some(id), name.into()));
        self
    }

    /// Adds instances whose numbers follow from their names: a name has the same number in
    /// every run, whatever other names there are.
    pub fn names<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.spec.add_names(names);
        self
    }

    /// Attaches a label to the instance of a name.
    pub fn instance_label(mut self, name: impl Into<String>, label: Label) -> Self {
        self.spec.instance_labels.push((name.into(), label));
        self
    }

    /// Registers the domain. It may be empty.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`], [`Error::NumberTaken`], [`Error::NameTaken`],
    /// [`Error::Length`], [`Error::Nul`], [`Error::Full`],
    /// [`Error::IndomInHighCluster`], [`Error::Version`], and what is wrong with
    /// a label.
    pub fn build(self) -> Result<Indom, Error> {
        sealed::Registrar::add_indom(self.registry, self.spec)
    }
}

impl<H: Handle> MetricBuilder<'_, H, Registry> {
    /// Registers the metric on a domain: a value and a handle for each instance.
    ///
    /// # Errors
    ///
    /// As [`MetricBuilder::build`], and [`Error::OtherRegistry`].
    pub fn build_instances(self, indom: &Indom) -> Result<Instances<H>, Error> {
        let slots = self.registry.registrations().add_fixed(self.spec, &indom.0)?;
        let handles = slots.into_iter().map(H::on).collect();
        Ok(Instances::new(indom.0.record.members.clone(), handles))
    }
}

#[cfg(test)]
mod tests;
