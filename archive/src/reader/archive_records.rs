//! Records of the data volumes of one archive in order, forwards and backwards.

use std::path::PathBuf;

use super::fast::{Excerpt, RecordRun, RecordShapes, RunFinder, SeekCache};
use crate::files::{FileWindow, NextRecord, RecordFile, next_intact};
use crate::format::ShapeId;
use crate::format::frame::LENGTH_WORD;
use crate::{Archive, Error, Record, RecordError, Result, Timestamp, Version};

/// The end of an archive that was not written to its end: a writer died, or
/// is still writing, or power was lost and the file system left zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The last data volume, or the metadata.
    pub file: PathBuf,
    /// Start of the unfinished record.
    pub offset: u64,
    /// Number of its bytes, or of the zeros in its place, that are there.
    pub bytes: u64,
}

/// A place between two records. Ordered as in the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    /// Index into the archive's volumes.
    pub(super) volume: usize,
    /// Bytes from the start of the volume.
    pub(super) offset: u64,
}

impl Position {
    /// After all positions: the archive's end is not known yet.
    pub(super) const UNKNOWN_END: Self = Self { volume: usize::MAX, offset: u64::MAX };

    pub(super) const fn start(version: Version) -> Self {
        Self { volume: 0, offset: version.label_size() }
    }
}

/// The records of one archive from some position on, in either direction.
#[derive(Debug)]
pub(super) struct ArchiveRecords<'a> {
    pub(super) archive: &'a Archive,
    pub(super) position: Position,
    /// The open volume and its index.
    file: Option<(usize, RecordFile)>,
    pub(super) window: FileWindow,
    pub(super) shapes: RecordShapes,
    run: RunFinder,
    seek_cache: SeekCache<Position>,
}

/// The end of a volume's records.
pub(super) struct VolumeEnd {
    /// The timestamp of the last complete record, if there is one.
    pub(super) timestamp: Option<Timestamp>,
    /// End of the records: after the last complete one or, if damage follows it, the end of the
    /// file.
    pub(super) position: Position,
    /// The torn record after it.
    pub(super) torn: Option<TornTail>,
    /// Set if there is damage before `position`.
    pub(super) damaged: bool,
}

/// A record in the window: what [`ArchiveRecords::load_next`] and
/// [`ArchiveRecords::load_previous`] found.
#[derive(Clone, Copy)]
pub(super) struct LoadedRecord {
    volume: usize,
    pub(super) offset: u64,
    pub(super) len: usize,
}

impl<'a> ArchiveRecords<'a> {
    pub(super) fn new(archive: &'a Archive, position: Position) -> Self {
        let window = FileWindow::default();
        let shapes = RecordShapes::default();
        let run = RunFinder::default();
        let seek_cache = SeekCache::default();
        Self { archive, position, file: None, window, shapes, run, seek_cache }
    }

    /// Returns the record that [`load_next`](Self::load_next) found; the position is after it
    /// afterwards.
    pub(super) fn pass(&mut self, loaded: LoadedRecord) -> Result<Record<'_>> {
        let end = loaded.offset + loaded.len as u64;
        self.parse(loaded, Position { volume: loaded.volume, offset: end })
    }

    /// Returns the record that [`load_previous`](Self::load_previous) found; the position is
    /// before it afterwards.
    pub(super) fn pass_back(&mut self, loaded: LoadedRecord) -> Result<Record<'_>> {
        self.parse(loaded, Position { volume: loaded.volume, offset: loaded.offset })
    }

    fn parse(&mut self, loaded: LoadedRecord, after: Position) -> Result<Record<'_>> {
        let bytes = self.window.get(loaded.offset, loaded.len).unwrap_or_default();
        let volume = self.archive.volumes.get(loaded.volume);
        let number = volume.map_or(0, |volume| volume.number);
        let version = self.archive.version();
        let offset = loaded.offset;
        match self.shapes.parse(version, bytes, number, offset) {
            Ok(record) => {
                self.position = after;
                Ok(record)
            }
            Err(source) => Err(Error::Corrupt {
                file: volume.map(|volume| volume.path.clone()).unwrap_or_default(),
                offset,
                source,
            }),
        }
    }

    /// Returns the next records, if they are of a shape that is known and wanted, up to one whose
    /// timestamp `is_over`; the position stays before them.
    pub(super) fn peek_run(
        &mut self,
        is_wanted: impl Fn(ShapeId) -> bool,
        is_over: impl Fn(Timestamp) -> bool,
    ) -> Result<Option<RecordRun<'_>>> {
        let Some(loaded) = self.load_next()? else { return Ok(None) };
        let version = self.archive.version();
        let bytes = self.window.rest(loaded.offset);
        let shapes = &mut self.shapes;
        Ok(self.run.find(version, bytes, loaded.len, shapes, is_wanted, is_over))
    }

    /// Returns the next records as [`peek_run`](Self::peek_run), but reads excerpts of at most
    /// `count` records, which are of a shape that the archive had before. Returns `None` if the
    /// next record is of no such shape, or has to be read as a whole.
    pub(super) fn peek_excerpts(
        &mut self,
        excerpt: &Excerpt,
        count: usize,
        is_over: impl Fn(Timestamp) -> bool,
    ) -> Result<Option<RecordRun<'_>>> {
        self.archive.check_not_cancelled()?;
        if excerpt.version != self.archive.version() {
            return Ok(None);
        }
        let Position { volume, offset } = self.position;
        self.open(volume)?;
        let Some((_, file)) = &mut self.file else { return Ok(None) };
        if file.is_compressed() {
            return Ok(None);
        }
        Ok(self.run.find_by_excerpts(file, offset, excerpt, count, is_over))
    }

    /// Returns the position: the number of its volume, and the offset.
    pub(super) fn place(&self) -> (u32, u64) {
        let volume = self.archive.volumes.get(self.position.volume);
        (volume.map_or(0, |volume| volume.number), self.position.offset)
    }

    /// Moves past the first records of the run that was returned last.
    pub(super) const fn pass_run(&mut self, count: usize) {
        self.position.offset += self.run.size(count);
    }

    /// Moves from a damaged record to the next complete one of the volume, or
    /// to the end of the volume. Returns how many bytes were skipped, and the
    /// timestamp of that record.
    pub(super) fn skip_damage(&mut self) -> Result<(u64, Option<Timestamp>)> {
        let Position { volume, offset } = self.position;
        let version = self.archive.version();
        let next_volume = Position { volume: volume + 1, offset: version.label_size() };
        let mut file = match self.archive.open_volume(volume) {
            Ok(Some(file)) => file,
            Err(error @ Error::Io { .. }) => return Err(error),
            Ok(None) | Err(_) => {
                self.position = next_volume;
                return Ok((0, None));
            }
        };
        let end = self.archive.end_position;
        if volume == end.volume {
            file.cut(end.offset);
        }
        let (after, next) = next_intact(file, version, offset)?;
        self.position = match next {
            Some(_) => Position { volume, offset: after },
            None => next_volume,
        };
        Ok((after.saturating_sub(offset), next))
    }

    /// Brings the record after the position into the window; `None` after the
    /// last complete one.
    pub(super) fn load_next(&mut self) -> Result<Option<LoadedRecord>> {
        self.archive.check_not_cancelled()?;
        loop {
            let Position { volume, offset } = self.position;
            self.open(volume)?;
            let Some((_, file)) = &mut self.file else { return Ok(None) };
            match self.window.forward(file, offset)? {
                NextRecord::Record(len) => return Ok(Some(LoadedRecord { volume, offset, len })),
                NextRecord::End if volume >= self.archive.end_position.volume => return Ok(None),
                NextRecord::End => {
                    let offset = self.archive.version().label_size();
                    self.position = Position { volume: volume + 1, offset };
                }
                NextRecord::Torn { needed, left } => {
                    let field = "record";
                    return Err(
                        file.corrupt(offset, RecordError::Truncated { field, needed, left })
                    );
                }
            }
        }
    }

    /// Brings the record before the position into the window; `None` at the
    /// start.
    pub(super) fn load_previous(&mut self) -> Result<Option<LoadedRecord>> {
        self.archive.check_not_cancelled()?;
        let floor = self.archive.version().label_size();
        loop {
            let Position { volume, offset } = self.position;
            self.open(volume)?;
            let Some((_, file)) = &mut self.file else { return Ok(None) };
            if let Some(len) = self.window.backward(file, floor, offset)? {
                return Ok(Some(LoadedRecord { volume, offset: offset - len as u64, len }));
            }
            let Some(before) = volume.checked_sub(1) else { return Ok(None) };
            self.move_to_end_of(before)?;
        }
    }

    pub(super) const fn move_to_start(&mut self) {
        self.position = Position::start(self.archive.version());
    }

    pub(super) const fn move_to_end(&mut self) {
        self.position = self.archive.end_position;
    }

    pub(super) fn move_to_end_of(&mut self, volume: usize) -> Result<()> {
        self.open(volume)?;
        let offset = self.file.as_mut().map_or(Ok(0), |(_, file)| file.len())?;
        self.position = Position { volume, offset };
        Ok(())
    }

    /// Makes `volume` the open one; none is open if it does not exist. The
    /// last one ends where the archive did when it was opened.
    fn open(&mut self, volume: usize) -> Result<()> {
        if self.file.as_ref().is_none_or(|(open, _)| *open != volume) {
            self.window.clear();
            self.file = self.archive.open_volume(volume)?.map(|file| (volume, file));
            let end = self.archive.end_position;
            if let Some((_, file)) = self.file.as_mut().filter(|(open, _)| *open == end.volume) {
                file.cut(end.offset);
            }
        }
        Ok(())
    }

    /// Moves to the first record whose time `is_behind`, which is monotonic in
    /// time and false for times before `target`.
    pub(super) fn seek(
        &mut self,
        target: Timestamp,
        is_behind: impl Fn(Timestamp) -> bool,
    ) -> Result<()> {
        let start = Position::start(self.archive.version());
        let indexed = self.indexed_before(target).unwrap_or(start);
        if let Some(after) = self.seek_cache.resume(indexed, &is_behind) {
            self.position = after;
        } else {
            self.position = indexed;
            self.window.read_little();
            let certain = self.is_in_front(&is_behind);
            self.seek_cache.restart(certain.then_some(indexed));
            if !certain && !self.go_in_front(&is_behind) {
                self.position = start;
            }
        }
        loop {
            self.window.read_little();
            let loaded = self.load_next()?;
            match self.timestamp_of(loaded)? {
                Some((timestamp, LoadedRecord { volume, offset, len }))
                    if !is_behind(timestamp) =>
                {
                    self.position = Position { volume, offset: offset + len as u64 };
                    self.seek_cache.pass(timestamp, self.position);
                }
                _ => return Ok(()),
            }
        }
    }

    /// Goes back until the position is before a record that the search has to
    /// pass; whether that is certain. Entries of old archives point after their
    /// record, and damaged ones anywhere.
    fn go_in_front(&mut self, is_behind: impl Fn(Timestamp) -> bool) -> bool {
        loop {
            match self.load_previous().and_then(|loaded| self.timestamp_of(loaded)) {
                Ok(Some((timestamp, loaded))) if is_behind(timestamp) => {
                    let LoadedRecord { volume, offset, .. } = loaded;
                    self.position = Position { volume, offset };
                }
                Ok(_) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Returns whether the position certainly is before a record that the search has to pass.
    fn is_in_front(&mut self, is_behind: impl Fn(Timestamp) -> bool) -> bool {
        let found = self.load_next().and_then(|loaded| self.timestamp_of(loaded));
        let Ok(Some((timestamp, LoadedRecord { offset, len, .. }))) = found else { return false };
        let bytes = self.window.get(offset, len).unwrap_or_default();
        !is_behind(timestamp) && bytes.first_chunk::<LENGTH_WORD>() == bytes.last_chunk()
    }

    /// Returns the position that the newest index entry before `target` points to, if that can
    /// be.
    fn indexed_before(&self, target: Timestamp) -> Option<Position> {
        let entry = self.archive.index.last_before(target)?;
        let volumes = &self.archive.volumes;
        let volume = volumes.binary_search_by_key(&entry.volume, |volume| volume.number).ok()?;
        let offset = entry.data_offset.max(self.archive.version().label_size());
        Some(Position { volume, offset }.min(self.archive.end_position))
    }

    fn timestamp_of(
        &self,
        loaded: Option<LoadedRecord>,
    ) -> Result<Option<(Timestamp, LoadedRecord)>> {
        let (Some(loaded), Some((_, file))) = (loaded, &self.file) else { return Ok(None) };
        let bytes = self.window.get(loaded.offset, loaded.len).unwrap_or_default();
        let timestamp = Record::parse_timestamp(self.archive.version(), bytes);
        let timestamp = timestamp.map_err(|source| file.corrupt(loaded.offset, source))?;
        Ok(Some((timestamp, loaded)))
    }

    /// Returns the timestamp as [`timestamp_of`](Self::timestamp_of), after checking that all
    /// fields of the record are whole: two words within half a record can look like the length
    /// words around one.
    fn timestamp_of_whole(
        &self,
        loaded: Option<LoadedRecord>,
    ) -> Result<Option<(Timestamp, LoadedRecord)>> {
        let (Some(loaded), Some((_, file))) = (loaded, &self.file) else { return Ok(None) };
        let LoadedRecord { offset, len, .. } = loaded;
        let bytes = self.window.get(offset, len).unwrap_or_default();
        match Record::parse(self.archive.version(), bytes, 0, offset) {
            Ok(record) => Ok(Some((record.timestamp(), loaded))),
            Err(source) => Err(file.corrupt(offset, source)),
        }
    }

    /// Finds the end of a volume at whose last byte the position is: its last record, read
    /// backwards, or else what a forward search finds.
    pub(super) fn find_end(&mut self, volume: usize) -> VolumeEnd {
        self.window.read_little();
        let position = self.position;
        let first = Position { volume, ..Position::start(self.archive.version()) };
        match self.load_previous().and_then(|loaded| self.timestamp_of_whole(loaded)) {
            Ok(Some((timestamp, loaded))) if loaded.volume == volume => {
                return VolumeEnd {
                    timestamp: Some(timestamp),
                    position,
                    torn: None,
                    damaged: false,
                };
            }
            // Nothing but a label: the record is of an earlier volume.
            Ok(_) => {
                return VolumeEnd { timestamp: None, position: first, torn: None, damaged: false };
            }
            Err(_) => {}
        }
        let found = self.scan_starts(volume).find_map(|start| {
            self.position = start;
            self.scan_to_end(volume)
        });
        let timestamp = found.map(|(timestamp, _)| timestamp);
        let after = found.map_or(first, |(_, after)| after);
        let torn = self.torn_at(after);
        let damaged = torn.is_none() && after.offset < position.offset;
        VolumeEnd { timestamp, position: if damaged { position } else { after }, torn, damaged }
    }

    fn torn_at(&mut self, position: Position) -> Option<TornTail> {
        self.open(position.volume).ok()?;
        let (_, file) = self.file.as_mut()?;
        let offset = position.offset;
        let bytes = file.available(offset, 0, u64::MAX).ok().filter(|left| *left > 0)?;
        let cut_off = matches!(self.window.forward(file, offset), Ok(NextRecord::Torn { .. }));
        let torn = cut_off || file.is_zero_from(offset).ok()?;
        torn.then(|| TornTail { file: file.path.clone(), offset, bytes })
    }

    /// Returns where a forward search for the end of a volume can start: its last indexed record,
    /// or else its first.
    fn scan_starts(&self, volume: usize) -> impl Iterator<Item = Position> + use<> {
        let number = self.archive.volumes.get(volume).map(|volume| volume.number);
        let entries = self.archive.index.entries().iter().rev();
        let indexed = entries.filter(|entry| Some(entry.volume) == number);
        let indexed = indexed.map(|entry| entry.data_offset).next();
        let first = self.archive.version().label_size();
        let offsets = indexed.filter(|offset| *offset > first).into_iter().chain([first]);
        offsets.map(move |offset| Position { volume, offset })
    }

    /// Returns the last of the complete records from the position on, and the position after it.
    fn scan_to_end(&mut self, volume: usize) -> Option<(Timestamp, Position)> {
        let mut found = None;
        while let Ok(Some((timestamp, loaded))) =
            self.load_next().and_then(|loaded| self.timestamp_of(loaded))
            && loaded.volume == volume
        {
            self.position.offset = loaded.offset + loaded.len as u64;
            found = Some((timestamp, self.position));
        }
        found
    }
}
