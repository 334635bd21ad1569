//! What values do not continue over: marks, and boundaries of programs.

use crate::programs::{ByProgram, ProgramEvent, events_metric};
use crate::scan::{Chunk, Column, Selection};
use crate::{Pmid, Timestamp};

/// A mark or a boundary: the first row of a chunk after it, and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wall {
    pub(crate) row: u32,
    pub(crate) at: Timestamp,
}

/// Those of a chunk.
#[derive(Debug, Default)]
pub(crate) struct Walls {
    /// The place of the events in the selection.
    events: Option<usize>,
    /// The first mark before the chunk.
    pub(crate) mark: Option<Timestamp>,
    marks: Vec<Wall>,
    boundaries: ByProgram<Wall>,
}

impl Walls {
    pub(crate) fn new(selection: &Selection<'_>) -> Self {
        let mut metrics = selection.metrics().iter();
        let events = metrics.position(|metric| metric.desc.pmid == events_metric());
        Self { events, ..Self::default() }
    }

    /// Takes those of a chunk instead.
    pub(crate) fn set(&mut self, chunk: &Chunk) {
        let timestamps = chunk.timestamps();
        let mark = |row: &u32| Some(Wall { row: *row, at: *timestamps.get(*row as usize)? });
        self.marks.clear();
        self.marks.extend(chunk.marks().iter().filter_map(mark));
        self.boundaries.clear();
        let columns = self.events.map(|place| chunk.columns(place));
        let values = columns.into_iter().flatten().flat_map(Column::iter);
        for event in values.flat_map(|(_, value)| ProgramEvent::all(value)) {
            let Some(boundary) = event.boundary() else { continue };
            let at = boundary.at;
            let row = timestamps.partition_point(|timestamp| *timestamp < at) as u32;
            self.boundaries.add(&event, Wall { row, at });
        }
    }

    /// The chunk is read.
    pub(crate) fn pass(&mut self) {
        self.mark = self.mark.or(self.marks.first().map(|mark| mark.at));
    }

    /// Those for a metric, in the order of rows.
    pub(crate) fn of(&self, metric: &str, pmid: Pmid) -> Vec<Wall> {
        let mut walls = self.marks.clone();
        let marks = walls.len();
        walls.extend(self.boundaries.of(metric, pmid));
        if walls.len() > marks {
            walls.sort_unstable();
        }
        walls
    }
}

/// The earlier one of two times that are known.
pub(crate) fn earliest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}
