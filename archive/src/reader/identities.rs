//! The instances of a domain by name, where its numbers change their names.
//!
//! A record has the number of an instance, and the domain its name. Most producers keep the
//! numbers of names; some renumber them in each run, so that number 0 is `/a` until a restart
//! and `/b` after it. A series is a metric and a *name*. So that columns, lifetimes and
//! selections can go by a number all the same, each name gets one that it keeps at all times,
//! its *identity*:
//!
//! ```text
//!   domain at 10:00   0 /a   1 /b        identities   0 /a   1 /b   2147483647 /c
//!   domain at 10:07   0 /b   1 /c        at 10:07     0 -> 1, 1 -> 2147483647
//! ```
//!
//! Where no number changes its name, and no name its number, identities are the numbers, and
//! nothing of this module is kept.

use std::ops::Range;

use hashbrown::{HashMap, HashSet};

use super::InstanceChange;
use super::indom_step::IndomStep;
use crate::{ByteText, Instance, InstanceId, Timestamp};

/// The instances that something is over time, each with the time from which on it is.
type OverTime = HashMap<InstanceId, Vec<(Timestamp, InstanceId)>>;

/// The instance that each number of a domain is, over time.
#[derive(Debug)]
pub(crate) struct Identities {
    /// The identities that each number of the domain is. The first also holds before its time.
    of_numbers: OverTime,
    numbers: OverTime,
    /// The times at which a number becomes another identity, in order.
    changes: Vec<Timestamp>,
    /// Numbers above it were given to names that could not have their own.
    largest_free: i32,
}

impl Identities {
    /// Finds the identities in the states of a domain, and the same states with identities for
    /// numbers; `None` if they are the numbers.
    pub(super) fn find(steps: &[IndomStep]) -> Option<(Self, Vec<IndomStep>)> {
        if is_constant(steps) {
            return None;
        }
        let mut assignment = Assignment::default();
        let steps = steps.iter().map(|step| assignment.step(step)).collect();
        let Assignment { of_numbers, numbers, mut changes, fresh, .. } = assignment;
        changes.dedup();
        let largest_free = i32::MAX - fresh;
        Some((Self { of_numbers, numbers, changes, largest_free }, steps))
    }

    /// Returns the identity that a number has at a time: that of its name then or, while it is not
    /// in the domain, before. `None` for a number that never was in the domain and is the identity
    /// of another.
    pub(crate) fn identity(&self, number: InstanceId, time: Timestamp) -> Option<InstanceId> {
        match self.of_numbers.get(&number) {
            Some(over_time) => newest(over_time, time),
            None => Some(number).filter(|number| number.get() <= self.largest_free),
        }
    }

    /// Returns the number that an identity has at a time, or had before.
    pub(crate) fn number_at(&self, identity: InstanceId, time: Timestamp) -> Option<InstanceId> {
        match self.numbers.get(&identity) {
            Some(over_time) => newest(over_time, time),
            None => self.identity(identity, time).filter(|same| *same == identity),
        }
    }

    pub(crate) fn numbers_of(
        &self,
        identities: &HashSet<InstanceId>,
        time: Timestamp,
    ) -> HashSet<InstanceId> {
        let numbers = identities.iter().filter_map(|identity| {
            let number = self.number_at(*identity, time)?;
            // Another name may have it now.
            (self.identity(number, time) == Some(*identity)).then_some(number)
        });
        numbers.collect()
    }

    /// Lists all identities that a number ever was.
    pub(crate) fn ever(&self, number: InstanceId) -> impl Iterator<Item = InstanceId> {
        let over_time = self.of_numbers.get(&number);
        let itself = over_time.is_none().then(|| self.identity(number, Timestamp::MAX)).flatten();
        over_time.into_iter().flatten().map(|(_, identity)| *identity).chain(itself)
    }

    /// Returns the span around a time in which all numbers are the same identities.
    pub(crate) fn unchanged_around(&self, time: Timestamp) -> Range<Timestamp> {
        let after = self.changes.partition_point(|change| *change <= time);
        let from = after.checked_sub(1).and_then(|at| self.changes.get(at));
        let until = self.changes.get(after).copied().unwrap_or(Timestamp::MAX);
        from.copied().unwrap_or(Timestamp::MIN)..until
    }
}

/// Returns the newest entry at a time; the first also holds before its time.
fn newest(over_time: &[(Timestamp, InstanceId)], time: Timestamp) -> Option<InstanceId> {
    let after = over_time.partition_point(|(from, _)| *from <= time);
    over_time.get(after.saturating_sub(1)).map(|(_, instance)| *instance)
}

/// Returns true if each number always has the same name, and each name the same number.
fn is_constant(steps: &[IndomStep]) -> bool {
    let mut names: HashMap<InstanceId, &ByteText> = HashMap::new();
    let is_kept = steps
        .iter()
        .flat_map(|step| step.change.named())
        .all(|Instance { id, name }| names.insert(*id, name).is_none_or(|known| known == name));
    let mut distinct = HashSet::with_capacity(names.len());
    is_kept && names.into_values().all(|name| distinct.insert(name))
}

/// Gives identities to names, step by step. Later steps change none of them.
#[derive(Default)]
struct Assignment {
    of_numbers: OverTime,
    numbers: OverTime,
    /// A name has more than one if several instances had it at one time.
    of_names: HashMap<ByteText, Vec<InstanceId>>,
    given: HashSet<InstanceId>,
    /// The instances of the domain, and their identities.
    present: HashMap<InstanceId, (ByteText, InstanceId)>,
    taken: HashSet<InstanceId>,
    changes: Vec<Timestamp>,
    /// Count of numbers that were tried, from the largest down.
    fresh: i32,
}

impl Assignment {
    /// Returns the same step with identities for numbers.
    fn step(&mut self, step: &IndomStep) -> IndomStep {
        let timestamp = step.timestamp;
        let change = match &step.change {
            InstanceChange::Whole(instances) => {
                self.keep_only(instances);
                InstanceChange::Whole(self.add(instances, timestamp))
            }
            InstanceChange::Difference { added, removed } => {
                let mut gone: Vec<InstanceId> =
                    removed.iter().filter_map(|number| self.remove(*number)).collect();
                let added = self.add(added, timestamp);
                // A name that only moved to another number stays.
                gone.retain(|id| !self.taken.contains(id));
                gone.sort_unstable();
                InstanceChange::Difference { added, removed: gone.into() }
            }
        };
        IndomStep { timestamp, change }
    }

    /// Removes all instances but those that are the same in the next state.
    fn keep_only(&mut self, next: &[Instance]) {
        let names: HashMap<InstanceId, &ByteText> =
            next.iter().map(|instance| (instance.id, &instance.name)).collect();
        let taken = &mut self.taken;
        self.present.retain(|number, (name, identity)| {
            let is_kept = names.get(number).is_some_and(|next| *next == name);
            if !is_kept {
                taken.remove(identity);
            }
            is_kept
        });
    }

    fn remove(&mut self, number: InstanceId) -> Option<InstanceId> {
        let (_, identity) = self.present.remove(&number)?;
        self.taken.remove(&identity);
        Some(identity)
    }

    /// Returns instances under their identities, sorted; those that were not there get one.
    fn add(&mut self, instances: &[Instance], timestamp: Timestamp) -> Box<[Instance]> {
        let mut named: Vec<Instance> = instances
            .iter()
            .map(|instance| Instance {
                id: self.identity(instance, timestamp),
                name: instance.name.clone(),
            })
            .collect();
        named.sort_unstable_by_key(|instance| instance.id);
        named.into()
    }

    fn identity(&mut self, instance: &Instance, timestamp: Timestamp) -> InstanceId {
        if let Some((_, identity)) = self.present.get(&instance.id) {
            return *identity;
        }
        let of_name = self.of_names.get(&instance.name).into_iter().flatten();
        let free = of_name.copied().find(|identity| !self.taken.contains(identity));
        let identity = free.unwrap_or_else(|| self.give(instance));
        self.taken.insert(identity);
        self.present.insert(instance.id, (instance.name.clone(), identity));
        let numbers = self.numbers.entry(identity).or_default();
        if numbers.last().is_none_or(|(_, number)| *number != instance.id) {
            numbers.push((timestamp, instance.id));
        }
        let over_time = self.of_numbers.entry(instance.id).or_default();
        if over_time.last().is_none_or(|(_, known)| *known != identity) {
            if !over_time.is_empty() {
                self.changes.push(timestamp);
            }
            over_time.push((timestamp, identity));
        }
        identity
    }

    /// Gives a name a new identity: its number if no other name has it.
    fn give(&mut self, instance: &Instance) -> InstanceId {
        let mut identity = instance.id;
        // There are more numbers than memory has room for names.
        while !self.given.insert(identity) {
            identity = InstanceId::new(i32::MAX - self.fresh).unwrap_or(identity);
            self.fresh += 1;
        }
        self.of_names.entry(instance.name.clone()).or_default().push(identity);
        identity
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IndomHistory;
    use crate::format::indom::IndomRecordKind;
    use crate::reader::indom_test_support::{DomainRecord, history};

    fn time(seconds: i64) -> Timestamp {
        Timestamp::new(seconds, 0).unwrap()
    }

    fn id(number: i32) -> InstanceId {
        InstanceId::new(number).unwrap()
    }

    fn full<'a>(seconds: i64, names: &[(i32, &'a str)]) -> DomainRecord<'a> {
        (
            seconds,
            IndomRecordKind::Full,
            names.iter().map(|(id, name)| (*id, Some(*name))).collect(),
        )
    }

    fn name(history: &IndomHistory, number: i32, seconds: i64) -> Option<String> {
        let identity = history.identity_at(id(number), time(seconds))?;
        Some(history.by_identity().name_at(identity, time(seconds))?.to_owned())
    }

    #[test]
    fn numbers_that_keep_their_names_are_the_identities() {
        let records = [
            full(10, &[(1, "a"), (2, "b")]),
            full(20, &[(2, "b")]),
            full(30, &[(1, "a"), (7, "c")]),
        ];
        let history = history(&records);
        assert!(Identities::find(history.steps()).is_none());
        assert_eq!(history.identity_at(id(7), time(0)), Some(id(7)));
        assert_eq!(history.by_identity().union(), history.union());
    }

    #[test]
    fn a_name_has_one_identity_whatever_its_number_is() {
        let records = [
            full(10, &[(0, "a"), (1, "b")]),
            full(20, &[(0, "b"), (1, "c")]),
            full(30, &[(0, "a"), (1, "b"), (2, "c")]),
        ];
        let history = history(&records);
        let names = |seconds| [0, 1, 2].map(|number| name(&history, number, seconds));
        let expected = |names: [&str; 2]| names.map(|name| Some(name.to_owned()));
        assert_eq!(names(5)[..2], expected(["a", "b"]), "before the first state");
        assert_eq!(names(19)[..2], expected(["a", "b"]));
        assert_eq!(names(20)[..2], expected(["b", "c"]));
        assert_eq!(names(30)[..2], expected(["a", "b"]));
        assert_eq!(names(30)[2].as_deref(), Some("c"));
        let mut all: Vec<String> =
            history.by_identity().union().into_iter().map(|one| one.name.to_string()).collect();
        all.sort();
        assert_eq!(all, ["a", "b", "c"]);
        let (identities, _) = Identities::find(history.steps()).unwrap();
        assert_eq!(identities.unchanged_around(time(15)), Timestamp::MIN..time(20));
        assert_eq!(identities.unchanged_around(time(20)), time(20)..time(30));
        assert_eq!(identities.unchanged_around(time(99)), time(30)..Timestamp::MAX);
        let b = HashSet::from_iter([identities.identity(id(1), time(10)).unwrap()]);
        let numbers = |seconds| identities.numbers_of(&b, time(seconds));
        assert_eq!(numbers(10), HashSet::from_iter([id(1)]));
        assert_eq!(numbers(20), HashSet::from_iter([id(0)]));
        assert_eq!(identities.ever(id(0)).count(), 3, "a, b and a again");
    }

    #[test]
    fn a_name_that_moves_within_a_difference_stays_in_the_domain() {
        let difference = (20, IndomRecordKind::Delta, vec![(0, None), (5, Some("a"))]);
        let history = history(&[full(10, &[(0, "a"), (1, "b")]), difference]);
        let by_identity = history.by_identity();
        let names = |seconds| {
            let state = by_identity.instances_at(time(seconds)).unwrap();
            state.iter().map(|one| one.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(20), names(10));
        assert_eq!(name(&history, 5, 20).as_deref(), Some("a"));
        assert_eq!(name(&history, 0, 20).as_deref(), Some("a"), "the last name that it had");
    }

    #[test]
    fn instances_of_one_name_at_one_time_stay_apart() {
        let history =
            history(&[full(10, &[(0, "x"), (1, "x"), (2, "y")]), full(20, &[(2, "x"), (1, "x")])]);
        for seconds in [10, 20] {
            let state = history.instances_at(time(seconds)).unwrap();
            let identities: HashSet<_> = state
                .iter()
                .map(|one| history.identity_at(one.id, time(seconds)).unwrap())
                .collect();
            assert_eq!(identities.len(), state.len());
        }
    }

    #[test]
    fn no_value_without_a_name_gets_that_of_another() {
        let history = history(&[full(10, &[(0, "a")]), full(20, &[(0, "b")])]);
        assert_eq!(name(&history, 0, 20).as_deref(), Some("b"));
        assert_eq!(history.identity_at(id(i32::MAX), time(20)), None);
        assert_eq!(history.identity_at(id(9), time(20)), Some(id(9)));
    }
}
