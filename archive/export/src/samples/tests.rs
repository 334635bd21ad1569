use std::fmt::Write as _;
use std::path::Path;

use pcp_archive::{
    ArchiveWriter, InDom, Instance, LabelClass, LabelSet, LabelTarget, MetricDesc, Semantics,
    ValueSet,
};

use super::*;
use crate::test_support::{Events, at, begin, counter, of_each, single, write};
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
    let mut writer = begin(&directory.path().join("a"));
    let busy = MetricDesc { units: "millisec".parse().unwrap(), ..counter(1) };
    writer.declare_metric(&busy, &["mmv.shop.busy"]).unwrap();
    write(&mut writer, 1, vec![single(&busy, 1100)]);
    write(&mut writer, 2, vec![single(&busy, 1_u64 << 53 | 1)]);
    writer.finish().unwrap();
    let found = of(directory.path(), "mmv_shop_busy_seconds_total");
    assert_eq!(found, [(1_000, Some(1.1)), (2_000, Some(9_007_199_254_740.992))]);
    let mut walk =
        Walk::new(Archives::Directory(directory.path().to_owned()), Start::First).unwrap();
    let mut samples = Samples::new();
    while let Some(step) = walk.next().unwrap() {
        samples.convert(&step);
    }
    assert_eq!((samples.rounded(), samples.dropped()), (1, 0));
}

#[test]
fn a_mark_and_the_end_of_an_archive_are_stale_markers() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = begin(&directory.path().join("a"));
    writer.declare_metric(&counter(1), &["a.b"]).unwrap();
    write(&mut writer, 1, vec![single(&counter(1), 1)]);
    writer.write_mark(at(2)).unwrap();
    write(&mut writer, 3, vec![single(&counter(1), 2)]);
    writer.finish().unwrap();
    let mut writer = begin(&directory.path().join("b"));
    // The label has the time of the first record.
    writer.declare_metric(&counter(1), &["a.b"]).unwrap();
    write(&mut writer, 5, vec![single(&counter(1), 3)]);
    writer.finish().unwrap();
    let found = of(directory.path(), "a_b_total");
    let values = [(1_000, Some(1.0)), (2_000, None), (3_000, Some(2.0)), (3_001, None)];
    assert_eq!(found, [&values[..], &[(5_000, Some(3.0))]].concat());
    assert!(converted(directory.path())[1].2.to_bits() == 0x7ff0_0000_0000_0002);
}

#[test]
fn a_number_that_is_used_again_is_another_series_also_with_the_same_labels() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = begin(&directory.path().join("a"));
    let indom = InDom::new(70, 1).unwrap();
    let instance = Instance { id: InstanceId::new(1).unwrap(), name: "one".into() };
    writer.declare_indom(indom, &[instance]).unwrap();
    let [first, second] = [1, 2].map(|item| MetricDesc { indom: Some(indom), ..counter(item) });
    writer.declare_metric(&first, &["a.first"]).unwrap();
    writer.declare_metric(&second, &["a.second"]).unwrap();
    write(&mut writer, 1, vec![of_each(&first, &[(1, 10)])]);
    // The instance goes, and with it the series.
    write(&mut writer, 2, vec![of_each(&first, &[])]);
    write(&mut writer, 3, vec![of_each(&second, &[(1, 20)])]);
    writer.finish().unwrap();
    let name = |metric| format!("a_{metric}_total instid=1 instname=one");
    let first = [(1_000, Some(10.0)), (2_000, None)];
    assert_eq!(of(directory.path(), &name("first")), first);
    assert_eq!(of(directory.path(), &name("second")), [(3_000, Some(20.0))]);
}

#[test]
fn records_within_a_millisecond_are_a_millisecond_apart() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = begin(&directory.path().join("a"));
    writer.declare_metric(&counter(1), &["a.b"]).unwrap();
    for (nanos, value) in [(0, 1), (500_000, 2), (700_000, 3), (5_000_000, 4)] {
        let timestamp = pcp_archive::Timestamp::from_nanos(at(0).as_nanos() + nanos);
        let value_sets = vec![single(&counter(1), value)];
        writer.write_result(&pcp_archive::FetchResult { timestamp, value_sets }).unwrap();
    }
    writer.finish().unwrap();
    let found = of(directory.path(), "a_b_total");
    assert_eq!(found, [(0, Some(1.0)), (1, Some(2.0)), (5, Some(4.0))]);
}

#[test]
fn a_program_that_began_to_count_has_a_zero_before_its_first_value() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = begin(&directory.path().join("a"));
    let gauge = MetricDesc { semantics: Semantics::Instant, ..counter(2) };
    writer.declare_metric(&counter(1), &["mmv.shop.orders"]).unwrap();
    writer.declare_metric(&gauge, &["mmv.shop.queue"]).unwrap();
    let events = Events::declare(&mut writer);
    let values = |one, other| vec![single(&counter(1), one), single(&gauge, other)];
    write(&mut writer, 1, values(7, 1));
    write(&mut writer, 4, vec![events.value("restarted", "shop", 4_000_000)]);
    write(&mut writer, 4, values(9, 2));
    write(&mut writer, 5, vec![events.value("ended", "shop", 5_000_000)]);
    write(&mut writer, 5, values(10, 3));
    write(&mut writer, 8, vec![events.value("appeared", "shop", 7_500_000)]);
    write(&mut writer, 8, values(2, 4));
    writer.finish().unwrap();
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

/// Two metrics that are the histogram `mmv.shop.latency`, with a bucket for 0 to 4, for 5 to
/// 9, and for all above.
struct Latency {
    bucket: MetricDesc,
    sum: MetricDesc,
}

impl Latency {
    fn declare(writer: &mut ArchiveWriter) -> Self {
        let indom = InDom::new(70, 1).unwrap();
        let bucket = MetricDesc { indom: Some(indom), ..counter(1) };
        let sum = MetricDesc { units: "millisec".parse().unwrap(), ..counter(2) };
        writer.declare_metric(&bucket, &["mmv.shop.latency.bucket"]).unwrap();
        writer.declare_metric(&sum, &["mmv.shop.latency.sum"]).unwrap();
        let instances = [(0, "bucket=0..4"), (1, "bucket=5..9"), (2, "bucket=10..")];
        let instances = instances
            .map(|(id, name)| Instance { id: InstanceId::new(id).unwrap(), name: name.into() });
        writer.declare_indom(indom, &instances).unwrap();
        let label = [(crate::mapping::HISTOGRAM_LABEL, "\"millisec\"", false)];
        let set = LabelSet::from_pairs(LabelClass::Item, label).unwrap();
        writer.declare_labels(LabelTarget::Item(bucket.pmid), &[set]).unwrap();
        Self { bucket, sum }
    }

    fn values(&self, buckets: &[(i32, u64)], sum: u64) -> Vec<ValueSet> {
        vec![of_each(&self.bucket, buckets), single(&self.sum, sum)]
    }
}

#[test]
fn buckets_are_cumulative_and_there_before_they_are_hit() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = begin(&directory.path().join("a"));
    let latency = Latency::declare(&mut writer);
    write(&mut writer, 1, latency.values(&[], 0));
    write(&mut writer, 2, latency.values(&[(0, 3)], 6));
    write(&mut writer, 3, latency.values(&[(0, 4), (1, 2), (2, 1)], 30));
    writer.finish().unwrap();
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
    let mut writer = begin(&directory.path().join("a"));
    let latency = Latency::declare(&mut writer);
    let events = Events::declare(&mut writer);
    write(&mut writer, 1, latency.values(&[(0, 3), (1, 2)], 6));
    write(&mut writer, 3, vec![events.value("restarted", "shop", 2_500_000)]);
    write(&mut writer, 3, latency.values(&[(0, 1)], 2));
    writer.write_mark(at(4)).unwrap();
    writer.finish().unwrap();
    let of = |name: &str| of(directory.path(), &format!("mmv_shop_latency_seconds{name}"));
    let expected = |first, last| {
        [(1_000, Some(first)), (2_500, Some(0.0)), (3_000, Some(last)), (4_000, None)]
    };
    assert_eq!(of("_bucket le=0.004"), expected(3.0, 1.0));
    assert_eq!(of("_bucket le=0.009"), expected(5.0, 1.0));
    assert_eq!(of("_count"), expected(5.0, 1.0));
}

#[test]
fn the_histograms_of_instances_have_their_labels() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = begin(&directory.path().join("a"));
    let (buckets, paths) = (InDom::new(70, 1).unwrap(), InDom::new(70, 2).unwrap());
    let bucket = MetricDesc { indom: Some(buckets), ..counter(1) };
    let sum = MetricDesc { indom: Some(paths), ..counter(2) };
    writer.declare_metric(&bucket, &["shop.size.bucket"]).unwrap();
    writer.declare_metric(&sum, &["shop.size.sum"]).unwrap();
    let instance =
        |(id, name): (i32, &str)| Instance { id: InstanceId::new(id).unwrap(), name: name.into() };
    let both = [(0, "path=/,bucket=0..4"), (1, "path=/a,bucket=0..4")].map(instance);
    writer.declare_indom(buckets, &both).unwrap();
    writer.declare_indom(paths, &[(5, "path=/"), (6, "path=/a")].map(instance)).unwrap();
    let label = [(crate::mapping::HISTOGRAM_LABEL, "\"count\"", false)];
    let set = LabelSet::from_pairs(LabelClass::Item, label).unwrap();
    writer.declare_labels(LabelTarget::Item(bucket.pmid), &[set]).unwrap();
    let sets = vec![of_each(&bucket, &[(0, 1), (1, 2)]), of_each(&sum, &[(5, 10), (6, 20)])];
    write(&mut writer, 1, sets);
    writer.finish().unwrap();
    let names: Vec<(String, f64)> =
        converted(directory.path()).into_iter().map(|(name, _, value)| (name, value)).collect();
    for (name, value) in [
        ("shop_size_bucket instid=5 instname=path=/ le=4.0", 1.0),
        ("shop_size_bucket instid=6 instname=path=/a le=4.0", 2.0),
        ("shop_size_count instid=6 instname=path=/a", 2.0),
        ("shop_size_sum instid=6 instname=path=/a", 20.0),
    ] {
        assert!(names.contains(&(name.to_owned(), value)), "{name} in {names:?}");
    }
    assert_eq!(names.len(), 8);
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
