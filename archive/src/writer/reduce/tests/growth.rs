//! Counters have grown as much in a reduced archive as in that which it was made from.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use test_archives::changing::{self, BYTES, Change, ORDERS};

use super::*;
use crate::InstanceId;
use crate::analysis::replay::{Decrease, Replay};
use crate::analysis::summary::summarize;
use crate::scan::SelectedMetric;

/// What an engine says of each counter, by the names of metric and instance.
pub(in crate::writer::reduce) type Found = BTreeMap<(String, String), f64>;

fn key(source: Source<'_>, metric: &SelectedMetric, id: Option<InstanceId>) -> (String, String) {
    let identities = metric.desc.indom.and_then(|indom| source.metadata().identities(indom));
    let name = identities.zip(id).and_then(|(all, id)| all.name_at(id, Timestamp::MAX));
    (metric.name.clone(), name.unwrap_or_default().to_owned())
}

pub(in crate::writer::reduce) fn summarized<'a>(
    source: impl Into<Source<'a>>,
    decrease: Decrease,
    span: RangeInclusive<Timestamp>,
) -> [Found; 2] {
    let source = source.into();
    let mut selection = Selection::new(source);
    selection.select(ORDERS);
    selection.select(BYTES);
    let mut found = [Found::new(), Found::new()];
    for summary in summarize(&selection, span, decrease).unwrap() {
        for instance in &summary.instances {
            let Some(statistics) = &instance.statistics else { continue };
            let key = key(source, &summary.metric, instance.instance);
            found[0].insert(key.clone(), statistics.sum);
            found[1].insert(key, statistics.time_average);
        }
    }
    found
}

pub(in crate::writer::reduce) fn reported<'a>(
    source: impl Into<Source<'a>>,
    decrease: Decrease,
    span: &RangeInclusive<Timestamp>,
) -> [Found; 2] {
    let source = source.into();
    let mut selection = Replay::open(source).decrease(decrease);
    selection.select(ORDERS);
    selection.select(BYTES);
    let replay = selection.load().unwrap();
    let metrics: Vec<_> = replay.metrics().cloned().collect();
    let samples = [replay.sample_at(*span.end()), replay.rates_at(*span.end(), *span.start())];
    samples.map(|sample| {
        let mut found = Found::new();
        let values = sample.iter().flat_map(|sample| &sample.values);
        for (metric, values) in metrics.iter().zip(values) {
            for (instance, value) in values {
                found.insert(key(source, metric, *instance), value.as_f64().unwrap());
            }
        }
        found
    })
}

pub(in crate::writer::reduce) fn assert_alike(
    one: &Found,
    other: &Found,
    tolerance: f64,
) -> Result<(), TestCaseError> {
    prop_assert!(one.keys().eq(other.keys()), "{one:?}\n{other:?}");
    for (one_value, other_value) in one.values().zip(other.values()) {
        let difference = (one_value - other_value).abs();
        prop_assert!(difference <= tolerance, "{one:?}\n{other:?}");
    }
    Ok(())
}

proptest! {
    #[test]
    fn growth_over_any_span_on_the_grid_is_that_of_the_original(
        changes in vec((0..Change::KINDS).prop_map(Change::numbered), 1..40),
        interval in 1i64..9,
        ends in (0i64..20, 0i64..20),
        wraps in any::<bool>(),
        rows in prop_oneof![Just(1usize << 16), 1usize..9],
    ) {
        let (builder, model) = changing::write(Builder::new(), &changes);
        let made = builder.finish();
        let source = open(&made);
        let (_directory, archive) = reduced_by(&source, Duration::from_secs(interval as u64), rows);
        let decrease = if wraps { Decrease::Wrap } else { Decrease::Reset };
        let intervals = model.last / interval;
        let first = ends.0.min(ends.1).min(intervals);
        let last = ends.0.max(ends.1).min(intervals);
        let span = at((first * interval) as f64)..=at((last * interval) as f64);
        for (one, other) in summarized(&source, decrease, span.clone())
            .iter()
            .zip(&summarized(&archive, decrease, span.clone()))
        {
            assert_alike(one, other, 1e-9)?;
        }
        for (one, other) in reported(&source, decrease, &span)
            .iter()
            .zip(&reported(&archive, decrease, &span))
        {
            assert_alike(one, other, 1e-9)?;
        }
        let whole = source.label().start..=source.end();
        let [one, _] = summarized(&source, decrease, whole.clone());
        let [other, _] = summarized(&archive, decrease, whole);
        assert_alike(&one, &other, 1e-9)?;
    }
}

const HISTOGRAM: &str = "mmv.shop.latency";

#[derive(Debug, Clone)]
pub(in crate::writer::reduce) enum Second {
    Counts(u8),
    Restart(u8),
    Mark(u8),
    Silence,
}

pub(in crate::writer::reduce) fn second() -> impl Strategy<Value = Second> {
    prop_oneof![
        12 => any::<u8>().prop_map(Second::Counts),
        1 => any::<u8>().prop_map(Second::Restart),
        1 => any::<u8>().prop_map(Second::Mark),
        1 => Just(Second::Silence),
    ]
}

/// Writes a histogram of four buckets, of which those that have counted are logged; a second each.
pub(in crate::writer::reduce) fn histogram(seconds: &[Second]) -> TestArchive {
    let bucket = format!("{HISTOGRAM}.bucket");
    let sum = format!("{HISTOGRAM}.sum");
    let names = ["4..5", "6..7", "8..11", "12.."];
    let mut builder = Builder::new()
        .metric(&bucket, "u64 counter count")
        .metric(&sum, "u64 counter microsec")
        .numbered_instances(&bucket, (4..).zip(names))
        .labels(&bucket, &[("histogram", "microsec")])
        .domain_labels(&bucket, &[("bucket_max", 11), ("bucket_precision", 1)]);
    let mut counts = [0u64; 4];
    for (second, what) in (0i32..).zip(seconds) {
        let hits = match what {
            Second::Silence => continue,
            Second::Counts(hits) => *hits,
            Second::Restart(hits) => {
                counts = [0; 4];
                *hits
            }
            Second::Mark(hits) => {
                if second > 0 {
                    builder = builder.mark(f64::from(second) - 0.5);
                }
                counts = [0; 4];
                *hits
            }
        };
        for (place, count) in counts.iter_mut().enumerate() {
            *count += u64::from(hits >> (2 * place) & 3);
        }
        let total: u64 = counts.iter().zip([5, 7, 9, 20]).map(|(count, value)| count * value).sum();
        let hit = counts.iter().zip(names).filter(|(count, _)| **count > 0);
        let row = hit.map(|(count, name)| (format!("{bucket}[{name}]"), *count));
        builder = builder.row(second, row.chain([(sum.clone(), total)]));
    }
    builder.finish()
}

pub(in crate::writer::reduce) fn quantiles<'a>(
    source: impl Into<Source<'a>>,
    span: &RangeInclusive<Timestamp>,
) -> Vec<Option<f64>> {
    let mut selection = Replay::open(source);
    selection.select(HISTOGRAM);
    assert_eq!(selection.quantiles(&[0.0, 0.5, 0.9, 0.99, 1.0]), 1);
    let replay = selection.load().unwrap();
    let sample = replay.at_since(*span.end(), *span.start()).unwrap();
    let first = |values: &crate::replay::ExpressionValues<'_>| values.first()?.1.as_f64();
    sample.values.iter().map(first).collect()
}

proptest! {
    #[test]
    fn quantiles_over_any_span_on_the_grid_are_the_originals(
        seconds in vec(second(), 8..60),
        interval in 1i64..9,
        ends in (0i64..20, 0i64..20),
        rows in prop_oneof![Just(1usize << 16), 1usize..9],
    ) {
        let mut seconds = seconds;
        // The archive begins and ends with a record.
        seconds.insert(0, Second::Counts(1));
        seconds.push(Second::Counts(1));
        let made = histogram(&seconds);
        let source = open(&made);
        let (_directory, archive) = reduced_by(&source, Duration::from_secs(interval as u64), rows);
        let intervals = (seconds.len() as i64 - 1) / interval;
        let first = ends.0.min(ends.1).min(intervals);
        let last = ends.0.max(ends.1).min(intervals);
        let span = at((first * interval) as f64)..=at((last * interval) as f64);
        prop_assert_eq!(quantiles(&source, &span), quantiles(&archive, &span));
    }
}
