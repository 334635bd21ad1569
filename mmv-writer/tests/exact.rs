//! No increment is lost: what many threads count is what the file says.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;

use mmv_writer::view::{Contents, Limits};
use mmv_writer::{Counter, Registry};

/// Increments of each thread.
const EACH: u64 = 10_000_000;

/// The value of a singular metric, read from the file as a stranger would.
fn value(path: &Path, metric: &str) -> u64 {
    let file = File::open(path).unwrap();
    let contents = Contents::read(&file, &Limits::default()).unwrap();
    let index = contents.metrics.iter().position(|found| found.name == metric).unwrap();
    let cell = contents.values_of(index).next().unwrap().cell;
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, cell).unwrap();
    u64::from_ne_bytes(bytes)
}

fn count_together(counter: &Counter<u64>, threads: u64) {
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| (0..EACH).for_each(|_| counter.inc()));
        }
    });
}

#[test]
fn two_and_eight_threads_on_one_counter_of_a_sealed_file() {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::builder("app").directory(directory.path()).build().unwrap();
    let counter = registry.counter::<u64>("count").build().unwrap();
    let published = registry.publish().unwrap();
    count_together(&counter, 2);
    assert_eq!(value(published.path(), "count"), 2 * EACH);
    count_together(&counter, 8);
    assert_eq!(value(published.path(), "count"), 10 * EACH);
}

#[test]
fn eight_threads_on_a_counter_made_at_run_time_while_instances_come_and_go() {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::builder("app").directory(directory.path()).live().build().unwrap();
    let things = registry.indom("things").build().unwrap();
    let family = registry.counter::<u64>("thing").build_family(&things).unwrap();
    let counter = registry.counter::<u64>("count").build().unwrap();
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
    assert_eq!(value(registry.published().path(), "count"), 8 * EACH);
    assert_eq!(things.len(), 10_000 - 3_333);
}
