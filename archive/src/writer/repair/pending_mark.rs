//! Marks where records are missing.

use std::time::Duration;

use crate::Timestamp;

/// The time from the last record to the mark after it, as in pmlogger.
const MARK_DELAY: Duration = Duration::from_millis(1);

/// Decides whether a mark has to follow the last record because others are missing.
#[derive(Default)]
pub(super) struct PendingMark {
    /// The time of the last record, and whether it is a mark.
    last: Option<(Timestamp, bool)>,
    records_missing: bool,
}

impl PendingMark {
    pub(super) const fn records_missing(&mut self) {
        self.records_missing = true;
    }

    /// Returns the next record; the time of the mark that is due before it. None is due where
    /// nothing is missing, at the start, and next to another mark.
    pub(super) fn due_before(&mut self, timestamp: Timestamp, is_mark: bool) -> Option<Timestamp> {
        let records_missing = std::mem::take(&mut self.records_missing);
        let (last, was_mark) = self.last.replace((timestamp, is_mark))?;
        let is_due = records_missing && !is_mark && !was_mark;
        is_due.then(|| last.saturating_add(MARK_DELAY).min(timestamp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(millis: i128) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn mark_is_due_only_where_results_are_missing() {
        let mut mark = PendingMark::default();
        mark.records_missing();
        assert_eq!(mark.due_before(time(0), false), None, "nothing before");
        assert_eq!(mark.due_before(time(10), false), None, "nothing missing");
        mark.records_missing();
        assert_eq!(mark.due_before(time(20), false), Some(time(11)));
        mark.records_missing();
        assert_eq!(mark.due_before(time(30), true), None, "a mark is there");
        mark.records_missing();
        assert_eq!(mark.due_before(time(40), false), None, "a mark was there");
    }

    #[test]
    fn a_mark_is_not_later_than_what_follows() {
        let mut mark = PendingMark::default();
        mark.due_before(time(10), false);
        mark.records_missing();
        assert_eq!(mark.due_before(time(10), false), Some(time(10)));
    }
}
