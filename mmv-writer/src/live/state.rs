//! What a live registry keeps behind its lock.
//!
//! Every change checks and makes sure of the room first; from then on nothing
//! can fail, so a registration that fails leaves no trace.

use std::sync::Arc;
use std::time::Instant;

use pcp_types::ValueType;
use zerocopy::IntoBytes;

use super::file::LiveFile;
use super::index::Forget;
use super::slots::{Slot, Slots};
use crate::layout::{EXTRA_OFFSET, IndomEntry, METRIC_OFFSET, NO_VALUE, SectionKind, ValueEntry};
use crate::mapping::{Cell, Lease};
use crate::metric::TextSlot;
use crate::metric::sealed::Seat;
use crate::plan::{encode_label, metric_v2};
use crate::registry::MetricSpec;
use crate::registry::catalog::{Catalog, Checked};
use crate::registry::model::{Help, LabelRecord};
use crate::{Error, Label};

/// The registered things and their file.
#[derive(Debug)]
pub(super) struct State {
    pub(super) catalog: Catalog,
    pub(super) file: LiveFile,
    pub(super) domains: Vec<Domain>,
    pub(super) metrics: Vec<Metric>,
    /// When readers were last told of a change.
    pub(super) announced: Instant,
    /// Whether a thread waits to tell them.
    pub(super) pending: bool,
}

/// A domain and its instances.
#[derive(Debug)]
pub(super) struct Domain {
    pub(super) name: String,
    pub(super) serial: u32,
    pub(super) slots: Slots,
}

/// A metric and its values.
#[derive(Debug)]
pub(super) struct Metric {
    name: String,
    at: u64,
    is_text: bool,
    optional: bool,
    isolated: bool,
    domain: Option<usize>,
    /// By index of the domain's slot; a singular metric has one.
    values: Vec<Option<Value>>,
    /// The handles that its family keeps ready.
    index: Option<Arc<dyn Forget>>,
}

/// A value entry, for good this metric's and its slot's.
#[derive(Debug)]
struct Value {
    at: u64,
    text: Option<Arc<TextSlot>>,
}

impl State {
    pub(super) fn new(catalog: Catalog, file: LiveFile) -> Self {
        let (domains, metrics) = (Vec::new(), Vec::new());
        Self { catalog, file, domains, metrics, announced: Instant::now(), pending: false }
    }

    /// Tells readers of all changes.
    pub(super) fn announce(&mut self) {
        self.file.announce();
        self.announced = Instant::now();
        self.pending = false;
        for domain in &mut self.domains {
            domain.slots.announced(self.announced);
        }
    }

    /// Adds a label of the whole file.
    pub(super) fn add_label(&mut self, label: Label) -> Result<(), Error> {
        let record = self.catalog.check_file_label(label)?;
        self.file.ensure(SectionKind::Labels, 1, &record.name)?;
        self.append_labels(vec![record]);
        Ok(())
    }

    /// Adds a domain without instances; its index.
    pub(super) fn add_domain(
        &mut self,
        name: String,
        serial: Option<u32>,
        help: &Help,
        labels: Vec<Label>,
    ) -> Result<usize, Error> {
        let serial = self.catalog.check_indom(&name, serial, help)?;
        let labels = self.catalog.check_indom_labels(serial, labels)?;
        self.file.ensure(SectionKind::Indoms, 1, &name)?;
        self.file.ensure(SectionKind::Strings, 2, &name)?;
        self.file.ensure(SectionKind::Labels, labels.len(), &name)?;
        self.catalog.take_indom(serial);
        let (short_help, long_help) = self.append_help(help);
        let entry = IndomEntry { serial, count: 0, instances: 0, short_help, long_help };
        let at = self.file.take(SectionKind::Indoms);
        self.file.write(at, entry.as_bytes());
        self.append_labels(labels);
        self.domains.push(Domain { name, serial, slots: Slots::default() });
        Ok(self.domains.len() - 1)
    }

    /// Adds a metric with one value.
    pub(super) fn add_singular(&mut self, spec: MetricSpec) -> Result<Seat, Error> {
        let checked = self.check_metric(spec, None)?;
        let name = checked.record.name.clone();
        self.ensure_value(&name, checked.isolated, is_text(&checked))?;
        let metric = self.append_metric(checked, None, None);
        let lease = Lease::new(self.file.segment());
        Ok(self.link(metric, 0, 0, &lease))
    }

    /// Adds a metric that has no value yet, on a domain; its index.
    pub(super) fn add_family(
        &mut self,
        spec: MetricSpec,
        domain: usize,
        index: Arc<dyn Forget>,
    ) -> Result<usize, Error> {
        let serial = self.domains.get(domain).map(|domain| domain.serial);
        let checked = self.check_metric(spec, serial)?;
        Ok(self.append_metric(checked, Some(domain), Some(index)))
    }

    fn check_metric(&mut self, spec: MetricSpec, serial: Option<u32>) -> Result<Checked, Error> {
        let checked = self.catalog.check_metric(spec, serial)?;
        let name = &checked.record.name;
        self.file.ensure(SectionKind::Metrics, 1, name)?;
        // Name, two help texts, and the text of a singular one.
        self.file.ensure(SectionKind::Strings, 4, name)?;
        self.file.ensure(SectionKind::Labels, checked.labels.len(), name)?;
        Ok(checked)
    }

    fn append_metric(
        &mut self,
        checked: Checked,
        domain: Option<usize>,
        index: Option<Arc<dyn Forget>>,
    ) -> usize {
        let is_text = is_text(&checked);
        let Checked { record, labels, optional, isolated } = checked;
        let name_at = self.file.take_string(&record.name);
        let help = self.append_help(&record.help);
        let at = self.file.take(SectionKind::Metrics);
        self.file.write(at, metric_v2(&record, name_at, help).as_bytes());
        self.catalog.take_metric(&record);
        self.append_labels(labels);
        let name = record.name;
        let values = Vec::new();
        self.metrics.push(Metric { name, at, is_text, optional, isolated, domain, values, index });
        self.metrics.len() - 1
    }

    fn append_help(&mut self, help: &Help) -> (u64, u64) {
        let mut append =
            |text: &Option<String>| text.as_ref().map_or(0, |text| self.file.take_string(text));
        (append(&help.short), append(&help.long))
    }

    fn append_labels(&mut self, labels: Vec<LabelRecord>) {
        for label in &labels {
            let at = self.file.take(SectionKind::Labels);
            self.file.write(at, &encode_label(label));
        }
        self.catalog.take_labels(labels);
    }

    /// Creates the value of a family's instance, and the instance if there is
    /// none yet.
    pub(super) fn create_seat(&mut self, family: usize, instance: &str) -> Result<Seat, Error> {
        let missing = || Error::OtherRegistry { name: instance.to_owned() };
        let metric = self.metrics.get(family).ok_or_else(missing)?;
        let (isolated, is_text) = (metric.isolated, metric.is_text);
        let index = metric.domain.ok_or_else(missing)?;
        let domain = self.domains.get_mut(index).ok_or_else(missing)?;
        self.catalog.check_instance_name(&domain.name, instance)?;
        self.ensure_value(instance, isolated, is_text)?;
        let domain = self.domains.get_mut(index).ok_or_else(missing)?;
        let slot = domain.slots.get_or_create(&mut self.file, domain.serial, instance)?;
        let Slot { instance_at, ref lease, .. } = *domain.slots.at(slot).ok_or_else(missing)?;
        let lease = Arc::clone(lease);
        Ok(self.link(family, slot, instance_at, &lease))
    }

    /// Removes an instance and its values; whether it was there.
    pub(super) fn remove(&mut self, domain: usize, instance: &str) -> bool {
        let Some(Domain { slots, serial, .. }) = self.domains.get_mut(domain) else {
            return false;
        };
        let Some((slot, _)) = slots.by_name(instance) else { return false };
        for metric in self.metrics.iter_mut().filter(|metric| metric.domain == Some(domain)) {
            if let Some(index) = &metric.index {
                index.forget(instance);
            }
            if let Some(Some(value)) = metric.values.get_mut(slot) {
                self.file.store(value.at + METRIC_OFFSET, 0);
            }
        }
        slots.remove(&self.file, *serial, instance);
        true
    }

    /// Makes sure that there is room for a value, and its text if nothing else
    /// needs room for texts.
    fn ensure_value(&mut self, name: &str, isolated: bool, is_text: bool) -> Result<(), Error> {
        self.file.ensure(SectionKind::Values, if isolated { 3 } else { 1 }, name)?;
        self.file.ensure(SectionKind::Strings, usize::from(is_text), name)
    }

    /// Shows a value of a metric, in the entry that the slot has or a new one.
    fn link(&mut self, metric: usize, slot: usize, instance_at: u64, lease: &Arc<Lease>) -> Seat {
        let Some(metric) = self.metrics.get_mut(metric) else { return unseen() };
        if metric.values.len() <= slot {
            metric.values.resize_with(slot + 1, || None);
        }
        let Some(place) = metric.values.get_mut(slot) else { return unseen() };
        let value = match place {
            Some(value) => value,
            None => place.insert(append_value(
                &mut self.file,
                metric.isolated,
                metric.is_text,
                instance_at,
            )),
        };
        if let Some(text) = &value.text {
            text.set("");
        } else {
            self.file.store(value.at + EXTRA_OFFSET, 0);
        }
        self.file.store(value.at, if metric.optional { NO_VALUE } else { 0 });
        self.file.store(value.at + METRIC_OFFSET, metric.at);
        value.seat(lease)
    }
}

impl Metric {
    /// The metric's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Value {
    fn seat(&self, lease: &Arc<Lease>) -> Seat {
        let cell = |at: u64| lease.cell(at as usize).unwrap_or_else(Cell::detached);
        let text = self.text.clone();
        Seat { cell: cell(self.at), extra: cell(self.at + EXTRA_OFFSET), text }
    }
}

/// A new value entry, not linked to its metric yet.
fn append_value(file: &mut LiveFile, isolated: bool, is_text: bool, instance: u64) -> Value {
    // The section starts at a cache line, which holds two entries.
    if isolated && !file.used(SectionKind::Values).is_multiple_of(2) {
        file.take(SectionKind::Values);
    }
    let at = file.take(SectionKind::Values);
    if isolated {
        file.take(SectionKind::Values);
    }
    let mut entry = ValueEntry { cell: 0, extra: 0, metric: 0, instance };
    let mut text = None;
    if is_text {
        let string = file.take_string("");
        entry.extra = string.cast_signed();
        let slot = TextSlot::default();
        let settled = slot.settle(file.segment(), string as usize);
        debug_assert!(settled, "a text at {string}");
        text = Some(Arc::new(slot));
    }
    file.write(at, entry.as_bytes());
    Value { at, text }
}

fn is_text(checked: &Checked) -> bool {
    checked.record.type_code == ValueType::String.code()
}

/// A place that nobody reads, where none could be found.
fn unseen() -> Seat {
    Seat { cell: Cell::detached(), extra: Cell::detached(), text: None }
}
