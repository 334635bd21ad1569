//! A job queue on threads: jobs by kind and outcome, time in the queue and at work, depth.
//!
//! Usage: `job-queue JOBS`; it ends when standard input does.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use mmv_writer::{Counter, Family, Gauge, Histogram, Labels, Metrics, Registry};

#[derive(Labels, Clone, Copy, PartialEq, Eq, Hash)]
struct Outcome {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Labels, Clone, Copy, PartialEq, Eq, Hash)]
struct Kind {
    kind: &'static str,
}

#[derive(Labels, Clone, Copy, PartialEq, Eq, Hash)]
struct Worker {
    worker: usize,
}

#[derive(Metrics)]
struct QueueMetrics {
    /// Jobs finished.
    #[metric(unit = "count")]
    jobs: Family<Outcome, Counter>,
    /// Time from the submission of a job to its start.
    #[metric(unit = "us")]
    waited: Histogram,
    /// Time that jobs took.
    #[metric(unit = "us")]
    took: Family<Kind, Histogram>,
    /// Jobs that wait.
    depth: Gauge<u64>,
    /// Jobs finished by each thread.
    #[metric(unit = "count")]
    worker_jobs: Family<Worker, Counter>,
}

struct Job {
    kind: &'static str,
    number: u64,
    submitted: Instant,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    closed: bool,
}

struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    metrics: QueueMetrics,
}

impl Queue {
    fn submit(&self, job: Job) {
        let mut state = self.state.lock().expect("no thread panics");
        state.jobs.push_back(job);
        self.metrics.depth.set(state.jobs.len() as u64);
        self.changed.notify_one();
    }

    fn close(&self) {
        self.state.lock().expect("no thread panics").closed = true;
        self.changed.notify_all();
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock().expect("no thread panics");
        loop {
            if let Some(job) = state.jobs.pop_front() {
                self.metrics.depth.set(state.jobs.len() as u64);
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).expect("no thread panics");
        }
    }

    fn work(&self, worker: usize) {
        let done = self.metrics.worker_jobs.get(&Worker { worker });
        while let Some(job) = self.next() {
            self.metrics.waited.record_duration(job.submitted.elapsed());
            let took = self.metrics.took.get(&Kind { kind: job.kind });
            let outcome = if took.time(|| run(&job)) { "done" } else { "failed" };
            self.metrics.jobs.get(&Outcome { kind: job.kind, outcome }).inc();
            done.inc();
        }
    }
}

/// Does a job; every tenth fails.
fn run(job: &Job) -> bool {
    thread::sleep(Duration::from_micros(200));
    job.number % 10 != 9
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count: u64 = std::env::args().nth(1).ok_or("usage: job-queue JOBS")?.parse()?;
    let registry = Registry::new("queue")?;
    let queue = Queue {
        state: Mutex::default(),
        changed: Condvar::new(),
        metrics: QueueMetrics::register(&registry)?,
    };
    thread::scope(|scope| {
        for worker in 0..4 {
            let queue = &queue;
            scope.spawn(move || queue.work(worker));
        }
        for number in 0..count {
            let kind = if number.is_multiple_of(3) { "mail" } else { "resize" };
            queue.submit(Job { kind, number, submitted: Instant::now() });
        }
        queue.close();
    });
    println!("{count} jobs");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}
