use super::*;
use crate::push::Protocol;
use crate::samples::{HistogramForm, Sample, Samples};
use crate::test_support::{begin, event, with_events};
use crate::tree::Archives;
use crate::walk::{Start, Walk};
use test_archives::at;

/// Returns the exponential points of all samples of an archive.
fn exponential_points(directory: &std::path::Path) -> Vec<ExponentialHistogramDataPoint> {
    let mut walk = Walk::new(Archives::Directory(directory.to_owned()), Start::First).unwrap();
    let mut samples = Samples::new().with_histograms(HistogramForm::Exponential);
    let mut table = SeriesTable::new(Protocol::Otlp);
    let mut points = Vec::new();
    while let Some(step) = walk.next().unwrap() {
        let converted = samples.convert(&step);
        let began = converted.began.to_vec();
        let list: Vec<Sample> = converted.samples.to_vec();
        table.take(&began, &list, &samples, step.catalog, &mut points);
    }
    let request = ExportMetricsServiceRequest::decode(&*encode(&points, &table)).unwrap();
    let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
    assert_eq!(metrics.len(), 1);
    assert_eq!((&*metrics[0].name, &*metrics[0].unit), ("mmv_shop_latency_seconds", "s"));
    let Some(Data::ExponentialHistogram(histogram)) = &metrics[0].data else {
        panic!("{metrics:?}")
    };
    let cumulative: i32 = AggregationTemporality::Cumulative.into();
    assert_eq!(histogram.aggregation_temporality, cumulative);
    histogram.data_points.clone()
}

#[test]
fn an_exponential_histogram_is_a_point_with_its_start() {
    let directory = tempfile::tempdir().unwrap();
    let buckets = ["bucket=0..0", "bucket=1..1", "bucket=2..2"];
    let builder = begin(&directory.path().join("a"))
        .metric("mmv.shop.latency.bucket", "u64 counter count")
        .metric("mmv.shop.latency.sum", "u64 counter sec")
        .instances("mmv.shop.latency.bucket", buckets)
        .labels("mmv.shop.latency.bucket", &[("histogram", "sec")]);
    let values = |zeros, ones, twos, sum| {
        [
            ("mmv.shop.latency.bucket[bucket=0..0]", zeros),
            ("mmv.shop.latency.bucket[bucket=1..1]", ones),
            ("mmv.shop.latency.bucket[bucket=2..2]", twos),
            ("mmv.shop.latency.sum", sum),
        ]
    };
    with_events(builder)
        .row(1, values(5, 2, 1, 4))
        .row(4, event("restarted", 3_500_000))
        .row(4, values(1, 0, 7, 14))
        .mark(5)
        .finish();
    let [first, second, stale] = &exponential_points(directory.path())[..] else {
        panic!("no zero is sent for the start")
    };
    let nanos = |micros: i64| (at(0).seconds() * 1_000_000 + micros) as u64 * 1_000;
    assert_eq!((first.time_unix_nano, first.start_time_unix_nano), (nanos(1_000_000), 0));
    assert_eq!((first.count, first.zero_count, first.sum), (8, 5, Some(4.0)));
    // 1 ends the bucket -1, and 2 the bucket 255.
    let positive = first.positive.as_ref().unwrap();
    assert_eq!((first.scale, positive.offset, positive.bucket_counts.len()), (8, -1, 257));
    assert_eq!((positive.bucket_counts[0], positive.bucket_counts[256]), (2, 1));
    assert_eq!(positive.bucket_counts.iter().sum::<u64>(), 3);
    assert_eq!(second.time_unix_nano, nanos(4_000_000));
    assert_eq!(second.start_time_unix_nano, nanos(3_500_000));
    let expected = Buckets { offset: 255, bucket_counts: vec![7] };
    assert_eq!((second.count, &second.positive), (8, &Some(expected)));
    assert_eq!(stale.flags, DataPointFlags::NoRecordedValueMask as u32);
}

#[test]
fn an_exponential_histogram_has_a_bounded_number_of_buckets() {
    let scaled = |last: i32| {
        let exponential = Exponential { zeros: 0, buckets: [(-9, 1), (last, 2)].into() };
        let dense = exponential.dense(MAX_BUCKETS);
        (dense.scale, dense.offset, dense.counts.len())
    };
    assert_eq!(scaled(1_014), (8, -10, 1_024));
    assert_eq!(scaled(1_015), (7, -5, 513));
    assert_eq!(scaled(200_000), (0, -1, 783));
}
