//! Walls: what no value continues over. They are marks, the boundaries of programs, and the
//! creation of instances.
//!
//! Of a counter whose values begin after a wall it may be known that it began at 0:
//!
//! | the wall | the counter was 0 |
//! |---|---|
//! | an event of the agent: a run began from 0 | at the event; in the record before if the event has the time of a record |
//! | an instance came into the domain of a metric that had others in this run | in the record before with values of the metric |
//! | an instance came into the domain before the metric had values in this run | as the run |
//! | a mark, or another boundary | unknown |
//!
//! An instance may also be new because one of several processes that share its metric is logged
//! again. Then it is not known what it had counted before.
//!
//! The agent notices the file of a new run within a millisecond on a machine that has time for it,
//! and dates its event so. The record before may be much older: a minute, if only the agent's own
//! metrics were logged. An event with the time of a record dates the tick and not the run.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use super::lifetime::Presences;
use crate::Timestamp;
use crate::scan::programs::{ByProgram, ProgramEvent, events_metric};
use crate::scan::{ChunkRows, Column, SelectedMetric, Selection};

/// Least time from the event of a new run to the next record, in nanoseconds, that is used as the
/// time in which the run counted. The agent takes about as long to notice a file, and event times
/// are cut to microseconds, so a rate over less would be too high by far.
const MIN_FIRST_STRETCH: i128 = 1_000_000;

/// A place that no value continues over: the first row of a chunk after it, and its time. Of those
/// in one row the last is where a run began from 0: it has the values of the row, even if the
/// agent dates the end of the run before it later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wall {
    pub(crate) row: u32,
    pub(crate) origin: CounterOrigin,
    pub(crate) at: Timestamp,
    /// It is of one instance, which was created.
    pub(crate) is_birth: bool,
}

impl Wall {
    /// Returns when counters were 0 before the first value after it, if that is known in rows before
    /// which there are no others.
    pub(crate) fn zero(&self) -> Option<Timestamp> {
        match self.origin {
            CounterOrigin::Zero(at) | CounterOrigin::ZeroAtEvent(at) => Some(at),
            CounterOrigin::ZeroInRecord => Some(self.at),
            _ => None,
        }
    }
}

/// A part of a column: a wall, or values that follow each other in consecutive rows.
pub(crate) enum ColumnPart<'c> {
    Wall(&'c Wall),
    /// Values as in [`Column::words`], and their rows.
    Values(&'c [u64], Range<usize>),
}

#[inline]
pub(crate) fn each_part<'c>(
    column: &'c Column,
    walls: &'c [Wall],
    mut visit: impl FnMut(ColumnPart<'c>),
) {
    let mut walls = walls.iter().peekable();
    for (mut places, mut row) in column.rows().stretches() {
        while !places.is_empty() {
            while let Some(wall) = walls.next_if(|wall| wall.row <= row) {
                visit(ColumnPart::Wall(wall));
            }
            // A mark takes a row, a boundary none.
            let free = walls.peek().map_or(usize::MAX, |wall| (wall.row - row) as usize);
            let part = places.start..places.end.min(places.start.saturating_add(free));
            let rows = row as usize..row as usize + part.len();
            places.start = part.end;
            row = rows.end as u32;
            visit(ColumnPart::Values(column.words().get(part).unwrap_or_default(), rows));
        }
    }
    walls.for_each(|wall| visit(ColumnPart::Wall(wall)));
}

/// The knowledge of a counter before its first value after a wall.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CounterOrigin {
    /// There was no wall since the span of time began: it is what the span before says.
    #[default]
    Earlier,
    Unknown,
    /// It was 0 at a time.
    Zero(Timestamp),
    /// It was 0 at a time, unless that is before the last record before the span.
    ZeroAtEvent(Timestamp),
    /// It was 0 in the last record before the span.
    ZeroInRecord,
    /// It was 0 in the last record before the span that has values of the metric, or as the run.
    ZeroInMetric,
}

impl CounterOrigin {
    /// Returns whether the span of time before may say more.
    pub(crate) const fn is_open(self) -> bool {
        matches!(self, Self::ZeroAtEvent(_) | Self::ZeroInRecord | Self::ZeroInMetric)
    }
}

/// The marks of a chunk, and the boundaries of all programs in it.
#[derive(Debug, Default)]
pub(crate) struct Walls {
    marks: Vec<Wall>,
    boundaries: ByProgram<Wall>,
    /// The rows with which one of several processes that share metrics is logged again, with
    /// counters that did not begin at 0.
    resumed: ByProgram<u32>,
}

impl Walls {
    /// Finds those of some rows. `before` is the time of the row before the first.
    pub(crate) fn find(
        timestamps: &[Timestamp],
        marks: &[u32],
        events: Option<&Column>,
        before: Option<Timestamp>,
    ) -> Self {
        let mut walls = Self::default();
        walls.marks.extend(marks.iter().filter_map(|row| {
            let at = *timestamps.get(*row as usize)?;
            Some(Wall { row: *row, origin: CounterOrigin::Unknown, at, is_birth: false })
        }));
        for (_, value) in events.into_iter().flat_map(Column::iter) {
            for event in ProgramEvent::all(value) {
                walls.add_event(&event, timestamps, before);
            }
        }
        walls
    }

    pub(crate) fn add_mark(&mut self, at: Timestamp) {
        self.marks.push(Wall { row: 0, origin: CounterOrigin::Unknown, at, is_birth: false });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.marks.is_empty() && self.boundaries.is_empty() && self.resumed.is_empty()
    }

    /// Adds the boundary of an event, if it is one, in the row that it precedes.
    pub(crate) fn add_event(
        &mut self,
        event: &ProgramEvent<'_>,
        timestamps: &[Timestamp],
        before: Option<Timestamp>,
    ) {
        let Some(boundary) = event.boundary() else { return };
        let at = boundary.at;
        let row = timestamps.partition_point(|timestamp| *timestamp < at);
        let previous = row.checked_sub(1).and_then(|row| timestamps.get(row)).copied();
        let is_at_record =
            timestamps.get(row).is_some_and(|next| next.nanos_since(at) < MIN_FIRST_STRETCH);
        let origin = match previous.or(before) {
            _ if !boundary.from_zero => CounterOrigin::Unknown,
            // Before the rows, but known only now: values after it were joined to those before.
            Some(previous) if at <= previous => CounterOrigin::Unknown,
            Some(previous) if is_at_record => CounterOrigin::Zero(previous),
            Some(_) => CounterOrigin::Zero(at),
            None if is_at_record => CounterOrigin::ZeroInRecord,
            None => CounterOrigin::ZeroAtEvent(at),
        };
        let row = row as u32;
        self.boundaries.add(event, Wall { row, origin, at, is_birth: false });
        if event.resumes() {
            self.resumed.add_process(event, row);
        }
    }

    pub(crate) fn of_chunk(
        chunk: &ChunkRows,
        selection: &Selection<'_>,
        before: Option<Timestamp>,
    ) -> Self {
        let mut metrics = selection.metrics().iter();
        let events = metrics.position(|metric| metric.desc.pmid == events_metric());
        let events = events.and_then(|place| chunk.columns(place).first());
        Self::find(&chunk.timestamps, &chunk.marks, events, before)
    }

    fn walls_of_metric(&self, metric: &SelectedMetric) -> Vec<Wall> {
        let mut walls = self.marks.clone();
        if !self.boundaries.is_empty() {
            walls.extend(self.boundaries.values_of_metric(&metric.name, metric.desc.pmid));
            walls.sort_unstable();
        }
        walls
    }
}

/// The knowledge of a metric up to some row, which the rows after it build on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RunState {
    /// Time of the first wall in it.
    pub(crate) wall: Option<Timestamp>,
    last_wall: Option<Timestamp>,
    /// Origin of an instance whose first value comes now.
    origin: CounterOrigin,
    /// The last row with values of the metric after the last wall.
    last_values: Option<Timestamp>,
    /// A process that shares the metric was logged again after it.
    is_resumed: bool,
    oldest: Option<Timestamp>,
    newest: Option<Timestamp>,
}

impl RunState {
    pub(crate) const fn origin(&self) -> CounterOrigin {
        if self.is_resumed { CounterOrigin::Unknown } else { self.origin }
    }

    pub(crate) const fn newest(&self) -> Option<Timestamp> {
        self.newest
    }

    /// Returns whether an instance was created in this span of time, after the last wall and after
    /// the last value that the instance has in it.
    pub(crate) fn has_birth(&self, birth: Timestamp, last: Option<Timestamp>) -> bool {
        let is_in_run = self.last_wall.is_none_or(|wall| wall <= birth);
        let is_later = match last {
            Some(last) => last < birth,
            // A span of time begins with the time of a record.
            None => self.oldest.is_some_and(|oldest| oldest <= birth),
        };
        is_in_run && is_later
    }

    /// Returns whether the time before could not say more of an origin after this.
    pub(crate) fn settles(&self, origin: CounterOrigin) -> bool {
        let resolved = self.resolve(origin);
        resolved != CounterOrigin::Earlier && !resolved.is_open()
    }

    /// Returns what an origin in the span of time that follows is with this one before it.
    pub(crate) fn resolve(&self, origin: CounterOrigin) -> CounterOrigin {
        match (origin, self.newest) {
            (CounterOrigin::Earlier, _) => self.origin,
            (CounterOrigin::ZeroInRecord, Some(newest)) => CounterOrigin::Zero(newest),
            (CounterOrigin::ZeroAtEvent(at), Some(newest)) if newest < at => {
                CounterOrigin::Zero(at)
            }
            (CounterOrigin::ZeroAtEvent(_), Some(_)) => CounterOrigin::Unknown,
            (CounterOrigin::ZeroInMetric, _) if self.is_resumed => CounterOrigin::Unknown,
            (CounterOrigin::ZeroInMetric, _) => match (self.last_values, self.origin) {
                (Some(last), _) => CounterOrigin::Zero(last),
                (None, CounterOrigin::Earlier) => origin,
                (None, of_run) => of_run,
            },
            _ => origin,
        }
    }

    pub(crate) fn join(&mut self, next: Self) {
        let is_parted = next.origin != CounterOrigin::Earlier;
        self.origin = self.resolve(next.origin);
        if is_parted || next.last_values.is_some() {
            self.is_resumed = next.is_resumed;
            self.last_values = next.last_values;
        } else {
            self.is_resumed |= next.is_resumed;
        }
        self.wall = self.wall.or(next.wall);
        self.last_wall = next.last_wall.or(self.last_wall);
        self.oldest = self.oldest.or(next.oldest);
        self.newest = next.newest.or(self.newest);
    }

    fn pass_values(&mut self, walls: &MetricWalls<'_>) {
        let last = walls.columns.iter().filter_map(|column| column.rows().last()).max();
        if let Some(row) = last {
            self.last_values = walls.timestamps.get(row as usize).copied();
            self.is_resumed = false;
        }
        self.oldest = self.oldest.or(walls.timestamps.first().copied());
        self.newest = walls.timestamps.last().copied();
    }

    pub(crate) fn pass(&mut self, walls: &MetricWalls<'_>) {
        if walls.all.is_empty() && walls.resumed.is_empty() {
            self.pass_values(walls);
            return;
        }
        let mut next = Self {
            oldest: walls.timestamps.first().copied(),
            newest: walls.timestamps.last().copied(),
            ..Self::default()
        };
        let last = walls.columns.iter().filter_map(|column| column.rows().last()).max();
        let wall = walls.all.last();
        if let Some(wall) = wall {
            next.origin = wall.origin;
            next.last_wall = Some(wall.at);
            next.wall = walls.all.first().map(|first| first.at);
        }
        let last = last.filter(|last| wall.is_none_or(|wall| wall.row <= *last));
        next.last_values = last.and_then(|row| walls.timestamps.get(row as usize)).copied();
        next.is_resumed = walls.resumed.iter().any(|row| last.is_none_or(|last| last < *row));
        self.join(next);
    }
}

#[derive(Debug)]
pub(crate) struct MetricWalls<'c> {
    pub(crate) all: Vec<Wall>,
    resumed: Vec<u32>,
    timestamps: &'c [Timestamp],
    columns: &'c [Column],
    presences: Option<&'c Presences>,
    run: RunState,
    /// The rows with values of the metric, ascending.
    rows: OnceCell<Vec<u32>>,
}

impl<'c> MetricWalls<'c> {
    /// Collects the walls of a metric. `presences` is given only for counters of a program.
    pub(crate) fn new(
        walls: &Walls,
        metric: &SelectedMetric,
        timestamps: &'c [Timestamp],
        columns: &'c [Column],
        presences: Option<&'c Presences>,
        run: RunState,
    ) -> Self {
        let mut resumed = Vec::new();
        if !walls.resumed.is_empty() {
            resumed.extend(walls.resumed.values_of_metric(&metric.name, metric.desc.pmid));
        }
        let rows = OnceCell::new();
        Self {
            all: walls.walls_of_metric(metric),
            resumed,
            timestamps,
            columns,
            presences,
            run,
            rows,
        }
    }

    /// Returns those of a column, in the order of rows: with the creations of its instance.
    /// `last` is the time of its last value before the rows.
    pub(crate) fn walls_of_column(
        &self,
        column: &Column,
        last: impl FnOnce() -> Option<Timestamp>,
    ) -> Cow<'_, [Wall]> {
        let births = self.births_of(column, last);
        if births.is_empty() {
            return Cow::Borrowed(&self.all);
        }
        // A run that begins in the same row is before the instance.
        let mut all = [&self.all[..], &births].concat();
        all.sort_by_key(|wall| wall.row);
        Cow::Owned(all)
    }

    /// Returns the rows with the first values of a column after its instance was created.
    pub(crate) fn births_of(
        &self,
        column: &Column,
        last: impl FnOnce() -> Option<Timestamp>,
    ) -> Vec<Wall> {
        let mut walls = Vec::new();
        let Some((presences, instance)) = self.presences.zip(column.instance()) else {
            return walls;
        };
        let mut births = presences.births(instance).peekable();
        if births.peek().is_none() {
            return walls;
        }
        let last = last();
        let oldest = self.run.oldest.or(self.timestamps.first().copied());
        let run = RunState { oldest, ..self.run };
        for at in births.filter(|birth| run.has_birth(*birth, last)) {
            let created = self.timestamps.partition_point(|timestamp| *timestamp < at) as u32;
            let Some((_, row)) = column.rows().first_from(created) else { continue };
            let is_first = walls.last().is_none_or(|wall: &Wall| wall.row < row);
            // Rows between the birth and the wall may not have been read.
            let passed = self.all.partition_point(|wall| wall.row <= created && wall.at <= at);
            let is_in_run = self.all.get(passed).is_none_or(|next| row < next.row);
            if is_first && is_in_run {
                walls.push(Wall { row, origin: self.origin_of_new(row), at, is_birth: true });
            }
        }
        walls
    }

    /// Returns when the instance of a column was created, if that precedes the span of time and no
    /// wall is between it and the first value. Is for a column without a value before the rows.
    pub(crate) fn birth_before(&self, column: &Column) -> Option<Timestamp> {
        let (presences, instance) = self.presences.zip(column.instance())?;
        let (_, row) = column.rows().first_from(0)?;
        let oldest = self.run.oldest.or(self.timestamps.first().copied())?;
        if self.run.last_wall.is_some() || self.all.first().is_some_and(|wall| wall.row <= row) {
            return None;
        }
        presences.births(instance).take_while(|birth| *birth < oldest).last()
    }

    fn origin_of_new(&self, row: u32) -> CounterOrigin {
        let passed = self.all.partition_point(|wall| wall.row <= row);
        let wall = passed.checked_sub(1).and_then(|place| self.all.get(place));
        let rows = self.rows();
        let before = rows.partition_point(|known| *known < row);
        let before = before.checked_sub(1).and_then(|place| rows.get(place)).copied();
        let before = before.filter(|before| wall.is_none_or(|wall| wall.row <= *before));
        let since = before.map(|before| before + 1).or(wall.map(|wall| wall.row));
        let since = since.unwrap_or(0);
        if self.resumed.iter().any(|resumed| (since..=row).contains(resumed)) {
            return CounterOrigin::Unknown;
        }
        let before = before.and_then(|row| self.timestamps.get(row as usize));
        match (before, wall) {
            (Some(before), _) => CounterOrigin::Zero(*before),
            (None, Some(wall)) => wall.origin,
            (None, None) => self.run.resolve(CounterOrigin::ZeroInMetric),
        }
    }

    fn rows(&self) -> &[u32] {
        self.rows.get_or_init(|| {
            let mut has_values = vec![false; self.timestamps.len()];
            for (places, first) in self.columns.iter().flat_map(|column| column.rows().stretches())
            {
                let rows = first as usize..first as usize + places.len();
                has_values.get_mut(rows).unwrap_or_default().fill(true);
            }
            let rows = has_values.iter().zip(0..).filter(|(has_values, _)| **has_values);
            rows.map(|(_, row)| row).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(millis: i64) -> Timestamp {
        Timestamp::from_nanos(i128::from(millis) * 1_000_000)
    }

    fn wall_of(kind: &str, at: i64, rows: &[i64], before: Option<i64>) -> Wall {
        let event = ProgramEvent::of_file(kind, "shop", time(at));
        let mut walls = Walls::default();
        let rows: Vec<Timestamp> = rows.iter().map(|row| time(*row)).collect();
        walls.add_event(&event, &rows, before.map(time));
        let pmid = crate::Pmid::new(70, 1, 1).unwrap();
        walls.boundaries.values_of_metric("mmv.shop.orders", pmid).next().unwrap()
    }

    #[test]
    fn counter_of_new_run_was_zero_at_its_event_or_in_record_before() {
        let rows = [1_000, 2_000, 3_000];
        let origin = |kind, at, before| wall_of(kind, at, &rows, before).origin;
        let zero = |at| CounterOrigin::Zero(time(at));
        assert_eq!(origin("appeared", 2_300, None), zero(2_300), "noticed between two records");
        assert_eq!(origin("restarted", 3_000, None), zero(2_000), "noticed in the tick");
        assert_eq!(origin("restarted", 400, Some(0)), zero(400));
        assert_eq!(origin("restarted", 1_000, Some(0)), zero(0));
        assert_eq!(origin("restarted", 400, None), CounterOrigin::ZeroAtEvent(time(400)));
        assert_eq!(origin("restarted", 1_000, None), CounterOrigin::ZeroInRecord);
        assert_eq!(origin("recovered", 2_300, None), CounterOrigin::Unknown);
        let wall = wall_of("appeared", 2_300, &rows, None);
        assert_eq!((wall.row, wall.zero()), (2, Some(time(2_300))));
    }

    #[test]
    fn boundary_known_after_a_later_record_gives_unknown_origin() {
        // The values of the record at 1 s were joined to those before.
        let wall = wall_of("restarted", 400, &[2_000], Some(1_000));
        assert_eq!((wall.row, wall.origin), (0, CounterOrigin::Unknown));
        let run = RunState { newest: Some(time(1_000)), ..RunState::default() };
        let open = CounterOrigin::ZeroAtEvent;
        assert_eq!(run.resolve(open(time(400))), CounterOrigin::Unknown);
        assert_eq!(run.resolve(open(time(1_400))), CounterOrigin::Zero(time(1_400)));
        assert_eq!(RunState::default().resolve(open(time(400))), open(time(400)));
        assert!(!run.settles(CounterOrigin::Earlier) && run.settles(open(time(400))));
    }
}
