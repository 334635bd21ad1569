//! Recording a value in a histogram, next to adding to a counter.

use std::hint::black_box;
use std::time::Instant;

use mmv_writer::{Buckets, Registry};

const ROUNDS: usize = 31;
const VALUES: usize = 100_000;

pub(crate) fn report() {
    let directory = tempfile::tempdir().expect("a directory");
    let registry = Registry::builder("bench").sealed().directory(directory.path()).build();
    let registry = registry.expect("a registry");
    let buckets = Buckets::new(4, 100_000_000_000);
    let counter = registry.counter("counter").build().expect("a metric");
    let shared = registry.histogram("shared").buckets(buckets).build().expect("a metric");
    let owned = registry.histogram("owned").buckets(buckets).build_owned();
    let mut owned = owned.expect("a metric");
    let _published = registry.publish().expect("a file");
    // Microseconds to milliseconds, as latencies are, in an order without pattern.
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (1 << (10 + (state >> 60))) + (state >> 33) % 1000
    };
    let values: Vec<u64> = (0..VALUES).map(|_| next()).collect();
    println!("{:60} {:>9} {:>9}  target", "a value recorded: ns a call", "median", "best");
    super::row("shared counter, add", timed(&values, |value| counter.add(value)), "");
    super::row("histogram", timed(&values, |value| shared.record(value)), "2.2 x that");
    super::row("owned histogram", timed(&values, |value| owned.record(value)), "2");
    assert_eq!(owned.count(), (ROUNDS * VALUES) as u64);
}

fn timed(values: &[u64], mut record: impl FnMut(u64)) -> (f64, f64) {
    super::rounds(ROUNDS, || {
        let start = Instant::now();
        for value in values {
            record(black_box(*value));
        }
        start.elapsed().as_nanos() as f64 / values.len() as f64
    })
}
