//! `ci/bench harvest`: what it costs to get values from MMV files into an
//! archive, by Performance Co-Pilot's pipeline (pmcd, pmdammv, pmlogger), by
//! mmv-agent, and by a bare loop that does only what no harvest can do without
//! ([`limit`]), on the same files in one run.
//!
//! CPU time is what the kernel accounts to the processes involved, all threads,
//! in nanoseconds. Start-up (from exec to the first record in the archive) and
//! steady state (from that record on) are apart. The producer is this process
//! and is not counted. Agent and bare loop take turns; of their rounds the
//! medians count, and the median of the rounds' ratios.
//!
//! Options: `--records N` (60), `--interval SECONDS` (1), `--rounds N` (5),
//! `--shape WORD` (all), `--agent PATH` (that of this build).
//!
//! The shape `closing` is `10x1000` with volumes that are closed and compressed: see
//! [`closing`]. `loading` is the time until a new file is logged: see [`loading`]. `growing` is what
//! new instances cost: see [`growing`]. `recorder` is what the flight recorder costs: see
//! [`recorder`].

mod closing;
mod cost;
mod growing;
mod limit;
mod loading;
mod pipeline;
mod process;
mod progress;
mod recorder;
mod shape;

use std::path::{Path, PathBuf};
use std::time::Duration;

use cost::{Cost, median, quantile};
use pipeline::{Agent, Limit, Pcp, Pipeline, own_binary};
use shape::{Producer, SHAPES, Shape};

/// Limit on the agent's memory in addition to its queue and 128 bytes a value.
const MEMORY: u64 = 8 << 20;

struct Options {
    records: u64,
    interval: Duration,
    rounds: usize,
    shape: Option<String>,
    agent: PathBuf,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{text}: {error}"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| format!("{text}: {error}"))
}

fn options(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let interval = Duration::from_secs(1);
    let mut options =
        Options { records: 60, interval, rounds: 5, shape: None, agent: own_binary("mmv-agent")? };
    while let Some(arg) = args.next() {
        let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
        match arg.as_str() {
            "--records" => options.records = value.parse().map_err(|e| format!("{arg}: {e}"))?,
            "--rounds" => options.rounds = value.parse().map_err(|e| format!("{arg}: {e}"))?,
            "--interval" => options.interval = seconds(&value)?,
            "--shape" => options.shape = Some(value),
            "--agent" => options.agent = value.into(),
            _ => return Err(format!("unknown option {arg}")),
        }
    }
    Ok(options)
}

struct Costs {
    pcp: Option<Cost>,
    ours: Vec<Cost>,
    limit: Vec<Cost>,
}

impl Costs {
    fn measure(shape: &Shape, options: &Options) -> Result<Self, String> {
        let producer = Producer::publish(shape, options.interval)?;
        let measure = |pipeline: &dyn Pipeline| {
            let values = shape.values();
            let (directory, pack) = (producer.directory(), shape.with_pcp);
            Cost::measure(pipeline, directory, values, options.interval, options.records, pack)
        };
        let mut costs = Self { pcp: None, ours: Vec::new(), limit: Vec::new() };
        for _ in 0..options.rounds.max(1) {
            costs.ours.push(measure(&Agent { program: options.agent.clone() })?);
            costs.limit.push(measure(&Limit)?);
        }
        if shape.with_pcp {
            costs.pcp = Some(measure(&Pcp)?);
        }
        Ok(costs)
    }

    fn row(&self, what: &str, unit: &str, of: impl Fn(&Cost) -> f64) {
        let ours = median(self.ours.iter().map(&of));
        let limit = median(self.limit.iter().map(&of));
        let ratio = median(self.ours.iter().zip(&self.limit).map(|(our, its)| of(our) / of(its)));
        let pcp = self.pcp.as_ref().map(of);
        let number =
            |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2} {unit}"));
        let times = pcp.map_or(String::new(), |pcp| format!("{:.1} x", pcp / ours));
        println!(
            "| {what} | {} | {} | {times} | {} | {ratio:.2} |",
            number(pcp),
            number(Some(ours)),
            number(Some(limit))
        );
    }

    fn print(&self, shape: &Shape) {
        println!("| **{}** | | | | | |", shape.title);
        self.row("start to first record, CPU", "ms", |cost| cost.start_cpu.as_secs_f64() * 1e3);
        self.row("steady state, CPU a value", "ns", Cost::nanos_per_value);
        self.row("steady state, of a processor", "%", Cost::percent);
        self.row("archive, bytes a value", "B", Cost::bytes_per_value);
        if self.pcp.as_ref().is_some_and(|cost| cost.packed.is_some()) {
            self.row("the same after xz -1", "B", Cost::packed_bytes_per_value);
            self.row("xz -1 of a volume, CPU a value", "ns", Cost::packing_nanos_per_value);
        }
        self.row("wake-ups a record", "", Cost::wakeups_per_record);
    }

    /// Prints the agent's lateness and memory, which have bounds of their own.
    fn print_agents(&self, shape: &Shape) {
        // All rounds together: a round has too few for one of a hundred.
        let all: Vec<Duration> = self.ours.iter().flat_map(|cost| cost.lateness.clone()).collect();
        let lateness = |share| quantile(all.clone(), share).as_secs_f64() * 1e3;
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let first = median(self.ours.iter().map(|cost| megabytes(cost.memory.0)));
        let last = median(self.ours.iter().map(|cost| megabytes(cost.memory.1)));
        println!(
            "\nagent: a pass begins after its due time {:.2} ms (median), {:.2} (99 of 100), {:.2} (at most);\n\
             own memory {first:.1} MB at the first record, {last:.1} MB at the last; \
             may be {:.1} MB and the queue\n",
            lateness(0.5),
            lateness(0.99),
            lateness(1.0),
            megabytes(MEMORY + 128 * shape.values()),
        );
    }
}

fn run() -> Result<(), String> {
    // cargo passes `--bench` to every benchmark.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [command, directory, output, interval] = args.as_slice()
        && command == "limit"
    {
        return limit::run(Path::new(directory), Path::new(output), seconds(interval)?);
    }
    let options = options(args.into_iter())?;
    println!(
        "{} records at {:?}, medians of {} rounds, {} processors; CPU time of all processes involved",
        options.records,
        options.interval,
        options.rounds,
        std::thread::available_parallelism().map_or(0, usize::from),
    );
    for shape in SHAPES {
        if options.shape.as_ref().is_some_and(|wanted| wanted != shape.word) {
            continue;
        }
        let costs = Costs::measure(shape, &options)?;
        println!(
            "\n| | PCP (pmcd, pmdammv, pmlogger) | mmv-agent | PCP / ours | bare loop | ours / bare |\n\
             |---|---|---|---|---|---|"
        );
        costs.print(shape);
        costs.print_agents(shape);
    }
    if options.shape.as_ref().is_none_or(|wanted| wanted == "closing") {
        let shape = SHAPES.iter().find(|shape| shape.word == "10x1000").ok_or("no such shape")?;
        closing::run(shape, options.interval, options.records, options.rounds, &options.agent)?;
    }
    if options.shape.as_ref().is_none_or(|wanted| wanted == "loading") {
        loading::run(options.interval, options.rounds, &options.agent)?;
    }
    if options.shape.as_ref().is_none_or(|wanted| wanted == "growing") {
        growing::run(options.interval, options.records, options.rounds, &options.agent)?;
    }
    // It takes five minutes a round.
    if options.shape.as_ref().is_some_and(|wanted| wanted == "recorder") {
        let shape = SHAPES.iter().find(|shape| shape.word == "1x1000").ok_or("no such shape")?;
        recorder::run(shape, options.records, options.rounds, &options.agent)?;
    }
    Ok(())
}

fn main() {
    if let Err(message) = run() {
        eprintln!("harvest: {message}");
        std::process::exit(1);
    }
}
