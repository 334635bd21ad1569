//! A name has the same number in every kind of registry and in every run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use mmv_format::view::{Contents, Limits};
use mmv_writer::pcp::{IndomMetricExt as _, NamedFamily, RegistryExt as _};
use mmv_writer::{Buckets, Counter, Family, Labels, Registry};
use proptest::prelude::*;

type Numbers = BTreeMap<String, i32>;

/// Two names with one hash, found among `tenant-0`, `tenant-1` and so on.
const COLLIDING: [&str; 2] = ["tenant-180400", "tenant-97018"];

fn numbers_in(path: &Path) -> Numbers {
    let contents = Contents::read(&File::open(path).unwrap(), &Limits::default()).unwrap();
    assert_eq!(contents.skipped, []);
    let [indom] = &contents.indoms[..] else { panic!("{:?}", contents.indoms) };
    indom.instances.iter().map(|instance| (instance.name.clone(), instance.id.get())).collect()
}

fn files_of(registry: &Registry) -> impl Iterator<Item = PathBuf> {
    [registry.path().to_owned()].into_iter().chain(registry.overflow())
}

#[derive(Labels, Clone, PartialEq, Eq, Hash)]
struct Request {
    method: &'static str,
    code: u16,
}

fn sealed(names: &[&str]) -> Numbers {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::builder("app").sealed().directory(directory.path()).build().unwrap();
    let domain = registry.indom("names").names(names.iter().copied()).build().unwrap();
    drop(registry.counter("count").build_instances(&domain).unwrap());
    registry.publish().unwrap();
    numbers_in(registry.path())
}

fn live(names: &[&str]) -> Numbers {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::builder("app").directory(directory.path()).build().unwrap();
    let domain = registry.indom("names").build().unwrap();
    let family: NamedFamily<Counter<u64>> = registry.counter("count").build_named(&domain).unwrap();
    for name in names {
        family.with(name, Counter::inc).unwrap();
    }
    registry.announce();
    numbers_in(registry.path())
}

#[test]
fn registries_of_all_kinds_give_a_name_one_number() {
    let names = ["ann", "bob", "/index.html", "\u{e9}"];
    let expected = Numbers::from(
        [
            ("ann", 355_060_760),
            ("bob", 113_680_597),
            ("/index.html", 1_165_777_521),
            ("\u{e9}", 513_665_217),
        ]
        .map(|(name, number)| (name.to_owned(), number)),
    );
    let backwards: Vec<&str> = names.iter().rev().copied().collect();
    assert_eq!(sealed(&names), expected);
    assert_eq!(sealed(&backwards), expected);
    assert_eq!(live(&names), expected);
    assert_eq!(live(&backwards), expected);
}

#[test]
fn a_name_has_its_number_in_overflow_files_too() {
    let directory = tempfile::tempdir().unwrap();
    let names = ["ann", "bob"];
    let registry =
        Registry::builder("sealed").sealed().directory(directory.path()).build().unwrap();
    let domain = registry.indom("names").names(names).build().unwrap();
    for index in 0..1100 {
        let count = registry.counter(format!("m{index}"));
        drop(count.build_instances(&domain).unwrap());
    }
    registry.publish().unwrap();
    assert_eq!(registry.overflow().len(), 1);
    for path in files_of(&registry) {
        assert_eq!(numbers_in(&path), sealed(&names));
    }

    let registry = Registry::builder("live").directory(directory.path()).build().unwrap();
    let domain = registry.indom("names").build().unwrap();
    for index in 0..1100 {
        let count = registry.counter(format!("m{index}"));
        let family: NamedFamily<Counter<u64>> = count.build_named(&domain).unwrap();
        for name in if index % 2 == 0 { ["ann", "bob"] } else { ["bob", "ann"] } {
            family.with(name, Counter::inc).unwrap();
        }
    }
    registry.announce();
    let overflow = registry.overflow();
    assert_eq!(overflow.len(), 1);
    for path in [registry.path(), &overflow[0]] {
        assert_eq!(numbers_in(path), sealed(&names));
    }
}

#[test]
fn sets_of_labels_are_numbered_by_the_names_of_their_instances() {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::builder("app").directory(directory.path()).build().unwrap();
    let count: Family<Request> = registry.counter("requests").build_family().unwrap();
    count.get(&Request { method: "PUT", code: 404 }).inc();
    count.get(&Request { method: "GET", code: 200 }).inc();
    registry.announce();
    let expected = sealed(&["method=GET,code=200", "method=PUT,code=404"]);
    assert_eq!(numbers_in(registry.path()), expected);
}

#[test]
fn an_instance_that_is_removed_returns_under_its_number() {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::builder("app").directory(directory.path()).build().unwrap();
    let domain = registry.indom("names").build().unwrap();
    let family: NamedFamily<Counter<u64>> = registry.counter("count").build_named(&domain).unwrap();
    let old = family.get_or_create("ann").unwrap();
    for name in ["bob", "eve"] {
        family.with(name, Counter::inc).unwrap();
    }
    for name in ["ann", "eve", "bob"] {
        assert!(domain.remove(name));
    }
    for name in ["eve", "ann", "bob"] {
        family.with(name, Counter::inc).unwrap();
    }
    old.inc();
    registry.announce();
    assert_eq!(numbers_in(registry.path()), sealed(&["ann", "bob", "eve"]));
}

#[test]
fn of_two_names_with_one_hash_each_has_a_number_of_its_own() {
    let [one, other] = COLLIDING;
    let first = Numbers::from([(one.to_owned(), 1_994_931_301), (other.to_owned(), 1_846_970_376)]);
    assert_eq!(sealed(&[one, other]), first);
    assert_eq!(sealed(&[other, one]), first, "by the names alone");
    assert_eq!(live(&[one, other]), first);
    let second = Numbers::from([(one.to_owned(), 466_679_454), (other.to_owned(), 1_994_931_301)]);
    assert_eq!(live(&[other, one]), second, "the first one has the number of both");
}

#[test]
fn stated_number_is_never_that_of_another_name() {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::builder("app").sealed().directory(directory.path()).build().unwrap();
    let hashed = sealed(&["ann"])["ann"];
    let domain = registry.indom("names").names(["ann", "eve"]).instance(hashed, "bob");
    let domain = domain.build().unwrap();
    let numbers: Numbers =
        domain.instances().iter().map(|(id, name)| (name.clone(), id.get())).collect();
    assert_eq!(numbers["bob"], hashed);
    assert_eq!(numbers["eve"], sealed(&["eve"])["eve"]);
    assert_ne!(numbers["ann"], hashed);
}

fn serials_in(path: &Path) -> BTreeMap<String, u32> {
    let contents = Contents::read(&File::open(path).unwrap(), &Limits::default()).unwrap();
    let metrics = contents.metrics.iter();
    metrics.filter_map(|metric| Some((metric.name.clone(), metric.indom?))).collect()
}

#[test]
fn domains_registered_on_use_keep_their_serials() {
    let serials = |names: [&str; 4]| {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::builder("app").directory(directory.path());
        let registry = registry.build().unwrap();
        for name in names {
            if let Some(precision) = name.strip_prefix("buckets") {
                let buckets = Buckets::new(precision.parse().unwrap(), 1000);
                drop(registry.histogram(name).buckets(buckets).build().unwrap());
            } else {
                let domain = registry.indom("domain").serial_from(name).build().unwrap();
                let family: NamedFamily<Counter<u64>> =
                    registry.counter(name).build_named(&domain).unwrap();
                family.with("ann", Counter::inc).unwrap();
            }
        }
        registry.announce();
        serials_in(registry.path())
    };
    let first = serials(["requests", "sessions", "buckets1", "buckets2"]);
    let second = serials(["buckets2", "sessions", "buckets1", "requests"]);
    assert_eq!(first, second);
    assert_eq!(first["requests"], 538);
    let different: BTreeSet<u32> = first.values().copied().collect();
    assert_eq!(different.len(), 4, "{first:?}");
}

#[test]
fn a_domain_whose_serial_another_one_has_gets_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::builder("app").sealed().directory(directory.path()).build().unwrap();
    let serial = |text: &str| registry.indom("d").serial_from(text).build().unwrap().serial();
    // Found among `requests0`, `requests1` and so on, and `last0` and so on.
    assert_eq!([serial("requests29"), serial("requests80")], [1500, 1501]);
    assert_eq!([serial("last4161"), serial("last4161")], [2047, 1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn the_order_of_first_use_does_not_matter(
        names in proptest::collection::hash_set("[a-zA-Z0-9/ =,]{1,70}", 1..40),
        with_collision in any::<bool>(),
    ) {
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        let expected = live(&names);
        prop_assert_eq!(&sealed(&names), &expected);
        names.sort_unstable();
        prop_assert_eq!(&live(&names), &expected);
        if with_collision {
            names.extend(COLLIDING);
        }
        let forwards = sealed(&names);
        names.reverse();
        prop_assert_eq!(sealed(&names), forwards);
    }
}
