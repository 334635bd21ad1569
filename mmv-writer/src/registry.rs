//! The registry: what a program registers its metrics in, and the life of its files.
//!
//! Two engines write files: `live` those that grow, `draft` those that are sealed. A
//! registry, its clones, families and handles share one [`Keeper`]; when the last of them
//! is gone, or the program says so, the files are withdrawn. The engine and its memory
//! live on as long as anything refers to them.
//!
//! A sealed file exists from the start, under a temporary name, and values get their final
//! place in it when they are registered: a handle counts from its first moment, before
//! publication as after. Publication adds the descriptions and gives the file its name. So
//! values are the first section, where libpcp_mmv writes them after sections whose sizes it
//! has to know; readers follow the table of contents.

mod after_fork;
mod draft;
mod indom;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::live::GrowingFiles;
use crate::mapping::{CellStrip, Owner};
use crate::metric::ValueSlot;
use crate::options::RegistryBuilder;
use crate::overflow::{remove_ended, remove_stale};
use crate::published::PublicationGuard;
use crate::registration::{IndomSpec, MetricSpec, RegisteredFile, Registrations};
use crate::system::process_id;
use crate::{Error, Label};
use draft::Draft;
pub use indom::Indom;
pub(crate) use indom::SharedIndoms;

/// The metrics of a program, in a file that other programs read.
///
/// It is published when it is built and takes metrics at any time, from any thread. Clones
/// are the same registry. When the registry, its clones, families and handles are all
/// gone, or with [`withdraw`](Self::withdraw), the file is removed.
///
/// ```
/// use mmv_writer::{Registry, Units};
///
/// # fn main() -> Result<(), mmv_writer::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # /*
/// let registry = Registry::new("shop")?;
/// # */
/// # let registry = Registry::builder("shop").directory(directory.path()).build()?;
/// let orders = registry.counter("orders").units(Units::count()).build()?;
/// orders.inc();
/// # Ok(())
/// # }
/// ```
///
/// What does not fit (1023 metrics, 255 labels, 2047 domains) goes into overflow
/// files, with the same metric names: `app.2` and so on after `app`. These are
/// withdrawn together with the first.
///
/// # When the file goes
///
/// | what happens | the file |
/// |---|---|
/// | the registry is dropped, a handle is left, also in another thread | stays until that is dropped |
/// | `main` returns, and a `static` of the program holds a handle | stays; readers see that the process has ended. Call `withdraw` where it is to be removed |
/// | a panic that unwinds | is removed as above |
/// | the process is killed or aborts | stays; readers see that the process has ended, and the next start replaces it |
/// | [`withdraw`](Self::withdraw) | is removed; handles count on without readers |
/// | a forked child drops what it inherited | stays: it is the parent's |
/// | another registry of this process has the same name | is replaced by that one's, which it does not remove |
///
/// # Sealed
///
/// [`RegistryBuilder::sealed`] makes a small and final file: see there.
///
/// | | growing | sealed |
/// |---|---|---|
/// | published | when it is built | by [`publish`](Self::publish) |
/// | metrics | at any time, and [`remove`](Self::remove) | before publication |
/// | instances | at any time | fixed with their domain |
/// | version of the file | 3 | the lowest that suffices |
/// | size of the file | 220 KiB at first, then what is used and, once there are many metrics or instances, holes for more values | what is used |
#[derive(Clone)]
pub struct Registry {
    pub(crate) inner: Arc<Inner>,
    /// `None` if neither this nor handles made through it keep the files.
    keeper: Option<Arc<Keeper>>,
}

/// The state that all handles on a registry share.
#[derive(Debug)]
pub(crate) struct Inner {
    engine: Engine,
    options: RegistryBuilder,
    indoms: SharedIndoms,
    /// The path of the first file, as it is planned.
    planned_path: PathBuf,
    /// Set when the first file is published.
    publication: OnceLock<Publication>,
    /// The process that made the registry.
    process: u32,
}

#[derive(Debug)]
enum Engine {
    Growing(Arc<GrowingFiles>),
    Sealed(Box<Mutex<SealedRegistry>>),
}

#[derive(Debug)]
enum SealedRegistry {
    Filling(Box<Registrations<Draft>>),
    Published(PublicationGuard),
    /// Withdrawn, or publication failed.
    Gone,
}

/// Path and generation of the first file when it was published.
#[derive(Debug)]
struct Publication {
    path: PathBuf,
    generation: u64,
}

/// Changes the registrations of a registry with either engine. The name is that of what a sealed
/// one refuses after publication.
macro_rules! change {
    ($registry:ident, $name:expr, |$registrations:ident| $change:expr) => {
        match &$registry.inner.engine {
            Engine::Growing(growing) => growing.change(|state| {
                let $registrations = &mut state.registrations;
                $change
            }),
            Engine::Sealed(_) => {
                let name = $name;
                $registry.fill(name, |$registrations| $change)
            }
        }
    };
}

/// Keeps the files of a registry published.
#[derive(Debug)]
pub(crate) struct Keeper {
    inner: Arc<Inner>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.inner.withdraw();
    }
}

impl Registry {
    /// Creates the file, and publishes it unless it is sealed.
    pub(crate) fn create(options: RegistryBuilder) -> Result<Self, Error> {
        let (identity, clusters) = options.identity()?;
        let planned_path = identity.path.clone();
        let publication = OnceLock::new();
        let engine = if options.sealed {
            let registrations =
                Registrations::new(identity, clusters, (), options.pinned, options.lenient)?;
            Engine::Sealed(Box::new(Mutex::new(SealedRegistry::Filling(Box::new(registrations)))))
        } else {
            let growing = GrowingFiles::new(&options, identity, clusters)?;
            if let Some(published) = growing.read().published() {
                let _ = publication.set(Publication::new(published));
                remove_stale(published.path(), &[]);
            }
            Engine::Growing(Arc::new(growing))
        };
        if let Some(application) = options.per_process_application() {
            remove_ended(&planned_path, application);
        }
        let inner = Arc::new(Inner {
            engine,
            options,
            indoms: SharedIndoms::default(),
            planned_path,
            publication,
            process: process_id(),
        });
        let keeper = Some(Arc::new(Keeper { inner: Arc::clone(&inner) }));
        Ok(Self { inner, keeper })
    }

    /// Returns options for a registry. `name` is the file's name and the first part, after
    /// `mmv.`, of all metric names: letters, digits, `_` and single dots.
    pub fn builder(name: impl Into<String>) -> RegistryBuilder {
        RegistryBuilder::new(name.into())
    }

    /// Attaches a label to all metrics of the file, which needs an explicit
    /// cluster.
    ///
    /// # Errors
    ///
    /// [`Error::LabelNeedsCluster`], [`Error::LabelName`],
    /// [`Error::LabelValue`], [`Error::Length`], [`Error::NameTaken`],
    /// [`Error::Full`], [`Error::Version`] and [`Error::Sealed`].
    pub fn label(&self, label: Label) -> Result<(), Error> {
        change!(self, label.name.clone(), |registrations| registrations.add_label(label))
    }

    /// Publishes the file of a [sealed](RegistryBuilder::sealed) registry: completes it and
    /// gives it its name, replacing an older one of this process, or of one that has ended. A
    /// reader finds the old file or the new one, complete. Does nothing if it is published,
    /// as a registry that grows is from the start. Returns the registry, to chain calls.
    ///
    /// The version is the lowest that can hold what was registered, or the one
    /// that was pinned.
    ///
    /// # Errors
    ///
    /// [`Error::Running`] if another running process has a file of the name,
    /// [`Error::Forked`] in a forked child whose parent made the registry, and
    /// [`Error::Io`], for instance when the disk is full; an old file is then still there, and
    /// handles count without readers.
    pub fn publish(&self) -> Result<Self, Error> {
        let Engine::Sealed(sealed) = &self.inner.engine else { return Ok(self.clone()) };
        let mut sealed = lock(sealed);
        match std::mem::replace(&mut *sealed, SealedRegistry::Gone) {
            SealedRegistry::Filling(registrations) => {
                let published = publish_all(*registrations)?;
                let _ = self.inner.publication.set(Publication::new(&published));
                *sealed = SealedRegistry::Published(published);
            }
            other => *sealed = other,
        }
        drop(sealed);
        Ok(self.clone())
    }

    /// Removes the file, with its overflow files. Handles, families and further registrations
    /// count on, but no reader sees them.
    pub fn withdraw(&self) {
        self.inner.withdraw();
    }

    /// Returns the same registry, but neither this one nor handles and families made through
    /// it keep the file: it is withdrawn when all others are gone. For what a program keeps
    /// in a `static` or installs for good.
    #[must_use]
    pub fn downgrade(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), keeper: None }
    }

    /// Returns a reference that keeps neither the files nor the memory of the registry.
    pub(crate) fn weak(&self) -> Weak<Inner> {
        Arc::downgrade(&self.inner)
    }

    /// Returns the registry as [`downgrade`](Self::downgrade) does, unless it is gone or its
    /// files were withdrawn.
    pub(crate) fn from_weak(weak: &Weak<Inner>) -> Option<Self> {
        let registry = Self { inner: weak.upgrade()?, keeper: None };
        if registry.is_withdrawn() { None } else { Some(registry) }
    }

    /// Removes a metric, with its values and labels; returns whether it existed. `name` is as it
    /// was registered. A histogram is two metrics, `NAME.bucket` and `NAME.sum`. A sealed
    /// registry removes nothing.
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
    /// let registry = Registry::builder("web").directory(directory.path()).build()?;
    /// let plugin = registry.counter("plugin.calls").build()?;
    /// assert!(registry.remove("plugin.calls"));
    /// plugin.inc(); // no reader sees it
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove(&self, name: &str) -> bool {
        let Engine::Growing(growing) = &self.inner.engine else { return false };
        let mut state = growing.write();
        let removed = state.remove_metric(name);
        if removed {
            growing.announce(&mut state);
        }
        removed
    }

    /// Announces all changes to readers now. Waits up to 100 ms if the file has just grown,
    /// since readers may still use its previous size.
    pub fn announce(&self) {
        if let Engine::Growing(growing) = &self.inner.engine {
            growing.announce_now();
        }
    }

    /// Returns the path of the file; for a sealed registry that is not published, the path that it
    /// will have.
    pub fn path(&self) -> &Path {
        let publication = self.inner.publication.get();
        publication.map_or(&self.inner.planned_path, |publication| &publication.path)
    }

    /// Returns the paths of the overflow files, `app.2` and so on, in order: they hold what did
    /// not fit the first file. Usually there are none.
    pub fn overflow(&self) -> Vec<PathBuf> {
        match &self.inner.engine {
            Engine::Growing(growing) => growing.read().overflow(),
            Engine::Sealed(sealed) => match &*lock(sealed) {
                SealedRegistry::Published(published) => {
                    published.overflow().iter().map(|file| file.path().to_owned()).collect()
                }
                SealedRegistry::Filling(_) | SealedRegistry::Gone => Vec::new(),
            },
        }
    }

    /// Returns true if readers can find the file: not before a sealed registry is published, not
    /// after it was withdrawn, and not where a [lenient](RegistryBuilder::lenient) registry
    /// could make none.
    pub fn is_published(&self) -> bool {
        match &self.inner.engine {
            Engine::Growing(growing) => {
                growing.read().published().is_some_and(PublicationGuard::is_published)
            }
            Engine::Sealed(sealed) => {
                matches!(&*lock(sealed), SealedRegistry::Published(file) if file.is_published())
            }
        }
    }

    /// Returns the generation in the file's header: the time of publication in nanoseconds
    /// since 1970, different from that of the file before it. 0 before publication.
    pub fn generation(&self) -> u64 {
        self.inner.publication.get().map_or(0, |publication| publication.generation)
    }

    fn is_withdrawn(&self) -> bool {
        match &self.inner.engine {
            Engine::Growing(growing) => growing.read().published().is_none(),
            Engine::Sealed(sealed) => matches!(&*lock(sealed), SealedRegistry::Gone),
        }
    }

    /// Registers a domain. In a growing registry its instances come and go unless they are fixed.
    pub(crate) fn add_indom(&self, spec: IndomSpec) -> Result<Indom, Error> {
        if let Some(growing) = self.growing()
            && spec.instances.is_empty()
        {
            let (id, indom) = growing.change(|state| state.add_indom(spec))?;
            return Ok(Indom::growing(indom, growing, id));
        }
        change!(self, spec.name.clone(), |registrations| registrations.add_indom(spec))
            .map(Indom::fixed)
    }

    pub(crate) fn add_singular(&self, spec: MetricSpec) -> Result<ValueSlot, Error> {
        change!(self, spec.name.clone(), |registrations| registrations.add_singular(spec))
            .map(|slot| self.keeping(slot))
    }

    pub(crate) fn add_fixed(&self, spec: MetricSpec, on: &Indom) -> Result<Vec<ValueSlot>, Error> {
        let on = on.registered();
        let slots =
            change!(self, spec.name.clone(), |registrations| registrations.add_fixed(spec, on));
        Ok(slots?.into_iter().map(|slot| self.keeping(slot)).collect())
    }

    /// Registers a metric on a domain. Returns its values as a strip, and as slots that keep the
    /// files.
    pub(crate) fn add_strip(
        &self,
        spec: MetricSpec,
        on: &Indom,
    ) -> Result<(CellStrip, Vec<ValueSlot>), Error> {
        let on = on.registered();
        let (strip, slots) =
            change!(self, spec.name.clone(), |registrations| registrations.add_strip(spec, on))?;
        Ok((strip, slots.into_iter().map(|slot| self.keeping(slot)).collect()))
    }

    /// Registers the counts of a histogram's buckets, and the sum of its values: both or none.
    pub(crate) fn add_histogram(
        &self,
        counts: MetricSpec,
        sum: MetricSpec,
        on: &Indom,
    ) -> Result<(CellStrip, ValueSlot), Error> {
        let on = on.registered();
        let (strip, sum) = change!(self, counts.name.clone(), |registrations| {
            registrations.add_histogram(counts, sum, on)
        })?;
        Ok((strip, self.keeping(sum)))
    }

    /// Returns the files that grow, if they do.
    pub(crate) fn growing(&self) -> Option<&Arc<GrowingFiles>> {
        match &self.inner.engine {
            Engine::Growing(growing) => Some(growing),
            Engine::Sealed(_) => None,
        }
    }

    /// Returns the reference that a handle holds to keep the files published.
    pub(crate) fn keeper(&self) -> Option<Owner> {
        self.keeper.clone().map(|keeper| keeper as Owner)
    }

    pub(crate) fn shared_indoms(&self) -> &SharedIndoms {
        &self.inner.indoms
    }

    fn keeping(&self, slot: ValueSlot) -> ValueSlot {
        match self.keeper() {
            Some(keeper) => slot.keeping(keeper),
            None => slot,
        }
    }

    /// Changes a sealed registry that is not published.
    fn fill<T>(
        &self,
        name: String,
        change: impl FnOnce(&mut Registrations<Draft>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if let Engine::Sealed(sealed) = &self.inner.engine
            && let SealedRegistry::Filling(registrations) = &mut *lock(sealed)
        {
            return change(registrations);
        }
        Err(Error::Sealed { name, path: self.path().to_owned() })
    }
}

/// The path alone: programs print structs that have a registry.
impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl Inner {
    fn withdraw(&self) {
        match &self.engine {
            Engine::Growing(growing) => growing.withdraw(),
            Engine::Sealed(sealed) => {
                let withdrawn = std::mem::replace(&mut *lock(sealed), SealedRegistry::Gone);
                drop(withdrawn);
            }
        }
    }
}

impl Publication {
    fn new(published: &PublicationGuard) -> Self {
        Self { path: published.path().to_owned(), generation: published.generation() }
    }
}

fn lock(sealed: &Mutex<SealedRegistry>) -> MutexGuard<'_, SealedRegistry> {
    sealed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Completes the files and gives them their names, the first one last: a reader that finds
/// it finds all.
fn publish_all(registrations: Registrations<Draft>) -> Result<PublicationGuard, Error> {
    let (first, overflow) = registrations.into_files();
    let mut published = Vec::new();
    for file in overflow {
        published.push(publish_file(file)?);
    }
    let published = publish_file(first)?.with_overflow(published);
    remove_stale(published.path(), published.overflow());
    Ok(published)
}

fn publish_file(file: RegisteredFile<Draft>) -> Result<PublicationGuard, Error> {
    let (pinned, labels, draft) = file.into_parts();
    draft.publish(pinned, &labels)
}

#[cfg(test)]
mod tests;
