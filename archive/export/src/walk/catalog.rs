//! The metrics and series of the current archive, at the time of its last record.
//!
//! In: metadata, and the value sets of records in order. Out: observations, and which series
//! began and ended. A series ends where the values of its metric no longer have its instance,
//! where its labels or the name of its instance change, at a mark, and where the agent's
//! events say that its program ended.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use pcp_archive::internal::programs::{self, Boundary, ProgramEvent};
use pcp_archive::raw::{IndomCursor, ValueSetView};
use pcp_archive::{ByteText, InDom, InstanceId, Metadata, MetricDesc, Pmid, Timestamp};

use super::series::{Series, SeriesId, SeriesTable};
use super::{Change, LeftOutCounts, Number, Observation, ValueSelector};
use crate::mapping::{
    HISTOGRAM_LABEL, Label, LabelledInstance, LeftOut, Mapping, MetricLabels, Role,
};

/// Metrics and series at the time of a step.
#[derive(Debug, Default)]
pub struct Catalog {
    hostname: String,
    mapping: Mapping,
    metrics: Vec<Metric>,
    by_pmid: HashMap<Pmid, usize>,
    /// The place of the metric that was looked up last.
    last: usize,
    series: SeriesTable,
    /// Series that are removed at the next step.
    removed: Vec<SeriesId>,
    /// The times at which labels change.
    label_times: Vec<Timestamp>,
    label_times_over: usize,
    /// Changes when labels may have changed.
    version: u64,
    /// The starts of metrics in earlier archives, by name.
    earlier_starts: HashMap<String, i64>,
}

#[derive(Debug)]
struct Metric {
    name: String,
    desc: MetricDesc,
    role: Role,
    is_wanted: bool,
    /// The identities of the wanted instances; `None` for all.
    instances: Option<HashSet<InstanceId>>,
    labels: Arc<[Label]>,
    /// In the order of the last record that had values.
    slots: Vec<InstanceSeries>,
    /// The version of the labels and names of `slots`.
    version: u64,
    states: usize,
    refreshed: Timestamp,
    /// The time at which the program began to count from 0.
    start: Option<i64>,
    /// A copy of `start` until the first value after it.
    from_zero: Option<i64>,
    /// The time of the last values in this run of the program; `None` before them, and after a mark.
    observed: Option<Timestamp>,
    /// The number of the last record with its values.
    record: u64,
}

#[derive(Debug, Clone, Copy)]
struct InstanceSeries {
    instance: Option<InstanceId>,
    series: SeriesId,
    is_wanted: bool,
    is_live: bool,
    /// The time from which an instance that its program has created counts from 0, until its
    /// first value.
    from_zero: Option<i64>,
}

/// The observations and changes of a step, and counts of what is left out.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) observations: Vec<Observation>,
    pub(super) changes: Vec<Change>,
    pub(super) counts: LeftOutCounts,
}

#[derive(Clone, Copy)]
pub(super) struct RecordContext<'r> {
    pub(super) metadata: &'r Metadata,
    pub(super) timestamp: Timestamp,
    pub(super) nanos: i64,
    /// The number of the record, counted from 1.
    pub(super) record: u64,
}

impl Catalog {
    /// Returns the name of the host in the label of the archive.
    pub fn hostname(&self) -> &str {
        &self.hostname
    }

    /// Returns the families of the host.
    pub const fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Returns a series that has not ended before this step.
    pub fn series(&self, id: SeriesId) -> Option<&Series> {
        self.series.get(id)
    }

    /// Returns the name and descriptor of a metric of the archive.
    pub fn metric(&self, pmid: Pmid) -> Option<(&str, &MetricDesc)> {
        let metric = self.metrics.get(*self.by_pmid.get(&pmid)?)?;
        Some((&metric.name, &metric.desc))
    }

    /// Returns the labels that all values of a metric have, as of when its newest series began.
    pub fn metric_labels(&self, pmid: Pmid) -> &[Label] {
        let metric = self.by_pmid.get(&pmid).and_then(|place| self.metrics.get(*place));
        metric.map_or(&[], |metric| &metric.labels)
    }

    /// Returns the names and descriptors of the metrics that are exported.
    pub fn metrics(&self) -> impl Iterator<Item = (&str, &MetricDesc)> {
        let exported = self.metrics.iter().filter(|one| !matches!(one.role, Role::LeftOut(_)));
        exported.map(|metric| (metric.name.as_str(), &metric.desc))
    }

    /// Begins an archive without series. Numbers of earlier series become invalid.
    pub(super) fn begin(&mut self, hostname: &str, metadata: &Metadata, wanted: &ValueSelector) {
        hostname.clone_into(&mut self.hostname);
        let starts = self.metrics.drain(..).filter_map(|metric| Some((metric.name, metric.start?)));
        self.earlier_starts = starts.collect();
        self.by_pmid.clear();
        self.series.clear();
        self.removed.clear();
        self.label_times_over = 0;
        self.set_metadata(metadata, wanted);
    }

    /// Adds new metrics and labels of the metadata.
    pub(super) fn set_metadata(&mut self, metadata: &Metadata, wanted: &ValueSelector) {
        self.mapping.set_metadata(metadata);
        let selected = wanted.selection.in_archive(metadata);
        self.version += 1;
        for metric in metadata.metrics() {
            let role = self.mapping.role(metric.desc.pmid);
            let family = self.mapping.role_family(role);
            let pmid = metric.desc.pmid;
            let is_wanted = selected.has(pmid) && family.is_none_or(&wanted.families);
            let instances = selected.instances(pmid);
            if let Some(known) = self.by_pmid.get(&metric.desc.pmid) {
                if let Some(known) = self.metrics.get_mut(*known) {
                    known.role = role;
                    known.is_wanted = is_wanted;
                    known.instances = instances;
                }
                continue;
            }
            self.by_pmid.insert(metric.desc.pmid, self.metrics.len());
            let name = metric.display_name();
            let start = self.earlier_starts.get(&name).copied();
            self.metrics.push(Metric {
                name,
                desc: metric.desc,
                role,
                is_wanted,
                instances,
                labels: Arc::default(),
                slots: Vec::new(),
                version: self.version,
                states: 0,
                refreshed: Timestamp::EPOCH,
                start,
                from_zero: None,
                observed: None,
                record: 0,
            });
        }
        let states = metadata.labels().flat_map(|(_, history)| history.states());
        self.label_times = states.map(|state| state.timestamp).collect();
        self.label_times.sort_unstable();
        self.label_times.dedup();
    }

    /// Releases memory that is not needed between steps.
    pub(super) fn shrink_to_fit(&mut self) {
        self.series.shrink_to_fit();
    }

    /// Removes series that ended in the last step, and moves to the time of a record.
    pub(super) fn move_to(&mut self, timestamp: Timestamp) {
        for id in self.removed.drain(..) {
            self.series.remove(id);
        }
        let over = self.label_times.partition_point(|time| *time <= timestamp);
        if over != self.label_times_over {
            self.label_times_over = over;
            self.version += 1;
        }
    }

    /// Ends all series, as at a mark.
    pub(super) fn end_all(&mut self, at: i64, output: &mut Output) {
        for metric in &mut self.metrics {
            end(&mut metric.slots, at, output);
            metric.observed = None;
        }
    }

    /// Ends the series of some metrics at a boundary between runs of their program.
    pub(super) fn end_run(&mut self, of: &[Pmid], boundary: Boundary, output: &mut Output) {
        let at = nanos(boundary.at);
        for pmid in of {
            let place = self.by_pmid.get(pmid).copied();
            let Some(metric) = place.and_then(|place| self.metrics.get_mut(place)) else {
                continue;
            };
            end(&mut metric.slots, at, output);
            metric.start = boundary.from_zero.then_some(at);
            metric.from_zero = metric.start;
            metric.observed = None;
        }
    }

    /// Returns the metrics that an event is about.
    pub(super) fn metrics_of(&self, event: &ProgramEvent<'_>) -> Vec<Pmid> {
        let of = self.metrics.iter().filter(|metric| event.is_of(&metric.name, metric.desc.pmid));
        of.map(|metric| metric.desc.pmid).collect()
    }

    /// Returns the index of a metric. Records mostly have metrics in the order of the metadata, so
    /// the one after the last is tried first.
    fn place(&mut self, pmid: Pmid) -> Option<usize> {
        let next = self.last + 1;
        let is_next = self.metrics.get(next).is_some_and(|metric| metric.desc.pmid == pmid);
        self.last = if is_next { next } else { *self.by_pmid.get(&pmid)? };
        Some(self.last)
    }

    pub(super) fn observe(
        &mut self,
        set: &ValueSetView<'_>,
        at: RecordContext<'_>,
        output: &mut Output,
    ) {
        let Some(place) = self.place(set.pmid()) else {
            output.counts.unknown += set.len() as u64;
            return;
        };
        let Some(metric) = self.metrics.get_mut(place) else { return };
        if !metric.is_wanted {
            return;
        }
        if let Role::LeftOut(reason) = metric.role {
            output.counts.leave_out(reason, set.len() as u64);
            return;
        }
        // A second set of a metric in one record is ignored.
        if std::mem::replace(&mut metric.record, at.record) == at.record {
            return;
        }
        let history = metric.desc.indom.and_then(|indom| at.metadata.indom_history(indom));
        let states = history.map_or(0, |history| history.states_until(at.timestamp));
        if metric.version != self.version || metric.states != states {
            metric.version = self.version;
            metric.states = states;
            self.refresh(place, at, output);
        }
        self.take(place, set, at, output);
    }

    /// Ends the series of a metric whose labels, names or roles have changed.
    fn refresh(&mut self, place: usize, at: RecordContext<'_>, output: &mut Output) {
        let Some(metric) = self.metrics.get_mut(place) else { return };
        let before = RecordContext { timestamp: metric.refreshed, ..at };
        let before = Source::new(metric, &self.hostname, before).labels;
        let source = Source::new(metric, &self.hostname, at);
        metric.refreshed = at.timestamp;
        let has_same_common = source.labels.has_same_common(&before);
        let series = &mut self.series;
        let removed = &mut self.removed;
        let instances = &metric.instances;
        metric.slots.retain_mut(|slot| {
            slot.is_wanted =
                is_wanted(instances.as_ref(), slot.instance.and_then(|id| source.identity(id)));
            if !slot.is_wanted {
                output.end(slot, at.nanos);
                slot.is_live = false;
            }
            let is_same = series.get(slot.series).is_some_and(|known| {
                if has_same_common
                    && known.role == source.role
                    && source.has_name(slot.instance, known.instance_name.as_deref())
                    && source.labels.has_same_instance(&before, slot.instance)
                {
                    return true;
                }
                let now = source.series(slot.instance);
                known.role == now.role
                    && known.instance_name == now.instance_name
                    && known.labels == now.labels
            });
            if !is_same {
                output.end(slot, at.nanos);
                removed.push(slot.series);
            }
            is_same
        });
    }

    /// Adds values. If the instances are the same as in the last record, and in the same order, they
    /// need no lookup.
    fn take(
        &mut self,
        place: usize,
        set: &ValueSetView<'_>,
        at: RecordContext<'_>,
        output: &mut Output,
    ) {
        let Some(metric) = self.metrics.get_mut(place) else { return };
        let same = set.len() == metric.slots.len()
            && set.instances().zip(&metric.slots).all(|(id, slot)| id == slot.instance);
        if !same {
            self.rearrange(place, set, at, output);
        }
        let Some(metric) = self.metrics.get_mut(place) else { return };
        if !set.is_empty() {
            metric.observed = Some(at.timestamp);
        }
        let from_zero = metric.from_zero.take();
        let mut place = 0;
        for value in set.values(metric.desc.value_type) {
            let Ok((instance, value)) = value else {
                output.counts.damaged += 1;
                place += 1;
                continue;
            };
            // An instance that a record has twice has one slot.
            let slot = metric.slots.get_mut(place).filter(|slot| slot.instance == instance);
            let Some(slot) = slot else { continue };
            place += 1;
            if !slot.is_wanted {
                continue;
            }
            let Some(number) = Number::from_value(value) else { continue };
            if !slot.is_live {
                slot.is_live = true;
                if let Some(series) = self.series.get_mut(slot.series) {
                    series.start = metric.start;
                }
                let from_zero = slot.from_zero.take().or(from_zero);
                output.changes.push(Change::Began { series: slot.series, from_zero });
            }
            output.observations.push(Observation { series: slot.series, value: number });
        }
    }

    /// Arranges the slots in the order of a record: known instances keep their series, new ones get
    /// one, and the series of missing ones end.
    fn rearrange(
        &mut self,
        place: usize,
        set: &ValueSetView<'_>,
        at: RecordContext<'_>,
        output: &mut Output,
    ) {
        let Some(metric) = self.metrics.get_mut(place) else { return };
        let slots = std::mem::take(&mut metric.slots);
        let mut old: HashMap<Option<InstanceId>, InstanceSeries> =
            slots.iter().map(|slot| (slot.instance, *slot)).collect();
        let mut seen = HashSet::with_capacity(set.len());
        let source = Source::new(metric, &self.hostname, at);
        let mut earlier = None;
        let mut now = Vec::with_capacity(set.len());
        for instance in set.instances().filter(|instance| seen.insert(*instance)) {
            if let Some(slot) = old.remove(&instance) {
                now.push(slot);
                continue;
            }
            let series = source.series(instance);
            let earlier = earlier.get_or_insert_with(|| EarlierInstances::new(metric, at.metadata));
            let from_zero = earlier.creation(series.instance_name.as_deref());
            let is_wanted = is_wanted(metric.instances.as_ref(), series.identity);
            let series = self.series.add(series);
            now.push(InstanceSeries { instance, series, is_wanted, is_live: false, from_zero });
        }
        // In the order of slots, so that an archive always has the same changes.
        for slot in slots.iter().filter(|slot| old.contains_key(&slot.instance)) {
            output.end(slot, at.nanos);
            self.removed.push(slot.series);
        }
        if earlier.is_some() {
            metric.labels = source.labels.of_instance(None);
        }
        metric.slots = now;
    }
}

/// Ends series but keeps their slots, since most series continue.
fn end(slots: &mut [InstanceSeries], at: i64, output: &mut Output) {
    for slot in slots {
        output.end(slot, at);
        slot.is_live = false;
    }
}

/// Returns whether an instance with an identity is wanted; a metric without instances is.
fn is_wanted(instances: Option<&HashSet<InstanceId>>, identity: Option<InstanceId>) -> bool {
    match (instances, identity) {
        (Some(instances), Some(identity)) => instances.contains(&identity),
        _ => true,
    }
}

impl Output {
    fn end(&mut self, slot: &InstanceSeries, at: i64) {
        if slot.is_live {
            self.changes.push(Change::Ended { series: slot.series, at });
        }
    }
}

/// The instances of a program's metric at the time of its last values.
///
/// The program has created all others since, and counts from 0 in them, as
/// [`replay`](pcp_archive::replay) says.
#[derive(Default)]
struct EarlierInstances {
    /// The time of the last values, unless there are none in this run.
    observed: Option<Timestamp>,
    names: HashSet<ByteText>,
}

impl EarlierInstances {
    /// Looks them up in the metadata; there are none of metrics that no program creates.
    fn new(metric: &Metric, metadata: &Metadata) -> Self {
        let Some(observed) = metric.observed else { return Self::default() };
        let Some(indom) = metric.desc.indom else { return Self::default() };
        if indom.domain() != programs::DOMAIN || !metric.name.starts_with("mmv.") {
            return Self::default();
        }
        let history = metadata.indom_history(indom);
        let instances = history.and_then(|history| history.instances_at(observed));
        let names = instances.unwrap_or_default().iter().map(|one| one.name.clone()).collect();
        Self { observed: Some(observed), names }
    }

    /// Returns the time from which an instance counts from 0, if it was created since.
    fn creation(&self, name: Option<&str>) -> Option<i64> {
        let is_created = name.is_some_and(|name| !self.names.contains(name));
        self.observed.filter(|_| is_created).map(nanos)
    }
}

/// The properties that the series of a metric are made of.
struct Source<'m> {
    pmid: Pmid,
    role: Role,
    start: Option<i64>,
    labels: MetricLabels<'m>,
    /// The domain at this time.
    domain: Option<IndomCursor<'m>>,
    /// Instances with the same name as one with a lower number at this time.
    repeated: HashSet<InstanceId>,
    at: RecordContext<'m>,
    indom: Option<InDom>,
}

impl<'m> Source<'m> {
    fn new(metric: &Metric, hostname: &'m str, at: RecordContext<'m>) -> Self {
        let MetricDesc { pmid, indom, .. } = metric.desc;
        let labels = MetricLabels::new(at.metadata, &metric.desc, indom, hostname, at.timestamp);
        let history = indom.and_then(|indom| at.metadata.indom_history(indom));
        let domain = history.map(|history| {
            let mut cursor = history.cursor();
            cursor.move_to(at.timestamp);
            cursor
        });
        let is_renumbered = history.is_some_and(|history| !history.has_constant_numbers());
        let repeated = domain.as_ref().filter(|_| is_renumbered).map(repeated_names);
        let repeated = repeated.unwrap_or_default();
        let labels = labels.without(HISTOGRAM_LABEL);
        Self { pmid, role: metric.role, start: metric.start, labels, domain, repeated, at, indom }
    }

    /// Returns whether an instance has this name in the domain, or neither exists.
    fn has_name(&self, instance: Option<InstanceId>, name: Option<&str>) -> bool {
        match (instance, &self.domain) {
            (None, _) => name.is_none(),
            (Some(id), Some(domain)) => name.is_some() && domain.name(id) == name,
            (Some(_), None) => false,
        }
    }

    fn series(&self, instance: Option<InstanceId>) -> Series {
        let name = instance.and_then(|id| {
            let listed = self.domain.as_ref().and_then(|domain| domain.name(id));
            listed.or_else(|| self.name_at_any_time(id))
        });
        let of_labels = instance.map(|id| LabelledInstance {
            id,
            name,
            is_repeated: self.repeated.contains(&id),
        });
        Series {
            pmid: self.pmid,
            role: self.role,
            instance,
            identity: instance.and_then(|id| self.identity(id)),
            instance_name: name.map(Arc::from),
            labels: self.labels.of_instance(of_labels),
            start: self.start,
            generation: 0,
        }
    }

    fn identity(&self, id: InstanceId) -> Option<InstanceId> {
        let history = self.indom.and_then(|indom| self.at.metadata.indom_history(indom));
        history.map_or(Some(id), |history| history.identity_at(id, self.at.timestamp))
    }

    /// Returns the name of an instance that is not in the domain at this time.
    fn name_at_any_time(&self, id: InstanceId) -> Option<&'m str> {
        self.at.metadata.indom_history(self.indom?)?.name_at(id, self.at.timestamp)
    }
}

/// Returns the instances of a domain with the same name as one with a lower number.
fn repeated_names(domain: &IndomCursor<'_>) -> HashSet<InstanceId> {
    let instances = domain.instances();
    let mut seen = HashSet::new();
    let repeated = instances.iter().filter(|instance| !seen.insert(&*instance.name));
    repeated.map(|instance| instance.id).collect()
}

/// Returns nanoseconds since 1970, clamped to 64 bits: the years 1677 to 2262.
pub(crate) fn nanos(timestamp: Timestamp) -> i64 {
    let nanos = timestamp.as_nanos().clamp(i64::MIN.into(), i64::MAX.into());
    i64::try_from(nanos).unwrap_or_default()
}

impl LeftOutCounts {
    fn leave_out(&mut self, reason: LeftOut, values: u64) {
        match reason {
            LeftOut::Strings => self.strings += values,
            LeftOut::Events => self.events += values,
            LeftOut::Opaque => self.opaque += values,
            LeftOut::Unnamed => self.unknown += values,
        }
    }
}
