//! The registry: where a program says what it counts.
//!
//! A registry makes one file. The file exists from the start, under a temporary
//! name, and values get their final place in it when they are registered: a
//! handle counts from its first moment, before publication as after.
//! [`Registry::publish`] adds the descriptions and gives the file its name.

pub(crate) mod catalog;
pub(crate) mod check;
mod histogram;
mod indom;
mod metric;
pub(crate) mod model;
pub(crate) mod names;
mod part;
pub(crate) mod series;
mod state;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use histogram::BucketIndom;
pub(crate) use indom::Members;
pub use indom::{Indom, IndomBuilder};
pub use metric::{MetricBuilder, Registrar};
pub(crate) use metric::{MetricSpec, sealed};
use part::Part;
use series::{Clusters, Series};
use state::State;

use crate::directory::mmv_directory;
use crate::layout::{Flags, MAX_CLUSTER, Version};
use crate::mapping::Row;
use crate::metric::sealed::Seat;
use crate::publish::{Identity, Published};
use crate::{Error, Label, LiveBuilder};

/// Metrics of one file, before it is published.
///
/// What does not fit (1023 metrics, 255 labels, 2047 domains) goes into further
/// files, with the same metric names: `app.2` and so on behind `app`. These are
/// published and withdrawn together with the first.
///
/// Dropping a registry without publishing it removes the temporary files.
#[derive(Debug)]
pub struct Registry {
    state: Mutex<State>,
}

/// How a registry is to be; see [`Registry::builder`].
#[derive(Debug, Clone)]
#[must_use = "a registry is made by build()"]
pub struct RegistryBuilder {
    pub(crate) name: String,
    directory: Option<PathBuf>,
    cluster: u32,
    flags: Flags,
    pub(crate) pinned: Option<Version>,
    pub(crate) lenient: bool,
    per_process: bool,
    further_cluster: Option<u32>,
}

impl Registry {
    /// A registry for the file `name` in this machine's MMV directory, with all
    /// options as they are by default.
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
        RegistryBuilder {
            name: name.into(),
            directory: None,
            cluster: 0,
            flags: Flags::PROCESS,
            pinned: None,
            lenient: false,
            per_process: false,
            further_cluster: None,
        }
    }

    /// An instance domain; `name` appears in error messages only.
    pub fn indom(&self, name: impl Into<String>) -> IndomBuilder<'_> {
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
        sealed::add_stripes(self, count)
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
        self.state().add_label(label)
    }

    /// Completes the file and gives it its name, in place of one that is there:
    /// a reader sees the old file or the new one, whole.
    ///
    /// The version is the lowest that can hold what was registered, or the one
    /// that was pinned.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], for instance when the disk is full; an old file is then
    /// still there.
    pub fn publish(self) -> Result<Published, Error> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).publish()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registrar for Registry {}

impl sealed::Registrar for Registry {
    type Indom = Indom;

    fn add_indom(
        &self,
        name: &str,
        help: &str,
        labels: Vec<Label>,
        names: Vec<String>,
    ) -> Result<Indom, Error> {
        let mut builder = self.indom(name).names(names).help(help);
        builder.labels = labels;
        builder.build()
    }

    fn add_singular(&self, spec: MetricSpec) -> Result<Seat, Error> {
        self.state().add_singular(spec)
    }

    fn add_striped(&self, spec: MetricSpec, indom: &Indom) -> Result<Vec<Seat>, Error> {
        if indom.instances().is_empty() {
            return Err(Error::NoStripes { name: spec.name });
        }
        self.state().add_instances(spec, indom)
    }

    fn add_histogram(
        &self,
        counts: MetricSpec,
        sum: MetricSpec,
        indom: &Indom,
    ) -> Result<(Row, Seat), Error> {
        self.state().add_histogram(counts, sum, indom)
    }
}

impl RegistryBuilder {
    /// Puts the file into this directory, which must exist; without this, into
    /// [`mmv_directory`].
    pub fn directory(mut self, directory: impl AsRef<Path>) -> Self {
        self.directory = Some(directory.as_ref().to_owned());
        self
    }

    /// Asks for a cluster, 1..=4095, the middle part of all PMIDs. Without this,
    /// or with 0, readers choose one. A file with instance domains needs one of
    /// at most 2047.
    pub fn cluster(mut self, cluster: u32) -> Self {
        self.cluster = cluster;
        self
    }

    /// Leaves the file's name out of metric names. The name may then be any that
    /// does not start with a dot.
    pub fn no_prefix(mut self) -> Self {
        self.flags = self.flags.with(Flags::NO_PREFIX);
        self
    }

    /// Whether readers ignore the file when this process is gone; true without
    /// this.
    pub fn process(mut self, process: bool) -> Self {
        let others = Flags::from_raw(self.flags.raw() & !Flags::PROCESS.raw());
        self.flags = if process { others.with(Flags::PROCESS) } else { others };
        self
    }

    /// Makes all-ones integers, NaN and empty texts mean "no value", for all
    /// metrics of the file; optional ones need it.
    pub fn sentinel(mut self) -> Self {
        self.flags = self.flags.with(Flags::SENTINEL);
        self
    }

    /// Pins the version of the format; what it cannot hold is refused.
    pub fn version(mut self, version: Version) -> Self {
        self.pinned = Some(version);
        self
    }

    /// Goes on without a file when the system refuses one: no directory, no
    /// permission, no space ([`Error::Io`]). Handles then count where nobody reads,
    /// one line on standard error says why (once in the life of the process), and
    /// [`Published::is_seen`] is false. Errors in what is registered stay errors.
    pub fn lenient(mut self) -> Self {
        self.lenient = true;
        self
    }

    /// Makes the file one of several of the same application, a process each:
    /// its name is that of the application, a dot and the process's number. All
    /// need the same explicit cluster and register the same metrics with the same
    /// items, on the domain that [`Registry::process`] gives. Readers then find each
    /// metric once, with an instance for each process.
    ///
    /// The file's name is left out of metric names, so let these start with the
    /// application's: `app.requests`.
    pub fn per_process(mut self) -> Self {
        self.name = format!("{}.{}", self.name, std::process::id());
        self.per_process = true;
        self.no_prefix()
    }

    /// Makes the registry a live one: published from the start, and open for more
    /// metrics and instances as long as the program runs.
    pub fn live(self) -> LiveBuilder {
        LiveBuilder::new(self)
    }

    /// Asks for the clusters of further files, when the first one is full: this one
    /// for the second file, the next one for the third and so on. Without this
    /// readers choose, as for any file that asks for none.
    ///
    /// Ask where cluster numbers must not depend on what else runs: a file without
    /// one that comes late moves those that PCP's reader has given to files behind it
    /// in the alphabet. Labels of the whole registry reach further files, and files of
    /// [several processes](RegistryBuilder::per_process) have further ones, only with
    /// this.
    pub fn further_cluster(mut self, cluster: u32) -> Self {
        self.further_cluster = Some(cluster);
        self
    }

    /// Checks the options; the identity of the first file, and the clusters of
    /// further ones.
    pub(crate) fn identity(&self) -> Result<(Identity, Clusters), Error> {
        check::file_name(&self.name, !self.flags.contains(Flags::NO_PREFIX))?;
        check::range("cluster", &self.name, self.cluster, 0, MAX_CLUSTER)?;
        if self.per_process && self.cluster == 0 {
            return Err(Error::NeedsCluster { name: self.name.clone() });
        }
        let directory = self.directory.clone().unwrap_or_else(mmv_directory);
        let clusters = match self.further_cluster {
            Some(cluster) => {
                check::range("cluster", &self.name, cluster, 1, MAX_CLUSTER)?;
                Clusters::From(cluster)
            }
            // Readers would choose another one for each process, and take only one's.
            None if self.per_process => Clusters::None,
            None => Clusters::Chosen,
        };
        let (name, path) = (self.name.clone(), directory.join(&self.name));
        let (cluster, flags, prefix) = (self.cluster, self.flags, String::new());
        Ok((Identity { name, path, cluster, flags, prefix }, clusters))
    }

    /// Creates the temporary file, after removing those that killed processes
    /// left behind under the same name.
    ///
    /// # Errors
    ///
    /// [`Error::FileName`], [`Error::Length`], [`Error::OutOfRange`] for the
    /// cluster, and [`Error::Io`].
    pub fn build(self) -> Result<Registry, Error> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let (identity, clusters) = self.identity()?;
        let series = Series::new(identity.clone(), clusters);
        let first = Part::new(identity, self.pinned, self.lenient)?;
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let state = State::new(id, series, first, self.pinned, self.lenient);
        Ok(Registry { state: Mutex::new(state) })
    }
}

#[cfg(test)]
mod tests;
