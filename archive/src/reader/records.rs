//! The records of one archive, or of several that follow each other.

use super::archive_records::ArchiveRecords;
use super::fast::{Excerpt, RecordRun};
use crate::format::{ShapeId, encode_mark};
use crate::{Error, Record, Result, Source, Timestamp, Version};

/// The records of an archive, or of several in the order of time, from some
/// position on, in either direction.
///
/// Between two archives is a mark that no file has, since what happened between them is unknown,
/// unless sampling went on in the second and lost nothing: both begin with the same values of
/// `pmcd.pid` and `pmcd.seqnum`, and the second begins within three intervals and a second. The
/// timestamp of the mark is 1 ms after the last record of the first archive, or earlier if the
/// second starts before that, in both directions; its place is the end of the first one.
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
    at: usize,
    inside: ArchiveRecords<'a>,
    /// The mark between archives that was passed last.
    mark: Vec<u8>,
}

impl<'a> Source<'a> {
    /// Returns all records, from the first.
    ///
    /// # Errors
    ///
    /// None now; volumes are opened when reading reaches them.
    pub fn records(self) -> Result<Records<'a>> {
        Ok(Records {
            source: self,
            at: 0,
            inside: self.archive(0).records_at_start(),
            mark: Vec::new(),
        })
    }

    /// Returns the records from the first one whose time is `from` or later. The indexes are used
    /// to find it.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] and [`Error::Io`] from the records on the way.
    pub fn records_from(self, from: Timestamp) -> Result<Records<'a>> {
        let mut records = self.records()?;
        records.move_to(from)?;
        Ok(records)
    }

    /// Returns a position after all records whose timestamp is `from` or earlier:
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
}

fn of_archive<'r>(record: Record<'r>, source: Source<'r>, at: usize) -> Record<'r> {
    let record = record.with_archive(at as u32);
    source.adaptations(at).map_or(record, |adaptations| record.adapted(adaptations))
}

impl Records<'_> {
    /// Returns the next record; `None` after the last complete one.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] for a damaged record, or one that is cut off by the
    /// end of its volume or of the archive; [`Error::Io`].
    #[expect(clippy::should_implement_trait, reason = "the item borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>> {
        let mut loaded = self.inside.load_next()?;
        while loaded.is_none() && self.source.is_continued(self.at) {
            self.enter(self.at + 1);
            loaded = self.inside.load_next()?;
        }
        if let Some(loaded) = loaded {
            let record = self.inside.pass(loaded)?;
            return Ok(Some(of_archive(record, self.source, self.at)));
        }
        let Some(timestamp) = self.source.mark_behind(self.at) else { return Ok(None) };
        self.at += 1;
        self.inside = self.source.archive(self.at).records_at_start();
        self.mark(self.at - 1, timestamp).map(Some)
    }

    /// Returns the record before the position; `None` at the start.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub fn previous(&mut self) -> Result<Option<Record<'_>>> {
        let mut loaded = self.inside.load_previous()?;
        while loaded.is_none()
            && let Some(before) = self.at.checked_sub(1)
            && self.source.is_continued(before)
        {
            self.at = before;
            self.inside = self.source.archive(before).records_at_end();
            loaded = self.inside.load_previous()?;
        }
        if let Some(loaded) = loaded {
            let record = self.inside.pass_back(loaded)?;
            return Ok(Some(of_archive(record, self.source, self.at)));
        }
        let before = self.at.checked_sub(1);
        let timestamp = before.and_then(|before| self.source.mark_behind(before));
        let (Some(before), Some(timestamp)) = (before, timestamp) else { return Ok(None) };
        self.at = before;
        self.inside = self.source.archive(before).records_at_end();
        self.mark(before, timestamp).map(Some)
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
        self.inside.seek(from, |timestamp| timestamp >= from)
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
            return self.inside.seek(from, |timestamp| timestamp > from);
        }
        self.inside.move_to_end();
        Ok(())
    }

    /// Makes the position one in this archive.
    fn enter(&mut self, at: usize) {
        if self.at != at {
            self.at = at;
            self.inside = self.source.archive(at).records_at_start();
        }
    }

    /// Moves from a damaged record, at which [`next`](Self::next) failed, to the next whole
    /// one of its volume, or to the next volume. Returns how many bytes are between, and
    /// the time of that record.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io).
    pub fn skip_damage(&mut self) -> Result<(u64, Option<Timestamp>)> {
        self.inside.skip_damage()
    }

    /// Returns the next records, if they are of a shape that is known and wanted, up to one whose
    /// timestamp `is_over`; the position stays before them.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub(crate) fn peek_run(
        &mut self,
        is_wanted: impl Fn(ShapeId) -> bool,
        is_over: impl Fn(Timestamp) -> bool,
    ) -> Result<Option<RecordRun<'_>>> {
        // Runs are read by their bytes.
        if self.source.adaptations(self.at).is_some() {
            return Ok(None);
        }
        self.inside.peek_run(is_wanted, is_over)
    }

    /// Returns the next records as [`peek_run`](Self::peek_run), but reads excerpts of at most
    /// `count` records. Returns `None` if the next record has to be read as a whole.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub(crate) fn peek_excerpts(
        &mut self,
        excerpt: &Excerpt,
        count: usize,
        is_over: impl Fn(Timestamp) -> bool,
    ) -> Result<Option<RecordRun<'_>>> {
        if self.source.adaptations(self.at).is_some() {
            return Ok(None);
        }
        self.inside.peek_excerpts(excerpt, count, is_over)
    }

    /// Returns the start of the run that was returned last: archive, volume, offset.
    pub(crate) fn place(&self) -> (u32, u32, u64) {
        let (volume, offset) = self.inside.place();
        (self.at as u32, volume, offset)
    }

    /// Moves past the first records of the run that was returned last.
    pub(crate) const fn pass_run(&mut self, count: usize) {
        self.inside.pass_run(count);
    }

    fn mark(&mut self, after: usize, timestamp: Timestamp) -> Result<Record<'_>> {
        let (volume, offset) = self.source.archive(after).end_place();
        self.mark.clear();
        encode_mark(Version::V3, timestamp, &mut self.mark)?;
        let mark = Record::parse(Version::V3, &self.mark, volume, offset);
        let mark = mark.map_err(|source| {
            let file = self.source.archive(after).base().to_owned();
            Error::Corrupt { file, offset, source }
        })?;
        Ok(mark.with_archive(after as u32))
    }
}

#[cfg(test)]
mod tests;
