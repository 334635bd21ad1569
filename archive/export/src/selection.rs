//! The metrics and instances that are exported, as `mmv-archive` selects them.
//!
//! In: names, branches of the name space, patterns and labels on the command line. Out: for the
//! metadata of each archive, the metrics and which of their instances.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::{HashMap, HashSet};
use pcp_archive::raw::IndomHistory;
use pcp_archive::scan::histogram::HistogramLayout;
use pcp_archive::scan::{Selector, SelectorError, select_instances};
use pcp_archive::{InstanceId, Metadata, MetricDesc, Pmid};

/// Selects metrics and instances by name and labels.
#[derive(Debug, Clone, Default)]
pub struct MetricSelection {
    metrics: Arc<[WantedMetric]>,
    instances: Arc<[String]>,
}

/// A selector of metrics, and its text.
#[derive(Debug, Clone)]
pub struct MetricText {
    text: String,
    selector: Selector,
}

impl FromStr for MetricText {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        Ok(Self { text: text.to_owned(), selector: text.parse()? })
    }
}

#[derive(Debug)]
struct WantedMetric {
    metric: MetricText,
    /// Whether an archive has such a metric.
    is_found: AtomicBool,
}

#[derive(Debug, Default)]
pub(crate) struct SelectedMetrics {
    /// `None` for all metrics with all their instances.
    metrics: Option<HashMap<Pmid, SelectedInstances>>,
}

/// The instances of a metric that are selected, by the identities that names have at all times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum SelectedInstances {
    #[default]
    All,
    Only(HashSet<InstanceId>),
}

impl MetricSelection {
    /// Selects metrics by names, branches, patterns and labels, and instances by names, numbers and
    /// patterns; an empty list selects all.
    pub fn new(metrics: &[MetricText], instances: &[String]) -> Self {
        let metrics = metrics.iter();
        let metrics = metrics.map(|metric| WantedMetric {
            metric: metric.clone(),
            is_found: AtomicBool::new(false),
        });
        Self { metrics: metrics.collect(), instances: instances.into() }
    }

    /// Returns the texts that selected no metric of any archive so far.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        let unknown = self.metrics.iter().filter(|wanted| !wanted.is_found.load(Ordering::Relaxed));
        unknown.map(|wanted| wanted.metric.text.as_str())
    }

    pub(crate) fn in_archive(&self, metadata: &Metadata) -> SelectedMetrics {
        if self.metrics.is_empty() && self.instances.is_empty() {
            return SelectedMetrics::default();
        }
        let mut selected: HashMap<Pmid, SelectedInstances> = HashMap::new();
        for wanted in self.metrics.iter() {
            // A name that the archive has is no selector, whatever it looks like.
            let MetricText { text, selector } = &wanted.metric;
            let name = Selector::of_name(text);
            let selector = if metadata.metric_by_name(text).is_some() { &name } else { selector };
            for (_, metric, instances) in selector.select(metadata) {
                wanted.is_found.store(true, Ordering::Relaxed);
                let more = instances.map_or(SelectedInstances::All, SelectedInstances::Only);
                match selected.entry(metric.desc.pmid) {
                    hashbrown::hash_map::Entry::Occupied(mut known) => known.get_mut().add(more),
                    hashbrown::hash_map::Entry::Vacant(new) => {
                        new.insert(more);
                    }
                }
            }
        }
        if self.metrics.is_empty() {
            let all = metadata.metrics().iter();
            selected.extend(all.map(|metric| (metric.desc.pmid, SelectedInstances::All)));
        }
        if !self.instances.is_empty() {
            for (pmid, instances) in &mut selected {
                if let Some(named) = self.named_instances(*pmid, metadata) {
                    instances.keep(&named);
                }
            }
        }
        SelectedMetrics { metrics: Some(selected) }
    }

    /// Returns the instances of a metric that are selected by name, of a labelled histogram also the
    /// buckets of these instances; `None` for a metric without instances.
    fn named_instances(&self, pmid: Pmid, metadata: &Metadata) -> Option<HashSet<InstanceId>> {
        let metric = metadata.metric(pmid)?;
        let MetricDesc { indom: Some(indom), .. } = metric.desc else { return None };
        let history = metadata.indom_history(indom);
        let mut named: HashSet<InstanceId> =
            select_instances(&self.instances, history).into_iter().collect();
        let name = metric.names.first()?;
        if let Some(layout) = HistogramLayout::find(metadata, name, &metric.desc)
            && let Some(histograms) = layout.indom()
        {
            let histograms = select_instances(&self.instances, metadata.indom_history(histograms));
            let buckets = metadata.identities(indom).map(IndomHistory::union).unwrap_or_default();
            named.extend(buckets.iter().map(|bucket| bucket.id).filter(|bucket| {
                let histogram = layout.bucket(*bucket).and_then(|bucket| bucket.histogram);
                histogram.is_some_and(|histogram| histograms.contains(&histogram))
            }));
        }
        Some(named)
    }
}

impl SelectedMetrics {
    /// Returns the selected instances of a metric; `None` if it is not selected.
    pub(crate) fn instances(&self, pmid: Pmid) -> Option<SelectedInstances> {
        match &self.metrics {
            None => Some(SelectedInstances::All),
            Some(metrics) => metrics.get(&pmid).cloned(),
        }
    }
}

impl SelectedInstances {
    /// Returns whether the instance with an identity is selected; a metric without instances is.
    pub(crate) fn has(&self, identity: Option<InstanceId>) -> bool {
        match (self, identity) {
            (Self::Only(only), Some(identity)) => only.contains(&identity),
            _ => true,
        }
    }

    fn add(&mut self, more: Self) {
        match (&mut *self, more) {
            (Self::All, _) => {}
            (Self::Only(known), Self::Only(more)) => known.extend(more),
            (Self::Only(_), Self::All) => *self = Self::All,
        }
    }

    fn keep(&mut self, wanted: &HashSet<InstanceId>) {
        match self {
            Self::All => *self = Self::Only(wanted.clone()),
            Self::Only(known) => known.retain(|id| wanted.contains(id)),
        }
    }
}
