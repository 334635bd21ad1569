//! A cursor over the states of an instance domain.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::InstanceChange;
use super::indom_step::{IndomStep, find};
use crate::{Instance, InstanceId, Timestamp};

/// The instances of a domain at a time that is moved, best forwards: each
/// move costs what changed in between.
#[derive(Debug)]
pub struct IndomCursor<'m> {
    steps: &'m [IndomStep],
    applied: usize,
    /// The last whole state among them.
    whole: &'m [Instance],
    /// The changes since then: instances that are new, and numbers that are gone.
    changed: BTreeMap<InstanceId, Option<&'m Instance>>,
}

impl<'m> IndomCursor<'m> {
    pub(super) const fn new(steps: &'m [IndomStep]) -> Self {
        let changed = BTreeMap::new();
        Self { steps, applied: 0, whole: &[], changed }
    }

    /// Moves to the state at a time; false if that is before the first.
    pub fn move_to(&mut self, time: Timestamp) -> bool {
        let (applied, next) = self.steps.split_at_checked(self.applied).unwrap_or_default();
        let is_before = applied.last().is_some_and(|step| step.timestamp > time);
        let is_over = next.first().is_some_and(|step| step.timestamp <= time);
        // Mostly the timestamp is still within the same state.
        if is_before || is_over {
            self.apply(self.steps.partition_point(|step| step.timestamp <= time));
        }
        self.applied > 0
    }

    /// Moves to the state after `count` steps.
    pub(crate) fn apply(&mut self, count: usize) {
        if count < self.applied {
            self.applied = 0;
            self.whole = &[];
            self.changed.clear();
        }
        let steps = self.steps.get(self.applied..count).unwrap_or_default();
        let whole = steps.iter().rposition(|step| matches!(step.change, InstanceChange::Whole(_)));
        for step in steps.get(whole.unwrap_or(0)..).unwrap_or_default() {
            match &step.change {
                InstanceChange::Whole(instances) => {
                    self.whole = instances;
                    self.changed.clear();
                }
                InstanceChange::Difference { added, removed } => {
                    self.changed.extend(added.iter().map(|one| (one.id, Some(one))));
                    self.changed.extend(removed.iter().map(|id| (*id, None)));
                }
            }
        }
        self.applied = count;
    }

    /// Returns the name of an instance; `None` if it is not in the domain.
    pub fn name(&self, id: InstanceId) -> Option<&'m str> {
        let found = self.changed.get(&id).copied().unwrap_or_else(|| find(self.whole, id));
        found.map(|instance| &*instance.name)
    }

    /// Returns the name as [`name`](Self::name), looking first at `place`: many writers list the
    /// instances of a record in the order of the domain.
    pub fn name_near(&self, id: InstanceId, place: usize) -> Option<&'m str> {
        let near = self.whole.get(place).filter(|near| near.id == id && self.changed.is_empty());
        near.map(|instance| &*instance.name).or_else(|| self.name(id))
    }

    /// Returns all instances, sorted by number.
    pub fn instances(&self) -> Cow<'m, [Instance]> {
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
