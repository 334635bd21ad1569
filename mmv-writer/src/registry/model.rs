//! What has been registered: plain records, checked before they get here.

use std::sync::Arc;

use pcp_types::{InstanceId, Semantics, Units};

use super::Members;
use crate::layout::{LABEL_OPTIONAL, NAME_BYTES, Version};
use crate::metric::TextSlot;

/// Everything that goes into one file.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) indoms: Vec<IndomRecord>,
    pub(crate) metrics: Vec<MetricRecord>,
    /// In the order of their cells in the file; `None`: an entry that is unused
    /// so that its neighbour has a cache line to itself.
    pub(crate) values: Vec<Option<ValueRecord>>,
    /// Filled when the file is written.
    pub(crate) labels: Vec<LabelRecord>,
}

/// The help texts of a metric or domain.
#[derive(Debug, Default, Clone)]
pub(crate) struct Help {
    pub(crate) short: Option<String>,
    pub(crate) long: Option<String>,
}

/// An instance domain.
#[derive(Debug)]
pub(crate) struct IndomRecord {
    pub(crate) serial: u32,
    pub(crate) help: Help,
    pub(crate) members: Arc<Members>,
}

/// A metric.
#[derive(Debug)]
pub(crate) struct MetricRecord {
    pub(crate) name: String,
    pub(crate) item: u32,
    pub(crate) type_code: i32,
    pub(crate) semantics: Semantics,
    pub(crate) units: Units,
    /// The domain's serial; `None` for a singular metric.
    pub(crate) indom: Option<u32>,
    pub(crate) help: Help,
}

/// A value: which metric's, which instance's, and its text if it has one.
#[derive(Debug)]
pub(crate) struct ValueRecord {
    /// Index into the metrics.
    pub(crate) metric: usize,
    /// Index of the domain, index of the instance in it.
    pub(crate) instance: Option<(usize, usize)>,
    pub(crate) text: Option<Arc<TextSlot>>,
}

/// A label.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LabelRecord {
    pub(crate) class: u32,
    pub(crate) optional: bool,
    pub(crate) identity: u32,
    pub(crate) instance: Option<InstanceId>,
    pub(crate) name: String,
    /// `{"name":value}`.
    pub(crate) json: String,
}

impl LabelRecord {
    /// The flags word.
    pub(crate) fn flags(&self) -> u32 {
        self.class | if self.optional { LABEL_OPTIONAL } else { 0 }
    }

    /// Whether two labels are attached to the same thing.
    pub(crate) fn same_target(&self, other: &Self) -> bool {
        (self.class, self.identity, self.instance) == (other.class, other.identity, other.instance)
    }
}

/// The lowest version whose entries hold a name of this length.
pub(crate) fn version_for_name(name: &str) -> Version {
    if name.len() < NAME_BYTES { Version::V1 } else { Version::V2 }
}

impl Model {
    /// The lowest version that can hold everything.
    pub(crate) fn lowest_version(&self) -> Version {
        if !self.labels.is_empty() {
            return Version::V3;
        }
        let metrics = self.metrics.iter().map(|metric| metric.name.as_str());
        let domains = self.indoms.iter().flat_map(|indom| indom.members.list());
        let instances = domains.map(|(_, name)| name.as_str());
        metrics.chain(instances).map(version_for_name).max().unwrap_or(Version::V1)
    }
}
