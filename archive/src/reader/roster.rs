//! Who is in a domain at one time after another.

use std::borrow::Cow;
use std::collections::BTreeMap;

use pcp_types::{InstanceId, Timestamp};

use super::indom_history::{Change, IndomHistory, Step, find};
use crate::format::indom::Instance;

/// The instances of a domain at a time that is moved, best forwards: each
/// move costs what changed in between.
#[derive(Debug)]
pub(crate) struct Roster<'m> {
    steps: &'m [Step],
    /// So many steps are applied.
    applied: usize,
    /// The last whole state among them.
    whole: &'m [Instance],
    /// What changed since: instances that are new, and numbers that are gone.
    changed: BTreeMap<InstanceId, Option<&'m Instance>>,
}

impl<'m> Roster<'m> {
    /// At a time before the first state.
    pub(crate) fn new(history: &'m IndomHistory) -> Self {
        let changed = BTreeMap::new();
        Self { steps: history.steps(), applied: 0, whole: &[], changed }
    }

    /// Moves to the state at a time; false if that is before the first.
    pub(crate) fn move_to(&mut self, time: Timestamp) -> bool {
        let is_over = |at: usize| self.steps.get(at).is_some_and(|step| step.stamp <= time);
        let has_begun = self.applied.checked_sub(1).is_none_or(is_over);
        // Mostly the time is still within the state that was asked for last.
        if !has_begun || is_over(self.applied) {
            self.apply(self.steps.partition_point(|step| step.stamp <= time));
        }
        self.applied > 0
    }

    /// Moves to the state after so many steps.
    pub(crate) fn apply(&mut self, count: usize) {
        if count < self.applied {
            (self.applied, self.whole) = (0, &[]);
            self.changed.clear();
        }
        let news = self.steps.get(self.applied..count).unwrap_or_default();
        let is_whole = |step: &Step| matches!(step.change, Change::Whole(_));
        let from = news.iter().rposition(is_whole).unwrap_or(0);
        for step in news.get(from..).unwrap_or_default() {
            match &step.change {
                Change::Whole(instances) => {
                    self.whole = instances;
                    self.changed.clear();
                }
                Change::Difference { added, removed } => {
                    self.changed.extend(added.iter().map(|one| (one.id, Some(one))));
                    self.changed.extend(removed.iter().map(|id| (*id, None)));
                }
            }
        }
        self.applied = count;
    }

    /// The name of an instance; `None` if it is not in the domain.
    pub(crate) fn name(&self, id: InstanceId) -> Option<&'m str> {
        let found = self.changed.get(&id).copied().unwrap_or_else(|| find(self.whole, id));
        found.map(|instance| &*instance.name)
    }

    /// As [`name`](Self::name), of an instance that is probably the one at
    /// this place: records list instances in the order of the domain nearly
    /// always.
    pub(crate) fn name_near(&self, id: InstanceId, place: usize) -> Option<&'m str> {
        let near = self.whole.get(place).filter(|near| near.id == id && self.changed.is_empty());
        near.map(|instance| &*instance.name).or_else(|| self.name(id))
    }

    /// All instances, sorted by number.
    pub(crate) fn instances(&self) -> Cow<'m, [Instance]> {
        if self.changed.is_empty() {
            return Cow::Borrowed(self.whole);
        }
        let mut all = Vec::with_capacity(self.whole.len() + self.changed.len());
        let mut old = self.whole.iter().peekable();
        for (id, changed) in &self.changed {
            while let Some(kept) = old.next_if(|instance| instance.id < *id) {
                all.push(kept.clone());
            }
            old.next_if(|instance| instance.id == *id);
            all.extend(changed.cloned());
        }
        all.extend(old.cloned());
        Cow::Owned(all)
    }
}
