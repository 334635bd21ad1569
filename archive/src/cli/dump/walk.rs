//! The records of a window of time, from its start or from its end.

use crate::cli::failure::Failure;
use crate::cli::window::Window;
use crate::{Archive, Record, Records};

/// The records that are printed, one after the other.
///
/// Without a window they are all there are, those that go back in time too:
/// the times of such an archive are no bounds.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    records: Records<'a>,
    window: Option<Window>,
    reverse: bool,
}

impl<'a> Walk<'a> {
    /// From the first record of the window to the last or, if `reverse`, from
    /// the last to the first.
    ///
    /// # Errors
    ///
    /// Those of [`Archive::records_from`].
    pub(super) fn new(
        archive: &'a Archive,
        window: Option<Window>,
        reverse: bool,
    ) -> Result<Self, Failure> {
        let records = match (&window, reverse) {
            (None, false) => archive.records()?,
            (None, true) => archive.records_back_from(crate::Timestamp::MAX)?,
            (Some(window), false) => archive.records_from(window.start)?,
            (Some(window), true) => archive.records_back_from(window.end)?,
        };
        Ok(Self { records, window, reverse })
    }

    /// The next one; `None` once the window is left.
    ///
    /// # Errors
    ///
    /// Those of [`Records::next`].
    pub(super) fn next(&mut self) -> Result<Option<Record<'_>>, Failure> {
        let record = if self.reverse { self.records.previous() } else { self.records.next() };
        Ok(record?.filter(|record| match &self.window {
            None => true,
            Some(window) if self.reverse => record.timestamp() >= window.start,
            Some(window) => record.timestamp() <= window.end,
        }))
    }
}
