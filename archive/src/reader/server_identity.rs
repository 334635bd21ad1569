//! The identity of what served an archive's values.
//!
//! pmlogger writes five values first and last into an archive, among them the process of the
//! pmcd that all values came from, and a number that counts how often that pmcd changed what it
//! serves. mmv-agent writes them first; its number counts losses. Archives of one server that follow
//! each other [soon](longest_gap) are one timeline.

use std::time::Duration;

use crate::{Pmid, Record, Value, ValueType};

/// `pmcd.pid` and `pmcd.seqnum`.
const PROCESS: Pmid = Pmid::from_raw((2 << 22) + 23);
const SEQUENCE: Pmid = Pmid::from_raw((2 << 22) + 24);
/// The number of values in such a record.
const VALUES: u32 = 5;

/// The process that served values, and the number of changes of what it served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerIdentity {
    process: u64,
    sequence: u32,
}

impl ServerIdentity {
    /// Returns the identity that a record has, if it is one of those with it.
    pub(crate) fn of_record(record: &Record<'_>) -> Option<Self> {
        if record.len() != VALUES {
            return None;
        }
        let value = |pmid, value_type| {
            let set = record.value_sets().find(|set| set.pmid() == pmid)?;
            set.values(value_type).next()?.ok().map(|(_, value)| value)
        };
        match (value(PROCESS, ValueType::U64)?, value(SEQUENCE, ValueType::U32)?) {
            (Value::U64(process), Value::U32(sequence)) => Some(Self { process, sequence }),
            _ => None,
        }
    }
}

/// Returns the longest time between two records that are sampled at an interval and have no mark
/// between them. One late tick on a busy machine does not cost every application two samples (a mark
/// hides the values around it).
pub const fn longest_gap(interval: Duration) -> Duration {
    interval.saturating_mul(3).saturating_add(Duration::from_secs(1))
}
