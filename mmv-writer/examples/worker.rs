//! One process of an application that runs as several: start it more than once.
//!
//! ```text
//! cargo run -p mmv-writer --example worker -- [DIRECTORY] [SECONDS]
//! ```
//!
//! Each process has a file `worker.PID`; the metric `mmv.worker.jobs` has an
//! instance for each. Works, unseen, also where no file can be made.

use std::thread::sleep;
use std::time::Duration;

use mmv_writer::pcp::{IndomMetricExt as _, Instances, RegistryBuilderExt as _, RegistryExt as _};
use mmv_writer::{Counter, Registry, Units};

fn main() -> Result<(), mmv_writer::Error> {
    let mut arguments = std::env::args().skip(1);
    let mut options = Registry::builder("worker");
    if let Some(directory) = arguments.next() {
        options = options.directory(directory);
    }
    let seconds = arguments.next().and_then(|seconds| seconds.parse().ok()).unwrap_or(60);

    let builder = options.sealed().cluster(322);
    let registry = builder.per_process().lenient().build()?;
    let process = registry.process()?;
    let jobs: Instances<Counter<u64>> = registry
        .counter("worker.jobs")
        .units(Units::count())
        .help("jobs done")
        .build_instances(&process)?;
    registry.publish()?;

    for _ in 0..seconds {
        sleep(Duration::from_secs(1));
        jobs.iter().for_each(Counter::inc);
    }
    Ok(())
}
