use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;
use crate::live::tests::builder;
use crate::pcp::RegistryBuilderExt as _;
use crate::test_support::{contents_of, directory, values_of};
use crate::{Buckets, Counter, Gauge, Histogram, Units};
use mmv_format::view::Contents;
use tempfile::TempDir;

#[derive(Clone, PartialEq, Eq, Hash)]
struct Request {
    method: &'static str,
    code: String,
}

impl Labels for Request {
    fn visit<'l>(&'l self, visit: &mut dyn FnMut(&'l str, &dyn fmt::Display)) {
        visit("method", &self.method);
        visit("code", &self.code);
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Thing(usize);

impl Labels for Thing {
    fn visit<'l>(&'l self, visit: &mut dyn FnMut(&'l str, &dyn fmt::Display)) {
        visit("thing", &self.0);
    }
}

fn request(method: &'static str, code: &str) -> Request {
    Request { method, code: code.to_owned() }
}

fn registry(directory: &TempDir) -> Registry {
    builder(directory).announce_interval(Duration::ZERO).build().unwrap()
}

fn value(metric: &str, name: &str, value: u64) -> (String, Option<String>, u64) {
    (metric.to_owned(), Some(name.to_owned()), value)
}

fn labels(contents: &Contents) -> Vec<String> {
    let mut labels = Vec::new();
    for label in &contents.labels {
        let mut instances = contents.indoms.iter().flat_map(|indom| &indom.instances);
        let instance = instances.find(|instance| Some(instance.id) == label.instance).unwrap();
        labels.push(format!("{}: {}={}", instance.name, label.name, label.json_value));
    }
    labels
}

#[test]
fn sets_of_labels_are_instances_with_labels() {
    let directory = directory();
    let registry = registry(&directory);
    let path = registry.path().to_owned();
    let count: Family<Request> = registry.counter("count").build_family().unwrap();
    count.get(&request("GET", "200")).inc();
    count.with(&request("GET", "200"), Counter::inc);
    count.get(&request("PUT", "2,0=0")).add(5);
    assert!(count.get_existing(&request("PUT", "200")).is_none());
    let get = value("count", "method=GET,code=200", 2);
    let put = value("count", r"method=PUT,code=2\,0\=0", 5);
    assert_eq!(values_of(&path), [get, put.clone()]);
    let of_put =
        [r#"method=PUT,code=2\,0\=0: method="PUT""#, r#"method=PUT,code=2\,0\=0: code="2,0=0""#];
    let all = labels(&contents_of(&path));
    assert_eq!(
        all[..2],
        ["method=GET,code=200: method=\"GET\"", "method=GET,code=200: code=\"200\""]
    );
    assert_eq!(all[2..], of_put);
    assert!(count.remove(&request("GET", "200")));
    assert!(!count.remove(&request("GET", "200")));
    assert_eq!(values_of(&path), [put]);
    assert_eq!(labels(&contents_of(&path)), of_put);
    assert_eq!(count.get(&request("GET", "200")).value(), 0);
    assert_eq!(count.len(), 2);
}

#[test]
fn a_full_family_counts_in_its_overflow_series() {
    let directory = directory();
    let registry = registry(&directory);
    let builder = registry.counter("count").max_series(2);
    let count: Family<Thing> = builder.build_family().unwrap();
    for thing in [0, 1, 2, 3, 1] {
        count.get(&Thing(thing)).inc();
    }
    assert_eq!((count.len(), count.overflowed()), (2, 2));
    let expected =
        [value("count", "thing=0", 1), value("count", "thing=1", 2), value("count", "overflow", 2)];
    assert_eq!(values_of(registry.path()), expected);
    count.remove(&Thing(0));
    count.get(&Thing(3)).inc();
    assert_eq!((count.len(), count.overflowed()), (2, 2));
}

#[test]
fn series_go_by_choice_and_with_their_last_scoped_handle() {
    let directory = directory();
    let registry = registry(&directory);
    let level: Family<Thing, Gauge<u64>> = registry.metric("level").build_family().unwrap();
    for thing in 0..10 {
        level.get(&Thing(thing)).set(thing as u64);
    }
    level.retain(|thing, gauge| thing.0 % 2 == 0 && gauge.value() < 8);
    assert_eq!((level.len(), values_of(registry.path()).len()), (4, 4));
    let first = level.scoped(&Thing(100));
    let second = level.scoped(&Thing(100));
    first.set(7);
    drop(first);
    assert_eq!(second.value(), 7);
    assert_eq!(level.len(), 5);
    drop(second);
    assert_eq!((level.len(), values_of(registry.path()).len()), (4, 4));
}

#[test]
fn without_room_for_labels_a_series_has_its_name() {
    let directory = directory();
    let registry = registry(&directory);
    let count: Family<Thing> = registry.counter("count").build_family().unwrap();
    for index in 0..300 {
        count.get(&Thing(index)).inc();
    }
    // The file became longer, and readers are given time to see that.
    std::thread::sleep(Duration::from_millis(150));
    registry.announce();
    let contents = contents_of(registry.path());
    assert_eq!((contents.labels.len(), contents.values.len()), (255, 300));
}

#[test]
fn a_sealed_registry_has_no_families() {
    let directory = directory();
    let sealed = builder(&directory).sealed().build().unwrap();
    let family = sealed.counter("count").build_family::<Thing>();
    assert!(matches!(family, Err(Error::FixedInstances { .. })));
}

#[test]
fn threads_that_use_the_same_labels_count_in_one_series_of_each() {
    let directory = directory();
    let registry = builder(&directory).build().unwrap();
    let count: Family<Request> = registry.counter("count").build_family().unwrap();
    let gauges = registry.metric::<Gauge<u64>>("in_flight");
    let in_flight: Family<Request, Gauge<u64>> = gauges.build_family().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for index in 0..10_000 {
                    let labels = request("GET", ["200", "404", "500"][index % 3]);
                    let _guard = in_flight.with(&labels, Gauge::guard);
                    count.with(&labels, Counter::inc);
                }
            });
        }
    });
    let sum = ["200", "404", "500"].map(|code| count.get(&request("GET", code)).value());
    assert_eq!(sum, [4 * 3334, 4 * 3333, 4 * 3333]);
    assert_eq!(in_flight.get(&request("GET", "404")).value(), 0);
}

#[test]
fn the_last_of_registry_families_and_handles_withdraws_the_file() {
    let directory = directory();
    let registry = registry(&directory);
    let path = registry.path().to_owned();
    let family: Family<Thing> = registry.counter("count").build_family().unwrap();
    let weak = registry.downgrade();
    let unkept = weak.counter("other").build().unwrap();
    let handle = family.get(&Thing(1));
    drop(registry);
    assert!(path.exists());
    drop(family);
    handle.inc();
    assert_eq!(values_of(&path).len(), 2, "the handle keeps the file");
    let is_gone = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            drop(handle);
            is_gone.store(!path.exists(), Ordering::Relaxed);
        });
    });
    assert!(is_gone.into_inner());
    unkept.inc();
    let late = weak.counter("late").build().unwrap();
    late.inc();
    assert_eq!((unkept.value(), late.value(), path.exists()), (1, 1, false));
}

fn thing_histograms(registry: &Registry, most: usize) -> Family<Thing, Histogram> {
    let latency = registry.histogram("latency").units(Units::microseconds());
    latency.buckets(Buckets::new(1, 100)).max_series(most).build_family().unwrap()
}

#[test]
fn each_set_of_labels_has_a_histogram() {
    let directory = directory();
    let registry = registry(&directory);
    let path = registry.path().to_owned();
    let latency = thing_histograms(&registry, 10);
    let first = latency.get(&Thing(1));
    for value in [5, 5, 7, 1_000] {
        first.record(value);
    }
    latency.with(&Thing(2), |histogram| histogram.record(0));
    assert_eq!((first.count(), first.sum()), (4, 1_017));
    let values = values_of(&path);
    let expected = [
        value("latency.bucket", "thing=1,bucket=4..5", 2),
        value("latency.bucket", "thing=1,bucket=6..7", 1),
        value("latency.bucket", "thing=1,bucket=128..", 1),
        value("latency.bucket", "thing=2,bucket=0..0", 1),
        value("latency.sum", "thing=1", 1_017),
        value("latency.sum", "thing=2", 0),
    ];
    assert_eq!(values.len(), expected.len());
    assert!(expected.iter().all(|one| values.contains(one)), "{values:?}");
    let contents = contents_of(&path);
    let of_metric = contents.labels.iter().find(|label| label.name == "histogram").unwrap();
    assert_eq!(of_metric.json_value, "\"microsec\"");
}

#[test]
fn a_removed_histogram_takes_its_buckets_and_gets_no_more() {
    let directory = directory();
    let registry = registry(&directory);
    let path = registry.path().to_owned();
    let latency = thing_histograms(&registry, 10);
    let removed = latency.get(&Thing(1));
    removed.record(5);
    latency.get(&Thing(2)).record(5);
    assert!(latency.remove(&Thing(1)) && !latency.remove(&Thing(1)));
    removed.record(5);
    removed.record(50);
    let second =
        [value("latency.sum", "thing=2", 5), value("latency.bucket", "thing=2,bucket=4..5", 1)];
    assert_eq!(values_of(&path), second);
    drop(latency.scoped(&Thing(3)));
    latency.get(&Thing(1)).record(1);
    latency.retain(|thing, histogram| thing.0 != 1 || histogram.count() != 1);
    assert_eq!(values_of(&path), second);
    assert_eq!(latency.len(), 1);
}

#[test]
fn histograms_beyond_the_limit_share_one_series() {
    let directory = directory();
    let registry = registry(&directory);
    let latency = thing_histograms(&registry, 1);
    for thing in 0..4 {
        latency.get(&Thing(thing)).record(5);
    }
    assert_eq!((latency.len(), latency.overflowed()), (1, 3));
    let values = values_of(registry.path());
    assert!(values.contains(&value("latency.bucket", "overflow,bucket=4..5", 3)), "{values:?}");
    assert!(values.contains(&value("latency.sum", "overflow", 15)), "{values:?}");
}

#[test]
fn no_recorded_value_is_lost_when_the_file_is_full() {
    let directory = directory();
    let registry = builder(&directory).max_instances(200).build().unwrap();
    let latency = thing_histograms(&registry, 1_000);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..2_000 {
                    let thing = Thing(number % 50);
                    latency.with(&thing, |histogram| histogram.record(number as u64));
                }
            });
        }
    });
    assert!(latency.overflowed() > 0);
    registry.announce();
    let values = values_of(registry.path());
    let total = |metric: &str| -> u64 {
        values.iter().filter(|(name, ..)| name == metric).map(|(.., value)| value).sum()
    };
    assert_eq!(total("latency.bucket"), 8_000);
    assert_eq!(total("latency.sum"), 4 * 2_000 * 1_999 / 2);
}

#[test]
fn families_of_histograms_keep_the_file_until_the_last_handle() {
    let directory = directory();
    let registry = registry(&directory);
    let path = registry.path().to_owned();
    let latency = thing_histograms(&registry, 1);
    let histogram = latency.get(&Thing(1));
    latency.get(&Thing(2)).record(1);
    drop((registry, latency));
    histogram.record(1);
    assert!(path.exists());
    drop(histogram);
    assert!(!path.exists());
}

/// Returns the sum of the values of a metric, or of those of an instance.
fn total(registry: &Registry, metric: &str) -> u64 {
    registry.announce();
    let values = values_of(registry.path());
    values.iter().filter(|(name, ..)| name == metric).map(|(.., value)| value).sum()
}

#[test]
fn no_count_is_lost_when_another_metric_fills_the_file() {
    let directory = directory();
    let registry = builder(&directory).max_instances(40).build().unwrap();
    let count: Family<Thing> = registry.counter("count").max_series(2).build_family().unwrap();
    let small = registry.histogram("small").buckets(Buckets::new(0, 3)).max_series(1);
    let small: Family<Thing, Histogram> = small.build_family().unwrap();
    let other: Family<Thing> = registry.counter("other").build_family().unwrap();
    let removed: Family<Thing> = registry.counter("removed").build_family().unwrap();
    registry.remove("removed");
    removed.get(&Thing(0)).inc();
    for thing in 0..100 {
        other.get(&Thing(thing)).inc();
    }
    // The promises: one instance of `count` and of `other`, and the sum and buckets of `small`.
    let promised = 1 + 1 + 1 + Buckets::new(0, 3).count();
    let places = 40 - promised;
    assert_eq!(other.len(), places);
    for thing in 0..5 {
        count.get(&Thing(thing)).inc();
        small.get(&Thing(thing)).record(thing as u64);
    }
    assert_eq!((count.overflowed(), small.overflowed()), (5, 5));
    assert_eq!(other.overflowed(), 100 - places as u64);
    let totals = ["count", "other", "small.bucket", "small.sum"].map(|name| total(&registry, name));
    assert_eq!(totals, [5, 100, 5, 1 + 2 + 3 + 4]);
    // What is removed leaves its place to its own metric.
    other.remove(&Thing(0));
    registry.announce();
    std::thread::sleep(Duration::from_millis(150));
    other.get(&Thing(100)).inc();
    assert_eq!(other.len(), places);
}

#[test]
fn a_family_without_room_for_its_overflow_series_is_an_error() {
    let directory = directory();
    let registry = builder(&directory).max_instances(5).build().unwrap();
    let latency = registry.histogram("latency").build_family::<Thing>();
    assert!(matches!(latency, Err(Error::Full { .. })), "{latency:?}");
    let count: Family<Thing> = registry.counter("count").build_family().unwrap();
    count.get(&Thing(1)).inc();
    assert_eq!(total(&registry, "count"), 1);
    assert!(registry.overflow().is_empty());
}

#[test]
fn a_rejected_family_leaves_nothing_in_the_file() {
    let directory = directory();
    let registry = builder(&directory).max_instances(5).build().unwrap();
    let _first = registry.counter("taken").build().unwrap();
    for _ in 0..3_000 {
        let taken = registry.counter("taken").build_family::<Thing>();
        assert!(matches!(taken, Err(Error::NameTaken { .. })), "{taken:?}");
        let large = registry.histogram("latency").build_sparse();
        assert!(matches!(large, Err(Error::Full { .. })), "{large:?}");
    }
    let _other = registry.counter("other").build_family::<Thing>().unwrap();
    registry.announce();
    assert_eq!(contents_of(registry.path()).indoms.len(), 1);
    assert!(registry.overflow().is_empty());
}

#[test]
fn a_sparse_histogram_registers_the_buckets_that_are_hit() {
    let directory = directory();
    let registry = registry(&directory);
    let size = registry.histogram("size").buckets(Buckets::new(1, 100)).build_sparse().unwrap();
    size.record(5);
    size.record_many(5, 3);
    size.record(1_000);
    let values = values_of(registry.path());
    let sum = ("size.sum".to_owned(), None, 1_020);
    for expected in
        [value("size.bucket", "bucket=4..5", 4), value("size.bucket", "bucket=128..", 1), sum]
    {
        assert!(values.contains(&expected), "{values:?}");
    }
    assert_eq!((values.len(), size.count(), size.sum()), (3, 5, 1_020));
}

#[test]
fn processes_may_register_their_metrics_in_any_order() {
    let names = ["app.requests", "app.errors", "app.latency", "app.depth"];
    let numbers = |names: &mut dyn Iterator<Item = &'static str>| {
        let directory = directory();
        let registry = builder(&directory).cluster(7).per_process().build().unwrap();
        for name in names {
            if name == "app.latency" {
                let _family = registry.histogram(name).build_family::<Thing>().unwrap();
            } else {
                let _family = registry.counter(name).build_family::<Thing>().unwrap();
            }
        }
        registry.announce();
        let contents = contents_of(registry.path());
        let metrics = contents.metrics.iter();
        let mut numbers: Vec<_> =
            metrics.map(|metric| (metric.name.clone(), metric.item, metric.indom)).collect();
        numbers.sort_unstable();
        numbers
    };
    let numbers_of_first = numbers(&mut names.into_iter());
    assert_eq!(numbers_of_first.len(), 5);
    assert_eq!(numbers(&mut names.into_iter().rev()), numbers_of_first);
    // One that has fewer metrics has the same numbers for these.
    let of_one = numbers(&mut ["app.depth"].into_iter());
    assert!(numbers_of_first.contains(&of_one[0]));
}
