//! The queue between the sampler and the archive writer.
//!
//! Samples and orders keep their order, and the buffers of written records return to the sampler.
//!
//! Invariant: the sampler never waits. The queue is bounded by bytes, since a slow disk costs
//! memory. Two records of any size may wait; otherwise a host with very large records would drop
//! every other one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam::channel::{Receiver, Sender, unbounded};
use pcp_archive::raw::prepared::RecordBuffer;

use super::{Order, Sample};

/// Number of records that may wait whatever their size.
const MIN_WAITING_RECORDS: usize = 2;
/// Limit on spent buffers of a template that are kept for the sampler. More are freed, so that
/// memory shrinks after a stall.
const MAX_SPARE_BUFFERS: usize = 2;

#[derive(Debug)]
pub(crate) enum WriterMessage {
    Write(Sample),
    Do(Order),
}

/// The result of offering a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It waits for the writer.
    Taken,
    /// The queue is full; the sample is dropped.
    Full,
    /// The writer has ended.
    Gone,
}

#[derive(Debug, Default)]
struct Load {
    bytes: AtomicUsize,
    records: AtomicUsize,
}

#[derive(Debug)]
pub(crate) struct QueueSender {
    jobs: Sender<WriterMessage>,
    spent: Receiver<RecordBuffer>,
    spare: VecDeque<RecordBuffer>,
    load: Arc<Load>,
    limit: usize,
}

#[derive(Debug)]
pub(crate) struct QueueReceiver {
    jobs: Receiver<WriterMessage>,
    spent: Sender<RecordBuffer>,
    load: Arc<Load>,
}

/// Creates a queue in which records of `limit` bytes in total may wait.
pub(crate) fn queue(limit: usize) -> (QueueSender, QueueReceiver) {
    let (jobs_in, jobs_out) = unbounded();
    let (spent_in, spent_out) = unbounded();
    let load = Arc::new(Load::default());
    let sender = QueueSender {
        jobs: jobs_in,
        spent: spent_out,
        spare: VecDeque::new(),
        load: Arc::clone(&load),
        limit,
    };
    (sender, QueueReceiver { jobs: jobs_out, spent: spent_in, load })
}

impl QueueSender {
    /// Offers a sample without waiting.
    pub(crate) fn offer(&self, sample: Sample) -> Offer {
        let len = sample.size();
        // Only this end adds, so the sum can only be smaller than seen here.
        let waiting = self.load.bytes.load(Ordering::Acquire);
        let records = self.load.records.load(Ordering::Acquire);
        if records >= MIN_WAITING_RECORDS && waiting.saturating_add(len) > self.limit {
            return Offer::Full;
        }
        self.load.bytes.fetch_add(len, Ordering::AcqRel);
        self.load.records.fetch_add(1, Ordering::AcqRel);
        match self.jobs.send(WriterMessage::Write(sample)) {
            Ok(()) => Offer::Taken,
            Err(_) => Offer::Gone,
        }
    }

    /// Orders the writer to do something after it has written the waiting samples.
    pub(crate) fn order(&self, order: Order) {
        // A writer that has ended needs no orders.
        let _ = self.jobs.send(WriterMessage::Do(order));
    }

    pub(crate) fn waiting(&self) -> usize {
        self.load.bytes.load(Ordering::Acquire)
    }

    /// Changes the limit on waiting bytes.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Takes back the buffers that the writer has written, if their templates are still in use.
    pub(crate) fn collect(&mut self, in_use: impl Fn(u64) -> bool) {
        self.spare.retain(|buffer| in_use(buffer.template_id()));
        for buffer in self.spent.try_iter() {
            let template = buffer.template_id();
            let alike = self.spare.iter().filter(|known| known.template_id() == template).count();
            if in_use(template) && alike < MAX_SPARE_BUFFERS {
                self.spare.push_back(buffer);
            }
        }
    }

    /// Returns a [`collect`]ed buffer of the template `template`.
    ///
    /// [`collect`]: Self::collect
    pub(crate) fn spare(&mut self, template: u64) -> Option<RecordBuffer> {
        let at = self.spare.iter().position(|buffer| buffer.template_id() == template)?;
        self.spare.remove(at)
    }
}

impl QueueReceiver {
    /// Waits for the next message; `None` when the sampler has ended and the queue is empty.
    pub(crate) fn next(&self) -> Option<WriterMessage> {
        self.jobs.recv().ok()
    }

    #[cfg(test)]
    pub(crate) fn waiting(&self) -> Option<WriterMessage> {
        self.jobs.try_recv().ok()
    }

    pub(crate) fn done(&self, sample: Sample) {
        self.load.bytes.fetch_sub(sample.size(), Ordering::AcqRel);
        self.load.records.fetch_sub(1, Ordering::AcqRel);
        for record in sample.records {
            // A sampler that has ended needs none.
            let _ = self.spent.send(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use pcp_archive::raw::prepared::{Template, TemplateBuilder};
    use pcp_types::{Pmid, Timestamp, ValueType};

    use super::*;
    use crate::logging::{ChangedValues, LastKnownValues};
    use crate::metadata::Catalog;
    use crate::telemetry::Events;

    fn template() -> Template {
        let mut builder = TemplateBuilder::new();
        builder.begin_set(Pmid::new(70, 1, 1).unwrap(), ValueType::U64);
        builder.value(None, 0).unwrap();
        builder.finish().unwrap()
    }

    fn sample(template: &Template) -> Sample {
        Sample {
            timestamp: Timestamp::EPOCH,
            catalog: Arc::new(Catalog::default()),
            records: vec![template.new_buffer()],
            changes: ChangedValues::default(),
            last_known: LastKnownValues::default(),
            events: Events::default(),
            mark: false,
            unobserved: false,
        }
    }

    /// The next job, which is to write.
    fn next(receiver: &QueueReceiver) -> Sample {
        match receiver.waiting() {
            Some(WriterMessage::Write(sample)) => sample,
            job => panic!("{job:?}"),
        }
    }

    #[test]
    fn two_records_may_wait_whatever_the_limit_and_more_within_it() {
        let template = template();
        let (sender, receiver) = queue(0);
        let offers = [0; 3].map(|_| sender.offer(sample(&template)));
        assert_eq!(offers, [Offer::Taken, Offer::Taken, Offer::Full]);
        let first = next(&receiver);
        assert_eq!(sender.offer(sample(&template)), Offer::Full);
        receiver.done(first);
        assert_eq!(sender.offer(sample(&template)), Offer::Taken);

        let (sender, _inlet) = queue(template.size() * 5);
        let taken = (0..9).filter(|_| sender.offer(sample(&template)) == Offer::Taken);
        assert_eq!(taken.count(), 5);
    }

    #[test]
    fn buffers_return_as_long_as_their_template_is_in_use() {
        let old = template();
        let new = template();
        let (mut sender, receiver) = queue(1000);
        for template in [&old, &new] {
            sender.offer(sample(template));
        }
        assert!(sender.spare(new.id()).is_none());
        receiver.done(next(&receiver));
        receiver.done(next(&receiver));
        sender.collect(|template| template == new.id());
        assert_eq!(sender.spare(new.id()).unwrap().template_id(), new.id());
        assert!(sender.spare(new.id()).is_none());
        assert!(sender.spare(old.id()).is_none());
    }

    #[test]
    fn few_spent_buffers_are_kept() {
        let template = template();
        let (mut sender, receiver) = queue(10_000);
        for _ in 0..10 {
            sender.offer(sample(&template));
        }
        for _ in 0..10 {
            receiver.done(next(&receiver));
        }
        sender.collect(|_| true);
        assert_eq!(sender.spare.len(), MAX_SPARE_BUFFERS);
        sender.collect(|_| false);
        assert_eq!(sender.spare.len(), 0);
    }

    #[test]
    fn each_end_notices_that_the_other_has_ended() {
        let template = template();
        let (sender, receiver) = queue(1000);
        sender.offer(sample(&template));
        sender.order(Order::Sync);
        drop(sender);
        assert!(matches!(receiver.next(), Some(WriterMessage::Write(_))));
        assert!(matches!(receiver.next(), Some(WriterMessage::Do(Order::Sync))));
        assert!(receiver.next().is_none());
        let (sender, receiver) = queue(1000);
        drop(receiver);
        assert_eq!(sender.offer(sample(&template)), Offer::Gone);
    }
}
