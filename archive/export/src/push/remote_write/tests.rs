use std::path::Path;

use test_archives::at;

use super::*;
use crate::push::Protocol;
use crate::samples::{Sample, Samples};
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

/// Returns the request of 2.0 with all samples of an archive.
fn request_2(directory: &Path) -> definition::Request {
    let mut walk = Walk::new(Archives::Directory(directory.to_owned()), Start::First).unwrap();
    let mut samples = Samples::new();
    let mut table = SeriesTable::new(Protocol::RemoteWrite2);
    let mut points = Vec::new();
    while let Some(step) = walk.next().unwrap() {
        let converted = samples.convert(&step);
        let began = converted.began.to_vec();
        let list: Vec<Sample> = converted.samples.to_vec();
        table.take(&began, &list, &samples, step.catalog, &mut points);
    }
    points.sort_by_key(|point| point.series);
    let mut message = Vec::new();
    encode_2(&points, &table, &mut message);
    definition::Request::decode(&*message).unwrap()
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
