//! What a program counts through the facade stands in the file.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
    with_local_recorder,
};
use mmv_format::view::{Contents, LabelClass, Limits, Refusal};
use mmv_metrics::Recorder;
use mmv_writer::{Buckets, LiveBuilder, Registry, Semantics};
use tempfile::TempDir;

/// A file whose changes are seen at once.
fn file(directory: &TempDir) -> LiveBuilder {
    Registry::builder("app").directory(directory.path()).live().announce_interval(Duration::ZERO)
}

fn recorder(directory: &TempDir) -> Recorder {
    Recorder::on(file(directory)).unwrap()
}

fn contents(path: &Path) -> (File, Contents) {
    let file = File::open(path).unwrap();
    let contents = loop {
        match Contents::read(&file, &Limits::default()) {
            Err(Refusal::Changed { .. } | Refusal::NotReady { .. } | Refusal::Grew { .. }) => {}
            contents => break contents.unwrap(),
        }
    };
    assert_eq!(contents.skipped, []);
    (file, contents)
}

/// Every value as `metric` or `metric[instance]`, and the bits of its cell.
fn values(directory: &TempDir) -> BTreeMap<String, u64> {
    let (file, contents) = contents(&directory.path().join("app"));
    let value = |value: &mmv_format::view::ValueEntry| {
        let metric = &contents.metrics[value.metric];
        let indom = metric.indom.and_then(|serial| contents.indom(serial));
        let named = |id| indom?.instances.iter().find(|instance| instance.id == id);
        let instance = value.instance.and_then(named).map(|instance| instance.name.as_str());
        let name = instance.map_or(metric.name.clone(), |name| format!("{}[{name}]", metric.name));
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, value.cell).unwrap();
        (name, u64::from_ne_bytes(bytes))
    };
    contents.values.iter().map(value).collect()
}

fn expected<const N: usize>(values: [(&str, u64); N]) -> BTreeMap<String, u64> {
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[test]
fn counters_and_gauges_are_there_with_and_without_labels() {
    let directory = tempfile::tempdir().unwrap();
    with_local_recorder(&recorder(&directory), || {
        counter!("http.requests", "path" => "/", "code" => "200").increment(2);
        counter!("http.requests", "code" => "200", "path" => "/").increment(1);
        counter!("http.requests", "code" => "404", "path" => "/no").increment(1);
        counter!("orders").increment(7);
        counter!("read").absolute(40);
        counter!("read").absolute(30);
        gauge!("queue-length").set(2.5);
        gauge!("queue-length").increment(1.0);
        gauge!("queue-length").decrement(0.5);
        assert_eq!(
            values(&directory),
            expected([
                ("http.requests[code=200,path=/]", 3),
                ("http.requests[code=404,path=/no]", 1),
                ("orders", 7),
                ("queue_length", 3.0f64.to_bits()),
                ("read", 40),
            ])
        );
    });
}

#[test]
fn labels_are_also_labels_of_the_instances_while_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    with_local_recorder(&recorder(&directory), || {
        for n in 0..300 {
            counter!("count", "the.number" => n.to_string(), "sign" => "+").increment(1);
        }
        let (_, contents) = contents(&directory.path().join("app"));
        assert_eq!(contents.labels.len(), 255);
        let third = contents
            .labels
            .iter()
            .filter(|label| label.instance.is_some_and(|instance| instance.get() == 2));
        let mut third: Vec<_> =
            third.map(|label| (label.name.as_str(), label.json_value.as_str())).collect();
        third.sort_unstable();
        assert_eq!(third, [("sign", "\"+\""), ("the_number", "\"2\"")]);
        assert_eq!(contents.values.len(), 300);
    });
}

#[test]
fn what_is_described_before_has_help_and_units() {
    let directory = tempfile::tempdir().unwrap();
    with_local_recorder(&recorder(&directory), || {
        describe_counter!("read", Unit::Bytes, "what was read");
        describe_gauge!("age", Unit::Seconds, "x".repeat(300));
        counter!("read", "disk" => "sda").increment(1);
        gauge!("age").set(1.0);
        counter!("plain").increment(1);
        let (_, contents) = contents(&directory.path().join("app"));
        let found = contents.metrics.iter().map(|metric| {
            let help = metric.short_help.clone().unwrap_or_default();
            (metric.name.as_str(), metric.semantics, metric.units.to_string(), help.len())
        });
        let found: Vec<_> = found.collect();
        assert_eq!(
            found,
            [
                ("read", Semantics::Counter, "byte".to_owned(), 13),
                ("age", Semantics::Instant, "sec".to_owned(), 255),
                ("plain", Semantics::Counter, "count".to_owned(), 0),
            ]
        );
    });
}

#[test]
fn a_histogram_has_a_counter_for_each_bucket_that_was_hit() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::with_buckets(file(&directory), Buckets::new(1, 1_000_000)).unwrap();
    with_local_recorder(&recorder, || {
        describe_histogram!("latency", Unit::Microseconds, "");
        let latency = histogram!("latency", "path" => "/");
        latency.record(0.005);
        latency.record(0.005);
        latency.record_many(0.1, 3);
        latency.record(9e9);
        latency.record(f64::NAN);
        histogram!("size").record(-1.0);
        histogram!("size").record(0.000_002);
        let sum = 5 + 5 + 300 + 9_000_000_000_000;
        assert_eq!(
            values(&directory),
            expected([
                ("latency.bucket[path=/,bucket=4..5]", 2),
                ("latency.bucket[path=/,bucket=96..127]", 3),
                ("latency.bucket[path=/,bucket=1048576..]", 1),
                ("latency.sum[path=/]", sum),
                ("size.bucket[bucket=0..0]", 1),
                ("size.bucket[bucket=2..2]", 1),
                ("size.sum", 2),
            ])
        );
    });
    let (_, contents) = contents(&directory.path().join("app"));
    let labels = contents.labels.iter().filter(|label| label.class == LabelClass::Item);
    let labels: BTreeMap<&str, &str> =
        labels.map(|label| (&*label.json_value, &*label.name)).collect();
    let expected = [("\"count x 10^-6\"", "histogram"), ("\"nanosec\"", "histogram")];
    assert_eq!(labels, BTreeMap::from(expected));
}

#[test]
fn incompatible_names_are_kept_apart() {
    let directory = tempfile::tempdir().unwrap();
    with_local_recorder(&recorder(&directory), || {
        counter!("http").increment(1);
        counter!("http.requests").increment(2);
        counter!("http", "code" => "200").increment(3);
        counter!("disk", "name" => "sda").increment(4);
        counter!("disk").increment(5);
        // Of these the second one is not seen.
        counter!("a-b").increment(6);
        counter!("a_b").increment(100);
        gauge!("a_b").set(100.0);
        assert_eq!(
            values(&directory),
            expected([
                ("http", 1),
                ("http_requests", 2),
                ("http_labelled[code=200]", 3),
                ("disk[name=sda]", 4),
                ("disk_plain", 5),
                ("a_b", 6),
            ])
        );
    });
}

#[test]
fn no_increment_of_many_threads_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = recorder(&directory);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                with_local_recorder(&recorder, || {
                    for turn in 0..5000u32 {
                        counter!("count", "n" => (turn % 50).to_string()).increment(1);
                        histogram!("size").record(f64::from(turn % 4));
                        counter!("read").absolute(turn.into());
                    }
                });
            });
        }
    });
    let values = values(&directory);
    for n in 0..50 {
        assert_eq!(values[&format!("count[n={n}]")], 4 * 100);
    }
    let buckets = values.iter().filter(|(name, _)| name.starts_with("size.bucket"));
    assert_eq!(buckets.map(|(_, count)| count).sum::<u64>(), 4 * 5000);
    assert_eq!(values["size.sum"], 4 * 1250 * 6_000_000);
    assert_eq!(values["read"], 4999);
}

#[test]
fn a_program_goes_on_where_there_is_no_file_and_no_room() {
    let nowhere = Registry::builder("app").directory("/no/such/directory").lenient().live();
    with_local_recorder(&Recorder::on(nowhere).unwrap(), || {
        counter!("count", "a" => "b").increment(1);
        histogram!("size").record(1.0);
    });
    let directory = tempfile::tempdir().unwrap();
    let small = file(&directory).max_instances(2);
    with_local_recorder(&Recorder::on(small).unwrap(), || {
        for n in 0..5 {
            counter!("count", "n" => n.to_string()).increment(1);
            histogram!("size").record(f64::from(n));
        }
        let values = values(&directory);
        assert_eq!(values["count[n=0]"], 1);
        let instances = values.keys().filter(|name| name.contains('[')).count();
        assert_eq!(instances, 2, "{values:?}");
    });
    assert!(Recorder::new("my/app").is_err());
}

/// The only test that installs a recorder for the whole program.
#[test]
fn an_installed_recorder_withdraws_its_file_when_the_guard_goes() {
    let directory = tempfile::tempdir().unwrap();
    let installed = recorder(&directory).install().unwrap();
    let kept = counter!("orders");
    kept.increment(1);
    assert!(recorder(&tempfile::tempdir().unwrap()).install().is_err());
    assert_eq!(values(&directory), expected([("orders", 1)]));
    drop(installed);
    assert!(!directory.path().join("app").exists());
    kept.increment(1);
    counter!("late").increment(1);
}
