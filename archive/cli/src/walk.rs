//! The records of a window of time, in either direction, past damage.

use pcp_archive::raw::{Record, Records};
use pcp_archive::{Source, Timestamp};

use crate::Failure;
use crate::text::warn;
use crate::time::Window;

/// Limit on the damaged records that are printed one by one.
const MAX_WARNINGS: u64 = 10;

/// A cursor over the records of a window.
///
/// Without a window it returns all records, including those with decreasing
/// timestamps.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    records: Records<'a>,
    window: Option<Window>,
    reverse: bool,
    /// The number of damaged records that were skipped.
    damaged: u64,
}

impl<'a> Walk<'a> {
    /// Begins at the first record of the window or, if `reverse`, at the last.
    ///
    /// # Errors
    ///
    /// Those of [`Source::records_from`].
    pub(crate) fn new(
        source: impl Into<Source<'a>>,
        window: Option<Window>,
        reverse: bool,
    ) -> Result<Self, Failure> {
        let source = source.into();
        let records = match (&window, reverse) {
            (None, false) => source.records()?,
            (None, true) => source.records_back_from(Timestamp::MAX)?,
            (Some(window), false) => source.records_from(window.start)?,
            (Some(window), true) => source.records_back_from(window.end)?,
        };
        Ok(Self { records, window, reverse, damaged: 0 })
    }

    /// Reads the next record; `None` after the end of the window.
    ///
    /// # Errors
    ///
    /// Those of [`Records::next`].
    pub(crate) fn next(&mut self) -> Result<Option<Record<'_>>, Failure> {
        let record = if self.reverse { self.records.previous() } else { self.records.next() };
        Ok(record?.filter(|record| match &self.window {
            None => true,
            Some(window) if self.reverse => record.timestamp() >= window.start,
            Some(window) => record.timestamp() <= window.end,
        }))
    }

    /// Skips the damage at which [`next`](Self::next) failed, with a warning.
    ///
    /// # Errors
    ///
    /// The failure itself if it is not damage, and when reading backwards, where the length of
    /// the damage is unknown.
    pub(crate) fn skip_damage(&mut self, failure: Failure) -> Result<(), Failure> {
        let error = match &failure {
            Failure::Archive(error) if error.is_damage() && !self.reverse => error,
            _ => return Err(failure),
        };
        let (bytes, next) = self.records.skip_damage()?;
        if bytes == 0 && next.is_some() {
            return Err(failure);
        }
        self.damaged += 1;
        if self.damaged <= MAX_WARNINGS {
            match bytes {
                // The file cannot be opened or decompressed.
                0 => warn(&format_args!("{error}; all of its records are skipped")),
                _ => warn(&format_args!("{error}; {bytes} bytes skipped")),
            }
        }
        Ok(())
    }

    /// # Errors
    ///
    /// [`Failure::Lost`] if damaged records were passed by.
    pub(crate) fn finish(&self) -> Result<(), Failure> {
        if let Some(more) = self.damaged.checked_sub(MAX_WARNINGS).filter(|more| *more > 0) {
            warn(&format_args!("{more} more damaged records are skipped; see check"));
        }
        if self.damaged == 0 { Ok(()) } else { Err(Failure::Lost) }
    }
}
