//! Compares with the log the values that servers compute from logged ones.

use std::collections::{BTreeMap, BTreeSet};

use super::compare::{Complaints, LAST_SAMPLE, STARTING, Ticks, describe, is_ours, is_there};
use super::log::Key;
use super::readers::Reading;
use super::run::Record;
use super::servers::Column;

/// Times of pictures are doubles.
const ROUNDING: i64 = 1_000;

/// Removes the zeros that an exporter adds where a program began to count, or created an instance:
/// they are at no time of a logged value, and must be in the life of a program that had the counter.
/// An instance that is seen after the program's end has its zero at the record before.
pub(super) fn remove_zeros(
    record: &Record,
    raw: &Reading,
    reading: &mut Reading,
    complaints: &mut Complaints,
) {
    for (key, samples) in &mut reading.samples {
        let of_sum = sum_of(key);
        let logged = raw.samples.get(&of_sum).into_iter().flatten();
        let logged: BTreeSet<i64> = logged.map(|(at, _)| *at).collect();
        let segments = record.log.series.get(&of_sum);
        samples.retain(|(at, value)| {
            let is_added = *value == 0.0 && !logged.contains(at);
            // Last values that are logged late have their zero late as well.
            let next = logged.range(*at..).next();
            let is_before_value = next.is_some_and(|next| *next <= *at + LAST_SAMPLE);
            let is_in_life = segments.into_iter().flatten().any(|segment| {
                let life = &record.log.lives[segment.life];
                let last = life.ending + LAST_SAMPLE + record.delayed;
                life.born - STARTING <= *at && (*at <= last || is_before_value)
            });
            if is_added && !is_in_life {
                complaints.add(format!("{}: {key:?} is 0 at {at}", reading.reader));
            }
            !is_added
        });
    }
}

/// Returns the key of a series, for a count of a histogram that of its sum.
fn sum_of(key: &Key) -> Key {
    let (metric, instance) = key;
    match metric.rsplit_once('.') {
        Some((metric, "all")) => (format!("{metric}.sum"), instance.clone()),
        Some((metric, "le")) => {
            let (labels, _) = instance.rsplit_once("le=").expect("a bound");
            (format!("{metric}.sum"), labels.trim_end_matches(',').to_owned())
        }
        _ => key.clone(),
    }
}

struct Bucket {
    high: u64,
    count: f64,
}

/// Checks that the count of a histogram, and that of all values up to a bound, are the sum of the
/// buckets that were logged. New buckets are logged somewhat later than the values in them.
pub(super) fn check_histograms(raw: &Reading, reading: &Reading, complaints: &mut Complaints) {
    let mut sums: BTreeMap<(&str, &str, i64), Vec<Bucket>> = BTreeMap::new();
    for ((metric, instance), samples) in &raw.samples {
        let Some(metric) = metric.strip_suffix(".bucket") else { continue };
        let (labels, range) = instance.rsplit_once("bucket=").unwrap_or(("", instance));
        let (_, high) = range.split_once("..").expect("a range");
        let high = high.parse().unwrap_or(u64::MAX);
        for (at, value) in samples {
            let labels = labels.trim_end_matches(',');
            sums.entry((metric, labels, *at)).or_default().push(Bucket { high, count: *value });
        }
    }
    for ((metric, instance), samples) in &reading.samples {
        let (labels, bound) = instance.rsplit_once("le=").unwrap_or((instance, "+Inf"));
        let labels = labels.trim_end_matches(',');
        let bound = bound.parse::<f64>().expect("a bound");
        let Some((metric, "all" | "le")) = metric.rsplit_once('.') else { continue };
        for (at, value) in samples {
            // Servers cut times to milliseconds, in which there may be several records.
            let millisecond = at / 1_000_000 * 1_000_000;
            let span = (metric, labels, millisecond)..(metric, labels, millisecond + 1_000_000);
            let found: Vec<f64> = sums
                .range(span)
                .map(|(_, buckets)| {
                    let below = buckets.iter().filter(|one| one.high as f64 <= bound);
                    below.fold(0.0, |sum, one| sum + one.count)
                })
                .collect();
            // A histogram without a count has no buckets.
            let is_empty = found.is_empty() && *value == 0.0;
            let is_found = found.iter().any(|sum| sum.total_cmp(value).is_eq());
            if !is_empty && !is_found {
                complaints.add(format!(
                    "{}: {metric}, {instance:?} is {value} at {at}, not {found:?}",
                    reading.reader
                ));
            }
        }
    }
}

pub(super) fn check_view(
    record: &Record,
    columns: &BTreeMap<Key, Vec<Column>>,
    raw: &Reading,
    complaints: &mut Complaints,
) {
    let ticks = Ticks::new(record, raw);
    for key in raw.samples.keys().filter(|key| !columns.contains_key(*key)) {
        // Histograms are shown as maps.
        if matches!(key.0.rsplit_once('.'), Some((_, "bucket" | "sum"))) {
            continue;
        }
        complaints.add(format!("view: no column of {key:?}"));
    }
    for (key, columns) in columns.iter().filter(|((metric, _), _)| is_ours(metric)) {
        let derived = record.log.bucket(key);
        let Some(segments) = derived.as_ref().or_else(|| record.log.series.get(key)) else {
            complaints.add(format!("view: {key:?} has never been"));
            continue;
        };
        for column in columns {
            // The tick is at the end of the column at the latest.
            let to = ticks.after(column.to + ROUNDING);
            let from = column.from - ROUNDING;
            for value in [column.least, column.greatest] {
                if !segments
                    .iter()
                    .any(|segment| is_there(segment, from, to) && segment.permits(value, from, to))
                {
                    let known = describe(record, segments, from, to);
                    complaints.add(format!("view: {key:?} is {value} in {column:?}: {known}"));
                }
            }
        }
    }
}
