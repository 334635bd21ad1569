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
use mmv_writer::pcp::Semantics;
use mmv_writer::{Buckets, Registry, RegistryBuilder};
use tempfile::TempDir;

/// A file whose changes are seen at once, or when it is long enough for [`LONGER`].
fn options(directory: &TempDir) -> RegistryBuilder {
    Registry::builder("app").directory(directory.path()).announce_interval(Duration::ZERO)
}

fn registry(directory: &TempDir) -> Registry {
    options(directory).build().unwrap()
}

/// What needs a longer file is seen after this time.
const LONGER: Duration = Duration::from_millis(120);

fn recorder(directory: &TempDir) -> Recorder {
    Recorder::new(&registry(directory))
}

fn contents(path: &Path) -> (File, Contents) {
    std::thread::sleep(LONGER);
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
    contents
        .values
        .iter()
        .map(|value| {
            let metric = &contents.metrics[value.metric];
            let indom = metric.indom.and_then(|serial| contents.indom(serial));
            let named = |id| indom?.instances.iter().find(|instance| instance.id == id);
            let instance = value.instance.and_then(named).map(|instance| instance.name.as_str());
            let name =
                instance.map_or(metric.name.clone(), |name| format!("{}[{name}]", metric.name));
            let mut bytes = [0; 8];
            file.read_exact_at(&mut bytes, value.cell).unwrap();
            (name, u64::from_ne_bytes(bytes))
        })
        .collect()
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
                ("http.requests_by[code=200,path=/]", 3),
                ("http.requests_by[code=404,path=/no]", 1),
                ("orders", 7),
                ("queue_x2d_length", 3.0f64.to_bits()),
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
        let mut instances = contents.indoms.iter().flat_map(|indom| &indom.instances);
        let third = instances.find(|instance| instance.name == "sign=+,the.number=2").unwrap();
        let third = contents.labels.iter().filter(|label| label.instance == Some(third.id));
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
                ("read_by", Semantics::Counter, "byte".to_owned(), 13),
                ("age", Semantics::Instant, "sec".to_owned(), 255),
                ("plain", Semantics::Counter, "count".to_owned(), 0),
            ]
        );
    });
}

#[test]
fn a_histogram_has_a_counter_for_each_bucket_that_was_hit() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::builder(&registry(&directory));
    let recorder = recorder.buckets(Buckets::new(1, 1_000_000)).build();
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
                ("latency_by.bucket[path=/,bucket=4..5]", 2),
                ("latency_by.bucket[path=/,bucket=96..127]", 3),
                ("latency_by.bucket[path=/,bucket=1048576..]", 1),
                ("latency_by.sum[path=/]", sum),
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
fn names_do_not_collapse_and_do_not_depend_on_which_came_first() {
    let uses: [fn(); 8] = [
        || counter!("a b").increment(1),
        || counter!("a-b").increment(2),
        || counter!("a_b").increment(3),
        || counter!("disk", "name" => "sda").increment(4),
        || counter!("disk").increment(5),
        || gauge!("disk_by").set(6.0),
        || histogram!("size", "path" => "/").record(7.0),
        || histogram!("size").record(8.0),
    ];
    let found = |uses: &mut dyn Iterator<Item = &fn()>| {
        let directory = tempfile::tempdir().unwrap();
        with_local_recorder(&recorder(&directory), || {
            uses.for_each(|one| one());
            values(&directory)
        })
    };
    let forward = found(&mut uses.iter());
    assert_eq!(
        forward,
        expected([
            ("a_x20_b", 1),
            ("a_x2d_b", 2),
            ("a_b", 3),
            ("disk_by[name=sda]", 4),
            ("disk", 5),
            ("disk_x5f_by", 6.0f64.to_bits()),
            ("size_by.bucket[path=/,bucket=6815744..7340031]", 1),
            ("size_by.sum[path=/]", 7_000_000),
            ("size.bucket[bucket=7864320..8388607]", 1),
            ("size.sum", 8_000_000),
        ])
    );
    assert_eq!(found(&mut uses.iter().rev()), forward);
}

#[test]
fn the_second_of_a_leaf_and_a_branch_is_published_without_dots() {
    let uses: [fn(); 2] =
        [|| counter!("http").increment(1), || counter!("http.requests").increment(2)];
    for (first, names) in [(0, ["http", "http_x2e_requests"]), (1, ["http_x2e_", "http.requests"])]
    {
        let directory = tempfile::tempdir().unwrap();
        with_local_recorder(&recorder(&directory), || {
            uses[first]();
            uses[1 - first]();
            assert_eq!(values(&directory), expected([(names[0], 1), (names[1], 2)]));
        });
    }
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
        assert_eq!(values[&format!("count_by[n={n}]")], 4 * 100);
    }
    let buckets = values.iter().filter(|(name, _)| name.starts_with("size.bucket"));
    assert_eq!(buckets.map(|(_, count)| count).sum::<u64>(), 4 * 5000);
    assert_eq!(values["size.sum"], 4 * 1250 * 6_000_000);
    assert_eq!(values["read"], 4999);
}

#[test]
fn a_program_goes_on_where_there_is_no_file_and_no_room() {
    let nowhere = Registry::builder("app").directory("/no/such/directory").lenient().build();
    with_local_recorder(&Recorder::new(&nowhere.unwrap()), || {
        counter!("count", "a" => "b").increment(1);
        histogram!("size").record(1.0);
    });
    let directory = tempfile::tempdir().unwrap();
    let small = options(&directory).max_instances(1).build();
    with_local_recorder(&Recorder::new(&small.unwrap()), || {
        for n in 0..5 {
            counter!("count", "n" => n.to_string()).increment(1);
            histogram!("size").record(f64::from(n));
        }
        assert_eq!(
            values(&directory),
            expected([("count_by[overflow]", 5)]),
            "the histogram does not fit"
        );
    });
}

#[test]
fn what_has_no_place_is_counted_by_one_series() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::builder(&registry(&directory)).max_series(2).build();
    let count_all = || {
        with_local_recorder(&recorder, || {
            for n in 0..5 {
                counter!("count", "n" => n.to_string()).increment(1);
                gauge!("level", "n" => n.to_string()).increment(1.0);
                histogram!("size", "n" => n.to_string()).record(f64::from(n));
            }
        });
    };
    count_all();
    let all = values(&directory);
    let sum = |prefix: &str| {
        let of = all.iter().filter(|(name, _)| name.starts_with(prefix));
        of.map(|(_, value)| value).sum::<u64>()
    };
    assert_eq!((sum("count_by["), sum("size_by.bucket[")), (5, 5), "{all:?}");
    assert_eq!(sum("size_by.sum["), 10_000_000);
    let level = |name: &str| f64::from_bits(all[name]);
    assert!((level("level_by[n=0]") - 1.0).abs() < 1e-9);
    assert!((level("level_by[overflow]") - 3.0).abs() < 1e-9);
    assert_eq!((all["count_by[overflow]"], all["size_by.sum[overflow]"]), (3, 9_000_000));
    assert_eq!(all["size_by.bucket[overflow,bucket=1966080..2097151]"], 1);
    let (_, contents) = contents(&directory.path().join("app"));
    let labels = contents.labels.iter().filter(|label| label.name == "overflow");
    assert_eq!(labels.filter(|label| label.json_value == "true").count(), 3);
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(count_all))));
    let again = values(&directory);
    assert_eq!(again.len(), all.len());
    let counts = again.iter().filter(|(name, _)| name.starts_with("count_by["));
    assert_eq!(counts.map(|(_, count)| count).sum::<u64>(), 25);
}

fn wait_for(what: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !what() {
        assert!(start.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn idle_series_go_and_come_back_through_handles_that_were_kept() {
    let directory = tempfile::tempdir().unwrap();
    let builder = Recorder::builder(&registry(&directory)).idle_timeout(Duration::from_millis(500));
    let recorder = builder.max_series(15).build();
    with_local_recorder(&recorder, || {
        let kept = counter!("count", "n" => "kept", "a" => "b");
        kept.increment(1);
        counter!("plain").increment(1);
        gauge!("level", "n" => "0").set(1.0);
        histogram!("size", "n" => "0").record(1.0);
        histogram!("size").record(1.0);
        assert_eq!(values(&directory).len(), 7);
        let stays = ["plain", "size.bucket[bucket=983040..1048575]", "size.sum"];
        wait_for(|| values(&directory).into_keys().eq(stays.map(str::to_owned)));
        kept.increment(5);
        counter!("count", "a" => "b", "n" => "kept").increment(2);
        assert_eq!(values(&directory)["count_by[a=b,n=kept]"], 7);
        // The places of those that are gone are used again.
        for n in 0..30 {
            counter!("count", "n" => n.to_string()).increment(1);
            if n % 10 == 9 {
                wait_for(|| values(&directory).len() == stays.len());
            }
        }
        assert!(!values(&directory).contains_key("count_by[overflow]"));
    });
}

/// The only test that installs a recorder for the whole program.
#[test]
fn an_installed_recorder_keeps_the_file_until_it_is_withdrawn() {
    let directory = tempfile::tempdir().unwrap();
    let registry = registry(&directory);
    Recorder::new(&registry).install().unwrap();
    let kept = counter!("orders");
    kept.increment(1);
    assert!(recorder(&tempfile::tempdir().unwrap()).install().is_err());
    assert_eq!(values(&directory), expected([("orders", 1)]));
    drop(registry.clone());
    registry.counter("own").build().unwrap().add(2);
    assert_eq!(values(&directory), expected([("orders", 1), ("own", 2)]));
    registry.withdraw();
    assert!(!directory.path().join("app").exists());
    kept.increment(1);
    counter!("late").increment(1);
}
