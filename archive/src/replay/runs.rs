//! The runs of programs: between which records of a metric nothing continues.
//!
//! A program that ends and starts again counts from 0 again, and has no values in
//! between. The evidence is, for metrics of MMV files (PMIDs of domain 70,
//! names that begin with `mmv.`):
//!
//! * the agent's own [events](crate::programs) about the metric's file, if they are in the
//!   archive: where a run ended and the next began is *known*;
//! * an instance of a counter that falls: at this record *all* instances of the metric
//!   were reset, those that did not fall as well.
//!
//! | record | a | b | event | |
//! |---|---|---|---|---|
//! | 0 | 100 | 3 | | |
//! | 1 | 110 | 4 | | |
//! | 2 | - | - | vanished | a boundary |
//! | 3 | 20 | 9 | appeared | a boundary; counters began at 0 |
//! | 4 | 35 | 9 | | |
//!
//! No value before a known boundary is a neighbour of a moment after it. From record 1 to
//! record 3 neither instance has a value, although b rises. The rate of a over
//! all of it is what it grew in each run, over the time of each: (10 + 15) by the seconds
//! from 0 to 1 and from 3 to 4. Without the events record 3 is a fall of a: both have
//! values from record 1 to record 3, but no rate over any part of it.
//!
//! Other metrics have no boundaries, nor has any by PCP's rules
//! ([`Gaps::Join`]).

use std::ops::Range;

use hashbrown::HashMap;

use super::growth::growth;
use super::resets::falls;
use super::timeline::{Reach, Timeline};
use super::{Column, Decrease, Lifetime, Replay, Track, column_value};
use crate::programs::ProgramEvent;
use crate::{Semantics, Timestamp, Value, programs};

/// What a time without values in between means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gaps {
    /// Where a program was away, its metrics have no values.
    #[default]
    Keep,
    /// Values are interpolated over it as in PCP, which knows marks only.
    Join,
}

/// The known boundaries of each program: the record, and whether counters began at 0.
#[derive(Debug, Default)]
pub(super) struct Programs(HashMap<String, Vec<(u32, bool)>>);

impl Programs {
    /// Those of the events that were read.
    pub(super) fn of(events: &Column, timeline: &Timeline) -> Self {
        let mut all: HashMap<String, Vec<(u32, bool)>> = HashMap::new();
        for (_, value) in events.iter() {
            for event in ProgramEvent::all(value) {
                let (Some(file), Some(boundary)) = (event.file, event.boundary()) else { continue };
                let record = timeline.first_from(boundary.at);
                all.entry_ref(file).or_default().push((record, boundary.from_zero));
            }
        }
        Self(all)
    }

    /// The boundaries of a metric, by its name.
    fn boundaries(&self, metric: &str) -> Vec<(u32, bool)> {
        let Some(rest) = metric.strip_prefix("mmv.").filter(|_| !self.0.is_empty()) else {
            return Vec::new();
        };
        let files = rest.match_indices('.').filter_map(|(dot, _)| rest.get(..dot));
        files.filter_map(|file| self.0.get(file)).flatten().copied().collect()
    }
}

/// Where the values of a metric do not continue.
#[derive(Debug, Clone, Default)]
pub(super) struct Runs {
    /// Records where a run ends or begins, ascending.
    known: Vec<u32>,
    /// Those of them from which on counters began at 0.
    from_zero: Vec<u32>,
    /// From the record before to the record after each fall of an instance without a known
    /// boundary in between.
    falls: Vec<Range<u32>>,
}

impl Runs {
    /// The runs of a metric's program.
    pub(super) fn of(
        track: &Track,
        programs: &Programs,
        timeline: &Timeline,
        decrease: Decrease,
    ) -> Self {
        let metric = &track.metric;
        if metric.desc.pmid.domain() != programs::DOMAIN || !metric.name.starts_with("mmv.") {
            return Self::default();
        }
        let mut boundaries = programs.boundaries(&metric.name);
        boundaries.sort_unstable();
        let mut known: Vec<u32> = boundaries.iter().map(|(record, _)| *record).collect();
        known.dedup();
        let from_zero = boundaries.iter().filter(|(_, from_zero)| *from_zero);
        let from_zero = from_zero.map(|(record, _)| *record).collect();
        let may_fall = decrease == Decrease::Reset && metric.has_rates();
        let falls = if may_fall { falls_of(track, timeline, &known) } else { Vec::new() };
        Self { known, from_zero, falls }
    }

    /// The records of known boundaries, ascending.
    pub(super) fn known(&self) -> &[u32] {
        &self.known
    }

    /// Whether there is a known boundary in some records.
    pub(super) fn are_known_in(&self, records: &Range<u32>) -> bool {
        !self.known_in(records).is_empty()
    }

    /// Whether an instance fell at some time within a span.
    pub(super) fn fall_within(&self, span: &Range<Timestamp>, timeline: &Timeline) -> bool {
        self.falls.iter().any(|fall| {
            let times = timeline.timestamp(fall.start).zip(timeline.timestamp(fall.end));
            times.is_some_and(|(before, after)| before < span.end && span.start < after)
        })
    }

    /// What is in reach of a moment without passing a known boundary.
    pub(super) fn limit(&self, reach: &Reach) -> Reach {
        reach.limited(&self.known)
    }

    /// The known boundaries in some records.
    fn known_in(&self, records: &Range<u32>) -> &[u32] {
        let place = |record| self.known.partition_point(|known| *known < record);
        self.known.get(place(records.start)..place(records.end)).unwrap_or_default()
    }
}

/// The falls of a counter's instances while they exist, between marks and known
/// boundaries: those that a search for the neighbours of a moment finds as well.
fn falls_of(track: &Track, timeline: &Timeline, known: &[u32]) -> Vec<Range<u32>> {
    let mut walls = [known, timeline.marks()].concat();
    walls.sort_unstable();
    let columns: Vec<&Column> = track.columns.iter().collect();
    let mut all = Vec::new();
    for (place, life) in track.lives.iter().enumerate() {
        let exists = |record| {
            let at = timeline.timestamp(record);
            at.zip(*life).is_some_and(|(at, life)| life.contains(at))
        };
        let falls = falls(&columns, place..place + 1, &walls);
        all.extend(falls.into_iter().filter(|fall| exists(fall.start) && exists(fall.end)));
    }
    all
}

/// What a counter did over a span of time, run by run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Grown {
    /// It had a value at the start of the span.
    pub(super) was_there: bool,
    /// How much it grew, from the value at the start or the first of each run.
    pub(super) by: f64,
    /// In how many seconds.
    pub(super) seconds: f64,
    /// What it had counted before the first value, in the runs that began at 0 within the
    /// span.
    pub(super) begun: Option<f64>,
    /// Its last value in the run of the start, if it has none at the start.
    pub(super) appeared: Option<f64>,
    /// It has no value at the end of the span, and no boundary says why.
    pub(super) is_open: bool,
}

/// A moment, and what is in its reach.
pub(super) type Bound<'r> = (Timestamp, &'r Reach);

impl Replay<'_> {
    /// What a counter did between two moments, without a mark in between; `None` if it
    /// fell within a run. Where it has no value at the second moment, its last one of that
    /// run counts.
    pub(super) fn grown(
        &self,
        column: &Column,
        life: Lifetime,
        runs: &Runs,
        [since, until]: [Bound<'_>; 2],
    ) -> Option<Grown> {
        let value_at = |(at, reach): Bound<'_>| {
            let reach = runs.limit(reach);
            let (timeline, decrease) = (&self.timeline, self.decrease);
            let value = column_value(column, Semantics::Counter, &reach, timeline, decrease);
            Some((reach.at, value.filter(|_| life.contains(at))?))
        };
        let place = |record| column.rows().count_before(record);
        let observed = |place: usize| {
            let (record, value) = column.get(place)?;
            Some((self.timeline.seconds(record), value))
        };
        let records = since.1.prior.end..until.1.prior.end;
        let boundaries = runs.known_in(&records).iter().copied();
        let mut grown = Grown::default();
        let mut start = value_at(since);
        grown.was_there = start.is_some();
        let mut begin = None;
        for end in boundaries.map(Some).chain([None]) {
            let places = place(begin.unwrap_or(records.start))..place(end.unwrap_or(records.end));
            let mut places = places.filter(|place| observed(*place).is_some()).peekable();
            let first = places.peek().copied();
            if begin.is_some() {
                start = first.and_then(observed);
            }
            let is_from_zero = begin.is_some_and(|begin| runs.from_zero.contains(&begin));
            if is_from_zero {
                let before = start.and_then(|(_, value)| value.as_f64());
                grown.begun = Some(grown.begun.unwrap_or(0.0) + before.unwrap_or(0.0));
            }
            let all: Vec<(f64, Value<'_>)> = places.filter_map(observed).collect();
            let last = if end.is_none() { value_at(until) } else { None };
            let is_ended = end.is_some() || runs.limit(until.1).next.end < until.1.next.end;
            grown.is_open |= last.is_none() && !is_ended;
            let last = last.or(all.last().copied());
            match (start, last) {
                (Some((from, first)), Some((to, last))) => {
                    let between = all.iter().map(|(_, value)| *value);
                    grown.by += growth(first, between, last, self.decrease)?;
                    grown.seconds += to - from;
                }
                (None, Some((_, last))) if begin.is_none() => grown.appeared = last.as_f64(),
                _ => {}
            }
            begin = end;
        }
        Some(grown)
    }
}
