//! Events of programs in a window, and programs that were not measured.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

use pcp_archive::envelope::Grid;
use pcp_archive::internal::programs::{ProgramEvent, for_each_event};
use pcp_archive::scan::Selection;
use pcp_archive::{Source, Timestamp, Units};

use super::{COLUMNS, ChangeKind, ChangePoint, History, TimeColumns};
use crate::Failure;
use crate::comparison::{ExcludedPeriod, ObservedRun, program_of, read_falls};

const MIN_RESTARTS: usize = 3;
/// Least ratio of the rate of restarts to the rate before.
const MIN_RESTART_RATIO: f64 = 3.0;
/// Restarts belong together while each pause is shorter than this many times the median pause.
const MAX_PAUSE: f64 = 4.0;
/// Limit on the score of restarts.
const RESTART_SCORE: f64 = 100.0;
/// A gap of this many usual distances lacks at least two values.
const MIN_ABSENT: usize = 3;
/// Share of distances like the median from which a program counts as logged regularly.
const MIN_REGULAR: f64 = 0.9;

/// Something that happened to a program, or to the agent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecordedEvent {
    pub(crate) time: Timestamp,
    pub(crate) kind: String,
    pub(crate) program: Option<String>,
    pub(crate) pid: Option<u32>,
    pub(crate) reason: Option<String>,
}

/// A period without values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UnmeasuredPeriod {
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
) -> Result<Vec<RecordedEvent>, Failure> {
    let mut events = Vec::new();
    for_each_event(source, range.clone(), |event| {
        if range.contains(&event.at) {
            events.push(RecordedEvent::new(event));
        }
    })?;
    events.sort_by_key(|event| event.time);
    Ok(events)
}

/// Reads where `interrupted` counters fell in a window of an archive without the events of an agent.
/// Nothing says that a program restarted.
pub(crate) fn read_resets(
    selection: &Selection<'_>,
    interrupted: &BTreeSet<usize>,
    window: RangeInclusive<Timestamp>,
) -> Result<Vec<RecordedEvent>, Failure> {
    let falls = read_falls(selection, interrupted, &Grid::new(window, COLUMNS), true)?;
    let mut events = Vec::with_capacity(falls.len());
    for fall in falls {
        events.push(RecordedEvent {
            time: fall.at,
            kind: "reset".to_owned(),
            program: Some(fall.program),
            pid: None,
            reason: Some("counters fell".to_owned()),
        });
    }
    Ok(events)
}

impl RecordedEvent {
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
    events: &[RecordedEvent],
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
/// marks, and columns without values where programs usually have some.
pub(super) fn unmeasured(
    history: &impl History,
    run: &ObservedRun,
    grid: &TimeColumns,
    window_start: Timestamp,
) -> Result<Vec<UnmeasuredPeriod>, Failure> {
    let window_end = *grid.range.end();
    let presence = presence_by_program(run, grid.columns as usize);
    let mut any_present = vec![false; grid.columns as usize];
    for present in presence.values() {
        any_present.iter_mut().zip(present).for_each(|(any, own)| *any |= own);
    }
    let mut all = Vec::new();
    for ExcludedPeriod { program, begin, end, reason } in &run.excluded {
        if end > begin && *end > window_start {
            let begin = (*begin).max(window_start);
            let program = program.clone();
            all.push(UnmeasuredPeriod { program, begin, end: *end, reason });
        }
    }
    let first = grid.column(window_start).max(0.0) as usize;
    for absent in absent_columns(&any_present, &known_columns(&all, None, grid), first) {
        let begin = grid.time(absent.start as f64).max(window_start);
        let end = grid.time(absent.end as f64).min(window_end);
        if !history.has_records(begin, end)? {
            all.push(UnmeasuredPeriod { program: None, begin, end, reason: "no records" });
        }
    }
    let mut silent = Vec::new();
    for (program, present) in &presence {
        let known = known_columns(&all, Some(program), grid);
        for absent in absent_columns(present, &known, first) {
            let begin = grid.time(absent.start as f64).max(window_start);
            let end = grid.time(absent.end as f64).min(window_end);
            let program = Some(program.clone());
            silent.push(UnmeasuredPeriod { program, begin, end, reason: "no values" });
        }
    }
    all.extend(silent);
    all.sort_by(|one, other| (one.begin, &one.program).cmp(&(other.begin, &other.program)));
    Ok(all)
}

/// Returns the columns of the periods that are known to have no values, of a program or of all.
fn known_columns(
    periods: &[UnmeasuredPeriod],
    program: Option<&str>,
    grid: &TimeColumns,
) -> Vec<RangeInclusive<usize>> {
    let mut all = Vec::new();
    for period in periods {
        if period.program.is_none() || period.program.as_deref() == program {
            let begin = grid.column(period.begin).max(0.0) as usize;
            let end = grid.column(period.end).max(0.0) as usize;
            all.push(begin..=end);
        }
    }
    all
}

/// Returns whether a program has an observation, by column. A rate has one where its interval ends,
/// not in all columns that it extends over.
fn presence_by_program(run: &ObservedRun, columns: usize) -> BTreeMap<String, Vec<bool>> {
    let mut all: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    let series = run.series.iter().map(|(name, series)| {
        let present = series.parts.iter().map(|part| part.observations > 0);
        (name, present.collect::<Vec<bool>>())
    });
    let histograms = run.histograms.iter().map(|(name, histogram)| {
        let present = histogram.columns.observations.iter().map(|count| *count > 0);
        (name, present.collect::<Vec<bool>>())
    });
    for ((metric, _), present) in series.chain(histograms) {
        let program = program_of(metric).or_else(|| metric.split('.').next()).unwrap_or(metric);
        let own = match all.get_mut(program) {
            Some(own) => own,
            None => all.entry(program.to_owned()).or_insert_with(|| vec![false; columns]),
        };
        own.iter_mut().zip(present).for_each(|(own, present)| *own |= present);
    }
    all
}

/// Returns the columns of a window without a value where values are usually at regular distances,
/// and at least two are missing. None of them is in the `known` columns.
fn absent_columns(
    present: &[bool],
    known: &[RangeInclusive<usize>],
    first: usize,
) -> Vec<Range<usize>> {
    let Some(usual) = usual_distance(present) else { return Vec::new() };
    let mut absent = Vec::new();
    let mut from = first;
    for column in first..=present.len() {
        let is_known = known.iter().any(|known| known.contains(&column));
        if !is_known && present.get(column).is_some_and(|present| !present) {
            continue;
        }
        if column + 1 >= from + MIN_ABSENT * usual {
            absent.push(from..column);
        }
        from = column + 1;
    }
    absent
}

/// Returns the median distance of columns with values; `None` if most others are not like it.
fn usual_distance(present: &[bool]) -> Option<usize> {
    let mut columns = Vec::new();
    for (column, present) in present.iter().enumerate() {
        if *present {
            columns.push(column);
        }
    }
    let mut distances = Vec::new();
    for (earlier, later) in columns.iter().zip(columns.iter().skip(1)) {
        distances.push(later - earlier);
    }
    distances.sort_unstable();
    let median = distances.get(distances.len() / 2).copied()?;
    let regular = distances.iter().filter(|distance| distance.abs_diff(median) <= 1).count();
    (regular as f64 >= MIN_REGULAR * distances.len() as f64).then_some(median)
}
