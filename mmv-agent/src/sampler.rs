//! One tick: what changed, all values, one record.
//!
//! Reads no clock; the moments come from the caller. Everything constant is
//! prepared and kept until it changes: the catalog while the sources and their
//! metadata stay, the recorder while also the same values are present.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pcp_types::Timestamp;
use tracing::{error, info, warn};

use crate::catalog::{Catalog, Conflict, merge};
use crate::host::Host;
use crate::queue::{Offer, Outlet, Sample};
use crate::record::{Layout, Recorder};
use crate::sources::Sources;

/// What the sampler has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SamplerReport {
    /// Records handed to the writer.
    pub records: u64,
    /// Values in them.
    pub values: u64,
    /// Records dropped because the queue was full.
    pub dropped: u64,
    /// Ticks passed over because an earlier one took too long.
    pub missed: u64,
}

/// The sampler's state between ticks.
#[derive(Debug)]
pub(crate) struct Sampler {
    host: Host,
    sources: Sources,
    outlet: Outlet,
    catalog: Arc<Catalog>,
    layout: Layout,
    recorder: Option<Recorder>,
    /// What was left out and has been said.
    conflicts: Vec<(String, Conflict)>,
    unsaid: usize,
    after_loss: bool,
    dropping: u64,
    report: SamplerReport,
}

impl Sampler {
    /// Samples the files in `mmv_dir` into `outlet`.
    pub(crate) fn new(mmv_dir: PathBuf, host: Host, outlet: Outlet) -> Self {
        Self {
            host,
            sources: Sources::new(mmv_dir),
            outlet,
            catalog: Arc::default(),
            layout: Layout::new(),
            recorder: None,
            conflicts: Vec::new(),
            unsaid: 0,
            after_loss: false,
            dropping: 0,
            report: SamplerReport::default(),
        }
    }

    /// Says that samples of all sources are missing before the next one.
    pub(crate) fn note_gap(&mut self) {
        self.after_loss = true;
    }

    /// Counts ticks that were passed over.
    pub(crate) fn note_missed(&mut self, ticks: u64) {
        self.report.missed += ticks;
    }

    /// What has been done so far.
    pub(crate) fn report(&self) -> SamplerReport {
        self.report
    }

    /// Takes one sample: `now` is counted from the start, `stamp` is the time
    /// that the record bears. `false` if nobody takes samples any more.
    pub(crate) fn tick(&mut self, now: Duration, stamp: Timestamp) -> bool {
        self.sources.refresh(now);
        let pass = self.sources.harvest(now, stamp);
        if pass.changed {
            self.merge();
        }
        let fresh = pass.changed || pass.reshaped;
        match self.sample(stamp, fresh) {
            Some(sample) => self.hand_over(sample),
            None => true,
        }
    }

    fn merge(&mut self) {
        let merged = merge(self.catalog.id + 1, &self.sources.members(), &self.host);
        for (file, conflict) in &merged.conflicts {
            if !self.conflicts.iter().any(|(_, known)| known == conflict) {
                warn!(file = %file, reason = %conflict, "left out");
            }
        }
        if merged.unsaid > self.unsaid {
            warn!(more = merged.unsaid, "more is left out for such reasons");
        }
        self.unsaid = merged.unsaid;
        self.conflicts = merged.conflicts;
        self.catalog = Arc::new(merged.catalog);
        self.layout = merged.layout;
    }

    /// The record of the values just read; `None` if there are none.
    fn sample(&mut self, stamp: Timestamp, fresh: bool) -> Option<Sample> {
        let values = self.sources.values();
        let kept = self.recorder.take().filter(|kept| !fresh && kept.is_for(&values));
        let recorder = match kept {
            Some(recorder) => recorder,
            None => match Recorder::new(&self.layout, &values) {
                Ok(recorder) => recorder?,
                Err(error) => {
                    error!(%error, "this sample cannot be recorded");
                    return None;
                }
            },
        };
        let mut record =
            self.outlet.spent(recorder.template_id()).unwrap_or_else(|| recorder.new_buffer());
        let fits = recorder.record(stamp, &values, &mut record);
        debug_assert!(fits, "a string changed its length without being noticed");
        self.report.values += recorder.values() as u64;
        self.recorder = Some(recorder);
        let catalog = Arc::clone(&self.catalog);
        fits.then_some(Sample { stamp, catalog, record, after_loss: self.after_loss })
    }

    fn hand_over(&mut self, sample: Sample) -> bool {
        match self.outlet.offer(sample) {
            Offer::Taken => {
                if self.dropping > 0 {
                    info!(dropped = self.dropping, "samples are taken again");
                }
                self.dropping = 0;
                self.after_loss = false;
                self.report.records += 1;
            }
            Offer::Full => {
                if self.dropping == 0 {
                    warn!("the queue is full: samples are dropped until the disk has caught up");
                }
                self.dropping += 1;
                self.after_loss = true;
                self.report.dropped += 1;
            }
            Offer::Gone => return false,
        }
        true
    }
}
