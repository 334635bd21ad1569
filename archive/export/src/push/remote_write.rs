//! The bytes of requests of Prometheus remote write, 1.0 and 2.0.
//!
//! Source: the specifications "Prometheus Remote-Write 1.0" and "2.0". A series of 1.0 begins
//! with its labels, which are encoded once for all requests, followed by its samples.

use hashbrown::HashMap;
use prost::Message;
use prost::encoding::{
    WireType, double, encode_key, encode_varint, encoded_len_varint, int64, message,
};

use super::native::Histogram;
use super::series::{Point, Series, SeriesTable};
use crate::mapping::Kind;
use crate::samples::FamilyPart;

/// Messages of the package `io.prometheus.write.v2`.
mod v2 {
    use prost::Message;

    use crate::push::native::Histogram;

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Request {
        #[prost(string, repeated, tag = "4")]
        pub(super) symbols: Vec<String>,
        #[prost(message, repeated, tag = "5")]
        pub(super) series: Vec<Series>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Series {
        /// Alternating names and values, as indexes of `symbols`.
        #[prost(uint32, repeated, tag = "1")]
        pub(super) labels: Vec<u32>,
        #[prost(message, repeated, tag = "2")]
        pub(super) samples: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub(super) histograms: Vec<Histogram>,
        #[prost(message, optional, tag = "5")]
        pub(super) metadata: Option<Metadata>,
    }

    #[derive(Clone, Copy, PartialEq, Message)]
    pub(super) struct Sample {
        #[prost(double, tag = "1")]
        pub(super) value: f64,
        #[prost(int64, tag = "2")]
        pub(super) milliseconds: i64,
        /// Milliseconds since 1970 UTC; 0 if unknown. Since 2.0-rc.4; earlier receivers skip it.
        #[prost(int64, tag = "3")]
        pub(super) start: i64,
    }

    #[derive(Clone, Copy, PartialEq, Message)]
    pub(super) struct Metadata {
        /// 1 counter, 2 gauge, 3 histogram.
        #[prost(int32, tag = "1")]
        pub(super) kind: i32,
        #[prost(uint32, tag = "4")]
        pub(super) unit: u32,
    }
}

/// The number of the field with the series of a request of 1.0.
const REQUEST_SERIES: u32 = 1;
/// The number of the field with the samples of a series.
const SERIES_SAMPLES: u32 = 2;
/// The number of the field with the native histograms of a series.
const SERIES_HISTOGRAMS: u32 = 4;

/// Encodes an uncompressed request of 1.0 with samples that are sorted by series.
pub(super) fn encode_1(points: &[Point], table: &SeriesTable, out: &mut Vec<u8>) {
    for run in points.chunk_by(|one, other| one.series == other.series) {
        let series = run.first().and_then(|point| table.get(point.series));
        let Some(series) = series else { continue };
        if series.is_native() {
            encode_native_1(run, series, out);
            continue;
        }
        let samples: usize = run.iter().map(|point| framed(sample_len(point))).sum();
        encode_key(REQUEST_SERIES, WireType::LengthDelimited, out);
        encode_varint((series.encoded.len() + samples) as u64, out);
        out.extend_from_slice(&series.encoded);
        for point in run {
            encode_key(SERIES_SAMPLES, WireType::LengthDelimited, out);
            encode_varint(sample_len(point) as u64, out);
            double::encode(1, &point.value, out);
            int64::encode(2, &point.milliseconds, out);
        }
    }
}

fn encode_native_1(points: &[Point], series: &Series, out: &mut Vec<u8>) {
    let mut message = series.encoded.to_vec();
    for point in points {
        message::encode(SERIES_HISTOGRAMS, &Histogram::new(point, series.of.part), &mut message);
    }
    encode_key(REQUEST_SERIES, WireType::LengthDelimited, out);
    encode_varint(message.len() as u64, out);
    out.append(&mut message);
}

fn sample_len(point: &Point) -> usize {
    double::encoded_len(1, &point.value) + int64::encoded_len(2, &point.milliseconds)
}

/// Returns the size of a field with a key of one byte and its length in front.
fn framed(length: usize) -> usize {
    1 + encoded_len_varint(length as u64) + length
}

/// Encodes an uncompressed request of 2.0 with samples that are sorted by series.
pub(super) fn encode_2(points: &[Point], table: &SeriesTable, out: &mut Vec<u8>) {
    let mut symbols = Symbols::default();
    symbols.place("");
    let mut all = Vec::new();
    for run in points.chunk_by(|one, other| one.series == other.series) {
        let series = run.first().and_then(|point| table.get(point.series));
        let Some(series) = series else { continue };
        let mut samples = Vec::new();
        let mut histograms = Vec::new();
        for point in run {
            if series.is_native() {
                histograms.push(Histogram::new(point, series.of.part));
                continue;
            }
            let Point { value, milliseconds, start, .. } = *point;
            samples.push(v2::Sample { value, milliseconds, start });
        }
        let labels = series.labels().flat_map(|(name, value)| [name, value]);
        all.push(v2::Series {
            labels: labels.map(|text| symbols.place(text)).collect(),
            samples,
            histograms,
            metadata: Some(v2::Metadata {
                kind: kind_2(series),
                unit: symbols.place(&series.unit),
            }),
        });
    }
    out.extend(v2::Request { symbols: symbols.all, series: all }.encode_to_vec());
}

const fn kind_2(series: &Series) -> i32 {
    match (series.kind, series.of.part) {
        (Kind::Gauge, _) => 2,
        (Kind::Counter, _) | (_, FamilyPart::Value) => 1,
        (Kind::Histogram, _) => 3,
    }
}

/// The table of texts of a request, each once. The first must be empty.
#[derive(Default)]
struct Symbols {
    all: Vec<String>,
    places: HashMap<String, u32>,
}

impl Symbols {
    fn place(&mut self, text: &str) -> u32 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }
}

#[cfg(test)]
mod tests;
