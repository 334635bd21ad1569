//! Metrics with labels: an instance for each set of labels as long as there is room,
//! then one instance for all others.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mmv_writer::handle::Handle;
use mmv_writer::pcp::{Indom, NamedFamily};
use mmv_writer::{Error, Label};

use crate::warning;

/// The limit on the instances of all metrics of a recorder, and their number. For each metric
/// with labels, room is reserved for its instance `overflow`.
#[derive(Debug)]
pub(crate) struct InstanceQuota {
    limit: u64,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    used: u64,
    kept: u64,
}

impl InstanceQuota {
    pub(crate) fn new(limit: u32) -> Self {
        Self { limit: limit.into(), counts: Mutex::default() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes room for an instance. Returns whether there was any.
    fn take(&self) -> bool {
        let mut counts = self.counts();
        let is_free = counts.used + counts.kept < self.limit;
        counts.used += u64::from(is_free);
        is_free
    }

    fn give_back(&self) {
        let mut counts = self.counts();
        counts.used = counts.used.saturating_sub(1);
    }
}

/// A metric with labels, on a domain of its own. Clones are the same metric.
#[derive(Debug)]
pub(crate) struct Series<H> {
    family: NamedFamily<H>,
    indom: Indom,
    room: Arc<InstanceQuota>,
    /// The metric's kind and name, for messages.
    name: Arc<str>,
    /// The instance for labels without a place: its name, and its handle once it is created.
    overflow: (&'static str, Arc<OnceLock<H>>),
}

/// The handle of a set of labels.
#[derive(Debug)]
pub(crate) enum SeriesPlace<H> {
    Own(H),
    /// The handle that all sets of labels without a place share.
    Overflow(H),
}

impl<H> Clone for Series<H> {
    fn clone(&self) -> Self {
        let (name, overflow) = &self.overflow;
        Self {
            family: self.family.clone(),
            indom: self.indom.clone(),
            room: Arc::clone(&self.room),
            name: Arc::clone(&self.name),
            overflow: (name, Arc::clone(overflow)),
        }
    }
}

impl<H: Handle + Clone> Series<H> {
    /// Makes a metric without instances.
    pub(crate) fn new(
        (family, indom): (NamedFamily<H>, Indom),
        room: &Arc<InstanceQuota>,
        name: &str,
        overflow: &'static str,
    ) -> Self {
        room.counts().kept += 1;
        let room = Arc::clone(room);
        let name = name.into();
        Self { family, indom, room, name, overflow: (overflow, Arc::default()) }
    }

    /// Returns the metric's kind and name, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the handle of an instance, which is created if there is room.
    pub(crate) fn get_or_create(&self, instance: &str) -> Result<SeriesPlace<H>, Error> {
        if let Some(handle) = self.family.get(instance) {
            return Ok(SeriesPlace::Own(handle));
        }
        if self.room.take() {
            match self.family.get_or_create(instance) {
                Err(Error::Full { .. }) => self.room.give_back(),
                created => {
                    return created.map(SeriesPlace::Own).inspect_err(|_| self.room.give_back());
                }
            }
        }
        self.overflow().map(SeriesPlace::Overflow)
    }

    /// Returns the handle for labels without a place.
    pub(crate) fn overflow(&self) -> Result<H, Error> {
        let (instance, known) = &self.overflow;
        if let Some(handle) = known.get() {
            return Ok(handle.clone());
        }
        let handle = self.family.get_or_create(instance)?;
        if known.set(handle.clone()).is_ok() {
            let mut counts = self.room.counts();
            counts.kept = counts.kept.saturating_sub(1);
            counts.used += 1;
            drop(counts);
            // Without room for a label the name tells what it is.
            let _ = self.indom.label(instance, Label::new("overflow", true));
            let name = &self.name;
            let limit = self.room.limit;
            warning(&format_args!(
                "{name}: no room for more than {limit} series; its instance \"{instance}\" \
                 counts all others"
            ));
        }
        Ok(handle)
    }

    /// Attaches a label to an instance, if there is room; the name of the instance has
    /// all labels.
    pub(crate) fn label(&self, instance: &str, label: Label) {
        let _ = self.indom.label(instance, label);
    }

    /// Removes an instance and releases its room.
    pub(crate) fn remove(&self, instance: &str) {
        if self.indom.remove(instance) {
            self.room.give_back();
        }
    }
}
