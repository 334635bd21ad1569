//! Continuing after damage.
//!
//! A part of a file that holds no record is a gap: what was logged there is not
//! known, so no value is interpolated across it, as at a mark.
//! Reading continues with the next complete record ([`salvage`](crate::salvage)
//! finds it), and the gap is reported.

use std::ops::Bound;

use super::{Replay, ReplaySelection};
use crate::reader::salvage::Loss;
use crate::scan::{Chunk, ChunkLimits};
use crate::{Error, Records, Result};

impl ReplaySelection<'_> {
    /// Continues reading after damaged records: they become gaps, like marks, and
    /// [`Replay::lost`] lists them.
    #[must_use]
    pub fn read_on(mut self) -> Self {
        self.reads_on = true;
        self
    }

    /// Returns whether an error is damage that reading may skip.
    pub(super) const fn reads_on_behind(&self, error: &Error) -> bool {
        self.reads_on && error.is_damage()
    }

    /// Reads records into a chunk up to the limits; returns whether there may
    /// be more. What was lost on the way is added to `all`.
    pub(super) fn fill(
        &self,
        chunk: &mut Chunk,
        records: &mut Records<'_>,
        limits: ChunkLimits,
        all: &mut Vec<Loss>,
    ) -> Result<bool> {
        let source = self.chosen.source();
        if self.reads_on {
            chunk.fill_past_damage(source, records, Bound::Unbounded, limits, all)
        } else {
            chunk.fill(source, records, Bound::Unbounded, limits)
        }
    }
}

impl Replay<'_> {
    /// Returns the damage that was skipped, in the order of the files; nothing unless the
    /// selection [reads on](ReplaySelection::read_on).
    pub fn lost(&self) -> &[Loss] {
        &self.lost
    }
}

#[cfg(test)]
mod tests;
