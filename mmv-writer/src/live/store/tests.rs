//! Files that a live registry goes on in, and what is in several of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::tests::{builder, number_of};
use crate::live::quarantine::QUARANTINE;
use crate::pcp::{IndomMetricExt as _, NamedFamily, RegistryBuilderExt as _, RegistryExt as _};
use crate::test_support::{contents_of, directory, names_in, values_of};
use crate::{Buckets, Counter, Error, Gauge, Label, Registry, Units};
use mmv_format::layout::SectionKind;
use mmv_format::view::{Contents, LabelClass};

fn files(registry: &Registry) -> Vec<std::path::PathBuf> {
    registry.announce();
    crate::test_support::files(registry)
}

/// Reads the values of all files, by metric and instance.
fn values(registry: &Registry) -> BTreeMap<(String, Option<String>), u64> {
    let all = files(registry);
    let values = all.iter().flat_map(|path| values_of(path));
    values.map(|(metric, instance, number)| ((metric, instance), number)).collect()
}

fn of(metric: &str, instance: Option<&str>) -> (String, Option<String>) {
    (metric.to_owned(), instance.map(str::to_owned))
}

fn full(directory: &Path) -> Registry {
    let registry = Registry::builder("app").directory(directory).cluster(7);
    let registry = registry.build().unwrap();
    for index in 0..1023 {
        let _counter: Counter<u64> = registry.counter(format!("m{index}")).build().unwrap();
    }
    registry
}

#[test]
fn metrics_go_into_overflow_files_while_others_are_counted() {
    let directory = directory();
    let registry = builder(&directory).build().unwrap();
    let first: Counter<u64> = registry.counter("first").build().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let adding = scope.spawn(|| {
            let mut added = 0;
            while !stop.load(Ordering::Relaxed) {
                first.inc();
                added += 1;
            }
            added
        });
        let before = contents_of(&files(&registry)[0]);
        let register = |index: u64| {
            let counter: Counter<u64> = registry.counter(format!("m{index}")).build().unwrap();
            counter.add(index);
            counter
        };
        let counters: Vec<_> = (0..3000).map(register).collect();
        counters.iter().for_each(Counter::inc);
        assert_eq!(names_in(&directory), ["app", "app.2", "app.3"]);
        stop.store(true, Ordering::Relaxed);
        let mut expected: BTreeMap<_, _> = (0..1022)
            .map(|index| (of(&format!("m{index}"), None), index + 1))
            .chain((1022..3000).map(|index| (of(&format!("app.m{index}"), None), index + 1)))
            .collect();
        expected.insert(of("first", None), adding.join().unwrap());
        assert_eq!(values(&registry), expected);
        let after = contents_of(&files(&registry)[0]);
        assert_eq!(before.metrics[..], after.metrics[..1], "nothing that was there moves");
    });
    let header = contents_of(&files(&registry)[1]).header;
    assert_eq!((header.version, header.cluster), (3, 0));
    drop(registry);
    assert_eq!(names_in(&directory), ["app", "app.2", "app.3"], "a handle keeps all files");
    drop(first);
    assert_eq!(names_in(&directory), [""; 0]);
}

#[test]
fn all_files_are_withdrawn_also_those_that_begin_later() {
    let directory = directory();
    let registry = full(directory.path());
    let users = registry.indom("users").build().unwrap();
    let seen: NamedFamily<Counter<u64>> = registry.counter("seen").build_named(&users).unwrap();
    seen.with("ann", Counter::inc).unwrap();
    registry.withdraw();
    assert_eq!(names_in(&directory), [""; 0]);
    seen.with("bob", Counter::inc).unwrap();
    assert_eq!(users.names(), ["ann", "bob"]);
    for index in 0..1100 {
        registry.counter(format!("late{index}")).build().unwrap().inc();
    }
    assert_eq!(names_in(&directory), [""; 0]);
}

#[test]
fn instance_has_one_number_in_all_files_and_leaves_all() {
    let directory = directory();
    let registry = builder(&directory).build().unwrap();
    let users = registry.indom("users").help("who").label(Label::new("kind", 1)).build().unwrap();
    let seen: NamedFamily<Counter<u64>> = registry.counter("seen").build_named(&users).unwrap();
    seen.with("ann", Counter::inc).unwrap();
    for index in 0..1022 {
        let _counter: Counter<u64> = registry.counter(format!("m{index}")).build().unwrap();
    }
    let mood: NamedFamily<Gauge<u64>> = registry.metric("mood").build_named(&users).unwrap();
    mood.with("bob", |mood| mood.set(5)).unwrap();
    seen.with("bob", Counter::inc).unwrap();
    mood.with("ann", |mood| mood.set(6)).unwrap();
    assert_eq!((users.len(), users.names()), (2, vec!["ann".to_owned(), "bob".to_owned()]));
    let ids = |path: &Path| {
        let contents = contents_of(path);
        let indom = contents.indom(1).unwrap();
        assert_eq!(indom.short_help.as_deref(), Some("who"));
        assert_eq!(contents.labels.len(), 1);
        let ids = indom.instances.iter().map(|one| (one.name.clone(), one.id.get()));
        ids.collect::<BTreeMap<_, _>>()
    };
    let expected = BTreeMap::from(["ann", "bob"].map(|name| (name.to_owned(), number_of(name))));
    let [first, second] = &files(&registry)[..] else { panic!("two files") };
    assert_eq!((ids(first), ids(second)), (expected.clone(), expected));
    let all = values(&registry);
    assert_eq!(all[&of("app.mood", Some("ann"))], 6);
    assert!(users.remove("ann") && !users.remove("ann"));
    let all = values(&registry);
    assert!(!all.contains_key(&of("seen", Some("ann"))));
    assert!(!all.contains_key(&of("app.mood", Some("ann"))));
    mood.with("ann", |mood| mood.set(7)).unwrap();
    registry.announce();
    assert_eq!(ids(second)["ann"], number_of("ann"));
    assert!(!ids(first).contains_key("ann"), "it has no value there");
}

#[test]
fn the_room_asked_for_is_that_of_each_file() {
    let directory = directory();
    let registry = builder(&directory).max_values(2).build().unwrap();
    let counters = ["a", "b", "c"].map(|name| registry.counter(name).build().unwrap());
    counters.iter().for_each(Counter::inc);
    assert_eq!(names_in(&directory), ["app", "app.2"]);
    assert_eq!(values(&registry)[&of("app.c", None)], 1);
    let users = registry.indom("users").build().unwrap();
    let seen: NamedFamily<Counter<u64>> = registry.counter("seen").build_named(&users).unwrap();
    seen.with("a", Counter::inc).unwrap();
    let error = seen.with("b", Counter::inc).unwrap_err();
    assert!(matches!(error, Error::Full { what: "values", max: 2, .. }), "{error}");
}

#[test]
fn a_label_of_an_instance_comes_and_goes_with_it() {
    let directory = directory();
    let registry = builder(&directory).build().unwrap();
    let users = registry.indom("users").build().unwrap();
    let seen: NamedFamily<Counter<u64>> = registry.counter("seen").build_named(&users).unwrap();
    let label = || Label::new("plan", "gold").optional();
    let error = users.label("ann", label()).unwrap_err();
    assert_eq!(error.to_string(), "label plan: indom users has no instance ann");
    seen.with("ann", Counter::inc).unwrap();
    seen.with("bob", Counter::inc).unwrap();
    users.label("bob", label()).unwrap();
    users.label("ann", Label::new("a", 1)).unwrap();
    assert!(matches!(users.label("bob", label()), Err(Error::NameTaken { .. })));
    assert!(matches!(users.label("bob", Label::new("1", 1)), Err(Error::LabelName { .. })));
    let labels = |registry: &Registry| {
        let contents = contents_of(&files(registry)[0]);
        let of_instances =
            contents.labels.iter().filter(|label| label.class == LabelClass::Instances);
        let text = of_instances.map(|label| {
            assert_eq!(label.optional, label.name == "plan");
            let instances = &contents.indom(1).unwrap().instances;
            let its = instances.iter().find(|one| Some(one.id) == label.instance).unwrap();
            format!("{} {}={}", its.name, label.name, label.json_value)
        });
        text.collect::<Vec<_>>()
    };
    assert_eq!(labels(&registry), ["bob plan=\"gold\"", "ann a=1"]);
    assert!(users.remove("bob"));
    assert_eq!(labels(&registry), ["ann a=1"]);
    // The instance is created again, without labels.
    seen.with("bob", Counter::inc).unwrap();
    assert_eq!(labels(&registry), ["ann a=1"]);
    users.label("bob", label()).unwrap();
    assert_eq!(labels(&registry), ["ann a=1", "bob plan=\"gold\""]);
}

#[test]
fn label_entry_is_reused_after_a_rest() {
    let directory = directory();
    let registry = builder(&directory).build().unwrap();
    let users = registry.indom("users").build().unwrap();
    let seen: NamedFamily<Counter<u64>> = registry.counter("seen").build_named(&users).unwrap();
    let add = |index: u32| {
        let name = format!("u{index}");
        seen.with(&name, Counter::inc).unwrap();
        users.label(&name, Label::new("index", u64::from(index)))
    };
    (0..255).try_for_each(add).unwrap();
    let error = add(255).unwrap_err();
    assert!(matches!(error, Error::Full { what: "labels", max: 255, .. }), "{error}");
    let other = registry.counter("other").label(Label::new("a", 1)).build();
    let other: Counter<u64> = other.unwrap();
    other.add(3);
    assert_eq!(values(&registry)[&of("app.other", None)], 3);
    for index in 0..100 {
        assert!(users.remove(&format!("u{index}")));
    }
    registry.announce();
    assert!(add(256).is_err(), "too soon");
    std::thread::sleep(QUARANTINE);
    (300..400).try_for_each(add).unwrap();
    assert!(add(400).is_err());
    let used = |kind| {
        registry
            .growing()
            .unwrap()
            .read()
            .registrations
            .files()
            .next()
            .unwrap()
            .store
            .file
            .used(kind)
    };
    assert_eq!(used(SectionKind::Labels), 255);
    registry.announce();
    let contents = contents_of(&files(&registry)[0]);
    let indom = contents.indom(1).unwrap();
    for label in &contents.labels {
        let its = indom.instances.iter().find(|one| Some(one.id) == label.instance).unwrap();
        assert_eq!(its.name, format!("u{}", label.json_value));
    }
    assert_eq!(contents.labels.len(), 255);
}

#[test]
fn labels_of_an_instance_are_in_each_file_that_has_it() {
    let directory = directory();
    let registry = full(directory.path());
    let users = registry.indom("users").build().unwrap();
    let late: NamedFamily<Counter<u64>> = registry.counter("late").build_named(&users).unwrap();
    late.with("ann", Counter::inc).unwrap();
    users.label("ann", Label::new("plan", "gold")).unwrap();
    for index in 0..1022 {
        let _counter: Counter<u64> = registry.counter(format!("n{index}")).build().unwrap();
    }
    let later: NamedFamily<Counter<u64>> = registry.counter("later").build_named(&users).unwrap();
    later.with("ann", Counter::inc).unwrap();
    users.label("ann", Label::new("since", 3)).unwrap();
    let labels = |contents: &Contents| {
        contents.labels.iter().map(|label| label.name.clone()).collect::<Vec<_>>()
    };
    let files = files(&registry);
    for path in &files[1..] {
        assert_eq!(labels(&contents_of(path)), ["plan", "since"]);
    }
    assert_eq!(files.len(), 3);
    assert!(users.remove("ann"));
    registry.announce();
    for path in &files {
        assert_eq!(contents_of(path).labels, []);
    }
}

#[test]
fn labels_of_all_metrics_reach_overflow_files() {
    let directory = directory();
    let registry = Registry::builder("app").directory(directory.path()).cluster(7);
    let registry = registry.overflow_cluster(9).build().unwrap();
    registry.label(Label::new("early", 1)).unwrap();
    for index in 0..1024 {
        let _counter: Counter<u64> = registry.counter(format!("m{index}")).build().unwrap();
    }
    registry.label(Label::new("late", 1)).unwrap();
    for (path, cluster) in files(&registry).iter().zip([7, 9]) {
        let contents = contents_of(path);
        let labels = contents.labels.iter().map(|label| (label.identity, &*label.name));
        assert_eq!(labels.collect::<Vec<_>>(), [(cluster, "early"), (cluster, "late")]);
    }
}

#[test]
fn histograms_and_stripes_count_in_live_files_as_in_others() {
    let directory = directory();
    let registry = Registry::builder("app").directory(directory.path()).cluster(7);
    let registry = registry.build().unwrap();
    let buckets = Buckets::new(1, 10);
    let latency = registry.histogram("latency").units(Units::nanoseconds());
    let latency = latency.isolated().buckets(buckets).build().unwrap();
    let mut size = registry.histogram("size").buckets(buckets).build_owned().unwrap();
    let hits = registry.counter("hits").build_striped(2).unwrap();
    for value in [4, 5, 5, 100] {
        latency.record(value);
    }
    size.record(1);
    hits.add(13);
    let all = values(&registry);
    let hit = |all: &BTreeMap<(String, Option<String>), u64>, metric: &str| {
        let buckets = all.iter().filter(|((name, _), _)| name == metric);
        let hit = buckets.filter(|(_, count)| **count != u64::MAX);
        hit.map(|((_, bucket), count)| (bucket.clone().unwrap(), *count)).collect::<Vec<_>>()
    };
    let expected = [("12..".to_owned(), 1), ("4..5".to_owned(), 3)];
    assert_eq!(hit(&all, "latency.bucket"), expected);
    assert_eq!(hit(&all, "size.bucket"), [("1..1".to_owned(), 1)]);
    assert_eq!((all[&of("latency.sum", None)], all[&of("size.sum", None)]), (114, 1));
    let stripes = ["0", "1", "shared"].map(|stripe| all[&of("hits", Some(stripe))]);
    assert_eq!(stripes.iter().sum::<u64>(), 13);
    let contents = contents_of(&files(&registry)[0]);
    let labels: Vec<_> = contents.labels.iter().map(|label| label.name.as_str()).collect();
    assert_eq!(labels, ["bucket_precision", "bucket_max", "histogram", "histogram"]);
    let lines: Vec<_> = contents.values_of(0).map(|value| value.cell / 64).collect();
    assert!(lines.is_sorted_by(|one, next| one < next), "isolated");
}

#[test]
fn histogram_is_registered_with_buckets_in_overflow_file() {
    let directory = directory();
    let registry = full(directory.path());
    let buckets = Buckets::new(0, 3);
    let taken: Counter<u64> = registry.counter("taken.sum").build().unwrap();
    let error = registry.histogram("taken").buckets(buckets).build().unwrap_err();
    assert!(matches!(error, Error::NameTaken { .. }), "{error}");
    taken.inc();
    for index in 0..1021 {
        let _counter: Counter<u64> = registry.counter(format!("n{index}")).build().unwrap();
    }
    let size = registry.histogram("size").buckets(buckets).build().unwrap();
    size.record(2);
    let all = files(&registry);
    let names = |path: &Path| {
        let metrics = contents_of(path).metrics;
        metrics.iter().map(|metric| metric.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&all[1]).len(), 1022);
    assert_eq!(names(&all[2]), ["app.size.bucket", "app.size.sum"]);
    let values = values(&registry);
    assert_eq!(values[&of("app.size.bucket", Some("2..3"))], 1);
    assert_eq!(contents_of(&all[2]).labels.len(), 3);
}
