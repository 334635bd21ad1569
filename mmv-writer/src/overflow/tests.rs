use std::collections::BTreeMap;
use std::fs::File;

use tempfile::TempDir;

use super::*;
use crate::mapping::tests::in_a_fork;
use crate::pcp::{IndomMetricExt as _, Instances, RegistryBuilderExt as _, RegistryExt as _};
use crate::test_support::{contents_of, directory, files, names_in, word};
use crate::{Buckets, Counter, Gauge, Label, Registry, RegistryBuilder};
use mmv_format::layout::LABEL_CLUSTER;
use mmv_format::view::{Contents, LabelClass};

fn builder(directory: &TempDir) -> RegistryBuilder {
    Registry::builder("app").directory(directory.path()).cluster(7).sealed()
}

fn growing(directory: &TempDir) -> RegistryBuilder {
    Registry::builder("app").directory(directory.path()).cluster(7)
}

pub(crate) fn singular_values(files: &[PathBuf]) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for path in files {
        let contents = contents_of(path);
        let file = File::open(path).unwrap();
        let mut prefix = String::new();
        if !contents.header.flags.contains(Flags::NO_PREFIX) {
            prefix = format!("{}.", path.file_name().unwrap().to_str().unwrap());
        }
        for value in contents.values.iter().filter(|value| value.instance.is_none()) {
            let name = format!("{prefix}{}", contents.metrics[value.metric].name);
            assert_eq!(found.insert(name, word(&file, value.cell)), None);
        }
    }
    found
}

#[test]
fn five_thousand_metrics_are_in_five_files() {
    let directory = directory();
    let registry = builder(&directory).build().unwrap();
    let register = |index: u64| {
        let counter: Counter<u64> = registry.counter(format!("m{index}")).build().unwrap();
        counter.add(index);
        counter
    };
    let counters: Vec<_> = (0..5000).map(register).collect();
    assert!(names_in(&directory).iter().all(|name| name.starts_with('.')));
    registry.publish().unwrap();
    assert_eq!(names_in(&directory), ["app", "app.2", "app.3", "app.4", "app.5"]);
    for counter in &counters {
        counter.add(10_000);
    }
    let values = singular_values(&files(&registry));
    let expected = (0..5000).map(|index| (format!("app.m{index}"), 10_000 + index));
    assert_eq!(values, expected.collect::<BTreeMap<_, _>>());
    for path in &files(&registry)[1..] {
        let header = contents_of(path).header;
        assert_eq!((header.cluster, header.flags.contains(Flags::PROCESS)), (0, true));
    }
    registry.withdraw();
    assert_eq!(names_in(&directory), [""; 0]);
}

#[test]
fn a_name_is_checked_against_those_in_all_files() {
    let directory = directory();
    let registry = builder(&directory).build().unwrap();
    for index in 0..2000 {
        let _counter: Counter<u64> = registry.counter(format!("m{index}")).build().unwrap();
    }
    for taken in ["m3", "m1999"] {
        let error = registry.metric::<Gauge<u64>>(taken).build().unwrap_err();
        assert!(matches!(error, Error::NameTaken { .. }), "{error}");
    }
    let error = registry.metric::<Gauge<u64>>("m3.max").build().unwrap_err();
    assert!(matches!(error, Error::LeafAndBranch { .. }), "{error}");
    // With the file's name in front of it, as overflow files have it.
    let long = "x".repeat(255);
    let error = registry.metric::<Gauge<u64>>(long.as_str()).build().unwrap_err();
    assert!(matches!(error, Error::Length { found: 259, max: 255, .. }), "{error}");
    registry.publish().unwrap();
    assert_eq!(singular_values(&files(&registry)).len(), 2000);
}

#[test]
fn a_domain_is_in_each_file_that_has_a_metric_on_it() {
    let directory = directory();
    let registry = builder(&directory).build().unwrap();
    let disks = registry.indom("disks").serial(9).instance(3, "sda").instance(8, "sdb");
    let disks = disks.help("the disks").label(Label::new("kind", "ssd"));
    let disks = disks.instance_label("sdb", Label::new("bay", 1)).build().unwrap();
    let first: Instances<Counter<u64>> = registry.counter("first").build_instances(&disks).unwrap();
    for index in 0..1022 {
        let _counter: Counter<u64> = registry.counter(format!("m{index}")).build().unwrap();
    }
    let last: Instances<Counter<u64>> = registry.counter("last").build_instances(&disks).unwrap();
    first.by_name("sdb").unwrap().add(1);
    last.by_name("sdb").unwrap().add(2);
    registry.publish().unwrap();
    let [first, last] = &files(&registry)[..] else { panic!("two files") };
    let (first, last) = (contents_of(first), contents_of(last));
    assert_eq!(first.indoms, last.indoms);
    assert_eq!(first.labels, last.labels);
    assert_eq!((first.indoms[0].serial, first.labels.len()), (9, 2));
    assert_eq!(last.metrics[0].name, "app.last");
    assert_eq!(last.values.len(), 2);
}

#[test]
fn labels_and_domains_go_into_overflow_files_as_well() {
    let directory = directory();
    let registry = builder(&directory).build().unwrap();
    for index in 0..300 {
        let counter = registry.counter(format!("m{index}"));
        let _counter = counter.label(Label::new("index", index)).build().unwrap();
    }
    for _ in 0..2048 {
        let _empty = registry.indom("empty").build().unwrap();
    }
    registry.publish().unwrap();
    let count = |path: &PathBuf| {
        let contents = contents_of(path);
        (contents.metrics.len(), contents.labels.len(), contents.indoms.len())
    };
    assert_eq!(
        files(&registry).iter().map(count).collect::<Vec<_>>(),
        [(255, 255, 0), (45, 45, 2047), (0, 0, 1)]
    );
}

#[test]
fn labels_reach_overflow_files_with_requested_clusters() {
    let directory = directory();
    let registry = builder(&directory).overflow_cluster(100).build().unwrap();
    registry.label(Label::new("tier", 1)).unwrap();
    for index in 0..2000 {
        let _counter: Counter<u64> = registry.counter(format!("m{index}")).build().unwrap();
    }
    registry.label(Label::new("late", true)).unwrap();
    let error = registry.label(Label::new("late", true)).unwrap_err();
    assert!(matches!(error, Error::NameTaken { .. }), "{error}");
    for index in 2000..2100 {
        let _counter: Counter<u64> = registry.counter(format!("m{index}")).build().unwrap();
    }
    registry.publish().unwrap();
    let of_all = |contents: &Contents| {
        assert!(contents.labels.iter().all(|label| label.class == LabelClass::Cluster));
        let labels = contents.labels.iter().map(|label| (label.identity, label.name.clone()));
        labels.collect::<Vec<_>>()
    };
    for (path, cluster) in files(&registry).iter().zip([7, 100, 101]) {
        let contents = contents_of(path);
        assert_eq!(contents.header.cluster, cluster);
        let expected = ["tier", "late"].map(|name| (cluster, name.to_owned()));
        assert_eq!(of_all(&contents), expected, "class {LABEL_CLUSTER}");
    }
    let none_left = builder(&directory).overflow_cluster(4096).build();
    assert!(matches!(none_left, Err(Error::OutOfRange { .. })));
}

#[test]
fn overflow_files_need_a_cluster_of_their_own() {
    let directory = directory();
    let register = |registry: &Registry| {
        let counter = |index| registry.counter(format!("app.m{index}")).build();
        (0..1024).map(counter).find_map(Result::err)
    };
    let registry = builder(&directory).per_process().build().unwrap();
    let error = register(&registry).unwrap();
    assert!(matches!(error, Error::Full { what: "metrics", max: 1023, .. }), "{error}");
    let registry = builder(&directory).per_process().overflow_cluster(8).build().unwrap();
    assert!(register(&registry).is_none());
    registry.publish().unwrap();
    assert_eq!(contents_of(&files(&registry)[1]).metrics[0].name, "app.m1023");
}

#[test]
fn a_histogram_is_in_one_file() {
    let directory = directory();
    let registry = builder(&directory).build().unwrap();
    let buckets = Buckets::new(0, 3);
    for index in 0..1022 {
        let _counter: Counter<u64> = registry.counter(format!("m{index}")).build().unwrap();
    }
    let size = registry.histogram("size").buckets(buckets).build().unwrap();
    size.record(2);
    registry.publish().unwrap();
    let last = contents_of(&files(&registry)[1]);
    let names: Vec<_> = last.metrics.iter().map(|metric| &*metric.name).collect();
    assert_eq!(names, ["app.size.bucket", "app.size.sum"]);
    assert_eq!(singular_values(&files(&registry))["app.size.sum"], 2);
}

#[test]
fn a_rejected_registration_does_not_publish_an_overflow_file() {
    let directory = directory();
    let registry = builder(&directory).build().unwrap();
    for index in 0..1023 {
        let _counter: Counter<u64> = registry.counter(format!("m{index}")).build().unwrap();
    }
    let twice = registry.counter("twice").label(Label::new("a", 1));
    let error = twice.label(Label::new("a", 2)).build().unwrap_err();
    assert!(matches!(error, Error::NameTaken { what: "label", .. }), "{error}");
    registry.publish().unwrap();
    assert_eq!(names_in(&directory), ["app"]);
}

#[test]
fn a_forked_child_begins_no_overflow_file() {
    let directory = directory();
    let register = |registry: &Registry, count: u64| {
        let counter = |index| registry.counter(format!("m{index}")).build();
        (0..count).find_map(|index| counter(index).err())
    };
    let sealed = builder(&directory).build().unwrap();
    assert!(register(&sealed, 1023).is_none());
    let live = Registry::builder("live").directory(directory.path()).build().unwrap();
    for index in 0..1023 {
        let _counter: Counter<u64> = live.counter(format!("m{index}")).build().unwrap();
    }
    let before = names_in(&directory);
    assert!(in_a_fork(|| {
        let sealed = sealed.counter("more").build();
        let live = live.counter("more").build();
        matches!(sealed, Err(Error::Forked { .. })) && matches!(live, Err(Error::Forked { .. }))
    }));
    assert_eq!(names_in(&directory), before);
}

#[test]
fn a_registry_without_a_file_takes_any_number_of_metrics() {
    let directory = directory();
    let missing = directory.path().join("missing");
    let registry = Registry::builder("app").sealed().directory(missing).lenient().build().unwrap();
    for index in 0..2000 {
        let _counter: Counter<u64> = registry.counter(format!("m{index}")).build().unwrap();
    }
    registry.publish().unwrap();
    assert!(!registry.is_published());
}

#[test]
fn a_file_that_another_registry_keeps_is_not_replaced() {
    let directory = directory();
    let other = Registry::builder("app.2").sealed().directory(directory.path()).build().unwrap();
    other.publish().unwrap();
    let register = || {
        let registry = builder(&directory).build().unwrap();
        for index in 0..1024 {
            let _counter: Counter<u64> = registry.counter(format!("m{index}")).build().unwrap();
        }
        registry.publish().unwrap();
        registry
    };
    let registry = register();
    assert_eq!(names_in(&directory), ["app", "app.2", "app.3"]);
    registry.withdraw();
    assert_eq!(names_in(&directory), ["app.2"]);
    drop(other);
    let _published = register();
    assert_eq!(names_in(&directory), ["app", "app.2"]);
}

#[test]
fn overflow_files_that_a_killed_process_left_are_removed() {
    let directory = directory();
    let two_files = || {
        let registry = builder(&directory).build().unwrap();
        for index in 0..1024 {
            let _counter: Counter<u64> = registry.counter(format!("m{index}")).build().unwrap();
        }
        registry.publish().unwrap();
        registry
    };
    let registry = two_files();
    let second = directory.path().join("app.2");
    let mut bytes = std::fs::read(&second).unwrap();
    registry.withdraw();
    // What is left of a process that cannot be: numbers end far below.
    bytes[32..36].copy_from_slice(&i32::MAX.to_ne_bytes());
    let left = |name: &str, bytes: &[u8]| std::fs::write(directory.path().join(name), bytes);
    left("app.2", &bytes).unwrap();
    left("app.3", &bytes).unwrap();
    // With the file's name before its metrics' names, so a registry's first.
    let mut first = bytes.clone();
    let flags = u32::from_ne_bytes(first[28..32].try_into().unwrap()) & !Flags::NO_PREFIX.raw();
    first[28..32].copy_from_slice(&flags.to_ne_bytes());
    left("app.4", &first).unwrap();
    left("app.5", &bytes).unwrap();
    let registry = two_files();
    assert_eq!(names_in(&directory), ["app", "app.2", "app.4"]);
    assert_eq!(contents_of(&files(&registry)[1]).metrics.len(), 1);
    let live = growing(&directory).build().unwrap();
    assert_eq!(live.overflow(), [""; 0].map(PathBuf::from));
    assert_eq!(names_in(&directory), ["app", "app.2", "app.4"], "that of a living process stays");
}

#[test]
fn files_that_killed_workers_left_are_removed_an_hour_later() {
    let directory = directory();
    let worker = || growing(&directory).per_process().build().unwrap();
    let first = worker();
    let mut bytes = std::fs::read(first.path()).unwrap();
    let own = first.path().file_name().unwrap().to_str().unwrap().to_owned();
    // A process that cannot be: numbers end far below.
    bytes[32..36].copy_from_slice(&i32::MAX.to_ne_bytes());
    let hour_ago = std::time::SystemTime::now() - MIN_REMOVABLE_AGE;
    let leave = |name: &str, bytes: &[u8], modified: Option<std::time::SystemTime>| {
        std::fs::write(directory.path().join(name), bytes).unwrap();
        if let Some(modified) = modified {
            let file = File::options().write(true).open(directory.path().join(name)).unwrap();
            file.set_modified(modified).unwrap();
        }
    };
    leave("app.2147483646", &bytes, Some(hour_ago));
    leave("app.2147483646.2", &bytes, Some(hour_ago));
    leave("app.2147483647", &bytes, None);
    leave("app.old", &bytes, Some(hour_ago));
    leave("other.2147483646", &bytes, Some(hour_ago));
    // One that is running stays, however old.
    let running = std::fs::read(first.path()).unwrap();
    leave("app.1", &running, Some(hour_ago));
    let _one_process = growing(&directory).build().unwrap();
    assert!(names_in(&directory).contains(&"app.2147483646".to_owned()));
    let _second = worker();
    let mut expected = ["app", "app.1", "app.2147483647", "app.old", &own, "other.2147483646"];
    expected.sort_unstable();
    assert_eq!(names_in(&directory), expected);
}
