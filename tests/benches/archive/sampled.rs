//! Archives that the agent writes of programs: with histograms, and with instances that
//! change.
//!
//! The programs are threads of this process. Between two samples each does the work of a
//! second, so that values grow as those of a day do.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use mmv_writer::pcp::{IndomMetricExt as _, NamedFamily, RegistryExt as _};
use mmv_writer::{Buckets, Counter, Gauge, Histogram, Registry, Units};

use crate::child;
use crate::random::Random;

const INTERVAL: Duration = Duration::from_millis(10);
const SAMPLES: u64 = 2_000;
const REQUESTS: u64 = 400;
const ENDPOINTS: usize = 8;
const SESSIONS: u64 = 300;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Program {
    /// A server that has a histogram of each endpoint.
    Histograms,
    /// A server with sessions: each second some are closed and others opened.
    Sessions,
}

impl Program {
    pub(crate) const ALL: [Self; 2] = [Self::Histograms, Self::Sessions];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Histograms => "agent, histograms",
            Self::Sessions => "agent, changing instances",
        }
    }

    /// Runs the program and the agent; the archive has the base name `base`.
    pub(crate) fn sample(self, agent: &Path, base: &Path) -> Result<(), String> {
        let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
        let published = AtomicBool::new(false);
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let program = scope.spawn(|| self.run(scratch.path(), &published, &ended));
            while !published.load(Ordering::Relaxed) && !program.is_finished() {
                thread::sleep(INTERVAL);
            }
            let mut command = Command::new(agent);
            command.arg("run").arg("--mmv-dir").arg(scratch.path()).arg("--output").arg(base);
            command.arg("--interval").arg(format!("{}ms", INTERVAL.as_millis()));
            command.arg("--samples").arg(SAMPLES.to_string()).stderr(Stdio::null());
            let sampled = child::run(command, None);
            ended.store(true, Ordering::Relaxed);
            let program = program.join().map_err(|_| "the program has panicked".to_owned())?;
            program.map_err(|error| error.to_string())?;
            sampled.map(|_| ())
        })
    }

    fn run(
        self,
        directory: &Path,
        published: &AtomicBool,
        ended: &AtomicBool,
    ) -> Result<(), mmv_writer::Error> {
        let mut random = Random::new(1);
        match self {
            Self::Histograms => {
                let registry = Registry::builder("shop").sealed().directory(directory).build()?;
                let mut server = Server::register(&registry)?;
                registry.publish()?;
                published.store(true, Ordering::Relaxed);
                while !ended.load(Ordering::Relaxed) {
                    server.work(&mut random);
                    thread::sleep(INTERVAL);
                }
            }
            Self::Sessions => {
                let registry = Registry::builder("gate").directory(directory).build()?;
                let sessions = registry.indom("sessions").build()?;
                let requests: NamedFamily<Counter<u64>> =
                    registry.counter("requests").units(Units::count()).build_named(&sessions)?;
                let bytes: NamedFamily<Counter<u64>> =
                    registry.counter("bytes").units(Units::bytes()).build_named(&sessions)?;
                let mut first = 0;
                let mut next = 0;
                published.store(true, Ordering::Relaxed);
                while !ended.load(Ordering::Relaxed) {
                    while next < first + SESSIONS {
                        requests.with(&format!("session-{next}"), Counter::inc)?;
                        next += 1;
                    }
                    for _ in 0..random.below(REQUESTS) {
                        let session = format!("session-{}", first + random.skewed(SESSIONS));
                        requests.with(&session, Counter::inc)?;
                        bytes.with(&session, |bytes| bytes.add(200 + random.skewed(50_000)))?;
                    }
                    for _ in 0..random.below(3) {
                        sessions.remove(&format!("session-{first}"));
                        first += 1;
                    }
                    thread::sleep(INTERVAL);
                }
            }
        }
        Ok(())
    }
}

struct Server {
    requests: Vec<Counter<u64>>,
    latency: Vec<Histogram>,
    sent: Counter<u64>,
    open: Gauge<i64>,
    load: Gauge<f64>,
}

impl Server {
    fn register(registry: &Registry) -> Result<Self, mmv_writer::Error> {
        let names = (0..ENDPOINTS).map(|n| format!("endpoint-{n}"));
        let endpoints = registry.indom("endpoints").names(names).build()?;
        let requests = registry.counter("requests").units(Units::count());
        // Up to a minute, to 6 %.
        let buckets = Buckets::new(3, 60_000_000_000);
        let latency = |n| {
            let name = format!("latency.endpoint_{n}");
            registry.histogram(name).units(Units::nanoseconds()).buckets(buckets).build()
        };
        Ok(Self {
            requests: requests.build_instances(&endpoints)?.into_iter().collect(),
            latency: (0..ENDPOINTS).map(latency).collect::<Result<_, _>>()?,
            sent: registry.counter("sent").units(Units::bytes()).build()?,
            open: registry.metric("open").units(Units::count()).build()?,
            load: registry.gauge("load").build()?,
        })
    }

    fn work(&mut self, random: &mut Random) {
        let count = random.below(REQUESTS);
        for _ in 0..count {
            let endpoint = random.skewed(ENDPOINTS as u64) as usize;
            self.requests[endpoint].inc();
            // A millisecond, and at times a thousand of them.
            let doublings = random.below(8) + random.below(4) * random.below(2);
            let duration = (100_000 << doublings) + random.below(100_000 << doublings);
            self.latency[endpoint].record(duration);
            self.sent.add(200 + random.skewed(50_000));
        }
        self.open.set((count / 8 + random.below(5)) as i64);
        self.load.set(count as f64 / REQUESTS as f64);
    }
}
