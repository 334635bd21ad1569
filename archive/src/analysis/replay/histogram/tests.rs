//! Quantiles of counts, and their names.

use test_archives::{Builder, at};

use super::super::Expression;
use super::*;
use crate::Archive;

fn growth(first: f64, middle: f64, count: f64) -> BucketGrowth {
    let bucket = Bucket { histogram: 0, first, last: Some(2.0 * middle - first) };
    BucketGrowth { bucket, count }
}

#[test]
fn a_quantile_is_the_middle_of_the_bucket_that_reaches_it() {
    // Not in order, as instances may be.
    let counted = [
        growth(8.0, 9.5, 10.0),
        growth(4.0, 4.5, 30.0),
        growth(6.0, 6.5, 60.0),
        growth(12.0, 13.5, 0.0),
    ];
    for (rank, value) in
        [(0.0, 4.5), (0.3, 4.5), (0.31, 6.5), (0.5, 6.5), (0.9, 6.5), (0.99, 9.5), (1.0, 9.5)]
    {
        assert_eq!(quantile(&counted, rank), Some(value), "{rank}");
    }
    assert_eq!(quantile(&[growth(4.0, 4.5, 0.0)], 0.5), None, "nothing was counted");
    assert_eq!(quantile(&[], 0.5), None);
}

#[test]
fn a_name_has_the_quantile_in_percent() {
    let names = [0.5, 0.99, 0.999, 0.9999, 1.0, 0.0].map(|one| percent(one).to_string());
    assert_eq!(names, ["50", "99", "99.9", "99.99", "100", "0"]);
}

#[test]
fn part_below_a_limit_includes_part_of_a_bucket() {
    // 30 values of 4..5, 60 of 6..7, 10 of 8..11.
    let counted = [growth(4.0, 4.5, 30.0), growth(6.0, 6.5, 60.0), growth(8.0, 9.5, 10.0)];
    for (limit, part) in [(3.0, 0.0), (5.0, 0.3), (5.5, 0.3), (7.0, 0.9), (9.5, 0.95), (11.0, 1.0)]
    {
        let found = part_below(&counted, limit).unwrap();
        assert!((found - part).abs() < 1e-9, "{limit}: {found}");
    }
    assert_eq!(part_below(&[], 1.0), None, "nothing was counted");
}

#[test]
fn rate_has_the_first_count_of_a_bucket_that_comes_later() {
    let archive = Builder::new()
        .metric("m.latency.bucket", "u64 counter count")
        .numbered_instances("m.latency.bucket", [(4, "4..5"), (9, "16..19")])
        .labels("m.latency.bucket", &[("histogram", "microsec")])
        .domain_labels("m.latency.bucket", &[("bucket_max", 30), ("bucket_precision", 2)])
        .row(1, [("m.latency.bucket[4..5]", 10)])
        .row(2, [("m.latency.bucket[4..5]", 20)])
        .row(3, [("m.latency.bucket[4..5]", 30), ("m.latency.bucket[16..19]", 5)])
        .row(4, [("m.latency.bucket[4..5]", 30), ("m.latency.bucket[16..19]", 7)])
        .finish();
    let archive = Archive::open(&archive).unwrap();
    let value = |expression: &str, since: i64| {
        let mut selection = Replay::open(&archive);
        selection.derive(&expression.parse::<Expression>().unwrap()).unwrap();
        let replay = selection.load().unwrap();
        let sample = replay.at_since(at(since + 1), at(since)).unwrap();
        sample.values[0].first().and_then(|(_, value)| value.as_f64())
    };
    assert_eq!([1, 2, 3].map(|since| value("rate(m.latency)", since)), [10.0, 15.0, 2.0].map(Some));
    assert_eq!(value("sum(rate(m.latency.bucket))", 2), Some(10.0), "of the other bucket alone");
}
