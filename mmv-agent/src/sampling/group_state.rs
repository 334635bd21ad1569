//! One group: its configuration, its timer, and the values that it logs.
//!
//! Input: its share of the values, and the values of a tick. Output: its records and changes.
//! Everything constant is prepared and kept: the recorder is valid while the sources and their
//! metadata stay and the same values are present.

use std::collections::BTreeSet;

use pcp_archive::Version;
use pcp_archive::raw::prepared::RecordBuffer;
use pcp_types::Timestamp;
use tracing::{error, info};

use super::on_change::OnChange;
use super::schedule::Timer;
use crate::config::{Group, LogMode};
use crate::loading::partition::{GroupId, GroupShape};
use crate::loading::update::RetiredObjects;
use crate::logging::{QueueSender, Recorder, RecorderBuilder};
use crate::metadata::RecordShape;
use crate::source::Values;
use crate::telemetry::GroupStatus;

#[derive(Debug, Clone, Copy, Default)]
struct RecordSize {
    values: usize,
    bytes: usize,
}

#[derive(Debug)]
pub(crate) struct GroupState {
    pub id: GroupId,
    pub config: Group,
    pub timer: Timer,
    /// Values that it logs once or on change.
    pub on_change: OnChange,
    shape: RecordShape,
    builder: RecorderBuilder,
    recorder: Option<Recorder>,
    last_record: RecordSize,
    /// Set once the size of the first record was logged.
    estimated: bool,
    /// True for each source with values of the group.
    sources: Vec<bool>,
}

impl GroupState {
    /// Creates a group without values.
    pub(crate) fn new(id: GroupId, config: Group, timer: Timer, version: Version) -> Self {
        Self {
            id,
            config,
            timer,
            on_change: OnChange::default(),
            shape: RecordShape::default(),
            builder: RecorderBuilder::new(version),
            recorder: None,
            last_record: RecordSize::default(),
            estimated: false,
            sources: Vec::new(),
        }
    }

    /// Applies another share of the values of `sources`. Returns true if a last-known value is
    /// gone.
    pub(super) fn set_share(
        &mut self,
        share: GroupShape,
        sources: usize,
        retired: &mut RetiredObjects,
    ) -> bool {
        self.sources = vec![false; sources];
        for owner in share.every.owners().iter().chain(share.on_change.owners()) {
            if let Some(owned) = self.sources.get_mut(*owner) {
                *owned = true;
            }
        }
        let before = std::mem::replace(&mut self.shape, share.every);
        retired.push((before, self.recorder.take()));
        self.on_change.set_shape(share.on_change, self.config.log == LogMode::Once)
    }

    /// Returns true if source number `source` has values of the group.
    pub(crate) fn needs(&self, source: usize) -> bool {
        self.sources.get(source).copied().unwrap_or(false)
    }

    /// Adds a source without values of the group to those it reads, so that its changes are seen.
    pub(crate) fn adopt(&mut self, source: usize) {
        if let Some(owned) = self.sources.get_mut(source) {
            *owned = true;
        }
    }

    /// Drops the recorder, since other values are present than in the last record.
    pub(crate) fn drop_recorder(&mut self) {
        self.recorder = None;
    }

    /// Returns the number of its template, if it has one.
    pub(crate) fn template(&self) -> Option<u64> {
        self.recorder.as_ref().map(Recorder::template_id)
    }

    /// Logs once how many bytes a day of records needs.
    pub(crate) fn log_estimate(&mut self) {
        let RecordSize { values, bytes } = self.last_record;
        if self.estimated || bytes == 0 {
            return;
        }
        self.estimated = true;
        let interval = self.timer.interval();
        let megabytes = self.bytes_a_day() as f64 / 1e6;
        let group = &self.config.name;
        info!(%group, values, ?interval, "{megabytes:.1} MB a day before compression");
    }

    /// Returns the bytes that a day of records like the last one needs.
    fn bytes_a_day(&self) -> u64 {
        (self.last_record.bytes as f64 * 86_400.0 / self.timer.interval().as_secs_f64()) as u64
    }

    pub(crate) fn status(&self) -> GroupStatus {
        GroupStatus {
            name: self.config.name.clone(),
            interval: self.timer.interval().as_secs_f64(),
            values: self.last_record.values,
            known: self.shape.values(),
            bytes_a_day: self.bytes_a_day(),
            log: self.config.log,
        }
    }

    /// Adds the sources with values of the same metrics.
    pub(super) fn add_joined(&self, sources: &mut BTreeSet<usize>) {
        self.shape.add_joined(sources);
        self.on_change.add_joined(sources);
    }

    /// Returns the record of the values of some sources, as [`record`](Self::record) does. The
    /// status has the size of a record of all.
    pub(super) fn record_some(
        &mut self,
        timestamp: Timestamp,
        values: &[Option<&Values>],
        queue: &mut QueueSender,
    ) -> Option<(RecordBuffer, usize)> {
        let last_record = self.last_record;
        let record = self.record(timestamp, values, queue);
        self.last_record = last_record;
        record
    }

    /// Returns the record of these values, and their number; `None` if there are none.
    pub(crate) fn record(
        &mut self,
        timestamp: Timestamp,
        values: &[Option<&Values>],
        queue: &mut QueueSender,
    ) -> Option<(RecordBuffer, usize)> {
        self.last_record = RecordSize::default();
        let kept = self.recorder.take();
        let kept = kept.filter(|kept| kept.is_for(values, |source| self.needs(source)));
        let recorder = match kept {
            Some(recorder) => recorder,
            None => match self.builder.build(&self.shape, values) {
                Ok(recorder) => recorder?,
                Err(error) => {
                    error!(%error, "cannot record this sample");
                    return None;
                }
            },
        };
        let spare = queue.spare(recorder.template_id());
        let mut record = spare.unwrap_or_else(|| recorder.new_buffer());
        let fits = recorder.record(timestamp, values, &mut record);
        debug_assert!(fits, "a string changed its length without being noticed");
        let count = recorder.values();
        self.last_record = RecordSize { values: count, bytes: recorder.bytes() };
        self.recorder = Some(recorder);
        fits.then_some((record, count))
    }
}
