//! Events of programs in a window, and programs that were not measured.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

use pcp_archive::internal::programs::{ProgramEvent, for_each_event};
use pcp_archive::{Source, Timestamp, Units};

use super::tracks::program_of;
use super::{ChangeKind, ChangePoint, TimeColumns};
use crate::Failure;
use crate::comparison::{Excluded, ObservedRun};

const MIN_RESTARTS: usize = 3;
/// Least ratio of the rate of restarts to the rate before.
const MIN_RESTART_RATIO: f64 = 3.0;
/// Restarts belong together while each pause is shorter than this many times the median pause.
const MAX_PAUSE: f64 = 4.0;
/// Limit on the score of restarts.
const RESTART_SCORE: f64 = 100.0;
/// Least number of columns without a value that are reported.
const MIN_ABSENT: usize = 2;
/// Share of columns with values from which a program counts as logged regularly.
const MIN_PRESENT: f64 = 0.5;

/// Something that happened to a program, or to the agent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) time: Timestamp,
    pub(crate) kind: String,
    pub(crate) program: Option<String>,
    pub(crate) pid: Option<u32>,
    pub(crate) reason: Option<String>,
}

/// A period without values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Unmeasured {
    /// `None` for all programs.
    pub(crate) program: Option<String>,
    pub(crate) begin: Timestamp,
    pub(crate) end: Timestamp,
    pub(crate) reason: &'static str,
}

/// Reads the events in a range, in the order of time.
pub(crate) fn read_events(
    source: Source<'_>,
    range: RangeInclusive<Timestamp>,
) -> Result<Vec<Event>, Failure> {
    let mut events = Vec::new();
    for_each_event(source, range.clone(), |event| {
        if range.contains(&event.at) {
            events.push(Event::new(event));
        }
    })?;
    events.sort_by_key(|event| event.time);
    Ok(events)
}

impl Event {
    fn new(event: &ProgramEvent<'_>) -> Self {
        Self {
            time: event.at,
            kind: event.kind.to_owned(),
            program: event.file.map(str::to_owned),
            pid: event.pid,
            reason: event.reason.map(str::to_owned),
        }
    }
}

/// Returns the programs that began to restart again and again in a window. `events` are those of a
/// range that begins before it.
pub(crate) fn restart_loops(
    events: &[Event],
    range: &RangeInclusive<Timestamp>,
    window_start: Timestamp,
) -> Vec<ChangePoint> {
    let agent_starts: BTreeSet<Timestamp> =
        events.iter().filter(|event| event.kind == "started").map(|event| event.time).collect();
    let mut restarts: BTreeMap<&str, Vec<Timestamp>> = BTreeMap::new();
    for event in events {
        // A program that the agent finds when it starts has not restarted.
        let is_start = match event.kind.as_str() {
            "restarted" => true,
            "appeared" => !agent_starts.contains(&event.time),
            _ => false,
        };
        if let Some(program) = event.program.as_deref().filter(|_| is_start) {
            restarts.entry(program).or_default().push(event.time);
        }
    }
    let mut changes = Vec::new();
    for (program, times) in restarts {
        changes.extend(restart_loop(program, &times, range, window_start));
    }
    changes
}

fn restart_loop(
    program: &str,
    times: &[Timestamp],
    range: &RangeInclusive<Timestamp>,
    window_start: Timestamp,
) -> Option<ChangePoint> {
    let series = longest_series(times);
    let restarts = times.get(series.clone())?;
    let (first, last) = (*restarts.first()?, *restarts.last()?);
    if restarts.len() < MIN_RESTARTS || first < window_start {
        return None;
    }
    let seconds = last.seconds_since(first).max(1e-3);
    let during = (restarts.len() - 1) as f64 / seconds;
    let seconds_before = first.seconds_since(*range.start());
    let before = if seconds_before > 0.0 { series.start as f64 / seconds_before } else { 0.0 };
    if during < MIN_RESTART_RATIO * before {
        return None;
    }
    let usual = seconds / (restarts.len() - 1) as f64;
    let goes_on = range.end().seconds_since(last) <= MAX_PAUSE * usual;
    Some(ChangePoint {
        metric: format!("mmv.{program}"),
        instance: None,
        kind: ChangeKind::Restarts,
        units: Units::count().per_second(),
        begin: first,
        end: (!goes_on).then_some(last),
        is_gradual: false,
        before,
        during,
        score: RESTART_SCORE * (during - before) / (during + before),
        group: 0,
        lag: 0.0,
    })
}

/// Returns the longest series of times without a pause that is much longer than usual.
fn longest_series(times: &[Timestamp]) -> Range<usize> {
    let mut pauses = Vec::new();
    for (earlier, later) in times.iter().zip(times.iter().skip(1)) {
        pauses.push(later.seconds_since(*earlier));
    }
    let mut sorted = pauses.clone();
    sorted.sort_by(f64::total_cmp);
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    let mut longest = 0..0;
    let mut begin = 0;
    for end in 1..=times.len() {
        let is_over = pauses.get(end - 1).is_none_or(|pause| *pause > MAX_PAUSE * median);
        if is_over {
            if end - begin > longest.len() {
                longest = begin..end;
            }
            begin = end;
        }
    }
    longest
}

/// Returns the periods of a window without values: the absences that the run knows from events and
/// marks, and columns without values of programs that have values in most others.
pub(super) fn unmeasured(
    run: &ObservedRun,
    grid: &TimeColumns,
    window_start: Timestamp,
) -> Vec<Unmeasured> {
    let window_end = *grid.range.end();
    let presence = presence_by_program(run, grid.columns as usize);
    let mut all_present = vec![false; grid.columns as usize];
    for present in presence.values() {
        all_present.iter_mut().zip(present).for_each(|(all, own)| *all |= own);
    }
    let mut all = Vec::new();
    for Excluded { program, begin, end, reason } in &run.excluded {
        let mut end = *end;
        if program.is_none() {
            // A mark is the end of the values before it.
            let column = grid.column(*begin).max(0.0) as usize;
            let next = (column + 1..all_present.len())
                .find(|column| all_present.get(*column) == Some(&true));
            end = next.map_or(window_end, |column| grid.time(column as f64));
        }
        if end > *begin && end > window_start {
            let begin = (*begin).max(window_start);
            all.push(Unmeasured { program: program.clone(), begin, end, reason });
        }
    }
    let known: Vec<Unmeasured> = all.clone();
    let first = grid.column(window_start).max(0.0) as usize;
    for (program, present) in &presence {
        for absent in absent_columns(present, first) {
            let begin = grid.time(absent.start as f64).max(window_start);
            let end = grid.time(absent.end as f64).min(window_end);
            let is_known = known.iter().any(|known| {
                let is_about = known.program.as_ref().is_none_or(|known| known == program);
                is_about && known.begin < end && begin < known.end
            });
            if !is_known {
                let program = Some(program.clone());
                all.push(Unmeasured { program, begin, end, reason: "no values" });
            }
        }
    }
    all.sort_by(|one, other| (one.begin, &one.program).cmp(&(other.begin, &other.program)));
    all
}

/// Returns whether a program has a value, by column.
fn presence_by_program(run: &ObservedRun, columns: usize) -> BTreeMap<String, Vec<bool>> {
    let mut all: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    let series = run.series.iter().map(|(name, series)| {
        let present = series.parts.iter().map(|part| part.denominator > 0.0);
        (name, present.collect::<Vec<bool>>())
    });
    let histograms = run.histograms.iter().map(|(name, histogram)| {
        let present = histogram.columns.seconds.iter().map(|seconds| *seconds > 0.0);
        (name, present.collect::<Vec<bool>>())
    });
    for ((metric, _), present) in series.chain(histograms) {
        let program = program_of(metric);
        let own = match all.get_mut(program) {
            Some(own) => own,
            None => all.entry(program.to_owned()).or_insert_with(|| vec![false; columns]),
        };
        own.iter_mut().zip(present).for_each(|(own, present)| *own |= present);
    }
    all
}

/// Returns the columns of a window without a value, of a program that usually has one.
fn absent_columns(present: &[bool], first: usize) -> Vec<Range<usize>> {
    let begin = present.iter().position(|present| *present).unwrap_or(0);
    let end = present.iter().rposition(|present| *present).map_or(0, |last| last + 1);
    let count = present.iter().filter(|present| **present).count();
    if end == 0 || (count as f64) < MIN_PRESENT * (end - begin) as f64 || count < MIN_ABSENT {
        return Vec::new();
    }
    let mut absent = Vec::new();
    let mut from = first;
    for column in first..=present.len() {
        if present.get(column).is_some_and(|present| !present) {
            continue;
        }
        if column >= from + MIN_ABSENT {
            absent.push(from..column);
        }
        from = column + 1;
    }
    absent
}
