//! An instance of a sealed registry by name, and one of a live registry by labels.

use std::hint::black_box;
use std::time::Instant;

use mmv_writer::pcp::{IndomMetricExt as _, RegistryExt as _};
use mmv_writer::{Counter, Family, Labels, Registry};

const ROUNDS: usize = 15;
const CALLS: usize = 2_000;

pub(crate) fn report() {
    println!("{:60} {:>9} {:>9}  target", "Instances::by_name: ns a call", "median", "best");
    for count in [10, 1_000, 10_000] {
        let directory = tempfile::tempdir().expect("a directory");
        let registry = Registry::builder("bench").sealed().directory(directory.path()).build();
        let registry = registry.expect("a registry");
        let names: Vec<String> = (0..count).map(|index| format!("/path/{index}")).collect();
        let paths = registry.indom("paths").names(names.iter().map(String::as_str)).build();
        let hits = registry.counter("hits").build_instances(&paths.expect("a domain"));
        let hits = hits.expect("a metric");
        let times = super::rounds(ROUNDS, || {
            let start = Instant::now();
            for call in 0..CALLS {
                // A prime that divides none of the counts: the order has no pattern.
                let name = black_box(names[call * 7919 % count].as_str());
                hits.by_name(name).expect("an instance").inc();
            }
            start.elapsed().as_nanos() as f64 / CALLS as f64
        });
        super::row(&format!("{count} instances"), times, "40");
        let sum: u64 = hits.iter().map(Counter::value).sum();
        assert_eq!(sum, (ROUNDS * CALLS) as u64);
    }
    labelled();
}

#[derive(Labels, Clone, PartialEq, Eq, Hash)]
struct Request {
    path: u32,
    code: u32,
}

fn labelled() {
    let directory = tempfile::tempdir().expect("a directory");
    let registry = Registry::builder("bench").directory(directory.path()).build();
    let registry = registry.expect("a registry");
    let hits: Family<Request> = registry.counter("hits").build_family().expect("a metric");
    let labels = |call: usize| {
        let set = (call * 7919 % 10_000) as u32;
        Request { path: set / 100, code: set % 100 }
    };
    for call in 0..10_000 {
        hits.with(&labels(call), |_| ());
    }
    let times = super::rounds(ROUNDS, || {
        let start = Instant::now();
        for call in 0..CALLS {
            hits.with(black_box(&labels(call)), Counter::inc);
        }
        start.elapsed().as_nanos() as f64 / CALLS as f64
    });
    super::row("Family::with, 10 000 sets of 2 labels", times, "100");
    assert_eq!(hits.get(&labels(0)).value(), ROUNDS as u64);
}
