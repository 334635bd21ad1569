//! Samples on their way from the sampler to the writer, and their buffers on
//! the way back.
//!
//! The queue is bounded by bytes, not by records: what may wait for a slow disk
//! is a question of memory. The sampler never waits. Two records may always
//! wait, or a host with very large records would drop every other one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam::channel::{Receiver, Sender, unbounded};
use mmv_archive::prepared::RecordBuffer;
use pcp_types::Timestamp;

use crate::catalog::Catalog;
use crate::events::Events;
use crate::seldom::{Changes, Standing};
use crate::sink::Policy;

/// Records that may wait whatever their size.
const ALWAYS: usize = 2;
/// Spent buffers of a template that are kept for the sampler; more are let go,
/// so that memory shrinks again after a stall.
const SPARE: usize = 2;

/// What a value that is logged seldom takes in memory, about, and an event.
const SELDOM_BYTES: usize = 64;
const EVENT_BYTES: usize = 300;

/// The records of one tick and what a reader of them must have been told
/// before.
#[derive(Debug)]
pub(crate) struct Sample {
    /// When the values were read.
    pub stamp: Timestamp,
    /// The metadata of all that is in the records.
    pub catalog: Arc<Catalog>,
    /// The records, one for each group.
    pub records: Vec<RecordBuffer>,
    /// Values that have changed, of those that are logged seldom.
    pub changes: Changes,
    /// All values that are logged seldom.
    pub standing: Standing,
    /// What happened since the sample before.
    pub events: Events,
    /// Whether a mark belongs before this one: samples were lost, or a program began
    /// anew and that is to be marked.
    pub mark: bool,
    /// Whether a file was replaced while no agent ran.
    pub unobserved: bool,
}

impl Sample {
    /// Bytes that it takes while it waits, about. What stands is shared.
    fn size(&self) -> usize {
        let records: usize = self.records.iter().map(|record| record.as_bytes().len()).sum();
        let sets = self.changes.before.iter().chain(&self.changes.after);
        let values: usize = sets.map(|set| set.values.as_ref().map_or(0, Vec::len)).sum();
        records + values * SELDOM_BYTES + self.events.told.len() * EVENT_BYTES
    }
}

/// What the writer is told.
#[derive(Debug)]
pub(crate) enum Job {
    /// Write this.
    Write(Sample),
    /// Do this.
    Do(Order),
}

/// What the writer is told to do beside writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// Wait until all is on disk.
    Sync,
    /// Begin a new data volume.
    NewVolume,
    /// Begin a new archive.
    NewArchive,
    /// Follow other rules.
    Change(Policy),
}

/// What became of a sample that was offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It is on its way.
    Taken,
    /// The queue is full; the sample is dropped.
    Full,
    /// The writer has ended; nobody will take samples any more.
    Gone,
}

#[derive(Debug, Default)]
struct Load {
    bytes: AtomicUsize,
    records: AtomicUsize,
}

/// The sampler's end.
#[derive(Debug)]
pub(crate) struct Outlet {
    jobs: Sender<Job>,
    spent: Receiver<RecordBuffer>,
    spare: VecDeque<RecordBuffer>,
    load: Arc<Load>,
    limit: usize,
}

/// The writer's end.
#[derive(Debug)]
pub(crate) struct Inlet {
    jobs: Receiver<Job>,
    spent: Sender<RecordBuffer>,
    load: Arc<Load>,
}

/// A queue in which records of `limit` bytes altogether may wait.
pub(crate) fn queue(limit: usize) -> (Outlet, Inlet) {
    let (jobs_in, jobs_out) = unbounded();
    let (spent_in, spent_out) = unbounded();
    let load = Arc::new(Load::default());
    let outlet = Outlet {
        jobs: jobs_in,
        spent: spent_out,
        spare: VecDeque::new(),
        load: Arc::clone(&load),
        limit,
    };
    (outlet, Inlet { jobs: jobs_out, spent: spent_in, load })
}

impl Outlet {
    /// Hands a sample over. The caller never waits.
    pub(crate) fn offer(&self, sample: Sample) -> Offer {
        let len = sample.size();
        // Only this end adds, so the sum can only be smaller than seen here.
        let waiting = self.load.bytes.load(Ordering::Acquire);
        let records = self.load.records.load(Ordering::Acquire);
        if records >= ALWAYS && waiting.saturating_add(len) > self.limit {
            return Offer::Full;
        }
        self.load.bytes.fetch_add(len, Ordering::AcqRel);
        self.load.records.fetch_add(1, Ordering::AcqRel);
        match self.jobs.send(Job::Write(sample)) {
            Ok(()) => Offer::Taken,
            Err(_) => Offer::Gone,
        }
    }

    /// Tells the writer to do something once it has written what waits.
    pub(crate) fn order(&self, order: Order) {
        // A writer that has ended needs no telling.
        let _ = self.jobs.send(Job::Do(order));
    }

    /// How many bytes wait.
    pub(crate) fn waiting(&self) -> usize {
        self.load.bytes.load(Ordering::Acquire)
    }

    /// Lets other bytes wait from now on.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Takes back the buffers that the writer is done with, if their templates
    /// are in use still.
    pub(crate) fn collect(&mut self, in_use: impl Fn(u64) -> bool) {
        self.spare.retain(|buffer| in_use(buffer.template_id()));
        for buffer in self.spent.try_iter() {
            let template = buffer.template_id();
            let alike = self.spare.iter().filter(|known| known.template_id() == template).count();
            if in_use(template) && alike < SPARE {
                self.spare.push_back(buffer);
            }
        }
    }

    /// A buffer of the template `template` that was [`collect`]ed.
    ///
    /// [`collect`]: Self::collect
    pub(crate) fn spare(&mut self, template: u64) -> Option<RecordBuffer> {
        let at = self.spare.iter().position(|buffer| buffer.template_id() == template)?;
        self.spare.remove(at)
    }
}

impl Inlet {
    /// Waits for the next job; `None` when the sampler has ended and the
    /// queue is empty.
    pub(crate) fn next(&self) -> Option<Job> {
        self.jobs.recv().ok()
    }

    /// The next job, if one is waiting.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> Option<Job> {
        self.jobs.try_recv().ok()
    }

    /// Gives a sample's buffers back.
    pub(crate) fn done(&self, sample: Sample) {
        self.load.bytes.fetch_sub(sample.size(), Ordering::AcqRel);
        self.load.records.fetch_sub(1, Ordering::AcqRel);
        for record in sample.records {
            // The sampler may have ended, and then needs none.
            let _ = self.spent.send(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use mmv_archive::prepared::{Template, TemplateBuilder};
    use pcp_types::{Pmid, ValueType};

    use super::*;

    fn template() -> Template {
        let mut builder = TemplateBuilder::new();
        builder.begin_set(Pmid::new(70, 1, 1).unwrap(), ValueType::U64);
        builder.value(None, 0).unwrap();
        builder.finish().unwrap()
    }

    fn sample(template: &Template) -> Sample {
        Sample {
            stamp: Timestamp::EPOCH,
            catalog: Arc::new(Catalog::default()),
            records: vec![template.new_buffer()],
            changes: Changes::default(),
            standing: Standing::default(),
            events: Events::default(),
            mark: false,
            unobserved: false,
        }
    }

    /// The next job, which is to write.
    fn next(inlet: &Inlet) -> Sample {
        match inlet.waiting() {
            Some(Job::Write(sample)) => sample,
            job => panic!("{job:?}"),
        }
    }

    #[test]
    fn two_records_may_wait_whatever_the_limit_and_more_within_it() {
        let template = template();
        let (outlet, inlet) = queue(0);
        let offers = [0; 3].map(|_| outlet.offer(sample(&template)));
        assert_eq!(offers, [Offer::Taken, Offer::Taken, Offer::Full]);
        let first = next(&inlet);
        assert_eq!(outlet.offer(sample(&template)), Offer::Full);
        inlet.done(first);
        assert_eq!(outlet.offer(sample(&template)), Offer::Taken);

        let (outlet, _inlet) = queue(template.size() * 5);
        let taken = (0..9).filter(|_| outlet.offer(sample(&template)) == Offer::Taken);
        assert_eq!(taken.count(), 5);
    }

    #[test]
    fn buffers_come_back_to_those_who_use_their_template() {
        let (old, new) = (template(), template());
        let (mut outlet, inlet) = queue(1000);
        for template in [&old, &new] {
            outlet.offer(sample(template));
        }
        assert!(outlet.spare(new.id()).is_none());
        inlet.done(next(&inlet));
        inlet.done(next(&inlet));
        outlet.collect(|template| template == new.id());
        assert_eq!(outlet.spare(new.id()).unwrap().template_id(), new.id());
        assert!(outlet.spare(new.id()).is_none());
        assert!(outlet.spare(old.id()).is_none());
    }

    #[test]
    fn few_spent_buffers_are_kept() {
        let template = template();
        let (mut outlet, inlet) = queue(10_000);
        for _ in 0..10 {
            outlet.offer(sample(&template));
        }
        for _ in 0..10 {
            inlet.done(next(&inlet));
        }
        outlet.collect(|_| true);
        assert_eq!(outlet.spare.len(), SPARE);
        outlet.collect(|_| false);
        assert_eq!(outlet.spare.len(), 0);
    }

    #[test]
    fn each_end_notices_that_the_other_has_gone() {
        let template = template();
        let (outlet, inlet) = queue(1000);
        outlet.offer(sample(&template));
        outlet.order(Order::Sync);
        drop(outlet);
        assert!(matches!(inlet.next(), Some(Job::Write(_))));
        assert!(matches!(inlet.next(), Some(Job::Do(Order::Sync))));
        assert!(inlet.next().is_none());
        let (outlet, inlet) = queue(1000);
        drop(inlet);
        assert_eq!(outlet.offer(sample(&template)), Offer::Gone);
    }
}
