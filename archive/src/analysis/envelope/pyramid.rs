//! The columns of all times at once, which coarser ones are made of.
//!
//! In: segments that follow each other from the first record on. Out: the series of any
//! window, in columns that are a power of two as wide as those that are kept.
//!
//! # Columns
//!
//! The finest columns, those that are kept, are a power of two of seconds wide, from 1/512 s on,
//! and are counted from 1970 on: those of two pyramids begin at the same times. A column of the
//! next level merges two of them; a level is computed when a window needs it. A window is widened
//! to whole columns, so that each cell has all that was observed in it and nothing else: it is
//! what [`Envelope::read`] finds in the [grid](Envelope::grid) of the answer.
//!
//! # Memory
//!
//! When records come that are beyond the last column there can be, or when the cells take more
//! than their budget, every two columns become one. With fewer than [`MIN_COLUMNS`] the
//! pyramid gives up: it has no answers, and takes no memory any more.

mod cells;

use std::ops::RangeInclusive;

use hashbrown::HashSet;

use super::grid::Grid;
use super::plan::{EnvelopeScope, WindowPlan};
use super::segment::EnvelopeSegment;
use super::track::{CellKind, InstanceTrack};
use super::{Envelope, Options, Run, Series, halved, places};
use crate::scan::{RowPlace, SelectedMetric, Selection};
use crate::{InstanceId, Pmid, Source, Timestamp};
use cells::{Cells, Weight};

/// Nanoseconds of the narrowest columns, 1/512 s.
const FINEST: i128 = 1_953_125;
/// Limit on columns; two are merged into one beyond it.
const MAX_COLUMNS: u32 = 1 << 16;
/// Columns that are not halved any more.
const MIN_COLUMNS: u32 = 64;
/// About the bytes of a cell.
const CELL: usize = 24;
const TRACK: usize = size_of::<(Option<InstanceId>, Option<InstanceTrack>)>() + size_of::<Cells>();

/// A summary of the whole archive in columns; see the [module](self).
#[derive(Debug)]
pub(super) struct Pyramid {
    grid: Grid,
    scope: EnvelopeScope,
    start: Timestamp,
    /// The metrics that the source has.
    known: HashSet<Pmid>,
    /// Each track with its last run.
    whole: EnvelopeSegment,
    /// The runs before, by metric and in the order of the tracks.
    cells: Vec<Vec<Cells>>,
    budget: usize,
    has_given_up: bool,
}

impl Pyramid {
    /// Returns one that has nothing yet; `None` if the times of the source cannot be in columns,
    /// or if its instances alone would exceed the budget.
    pub(super) fn new(source: Source<'_>, scope: EnvelopeScope, budget: usize) -> Option<Self> {
        let count = (0..scope.metrics.len()).flat_map(|place| scope.instances(place)).count();
        if count.saturating_mul(TRACK) > budget {
            return None;
        }
        let span = source.start()..=source.end();
        let columns = columns_within_budget(&scope, &span, budget);
        let mut width = FINEST;
        let grid = loop {
            let first = source.start().as_nanos();
            let last = source.end().as_nanos();
            let first = first.div_euclid(width);
            let last = last.div_euclid(width);
            let needed = (last - first).max(0) + 1;
            if needed <= i128::from(columns) {
                break Grid::aligned(first * width, width, needed as u32)?;
            }
            width *= 2;
        };
        let known = source.metadata().metrics().iter().map(|metric| metric.desc.pmid).collect();
        let whole = EnvelopeSegment::new(scope.metrics.len());
        let cells = Vec::new();
        let start = source.start();
        let mut made =
            Self { grid, scope, start, known, whole, cells, budget, has_given_up: false };
        made.cells.resize_with(made.scope.metrics.len(), Vec::new);
        Some(made)
    }

    /// Makes room for what the source has after what was read; false if it is not the same
    /// source with more records, or if metrics and instances are read now that were there
    /// before and were not.
    pub(super) fn follow(&mut self, source: Source<'_>, scope: EnvelopeScope) -> bool {
        let is_longer = self.until().is_none_or(|newest| newest <= source.end());
        if self.start != source.start() || !is_longer || !self.is_continued_by(&scope) {
            return false;
        }
        let Some(places) = self.places_in(&scope) else { return false };
        let mut whole = EnvelopeSegment::new(scope.metrics.len());
        whole.marks = std::mem::take(&mut self.whole.marks);
        whole.end = self.whole.end;
        let mut cells = Vec::new();
        cells.resize_with(scope.metrics.len(), Vec::new);
        let own = std::mem::take(&mut self.whole.metrics).into_iter().zip(self.cells.drain(..));
        for ((tracks, own), (place, metric)) in own.zip(places) {
            if let (Some(to), Some(into)) = (whole.metrics.get_mut(place), cells.get_mut(place)) {
                *to = tracks;
                *into = own;
                for (instance, track) in &mut to.instances.all {
                    if let (Some(track), Some(life)) =
                        (track, scope.lives.lifetime(&metric, *instance))
                    {
                        track.set_life(life);
                    }
                }
            }
        }
        self.known = source.metadata().metrics().iter().map(|metric| metric.desc.pmid).collect();
        self.whole = whole;
        self.cells = cells;
        self.scope = scope;
        self.reach(source.end())
    }

    /// Returns the index of each metric in another scope, with the metric; `None` if one is
    /// missing there.
    fn places_in(&self, scope: &EnvelopeScope) -> Option<Vec<(usize, SelectedMetric)>> {
        let places = self.scope.metrics.iter().map(|own| {
            let mut others = scope.metrics.iter();
            Some((others.position(|other| other.desc == own.desc)?, own.clone()))
        });
        places.collect()
    }

    /// Returns whether another scope has all that was read, and apart from that only later data.
    fn is_continued_by(&self, next: &EnvelopeScope) -> bool {
        let own: HashSet<Pmid> = self.scope.metrics.iter().map(|own| own.desc.pmid).collect();
        let mut added = next.metrics.iter().filter(|metric| !own.contains(&metric.desc.pmid));
        if added.any(|metric| self.known.contains(&metric.desc.pmid)) {
            return false;
        }
        let Some(places) = self.places_in(next) else { return false };
        let newest = self.until().unwrap_or(self.start);
        for (own, (tracks, (place, metric))) in self.whole.metrics.iter().zip(places).enumerate() {
            let before = self.scope.wanted.get(own).and_then(Option::as_ref);
            let after = next.wanted.get(place).and_then(Option::as_ref);
            let only_adds_new = match (before, after) {
                (None, None) => true,
                (Some(before), Some(after)) => {
                    let mut added = after.difference(before);
                    before.is_subset(after)
                        && added.all(|id| self.scope.lives.lifetime(&metric, Some(*id)).is_none())
                }
                _ => false,
            };
            if !only_adds_new {
                return false;
            }
            for (instance, track) in &tracks.instances.all {
                let lives_on = match (track, next.lives.lifetime(&metric, *instance)) {
                    (Some(track), Some(life)) => track.life().agrees_with(life, newest),
                    (None, None) => true,
                    _ => false,
                };
                if !lives_on {
                    return false;
                }
            }
        }
        true
    }

    /// Returns the columns of all that was read and will be.
    pub(super) const fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns the place from which on records are unread.
    pub(super) fn unread_from(&self) -> RowPlace {
        let start = RowPlace { timestamp: *self.grid.window().start(), passed: 0 };
        self.whole.end.unwrap_or(start)
    }

    /// Returns the time of the last record that was read.
    pub(super) fn until(&self) -> Option<Timestamp> {
        self.whole.end.map(|end| end.timestamp)
    }

    pub(super) const fn has_given_up(&self) -> bool {
        self.has_given_up
    }

    /// Widens the grid so that it has a time.
    fn reach(&mut self, end: Timestamp) -> bool {
        while !self.has_given_up {
            let start = self.grid.window().start().as_nanos();
            let width = self.grid.width();
            let needed = (end.as_nanos() - start).div_euclid(width).max(0) + 1;
            if needed <= i128::from(MAX_COLUMNS) {
                let columns = self.grid.columns().max(needed as u32);
                let Some(grid) = Grid::aligned(start, width, columns) else { return false };
                self.grid = grid;
                return true;
            }
            self.halve();
        }
        true
    }

    pub(super) fn add(&mut self, mut grid: Grid, mut segment: EnvelopeSegment) {
        while grid.width() < self.grid.width() {
            let Some((coarser, ahead)) = grid.coarser() else { return self.give_up() };
            segment.halve(&coarser, ahead);
            grid = coarser;
        }
        if self.has_given_up {
            return;
        }
        self.whole.append(&WindowPlan::of_all(&self.scope, &self.grid), segment);
        self.store();
    }

    pub(super) fn next(&self) -> EnvelopeSegment {
        self.whole.go_on()
    }

    pub(super) fn add_next(&mut self, segment: EnvelopeSegment) {
        self.whole.replace(&self.grid, segment);
        self.store();
    }

    /// Takes the runs that are complete from the tracks, within the budget.
    fn store(&mut self) {
        self.take_runs();
        while !self.has_given_up && self.bytes() > self.budget {
            if self.grid.columns() <= MIN_COLUMNS {
                return self.give_up();
            }
            self.halve();
        }
    }

    /// Returns the bytes that the pyramid takes, nearly.
    pub(super) fn bytes(&self) -> usize {
        self.cells
            .iter()
            .map(|cells| cells.iter().map(Cells::bytes).sum::<usize>() + cells.len() * TRACK)
            .sum()
    }

    fn take_runs(&mut self) {
        let metrics = self.whole.metrics.iter_mut().zip(&mut self.cells).zip(&self.scope.metrics);
        for ((tracks, cells), metric) in metrics {
            let usual = usual(self.scope.kind(metric), &self.grid);
            cells.resize_with(tracks.instances.all.len(), Cells::default);
            for ((_, track), cells) in tracks.instances.all.iter_mut().zip(cells) {
                let finished = track.iter_mut().flat_map(InstanceTrack::take_finished);
                finished.for_each(|run| cells.push(&run, usual));
            }
        }
    }

    /// Makes one column of every two.
    fn halve(&mut self) {
        let Some((coarser, ahead)) = self.grid.coarser() else { return self.give_up() };
        let metrics = self.whole.metrics.iter_mut().zip(&mut self.cells).zip(&self.scope.metrics);
        for ((tracks, cells), metric) in metrics {
            let kind = self.scope.kind(metric);
            let before = usual(kind, &self.grid);
            let after = usual(kind, &coarser);
            for ((_, track), cells) in tracks.instances.all.iter_mut().zip(cells) {
                let Some(track) = track else { continue };
                track.put_back(cells.take(before));
                track.halve(&coarser, ahead);
                track.take_finished().for_each(|run| cells.push(&run, after));
            }
        }
        self.whole.marks.dedup_by_key(|mark| coarser.column_of(*mark));
        self.grid = coarser;
    }

    fn give_up(&mut self) {
        self.has_given_up = true;
        self.whole = EnvelopeSegment::new(0);
        self.cells = Vec::new();
    }

    /// Returns the series of a selection in the columns of a window that are nearest to those of
    /// a grid: not wider if these are not, and not half as wide. `None` if they have no grid, or
    /// if there are other metrics.
    pub(super) fn envelope(
        &self,
        selection: &Selection<'_>,
        grid: &Grid,
        options: Options,
    ) -> Option<Envelope> {
        let own: HashSet<Pmid> = self.scope.metrics.iter().map(|own| own.desc.pmid).collect();
        let mut asked = selection.metrics().iter().filter(|metric| metric.has_numbers());
        if self.has_given_up || !asked.all(|metric| own.contains(&metric.desc.pmid)) {
            return None;
        }
        let (level, answer) = self.level(grid)?;
        let ahead = (answer.window().start().as_nanos() - self.grid.window().start().as_nanos())
            .div_euclid(self.grid.width());
        let places = places(selection);
        let wanted = selection.instances_by_metric();
        let mut series = Vec::new();
        let metrics = self.whole.metrics.iter().zip(&self.cells).zip(&self.scope.metrics);
        for ((tracks, cells), metric) in metrics {
            let numbers = metric.has_numbers();
            let place = places.get(&metric.desc.pmid).filter(|_| numbers);
            let Some(&place) = place else { continue };
            let wanted = wanted.get(place).and_then(Option::as_ref);
            let is_rate = options.rates && metric.has_rates();
            for ((instance, track), cells) in tracks.instances.all.iter().zip(cells) {
                let Some(track) = track else { continue };
                if wanted.zip(*instance).is_some_and(|(wanted, id)| !wanted.contains(&id)) {
                    continue;
                }
                let kind = self.scope.kind(metric);
                let runs = self.runs(track, cells, kind, &answer, level, ahead);
                if !runs.is_empty() {
                    series.push(Series { metric: place, instance: *instance, is_rate, runs });
                }
            }
        }
        series.sort_by_key(|series| (series.metric, series.instance));
        let marks = self.whole.marks.iter().copied();
        let mut marks: Vec<_> = marks.filter(|mark| answer.column_of(*mark).is_some()).collect();
        marks.dedup_by_key(|mark| answer.column_of(*mark));
        Some(Envelope { grid: answer, series, marks })
    }

    fn level(&self, asked: &Grid) -> Option<(u32, Grid)> {
        let (start, end) = asked.window().into_inner();
        let width = end.nanos_since(start).max(1) / i128::from(asked.columns());
        let mut level = 0;
        loop {
            let own = self.grid.width() << level;
            let first = start.as_nanos().div_euclid(own);
            let columns = end.as_nanos().div_euclid(own) - first + 1;
            if 2 * own > width && columns <= i128::from(Grid::MAX_COLUMNS) {
                let columns = u32::try_from(columns).ok()?;
                return Some((level, Grid::aligned(first * own, own, columns)?));
            }
            level += 1;
        }
    }

    /// Returns the runs of a track in the columns of an answer, the first of which is `ahead`
    /// columns after the first one here.
    fn runs(
        &self,
        track: &InstanceTrack,
        cells: &Cells,
        kind: CellKind,
        answer: &Grid,
        level: u32,
        ahead: i128,
    ) -> Vec<Run> {
        let end = ahead + (i128::from(answer.columns()) << level);
        let columns = clipped(ahead)..clipped(end);
        let mut runs = cells.runs(columns.clone(), usual(kind, &self.grid));
        runs.extend(track.last_run().cloned());
        let mut moved = Vec::new();
        for run in runs {
            let start = run.columns.start.max(columns.start);
            let end = run.columns.end.min(columns.end);
            if start < end {
                let start = clipped(i128::from(start) - ahead);
                let end = clipped(i128::from(end) - ahead);
                moved.push(Run { columns: start..end, ..run });
            }
        }
        (0..level).fold(moved, |runs, _| halved(&runs, 0))
    }
}

/// Returns the column that is nearest to a number, which may be before or after all columns.
fn clipped(column: i128) -> u32 {
    u32::try_from(column.max(0)).unwrap_or(u32::MAX)
}

fn usual(kind: CellKind, grid: &Grid) -> Weight {
    match kind {
        CellKind::Rate(_) => {
            Weight::Seconds(crate::analysis::envelope::grid::seconds(grid.width()))
        }
        CellKind::Value | CellKind::Nothing => Weight::Count,
    }
}

/// Estimates how many columns the budget permits, from the lifetimes of the series.
fn columns_within_budget(
    scope: &EnvelopeScope,
    span: &RangeInclusive<Timestamp>,
    budget: usize,
) -> u32 {
    let lives = (0..scope.metrics.len()).flat_map(|place| scope.instances(place));
    let series: f64 = lives.map(|(_, life)| life.part_of(span)).sum();
    let columns = budget as f64 / (CELL as f64 * series.max(1.0));
    (columns as u32).clamp(MIN_COLUMNS, MAX_COLUMNS)
}
