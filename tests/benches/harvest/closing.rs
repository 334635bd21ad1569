//! Total cost of the agent when volumes are closed and compressed.
//!
//! Volumes have 50 records, so that a run of a minute closes one. A compressed volume of the
//! usual 100 MB costs a little less: what each one costs whatever its size is spread over
//! more values.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pcp_archive::Archive;

use crate::pipeline::{log, scratch, write};
use crate::process::Process;
use crate::shape::{Producer, Shape};

const RECORDS: u64 = 50;
/// About the bytes of a value in a record.
const BYTES: u64 = 32;
const AFTER: Duration = Duration::from_secs(1);

const METHODS: [&str; 3] = ["none", "zstd", "xz"];

struct Run {
    /// Processor time after the first record, in nanoseconds a value.
    nanos: f64,
    /// Bytes of all volumes, a value.
    bytes: f64,
}

/// Measures the agent at `program` until it has closed the volumes of this number of records, with
/// each method in each round.
pub(crate) fn run(
    shape: &Shape,
    interval: Duration,
    records: u64,
    rounds: usize,
    program: &Path,
) -> Result<(), String> {
    let producer = Producer::publish(shape, interval)?;
    println!(
        "\n{}, volumes of {RECORDS} records\n\n| compression | CPU a value, all of the agent | bytes a value |\n|---|---|---|",
        shape.title
    );
    let mut runs = METHODS.map(|_| Vec::new());
    for _ in 0..rounds {
        for (method, runs) in METHODS.iter().zip(&mut runs) {
            runs.push(measure(program, producer.directory(), shape, interval, records, method)?);
        }
    }
    for (method, mut runs) in METHODS.iter().zip(runs) {
        runs.sort_by(|one, other| one.nanos.total_cmp(&other.nanos));
        let [least, median, most] = [0, runs.len() / 2, runs.len() - 1].map(|at| runs.get(at));
        let Some(((least, median), most)) = least.zip(median).zip(most) else { continue };
        println!(
            "| {method} | {:.0} ns ({:.0} to {:.0}) | {:.2} |",
            median.nanos, least.nanos, most.nanos, median.bytes
        );
    }
    Ok(())
}

fn measure(
    program: &Path,
    directory: &Path,
    shape: &Shape,
    interval: Duration,
    records: u64,
    method: &str,
) -> Result<Run, String> {
    let scratch = scratch()?;
    let config = scratch.path().join("agent.toml");
    let text = format!(
        "own-metrics = false\nevents = false\n[rotation]\nvolume-size = \"{}kB\"\n\
         [compression]\nmethod = \"{method}\"\nafter = \"{}ms\"\n",
        RECORDS * shape.values() * BYTES / 1000,
        AFTER.as_millis()
    );
    write(&config, &text)?;
    let archives = scratch.path().join("archives");
    let mut command = Command::new(program);
    command.arg("run").arg("--config").arg(&config).arg("--mmv-dir").arg(directory);
    command.arg("--archive-dir").arg(&archives);
    command.arg("--interval").arg(format!("{}ms", interval.as_millis()));
    command.stdout(Stdio::null()).stderr(log(&scratch, "agent.log")?);
    let mut agent = Process::spawn(&mut command, "mmv-agent")?;
    let limit = Duration::from_secs(60) + interval.mul_f64(2.0 * records as f64);
    wait_until(&mut agent, &archives, limit, |files| {
        files.iter().any(|file| size(file) > 8 * shape.values())
    })?;
    let first = agent.cpu()?;
    let closed = (records / RECORDS).max(1) as usize;
    let suffix = if method == "zstd" { "zst" } else { method };
    wait_until(&mut agent, &archives, limit, |files| match method {
        // Metadata, index, and the volume that is being written.
        "none" => files.len() >= closed + 3,
        _ => files.iter().filter(|file| has_suffix(file, suffix)).count() >= closed,
    })?;
    let cpu = agent.stop_counted()?.saturating_sub(first);
    let files = files(&archives);
    let base = files.iter().find(|file| has_suffix(file, "meta")).ok_or("no archive")?;
    let values = (samples(&base.with_extension(""), shape)? - 1) * shape.values();
    let volumes =
        files.iter().filter(|file| !has_suffix(file, "meta") && !has_suffix(file, "index"));
    let bytes: u64 = volumes.map(|file| size(file)).sum();
    Ok(Run { nanos: cpu.as_nanos() as f64 / values as f64, bytes: bytes as f64 / values as f64 })
}

fn wait_until(
    agent: &mut Process,
    archives: &Path,
    limit: Duration,
    ready: impl Fn(&[PathBuf]) -> bool,
) -> Result<(), String> {
    let deadline = Instant::now() + limit;
    while !ready(&files(archives)) {
        agent.check()?;
        if Instant::now() > deadline {
            return Err(format!("{}: no closed volumes", archives.display()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn has_suffix(file: &Path, suffix: &str) -> bool {
    file.extension().is_some_and(|found| found == suffix)
}

fn files(archives: &Path) -> Vec<PathBuf> {
    let visible = |directory: &Path| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
    };
    let hosts = visible(archives);
    hosts.flat_map(|host| visible(&host.path())).map(|file| file.path()).collect()
}

fn size(file: &Path) -> u64 {
    // It may have been compressed meanwhile.
    fs::metadata(file).map_or(0, |found| found.len())
}

/// Counts the records that have all values.
fn samples(base: &Path, shape: &Shape) -> Result<u64, String> {
    let context = |error| format!("{}: {error}", base.display());
    let archive = Archive::open(base).map_err(context)?;
    let mut records = archive.records().map_err(context)?;
    let mut count = 0;
    while let Some(record) = records.next().map_err(context)? {
        count += u64::from(record.size() as u64 > 8 * shape.values());
    }
    Ok(count)
}
