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
//! all of it is what it grew in each run, over the time of each: (10 + 20 + 15) by the seconds
//! from 0 to 1 and from 2 to 4, since the run that began had counted 0 in the record before.
//! Without the events record 3 is a fall of a: both have values from record 1 to record 3, but no
//! rate over any part of it.
//!
//! An instance counts nothing before a program creates it and nothing after the program removes
//! it, so its rate is taken over the whole run. The rules of [`growth`](crate::growth::walls) say
//! which instances were created.
//!
//! Other metrics have marks alone for boundaries, and none has any by PCP's rules
//! ([`Gaps::Join`]).

use std::borrow::Cow;
use std::ops::Range;

use super::resets::falls;
use super::timeline::{Reach, Timeline};
use super::{Column, Decrease, Lifetime, Replay, Track};
use crate::growth::growth;
use crate::growth::lifetime::Presences;
use crate::growth::walls::{MetricWalls, Origin, RunState, Wall, Walls};
use crate::{InstanceId, Timestamp, Value, programs};

/// Where the values of a metric do not continue.
#[derive(Debug, Clone, Default)]
pub(super) struct Runs {
    /// Records where a run ends or begins, and marks, ascending.
    known: Vec<u32>,
    /// Those of them from which on counters began at 0, with the time of the record before.
    from_zero: Vec<(u32, Timestamp)>,
    /// Those of the columns of a program's counter.
    instances: Vec<Instance>,
    /// From the record before to the record after each fall of an instance without a known
    /// boundary in between.
    falls: Vec<Range<u32>>,
}

/// When an instance came and went.
#[derive(Debug, Clone, Default)]
struct Instance {
    /// The records with the first value after it was created, ascending, and what is known of it
    /// before.
    births: Vec<(u32, Origin)>,
    /// Ascending.
    removals: Vec<Timestamp>,
}

impl Runs {
    /// The runs of a metric's program.
    pub(super) fn of(
        track: &Track,
        walls: &Walls,
        timeline: &Timeline,
        presences: Option<&Presences>,
        decrease: Decrease,
    ) -> Self {
        let metric = &track.metric;
        if !programs::has_program(metric) {
            return Self { known: timeline.marks().to_vec(), ..Self::default() };
        }
        let rows = (timeline.timestamps(), &track.columns[..]);
        let walls = MetricWalls::new(walls, metric, rows, presences, RunState::default());
        let mut known: Vec<u32> = walls.all.iter().map(|wall| wall.row).collect();
        known.dedup();
        let from_zero = |wall: &Wall| match wall.origin {
            Origin::Zero(since) => Some((wall.row, since)),
            Origin::ZeroInRecord => Some((wall.row, wall.at)),
            _ => None,
        };
        let mut from_zero: Vec<_> = walls.all.iter().filter_map(from_zero).collect();
        from_zero.dedup_by_key(|(record, _)| *record);
        let instance = |column: &Column| {
            let births = walls.births_of(column, || None).into_iter();
            let presence = column.instance().and_then(|instance| presences?.get(&instance));
            Instance {
                births: births.map(|wall| (wall.row, wall.origin)).collect(),
                removals: presence.map_or(Vec::new(), |presence| presence.removals.clone()),
            }
        };
        let instances = track.columns.iter().map(instance).collect();
        let mut runs = Self { known, from_zero, instances, falls: Vec::new() };
        if decrease == Decrease::Reset && metric.has_rates() {
            runs.falls = runs.falls_of(track, timeline);
        }
        runs
    }

    /// The records of known boundaries, ascending.
    pub(super) fn known(&self) -> &[u32] {
        &self.known
    }

    /// The time of the record before one with which counters began at 0.
    pub(super) fn zero_before(&self, record: u32) -> Option<Timestamp> {
        let place = self.from_zero.binary_search_by_key(&record, |(record, _)| *record).ok()?;
        self.from_zero.get(place).map(|(_, since)| *since)
    }

    /// The records with which the instance of a column was created, ascending.
    fn births_of(&self, place: usize) -> &[(u32, Origin)] {
        self.instances.get(place).map_or(&[], |instance| &instance.births)
    }

    /// What is in reach for a column without passing the creation of its instance, of what is in
    /// reach without passing a known boundary.
    pub(super) fn limit_of<'r>(&self, place: usize, reach: &'r Reach) -> Cow<'r, Reach> {
        let births = self.births_of(place);
        if births.is_empty() {
            return Cow::Borrowed(reach);
        }
        let births: Vec<u32> = births.iter().map(|(record, _)| *record).collect();
        Cow::Owned(reach.limited(&births))
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

    /// The falls of a counter's instances while they exist, between known boundaries: those that
    /// a search for the neighbours of a moment finds as well.
    fn falls_of(&self, track: &Track, timeline: &Timeline) -> Vec<Range<u32>> {
        let columns: Vec<&Column> = track.columns.iter().collect();
        let mut all = Vec::new();
        for (place, life) in track.lives.iter().enumerate() {
            let exists = |record| {
                let at = timeline.timestamp(record);
                at.zip(*life).is_some_and(|(at, life)| life.contains(at))
            };
            let births = self.births_of(place).iter().map(|(record, _)| *record);
            let mut known = Cow::Borrowed(&self.known[..]);
            if births.len() > 0 {
                known.to_mut().extend(births);
                known.to_mut().sort_unstable();
            }
            let falls = falls(&columns, place..place + 1, &known);
            all.extend(falls.into_iter().filter(|fall| exists(fall.start) && exists(fall.end)));
        }
        all
    }
}

/// What a counter did over a span of time, run by run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Grown {
    /// How much it grew: from the value at the start, from 0 or from the first value of each run.
    pub(super) by: f64,
    /// In how many seconds.
    pub(super) seconds: f64,
}

impl Grown {
    /// All that it counted within the span; `None` if that was not observed.
    pub(super) fn total(&self) -> Option<f64> {
        (self.seconds > 0.0 || self.by > 0.0).then_some(self.by)
    }
}

/// A moment, and what is in its reach.
pub(super) type Bound<'r> = (Timestamp, &'r Reach);

/// A counter with the boundaries in its values.
#[derive(Clone, Copy)]
struct Counter<'r> {
    column: &'r Column,
    life: Lifetime,
    runs: &'r Runs,
    timeline: &'r Timeline,
    /// The place of the column.
    place: usize,
}

impl Replay<'_> {
    /// What the instances of a counter did between two moments, if a run ended, began or was
    /// not observed in between, or if an instance was created or removed; `None` if there was
    /// no such thing. Instances that fell within a run are left out, and those without a value at
    /// the end that nothing explains.
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
        let counters = track.columns.iter().zip(&track.lives).enumerate();
        let counters = counters.filter_map(|(place, (column, life))| {
            let timeline = &self.timeline;
            Some(Counter { column, life: (*life)?, runs: &track.runs, timeline, place })
        });
        let is_cut = !known.is_empty()
            || (!track.runs.known.is_empty() && (was_away || (is_away && is_ended)))
            || counters.clone().any(|counter| counter.comes_or_goes(&records, &reach, bounds));
        let grown = |counter: Counter<'_>| {
            let grown = self.grown(counter, bounds, was_away)?;
            Some((counter.column.instance(), grown))
        };
        is_cut.then(|| counters.filter_map(grown).collect())
    }

    /// What a counter did between two moments; `None` if it fell within a run, or has no
    /// value at the second moment and nothing says why. Otherwise its last one counts.
    fn grown(
        &self,
        counter: Counter<'_>,
        [since, until]: [Bound<'_>; 2],
        was_away: bool,
    ) -> Option<Grown> {
        let Counter { column, runs, place, .. } = counter;
        let count_before = |record| column.rows().count_before(record);
        let records = since.1.prior.end..until.1.prior.end;
        let boundaries = runs.known_in(&records).iter().copied();
        let births = runs.births_of(place);
        let mut grown = Grown::default();
        let mut begin = None;
        for end in boundaries.map(Some).chain([None]) {
            let places = count_before(begin.unwrap_or(records.start))
                ..count_before(end.unwrap_or(records.end));
            let is_whole = begin.is_some() || was_away;
            let start = if is_whole { None } else { self.place_in(counter, since) };
            // All that the run had counted then is 0.
            let zero = match begin {
                Some(begin) => runs.zero_before(begin).map(|zero| zero.max(since.0)),
                None => Some(since.0).filter(|_| !was_away),
            };
            let zero = zero.map(|zero| self.timeline.seconds_of(zero));
            let mut is_counted = is_whole || start.is_some() || counter.is_new_after(since);
            let mut from = start.map(|start| start.at);
            let mut before = start.map(|start| start.value);
            let mut newest = from;
            grown.by -= start.map_or(0.0, |start| start.by);
            for (record, value) in places.filter_map(|place| column.get(place)) {
                let at = self.timeline.seconds(record);
                let birth = births.binary_search_by_key(&record, |(birth, _)| *birth).ok();
                let origin = birth.and_then(|birth| births.get(birth)).map(|(_, origin)| *origin);
                is_counted |= origin.is_some();
                if !is_counted {
                    continue;
                }
                let zero = match origin {
                    Some(Origin::Zero(known)) => {
                        zero.or(Some(self.timeline.seconds_of(known.max(since.0))))
                    }
                    Some(_) => None,
                    None => zero.filter(|_| begin.is_some() && before.is_none()),
                };
                if origin.is_some() || before.is_none() {
                    before = zero.map(|_| value.zero());
                }
                if let Some(before) = before {
                    grown.by += growth(before, std::iter::empty(), value, self.decrease)?;
                }
                from = from.or(zero).or(Some(at));
                (before, newest) = (Some(value), Some(at));
            }
            if end.is_none() {
                if let Some(last) = self.place_in(counter, until) {
                    (grown.by, newest) = (grown.by + last.by, Some(last.at));
                } else if counter.removal_before(until).is_some() {
                    newest = newest.map(|_| until.1.at);
                } else if !counter.explains(begin, until) {
                    return None;
                }
            }
            grown.seconds += newest.zip(from).map_or(0.0, |(newest, from)| newest - from);
            begin = end;
        }
        Some(grown)
    }

    /// A moment on the line between the observations around it. `None` if either is missing, or
    /// if the counter fell in between.
    fn place_in<'c>(&self, counter: Counter<'c>, (at, reach): Bound<'_>) -> Option<Place<'c>> {
        let (reach, column) = (counter.limit(reach), counter.column);
        let observed =
            |(place, record)| Some((self.timeline.seconds(record), column.value(place)?));
        let (prior, next) = reach.neighbours(column.rows());
        let ((from, prior), (to, next)) = (observed(prior?)?, observed(next?)?);
        let between = growth(prior, std::iter::empty(), next, self.decrease)?;
        let part = if to > from { ((reach.at - from) / (to - from)).clamp(0.0, 1.0) } else { 0.0 };
        let place = Place { at: reach.at, value: prior, by: between * part };
        counter.life.contains(at).then_some(place)
    }
}

impl Counter<'_> {
    /// What is in reach without passing a boundary.
    fn limit(&self, reach: &Reach) -> Reach {
        self.runs.limit_of(self.place, &self.runs.limit(reach)).into_owned()
    }

    /// Whether the instance of a program has its first value with one of some records between two
    /// moments, was created there, or was removed between them. `run` is what is in reach of the
    /// first moment in its run.
    fn comes_or_goes(
        &self,
        records: &Range<u32>,
        run: &Reach,
        [since, until]: [Bound<'_>; 2],
    ) -> bool {
        if !self.is_of_program() {
            return false;
        }
        let births = self.runs.births_of(self.place);
        let next = births.partition_point(|(record, _)| *record < records.start);
        let is_created = births.get(next).is_some_and(|(record, _)| *record < records.end);
        let rows = self.column.rows();
        let first = rows.count_before(records.start);
        let has_values = || first < rows.count_before(records.end);
        let is_known = first
            .checked_sub(1)
            .and_then(|last| rows.get(last))
            .is_some_and(|last| self.runs.limit_of(self.place, run).prior.contains(&last));
        let is_removed = || self.removal_before(until).is_some_and(|removal| removal > since.0);
        is_created || (!is_known && has_values()) || is_removed()
    }

    fn is_of_program(&self) -> bool {
        self.runs.instances.get(self.place).is_some()
    }

    /// Whether the instance of a program has no value up to a moment in the run of that time.
    fn is_new_after(&self, (_, reach): Bound<'_>) -> bool {
        self.is_of_program() && self.limit(reach).neighbours(self.column.rows()).0.is_none()
    }

    /// The time at which the instance of a program was removed, if it was after its last value up
    /// to a moment.
    fn removal_before(&self, (at, reach): Bound<'_>) -> Option<Timestamp> {
        let removals = &self.runs.instances.get(self.place)?.removals;
        let passed = removals.partition_point(|removal| *removal <= at);
        let removal = *removals.get(passed.checked_sub(1)?)?;
        let last = self.column.rows().last_before(reach.prior.end);
        let last = last.and_then(|(_, record)| self.timeline.timestamp(record));
        last.is_none_or(|last| last < removal).then_some(removal)
    }

    /// Whether it is known why the counter has no value at a moment: its run ended then, or a run
    /// began with the record `begin` and has no observation of it yet.
    fn explains(&self, begin: Option<u32>, until: Bound<'_>) -> bool {
        match self.limit(until.1).neighbours(self.column.rows()) {
            (None, _) => begin.is_some(),
            (Some(_), None) => self.runs.end_after(until.1),
            (Some(_), Some(_)) => false,
        }
    }
}

/// A value of a counter at a moment, by the observation before it. It is not rounded to an integer:
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
