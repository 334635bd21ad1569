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
        /// True if all were read in time.
        is_complete: bool,
    },
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
        let mut is_complete = true;
        for LentSource { active: mut source, number } in sources {
            let allowance = Allowance::until(until);
            let mut result = PassResult::default();
            if allowance.is_left() {
                result = source.harvest(now, is_final, &allowance);
            }
            if !allowance.is_left() && !source.has_final_values() {
                source.discard();
                is_complete = false;
            }
            let lent = LentSource { active: source, number };
            if reports.send(LaneReport::Read(lent, result)).is_err() {
                return;
            }
        }
        if reports.send(LaneReport::Done { owner, is_complete }).is_err() {
            return;
        }
    }
}
