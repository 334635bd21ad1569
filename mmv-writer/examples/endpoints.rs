//! A server with three endpoints: how many requests each has, and how long they take.
//! Every request is also written to a log, to compare the metrics with.
//!
//! ```text
//! cargo run -p mmv-writer --example endpoints -- LOG [SECONDS]
//! ```
//!
//! A line of the log has the time of the answer in nanoseconds since 1970, the endpoint
//! and the duration in nanoseconds.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mmv_writer::pcp::{IndomMetricExt as _, RegistryExt as _};
use mmv_writer::{Buckets, Counter, Registry, Units};

const ENDPOINTS: [&str; 3] = ["cart", "search", "checkout"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let log = arguments.next().ok_or("usage: endpoints LOG [SECONDS]")?;
    let seconds = arguments.next().map_or(Ok(60), |seconds| seconds.parse())?;
    let mut log = BufWriter::new(File::options().create(true).append(true).open(log)?);

    let registry = Registry::builder("endpoints").sealed().build()?;
    let endpoints = registry.indom("endpoints").names(ENDPOINTS).build()?;
    let requests = registry.counter("requests").units(Units::count());
    let requests = requests.help("requests answered").build_instances(&endpoints)?;
    // Up to a minute, to 3 %.
    let buckets = Buckets::new(4, 60_000_000_000);
    let latency = registry.histogram("latency").units(Units::nanoseconds());
    let latency = latency.help("time to answer").buckets(buckets).build()?;
    registry.publish()?;

    let end = Instant::now() + Duration::from_secs(seconds);
    for turn in 0_u64.. {
        let start = Instant::now();
        if start >= end {
            break;
        }
        // Most requests are searches, one in a hundred is slow.
        let endpoint = ENDPOINTS[[1, 0, 1, 1, 2, 1][turn as usize % 6]];
        sleep(Duration::from_micros(if turn % 100 == 99 { 30_000 } else { 1_000 + turn % 500 }));
        let duration = start.elapsed();
        latency.record_duration(duration);
        requests.by_name(endpoint).map(Counter::inc);
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        writeln!(log, "{} {endpoint} {}", now.as_nanos(), duration.as_nanos())?;
        log.flush()?;
    }
    Ok(())
}
