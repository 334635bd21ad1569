//! The cost of the flight recorder: processor time and bytes of a value that is kept.
//!
//! The agent's archive has one sample, so that all else is the flight recorder's. Its status says
//! how many samples there are and how many bytes they take, in whatever form it keeps them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cost::median;
use crate::pipeline::{log, scratch, write};
use crate::process::Process;
use crate::shape::{Producer, Shape};

const INTERVAL: Duration = Duration::from_millis(5);
/// Samples for each of the records that an archive would get at the usual interval: of the
/// default number, five minutes.
const SAMPLES: u64 = 1000;

struct Run {
    samples: u64,
    /// Processor time after the first samples, in nanoseconds a value.
    nanos: f64,
    /// Bytes of all that is kept, a value.
    bytes: f64,
    /// Memory of the process alone, in bytes.
    memory: u64,
    /// Samples that were not taken or not kept.
    lost: u64,
}

/// Measures the agent at `program` until it has this many times [`SAMPLES`] samples.
pub(crate) fn run(
    shape: &Shape,
    records: u64,
    rounds: usize,
    program: &Path,
) -> Result<(), String> {
    let producer = Producer::publish(shape, INTERVAL)?;
    println!(
        "\nflight recorder: {} each {INTERVAL:?}, {} samples\n\n\
         | samples | lost | CPU a value | bytes a value kept | the process's own memory |\n\
         |---|---|---|---|---|",
        shape.title,
        records * SAMPLES
    );
    let mut runs = Vec::new();
    for _ in 0..rounds {
        runs.push(measure(program, producer.directory(), shape, records * SAMPLES)?);
    }
    let of = |number: fn(&Run) -> f64| median(runs.iter().map(number));
    println!(
        "| {:.0} | {:.0} | {:.0} ns | {:.2} | {:.1} MB |",
        of(|run| run.samples as f64),
        of(|run| run.lost as f64),
        of(|run| run.nanos),
        of(|run| run.bytes),
        of(|run| run.memory as f64 / 1e6)
    );
    Ok(())
}

fn measure(program: &Path, directory: &Path, shape: &Shape, samples: u64) -> Result<Run, String> {
    let scratch = scratch()?;
    let config = scratch.path().join("agent.toml");
    let text = format!(
        "own-metrics = false\nevents = false\n[hindsight]\ninterval = \"{}ms\"\nspan = \"1h\"\n\
         memory = \"256MB\"\n",
        INTERVAL.as_millis()
    );
    write(&config, &text)?;
    let archives = scratch.path().join("archives");
    let mut command = Command::new(program);
    command.arg("run").arg("--config").arg(&config).arg("--mmv-dir").arg(directory);
    command.arg("--archive-dir").arg(&archives).arg("--interval").arg("1h");
    command.stdout(Stdio::null()).stderr(log(&scratch, "agent.log")?);
    let mut agent = Process::spawn(&mut command, "mmv-agent")?;
    let deadline = Instant::now() + INTERVAL * 3 * samples as u32 + Duration::from_secs(30);
    let status = |agent: &mut Process, least: u64| loop {
        agent.check()?;
        let status = status(program, &archives);
        if number(&status, "samples") >= least {
            return Ok(status);
        }
        if Instant::now() > deadline {
            return Err(format!("only {status} after all this time"));
        }
        // Each status takes the agent's time as well.
        thread::sleep(Duration::from_millis(500));
    };
    let first = number(&status(&mut agent, 1)?, "samples");
    let before = agent.cpu()?;
    let last: Value = status(&mut agent, first + samples)?;
    let memory = agent.memory()?;
    let used = agent.stop_counted()?.saturating_sub(before);
    let kept = number(&last, "samples");
    let per_value = |what: f64, samples: u64| what / (samples * shape.values()) as f64;
    Ok(Run {
        samples: kept,
        nanos: per_value(used.as_nanos() as f64, kept - first),
        bytes: per_value(number(&last, "bytes") as f64, kept),
        memory,
        lost: ["missed", "dropped", "lost"].map(|key| number(&last, key)).iter().sum(),
    })
}

fn status(program: &Path, archives: &Path) -> Value {
    let mut command = Command::new(program);
    command.args(["status", "--json", "--archive-dir"]).arg(archives);
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    let status: Value = serde_json::from_slice(&output).unwrap_or_default();
    status["hindsight"].clone()
}

fn number(status: &Value, key: &str) -> u64 {
    status[key].as_u64().unwrap_or(0)
}
