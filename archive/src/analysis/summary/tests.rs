use proptest::collection::vec;
use proptest::prelude::*;
use test_archives::Builder;

use super::*;
use crate::scan::ChunkLimits;
use crate::test_support::{archive_of, at};
use crate::{Archive, Pmid};

fn summary(
    archive: &Archive,
    window: RangeInclusive<i64>,
    decrease: Decrease,
) -> [Option<Statistics>; 3] {
    let mut selection = Selection::new(archive);
    for name in ["t.counter", "t.instant", "t.discrete"] {
        assert_eq!(selection.select(name), 1);
    }
    let span = at(*window.start())..=at(*window.end());
    let summaries = summarize(&selection, span, decrease).unwrap();
    [1, 2, 3].map(|item| {
        let item = Pmid::new(70, 1, item).unwrap();
        let found = summaries.iter().find(|summary| summary.metric.desc.pmid == item)?;
        assert_eq!(found.instances.len(), 1);
        found.instances[0].statistics.clone()
    })
}

const WORKED_EXAMPLE: [(i64, Option<u32>); 6] = [
    (0, Some(100)),
    (10_000, Some(150)),
    (30_000, Some(160)),
    (31_000, None),
    (60_000, Some(7)),
    (70_000, Some(27)),
];

#[test]
fn the_example_of_the_module_holds() {
    let (_directory, archive) = archive_of(&WORKED_EXAMPLE, Units::count());
    let [counter, instant, discrete] = summary(&archive, 0..=70_000, Decrease::Reset);
    let extreme = |value, millis| Extreme { value, at: at(millis) };
    let expected = Statistics {
        count: 3,
        seconds: 40.0,
        sum: 80.0,
        stochastic_average: 2.5,
        time_average: 2.0,
        minimum: extreme(0.5, 30_000),
        maximum: extreme(5.0, 10_000),
    };
    assert_eq!(counter.unwrap(), expected);
    let expected = Statistics {
        count: 5,
        seconds: 40.0,
        sum: 444.0,
        stochastic_average: 88.8,
        time_average: 4070.0 / 40.0,
        minimum: extreme(7.0, 60_000),
        maximum: extreme(160.0, 30_000),
    };
    assert_eq!(instant.unwrap(), expected);
    let until_the_mark = Statistics { seconds: 41.0, time_average: 4230.0 / 41.0, ..expected };
    assert_eq!(discrete.unwrap(), until_the_mark);
}

#[test]
fn discrete_value_holds_to_the_end_or_a_mark() {
    let records =
        [(0, Some(1)), (10_000, Some(4)), (50_000, None), (60_000, None), (70_000, Some(9))];
    let (_directory, archive) = archive_of(&records, Units::NONE);
    let discrete = |end| {
        let [_, _, discrete] = summary(&archive, 0..=end, Decrease::Reset);
        let discrete = discrete.unwrap();
        (discrete.seconds, discrete.time_average)
    };
    assert_eq!(discrete(40_000), (40.0, (10.0 + 120.0) / 40.0));
    assert_eq!(discrete(55_000), (50.0, (10.0 + 160.0) / 50.0), "not after the mark");
    assert_eq!(discrete(65_000), (50.0, (10.0 + 160.0) / 50.0), "nor between two");
    assert_eq!(discrete(70_000), (50.0, (10.0 + 160.0) / 50.0), "9 was there for no time");
}

#[test]
fn reset_has_no_rate_and_a_wrap_has() {
    let records = [(0, Some(u32::MAX - 9)), (10_000, Some(10)), (20_000, Some(40))];
    let (_directory, archive) = archive_of(&records, Units::count());
    let counter = |decrease| {
        let [counter, _, _] = summary(&archive, 0..=20_000, decrease);
        let counter = counter.unwrap();
        (counter.count, counter.sum, counter.time_average)
    };
    assert_eq!(counter(Decrease::Reset), (1, 30.0, 3.0));
    assert_eq!(counter(Decrease::Wrap), (2, 50.0, 2.5));
}

#[test]
fn a_counter_of_time_is_a_utilisation() {
    let records = [(0, Some(0)), (10_000, Some(2500))];
    let (_directory, archive) = archive_of(&records, Units::milliseconds());
    let [counter, instant, _] = summary(&archive, 0..=10_000, Decrease::Reset);
    let counter = counter.unwrap();
    assert_eq!((counter.time_average, counter.maximum.value), (0.25, 0.25));
    let instant = instant.unwrap();
    assert_eq!((counter.sum, instant.maximum.value), (2500.0, 2500.0), "in its own units");
    let mut selection = Selection::new(&archive);
    selection.select("t.counter");
    let span = at(0)..=at(10_000);
    assert_eq!(summarize(&selection, span, Decrease::Reset).unwrap()[0].units, Units::NONE);
}

#[test]
fn a_single_value_is_its_own_average_and_no_rate() {
    let (_directory, archive) = archive_of(&[(0, Some(5)), (10_000, Some(6))], Units::count());
    let [counter, instant, discrete] = summary(&archive, 0..=9_000, Decrease::Reset);
    assert_eq!(counter, None);
    let instant = instant.unwrap();
    assert_eq!((instant.count, instant.seconds, instant.time_average), (1, 0.0, 5.0));
    let discrete = discrete.unwrap();
    assert_eq!((discrete.count, discrete.seconds, discrete.time_average), (1, 9.0, 5.0));
    assert_eq!(summary(&archive, 1_000..=9_000, Decrease::Reset), [None, None, None]);
}

#[test]
fn averages_of_a_constant_are_the_constant() {
    let records = [0, 1_300, 1_400, 1_700, 1_800].map(|millis| (millis, Some(5)));
    let (_directory, archive) = archive_of(&records, Units::count());
    let [_, instant, discrete] = summary(&archive, 0..=1_800, Decrease::Reset);
    for statistics in [instant.unwrap(), discrete.unwrap()] {
        assert_eq!((statistics.time_average, statistics.stochastic_average), (5.0, 5.0));
    }
}

#[test]
fn of_two_values_of_a_counter_at_one_time_the_first_counts() {
    let records = [(0, Some(0)), (10_000, Some(10)), (10_000, Some(99)), (20_000, Some(40))];
    let (_directory, archive) = archive_of(&records, Units::count());
    let [counter, _, _] = summary(&archive, 0..=20_000, Decrease::Reset);
    let counter = counter.unwrap();
    assert_eq!((counter.count, counter.sum), (2, 40.0));
}

/// The counter's statistics by their definition, from all values: count, seconds,
/// growth, sum of the rates.
fn counter_by_definition(records: &[(i64, Option<u32>)]) -> (u64, f64, f64, f64) {
    let mut result = (0, 0.0, 0.0, 0.0);
    for pair in records.windows(2) {
        let [(since, Some(before)), (until, Some(after))] = pair else { continue };
        let seconds = (until - since) as f64 / 1000.0;
        if after >= before {
            let growth = f64::from(after - before);
            result.0 += 1;
            result.1 += seconds;
            result.2 += growth;
            result.3 += growth / seconds;
        }
    }
    result
}

proptest! {
    #[test]
    fn statistics_are_those_of_the_definition_whatever_the_chunks(
        steps in vec((1i64..5000, proptest::option::weighted(0.9, any::<u32>())), 1..40),
        rows in 1usize..10,
    ) {
        let mut millis = 0;
        let mut records = vec![(0, Some(7))];
        for (step, value) in steps {
            millis += step;
            records.push((millis, value));
        }
        let (_directory, archive) = archive_of(&records, Units::count());
        let mut selection = Selection::new(&archive);
        selection.select("t");
        let span = at(0)..=at(millis);
        let summary_of = |mut columns: Columns<'_>| {
            let scope = SummaryScope::new(&selection, Decrease::Reset, Gaps::Keep);
            SummarySegment::read(&scope, &mut columns).unwrap().summaries((&archive).into(), &span)
        };
        let columns = || Columns::open(&selection, span.clone()).unwrap();
        let whole = summary_of(columns());
        let limits = ChunkLimits { rows, ..ChunkLimits::CHUNK };
        prop_assert_eq!(&whole, &summary_of(columns().with_limits(limits)));
        let (count, seconds, growth, rates) = counter_by_definition(&records);
        match &whole[0].instances[0].statistics {
            None => prop_assert_eq!(count, 0),
            Some(found) => {
                prop_assert_eq!((found.count, found.sum), (count, growth));
                prop_assert!((found.seconds - seconds).abs() <= 1e-9 * seconds);
                let average = found.stochastic_average * count as f64;
                prop_assert!((average - rates).abs() <= 1e-9 * rates);
            }
        }
    }
    /// forall values, marks and cuts: the summaries of segments add up to that of
    /// the whole, up to the rounding of sums.
    #[test]
    fn segments_come_to_the_whole(
        steps in vec((1i64..5000, proptest::option::weighted(0.8, any::<u32>())), 1..40),
        cuts in vec(0i64..100_000, 0..4),
    ) {
        let mut millis = 0;
        let mut records = vec![(0, Some(7))];
        for (step, value) in steps {
            millis += step;
            records.push((millis, value));
        }
        let (_directory, archive) = archive_of(&records, Units::count());
        let mut selection = Selection::new(&archive);
        selection.select("");
        let mut edges: Vec<_> = cuts.into_iter().map(|cut| at(cut.min(millis))).collect();
        edges.extend([at(0), at(millis + 1)]);
        edges.sort();
        let scope = SummaryScope::new(&selection, Decrease::Reset, Gaps::Keep);
        let segment = |pair: &[Timestamp]| {
            let mut columns = Columns::open(&selection, pair[0]..pair[1]).unwrap();
            SummarySegment::read(&scope, &mut columns).unwrap()
        };
        let joined = edges.windows(2).map(segment).reduce(SummarySegment::join).unwrap();
        let span = at(0)..=at(millis);
        let (joined, whole) = (joined.summaries((&archive).into(), &span), segment(&[at(0), at(millis + 1)]));
        for (joined, whole) in joined.iter().zip(whole.summaries((&archive).into(), &span)) {
            let one = |summary: &MetricSummary| summary.instances[0].statistics.clone();
            let (joined, whole) = match (one(joined), one(&whole)) {
                (Some(joined), Some(whole)) => (joined, whole),
                (joined, whole) => {
                    prop_assert_eq!(joined, whole);
                    continue;
                }
            };
            prop_assert_eq!(joined.count, whole.count);
            prop_assert_eq!((joined.minimum, joined.maximum), (whole.minimum, whole.maximum));
            let sums = |of: &Statistics| [of.seconds, of.sum, of.stochastic_average, of.time_average];
            for (joined, whole) in sums(&joined).into_iter().zip(sums(&whole)) {
                prop_assert!((joined - whole).abs() <= 1e-12 * whole.abs());
            }
        }
    }
}

fn statistics_of(semantics: &str, values: &[f64]) -> Statistics {
    let row = |(number, value): (usize, &f64)| (number as u32 * 10, [("t.value", *value)]);
    let archive = Builder::new()
        .metric("t.value", &format!("double {semantics}"))
        .rows(values.iter().enumerate().map(row))
        .finish();
    let archive = Archive::open(&archive).unwrap();
    let mut selection = Selection::new(&archive);
    selection.select("t.value");
    let span = archive.label().start..=archive.end();
    let mut summaries = summarize(&selection, span, Decrease::Reset).unwrap();
    summaries.remove(0).instances.remove(0).statistics.unwrap()
}

#[test]
fn averages_of_opposite_infinities_are_no_numbers() {
    let (most, least) = (f64::INFINITY, f64::NEG_INFINITY);
    // As many that they are added in blocks as well.
    let many: Vec<f64> = [1.0, most, 2.0, least].into_iter().cycle().take(50).collect();
    for semantics in ["instant", "discrete"] {
        for values in [&[f64::NAN, most, least, 1e308, -0.0][..], &many] {
            let statistics = statistics_of(semantics, values);
            assert!(statistics.sum.is_nan());
            assert!(statistics.stochastic_average.is_nan(), "{semantics} {values:?}");
            assert!(statistics.time_average.is_nan(), "{semantics} {values:?}");
            assert_eq!((statistics.minimum.value, statistics.maximum.value), (least, most));
        }
        let statistics = statistics_of(semantics, &[1.0, most, 2.0, 3.0]);
        assert_eq!((statistics.sum, statistics.time_average), (most, most));
        // The last value holds for no time.
        let statistics = statistics_of(semantics, &[1.0, 2.0, most]);
        assert_eq!((statistics.time_average, statistics.seconds), (1.5, 20.0));
    }
}
