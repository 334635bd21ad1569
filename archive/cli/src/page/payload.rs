//! The data of a snapshot.
//!
//! Compressed with gzip. Numbers are little-endian, as browsers store them:
//!
//! | bytes | contents |
//! |---|---|
//! | 8 | `MMVSNAP1` |
//! | 4 | length of the header |
//! | | the header, JSON: archives, metrics, series, events, marks, heat maps, movements; then blanks up to a multiple of 8 bytes |
//! | 16 each | the least and the greatest value of each 64 columns of each series, doubles |
//! | 4 each | of each column of each series its minimum and maximum between those of its 64 columns, from 0 to 65535: all minima of a series, then all maxima |
//! | 2 each | of each column of each series its mean between its bounds, from 0 to 255; then flags: 1 it has values, 2 it is joined to the one before, 4 something was observed in it |
//!
//! A series has the columns from its first with a value to its last.

use std::io;

use pcp_archive::envelope::{Cell, Envelope, Series};
use serde::Serialize;

use super::gzip::{self, GzipPart};
use super::header::{Header, PageEvent};
use super::heat::Heat;
use super::movement::PageMovements;
use super::numbers;
use super::series::{self, EnvelopeNames, SeriesHeader, is_drawn};
use crate::Failure;

/// The columns whose bounds are relative to the same two values.
const BLOCK: usize = 64;

/// The header, and where a series has its columns.
#[derive(Serialize)]
struct PayloadHeader<'p> {
    #[serde(flatten)]
    header: &'p Header,
    events: &'p [PageEvent],
    heats: &'p [Heat],
    movements: &'p PageMovements,
    columns: u32,
    /// The side and the time.
    marks: &'p [(usize, f64)],
    series: &'p [SeriesHeader],
}

/// The contents of a page. Envelopes are added one at a time, and kept compressed.
#[derive(Debug)]
pub(crate) struct Payload<'f> {
    frame: &'f Frame,
    columns: u32,
    /// The side and the time.
    marks: Vec<(usize, f64)>,
    series: Vec<SeriesHeader>,
    numbers: Numbers,
}

/// The data of a page that is not in columns.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) header: Header,
    pub(crate) events: Vec<PageEvent>,
    pub(crate) heats: Vec<Heat>,
    pub(crate) movements: PageMovements,
}

/// The numbers of all series, in 6 bytes per column before they are compressed.
#[derive(Debug, Default)]
struct Numbers {
    scales: GzipPart,
    bounds: GzipPart,
    bytes: GzipPart,
}

impl<'f> Payload<'f> {
    /// Creates a payload whose series have this many columns.
    pub(crate) fn new(frame: &'f Frame, columns: u32) -> Self {
        let marks = Vec::new();
        let series = Vec::new();
        let numbers = Numbers::default();
        Self { frame, columns, marks, series, numbers }
    }

    pub(crate) fn add(&mut self, envelope: &Envelope, of: &EnvelopeNames) -> Result<(), Failure> {
        for series in &envelope.series {
            let Some(place) = of.place(series) else { continue };
            let added = self.numbers.add(series, place.first, place.count as usize);
            added.map_err(Failure::Output)?;
            self.series.push(place);
        }
        Ok(())
    }

    /// Adds the marks of an envelope. All envelopes of an archive have the same.
    pub(crate) fn add_marks(&mut self, envelope: &Envelope, of: &EnvelopeNames) {
        self.marks.extend(of.marks(envelope));
    }

    /// Returns whether there is nothing to draw.
    pub(crate) fn is_empty(&self) -> bool {
        self.series.is_empty() && self.frame.heats.is_empty()
    }

    /// Returns the whole payload, compressed.
    pub(crate) fn compressed(self) -> Result<Vec<u8>, Failure> {
        let Self { frame, columns, marks, series, numbers } = self;
        let Frame { header, events, heats, movements } = frame;
        let marks = &marks;
        let series = &series;
        let whole = PayloadHeader { header, events, heats, movements, columns, marks, series };
        let json =
            serde_json::to_vec(&whole).map_err(|error| Failure::Output(io::Error::other(error)))?;
        let head = numbers::head(*b"MMVSNAP1", &json)
            .ok_or_else(|| Failure::Usage("too many metrics for one file".to_owned()))?;
        let mut first = GzipPart::default();
        let Numbers { scales, bounds, bytes } = numbers;
        let stream = first.add(&head).and_then(|()| gzip::stream([first, scales, bounds, bytes]));
        stream.map_err(Failure::Output)
    }
}

impl Numbers {
    fn add(&mut self, series: &Series, first: u32, count: usize) -> io::Result<()> {
        let mut cells: Vec<Option<&Cell>> = vec![None; count];
        for (column, cell) in series.cells() {
            if let Some(place) = cells.get_mut((column - first) as usize) {
                *place = Some(cell).filter(|cell| is_drawn(cell));
            }
        }
        let mut scales = Vec::new();
        let mut minima = Vec::new();
        let mut maxima = Vec::new();
        let mut means = Vec::new();
        let mut flags = Vec::new();
        for block in cells.chunks(BLOCK) {
            let known = || block.iter().flatten();
            let least = known().map(|cell| cell.minimum).fold(f64::INFINITY, f64::min);
            let greatest = known().map(|cell| cell.maximum).fold(f64::NEG_INFINITY, f64::max);
            let bounds = if least <= greatest { [least, greatest] } else { [0.0; 2] };
            numbers::doubles(&mut scales, bounds);
            for cell in block {
                let level = |value| (part(value, bounds) * 65_535.0).round() as u16;
                minima.push(cell.map_or(0, |cell| level(cell.minimum)));
                maxima.push(cell.map_or(0, |cell| level(cell.maximum)));
                means.push(cell.map_or(0, |cell| {
                    let mean = part(cell.mean(), [cell.minimum, cell.maximum]);
                    (mean * 255.0).round() as u8
                }));
                flags.push(series::flags(*cell));
            }
        }
        let mut bounds = Vec::new();
        numbers::shorts(&mut bounds, minima);
        numbers::shorts(&mut bounds, maxima);
        means.append(&mut flags);
        self.scales.add(&scales)?;
        self.bounds.add(&bounds)?;
        self.bytes.add(&means)
    }
}

/// Returns the position of a value between two others, from 0 to 1.
fn part(value: f64, [least, greatest]: [f64; 2]) -> f64 {
    // Halves, as the difference of the largest doubles is none.
    let value = value / 2.0;
    let least = least / 2.0;
    let greatest = greatest / 2.0;
    if greatest > least { ((value - least) / (greatest - least)).clamp(0.0, 1.0) } else { 0.0 }
}
