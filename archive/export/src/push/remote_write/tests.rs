use std::path::Path;

use test_archives::at;

use super::*;
use crate::push::Protocol;
use crate::samples::{HistogramForm, Sample, Samples};
use crate::test_support::{begin, event, with_events};
use crate::tree::Archives;
use crate::walk::{Start, Walk};

/// The messages of remote write 2.0-rc.4, as its definition has them.
mod definition {
    use prost::Message;

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Request {
        #[prost(string, repeated, tag = "4")]
        pub(super) symbols: Vec<String>,
        #[prost(message, repeated, tag = "5")]
        pub(super) timeseries: Vec<TimeSeries>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct TimeSeries {
        #[prost(uint32, repeated, tag = "1")]
        pub(super) labels_refs: Vec<u32>,
        #[prost(message, repeated, tag = "2")]
        pub(super) samples: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub(super) histograms: Vec<Histogram>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Histogram {
        #[prost(uint64, tag = "1")]
        pub(super) count_int: u64,
        #[prost(double, tag = "3")]
        pub(super) sum: f64,
        #[prost(sint32, tag = "4")]
        pub(super) schema: i32,
        #[prost(uint64, tag = "6")]
        pub(super) zero_count_int: u64,
        #[prost(int32, tag = "14")]
        pub(super) reset_hint: i32,
        #[prost(int64, tag = "15")]
        pub(super) timestamp: i64,
        #[prost(int64, tag = "17")]
        pub(super) start_timestamp: i64,
    }

    /// The request of 1.0.
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct WriteRequest {
        #[prost(message, repeated, tag = "1")]
        pub(super) timeseries: Vec<TimeSeries1>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct TimeSeries1 {
        #[prost(message, repeated, tag = "1")]
        pub(super) labels: Vec<Label>,
        #[prost(message, repeated, tag = "2")]
        pub(super) samples: Vec<Sample>,
        #[prost(message, repeated, tag = "4")]
        pub(super) histograms: Vec<Histogram>,
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
        #[prost(int64, tag = "3")]
        pub(super) start_timestamp: i64,
    }
}

/// Encodes all samples of an archive in one request.
fn request(directory: &Path, protocol: Protocol) -> Vec<u8> {
    let mut walk = Walk::new(Archives::Directory(directory.to_owned()), Start::First).unwrap();
    let mut samples = Samples::new().with_histograms(HistogramForm::Exponential);
    let mut table = SeriesTable::new(protocol);
    let mut points = Vec::new();
    while let Some(step) = walk.next().unwrap() {
        let converted = samples.convert(&step);
        let began = converted.began.to_vec();
        let list: Vec<Sample> = converted.samples.to_vec();
        table.take(&began, &list, &samples, step.catalog, &mut points);
    }
    points.sort_by_key(|point| point.series);
    let mut message = Vec::new();
    if protocol == Protocol::RemoteWrite1 {
        encode_1(&points, &table, &mut message);
    } else {
        encode_2(&points, &table, &mut message);
    }
    message
}

fn request_2(directory: &Path) -> definition::Request {
    definition::Request::decode(&*request(directory, Protocol::RemoteWrite2)).unwrap()
}

/// Milliseconds since 1970 UTC of a time in seconds of the tests.
fn milliseconds(seconds: f64) -> i64 {
    at(0).seconds() * 1_000 + (seconds * 1_000.0) as i64
}

#[test]
fn counters_of_2_0_have_their_start_where_events_report_it() {
    let directory = tempfile::tempdir().unwrap();
    let values = |orders, queue| [("mmv.shop.orders", orders), ("mmv.shop.queue", queue)];
    let builder = begin(&directory.path().join("a"))
        .metric("mmv.shop.orders", "u64 counter count")
        .metric("mmv.shop.queue", "u64 instant count");
    with_events(builder)
        .row(1, values(7, 1))
        .row(4, event("restarted", 3_500_000))
        .row(4, values(9, 2))
        .row(5, values(10, 3))
        .mark(6)
        .finish();
    let request = request_2(directory.path());
    let starts = |name: &str| {
        let mut starts = Vec::new();
        for series in &request.timeseries {
            let texts: Vec<&str> = series
                .labels_refs
                .iter()
                .map(|place| request.symbols[*place as usize].as_str())
                .collect();
            if texts[..2] == ["__name__", name] {
                starts
                    .extend(series.samples.iter().map(|one| (one.timestamp, one.start_timestamp)));
            }
        }
        starts
    };
    let start = milliseconds(3.5);
    let orders = [
        (milliseconds(1.0), 0),
        (start, 0),
        (milliseconds(4.0), start),
        (milliseconds(5.0), start),
        (milliseconds(6.0), 0),
    ];
    assert_eq!(starts("mmv_shop_orders_total"), orders);
    let queue = [1.0, 4.0, 5.0, 6.0].map(|seconds| (milliseconds(seconds), 0));
    assert_eq!(starts("mmv_shop_queue"), queue);
}

#[test]
fn histograms_of_both_versions_have_resets_and_those_of_2_0_starts() {
    let directory = tempfile::tempdir().unwrap();
    let builder = begin(&directory.path().join("a"))
        .metric("mmv.shop.latency.bucket", "u64 counter count")
        .metric("mmv.shop.latency.sum", "u64 counter sec")
        .instances("mmv.shop.latency.bucket", ["bucket=0..0", "bucket=1..1"])
        .labels("mmv.shop.latency.bucket", &[("histogram", "sec")]);
    let values = |zeros, ones| {
        [
            ("mmv.shop.latency.bucket[bucket=0..0]", zeros),
            ("mmv.shop.latency.bucket[bucket=1..1]", ones),
            ("mmv.shop.latency.sum", ones),
        ]
    };
    with_events(builder)
        .row(1, values(1, 2))
        .row(4, event("restarted", 3_500_000))
        .row(4, values(3, 7))
        .finish();
    let expected = |seconds, zeros, ones, reset_hint, start| definition::Histogram {
        count_int: zeros + ones,
        sum: ones as f64,
        schema: 8,
        zero_count_int: zeros,
        reset_hint,
        timestamp: milliseconds(seconds),
        start_timestamp: start,
    };
    let mut histograms = [
        expected(1.0, 1, 2, 0, 0),
        expected(3.5, 0, 0, 1, 0),
        expected(4.0, 3, 7, 0, milliseconds(3.5)),
    ];
    let found = request_2(directory.path());
    assert_eq!(found.timeseries.len(), 1);
    assert_eq!(found.timeseries[0].samples, []);
    assert_eq!(found.timeseries[0].histograms, histograms);

    let found = request(directory.path(), Protocol::RemoteWrite1);
    let found = definition::WriteRequest::decode(&*found).unwrap();
    histograms[2].start_timestamp = 0;
    let [series] = found.timeseries.as_slice() else { panic!("{found:?}") };
    assert_eq!(series.samples, []);
    assert_eq!(series.histograms, histograms);
    let labels = series.labels.iter().map(|label| (label.name.as_str(), label.value.as_str()));
    let expected = [("__name__", "mmv_shop_latency_seconds"), ("hostname", "web1")];
    assert_eq!(labels.collect::<Vec<_>>(), expected);
}
