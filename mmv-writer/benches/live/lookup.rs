//! An instance by name, among 10 000 that are there.

use std::hint::black_box;
use std::time::Instant;

use mmv_writer::pcp::{IndomMetricExt as _, NamedFamily, RegistryExt as _};
use mmv_writer::{Counter, Registry};

const INSTANCES: usize = 10_000;
const ROUNDS: usize = 31;
const PASSES: usize = 10;

type Ask<'a> = &'a (dyn Fn(&str) + Sync);

/// All names in random order, adjacent in memory, as a program finds them in input
/// that it just read.
struct Asked {
    text: String,
    ends: Vec<usize>,
}

impl Asked {
    fn new() -> Self {
        let mut asked = Self { text: String::new(), ends: vec![0] };
        for index in 0..INSTANCES {
            // A prime that does not divide the number of instances: each comes once.
            asked.text += &name(index * 7919 % INSTANCES);
            asked.ends.push(asked.text.len());
        }
        asked
    }

    /// Each name once, beginning with that of an index.
    fn each(&self, from: usize, mut ask: impl FnMut(&str)) {
        for index in (from..INSTANCES).chain(0..from) {
            if let [start, end, ..] = self.ends[index..] {
                ask(&self.text[start..end]);
            }
        }
    }
}

fn name(index: usize) -> String {
    format!("/path/{index}")
}

pub(crate) fn report() {
    let directory = tempfile::tempdir().expect("a directory");
    let registry = Registry::builder("bench").directory(directory.path()).build();
    let registry = registry.expect("a registry");
    let paths = registry.indom("paths").build().expect("a domain");
    let hits = registry.counter("hits").build_named(&paths).expect("a metric");
    for index in 0..INSTANCES {
        hits.with(&name(index), Counter::inc).expect("an instance");
    }
    let asked = Asked::new();
    println!(
        "{:60} {:>9} {:>9}  target",
        "an instance by name, of 10 000: ns a call", "median", "best"
    );
    for threads in [1, 2] {
        let target = if threads == 1 { "40" } else { "60" };
        let nothing = |name: &str| _ = black_box(name);
        let borrowed = |name: &str| hits.with(name, |handle| _ = black_box(handle)).expect("there");
        let counted = |name: &str| hits.with(name, Counter::inc).expect("there");
        let cloned = |name: &str| drop(black_box(hits.get_or_create(name).expect("there")));
        let rows: [(&str, Ask, &str); 4] = [
            ("nothing but the loop", &nothing, ""),
            ("with: the handle is borrowed", &borrowed, target),
            ("with: one is added to its counter", &counted, ""),
            ("get_or_create: the handle is cloned and dropped", &cloned, ""),
        ];
        for (what, ask, target) in rows {
            let times = super::rounds(ROUNDS, || timed(&asked, threads, ask));
            super::row(&format!("{what}, {threads} threads"), times, target);
        }
    }
    check(&hits);
}

/// Nanoseconds a call, with all threads at it.
fn timed(asked: &Asked, threads: usize, ask: Ask) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for _ in 0..PASSES {
                    asked.each(thread * INSTANCES / threads, ask);
                }
            });
        }
    });
    start.elapsed().as_nanos() as f64 / (PASSES * INSTANCES) as f64
}

fn check(hits: &NamedFamily<Counter<u64>>) {
    let counted = 1 + ROUNDS * PASSES * 3; // One thread, then two.
    let count = hits.get(&name(INSTANCES - 1)).map(|handle| handle.value());
    assert_eq!(count, Some(counted as u64));
}
