//! The runs of programs: between which records of a metric nothing continues.
//!
//! A program that ends and starts again counts from 0 again, and has no values in
//! between. The evidence is, for metrics of MMV files (PMIDs of domain 70,
//! names that begin with `mmv.`):
//!
//! * the agent's own [events](crate::programs) about the metric's file, if they are in the
//!   archive: where a run ended and the next began is *known*;
//! * marks, where the agent was away: whether a run continued is not known, so none does;
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
//! Other metrics have marks alone for boundaries, and none has any by PCP's rules
//! ([`Gaps::Join`]).

use std::ops::Range;

use super::resets::falls;
use super::timeline::{Reach, Timeline};
use super::{Column, Decrease, Lifetime, Replay, Track};
use crate::growth::growth;
use crate::programs::{ByProgram, ProgramEvent};
use crate::{InstanceId, Timestamp, Value, programs};

/// What the events say of each program.
#[derive(Debug, Default)]
pub(super) struct Programs {
    /// The record of each boundary, and whether counters began at 0.
    boundaries: ByProgram<(u32, bool)>,
    /// Where one of several processes that share metrics is logged again, with counters that
    /// did not begin at 0.
    resumed: ByProgram<u32>,
}

impl Programs {
    /// Those of the events that were read.
    pub(super) fn of(events: &Column, timeline: &Timeline) -> Self {
        let mut all = Self::default();
        for (_, value) in events.iter() {
            for event in ProgramEvent::all(value) {
                let Some(boundary) = event.boundary() else { continue };
                let record = timeline.first_from(boundary.at);
                all.boundaries.add(&event, (record, boundary.from_zero));
                if !boundary.from_zero {
                    all.resumed.add_process(&event, record);
                }
            }
        }
        all
    }
}

/// Where the values of a metric do not continue.
#[derive(Debug, Clone, Default)]
pub(super) struct Runs {
    /// Records where a run ends or begins, and marks, ascending.
    known: Vec<u32>,
    /// Those of them from which on counters began at 0.
    from_zero: Vec<u32>,
    /// Records with which a process that shares the metric is logged again.
    resumed: Vec<u32>,
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
        if !programs::has_program(metric) {
            return Self { known: timeline.marks().to_vec(), ..Self::default() };
        }
        let mut boundaries: Vec<_> =
            programs.boundaries.of(&metric.name, metric.desc.pmid).collect();
        boundaries.sort_unstable();
        let known = boundaries.iter().map(|(record, _)| *record);
        let mut known: Vec<u32> = known.chain(timeline.marks().iter().copied()).collect();
        known.sort_unstable();
        known.dedup();
        let from_zero = boundaries.iter().filter(|(_, from_zero)| *from_zero);
        let from_zero = from_zero.map(|(record, _)| *record).collect();
        let may_fall = decrease == Decrease::Reset && metric.has_rates();
        let falls = if may_fall { falls_of(track, timeline, &known) } else { Vec::new() };
        let resumed = programs.resumed.of(&metric.name, metric.desc.pmid).collect();
        Self { known, from_zero, resumed, falls }
    }

    /// The records of known boundaries, ascending.
    pub(super) fn known(&self) -> &[u32] {
        &self.known
    }

    /// Whether counters began at 0 with a record.
    pub(super) fn begins_at_zero(&self, record: u32) -> bool {
        self.from_zero.binary_search(&record).is_ok()
    }

    /// Whether a process that shares the metric is logged again with one of some records, so that
    /// instances that are new in them may have counted before.
    pub(super) fn resume_within(&self, records: &Range<u32>) -> bool {
        self.resumed.iter().any(|record| records.contains(record))
    }

    /// Whether what is in reach after a moment ends with a known boundary.
    fn end_after(&self, reach: &Reach) -> bool {
        self.known.binary_search(&self.limit(reach).next.end).is_ok()
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

/// The falls of a counter's instances while they exist, between known boundaries: those that a search for the neighbours of a moment finds as well.
fn falls_of(track: &Track, timeline: &Timeline, known: &[u32]) -> Vec<Range<u32>> {
    let columns: Vec<&Column> = track.columns.iter().collect();
    let mut all = Vec::new();
    for (place, life) in track.lives.iter().enumerate() {
        let exists = |record| {
            let at = timeline.timestamp(record);
            at.zip(*life).is_some_and(|(at, life)| life.contains(at))
        };
        let falls = falls(&columns, place..place + 1, known);
        all.extend(falls.into_iter().filter(|fall| exists(fall.start) && exists(fall.end)));
    }
    all
}

/// What a counter did over a span of time, run by run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Grown {
    /// How much it grew, from the value at the start or the first of each run.
    pub(super) by: f64,
    /// In how many seconds.
    pub(super) seconds: f64,
    /// What it had counted before the first value, in the runs that began at 0 within the
    /// span.
    pub(super) begun: f64,
}

impl Grown {
    /// All that it counted within the span; `None` if that was not observed for any time.
    pub(super) fn total(&self) -> Option<f64> {
        (self.seconds > 0.0 || self.begun > 0.0).then_some(self.by + self.begun)
    }
}

/// A moment, and what is in its reach.
pub(super) type Bound<'r> = (Timestamp, &'r Reach);

impl Replay<'_> {
    /// What the instances of a counter did between two moments, if a run ended, began or was
    /// not observed in between; `None` if there was no such thing. Instances that fell
    /// within a run are left out, and those without a value at the end that no boundary
    /// explains.
    pub(super) fn grown_by_run(
        &self,
        track: &Track,
        bounds: [Bound<'_>; 2],
        is_away: bool,
    ) -> Option<Vec<(Option<InstanceId>, Grown)>> {
        let [since, until] = bounds;
        let records = since.1.prior.end..until.1.prior.end;
        let reach = track.runs.limit(since.1);
        let has_prior = |column: &Column| reach.neighbours(column.rows()).0.is_some();
        let was_away = reach.prior.start > 0 && !track.columns.iter().any(has_prior);
        let ahead = track.runs.limit(until.1);
        let has_next = |column: &Column| ahead.neighbours(column.rows()).1.is_some();
        let is_ended = track.runs.end_after(until.1) && !track.columns.iter().any(has_next);
        let known = track.runs.known_in(&records);
        if track.runs.known.is_empty() || (known.is_empty() && !was_away && !(is_away && is_ended))
        {
            return None;
        }
        let all = track.columns.iter().zip(&track.lives).filter_map(|(column, life)| {
            let grown = self.grown(column, (*life)?, &track.runs, bounds, was_away)?;
            Some((column.instance(), grown))
        });
        Some(all.collect())
    }

    /// What a counter did between two moments; `None` if it fell within a run, or has no
    /// value at the second moment and no boundary says why. Otherwise its last one of that
    /// run counts.
    fn grown(
        &self,
        column: &Column,
        life: Lifetime,
        runs: &Runs,
        [since, until]: [Bound<'_>; 2],
        was_away: bool,
    ) -> Option<Grown> {
        let place_in = |bound| self.place_in(column, life, runs, bound);
        let place = |record| column.rows().count_before(record);
        let observed = |place: usize| {
            let (record, value) = column.get(place)?;
            Some(Place { at: self.timeline.seconds(record), value, by: 0.0 })
        };
        let records = since.1.prior.end..until.1.prior.end;
        let boundaries = runs.known_in(&records).iter().copied();
        let mut grown = Grown::default();
        let mut begin = None;
        for end in boundaries.map(Some).chain([None]) {
            let places = place(begin.unwrap_or(records.start))..place(end.unwrap_or(records.end));
            let all: Vec<Place<'_>> = places.filter_map(observed).collect();
            let is_whole = begin.is_some() || was_away;
            let start =
                if is_whole { all.first().copied() } else { place_in(since).map(|(_, to)| to) };
            if begin.is_some_and(|begin| runs.begins_at_zero(begin)) {
                grown.begun += start.and_then(|start| start.value.as_f64()).unwrap_or(0.0);
            }
            let last = place_in(until).map(|(from, _)| from).filter(|_| end.is_none());
            if last.is_none() && end.is_none() && !explains(column, runs, begin, until.1) {
                return None;
            }
            let last = last.or(all.last().copied());
            if let (Some(start), Some(last)) = (start, last) {
                let between = all.iter().map(|place| place.value);
                let observed = growth(start.value, between, last.value, self.decrease)?;
                grown.by += start.by + observed + last.by;
                grown.seconds += last.at - start.at;
            }
            begin = end;
        }
        Some(grown)
    }

    /// A moment on the line between the observations around it: as one that is after the first
    /// of these, and as one that is before the second. `None` if either is missing, or if the
    /// counter fell in between.
    fn place_in<'c>(
        &self,
        column: &'c Column,
        life: Lifetime,
        runs: &Runs,
        (at, reach): Bound<'_>,
    ) -> Option<(Place<'c>, Place<'c>)> {
        let reach = runs.limit(reach);
        let observed =
            |(place, record)| Some((self.timeline.seconds(record), column.value(place)?));
        let (prior, next) = reach.neighbours(column.rows());
        let ((from, prior), (to, next)) = (observed(prior?)?, observed(next?)?);
        let between = growth(prior, std::iter::empty(), next, self.decrease)?;
        let part = if to > from { ((reach.at - from) / (to - from)).clamp(0.0, 1.0) } else { 0.0 };
        let place = |value, part| Place { at: reach.at, value, by: between * part };
        life.contains(at).then(|| (place(prior, part), place(next, 1.0 - part)))
    }
}

/// Returns true if a boundary is the reason why a column has no value at a moment: its run ended
/// then, or a run began with the record `begin` and has no observation of it yet.
fn explains(column: &Column, runs: &Runs, begin: Option<u32>, reach: &Reach) -> bool {
    match runs.limit(reach).neighbours(column.rows()) {
        (None, _) => begin.is_some(),
        (Some(_), None) => runs.end_after(reach),
        (Some(_), Some(_)) => false,
    }
}

/// A value of a counter at a moment, by an observation near it. It is not rounded to an integer:
/// of the part of a run that is within a span there may be less than a count.
#[derive(Debug, Clone, Copy)]
struct Place<'c> {
    /// The moment, in seconds since the start.
    at: f64,
    /// The observation.
    value: Value<'c>,
    /// How much the counter grew between the two.
    by: f64,
}
