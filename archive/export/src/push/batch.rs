//! The samples between two positions, and how they are cut into requests.
//!
//! The order depends only on the samples: a batch that is read again is cut into the same requests.

use super::Protocol;
#[cfg(feature = "otlp")]
use super::otlp;
use super::remote_write;
use super::series::{Point, SeriesTable};
use crate::position::Position;

/// The samples between two positions of an archive.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// In the order of the archive until it is [ordered](Self::order).
    pub(super) points: Vec<Point>,
    /// The position after its last record.
    pub(super) end: Option<Position>,
    pub(super) ends_archive: bool,
}

impl Batch {
    pub(super) fn clear(&mut self) {
        self.points.clear();
        self.end = None;
        self.ends_archive = false;
    }

    /// Adds the samples of a record, whose end is `position`.
    pub(super) fn add(&mut self, points: &[Point], position: &Position) {
        self.points.extend_from_slice(points);
        match &mut self.end {
            Some(end) if end.archive == position.archive => {
                end.volume = position.volume;
                end.offset = position.offset;
                end.time = position.time;
            }
            end => *end = Some(position.clone()),
        }
    }

    /// Sorts the samples into the order of requests: by series for remote write, by time for OTLP.
    pub(super) fn order(&mut self, protocol: Protocol, table: &SeriesTable) {
        match protocol {
            Protocol::RemoteWrite1 | Protocol::RemoteWrite2 => self.order_by_series(table.limit()),
            #[cfg(feature = "otlp")]
            Protocol::Otlp => self.points.sort_by_key(|point| otlp::key(point, table)),
        }
    }

    /// Sorts by series in the order of their first samples, since numbers of series depend on
    /// earlier batches.
    fn order_by_series(&mut self, numbers: usize) {
        const NONE: u32 = u32::MAX;
        let mut places = vec![NONE; numbers];
        let mut ends: Vec<usize> = Vec::new();
        for point in &self.points {
            let Some(place) = places.get_mut(point.series as usize) else { continue };
            if *place == NONE {
                *place = u32::try_from(ends.len()).unwrap_or(NONE);
                ends.push(0);
            }
            if let Some(count) = ends.get_mut(*place as usize) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += std::mem::replace(end, sum);
        }
        let mut ordered = self.points.clone();
        for point in &self.points {
            let place = places.get(point.series as usize);
            let next = place.and_then(|place| ends.get_mut(*place as usize));
            if let Some((slot, next)) = next.and_then(|next| Some((ordered.get_mut(*next)?, next)))
            {
                slot.clone_from(point);
                *next += 1;
            }
        }
        self.points = ordered;
    }
}

/// Returns where to cut ordered samples, close to `near`: between two series, or for OTLP between
/// two points. Samples of a single series of remote write are cut exactly there.
pub(super) fn cut(
    points: &[Point],
    near: usize,
    protocol: Protocol,
    table: &SeriesTable,
) -> Option<usize> {
    let can_cut = |at: &usize| {
        let before = at.checked_sub(1).and_then(|before| points.get(before));
        let Some((one, other)) = before.zip(points.get(*at)) else { return false };
        match protocol {
            Protocol::RemoteWrite1 | Protocol::RemoteWrite2 => one.series != other.series,
            #[cfg(feature = "otlp")]
            Protocol::Otlp => otlp::key(one, table) != otlp::key(other, table),
        }
    };
    #[cfg(not(feature = "otlp"))]
    let _ = table;
    let before = (1..=near.min(points.len())).rev().find(can_cut);
    let between = before.or_else(|| (near + 1..points.len()).find(can_cut));
    let is_one_series =
        points.first().map(|point| point.series) == points.last().map(|point| point.series);
    between.or_else(|| (is_one_series && near > 0 && near < points.len()).then_some(near))
}

/// Encodes the body of a request.
pub(super) fn encode(points: &[Point], protocol: Protocol, table: &SeriesTable) -> Vec<u8> {
    let mut message = Vec::new();
    match protocol {
        Protocol::RemoteWrite1 => remote_write::encode_1(points, table, &mut message),
        Protocol::RemoteWrite2 => remote_write::encode_2(points, table, &mut message),
        #[cfg(feature = "otlp")]
        Protocol::Otlp => return otlp::encode(points, table),
    }
    // Fails only for messages of 4 GB.
    snap::raw::Encoder::new().compress_vec(&message).unwrap_or_default()
}
