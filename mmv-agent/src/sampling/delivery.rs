//! Hands samples to the writer thread, and keeps track of dropped ones.
//!
//! Invariant: a sample that follows dropped ones has a mark.

use pcp_types::Timestamp;
use tracing::{info, warn};

use crate::loading::Reporter;
use crate::logging::{Offer, QueueSender, Sample};
use crate::telemetry::{EventKind, OwnMetrics};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SamplerReport {
    /// Records handed to the writer.
    pub records: u64,
    pub values: u64,
    /// Records dropped because the queue was full.
    pub dropped: u64,
    /// Ticks skipped because an earlier one took too long.
    pub missed: u64,
}

/// A period in which samples are dropped.
#[derive(Debug)]
struct Outage {
    since: Timestamp,
    samples: u64,
    records: u64,
}

/// The sampler's connection to the writer thread.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub queue: QueueSender,
    pub report: SamplerReport,
    /// Set if a mark belongs before the next sample.
    pub mark: bool,
    /// Set if a file was replaced while no agent ran and the writer does not know it yet.
    pub unobserved: bool,
    outage: Option<Outage>,
}

impl Delivery {
    pub(crate) fn new(queue: QueueSender) -> Self {
        let report = SamplerReport::default();
        Self { queue, report, mark: false, unobserved: false, outage: None }
    }

    /// Hands over a sample. Returns false if the writer has ended.
    pub(crate) fn deliver(
        &mut self,
        sample: Sample,
        reporter: &mut Reporter,
        own: &OwnMetrics,
    ) -> bool {
        let records = sample.records.len() as u64;
        let timestamp = sample.timestamp;
        let has_events = !sample.events.is_empty();
        match self.queue.offer(sample) {
            Offer::Taken => {
                if has_events {
                    reporter.events.clear();
                }
                if let Some(Outage { since, samples, records }) = self.outage.take() {
                    info!(dropped = samples, "sampling has resumed");
                    reporter.events.note(EventKind::Dropped, |event| {
                        event.records = Some(records);
                        event.since = Some(since);
                    });
                }
                self.mark = false;
                self.unobserved = false;
                self.report.records += records;
                own.sampled.add(records);
            }
            Offer::Full => {
                let outage = self.outage.get_or_insert_with(|| {
                    warn!("the queue is full: samples are dropped until the disk has caught up");
                    Outage { since: timestamp, samples: 0, records: 0 }
                });
                outage.samples += 1;
                outage.records += records;
                self.mark = true;
                self.report.dropped += records;
                own.dropped.add(records);
            }
            Offer::Gone => return false,
        }
        true
    }
}
