//! Replay of archives that our writer wrote.

use proptest::collection::vec;
use proptest::prelude::*;
use test_archives::Builder;

use super::*;
use crate::test_support::archive_of;
pub(super) use crate::test_support::at;
use crate::{Archive, Units};

pub(super) fn archive(records: &[(i64, Option<u32>)]) -> (tempfile::TempDir, Archive) {
    archive_of(records, Units::count())
}

pub(super) fn answer(replay: &Replay<'_>, millis: i64) -> Option<[Option<u32>; 3]> {
    let sample = replay.sample_at(at(millis))?;
    let value = |place: usize| match sample.values[place].first() {
        Some((None, Value::U32(value))) => Some(*value),
        _ => None,
    };
    Some([value(0), value(1), value(2)])
}

fn load(archive: &Archive) -> Replay<'_> {
    let mut selection = Replay::open(archive);
    // The order of selection is the order of the answers.
    for name in ["t.counter", "t.instant", "t.discrete", "t"] {
        assert!(selection.select(name) > 0);
    }
    assert_eq!(selection.select("u"), 0);
    assert_eq!(selection.metrics().len(), 3, "none twice");
    selection.load().unwrap()
}

#[test]
fn question_builds_only_the_domains_of_its_metrics() {
    let asked = ["t.fixed[a]", "t.fixed[b]"].map(|name| (name, 1));
    let built = Builder::new()
        .metric("t.fixed", "u32 counter count")
        .in_domain("t.fixed", 1)
        .instances("t.fixed", ["a", "b"])
        .metric("t.growing", "u32 counter count")
        .in_domain("t.growing", 2)
        .instances("t.growing", ["x"])
        .row_at(at(0), asked)
        .instances("t.growing", ["x", "y"])
        .row_at(at(1000), asked)
        .finish();
    let archive = Archive::open(built.base()).unwrap();
    let mut selection = Replay::open(&archive);
    selection.select("t.fixed");
    let replay = selection.load().unwrap();
    assert_eq!(replay.sample_at(at(500)).unwrap().values[0].len(), 2);
    for (indom, history) in archive.metadata().indoms() {
        let is_asked = archive.metadata().metric_by_name("t.fixed").unwrap().desc.indom;
        assert_eq!(history.is_built(), Some(indom) == is_asked, "{indom}");
    }
}

const WORKED_EXAMPLE: [(i64, Option<u32>); 6] = [
    (0, Some(100)),
    (10_000, Some(203)),
    (20_000, Some(50)),
    (20_001, None),
    (40_000, Some(60)),
    (50_000, Some(81)),
];

#[test]
fn the_example_of_the_module_holds() {
    let (_directory, archive) = archive(&WORKED_EXAMPLE);
    let replay = load(&archive);
    let expected = [
        (0, Some([Some(100), Some(100), Some(100)])),
        (5_000, Some([Some(152), Some(100), Some(100)])),
        (7_000, Some([Some(172), Some(203), Some(203)])),
        (10_000, Some([Some(203), Some(203), Some(203)])),
        (15_000, Some([Some(127), Some(203), Some(203)])),
        (20_000, Some([Some(50), Some(50), Some(50)])),
        (20_001, Some([None, None, None])),
        (25_000, Some([None, None, None])),
        (40_000, Some([Some(60), Some(60), Some(60)])),
        (45_000, Some([Some(71), Some(60), Some(60)])),
        (50_000, Some([Some(81), Some(81), Some(81)])),
        (51_000, None),
        (-1, Some([None, None, None])),
        (-2, None),
    ];
    for (millis, values) in expected {
        assert_eq!(answer(&replay, millis), values, "{millis} ms");
    }
    let between = Timestamp::from_nanos(at(20_000).as_nanos() + 500_000);
    let sample = replay.sample_at(between).unwrap();
    let counts: Vec<usize> = sample.values.iter().map(ExpressionValues::len).collect();
    assert_eq!(counts, [0, 0, 1], "before the mark only the discrete value holds");
}

#[test]
fn metrics_are_selected_by_name_by_subtree_and_by_pattern() {
    let (_directory, archive) = archive(&WORKED_EXAMPLE);
    let names = |name| {
        let mut selection = Replay::open(&archive);
        let found = selection.select(name);
        let names: Vec<_> = selection.metrics().iter().map(|m| m.name.clone()).collect();
        assert_eq!(found, names.len());
        names
    };
    assert_eq!(names("t.instant"), ["t.instant"]);
    assert_eq!(names("t"), ["t.counter", "t.discrete", "t.instant"]);
    assert_eq!(names("*.?*ount*"), ["t.counter"]);
    assert_eq!(names("t.inst"), [] as [&str; 0]);
    assert_eq!(names("inst*"), [] as [&str; 0]);
}

#[test]
fn rates_depend_on_two_moments_alone() {
    let records = [
        (0, Some(100)),
        (10_000, Some(203)),
        (20_000, Some(50)),
        (30_000, Some(250)),
        (30_001, None),
        (40_000, Some(260)),
        (50_000, Some(281)),
    ];
    let (_directory, archive) = archive(&records);
    let replay = load(&archive);
    let metric = replay.metrics().next().unwrap();
    assert!(metric.has_rates());
    assert_eq!(metric.rate_units().to_string(), "count / sec");
    let rate = |since, until| {
        let sample = replay.rates_at(at(until), at(since)).unwrap();
        assert_eq!(sample.values[1], replay.sample_at(at(until)).unwrap().values[1], "no counter");
        sample.values[0].first().map(|(_, value)| value.as_f64().unwrap())
    };
    for (since, until, expected, why) in [
        (0, 10_000, Some(10.3), "103 in 10 s"),
        (5_000, 7_000, Some(10.0), "152 to 172"),
        (10_000, 20_000, None, "went down"),
        (0, 30_000, None, "went down on the way"),
        (5_000, 12_000, None, "went down after the last observation"),
        (20_000, 30_000, Some(20.0), "200 in 10 s"),
        (30_000, 40_000, None, "a mark in between"),
        (40_000, 50_000, Some(2.1), "after the mark"),
        (-10_000, 10_000, None, "nothing before the archive"),
        (10_000, 10_000, None, "no time"),
        (10_000, 5_000, None, "backwards"),
    ] {
        assert_eq!(rate(since, until), expected, "{why}");
    }
}

#[test]
fn derived_metrics_follow_the_selected_ones() {
    let (_directory, archive) = archive(&WORKED_EXAMPLE);
    let mut selection = Replay::open(&archive);
    let derive = |selection: &mut ReplaySelection<'_>, text: &str| {
        selection.derive(&text.parse().unwrap()).map_err(|error| error.problem)
    };
    derive(&mut selection, "twice = 2 * t.instant").unwrap();
    derive(&mut selection, "rate(t.counter)").unwrap();
    derive(&mut selection, "both = t.counter + t.counter").unwrap();
    derive(&mut selection, "delta(t.instant)").unwrap();
    let taken = expression::Problem::NameTaken("t.counter".to_owned());
    assert_eq!(derive(&mut selection, "t.counter = 1"), Err(taken));
    assert!(selection.needs_moment_before());
    selection.select("t.discrete");
    let replay = selection.load().unwrap();
    let names: Vec<_> = replay.metrics().map(|metric| metric.name.as_str()).collect();
    let all = ["t.discrete", "twice", "rate(t.counter)", "both", "delta(t.instant)"];
    assert_eq!(names, all, "their operands are not shown");
    assert_eq!([0, 1, 4].map(|place| replay.is_derived(place)), [false, true, true]);
    assert_eq!(replay.instances(1).collect::<Vec<_>>(), [None]);
    let numbers = |sample: Option<Sample<'_>>| -> Vec<Option<f64>> {
        let values = sample.unwrap().values;
        values.iter().map(|values| values.first()?.1.as_f64()).collect()
    };
    let some = |numbers: [f64; 5]| numbers.map(Some);
    let mut alone = some([203.0, 406.0, 0.0, 406.0, 0.0]);
    (alone[2], alone[4]) = (None, None);
    assert_eq!(numbers(replay.sample_at(at(10_000))), alone);
    let since = |millis, since| numbers(replay.at_since(at(millis), at(since)));
    assert_eq!(since(10_000, 0), some([203.0, 406.0, 10.3, 406.0, 103.0]));
    let rates = |millis, since| numbers(replay.rates_at(at(millis), at(since)));
    assert_eq!(rates(10_000, 0), some([203.0, 406.0, 10.3, 20.6, 103.0]));
    // Across the mark a counter has no rate, and neither has what is computed from it;
    // two levels can be compared.
    let over_the_mark = [Some(60.0), Some(120.0), None, None, Some(10.0)];
    assert_eq!(rates(40_000, 20_000), over_the_mark);
    assert_eq!(rates(20_000, 10_000)[2..4], [None, None]);
    assert_eq!(numbers(replay.at_since(at(0), at(-5_000)))[2], None, "nothing before");
}

#[test]
fn observations_are_the_records_and_the_marks() {
    let (_directory, archive) = archive(&WORKED_EXAMPLE);
    let replay = load(&archive);
    let seen: Vec<_> = replay
        .observations()
        .map(|sample| (sample.timestamp, sample.is_mark, sample.values.iter().flatten().count()))
        .collect();
    let expected = WORKED_EXAMPLE
        .map(|(millis, value)| (at(millis), value.is_none(), if value.is_some() { 3 } else { 0 }));
    assert_eq!(seen, expected);
}

#[test]
fn a_window_has_both_ends_and_nothing_outside_the_archive() {
    let (_directory, archive) = archive(&WORKED_EXAMPLE);
    let replay = load(&archive);
    let times = |start, end, step| -> Vec<Timestamp> {
        let window = replay.window(at(start), at(end), Duration::from_millis(step));
        window.map(|sample| sample.timestamp).collect()
    };
    assert_eq!(times(0, 50_000, 25_000), [at(0), at(25_000), at(50_000)]);
    assert_eq!(times(40_000, 90_000, 20_000), [at(40_000)]);
    assert_eq!(times(-60_000, 90_000, 55_000), [at(50_000)]);
    assert_eq!(times(-1_000_000_000, 1_000_000_000, 1_000).len(), 51);
    assert_eq!(times(10, 5, 1), []);
    assert_eq!(times(10, 50, 0), [at(10)]);
}

#[test]
fn an_instance_that_the_domain_never_names_is_not_replayed() {
    // Instance 2 has a value, but the domain does not name it.
    let (_directory, base) = Builder::new()
        .metric("t.by", "u32 instant count")
        .numbered_instances("t.by", [(1, "one")])
        .row(0, [("t.by[one]", 1), ("t.by[2]", 2)])
        .finish()
        .into_parts();
    let archive = Archive::open(&base).unwrap();
    let mut selection = Replay::open(&archive);
    selection.select("t.by");
    let replay = selection.load().unwrap();
    let sample = replay.sample_at(at(0)).unwrap();
    assert_eq!(sample.values.concat(), [(InstanceId::new(1).ok(), Value::U32(1))]);
}

proptest! {
    /// forall records, times: the answer to a time does not depend on the
    /// times requested before, and is the stored value at a record.
    #[test]
    fn answers_do_not_depend_on_the_order_of_the_questions(
        steps in vec((1i64..5000, proptest::option::weighted(0.9, any::<u32>())), 1..20),
        asked in vec(0i64..60_000, 1..20),
    ) {
        let mut millis = 0;
        let mut records = vec![(0, Some(7))];
        for (step, value) in steps {
            millis += step;
            records.push((millis, value));
        }
        let (_directory, archive) = archive(&records);
        let replay = load(&archive);
        let forwards: Vec<_> = asked.iter().map(|t| answer(&replay, *t)).collect();
        let asked_back = asked.iter().rev();
        let mut backwards: Vec<_> = asked_back.map(|t| answer(&load(&archive), *t)).collect();
        backwards.reverse();
        prop_assert_eq!(forwards, backwards);
        for (millis, value) in records {
            prop_assert_eq!(answer(&replay, millis), Some([value; 3]));
        }
    }
}
