//! Records of the data volumes of one archive in order, forwards and backwards.

use std::path::PathBuf;

use pcp_types::Timestamp;

use super::Archive;
use super::record_file::{Next, RecordFile, Window};
use super::run::Peeked;
use super::trail::Trail;
use crate::error::{Error, RecordError, Result};
use crate::format::archive_label::Version;
use crate::format::frame::LENGTH_WORD;
use crate::format::layout::Layouts;
use crate::format::result::Record;
use crate::salvage::{Piece, Scanner};

/// The end of an archive that was not written to its end: a writer died, or
/// is still writing, or power was lost and the file system left zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The last data volume, or the metadata.
    pub file: PathBuf,
    /// Where the unfinished record starts.
    pub offset: u64,
    /// How many of its bytes, or of the zeros in its place, are there.
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
    /// Behind everything: the archive's end is not known yet.
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
    pub(super) window: Window,
    pub(super) layouts: Layouts,
    pub(super) run: Peeked,
    trail: Trail,
}

/// How a volume ends.
pub(super) struct End {
    /// The time of the last whole record; `None` if there is not one.
    pub(super) stamp: Option<Timestamp>,
    /// How far records go: behind the last whole one or, if what follows it
    /// is neither the end nor a torn tail but damage, the end of the file.
    pub(super) position: Position,
    /// What is left behind it of another record.
    pub(super) torn: Option<TornTail>,
    /// Whether there is damage in front of `position`.
    pub(super) damaged: bool,
}

/// A record in the window: what [`ArchiveRecords::load_next`] and
/// [`ArchiveRecords::load_previous`] found.
#[derive(Clone, Copy)]
pub(super) struct Loaded {
    volume: usize,
    pub(super) offset: u64,
    pub(super) len: usize,
}

impl<'a> ArchiveRecords<'a> {
    pub(super) fn new(archive: &'a Archive, position: Position) -> Self {
        let (window, layouts) = (Window::default(), Layouts::default());
        let (run, trail) = (Peeked::default(), Trail::default());
        Self { archive, position, file: None, window, layouts, run, trail }
    }

    /// The record that [`load_next`](Self::load_next) found; the position is
    /// behind it afterwards.
    pub(super) fn pass(&mut self, loaded: Loaded) -> Result<Record<'_>> {
        let end = loaded.offset + loaded.len as u64;
        self.parse(loaded, Position { volume: loaded.volume, offset: end })
    }

    /// The record that [`load_previous`](Self::load_previous) found; the
    /// position is in front of it afterwards.
    pub(super) fn pass_back(&mut self, loaded: Loaded) -> Result<Record<'_>> {
        self.parse(loaded, Position { volume: loaded.volume, offset: loaded.offset })
    }

    fn parse(&mut self, loaded: Loaded, after: Position) -> Result<Record<'_>> {
        let bytes = self.window.get(loaded.offset, loaded.len).unwrap_or_default();
        let volume = self.archive.volumes.get(loaded.volume);
        let number = volume.map_or(0, |volume| volume.number);
        let (version, offset) = (self.archive.version(), loaded.offset);
        match Record::parse_like(version, bytes, number, offset, &mut self.layouts) {
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

    /// Moves from a damaged record to the next one of the volume that is whole,
    /// or behind the volume. Returns how many bytes were passed over, and the
    /// time of that record.
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
        let mut scanner = Scanner::of_data(file, version).starting_at(offset);
        let mut behind = offset;
        while let Some(piece) = scanner.next()? {
            match piece {
                Piece::Damage(damage) => behind = damage.offset + damage.len,
                Piece::Record { offset: at, len } => {
                    if let Ok(record) = Record::parse(version, scanner.bytes(at, len), 0, at) {
                        self.position.offset = at;
                        return Ok((at - offset, Some(record.timestamp())));
                    }
                    behind = at + len as u64;
                }
            }
        }
        self.position = next_volume;
        Ok((behind.saturating_sub(offset), None))
    }

    /// Brings the record behind the position into the window; `None` behind
    /// the last one that is whole.
    pub(super) fn load_next(&mut self) -> Result<Option<Loaded>> {
        loop {
            let Position { volume, offset } = self.position;
            self.open(volume)?;
            let Some((_, file)) = &mut self.file else { return Ok(None) };
            match self.window.forward(file, offset)? {
                Next::Record(len) => return Ok(Some(Loaded { volume, offset, len })),
                Next::End if volume >= self.archive.end_position.volume => return Ok(None),
                Next::End => {
                    let offset = self.archive.version().label_size();
                    self.position = Position { volume: volume + 1, offset };
                }
                Next::Torn { needed, left } => {
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
    pub(super) fn load_previous(&mut self) -> Result<Option<Loaded>> {
        let floor = self.archive.version().label_size();
        loop {
            let Position { volume, offset } = self.position;
            self.open(volume)?;
            let Some((_, file)) = &mut self.file else { return Ok(None) };
            if let Some(len) = self.window.backward(file, floor, offset)? {
                return Ok(Some(Loaded { volume, offset: offset - len as u64, len }));
            }
            let Some(before) = volume.checked_sub(1) else { return Ok(None) };
            self.move_to_end_of(before)?;
        }
    }

    /// Moves in front of the first record.
    pub(super) const fn move_to_start(&mut self) {
        self.position = Position::start(self.archive.version());
    }

    /// Moves behind the last record.
    pub(super) const fn move_to_end(&mut self) {
        self.position = self.archive.end_position;
    }

    /// Moves behind the last byte of a volume.
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
        if let Some(behind) = self.trail.resume(indexed, &is_behind) {
            self.position = behind;
        } else {
            self.position = indexed;
            self.window.read_little();
            let certain = self.is_in_front(&is_behind);
            self.trail.restart(certain.then_some(indexed));
            if !certain && !self.go_in_front(&is_behind) {
                self.position = start;
            }
        }
        loop {
            self.window.read_little();
            let loaded = self.load_next()?;
            match self.stamp_of(loaded)? {
                Some((stamp, Loaded { volume, offset, len })) if !is_behind(stamp) => {
                    self.position = Position { volume, offset: offset + len as u64 };
                    self.trail.pass(stamp, self.position);
                }
                _ => return Ok(()),
            }
        }
    }

    /// Goes back until the position is in front of a record that is not behind
    /// what is sought; whether that is certain. Entries of old archives point
    /// behind their record, and damaged ones anywhere.
    fn go_in_front(&mut self, is_behind: impl Fn(Timestamp) -> bool) -> bool {
        loop {
            match self.load_previous().and_then(|loaded| self.stamp_of(loaded)) {
                Ok(Some((stamp, loaded))) if is_behind(stamp) => {
                    let Loaded { volume, offset, .. } = loaded;
                    self.position = Position { volume, offset };
                }
                Ok(_) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Whether the position certainly is in front of a record that is not behind
    /// what is sought.
    fn is_in_front(&mut self, is_behind: impl Fn(Timestamp) -> bool) -> bool {
        let found = self.load_next().and_then(|loaded| self.stamp_of(loaded));
        let Ok(Some((stamp, Loaded { offset, len, .. }))) = found else { return false };
        let bytes = self.window.get(offset, len).unwrap_or_default();
        !is_behind(stamp) && bytes.first_chunk::<LENGTH_WORD>() == bytes.last_chunk()
    }

    /// Where the newest index entry before `target` points, if that can be.
    fn indexed_before(&self, target: Timestamp) -> Option<Position> {
        let entry = self.archive.index.last_before(target)?;
        let volumes = &self.archive.volumes;
        let volume = volumes.binary_search_by_key(&entry.volume, |volume| volume.number).ok()?;
        let offset = entry.data_offset.max(self.archive.version().label_size());
        Some(Position { volume, offset }.min(self.archive.end_position))
    }

    fn stamp_of(&self, loaded: Option<Loaded>) -> Result<Option<(Timestamp, Loaded)>> {
        let (Some(loaded), Some((_, file))) = (loaded, &self.file) else { return Ok(None) };
        let bytes = self.window.get(loaded.offset, loaded.len).unwrap_or_default();
        let stamp = Record::parse_timestamp(self.archive.version(), bytes);
        let stamp = stamp.map_err(|source| file.corrupt(loaded.offset, source))?;
        Ok(Some((stamp, loaded)))
    }

    /// The same of a record that is whole in all its fields. Two words within
    /// half a record can look like the length words around one.
    fn stamp_of_whole(&self, loaded: Option<Loaded>) -> Result<Option<(Timestamp, Loaded)>> {
        let (Some(loaded), Some((_, file))) = (loaded, &self.file) else { return Ok(None) };
        let Loaded { offset, len, .. } = loaded;
        let bytes = self.window.get(offset, len).unwrap_or_default();
        match Record::parse(self.archive.version(), bytes, 0, offset) {
            Ok(record) => Ok(Some((record.timestamp(), loaded))),
            Err(source) => Err(file.corrupt(offset, source)),
        }
    }

    /// How a volume ends at whose end the position is: its last record, read
    /// backwards, or else what a forward search finds.
    pub(super) fn find_end(&mut self, volume: usize) -> End {
        self.window.read_little();
        let position = self.position;
        let first = Position { volume, ..Position::start(self.archive.version()) };
        match self.load_previous().and_then(|loaded| self.stamp_of_whole(loaded)) {
            Ok(Some((stamp, loaded))) if loaded.volume == volume => {
                return End { stamp: Some(stamp), position, torn: None, damaged: false };
            }
            // Nothing but a label: the record is of an earlier volume.
            Ok(_) => return End { stamp: None, position: first, torn: None, damaged: false },
            Err(_) => {}
        }
        let found = self.scan_starts(volume).find_map(|start| {
            self.position = start;
            self.scan_to_end(volume)
        });
        let stamp = found.map(|(stamp, _)| stamp);
        let behind = found.map_or(first, |(_, behind)| behind);
        let torn = self.torn_at(behind);
        let damaged = torn.is_none() && behind.offset < position.offset;
        End { stamp, position: if damaged { position } else { behind }, torn, damaged }
    }

    /// The unfinished record at a position, if there is one.
    fn torn_at(&mut self, position: Position) -> Option<TornTail> {
        self.open(position.volume).ok()?;
        let (_, file) = self.file.as_mut()?;
        let offset = position.offset;
        let bytes = file.available(offset, 0, u64::MAX).ok().filter(|left| *left > 0)?;
        let cut_off = matches!(self.window.forward(file, offset), Ok(Next::Torn { .. }));
        let torn = cut_off || file.is_zero_from(offset).ok()?;
        torn.then(|| TornTail { file: file.path.clone(), offset, bytes })
    }

    /// Where a forward search for the end of a volume can start: its last
    /// indexed record, or else its first.
    fn scan_starts(&self, volume: usize) -> impl Iterator<Item = Position> + use<> {
        let number = self.archive.volumes.get(volume).map(|volume| volume.number);
        let entries = self.archive.index.entries().iter().rev();
        let indexed = entries.filter(|entry| Some(entry.volume) == number);
        let indexed = indexed.map(|entry| entry.data_offset).next();
        let first = self.archive.version().label_size();
        let offsets = indexed.filter(|offset| *offset > first).into_iter().chain([first]);
        offsets.map(move |offset| Position { volume, offset })
    }

    /// The last of the whole records from the position on, and what is behind
    /// it.
    fn scan_to_end(&mut self, volume: usize) -> Option<(Timestamp, Position)> {
        let mut found = None;
        while let Ok(Some((stamp, loaded))) =
            self.load_next().and_then(|loaded| self.stamp_of(loaded))
            && loaded.volume == volume
        {
            self.position.offset = loaded.offset + loaded.len as u64;
            found = Some((stamp, self.position));
        }
        found
    }
}
