//! Counts of samples by outcome.

use serde::{Deserialize, Serialize};

/// Counts of one host, or of all hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeliveryCounts {
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

impl DeliveryCounts {
    /// Returns the difference to earlier counts.
    pub(crate) fn since(&self, before: &Self) -> Self {
        self.combined(before, u64::saturating_sub)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        *self = self.combined(other, u64::saturating_add);
    }

    fn combined(&self, other: &Self, combine: fn(u64, u64) -> u64) -> Self {
        Self {
            sent: combine(self.sent, other.sent),
            requests: combine(self.requests, other.requests),
            repeated: combine(self.repeated, other.repeated),
            refused: combine(self.refused, other.refused),
            too_old: combine(self.too_old, other.too_old),
            lost_gaps: combine(self.lost_gaps, other.lost_gaps),
            damaged: combine(self.damaged, other.damaged),
        }
    }
}

impl std::fmt::Display for DeliveryCounts {
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
