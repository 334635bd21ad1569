//! The archive that is being written.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pcp_archive::raw::{FetchResult, ValueSet};
use pcp_archive::{ArchiveWriter, Error, Version};
use pcp_types::Timestamp;
use tracing::warn;

use crate::logging::Sample;
use crate::metadata::ArchiveDeclarations;
use crate::telemetry::Events;

/// Time of a mark after the last record, as in PCP.
const MARK_AFTER_NANOS: i128 = 1_000_000;

/// Minimum of metadata that an archive may get after its first record, in bytes. The limit exists
/// since everything declared stays in memory as long as the archive is written.
const MORE_METADATA: u64 = if cfg!(test) { 1 << 20 } else { 32 << 20 };

/// An archive, and what was written to it so far.
#[derive(Debug)]
pub(super) struct OpenArchive {
    pub base: PathBuf,
    pub writer: ArchiveWriter,
    pub start: Timestamp,
    pub volume: u32,
    pub volume_start: Timestamp,
    /// Time of the last sync.
    pub synced: Timestamp,
    /// Set if the last sync failed and that was logged.
    pub sync_failed: bool,
    pub declared: ArchiveDeclarations,
    /// Set if a mark was written last: a gap has one mark, however often writing failed in it.
    ends_in_mark: bool,
    /// Set if all last-known values were written since the start or the last mark.
    has_last_known: bool,
    last_events: usize,
    /// Bytes of metadata with the first sample.
    first_metadata: Option<u64>,
    /// Bytes that were reported as written.
    pub counted_bytes: u64,
    /// Time at which the files were last compared with what their names refer to.
    pub checked: Instant,
    /// Number of records of samples in each volume, and the time of the first.
    records: BTreeMap<u32, (Timestamp, u64)>,
}

impl OpenArchive {
    /// Creates the state of an archive without records.
    pub(super) fn new(base: PathBuf, writer: ArchiveWriter, start: Timestamp) -> Self {
        Self {
            base,
            writer,
            start,
            volume: 0,
            volume_start: start,
            synced: start,
            sync_failed: false,
            declared: ArchiveDeclarations::default(),
            ends_in_mark: false,
            has_last_known: false,
            last_events: 0,
            first_metadata: None,
            counted_bytes: 0,
            checked: Instant::now(),
            records: BTreeMap::new(),
        }
    }

    /// Counts records of samples that were written to the present volume.
    pub(super) fn count(&mut self, now: Timestamp, records: u64) {
        self.records.entry(self.writer.volume()).or_insert((now, 0)).1 += records;
        self.first_metadata.get_or_insert(self.writer.metadata_bytes());
    }

    /// Returns the limit on its metadata. Beyond it a new archive, which has only the present
    /// metadata, is smaller.
    pub(super) fn metadata_limit(&self) -> u64 {
        let first = self.first_metadata.unwrap_or_default();
        first.saturating_mul(2).saturating_add(MORE_METADATA)
    }

    /// Returns the number of records that are lost with a file, and the time of the first: those
    /// of a volume, all with the metadata, none with the index.
    pub(super) fn lost_with(&self, file: &Path) -> (u64, Option<Timestamp>) {
        let suffix = file.extension().and_then(OsStr::to_str).unwrap_or_default();
        let of = match suffix.parse::<u32>() {
            Ok(number) => self.records.range(number..=number),
            Err(_) if suffix == "index" => return (0, None),
            Err(_) => self.records.range(..),
        };
        let since = of.clone().next().map(|(_, (since, _))| *since);
        (of.map(|(_, (_, records))| records).sum(), since)
    }

    /// Writes a mark before a sample at `next`, if there are records before it.
    pub(super) fn write_mark(&mut self, next: Timestamp) -> Result<(), Error> {
        let last = self.writer.last_timestamp().filter(|_| !self.ends_in_mark);
        if let Some(timestamp) = last.and_then(|last| mark_timestamp(last, next)) {
            self.writer.write_mark(timestamp)?;
            self.ends_in_mark = true;
            self.has_last_known = false;
        }
        Ok(())
    }

    /// Returns whether instances of the archive were created again before a sample.
    pub(super) fn is_replaced_in_part(&self, sample: &Sample) -> bool {
        !self.declared.replaced(&sample.catalog, &self.writer).is_empty()
    }

    /// Writes a sample and these events after the metadata that they need. Sets `reported` once
    /// the events are written, even if writing the sample fails.
    pub(super) fn write_sample(
        &mut self,
        sample: &Sample,
        events: &Events,
        reported: &mut bool,
    ) -> Result<(), Error> {
        if self.has_last_known {
            self.write_before(sample.timestamp, &sample.changes.before)?;
        }
        let before = self.time_before(sample.timestamp);
        if self.writer.last_timestamp().is_some_and(|last| last <= before) {
            self.declared.declare_removals(&sample.catalog, before, &mut self.writer)?;
        }
        self.declared.declare(&sample.catalog, &mut self.writer)?;
        self.write_events(sample, events)?;
        *reported = true;
        let on_change =
            if self.has_last_known { &sample.changes.after } else { &*sample.last_known };
        self.write(sample.timestamp, on_change)?;
        self.has_last_known = true;
        for record in &sample.records {
            self.writer.write_prepared(record)?;
            self.ends_in_mark = false;
        }
        Ok(())
    }

    fn write(&mut self, timestamp: Timestamp, value_sets: &[ValueSet]) -> Result<(), Error> {
        if value_sets.is_empty() {
            return Ok(());
        }
        let value_sets = value_sets.to_vec();
        self.writer.write_result(&FetchResult { timestamp, value_sets })?;
        self.ends_in_mark = false;
        Ok(())
    }

    /// Returns the latest time before `timestamp` that the archive can represent.
    fn time_before(&self, timestamp: Timestamp) -> Timestamp {
        let least = match self.writer.version() {
            Version::V2 => 1_000,
            Version::V3 => 1,
        };
        Timestamp::from_nanos(timestamp.as_nanos() - least)
    }

    /// Writes values right before `timestamp`, unless a record has that time already. Declares
    /// nothing new for them, so that a reader finds changes of metadata at the time of the change.
    fn write_before(&mut self, timestamp: Timestamp, sets: &[ValueSet]) -> Result<(), Error> {
        let before = self.time_before(timestamp);
        let known = sets.iter().all(|set| self.declared.knows(set.pmid));
        if known && self.writer.last_timestamp() < Some(before) {
            self.write(before, sets)?;
        }
        Ok(())
    }

    /// Writes events. With the first sample after them it writes an array without events, so that
    /// no reader takes them for later ones.
    fn write_events(&mut self, sample: &Sample, events: &Events) -> Result<(), Error> {
        if events.is_empty() && self.last_events == 0 {
            return Ok(());
        }
        match events.value_sets(sample.timestamp, &sample.catalog) {
            Ok(sets) => self.write(sample.timestamp, &sets)?,
            Err(error) => warn!(%error, "cannot log events"),
        }
        self.last_events = events.list.len() + usize::from(events.missed > 0);
        Ok(())
    }
}

/// Returns a millisecond after the last record, or the middle of the gap if that is earlier;
/// `None` if there is no time between the two.
fn mark_timestamp(last: Timestamp, next: Timestamp) -> Option<Timestamp> {
    let after = MARK_AFTER_NANOS.min(next.nanos_since(last) / 2);
    (after > 0).then(|| Timestamp::from_nanos(last.as_nanos() + after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_lies_between_the_records_that_it_separates() {
        let at = |nanos: i128| Timestamp::from_nanos(1_700_000_000_000_000_000 + nanos);
        assert_eq!(mark_timestamp(at(0), at(1_000_000_000)), Some(at(1_000_000)));
        assert_eq!(mark_timestamp(at(0), at(1_000)), Some(at(500)));
        assert_eq!(mark_timestamp(at(0), at(1)), None);
    }
}
