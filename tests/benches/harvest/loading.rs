//! Delay until the first values of a new file are in the archive: alone, and beside one with as
//! much metadata as a user may have in a file, which is read first.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, io};

use mmv_writer::pcp::RegistryExt as _;
use mmv_writer::{Counter, Registry};

use crate::pipeline::{log, scratch};
use crate::process::Process;
use crate::progress::volume;

const METRICS: usize = 1000;
/// Instances of the large one: they take 120 MB when they are read.
const INSTANCES: usize = 300_000;

pub(crate) fn run(interval: Duration, rounds: usize, program: &Path) -> Result<(), String> {
    println!(
        "\n| first values of a new file of {METRICS} metrics, samples at {interval:?} | median | most |\n|---|---|---|"
    );
    for (what, large) in [("alone", false), ("beside a file of 300 000 instances", true)] {
        let times: Result<Vec<Duration>, String> =
            (0..rounds.max(1)).map(|_| measure(program, interval, large)).collect();
        let mut times = times?;
        times.sort_unstable();
        let millis = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
        let middle = millis(times.get(times.len() / 2));
        println!("| {what} | {middle:.0} ms | {:.0} ms |", millis(times.last()));
    }
    Ok(())
}

fn measure(program: &Path, interval: Duration, large: bool) -> Result<Duration, String> {
    let scratch = scratch()?;
    let mmv = scratch.path().join("mmv");
    fs::create_dir(&mmv).map_err(|error| format!("{}: {error}", mmv.display()))?;
    let _steady = publish(&mmv, "steady", 1).map_err(|error| error.to_string())?;
    let base = scratch.path().join("archive");
    let mut command = Command::new(program);
    command.arg("run").arg("--mmv-dir").arg(&mmv).arg("--output").arg(&base);
    command.arg("--interval").arg(format!("{}ms", interval.as_millis()));
    command.args(["--own-metrics", "false", "--events", "false"]);
    command.stdout(Stdio::null()).stderr(log(&scratch, "agent.log")?);
    let mut agent = Process::spawn(&mut command, "mmv-agent")?;
    wait_for(&mut agent, &base, 100)?;
    // Both are made elsewhere, and appear by a rename.
    let elsewhere = scratch.path().join("elsewhere");
    fs::create_dir(&elsewhere).map_err(|error| format!("{}: {error}", elsewhere.display()))?;
    let move_in = |published: &Registry| -> io::Result<PathBuf> {
        let name = published.path().file_name().unwrap_or_default();
        fs::rename(published.path(), mmv.join(name))?;
        Ok(mmv.join(name))
    };
    let context = |error: io::Error| format!("rename: {error}");
    let big = large.then(|| publish_large(&elsewhere)).transpose();
    let big = big.map_err(|error| error.to_string())?;
    let new = publish(&elsewhere, "new", METRICS).map_err(|error| error.to_string())?;
    if let Some(big) = &big {
        move_in(big).map_err(context)?;
        // It is being read.
        sleep(Duration::from_millis(10));
    }
    let before = size(&base);
    let began = Instant::now();
    move_in(&new).map_err(context)?;
    wait_for(&mut agent, &base, before + 20 * METRICS as u64)?;
    let taken = began.elapsed();
    agent.stop()?;
    Ok(taken)
}

fn publish(directory: &Path, name: &str, metrics: usize) -> Result<Registry, mmv_writer::Error> {
    let registry = Registry::builder(name).sealed().directory(directory).process(false).build()?;
    for number in 0..metrics {
        let _: Counter<u64> = registry.counter(format!("m{number}")).build()?;
    }
    registry.publish()
}

fn publish_large(directory: &Path) -> Result<Registry, mmv_writer::Error> {
    let registry =
        Registry::builder("large").sealed().directory(directory).process(false).build()?;
    let names = (0..INSTANCES).map(|number| format!("an instance with the number {number}"));
    let _ = registry.indom("many").names(names).build()?;
    let _: Counter<u64> = registry.counter("one").build()?;
    registry.publish()
}

fn size(base: &Path) -> u64 {
    fs::metadata(volume(base, 0)).map_or(0, |found| found.len())
}

fn wait_for(agent: &mut Process, base: &Path, bytes: u64) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while size(base) <= bytes {
        agent.check()?;
        if Instant::now() > deadline {
            return Err(format!("{}: no more records", base.display()));
        }
        sleep(Duration::from_millis(1));
    }
    Ok(())
}
