//! The cost of one run of a pipeline.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use pcp_archive::Archive;
use wait4::Wait4 as _;

use crate::pipeline::Pipeline;
use crate::progress::volume;

pub(crate) struct Cost {
    pub(crate) start_cpu: Duration,
    steady_cpu: Duration,
    records: u64,
    bytes: u64,
    values: u64,
    wakeups: u64,
    interval: Duration,
    /// The first volume compressed by xz, if that was asked.
    pub(crate) packed: Option<Packed>,
    /// Own memory at the first record and at the last, in bytes.
    pub(crate) memory: (u64, u64),
    /// Lateness of each record after the first; empty for outputs that are not an archive.
    pub(crate) lateness: Vec<Duration>,
}

pub(crate) struct Packed {
    /// Bytes after it, of one.
    share: f64,
    nanos: f64,
}

impl Cost {
    /// Runs a pipeline on the files of a directory until there are the given number of
    /// records with `values` values after the first.
    pub(crate) fn measure(
        pipeline: &dyn Pipeline,
        directory: &Path,
        values: u64,
        interval: Duration,
        records: u64,
        pack: bool,
    ) -> Result<Self, String> {
        let running = pipeline.start(directory, interval)?;
        let wait_for = |wanted: u64| {
            let limit = Duration::from_secs(60) + interval.mul_f64(2.0 * wanted as f64);
            running.wait_for_records(wanted, values, limit)
        };
        let first = wait_for(1)?;
        let (start_cpu, woken) = (running.cpu()?, running.wakeups()?);
        let before = running.memory()?;
        let last = wait_for(first.count + records)?;
        let steady_cpu = running.cpu()?.saturating_sub(start_cpu);
        let wakeups = running.wakeups()?.saturating_sub(woken);
        let memory = (before, running.memory()?);
        let written = running.stop()?;
        Ok(Self {
            start_cpu,
            steady_cpu,
            records: last.count - first.count,
            bytes: last.bytes - first.bytes,
            values,
            wakeups,
            interval,
            packed: pack.then(|| packed(&volume(&written.base, 0))).flatten(),
            memory,
            lateness: lateness(&written.base, interval).unwrap_or_default(),
        })
    }

    pub(crate) fn nanos_per_value(&self) -> f64 {
        self.steady_cpu.as_nanos() as f64 / (self.records * self.values) as f64
    }

    pub(crate) fn percent(&self) -> f64 {
        100.0 * self.steady_cpu.as_secs_f64() / (self.interval.as_secs_f64() * self.records as f64)
    }

    pub(crate) fn bytes_per_value(&self) -> f64 {
        self.bytes as f64 / (self.records * self.values) as f64
    }

    pub(crate) fn packed_bytes_per_value(&self) -> f64 {
        self.bytes_per_value() * self.packed.as_ref().map_or(f64::NAN, |packed| packed.share)
    }

    pub(crate) fn packing_nanos_per_value(&self) -> f64 {
        self.bytes_per_value() * self.packed.as_ref().map_or(f64::NAN, |packed| packed.nanos)
    }

    pub(crate) fn wakeups_per_record(&self) -> f64 {
        self.wakeups as f64 / self.records as f64
    }
}

/// The cluster of the agent's own metrics, which has its events.
const AGENT: u32 = 0;

/// Returns how long after the multiples of the interval samples were taken. The first is taken as
/// soon as possible, the last when the agent is stopped; events have records of their own.
pub(crate) fn lateness(base: &Path, interval: Duration) -> Option<Vec<Duration>> {
    let archive = Archive::open(base).ok()?;
    let mut late = Vec::new();
    let mut records = archive.records().ok()?;
    while let Some(record) = records.next().ok()? {
        if record.value_sets().all(|set| set.is_empty() || set.pmid().cluster() == AGENT) {
            continue;
        }
        let past = record.timestamp().as_nanos().rem_euclid(interval.as_nanos() as i128);
        late.push(Duration::from_nanos(past as u64));
    }
    // The first sample, and what was due while that was made.
    late.drain(..late.len().min(2));
    late.pop();
    Some(late)
}

/// Has xz compress a file, as the agent does with closed volumes.
fn packed(file: &Path) -> Option<Packed> {
    let bytes = fs::metadata(file).ok()?.len() as f64;
    let output = tempfile::NamedTempFile::new().ok()?;
    let mut xz = Command::new("xz");
    xz.args(["--stdout", "--threads=1", "-1"]).arg(file).stderr(Stdio::null());
    let used = xz.stdout(output.reopen().ok()?).spawn().ok()?.wait4().ok()?;
    let cpu = used.rusage.utime + used.rusage.stime;
    let left = output.as_file().metadata().ok()?.len() as f64;
    let packed = Packed { share: left / bytes, nanos: cpu.as_nanos() as f64 / bytes };
    used.status.success().then_some(packed)
}

/// Returns the time that this share of the times does not exceed; 0 of none.
pub(crate) fn quantile(mut times: Vec<Duration>, share: f64) -> Duration {
    times.sort();
    let at = (times.len().saturating_sub(1) as f64 * share).ceil() as usize;
    times.get(at).copied().unwrap_or_default()
}

pub(crate) fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}
