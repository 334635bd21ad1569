//! An instance of a sealed registry by name, and one of a live registry by labels.

use std::hint::black_box;
use std::time::Instant;

use mmv_writer::{Counter, Registry};

const ROUNDS: usize = 15;
const CALLS: usize = 2_000;

pub(crate) fn report() {
    println!("{:60} {:>9} {:>9}  target", "Instances::by_name: ns a call", "median", "best");
    for count in [10, 1_000, 10_000] {
        let directory = tempfile::tempdir().expect("a directory");
        let registry = Registry::builder("bench").directory(directory.path()).build();
        let registry = registry.expect("a registry");
        let names: Vec<String> = (0..count).map(|index| format!("/path/{index}")).collect();
        let paths = registry.indom("paths").names(names.iter().map(String::as_str)).build();
        let hits = registry.counter::<u64>("hits").build_instances(&paths.expect("a domain"));
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

/// One of 10 000 sets of two label values.
fn labelled() {
    let directory = tempfile::tempdir().expect("a directory");
    let registry = Registry::builder("bench").directory(directory.path()).live().build();
    let registry = registry.expect("a registry");
    let requests = registry.indom("requests").build_labelled(["path", "code"]).expect("a domain");
    let hits = registry.counter::<u64>("hits").build_labelled(&requests).expect("a metric");
    let texts: Vec<String> = (0..100).map(|index| index.to_string()).collect();
    let values = |call: usize| {
        let set = call * 7919 % 10_000;
        [texts[set / 100].as_str(), texts[set % 100].as_str()]
    };
    for call in 0..10_000 {
        hits.with(values(call), |_| ()).expect("an instance");
    }
    let times = super::rounds(ROUNDS, || {
        let start = Instant::now();
        for call in 0..CALLS {
            hits.with(black_box(values(call)), Counter::inc).expect("an instance");
        }
        start.elapsed().as_nanos() as f64 / CALLS as f64
    });
    super::row("LabelledFamily::with, 10 000 sets of 2 values", times, "100");
    assert_eq!(hits.get(values(0)).map(|hit| hit.value()), Some(ROUNDS as u64));
}
