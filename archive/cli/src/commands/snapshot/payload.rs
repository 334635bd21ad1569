//! The data of a snapshot.
//!
//! Compressed with gzip. Numbers are little-endian, as browsers store them:
//!
//! | bytes | contents |
//! |---|---|
//! | 8 | `MMVSNAP1` |
//! | 4 | length of the header |
//! | | the header, JSON: metrics, series, events, marks, heat maps; then blanks up to a multiple of 8 bytes |
//! | 16 each | the least and the greatest value of each 64 columns of each series, doubles |
//! | 4 each | of each column of each series its minimum and maximum between those of its 64 columns, from 0 to 65535: all minima of a series, then all maxima |
//! | 2 each | of each column of each series its mean between its bounds, from 0 to 255; then flags: 1 it has values, 2 it is joined to the one before, 4 something was observed in it |
//!
//! A series has the columns from its first with a value to its last.

use std::io::Write as _;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use hashbrown::HashMap;
use pcp_archive::InstanceId;
use pcp_archive::envelope::{Cell, Envelope, Series};
use serde::Serialize;

use crate::Failure;

/// The columns whose bounds are relative to the same two values.
const BLOCK: usize = 64;

const HAS_VALUES: u8 = 1;
const IS_JOINED: u8 = 2;
const IS_OBSERVED: u8 = 4;

/// What the page knows apart from the values.
#[derive(Debug, Serialize)]
pub(super) struct Header {
    pub(super) host: String,
    /// Seconds since 1970, as all times.
    pub(super) start: f64,
    pub(super) end: f64,
    /// From each time on, the offset of the clock and its name.
    pub(super) zone: Vec<(f64, i64, String)>,
    pub(super) metrics: Vec<Metric>,
    pub(super) events: Vec<Event>,
    pub(super) heats: Vec<Heat>,
}

#[derive(Debug, Serialize)]
pub(super) struct Metric {
    pub(super) name: String,
    pub(super) help: String,
    pub(super) units: String,
    /// Of a counter.
    pub(super) rate_units: Option<String>,
    pub(super) semantics: String,
    #[serde(skip)]
    pub(super) names: HashMap<InstanceId, Arc<str>>,
}

/// One of the agent's events.
#[derive(Debug, Serialize)]
pub(super) struct Event {
    pub(super) time: f64,
    pub(super) kind: String,
    pub(super) file: Option<String>,
    pub(super) pid: Option<u32>,
    pub(super) reason: Option<String>,
}

/// A histogram over time.
#[derive(Debug, Serialize)]
pub(super) struct Heat {
    pub(super) name: String,
    pub(super) instance: Option<String>,
    pub(super) units: String,
    /// The seconds of a column; the first one begins at the start.
    pub(super) step: f64,
    /// The bounds of each bucket, ascending.
    pub(super) buckets: Vec<[f64; 2]>,
    /// Column, bucket, how many values.
    pub(super) cells: Vec<(usize, usize, f64)>,
}

/// The header, and where a series has its columns.
#[derive(Serialize)]
struct Whole<'p> {
    #[serde(flatten)]
    header: &'p Header,
    columns: u32,
    marks: Vec<f64>,
    series: Vec<Place<'p>>,
}

#[derive(Serialize)]
struct Place<'p> {
    metric: usize,
    instance: Option<&'p str>,
    rate: bool,
    /// The first column, and how many.
    first: u32,
    count: u32,
}

/// All that a page shows.
#[derive(Debug)]
pub(super) struct Payload {
    header: Header,
    rates: Envelope,
    raw: Envelope,
}

/// The numbers of all series.
#[derive(Default)]
struct Numbers {
    scales: Vec<u8>,
    bounds: Vec<u8>,
    bytes: Vec<u8>,
}

impl Payload {
    pub(super) const fn new(header: Header, rates: Envelope, raw: Envelope) -> Self {
        Self { header, rates, raw }
    }

    /// Whether there is nothing to draw.
    pub(super) const fn is_empty(&self) -> bool {
        self.rates.series.is_empty() && self.raw.series.is_empty() && self.header.heats.is_empty()
    }

    pub(super) const fn columns(&self) -> u32 {
        self.rates.grid.columns()
    }

    /// Makes one column of every two; false if that is not possible.
    pub(super) fn halve(&mut self) -> bool {
        let (Some(rates), Some(raw)) = (self.rates.halved(), self.raw.halved()) else {
            return false;
        };
        (self.rates, self.raw) = (rates, raw);
        true
    }

    pub(super) fn compressed(&self) -> Result<Vec<u8>, Failure> {
        let failed = |error: std::io::Error| Failure::Output(error);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        for part in self.encoded()? {
            encoder.write_all(&part).map_err(failed)?;
        }
        encoder.finish().map_err(failed)
    }

    #[expect(clippy::little_endian_bytes, reason = "browsers store numbers in this order")]
    fn encoded(&self) -> Result<[Vec<u8>; 4], Failure> {
        let mut numbers = Numbers::default();
        let mut series = Vec::new();
        for one in self.rates.series.iter().chain(&self.raw.series) {
            let Some(metric) = self.header.metrics.get(one.metric) else { continue };
            let (Some(first), Some(last)) = (one.runs.first(), one.runs.last()) else { continue };
            let (first, count) = (first.columns.start, last.columns.end - first.columns.start);
            numbers.add(one, first, count as usize);
            let instance = one.instance.and_then(|id| metric.names.get(&id)).map(|name| &**name);
            series.push(Place { metric: one.metric, instance, rate: one.is_rate, first, count });
        }
        let marks = self.rates.marks.iter().map(|mark| super::seconds(*mark)).collect();
        let whole = Whole { header: &self.header, columns: self.columns(), marks, series };
        let json = serde_json::to_vec(&whole)
            .map_err(|error| Failure::Output(std::io::Error::other(error)))?;
        let padded = (12 + json.len()).next_multiple_of(8) - 12;
        let length = u32::try_from(padded)
            .map_err(|_| Failure::Usage("too many metrics for one file".to_owned()))?;
        let mut head = b"MMVSNAP1".to_vec();
        head.extend(length.to_le_bytes());
        head.extend(json);
        head.resize(12 + padded, b' ');
        Ok([head, numbers.scales, numbers.bounds, numbers.bytes])
    }
}

impl Numbers {
    /// Adds the columns of a series.
    #[expect(clippy::little_endian_bytes, reason = "browsers store numbers in this order")]
    fn add(&mut self, series: &Series, first: u32, count: usize) {
        let mut cells: Vec<Option<&Cell>> = vec![None; count];
        for (column, cell) in series.cells() {
            // Infinity is on no axis.
            let is_finite = cell.minimum.is_finite() && cell.maximum.is_finite();
            if let Some(place) = cells.get_mut((column - first) as usize) {
                *place = Some(cell).filter(|_| is_finite);
            }
        }
        let (mut minima, mut maxima) = (Vec::new(), Vec::new());
        let (mut means, mut flags) = (Vec::new(), Vec::new());
        for block in cells.chunks(BLOCK) {
            let known = || block.iter().flatten();
            let least = known().map(|cell| cell.minimum).fold(f64::INFINITY, f64::min);
            let greatest = known().map(|cell| cell.maximum).fold(f64::NEG_INFINITY, f64::max);
            let bounds = if least <= greatest { [least, greatest] } else { [0.0; 2] };
            self.scales.extend(bounds.iter().flat_map(|bound| bound.to_le_bytes()));
            for cell in block {
                let Some(cell) = cell else {
                    minima.extend([0; 2]);
                    maxima.extend([0; 2]);
                    means.push(0);
                    flags.push(0);
                    continue;
                };
                let scaled = |value| (part(value, bounds) * 65_535.0).round() as u16;
                minima.extend(scaled(cell.minimum).to_le_bytes());
                maxima.extend(scaled(cell.maximum).to_le_bytes());
                let mean = part(cell.mean(), [cell.minimum, cell.maximum]);
                means.push((mean * 255.0).round() as u8);
                let is_observed = if cell.count > 0 { IS_OBSERVED } else { 0 };
                let is_joined = if cell.joined { IS_JOINED } else { 0 };
                flags.push(HAS_VALUES | is_joined | is_observed);
            }
        }
        self.bounds.append(&mut minima);
        self.bounds.append(&mut maxima);
        self.bytes.append(&mut means);
        self.bytes.append(&mut flags);
    }
}

/// Where a value is between two others, from 0 to 1.
fn part(value: f64, [least, greatest]: [f64; 2]) -> f64 {
    // Halves, as the difference of the largest doubles is none.
    let (value, least, greatest) = (value / 2.0, least / 2.0, greatest / 2.0);
    if greatest > least { ((value - least) / (greatest - least)).clamp(0.0, 1.0) } else { 0.0 }
}
