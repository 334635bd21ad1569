//! What a live registry keeps behind its lock.
//!
//! Every change checks and makes sure of the room first; from then on nothing
//! can fail, so a registration that fails leaves no trace, but perhaps a further
//! file that is empty.

use std::sync::Arc;
use std::time::Instant;

use zerocopy::IntoBytes;

use super::domain::{Domain, instance_label};
use super::index::Forget;
use super::part::{Part, Wants};
use super::room::Room;
use super::value::{Metric, is_text};
use crate::layout::{IndomEntry, METRIC_OFFSET, SectionKind};
use crate::mapping::{Lease, Row};
use crate::metric::sealed::Seat;
use crate::registry::MetricSpec;
use crate::registry::catalog::Checked;
use crate::registry::model::{Help, LabelRecord};
use crate::registry::names::Names;
use crate::registry::series::Series;
use crate::{Error, Label};

/// The registered things and their files.
#[derive(Debug)]
pub(super) struct State {
    series: Series,
    room: Room,
    lenient: bool,
    names: Names,
    /// Labels of all metrics.
    labels: Vec<Label>,
    pub(super) domains: Vec<Domain>,
    pub(super) metrics: Vec<Metric>,
    /// The files; what is registered goes into the last.
    pub(super) parts: Vec<Part>,
    /// When readers were last told of a change.
    pub(super) announced: Instant,
    /// Whether a thread waits to tell them.
    pub(super) pending: bool,
}

impl State {
    pub(super) fn new(series: Series, room: Room, lenient: bool, first: Part) -> Self {
        Self {
            series,
            room,
            lenient,
            names: Names::default(),
            labels: Vec::new(),
            domains: Vec::new(),
            metrics: Vec::new(),
            parts: vec![first],
            announced: Instant::now(),
            pending: false,
        }
    }

    /// Tells readers of all changes.
    pub(super) fn announce(&mut self) {
        // The last file first: what is in it is described there.
        for part in self.parts.iter_mut().rev() {
            part.file.announce();
        }
        self.announced = Instant::now();
        self.pending = false;
        for domain in &mut self.domains {
            for (_, shown) in domain.all_shown() {
                shown.slots.announced(self.announced);
            }
        }
    }

    /// The file that something goes into: the last, or a new one if it is full.
    fn part_for(&mut self, wants: &Wants) -> Result<usize, Error> {
        let last = self.parts.len().saturating_sub(1);
        let Some(part) = self.parts.get(last) else { return Ok(last) };
        part.file.check_process()?;
        if part.catalog.is_empty() || part.has_room(wants) {
            return Ok(last);
        }
        let Some(identity) = self.series.next()? else { return Ok(last) };
        let mut part = Part::create(&identity, self.room, self.lenient)?;
        if part.catalog.can_have_file_labels() {
            for label in &self.labels {
                part.add_label(label.clone())?;
            }
        }
        self.parts.push(part);
        Ok(last + 1)
    }

    fn part(&mut self, index: usize) -> Result<&mut Part, Error> {
        self.parts.get_mut(index).ok_or_else(|| other_registry(""))
    }

    /// Adds a label of all metrics: to the first file, which says what is wrong with
    /// it, and to all others where readers would find it.
    pub(super) fn add_label(&mut self, label: Label) -> Result<(), Error> {
        let takes =
            |(index, part): &(usize, &mut Part)| *index == 0 || part.catalog.can_have_file_labels();
        for (_, part) in self.parts.iter_mut().enumerate().filter(takes) {
            part.file.check_process()?;
            part.catalog.check_file_label(label.clone())?;
            part.file.ensure(SectionKind::Labels, 1, &label.name)?;
        }
        for (_, part) in self.parts.iter_mut().enumerate().filter(takes) {
            part.add_label(label.clone())?;
        }
        self.labels.push(label);
        Ok(())
    }

    /// Adds a domain, whose instances are stated now or come and go; its index.
    pub(super) fn add_domain(
        &mut self,
        name: String,
        serial: Option<u32>,
        help: &Help,
        labels: Vec<Label>,
        stated: Vec<String>,
    ) -> Result<usize, Error> {
        let mut domain = Domain::new(name, 0, help.clone(), labels, stated);
        let wants = domain.wants();
        let part = self.part_for(&wants)?;
        let here = self.part(part)?;
        domain.serial = here.catalog.check_indom(&domain.name, serial, help)?;
        for name in &domain.stated {
            here.catalog.check_instance_name(&domain.name, name)?;
        }
        let labels = domain.label_records(domain.serial)?;
        here.catalog.check_labels(&labels)?;
        here.ensure(&wants, &domain.name)?;
        let serial = domain.serial;
        self.domains.push(domain);
        let index = self.domains.len() - 1;
        self.show(index, part, serial, labels)?;
        Ok(index)
    }

    /// Puts a domain into a file that has room for it, under a serial that is free.
    fn show(
        &mut self,
        domain: usize,
        part: usize,
        serial: u32,
        labels: Vec<LabelRecord>,
    ) -> Result<(), Error> {
        let Some(Part { catalog, file, .. }) = self.parts.get_mut(part) else { return Ok(()) };
        let Some(domain) = self.domains.get_mut(domain) else { return Ok(()) };
        catalog.take_indom(serial);
        let mut append =
            |text: &Option<String>| text.as_ref().map_or(0, |text| file.take_string(text));
        let (short_help, long_help) = (append(&domain.help.short), append(&domain.help.long));
        let entry = IndomEntry { serial, count: 0, instances: 0, short_help, long_help };
        let at = file.take(SectionKind::Indoms);
        file.write(at, entry.as_bytes());
        domain.show(part, serial);
        for (id, name) in (0..).zip(domain.stated.clone()) {
            if let Some(shown) = domain.shown_mut(part) {
                shown.slots.get_or_create(file, serial, &name, id)?;
            }
            domain.take_id(id);
        }
        self.part(part)?.append_labels(labels);
        Ok(())
    }

    /// Adds a metric with one value.
    pub(super) fn add_singular(&mut self, spec: MetricSpec) -> Result<Seat, Error> {
        let wants = Wants::of_metric(&spec).plus(of_values(&spec, 1));
        let metric = self.add_metric(spec, None, &wants, None)?;
        let part = self.metrics.get(metric).map_or(0, |metric| metric.part);
        let lease = Arc::clone(&self.part(part)?.lease);
        Ok(self.link(metric, 0, 0, &lease))
    }

    /// Adds a metric that has no value yet, on a domain; its index.
    pub(super) fn add_family(
        &mut self,
        spec: MetricSpec,
        domain: usize,
        index: Arc<dyn Forget>,
    ) -> Result<usize, Error> {
        let wants = Wants::of_metric(&spec);
        self.add_metric(spec, Some(domain), &wants, Some(index))
    }

    /// Adds a metric with a value for each of a domain's stated instances.
    pub(super) fn add_stated(
        &mut self,
        spec: MetricSpec,
        domain: usize,
    ) -> Result<Vec<Seat>, Error> {
        let count = self.domains.get(domain).map_or(0, |domain| domain.stated.len());
        let wants = Wants::of_metric(&spec).plus(of_values(&spec, count));
        let metric = self.add_metric(spec, Some(domain), &wants, None)?;
        Ok(self.link_stated(metric))
    }

    /// Adds the counts of a histogram's buckets, and the sum of its values.
    pub(super) fn add_histogram(
        &mut self,
        counts: MetricSpec,
        sum: MetricSpec,
        domain: usize,
    ) -> Result<(Row, Seat), Error> {
        self.names.check(&sum.name)?;
        let count = self.domains.get(domain).map_or(0, |domain| domain.stated.len());
        let of_sum = Wants::of_metric(&sum).plus(of_values(&sum, 1));
        let wants = Wants::of_metric(&counts).plus(of_values(&counts, count)).plus(of_sum);
        let name = counts.name.clone();
        let metric = self.add_metric(counts, Some(domain), &wants, None)?;
        self.link_stated(metric);
        let missing = || other_registry(&name);
        let place = self.metrics.get(metric).ok_or_else(missing)?;
        let (at, stride) = place.row().ok_or_else(missing)?;
        let segment = Arc::clone(self.part(place.part)?.file.segment());
        let row = segment.row(at as usize, stride as usize, count).ok_or_else(missing)?;
        Ok((row, self.add_singular(sum)?))
    }

    /// Adds a metric, and the domain to its file if it is not there; the index. There
    /// is then room for all that it wants.
    fn add_metric(
        &mut self,
        spec: MetricSpec,
        domain: Option<usize>,
        wants: &Wants,
        index: Option<Arc<dyn Forget>>,
    ) -> Result<usize, Error> {
        self.names.check(&spec.name)?;
        let name = spec.name.clone();
        let last = self.parts.len().saturating_sub(1);
        let on = domain.and_then(|domain| self.domains.get(domain));
        let of_domain = on.map(Domain::wants).unwrap_or_default();
        let is_shown = |on: &Domain, part| on.shown(part).is_some();
        let is_there = on.is_none_or(|on| is_shown(on, last));
        let part = self.part_for(&if is_there { *wants } else { wants.plus(of_domain) })?;

        let on = domain.and_then(|domain| self.domains.get(domain));
        let is_there = on.is_none_or(|on| is_shown(on, part));
        let here = self.parts.get_mut(part).ok_or_else(|| other_registry(&name))?;
        let serial = match on {
            None => None,
            Some(on) => Some(match on.shown(part) {
                Some(shown) => shown.serial,
                None => here.catalog.choose_like(&on.name, on.serial)?,
            }),
        };
        let checked = here.catalog.check_metric(spec, serial)?;
        let mut labels = Vec::new();
        if let (false, Some(on), Some(serial)) = (is_there, on, serial) {
            labels = on.label_records(serial)?;
            here.catalog.check_labels(&labels)?;
        }
        here.ensure(&if is_there { *wants } else { wants.plus(of_domain) }, &name)?;
        if let (false, Some(domain), Some(serial)) = (is_there, domain, serial) {
            self.show(domain, part, serial, labels)?;
        }
        let Checked { optional, isolated, .. } = checked;
        let is_text = is_text(checked.record.type_code);
        let (at, _) = self.part(part)?.append_metric(checked);
        self.names.take(name.clone());
        self.metrics.push(Metric {
            name,
            part,
            at,
            is_text,
            optional,
            isolated,
            domain,
            values: Vec::new(),
            index,
        });
        Ok(self.metrics.len() - 1)
    }

    /// Creates the value of a family's instance, and the instance if its file has none
    /// yet.
    pub(super) fn create_seat(&mut self, family: usize, instance: &str) -> Result<Seat, Error> {
        let missing = || other_registry(instance);
        let metric = self.metrics.get(family).ok_or_else(missing)?;
        let Part { catalog, file, .. } = self.parts.get_mut(metric.part).ok_or_else(missing)?;
        file.check_process()?;
        let domain = metric.domain.and_then(|domain| self.domains.get_mut(domain));
        let domain = domain.ok_or_else(missing)?;
        catalog.check_instance_name(&domain.name, instance)?;
        let values = if metric.isolated { 3 } else { 1 };
        file.ensure(SectionKind::Values, values, instance)?;
        file.ensure(SectionKind::Strings, usize::from(metric.is_text), instance)?;
        let id = domain.id_for(instance)?;
        let serial = domain.shown(metric.part).ok_or_else(missing)?.serial;
        let labels = domain.instance_label_records(serial, instance, id)?;
        let shown = domain.shown_mut(metric.part).ok_or_else(missing)?;
        let is_new = shown.slots.by_name(instance).is_none();
        if is_new {
            catalog.check_labels(&labels)?;
            file.ensure(SectionKind::Labels, labels.len(), instance)?;
        }
        let slot = shown.slots.get_or_create(file, serial, instance, id)?;
        let place = shown.slots.at(slot).ok_or_else(missing)?;
        let (instance_at, lease) = (place.instance_at, Arc::clone(&place.lease));
        domain.take_id(id);
        if is_new {
            let (part, domain) = (metric.part, metric.domain);
            self.append_instance_labels(domain, part, slot, labels);
        }
        Ok(self.link(family, slot, instance_at, &lease))
    }

    fn append_instance_labels(
        &mut self,
        domain: Option<usize>,
        part: usize,
        slot: usize,
        labels: Vec<LabelRecord>,
    ) {
        let Some(here) = self.parts.get_mut(part) else { return };
        let domain = domain.and_then(|domain| self.domains.get_mut(domain));
        let Some(shown) = domain.and_then(|domain| domain.shown_mut(part)) else { return };
        for at in here.append_labels(labels) {
            shown.slots.add_label(slot, at);
        }
    }

    /// Adds a label of an instance that is there, in all files that have it.
    pub(super) fn label_instance(
        &mut self,
        domain: usize,
        instance: &str,
        label: Label,
    ) -> Result<(), Error> {
        let Some(on) = self.domains.get_mut(domain) else { return Err(other_registry(instance)) };
        let mut targets = Vec::new();
        for (part, shown) in on.all_shown() {
            if let Some((slot, place)) = shown.slots.by_name(instance) {
                targets.push((part, slot, instance_label(shown.serial, place.id, label.clone())?));
            }
        }
        if targets.is_empty() {
            let (indom, instance) = (on.name.clone(), instance.to_owned());
            return Err(Error::NoInstance { label: label.name, indom, instance });
        }
        for (part, _, record) in &targets {
            let here = self.part(*part)?;
            here.file.check_process()?;
            here.catalog.check_labels(std::slice::from_ref(record))?;
            here.file.ensure(SectionKind::Labels, 1, &label.name)?;
        }
        for (part, slot, record) in targets {
            self.append_instance_labels(Some(domain), part, slot, vec![record]);
        }
        if let Some(on) = self.domains.get_mut(domain) {
            on.instance_labels.entry(instance.to_owned()).or_default().push(label);
        }
        Ok(())
    }

    /// Removes an instance with its values and labels; whether it was there.
    pub(super) fn remove(&mut self, domain: usize, instance: &str) -> bool {
        let Some(on) = self.domains.get_mut(domain) else { return false };
        for metric in self.metrics.iter_mut().filter(|metric| metric.domain == Some(domain)) {
            if let Some(index) = &metric.index {
                index.forget(instance);
            }
            let slot = on.shown(metric.part).and_then(|shown| shown.slots.by_name(instance));
            let value = slot.and_then(|(slot, _)| metric.values.get(slot)?.as_ref());
            if let (Some(value), Some(part)) = (value, self.parts.get_mut(metric.part)) {
                part.file.store(value.at + METRIC_OFFSET, 0);
            }
        }
        on.instance_labels.remove(instance);
        let mut was_there = false;
        for (part, shown) in on.all_shown() {
            let Some((_, slot)) = shown.slots.by_name(instance) else { continue };
            let Some(Part { catalog, file, .. }) = self.parts.get_mut(part) else { continue };
            was_there = true;
            let id = slot.id;
            let labels = shown.slots.remove(file, shown.serial, instance);
            if !labels.is_empty() {
                catalog.drop_instance_labels(shown.serial, id);
            }
            for at in labels {
                file.hide_label(at);
            }
        }
        was_there
    }

    /// Shows the values of a metric for all stated instances.
    fn link_stated(&mut self, metric: usize) -> Vec<Seat> {
        let Some(Metric { domain, part, .. }) = self.metrics.get(metric) else { return Vec::new() };
        let on = domain.and_then(|domain| self.domains.get(domain));
        let Some(shown) = on.and_then(|on| on.shown(*part)) else { return Vec::new() };
        let places = (0..shown.slots.len()).filter_map(|index| {
            let slot = shown.slots.at(index)?;
            Some((index, slot.instance_at, Arc::clone(&slot.lease)))
        });
        let places: Vec<_> = places.collect();
        let seat =
            |(index, at, lease): (usize, u64, Arc<Lease>)| self.link(metric, index, at, &lease);
        places.into_iter().map(seat).collect()
    }

    /// Shows a value of a metric, for which there is room.
    fn link(&mut self, metric: usize, slot: usize, instance_at: u64, lease: &Arc<Lease>) -> Seat {
        let metric = self.metrics.get_mut(metric);
        let part = metric.as_ref().and_then(|metric| self.parts.get_mut(metric.part));
        let seat = metric
            .zip(part)
            .and_then(|(metric, part)| metric.link(&mut part.file, slot, instance_at, lease));
        seat.unwrap_or_else(Seat::unseen)
    }
}

/// What so many values of a metric need.
fn of_values(spec: &MetricSpec, count: usize) -> Wants {
    // An isolated value has a neighbour without a metric, the first perhaps two.
    let entries = if spec.isolated { 2 * count + 1 } else { count };
    let texts = if is_text(spec.type_code) { count } else { 0 };
    Wants::default().and(SectionKind::Values, entries).and(SectionKind::Strings, texts)
}

fn other_registry(name: &str) -> Error {
    Error::OtherRegistry { name: name.to_owned() }
}
