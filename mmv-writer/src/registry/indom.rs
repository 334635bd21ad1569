//! Instance domains as a program holds them.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pcp_types::InstanceId;

use crate::live::{DynamicId, GrowingFiles};
use crate::metric::Buckets;
use crate::registration;
use crate::{Error, Label};

/// A registered instance domain, for metrics with instances. Clones are the same domain.
///
/// Its instances are fixed if they were named when it was registered, and come and go with
/// the metrics on it if not.
#[derive(Clone)]
#[must_use]
pub struct Indom {
    registered: registration::RegisteredIndom,
    /// `None` if its instances are fixed.
    growing: Option<(Arc<GrowingFiles>, DynamicId)>,
}

impl Indom {
    pub(crate) fn fixed(registered: registration::RegisteredIndom) -> Self {
        Self { registered, growing: None }
    }

    pub(crate) fn growing(
        registered: registration::RegisteredIndom,
        files: &Arc<GrowingFiles>,
        id: DynamicId,
    ) -> Self {
        Self { registered, growing: Some((Arc::clone(files), id)) }
    }

    pub(crate) fn registered(&self) -> &registration::RegisteredIndom {
        &self.registered
    }

    /// Returns the id of a domain whose instances come and go.
    pub(crate) fn dynamic_id(&self) -> Option<DynamicId> {
        self.growing.as_ref().map(|(_, id)| *id)
    }

    /// Returns the domain's number within the file.
    pub fn serial(&self) -> u32 {
        self.registered.record.serial
    }

    /// Returns number and name of each fixed instance, in order.
    pub fn instances(&self) -> &[(InstanceId, String)] {
        &self.registered.record.members
    }

    /// Removes an instance, with its values in all metrics of the domain;
    /// returns whether it existed. Fixed instances stay.
    ///
    /// Handles on these values stay valid, but no reader sees them. The same name can
    /// be added again: it then counts from 0, under the same number, as after a restart of
    /// the program. The place of the removed one is used again when its last handle is
    /// dropped and the removal was announced 100 ms ago.
    pub fn remove(&self, name: &str) -> bool {
        let Some((growing, id)) = &self.growing else { return false };
        let mut state = growing.write();
        let (was_there, released) = state.remove(*id, name);
        if was_there {
            growing.announce(&mut state);
        }
        drop(state);
        drop(released);
        was_there
    }

    /// Attaches a label to a present instance of a domain whose instances come and go. It is
    /// removed with the instance.
    ///
    /// Labels of instances count towards the 255 labels of each file that has the
    /// instance. When these are used up, new metrics go into an overflow file, but
    /// instances of existing metrics get no more labels. The entry of a removed label
    /// is used again, like that of an instance.
    ///
    /// ```
    /// use mmv_writer::pcp::{IndomMetricExt as _, RegistryExt as _};
    /// # use mmv_writer::{Counter, Label, Registry};
    /// # fn main() -> Result<(), mmv_writer::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let registry = Registry::builder("web").directory(directory.path()).build()?;
    /// let tenants = registry.indom("tenants").build()?;
    /// let requests = registry.counter("requests").build_named(&tenants)?;
    /// requests.with("acme", Counter::inc)?;
    /// tenants.label("acme", Label::new("plan", "gold"))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoInstance`], also for a fixed one, [`Error::LabelName`], [`Error::LabelValue`],
    /// [`Error::Length`], [`Error::Nul`], [`Error::NameTaken`] for a label that it has,
    /// [`Error::Full`], [`Error::Forked`] in a forked child whose parent made the
    /// registry, and [`Error::Io`] when the disk is full.
    pub fn label(&self, instance: &str, label: Label) -> Result<(), Error> {
        let Some((growing, id)) = &self.growing else {
            let indom = self.registered.record.name.clone();
            let instance = instance.to_owned();
            return Err(Error::NoInstance { label: label.name, indom, instance });
        };
        growing.change(|state| state.label_instance(*id, instance, label))
    }

    /// Returns the number of instances.
    pub fn len(&self) -> usize {
        match &self.growing {
            Some((growing, id)) => growing.read().instance_count(*id),
            None => self.instances().len(),
        }
    }

    /// Returns true if there are no instances.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the names of all instances, sorted.
    pub fn names(&self) -> Vec<String> {
        let Some((growing, id)) = &self.growing else {
            let mut names: Vec<_> = self.instances().iter().map(|(_, name)| name.clone()).collect();
            names.sort();
            return names;
        };
        let state = growing.read();
        state.instance_names(*id).into_iter().map(str::to_owned).collect()
    }
}

impl fmt::Debug for Indom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Indom").field("name", &self.registered.record.name).finish_non_exhaustive()
    }
}

/// The domains that metrics of a registry share without the program naming them.
#[derive(Debug, Default)]
pub(crate) struct SharedIndoms {
    buckets: Mutex<Vec<(Buckets, Indom)>>,
    stripes: Mutex<Vec<Indom>>,
}

impl SharedIndoms {
    /// Locks the domains of histograms.
    pub(crate) fn buckets(&self) -> MutexGuard<'_, Vec<(Buckets, Indom)>> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the domains of striped counters.
    pub(crate) fn stripes(&self) -> MutexGuard<'_, Vec<Indom>> {
        self.stripes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
