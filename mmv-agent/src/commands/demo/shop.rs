//! The instrumented program of the demo: a shop whose visitors come in waves.
//!
//! One thread lets visitors in, three serve them. All events are counted through mmv-writer;
//! nothing here knows of the agent.

use std::f64::consts::TAU;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, Sender, bounded};
use mmv_writer::pcp::{IndomMetricExt as _, RegistryExt as _};
use mmv_writer::{Buckets, Counter, Gauge, Histogram, Registry, Text, Units};

/// Length of the queue; further visitors are turned away.
const QUEUE: usize = 2000;
const WORKERS: usize = 3;
/// Time for which one visitor keeps a worker busy.
const SERVICE: Duration = Duration::from_micros(500);
/// Average number of visitors a second, and the amplitude of the wave.
const VISITORS: f64 = 3500.0;
const WAVE: f64 = 2500.0;
const WAVE_SECONDS: f64 = 2.5;
/// Buckets of times in microseconds, at most 6 % wide, up to a minute.
const TIMES: Buckets = Buckets::new(3, 60_000_000);

/// Requested pages: of ten visitors, six look, three fill a cart and one pays.
const PAGES: [&str; 3] = ["catalogue", "cart", "checkout"];

fn page_of(visitor: u64) -> usize {
    match visitor % 10 {
        0..6 => 0,
        6..9 => 1,
        _ => 2,
    }
}

#[derive(Clone)]
pub(super) struct Meters {
    pub(super) requests: Counter<u64>,
    by_page: Vec<Counter<u64>>,
    refused: Counter<u64>,
    latency: Histogram,
    pub(super) queue: Gauge<i64>,
    busy: Vec<Counter<u64>>,
    pub(super) mood: Text,
}

impl Meters {
    fn register(registry: &Registry) -> Result<Self, mmv_writer::Error> {
        let pages = registry.indom("pages").help("Parts of the shop").names(PAGES).build()?;
        let names = (0..WORKERS).map(|n| format!("worker-{n}"));
        let workers = registry.indom("workers").help("Threads that serve visitors").names(names);
        let count =
            |name: &str, help: &str| registry.counter(name).units(Units::count()).help(help);
        let by_page = count("requests.by_page", "Visitors served, by part of the shop");
        let busy = registry.counter("worker.busy").units(Units::microseconds());
        let busy = busy.help("Time spent serving, by worker");
        let latency = registry.histogram("latency").units(Units::microseconds());
        let latency = latency.help("Time from a visitor's arrival until served");
        let queue = registry.metric("queue.length").units(Units::count());
        Ok(Self {
            requests: count("requests.total", "Visitors served").build()?,
            by_page: by_page.build_instances(&pages)?.into_iter().collect(),
            refused: count("requests.refused", "Visitors who found the queue full").build()?,
            latency: latency.buckets(TIMES).build()?,
            queue: queue.help("Visitors waiting").build()?,
            busy: busy.build_instances(&workers.build()?)?.into_iter().collect(),
            mood: registry.text("mood").help("How the shop feels").build()?,
        })
    }
}

/// A shop that is open until it is dropped.
pub(super) struct Shop {
    pub(super) meters: Meters,
    closed: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    _registry: Registry,
}

impl Shop {
    /// Publishes the metrics in `directory` and opens.
    pub(super) fn open(directory: &Path) -> Result<Self, mmv_writer::Error> {
        let registry = Registry::builder("shop").sealed().directory(directory).build()?;
        let meters = Meters::register(&registry)?;
        meters.mood.set("quiet");
        registry.publish()?;

        let closed = Arc::new(AtomicBool::new(false));
        let (door, queue) = bounded(QUEUE);
        let mut threads = Vec::new();
        for worker in 0..WORKERS {
            let queue = queue.clone();
            let meters = meters.clone();
            threads.push(thread::spawn(move || serve(worker, &queue, &meters)));
        }
        let guest_meters = meters.clone();
        let guest_closed = Arc::clone(&closed);
        threads.push(thread::spawn(move || let_in(&door, &guest_meters, &guest_closed)));
        Ok(Self { meters, closed, threads, _registry: registry })
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        // Close the door, serve the queue, and let the workers go home.
        self.closed.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

struct Visitor {
    page: usize,
    arrived: Instant,
}

fn let_in(door: &Sender<Visitor>, meters: &Meters, closed: &AtomicBool) {
    let opened = Instant::now();
    let mut visitor = 0;
    while !closed.load(Ordering::Relaxed) {
        let due = visitors_by(opened.elapsed().as_secs_f64());
        while visitor < due {
            let next = Visitor { page: page_of(visitor), arrived: Instant::now() };
            if door.try_send(next).is_err() {
                meters.refused.add(1);
            }
            visitor += 1;
        }
        meters.queue.set(door.len() as i64);
        meters.mood.set(mood(door.len()));
        thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the number of visitors after this many seconds: the integral of the wave.
fn visitors_by(seconds: f64) -> u64 {
    let phase = TAU * seconds / WAVE_SECONDS;
    let wave = WAVE * WAVE_SECONDS / TAU * (1.0 - phase.cos());
    (VISITORS * seconds + wave) as u64
}

fn mood(waiting: usize) -> &'static str {
    match waiting {
        0..20 => "quiet",
        20..200 => "busy",
        _ => "crowded",
    }
}

fn serve(worker: usize, queue: &Receiver<Visitor>, meters: &Meters) {
    while let Ok(Visitor { page, arrived }) = queue.recv() {
        let begun = Instant::now();
        thread::sleep(SERVICE);
        meters.requests.add(1);
        meters.by_page[page].add(1);
        meters.latency.record_duration(arrived.elapsed());
        meters.busy[worker].add(begun.elapsed().as_micros() as u64);
    }
}
