//! The MMV files that are harvested, and the program that keeps them moving.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mmv_writer::pcp::{IndomMetricExt as _, RegistryExt as _};
use mmv_writer::{Counter, Registry};
use tempfile::TempDir;

pub(crate) struct Shape {
    pub(crate) word: &'static str,
    pub(crate) title: &'static str,
    files: u64,
    metrics: u64,
    /// 0 for singular metrics.
    instances: u64,
    /// PCP's pipeline is measured as well.
    pub(crate) with_pcp: bool,
}

pub(crate) const SHAPES: &[Shape] = &[
    Shape {
        word: "1x1000",
        title: "1 file x 1000 singular u64 counters",
        files: 1,
        metrics: 1000,
        instances: 0,
        with_pcp: true,
    },
    Shape {
        word: "10x1000",
        title: "10 files x 1000 singular u64 counters",
        files: 10,
        metrics: 1000,
        instances: 0,
        with_pcp: true,
    },
    Shape {
        word: "instances",
        title: "1 file, 10 u64 counters x 1000 instances",
        files: 1,
        metrics: 10,
        instances: 1000,
        with_pcp: true,
    },
    Shape {
        word: "million",
        title: "100 files, 10 u64 counters x 1000 instances each",
        files: 100,
        metrics: 10,
        instances: 1000,
        with_pcp: false,
    },
    Shape {
        word: "idle",
        title: "100 files x 10 singular u64 counters",
        files: 100,
        metrics: 10,
        instances: 0,
        with_pcp: false,
    },
];

impl Shape {
    pub(crate) fn values(&self) -> u64 {
        self.files * self.metrics * self.instances.max(1)
    }
}

/// MMV files of a shape, with a thread that changes every value twice an
/// interval.
pub(crate) struct Producer {
    directory: TempDir,
    stop: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
}

impl Producer {
    pub(crate) fn publish(shape: &Shape, interval: Duration) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut published = Vec::new();
        let mut counters = Vec::new();
        for file in 0..shape.files {
            let (keep, mut handles) = publish_file(shape, file, directory.path())
                .map_err(|error| format!("file {file}: {error}"))?;
            published.push(keep);
            counters.append(&mut handles);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let worker = std::thread::spawn(move || {
            let _published = published;
            let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
            while !stopped.load(Ordering::Relaxed) {
                for counter in &counters {
                    counter.add(noise.next() & 0xffff);
                }
                std::thread::park_timeout(interval / 2);
            }
        });
        Ok(Self { directory, stop, worker: Some(worker) })
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.take() {
            worker.thread().unpark();
            // A panic of the worker has been printed already.
            let _ = worker.join();
        }
    }
}

/// Numbers without a pattern (xorshift).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn publish_file(
    shape: &Shape,
    file: u64,
    directory: &Path,
) -> Result<(Registry, Vec<Counter<u64>>), mmv_writer::Error> {
    let registry =
        Registry::builder(format!("bench{file}")).sealed().directory(directory).build()?;
    let mut counters = Vec::new();
    if shape.instances == 0 {
        for metric in 0..shape.metrics {
            counters.push(registry.counter(format!("counter.n{metric}")).build()?);
        }
    } else {
        let names = (0..shape.instances).map(|n| format!("instance-{n}"));
        let indom = registry.indom("things").names(names).build()?;
        for metric in 0..shape.metrics {
            let metric = registry.counter(format!("counter.n{metric}"));
            counters.extend(metric.build_instances(&indom)?);
        }
    }
    Ok((registry.publish()?, counters))
}
