//! Continuing after damage.
//!
//! A part of a file that holds no record is a gap: what was logged there is not
//! known, so no value is interpolated across it, as at a mark.
//! Reading continues with the next complete record ([`salvage`](crate::salvage)
//! finds it), and the gap is reported.

use std::ops::Bound;

use crate::salvage::Lost;
use crate::scan::{Chunk, ChunkLimits};
use crate::{Error, Records, Result};

use super::{Replay, Selection};

/// The most gaps that are listed one by one; later losses are added to the last.
const MAX_LOST: usize = 1000;

impl Selection<'_> {
    /// Continues reading after damaged records: they become gaps, like marks, and
    /// [`Replay::lost`] lists them.
    #[must_use]
    pub fn read_on(mut self) -> Self {
        self.reads_on = true;
        self
    }

    /// Whether an error is damage that reading may skip.
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
        all: &mut Vec<Lost>,
    ) -> Result<bool> {
        let source = self.chosen.source();
        loop {
            let error = match chunk.fill(source, records, Bound::Unbounded, limits) {
                Ok(more) => return Ok(more),
                Err(error) if !self.reads_on_behind(&error) => return Err(error),
                Err(error) => error,
            };
            // The position is after the record at least, or in the next volume.
            let (bytes, before) = records.skip_damage()?;
            let Some(lost) = lost(error, bytes) else { continue };
            push(all, Lost { after: chunk.newest(), before, ..lost });
            if let Some(next) = before {
                chunk.add_gap(next);
            }
        }
    }
}

impl Replay<'_> {
    /// The damage that was skipped, in the order of the files; nothing unless the
    /// selection [reads on](Selection::read_on).
    pub fn lost(&self) -> &[Lost] {
        &self.lost
    }
}

/// The loss that an error describes.
fn lost(error: Error, bytes: u64) -> Option<Lost> {
    let (file, offset, reason) = match error {
        Error::Corrupt { file, offset, source } => (file, offset, source.to_string()),
        Error::Decompress { file, source } => (file, 0, source.to_string()),
        _ => return None,
    };
    Some(Lost { file, offset, bytes, reason, after: None, before: None })
}

/// Adds a gap, or the loss to the newest one if there are too many.
fn push(all: &mut Vec<Lost>, more: Lost) {
    let is_full = all.len() >= MAX_LOST;
    match all.last_mut().filter(|_| is_full) {
        Some(newest) => {
            newest.bytes += more.bytes;
            newest.before = more.before;
        }
        None => all.push(more),
    }
}

#[cfg(test)]
mod tests;
