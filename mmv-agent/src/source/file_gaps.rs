//! Missing samples of a file.
//!
//! Input: ticks at which the values of a file were wanted, with or without success. Output: the
//! number of missing samples, and the beginning and end of each spell of them.
//!
//! Sampler and loader share the counts. All sources that a file has in the course of time use
//! the same ones.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pcp_types::Timestamp;

/// Counts of missing samples of one file.
#[derive(Debug)]
pub(crate) struct FileGaps {
    pub(crate) file: OsString,
    missing: AtomicU64,
    /// Missing samples since the last one that was taken.
    spell: AtomicU64,
}

/// The cause of a spell of missing samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GapCause {
    /// The values cannot be told apart for now.
    ChangingMetadata,
    /// The values could not be read at the time of their record.
    Slow,
}

/// The beginning or end of a spell of missing samples.
#[derive(Debug)]
pub(crate) struct Gap {
    pub(crate) of: Arc<FileGaps>,
    /// The first tick without a sample, or the first one with a sample again.
    pub(crate) at: Timestamp,
    pub(crate) change: GapChange,
}

/// The beginning of a spell, or its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GapChange {
    Began(GapCause),
    Ended { missing: u64 },
}

impl FileGaps {
    pub(crate) fn new(file: OsString) -> Self {
        Self { file, missing: AtomicU64::new(0), spell: AtomicU64::new(0) }
    }

    pub(crate) fn missing(&self) -> u64 {
        self.missing.load(Ordering::Relaxed)
    }

    /// Returns true if a source of the file uses them.
    pub(crate) fn is_used(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1
    }

    /// Forgets a spell that ends with an event of its own.
    pub(crate) fn forget_spell(&self) {
        self.spell.store(0, Ordering::Relaxed);
    }

    /// Counts a missing sample, as part of a spell of this cause if the file is expected to have
    /// samples again without being reopened.
    pub(crate) fn add(self: &Arc<Self>, at: Timestamp, spell: Option<GapCause>) -> Option<Gap> {
        self.missing.fetch_add(1, Ordering::Relaxed);
        let cause = spell?;
        let begins = self.spell.fetch_add(1, Ordering::Relaxed) == 0;
        begins.then(|| Gap { of: Arc::clone(self), at, change: GapChange::Began(cause) })
    }

    /// Counts a sample of last values, which nothing follows.
    pub(crate) fn add_lost(&self) {
        self.missing.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a sample, which ends a spell.
    pub(crate) fn end(self: &Arc<Self>, at: Timestamp) -> Option<Gap> {
        if self.spell.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let missing = self.spell.swap(0, Ordering::Relaxed);
        Some(Gap { of: Arc::clone(self), at, change: GapChange::Ended { missing } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_spell_has_a_beginning_and_an_end_with_its_length() {
        let at = Timestamp::EPOCH;
        let gaps = Arc::new(FileGaps::new("app".into()));
        let spell = Some(GapCause::Slow);
        for round in 1..=2 {
            assert!(gaps.end(at).is_none());
            let begun: Vec<_> = (0..3).map(|_| gaps.add(at, spell).is_some()).collect();
            assert_eq!(begun, [true, false, false]);
            assert_eq!(gaps.end(at).unwrap().change, GapChange::Ended { missing: 3 });
            assert_eq!(gaps.missing(), 3 * round);
        }
        assert!(gaps.add(at, None).is_none());
        assert!(gaps.end(at).is_none(), "it was in no spell");
        gaps.add(at, spell);
        gaps.forget_spell();
        assert!(gaps.end(at).is_none());
        assert_eq!(gaps.missing(), 8);
    }
}
