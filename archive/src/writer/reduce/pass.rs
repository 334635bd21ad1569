//! One pass over the columns of a window.

use std::ops::{Bound, Range, RangeInclusive};

use hashbrown::HashMap;

use super::ReducedSource;
use super::counter::CounterTrack;
use super::gauge::GaugeTrack;
use super::grid::{IntervalGrid, IntervalRows, Piece};
use super::held::HeldTrack;
use super::histogram_rows::HistogramRows;
use super::output::{InstanceOutput, Output, OutputSlot, StagedValue, Target};
use super::rows::RowsWithValues;
use crate::analysis::growth::Gaps;
use crate::analysis::growth::lifetime::{Lifetime, Lifetimes};
use crate::analysis::growth::number::with_number;
use crate::analysis::growth::walls::{
    ColumnPart, CounterOrigin, MetricWalls, RunState, Wall, Walls, each_part,
};
#[cfg(test)]
use crate::scan::ChunkLimits;
use crate::scan::extremes::Side;
use crate::scan::{ChunkRows, Column, Columns, SelectedMetric, Selection, is_extreme, programs};
use crate::{ArchiveWriter, InstanceId, Metadata, Result, Semantics, Timestamp, ValueType};

/// Intervals after its last value for which an instance may still have one to write.
const LATEST: i128 = 6;

/// The way in which the values of a metric are reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MetricKind {
    Counter,
    Gauge,
    /// An extreme of a gauge.
    Extreme(Side),
    Held,
    Events,
    /// It has no values.
    Nothing,
}

#[derive(Debug)]
enum Track {
    Counter(CounterTrack),
    Gauge(GaugeTrack),
    Held(HeldTrack),
    Events,
}

/// One instance of a metric.
#[derive(Debug)]
struct InstanceTrack {
    instance: Option<InstanceId>,
    /// Number of marks before its last value.
    run: u32,
    track: Track,
}

/// A metric and its instances, in the order of [`ChunkRows::columns`].
#[derive(Debug)]
struct MetricTracks {
    kind: MetricKind,
    target: Target,
    instances: Vec<InstanceTrack>,
    run: RunState,
}

/// A pass from the source to the writer.
pub(super) struct ReducePass<'p, 'a> {
    selection: &'p Selection<'a>,
    grid: IntervalGrid,
    window: (Bound<Timestamp>, Bound<Timestamp>),
    lives: Lifetimes,
    metrics: Vec<MetricTracks>,
    /// The place of the agent's events in the selection.
    events: Option<usize>,
    histograms: HistogramRows,
    /// Number of marks before the chunk.
    marks: u32,
    /// Time of the row before the chunk.
    before: Option<Timestamp>,
    output: Output<'p, 'a>,
    /// Limits of chunks in tests.
    #[cfg(test)]
    limits: Option<ChunkLimits>,
}

/// The rows of a chunk, and where they are.
struct ChunkContext<'c> {
    chunk: &'c ChunkRows,
    intervals: Vec<IntervalRows>,
    /// Time of each row since the one before, in seconds; 0 of the first.
    seconds: Vec<f64>,
    /// Number of marks before the chunk.
    marks: u32,
}

impl<'p, 'a> ReducePass<'p, 'a> {
    pub(super) fn new(
        selection: &'p Selection<'a>,
        grid: IntervalGrid,
        window: &RangeInclusive<Timestamp>,
        writer: &'p mut ArchiveWriter,
    ) -> Result<Self> {
        let places = (0..).zip(selection.metrics()).map(|(place, metric)| (&*metric.name, place));
        let places: HashMap<&str, usize> = places.collect();
        let metrics = selection.metrics().iter().enumerate().map(|(place, metric)| {
            let kind = MetricKind::new(metric, selection.source().metadata());
            let own = Target { metric: place, slot: OutputSlot::Value };
            let target = kind.target(metric, &places).unwrap_or(own);
            MetricTracks { kind, target, instances: Vec::new(), run: RunState::default() }
        });
        let metrics = metrics.collect();
        let events = selection.metrics().iter();
        let events =
            events.clone().position(|metric| metric.desc.pmid == programs::events_metric());
        let start = *window.start();
        let first = if start <= selection.source().start() {
            Bound::Unbounded
        } else {
            Bound::Included(start)
        };
        Ok(Self {
            selection,
            grid,
            window: (first, Bound::Included(*window.end())),
            lives: Lifetimes::new(selection, Gaps::Keep, true),
            metrics,
            events,
            histograms: HistogramRows::new(selection),
            marks: 0,
            before: None,
            output: Output::new(selection, start, writer)?,
            #[cfg(test)]
            limits: None,
        })
    }

    /// Reads that many rows at a time.
    #[cfg(test)]
    pub(super) fn by_rows(mut self, rows: usize) -> Self {
        self.limits = Some(ChunkLimits { rows, ..ChunkLimits::CHUNK });
        self
    }

    /// Reduces all rows, as long as `go_on` returns `true` at the time of the last one read.
    /// Returns `None` if it ended before.
    pub(super) fn run(
        mut self,
        mut go_on: impl FnMut(Timestamp) -> bool,
    ) -> Result<Option<ReducedSource>> {
        let columns = Columns::open(self.selection, self.window)?;
        #[cfg(test)]
        let columns = match self.limits {
            Some(limits) => columns.with_limits(limits),
            None => columns,
        };
        let mut backward_records = 0;
        let mut has_ended = false;
        columns.read_ahead(|chunk| {
            self.add(&chunk);
            backward_records = chunk.backward_records;
            let Some(last) = chunk.timestamps.last().copied() else { return Ok(true) };
            self.settle(last);
            let ready = self.grid.interval(last).saturating_sub(LATEST);
            self.output.flush(self.grid.end(ready))?;
            has_ended = !go_on(last);
            Ok(!has_ended)
        })?;
        if has_ended {
            return Ok(None);
        }
        self.end();
        self.output.finish()?;
        Ok(Some(ReducedSource { backward_records }))
    }

    fn add(&mut self, chunk: &ChunkRows) {
        let walls = Walls::of_chunk(chunk, self.selection, self.before);
        let intervals = self.grid.divide(&chunk.timestamps);
        let mut seconds = vec![0.0; chunk.timestamps.len().min(1)];
        for times in chunk.timestamps.windows(2) {
            if let [before, at] = times {
                seconds.push(at.seconds_since(*before));
            }
        }
        let context = ChunkContext { chunk, intervals, seconds, marks: self.marks };
        self.histograms.find(chunk, &self.grid, |place, column| {
            let own = self.metrics.get(place)?.instances.get(column)?;
            own.track.last_value()
        });
        for (place, metric) in self.selection.metrics().iter().enumerate() {
            self.add_metric(&context, place, metric, &walls);
        }
        for row in &chunk.marks {
            if let Some(at) = chunk.timestamps.get(*row as usize) {
                self.output.put_mark(self.marks, *at);
                self.marks += 1;
            }
        }
        self.before = chunk.timestamps.last().copied().or(self.before);
    }

    fn add_metric(
        &mut self,
        context: &ChunkContext<'_>,
        place: usize,
        metric: &SelectedMetric,
        walls: &Walls,
    ) {
        let Some(tracks) = self.metrics.get_mut(place) else { return };
        if tracks.kind == MetricKind::Nothing {
            return;
        }
        let columns = context.chunk.columns(place);
        let timestamps = &context.chunk.timestamps;
        let presences = self.lives.presences(metric);
        let walls = MetricWalls::new(walls, metric, timestamps, columns, presences, tracks.run);
        for column in columns.iter().skip(tracks.instances.len()) {
            let instance = column.instance();
            // A value of an instance without a name is kept all the same.
            let life = self.lives.lifetime(metric, instance).unwrap_or(Lifetime::ALWAYS);
            let track = Track::new(tracks.kind, metric.desc.value_type, life);
            tracks.instances.push(InstanceTrack { instance, run: self.marks, track });
        }
        keep_rows_of_walls(context, &walls, self.events, &mut self.output);
        let mut extra = self.histograms.walls(place);
        if presences.is_some() {
            let with_values = RowsWithValues::new(columns.iter(), timestamps.len());
            let newest = tracks.newest_value();
            for row in line_starts(columns, tracks, &walls) {
                let before = with_values.before(row);
                let value = before.and_then(|row| context.value(columns, &with_values, row));
                if let Some(LastValue { at, run, instance, word }) = value.or(newest) {
                    let target = tracks.target;
                    self.output.of_instance(&self.grid, run, target, instance).put(at, word);
                }
            }
            let last = |at: usize| tracks.instances.get(at)?.track.last_at();
            let newest = newest.map(|value| value.at);
            let rows =
                with_values.new_over_grid(columns.iter(), timestamps, &self.grid, newest, last);
            extra.extend(rows.into_iter().filter_map(|row| context.wall(row)));
            extra.sort_unstable();
        }
        for (column, own) in columns.iter().zip(&mut tracks.instances) {
            let mut walls = walls.walls_of_column(column, || own.track.last_at());
            if !extra.is_empty() {
                walls.to_mut().extend(&extra);
                walls.to_mut().sort_by_key(|wall| wall.row);
            }
            let target = tracks.target;
            own.add(context, column, &walls, &self.grid, target, &mut self.output);
        }
        tracks.run.pass(&walls);
    }

    /// Writes what later values do not change.
    fn settle(&mut self, now: Timestamp) {
        for tracks in &mut self.metrics {
            let target = tracks.target;
            for own in &mut tracks.instances {
                let mut output = self.output.of_instance(&self.grid, own.run, target, own.instance);
                match &mut own.track {
                    Track::Counter(track) => track.settle(now, &mut output),
                    Track::Gauge(track) => track.settle(now, &mut output),
                    Track::Held(track) => track.settle(now, &mut output),
                    Track::Events => {}
                }
            }
        }
    }

    fn end(&mut self) {
        for tracks in &mut self.metrics {
            for own in &mut tracks.instances {
                own.interrupt(None, &self.grid, tracks.target, &mut self.output);
            }
        }
    }
}

/// A value of an instance before a chunk.
#[derive(Debug, Clone, Copy)]
struct LastValue {
    at: Timestamp,
    /// Number of marks before it.
    run: u32,
    instance: Option<InstanceId>,
    word: u64,
}

/// Keeps the rows before and after the events of new runs that are dated by rows: there readers
/// find when counters were 0.
fn keep_rows_of_walls(
    context: &ChunkContext<'_>,
    walls: &MetricWalls<'_>,
    events: Option<usize>,
    output: &mut Output<'_, '_>,
) {
    let Some(events) = events else { return };
    let timestamps = &context.chunk.timestamps;
    for wall in &walls.all {
        let CounterOrigin::Zero(zero) = wall.origin else { continue };
        if zero != wall.at {
            let run = context.run_of(wall.row as usize);
            output.put_row(run, zero, events);
            if let Some(at) = timestamps.get(wall.row as usize) {
                output.put_row(run, *at, events);
            }
        }
    }
}

/// Returns the rows with the first values of lines, ascending. Readers say of instances that begin
/// later than others that they were 0 in the row with values before.
fn line_starts(columns: &[Column], tracks: &MetricTracks, walls: &MetricWalls<'_>) -> Vec<u32> {
    let mut starts = Vec::new();
    for (column, own) in columns.iter().zip(&tracks.instances) {
        let last_at = own.track.last_at();
        if last_at.is_none() {
            starts.extend(column.rows().get(0));
        }
        for wall in walls.walls_of_column(column, || last_at).iter() {
            starts.extend(column.rows().first_from(wall.row).map(|(_, row)| row));
        }
    }
    starts.sort_unstable();
    starts.dedup();
    starts
}

impl MetricKind {
    fn new(metric: &SelectedMetric, metadata: &Metadata) -> Self {
        if is_extreme(metric, metadata) {
            let side = Side::BOTH.into_iter().find(|side| side.gauge_of(&metric.name).is_some());
            return side.map_or(Self::Nothing, Self::Extreme);
        }
        match metric.desc.value_type {
            ValueType::NoSupport => Self::Nothing,
            ValueType::Event | ValueType::HighresEvent => Self::Events,
            _ if metric.has_rates() => Self::Counter,
            _ if metric.has_numbers() && metric.desc.semantics == Semantics::Instant => Self::Gauge,
            _ => Self::Held,
        }
    }
}

impl MetricKind {
    /// Returns the target of an extreme, if its gauge is selected.
    fn target(self, metric: &SelectedMetric, places: &HashMap<&str, usize>) -> Option<Target> {
        let Self::Extreme(side) = self else { return None };
        let gauge = side.gauge_of(&metric.name)?;
        Some(Target { metric: *places.get(gauge)?, slot: side.into() })
    }
}

impl MetricTracks {
    /// Returns the newest of the last values of a counter's instances.
    fn newest_value(&self) -> Option<LastValue> {
        let last = self.instances.iter().filter_map(|own| {
            let (at, word) = own.track.last_value()?;
            Some(LastValue { at, run: own.run, instance: own.instance, word })
        });
        last.max_by_key(|value| value.at)
    }
}

impl Track {
    fn new(kind: MetricKind, value_type: ValueType, life: Lifetime) -> Self {
        match kind {
            MetricKind::Counter => Self::Counter(CounterTrack::new(value_type, life)),
            MetricKind::Gauge => Self::Gauge(GaugeTrack::new(OutputSlot::Value, value_type, life)),
            MetricKind::Extreme(side) => {
                Self::Gauge(GaugeTrack::new(side.into(), value_type, life))
            }
            MetricKind::Held => Self::Held(HeldTrack::new(life)),
            MetricKind::Events | MetricKind::Nothing => Self::Events,
        }
    }

    /// Returns the last value of a counter's line, and its time.
    fn last_value(&self) -> Option<(Timestamp, u64)> {
        match self {
            Self::Counter(track) => track.last_value(),
            _ => None,
        }
    }

    /// Returns the time of the last value of a counter.
    const fn last_at(&self) -> Option<Timestamp> {
        match self {
            Self::Counter(track) => track.last_at(),
            _ => None,
        }
    }
}

impl InstanceTrack {
    /// Adds the values of a chunk.
    fn add(
        &mut self,
        context: &ChunkContext<'_>,
        column: &Column,
        walls: &[Wall],
        grid: &IntervalGrid,
        target: Target,
        output: &mut Output<'_, '_>,
    ) {
        let mut places = 0;
        each_part(column, walls, |part| match part {
            ColumnPart::Wall(wall) => self.interrupt(Some(wall.at), grid, target, output),
            ColumnPart::Values(words, rows) => {
                self.run = context.run_of(rows.start);
                let mut output = output.of_instance(grid, self.run, target, self.instance);
                for (interval, part) in context.pieces(&rows) {
                    let place = places + (part.start - rows.start);
                    let places = place..place + part.len();
                    self.track.add(context, column, interval, part, places, &mut output);
                }
                places += words.len();
            }
        });
    }

    /// Ends the line at `at` or, without, with its last value: no later value continues it.
    fn interrupt(
        &mut self,
        at: Option<Timestamp>,
        grid: &IntervalGrid,
        target: Target,
        output: &mut Output<'_, '_>,
    ) {
        let mut output = output.of_instance(grid, self.run, target, self.instance);
        match &mut self.track {
            Track::Counter(track) => track.end(&mut output),
            Track::Gauge(track) => track.end(at, &mut output),
            Track::Held(track) => track.end(at, &mut output),
            Track::Events => {}
        }
    }
}

impl Track {
    /// Adds the values of an interval: their rows, and their places in the column.
    fn add(
        &mut self,
        context: &ChunkContext<'_>,
        column: &Column,
        interval: i128,
        rows: Range<usize>,
        places: Range<usize>,
        output: &mut InstanceOutput<'_>,
    ) {
        let words = column.words().get(places.clone()).unwrap_or_default();
        let timestamps = context.chunk.timestamps.get(rows.clone()).unwrap_or_default();
        let seconds = context.seconds.get(rows).unwrap_or_default();
        let piece = Piece { interval, words, timestamps, seconds };
        let staged = |place| column.value(place).map(StagedValue::from);
        match self {
            Self::Counter(track) => with_number!(
                column.value_type(),
                N => track.add::<N>(&piece, output),
                else ()
            ),
            Self::Gauge(track) => with_number!(
                column.value_type(),
                N => track.add::<N>(&piece, output),
                else ()
            ),
            Self::Held(track) => {
                if let Some((&first, &last)) = timestamps.first().zip(timestamps.last()) {
                    if !track.is_continued() {
                        track.begin(interval, first, staged(places.start), output);
                    }
                    let value = staged(places.end.saturating_sub(1));
                    track.add(interval, last, value, output);
                }
            }
            Self::Events => {
                for (place, at) in places.zip(timestamps) {
                    if let Some(value) = staged(place) {
                        output.put_value(*at, value);
                    }
                }
            }
        }
    }
}

impl ChunkContext<'_> {
    /// Returns the number of marks before a row.
    fn run_of(&self, row: usize) -> u32 {
        let marks = self.chunk.marks.partition_point(|mark| (*mark as usize) < row);
        self.marks + marks as u32
    }

    /// Returns the value of some column of a metric in a row.
    fn value(
        &self,
        columns: &[Column],
        with_values: &RowsWithValues,
        row: u32,
    ) -> Option<LastValue> {
        let column = columns.get(with_values.column(row)?)?;
        let (place, _) = column.rows().first_from(row)?;
        Some(LastValue {
            at: *self.chunk.timestamps.get(row as usize)?,
            run: self.run_of(row as usize),
            instance: column.instance(),
            word: *column.words().get(place)?,
        })
    }

    /// Returns a wall at which the values on both sides are kept.
    fn wall(&self, row: u32) -> Option<Wall> {
        let at = *self.chunk.timestamps.get(row as usize)?;
        Some(Wall { row, origin: CounterOrigin::Unknown, at, is_birth: false })
    }

    /// Divides rows into intervals.
    fn pieces(&self, rows: &Range<usize>) -> impl Iterator<Item = (i128, Range<usize>)> {
        let rows = rows.clone();
        let first = self.intervals.partition_point(|interval| interval.rows.end <= rows.start);
        let overlapping = self.intervals.get(first..).unwrap_or_default().iter();
        overlapping.map_while(move |interval| {
            let start = interval.rows.start.max(rows.start);
            let end = interval.rows.end.min(rows.end);
            (start < end).then_some((interval.interval, start..end))
        })
    }
}
