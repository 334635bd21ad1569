//! A registry that grows: metrics and instances can be added, and instances
//! removed, as long as the program runs.
//!
//! A live file is published empty. Every registration appends to it; nothing in
//! it ever moves, so handles stay valid and no increment is lost. Readers are
//! told of changes at most once in 100 ms, so what is new may stay unseen for
//! that long; what it counted meanwhile is there when it is seen.
//!
//! | | [`Registry`](crate::Registry) | [`LiveRegistry`] |
//! |---|---|---|
//! | metrics | before publication | at any time |
//! | histograms, striped counters | before publication | at any time |
//! | labels of instances | stated with their domain | [`LiveIndom::label`], gone with the instance |
//! | instances | stated with their domain | [`Family::get_or_create`], [`LiveIndom::remove`] |
//! | version of the file | the lowest that suffices | 3 |
//! | size of the file | what is used | the room asked for; what is not used is a hole |
//!
//! A file has room for 1023 metrics, 255 labels, 2047 domains and, unless the
//! program asks for other numbers, 65 536 instances, 262 144 values and 65 536
//! texts. Registrations that do not fit begin a further file, under the same metric
//! names; instances and labels that a metric gets later stay in its file, and are
//! refused when that is full. An instance takes 312 bytes and 32 for each value, 256 more if that is
//! a text. A file without metrics takes 4 KiB.
//!
//! `docs/decisions/005-growth.md` says how readers are kept from seeing half of
//! a change, `009-lookup.md` how handles are found by name.

mod domain;
mod family;
mod file;
mod index;
mod part;
mod rest;
mod room;
mod slots;
mod state;
mod stated;
mod value;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

pub use family::{Family, LiveIndom, LiveIndomBuilder};
use part::Part;
use room::{Room, Wanted};
use state::State;
pub use stated::StatedIndom;

use crate::layout::Version;
use crate::publish::Published;
use crate::registry::Registrar;
use crate::registry::series::{Series, remove_stale};
use crate::{Error, Label, RegistryBuilder};

/// How often readers are told of changes, unless the program says otherwise.
const PACE: Duration = Duration::from_millis(100);

/// Metrics of one file that is published and grows, and of further ones when it is
/// full. Dropping it withdraws them; handles stay valid after that, but nobody reads them any more.
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
}

/// How a live registry is to be; see [`RegistryBuilder::live`].
#[derive(Debug, Clone)]
#[must_use = "a registry is made by build()"]
pub struct LiveBuilder {
    base: RegistryBuilder,
    wanted: Wanted,
    pace: Duration,
}

/// What the registry and its families share.
#[derive(Debug)]
struct Shared {
    state: RwLock<State>,
    pace: Duration,
}

impl LiveBuilder {
    pub(crate) fn new(base: RegistryBuilder) -> Self {
        Self { base, wanted: Wanted::default(), pace: PACE }
    }

    /// Sets the most instances of all domains together, in each file; 65 536 without
    /// this.
    pub fn room_for_instances(mut self, most: u32) -> Self {
        self.wanted.instances = most;
        self
    }

    /// Sets the most values of all metrics together, in each file; 262 144 without
    /// this. An
    /// isolated value counts for two or three.
    pub fn room_for_values(mut self, most: u32) -> Self {
        self.wanted.values = most;
        self
    }

    /// Sets the most values that are texts, in each file; 65 536 without this.
    pub fn room_for_texts(mut self, most: u32) -> Self {
        self.wanted.texts = most;
        self
    }

    /// Sets the least time between two announcements of changes; 100 ms without
    /// this. Each makes PCP's reader read all files again.
    pub fn pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// Creates the file and publishes it, in place of one that is there.
    ///
    /// # Errors
    ///
    /// [`Error::FileName`], [`Error::Length`], [`Error::OutOfRange`] for the
    /// cluster or the room, [`Error::Version`] if another one than 3 is pinned,
    /// and [`Error::Io`].
    pub fn build(self) -> Result<LiveRegistry, Error> {
        let (identity, clusters) = self.base.identity()?;
        let name = self.base.name;
        if let Some(pinned) = self.base.pinned.filter(|pinned| *pinned != Version::V3) {
            return Err(Error::Version { what: "live file", name, needed: Version::V3, pinned });
        }
        let room = Room::new(&name, self.wanted)?;
        let mut first = Part::create(&identity, room, self.base.lenient)?;
        let published = first.published.take();
        let published = published.unwrap_or_else(|| Published::unseen(&identity.path));
        remove_stale(&identity.path, &[]);
        let series = Series::new(identity, clusters);
        let state = State::new(series, room, self.base.lenient, first);
        let shared = Arc::new(Shared { state: RwLock::new(state), pace: self.pace });
        Ok(LiveRegistry { shared, published })
    }
}

impl LiveRegistry {
    /// A domain, whose instances come and go; `name` appears in error messages
    /// only.
    pub fn indom(&self, name: impl Into<String>) -> LiveIndomBuilder<'_> {
        LiveIndomBuilder::new(&self.shared, name.into())
    }

    /// Attaches a label to all metrics of the file, as
    /// [`Registry::label`](crate::Registry::label).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn label(&self, label: Label) -> Result<(), Error> {
        self.shared.change(|state| state.add_label(label))
    }

    /// Tells readers of all changes now, without waiting.
    pub fn announce(&self) {
        self.shared.write().announce();
    }

    /// The first file.
    pub fn published(&self) -> &Published {
        &self.published
    }

    /// Where the files are that the registry went on in when the first was full, in
    /// order. Mostly there are none.
    pub fn further(&self) -> Vec<PathBuf> {
        let state = self.shared.read();
        let further = state.parts.iter().filter_map(|part| part.published.as_ref());
        further.map(|published| published.path().to_owned()).collect()
    }
}

impl Drop for LiveRegistry {
    /// Withdraws further files; families may still have them mapped.
    fn drop(&mut self) {
        for part in &mut self.shared.write().parts {
            part.published = None;
        }
    }
}

impl Registrar for LiveRegistry {}

impl Shared {
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something, and tells readers if it succeeds.
    fn change<T>(
        self: &Arc<Self>,
        change: impl FnOnce(&mut State) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut state = self.write();
        let changed = change(&mut state)?;
        self.announce(&mut state);
        Ok(changed)
    }

    /// Tells readers of a change: now, or by a thread once it is time.
    fn announce(self: &Arc<Self>, state: &mut State) {
        if state.pending {
            return;
        }
        let wait = self.pace.saturating_sub(state.announced.elapsed());
        if wait.is_zero() {
            state.announce();
            return;
        }
        let shared = Arc::downgrade(self);
        let late = move || {
            std::thread::sleep(wait);
            if let Some(shared) = shared.upgrade() {
                shared.write().announce();
            }
        };
        let thread = std::thread::Builder::new().name("mmv-announce".to_owned()).spawn(late);
        state.pending = thread.is_ok();
        if thread.is_err() {
            // Too often is better than never.
            state.announce();
        }
    }
}

#[cfg(test)]
mod tests;
