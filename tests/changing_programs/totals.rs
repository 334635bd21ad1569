//! Answers that are computed from values: increases of counters, and quantiles.

use std::collections::{BTreeMap, BTreeSet};

use super::compare::{Complaints, Ticks};
use super::log::{Key, Segment};
use super::plan::{Kind, PROGRAMS};
use super::readers::{self, Reading};
use super::run::Record;

/// The time over which increases and quantiles are asked for.
const STEP: i64 = 1_000_000_000;
/// Limit on the delay of the samples of a change: new instances are announced after 100 ms, and
/// the last values of a program come after its end.
const LATE: i64 = 1_500_000_000;
/// Largest distance of a value from the middle of its bucket, as a share of the value: buckets
/// have 3 bits.
const HALF_BUCKET: f64 = 1.0 / 16.0;

/// Checks that a gauge between two samples has one of their values, and none while there was no
/// agent.
pub(super) fn check_gauges(
    record: &Record,
    ticks: &Ticks,
    raw: &Reading,
    reading: &Reading,
    complaints: &mut Complaints,
) {
    // Archives that are closer to each other are joined.
    let longest_gap = 3 * record.plan.interval.as_nanos() as i64 + 1_000_000_000;
    let away = record.away.filter(|away| {
        ticks.after(away.stopped).saturating_sub(ticks.before(away.stopped)) > longest_gap
    });
    for (key, rows) in &reading.samples {
        let samples = raw.samples.get(key).map(Vec::as_slice).unwrap_or_default();
        for (at, value) in rows {
            let next = samples.partition_point(|(sampled, _)| sampled < at);
            let after = samples.get(next);
            let before = next.checked_sub(1).and_then(|before| samples.get(before));
            let is_away = away.is_some_and(|away| {
                let begin = before.map_or(i64::MIN, |(before, _)| *before);
                let end = after.map_or(i64::MAX, |(after, _)| *after);
                begin < away.stopped && away.stopped < end && end != *at
            });
            let is_one =
                [before, after].into_iter().flatten().any(|(_, one)| one.total_cmp(value).is_eq());
            if is_away || !is_one {
                complaints.add(format!(
                    "{}: {key:?} is {value} at {at}, between {before:?} and {after:?}",
                    reading.reader
                ));
            }
        }
    }
    // In a short run on a busy machine no program may have been opened.
    let is_gauge = |key: &Key| {
        let segments = record.log.series.get(key).filter(|segments| !segments[0].is_counter);
        segments.is_some()
    };
    if reading.samples.is_empty() && raw.samples.keys().any(is_gauge) {
        complaints.add(format!("{}: no gauges", reading.reader));
    }
}

/// Returns whether missing samples of a life may be part of an answer.
fn has_gaps(record: &Record, segment: &Segment) -> bool {
    PROGRAMS[record.log.lives[segment.life].program].1 == Kind::InPlace
}

/// Checks `mmv-archive summary`: least and greatest values of gauges, and increases of counters.
pub(super) fn check_summary(
    record: &Record,
    ticks: &Ticks,
    raw: &Reading,
    complaints: &mut Complaints,
) {
    let archives = record.archives.to_str().expect("UTF-8");
    let arguments =
        [&["summary", archives, "--total", "--buckets"], &readers::BRANCHES[1..]].concat();
    let mut seen = BTreeSet::new();
    for line in readers::lines(&arguments) {
        let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
        let number = |field: &str| line[field].as_f64().unwrap_or(f64::NAN);
        let key = (text("metric"), text("instance"));
        let Some(segments) = record.log.series.get(&key) else { continue };
        let logged = raw.samples.get(&key).map(Vec::as_slice).unwrap_or_default();
        if segments[0].is_counter {
            let (least, greatest) = increase(record, ticks, segments, logged);
            let sum = number("sum");
            let is_absent = sum.is_nan() && least <= 0.0;
            if !is_absent && !(least..=greatest).contains(&sum) {
                complaints.add(format!(
                    "summary: {key:?} increases by {sum}, not by {least} to {greatest}"
                ));
            }
        } else {
            let values = logged.iter().map(|(_, value)| *value);
            let least = values.clone().fold(f64::INFINITY, f64::min);
            let greatest = values.fold(f64::NEG_INFINITY, f64::max);
            let found = [number("minimum"), number("maximum"), number("count")];
            if format!("{found:?}") != format!("{:?}", [least, greatest, logged.len() as f64]) {
                complaints.add(format!(
                    "summary: {key:?} has {found:?}, not {least}, {greatest}, {}",
                    logged.len()
                ));
            }
        }
        seen.insert(key);
    }
    for key in record.log.series.keys().filter(|key| raw.samples.contains_key(*key)) {
        if !seen.contains(key) {
            complaints.add(format!("summary: {key:?} is missing"));
        }
    }
}

/// Returns the least and the greatest increase of a counter that its samples can have.
fn increase(
    record: &Record,
    ticks: &Ticks,
    segments: &[Segment],
    logged: &[(i64, f64)],
) -> (f64, f64) {
    let greatest: u64 = segments.iter().map(|segment| segment.greatest(i64::MAX)).sum();
    if record.away.is_some() || has_gaps(record, &segments[0]) {
        return (0.0, greatest as f64);
    }
    let mut certain = 0;
    for segment in segments {
        let certain_from = segment.is_certain_from();
        let ending = record.log.lives[segment.life].ending;
        let ending = segment.removed.map_or(ending, |(from, _)| from);
        // The last value of the life before may come after the first change of this one.
        let mut own = logged
            .iter()
            .filter(|(at, value)| {
                let is_within = certain_from <= *at && *at < ending;
                is_within && segment.permits(*value, *at, ticks.after(*at))
            })
            .map(|(at, _)| *at);
        // A single one may be the last value of the life before, which this one could have by
        // chance.
        let (Some(_), Some(last)) = (own.next(), own.next_back()) else { continue };
        certain += segment.least(last);
    }
    (certain as f64, greatest as f64)
}

/// Checks `report -e 'sum(delta(...))'`: the growth of all instances of a counter in each second.
pub(super) fn check_deltas(
    record: &Record,
    ticks: &Ticks,
    raw: &Reading,
    complaints: &mut Complaints,
) {
    let archives = record.archives.to_str().expect("UTF-8");
    let mut metrics: BTreeMap<&str, Vec<(&Key, &Vec<Segment>)>> = BTreeMap::new();
    for (key, segments) in record.log.series.iter().filter(|(_, segments)| segments[0].is_counter) {
        metrics.entry(&key.0).or_default().push((key, segments));
    }
    for (metric, series) in metrics {
        let mut of_metric: BTreeSet<i64> = BTreeSet::new();
        for (key, _) in &series {
            of_metric.extend(raw.samples.get(*key).into_iter().flatten().map(|(at, _)| *at));
        }
        // The first sample of the metric in each life.
        let mut begun: BTreeMap<usize, i64> = BTreeMap::new();
        for (key, segments) in &series {
            let samples = raw.samples.get(*key).map(Vec::as_slice).unwrap_or_default();
            for segment in *segments {
                if let Some(first) = first_sample(segment, samples, ticks) {
                    let known = begun.entry(segment.life).or_insert(first);
                    *known = first.min(*known);
                }
            }
        }
        let expression = format!("d = sum(delta({metric}))");
        for line in readers::lines(&["report", archives, "-t", "1s", "-e", &expression]) {
            let Some(found) = line["value"].as_f64() else { continue };
            let to = readers::time(&line["time"]);
            let from = to - STEP;
            let (mut least, mut greatest) = (0, 0);
            for (key, segments) in &series {
                for segment in *segments {
                    let samples = raw.samples.get(*key).map(Vec::as_slice).unwrap_or_default();
                    let (since, until) = around(samples, ticks, (from, to));
                    // All that was counted before the first sample belongs to its second.
                    let is_first = first_sample(segment, samples, ticks)
                        .is_some_and(|first| since <= first && first <= until);
                    let since = if is_first { i64::MIN } else { since };
                    greatest += added(segment, since, until);
                    let is_alone =
                        segments.iter().filter(|one| one.life == segment.life).count() == 1;
                    let begun = begun.get(&segment.life).copied().filter(|_| is_alone);
                    let first = first_sample(segment, samples, ticks);
                    // A created instance counts from the sample of the metric before its first one.
                    let since = first.and_then(|first| of_metric.range(..first).next_back());
                    let begun = begun.filter(|_| since.is_some_and(|since| from <= *since));
                    least += grown(record, segment, samples, ticks, (from, to), begun);
                }
            }
            if !(least as f64..=greatest as f64).contains(&found) {
                complaints.add(format!(
                    "report -e: {metric} grows by {found} until {to}, not by {least} to {greatest}"
                ));
            }
        }
    }
}

/// Returns the time in which the growth of a span of time may have been counted: from the sample
/// before it to the one after it.
fn around(samples: &[(i64, f64)], ticks: &Ticks, (from, to): (i64, i64)) -> (i64, i64) {
    let mut times = samples.iter().map(|(at, _)| *at);
    let after = times.clone().find(|at| to <= *at).map_or(i64::MIN, |after| ticks.after(after));
    let before = times.rfind(|at| *at <= from).unwrap_or(i64::MAX);
    (before.min(from - LATE), after.max(ticks.after(ticks.after(to))))
}

/// Returns the time of the first sample of a counter's segment. The last values of the life before
/// may be logged after its first change.
fn first_sample(segment: &Segment, samples: &[(i64, f64)], ticks: &Ticks) -> Option<i64> {
    let begin = segment.stores.first()?.from;
    let is_own = |at: i64, value: f64| begin <= at && segment.permits(value, at, ticks.after(at));
    samples.iter().find(|(at, value)| is_own(*at, *value)).map(|(at, _)| *at)
}

fn added(segment: &Segment, from: i64, to: i64) -> u64 {
    let within = segment.stores.iter().filter(|store| store.from <= to && from <= store.until);
    within.map(|store| store.number).sum()
}

/// Returns the certain growth of a counter between the samples within a span of time. If its
/// metric had begun to have samples before its own first one, and has one within the span before
/// that, all of that is its growth, too: the program created it then.
fn grown(
    record: &Record,
    segment: &Segment,
    samples: &[(i64, f64)],
    ticks: &Ticks,
    (from, to): (i64, i64),
    begun: Option<i64>,
) -> u64 {
    let is_within = |at: i64| from <= at && at <= to;
    let life = &record.log.lives[segment.life];
    let ending = segment.removed.map_or(life.ending, |(from, _)| from);
    let mut own = samples.iter().map(|(at, _)| *at).filter(|at| is_within(*at));
    let Some(first) = own.next() else { return 0 };
    let last = own.next_back().unwrap_or(first);
    let is_observed = !record.is_away(from, to) && !has_gaps(record, segment);
    if first < segment.is_certain_from() || last >= ending || !is_observed {
        return 0;
    }
    let is_live = matches!(PROGRAMS[life.program].1, Kind::Live | Kind::Rebuilt | Kind::Facade);
    let is_first = first_sample(segment, samples, ticks) == Some(first);
    let is_created = begun.is_some_and(|begun| begun < first && !record.is_away(begun, to));
    if is_live && is_first && is_created {
        return segment.least(last);
    }
    segment.least(last).saturating_sub(segment.greatest(ticks.after(first)))
}

/// Checks `report --quantile`: the least and the greatest value of each histogram in each second
/// are among those that it recorded.
pub(super) fn check_quantiles(
    record: &Record,
    ticks: &Ticks,
    raw: &Reading,
    complaints: &mut Complaints,
) {
    let archives = record.archives.to_str().expect("UTF-8");
    let metrics: BTreeSet<&String> = record.log.recorded.keys().map(|(metric, _)| metric).collect();
    for metric in metrics {
        let arguments = ["report", archives, metric, "--quantile", "0,0.5,1", "-t", "1s"];
        let mut found = 0;
        for line in readers::lines(&arguments) {
            let Some(value) = line["value"].as_f64() else { continue };
            found += 1;
            let name = line["instance"].as_str().unwrap_or_default();
            let to = readers::time(&line["time"]);
            let key = (metric.clone(), name.to_owned());
            let sums = raw.samples.get(&(format!("{metric}.sum"), name.to_owned()));
            let sums = sums.map(Vec::as_slice).unwrap_or_default();
            let (since, until) = around(sums, ticks, (to - STEP, to));
            let recorded = record.log.recorded.get(&key).map(Vec::as_slice).unwrap_or_default();
            let is_one = recorded.iter().any(|(_, store)| {
                let is_within = store.from <= until && since <= store.until;
                let error = (value - store.number as f64).abs();
                is_within && error <= 1.0 + HALF_BUCKET * store.number as f64
            });
            if !is_one {
                complaints.add(format!("report --quantile: {key:?} is {value} at {to}: {line}"));
            }
        }
        let of_metric = raw.samples.iter().filter(|((of, _), _)| *of == format!("{metric}.sum"));
        let has_growth = of_metric.into_iter().any(|(_, samples)| samples.len() > 2);
        if found == 0 && has_growth {
            complaints.add(format!("report --quantile: nothing of {metric}"));
        }
    }
}
