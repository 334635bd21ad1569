//! Lines: where the values of a counter continue each other, and how much it grew there.
//!
//! The [walls](crate::analysis::growth::walls) of a metric cut the values of each instance into
//! lines. For metrics of MMV files (PMIDs of domain 70, names that begin with `mmv.`) walls are
//!
//! * the boundaries in the agent's own events: where a run ended and the next
//!   began is *known*;
//! * marks, where the agent was away: whether a run continued is not known, so none does;
//! * the creation of an instance by its program.
//!
//! | record | a | b | event | |
//! |---|---|---|---|---|
//! | 0 | 100 | 3 | | |
//! | 1 | 110 | 4 | | |
//! | 2 | - | - | vanished | a wall |
//! | 3 | 20 | 9 | appeared | a wall; counters began at 0 |
//! | 4 | 35 | 9 | | |
//!
//! No value before a wall is a neighbour of a moment after it: from record 1 to record 3 neither
//! instance has a value, although b rises. A line begins with its first value and ends with its last
//! one. Where the counter is known to have been 0 before its first value, it begins there with 0:
//! a grew 10 + 20 + 15, in the seconds from 0 to 1 and from 2 to 4, since the run that began had
//! counted 0 in record 2. Half of the 20 are of the second half of the seconds from 2 to 3, as in a
//! picture. What a counter grew over a span is the sum of what it grew on its lines.
//!
//! An instance counts nothing before a program creates it and nothing after the program removes
//! it, so its growth is that of the time of the whole run.
//!
//! An instance that falls on a line shows that *all* instances of the metric were reset, those that
//! did not fall as well. When the next run began is not known, so none of them has grown over any
//! span with a part of this time.
//!
//! Other metrics have marks alone for walls. By PCP's rules ([`Gaps::Join`]) a counter has grown
//! only over spans within one line.

use std::ops::Range;

use hashbrown::HashMap;

use super::interpolate::{ObservedValue, on_the_line};
use super::resets::falls;
use super::timeline::Timeline;
use super::{Column, Decrease, Gaps, MetricTrack, Moment, Replay};
use crate::analysis::growth::growth;
use crate::analysis::growth::lifetime::Presences;
use crate::analysis::growth::walls::{MetricWalls, RunState, Wall, Walls};
use crate::scan::programs;
use crate::{InstanceId, Timestamp, Value};

/// The walls of a metric in what was read.
#[derive(Debug, Clone, Default)]
pub(super) struct TrackWalls {
    /// Walls of all instances, in the order of rows.
    all: Vec<Wall>,
    /// For the place of a column, its walls with the creations of its instance.
    with_births: HashMap<usize, Vec<Wall>>,
    /// For the place of a column, the times at which its instance was removed, ascending.
    removals: HashMap<usize, Vec<Timestamp>>,
    is_of_program: bool,
    /// From the record before to the record after each fall of an instance on a line.
    falls: Vec<Range<u32>>,
}

impl TrackWalls {
    pub(super) fn find(
        track: &MetricTrack,
        walls: &Walls,
        timeline: &Timeline,
        presences: Option<&Presences>,
        gaps: Gaps,
        decrease: Decrease,
    ) -> Self {
        let metric = &track.metric;
        let timestamps = timeline.timestamps();
        let run = RunState::default();
        let walls = MetricWalls::new(walls, metric, timestamps, &track.columns, presences, run);
        let mut found = Self {
            is_of_program: programs::has_program(metric),
            all: walls.all.clone(),
            ..Self::default()
        };
        for (place, column) in track.columns.iter().enumerate() {
            let all = walls.walls_of_column(column, || None);
            if all.len() > found.all.len() {
                found.with_births.insert(place, all.into_owned());
            }
            if let Some((presences, instance)) = presences.zip(column.instance()) {
                let removals: Vec<Timestamp> = presences.removals(instance).collect();
                if !removals.is_empty() {
                    found.removals.insert(place, removals);
                }
            }
        }
        let is_reset = decrease == Decrease::Reset;
        if gaps == Gaps::Keep && is_reset && found.is_of_program && metric.has_rates() {
            found.falls = found.falls_of(track, timeline);
        }
        found
    }

    pub(super) fn all(&self) -> &[Wall] {
        &self.all
    }

    /// Returns those of a column if its instance was created.
    pub(super) fn with_births(&self, place: usize) -> Option<&[Wall]> {
        self.with_births.get(&place).map(Vec::as_slice)
    }

    fn walls(&self, place: usize) -> &[Wall] {
        self.with_births(place).unwrap_or(&self.all)
    }

    fn fall_within(&self, span: &Range<Timestamp>, timeline: &Timeline) -> bool {
        self.falls.iter().any(|fall| {
            let times = timeline.timestamp(fall.start).zip(timeline.timestamp(fall.end));
            times.is_some_and(|(before, after)| before < span.end && span.start < after)
        })
    }

    /// Returns the falls of a counter's instances while they exist: those that a search for the
    /// neighbours of a moment finds as well.
    fn falls_of(&self, track: &MetricTrack, timeline: &Timeline) -> Vec<Range<u32>> {
        let columns: Vec<&Column> = track.columns.iter().collect();
        let mut all = Vec::new();
        for (place, life) in track.lives.iter().enumerate() {
            let Some(life) = life else { continue };
            let falls = falls(&columns, place..place + 1, self.walls(place));
            all.extend(falls.into_iter().filter(|fall| {
                let mut ends = [fall.start, fall.end].into_iter();
                ends.all(|row| timeline.timestamp(row).is_some_and(|at| life.contains(at)))
            }));
        }
        all
    }

    /// Returns whether the instance of a column was removed after a time, before a wall.
    fn removes(&self, place: usize, after: Timestamp, wall: Option<&Wall>) -> bool {
        let removals = self.removals.get(&place).map(Vec::as_slice).unwrap_or_default();
        let next = removals.iter().find(|removal| after <= **removal);
        next.is_some_and(|removal| wall.is_none_or(|wall| *removal < wall.at))
    }
}

/// A part of a column without a wall.
#[derive(Debug, Clone)]
pub(super) struct Line<'w> {
    /// Number of walls before it.
    pub(super) number: usize,
    pub(super) wall: Option<&'w Wall>,
    /// The places of its values in the column.
    pub(super) places: Range<usize>,
}

/// Returns the lines of a column from that of the first moment to that of the second one.
pub(super) fn lines<'w>(
    column: &'w Column,
    walls: &'w [Wall],
    [since, until]: &'w [Moment; 2],
) -> impl Iterator<Item = Line<'w>> {
    let first = walls.partition_point(|wall| wall.row < since.reach.prior.end);
    let last = begun_walls(walls, until);
    let begins = |wall: &Wall| column.rows().count_before(wall.row);
    (first..=last.max(first)).map(move |number| {
        let wall = number.checked_sub(1).and_then(|place| walls.get(place));
        let end = walls.get(number).map_or(column.len(), begins);
        Line { number, wall, places: wall.map_or(0, begins)..end }
    })
}

/// Returns the number of walls after which a line has begun at a moment, with a value or with 0.
fn begun_walls(walls: &[Wall], moment: &Moment) -> usize {
    let begun = walls.partition_point(|wall| wall.row < moment.reach.prior.end);
    let ahead = walls.get(begun..).unwrap_or_default();
    let row = ahead.first().map(|wall| wall.row);
    let mut number = begun;
    for (place, wall) in (begun + 1..).zip(ahead) {
        if Some(wall.row) == row && wall.zero().is_some_and(|zero| zero < moment.at) {
            number = place;
        }
        if Some(wall.row) != row {
            break;
        }
    }
    number
}

/// The growth of a counter on a line, and the first and last time of its values there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rise {
    /// With integers for integers, as everywhere.
    pub(super) by: f64,
    /// The part of the growth that rounding cuts off.
    fraction: f64,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    first: Timestamp,
}

/// The value of a counter at a moment.
#[derive(Debug, Clone, Copy)]
struct CounterValue<'v> {
    value: Value<'v>,
    /// The amount by which the value is less than without rounding.
    rounding: f64,
}

/// A counter decreased on a line.
#[derive(Debug)]
pub(super) struct CounterFell;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct MetricGrowth {
    pub(super) by: f64,
    /// The seconds in which that was observed.
    pub(super) seconds: f64,
}

impl MetricGrowth {
    /// Returns all that it counted within the span; `None` if that was not observed.
    pub(super) fn total(&self) -> Option<f64> {
        (self.seconds > 0.0 || self.by > 0.0).then_some(self.by)
    }
}

/// The growth of the instances of a counter over a span.
#[derive(Debug, Default)]
pub(super) struct TrackGrowth {
    /// Without instances that fell, and those without a value at either end that nothing explains.
    pub(super) instances: Vec<(Option<InstanceId>, MetricGrowth)>,
    /// A wall or the life of an instance is in the span: the values at its ends do not say it all.
    pub(super) is_cut: bool,
}

impl Replay<'_> {
    pub(super) fn growth_of(&self, track: &MetricTrack, moments: &[Moment; 2]) -> TrackGrowth {
        let [since, until] = moments;
        if track.walls.fall_within(&(since.at..until.at), &self.timeline) {
            return TrackGrowth { is_cut: true, ..TrackGrowth::default() };
        }
        let run = since.reach.limited(track.walls.all());
        let mut columns = track.columns.iter();
        let was_away =
            run.prior.start > 0 && columns.all(|column| run.neighbours(column.rows()).0.is_none());
        let mut all = TrackGrowth::default();
        for (place, column) in track.columns.iter().enumerate() {
            let Some((grown, is_whole)) = self.grown(track, place, moments, was_away) else {
                continue;
            };
            if is_whole || self.gaps == Gaps::Keep {
                all.instances.push((column.instance(), grown));
                all.is_cut |= !is_whole;
            }
        }
        all
    }

    /// Returns the growth of an instance between two moments, and whether it is on one line from
    /// the value at one to that at the other. `None` if it fell, or if nothing explains why it
    /// has no value at a moment.
    fn grown(
        &self,
        track: &MetricTrack,
        place: usize,
        moments: &[Moment; 2],
        was_away: bool,
    ) -> Option<(MetricGrowth, bool)> {
        let [since, until] = moments;
        let column = track.columns.get(place)?;
        let walls = track.walls.walls(place);
        let life = (*track.lives.get(place)?)?;
        let mut grown = MetricGrowth::default();
        // Since when an instance that has no value yet was 0, of the run that is observed.
        let mut zero = Some(since.at).filter(|_| !was_away);
        let mut fraction = 0.0;
        let mut last = None;
        let mut observed: Option<Range<Timestamp>> = None;
        let mut is_whole = false;
        // An instance that is created right after the span may have counted within it.
        let mut seen_until = until.at;
        let seconds = |time: Range<Timestamp>| time.end.seconds_since(time.start);
        for line in lines(column, walls, moments) {
            let begin = line.wall.filter(|wall| wall.row >= since.reach.prior.end);
            let is_new = begin.is_some_and(|wall| wall.is_birth);
            if begin.is_some() && !is_new {
                grown.seconds += observed.take().map_or(0.0, seconds);
                zero = line.wall.and_then(Wall::zero);
            }
            let own = line.wall.and_then(Wall::zero);
            let rise = self.rise(column, &line, own, moments).ok()?;
            let Some(rise) = rise else { continue };
            let is_late = since.at < rise.from;
            if is_late && begin.is_none() && !track.walls.is_of_program && !was_away {
                continue;
            }
            is_whole = rise.first <= since.at && rise.to == until.at;
            let zero = if is_new { zero.filter(|_| own.is_some()).or(own) } else { own };
            let from = zero.filter(|_| is_late).map_or(rise.from, |zero| zero.max(since.at));
            observed = Some(observed.map_or(from, |time| time.start)..rise.to);
            grown.by += rise.by;
            fraction += rise.fraction;
            seen_until = rise.first.max(until.at);
            last = Some((line.number, rise.to));
        }
        let (number, end) = last?;
        if end < until.at {
            let next = walls.get(number);
            if track.walls.removes(place, end, next) {
                observed = observed.map(|time| time.start..until.at);
            } else if next.is_none() {
                return None;
            }
        }
        grown.seconds += observed.map_or(0.0, seconds);
        if !is_whole {
            // Of the part of a run that is within a span there may be less than a count.
            grown.by += fraction;
        }
        let exists = if is_whole {
            life.contains(since.at) && life.contains(until.at)
        } else {
            life.overlaps(&(since.at..=seen_until))
        };
        exists.then_some((grown, is_whole))
    }

    /// Computes what a counter grew on a line between two moments. The line begins with `zero`, the
    /// time when the counter was 0, or with its first value; `None` if it has no part of this time.
    pub(super) fn rise(
        &self,
        column: &Column,
        line: &Line<'_>,
        zero: Option<Timestamp>,
        [since, until]: &[Moment; 2],
    ) -> Result<Option<Rise>, CounterFell> {
        let time = |place| self.timeline.timestamp(column.rows().get(place)?);
        if line.places.is_empty() {
            return Ok(None);
        }
        let first_place = line.places.start;
        let last_place = line.places.end - 1;
        let Some((first, last)) = time(first_place).zip(time(last_place)) else {
            return Ok(None);
        };
        let zero = zero.map(|zero| zero.min(first));
        let from = zero.unwrap_or(first).max(since.at);
        let to = last.min(until.at);
        if from > to {
            return Ok(None);
        }
        let rows = column.rows();
        let inside = rows.count_before(since.reach.prior.end).max(line.places.start)
            ..rows.count_before(until.reach.next.start).min(line.places.end);
        let observed = |place| Some(CounterValue { value: column.value(place)?, rounding: 0.0 });
        let after = if last <= until.at {
            observed(last_place)
        } else {
            self.value_on(column, line, zero, until)
        };
        let before = match zero {
            _ if since.at >= first => self.value_on(column, line, zero, since),
            Some(zero) if since.at > zero => self.value_on(column, line, Some(zero), since),
            Some(_) => after.map(|after| CounterValue { value: after.value.zero(), rounding: 0.0 }),
            None => observed(first_place),
        };
        let Some((before, after)) = before.zip(after) else { return Ok(None) };
        let between = inside.filter_map(|place| column.value(place));
        let by = growth(before.value, between, after.value, self.decrease).ok_or(CounterFell)?;
        let fraction = after.rounding - before.rounding;
        Ok(Some(Rise { by, fraction, from, to, first }))
    }

    /// Returns the value of a counter at a moment within a line.
    fn value_on<'c>(
        &self,
        column: &'c Column,
        line: &Line<'_>,
        zero: Option<Timestamp>,
        moment: &Moment,
    ) -> Option<CounterValue<'c>> {
        let rows = column.rows();
        let observed = |place| {
            Some(ObservedValue {
                at: self.timeline.seconds(rows.get(place)?),
                value: column.value(place)?,
            })
        };
        let next = rows.count_before(moment.reach.next.start).max(line.places.start);
        let next = observed(next)?;
        let prior = rows.count_before(moment.reach.prior.end).checked_sub(1);
        let prior = match (prior.filter(|prior| *prior >= line.places.start), zero) {
            (Some(prior), _) => observed(prior)?,
            (None, Some(zero)) => {
                ObservedValue { at: self.timeline.seconds_of(zero), value: next.value.zero() }
            }
            (None, None) => observed(line.places.start)?,
        };
        let value = on_the_line(prior, next, moment.reach.at, self.decrease)?;
        let grown = |to| growth(prior.value, std::iter::empty(), to, self.decrease).unwrap_or(0.0);
        let part = ((moment.reach.at - prior.at) / (next.at - prior.at)).clamp(0.0, 1.0);
        let part = if prior.at < next.at { part } else { 0.0 };
        Some(CounterValue { value, rounding: grown(next.value) * part - grown(value) })
    }
}
