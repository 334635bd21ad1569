//! The cells of one instance, observation by observation.

use std::ops::Range;

use super::grid::{Grid, GridMoment, seconds};
use super::{Cell, Run, halved};
use crate::analysis::growth::lifetime::Lifetime;
use crate::analysis::growth::number::{Number, with_number};
use crate::analysis::growth::strand::{Link, Strand};
use crate::analysis::growth::walls::{ColumnPart, CounterOrigin, RunState, Wall, each_part};
use crate::scan::{Column, SelectedMetric};
use crate::{Timestamp, ValueType};

/// The contribution of an observation to a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum CellKind {
    Value,
    /// The rate since the observation before: how many seconds its unit of time has.
    Rate(f64),
    /// A counter whose unit of time does not exist.
    Nothing,
}

impl CellKind {
    pub(super) fn new(metric: &SelectedMetric, rates: bool) -> Self {
        if !rates || !metric.has_rates() {
            return Self::Value;
        }
        metric.rate_time_scale().map_or(Self::Nothing, Self::Rate)
    }
}

/// An observation, as the next one needs it.
#[derive(Debug, Clone, Copy)]
struct CellObservation {
    word: u64,
    at: GridMoment,
}

/// One instance in a span of time.
#[derive(Debug, Clone)]
pub(super) struct InstanceTrack {
    kind: CellKind,
    value_type: ValueType,
    life: Lifetime,
    strand: Strand<CellObservation>,
    /// A rate ended at the last observation.
    has_rate: bool,
    /// The first run begins with the first observation.
    opens: bool,
    runs: Vec<Run>,
}

/// The rows of a chunk as moments of a grid.
#[derive(Debug, Clone, Copy)]
pub(super) struct GridRows<'c> {
    pub(super) grid: &'c Grid,
    pub(super) timestamps: &'c [Timestamp],
    pub(super) moments: &'c [GridMoment],
    /// The seconds from the row before to each.
    pub(super) seconds: &'c [f64],
}

impl InstanceTrack {
    pub(super) const fn new(
        kind: CellKind,
        value_type: ValueType,
        life: Lifetime,
        run: &RunState,
    ) -> Self {
        let strand = Strand::new(run.origin(), run.wall);
        Self { kind, value_type, life, strand, has_rate: false, opens: false, runs: Vec::new() }
    }

    pub(super) const fn is_observed(&self) -> bool {
        self.strand.first().is_some()
    }

    pub(super) fn last_at(&self, grid: &Grid) -> Option<Timestamp> {
        self.strand.last().map(|last| grid.time_of(last.at))
    }

    /// Notes when the instance was created, if that precedes this span.
    pub(super) const fn set_birth(&mut self, birth: Option<Timestamp>) {
        self.strand.set_birth(birth);
    }

    /// Returns whether an observation before this span could be joined to the first one in it, or
    /// could say more of its origin than a span with this `run` does.
    pub(super) fn wants_earlier(&self, run: &RunState) -> bool {
        let origin = self.strand.first_origin();
        let is_open = self.strand.wall().is_none() || origin.is_open() && !run.settles(origin);
        self.is_observed() && is_open
    }

    /// Returns whether a rate could reach from the last observation to one after this span.
    pub(super) fn wants_later(&self) -> bool {
        self.strand.open_end().is_some() && matches!(self.kind, CellKind::Rate(_))
    }

    pub(super) fn into_runs(self) -> Vec<Run> {
        self.runs
    }

    pub(super) const fn life(&self) -> Lifetime {
        self.life
    }

    pub(super) const fn set_life(&mut self, life: Lifetime) {
        self.life = life;
    }

    /// Takes the runs out that nothing can change if no earlier span is ever joined: all but
    /// the last one.
    pub(super) fn take_finished(&mut self) -> impl Iterator<Item = Run> {
        self.runs.drain(..self.runs.len().saturating_sub(1))
    }

    /// Puts runs in front of those that are there, as if they had not been taken out.
    pub(super) fn put_back(&mut self, mut runs: Vec<Run>) {
        runs.append(&mut self.runs);
        self.runs = runs;
    }

    pub(super) fn last_run(&self) -> Option<&Run> {
        self.runs.last()
    }

    /// Merges every two columns into those of a coarser grid, which begins `ahead` columns
    /// earlier.
    pub(super) fn halve(&mut self, coarser: &Grid, ahead: u32) {
        self.runs = halved(&self.runs, ahead);
        let earlier = i128::from(ahead) * coarser.width() / 2;
        self.strand.each(|observed| {
            observed.at.offset += earlier;
            observed.at.column = observed.at.column.map(|column| column.midpoint(ahead));
        });
    }

    pub(super) fn add(&mut self, rows: GridRows<'_>, column: &Column, walls: &[Wall]) {
        with_number!(column.value_type(), N => self.add_numbers::<N>(rows, column, walls), else ());
    }

    fn add_numbers<N: Number>(&mut self, rows: GridRows<'_>, column: &Column, walls: &[Wall]) {
        each_part(column, walls, |part| match part {
            ColumnPart::Wall(wall) => self.interrupt(wall.at, wall.origin),
            ColumnPart::Values(words, range) => self.add_values::<N>(rows, words, range),
        });
    }

    fn add_values<N: Number>(&mut self, rows: GridRows<'_>, words: &[u64], range: Range<usize>) {
        let is_always = self.life == Lifetime::ALWAYS;
        let timestamps = rows.timestamps.get(range.clone()).unwrap_or_default();
        let moments = rows.moments.get(range.clone()).unwrap_or_default();
        let seconds = rows.seconds.get(range).unwrap_or_default();
        let mut place = 0;
        let mut is_next = false;
        while let (Some(words @ [word, ..]), Some(moments @ [at, ..])) =
            (words.get(place..), moments.get(place..))
        {
            if is_always && is_next {
                let seconds = seconds.get(place..).unwrap_or_default();
                let added = self.add_alike::<N>(words, moments, seconds);
                if added > 0 {
                    place += added;
                    continue;
                }
            }
            let is_alive =
                is_always || timestamps.get(place).is_some_and(|time| self.life.contains(*time));
            is_next =
                is_alive && self.observe::<N>(rows.grid, CellObservation { word: *word, at: *at });
            place += 1;
        }
    }

    /// Adds those first observations that are in the column of the last one, and that it goes
    /// on to, with the seconds since the one before. Returns how many these are.
    fn add_alike<N: Number>(
        &mut self,
        words: &[u64],
        moments: &[GridMoment],
        seconds: &[f64],
    ) -> usize {
        let Some(mut last) = self.strand.open_end() else { return 0 };
        let Some(column) = last.at.column else { return 0 };
        let Some(run) = self.runs.last_mut().filter(|run| run.columns.end > column) else {
            return 0;
        };
        // Copies, which stay in registers.
        let mut cell = run.cell;
        let mut count = 0usize;
        for ((&word, at), &since) in words.iter().zip(moments).zip(seconds) {
            let next = match self.kind {
                _ if at.column != Some(column) => break,
                CellKind::Rate(unit) if since > 0.0 => {
                    match N::from_word(last.word).growth_to(N::from_word(word), false) {
                        Some(growth) => {
                            Cell { count: 1, ..Cell::of_rate(growth * unit / since, since, true) }
                        }
                        None => break,
                    }
                }
                CellKind::Value => Cell::of_value(N::from_word(word).value(), true),
                CellKind::Rate(_) | CellKind::Nothing => break,
            };
            if next.last.is_nan() {
                break;
            }
            cell.merge(&next);
            last.word = word;
            count += 1;
        }
        if let Some(at) = count.checked_sub(1).and_then(|place| moments.get(place)) {
            run.cell = cell;
            self.strand.move_end(CellObservation { at: *at, ..last });
            self.has_rate = self.kind != CellKind::Value;
        }
        count
    }

    /// Adds an observation, and the rate from the last one to it. False if it does not count.
    fn observe<N: Number>(&mut self, grid: &Grid, now: CellObservation) -> bool {
        let number = N::from_word(now.word);
        if number.is_nan() {
            return false;
        }
        // Of two values of a counter at one time the first counts.
        if matches!(self.kind, CellKind::Rate(_))
            && self.strand.open_end().is_some_and(|last| last.at.offset >= now.at.offset)
        {
            return false;
        }
        let is_joined = self.add_link::<N>(grid, self.strand.link(), now);
        let is_first = self.strand.first().is_none();
        if self.kind == CellKind::Value
            && let Some(column) = now.at.column
        {
            self.opens |= is_first;
            let value = number.value();
            self.put(column..column + 1, Cell::of_value(value, is_joined));
        }
        self.strand.add(now);
        true
    }

    /// Adds the rate from what an observation follows to it. Whether it continues the line.
    #[inline]
    fn add_link<N: Number>(
        &mut self,
        grid: &Grid,
        link: Link<CellObservation>,
        now: CellObservation,
    ) -> bool {
        let CellKind::Rate(unit) = self.kind else {
            self.has_rate = false;
            return matches!(link, Link::Value(_));
        };
        self.has_rate = match link {
            Link::Value(last) => self.add_rate::<N>(grid, unit, last, now),
            Link::Zero(since) => self.add_rate::<N>(
                grid,
                unit,
                CellObservation { word: 0, at: grid.moment(since) },
                now,
            ),
            Link::Nothing => false,
        };
        self.has_rate
    }

    fn add_rate<N: Number>(
        &mut self,
        grid: &Grid,
        unit: f64,
        last: CellObservation,
        now: CellObservation,
    ) -> bool {
        let growth = N::from_word(last.word).growth_to(N::from_word(now.word), false);
        let Some(growth) = growth.filter(|_| last.at.offset < now.at.offset) else {
            return false;
        };
        let rate = growth * unit / seconds(now.at.offset - last.at.offset);
        // A quotient of infinities.
        if rate.is_nan() {
            return false;
        }
        self.put_rate(grid, rate, last, now);
        true
    }

    /// Adds a rate to the columns of its time.
    fn put_rate(&mut self, grid: &Grid, rate: f64, last: CellObservation, now: CellObservation) {
        if self.runs.is_empty() {
            self.opens = self.strand.first().is_some_and(|first| first.at == last.at);
        }
        // One that began before the window continues itself.
        let mut is_joined = self.has_rate || last.at.offset < 0;
        let mut is_seen = false;
        grid.parts(last.at, now.at, |columns, seconds| {
            self.put(columns, Cell::of_rate(rate, seconds, is_joined));
            is_joined = true;
            is_seen = true;
        });
        // It counts where it ends: not in a column that begins there.
        if is_seen
            && grid.has_until(now.at)
            && let Some(run) = self.runs.last_mut()
        {
            run.cell.count += 1;
        }
    }

    /// Adds what comes after all that was added, in one column or in several that are new.
    fn put(&mut self, columns: Range<u32>, cell: Cell) {
        match self.runs.last_mut() {
            Some(run) if run.columns.end > columns.start => run.cell.merge(&cell),
            _ => self.runs.push(Run { columns, cell }),
        }
    }

    /// Ends the line at a wall: no later value is joined to one before it.
    pub(super) fn interrupt(&mut self, at: Timestamp, origin: CounterOrigin) {
        self.strand.interrupt(at, origin);
        self.has_rate = false;
    }

    /// Adds the span of time that follows. `run` is what is known of the metric until then.
    pub(super) fn join(&mut self, grid: &Grid, mut next: Self, run: &RunState) {
        let last_at = self.last_at(grid);
        if next.strand.leading_wall(last_at, run).is_some() {
            self.has_rate = false;
        }
        let was_observed = self.is_observed();
        let link = self.strand.join(next.strand, last_at, run);
        let Some(first) = next.strand.first() else { return };
        let is_joined = with_number!(
            self.value_type,
            N => self.add_link::<N>(grid, link, first),
            else false
        );
        if next.opens
            && let Some(run) = next.runs.first_mut()
        {
            run.cell.joined = is_joined;
        }
        if self.runs.is_empty() {
            self.opens = !was_observed && next.opens;
        }
        let is_alone = next.last_is_first();
        let mut runs = next.runs;
        if let (Some(last), Some(first)) = (self.runs.last_mut(), runs.first_mut())
            && last.columns.end > first.columns.start
        {
            last.cell.merge(&first.cell);
            *first = last.clone();
            self.runs.pop();
        }
        // The longer list stays where it is: copies of all would take as much memory again.
        if self.runs.len() < runs.len() {
            runs.splice(0..0, self.runs.drain(..));
            self.runs = runs;
        } else {
            self.runs.append(&mut runs);
        }
        self.has_rate = next.has_rate || (is_alone && self.has_rate);
    }

    fn last_is_first(&self) -> bool {
        let ends = self.strand.first().zip(self.strand.last());
        ends.is_some_and(|(first, last)| first.at == last.at)
    }
}
