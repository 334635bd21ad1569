//! The labels of one target over time.

use crate::{LabelSet, Timestamp};

/// The labels of a target from one time to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelState {
    /// The time from which they hold.
    pub timestamp: Timestamp,
    /// One set, or one for each instance.
    pub sets: Vec<LabelSet>,
}

/// All states of a target's labels, rising in time. Each replaces the one
/// before entirely; of two with one time the first in the file holds, as for
/// PCP (`addlabel` in `src/libpcp/src/logmeta.c`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelHistory {
    states: Vec<LabelState>,
}

impl LabelHistory {
    /// Returns all states, none earlier than the one before; never empty in an archive's
    /// metadata.
    pub fn states(&self) -> &[LabelState] {
        &self.states
    }

    /// Returns the label sets at a time; `None` before the first state.
    pub fn sets_at(&self, time: Timestamp) -> Option<&[LabelSet]> {
        let after = self.states.partition_point(|state| state.timestamp <= time);
        let newest = self.states.get(after.checked_sub(1)?)?;
        let first = self.states.partition_point(|state| state.timestamp < newest.timestamp);
        Some(&self.states.get(first)?.sets)
    }

    pub(super) fn push(&mut self, timestamp: Timestamp, sets: Vec<LabelSet>) {
        self.states.push(LabelState { timestamp, sets });
    }

    /// Appends the states of a later archive, except those that repeat the last
    /// one.
    pub(super) fn extend(&mut self, later: &Self) {
        for state in &later.states {
            if self.states.last().is_none_or(|last| last.sets != state.sets) {
                self.states.push(state.clone());
            }
        }
        self.sort();
    }

    /// Sorts by time; records of one time keep their order.
    pub(super) fn sort(&mut self) {
        self.states.sort_by_key(|state| state.timestamp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_state_holds_and_of_one_time_the_first_in_the_file() {
        let mut history = LabelHistory::default();
        for (second, json) in [(20, "b"), (10, "a"), (20, "c")] {
            let set = LabelSet { json: json.to_owned(), ..LabelSet::default() };
            history.push(Timestamp::new(second, 0).unwrap(), vec![set]);
        }
        history.sort();
        for (second, expected) in [(9, None), (19, Some("a")), (20, Some("b"))] {
            let sets = history.sets_at(Timestamp::new(second, 0).unwrap());
            assert_eq!(sets.map(|sets| sets[0].json.as_str()), expected, "{second}");
        }
    }
}
