//! A source: one archive, or several that are read as one timeline.

use std::path::PathBuf;
use std::time::Duration;

use crate::format::Adaptations;
use crate::{
    Archive, ArchiveLabel, ArchiveSet, Error, Metadata, Record, RecordError, Result, TemporalIndex,
    Timestamp, Version,
};

/// The time from the last record of an archive to the mark that separates it
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
    /// Of each archive; none of a single one.
    adaptations: &'a [Adaptations],
    has_all_marks: bool,
}

impl<'a> From<&'a Archive> for Source<'a> {
    fn from(archive: &'a Archive) -> Self {
        let archives = std::slice::from_ref(archive);
        Self {
            first: archive,
            archives,
            metadata: archive.metadata(),
            adaptations: &[],
            has_all_marks: false,
        }
    }
}

impl<'a> From<&'a ArchiveSet> for Source<'a> {
    fn from(set: &'a ArchiveSet) -> Self {
        Self {
            first: set.first(),
            archives: set.archives(),
            metadata: set.metadata(),
            adaptations: set.adaptations(),
            has_all_marks: false,
        }
    }
}

impl<'a> Source<'a> {
    /// Returns the source with a mark between any two archives, which is PCP's rule.
    pub(crate) const fn with_all_marks(self) -> Self {
        Self { has_all_marks: true, ..self }
    }

    /// Returns the archives in the order of time, at least one.
    pub const fn archives(self) -> &'a [Archive] {
        self.archives
    }

    /// Returns the changes that make the values of an archive those of the timeline; `None` if
    /// there are none.
    pub(super) fn adaptations(self, at: usize) -> Option<&'a Adaptations> {
        self.adaptations.get(at).filter(|adaptations| !adaptations.is_empty())
    }

    /// Returns the label of the first archive.
    pub const fn label(self) -> &'a ArchiveLabel {
        self.first.label()
    }

    /// Returns the start of the first archive, from its label.
    pub const fn start(self) -> Timestamp {
        self.first.label().start
    }

    /// Returns the time of the last record that is whole.
    pub fn end(self) -> Timestamp {
        self.archives.last().unwrap_or(self.first).end()
    }

    /// Metrics, instance domains, labels and help text of all archives.
    pub const fn metadata(self) -> &'a Metadata {
        self.metadata
    }

    /// Returns whether records can be read from any place on: not those of volumes that are
    /// decoded from their start.
    pub(crate) fn is_seekable(self) -> bool {
        self.archives.iter().all(Archive::is_seekable)
    }

    pub(crate) fn version_of(self, record: &Record<'_>) -> Version {
        self.archive(record.archive() as usize).version()
    }

    /// Returns whether a record is the mark after an archive, which is in no file.
    pub(crate) fn is_between(self, record: &Record<'_>) -> bool {
        let archive = self.archive(record.archive() as usize);
        record.is_mark() && (record.volume(), record.offset()) == archive.end_place()
    }

    /// Returns an archive by its place in the order of time.
    pub(super) fn archive(self, at: usize) -> &'a Archive {
        self.archives.get(at).unwrap_or(self.first)
    }

    /// Returns whether sampling went on in the next archive and lost nothing in between: both
    /// begin with one [identity of what served them](ServerIdentity), and the next one begins
    /// within the time that two records of one archive may be apart without a mark.
    pub(super) fn is_continued(self, at: usize) -> bool {
        let archive = self.archive(at);
        let Some(next) = self.archives.get(at + 1) else { return false };
        !self.has_all_marks
            && !archive.is_damaged
            && archive.server().is_some()
            && archive.server() == next.server()
            && archive.is_soon_followed_by(next)
    }

    /// Returns the time of the mark between an archive and the next one; `None` after the last,
    /// and where the next one [continues](Self::is_continued) it.
    pub(super) fn mark_behind(self, at: usize) -> Option<Timestamp> {
        if self.is_continued(at) {
            return None;
        }
        let next = self.archives.get(at + 1)?.label().start;
        let end = self.archive(at).end();
        let just_before = Timestamp::from_nanos(next.as_nanos().saturating_sub(1));
        Some(end.saturating_add(MARK_DISTANCE).min(just_before).max(end))
    }

    /// Returns the times of the entries of all indexes, archive by archive.
    pub(crate) fn index_times(self) -> impl Iterator<Item = Timestamp> {
        let indexes = self.archives.iter().map(Archive::index);
        indexes.flat_map(TemporalIndex::entries).map(|entry| entry.timestamp)
    }

    pub(crate) fn index_entries(self) -> usize {
        self.archives.iter().map(|archive| archive.index().entries().len()).sum()
    }

    /// Returns the error for a value of a record that its metric's type cannot have.
    pub(crate) fn damaged(self, record: &Record<'_>, source: RecordError) -> Error {
        self.archive(record.archive() as usize).damaged(record, source)
    }

    pub(crate) fn file_of(self, record: &Record<'_>) -> PathBuf {
        self.archive(record.archive() as usize).file_of(record)
    }

    /// Calls [`Archive::leave_out`] of the archive that a record is of.
    pub(crate) fn leave_out(self, record: &Record<'_>, error: RecordError) -> Result<()> {
        self.archive(record.archive() as usize).leave_out(record, error)
    }
}
