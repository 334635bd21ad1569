//! The metrics and instances to read.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::select_instances;
use crate::{InDom, InstanceId, MetricDesc, Pmid, Source, ValueType};

/// A metric that is read.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectedMetric {
    /// The name it was selected by.
    pub name: String,
    /// Its descriptor.
    pub desc: MetricDesc,
}

impl SelectedMetric {
    /// Whether the metric's values are numbers.
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

/// Metrics of one archive or several, chosen by name, and which of their instances.
#[derive(Debug, Clone)]
pub struct Selection<'a> {
    source: Source<'a>,
    metrics: Vec<SelectedMetric>,
    selected: HashSet<Pmid>,
    /// Names or numbers; all instances if empty.
    instances: Vec<String>,
}

impl<'a> Selection<'a> {
    /// Nothing so far of an archive, or of an [`ArchiveSet`](crate::ArchiveSet),
    /// and all instances of what will be selected.
    pub fn new(source: impl Into<Source<'a>>) -> Self {
        let (metrics, selected, instances) = (Vec::new(), HashSet::new(), Vec::new());
        Self { source: source.into(), metrics, selected, instances }
    }

    /// Adds a metric by its name, or all metrics below a name, or all whose
    /// names a pattern with `*` and `?` matches, in the order of their names;
    /// an empty name adds all there are. A metric that is selected already is
    /// not added again.
    ///
    /// Returns how many metrics the name stands for: 0 is a name that the
    /// archive does not have.
    pub fn select(&mut self, name: &str) -> usize {
        let mut found = 0;
        for (leaf, metric) in self.source.metadata().select(name) {
            found += 1;
            if self.selected.insert(metric.desc.pmid) {
                self.metrics.push(SelectedMetric { name: leaf.to_owned(), desc: metric.desc });
            }
        }
        found
    }

    /// Adds an instance to those that are read; without any, all are. Metrics
    /// without instances are read in any case.
    ///
    /// An instance is meant by the whole of a name that it ever had, or by the
    /// part before the first blank, as PCP matches names. A number means the
    /// instance with this number, in domains where no instance has that name.
    pub fn select_instance(&mut self, instance: impl Into<String>) {
        self.instances.push(instance.into());
    }

    /// Keeps only the metrics that are wanted.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(&SelectedMetric) -> bool) {
        let selected = &mut self.selected;
        self.metrics.retain(|metric| {
            let is_kept = is_wanted(metric);
            if !is_kept {
                selected.remove(&metric.desc.pmid);
            }
            is_kept
        });
    }

    /// The metrics so far.
    pub fn metrics(&self) -> &[SelectedMetric] {
        &self.metrics
    }

    /// What is read.
    pub const fn source(&self) -> Source<'a> {
        self.source
    }

    /// The instances of a domain that are read; `None` if all are.
    pub(crate) fn instances_of(&self, indom: InDom) -> Option<HashSet<InstanceId>> {
        if self.instances.is_empty() {
            return None;
        }
        let history = self.source.metadata().indom_history(indom);
        Some(select_instances(&self.instances, history).into_iter().collect())
    }

    /// For each metric the instances that are read, each domain looked at once.
    pub(super) fn instances_by_metric(&self) -> Vec<Option<Arc<HashSet<InstanceId>>>> {
        let mut by_indom = HashMap::new();
        let mut wanted = |metric: &SelectedMetric| {
            let indom = metric.desc.indom?;
            let instances = by_indom.entry(indom);
            instances.or_insert_with(|| self.instances_of(indom).map(Arc::new)).clone()
        };
        self.metrics.iter().map(&mut wanted).collect()
    }
}
