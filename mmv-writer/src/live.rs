//! A registry that grows: metrics and instances can be added and removed as long as the
//! program runs.
//!
//! A live file is published empty. Every registration appends to it; nothing in
//! it ever moves, so handles stay valid and no increment is lost. Changes are
//! announced to readers at most once in 100 ms, so a new metric may be invisible for
//! that long; what it counts meanwhile is not lost.
//!
//! | | [`Registry`](crate::Registry) | [`LiveRegistry`] |
//! |---|---|---|
//! | metrics | before publication | at any time, and [`LiveRegistry::remove`] |
//! | histograms, striped counters | before publication | at any time |
//! | labels of instances | fixed with their domain | [`LiveIndom::label`], removed with the instance |
//! | instances | fixed with their domain | [`Family::get_or_create`], [`LiveIndom::remove`] |
//! | version of the file | the lowest that suffices | 3 |
//! | size of the file | what is used | 220 KiB at first, then what is used and, once there are many metrics or instances, holes for more values |
//!
//! A file has room for 1023 metrics, 255 labels, 2047 domains and, by default,
//! 65 536 instances, 262 144 values and 65 536 texts. Registrations that do not fit
//! begin an overflow file, under the same metric names; instances and labels that a
//! metric gets later stay in its file, and are rejected when that is full. An instance
//! takes 312 bytes and 32 for each value, 256 more if that is a text. A file without
//! metrics takes 4 KiB.
//!
//! No file exceeds the limit on file sizes that the process has when it is created
//! (`RLIMIT_FSIZE`, `ulimit -f`): with less room there are more overflow files. A limit
//! below 80 KiB is an error, or a registry without a file if it is
//! [lenient](RegistryBuilder::lenient). No limit ends the program with SIGXFSZ.
//!
//! `docs/decisions/001-growing-files.md` describes how readers are kept from seeing half of
//! a change, and how the file becomes longer; `002-lookup.md` how handles are found by name.

mod after_fork;
mod family;
mod file;
mod fixed;
mod handles;
mod instances;
mod labelled;
mod quarantine;
mod sections;
mod state;
mod store;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use mmv_format::layout::Version;

use crate::builder::{IndomBuilder, MetricBuilder, SharedBuckets, metric_kinds};
use crate::metric::{Counter, Discrete, Elapsed, Gauge, Number, Text, Timer};
use crate::options::RegistryBuilder;
use crate::overflow::remove_stale;
use crate::published::Published;
use crate::{Error, Label};
pub use family::{Family, LiveIndom};
pub use fixed::FixedIndom;
pub use labelled::{LabelledFamily, LabelledIndom};
use sections::{Capacity, Sections};
use state::State;

/// Default time between announcements of changes to readers.
const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(100);

/// Metrics of one file that is published and grows, and of overflow files when it is
/// full. Dropping it withdraws them; handles stay valid after that, but no reader sees
/// them.
///
/// ```
/// use mmv_writer::{Counter, Family, Registry, Units};
///
/// # fn main() -> Result<(), mmv_writer::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// let registry = Registry::builder("web").directory(directory.path()).live().build()?;
/// let paths = registry.indom("paths").build()?;
/// let hits: Family<Counter<u64>> =
///     registry.counter("hits").units(Units::count()).build_family(&paths)?;
///
/// hits.get_or_create("/index.html")?.inc(); // better: keep the handle
/// paths.remove("/index.html");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping this withdraws the file"]
pub struct LiveRegistry {
    shared: Arc<Shared>,
    /// The first file.
    published: Published,
    options: LiveBuilder,
    buckets: SharedBuckets<FixedIndom>,
}

/// Options for a live registry; see [`RegistryBuilder::live`].
#[derive(Debug, Clone)]
#[must_use = "a registry is made by build()"]
pub struct LiveBuilder {
    base: RegistryBuilder,
    capacity: Capacity,
    announce_interval: Duration,
}

/// State that the registry and its families share.
#[derive(Debug)]
struct Shared {
    state: RwLock<State>,
    announce_interval: Duration,
}

impl RegistryBuilder {
    /// Makes the registry a live one: published from the start, and open for more
    /// metrics and instances as long as the program runs.
    pub fn live(self) -> LiveBuilder {
        LiveBuilder::new(self)
    }
}

impl LiveBuilder {
    fn new(base: RegistryBuilder) -> Self {
        Self { base, capacity: Capacity::default(), announce_interval: ANNOUNCE_INTERVAL }
    }

    /// Sets the most instances of all domains together, in each file; 65 536 by
    /// default, 4 192 256 at most.
    pub fn max_instances(mut self, most: u32) -> Self {
        self.capacity.instances = most;
        self
    }

    /// The most instances of all domains together, in each file.
    pub fn instance_limit(&self) -> u32 {
        self.capacity.instances
    }

    /// Sets the most values of all metrics together, in each file; 262 144 by default.
    /// An isolated value counts for two or three. With all of its room a file has to be
    /// smaller than 4 GiB.
    pub fn max_values(mut self, most: u32) -> Self {
        self.capacity.values = most;
        self
    }

    /// Sets the most values that are texts, in each file; 65 536 by default.
    pub fn max_texts(mut self, most: u32) -> Self {
        self.capacity.texts = most;
        self
    }

    /// Sets the least time between two announcements of changes; 100 ms by default.
    /// Each makes PCP's reader read all files again.
    pub fn announce_interval(mut self, interval: Duration) -> Self {
        self.announce_interval = interval;
        self
    }

    /// Creates the file and publishes it, replacing one of this process, or of one that has
    /// ended.
    ///
    /// # Errors
    ///
    /// [`Error::Running`], [`Error::FileName`], [`Error::Length`], [`Error::OutOfRange`] for the
    /// cluster, or for more room than readers can use, [`Error::Version`] if a version other
    /// than 3 is pinned, and [`Error::Io`].
    pub fn build(self) -> Result<LiveRegistry, Error> {
        let RegistryBuilder { name, pinned, lenient, .. } = &self.base;
        if let Some(pinned) = pinned.filter(|pinned| *pinned != Version::V3) {
            let (what, needed) = ("live file", Version::V3);
            return Err(Error::Version { what, name: name.clone(), needed, pinned });
        }
        let identity = self.base.identity()?;
        let path = identity.0.path.clone();
        let sections = Sections::new(name, self.capacity)?;
        let mut state = State::new(identity, sections, *lenient)?;
        let published =
            state.registrations.files_mut().find_map(|file| file.store.published.take());
        let published = published.unwrap_or_else(|| Published::unpublished(&path));
        remove_stale(&path, &[]);
        let announce_interval = self.announce_interval;
        let shared = Arc::new(Shared { state: RwLock::new(state), announce_interval });
        Ok(LiveRegistry { shared, published, options: self, buckets: SharedBuckets::default() })
    }
}

metric_kinds!(LiveRegistry);

impl LiveRegistry {
    /// A domain whose instances come and go; `name` appears in error messages only.
    pub fn indom(&self, name: impl Into<String>) -> IndomBuilder<'_, Self> {
        IndomBuilder::new(self, name.into())
    }

    /// Attaches a label to all metrics of the file, as
    /// [`Registry::label`](crate::Registry::label).
    ///
    /// # Errors
    ///
    /// As [`Registry::label`](crate::Registry::label).
    pub fn label(&self, label: Label) -> Result<(), Error> {
        self.shared.change(|state| state.registrations.add_label(label))
    }

    /// Removes a metric, with its values and labels; returns whether it existed. `name` is as it
    /// was registered. A histogram is two metrics, `NAME.bucket` and `NAME.sum`.
    ///
    /// Handles on it, and those that its family makes, stay valid, but no reader sees
    /// them. The name can be registered again, also for another kind of metric: it then
    /// is a new one with an item of its own. The place of the removed one is not used
    /// again, so it still counts among the 1023 metrics of a file, after which there is
    /// an overflow file.
    ///
    /// It looks through all metrics, values and labels of the file: it is not for events
    /// that occur often.
    ///
    /// ```
    /// # use mmv_writer::Registry;
    /// # fn main() -> Result<(), mmv_writer::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// let registry = Registry::builder("web").directory(directory.path()).live().build()?;
    /// let plugin = registry.counter::<u64>("plugin.calls").build()?;
    /// assert!(registry.remove("plugin.calls"));
    /// plugin.inc(); // no reader sees it
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove(&self, name: &str) -> bool {
        let mut state = self.shared.write();
        let removed = state.remove_metric(name);
        if removed {
            self.shared.announce(&mut state);
        }
        removed
    }

    /// Announces all changes to readers now. Waits up to 100 ms if the file has just grown,
    /// since readers may still use its previous size.
    pub fn announce(&self) {
        self.shared.announce_now();
    }

    /// The first file.
    pub fn published(&self) -> &Published {
        &self.published
    }

    /// The paths of the overflow files, in order: they hold what did not fit the
    /// first file. Usually there are none.
    pub fn overflow(&self) -> Vec<PathBuf> {
        let state = self.shared.read();
        let published =
            state.registrations.files().filter_map(|file| file.store.published.as_ref());
        published.map(|published| published.path().to_owned()).collect()
    }
}

impl Drop for LiveRegistry {
    /// Announces pending changes, so that readers of the last values find all of them, and
    /// withdraws overflow files; families may still have them mapped.
    fn drop(&mut self) {
        let mut state = self.shared.write();
        state.announce();
        for file in state.registrations.files_mut() {
            file.store.published = None;
        }
    }
}

impl Shared {
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something, and announces it to readers if it succeeds.
    fn change<T>(
        self: &Arc<Self>,
        change: impl FnOnce(&mut State) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut state = self.write();
        let changed = change(&mut state)?;
        self.announce(&mut state);
        Ok(changed)
    }

    /// Announces a change to readers: now, or in a thread once it is time.
    fn announce(self: &Arc<Self>, state: &mut State) {
        if state.pending {
            return;
        }
        let wait = self.announce_interval.saturating_sub(state.announced.elapsed());
        let wait = wait.max(state.ready_in());
        if wait.is_zero() {
            state.announce();
            return;
        }
        let shared = Arc::downgrade(self);
        let late = move || {
            std::thread::sleep(wait);
            if let Some(shared) = shared.upgrade() {
                shared.announce_now();
            }
        };
        let thread = std::thread::Builder::new().name("mmv-announce".to_owned()).spawn(late);
        state.pending = thread.is_ok();
        if thread.is_err() {
            // Without a thread, announce too often rather than never.
            std::thread::sleep(state.ready_in());
            state.announce();
        }
    }

    /// Announces all changes to readers, once they may be.
    fn announce_now(&self) {
        loop {
            let mut state = self.write();
            let wait = state.ready_in();
            if wait.is_zero() {
                return state.announce();
            }
            drop(state);
            std::thread::sleep(wait);
        }
    }
}

#[cfg(test)]
mod tests;
