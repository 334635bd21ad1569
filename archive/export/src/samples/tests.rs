use std::fmt::Write as _;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use test_archives::changing::{self, Change, Model, ORDERS};
use test_archives::{Builder, Cell, at};

use super::*;
use crate::test_support::{begin, event, with_events};
use crate::tree::Archives;
use crate::walk::{Start, Walk};

/// All samples: the name and its labels but the host, milliseconds after the start of the
/// tests, the value.
fn converted(directory: &Path) -> Vec<(String, i64, f64)> {
    let mut walk = Walk::new(Archives::Directory(directory.to_owned()), Start::First).unwrap();
    let mut samples = Samples::new();
    let mut all = Vec::new();
    while let Some(step) = walk.next().unwrap() {
        let list: Vec<Sample> = samples.convert(&step).samples.to_vec();
        for sample in list {
            let series = samples.series(sample.series).unwrap();
            let mut name = series.name.to_string();
            for label in series.labels.iter().filter(|label| &*label.name != "hostname") {
                write!(name, " {}={}", label.name, label.value).unwrap();
            }
            let milliseconds = sample.milliseconds - at(0).seconds() * 1_000;
            all.push((name, milliseconds, sample.value));
        }
    }
    all
}

/// As [`converted`], of one series, with NaN for the end.
fn of(directory: &Path, name: &str) -> Vec<(i64, Option<f64>)> {
    let all = converted(directory).into_iter().filter(|(found, ..)| found == name);
    all.map(|(_, time, value)| (time, (!value.is_nan()).then_some(value))).collect()
}

#[test]
fn values_are_in_base_units_at_milliseconds() {
    let directory = tempfile::tempdir().unwrap();
    begin(&directory.path().join("a"))
        .metric("mmv.shop.busy", "u64 counter millisec")
        .row(1, [("mmv.shop.busy", 1100)])
        .row(2, [("mmv.shop.busy", 1_u64 << 53 | 1)])
        .finish();
    let found = of(directory.path(), "mmv_shop_busy_seconds_total");
    assert_eq!(found, [(1_000, Some(1.1)), (2_000, Some(9_007_199_254_740.992))]);
}

#[test]
fn a_mark_and_the_end_of_an_archive_are_stale_markers() {
    let directory = tempfile::tempdir().unwrap();
    begin(&directory.path().join("a"))
        .metric("a.b", "u64 counter count")
        .row(1, [("a.b", 1)])
        .mark(2)
        .row(3, [("a.b", 2)])
        .finish();
    // The label has the time of the first record.
    let next = begin(&directory.path().join("b")).metric("a.b", "u64 counter count");
    next.row(5, [("a.b", 3)]).finish();
    let found = of(directory.path(), "a_b_total");
    let values = [(1_000, Some(1.0)), (2_000, None), (3_000, Some(2.0)), (3_001, None)];
    assert_eq!(found, [&values[..], &[(5_000, Some(3.0))]].concat());
    assert!(converted(directory.path())[1].2.to_bits() == 0x7ff0_0000_0000_0002);
}

#[test]
fn number_used_again_is_another_series() {
    let directory = tempfile::tempdir().unwrap();
    begin(&directory.path().join("a"))
        .metric("a.first", "u64 counter count")
        .metric("a.second", "u64 counter count")
        .in_domain("a.first", 1)
        .in_domain("a.second", 1)
        .numbered_instances("a.first", [(1, "one")])
        .row(1, [("a.first[one]", 10)])
        .row(2, [("a.first[one]", Cell::Absent)])
        .row(3, [("a.second[one]", 20)])
        .finish();
    let name = |metric| format!("a_{metric}_total instname=one");
    let first = [(1_000, Some(10.0)), (2_000, None)];
    assert_eq!(of(directory.path(), &name("first")), first);
    assert_eq!(of(directory.path(), &name("second")), [(3_000, Some(20.0))]);
}

#[test]
fn records_within_a_millisecond_are_a_millisecond_apart() {
    let directory = tempfile::tempdir().unwrap();
    let rows = [(0.0, 1), (0.000_5, 2), (0.000_7, 3), (0.005, 4)];
    begin(&directory.path().join("a"))
        .metric("a.b", "u64 counter count")
        .rows(rows.map(|(second, value)| (second, [("a.b", value)])))
        .finish();
    let found = of(directory.path(), "a_b_total");
    assert_eq!(found, [(0, Some(1.0)), (1, Some(2.0)), (5, Some(4.0))]);
}

#[test]
fn an_instance_that_a_running_program_creates_has_a_zero() {
    let directory = tempfile::tempdir().unwrap();
    let builder = begin(&directory.path().join("a"))
        .metric("mmv.shop.requests", "u64 counter count")
        .metric("net.packets", "u64 counter count")
        .instances("mmv.shop.requests", ["a"])
        .instances("net.packets", ["a"])
        .row(1, [("mmv.shop.requests[a]", 7), ("net.packets[a]", 7)]);
    builder
        .instances("mmv.shop.requests", ["a", "b"])
        .instances("net.packets", ["a", "b"])
        .row(3, [("mmv.shop.requests[a]", 8), ("mmv.shop.requests[b]", 2), ("net.packets[b]", 2)])
        .mark(4)
        // What was counted before the mark is not known.
        .instances("mmv.shop.requests", ["a", "b", "c"])
        .row(5, [("mmv.shop.requests[c]", 9)])
        .finish();
    let name = |instance| format!("mmv_shop_requests_total instname={instance}");
    let b = [(1_002, Some(0.0)), (3_000, Some(2.0)), (4_000, None)];
    assert_eq!(of(directory.path(), &name("b")), b);
    assert_eq!(of(directory.path(), &name("c")), [(5_000, Some(9.0))]);
    let other = of(directory.path(), "net_packets_total instname=b");
    assert_eq!(other.first(), Some(&(3_000, Some(2.0))));
}

#[test]
fn an_instance_with_another_number_is_the_same_series() {
    let directory = tempfile::tempdir().unwrap();
    begin(&directory.path().join("a"))
        .metric("a.b", "u64 counter count")
        .numbered_instances("a.b", [(1, "one"), (2, "two")])
        .row(1, [("a.b[one]", 10), ("a.b[two]", 20)])
        .numbered_instances("a.b", [(1, "two"), (5, "one")])
        .row(2, [("a.b[two]", 21), ("a.b[one]", 11)])
        .row(3, [("a.b[two]", 22), ("a.b[one]", 12)])
        .finish();
    let name = |instance| format!("a_b_total instname={instance}");
    let one = [(1_000, Some(10.0)), (2_000, Some(11.0)), (3_000, Some(12.0))];
    assert_eq!(of(directory.path(), &name("one")), one);
    let two = [(1_000, Some(20.0)), (2_000, Some(21.0)), (3_000, Some(22.0))];
    assert_eq!(of(directory.path(), &name("two")), two);
}

#[test]
fn program_that_began_to_count_has_a_zero_before_its_value() {
    let directory = tempfile::tempdir().unwrap();
    let values = |orders, queue| [("mmv.shop.orders", orders), ("mmv.shop.queue", queue)];
    let builder = begin(&directory.path().join("a"))
        .metric("mmv.shop.orders", "u64 counter count")
        .metric("mmv.shop.queue", "u64 instant count");
    with_events(builder)
        .row(1, values(7, 1))
        .row(4, event("restarted", 4_000_000))
        .row(4, values(9, 2))
        .row(5, event("ended", 5_000_000))
        .row(5, values(10, 3))
        .row(8, event("appeared", 7_500_000))
        .row(8, values(2, 4))
        .finish();
    let orders = of(directory.path(), "mmv_shop_orders_total");
    let expected = [
        (1_000, Some(7.0)),
        (3_999, Some(0.0)),
        (4_000, Some(9.0)),
        (5_000, Some(10.0)),
        (5_001, None),
        (7_500, Some(0.0)),
        (8_000, Some(2.0)),
    ];
    assert_eq!(orders, expected);
    let queue = of(directory.path(), "mmv_shop_queue");
    let values = [(1_000, Some(1.0)), (4_000, Some(2.0)), (5_000, Some(3.0)), (5_001, None)];
    assert_eq!(queue, [&values[..], &[(8_000, Some(4.0))]].concat());
}

/// Begins an archive of the histogram `mmv.shop.latency`, with a bucket for 0 to 4, for 5 to
/// 9, and for all above.
fn begin_latency(base: &Path) -> Builder {
    begin(base)
        .metric("mmv.shop.latency.bucket", "u64 counter count")
        .metric("mmv.shop.latency.sum", "u64 counter millisec")
        .instances("mmv.shop.latency.bucket", ["bucket=0..4", "bucket=5..9", "bucket=10.."])
        .labels("mmv.shop.latency.bucket", &[(crate::mapping::HISTOGRAM_LABEL, "millisec")])
}

fn latency(buckets: [Option<u64>; 3], sum: u64) -> [(&'static str, Option<u64>); 4] {
    [
        ("mmv.shop.latency.bucket[bucket=0..4]", buckets[0]),
        ("mmv.shop.latency.bucket[bucket=5..9]", buckets[1]),
        ("mmv.shop.latency.bucket[bucket=10..]", buckets[2]),
        ("mmv.shop.latency.sum", Some(sum)),
    ]
}

#[test]
fn buckets_are_cumulative_and_there_before_they_are_hit() {
    let directory = tempfile::tempdir().unwrap();
    begin_latency(&directory.path().join("a"))
        .row(1, latency([None; 3], 0))
        .row(2, latency([Some(3), None, None], 6))
        .row(3, latency([Some(4), Some(2), Some(1)], 30))
        .finish();
    let of = |name: &str| of(directory.path(), &format!("mmv_shop_latency_seconds{name}"));
    let low = [(1_000, Some(0.0)), (2_000, Some(3.0)), (3_000, Some(4.0))];
    assert_eq!(of("_bucket le=0.004"), low);
    // Hit first at 3 s: at 2 s all values were below.
    assert_eq!(of("_bucket le=0.009"), [(2_000, Some(3.0)), (3_000, Some(6.0))]);
    let all = [(1_000, Some(0.0)), (2_000, Some(3.0)), (3_000, Some(7.0))];
    assert_eq!(of("_bucket le=+Inf"), all);
    assert_eq!(of("_count"), all);
    assert_eq!(of("_sum"), [(1_000, Some(0.0)), (2_000, Some(0.006)), (3_000, Some(0.03))]);
}

#[test]
fn a_histogram_that_restarts_keeps_its_buckets() {
    let directory = tempfile::tempdir().unwrap();
    with_events(begin_latency(&directory.path().join("a")))
        .row(1, latency([Some(3), Some(2), None], 6))
        .row(3, event("restarted", 2_500_000))
        .row(3, latency([Some(1), None, None], 2))
        .mark(4)
        .finish();
    let of = |name: &str| of(directory.path(), &format!("mmv_shop_latency_seconds{name}"));
    let expected = |first, last| {
        [(1_000, Some(first)), (2_500, Some(0.0)), (3_000, Some(last)), (4_000, None)]
    };
    assert_eq!(of("_bucket le=0.004"), expected(3.0, 1.0));
    assert_eq!(of("_bucket le=0.009"), expected(5.0, 1.0));
    assert_eq!(of("_count"), expected(5.0, 1.0));
}

/// A sample of a native histogram: milliseconds after the start of the tests, its sum and the
/// counts of its buckets by their upper bounds, and whether it follows a reset. `None` is a stale
/// marker.
type NativeSample = (i64, Option<(f64, Vec<(f64, u64)>, bool)>);

/// The samples of `mmv_shop_latency_seconds`, which is the only series.
fn native(directory: &Path, form: HistogramForm) -> Vec<NativeSample> {
    let mut walk = Walk::new(Archives::Directory(directory.to_owned()), Start::First).unwrap();
    let mut samples = Samples::new().with_histograms(form);
    let mut all = Vec::new();
    while let Some(step) = walk.next().unwrap() {
        let list: Vec<Sample> = samples.convert(&step).samples.to_vec();
        for sample in list {
            let series = samples.series(sample.series).unwrap();
            assert_eq!(&*series.name, "mmv_shop_latency_seconds");
            let counts = samples.bucket_counts(&sample).map(|counts| {
                let upper = counts.bounds.iter().map(|one| one.upper.unwrap_or(f64::INFINITY));
                let buckets = upper.zip(counts.counts.iter().copied()).collect();
                (sample.value, buckets, counts.is_reset)
            });
            all.push((sample.milliseconds - at(0).seconds() * 1_000, counts));
        }
    }
    all
}

#[test]
fn a_native_histogram_is_one_series_with_all_buckets() {
    let directory = tempfile::tempdir().unwrap();
    begin_latency(&directory.path().join("a"))
        .row(1, latency([Some(3), None, None], 6))
        .row(2, latency([Some(4), Some(2), Some(1)], 30))
        .row(3, latency([Some(4), Some(3), Some(1)], 35))
        .mark(4)
        .finish();
    let one = (1_000, Some((0.006, vec![(0.004, 3)], false)));
    let buckets = |second| vec![(0.004, 4), (0.009, second), (f64::INFINITY, 1)];
    let rest = [
        (2_000, Some((0.03, buckets(2), false))),
        (3_000, Some((0.035, buckets(3), false))),
        (4_000, None),
    ];
    let exponential = native(directory.path(), HistogramForm::Exponential);
    assert_eq!(exponential, [std::slice::from_ref(&one), &rest[..]].concat());
    // Bounds that receivers do not know yet come after a stale marker.
    let custom = native(directory.path(), HistogramForm::Custom);
    assert_eq!(custom, [&[one, (1_001, None)], &rest[..]].concat());
}

#[test]
fn a_native_histogram_begins_empty_where_its_program_began() {
    let directory = tempfile::tempdir().unwrap();
    with_events(begin_latency(&directory.path().join("a")))
        .row(1, latency([Some(3), Some(2), None], 6))
        .row(3, event("restarted", 2_500_000))
        .row(3, latency([Some(5), Some(2), None], 9))
        .finish();
    let sample =
        |sum, low, high, is_reset| Some((sum, vec![(0.004, low), (0.009, high)], is_reset));
    let expected = [
        (1_000, sample(0.006, 3, 2, false)),
        (2_500, sample(0.0, 0, 0, true)),
        (3_000, sample(0.009, 5, 2, false)),
    ];
    for form in [HistogramForm::Custom, HistogramForm::Exponential] {
        assert_eq!(native(directory.path(), form), expected);
    }
}

#[test]
fn a_native_histogram_with_a_decrease_was_reset() {
    let directory = tempfile::tempdir().unwrap();
    begin_latency(&directory.path().join("a"))
        .row(1, latency([Some(3), Some(2), None], 6))
        // More values than before.
        .row(2, latency([Some(9), Some(1), None], 7))
        .row(3, latency([Some(9), Some(2), None], 8))
        .finish();
    let found = native(directory.path(), HistogramForm::Exponential);
    let resets: Vec<Option<bool>> =
        found.iter().map(|(_, sample)| sample.as_ref().map(|sample| sample.2)).collect();
    assert_eq!(resets, [Some(false), Some(true), Some(false)]);
}

#[test]
fn counter_begun_within_a_millisecond_has_a_later_zero() {
    let directory = tempfile::tempdir().unwrap();
    let builder = begin(&directory.path().join("a")).metric("mmv.shop.orders", "u64 counter count");
    with_events(builder)
        .row(1, [("mmv.shop.orders", 7)])
        .row(3, event("vanished", 1_000_001))
        .row(3, event("appeared", 1_000_002))
        .row(3, [("mmv.shop.orders", 2)])
        .finish();
    let orders = of(directory.path(), "mmv_shop_orders_total");
    let expected = [(1_000, Some(7.0)), (1_002, Some(0.0)), (3_000, Some(2.0))];
    assert_eq!(orders, expected);
}

#[test]
fn histogram_of_a_quick_restart_counts_from_zero() {
    let directory = tempfile::tempdir().unwrap();
    with_events(begin_latency(&directory.path().join("a")))
        .row(1, latency([Some(3), None, None], 6))
        .row(3, event("restarted", 1_000_001))
        .row(3, latency([Some(1), Some(2), None], 15))
        .finish();
    let of = |name: &str| of(directory.path(), &format!("mmv_shop_latency_seconds{name}"));
    // The bucket that is new has no 0 at 1 s, when three values were below it.
    assert_eq!(of("_bucket le=0.009"), [(1_002, Some(0.0)), (3_000, Some(3.0))]);
    assert_eq!(of("_count"), [(1_000, Some(3.0)), (1_002, Some(0.0)), (3_000, Some(3.0))]);
}

#[test]
fn the_histograms_of_instances_have_their_labels() {
    let directory = tempfile::tempdir().unwrap();
    let values = [
        ("shop.size.bucket[path=/,bucket=0..4]", 1),
        ("shop.size.bucket[path=/a,bucket=0..4]", 2),
        ("shop.size.sum[path=/]", 10),
        ("shop.size.sum[path=/a]", 20),
    ];
    begin(&directory.path().join("a"))
        .metric("shop.size.bucket", "u64 counter count")
        .metric("shop.size.sum", "u64 counter count")
        .instances("shop.size.bucket", ["path=/,bucket=0..4", "path=/a,bucket=0..4"])
        .numbered_instances("shop.size.sum", [(5, "path=/"), (6, "path=/a")])
        .labels("shop.size.bucket", &[(crate::mapping::HISTOGRAM_LABEL, "count")])
        .row(1, values)
        .finish();
    let names: Vec<(String, f64)> =
        converted(directory.path()).into_iter().map(|(name, _, value)| (name, value)).collect();
    for (name, value) in [
        ("shop_size_bucket instname=path=/ le=4.0", 1.0),
        ("shop_size_bucket instname=path=/a le=4.0", 2.0),
        ("shop_size_count instname=path=/a", 2.0),
        ("shop_size_sum instname=path=/a", 20.0),
    ] {
        assert!(names.contains(&(name.to_owned(), value)), "{name} in {names:?}");
    }
    assert_eq!(names.len(), 8);
}

#[test]
fn histograms_keep_labels_where_numbers_change_names() {
    let directory = tempfile::tempdir().unwrap();
    let mut archive = begin(&directory.path().join("a"))
        .metric("shop.size.bucket", "u64 counter count")
        .metric("shop.size.sum", "u64 counter count")
        .labels("shop.size.bucket", &[(crate::mapping::HISTOGRAM_LABEL, "count")]);
    for (second, order) in [(1, ["/", "/a"]), (2, ["/a", "/"])] {
        let buckets = order.map(|path| format!("path={path},bucket=0..4"));
        let sums = order.map(|path| format!("path={path}"));
        let count = |path: &str| if path == "/" { 10 } else { 20 };
        let bucket = |path| (format!("shop.size.bucket[path={path},bucket=0..4]"), count(path));
        let sum = |path| (format!("shop.size.sum[path={path}]"), 3 * count(path));
        archive = archive
            .instances("shop.size.bucket", buckets.iter().map(String::as_str))
            .instances("shop.size.sum", sums.iter().map(String::as_str))
            .row(second, order.map(bucket).into_iter().chain(order.map(sum)));
    }
    archive.finish();
    let found = converted(directory.path());
    let mut seconds = std::collections::BTreeSet::new();
    for (name, at, value) in found.iter().filter(|(name, ..)| name.contains("instname")) {
        let own = if name.ends_with("instname=path=/") || name.contains("instname=path=/ ") {
            10.0
        } else {
            20.0
        };
        let expected = if name.contains("_sum") { 3.0 * own } else { own };
        assert!((value - expected).abs() < f64::EPSILON, "{name} at {at}: {found:?}");
        seconds.insert(*at);
    }
    assert_eq!(seconds.len(), 2, "{found:?}");
}

#[test]
fn doubles_are_written_as_go_writes_them() {
    for (value, text) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (0.1, "0.1"),
        (0.0001, "0.0001"),
        (0.000_01, "1e-05"),
        (0.000_012_5, "1.25e-05"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (f64::INFINITY, "+Inf"),
        (f64::NEG_INFINITY, "-Inf"),
        (f64::NAN, "NaN"),
    ] {
        assert_eq!(float_text(value), text);
    }
    assert_eq!(bound_text(5.0), "5.0");
    assert_eq!(bound_text(1e21), "1e+21");
    assert_eq!(bound_text(f64::INFINITY), "+Inf");
}

/// What a receiver counts: it adds what values grow since the one before, and all of a value that is
/// less, unless the series ended there.
fn increases(samples: &[(i64, Option<f64>)]) -> f64 {
    let pairs = samples.iter().zip(samples.iter().skip(1));
    let values =
        pairs.filter_map(|((_, before), (_, after))| Some((before.as_ref()?, after.as_ref()?)));
    values.map(|(before, after)| if after < before { *after } else { after - before }).sum()
}

proptest! {
    /// forall archives of a program that changes: what a receiver of the samples adds up is what
    /// reports, summaries and pictures find (`archive/src/analysis/envelope/tests/agreement.rs`).
    #[test]
    fn the_increases_of_samples_are_the_growth_that_is_known(
        changes in vec((0..Change::KINDS).prop_map(Change::numbered), 1..24),
    ) {
        let mut changes = changes;
        // Here an instance that gets another number is another series, and an instance that is
        // created has no zero: the time of one would be a guess.
        changes.retain(|change| !matches!(change, Change::Renumber | Change::Toggle(_)));
        let directory = tempfile::tempdir().unwrap();
        let (builder, model) = changing::write(begin(&directory.path().join("a")), &changes);
        builder.finish();
        for (metric, instance) in Model::keys().filter(|(metric, _)| *metric == ORDERS) {
            let samples = of(directory.path(), &format!("mmv_shop_orders_total instname={instance}"));
            let growth = model.growth((metric, instance), &(0..=model.last)).unwrap_or(0.0);
            let found = increases(&samples);
            prop_assert!((found - growth).abs() < 1e-6, "{instance}: {found}, not {growth}: {samples:?}");
        }
    }
}
