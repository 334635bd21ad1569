//! When an index entry is due.

use pcp_types::Timestamp;

/// Decides about entries and remembers the last one.
///
/// An entry is due at the first record of the archive and of each volume, at
/// a record that new metrics or instances came with, after so many bytes, and
/// at the end; but never with the time of the entry before, which already has
/// the right offsets (`__pmLogPutIndex`, `src/libpcp/src/e_index.c`).
#[derive(Debug, Clone)]
pub(super) struct IndexPolicy {
    every: u64,
    last: Option<Timestamp>,
    /// Bytes written since the last entry, that entry's record included.
    since: u64,
}

impl IndexPolicy {
    pub(super) const fn new(every: u64) -> Self {
        Self { every, last: None, since: 0 }
    }

    /// Whether a record with this time gets an entry; `len` is the size of it
    /// and its metadata.
    pub(super) fn is_due(&mut self, stamp: Timestamp, demanded: bool, len: usize) -> bool {
        let due = (demanded || self.since >= self.every) && self.last != Some(stamp);
        if due {
            self.last = Some(stamp);
            self.since = 0;
        }
        self.since += len as u64;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::new(seconds, 0).unwrap()
    }

    #[test]
    fn an_entry_is_due_when_demanded_and_after_so_many_bytes() {
        let mut policy = IndexPolicy::new(100);
        assert!(policy.is_due(at(1), true, 60));
        assert!(!policy.is_due(at(2), false, 60));
        assert!(policy.is_due(at(3), false, 60));
        assert!(!policy.is_due(at(4), false, 39));
        assert!(!policy.is_due(at(5), false, 1));
        assert!(policy.is_due(at(6), false, 1));
    }

    #[test]
    fn no_two_entries_have_one_time() {
        let mut policy = IndexPolicy::new(100);
        assert!(policy.is_due(at(1), true, 500));
        assert!(!policy.is_due(at(1), true, 1));
        assert!(policy.is_due(at(2), false, 1));
    }
}
