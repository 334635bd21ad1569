//! Domains whose instances come and go, and the metrics on them.

use std::fmt;
use std::sync::Arc;

use super::handles::{HandleIndex, RemoveHandle};
use super::state::{DynamicId, FamilyId};
use super::{LiveRegistry, Shared};
use crate::builder::{IndomBuilder, MetricBuilder};
use crate::metric::Handle;
use crate::registration::Indom;
use crate::{Error, Label};

impl IndomBuilder<'_, LiveRegistry> {
    /// Registers the domain, without instances.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`], [`Error::NumberTaken`], [`Error::Length`],
    /// [`Error::Nul`], [`Error::Full`], [`Error::IndomInHighCluster`], what is
    /// wrong with a label, [`Error::Forked`] in a forked child whose parent made the
    /// registry, and [`Error::Io`] when the disk is full.
    pub fn build(self) -> Result<LiveIndom, Error> {
        let shared = Arc::clone(&self.registry.shared);
        let (id, indom) = shared.change(|state| state.add_indom(self.spec))?;
        Ok(LiveIndom { shared, id, indom })
    }
}

/// A domain whose instances come and go. Clones are the same domain.
#[derive(Clone)]
#[must_use]
pub struct LiveIndom {
    shared: Arc<Shared>,
    id: DynamicId,
    indom: Indom,
}

impl LiveIndom {
    /// Removes an instance, with its values in all metrics of the domain;
    /// returns whether it existed.
    ///
    /// Handles on these values stay valid, but no reader sees them. The same name can
    /// be added again: it then counts from 0, under the same number, as after a restart of
    /// the program. The place of the removed one is used again when its last handle is
    /// dropped and the removal was announced 100 ms ago.
    pub fn remove(&self, name: &str) -> bool {
        let mut state = self.shared.write();
        let removed = state.remove(self.id, name);
        if removed {
            self.shared.announce(&mut state);
        }
        removed
    }

    /// Attaches a label to a present instance. It is removed with the instance.
    ///
    /// Labels of instances count towards the 255 labels of each file that has the
    /// instance. When these are used up, new metrics go into an overflow file, but
    /// instances of existing metrics get no more labels. The entry of a removed label
    /// is used again, like that of an instance.
    ///
    /// ```
    /// # use mmv_writer::{Counter, Family, Label, Registry};
    /// # fn main() -> Result<(), mmv_writer::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let registry = Registry::builder("web").directory(directory.path()).live().build()?;
    /// let tenants = registry.indom("tenants").build()?;
    /// let requests: Family<Counter<u64>> = registry.counter("requests").build_family(&tenants)?;
    /// requests.with("acme", Counter::inc)?;
    /// tenants.label("acme", Label::new("plan", "gold"))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoInstance`], [`Error::LabelName`], [`Error::LabelValue`],
    /// [`Error::Length`], [`Error::Nul`], [`Error::NameTaken`] for a label that it has,
    /// [`Error::Full`], [`Error::Forked`] in a forked child whose parent made the
    /// registry, and [`Error::Io`] when the disk is full.
    pub fn label(&self, instance: &str, label: Label) -> Result<(), Error> {
        self.shared.change(|state| state.label_instance(self.id, instance, label))
    }

    /// How many instances there are.
    pub fn len(&self) -> usize {
        self.shared.read().instance_count(self.id)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names of all instances, sorted.
    pub fn names(&self) -> Vec<String> {
        let state = self.shared.read();
        state.instance_names(self.id).into_iter().map(str::to_owned).collect()
    }
}

impl fmt::Debug for LiveIndom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveIndom").field("name", &self.indom.record.name).finish_non_exhaustive()
    }
}

/// A metric on a [`LiveIndom`]: a handle for each instance, made when it is
/// first requested. Clones are the same metric.
#[must_use]
pub struct Family<H> {
    shared: Arc<Shared>,
    id: FamilyId,
    handles: Arc<HandleIndex<H>>,
}

impl<H: Handle + Clone> Family<H> {
    /// The handle of an instance; the instance and its value are created if they do
    /// not exist. A name has 1 to 255 bytes.
    ///
    /// Looks the name up: keep the handle where you can, and use [`Family::with`] where
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
    /// [`Family::get_or_create`]: the cheapest way to count by name.
    ///
    /// ```
    /// # use mmv_writer::{Counter, Family, Registry};
    /// # fn main() -> Result<(), mmv_writer::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let registry = Registry::builder("web").directory(directory.path()).live().build()?;
    /// # let paths = registry.indom("paths").build()?;
    /// let hits: Family<Counter<u64>> = registry.counter("hits").build_family(&paths)?;
    /// hits.with("/index.html", Counter::inc)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// While `borrow` runs, no other thread can add an instance to this metric or
    /// remove one; `borrow` itself must not change the registry, which would
    /// deadlock.
    ///
    /// # Errors
    ///
    /// As [`Family::get_or_create`].
    pub fn with<R>(&self, name: &str, borrow: impl FnOnce(&H) -> R) -> Result<R, Error> {
        self.with_labels(name, &Vec::new, borrow)
    }

    /// As [`Family::with`]; a new instance gets labels if there is room for them.
    #[inline]
    pub(super) fn with_labels<R>(
        &self,
        name: &str,
        labels: &dyn Fn() -> Vec<Label>,
        borrow: impl FnOnce(&H) -> R,
    ) -> Result<R, Error> {
        loop {
            if let Some(handle) = self.handles.read().get(name) {
                return Ok(borrow(handle));
            }
            self.create(name, labels)?;
        }
    }

    /// The handle of a present instance with a value.
    pub fn get(&self, name: &str) -> Option<H> {
        self.handles.read().get(name).cloned()
    }

    /// Creates an instance, unless another thread has created it.
    #[cold]
    fn create(&self, name: &str, labels: &dyn Fn() -> Vec<Label>) -> Result<(), Error> {
        let mut state = self.shared.write();
        if self.handles.read().get(name).is_none() {
            let handle = H::on(state.create_value(self.id, name)?);
            for label in labels() {
                // One that another metric of the domain gave it, or that does not fit.
                let _ = state.label_instance(self.id.indom, name, label);
            }
            self.handles.add(name, handle);
            self.shared.announce(&mut state);
        }
        Ok(())
    }
}

impl<H> Clone for Family<H> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), id: self.id, handles: Arc::clone(&self.handles) }
    }
}

impl<H> fmt::Debug for Family<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.read();
        f.debug_struct("Family").field("name", &state.family_name(self.id)).finish_non_exhaustive()
    }
}

impl<H: Handle + Clone> MetricBuilder<'_, H, LiveRegistry> {
    /// Registers the metric on a domain, whose instances get values when they are
    /// requested.
    ///
    /// # Errors
    ///
    /// As [`MetricBuilder::build`], and [`Error::OtherRegistry`].
    pub fn build_family(self, indom: &LiveIndom) -> Result<Family<H>, Error> {
        let shared = Arc::clone(&self.registry.shared);
        let handles = Arc::new(HandleIndex::new());
        let removing: Arc<dyn RemoveHandle> = Arc::clone(&handles) as _;
        let on = (indom.id, &indom.indom);
        let id = shared.change(|state| state.add_family(self.spec, on, removing))?;
        Ok(Family { shared, id, handles })
    }
}
