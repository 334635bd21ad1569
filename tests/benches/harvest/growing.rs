//! The cost of growth: of files while they are sampled, of metadata at restarts, and of archives
//! with many instances when they are read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use mmv_writer::pcp::{IndomMetricExt as _, NamedFamily, RegistryExt as _};
use mmv_writer::{Counter, Registry};
use pcp_archive::raw::{FetchResult, ValueSet};
use pcp_archive::{
    Archive, ArchiveWriter, InDom, Instance, InstanceId, MetricDesc, OwnedValue, Pmid, Semantics,
    Timestamp, Units, ValueType, Version, WriterLabel, WriterOptions,
};

use crate::cost::{lateness, median, quantile};
use crate::pipeline::{log, own_binary, scratch};
use crate::process::Process;

const STEADY: usize = 1000;
/// Metrics of the archive that is read: one whose domain grows, and one whose does not.
const GROWING: &str = "mmv.app.requests";
const FIXED: &str = "mmv.app.written";
/// New instances a second.
const GROWTH: u32 = 500;
/// Times a second that the program adds new instances.
const STEPS: u32 = 20;
/// Instances of a program that is started again, and how often.
const RESTARTED: usize = 200;
const RESTARTS: u32 = 10;
const DOMAIN_BYTES: u64 = 17_000_000;

pub(crate) fn run(
    interval: Duration,
    records: u64,
    rounds: usize,
    program: &Path,
) -> Result<(), String> {
    println!(
        "\n| {STEADY} counters and a live registry, samples at {interval:?} | processor | begins late: median, 99 of 100, most | samples missing |\n|---|---|---|---|"
    );
    for growth in [0, GROWTH] {
        let mut rounds: Vec<Growth> = (0..rounds.max(1))
            .map(|_| Growth::measure(program, interval, records, growth))
            .collect::<Result<_, _>>()?;
        rounds.sort_by(|one, other| one.percent.total_cmp(&other.percent));
        let late: Vec<Duration> = rounds.iter().flat_map(|round| round.late.clone()).collect();
        let late = |share| quantile(late.clone(), share).as_secs_f64() * 1e3;
        println!(
            "| {growth} new instances a second | {:.2} % | {:.2}, {:.2}, {:.2} ms | {} |",
            rounds[rounds.len() / 2].percent,
            late(0.5),
            late(0.99),
            late(1.0),
            rounds.iter().map(|round| round.missing).sum::<i64>(),
        );
    }
    restarts(interval, program)?;
    reading(rounds)
}

struct Growth {
    /// Share of a processor.
    percent: f64,
    late: Vec<Duration>,
    /// Samples that are not in the archive, of all that were due between the first and the last.
    missing: i64,
}

impl Growth {
    fn measure(
        program: &Path,
        interval: Duration,
        records: u64,
        growth: u32,
    ) -> Result<Self, String> {
        let scratch = scratch()?;
        let producer = Producer::start(&directory(&scratch)?, growth)?;
        let base = scratch.path().join("archive");
        let mut agent = agent(program, &scratch, &base, interval)?;
        sleep(interval * 3);
        let (began, before) = (Instant::now(), agent.cpu()?);
        sleep(interval.mul_f64(records as f64));
        let (taken, after) = (began.elapsed(), agent.cpu()?);
        agent.check()?;
        agent.stop()?;
        drop(producer);
        let percent = 100.0 * after.saturating_sub(before).as_secs_f64() / taken.as_secs_f64();
        let late = lateness(&base, interval).unwrap_or_default();
        Ok(Self { percent, late, missing: missing(&base, interval)? })
    }
}

/// Counts the samples that the growing program lacks between its first and last one.
fn missing(base: &Path, interval: Duration) -> Result<i64, String> {
    let archive = Archive::open(base).map_err(|error| error.to_string())?;
    let metric = archive.metadata().metric_by_name("mmv.growing.requests");
    let pmid = metric.ok_or("no metric of the growing program")?.desc.pmid;
    let mut records = archive.records().map_err(|error| error.to_string())?;
    let mut sampled = Vec::new();
    while let Some(record) = records.next().map_err(|error| error.to_string())? {
        if record.value_sets().any(|set| set.pmid() == pmid && !set.is_empty()) {
            sampled.push(record.timestamp());
        }
    }
    let (first, last) = sampled.first().zip(sampled.last()).ok_or("no samples")?;
    let due = (last.nanos_since(*first) as f64 / interval.as_nanos() as f64).round() as i64 + 1;
    Ok((due - sampled.len() as i64).max(0))
}

fn directory(scratch: &tempfile::TempDir) -> Result<PathBuf, String> {
    let mmv = scratch.path().join("mmv");
    fs::create_dir(&mmv).map_err(|error| format!("{}: {error}", mmv.display()))?;
    Ok(mmv)
}

fn agent(
    program: &Path,
    scratch: &tempfile::TempDir,
    base: &Path,
    interval: Duration,
) -> Result<Process, String> {
    let mut command = Command::new(program);
    command.arg("run").arg("--mmv-dir").arg(scratch.path().join("mmv")).arg("--output").arg(base);
    command.arg("--interval").arg(format!("{}ms", interval.as_millis()));
    command.args(["--own-metrics", "false"]);
    command.stdout(Stdio::null()).stderr(log(scratch, "agent.log")?);
    Process::spawn(&mut command, "mmv-agent")
}

/// A program with counters that stay, and requests by path of which new ones come.
struct Producer {
    stop: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
}

impl Producer {
    fn start(directory: &Path, growth: u32) -> Result<Self, String> {
        let text = |error: mmv_writer::Error| error.to_string();
        let registry =
            Registry::builder("steady").sealed().directory(directory).build().map_err(text)?;
        let steady: Result<Vec<Counter<u64>>, _> =
            (0..STEADY).map(|n| registry.counter(format!("n{n}")).build()).collect();
        let (steady, published) = (steady.map_err(text)?, registry.publish().map_err(text)?);
        let (growing, requests) = growing(directory)?;
        requests.with("/0", Counter::inc).map_err(text)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let worker = std::thread::spawn(move || {
            let _kept = (published, growing);
            let mut count = 0;
            while !stopped.load(Ordering::Relaxed) {
                steady.iter().for_each(Counter::inc);
                for _ in 0..growth / STEPS {
                    count += 1;
                    // Once the file is full the samples show it.
                    let _ = requests.with(&format!("/{count}"), Counter::inc);
                }
                sleep(Duration::from_secs(1) / STEPS);
            }
        });
        Ok(Self { stop, worker: Some(worker) })
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A panic of the worker has been printed already.
        let _ = self.worker.take().map(JoinHandle::join);
    }
}

fn growing(directory: &Path) -> Result<(mmv_writer::Registry, NamedFamily<Counter<u64>>), String> {
    let text = |error: mmv_writer::Error| error.to_string();
    let registry = Registry::builder("growing").directory(directory).build().map_err(text)?;
    let paths = registry.indom("paths").build().map_err(text)?;
    let requests = registry.counter("requests").build_named(&paths).map_err(text)?;
    Ok((registry, requests))
}

fn restarts(interval: Duration, program: &Path) -> Result<(), String> {
    let scratch = scratch()?;
    let mmv = directory(&scratch)?;
    let base = scratch.path().join("archive");
    let run = |first: usize| -> Result<_, String> {
        let (registry, requests) = growing(&mmv)?;
        for n in 0..RESTARTED {
            let name = format!("/path/{}", (first + 7 * n) % RESTARTED);
            requests.with(&name, Counter::inc).map_err(|error| error.to_string())?;
        }
        Ok((registry, requests))
    };
    let mut running = run(0)?;
    let mut agent = agent(program, &scratch, &base, interval)?;
    let metadata = || fs::metadata(base.with_extension("meta")).map_or(0, |found| found.len());
    sleep(interval * 5);
    let before = metadata();
    for restart in 1..=RESTARTS {
        drop(running);
        running = run(31 * restart as usize)?;
        sleep(interval * 5);
    }
    agent.check()?;
    let bytes = (metadata() - before) / u64::from(RESTARTS);
    agent.stop()?;
    println!("\nmetadata of a restart with {RESTARTED} instances in another order: {bytes} B");
    Ok(())
}

fn reading(rounds: usize) -> Result<(), String> {
    let scratch = scratch()?;
    let base = scratch.path().join("archive");
    let seconds = write_growing(&base).map_err(|error| error.to_string())?;
    let program = own_binary("mmv-archive")?;
    println!(
        "last minute of {seconds} s, each with {GROWTH} new instances that live two, {} MB of domain records:",
        DOMAIN_BYTES / 1_000_000,
    );
    for metric in [GROWING, FIXED] {
        let mut times = Vec::new();
        for _ in 0..rounds.max(1) {
            let mut command = Command::new(&program);
            command.arg("report").arg(&base).args(["--last", "1m", "-e"]);
            command.arg(format!("x = sum(rate({metric}))"));
            let began = Instant::now();
            let status =
                command.stdout(Stdio::null()).status().map_err(|error| error.to_string())?;
            if !status.success() {
                return Err(format!("mmv-archive report: {status}"));
            }
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
        let milliseconds = median(times.iter().copied());
        println!("  {metric}: {milliseconds:.0} ms (median of {})", times.len());
    }
    Ok(())
}

/// Writes an archive to which each second brings new instances of one metric, and none of another;
/// returns how many seconds.
fn write_growing(base: &Path) -> Result<i64, Box<dyn std::error::Error>> {
    let desc = |number| -> Result<MetricDesc, Box<dyn std::error::Error>> {
        Ok(MetricDesc {
            pmid: Pmid::new(70, 1, number)?,
            value_type: ValueType::U64,
            indom: Some(InDom::new(70, number)?),
            semantics: Semantics::Counter,
            units: Units::count(),
        })
    };
    let growing = desc(1)?;
    let fixed = desc(2)?;
    let label = WriterLabel {
        pid: 1,
        hostname: "host".into(),
        timezone: "UTC".into(),
        zoneinfo: "".into(),
    };
    let options = WriterOptions { version: Version::V3, ..WriterOptions::default() };
    let mut writer = ArchiveWriter::create_with(base, label, options)?;
    writer.declare_metric(&growing, &[GROWING])?;
    writer.declare_metric(&fixed, &[FIXED])?;
    let only = InstanceId::new(0)?;
    writer.declare_indom(InDom::new(70, 2)?, &[Instance { id: only, name: "disk".into() }])?;
    let mut instances: Vec<Instance> = Vec::new();
    let (mut second, mut number) = (0, 0);
    while writer.metadata_bytes() < DOMAIN_BYTES {
        // Each lives for two seconds.
        instances.drain(..instances.len().saturating_sub(GROWTH as usize));
        for _ in 0..GROWTH {
            let name = format!("/path/number/{number}").into();
            instances.push(Instance { id: InstanceId::new(number)?, name });
            number += 1;
        }
        writer.declare_indom(InDom::new(70, 1)?, &instances)?;
        let values = Ok(instances
            .iter()
            .map(|one| (Some(one.id), OwnedValue::U64(second as u64)))
            .collect());
        let of_fixed = Ok(vec![(Some(only), OwnedValue::U64(second as u64))]);
        let value_sets = vec![
            ValueSet { pmid: growing.pmid, values },
            ValueSet { pmid: fixed.pmid, values: of_fixed },
        ];
        let timestamp = Timestamp::new(1_700_000_000 + second, 0)?;
        writer.write_result(&FetchResult { timestamp, value_sets })?;
        second += 1;
    }
    writer.finish()?;
    Ok(second)
}
