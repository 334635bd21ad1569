//! Decides whether a mark is needed between two archives.
//!
//! If the [identity of what served the values](ServerIdentity) is the same at the end of one
//! archive and at the start of the next, nothing was lost between the two but time, and
//! counters may be joined (`do_not_need_mark` in `src/pmlogextract/pmlogextract.c`).

use crate::reader::ServerIdentity;
use crate::{Record, Timestamp};

/// The end of an archive and the start of the next, to decide on a mark between them.
#[derive(Debug, Default)]
pub(super) struct NeedsMark {
    /// From the newest record that names one.
    server: Option<ServerIdentity>,
    /// The mark that will be due.
    mark: Option<Timestamp>,
    is_first: bool,
}

impl NeedsMark {
    /// Notes that an archive ended. A mark at this time separates it from the next one.
    pub(super) fn gap(&mut self, mark: Timestamp) {
        self.mark.get_or_insert(mark);
        self.is_first = true;
    }

    /// Notes the next record, whether it is copied or not.
    pub(super) fn pass(&mut self, record: &Record<'_>) {
        let server = ServerIdentity::of_record(record);
        if self.is_first {
            if server.is_some() && server == self.server {
                self.mark = None;
            }
            self.is_first = false;
            self.server = None;
        }
        self.server = server.or(self.server);
    }

    /// Returns the mark that is due before the next record.
    pub(super) fn take(&mut self) -> Option<Timestamp> {
        self.mark.take()
    }
}
