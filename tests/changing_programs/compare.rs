//! Compares a reader's answers with the log.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use super::log::{Key, LifeLog, Segment};
use super::plan::{Kind, PROGRAMS};
use super::readers::{Reading, Spell};
use super::run::{Record, STEADY};

const MAX_COMPLAINTS: usize = 20;
/// Limit on the time from the first change of an instance until a tick has it, on a busy machine:
/// announcements of a program take 100 ms, and the thread of the agent that reads them has to
/// wait for a processor.
const FIRST_SAMPLE: i64 = 2_000_000_000;

/// The time between two looks of the agent at the links of a mapped file. The last values of a
/// program are logged until then, and once more.
const UNNOTICED_END: i64 = 50_000_000;

/// Limit on the time from the end of a program until its last values are logged, on a busy
/// machine: the thread of the agent that reads files reads the last additions.
pub(super) const LAST_SAMPLE: i64 = 1_000_000_000;
/// Limit on the time from the start of a program until the agent has its file, on a busy machine.
pub(super) const STARTING: i64 = 1_000_000_000;
/// Length of a run from which on killed programs are certain to be opened.
const LONG: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Complaints {
    pub(super) all: Vec<String>,
}

impl Complaints {
    pub(super) fn add(&mut self, complaint: String) {
        self.all.push(complaint);
    }

    #[track_caller]
    pub(super) fn assert_none(&self, record: &Record) {
        // Some of each kind: a complaint begins with its reader and its metric.
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        let some = self.all.iter().filter(|complaint| {
            let kind = complaint.split(',').next().unwrap_or_default();
            let seen = kinds.entry(kind).or_default();
            *seen += 1;
            *seen <= 2
        });
        let some: Vec<&String> = some.take(MAX_COMPLAINTS).collect();
        let count = self.all.len();
        assert!(
            some.is_empty(),
            "MMV_SEED={}: {:?}\n{count} complaints: {some:#?}\n{}",
            record.plan.seed,
            record.plan,
            record.agent_log
        );
    }
}

/// The ticks of the agent, and the time between them.
#[derive(Debug)]
pub(super) struct Ticks {
    times: Vec<i64>,
    /// All records: the ticks, and those of last values.
    records: BTreeSet<i64>,
    end: i64,
}

impl Ticks {
    pub(super) fn new(record: &Record, reading: &Reading) -> Self {
        let steady = reading.samples.get(&(STEADY.to_owned(), String::new()));
        let times = steady.expect("ticks").iter().map(|(at, _)| *at).collect();
        let records = reading.samples.values().flatten().map(|(at, _)| *at).collect();
        Self { times, records, end: record.ended }
    }

    pub(super) fn after(&self, time: i64) -> i64 {
        let next = self.times.partition_point(|tick| *tick <= time);
        self.times.get(next).copied().unwrap_or(self.end)
    }

    pub(super) fn before(&self, time: i64) -> i64 {
        let next = self.times.partition_point(|tick| *tick <= time);
        self.times[next.saturating_sub(1)]
    }

    /// Gives the samples of a reader whose times are cut to milliseconds those of the records. Where
    /// two ticks are in one millisecond, the reader may move the second one.
    pub(super) fn restore_times(&self, reading: &mut Reading) {
        let steady = reading.samples.get(&(STEADY.to_owned(), String::new()));
        let steady = steady.filter(|steady| steady.len() == self.times.len());
        let known = steady.into_iter().flatten().zip(&self.times);
        let known: BTreeMap<i64, i64> = known.map(|((at, _), tick)| (*at, *tick)).collect();
        for (at, _) in reading.samples.values_mut().flatten() {
            let next = self.records.range(*at..).next().copied();
            let same = next.filter(|next| next / 1_000_000 == *at / 1_000_000);
            *at = known.get(at).copied().or(same).unwrap_or(*at);
        }
    }

    /// Returns the ticks from a time on whose values were read before another one.
    fn whole(&self, from: i64, to: i64) -> impl Iterator<Item = i64> {
        let first = self.times.partition_point(|tick| *tick < from);
        self.times[first..].iter().copied().take_while(move |tick| self.after(*tick) < to)
    }
}

pub(super) fn is_ours(metric: &str) -> bool {
    let program = metric.strip_prefix("mmv.").and_then(|rest| rest.split('.').next());
    // Counts of histograms are compared with buckets, not with the log.
    let is_derived = matches!(metric.rsplit_once('.'), Some((_, "all" | "le")));
    !is_derived && PROGRAMS.iter().any(|(name, _)| Some(*name) == program)
}

/// Checks that all logged values are true ones, each under the name of its time.
pub(super) fn check_values(
    record: &Record,
    ticks: &Ticks,
    reading: &Reading,
    complaints: &mut Complaints,
) {
    // Ticks with values of a life whose end should have been noticed.
    let mut late: BTreeMap<usize, BTreeSet<i64>> = BTreeMap::new();
    for (key, samples) in reading.samples.iter().filter(|((metric, _), _)| is_ours(metric)) {
        let derived = record.log.bucket(key);
        let segments = derived.as_ref().or_else(|| record.log.series.get(key));
        let Some(segments) = segments else {
            complaints.add(format!("{}: {key:?} has never been", reading.reader));
            continue;
        };
        for (at, value) in samples {
            // The agent reads after it took the time of a tick and before it takes the next.
            let to = ticks.after(*at);
            let Some(segment) = segments
                .iter()
                .rev()
                .find(|segment| is_there(segment, *at, to) && segment.permits(*value, *at, to))
            else {
                let known = describe(record, segments, *at, to);
                complaints.add(format!("{}: {key:?} is {value} at {at}: {known}", reading.reader));
                continue;
            };
            if *at > record.log.lives[segment.life].ended + UNNOTICED_END {
                late.entry(segment.life).or_default().insert(*at);
            }
        }
    }
    for (life, late) in late.iter().filter(|(_, late)| late.len() > 1) {
        let LifeLog { file, ended, .. } = &record.log.lives[*life];
        complaints.add(format!(
            "{}: values of {file} at {late:?}, which ended at {ended}",
            reading.reader
        ));
    }
}

pub(super) fn is_there(segment: &Segment, from: i64, to: i64) -> bool {
    segment.created() <= to && segment.removed.is_none_or(|(_, until)| from <= until)
}

/// Returns whether two lives have the same names of metrics.
fn is_of_application(one: &LifeLog, other: &LifeLog) -> bool {
    PROGRAMS[one.program].0 == PROGRAMS[other.program].0
}

pub(super) fn describe(record: &Record, segments: &[Segment], at: i64, to: i64) -> String {
    let mut text = String::new();
    for segment in segments {
        let life = &record.log.lives[segment.life];
        let _ = write!(
            text,
            "\n    life {} from {} ({} s) to {} ({} s), {}..={}, removed {:?}",
            segment.life,
            segment.created(),
            (at - segment.created()) as f64 / 1e9,
            life.ended,
            (at - life.ended) as f64 / 1e9,
            segment.least(at),
            segment.greatest(to),
            segment.removed.map(|(from, until)| (at - from, until - at)),
        );
    }
    text
}

/// Figures of a run, for its printed summary.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) missing: usize,
    /// The longest time from the first change of an instance until its first sample, in
    /// nanoseconds.
    pub(super) latest: i64,
}

pub(super) fn check_presence(
    record: &Record,
    ticks: &Ticks,
    reading: &Reading,
    spells: &[Spell],
    complaints: &mut Complaints,
) -> Figures {
    let mut absent: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    let mut latest = 0;
    for (key, segments) in &record.log.series {
        let none = Vec::new();
        let samples = reading.samples.get(key).unwrap_or(&none);
        for segment in segments {
            let is_of = |segment: &Segment, at: i64, value: f64| {
                let to = ticks.after(at);
                let ended = record.log.lives[segment.life].ended;
                let is_over = at > ticks.after(ended + LAST_SAMPLE + record.delayed);
                !is_over && is_there(segment, at, to) && segment.permits(value, at, to)
            };
            let own: Vec<&(i64, f64)> =
                samples.iter().filter(|(at, value)| is_of(segment, *at, *value)).collect();
            let times: BTreeSet<i64> = own.iter().map(|(at, _)| *at).collect();
            // The last value before a removal or a restart may be a value of this one as well.
            let is_certain = |at: i64, value: f64| {
                let of = segments.iter().filter(|other| is_of(other, at, value));
                of.count() == 1
            };
            let first = own.iter().find(|(at, value)| is_certain(*at, *value));
            let life = &record.log.lives[segment.life];
            let ending = segment.removed.map_or(life.ending, |(from, _)| from);
            let certain = segment.is_certain_from();
            if certain == i64::MAX {
                continue;
            }
            let first = first.map(|(at, _)| *at).filter(|first| *first < ending);
            let mut deadline = certain + FIRST_SAMPLE + record.delayed;
            deadline += 5 * record.plan.interval.as_nanos() as i64;
            if let Some(away) = record.away.filter(|_| record.is_away(certain, deadline)) {
                deadline = deadline.max(away.back + FIRST_SAMPLE + record.delayed);
            }
            // A file may be rewritten before each tick.
            let is_shown = spells.iter().any(|spell| {
                spell.file == life.file && spell.from <= deadline && certain <= spell.until
            });
            if first.unwrap_or(i64::MAX) > deadline && deadline < ending && !is_shown {
                complaints.add(format!(
                    "{}: {key:?} of {certain} is first seen at {first:?}",
                    reading.reader
                ));
            }
            let Some(first) = first else { continue };
            latest = latest.max(first - certain);
            let missing = ticks.whole(first, ending).filter(|tick| !times.contains(tick));
            // An instance that was removed and is there again keeps its cell until the agent knows
            // of the removal.
            let removed = segments.iter().filter(|other| other.life == segment.life);
            let is_again =
                removed.filter_map(|other| other.removed).any(|(_, until)| until <= certain);
            let known = if is_again { deadline } else { i64::MIN };
            let missing = missing.filter(|tick| *tick > known);
            for tick in missing.filter(|tick| !record.is_away(*tick, *tick)) {
                let is_shown = spells.iter().any(|spell| {
                    spell.file == life.file
                        && spell.from / 1000 <= tick / 1000
                        && tick < spell.until
                });
                if !is_shown {
                    complaints.add(format!(
                        "{}: no sample of {key:?} at {tick}, first seen at {first}, until {ending}",
                        reading.reader
                    ));
                }
                absent.entry(&life.file).or_default().insert(tick);
            }
        }
    }
    for (file, ticks) in &absent {
        // The time of an event may be later than what happened, so all are counted together.
        let of_file = spells.iter().filter(|spell| spell.file == *file);
        let (ended, cut_off): (Vec<&Spell>, Vec<&Spell>) =
            of_file.partition(|spell| spell.missing.is_some());
        let counted: u64 = ended.iter().filter_map(|spell| spell.missing).sum();
        let is_cut_off =
            |tick: &i64| cut_off.iter().any(|spell| spell.from <= *tick && *tick < spell.until);
        let found = ticks.iter().filter(|tick| !is_cut_off(tick)).count() as u64;
        if counted < found {
            complaints.add(format!(
                "{}: {found} samples of {file} are missing, events count {counted}",
                reading.reader
            ));
        }
        check_status(record, file, ticks, complaints);
    }
    Figures { missing: absent.values().map(BTreeSet::len).sum(), latest }
}

/// Returns the lives that were over before the agent had opened their files: most of their series
/// have no sample. In a short run, whose lives last for a second, a busy machine is the cause.
fn unopened_lives(record: &Record, ticks: &Ticks, reading: &Reading) -> BTreeSet<usize> {
    let mut counts: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for (key, segments) in &record.log.series {
        let samples = reading.samples.get(key).map(Vec::as_slice).unwrap_or_default();
        for segment in segments {
            let tick = ticks.after(record.log.lives[segment.life].ended + LAST_SAMPLE);
            let has_sample = samples.iter().any(|(at, value)| {
                segment.created() <= *at && *at <= tick && segment.permits(*value, *at, tick)
            });
            let (found, all) = counts.entry(segment.life).or_default();
            *found += usize::from(has_sample);
            *all += 1;
        }
    }
    let mut unopened = BTreeSet::new();
    for (life, (found, all)) in counts {
        let own = &record.log.lives[life];
        let is_short = record.plan.length < LONG || own.ended < own.born + STARTING + record.busy;
        if is_short && 2 * found < all {
            unopened.insert(life);
        }
    }
    unopened
}

pub(super) fn check_last_values(
    record: &Record,
    ticks: &Ticks,
    reading: &Reading,
    complaints: &mut Complaints,
) {
    let unopened = unopened_lives(record, ticks, reading);
    for (key, segments) in &record.log.series {
        let none = Vec::new();
        let samples = reading.samples.get(key).unwrap_or(&none);
        for segment in segments.iter().filter(|segment| segment.removed.is_none()) {
            let life = &record.log.lives[segment.life];
            let tick = ticks.after(life.ended + LAST_SAMPLE + record.delayed);
            let lives = record.log.lives.iter().filter(|other| is_of_application(other, life));
            let births = lives.map(|other| other.born);
            let replaced =
                births.filter(|born| (life.ended - STARTING..=tick).contains(born)).min();
            // A file whose last rewrite is incomplete or unknown cannot be read.
            let is_rewritten = PROGRAMS[life.program].1 == Kind::InPlace;
            if is_rewritten || record.is_away(life.ending, tick) {
                continue;
            }
            let is_own = |(at, _): &&(i64, f64)| segment.created() <= *at && *at <= tick;
            let mut last = samples.iter().rfind(is_own);
            if let Some(born) = replaced {
                // Values of the file that replaces it follow.
                let is_last = |(at, value): &&(i64, f64)| {
                    life.ending <= *at && segment.permits(*value, life.ended, tick)
                };
                let is_older = |(at, _): &&(i64, f64)| *at <= born;
                let mut own = samples.iter().filter(is_own);
                last = own.clone().find(is_last).or_else(|| own.rfind(is_older));
            }
            // It was killed before it had made the first change.
            let is_unmade = life.is_killed && segment.is_certain_from() > life.ended;
            if unopened.contains(&segment.life) || (last.is_none() && is_unmade) {
                continue;
            }
            if !last.is_some_and(|(_, value)| segment.permits(*value, life.ended, tick)) {
                complaints.add(format!(
                    "{}: the last value of {key:?} is {last:?}, not {}..={} at {} (tick {tick})",
                    reading.reader,
                    segment.least(life.ended),
                    segment.greatest(tick),
                    life.ended
                ));
            }
        }
    }
}

/// Checks that the agent's status lists the missing samples of a life that ran when it was asked.
fn check_status(record: &Record, file: &str, absent: &BTreeSet<i64>, complaints: &mut Complaints) {
    let (at, status) = &record.status;
    let mut lives = record.log.lives.iter().filter(|life| life.file == file);
    let life = lives.find(|life| life.born < *at && *at < life.ending);
    let Some(life) = life else { return };
    let since = record.away.map_or(life.born, |away| away.back.max(life.born).min(*at));
    let before = absent.range(since..*at).count() as u64;
    let sources = status["sources"].as_array().expect("sources");
    let source = sources.iter().find(|source| source["file"] == file);
    let missing = source.and_then(|source| source["missing"].as_u64());
    if missing.is_some_and(|missing| missing < before) {
        complaints.add(format!("status: {missing:?} samples of {file} are missing, not {before}"));
    }
}

pub(super) fn check_metrics(reading: &Reading, complaints: &mut Complaints) {
    for program in ["live", "rebuilt", "facade"] {
        let prefix = format!("mmv.{program}.");
        let mut metrics = reading.samples.keys().map(|(metric, _)| metric);
        if !metrics.any(|metric| metric.starts_with(&prefix)) {
            complaints.add(format!("{}: nothing of {program}", reading.reader));
        }
    }
}

pub(super) fn check_ticks(
    record: &Record,
    ticks: &Ticks,
    reading: &Reading,
    complaints: &mut Complaints,
) {
    if Ticks::new(record, reading).times != ticks.times {
        complaints.add(format!("{}: not the ticks of report --raw", reading.reader));
    }
    let (Some(first), Some(last)) = (ticks.times.first(), ticks.times.last()) else { return };
    let between = record.away.map_or(0, |away| {
        ticks.after(away.stopped)
            - ticks.before(away.stopped)
            - record.plan.interval.as_nanos() as i64
    });
    let due = (last - first - between) as f64 / record.plan.interval.as_nanos() as f64;
    let missing = due - (ticks.times.len() - 1) as f64;
    // The last one comes when the agent ends, and each may be late by less than an interval.
    if missing > record.missed as f64 + 1.5 {
        complaints.add(format!(
            "{}: {missing} ticks are missing, the agent counts {}",
            reading.reader, record.missed
        ));
    }
}

/// Checks that the comparison complains of a reader that exchanges two names, says more than was
/// counted or omits samples.
#[track_caller]
pub(super) fn assert_finds_faults(record: &Record, ticks: &Ticks, reading: &Reading) {
    let metric = "mmv.facade.hits_by";
    let keys: Vec<&Key> = reading.samples.keys().filter(|(of, _)| of == metric).collect();
    let longest = |key: &&&Key| reading.samples[**key].len();
    let one = (*keys.iter().max_by_key(longest).expect("instances")).clone();
    let other = (*keys.iter().rev().max_by_key(longest).expect("instances")).clone();
    let mut exchanged = reading.clone();
    exchanged.samples.insert(one.clone(), reading.samples[&other].clone());
    let mut greater = reading.clone();
    greater.samples.get_mut(&one).expect("samples").last_mut().expect("a sample").1 += 1e6;
    let mut omitted = reading.clone();
    for samples in omitted.samples.values_mut() {
        samples.truncate(1);
    }
    for (what, faulty, named) in [
        ("exchanged", exchanged, one.1.as_str()),
        ("greater", greater, one.1.as_str()),
        ("omitted", omitted, "no sample of"),
    ] {
        let mut complaints = Complaints::default();
        check_values(record, ticks, &faulty, &mut complaints);
        check_presence(record, ticks, &faulty, &[], &mut complaints);
        let is_found = complaints.all.iter().any(|complaint| complaint.contains(named));
        assert!(one == other || is_found, "{what}: {one:?}");
    }
}
