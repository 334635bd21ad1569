//! Where records are missing.

use std::time::Duration;

use pcp_types::Timestamp;

/// From the last record to the mark behind it, as pmlogger has it.
const MARK_DELAY: Duration = Duration::from_millis(1);

/// Whether something is missing behind the last record.
#[derive(Default)]
pub(super) struct Gap {
    /// The time of the last record, and whether it is a mark.
    last: Option<(Timestamp, bool)>,
    is_open: bool,
}

impl Gap {
    /// Something is missing here.
    pub(super) const fn open(&mut self) {
        self.is_open = true;
    }

    /// The next record; the time of the mark that is due before it. None is
    /// due where nothing is missing, at the start, and beside another mark.
    pub(super) fn close(&mut self, stamp: Timestamp, is_mark: bool) -> Option<Timestamp> {
        let is_open = std::mem::take(&mut self.is_open);
        let (last, was_mark) = self.last.replace((stamp, is_mark))?;
        let is_due = is_open && !is_mark && !was_mark;
        is_due.then(|| last.saturating_add(MARK_DELAY).min(stamp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i128) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_mark_is_due_only_between_two_results_between_which_something_is_missing() {
        let mut gap = Gap::default();
        gap.open();
        assert_eq!(gap.close(at(0), false), None, "nothing before");
        assert_eq!(gap.close(at(10), false), None, "nothing missing");
        gap.open();
        assert_eq!(gap.close(at(20), false), Some(at(11)));
        gap.open();
        assert_eq!(gap.close(at(30), true), None, "a mark is there");
        gap.open();
        assert_eq!(gap.close(at(40), false), None, "a mark was there");
    }

    #[test]
    fn a_mark_is_not_later_than_what_follows() {
        let mut gap = Gap::default();
        gap.close(at(10), false);
        gap.open();
        assert_eq!(gap.close(at(10), false), Some(at(10)));
    }
}
