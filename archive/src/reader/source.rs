//! What is read as one timeline.

use std::time::Duration;

use pcp_types::Timestamp;

use super::set::ArchiveSet;
use super::temporal_index::TemporalIndex;
use super::timeline::Records;
use super::{Archive, Metadata};
use crate::error::{Error, RecordError, Result};
use crate::format::archive_label::{ArchiveLabel, Version};
use crate::format::result::Record;

/// How far behind the last record of an archive the mark is that separates it
/// from the next one, as in PCP (`__pmLogGenerateMark_ctx` in
/// `src/libpcp/src/logutil.c`).
const MARK_DISTANCE: Duration = Duration::from_millis(1);

/// A handle to one archive, or to several that are read as one: see
/// [`ArchiveSet`].
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    first: &'a Archive,
    /// In the order of time.
    archives: &'a [Archive],
    metadata: &'a Metadata,
}

impl<'a> From<&'a Archive> for Source<'a> {
    fn from(archive: &'a Archive) -> Self {
        let archives = std::slice::from_ref(archive);
        Self { first: archive, archives, metadata: archive.metadata() }
    }
}

impl<'a> From<&'a ArchiveSet> for Source<'a> {
    fn from(set: &'a ArchiveSet) -> Self {
        Self { first: set.first(), archives: set.archives(), metadata: set.metadata() }
    }
}

impl<'a> Source<'a> {
    /// The archives in the order of time, at least one.
    pub const fn archives(self) -> &'a [Archive] {
        self.archives
    }

    /// The label of the first archive.
    pub const fn label(self) -> &'a ArchiveLabel {
        self.first.label()
    }

    /// When the first archive starts, as its label says.
    pub const fn start(self) -> Timestamp {
        self.first.label().start
    }

    /// The time of the last record that is whole.
    pub fn end(self) -> Timestamp {
        self.archives.last().unwrap_or(self.first).end()
    }

    /// Metrics, instance domains, labels and help text of all archives.
    pub const fn metadata(self) -> &'a Metadata {
        self.metadata
    }

    /// All records, from the first.
    ///
    /// # Errors
    ///
    /// None now; volumes are opened when reading reaches them.
    pub fn records(self) -> Result<Records<'a>> {
        Ok(Records::new(self, 0, self.first.at_start()))
    }

    /// The records from the first one whose time is `from` or later. The
    /// indexes are used to find it.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] and [`Error::Io`] from the records on the way.
    pub fn records_from(self, from: Timestamp) -> Result<Records<'a>> {
        let mut records = self.records()?;
        records.move_to(from)?;
        Ok(records)
    }

    /// A position behind all records whose time is `from` or earlier:
    /// [`Records::previous`] returns the newest of them.
    ///
    /// # Errors
    ///
    /// As [`records_from`](Self::records_from).
    pub fn records_back_from(self, from: Timestamp) -> Result<Records<'a>> {
        let mut records = self.records()?;
        records.move_back_to(from)?;
        Ok(records)
    }

    /// Whether records have to be decoded to be read.
    pub(crate) fn is_compressed(self) -> bool {
        self.archives.iter().any(Archive::is_compressed)
    }

    /// The version of the archive that a record is of.
    pub(crate) fn version_of(self, record: &Record<'_>) -> Version {
        self.archive(record.archive() as usize).version()
    }

    /// Whether a record is the mark behind an archive, which is in no file.
    pub(crate) fn is_between(self, record: &Record<'_>) -> bool {
        let archive = self.archive(record.archive() as usize);
        record.is_mark() && (record.volume(), record.offset()) == archive.end_place()
    }

    /// An archive by its place in the order of time.
    pub(super) fn archive(self, at: usize) -> &'a Archive {
        self.archives.get(at).unwrap_or(self.first)
    }

    /// The time of the mark between an archive and the next one; `None`
    /// behind the last.
    pub(super) fn mark_behind(self, at: usize) -> Option<Timestamp> {
        let next = self.archives.get(at + 1)?.label().start;
        let end = self.archive(at).end();
        let just_before = Timestamp::from_nanos(next.as_nanos().saturating_sub(1));
        Some(end.saturating_add(MARK_DISTANCE).min(just_before).max(end))
    }

    /// The times of the entries of all indexes, archive by archive.
    pub(crate) fn index_times(self) -> impl Iterator<Item = Timestamp> {
        let indexes = self.archives.iter().map(Archive::index);
        indexes.flat_map(TemporalIndex::entries).map(|entry| entry.stamp)
    }

    /// How many entries the temporal indexes have.
    pub(crate) fn index_entries(self) -> usize {
        self.archives.iter().map(|archive| archive.index().entries().len()).sum()
    }

    /// The error for a value of a record that its metric's type cannot have.
    pub(crate) fn damaged(self, record: &Record<'_>, source: RecordError) -> Error {
        self.archive(record.archive() as usize).damaged(record, source)
    }
}
