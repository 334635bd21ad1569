//! The registry of a program's statics. One test, since a program has one such registry.

use std::path::Path;

use mmv_format::view::Contents;
use mmv_writer::{Counter, LiveRegistry, Registry, Static, Units};
use tempfile::TempDir;

fn live(directory: &TempDir) -> LiveRegistry {
    Registry::builder("app").directory(directory.path()).live().build().unwrap()
}

/// The names of the metrics, and the cells of singular ones.
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

#[test]
fn statics_are_in_the_installed_registry_with_what_they_counted_before() {
    static EARLY: Static<Counter<u64>> = Static::counter("early").units(Units::count());
    static LATE: Static<Counter<u64>> = Static::counter("late").help("after all");
    static NEVER: Static<Counter<u64>> = Static::counter("never");
    static TAKEN: Static<Counter<u64>> = Static::counter("early");
    static AFTER: Static<Counter<u64>> = Static::counter("after");
    let directory = tempfile::tempdir().unwrap();
    EARLY.add(5);
    EARLY.inc();
    let installed = live(&directory).install().unwrap();
    let path = installed.registry().published().path().to_owned();
    let announced = || {
        installed.registry().announce();
        values(&path)
    };
    assert_eq!(announced(), [value("early", 6)]);
    EARLY.add(4);
    LATE.inc();
    assert_eq!(announced(), [value("early", 10), value("late", 1)]);
    assert_eq!((NEVER.name(), EARLY.value()), ("never", 10));
    // One whose name is taken counts without readers.
    TAKEN.inc();
    TAKEN.inc();
    assert_eq!((TAKEN.value(), announced().len()), (2, 2));
    let error = live(&tempfile::tempdir().unwrap()).install().map(drop).unwrap_err();
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    drop(installed);
    assert!(!path.exists());
    EARLY.inc();
    AFTER.inc();
    assert_eq!((EARLY.value(), AFTER.value()), (11, 1));
    // One that was used in between waits for the next registry; the others stay.
    let installed = live(&directory).install().unwrap();
    installed.registry().announce();
    assert_eq!(values(installed.registry().published().path()), [value("after", 1)]);
}
