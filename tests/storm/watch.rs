//! The agent from outside while it runs: its memory, and its ticks by its status.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::honest::micros;
use crate::harness::agent::Agent;
use crate::harness::binaries;
use crate::harness::wait;

#[derive(Debug, Clone, Copy)]
pub(super) struct Ticks {
    all: u64,
    /// Skipped, because an earlier one took too long.
    missed: u64,
    /// Begun more than a tenth of the interval late.
    late: u64,
    /// The latest, in seconds.
    max: f64,
    /// Longest time of the agent for an answer about its status.
    slowest_answer: Duration,
    /// Number of requests without an answer.
    unanswered: u64,
}

impl Ticks {
    pub(super) fn missed(&self) -> u64 {
        self.missed
    }

    pub(super) fn late(&self) -> u64 {
        self.late
    }

    pub(super) fn missed_share(&self) -> f64 {
        self.missed as f64 / self.all.max(1) as f64
    }

    pub(super) fn late_share(&self) -> f64 {
        self.late as f64 / self.all.max(1) as f64
    }
}

impl Display for Ticks {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (missed, late) = (100.0 * self.missed_share(), 100.0 * self.late_share());
        write!(f, "{} ticks, {missed:.2} % missed, {late:.2} % late, ", self.all)?;
        write!(f, "the latest by {:.1} ms, ", 1000.0 * self.max)?;
        write!(
            f,
            "status after {:.0?} at most, {} times none",
            self.slowest_answer, self.unanswered
        )
    }
}

/// Time for which threads of the agent have waited for a processor that others had, over time
/// (the second number of `/proc/PID/task/*/schedstat`; nothing where the kernel does not count
/// it).
#[derive(Debug, Default)]
pub(super) struct ProcessorWaits {
    /// The time in microseconds since 1970, and the waits of the sampler and of all threads until
    /// then.
    samples: Vec<(u64, Duration, Duration)>,
}

impl ProcessorWaits {
    /// Waits in microseconds, at times in microseconds since 1970.
    pub(super) fn of(samples: &[(u64, u64, u64)]) -> Self {
        let micros = Duration::from_micros;
        let samples = samples.iter().map(|(at, one, all)| (*at, micros(*one), micros(*all)));
        Self { samples: samples.collect() }
    }

    fn look(&mut self, agent: u32) {
        let mut sampler = Duration::ZERO;
        let mut all = Duration::ZERO;
        let tasks = fs::read_dir(format!("/proc/{agent}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            let counts = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let waited = counts.split(' ').nth(1).and_then(|nanos| nanos.parse().ok());
            let waited = Duration::from_nanos(waited.unwrap_or(0));
            all += waited;
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            if name.trim() == "sampler" {
                sampler = waited;
            }
        }
        self.samples.push((micros(), sampler, all));
    }

    /// Returns the waits in the last sample before a time, and in the first one after another.
    fn around(&self, from: u64, to: u64) -> Option<[(Duration, Duration); 2]> {
        let first = self.samples.iter().rev().find(|sample| sample.0 <= from);
        let last = self.samples.iter().find(|sample| sample.0 >= to).or(self.samples.last());
        let waits = |sample: &(u64, Duration, Duration)| (sample.1, sample.2);
        Some([first.or(self.samples.first()).map(waits)?, last.map(waits)?])
    }

    /// Returns the waits of the thread that samples, from a time to another in microseconds since
    /// 1970.
    pub(super) fn of_sampler(&self, from: u64, to: u64) -> Duration {
        let Some([first, last]) = self.around(from, to) else { return Duration::ZERO };
        last.0.saturating_sub(first.0)
    }

    pub(super) fn of_agent(&self, from: u64, to: u64) -> Duration {
        let Some([first, last]) = self.around(from, to) else { return Duration::ZERO };
        last.1.saturating_sub(first.1)
    }
}

/// Takes samples of an agent's waits until it is [finished](Self::finish).
#[derive(Debug)]
pub(super) struct WaitsWatcher {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<ProcessorWaits>,
}

impl WaitsWatcher {
    pub(super) fn begin(agent: &Agent) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, id) = (Arc::clone(&is_over), agent.id());
        let thread = spawn(move || {
            let mut waits = ProcessorWaits::default();
            while !over.load(Ordering::Relaxed) {
                waits.look(id);
                sleep(Duration::from_millis(10));
            }
            waits
        });
        Self { is_over, thread }
    }

    pub(super) fn finish(self) -> ProcessorWaits {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the waits of an agent")
    }
}

#[derive(Debug)]
pub(super) struct Watch {
    archives: PathBuf,
    begun: Instant,
    before: Value,
    last: Value,
    asked: Instant,
    memory: u64,
    slowest: Duration,
    unanswered: u64,
}

/// Interval of requests for the agent's status.
const EVERY: Duration = Duration::from_secs(2);

impl Watch {
    pub(super) fn begin(agent: &Agent, archives: &Path) -> Self {
        let before = wait::until("the status of an agent", || status(archives));
        Self {
            archives: archives.to_owned(),
            begun: Instant::now(),
            last: before.clone(),
            before,
            asked: Instant::now(),
            memory: memory(agent),
            slowest: Duration::ZERO,
            unanswered: 0,
        }
    }

    pub(super) fn look(&mut self, agent: &Agent) {
        self.memory = self.memory.max(memory(agent));
        if self.asked.elapsed() > EVERY {
            self.ask();
        }
    }

    fn ask(&mut self) {
        self.asked = Instant::now();
        match status(&self.archives) {
            Some(found) => {
                self.last = found;
                self.slowest = self.slowest.max(self.asked.elapsed());
            }
            None => self.unanswered += 1,
        }
    }

    /// Returns the ticks, and the most memory in KiB, that of mapped files included.
    pub(super) fn finish(mut self, agent: &Agent, interval: Duration) -> (Ticks, u64) {
        self.look(agent);
        let span = self.begun.elapsed();
        self.ask();
        let number = |status: &Value, key: &str| status[key].as_u64().unwrap_or(0);
        let grown = |key| number(&self.last, key).saturating_sub(number(&self.before, key));
        let ticks = Ticks {
            all: (span.as_nanos() / interval.as_nanos()) as u64,
            missed: grown("missed"),
            late: grown("late"),
            max: self.last["lateness"]["max"].as_f64().unwrap_or(0.0),
            slowest_answer: self.slowest,
            unanswered: self.unanswered,
        };
        (ticks, self.memory.max(high_water(agent)))
    }
}

/// Returns the number of samples of a file that are missing by the status of the agent.
pub(super) fn missing(archives: &Path, file: &str) -> u64 {
    let status = wait::until("the status of an agent", || status(archives));
    let sources = status["sources"].as_array().expect("files");
    let of_file = sources.iter().filter(|source| source["file"] == file);
    of_file.filter_map(|source| source["missing"].as_u64()).sum()
}

/// Asks for the status of the agent, as root sees it.
fn status(archives: &Path) -> Option<Value> {
    let mut command = Command::new(binaries::mmv_agent());
    command.arg("status").arg("--archive-dir").arg(archives).arg("--json");
    serde_json::from_slice(&command.output().expect("run mmv-agent").stdout).ok()
}

fn memory(agent: &Agent) -> u64 {
    field(agent, "VmRSS:")
}

fn high_water(agent: &Agent) -> u64 {
    field(agent, "VmHWM:")
}

/// Returns a number of `/proc/PID/status` in KiB, see proc(5).
fn field(agent: &Agent, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", agent.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
