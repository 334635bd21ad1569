//! Metrics as they are drawn: what each column of a picture has of each instance.
//!
//! In: a selection of numbers and a window in columns, a [`Grid`]. Out: one [`Series`] for
//! each instance, with the minimum, maximum, mean and last value of each column, so that a
//! single observation that differs is seen at every width. The values are those that were
//! observed; nothing is interpolated. Of counters they are the rates from each observation
//! to the next, computed before anything is reduced.
//!
//! # Example
//!
//! A metric was logged as 100 at 0 s, 150 at 10 s, 160 at 30 s; then the logger stopped,
//! which is recorded as a mark at 31 s; then 7 at 60 s and 27 at 70 s. In columns of 20 s:
//!
//! | column | counter: minimum, maximum, mean | instant: the same | joined |
//! |---|---|---|---|
//! | 0 to 20 s | 0.5, 5, (50 + 5) / 20 = 2.75 | 100, 150, 125 | no, the first |
//! | 20 to 40 s | 0.5, 0.5, 0.5 | 160, 160, 160 | yes |
//! | 40 to 60 s | - | - | |
//! | 60 to 80 s | 2, 2, 2 | 7, 27, 17 | no, the mark |
//!
//! A rate is in each column that its interval overlaps, and its weight in the mean is the
//! time for which it does. Values have the same weight each.
//!
//! # Where lines are interrupted
//!
//! A [cell](Cell) is joined to the one before unless there is in between:
//!
//! * a mark, or the boundary of an MMV file's program by the agent's
//!   events, as in [`summary`](crate::summary);
//! * of a counter, a decrease: it was reset, and the rate is not known.
//!
//! A counter that is known to have begun at 0, as in `summary`, has a rate up to its first value.
//!
//! As in [`replay`](crate::replay), an instance of a large domain, or of a domain of MMV files,
//! has values in its lifetime only, values of instances without a name are left out, and
//! others continue over any absence. NaN is skipped, and so are records whose time goes back.
//!
//! In an archive that was [reduced](crate::reduce) the least and greatest values of a gauge are
//! those of its original values, in the column of the end of their interval.
//!
//! # Cost
//!
//! One pass over the records of the window on all processors, and as many before and after
//! it as it takes to find what the first and last observations continue. Memory grows with
//! the number of cells, and with that of observations, whichever is less.
//!
//! A viewer that asks for one window after the other uses [`Envelopes`], which reads a large
//! archive once: wide windows are answered by a pyramid of columns in bounded memory
//! (`pyramid`), narrow ones by their records.

mod envelopes;
mod grid;
mod plan;
mod pyramid;
mod segment;
mod track;

use std::ops::{Range, RangeInclusive};

use hashbrown::{HashMap, HashSet};

use super::growth::{Gaps, lifetime, numbers};
use crate::reader::salvage::Loss;
use crate::scan::extremes::{self, GaugeExtreme, Side};
use crate::scan::{Columns, Selection};
use crate::{InstanceId, Pmid, Result, Timestamp};

use plan::{EnvelopeScope, WindowPlan};
use segment::EnvelopeSegment;

pub use envelopes::{Answer, EnvelopeOrigin, Envelopes};
pub use grid::Grid;

/// Returns whether to continue; called by several threads. After false it must stay false.
pub type GoOn<'f> = &'f (dyn Fn() -> bool + Sync);

/// Options for reading records.
#[derive(Clone, Copy)]
struct ReadMode<'f> {
    go_on: GoOn<'f>,
    past_damage: bool,
}

impl ReadMode<'_> {
    fn open<'a>(
        self,
        selection: &Selection<'a>,
        span: RangeInclusive<Timestamp>,
    ) -> Result<Columns<'a>> {
        if self.past_damage {
            Columns::open_past_damage(selection, &span)
        } else {
            Columns::open(selection, span)
        }
    }
}

/// Options of the reduction to columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Counters as rates; else all values as they were logged.
    pub rates: bool,
    /// The meaning of a time without values.
    pub gaps: Gaps,
}

impl Default for Options {
    fn default() -> Self {
        Self { rates: true, gaps: Gaps::Keep }
    }
}

/// The values of an instance in one column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// Least value observed in the column.
    pub minimum: f64,
    /// Greatest value observed in the column.
    pub maximum: f64,
    /// Latest value observed in the column.
    pub last: f64,
    /// Number of observed values; of rates, of those that ended in the column.
    pub count: u32,
    /// The first value continues the last one of the cell before.
    pub joined: bool,
    /// The sum of the values, each times its weight.
    sum: f64,
    /// Of a value 1, of a rate the seconds.
    weight: f64,
}

impl Cell {
    const fn of_value(value: f64, joined: bool) -> Self {
        Self {
            minimum: value,
            maximum: value,
            last: value,
            count: 1,
            joined,
            sum: value,
            weight: 1.0,
        }
    }

    const fn of_rate(rate: f64, seconds: f64, joined: bool) -> Self {
        let minimum = rate;
        let maximum = rate;
        let last = rate;
        Self { minimum, maximum, last, count: 0, joined, sum: rate * seconds, weight: seconds }
    }

    /// Returns the mean: of values, all with the same weight; of rates by time.
    pub fn mean(&self) -> f64 {
        // Rounding must not move it beyond the values: that of a constant is the constant.
        (self.sum / self.weight).max(self.minimum).min(self.maximum)
    }

    /// Returns the weight of the mean: the number of values, or of rates the seconds for which they
    /// are known.
    pub const fn weight(&self) -> f64 {
        self.weight
    }

    /// Adds what is later.
    pub fn merge(&mut self, later: &Self) {
        self.minimum = self.minimum.min(later.minimum);
        self.maximum = self.maximum.max(later.maximum);
        self.last = later.last;
        self.count = self.count.saturating_add(later.count);
        self.sum += later.sum;
        self.weight += later.weight;
    }
}

/// Columns that follow each other and have equal cells: of a rate over several columns those
/// that are neither its first nor its last.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The columns; never none.
    pub columns: Range<u32>,
    /// Values of the instance in it.
    pub cell: Cell,
}

/// The cells of one instance.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The place of the metric in the selection.
    pub metric: usize,
    /// The instance; `None` in a metric without instances.
    pub instance: Option<InstanceId>,
    /// The values are rates, in
    /// [`SelectedMetric::rate_units`](crate::scan::SelectedMetric::rate_units).
    pub is_rate: bool,
    /// In the order of the columns, which are in one run each; columns without a value are
    /// in none.
    pub runs: Vec<Run>,
}

impl Series {
    /// Iterates over each column that has values, in order.
    pub fn cells(&self) -> impl Iterator<Item = (u32, &Cell)> {
        self.runs.iter().flat_map(|run| run.columns.clone().map(|column| (column, &run.cell)))
    }
}

/// The selected metrics in a window.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// The window and its columns.
    pub grid: Grid,
    /// By metric and instance; only those that have a value in the window.
    pub series: Vec<Series>,
    /// The first mark of each column that has one.
    pub marks: Vec<Timestamp>,
}

impl Envelope {
    /// Reduces the values of the selected metrics that are numbers.
    ///
    /// ```
    /// use pcp_archive::envelope::{Envelope, Grid, Options};
    /// use pcp_archive::scan::Selection;
    /// # use pcp_archive::{Archive, ArchiveWriter, Timestamp, Units};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let base = directory.path().join("a");
    /// # let mut writer = ArchiveWriter::create(&base)?;
    /// # let sold_key = writer.counter::<u64>("acme.sold").units(Units::count()).add()?;
    /// # for (second, sold) in [(0, 100), (10, 150), (30, 160)] {
    /// #     writer.record(Timestamp::new(second, 0)?, |r| r.set(sold_key, sold))?;
    /// # }
    /// # writer.finish()?;
    /// # let archive = Archive::open(&base)?;
    ///
    /// let mut selection = Selection::new(&archive);
    /// selection.select("acme.sold"); // 100 at 0 s, 150 at 10 s, 160 at 30 s
    /// let grid = Grid::new(archive.label().start..=archive.end(), 2);
    /// let envelope = Envelope::read(&selection, grid, Options::default())?;
    /// let cells: Vec<_> = envelope.series[0].cells().map(|(_, cell)| cell).collect();
    /// // 5 per second until 10 s, then 0.5.
    /// assert_eq!((cells[0].minimum, cells[0].maximum), (0.5, 5.0));
    /// assert_eq!(cells[0].mean(), (10.0 * 5.0 + 5.0 * 0.5) / 15.0);
    /// assert!(cells[1].joined && cells[1].maximum == 0.5);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of the [scan](crate::scan::Columns::next_chunk).
    pub fn read(selection: &Selection<'_>, grid: Grid, options: Options) -> Result<Self> {
        let mode = ReadMode { go_on: &|| true, past_damage: false };
        Self::read_or_end(selection, grid, options, mode).map(|(envelope, _)| envelope)
    }

    /// Reads as [`read`](Self::read) does, but skips damaged parts and puts a mark in their place.
    /// Also returns what was lost in the window.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), except [damage](crate::Error::is_damage).
    pub fn read_past_damage(
        selection: &Selection<'_>,
        grid: Grid,
        options: Options,
    ) -> Result<(Self, Vec<Loss>)> {
        let mode = ReadMode { go_on: &|| true, past_damage: true };
        Self::read_or_end(selection, grid, options, mode)
    }

    /// Reads like [`read`](Self::read), and returns `None` once `go_on` returns false. `go_on` is
    /// called every few megabytes, by several threads.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_while(
        selection: &Selection<'_>,
        grid: Grid,
        options: Options,
        go_on: GoOn<'_>,
    ) -> Result<Option<Self>> {
        let mode = ReadMode { go_on, past_damage: false };
        let (envelope, _) = Self::read_or_end(selection, grid, options, mode)?;
        Ok(go_on().then_some(envelope))
    }

    /// Returns the envelope of what was read, and what was lost.
    fn read_or_end(
        selection: &Selection<'_>,
        grid: Grid,
        options: Options,
        mode: ReadMode<'_>,
    ) -> Result<(Self, Vec<Loss>)> {
        let selection = WithExtremes::new(selection);
        let places = places(&selection.all);
        let extremes = selection.extremes;
        let (selection, limits) = numbers_with_witnesses(&selection.all, options.gaps);
        let scope = EnvelopeScope::new(&selection, options);
        let plan = WindowPlan::new(&scope, &grid);
        let (whole, lost) = EnvelopeSegment::read(&plan, &selection, mode)?;
        let mut series = Vec::new();
        for (metric, tracks) in scope.metrics.iter().zip(whole.metrics) {
            let Some(&place) = places.get(&metric.desc.pmid) else { continue };
            let is_rate = options.rates && metric.has_rates();
            let limit = limits.get(&metric.desc.pmid);
            series.extend(tracks.instances.all.into_iter().filter_map(|(instance, track)| {
                if limit.zip(instance).is_some_and(|(limit, id)| !limit.contains(&id)) {
                    return None;
                }
                let runs = track?.into_runs();
                (!runs.is_empty()).then_some(Series { metric: place, instance, is_rate, runs })
            }));
        }
        series.sort_by_key(|series| (series.metric, series.instance));
        extremes.join(&mut series);
        Ok((Self { grid, series, marks: whole.marks }, lost))
    }
}

/// Returns the metrics with numbers of a selection, read with the witnesses that tell from when on
/// an instance counts, and the instances that were selected of those metrics of which not all were.
fn numbers_with_witnesses<'a>(
    selection: &Selection<'a>,
    gaps: Gaps,
) -> (Selection<'a>, HashMap<Pmid, HashSet<InstanceId>>) {
    let mut selection = numbers(selection, gaps);
    let limits = lifetime::read_witnesses(&mut selection, gaps);
    (selection, limits)
}

/// A selection, and the extremes of its gauges in an archive that was [reduced](crate::reduce).
struct WithExtremes<'a> {
    all: Selection<'a>,
    extremes: GaugeExtremes,
}

struct GaugeExtremes {
    /// Series of metrics from this place on are there for their gauges only.
    selected: usize,
    extremes: Vec<GaugeExtreme>,
    /// The place of each metric in the selection.
    places: HashMap<Pmid, usize>,
}

impl<'a> WithExtremes<'a> {
    fn new(selection: &Selection<'a>) -> Self {
        let mut all = selection.clone();
        let selected = all.metrics().len();
        let extremes = extremes::select(&mut all);
        let places = if extremes.is_empty() { HashMap::new() } else { places(&all) };
        Self { all, extremes: GaugeExtremes { selected, extremes, places } }
    }
}

impl GaugeExtremes {
    /// Joins extremes to the cells of their gauges. `series` are in order.
    fn join(&self, series: &mut Vec<Series>) {
        for GaugeExtreme { gauge, extreme, side } in &self.extremes {
            let found = self.places.get(gauge).zip(self.places.get(extreme));
            let Some((gauge, extreme)) = found else { continue };
            let first = series.partition_point(|series| series.metric < *extreme);
            let mut place = first;
            while let Some(found) = series.get(place).filter(|found| found.metric == *extreme) {
                let cells: HashMap<u32, Cell> =
                    found.cells().map(|(column, cell)| (column, *cell)).collect();
                let key = (*gauge, found.instance);
                let own = series.binary_search_by_key(&key, |own| (own.metric, own.instance));
                if let Some(own) = own.ok().and_then(|own| series.get_mut(own)) {
                    own.widen(*side, &cells);
                }
                place += 1;
            }
        }
        series.retain(|series| series.metric < self.selected);
    }
}

impl Series {
    fn widen(&mut self, side: Side, extremes: &HashMap<u32, Cell>) {
        for Run { columns, cell } in &mut self.runs {
            for extreme in columns.clone().filter_map(|column| extremes.get(&column)) {
                match side {
                    Side::Minimum => cell.minimum = cell.minimum.min(extreme.minimum),
                    Side::Maximum => cell.maximum = cell.maximum.max(extreme.maximum),
                }
            }
        }
    }
}

fn places(selection: &Selection<'_>) -> HashMap<Pmid, usize> {
    selection.metrics().iter().map(|metric| metric.desc.pmid).zip(0..).collect()
}

/// Returns the cells of every two columns as one, counted from `ahead` columns before the first.
fn halved(runs: &[Run], ahead: u32) -> Vec<Run> {
    let mut halved: Vec<Run> = Vec::new();
    let mut put = |columns: Range<u32>, cell: Cell| match halved.last_mut() {
        Some(run) if run.columns.end > columns.start => run.cell.merge(&cell),
        _ if columns.is_empty() => {}
        _ => halved.push(Run { columns, cell }),
    };
    for Run { columns, cell } in runs {
        let columns = columns.start + ahead..columns.end + ahead;
        // Those without a partner in the run, at its ends, and the pairs in between.
        let first = columns.start.next_multiple_of(2);
        let after = columns.end / 2 * 2;
        if first > columns.start {
            put(columns.start / 2..first / 2, *cell);
        }
        if first < after {
            let mut pair = *cell;
            pair.merge(cell);
            put(first / 2..after / 2, pair);
        }
        if after < columns.end && after >= first {
            put(after / 2..after / 2 + 1, *cell);
        }
    }
    halved
}

#[cfg(test)]
mod tests;
