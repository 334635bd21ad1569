//! What the sampler hands to the archive writer for one tick.

use std::collections::BTreeMap;
use std::sync::Arc;

use pcp_archive::prepared::RecordBuffer;
use pcp_archive::{OwnedValue, ValueSet};
use pcp_types::Timestamp;

use crate::metadata::{Catalog, Payers};
use crate::telemetry::Events;

/// About how much memory a value that is logged on change takes, and an event.
const VALUE_BYTES: usize = 64;
const EVENT_BYTES: usize = 300;
/// Bytes of a record that a metric takes, and that each of its values takes for the instance,
/// the length and the type.
const METRIC_BYTES: u64 = 12;
const INSTANCE_BYTES: u64 = 12;

/// The last known values of all metrics that are logged once or on change.
pub(crate) type LastKnown = Arc<Vec<ValueSet>>;

/// What this tick logs of them.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct ChangedValues {
    /// Values as they were until now.
    pub before: Vec<ValueSet>,
    /// Values as they are.
    pub after: Vec<ValueSet>,
}

impl ChangedValues {
    /// About how many bytes each user's values take in a record.
    pub(super) fn bytes(&self, payers: &Payers) -> BTreeMap<u32, u64> {
        let mut bytes = BTreeMap::new();
        for set in self.before.iter().chain(&self.after) {
            let values = set.values.as_deref().unwrap_or_default();
            let values = values.iter().map(|(_, value)| match value {
                OwnedValue::String(text) => INSTANCE_BYTES + text.len().next_multiple_of(4) as u64,
                _ => INSTANCE_BYTES + 8,
            });
            *bytes.entry(payers.of_metric(set.pmid)).or_default() +=
                METRIC_BYTES + values.sum::<u64>();
        }
        bytes
    }
}

/// The records of one tick and what has to be written before them.
#[derive(Debug)]
pub(crate) struct Sample {
    /// When the values were read.
    pub timestamp: Timestamp,
    /// The metadata of everything in the records.
    pub catalog: Arc<Catalog>,
    /// The records, one for each group.
    pub records: Vec<RecordBuffer>,
    /// Changed values of metrics that are logged once or on change.
    pub changes: ChangedValues,
    /// All values of these metrics.
    pub last_known: LastKnown,
    /// What happened since the previous sample.
    pub events: Events,
    /// A mark belongs before this sample: samples were lost, or a program restarted
    /// and that is to be marked.
    pub mark: bool,
    /// A file was replaced while no agent ran.
    pub unobserved: bool,
}

impl Sample {
    /// About how many bytes it takes while it waits. The last known values are shared.
    pub(crate) fn size(&self) -> usize {
        let records: usize = self.records.iter().map(|record| record.as_bytes().len()).sum();
        let sets = self.changes.before.iter().chain(&self.changes.after);
        let values: usize = sets.map(|set| set.values.as_ref().map_or(0, Vec::len)).sum();
        records + values * VALUE_BYTES + self.events.list.len() * EVENT_BYTES
    }
}
