//! Decides when an index entry is due.

use std::time::Duration;

use crate::Timestamp;

/// Decides about entries and remembers the last one.
///
/// An entry is due at the first record of the archive and of each volume, at a record that
/// new metrics or instances came with, after `every_bytes` bytes or the interval `every`,
/// and at the end; but never with the time of the entry before, which already has the right
/// offsets (`__pmLogPutIndex`, `src/libpcp/src/e_index.c`).
#[derive(Debug, Clone)]
pub(super) struct IndexPolicy {
    every_bytes: u64,
    every: Option<Duration>,
    last: Option<Timestamp>,
    /// Bytes written since the last entry, that entry's record included.
    since: u64,
}

impl IndexPolicy {
    pub(super) const fn new(every_bytes: u64, every: Option<Duration>) -> Self {
        Self { every_bytes, every, last: None, since: 0 }
    }

    /// Returns whether a record with this time gets an entry; `len` is the size of it and its
    /// metadata.
    pub(super) fn is_due(&mut self, timestamp: Timestamp, demanded: bool, len: usize) -> bool {
        let due = demanded || self.since >= self.every_bytes || self.is_late(timestamp);
        let due = due && self.last != Some(timestamp);
        if due {
            self.last = Some(timestamp);
            self.since = 0;
        }
        self.since += len as u64;
        due
    }

    /// Returns whether the last entry is too long ago.
    fn is_late(&self, timestamp: Timestamp) -> bool {
        let next = self.last.zip(self.every).map(|(last, every)| last.saturating_add(every));
        next.is_some_and(|next| timestamp >= next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(seconds: i64) -> Timestamp {
        Timestamp::new(seconds, 0).unwrap()
    }

    #[test]
    fn an_entry_is_due_on_demand_and_after_a_number_of_bytes() {
        let mut policy = IndexPolicy::new(100, None);
        assert!(policy.is_due(time(1), true, 60));
        assert!(!policy.is_due(time(2), false, 60));
        assert!(policy.is_due(time(3), false, 60));
        assert!(!policy.is_due(time(4), false, 39));
        assert!(!policy.is_due(time(5), false, 1));
        assert!(policy.is_due(time(6), false, 1));
    }

    #[test]
    fn no_two_entries_have_one_time() {
        let mut policy = IndexPolicy::new(100, Some(Duration::ZERO));
        assert!(policy.is_due(time(1), true, 500));
        assert!(!policy.is_due(time(1), true, 1));
        assert!(policy.is_due(time(2), false, 1));
    }

    #[test]
    fn an_entry_is_due_after_an_interval() {
        let mut policy = IndexPolicy::new(u64::MAX, Some(Duration::from_secs(60)));
        let times = [0, 1, 59, 60, 61, 119, 121, 180, 181];
        let due = times.map(|seconds| policy.is_due(time(seconds), seconds == 0, 1));
        assert_eq!(due, [true, false, false, true, false, false, true, false, true]);
    }
}
