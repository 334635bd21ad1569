//! An instance of a sealed registry by name.

use std::hint::black_box;
use std::time::Instant;

use mmv_writer::Registry;

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
        let sum: u64 = hits.iter().map(mmv_writer::Counter::value).sum();
        assert_eq!(sum, (ROUNDS * CALLS) as u64);
    }
}
