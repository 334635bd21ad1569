//! Records of one layout, one behind the other.
//!
//! Whoever wants columns reads a value's place in all of them before the next
//! place: the values of a column then go to memory together.

use pcp_types::Timestamp;

use super::records::ArchiveRecords;
use super::timeline::Records;
use crate::error::Result;
use crate::format::layout::LayoutId;
use crate::format::result::Record;

/// What a position remembers of the run in front of it.
#[derive(Debug, Default)]
pub(super) struct Peeked {
    /// Of each record.
    len: usize,
    stamps: Vec<Timestamp>,
}

/// Records that follow each other, all of one layout, none of them a mark.
#[derive(Debug)]
pub(crate) struct Run<'r> {
    layout: LayoutId,
    /// Of the records and what lies behind.
    bytes: &'r [u8],
    len: usize,
    stamps: &'r [Timestamp],
}

impl<'r> Run<'r> {
    /// More would not lie in a processor's first cache.
    const MAX_RECORDS: usize = 16;

    /// What the records have in common.
    pub(crate) const fn layout(&self) -> LayoutId {
        self.layout
    }

    /// The times of the records, one at least.
    pub(crate) const fn stamps(&self) -> &'r [Timestamp] {
        self.stamps
    }

    /// The records as bytes, and what lies behind them.
    pub(crate) const fn bytes(&self) -> &'r [u8] {
        self.bytes
    }

    /// The length of each record.
    pub(crate) const fn stride(&self) -> usize {
        self.len
    }
}

impl ArchiveRecords<'_> {
    fn peek_run(
        &mut self,
        is_wanted: impl Fn(LayoutId) -> bool,
        is_over: impl Fn(Timestamp) -> bool,
    ) -> Result<Option<Run<'_>>> {
        let Some(loaded) = self.load_next()? else { return Ok(None) };
        let (version, len) = (self.archive.version(), loaded.len);
        let bytes = self.window.rest(loaded.offset);
        let first = bytes.get(..len).unwrap_or_default();
        let Some(layout) = self.layouts.find(first).filter(|layout| is_wanted(*layout)) else {
            return Ok(None);
        };
        // A time that is none is told by who reads the record alone.
        let stamp = |record: &[u8]| {
            Record::parse_timestamp(version, record).ok().filter(|stamp| !is_over(*stamp))
        };
        let more = bytes.chunks_exact(len.max(1)).skip(1).take(Run::MAX_RECORDS - 1);
        let same =
            more.map_while(|record| stamp(record).filter(|_| self.layouts.is_found_last(record)));
        self.run.len = len;
        self.run.stamps.clear();
        if let Some(first) = stamp(first) {
            self.run.stamps.push(first);
            self.run.stamps.extend(same);
        }
        let Peeked { len, stamps } = &self.run;
        Ok((!stamps.is_empty()).then_some(Run { layout, bytes, len: *len, stamps }))
    }
}

impl Records<'_> {
    /// The next records, if they are of a layout that is known and wanted, up to
    /// one whose time `is_over`; the position stays in front of them.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub(crate) fn peek_run(
        &mut self,
        is_wanted: impl Fn(LayoutId) -> bool,
        is_over: impl Fn(Timestamp) -> bool,
    ) -> Result<Option<Run<'_>>> {
        self.inside.peek_run(is_wanted, is_over)
    }

    /// Moves behind the first records of the run that was returned last.
    pub(crate) fn pass_run(&mut self, count: usize) {
        self.inside.position.offset += (count * self.inside.run.len) as u64;
    }
}
