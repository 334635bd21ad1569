//! The records of a window of time, in either direction.

use pcp_archive::{Archive, Record, Records};

use crate::Failure;
use crate::time::Window;

/// A cursor over the records of a window.
///
/// Without a window it returns all records, including those with decreasing
/// timestamps.
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
            (None, true) => archive.records_back_from(pcp_archive::Timestamp::MAX)?,
            (Some(window), false) => archive.records_from(window.start)?,
            (Some(window), true) => archive.records_back_from(window.end)?,
        };
        Ok(Self { records, window, reverse })
    }

    /// The next record; `None` after the end of the window.
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
