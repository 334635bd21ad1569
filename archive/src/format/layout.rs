//! Records that repeat an earlier one, but for the time and the values.
//!
//! A logger writes the same metrics again and again. All that
//! [`Record::check`] finds out about such a record was found out about the
//! one before it, as long as the bytes that it looked at are the same:
//!
//! ```text
//! length  time  number of sets  set, set, ..      block, block, ..          length
//! XXXX    ....  XXXX            XXXXXXXX  (1, 2)  XXXX........  XXXX......  XXXX
//! ```
//!
//! `X` is what a record has in common with others of its layout and `.` what
//! is its own: the time, the payloads of blocks with their padding, and words
//! that are values themselves. Two records of one layout have the same
//! metrics, instances and formats, and each value at the same place with the
//! same length. So whoever found out where the values of interest are need
//! not do so again.
//!
//! The comparison is a pass over the bytes without branches, an order of
//! magnitude faster than the check.

use std::sync::atomic::{AtomicU64, Ordering};

use super::archive_label::Version;
use super::frame::LENGTH_WORD;
use super::padded;
use super::result::{Record, count_offset};
use crate::error::RecordError;

/// So many layouts are known at a time: loggers write groups of metrics at
/// intervals of their own.
const MAX_KNOWN: usize = 8;
/// Larger records are checked one by one, so that layouts hold 8 MiB at most.
const MAX_SIZE: usize = 512 * 1024;
/// After so many records in a row that repeated nothing, only one of so many
/// is learnt.
const MAX_MISSES: u32 = 16;
/// So much is compared without a branch.
const STRETCH: usize = 2048;

/// Names a layout. No other has the same number as long as the program runs,
/// whichever reader learnt it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LayoutId(u64);

impl LayoutId {
    fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

/// The layouts of the records of one archive so far.
#[derive(Debug, Default)]
pub(crate) struct Layouts {
    /// The one met last in front.
    known: Vec<Layout>,
    /// Records since the last one that repeated another.
    misses: u32,
}

/// What records of one layout have in common.
#[derive(Debug)]
struct Layout {
    id: LayoutId,
    /// A record with zeros for what is each record's own.
    common: Vec<u8>,
    /// Ones where `common` has to be equal.
    mask: Vec<u8>,
}

impl Layouts {
    /// Checks a record as [`Record::check`] does, and returns its layout if
    /// there may be others like it.
    pub(crate) fn check(
        &mut self,
        version: Version,
        record: &Record<'_>,
    ) -> Result<Option<LayoutId>, RecordError> {
        let bytes = record.bytes();
        if let Some(known) = self.find(bytes) {
            self.misses = 0;
            return Ok(Some(known));
        }
        record.check()?;
        self.misses = self.misses.saturating_add(1);
        let is_hopeless = self.misses > MAX_MISSES && !self.misses.is_multiple_of(MAX_MISSES);
        if record.is_mark() || bytes.len() > MAX_SIZE || is_hopeless {
            return Ok(None);
        }
        self.known.truncate(MAX_KNOWN - 1);
        let layout = Layout::of(version, record);
        let id = layout.id;
        self.known.insert(0, layout);
        Ok(Some(id))
    }
}

impl Layouts {
    /// The layout of a record, given by its bytes, if it is known.
    pub(crate) fn find(&mut self, bytes: &[u8]) -> Option<LayoutId> {
        let place = self.known.iter().position(|layout| layout.is_of(bytes))?;
        self.known.get_mut(..=place)?.rotate_right(1);
        self.known.first().map(|layout| layout.id)
    }

    /// Whether a record is of the layout that was found last.
    pub(crate) fn is_found_last(&self, bytes: &[u8]) -> bool {
        self.known.first().is_some_and(|layout| layout.is_of(bytes))
    }
}

impl Layout {
    /// The layout of a record that was checked.
    fn of(version: Version, record: &Record<'_>) -> Self {
        let bytes = record.bytes();
        let mut mask = vec![0xff; bytes.len()];
        let mut free = |start: usize, end: usize| {
            mask.get_mut(start..end).unwrap_or_default().fill(0);
        };
        free(LENGTH_WORD, count_offset(version));
        for set in record.value_sets() {
            // A word in place is its own padded end.
            set.payloads().for_each(|(_, payload)| free(payload.start, padded(payload.end)));
        }
        let common = bytes.iter().zip(&mask).map(|(byte, mask)| byte & mask).collect();
        Self { id: LayoutId::next(), common, mask }
    }

    fn is_of(&self, bytes: &[u8]) -> bool {
        let differs = |bytes: &[u8], common: &[u8], mask: &[u8]| {
            let each = bytes.iter().zip(common).zip(mask);
            each.fold(0, |all, ((byte, common), mask)| all | ((byte & mask) ^ common)) != 0
        };
        let stretches = bytes.chunks(STRETCH).zip(self.common.chunks(STRETCH));
        let mut stretches = stretches.zip(self.mask.chunks(STRETCH));
        bytes.len() == self.common.len()
            && !stretches.any(|((bytes, common), mask)| differs(bytes, common, mask))
    }
}
