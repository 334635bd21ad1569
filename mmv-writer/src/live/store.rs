//! One file of a growing registry: its entries, and the instances that they describe.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::Arc;

use mmv_format::layout::{
    EXTRA_OFFSET, Flags, IndomEntry, LABEL_ITEM, LABEL_OPTIONAL, METRIC_OFFSET, MetricV2, NO_VALUE,
    SectionKind, ValueEntry,
};
use zerocopy::IntoBytes;

use super::file::LiveFile;
use super::instances::InstanceTable;
use super::sections::{Part, Sections};
use crate::Error;
use crate::identity::FileIdentity;
use crate::mapping::{CellStrip, Lease};
use crate::metric::{SharedText, ValueSlot};
use crate::published::{PublicationGuard, unless_lenient};
use crate::registration::{
    Help, LabelRecord, MetricRecord, Need, RegisteredIndom, Store, ValueShape,
};
use crate::system::Instant;

/// Size of the offset of the name, at the beginning of a metric's entry.
const NAME_FIELD: usize = size_of::<u64>();
const ITEM_OFFSET: u64 = std::mem::offset_of!(MetricV2, item) as u64;

/// A file, its instances, and its publication.
#[derive(Debug)]
pub(crate) struct LiveStore {
    pub(super) file: LiveFile,
    /// The instances of each domain, by the domain's index in the registry.
    instances: HashMap<usize, InstanceTable>,
    /// `None` once it is withdrawn.
    pub(super) published: Option<PublicationGuard>,
    /// The lease of the values of singular metrics, which are never reused.
    lease: Arc<Lease>,
}

/// Location of a metric in a growing file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveMetric {
    /// Offset of the metric's entry.
    at: u64,
    pub(super) shape: ValueShape,
}

/// A value entry, which always belongs to the same metric and slot.
#[derive(Debug)]
pub(super) struct Value {
    pub(super) at: u64,
    text: Option<Arc<SharedText>>,
}

impl Store for LiveStore {
    type Settings = Sections;
    type Metric = LiveMetric;

    /// Creates the empty file and publishes it.
    fn create(
        identity: &mut FileIdentity,
        sections: &Sections,
        lenient: bool,
    ) -> Result<Self, Error> {
        let mut created = LiveFile::create(identity, *sections);
        while let Err(error) = &created
            && identity.leave_taken_name(Some(error))
        {
            created = LiveFile::create(identity, *sections);
        }
        let created = unless_lenient(created, lenient)?;
        let (file, published) = match created {
            Some(created) => created,
            None => LiveFile::private(identity, *sections)?,
        };
        let lease = Lease::new(file.segment());
        Ok(Self { file, instances: HashMap::new(), published: Some(published), lease })
    }

    fn check_process(&self) -> Result<(), Error> {
        self.file.check_process()
    }

    fn has_room(&self, need: &Need) -> bool {
        if need.family && !self.file.has_room_for_families() {
            return false;
        }
        // What no empty file could hold either is rejected in this one.
        let fits_none = SectionKind::ALL
            .into_iter()
            .any(|kind| need.entries_with_promise(kind) > self.file.total(kind));
        fits_none
            || SectionKind::ALL
                .into_iter()
                .all(|kind| self.file.has_room(kind, need.entries_with_promise(kind)))
    }

    fn reserve(&mut self, need: &Need, name: &str) -> Result<(), Error> {
        self.file.check_process()?;
        if need.family {
            self.file.add_family();
        }
        for kind in SectionKind::ALL {
            self.file.check_room(kind, need.entries_with_promise(kind), name)?;
        }
        self.file.ensure_all(|kind| need.entries(kind), name)?;
        self.file.promise(need.promise);
        Ok(())
    }

    fn allow_absent(&mut self) {
        self.file.add_flag(Flags::SENTINEL);
    }

    fn next_strip(&mut self, shape: ValueShape, values: usize) -> Result<CellStrip, Error> {
        let at = self.file.next_value(shape);
        let stride = shape.step() * ValueEntry::BYTES;
        let strip = self.file.segment().strip(at as usize, stride, values);
        strip.ok_or_else(|| self.file.error("place values", ErrorKind::InvalidInput))
    }

    fn add_indom(&mut self, indom: &RegisteredIndom, serial: u32) {
        let [short_help, long_help] = self.add_help(&indom.record.help);
        let entry = IndomEntry { serial, count: 0, instances: 0, short_help, long_help };
        let at = self.file.take(SectionKind::Indoms);
        self.file.write(at, entry.as_bytes());
        let mut table = InstanceTable::new(serial);
        for (id, name) in indom.record.members.iter() {
            table.append(&mut self.file, name, id.get());
        }
        self.instances.insert(indom.index, table);
    }

    fn add_metric(&mut self, metric: MetricRecord, shape: ValueShape) -> LiveMetric {
        let name = self.file.take_string(&metric.name);
        let help = self.add_help(&metric.help);
        let at = self.file.take(SectionKind::Metrics);
        let entry = metric.entry(name, help);
        // The name comes last: until then the entry is unused.
        let (_, rest) = entry.as_bytes().split_at(NAME_FIELD);
        self.file.write(at + NAME_FIELD as u64, rest);
        self.file.store(at, name);
        LiveMetric { at, shape }
    }

    fn add_label(&mut self, label: &LabelRecord) {
        self.file.add_label(label.entry().as_bytes());
    }

    fn add_value(&mut self, metric: &LiveMetric) -> ValueSlot {
        let value = Value::append(&mut self.file, metric.shape, 0);
        metric.link(&mut self.file, &value, &self.lease)
    }

    fn add_values(&mut self, metric: &LiveMetric, indom: &RegisteredIndom) -> Vec<ValueSlot> {
        let table = self.instances.get(&indom.index);
        let mut slots = Vec::new();
        for slot in table.into_iter().flat_map(InstanceTable::slots) {
            let value = Value::append(&mut self.file, metric.shape, slot.instance_at);
            slots.push(metric.link(&mut self.file, &value, &slot.lease));
        }
        slots
    }
}

impl LiveStore {
    /// Announces all changes to readers.
    pub(super) fn announce(&mut self) {
        self.file.announce();
        let now = Instant::now();
        for table in self.instances.values_mut() {
            table.announced(now);
        }
    }

    /// Returns whether half of the room for values and for texts is free.
    pub(super) fn has_room_to_spare(&self) -> bool {
        [SectionKind::Values, SectionKind::Strings].into_iter().all(|kind| {
            let used = self.file.used(kind) as usize;
            self.file.has_room(kind, used)
        })
    }

    /// Returns the instances of a domain in this file, if the file has the domain.
    pub(super) fn table(&self, indom: &RegisteredIndom) -> Option<&InstanceTable> {
        self.instances.get(&indom.index)
    }

    /// Returns the instances of a domain, none if the file does not have the domain yet.
    pub(super) fn table_mut(&mut self, indom: &RegisteredIndom) -> &mut InstanceTable {
        table_mut(&mut self.instances, indom)
    }

    /// Creates an instance if it does not exist, and returns the index of its slot.
    pub(super) fn create_instance(
        &mut self,
        indom: &RegisteredIndom,
        name: &str,
        id: i32,
    ) -> Result<usize, Error> {
        table_mut(&mut self.instances, indom).create(&mut self.file, name, id)
    }

    pub(super) fn add_instance_labels(
        &mut self,
        indom: &RegisteredIndom,
        slot: usize,
        labels: &[LabelRecord],
    ) {
        for label in labels {
            let at = self.file.add_label(label.entry().as_bytes());
            table_mut(&mut self.instances, indom).add_label(slot, at);
        }
    }

    /// Hides an instance and its labels. Returns whether there were labels.
    pub(super) fn remove_instance(&mut self, indom: &RegisteredIndom, name: &str) -> bool {
        let labels = table_mut(&mut self.instances, indom).remove(&mut self.file, name);
        for at in &labels {
            self.file.hide_label(*at);
        }
        !labels.is_empty()
    }

    /// Hides a metric, its values and its labels. Its entries are not used again.
    pub(super) fn remove_metric(&mut self, item: u32) {
        let metrics = self.file.find(Part::Metrics, ITEM_OFFSET, |word| halves(word)[0] == item);
        let Some(&at) = metrics.first() else { return };
        let labels = self.file.find(Part::Labels, 0, |word| {
            let [flags, identity] = halves(word);
            flags & !LABEL_OPTIONAL == LABEL_ITEM && identity == item
        });
        for label in labels {
            self.file.hide_label(label);
        }
        for value in self.file.find(Part::Values, METRIC_OFFSET, |metric| metric == at) {
            self.file.store(value + METRIC_OFFSET, 0);
        }
        self.file.store(at, MetricV2::REMOVED);
    }

    /// Makes the value of an instance visible to readers, in the entry of its slot or in a
    /// new one.
    pub(super) fn link(
        &mut self,
        metric: &LiveMetric,
        indom: &RegisteredIndom,
        slot: usize,
        value: &mut Option<Value>,
    ) -> ValueSlot {
        let Self { file, instances, .. } = self;
        let slot = table_mut(instances, indom).slot(slot);
        let value =
            value.get_or_insert_with(|| Value::append(file, metric.shape, slot.instance_at));
        metric.link(&mut self.file, value, &slot.lease)
    }

    fn add_help(&mut self, help: &Help) -> [u64; 2] {
        let texts = [&help.short, &help.long];
        texts.map(|text| text.as_ref().map_or(0, |text| self.file.take_string(text)))
    }
}

/// Splits a word of the file into the two numbers that are stored in it, in their order there.
fn halves(word: u64) -> [u32; 2] {
    zerocopy::transmute!(word)
}

/// Returns the instances of a domain; none if the file does not have the domain yet.
fn table_mut<'t>(
    tables: &'t mut HashMap<usize, InstanceTable>,
    indom: &RegisteredIndom,
) -> &'t mut InstanceTable {
    tables.entry(indom.index).or_insert_with(|| InstanceTable::new(indom.record.serial))
}

impl LiveMetric {
    /// Shows a value to readers, absent or 0.
    fn link(&self, file: &mut LiveFile, value: &Value, lease: &Arc<Lease>) -> ValueSlot {
        if let Some(text) = &value.text {
            text.set("");
        } else {
            file.store(value.at + EXTRA_OFFSET, 0);
        }
        file.store(value.at, if self.shape.optional { NO_VALUE } else { 0 });
        file.store(value.at + METRIC_OFFSET, self.at);
        ValueSlot::new(value.text.clone(), |field| lease.cell((value.at + field) as usize))
    }
}

impl Value {
    /// Adds a value entry that is not linked to its metric yet.
    fn append(file: &mut LiveFile, shape: ValueShape, instance: u64) -> Self {
        let at = file.take_value(shape);
        let mut entry = ValueEntry { cell: 0, extra: 0, metric: 0, instance };
        let text = shape.is_text.then(|| {
            let string = file.take_string("");
            entry.extra = string.cast_signed();
            let text = SharedText::default();
            let placed = text.place(file.segment(), string as usize);
            debug_assert!(placed, "a text at {string}");
            Arc::new(text)
        });
        file.write(at, entry.as_bytes());
        Self { at, text }
    }
}

#[cfg(test)]
mod tests;
