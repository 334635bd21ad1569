//! Live domains, and metrics whose instances come and go.

use std::fmt;
use std::sync::Arc;

use super::domain::Domain;
use super::index::{Forget, Index};
use super::{LiveRegistry, Shared};
use crate::metric::Handle;
use crate::registry::MetricBuilder;
use crate::registry::model::Help;
use crate::{Error, Label};

/// A live domain being described; see [`LiveRegistry::indom`].
#[derive(Debug)]
#[must_use = "a domain is registered by build()"]
pub struct LiveIndomBuilder<'r> {
    shared: &'r Arc<Shared>,
    name: String,
    serial: Option<u32>,
    help: Help,
    labels: Vec<Label>,
}

impl<'r> LiveIndomBuilder<'r> {
    pub(super) fn new(shared: &'r Arc<Shared>, name: String) -> Self {
        Self { shared, name, serial: None, help: Help::default(), labels: Vec::new() }
    }

    /// Sets the domain's number, 1..=2047; without this, the lowest that is
    /// free.
    pub fn serial(mut self, serial: u32) -> Self {
        self.serial = Some(serial);
        self
    }

    /// Sets the one-line help text, at most 255 bytes.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help.short = Some(text.into());
        self
    }

    /// Sets the long help text, at most 255 bytes.
    pub fn long_help(mut self, text: impl Into<String>) -> Self {
        self.help.long = Some(text.into());
        self
    }

    /// Attaches a label to the domain.
    pub fn label(mut self, label: Label) -> Self {
        self.labels.push(label);
        self
    }

    /// Registers the domain, without instances.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`], [`Error::NumberTaken`], [`Error::Length`],
    /// [`Error::Nul`], [`Error::Full`], [`Error::IndomInHighCluster`], what is
    /// wrong with a label, and [`Error::Io`] when the disk is full.
    pub fn build(self) -> Result<LiveIndom, Error> {
        let Self { shared, name, serial, help, labels } = self;
        let index =
            shared.change(|state| state.add_domain(name, serial, &help, labels, Vec::new()))?;
        Ok(LiveIndom { shared: Arc::clone(shared), index })
    }
}

/// A domain whose instances come and go. Clones are the same domain.
#[derive(Clone)]
#[must_use]
pub struct LiveIndom {
    shared: Arc<Shared>,
    index: usize,
}

impl LiveIndom {
    /// Removes an instance, with its values in all metrics of the domain;
    /// whether it was there.
    ///
    /// Handles on these values stay valid and count where nobody reads. The same
    /// name can be added again: it is then a new instance with a number of its
    /// own, and counts from 0. The place of the removed one is used again when its
    /// last handle is gone and readers have known of the removal for 100 ms.
    pub fn remove(&self, name: &str) -> bool {
        let mut state = self.shared.write();
        let removed = state.remove(self.index, name);
        if removed {
            self.shared.announce(&mut state);
        }
        removed
    }

    /// Attaches a label to an instance that is there. It goes when the instance is
    /// removed.
    ///
    /// Labels of instances count among the 255 of a file that has the instance, and
    /// cannot be in another one: where these are used up, metrics go on in a further
    /// file, but instances of metrics that are there get no more labels. The entry of
    /// a label that is gone is used again, after the same rest as an instance's.
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
    /// [`Error::Full`], and [`Error::Io`] when the disk is full.
    pub fn label(&self, instance: &str, label: Label) -> Result<(), Error> {
        self.shared.change(|state| state.label_instance(self.index, instance, label))
    }

    /// How many instances there are.
    pub fn len(&self) -> usize {
        self.shared.read().domains.get(self.index).map_or(0, Domain::len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names of all instances, sorted.
    pub fn names(&self) -> Vec<String> {
        let state = self.shared.read();
        let names = state.domains.get(self.index).map(Domain::names).unwrap_or_default();
        names.into_iter().map(str::to_owned).collect()
    }
}

impl fmt::Debug for LiveIndom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.read();
        let name = state.domains.get(self.index).map(|domain| domain.name.as_str());
        f.debug_struct("LiveIndom").field("name", &name).finish_non_exhaustive()
    }
}

/// A metric on a [`LiveIndom`]: a handle for each instance, made when it is
/// first asked for. Clones are the same metric.
#[must_use]
pub struct Family<H> {
    shared: Arc<Shared>,
    metric: usize,
    index: Arc<Index<H>>,
}

impl<H: Handle + Clone> Family<H> {
    /// The handle of an instance; the instance and its value are created unless
    /// they are there. A name of 1..=255 bytes.
    ///
    /// Looks the name up: keep the handle where you can, and where you cannot, have
    /// it lent by [`Family::with`].
    ///
    /// # Errors
    ///
    /// [`Error::Length`] and [`Error::Nul`] for the name, [`Error::Full`], and
    /// [`Error::Io`] when the disk is full; never for an instance that is there.
    pub fn get_or_create(&self, name: &str) -> Result<H, Error> {
        self.with(name, H::clone)
    }

    /// Lends the handle of an instance, which is created as by
    /// [`Family::get_or_create`]: the cheapest way to count under a name that is
    /// known only now.
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
    /// remove one; `borrow` itself must not change the registry, as it would wait
    /// for itself.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn with<R>(&self, name: &str, borrow: impl FnOnce(&H) -> R) -> Result<R, Error> {
        loop {
            if let Some(handle) = self.index.read().get(name) {
                return Ok(borrow(handle));
            }
            self.create(name)?;
        }
    }

    /// The handle of an instance that is there and has a value.
    pub fn get(&self, name: &str) -> Option<H> {
        self.index.read().get(name).cloned()
    }

    /// Creates an instance that was not there a moment ago.
    #[cold]
    fn create(&self, name: &str) -> Result<(), Error> {
        let mut state = self.shared.write();
        // Another thread may have come first.
        if self.index.read().get(name).is_none() {
            self.index.add(name, H::on(state.create_seat(self.metric, name)?));
            self.shared.announce(&mut state);
        }
        Ok(())
    }
}

impl<H> Clone for Family<H> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            metric: self.metric,
            index: Arc::clone(&self.index),
        }
    }
}

impl<H> fmt::Debug for Family<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.read();
        let name = state.metrics.get(self.metric).map(|metric| &metric.name);
        f.debug_struct("Family").field("name", &name).finish_non_exhaustive()
    }
}

impl<H: Handle + Clone> MetricBuilder<'_, H, LiveRegistry> {
    /// Registers the metric on a domain, whose instances get values as they are
    /// asked for.
    ///
    /// # Errors
    ///
    /// As [`MetricBuilder::build`], and [`Error::OtherRegistry`].
    pub fn build_family(self, indom: &LiveIndom) -> Result<Family<H>, Error> {
        let shared = Arc::clone(&self.registry.shared);
        if !Arc::ptr_eq(&shared, &indom.shared) {
            return Err(Error::OtherRegistry { name: self.spec.name });
        }
        let index = Arc::new(Index::new());
        let forget: Arc<dyn Forget> = Arc::clone(&index) as _;
        let metric = shared.change(|state| state.add_family(self.spec, indom.index, forget))?;
        Ok(Family { shared, metric, index })
    }
}
