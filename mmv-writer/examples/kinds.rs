//! One metric of every kind, changed once a second.
//!
//! ```text
//! cargo run -p mmv-writer --example kinds -- [DIRECTORY] [SECONDS]
//! ```
//!
//! Without a directory the file `kinds` goes to this machine's MMV directory.

use std::thread::sleep;
use std::time::{Duration, Instant};

use mmv_writer::pcp::{Elapsed, IndomMetricExt as _, RegistryExt as _};
use mmv_writer::{Buckets, Gauge, Registry, Units};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut options = Registry::builder("kinds");
    if let Some(directory) = arguments.next() {
        options = options.directory(directory);
    }
    let seconds = arguments.next().map_or(Ok(60), |seconds| seconds.parse())?;

    let registry = options.sealed().build()?;
    let queues = registry.indom("queues").names(["in", "out"]).build()?;
    let events = registry.counter("events").units(Units::count()).build()?;
    let depth = registry.metric::<Gauge<i32>>("depth").isolated().build_instances(&queues)?;
    let limit = registry.discrete::<f64>("limit").optional().build()?;
    let mode = registry.text("mode").help("even or odd").build()?;
    let mut busy = registry.metric::<Elapsed>("busy").help("seen while it runs").build()?;
    let work = registry.timer("work.time").build()?;
    let hits = registry.counter("hits").units(Units::count()).build_striped(2)?;
    let buckets = Buckets::new(3, 10_000_000_000);
    let latency = registry.histogram("latency").units(Units::nanoseconds());
    let latency = latency.buckets(buckets).build()?;
    registry.publish()?;

    for second in 0..seconds {
        events.inc();
        depth.iter().for_each(|queue| queue.set(second % 7));
        mode.set(if second % 2 == 0 { "even" } else { "odd" });
        if second % 10 == 5 {
            limit.set(0.5);
        } else {
            limit.clear();
        }
        let _busy = busy.start();
        hits.add(100);
        let start = Instant::now();
        work.time(|| sleep(Duration::from_secs(1)));
        latency.record(start.elapsed().as_nanos() as u64);
    }
    Ok(())
}
