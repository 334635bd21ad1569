use super::*;
use crate::Version;
use crate::format::indom;
use proptest::prelude::*;

type Entries<'a> = &'a [(i32, Option<&'a str>)];

fn at(seconds: i64) -> Timestamp {
    Timestamp::new(seconds, 0).unwrap()
}

fn history(records: &[(i64, IndomRecordKind, Entries<'_>)]) -> IndomHistory {
    let records = records.iter().map(|(at, kind, entries)| (*at, *kind, entries.to_vec()));
    test_support::history(&records.collect::<Vec<_>>())
}

fn names(instances: Option<Cow<'_, [Instance]>>) -> Option<Vec<(i32, String)>> {
    let name = |one: &Instance| (one.id.get(), one.name.to_string());
    instances.map(|all| all.iter().map(name).collect())
}

fn expected(names: &[(i32, &str)]) -> Vec<(i32, String)> {
    names.iter().map(|(id, name)| (*id, (*name).to_owned())).collect()
}

const AB: Entries<'_> = &[(1, Some("a")), (3, Some("b"))];

#[test]
fn differences_add_and_remove() {
    let change: Entries<'_> = &[(1, None), (2, Some("c")), (9, Some("d"))];
    let history = history(&[(10, IndomRecordKind::Full, AB), (20, IndomRecordKind::Delta, change)]);
    assert_eq!(history.instances_at(at(9)), None);
    assert_eq!(names(history.instances_at(at(19))), Some(expected(&[(1, "a"), (3, "b")])));
    assert_eq!(
        names(history.instances_at(at(20))),
        Some(expected(&[(2, "c"), (3, "b"), (9, "d")]))
    );
    let union = history.union();
    assert_eq!(
        names(Some(union.into())),
        Some(expected(&[(1, "a"), (2, "c"), (3, "b"), (9, "d")]))
    );
}

#[test]
fn a_difference_does_not_rename_but_a_full_record_does() {
    let again: Entries<'_> = &[(1, Some("other"))];
    let delta = history(&[(10, IndomRecordKind::Full, AB), (20, IndomRecordKind::Delta, again)]);
    assert_eq!(names(delta.instances_at(at(20))), Some(expected(&[(1, "a"), (3, "b")])));
    let full = history(&[(10, IndomRecordKind::Full, AB), (20, IndomRecordKind::Full, again)]);
    assert_eq!(names(full.instances_at(at(20))), Some(expected(&[(1, "other")])));
    assert_eq!(full.name_at(InstanceId::new(1).unwrap(), at(10)), Some("a"));
    assert_eq!(full.name_at(InstanceId::new(3).unwrap(), at(30)), Some("b"));
}

#[test]
fn differences_that_do_not_fit_the_state_are_accepted() {
    let history =
        history(&[(10, IndomRecordKind::Delta, AB), (20, IndomRecordKind::Delta, &[(7, None)])]);
    assert_eq!(names(history.instances_at(at(20))), Some(expected(&[(1, "a"), (3, "b")])));
}

#[test]
fn a_full_record_without_instances_is_ignored() {
    let history = history(&[(10, IndomRecordKind::Full, AB), (20, IndomRecordKind::Full, &[])]);
    assert_eq!(history.states().len(), 1);
}

#[test]
fn time_decides_and_then_the_place_in_the_file() {
    let c: Entries<'_> = &[(5, Some("c"))];
    let d: Entries<'_> = &[(6, Some("d"))];
    let history = history(&[
        (20, IndomRecordKind::Full, c),
        (10, IndomRecordKind::Full, AB),
        (20, IndomRecordKind::Full, d),
    ]);
    assert_eq!(names(history.instances_at(at(15))), Some(expected(&[(1, "a"), (3, "b")])));
    assert_eq!(names(history.instances_at(at(20))), Some(expected(&[(6, "d")])));
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
    let record = indom::parse(Version::V3, IndomRecordKind::Full, &mut bytes).unwrap();
    let history = IndomHistory::from_records(vec![record.to_owned()]);
    let all = history.instances_at(at(10)).unwrap();
    let [first, .., last] = &*all else { panic!() };
    assert_eq!((last.id.get(), first.name.len()), (99_999, len));
    assert!(std::ptr::eq(first.name.as_str(), last.name.as_str()));
}

#[test]
fn repeated_names_are_kept_once() {
    let history = history(&[(10, IndomRecordKind::Full, AB), (20, IndomRecordKind::Full, AB)]);
    let states: Vec<_> = history.states().collect();
    let [first, second] = states.as_slice() else { panic!() };
    assert!(std::ptr::eq(first.instances[0].name.as_str(), second.instances[0].name.as_str()));
}

fn kept(history: &IndomHistory) -> usize {
    let kept = |step: &IndomStep| match &step.change {
        InstanceChange::Whole(all) => all.len(),
        InstanceChange::Difference { added, removed } => added.len() + removed.len(),
    };
    history.steps().iter().map(kept).sum()
}

#[test]
fn memory_of_a_changing_domain_follows_its_records() {
    let (instances, changes) = (2000, 3000);
    let whole = (0..instances).map(|id| (id, Some("x"))).collect();
    let change = |n: i32| {
        (
            i64::from(n),
            IndomRecordKind::Delta,
            vec![(n % instances, (n / instances % 2 == 1).then_some("y"))],
        )
    };
    let records: Vec<_> = std::iter::once((0, IndomRecordKind::Full, whole))
        .chain((0..changes).map(change))
        .collect();
    let history = test_support::history(&records);
    let named: usize = records.iter().map(|(_, _, entries)| entries.len()).sum();
    // 3000 whole states would be millions.
    assert!(kept(&history) <= 2 * named + changes as usize, "{}", kept(&history));
    assert_eq!(history.states().len(), changes as usize + 1);
    assert_eq!(history.instances_at(at(1499)).unwrap().len(), 500);
    assert_eq!(history.instances_at(at(2499)).unwrap().len(), 500);
}

/// Computes each state from the one before.
fn states(records: &[test_support::DomainRecord<'_>]) -> Vec<(i64, BTreeMap<i32, String>)> {
    let mut sorted: Vec<_> = records.iter().collect();
    sorted.sort_by_key(|(seconds, ..)| *seconds);
    let mut states: Vec<(i64, BTreeMap<i32, String>)> = Vec::new();
    for (seconds, kind, entries) in sorted {
        let before = states.last().filter(|_| *kind == IndomRecordKind::Delta);
        let mut state = before.map(|(_, state)| state.clone()).unwrap_or_default();
        if *kind == IndomRecordKind::Full && entries.is_empty() {
            continue;
        }
        for (id, name) in entries {
            match name {
                Some(name) => drop(state.entry(*id).or_insert_with(|| (*name).to_owned())),
                None => drop(state.remove(id)),
            }
        }
        states.push((*seconds, state));
    }
    states
}

fn record() -> impl Strategy<Value = test_support::DomainRecord<'static>> {
    let name = prop::sample::select(&["a", "b", "c"][..]);
    let whole = prop::collection::btree_map(0..30i32, name.clone().prop_map(Some), 0..20);
    let delta = prop::collection::btree_map(0..30i32, prop::option::of(name), 0..4);
    prop_oneof![
        1 => whole.prop_map(|all| (IndomRecordKind::Full, all)),
        6 => delta.prop_map(|change| (IndomRecordKind::Delta, change)),
    ]
    .prop_flat_map(|(kind, entries)| {
        (0..20i64).prop_map(move |at| (at, kind, entries.clone().into_iter().collect()))
    })
}

proptest! {
    #[test]
    fn every_state_is_what_applying_all_records_gives(
        records in prop::collection::vec(record(), 0..40),
        times in prop::collection::vec(-1..21i64, 1..20),
    ) {
        let history = test_support::history(&records);
        let expected = states(&records);
        let named = |all: &[Instance]| -> BTreeMap<i32, String> {
            all.iter().map(|one| (one.id.get(), one.name.to_string())).collect()
        };
        let found: Vec<_> =
            history.states().map(|s| (s.timestamp.seconds(), named(&s.instances))).collect();
        prop_assert_eq!(&found, &expected);
        let mut cursor = history.cursor();
        for time in times {
            let state = expected.iter().rfind(|(seconds, _)| *seconds <= time);
            let found = history.instances_at(at(time)).as_deref().map(named);
            prop_assert_eq!(found.as_ref(), state.map(|(_, all)| all));
            prop_assert_eq!(cursor.move_to(at(time)), state.is_some());
            for id in 0..30 {
                let name = state.and_then(|(_, all)| all.get(&id)).map(String::as_str);
                let id = InstanceId::new(id).unwrap();
                prop_assert_eq!(cursor.name(id), name);
                prop_assert_eq!(cursor.name_near(id, 3), name);
                let newest = expected.iter().rev().find_map(|(_, all)| all.get(&id.get()));
                let newest = newest.map(String::as_str);
                prop_assert_eq!(history.name_at(id, at(time)), name.or(newest));
                let union = history.union();
                let one = union.iter().find(|one| one.id == id).map(|one| &*one.name);
                prop_assert_eq!(one, newest);
            }
        }
    }
}
