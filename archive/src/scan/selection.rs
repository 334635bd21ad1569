//! The metrics and instances to read.

use std::sync::Arc;

use hashbrown::hash_map::Entry;
use hashbrown::{HashMap, HashSet};

use super::histogram::HistogramLayout;
use super::{Selector, select_instances};
use crate::reader::Identities;
use crate::{InDom, InstanceId, MetricDesc, Pmid, Source, ValueType};

/// A metric that is read.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectedMetric {
    /// The name it was selected by.
    pub name: String,
    /// Type, units and meaning of its values.
    pub desc: MetricDesc,
}

impl SelectedMetric {
    /// Returns whether the metric's values are numbers.
    pub const fn has_numbers(&self) -> bool {
        !matches!(
            self.desc.value_type,
            ValueType::NoSupport
                | ValueType::String
                | ValueType::Aggregate
                | ValueType::AggregateStatic
                | ValueType::Event
                | ValueType::HighresEvent
        )
    }
}

/// The selected metrics, and the identities of their instances where not all are selected.
#[derive(Debug, Clone, Default)]
pub struct SelectedInstances {
    by_metric: HashMap<Pmid, Option<HashSet<InstanceId>>>,
}

impl SelectedInstances {
    /// Adds instances of a metric to those that it has; `None` adds all. Returns whether the metric
    /// was not selected before.
    pub fn add(&mut self, pmid: Pmid, instances: Option<HashSet<InstanceId>>) -> bool {
        match self.by_metric.entry(pmid) {
            Entry::Vacant(vacant) => {
                vacant.insert(instances);
                true
            }
            Entry::Occupied(mut occupied) => {
                match (occupied.get_mut(), instances) {
                    (Some(known), Some(more)) => known.extend(more),
                    (known, _) => *known = None,
                }
                false
            }
        }
    }

    /// Removes the instances of a metric that are not among these.
    pub fn limit(&mut self, pmid: Pmid, to: &HashSet<InstanceId>) {
        match self.by_metric.get_mut(&pmid) {
            Some(Some(known)) => known.retain(|id| to.contains(id)),
            Some(all) => *all = Some(to.clone()),
            None => {}
        }
    }

    /// Returns the selected metrics, in no order.
    pub fn metrics(&self) -> impl Iterator<Item = Pmid> {
        self.by_metric.keys().copied()
    }

    /// Returns whether a metric is selected.
    pub fn has(&self, pmid: Pmid) -> bool {
        self.by_metric.contains_key(&pmid)
    }

    /// Returns the selected instances of a metric; `None` if they are not limited.
    pub fn of_metric(&self, pmid: Pmid) -> Option<&HashSet<InstanceId>> {
        self.by_metric.get(&pmid)?.as_ref()
    }

    fn remove(&mut self, pmid: Pmid) {
        self.by_metric.remove(&pmid);
    }
}

/// Metrics of one archive or several, chosen by name, and which of their instances.
#[derive(Debug, Clone)]
pub struct Selection<'a> {
    source: Source<'a>,
    metrics: Vec<SelectedMetric>,
    selected: SelectedInstances,
    /// Names or numbers; all instances if empty.
    instances: Vec<String>,
}

impl<'a> Selection<'a> {
    /// Returns an empty selection of an archive, or of an [`ArchiveSet`](crate::ArchiveSet);
    /// metrics that are added to it have all their instances.
    pub fn new(source: impl Into<Source<'a>>) -> Self {
        Self {
            source: source.into(),
            metrics: Vec::new(),
            selected: SelectedInstances::default(),
            instances: Vec::new(),
        }
    }

    /// Adds a metric by its name, or all metrics below a name, or all whose
    /// names a pattern with `*` and `?` matches, in the order of their names;
    /// an empty name adds all there are. A metric that is selected already is
    /// not added again. With labels, as in `requests{code="500"}`, only the instances that
    /// have them are read, and metrics without any such instance are not added: see
    /// [`Selector`].
    ///
    /// Returns the number of metrics that the name selects: 0 for a name that the
    /// archive does not have, or a text that is not a selector.
    pub fn select(&mut self, name: &str) -> usize {
        let metadata = self.source.metadata();
        let Ok(selector) = Selector::parse_in(name, metadata) else { return 0 };
        let mut found = 0;
        for (leaf, metric, instances) in selector.select(metadata) {
            found += 1;
            self.add(leaf, metric.desc, instances);
        }
        found
    }

    /// Adds a metric of which an expression needs these instances, or all.
    pub(crate) fn select_operand(&mut self, name: &str, needed: Option<&HashSet<InstanceId>>) {
        if let Some(metric) = self.source.metadata().metric_by_name(name) {
            self.add(name, metric.desc, needed.cloned());
        }
    }

    fn add(&mut self, name: &str, desc: MetricDesc, instances: Option<HashSet<InstanceId>>) {
        if self.selected.add(desc.pmid, instances) {
            self.metrics.push(SelectedMetric { name: name.to_owned(), desc });
        }
    }

    /// Adds an instance to those that are read; without any, all are. Metrics
    /// without instances are read in any case.
    ///
    /// An instance is meant by the whole of a name that it ever had, else by the
    /// part before the first blank, as PCP matches names: see [`select_instances`]. One of a
    /// labelled histogram means its buckets, too.
    pub fn select_instance(&mut self, instance: impl Into<String>) {
        self.instances.push(instance.into());
    }

    /// Keeps only the metrics that are wanted.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(&SelectedMetric) -> bool) {
        let selected = &mut self.selected;
        self.metrics.retain(|metric| {
            let is_kept = is_wanted(metric);
            if !is_kept {
                selected.remove(metric.desc.pmid);
            }
            is_kept
        });
    }

    /// Divides it into selections of at most `most` series each, by metric and instance in order.
    /// Together they have the same, and what is read of each takes that much less memory.
    pub fn parts(&self, most: usize) -> Vec<Self> {
        let most = most.max(1);
        let mut parts = Vec::new();
        let mut part = self.without_metrics();
        let mut room = most;
        for (metric, wanted) in self.metrics.iter().zip(self.instances_by_metric()) {
            let pmid = metric.desc.pmid;
            let instances = metric.desc.indom.and_then(|indom| {
                let union = self.source.metadata().identities(indom)?.union().into_iter();
                let ids = union.map(|instance| instance.id);
                Some(
                    ids.filter(|id| wanted.as_ref().is_none_or(|all| all.contains(id)))
                        .collect::<Vec<_>>(),
                )
            });
            let count = instances.as_ref().map_or(1, Vec::len);
            if count > room && !part.metrics.is_empty() {
                parts.push(std::mem::replace(&mut part, self.without_metrics()));
                room = most;
            }
            if count > room {
                for some in instances.iter().flat_map(|all| all.chunks(most)) {
                    let mut own = self.without_metrics();
                    own.add(&metric.name, metric.desc, Some(some.iter().copied().collect()));
                    parts.push(own);
                }
                continue;
            }
            part.add(&metric.name, metric.desc, self.selected.of_metric(pmid).cloned());
            room -= count;
        }
        if !part.metrics.is_empty() {
            parts.push(part);
        }
        parts
    }

    fn without_metrics(&self) -> Self {
        Self { instances: self.instances.clone(), ..Self::new(self.source) }
    }

    /// Separates all archives by marks, which is PCP's rule.
    pub(crate) fn mark_archives(&mut self) {
        self.source = self.source.with_all_marks();
    }

    /// Reads `others` of a metric's instances, too, wherever not all are read. Returns for these
    /// metrics the instances that were read without them.
    pub(crate) fn read_also(
        &mut self,
        others: impl Fn(&SelectedMetric) -> Vec<InstanceId>,
    ) -> HashMap<Pmid, HashSet<InstanceId>> {
        let mut limited = HashMap::new();
        for (metric, wanted) in self.metrics.iter().zip(self.instances_by_metric()) {
            let Some(wanted) = wanted else { continue };
            let mut read = HashSet::clone(&wanted);
            read.extend(others(metric));
            self.selected.remove(metric.desc.pmid);
            self.selected.add(metric.desc.pmid, Some(read));
            limited.insert(metric.desc.pmid, HashSet::clone(&wanted));
        }
        self.instances.clear();
        limited
    }

    /// Returns the metrics selected so far.
    pub fn metrics(&self) -> &[SelectedMetric] {
        &self.metrics
    }

    /// Returns the source of the values.
    pub const fn source(&self) -> Source<'a> {
        self.source
    }

    /// Returns the instances of a domain that are read; `None` if all are. A bucket is read if its
    /// histogram is.
    pub(crate) fn instances_of(&self, indom: InDom) -> Option<HashSet<InstanceId>> {
        if self.instances.is_empty() {
            return None;
        }
        let metadata = self.source.metadata();
        let named = select_instances(&self.instances, metadata.indom_history(indom));
        let mut selected: HashSet<InstanceId> = named.into_iter().collect();
        for metric in self.metrics.iter().filter(|metric| metric.desc.indom == Some(indom)) {
            if let Some(layout) = HistogramLayout::find(metadata, &metric.name, &metric.desc) {
                selected.extend(layout.select_buckets(metadata, indom, &self.instances));
            }
        }
        Some(selected)
    }

    /// Returns the instances of a metric that labels select; `None` if no labels are given.
    pub fn labelled_instances(&self, pmid: Pmid) -> Option<&HashSet<InstanceId>> {
        self.selected.of_metric(pmid)
    }

    /// Returns the instances that are read of a metric; `None` if all are.
    pub fn instances(&self, metric: &SelectedMetric) -> Option<Arc<HashSet<InstanceId>>> {
        let named = metric.desc.indom.and_then(|indom| self.instances_of(indom)).map(Arc::new);
        self.with_labels(metric, named)
    }

    /// Returns those of some instances, or of all, that labels select as well.
    fn with_labels(
        &self,
        metric: &SelectedMetric,
        named: Option<Arc<HashSet<InstanceId>>>,
    ) -> Option<Arc<HashSet<InstanceId>>> {
        let Some(labelled) = self.labelled_instances(metric.desc.pmid) else { return named };
        let mut both = labelled.clone();
        if let Some(named) = named {
            both.retain(|id| named.contains(id));
        }
        Some(Arc::new(both))
    }

    /// Returns the identities of the numbers of a metric's instances; `None` if they are the
    /// same.
    pub(crate) fn identities_of(&self, metric: &SelectedMetric) -> Option<&'a Arc<Identities>> {
        self.source.metadata().indom_history(metric.desc.indom?)?.identities()
    }

    /// Returns the instances that are read of each metric. The look-up of a domain is shared by its
    /// metrics.
    pub(crate) fn instances_by_metric(&self) -> Vec<Option<Arc<HashSet<InstanceId>>>> {
        let mut by_indom = HashMap::new();
        let wanted = self.metrics.iter().map(|metric| {
            let indom = metric.desc.indom?;
            let instances = by_indom.entry(indom);
            let chosen =
                instances.or_insert_with(|| self.instances_of(indom).map(Arc::new)).clone();
            self.with_labels(metric, chosen)
        });
        wanted.collect()
    }
}

#[cfg(test)]
mod tests {
    use test_archives::Builder;

    use super::*;
    use crate::Archive;

    fn set(ids: &[i32]) -> HashSet<InstanceId> {
        ids.iter().map(|id| InstanceId::new(*id).unwrap()).collect()
    }

    #[test]
    fn instances_of_selectors_are_joined_and_of_one_without_labels_all() {
        let pmid = Pmid::new(70, 1, 1).unwrap();
        let mut selected = SelectedInstances::default();
        assert!(selected.add(pmid, Some(set(&[1, 2]))));
        assert!(!selected.add(pmid, Some(set(&[3]))));
        assert_eq!(selected.of_metric(pmid), Some(&set(&[1, 2, 3])));
        selected.limit(pmid, &set(&[2, 9]));
        assert_eq!(selected.of_metric(pmid), Some(&set(&[2])));
        assert!(!selected.add(pmid, None));
        assert!(!selected.add(pmid, Some(set(&[4]))), "all there are");
        assert_eq!(selected.of_metric(pmid), None);
        selected.limit(pmid, &set(&[5]));
        assert_eq!(selected.of_metric(pmid), Some(&set(&[5])));
        assert_eq!(selected.metrics().collect::<Vec<_>>(), [pmid]);
    }

    #[test]
    fn empty_braces_select_a_metric() {
        let archive = Builder::new()
            .metric("app.a", "u64 instant count")
            .metric("app.b", "u64 instant count")
            .row(0, [("app.a", 1)])
            .finish();
        let archive = Archive::open(archive.base()).unwrap();
        let count = |text| Selection::new(&archive).select(text);
        assert_eq!([count("app.a"), count("app.a{}"), count("app")], [1, 1, 2]);
        assert_eq!(count("app.c{}"), 0);
    }
}
