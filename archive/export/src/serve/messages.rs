//! The messages of Prometheus' remote read, `prompb/remote.proto` and `prompb/types.proto`:
//! the fields that are used.

use prost::Message;

/// A request with one or several queries.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ReadRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) queries: Vec<Query>,
    /// [`STREAMED_CHUNKS`] and others, the preferred one first.
    #[prost(int32, repeated, tag = "2")]
    pub(super) accepted_response_types: Vec<i32>,
}

/// The value `STREAMED_XOR_CHUNKS` of `ReadRequest.ResponseType`.
pub(super) const STREAMED_CHUNKS: i32 = 1;

/// Series in a span of time, both ends included.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Query {
    #[prost(int64, tag = "1")]
    pub(super) start_timestamp_ms: i64,
    #[prost(int64, tag = "2")]
    pub(super) end_timestamp_ms: i64,
    #[prost(message, repeated, tag = "3")]
    pub(super) matchers: Vec<LabelMatcher>,
}

/// A condition for a label.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LabelMatcher {
    /// 0 equal, 1 not equal, 2 matches a regular expression, 3 does not match it.
    #[prost(int32, tag = "1")]
    pub(super) r#type: i32,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(string, tag = "3")]
    pub(super) value: String,
}

/// The answer with samples.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ReadResponse {
    /// In the order of the queries.
    #[prost(message, repeated, tag = "1")]
    pub(super) results: Vec<QueryResult>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct QueryResult {
    #[prost(message, repeated, tag = "1")]
    pub(super) timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    pub(super) labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    pub(super) samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Label {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Sample {
    #[prost(double, tag = "1")]
    pub(super) value: f64,
    #[prost(int64, tag = "2")]
    pub(super) timestamp: i64,
}

/// One frame of the answer with chunks.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ChunkedReadResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) chunked_series: Vec<ChunkedSeries>,
    #[prost(int64, tag = "2")]
    pub(super) query_index: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ChunkedSeries {
    #[prost(message, repeated, tag = "1")]
    pub(super) labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    pub(super) chunks: Vec<Chunk>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Chunk {
    #[prost(int64, tag = "1")]
    pub(super) min_time_ms: i64,
    #[prost(int64, tag = "2")]
    pub(super) max_time_ms: i64,
    /// The encoding, always [`XOR`].
    #[prost(int32, tag = "3")]
    pub(super) r#type: i32,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) data: Vec<u8>,
}

/// The value `XOR` of `Chunk.Encoding`.
pub(super) const XOR: i32 = 1;
