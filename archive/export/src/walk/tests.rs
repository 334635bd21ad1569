use std::collections::BTreeMap;
use std::fs;

use pcp_archive::internal::{ReplaceOutcome, remove_archive, replace_by_reduced};
use pcp_archive::{ArchiveSet, InstanceId, Pmid, Source};
use proptest::prelude::*;
use tempfile::TempDir;
use test_archives::{Builder, Cell, at, scratch};

use super::*;
use crate::selection::{MetricSelection, MetricText};
use crate::test_support::{begin, event, with_events};

type Observations = Vec<(Pmid, Option<InstanceId>, Number)>;

/// What a step is, in a form that survives the walk.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    timestamp: i64,
    kind: StepKind,
    position: Position,
    changes: Vec<Change>,
    observations: Observations,
}

impl Seen {
    fn of(step: &Step<'_>) -> Self {
        let observations = step.observations.iter().map(|one| {
            let series = step.catalog.series(one.series).unwrap();
            (series.pmid, series.instance, one.value)
        });
        Self {
            timestamp: step.timestamp,
            kind: step.kind,
            position: step.position.clone(),
            changes: step.changes.to_vec(),
            observations: observations.collect(),
        }
    }
}

fn all(walk: &mut Walk) -> Vec<Seen> {
    let mut seen = Vec::new();
    while let Some(step) = walk.next().unwrap() {
        seen.push(Seen::of(&step));
    }
    seen
}

fn walk(directory: &Path, start: Start) -> Walk {
    Walk::new(Archives::Directory(directory.to_owned()), start).unwrap()
}

fn begin_shop(base: &Path) -> Builder {
    begin(base)
        .metric("mmv.shop.orders", "u64 counter count")
        .metric("mmv.shop.disks", "u64 counter count")
        .instances("mmv.shop.disks", ["disk0", "disk1", "disk2", "disk3"])
}

fn orders(orders: u64) -> Vec<(String, Cell)> {
    vec![("mmv.shop.orders".into(), orders.into())]
}

/// The values of disks by their numbers. The metric is in the record also without any.
fn disks(disks: &[(i32, u64)]) -> Vec<(String, Cell)> {
    let none = [("mmv.shop.disks".into(), Cell::Absent)];
    let disks = disks.iter().map(|(id, value)| (format!("mmv.shop.disks[{id}]"), (*value).into()));
    none.into_iter().chain(disks).collect()
}

#[derive(Debug, Clone)]
enum Random {
    Orders(u64),
    Disks(Vec<(i32, u64)>),
    Both(u64, Vec<(i32, u64)>),
    Failed,
    Mark,
    NextVolume,
    NextArchive,
}

fn random() -> impl Strategy<Value = Vec<Random>> {
    let disks = || {
        proptest::collection::btree_map(0..4, any::<u64>(), 0..4)
            .prop_map(|disks| disks.into_iter().collect::<Vec<_>>())
            .prop_shuffle()
    };
    let record = prop_oneof![
        4 => any::<u64>().prop_map(Random::Orders),
        4 => disks().prop_map(Random::Disks),
        8 => (any::<u64>(), disks()).prop_map(|(orders, disks)| Random::Both(orders, disks)),
        1 => Just(Random::Failed),
        1 => Just(Random::Mark),
        1 => Just(Random::NextVolume),
        1 => Just(Random::NextArchive),
    ];
    proptest::collection::vec(record, 1..40)
}

fn written(records: &[Random]) -> TempDir {
    let directory = scratch();
    let begin = |second: i64| {
        begin_shop(&directory.path().join(format!("a{second:03}"))).row(second, orders(0))
    };
    let mut builder = begin(0);
    let mut after_mark = false;
    for (second, record) in (1..).zip(records) {
        let was_mark = std::mem::replace(&mut after_mark, matches!(record, Random::Mark));
        builder = match record {
            Random::Orders(value) => builder.row(second, orders(*value)),
            Random::Disks(values) => builder.row(second, disks(values)),
            Random::Both(value, values) => {
                builder.row(second, [disks(values), orders(*value)].concat())
            }
            Random::Failed => builder.row(second, [("mmv.shop.orders", Cell::Error(-12_357))]),
            Random::Mark if was_mark => builder,
            Random::Mark => builder.mark(second),
            Random::NextVolume => builder.volume(),
            Random::NextArchive => {
                builder.finish();
                begin(second)
            }
        };
    }
    builder.finish();
    directory
}

fn expected(directory: &Path) -> Vec<(i64, bool, Observations)> {
    let set = ArchiveSet::open([directory]).unwrap();
    let mut records = Source::from(&set).records().unwrap();
    let mut all = Vec::new();
    while let Some(record) = records.next().unwrap() {
        let owned = record.to_owned(set.metadata()).unwrap();
        let mut observations = Vec::new();
        for set in owned.value_sets {
            for (instance, value) in set.values.into_iter().flatten() {
                let number = Number::from_value(value.as_value()).unwrap();
                observations.push((set.pmid, instance, number));
            }
        }
        all.push((nanos(record.timestamp()), record.is_mark(), observations));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_walk_has_the_values_of_the_records(records in random()) {
        let directory = written(&records);
        let seen = all(&mut walk(directory.path(), Start::First));
        let seen: Vec<_> = seen
            .into_iter()
            .map(|seen| (seen.timestamp, seen.kind != StepKind::Record, seen.observations))
            .collect();
        prop_assert_eq!(seen, expected(directory.path()));
    }

    #[test]
    fn newest_values_are_the_last_ones_of_a_walk(records in random()) {
        let directory = written(&records);
        let expected = newest_values(directory.path(), Start::NewestArchive);
        prop_assert_eq!(newest_values(directory.path(), Start::NewestValues), expected);
    }

    #[test]
    fn a_walk_goes_on_from_any_position(records in random()) {
        let directory = written(&records);
        let whole = all(&mut walk(directory.path(), Start::First));
        for (at, seen) in whole.iter().enumerate() {
            let mut resumed = walk(directory.path(), Start::Position(seen.position.clone()));
            prop_assert!(!resumed.is_position_lost());
            let mut rest = Vec::new();
            let mut repeated = 0;
            while let Some(step) = resumed.next().unwrap() {
                if step.is_repeated {
                    repeated += 1;
                } else {
                    rest.push(Seen::of(&step));
                }
            }
            prop_assert!(repeated <= at + 1);
            prop_assert_eq!(&rest, &whole[at + 1..]);
        }
    }

    /// forall archives, places that no walk has returned: a walk from there ends, and what it
    /// has are steps of the whole walk in their order
    #[test]
    fn a_walk_from_no_position_of_its_own_ends(
        records in random(),
        archive in "a0[0-4][0-9]|[a-z/.]{0,3}",
        volume in prop_oneof![0..4_u32, any::<u32>()],
        offset in prop_oneof![0..4_000_u64, any::<u64>()],
        time in prop_oneof![0..50_i64, any::<i64>()],
    ) {
        let directory = written(&records);
        let mut whole = all(&mut walk(directory.path(), Start::First)).into_iter();
        let position = Position { archive, volume, offset, time };
        let mut resumed = walk(directory.path(), Start::Position(position));
        while let Some(step) = resumed.next().unwrap() {
            prop_assert!(whole.any(|seen| seen.position == *step.position), "{:?}", step.position);
        }
    }

    #[test]
    fn series_begin_once_and_end_once(records in random()) {
        let directory = written(&records);
        let mut live = std::collections::HashSet::new();
        for seen in all(&mut walk(directory.path(), Start::First)) {
            for change in seen.changes {
                match change {
                    Change::Began { series, .. } => prop_assert!(live.insert(series)),
                    Change::Ended { series, .. } => prop_assert!(live.remove(&series)),
                }
            }
            prop_assert!(seen.kind == StepKind::Record || live.is_empty());
            prop_assert!(seen.observations.len() <= live.len());
        }
    }
}

/// The changes of each step, as (began or ended, instance).
fn changes(directory: &Path) -> Vec<Vec<(bool, Option<i32>)>> {
    let mut walk = walk(directory, Start::First);
    let mut all = Vec::new();
    while let Some(step) = walk.next().unwrap() {
        let instance = |id: &SeriesId| step.catalog.series(*id).unwrap().instance;
        let of = step.changes.iter().map(|change| match change {
            Change::Began { series, .. } => (true, instance(series).map(InstanceId::get)),
            Change::Ended { series, .. } => (false, instance(series).map(InstanceId::get)),
        });
        all.push(of.collect());
    }
    all
}

#[test]
fn an_instance_that_a_record_lacks_ends() {
    let directory = tempfile::tempdir().unwrap();
    begin_shop(&directory.path().join("a"))
        .row(1, disks(&[(1, 1), (2, 1)]))
        .row(2, orders(1))
        .row(3, disks(&[(2, 1)]))
        .row(4, disks(&[(3, 1), (2, 1)]))
        .finish();
    let expected = [
        vec![(true, Some(1)), (true, Some(2))],
        vec![(true, None)],
        vec![(false, Some(1))],
        vec![(true, Some(3))],
    ];
    assert_eq!(changes(directory.path()), expected);
}

#[test]
fn a_series_whose_instance_or_labels_change_is_another_one() {
    let directory = tempfile::tempdir().unwrap();
    let values = |value| [disks(&[(1, value)]), orders(value)].concat();
    begin_shop(&directory.path().join("a"))
        .row(1, values(1))
        .numbered_instances("mmv.shop.disks", [(1, "other")])
        .row(2, values(2))
        .labels("mmv.shop.orders", &[("version", "2")])
        .row(3, values(3))
        .finish();
    let expected = [
        vec![(true, Some(1)), (true, None)],
        vec![(false, Some(1)), (true, Some(1))],
        vec![(false, None), (true, None)],
    ];
    assert_eq!(changes(directory.path()), expected);
    let mut walk = walk(directory.path(), Start::First);
    let mut names = Vec::new();
    while let Some(step) = walk.next().unwrap() {
        let series = step.catalog.series(step.observations[0].series).unwrap();
        names.push(series.instance_name.as_deref().unwrap_or_default().to_owned());
    }
    assert_eq!(names, ["disk1", "other", "other"]);
}

#[test]
fn runs_of_a_program_end_and_begin_where_the_agents_events_say() {
    let directory = tempfile::tempdir().unwrap();
    with_events(begin_shop(&directory.path().join("a")))
        .row(1, orders(7))
        // The values that are logged with the end still belong to the run.
        .row(2, event("ended", 2_000_000))
        .row(2, orders(8))
        .row(4, event("appeared", 3_500_000))
        .row(4, orders(3))
        .row(5, event("restarted", 5_000_000))
        .row(5, orders(1))
        .finish();
    let seen = all(&mut walk(directory.path(), Start::First));
    let nanos = |micros: i64| 1_700_000_000_000_000_000 + micros * 1_000;
    let began = |seen: &Seen| match seen.changes.last() {
        Some(Change::Began { from_zero, .. }) => Some(*from_zero),
        _ => None,
    };
    let ended = |seen: &Seen| match seen.changes.first() {
        Some(Change::Ended { at, .. }) => Some(*at),
        _ => None,
    };
    let found: Vec<_> = seen.iter().map(|seen| (ended(seen), began(seen))).collect();
    assert_eq!(
        found,
        [
            (None, Some(None)),
            (None, None),
            (None, None),
            (Some(nanos(2_000_001)), None),
            (None, Some(Some(nanos(3_500_000)))),
            (None, None),
            (Some(nanos(5_000_000)), Some(Some(nanos(5_000_000)))),
        ]
    );
    let mut walk = walk(directory.path(), Start::First);
    let mut start = None;
    while let Some(step) = walk.next().unwrap() {
        let series = step.observations.first().and_then(|one| step.catalog.series(one.series));
        start = series.map(|series| series.start);
    }
    assert_eq!(start, Some(Some(nanos(5_000_000))));
}

#[test]
fn an_archive_that_grows_and_the_next_one_are_followed() {
    let directory = tempfile::tempdir().unwrap();
    let builder = begin_shop(&directory.path().join("a")).row(1, orders(1));
    let mut walk = walk(directory.path(), Start::First);
    let mut come = || -> Vec<(i64, StepKind)> {
        let seconds = |seen: Seen| (seen.timestamp / 1_000_000_000 - 1_700_000_000, seen.kind);
        all(&mut walk).into_iter().map(seconds).collect()
    };
    let record = |second| (second, StepKind::Record);
    assert_eq!(come(), [record(1)]);
    assert_eq!(come(), []);
    let builder = builder.row(2, orders(2)).volume().row(3, orders(3));
    assert_eq!(come(), [record(2), record(3)]);
    builder.row(4, orders(4)).finish();
    let builder = begin_shop(&directory.path().join("b")).row(9, orders(1));
    assert_eq!(come(), [record(4), (4, StepKind::EndOfArchive), record(9)]);
    let builder = builder.row(10, orders(2));
    assert_eq!(come(), [record(10)]);
    builder.finish();
}

#[test]
fn a_walk_begins_at_a_time_or_with_the_newest_archive() {
    let records =
        [vec![Random::Orders(1); 3], vec![Random::NextArchive], vec![Random::Orders(2); 3]];
    let directory = written(&records.concat());
    let first = |start| all(&mut walk(directory.path(), start))[0].timestamp / 1_000_000_000;
    assert_eq!(first(Start::First), 1_700_000_000);
    assert_eq!(first(Start::Time(at(2))), 1_700_000_002);
    assert_eq!(first(Start::Time(at(6))), 1_700_000_006);
    assert_eq!(first(Start::NewestArchive), 1_700_000_004);
}

/// The values of series that have not ended, after all records.
fn newest_values(directory: &Path, start: Start) -> BTreeMap<String, String> {
    let mut walk = walk(directory, start);
    let mut values = BTreeMap::new();
    let mut names = BTreeMap::new();
    while let Some(step) = walk.next().unwrap() {
        for change in step.changes {
            if let Change::Ended { series, .. } = change {
                values.remove(&series.index());
            }
        }
        if step.kind == StepKind::EndOfArchive {
            values.clear();
        }
        for observation in step.observations {
            let series = step.catalog.series(observation.series).unwrap();
            let Series { pmid, instance, instance_name, labels, start, .. } = series;
            let name = format!("{pmid} {instance:?} {instance_name:?} {labels:?} {start:?}");
            names.insert(observation.series.index(), name);
            let value = format!("{:?} at {}", observation.value, step.timestamp);
            values.insert(observation.series.index(), value);
        }
    }
    values.into_iter().map(|(index, value)| (names[&index].clone(), value)).collect()
}

#[test]
fn newest_values_are_those_a_walk_over_all_records_ends_with() {
    let directory = scratch();
    let base = directory.path().join("a");
    let row = |second: i32, instances: &[&str]| {
        let series = instances.iter().map(|name| format!("mmv.app.jobs[{name}]"));
        series.map(|name| (name, Cell::from(second))).collect::<Vec<_>>()
    };
    let mut builder = with_events(begin(&base))
        .metric("mmv.app.version", "u32 discrete none")
        .metric("mmv.app.jobs", "u64 counter count")
        .metric("mmv.shop.jobs", "u64 counter count")
        .instances("mmv.app.jobs", ["a"])
        .row(0, [("mmv.app.version", 3)])
        .row(1, [("mmv.shop.jobs", 3)])
        .row(2, row(2, &["a"]))
        .instances("mmv.app.jobs", ["a", "b"])
        .row(3, row(3, &["a", "b"]))
        .volume()
        .row(4, event("ended", 4_000_000))
        .row(5, [("mmv.app.version", 4)]);
    let check = |directory: &Path, count: usize| {
        let expected = newest_values(directory, Start::NewestArchive);
        assert_eq!(newest_values(directory, Start::NewestValues), expected);
        assert_eq!(expected.len(), count, "{expected:#?}");
    };
    check(directory.path(), 3);
    builder = builder.instances("mmv.app.jobs", ["b"]).row(6, row(6, &["b"]));
    check(directory.path(), 2);
    let mut walk = walk(directory.path(), Start::NewestValues);
    assert!(all(&mut walk).len() < 6);
    let builder = builder.row(7, row(7, &["b"])).row(8, row(8, &["b"]));
    assert_eq!(all(&mut walk).len(), 2);
    builder.mark(9).row(10, [("mmv.app.version", 4)]).finish();
    check(directory.path(), 1);
}

#[test]
fn a_position_whose_archive_is_gone_goes_on_with_the_next() {
    let records =
        [vec![Random::Orders(1); 3], vec![Random::NextArchive], vec![Random::Orders(2); 3]];
    let directory = written(&records.concat());
    let second = all(&mut walk(directory.path(), Start::First))[1].position.clone();
    for extension in ["0", "meta", "index"] {
        fs::remove_file(directory.path().join("a000").with_extension(extension)).unwrap();
    }
    let mut resumed = walk(directory.path(), Start::Position(second));
    assert!(resumed.is_position_lost());
    let step = resumed.next().unwrap().unwrap();
    assert!(!step.is_repeated);
    assert_eq!(step.timestamp, 1_700_000_004_000_000_000);
}

#[test]
fn damage_costs_what_is_damaged() {
    let records =
        [vec![Random::Orders(1); 5], vec![Random::NextArchive], vec![Random::Orders(2); 2]];
    let directory = written(&records.concat());
    let third = all(&mut walk(directory.path(), Start::First))[2].position.clone();
    let volume = directory.path().join("a000.0");
    let mut bytes = fs::read(&volume).unwrap();
    bytes[third.offset as usize..][..8].fill(0xff);
    fs::write(&volume, bytes).unwrap();
    let mut walk = walk(directory.path(), Start::First);
    let (mut seen, mut skipped) = (Vec::new(), Vec::new());
    loop {
        match walk.next() {
            Ok(Some(step)) => {
                seen.push((step.timestamp / 1_000_000_000 - 1_700_000_000, step.kind));
            }
            Ok(None) => break,
            Err(_) => skipped.push(walk.recover().unwrap()),
        }
    }
    let record = |second| (second, StepKind::Record);
    assert_eq!(skipped.len(), 1);
    assert!(skipped[0] > 0);
    let marks = [(2, StepKind::Mark), (5, StepKind::EndOfArchive)];
    let expected =
        [record(0), record(1), record(2), marks[0], record(4), record(5), marks[1], record(6)];
    assert_eq!(seen[..8], expected);
}

#[test]
fn an_archive_without_metadata_costs_itself() {
    let records =
        [vec![Random::Orders(1); 3], vec![Random::NextArchive], vec![Random::Orders(2); 3]];
    let directory = written(&records.concat());
    let metadata = directory.path().join("a000.meta");
    let mut bytes = fs::read(&metadata).unwrap();
    bytes[4..8].fill(0xff);
    fs::write(&metadata, bytes).unwrap();
    let mut walk = walk(directory.path(), Start::First);
    assert!(walk.next().is_err());
    assert!(walk.next().is_err(), "the same error comes again");
    assert_eq!(walk.recover(), Some(0));
    assert_eq!(all(&mut walk).len(), 4);
}

#[test]
fn what_is_no_number_and_what_is_not_wanted_is_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let name = vec![("mmv.shop.name".into(), Cell::from("x"))];
    begin_shop(&directory.path().join("a"))
        .metric("mmv.shop.name", "string discrete")
        .row(1, [name, orders(7), disks(&[(1, 1)])].concat())
        .finish();
    let mut walk =
        walk(directory.path(), Start::First).only(|family| family.metric.ends_with("orders"));
    let seen = all(&mut walk);
    assert_eq!(seen[0].observations, [(Pmid::new(70, 1, 1).unwrap(), None, Number::U64(7))]);
    assert_eq!(walk.counts(), LeftOutCounts { strings: 1, ..LeftOutCounts::default() });
}

#[test]
fn only_selected_instances_are_observed() {
    let directory = tempfile::tempdir().unwrap();
    let endpoints: &[(&str, &[(&str, &str)])] =
        &[("path=/a", &[("path", "/a")]), ("path=/b", &[("path", "/b")])];
    let row = |second: i64| {
        let cells = [
            ("mmv.web.latency.bucket[path=/a,bucket=4..5]", 1),
            ("mmv.web.latency.bucket[path=/b,bucket=4..5]", 2),
            ("mmv.web.latency.sum[path=/a]", 3),
            ("mmv.web.latency.sum[path=/b]", 4),
            ("mmv.web.requests", 5),
        ];
        (second, cells)
    };
    begin(&directory.path().join("a"))
        .metric("mmv.web.latency.bucket", "u64 counter count")
        .metric("mmv.web.latency.sum", "u64 counter microsec")
        .metric("mmv.web.requests", "u64 counter count")
        .instances("mmv.web.latency.bucket", ["path=/a,bucket=4..5", "path=/b,bucket=4..5"])
        .instances("mmv.web.latency.sum", ["path=/a", "path=/b"])
        .labels("mmv.web.latency.bucket", &[("histogram", "microsec")])
        .instance_labels("mmv.web.latency.sum", endpoints)
        .rows([0, 1].map(row))
        .finish();
    let values = |metrics: &[&str], instances: &[&str]| -> Vec<Vec<u64>> {
        let metrics: Vec<MetricText> = metrics.iter().map(|one| one.parse().unwrap()).collect();
        let instances: Vec<String> = instances.iter().map(ToString::to_string).collect();
        let selection = MetricSelection::new(&metrics, &instances);
        let mut walk = walk(directory.path(), Start::First).select(&selection);
        let steps = all(&mut walk);
        let records = steps.iter().filter(|step| step.kind == StepKind::Record);
        let number = |number: &Number| number.as_f64() as u64;
        records
            .map(|step| step.observations.iter().map(|(.., value)| number(value)).collect())
            .collect()
    };
    assert_eq!(values(&[], &[]), [[1, 2, 3, 4, 5]; 2]);
    assert_eq!(values(&["mmv.web.latency"], &[]), [[1, 2, 3, 4]; 2]);
    assert_eq!(values(&["mmv.web.latency{path=\"/b\"}"], &[]), [[2, 4]; 2]);
    assert_eq!(values(&[], &["path=/a"]), [[1, 3, 5]; 2]);
    assert_eq!(values(&["mmv.web.*s", "mmv.web.latency.sum"], &["path=/b"]), [[4, 5]; 2]);
}

#[test]
fn archives_that_cannot_be_listed_are_nothing_to_pass_by() {
    let directory = written(&[Random::Orders(1)]);
    let mut walk = walk(directory.path(), Start::First);
    assert_eq!(all(&mut walk).len(), 2);
    let path = directory.path().to_owned();
    let elsewhere = path.with_extension("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    assert!(walk.next().is_err());
    assert_eq!(walk.recover(), None);
    fs::rename(&elsewhere, &path).unwrap();
    assert_eq!(all(&mut walk), []);
}

/// Writes an archive of ten seconds in two volumes, and another one.
fn two_archives(directory: &Path) -> [PathBuf; 2] {
    let [old, next] = ["20231114.22.13", "20231115.00.00"].map(|name| directory.join(name));
    let row = |second: i32| (second, [("mmv.shop.orders", 100 + second)]);
    let builder = begin(&old).metric("mmv.shop.orders", "u64 counter count");
    builder.rows((0..5).map(row)).volume().rows((5..11).map(row)).finish();
    let builder = begin(&next).metric("mmv.shop.orders", "u64 counter count");
    builder.rows((20..22).map(row)).finish();
    [old, next]
}

fn replace(base: &Path) {
    let interval = std::time::Duration::from_secs(4);
    let replaced = replace_by_reduced(base, interval, None, &mut || true).unwrap();
    assert!(matches!(replaced, ReplaceOutcome::Replaced(_)));
    remove_archive(base).unwrap();
}

/// Returns the seconds of the records with values.
fn seconds(seen: &[Seen]) -> Vec<i64> {
    let start = i64::try_from(at(0).as_nanos()).unwrap();
    let records = seen.iter().filter(|seen| seen.kind == StepKind::Record);
    records.map(|seen| (seen.timestamp - start) / 1_000_000_000).collect()
}

#[test]
fn replaced_archive_goes_on_with_what_was_not_read() {
    let every = (0..11).chain(20..22).collect::<Vec<i64>>();
    for read in 0..=12 {
        let directory = scratch();
        let [old, _] = two_archives(directory.path());
        let mut walk = walk(directory.path(), Start::First);
        let mut seen = Vec::new();
        for _ in 0..read {
            seen.push(Seen::of(&walk.next().unwrap().unwrap()));
        }
        replace(&old);
        seen.extend(all(&mut walk));
        // The first volume stays open, and the second one is if it was begun.
        let expected = match read {
            0 => vec![0, 4, 8, 10, 20, 21],
            1..=5 => vec![0, 1, 2, 3, 4, 8, 10, 20, 21],
            _ => every.clone(),
        };
        assert_eq!(seconds(&seen), expected, "{read} steps read before");
    }
}

#[test]
fn position_in_a_replaced_archive_resumes_in_its_reduced_form() {
    let directory = scratch();
    let [old, _] = two_archives(directory.path());
    let steps = all(&mut walk(directory.path(), Start::First));
    replace(&old);
    for (number, step) in steps.iter().enumerate() {
        let mut resumed = walk(directory.path(), Start::Position(step.position.clone()));
        assert!(!resumed.is_position_lost());
        let mut left = Vec::new();
        while let Some(step) = resumed.next().unwrap() {
            if !step.is_repeated {
                left.push(Seen::of(&step));
            }
        }
        let last = seconds(&steps[..=number]).pop().unwrap_or(-1);
        let mut expected = vec![0, 4, 8, 10, 20, 21];
        expected.retain(|second| *second > last);
        assert_eq!(seconds(&left), expected, "after {last} s");
    }
}
