//! Prometheus' remote read: the samples of series in a span of time.
//!
//! In: a [`ReadRequest`], compressed by snappy. Out: one message with all samples, or, if the
//! request accepts it, a frame with the chunks of each series:
//!
//! ```text
//! uvarint: length of the message | CRC-32C of it, 4 bytes big-endian | ChunkedReadResponse
//! ```

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message as _;

use super::matcher::Matchers;
use super::messages::{
    Chunk, ChunkedReadResponse, ChunkedSeries, Label, QueryResult, ReadRequest, ReadResponse,
    STREAMED_CHUNKS, Sample, TimeSeries, XOR,
};
use super::select::{SelectError, SelectedSeries, Span, select};
use super::stream::{Disconnected, Sink};
use super::xor;
use crate::selection::MetricSelection;
use crate::tree::Host;

const MAX_REQUEST: usize = 1 << 20;
/// Limit on the queries of a request, of which Prometheus sends one.
const MAX_QUERIES: usize = 100;

/// An error that is answered with a status of HTTP.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// 400: the request is invalid.
    #[error("{0}")]
    Request(String),
    /// 503: the archives cannot be listed, or there are none.
    #[error("{0}")]
    Archives(String),
    /// 413: more samples than are permitted.
    #[error("more than {0} samples: ask for less time or fewer series, or raise --max-samples")]
    TooMany(usize),
    /// The client has disconnected.
    #[error("the client has disconnected")]
    Over,
}

#[derive(Debug)]
pub(super) struct ReadQuery {
    queries: Vec<(Arc<Matchers>, Span)>,
    /// Whether the answer is in chunks.
    pub(super) is_chunked: bool,
}

impl ReadQuery {
    /// Parses the body of a request.
    ///
    /// # Errors
    ///
    /// [`ReadError::Request`].
    pub(super) fn parse(body: &[u8]) -> Result<Self, ReadError> {
        Self::parse_message(body).map_err(ReadError::Request)
    }

    fn parse_message(body: &[u8]) -> Result<Self, String> {
        let len = snap::raw::decompress_len(body).map_err(|error| error.to_string())?;
        if len > MAX_REQUEST {
            return Err(format!("the request has {len} bytes; the limit is {MAX_REQUEST}"));
        }
        let message =
            snap::raw::Decoder::new().decompress_vec(body).map_err(|error| error.to_string())?;
        let request = ReadRequest::decode(&*message).map_err(|error| error.to_string())?;
        if request.queries.len() > MAX_QUERIES {
            let found = request.queries.len();
            return Err(format!("the request has {found} queries; the limit is {MAX_QUERIES}"));
        }
        let mut queries = Vec::new();
        for query in &request.queries {
            let span = Span { start: query.start_timestamp_ms, end: query.end_timestamp_ms };
            queries.push((Arc::new(Matchers::new(&query.matchers)?), span));
        }
        // The first accepted type is the preferred one.
        let is_chunked = request.accepted_response_types.first() == Some(&STREAMED_CHUNKS);
        Ok(Self { queries, is_chunked })
    }

    /// Reads the series of each query.
    ///
    /// # Errors
    ///
    /// [`ReadError::TooMany`] if all of them have more than `most` samples, [`ReadError::Over`]
    /// once `is_over` is set.
    pub(super) fn select(
        &self,
        hosts: &[Host],
        selection: &MetricSelection,
        most: usize,
        is_over: &AtomicBool,
    ) -> Result<Vec<Vec<SelectedSeries>>, ReadError> {
        let mut results = Vec::new();
        let mut left = most;
        for (matchers, span) in &self.queries {
            let selected = select(hosts, selection, matchers, *span, left, is_over);
            let selected = selected.map_err(|error| match error {
                SelectError::TooMany => ReadError::TooMany(most),
                SelectError::Over => ReadError::Over,
            })?;
            left -= selected.iter().map(|series| series.samples.len()).sum::<usize>().min(left);
            results.push(selected);
        }
        Ok(results)
    }
}

/// Encodes all samples as one compressed message.
///
/// # Errors
///
/// [`ReadError::Request`] if it is larger than a compressed block can be.
pub(super) fn samples(results: Vec<Vec<SelectedSeries>>) -> Result<Bytes, ReadError> {
    let mut response = ReadResponse::default();
    for all in results {
        let mut result = QueryResult::default();
        for selected in all {
            let labels = labels(&selected);
            let samples = selected.samples.into_iter();
            let samples = samples.map(|(timestamp, value)| Sample { value, timestamp }).collect();
            result.timeseries.push(TimeSeries { labels, samples });
        }
        response.results.push(result);
    }
    let message = response.encode_to_vec();
    drop(response);
    let compressed = snap::raw::Encoder::new().compress_vec(&message);
    compressed.map(Bytes::from).map_err(|error| ReadError::Request(error.to_string()))
}

/// Sends a frame for each series.
///
/// # Errors
///
/// [`Disconnected`] if the client has disconnected.
pub(super) fn send_chunks(
    results: Vec<Vec<SelectedSeries>>,
    sink: &Sink,
) -> Result<(), Disconnected> {
    for (query, all) in (0..).zip(results) {
        for selected in all {
            let frame = frame(&ChunkedReadResponse {
                chunked_series: vec![ChunkedSeries {
                    labels: labels(&selected),
                    chunks: selected.samples.chunks(xor::SAMPLES).map(chunk).collect(),
                }],
                query_index: query,
            });
            sink.send(frame)?;
        }
    }
    Ok(())
}

fn labels(selected: &SelectedSeries) -> Vec<Label> {
    let mut labels = Vec::new();
    for (name, value) in selected.all_labels() {
        labels.push(Label { name: name.into(), value: value.into() });
    }
    labels
}

fn chunk(samples: &[(i64, f64)]) -> Chunk {
    Chunk {
        min_time_ms: samples.first().map_or(0, |(time, _)| *time),
        max_time_ms: samples.last().map_or(0, |(time, _)| *time),
        r#type: XOR,
        data: xor::encode(samples),
    }
}

fn frame(response: &ChunkedReadResponse) -> Bytes {
    let message = response.encode_to_vec();
    let mut frame = BytesMut::with_capacity(message.len() + 16);
    prost::encoding::encode_varint(message.len() as u64, &mut frame);
    frame.put_u32(crc32c::crc32c(&message));
    frame.extend_from_slice(&message);
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::serve::messages::{LabelMatcher, Query};
    use crate::test_support::begin;
    use crate::tree;

    fn body(request: &ReadRequest) -> Vec<u8> {
        snap::raw::Encoder::new().compress_vec(&request.encode_to_vec()).unwrap()
    }

    fn request(name: &str, seconds: std::ops::RangeInclusive<i64>) -> ReadRequest {
        let matcher =
            LabelMatcher { r#type: 0, name: "__name__".to_owned(), value: name.to_owned() };
        let query = Query {
            start_timestamp_ms: (1_700_000_000 + seconds.start()) * 1_000,
            end_timestamp_ms: (1_700_000_000 + seconds.end()) * 1_000,
            matchers: vec![matcher],
        };
        ReadRequest { queries: vec![query], accepted_response_types: Vec::new() }
    }

    fn tree_of_two() -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        for host in ["b", "a"] {
            begin(&tree.path().join(host).join("x"))
                .metric("mmv.shop.orders", "u64 counter count")
                .metric("mmv.shop.other", "u64 counter count")
                .rows((0..10).map(|n| (n, [("mmv.shop.orders", n), ("mmv.shop.other", 7)])))
                .finish();
        }
        tree
    }

    fn answer(request: &ReadRequest, most: usize) -> Result<ReadResponse, ReadError> {
        let tree = tree_of_two();
        let hosts = tree::hosts(&[tree.path().join("a")], None).unwrap();
        let selected = ReadQuery::parse(&body(request))?.select(
            &hosts,
            &MetricSelection::default(),
            most,
            &AtomicBool::new(false),
        )?;
        let message = snap::raw::Decoder::new().decompress_vec(&samples(selected)?).unwrap();
        Ok(ReadResponse::decode(&*message).unwrap())
    }

    #[test]
    fn samples_of_a_span_are_answered() {
        let response = answer(&request("mmv_shop_orders_total", 3..=5), 100).unwrap();
        let [result] = response.results.as_slice() else { panic!("{response:?}") };
        let [series] = result.timeseries.as_slice() else { panic!("{result:?}") };
        let labels: Vec<_> = series.labels.iter().map(|one| (&*one.name, &*one.value)).collect();
        assert_eq!(labels, [("__name__", "mmv_shop_orders_total"), ("hostname", "web1")]);
        let values: Vec<_> = series.samples.iter().map(|one| (one.timestamp, one.value)).collect();
        let expected =
            [3, 4, 5].map(|second: i64| (1_700_000_000_000 + second * 1_000, second as f64));
        assert_eq!(values, expected);
    }

    #[test]
    fn more_samples_than_permitted_are_an_error() {
        assert!(answer(&request("mmv_shop_orders_total", 0..=9), 10).is_ok());
        let error = answer(&request("mmv_shop_orders_total", 0..=9), 9).unwrap_err();
        assert!(matches!(error, ReadError::TooMany(9)), "{error}");
    }

    #[test]
    fn reading_ends_when_nobody_waits_for_the_answer() {
        let tree = tree_of_two();
        let hosts = tree::hosts(&[tree.path().to_owned()], None).unwrap();
        let read = ReadQuery::parse(&body(&request("mmv_shop_orders_total", 0..=9))).unwrap();
        let error = read
            .select(&hosts, &MetricSelection::default(), 100, &AtomicBool::new(true))
            .unwrap_err();
        assert!(matches!(error, ReadError::Over), "{error}");
    }

    #[test]
    fn requests_that_lie_are_refused() {
        // Claims to have 4 GB.
        let bomb = [0xff, 0xff, 0xff, 0xff, 0x0f, 0x00];
        let garbage = snap::raw::Encoder::new().compress_vec(&[0xff; 100]).unwrap();
        let mut many = request("x", 0..=1);
        many.queries = vec![many.queries[0].clone(); MAX_QUERIES + 1];
        let mut wrong = request("x", 0..=1);
        wrong.queries[0].matchers[0].r#type = 9;
        for body in [&bomb[..], &[], b"xyz", &garbage, &body(&many), &body(&wrong)] {
            // An empty body is an empty block of snappy, and that a request without queries.
            match ReadQuery::parse(body) {
                Ok(read) => assert!(body.is_empty() && read.queries.is_empty(), "{body:?}"),
                Err(error) => assert!(matches!(error, ReadError::Request(_)), "{error}"),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// forall bytes in a message, or in what it is compressed to: an answer or an error
        #[test]
        fn requests_of_any_bytes_are_answered_or_refused(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            more in proptest::collection::vec(any::<u8>(), 0..8),
            is_inside in any::<bool>(),
        ) {
            let mut bytes = request("mmv_shop_.*", 0..=9).encode_to_vec();
            if !is_inside {
                bytes = snap::raw::Encoder::new().compress_vec(&bytes).unwrap();
            }
            for (place, byte) in changes {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            bytes.extend(more);
            if is_inside {
                bytes = snap::raw::Encoder::new().compress_vec(&bytes).unwrap();
            }
            if let Ok(read) = ReadQuery::parse(&bytes) {
                // Of no hosts: what is selected is looked at by the tests above.
                let selected = read.select(&[], &MetricSelection::default(), 10, &AtomicBool::new(false)).unwrap();
                prop_assert!(selected.iter().all(Vec::is_empty));
            }
        }
    }

    #[test]
    fn frames_have_their_length_and_checksum() {
        let response = ChunkedReadResponse { chunked_series: Vec::new(), query_index: 3 };
        let frame = frame(&response);
        assert_eq!(frame[0], 2);
        assert_eq!(
            u32::from_be_bytes(frame[1..5].try_into().unwrap()),
            crc32c::crc32c(&frame[5..])
        );
        assert_eq!(ChunkedReadResponse::decode(&frame[5..]).unwrap(), response);
    }
}
