//! Counts of samples by outcome.

use serde::{Deserialize, Serialize};

/// Counts of one host, or of all hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Samples that the receiver stored.
    pub(crate) sent: u64,
    /// Requests that the receiver stored.
    pub(crate) requests: u64,
    /// Samples that the receiver already had: a request was repeated since its answer was lost.
    pub(crate) repeated: u64,
    /// Samples that the receiver refused even in a request of their own.
    pub(crate) refused: u64,
    /// Samples that the receiver refused as too old and `--drop-too-old` dropped.
    pub(crate) too_old: u64,
    /// Gaps where retention deleted archives before they were sent.
    pub(crate) lost_gaps: u64,
    /// Records and archives that could not be read.
    pub(crate) damaged: u64,
}

impl Counts {
    /// Returns the difference to earlier counts.
    pub(crate) const fn since(&self, before: &Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(before.sent),
            requests: self.requests.saturating_sub(before.requests),
            repeated: self.repeated.saturating_sub(before.repeated),
            refused: self.refused.saturating_sub(before.refused),
            too_old: self.too_old.saturating_sub(before.too_old),
            lost_gaps: self.lost_gaps.saturating_sub(before.lost_gaps),
            damaged: self.damaged.saturating_sub(before.damaged),
        }
    }

    /// Adds the counts of another host.
    pub(crate) fn add(&mut self, other: &Self) {
        self.sent = self.sent.saturating_add(other.sent);
        self.requests = self.requests.saturating_add(other.requests);
        self.repeated = self.repeated.saturating_add(other.repeated);
        self.refused = self.refused.saturating_add(other.refused);
        self.too_old = self.too_old.saturating_add(other.too_old);
        self.lost_gaps = self.lost_gaps.saturating_add(other.lost_gaps);
        self.damaged = self.damaged.saturating_add(other.damaged);
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sent {} samples in {} requests", self.sent, self.requests)?;
        for (number, what) in [
            (self.repeated, "were there already"),
            (self.refused, "refused"),
            (self.too_old, "dropped as too old"),
            (self.lost_gaps, "gaps lost to retention"),
            (self.damaged, "damaged places skipped"),
        ] {
            if number > 0 {
                write!(f, ", {number} {what}")?;
            }
        }
        Ok(())
    }
}
