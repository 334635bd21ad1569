//! An instance domain over time.

use std::sync::Arc;

use hashbrown::HashSet;
use pcp_types::{InstanceId, Timestamp};

use crate::format::bytes::lossy;
use crate::format::indom::{IndomRecord, Instance, Kind};

/// The instances of a domain from one time to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndomState {
    /// From when on.
    pub stamp: Timestamp,
    /// All instances, sorted by number. Empty after a difference that removed
    /// the last one.
    pub instances: Vec<Instance>,
}

/// All states of an instance domain, rising in time.
///
/// Differences are resolved against the state that precedes in time, as
/// `__pmLogUndeltaInDom` does: an instance that a difference names again keeps
/// its name, an unknown one that it removes does not matter, and a difference
/// with nothing before it counts as the whole domain. Full records without
/// instances are ignored, as in PCP. Of two records with one time the later in
/// the file holds.
#[derive(Debug, Clone, Default)]
pub struct IndomHistory {
    states: Vec<IndomState>,
    /// Records in file order, until they are resolved.
    pending: Vec<Pending>,
    /// Each name once, however many records repeat it.
    names: HashSet<Arc<str>>,
}

#[derive(Debug, Clone)]
struct Pending {
    kind: Kind,
    stamp: Timestamp,
    entries: Vec<(InstanceId, Option<Arc<str>>)>,
}

impl IndomHistory {
    /// All states, none earlier than the one before; never empty in an
    /// archive's metadata.
    pub fn states(&self) -> &[IndomState] {
        &self.states
    }

    /// The instances at a time; `None` before the first state.
    pub fn at(&self, time: Timestamp) -> Option<&[Instance]> {
        let after = self.states.partition_point(|state| state.stamp <= time);
        let state = self.states.get(after.checked_sub(1)?)?;
        Some(&state.instances)
    }

    /// Every instance that was ever in the domain, sorted by number, with its
    /// newest name (`pmGetInDomArchive`).
    pub fn union(&self) -> Vec<Instance> {
        let mut all: Vec<Instance> = Vec::new();
        for state in self.states.iter().rev() {
            for instance in &state.instances {
                if let Err(at) = all.binary_search_by_key(&instance.id, |known| known.id) {
                    all.insert(at, instance.clone());
                }
            }
        }
        all
    }

    /// The newest name of an instance at a time or, if it is not in the
    /// domain then, at any time.
    pub fn name_at(&self, id: InstanceId, time: Timestamp) -> Option<&str> {
        let find = |instances: &'_ [Instance]| {
            instances.binary_search_by_key(&id, |instance| instance.id).ok()
        };
        let now = self.at(time).and_then(|instances| instances.get(find(instances)?));
        let ever = || {
            let mut states = self.states.iter().rev();
            states.find_map(|state| state.instances.get(find(&state.instances)?))
        };
        now.or_else(ever).map(|instance| &*instance.name)
    }

    pub(super) fn push(&mut self, record: &IndomRecord<'_>) {
        let names = record.names();
        let shared = names.iter().map(|(start, name)| (*start, self.intern(&lossy(name))));
        let shared: Vec<(u32, Arc<str>)> = shared.collect();
        let name = |start| {
            let at = shared.binary_search_by_key(&start, |(start, _)| *start).ok()?;
            shared.get(at).map(|(_, name)| Arc::clone(name))
        };
        let entries: Vec<_> =
            record.entries().map(|(id, start)| (id, start.and_then(name))).collect();
        if entries.is_empty() && record.kind == Kind::Full {
            return;
        }
        self.pending.push(Pending { kind: record.kind, stamp: record.stamp, entries });
    }

    /// Appends what a later archive says, but for what repeats the last state.
    pub(super) fn extend(&mut self, later: &Self) {
        for state in &later.states {
            if self.states.last().is_none_or(|last| last.instances != state.instances) {
                self.states.push(state.clone());
            }
        }
        self.states.sort_by_key(|state| state.stamp);
    }

    fn intern(&mut self, name: &str) -> Arc<str> {
        Arc::clone(self.names.get_or_insert_with(name, |name| Arc::from(name)))
    }

    /// Turns the records into states.
    pub(super) fn resolve(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        self.names = HashSet::new();
        pending.sort_by_key(|record| record.stamp);
        self.states.reserve_exact(pending.len());
        for record in pending {
            let before = match record.kind {
                Kind::Full => &[][..],
                Kind::Delta => self.states.last().map_or(&[][..], |state| &state.instances),
            };
            let instances = apply(before, record.entries);
            self.states.push(IndomState { stamp: record.stamp, instances });
        }
    }
}

/// The instances after a record; both sides are merged by number.
fn apply(before: &[Instance], mut entries: Vec<(InstanceId, Option<Arc<str>>)>) -> Vec<Instance> {
    entries.sort_by_key(|(id, _)| *id);
    entries.dedup_by_key(|(id, _)| *id);
    let mut after = Vec::with_capacity(before.len() + entries.len());
    let mut old = before.iter().peekable();
    for (id, name) in entries {
        while let Some(kept) = old.next_if(|instance| instance.id < id) {
            after.push(kept.clone());
        }
        let known = old.next_if(|instance| instance.id == id);
        match (known, name) {
            (_, None) => {}
            (Some(known), Some(_)) => after.push(known.clone()),
            (None, Some(name)) => after.push(Instance { id, name }),
        }
    }
    after.extend(old.cloned());
    after
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::archive_label::Version;
    use crate::format::indom;
    use crate::format::metadata_record::test_support::body;
    use pcp_types::InDom;

    type Entries<'a> = &'a [(i32, Option<&'a str>)];

    fn at(seconds: i64) -> Timestamp {
        Timestamp::new(seconds, 0).unwrap()
    }

    fn history(records: &[(i64, Kind, Entries<'_>)]) -> IndomHistory {
        let mut history = IndomHistory::default();
        for (seconds, kind, entries) in records {
            let entries: Vec<_> =
                entries.iter().map(|(id, name)| (InstanceId::new(*id).unwrap(), *name)).collect();
            let (indom, mut bytes) = (InDom::new(1, 1).unwrap(), Vec::new());
            indom::encode(Version::V3, *kind, at(*seconds), indom, &entries, &mut bytes).unwrap();
            let record = indom::parse(Version::V3, *kind, &mut body(&bytes)).unwrap();
            history.push(&record);
        }
        history.resolve();
        history
    }

    fn names(instances: Option<&[Instance]>) -> Option<Vec<(i32, &str)>> {
        instances.map(|all| all.iter().map(|one| (one.id.get(), &*one.name)).collect())
    }

    const AB: Entries<'_> = &[(1, Some("a")), (3, Some("b"))];

    #[test]
    fn differences_add_and_remove() {
        let change: Entries<'_> = &[(1, None), (2, Some("c")), (9, Some("d"))];
        let history = history(&[(10, Kind::Full, AB), (20, Kind::Delta, change)]);
        assert_eq!(history.at(at(9)), None);
        assert_eq!(names(history.at(at(19))), Some(vec![(1, "a"), (3, "b")]));
        assert_eq!(names(history.at(at(20))), Some(vec![(2, "c"), (3, "b"), (9, "d")]));
        let union = history.union();
        assert_eq!(names(Some(&union)), Some(vec![(1, "a"), (2, "c"), (3, "b"), (9, "d")]));
    }

    #[test]
    fn a_difference_does_not_rename_but_a_full_record_does() {
        let again: Entries<'_> = &[(1, Some("other"))];
        let delta = history(&[(10, Kind::Full, AB), (20, Kind::Delta, again)]);
        assert_eq!(names(delta.at(at(20))), Some(vec![(1, "a"), (3, "b")]));
        let full = history(&[(10, Kind::Full, AB), (20, Kind::Full, again)]);
        assert_eq!(names(full.at(at(20))), Some(vec![(1, "other")]));
        assert_eq!(full.name_at(InstanceId::new(1).unwrap(), at(10)), Some("a"));
        assert_eq!(full.name_at(InstanceId::new(3).unwrap(), at(30)), Some("b"));
    }

    #[test]
    fn removing_an_unknown_instance_and_a_difference_with_nothing_before_it_are_accepted() {
        let history = history(&[(10, Kind::Delta, AB), (20, Kind::Delta, &[(7, None)])]);
        assert_eq!(names(history.at(at(20))), Some(vec![(1, "a"), (3, "b")]));
    }

    #[test]
    fn a_full_record_without_instances_is_ignored() {
        let history = history(&[(10, Kind::Full, AB), (20, Kind::Full, &[])]);
        assert_eq!(history.states().len(), 1);
    }

    #[test]
    fn time_decides_and_then_the_place_in_the_file() {
        let c: Entries<'_> = &[(5, Some("c"))];
        let d: Entries<'_> = &[(6, Some("d"))];
        let history = history(&[(20, Kind::Full, c), (10, Kind::Full, AB), (20, Kind::Full, d)]);
        assert_eq!(names(history.at(at(15))), Some(vec![(1, "a"), (3, "b")]));
        assert_eq!(names(history.at(at(20))), Some(vec![(6, "d")]));
    }

    #[test]
    fn a_long_name_of_many_instances_is_read_once() {
        let (n, len) = (100_000u32, 1 << 20);
        let mut rest = [0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0x04, 0x40, 0, 1].to_vec();
        rest.extend(n.to_be_bytes());
        rest.extend((0..n).flat_map(u32::to_be_bytes));
        rest.resize(rest.len() + 4 * n as usize, 0);
        rest.resize(rest.len() + len, b'x');
        rest.push(0);
        let mut bytes = crate::format::bytes::Bytes::new(&rest);
        let record = indom::parse(Version::V3, Kind::Full, &mut bytes).unwrap();
        let mut history = IndomHistory::default();
        history.push(&record);
        history.resolve();
        let [first, .., last] = history.at(at(10)).unwrap() else { panic!() };
        assert_eq!((last.id.get(), first.name.len()), (99_999, len));
        assert!(Arc::ptr_eq(&first.name, &last.name));
    }

    #[test]
    fn repeated_names_are_kept_once() {
        let history = history(&[(10, Kind::Full, AB), (20, Kind::Full, AB)]);
        let [first, second] = history.states() else { panic!() };
        assert!(Arc::ptr_eq(&first.instances[0].name, &second.instances[0].name));
    }
}
