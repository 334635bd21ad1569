//! The data that a server sends for a window.
//!
//! Numbers are little-endian, as browsers store them:
//!
//! | bytes | contents |
//! |---|---|
//! | 8 | `MMVCOLS1` |
//! | 4 | length of the header |
//! | | the header, JSON: series, each with the time of its grid's start and the width of its columns; the nearest values beyond the window of some, in the same way; marks; then blanks up to a multiple of 8 bytes |
//! | 8 each | of each series: the minimum of each of its columns, then the maxima, then the means; doubles |
//! | 1 each | of each series: the flags of its columns: 1 it has values, 2 it is joined to the one before, 4 something was observed in it |
//!
//! A series has the columns from its first with a value to its last.

use pcp_archive::envelope::{Cell, Envelope, Series};
use serde::Serialize;

use super::numbers;
use super::series::{self, EnvelopeNames, SeriesHeader, is_drawn};

/// The envelopes of a request, of one side each.
#[derive(Default)]
pub(crate) struct Tile {
    series: Vec<OnGrid>,
    beyond: Vec<NearestValue>,
    /// The side and the time.
    marks: Vec<(usize, f64)>,
    numbers: Vec<u8>,
    flags: Vec<u8>,
}

/// A series, and where its columns are.
#[derive(Serialize)]
struct OnGrid {
    #[serde(flatten)]
    place: SeriesHeader,
    /// The time of the start of column 0, in seconds from the start of the page.
    origin: f64,
    /// The seconds of a column.
    step: f64,
}

/// The value of a series that is nearest to the window.
#[derive(Serialize)]
struct NearestValue {
    #[serde(flatten)]
    place: SeriesHeader,
    /// After the window, not before it.
    after: bool,
    /// The time in its column, in seconds from the start of the page: the middle; before the
    /// window the start, or the end if it is not joined. So boundaries in the column are after
    /// the value, or before it.
    at: f64,
    value: f64,
    joined: bool,
}

#[derive(Serialize)]
struct Head<'t> {
    series: &'t [OnGrid],
    beyond: &'t [NearestValue],
    marks: &'t [(usize, f64)],
}

impl Tile {
    /// Adds what a side has. `origin` is the time of the start of its grid, in seconds from the
    /// start of the page.
    pub(crate) fn add(&mut self, envelope: &Envelope, of: &EnvelopeNames, origin: f64) {
        let (start, end) = envelope.grid.window().into_inner();
        let step = end.seconds_since(start).max(1e-9) / f64::from(envelope.grid.columns());
        self.marks.extend(of.marks(envelope));
        for series in &envelope.series {
            let Some(place) = of.place(series) else { continue };
            self.add_columns(series, &place);
            self.series.push(OnGrid { place, origin, step });
        }
    }

    /// Adds what a side has `after` the window, or before it: of each series the nearest value.
    /// `origin` is as in [`add`](Self::add).
    pub(crate) fn add_beyond(
        &mut self,
        envelope: &Envelope,
        of: &EnvelopeNames,
        origin: f64,
        after: bool,
    ) {
        let (start, end) = envelope.grid.window().into_inner();
        let step = end.seconds_since(start).max(1e-9) / f64::from(envelope.grid.columns());
        self.marks.extend(of.marks(envelope));
        for series in &envelope.series {
            let run = if after { series.runs.first() } else { series.runs.last() };
            let (Some(place), Some(run)) = (of.place(series), run) else { continue };
            let column = if after { run.columns.start } else { run.columns.end - 1 };
            let value = if after { run.cell.mean() } else { run.cell.last };
            let part = match (after, run.cell.joined) {
                (true, _) => 0.5,
                (false, true) => 0.0,
                (false, false) => 1.0,
            };
            let at = origin + (f64::from(column) + part) * step;
            if value.is_finite() {
                self.beyond.push(NearestValue { place, after, at, value, joined: run.cell.joined });
            }
        }
    }

    fn add_columns(&mut self, series: &Series, place: &SeriesHeader) {
        let mut cells: Vec<Option<&Cell>> = vec![None; place.count as usize];
        for (column, cell) in series.cells() {
            if let Some(own) = cells.get_mut((column - place.first) as usize) {
                *own = Some(cell).filter(|cell| is_drawn(cell));
            }
        }
        let each = |value: fn(&Cell) -> f64| cells.iter().map(move |cell| cell.map_or(0.0, value));
        numbers::doubles(&mut self.numbers, each(|cell| cell.minimum));
        numbers::doubles(&mut self.numbers, each(|cell| cell.maximum));
        numbers::doubles(&mut self.numbers, each(Cell::mean));
        self.flags.extend(cells.iter().map(|cell| series::flags(*cell)));
    }

    /// Returns the bytes to send.
    ///
    /// # Errors
    ///
    /// If the header is larger than 4 GB.
    pub(crate) fn encoded(self) -> std::io::Result<Vec<u8>> {
        let Self { series, beyond, mut marks, mut numbers, flags } = self;
        // Those of a side come with each part of its series.
        marks.sort_unstable_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
        marks.dedup();
        let head = Head { series: &series, beyond: &beyond, marks: &marks };
        let json = serde_json::to_vec(&head)?;
        drop((series, beyond));
        let head = numbers::head(*b"MMVCOLS1", &json)
            .ok_or_else(|| std::io::Error::other("too many series for one answer"))?;
        // In place: of very many series the numbers are most of the memory.
        numbers.splice(0..0, head);
        numbers.extend(flags);
        Ok(numbers)
    }
}
