//! The data of one tick for the archive writer.

use std::collections::BTreeMap;
use std::sync::Arc;

use pcp_archive::OwnedValue;
use pcp_archive::raw::ValueSet;
use pcp_archive::raw::prepared::RecordBuffer;
use pcp_types::Timestamp;

use crate::metadata::{Catalog, Payers};
use crate::telemetry::Events;

/// Approximate memory of a value that is logged on change, and of an event, in bytes.
const VALUE_BYTES: usize = 64;
const EVENT_BYTES: usize = 300;
/// Bytes of a metric in a record, and of each of its values for the instance, the length and the
/// type.
const METRIC_BYTES: u64 = 12;
const INSTANCE_BYTES: u64 = 12;

/// Last-known values of all metrics that are logged once or on change.
pub(crate) type LastKnownValues = Arc<Vec<ValueSet>>;

#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct ChangedValues {
    /// Previous values.
    pub before: Vec<ValueSet>,
    /// Present values.
    pub after: Vec<ValueSet>,
}

impl ChangedValues {
    /// Returns the approximate bytes of each user's values in a record.
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

/// The records of one tick, and what precedes them in the archive.
#[derive(Debug)]
pub(crate) struct Sample {
    /// Time at which the values were read.
    pub timestamp: Timestamp,
    /// Metadata of everything in the records.
    pub catalog: Arc<Catalog>,
    /// A record for each group.
    pub records: Vec<RecordBuffer>,
    /// Changed values of metrics that are logged once or on change.
    pub changes: ChangedValues,
    /// All values of metrics that are logged once or on change.
    pub last_known: LastKnownValues,
    /// Events since the previous sample.
    pub events: Events,
    /// Set if a mark belongs before this sample: samples were lost, or a program was restarted and
    /// that is to be marked.
    pub mark: bool,
    /// Set if a file was replaced while no agent ran.
    pub unobserved: bool,
}

impl Sample {
    /// Returns the approximate memory of a waiting sample. The last-known values are shared.
    pub(crate) fn size(&self) -> usize {
        let records: usize = self.records.iter().map(|record| record.as_bytes().len()).sum();
        let sets = self.changes.before.iter().chain(&self.changes.after);
        let values: usize = sets.map(|set| set.values.as_ref().map_or(0, Vec::len)).sum();
        records + values * VALUE_BYTES + self.events.list.len() * EVENT_BYTES
    }
}
