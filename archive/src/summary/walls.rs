//! What values do not continue over: marks, and boundaries of programs.

use hashbrown::HashMap;

use crate::programs::{ProgramEvent, events_metric};
use crate::scan::{Chunk, Column, Selection};
use crate::{Timestamp, Value};

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
    /// By the names of files.
    boundaries: HashMap<String, Vec<Wall>>,
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
        for (file, at) in values.flat_map(|(_, value)| boundaries(value)) {
            let row = timestamps.partition_point(|timestamp| *timestamp < at) as u32;
            self.boundaries.entry(file).or_default().push(Wall { row, at });
        }
    }

    /// The chunk is read.
    pub(crate) fn pass(&mut self) {
        self.mark = self.mark.or(self.marks.first().map(|mark| mark.at));
    }

    /// Those for a metric, in the order of rows.
    pub(crate) fn of(&self, metric: &str) -> Vec<Wall> {
        let mut walls = self.marks.clone();
        if let Some(rest) = metric.strip_prefix("mmv.").filter(|_| !self.boundaries.is_empty()) {
            let files = rest.match_indices('.').filter_map(|(dot, _)| rest.get(..dot));
            walls.extend(files.filter_map(|file| self.boundaries.get(file)).flatten());
            walls.sort_unstable();
        }
        walls
    }
}

/// The boundaries in a value of the events, with the names of their files.
fn boundaries(value: Value<'_>) -> Vec<(String, Timestamp)> {
    let events = ProgramEvent::all(value).into_iter();
    let boundary = |event: ProgramEvent<'_>| Some((event.file?.to_owned(), event.boundary()?.at));
    events.filter_map(boundary).collect()
}

/// The earlier one of two times that are known.
pub(crate) fn earliest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}
