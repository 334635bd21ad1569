//! Checks that no increment is lost: another process reads what many threads count.
//!
//! `MMV_LONG` in the environment asks for the full number of increments.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::thread;

use mmv_format::mapping::ReadMapping;
use mmv_format::view::{Contents, Limits, Refusal};
use mmv_writer::pcp::{IndomMetricExt as _, RegistryExt as _};
use mmv_writer::{Counter, Registry};

use crate::child;

fn each() -> u64 {
    if std::env::var_os("MMV_LONG").is_some() { 10_000_000 } else { 1_000_000 }
}

/// Returns the value of a singular metric, as another process sees it in its own mapping.
fn value(path: &Path, metric: &str) -> u64 {
    let mut reader = child::running("exact::reads_a_value");
    reader.env("MMV_TEST_FILE", path).env("MMV_TEST_METRIC", metric);
    // The test runner talks on standard output.
    let output = reader.stdout(Stdio::null()).output().unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    printed.trim().parse().unwrap_or_else(|_| panic!("{printed}"))
}

#[test]
#[ignore = "the other process of the other tests"]
fn reads_a_value() {
    let Some(path) = std::env::var_os("MMV_TEST_FILE") else { return };
    let metric = std::env::var("MMV_TEST_METRIC").unwrap();
    let file = File::open(path).unwrap();
    let contents = loop {
        match Contents::read(&file, &Limits::default()) {
            Err(Refusal::Changed { .. } | Refusal::NotReady { .. } | Refusal::Grew { .. }) => {}
            contents => break contents.unwrap(),
        }
    };
    let index = contents.metrics.iter().position(|found| found.name == metric).unwrap();
    let cell = contents.values_of(index).next().unwrap().cell;
    let mapping = ReadMapping::map(&file).unwrap();
    eprintln!("{}", mapping.load_u64(cell as usize).unwrap());
}

fn count_together(counter: &Counter<u64>, threads: u64) {
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| (0..each()).for_each(|_| counter.inc()));
        }
    });
}

#[test]
fn two_and_eight_threads_on_one_counter_of_a_sealed_file() {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::builder("app").sealed().directory(directory.path()).build().unwrap();
    let counter = registry.counter("count").build().unwrap();
    registry.publish().unwrap();
    count_together(&counter, 2);
    assert_eq!(value(registry.path(), "count"), 2 * each());
    count_together(&counter, 8);
    assert_eq!(value(registry.path(), "count"), 10 * each());
}

#[test]
fn eight_threads_count_while_instances_come_and_go() {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::builder("app").directory(directory.path()).build().unwrap();
    let things = registry.indom("things").build().unwrap();
    let family = registry.counter("thing").build_named(&things).unwrap();
    let counter = registry.counter("count").build().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| count_together(&counter, 8));
        for number in 0..10_000 {
            family.get_or_create(&number.to_string()).unwrap().inc();
            if number % 3 == 2 {
                assert!(things.remove(&(number - 1).to_string()));
            }
        }
    });
    registry.announce();
    assert_eq!(value(registry.path(), "count"), 8 * each());
    assert_eq!(things.len(), 10_000 - 3_333);
}
