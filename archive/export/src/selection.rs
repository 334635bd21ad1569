//! The metrics and instances that are exported, as `mmv-archive` selects them.
//!
//! In: names, branches of the name space, patterns and labels on the command line. Out: for the
//! metadata of each archive, the metrics and which of their instances.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashSet;
use pcp_archive::scan::histogram::HistogramLayout;
use pcp_archive::scan::{SelectedInstances, Selector, SelectorError, select_instances};
use pcp_archive::{InstanceId, Metadata, MetricDesc, Pmid};

/// Selects metrics and instances by name and labels.
#[derive(Debug, Clone, Default)]
pub struct MetricSelection {
    metrics: Arc<[WantedMetric]>,
    instances: Arc<[String]>,
}

/// The text of a selector of metrics.
#[derive(Debug, Clone)]
pub struct MetricText(String);

impl FromStr for MetricText {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        text.parse::<Selector>()?;
        Ok(Self(text.to_owned()))
    }
}

#[derive(Debug)]
struct WantedMetric {
    text: String,
    /// Whether an archive has such a metric.
    is_found: AtomicBool,
}

/// The metrics of an archive that are exported.
#[derive(Debug)]
pub(crate) enum ExportedMetrics {
    All,
    Only(SelectedInstances),
}

impl MetricSelection {
    /// Selects metrics by names, branches, patterns and labels, and instances by names, numbers and
    /// patterns; an empty list selects all.
    pub fn new(metrics: &[MetricText], instances: &[String]) -> Self {
        let metrics = metrics.iter();
        let metrics = metrics.map(|metric| WantedMetric {
            text: metric.0.clone(),
            is_found: AtomicBool::new(false),
        });
        Self { metrics: metrics.collect(), instances: instances.into() }
    }

    /// Returns the texts that selected no metric of any archive so far.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        let unknown = self.metrics.iter().filter(|wanted| !wanted.is_found.load(Ordering::Relaxed));
        unknown.map(|wanted| wanted.text.as_str())
    }

    pub(crate) fn in_archive(&self, metadata: &Metadata) -> ExportedMetrics {
        if self.metrics.is_empty() && self.instances.is_empty() {
            return ExportedMetrics::All;
        }
        let mut selected = SelectedInstances::default();
        for wanted in self.metrics.iter() {
            let Ok(selector) = Selector::parse_in(&wanted.text, metadata) else { continue };
            for (_, metric, instances) in selector.select(metadata) {
                wanted.is_found.store(true, Ordering::Relaxed);
                selected.add(metric.desc.pmid, instances);
            }
        }
        if self.metrics.is_empty() {
            for metric in metadata.metrics() {
                selected.add(metric.desc.pmid, None);
            }
        }
        if !self.instances.is_empty() {
            for pmid in selected.metrics().collect::<Vec<_>>() {
                if let Some(named) = self.named_instances(pmid, metadata) {
                    selected.limit(pmid, &named);
                }
            }
        }
        ExportedMetrics::Only(selected)
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
        if let Some(layout) = HistogramLayout::find(metadata, name, &metric.desc) {
            named.extend(layout.select_buckets(metadata, indom, &self.instances));
        }
        Some(named)
    }
}

impl ExportedMetrics {
    pub(crate) fn has(&self, pmid: Pmid) -> bool {
        match self {
            Self::All => true,
            Self::Only(selected) => selected.has(pmid),
        }
    }

    /// Returns the identities of the instances of a metric that are exported; `None` for all.
    pub(crate) fn instances(&self, pmid: Pmid) -> Option<HashSet<InstanceId>> {
        match self {
            Self::All => None,
            Self::Only(selected) => selected.of_metric(pmid).cloned(),
        }
    }
}
