//! The state that the lock of a growing registry protects.
//!
//! Domains with fixed instances and singular metrics are registered as in a sealed
//! registry. This adds domains whose instances come and go: their families, the
//! labels of their instances, and their instances' numbers, which are the same in
//! all files.

use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mmv_format::layout::{LABEL_INSTANCES, METRIC_OFFSET, Version};
use pcp_types::{InstanceId, InstanceNumbers};

use super::handles::{HandleIndex, RemoveHandle};
use super::instances::InstanceTable;
use super::sections::Sections;
use super::store::{LiveMetric, LiveStore, Value};
use crate::identity::{Absent, FileIdentity};
use crate::metric::ValueSlot;
use crate::overflow::Clusters;
use crate::published::PublicationGuard;
use crate::registration::{
    FileId, IndomSpec, LabelRecord, MetricSpec, Need, Promise, RegisteredIndom, Registrations,
    Store, ValueShape, numbers_used_up, serial_of,
};
use crate::system::Instant;
use crate::{Counter, Error, Label};

/// The registered metrics and domains, and their files.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) registrations: Registrations<LiveStore>,
    dynamic: Vec<DynamicIndom>,
    /// Time of the last announcement of changes to readers.
    pub(crate) announced: Instant,
    /// True if a thread waits to announce changes.
    pub(crate) pending: bool,
    /// True if a value may be absent. Then each instance has a value in every family of its file,
    /// as PCP's reader logs a warning for each missing one at each fetch.
    allows_absent: bool,
    /// True if all files were withdrawn; new files are then withdrawn at once.
    is_withdrawn: bool,
}

/// Handles of a removed instance, to be dropped when the state is no longer locked: the
/// last handle of a registry withdraws its files, which locks the state.
pub(crate) type ReleasedHandles = Vec<(Arc<dyn RemoveHandle>, Option<Box<dyn Any + Send>>)>;

/// Index of a domain whose instances come and go, in the state that created it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DynamicId(usize);

/// Index of a metric on a [`DynamicId`]'s domain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FamilyId {
    pub(crate) indom: DynamicId,
    index: usize,
}

#[derive(Debug)]
struct DynamicIndom {
    indom: RegisteredIndom,
    families: Vec<FamilyMetric>,
    /// Labels of the existing instances.
    labels: HashMap<String, Vec<Label>>,
    numbers: InstanceNumbers,
}

/// A metric that has a value for each instance that was requested.
#[derive(Debug)]
struct FamilyMetric {
    name: String,
    file: FileId,
    metric: LiveMetric,
    /// Value entries by index of the instance's slot.
    values: Vec<Option<Value>>,
    /// The room that the file keeps for this metric.
    promise: Promise,
    is_removed: bool,
    /// The handles by instance name. They keep the file, so this does not keep them.
    handles: Weak<dyn RemoveHandle>,
}

impl State {
    pub(super) fn new(
        identity: FileIdentity,
        clusters: Clusters,
        sections: Sections,
        lenient: bool,
    ) -> Result<Self, Error> {
        let allows_absent = identity.absent != Absent::Never;
        let registrations =
            Registrations::new(identity, clusters, sections, Some(Version::V3), lenient)?;
        Ok(Self {
            registrations,
            dynamic: Vec::new(),
            announced: Instant::now(),
            pending: false,
            allows_absent,
            is_withdrawn: false,
        })
    }

    /// Returns the first file, while it is published.
    pub(crate) fn published(&self) -> Option<&PublicationGuard> {
        self.registrations.files().next()?.store.published.as_ref()
    }

    pub(crate) fn overflow(&self) -> Vec<PathBuf> {
        let overflow = self.registrations.files().skip(1);
        let published = overflow.filter_map(|file| file.store.published.as_ref());
        published.map(PublicationGuard::path).map(Path::to_owned).collect()
    }

    /// Withdraws all files, the first one last, after announcing what is pending: a reader
    /// of the last values finds all of them.
    pub(crate) fn withdraw(&mut self) {
        if !self.is_withdrawn {
            self.announce();
            self.is_withdrawn = true;
        }
        self.withdraw_late_files();
    }

    /// Withdraws files that were created after the others were withdrawn.
    pub(crate) fn withdraw_late_files(&mut self) {
        if self.is_withdrawn {
            for file in self.registrations.files_mut().rev() {
                file.store.published = None;
            }
        }
    }

    /// Returns the time until changes may be announced.
    pub(crate) fn ready_in(&self) -> Duration {
        let waits = self.registrations.files().map(|file| file.store.file.ready_in());
        waits.max().unwrap_or_default()
    }

    /// Announces all changes to readers. Must not be called before [`State::ready_in`] is over.
    pub(crate) fn announce(&mut self) {
        // The last file first: what is in it is described there.
        for file in self.registrations.files_mut().rev() {
            file.store.announce();
        }
        self.announced = Instant::now();
        self.pending = false;
    }

    /// Adds a domain whose instances come and go.
    pub(crate) fn add_indom(
        &mut self,
        spec: IndomSpec,
    ) -> Result<(DynamicId, RegisteredIndom), Error> {
        let indom = self.registrations.add_indom(spec)?;
        Ok((self.add_dynamic(indom.clone()), indom))
    }

    fn add_dynamic(&mut self, indom: RegisteredIndom) -> DynamicId {
        self.dynamic.push(DynamicIndom {
            indom,
            families: Vec::new(),
            labels: HashMap::new(),
            numbers: InstanceNumbers::default(),
        });
        DynamicId(self.dynamic.len() - 1)
    }

    /// Adds a metric as [`State::add_family`] does, on a domain of its own. Its handles are not
    /// known by their names.
    pub(crate) fn add_series(
        &mut self,
        spec: MetricSpec,
        promised: usize,
    ) -> Result<FamilyId, Error> {
        // Metrics may be registered in any order: the number follows from the name.
        let indom = self.registrations.new_indom(spec.name.clone(), serial_of(&spec.name))?;
        let id = self.add_dynamic(indom.clone());
        let by_name: Weak<dyn RemoveHandle> = Weak::<HandleIndex<Counter>>::new();
        let added = self.add_family(spec, id, &indom, by_name, promised);
        if added.is_err() {
            self.dynamic.pop();
        }
        added
    }

    /// Adds a metric that has no value yet. The file keeps room for `promised` instances, which
    /// [`State::create_promised_value`] creates.
    pub(crate) fn add_family(
        &mut self,
        spec: MetricSpec,
        id: DynamicId,
        indom: &RegisteredIndom,
        handles: Weak<dyn RemoveHandle>,
        promised: usize,
    ) -> Result<FamilyId, Error> {
        let name = spec.name.clone();
        let promise = Promise::of_instances(ValueShape::new(&spec), promised);
        // Fails for a domain of another registry, before its index is used.
        let family = Need { family: true, promise, ..Need::default() };
        let prepared = self.registrations.prepare(spec, Some(indom), 0, family)?;
        let file = prepared.file;
        let (_, metric) = self.registrations.commit(prepared);
        let families = &mut self.dynamic[id.0].families;
        let values = Vec::new();
        let mut family =
            FamilyMetric { name, file, metric, values, promise, is_removed: false, handles };
        if self.allows_absent {
            let store = &mut self.registrations.file_mut(file).store;
            if families.iter().any(|other| other.file == file && !other.is_removed) {
                store.allow_absent();
            }
            let present: Vec<_> = store.table_mut(indom).present().collect();
            for slot in present {
                family.add_absent(store, indom, slot);
            }
        }
        families.push(family);
        Ok(FamilyId { indom: id, index: families.len() - 1 })
    }

    pub(crate) fn family_name(&self, id: FamilyId) -> &str {
        &self.dynamic[id.indom.0].families[id.index].name
    }

    /// Creates a value as [`State::create_value`] does, in the room that the file keeps for the
    /// family.
    pub(crate) fn create_promised_value(
        &mut self,
        id: FamilyId,
        name: &str,
    ) -> Result<ValueSlot, Error> {
        let family = &mut self.dynamic[id.indom.0].families[id.index];
        let before = family.promise;
        let kept = Promise::of_instances(family.metric.shape, 1);
        let after = before.without(kept);
        self.replace_promise(id, after);
        self.create_value(id, name).inspect_err(|_| self.replace_promise(id, before))
    }

    fn replace_promise(&mut self, id: FamilyId, promise: Promise) {
        let family = &mut self.dynamic[id.indom.0].families[id.index];
        let file = &mut self.registrations.file_mut(family.file).store.file;
        file.release_promise(family.promise);
        file.promise(promise);
        family.promise = promise;
    }

    /// Creates the value of a family's instance, and the instance if its file does not have it yet.
    pub(crate) fn create_value(&mut self, id: FamilyId, name: &str) -> Result<ValueSlot, Error> {
        if self.dynamic[id.indom.0].families[id.index].is_removed {
            return Ok(ValueSlot::private());
        }
        let number = self.instance_number(id.indom, name)?;
        let dynamic = &mut self.dynamic[id.indom.0];
        let family = &mut dynamic.families[id.index];
        let indom = &dynamic.indom;
        let here = self.registrations.file_mut(family.file);
        here.numbers.check_instance_name(&indom.record.name, name)?;
        let need = Need::of_values(family.metric.shape, 1);
        here.store.reserve(&need, name)?;
        let table = here.store.table_mut(indom);
        let is_new = table.find(name).is_none();
        let labels = dynamic.labels.get(name).filter(|_| is_new).into_iter().flatten();
        let labels = labels.map(|label| instance_label(table.serial, number, label.clone()));
        let labels = labels.collect::<Result<Vec<_>, _>>()?;
        here.numbers.check_labels(&labels)?;
        here.store.reserve(&Need { labels: labels.len(), ..Need::default() }, name)?;
        let slot = here.store.create_instance(indom, name, number)?;
        dynamic.numbers.take(number);
        here.store.add_instance_labels(indom, slot, &labels);
        here.numbers.take_labels(labels);
        let metric = family.metric;
        let value = here.store.link(&metric, indom, slot, family.value(slot));
        if is_new && self.allows_absent {
            let file = family.file;
            let families = dynamic.families.iter_mut().enumerate();
            for (_, other) in families
                .filter(|(at, other)| *at != id.index && other.file == file && !other.is_removed)
            {
                other.add_absent(&mut here.store, indom, slot);
            }
        }
        Ok(value)
    }

    /// Returns the number that an instance has in a file, or a free one.
    fn instance_number(&self, id: DynamicId, name: &str) -> Result<i32, Error> {
        let DynamicIndom { indom, numbers, .. } = &self.dynamic[id.0];
        let mut tables = self.registrations.files().filter_map(|file| file.store.table(indom));
        let known = tables.find_map(|table| Some(table.find(name)?.id));
        known.or_else(|| numbers.choose(name)).ok_or_else(|| numbers_used_up(name))
    }

    /// Adds a label of an existing instance, in all files that have it.
    pub(crate) fn label_instance(
        &mut self,
        id: DynamicId,
        instance: &str,
        label: Label,
    ) -> Result<(), Error> {
        let DynamicIndom { indom, labels, .. } = &mut self.dynamic[id.0];
        let mut records = Vec::new();
        for file in self.registrations.files_mut() {
            let Some(found) = file.store.table(indom).and_then(|table| table.find(instance)) else {
                continue;
            };
            let record = instance_label(found.serial, found.id, label.clone())?;
            file.numbers.check_labels([&record])?;
            file.store.reserve(&Need { labels: 1, ..Need::default() }, &label.name)?;
            records.push(record);
        }
        if records.is_empty() {
            return Err(Error::NoInstance {
                label: label.name,
                indom: indom.record.name.clone(),
                instance: instance.to_owned(),
            });
        }
        let mut records = records.into_iter();
        for file in self.registrations.files_mut() {
            let Some(found) = file.store.table(indom).and_then(|table| table.find(instance)) else {
                continue;
            };
            let records: Vec<_> = records.by_ref().take(1).collect();
            file.store.add_instance_labels(indom, found.slot, &records);
            file.numbers.take_labels(records);
        }
        labels.entry(instance.to_owned()).or_default().push(label);
        Ok(())
    }

    /// Removes an instance with its values and labels. Returns whether it existed, and the handles
    /// that the caller drops after unlocking.
    pub(crate) fn remove(&mut self, id: DynamicId, instance: &str) -> (bool, ReleasedHandles) {
        let mut released = ReleasedHandles::new();
        let DynamicIndom { indom, families, labels, numbers } = &mut self.dynamic[id.0];
        for family in families.iter() {
            if let Some(handles) = family.handles.upgrade() {
                let handle = handles.remove(instance);
                released.push((handles, handle));
            }
            let store = &mut self.registrations.file_mut(family.file).store;
            let found = store.table(indom).and_then(|table| table.find(instance));
            let value = found.and_then(|found| family.values.get(found.slot)?.as_ref());
            if let Some(value) = value {
                store.file.store(value.at + METRIC_OFFSET, 0);
            }
        }
        labels.remove(instance);
        let mut was_there = false;
        for file in self.registrations.files_mut() {
            let found = file.store.table(indom).and_then(|table| table.find(instance));
            let Some(found) = found else { continue };
            was_there = true;
            numbers.release(found.id);
            if file.store.remove_instance(indom, instance) {
                file.numbers.drop_instance_labels(found.serial, found.id);
            }
        }
        (was_there, released)
    }

    /// Removes a metric with its values and labels. Returns whether it existed.
    pub(crate) fn remove_metric(&mut self, name: &str) -> bool {
        let Some(metric) = self.registrations.release_name(name) else { return false };
        let file = self.registrations.file_mut(metric.file);
        file.store.remove_metric(metric.item);
        file.numbers.drop_metric_labels(metric.item);
        for family in self.dynamic.iter_mut().flat_map(|indom| &mut indom.families) {
            if family.name == name {
                family.is_removed = true;
                file.store.file.release_promise(std::mem::take(&mut family.promise));
            }
        }
        true
    }

    /// Returns the names of a domain's instances, sorted.
    pub(crate) fn instance_names(&self, id: DynamicId) -> BTreeSet<&str> {
        let indom = &self.dynamic[id.0].indom;
        let tables = self.registrations.files().filter_map(|file| file.store.table(indom));
        tables.flat_map(InstanceTable::names).collect()
    }

    pub(crate) fn instance_count(&self, id: DynamicId) -> usize {
        let indom = &self.dynamic[id.0].indom;
        let mut tables = self.registrations.files().filter_map(|file| file.store.table(indom));
        match (tables.next(), tables.next()) {
            (Some(only), None) => only.len(),
            _ => self.instance_names(id).len(),
        }
    }
}

impl FamilyMetric {
    /// Returns the value of a slot, `None` if it does not exist yet.
    fn value(&mut self, slot: usize) -> &mut Option<Value> {
        if self.values.len() <= slot {
            self.values.resize_with(slot + 1, || None);
        }
        &mut self.values[slot]
    }

    /// Adds a value that is absent until it is requested, if there is room to spare.
    fn add_absent(&mut self, store: &mut LiveStore, indom: &RegisteredIndom, slot: usize) {
        let need = Need::of_values(self.metric.shape, 1);
        let is_there = self.value(slot).is_some();
        let has_room = is_there || store.has_room_to_spare();
        if has_room && (is_there || store.reserve(&need, &self.name).is_ok()) {
            let mut metric = self.metric;
            metric.shape.optional = true;
            store.link(&metric, indom, slot, self.value(slot));
        }
    }
}

fn instance_label(serial: u32, id: i32, label: Label) -> Result<LabelRecord, Error> {
    LabelRecord::new(LABEL_INSTANCES, serial, InstanceId::new(id).ok(), label)
}
