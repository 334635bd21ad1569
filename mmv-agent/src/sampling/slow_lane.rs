//! Threads that read the files which would delay the sampler.
//!
//! Input: sources of one user, at the beginning of a tick. Output: the same sources with their
//! values, or without if they could not be read in time.
//!
//! Invariant: the sampler waits for a slow lane only within a stated limit. A thread that never
//! comes back from a file keeps only the sources of that user.

use std::collections::HashMap;
use std::thread;
use std::time::Instant;

use crossbeam::channel::{Receiver, Sender, unbounded};

use super::thread_usage::ThreadUsage;
use crate::moment::Moment;
use crate::source::{ActiveSource, Allowance, PassResult};
use crate::threads;

/// Limit on threads. Files of further users wait for one.
const MAX_LANES: usize = 8;

/// Stack size of a thread.
const STACK: usize = 256 << 10;

/// A source that the sampler has lent to a slow lane.
#[derive(Debug)]
pub(super) struct LentSource {
    pub(super) active: Box<ActiveSource>,
    /// Its number when it was lent; a plan may have changed it since.
    pub(super) number: usize,
}

/// Sources of one user to be read at a tick.
#[derive(Debug)]
pub(super) struct LaneJob {
    pub(super) now: Moment,
    pub(super) is_final: bool,
    /// End of the time in which values belong to the tick.
    pub(super) until: Instant,
    pub(super) sources: Vec<LentSource>,
}

#[derive(Debug)]
pub(super) enum LaneReport {
    Read(LentSource, PassResult),
    /// All sources of a job are back.
    Done {
        owner: u32,
        outcome: JobOutcome,
    },
}

/// Whether all sources of a job were read in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobOutcome {
    InTime,
    /// Too late for want of a processor: no page of a file made the thread wait.
    Preempted,
    TooLong,
}

/// The threads, by user.
#[derive(Debug)]
pub(super) struct SlowLanes {
    lanes: HashMap<u32, Lane>,
    sender: Sender<LaneReport>,
    reports: Receiver<LaneReport>,
}

#[derive(Debug)]
struct Lane {
    jobs: Sender<LaneJob>,
    is_busy: bool,
}

impl Default for SlowLanes {
    fn default() -> Self {
        let (sender, reports) = unbounded();
        Self { lanes: HashMap::new(), sender, reports }
    }
}

impl SlowLanes {
    /// Returns true if the thread of a user can take a job; starts it if necessary.
    pub(super) fn is_free(&mut self, owner: u32) -> bool {
        if let Some(lane) = self.lanes.get(&owner) {
            return !lane.is_busy;
        }
        if self.lanes.len() >= MAX_LANES {
            return false;
        }
        let (jobs, inbox) = unbounded();
        let reports = self.sender.clone();
        // `threads::spawn` may wait for memory, which the sampler cannot.
        let builder = thread::Builder::new().name("slow lane".into()).stack_size(STACK);
        let started = builder.spawn(move || run(owner, &inbox, &reports)).is_ok();
        if started {
            self.lanes.insert(owner, Lane { jobs, is_busy: false });
        }
        started
    }

    /// Assigns a job to the free thread of a user. Returns the sources if the thread has ended.
    pub(super) fn assign(&mut self, owner: u32, job: LaneJob) -> Result<(), Vec<LentSource>> {
        let Some(lane) = self.lanes.get_mut(&owner) else { return Err(job.sources) };
        lane.is_busy = true;
        lane.jobs.send(job).map_err(|error| {
            self.lanes.remove(&owner);
            error.into_inner().sources
        })
    }

    /// Returns the next report, if there is one.
    pub(super) fn report(&mut self) -> Option<LaneReport> {
        let report = self.reports.try_recv().ok();
        self.note(report)
    }

    /// Waits for the next report until a moment.
    pub(super) fn report_until(&mut self, until: Instant) -> Option<LaneReport> {
        let report = self.reports.recv_deadline(until).ok();
        self.note(report)
    }

    fn note(&mut self, report: Option<LaneReport>) -> Option<LaneReport> {
        if let Some(LaneReport::Done { owner, .. }) = &report
            && let Some(lane) = self.lanes.get_mut(owner)
        {
            lane.is_busy = false;
        }
        report
    }

    /// Returns true if the thread of a user has a job.
    pub(super) fn is_busy(&self, owner: u32) -> bool {
        self.lanes.get(&owner).is_some_and(|lane| lane.is_busy)
    }

    /// Ends the thread of a user when it has done its job.
    pub(super) fn end(&mut self, owner: u32) {
        self.lanes.remove(&owner);
    }
}

/// Does jobs until the other end is dropped.
fn run(owner: u32, jobs: &Receiver<LaneJob>, reports: &Sender<LaneReport>) {
    // The thread that started it may have real-time priority.
    threads::make_ordinary();
    for LaneJob { now, is_final, until, sources } in jobs {
        let mut outcome = JobOutcome::InTime;
        let mut is_files_fault = false;
        for LentSource { active: mut source, number } in sources {
            let allowance = Allowance::until(until);
            let mut result = PassResult::default();
            if allowance.is_left() {
                let usage = ThreadUsage::now();
                result = source.harvest(now, is_final, &allowance);
                is_files_fault |= !usage.excludes_files();
            }
            if !allowance.is_left() && !source.has_final_values() {
                source.discard();
                outcome = JobOutcome::Preempted;
            }
            let lent = LentSource { active: source, number };
            if reports.send(LaneReport::Read(lent, result)).is_err() {
                return;
            }
        }
        if outcome == JobOutcome::Preempted && is_files_fault {
            outcome = JobOutcome::TooLong;
        }
        if reports.send(LaneReport::Done { owner, outcome }).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::Duration;

    use super::*;
    use crate::source::tests::{active, counters_file};

    /// Has a new lane read a source; returns the outcome.
    fn outcome(active: Box<ActiveSource>, until: Instant) -> JobOutcome {
        let mut lanes = SlowLanes::default();
        assert!(lanes.is_free(1));
        let sources = vec![LentSource { active, number: 0 }];
        lanes.assign(1, LaneJob { now: Moment::START, is_final: false, until, sources }).unwrap();
        loop {
            let report = lanes.report_until(Instant::now() + Duration::from_secs(60));
            if let LaneReport::Done { outcome, .. } = report.expect("an answer") {
                return outcome;
            }
        }
    }

    #[test]
    fn only_pages_that_have_to_be_found_make_a_late_job_slow() {
        let dir = tempfile::tempdir().unwrap();
        let small = counters_file(dir.path(), "small", 3);
        assert_eq!(outcome(active(&small, 1), Instant::now()), JobOutcome::Preempted);
        let large = counters_file(dir.path(), "large", 20_000);
        let bytes = fs::read(&large).unwrap();
        // The lane has to get a processor before the time is over.
        assert!((0..200).any(|round| {
            fs::write(&large, &bytes).unwrap();
            let source = active(&large, 1);
            let file = File::options().write(true).open(&large).unwrap();
            // All its pages go.
            file.set_len(0).unwrap();
            file.set_len(bytes.len() as u64).unwrap();
            let time = Duration::from_millis(1 + round % 8);
            outcome(source, Instant::now() + time) == JobOutcome::TooLong
        }));
    }
}
