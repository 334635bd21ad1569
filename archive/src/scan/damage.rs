//! Scans that go on after damage, in whose place is a mark.

use std::ops::Bound;

use super::{Chunk, ChunkLimits};
use crate::error::volume_text;
use crate::reader::salvage::Loss;
use crate::{Error, RecordError, Records, Result, Source, Timestamp};

/// The most gaps that are listed one by one; later losses are added to the last.
const MAX_LOST: usize = 1000;

impl Chunk {
    /// Fills the chunk as [`fill`](Self::fill), but reads past damage. What was lost on the way is
    /// added to `all`.
    ///
    /// # Errors
    ///
    /// Those of the reader that are no damage.
    pub(crate) fn fill_past_damage(
        &mut self,
        source: Source<'_>,
        records: &mut Records<'_>,
        last: Bound<Timestamp>,
        limits: ChunkLimits,
        all: &mut Vec<Loss>,
    ) -> Result<bool> {
        loop {
            let error = match self.fill(source, records, last, limits) {
                Ok(more) => return Ok(more),
                Err(error) if !error.is_damage() => return Err(error),
                Err(error) => error,
            };
            // The position is after the record at least, or in the next volume.
            let (bytes, before) = records.skip_damage()?;
            let Some(part) = lost(error, bytes) else { continue };
            push(all, Loss { after: self.newest(), before, ..part });
            if let Some(next) = before {
                self.add_gap(next);
            }
        }
    }
}

/// Moves to the first record that is not before a time, past damage. What was lost between
/// that time and the record is added to `all`.
pub(super) fn skip_until(
    records: &mut Records<'_>,
    start: Timestamp,
    all: &mut Vec<Loss>,
) -> Result<()> {
    loop {
        match records.next() {
            Ok(Some(record)) if record.timestamp() < start => {}
            Ok(Some(_)) => return records.previous().map(drop),
            Ok(None) => return Ok(()),
            Err(error) if error.is_damage() => {
                let (bytes, before) = records.skip_damage()?;
                if before.is_none_or(|before| before >= start)
                    && let Some(part) = lost(error, bytes)
                {
                    push(all, Loss { before, ..part });
                }
            }
            Err(error) => return Err(error),
        }
    }
}

fn lost(error: Error, bytes: u64) -> Option<Loss> {
    let (file, offset, reason) = match error {
        Error::Corrupt { file, offset, source } => (file, offset, source.to_string()),
        Error::Decompress { file, source } => (file, 0, source.to_string()),
        Error::LabelMismatch { file, field, found, expected, .. } => {
            (file, 0, RecordError::LabelMismatch { field, found, expected }.to_string())
        }
        Error::VolumeMismatch { file, found, expected } => {
            let found = volume_text(found);
            (file, 0, format!("label of {found}, expected that of {}", volume_text(expected)))
        }
        _ => return None,
    };
    Some(Loss { file, offset, bytes, reason, after: None, before: None })
}

/// Adds a gap, or the loss to the newest one if there are too many.
fn push(all: &mut Vec<Loss>, more: Loss) {
    let is_full = all.len() >= MAX_LOST;
    match all.last_mut().filter(|_| is_full) {
        Some(newest) => {
            newest.bytes += more.bytes;
            newest.before = more.before;
        }
        None => all.push(more),
    }
}
