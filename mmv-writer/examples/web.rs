//! A web worker with threads: what each request took as a histogram, of which any
//! quantile over any time can be read, and what the threads do.
//!
//! ```text
//! cargo run -p mmv-writer --example web -- [DIRECTORY] [SECONDS]
//! ```
//!
//! Without a directory the file `web` goes to this machine's MMV directory. Works,
//! unseen, also where no file can be made.

use std::thread;
use std::time::{Duration, Instant};

use mmv_writer::pcp::{IndomMetricExt as _, Instances, RegistryExt as _};
use mmv_writer::{Buckets, Counter, Error, Gauge, Histogram, Registry, Units};

const THREADS: usize = 4;
const CODES: [&str; 3] = ["200", "404", "500"];

/// What is counted. Clones, one for each thread, count in the same places.
#[derive(Debug, Clone)]
struct Metrics {
    /// A place for each thread, so for the cost of a store.
    bytes: Counter,
    answered: Instances<Counter<u64>>,
    busy: Gauge<i64>,
    latency: Histogram,
}

impl Metrics {
    fn register(registry: &Registry) -> Result<Self, Error> {
        let codes = registry.indom("codes").names(CODES).help("codes of answers").build()?;
        let bytes = registry.counter("bytes.sent").units(Units::bytes());
        let answered = registry.counter("requests.answered").units(Units::count());
        let busy = registry.metric("threads.busy").help("threads that have a request");
        let latency = registry.histogram("requests.latency").units(Units::nanoseconds());
        Ok(Self {
            bytes: bytes.build_striped(THREADS)?,
            answered: answered.build_instances(&codes)?,
            busy: busy.build()?,
            // Up to a minute, to 6 %.
            latency: latency
                .help("time to answer")
                .buckets(Buckets::new(3, 60_000_000_000))
                .build()?,
        })
    }
}

fn work(metrics: &Metrics, end: Instant) {
    let mut turn = 0;
    while Instant::now() < end {
        turn += 1;
        metrics.busy.add(1);
        let start = Instant::now();
        thread::sleep(Duration::from_micros(500 + 37 * (turn % 61)));
        metrics.latency.record(start.elapsed().as_nanos() as u64);
        metrics.busy.sub(1);
        metrics.bytes.add(512 * (1 + turn % 8));
        let code = CODES[if turn % 100 == 0 { 2 } else { usize::from(turn % 20 == 0) }];
        if let Some(answered) = metrics.answered.by_name(code) {
            answered.inc();
        }
    }
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let mut options = Registry::builder("web");
    if let Some(directory) = arguments.next() {
        options = options.directory(directory);
    }
    let seconds = arguments.next().and_then(|seconds| seconds.parse().ok()).unwrap_or(60);

    let registry = options.sealed().lenient().build()?;
    let metrics = Metrics::register(&registry)?;
    registry.publish()?;

    let end = Instant::now() + Duration::from_secs(seconds);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| work(&metrics, end));
        }
    });
    let (count, sum) = (metrics.latency.count(), metrics.latency.sum());
    println!("{count} requests, {} us on average", sum / count.max(1) / 1000);
    Ok(())
}
