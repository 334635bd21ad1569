//! The records of one archive, or of several that follow each other.

use pcp_types::Timestamp;

use super::records::ArchiveRecords;
use super::source::Source;
use crate::error::{Error, Result};
use crate::format::archive_label::Version;
use crate::format::result::Record;
use crate::format::result_builder::encode_mark;

/// The records of an archive, or of several in the order of time, from some
/// position on, in either direction.
///
/// Between two archives lies a mark that no file has: nobody knows what
/// happened between them. Its time is 1 ms after the last record of the first
/// one, or as much sooner as it takes to lie before the start of the second,
/// in both directions; its place is the end of the first one.
///
/// ```text
/// a: 10 s  20 s  30 s                  b: 60 s  70 s
///                     30.001 s, mark
/// ```
///
/// A record borrows from the buffer and lives until the next call. After an
/// error the position is unchanged, so that the same error comes again.
#[derive(Debug)]
pub struct Records<'a> {
    source: Source<'a>,
    /// The archive that the position is in.
    at: usize,
    pub(super) inside: ArchiveRecords<'a>,
    /// The mark between archives that was passed last.
    mark: Vec<u8>,
}

impl<'a> Records<'a> {
    /// A position inside an archive of the source.
    pub(super) const fn new(source: Source<'a>, at: usize, inside: ArchiveRecords<'a>) -> Self {
        Self { source, at, inside, mark: Vec::new() }
    }

    /// The next record; `None` behind the last one that is whole.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] for a damaged record, or one that is cut off by the
    /// end of its volume or of the archive; [`Error::Io`].
    #[expect(clippy::should_implement_trait, reason = "the item borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>> {
        if let Some(loaded) = self.inside.load_next()? {
            let record = self.inside.pass(loaded)?;
            return Ok(Some(record.of_archive(self.at as u32)));
        }
        let Some(stamp) = self.source.mark_behind(self.at) else { return Ok(None) };
        self.at += 1;
        self.inside = self.source.archive(self.at).at_start();
        self.mark(self.at - 1, stamp).map(Some)
    }

    /// The record before the position; `None` at the start.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub fn previous(&mut self) -> Result<Option<Record<'_>>> {
        if let Some(loaded) = self.inside.load_previous()? {
            let record = self.inside.pass_back(loaded)?;
            return Ok(Some(record.of_archive(self.at as u32)));
        }
        let before = self.at.checked_sub(1);
        let stamp = before.and_then(|before| self.source.mark_behind(before));
        let (Some(before), Some(stamp)) = (before, stamp) else { return Ok(None) };
        self.at = before;
        self.inside = self.source.archive(before).at_end();
        self.mark(before, stamp).map(Some)
    }

    /// Moves to where [`Source::records_from`] begins. What is in memory around
    /// it is not read again.
    pub(crate) fn move_to(&mut self, from: Timestamp) -> Result<()> {
        let archives = self.source.archives();
        let over = archives.partition_point(|archive| archive.end() < from);
        if let Some(before) = over.checked_sub(1)
            && self.source.mark_behind(before).is_some_and(|mark| mark >= from)
        {
            self.enter(before);
            self.inside.move_to_end();
            return Ok(());
        }
        self.enter(over.min(archives.len() - 1));
        self.inside.seek(from, |stamp| stamp >= from)
    }

    /// Moves to where [`Source::records_back_from`] begins.
    pub(crate) fn move_back_to(&mut self, from: Timestamp) -> Result<()> {
        let archives = self.source.archives();
        let begun = archives.partition_point(|archive| archive.label().start <= from);
        let at = begun.saturating_sub(1);
        if self.source.mark_behind(at).is_some_and(|mark| mark <= from) {
            self.enter(begun);
            self.inside.move_to_start();
            return Ok(());
        }
        self.enter(at);
        if from < self.source.archive(at).end() {
            return self.inside.seek(from, |stamp| stamp > from);
        }
        self.inside.move_to_end();
        Ok(())
    }

    /// Makes the position one in this archive.
    fn enter(&mut self, at: usize) {
        if self.at != at {
            self.at = at;
            self.inside = self.source.archive(at).at_start();
        }
    }

    /// Moves on behind a damaged record; see [`ArchiveRecords::skip_damage`].
    pub(crate) fn skip_damage(&mut self) -> Result<(u64, Option<Timestamp>)> {
        self.inside.skip_damage()
    }

    /// The mark behind an archive, as a record at that archive's end.
    fn mark(&mut self, behind: usize, stamp: Timestamp) -> Result<Record<'_>> {
        let (volume, offset) = self.source.archive(behind).end_place();
        self.mark.clear();
        encode_mark(Version::V3, stamp, &mut self.mark)?;
        let mark = Record::parse(Version::V3, &self.mark, volume, offset);
        let file = || self.source.archive(behind).base().to_owned();
        let mark = mark.map_err(|source| Error::Corrupt { file: file(), offset, source })?;
        Ok(mark.of_archive(behind as u32))
    }
}

#[cfg(test)]
mod tests;
