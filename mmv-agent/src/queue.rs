//! Samples on their way from the sampler to the writer, and their buffers on
//! the way back.
//!
//! The queue is bounded by bytes, not by records: what may wait for a slow disk
//! is a question of memory. The sampler never waits. Two records may always
//! wait, or a host with very large records would drop every other one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam::channel::{Receiver, Sender, unbounded};
use mmv_archive::prepared::RecordBuffer;
use pcp_types::Timestamp;

use crate::catalog::Catalog;

/// Records that may wait whatever their size.
const ALWAYS: usize = 2;
/// Spent buffers that are kept for the sampler; more are let go, so that
/// memory shrinks again after a stall.
const SPARE: usize = 2;

/// One record and what a reader of it must have been told before.
#[derive(Debug)]
pub(crate) struct Sample {
    /// When the values were read.
    pub stamp: Timestamp,
    /// The metadata of all that is in the record.
    pub catalog: Arc<Catalog>,
    /// The record.
    pub record: RecordBuffer,
    /// Whether samples were lost before this one.
    pub after_loss: bool,
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
    samples: Sender<Sample>,
    spent: Receiver<RecordBuffer>,
    load: Arc<Load>,
    limit: usize,
}

/// The writer's end.
#[derive(Debug)]
pub(crate) struct Inlet {
    samples: Receiver<Sample>,
    spent: Sender<RecordBuffer>,
    load: Arc<Load>,
}

/// A queue in which records of `limit` bytes altogether may wait.
pub(crate) fn queue(limit: usize) -> (Outlet, Inlet) {
    let (samples_in, samples_out) = unbounded();
    let (spent_in, spent_out) = unbounded();
    let load = Arc::new(Load::default());
    let outlet = Outlet { samples: samples_in, spent: spent_out, load: Arc::clone(&load), limit };
    (outlet, Inlet { samples: samples_out, spent: spent_in, load })
}

impl Outlet {
    /// Hands a sample over. The caller never waits.
    pub(crate) fn offer(&self, sample: Sample) -> Offer {
        let len = sample.record.as_bytes().len();
        // Only this end adds, so the sum can only be smaller than seen here.
        let waiting = self.load.bytes.load(Ordering::Acquire);
        let records = self.load.records.load(Ordering::Acquire);
        if records >= ALWAYS && waiting.saturating_add(len) > self.limit {
            return Offer::Full;
        }
        self.load.bytes.fetch_add(len, Ordering::AcqRel);
        self.load.records.fetch_add(1, Ordering::AcqRel);
        match self.samples.send(sample) {
            Ok(()) => Offer::Taken,
            Err(_) => Offer::Gone,
        }
    }

    /// A buffer that the writer is done with, if it was made from the template
    /// `template`. Buffers of other templates are let go.
    pub(crate) fn spent(&self, template: u64) -> Option<RecordBuffer> {
        self.spent.try_iter().find(|buffer| buffer.template_id() == template)
    }
}

impl Inlet {
    /// Waits for the next sample; `None` when the sampler has ended and the
    /// queue is empty.
    pub(crate) fn next(&self) -> Option<Sample> {
        self.samples.recv().ok()
    }

    /// The next sample, if one is waiting.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> Option<Sample> {
        self.samples.try_recv().ok()
    }

    /// Gives a sample's buffer back.
    pub(crate) fn done(&self, sample: Sample) {
        self.load.bytes.fetch_sub(sample.record.as_bytes().len(), Ordering::AcqRel);
        self.load.records.fetch_sub(1, Ordering::AcqRel);
        if self.spent.len() < SPARE {
            // The sampler may have ended, and then needs none.
            let _ = self.spent.send(sample.record);
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
            record: template.new_buffer(),
            after_loss: false,
        }
    }

    #[test]
    fn two_records_may_wait_whatever_the_limit_and_more_within_it() {
        let template = template();
        let (outlet, inlet) = queue(0);
        let offers = [0; 3].map(|_| outlet.offer(sample(&template)));
        assert_eq!(offers, [Offer::Taken, Offer::Taken, Offer::Full]);
        let first = inlet.next().unwrap();
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
        let (outlet, inlet) = queue(1000);
        for template in [&old, &new] {
            outlet.offer(sample(template));
        }
        assert!(outlet.spent(new.id()).is_none());
        while let Ok(sample) = inlet.samples.try_recv() {
            inlet.done(sample);
        }
        assert_eq!(outlet.spent(new.id()).unwrap().template_id(), new.id());
        assert!(outlet.spent(old.id()).is_none());
    }

    #[test]
    fn few_spent_buffers_are_kept() {
        let template = template();
        let (outlet, inlet) = queue(10_000);
        for _ in 0..10 {
            outlet.offer(sample(&template));
        }
        for _ in 0..10 {
            let sample = inlet.next().unwrap();
            inlet.done(sample);
        }
        assert_eq!(outlet.spent.len(), SPARE);
    }

    #[test]
    fn each_end_notices_that_the_other_has_gone() {
        let template = template();
        let (outlet, inlet) = queue(1000);
        outlet.offer(sample(&template));
        drop(outlet);
        assert!(inlet.next().is_some());
        assert!(inlet.next().is_none());
        let (outlet, inlet) = queue(1000);
        drop(inlet);
        assert_eq!(outlet.offer(sample(&template)), Offer::Gone);
    }
}
