//! The registry: where a program says what it counts.
//!
//! A registry makes one file. The file exists from the start, under a temporary
//! name, and values get their final place in it when they are registered: a
//! handle counts from its first moment, before publication as after.
//! [`Registry::publish`] adds the descriptions and gives the file its name.

mod check;
mod indom;
mod metric;
pub(crate) mod model;
mod state;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use indom::Members;
pub use indom::{Indom, IndomBuilder};
pub use metric::MetricBuilder;
use state::State;

use crate::directory::mmv_directory;
use crate::layout::{Flags, MAX_CLUSTER, Version};
use crate::metric::{Counter, Discrete, Elapsed, Gauge, Number, Text, Timer};
use crate::publish::{Draft, Identity, Published};
use crate::{Error, Label};

/// Metrics of one file, before it is published.
///
/// Dropping a registry without publishing it removes the temporary file.
#[derive(Debug)]
pub struct Registry {
    identity: Identity,
    state: Mutex<State>,
}

/// How a registry is to be; see [`Registry::builder`].
#[derive(Debug, Clone)]
#[must_use = "a registry is made by build()"]
pub struct RegistryBuilder {
    name: String,
    directory: Option<PathBuf>,
    cluster: u32,
    flags: Flags,
    pinned: Option<Version>,
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
        }
    }

    /// An instance domain; `name` appears in error messages only.
    pub fn indom(&self, name: impl Into<String>) -> IndomBuilder<'_> {
        IndomBuilder::new(self, name.into())
    }

    /// A count that only grows. The name is of letters, digits, `_` and single
    /// dots, starts with a letter and has at most 255 bytes.
    pub fn counter<T: Number>(&self, name: impl Into<String>) -> MetricBuilder<'_, Counter<T>> {
        MetricBuilder::new(self, name.into())
    }

    /// A value that goes up and down. The name as for [`Registry::counter`].
    pub fn gauge<T: Number>(&self, name: impl Into<String>) -> MetricBuilder<'_, Gauge<T>> {
        MetricBuilder::new(self, name.into())
    }

    /// A number that holds until it is changed. The name as for
    /// [`Registry::counter`].
    pub fn discrete<T: Number>(&self, name: impl Into<String>) -> MetricBuilder<'_, Discrete<T>> {
        MetricBuilder::new(self, name.into())
    }

    /// A text. The name as for [`Registry::counter`].
    pub fn text(&self, name: impl Into<String>) -> MetricBuilder<'_, Text> {
        MetricBuilder::new(self, name.into())
    }

    /// The time that one activity takes, seen while it runs. The name as for
    /// [`Registry::counter`].
    pub fn elapsed(&self, name: impl Into<String>) -> MetricBuilder<'_, Elapsed> {
        MetricBuilder::new(self, name.into())
    }

    /// The time that many activities take, each added when it ends. The name as
    /// for [`Registry::counter`].
    pub fn timer(&self, name: impl Into<String>) -> MetricBuilder<'_, Timer> {
        MetricBuilder::new(self, name.into())
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
        let names = (0..count).map(|index| index.to_string());
        let builder = self.indom("stripes").help("threads that count, each for itself");
        builder.names(names.chain(["shared".to_owned()])).build()
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
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let version = state.pinned.unwrap_or_else(|| state.model.lowest_version());
        state.draft.publish(&self.identity, version, &state.model)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Creates the temporary file, after removing those that killed processes
    /// left behind under the same name.
    ///
    /// # Errors
    ///
    /// [`Error::FileName`], [`Error::Length`], [`Error::OutOfRange`] for the
    /// cluster, and [`Error::Io`].
    pub fn build(self) -> Result<Registry, Error> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        check::file_name(&self.name, !self.flags.contains(Flags::NO_PREFIX))?;
        check::range("cluster", &self.name, self.cluster, 0, MAX_CLUSTER)?;
        let directory = self.directory.unwrap_or_else(mmv_directory);
        let draft = Draft::create(&directory, &self.name)?;
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let identity =
            Identity { path: directory.join(&self.name), cluster: self.cluster, flags: self.flags };
        let state = State::new(id, &identity, self.pinned, draft);
        Ok(Registry { identity, state: Mutex::new(state) })
    }
}

#[cfg(test)]
mod tests;
