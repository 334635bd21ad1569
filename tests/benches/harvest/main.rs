//! `ci/bench harvest`: what it costs to get values from MMV files into an
//! archive, by Performance Co-Pilot's pipeline (pmcd, pmdammv, pmlogger) and by
//! mmv-agent, on the same files in one run.
//!
//! CPU time is what the kernel accounts to the processes involved, all threads,
//! in nanoseconds. Start-up (from exec to the first record in the archive) and
//! steady state (from that record on) are apart. The producer is this process
//! and is not counted.
//!
//! Options: `--records N` (60), `--interval SECONDS` (1), `--shape WORD` (all).

mod pipeline;
mod process;
mod shape;

use std::time::Duration;

use pipeline::{Agent, Pcp, Pipeline};
use shape::{Producer, SHAPES, Shape};

/// What one pipeline cost on one shape.
struct Cost {
    start_cpu: Duration,
    steady_cpu: Duration,
    records: u64,
    bytes: u64,
}

impl Cost {
    fn nanos_per_value(&self, shape: &Shape) -> f64 {
        self.steady_cpu.as_nanos() as f64 / (self.records * shape.values()) as f64
    }

    fn bytes_per_value(&self, shape: &Shape) -> f64 {
        self.bytes as f64 / (self.records * shape.values()) as f64
    }
}

struct Options {
    records: u64,
    interval: Duration,
    shape: Option<String>,
}

fn options() -> Result<Options, String> {
    let mut options = Options { records: 60, interval: Duration::from_secs(1), shape: None };
    // cargo passes `--bench` to every benchmark.
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    while let Some(arg) = args.next() {
        let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
        match arg.as_str() {
            "--records" => options.records = value.parse().map_err(|e| format!("{arg}: {e}"))?,
            "--interval" => {
                let seconds: f64 = value.parse().map_err(|e| format!("{arg}: {e}"))?;
                options.interval =
                    Duration::try_from_secs_f64(seconds).map_err(|e| format!("{arg}: {e}"))?;
            }
            "--shape" => options.shape = Some(value),
            _ => return Err(format!("unknown option {arg}")),
        }
    }
    Ok(options)
}

fn measure(
    pipeline: &dyn Pipeline,
    producer: &Producer,
    shape: &Shape,
    options: &Options,
) -> Result<Cost, String> {
    let running = pipeline.start(producer.directory(), options.interval)?;
    let records = |wanted: u64| {
        let limit = Duration::from_secs(60) + options.interval.mul_f64(2.0 * wanted as f64);
        running.wait_for_records(wanted, shape.values(), limit)
    };
    let first = records(1)?;
    let start_cpu = running.cpu()?;
    let last = records(1 + options.records)?;
    let steady_cpu = running.cpu()?.saturating_sub(start_cpu);
    running.stop()?;
    Ok(Cost {
        start_cpu,
        steady_cpu,
        records: last.count - first.count,
        bytes: last.bytes - first.bytes,
    })
}

fn row(what: &str, pcp: f64, ours: f64, unit: &str) {
    println!("| {what} | {pcp:.1} {unit} | {ours:.2} {unit} | {:.0} x |", pcp / ours);
}

fn run() -> Result<(), String> {
    let options = options()?;
    println!(
        "{} records at {:?}, {} processors; CPU time of all processes involved\n",
        options.records,
        options.interval,
        std::thread::available_parallelism().map_or(0, usize::from),
    );
    println!("| | PCP (pmcd, pmdammv, pmlogger) | mmv-agent | ratio |\n|---|---|---|---|");
    for shape in SHAPES {
        if options.shape.as_ref().is_some_and(|wanted| wanted != shape.word) {
            continue;
        }
        let producer = Producer::publish(shape, options.interval)?;
        let ours = measure(&Agent, &producer, shape, &options)?;
        let pcp = measure(&Pcp, &producer, shape, &options)?;
        println!("| **{}** | | | |", shape.title);
        row(
            "start to first record, CPU",
            pcp.start_cpu.as_secs_f64() * 1e3,
            ours.start_cpu.as_secs_f64() * 1e3,
            "ms",
        );
        row(
            "steady state, CPU a value",
            pcp.nanos_per_value(shape),
            ours.nanos_per_value(shape),
            "ns",
        );
        row("archive, bytes a value", pcp.bytes_per_value(shape), ours.bytes_per_value(shape), "B");
    }
    Ok(())
}

fn main() {
    if let Err(message) = run() {
        eprintln!("harvest: {message}");
        std::process::exit(1);
    }
}
