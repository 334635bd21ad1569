//! A program that counts through the `metrics` facade.
//!
//! ```text
//! cargo run -p mmv-metrics --example shop -- [DIRECTORY] [SECONDS]
//! ```
//!
//! Without a directory the file `shop` goes to this machine's MMV directory, where
//! pmcd (`pminfo -f mmv.shop`) and `mmv-agent run` find it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use metrics::{Unit, counter, describe_counter, describe_histogram, gauge, histogram};
use mmv_metrics::Recorder;
use mmv_writer::Registry;

const PATHS: [&str; 3] = ["/", "/cart", "/checkout"];

/// What a library does, which knows of the facade only.
fn serve(path: &'static str, turn: usize) {
    let start = Instant::now();
    sleep(Duration::from_millis(5 + turn as u64 % 7));
    let code = if turn.is_multiple_of(50) { "500" } else { "200" };
    counter!("http.requests", "path" => path, "code" => code).increment(1);
    histogram!("http.latency", "path" => path).record(start.elapsed());
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut options = Registry::builder("shop");
    if let Some(directory) = arguments.next() {
        options = options.directory(directory);
    }
    let seconds = arguments.next().map_or(Ok(60), |seconds| seconds.parse())?;

    let registry = options.lenient().build()?;
    Recorder::new(&registry).install()?;
    describe_counter!("http.requests", Unit::Count, "requests answered");
    describe_histogram!("http.latency", Unit::Seconds, "time to answer a request");

    let end = Instant::now() + Duration::from_secs(seconds);
    for (turn, path) in PATHS.iter().cycle().enumerate() {
        if Instant::now() >= end {
            break;
        }
        gauge!("turn").set(turn as f64);
        serve(path, turn);
    }
    // The recorder of the whole program is never dropped.
    registry.withdraw();
    Ok(())
}
