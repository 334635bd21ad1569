//! Maps each value of a record to its column.
//!
//! A metric and instance get a column when their first value comes, and keep
//! it. A record like an earlier one ([`shape`](crate::reader::fast::record_shape)) needs no
//! look-up: a [`CopyPlan`] has the place of each value in the record and the column that it goes
//! to.

use std::ops::Range;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::programs::events_metric;
use super::{SelectedMetric, Selection};
use crate::format::ShapeId;
use crate::reader::Identities;
use crate::reader::fast::{CopyPlan, CopyStep, Excerpt, ReadCost, ValueForm};
use crate::{InstanceId, Pmid, Record, Timestamp, ValueSetView, ValueType};

/// Limit on plans: as many as shapes are known at a time.
const MAX_PLANS: usize = 8;

/// Routes values to columns; see the [module](self).
#[derive(Debug)]
pub(super) struct Router {
    by_pmid: HashMap<Pmid, usize>,
    /// Of each metric, by its place in the selection.
    maps: Vec<ColumnMap>,
    /// The metric at each position of the last record and its map: records
    /// mostly have the same metrics in the same order.
    last: Vec<(Pmid, Option<usize>)>,
    /// The newest in front.
    plans: Vec<ShapePlan>,
    /// The time in which all numbers of instances have the identities that maps and plans know.
    unchanged: Range<Timestamp>,
    ahead: Ahead,
    effort: ReadCost,
}

/// The way in which records of a shape are read.
#[derive(Debug)]
struct ShapePlan {
    shape: ShapeId,
    copy: CopyPlan,
    /// If it is worth it.
    excerpt: Option<Excerpt>,
}

/// An estimate of the next records.
#[derive(Debug)]
struct Ahead {
    /// As the last ones; `None` before there were any.
    shape: Option<ShapeId>,
    /// Number of them that are likely to be alike.
    count: usize,
    /// Runs until excerpts are tried again.
    pause: u32,
    /// Number of times in a row that they were not.
    misses: u32,
}

impl Ahead {
    const MIN_RECORDS: usize = 8;
    const MAX_RECORDS: usize = 64;
    const MAX_MISSES: u32 = 6;
}

impl Default for Ahead {
    fn default() -> Self {
        Self { shape: None, count: Self::MIN_RECORDS, pause: 0, misses: 0 }
    }
}

#[derive(Debug)]
pub(super) struct ColumnMap {
    value_type: ValueType,
    has_instances: bool,
    /// The identities of instance numbers, if they differ from them, and the time for which they
    /// hold.
    identities: Option<Arc<Identities>>,
    time: Timestamp,
    /// The instances that are read; all without.
    wanted: Option<Arc<HashSet<InstanceId>>>,
    /// The instances that have columns, in the order of their first values.
    instances: Vec<Option<InstanceId>>,
    places: HashMap<Option<InstanceId>, usize>,
    /// As [`Router::last`], for the numbers of the metric's instances.
    last: Vec<(Option<InstanceId>, Option<usize>)>,
}

impl Router {
    pub(super) fn new(selection: &Selection<'_>) -> Self {
        let metrics = selection.metrics().iter().zip(selection.instances_by_metric());
        let maps: Vec<ColumnMap> = metrics
            .map(|(metric, wanted)| {
                ColumnMap::new(metric, wanted, selection.identities_of(metric).cloned())
            })
            .collect();
        let is_constant = maps.iter().all(|map| map.identities.is_none());
        let start = if is_constant { Timestamp::MIN } else { Timestamp::MAX };
        let unchanged = start..Timestamp::MAX;
        let pmids = selection.metrics().iter().map(|metric| metric.desc.pmid);
        let by_pmid = pmids.zip(0..).collect();
        let ahead = Ahead::default();
        let effort = ReadCost::USUAL;
        let last = Vec::new();
        let plans = Vec::new();
        Self { by_pmid, maps, last, plans, unchanged, ahead, effort }
    }

    /// Returns whether the plans are good for a record at a time.
    #[inline]
    pub(super) fn is_current(&self, time: Timestamp) -> bool {
        self.unchanged.contains(&time)
    }

    /// Makes maps and plans those for records at a time.
    #[inline]
    pub(super) fn move_to(&mut self, time: Timestamp) {
        if !self.is_current(time) {
            self.change_identities(time);
        }
    }

    #[cold]
    fn change_identities(&mut self, time: Timestamp) {
        let mut unchanged = Timestamp::MIN..Timestamp::MAX;
        for map in &mut self.maps {
            if let Some(identities) = &map.identities {
                let around = identities.unchanged_around(time);
                unchanged = unchanged.start.max(around.start)..unchanged.end.min(around.end);
                map.time = time;
                map.last.clear();
            }
        }
        if self.unchanged != unchanged {
            self.plans.clear();
            self.unchanged = unchanged;
        }
    }

    /// Returns the metrics' maps in the order of the selection.
    pub(super) fn maps(&self) -> &[ColumnMap] {
        &self.maps
    }

    /// Returns the metric, by its place in the selection, of the value set at a position of the
    /// record, and its map; `None` if it is not read.
    #[inline]
    pub(super) fn find(&mut self, position: usize, pmid: Pmid) -> Option<(usize, &mut ColumnMap)> {
        let metric = match self.last.get_mut(position) {
            Some((last, metric)) if *last == pmid => *metric,
            other => {
                let metric = self.by_pmid.get(&pmid).copied();
                match other {
                    Some(route) => *route = (pmid, metric),
                    None => self.last.push((pmid, metric)),
                }
                metric
            }
        };
        Some((metric?, self.maps.get_mut(metric?)?))
    }

    /// Returns the plan for records of a shape, if one was made.
    pub(super) fn plan(&self, shape: ShapeId) -> Option<&CopyPlan> {
        self.known(shape).map(|plan| &plan.copy)
    }

    fn known(&self, shape: ShapeId) -> Option<&ShapePlan> {
        self.plans.iter().find(|plan| plan.shape == shape)
    }

    /// Returns what is to be read of the next records, and of how many, if that is likely to be
    /// enough.
    pub(super) fn excerpt(&self) -> Option<(&Excerpt, usize)> {
        let shape = self.ahead.shape.filter(|_| self.ahead.pause == 0)?;
        let excerpt = self.known(shape)?.excerpt.as_ref()?;
        Some((excerpt, self.ahead.count.min(excerpt.most())))
    }

    /// Records that of the excerpts that were asked for, `count` were of the likely shape.
    pub(super) fn took_excerpts(&mut self, count: usize, asked: usize) {
        let ahead = &mut self.ahead;
        ahead.count =
            if count == asked { (2 * count).min(Ahead::MAX_RECORDS) } else { Ahead::MIN_RECORDS };
        if count == 0 {
            ahead.misses = (ahead.misses + 1).min(Ahead::MAX_MISSES);
            ahead.pause = 1 << ahead.misses;
        } else {
            ahead.misses = 0;
        }
    }

    /// Records that whole records of a shape were read.
    pub(super) fn took_run(&mut self, shape: ShapeId) {
        self.ahead.shape = Some(shape);
        self.ahead.pause = self.ahead.pause.saturating_sub(1);
    }

    #[cfg(test)]
    pub(super) fn with_effort(self, effort: ReadCost) -> Self {
        Self { effort, ..self }
    }

    pub(super) fn restart(&mut self) {
        self.ahead = Ahead::default();
    }

    /// Makes the plan for records like one whose values have been read; those that
    /// were left out are not copied.
    pub(super) fn learn(&mut self, record: &Record<'_>) {
        // The bytes of adapted values are not those of the timeline.
        if record.is_adapted() {
            return;
        }
        let Some(shape) = record.shape().filter(|shape| self.plan(*shape).is_none()) else {
            return;
        };
        let mut plan = CopyPlan::default();
        let mut sets = Vec::new();
        // A value that comes second to a column is not copied.
        let mut seen = HashSet::new();
        for (position, set) in record.value_sets().enumerate() {
            let Some((metric, map)) = self.find(position, set.pmid()) else { continue };
            plan.values += set.len();
            sets.push(set);
            let values = set.payloads().zip(set.values(map.value_type()));
            for (position, ((instance, payload), value)) in values.enumerate() {
                if value.is_err() {
                    continue;
                }
                let Some(place) = map.place(position, instance) else { continue };
                if seen.insert((metric, place)) {
                    // No shape has 2^32 bytes, nor as many places.
                    let [at, len, metric, place] =
                        [payload.start, payload.len(), metric, place].map(|number| number as u32);
                    let form = match map.value_type {
                        ValueType::I32 | ValueType::U32 | ValueType::Float => ValueForm::Word,
                        ValueType::I64 | ValueType::U64 | ValueType::Double => ValueForm::Long,
                        _ => ValueForm::Bytes(len),
                    };
                    if let ValueForm::Bytes(len) = form {
                        plan.bytes += len as usize;
                    }
                    plan.steps.push(CopyStep { at, form, metric, place });
                }
            }
        }
        let excerpt = Some(&sets).filter(|sets| self.has_all(sets));
        let excerpt = excerpt.and_then(|sets| Excerpt::new(record, shape, sets, self.effort));
        let excerpt = excerpt.and_then(|excerpt| Some((steps_in(&excerpt, &plan.steps)?, excerpt)));
        let (in_excerpt, excerpt) = excerpt.unzip();
        plan.in_excerpt = in_excerpt.unwrap_or_default();
        self.plans.truncate(MAX_PLANS - 1);
        self.plans.insert(0, ShapePlan { shape, copy: plan, excerpt });
    }
}

/// Returns the steps with the places of values in an excerpt; `None` if one is not in it.
fn steps_in(excerpt: &Excerpt, steps: &[CopyStep]) -> Option<Vec<CopyStep>> {
    steps.iter().map(|step| Some(CopyStep { at: excerpt.place(step.at)?, ..*step })).collect()
}

impl Router {
    /// Returns whether these sets have values of all metrics that are read, but for those that
    /// are in records of their own.
    fn has_all(&self, sets: &[ValueSetView<'_>]) -> bool {
        let there = sets.iter().filter(|set| !set.is_empty()).map(ValueSetView::pmid);
        let there: HashSet<Pmid> = there.collect();
        self.by_pmid.keys().all(|pmid| *pmid == events_metric() || there.contains(pmid))
    }
}

impl ColumnMap {
    fn new(
        metric: &SelectedMetric,
        wanted: Option<Arc<HashSet<InstanceId>>>,
        identities: Option<Arc<Identities>>,
    ) -> Self {
        let value_type = metric.desc.value_type;
        let has_instances = metric.desc.indom.is_some();
        let instances = Vec::new();
        let places = HashMap::new();
        let last = Vec::new();
        let time = Timestamp::MIN;
        Self { value_type, has_instances, identities, time, wanted, instances, places, last }
    }

    pub(super) const fn value_type(&self) -> ValueType {
        self.value_type
    }

    /// Returns the instances that have columns, in the order of those.
    pub(super) fn instances(&self) -> &[Option<InstanceId>] {
        &self.instances
    }

    pub(super) fn has_column(&self, instance: Option<InstanceId>) -> bool {
        self.places.contains_key(&instance)
    }

    /// Returns the place of the column of the instance with a number; `None` if it is not read.
    /// `position` is that of the value in its set.
    #[inline]
    pub(super) fn place(&mut self, position: usize, instance: Option<InstanceId>) -> Option<usize> {
        match self.last.get(position) {
            Some((last, place)) if *last == instance => *place,
            _ => {
                let place = self.find(instance);
                match self.last.get_mut(position) {
                    Some(last) => *last = (instance, place),
                    None => self.last.push((instance, place)),
                }
                place
            }
        }
    }

    #[cold]
    fn find(&mut self, instance: Option<InstanceId>) -> Option<usize> {
        // A metric without a domain has one column, whatever number its
        // records carry.
        let mut instance = instance.filter(|_| self.has_instances);
        if let Some((identities, number)) = self.identities.as_ref().zip(instance) {
            instance = Some(identities.identity(number, self.time)?);
        }
        if let Some(wanted) = &self.wanted
            && !instance.is_some_and(|instance| wanted.contains(&instance))
        {
            return None;
        }
        let instances = &mut self.instances;
        let place = self.places.entry(instance).or_insert_with(|| {
            instances.push(instance);
            instances.len() - 1
        });
        Some(*place)
    }
}
