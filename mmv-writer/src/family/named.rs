//! Metrics whose instances are found by their names.

use std::fmt;
use std::sync::{Arc, Weak};

use super::FileKeeper;
use crate::Error;
use crate::builder::MetricBuilder;
use crate::live::{FamilyId, GrowingFiles, HandleIndex, RemoveHandle};
use crate::metric::Handle;
use crate::registry::Indom;

/// A metric on an [`Indom`] whose instances come and go, with a handle for each instance. A handle
/// is made when it is first requested by its name. Clones are the same metric.
///
/// Several metrics can share a domain, as PCP's own do. Where the instances are those of one
/// metric, [`Family`](crate::Family) is simpler.
#[must_use]
pub struct NamedFamily<H = crate::Counter> {
    kept: FileKeeper,
    files: Arc<GrowingFiles>,
    id: FamilyId,
    handles: Arc<HandleIndex<H>>,
}

impl<H: Handle + Clone> NamedFamily<H> {
    /// Registers a metric on a domain whose instances come and go.
    pub(crate) fn register(builder: MetricBuilder<'_, H>, indom: &Indom) -> Result<Self, Error> {
        let MetricBuilder { registry, spec, .. } = builder;
        let kept = FileKeeper::new(registry);
        let growing = registry.growing().zip(indom.dynamic_id());
        let Some((files, indom_id)) = growing else {
            let indom = indom.registered().record.name.clone();
            return Err(Error::FixedInstances { name: spec.name, indom });
        };
        let handles = Arc::new(HandleIndex::new());
        let removing = Arc::downgrade(&handles);
        let removing: Weak<dyn RemoveHandle> = removing;
        let indom = indom.registered();
        let id = files.change(|state| state.add_family(spec, indom_id, indom, removing, 0))?;
        Ok(Self { kept, files: Arc::clone(files), id, handles })
    }

    /// Returns the handle of an instance; the instance and its value are created if they do not
    /// exist. A name has 1 to 255 bytes.
    ///
    /// Looks the name up: keep the handle where you can, and use [`NamedFamily::with`] where
    /// you cannot.
    ///
    /// # Errors
    ///
    /// [`Error::Length`] and [`Error::Nul`] for the name, [`Error::Full`],
    /// [`Error::Forked`] in a forked child whose parent made the registry, and
    /// [`Error::Io`] when the disk is full; never for a present instance.
    pub fn get_or_create(&self, name: &str) -> Result<H, Error> {
        self.with(name, H::clone)
    }

    /// Calls `borrow` with the handle of an instance, which is created as by
    /// [`NamedFamily::get_or_create`]: the cheapest way to count by name.
    ///
    /// ```
    /// use mmv_writer::pcp::{IndomMetricExt as _, RegistryExt as _};
    /// # use mmv_writer::{Counter, Registry};
    /// # fn main() -> Result<(), mmv_writer::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let registry = Registry::builder("web").directory(directory.path()).build()?;
    /// # let paths = registry.indom("paths").build()?;
    /// let hits = registry.counter("hits").build_named(&paths)?;
    /// hits.with("/index.html", Counter::inc)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// While `borrow` runs, no other thread can add an instance to this metric or
    /// remove one; `borrow` itself must not change the registry, nor record in a histogram of a
    /// [`Family`](crate::Family), which would deadlock.
    ///
    /// # Errors
    ///
    /// The errors of [`NamedFamily::get_or_create`].
    pub fn with<R>(&self, name: &str, borrow: impl FnOnce(&H) -> R) -> Result<R, Error> {
        loop {
            if let Some(handle) = self.handles.read().get(name) {
                return Ok(borrow(handle));
            }
            self.create(name)?;
        }
    }

    /// Returns the handle of an existing instance with a value.
    pub fn get(&self, name: &str) -> Option<H> {
        self.handles.read().get(name).cloned()
    }

    /// Creates an instance, unless another thread has created it.
    #[cold]
    fn create(&self, name: &str) -> Result<(), Error> {
        let mut state = self.files.write();
        if self.handles.read().get(name).is_none() {
            let slot = state.create_value(self.id, name)?;
            self.handles.add(name, H::from_slot(self.kept.keeping(slot)));
            self.files.announce(&mut state);
        }
        Ok(())
    }
}

impl<H> Clone for NamedFamily<H> {
    fn clone(&self) -> Self {
        Self {
            kept: self.kept.clone(),
            files: Arc::clone(&self.files),
            id: self.id,
            handles: Arc::clone(&self.handles),
        }
    }
}

impl<H> fmt::Debug for NamedFamily<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.files.read();
        f.debug_struct("NamedFamily")
            .field("name", &state.family_name(self.id))
            .finish_non_exhaustive()
    }
}
