//! The registry of a program's statics.

use std::path::Path;

use mmv_format::view::Contents;
use mmv_writer::{Counter, Registry, RegistryBuilder, Units};
use tempfile::TempDir;

use crate::child::running;

fn builder(directory: &TempDir) -> RegistryBuilder {
    Registry::builder("app").directory(directory.path())
}

fn values(path: &Path) -> Vec<(String, u64)> {
    let bytes = std::fs::read(path).unwrap();
    let contents = Contents::parse(&bytes).unwrap();
    let values = contents.values.iter().filter(|value| value.instance.is_none());
    let cell = |at: u64| u64::from_ne_bytes(bytes[at as usize..][..8].try_into().unwrap());
    let named = values.map(|value| (contents.metrics[value.metric].name.clone(), cell(value.cell)));
    named.collect()
}

fn value(name: &str, value: u64) -> (String, u64) {
    (name.to_owned(), value)
}

/// Other tests make registries, of which the first one would take the statics.
#[test]
fn statics_bring_earlier_counts_into_the_registry() {
    let status = running("statics::program").status().unwrap();
    assert!(status.success());
}

#[test]
#[ignore = "run by the test above"]
fn program() {
    static EARLY: Counter = Counter::new("early").units(Units::count());
    static LATE: Counter = Counter::new("late").help("after all");
    static NEVER: Counter = Counter::new("never");
    static TAKEN: Counter = Counter::new("early");
    static AFTER: Counter = Counter::new("after");
    let directory = tempfile::tempdir().unwrap();
    EARLY.add(5);
    EARLY.inc();
    let registry = builder(&directory).build().unwrap();
    let path = registry.path().to_owned();
    let announced = || {
        registry.announce();
        values(&path)
    };
    assert_eq!(announced(), [value("early", 6)]);
    EARLY.add(4);
    LATE.inc();
    assert_eq!(announced(), [value("early", 10), value("late", 1)]);
    assert_eq!((format!("{NEVER:?}").contains("never"), EARLY.value()), (true, 10));
    // One whose name is taken counts without readers.
    TAKEN.inc();
    TAKEN.inc();
    assert_eq!((TAKEN.value(), announced().len()), (2, 2));
    // Neither a second registry nor a sealed one takes them.
    let second = builder(&tempfile::tempdir().unwrap()).build().unwrap();
    let sealed = builder(&tempfile::tempdir().unwrap()).sealed().build().unwrap();
    drop((second, sealed));
    drop(registry);
    assert!(!path.exists(), "statics do not keep the file");
    EARLY.inc();
    AFTER.inc();
    assert_eq!((EARLY.value(), AFTER.value()), (11, 1));
    // One that was used in between waits for the next registry; the others stay.
    let registry = builder(&directory).build().unwrap();
    registry.announce();
    assert_eq!(values(registry.path()), [value("after", 1)]);
}
