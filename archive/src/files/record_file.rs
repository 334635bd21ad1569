//! One file of framed records, and the buffer to read it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
#[cfg(feature = "compression")]
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::unistd::{Whence, lseek};

use super::MAX_DAMAGE;
#[cfg(feature = "compression")]
use super::blocks::{BlockCache, BlockFile, BlockTable, SharedStream};
#[cfg(feature = "compression")]
use super::decompressed::DecompressedFile;
use super::held::open;
use crate::format::{Role, archive_label, frame, index};
use crate::{ArchiveLabel, Compression, Error, RecordError, Result, Version, io_error};

/// Bytes that are read at once where records are read one after the other.
const CHUNK: usize = 256 * 1024;

/// Bytes that are read at once on the way to a record that is sought.
const LITTLE: usize = 32 * 1024;

/// Bytes that are announced at once where pieces of records are read.
const ANNOUNCED: u64 = 4 << 20;

/// A piece in memory takes a tenth of this, one on a disk several times as long.
const WAIT: Duration = Duration::from_micros(10);

/// Bytes that are read at once of a file that is read as a whole.
const STEP: usize = 8 << 20;

/// The longest record of a compressed file, in bytes: ten million values. A few kilobytes can
/// decompress to one of gigabytes.
const MAX_COMPRESSED_RECORD: u64 = 256 << 20;

/// A file of an archive, open for reading. The length of a plain file is taken
/// once: what is appended later is not seen.
#[derive(Debug)]
pub(crate) struct RecordFile {
    pub(crate) path: PathBuf,
    source: ByteSource,
    /// Bytes from here on are ignored.
    end: u64,
    /// The kernel was asked to bring what is before this into memory; `None` while reads of
    /// pieces do not wait for the disk.
    announced: Option<u64>,
}

#[derive(Debug)]
enum ByteSource {
    Plain {
        file: File,
        len: u64,
    },
    #[cfg(feature = "compression")]
    Compressed(SharedStream),
    #[cfg(feature = "compression")]
    Blocks(Box<BlockFile>),
}

/// The bytes at a place where a record should start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextRecord {
    /// A record of this many bytes, now in the buffer.
    Record(usize),
    End,
    /// A record that needs more bytes than the file has.
    Torn {
        needed: u64,
        left: u64,
    },
}

#[cfg(feature = "compression")]
fn lock(stream: &SharedStream) -> MutexGuard<'_, DecompressedFile> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RecordFile {
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::NotRegular`] for anything but a regular file;
    /// [`Error::Compressed`] for a compressed file, if this library was built without
    /// the decoders.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::read(open(path).map_err(io_error("open", path))?, path)
    }

    /// Reads an open file as [`open`](Self::open). It may have been at `path` before and no longer.
    pub(crate) fn read(file: File, path: &Path) -> Result<Self> {
        let metadata = file.metadata().map_err(io_error("stat", path))?;
        if !metadata.is_file() {
            return Err(Error::NotRegular { file: path.to_owned() });
        }
        let len = metadata.len();
        let source = match Compression::from_path(path) {
            None => ByteSource::Plain { file, len },
            #[cfg(feature = "compression")]
            Some(compression) => {
                let is_index = super::members::is_index(path);
                // An index is read as a whole, and bounded more narrowly.
                let table = if is_index {
                    None
                } else {
                    BlockTable::read(&file, len, compression).map_err(io_error("read", path))?
                };
                if let Some(table) = table {
                    let blocks = BlockFile::new(file, table).map_err(io_error("stat", path))?;
                    ByteSource::Blocks(Box::new(blocks))
                } else {
                    let new = || DecompressedFile::new(file, len, compression, is_index);
                    ByteSource::Compressed(BlockCache::shared().stream(&metadata, new))
                }
            }
            #[cfg(not(feature = "compression"))]
            Some(_) => return Err(Error::Compressed { file: path.to_owned() }),
        };
        Ok(Self { path: path.to_owned(), source, end: u64::MAX, announced: None })
    }

    /// Returns the file, to be read once from its start to its end: no blocks are kept for
    /// another time.
    #[cfg(feature = "compression")]
    pub(crate) fn read_once(mut self) -> Self {
        if let ByteSource::Blocks(blocks) = &mut self.source {
            blocks.read_once();
        }
        self
    }

    /// Returns the number of bytes from `offset` on, at most `most`.
    ///
    /// # Errors
    ///
    /// [`Error::Decompress`] if damage of a compressed file leaves fewer than
    /// `least`; [`Error::Io`].
    #[cfg_attr(
        not(feature = "compression"),
        expect(clippy::unnecessary_wraps, reason = "only decoding can fail")
    )]
    pub(crate) fn available(&mut self, offset: u64, least: u64, most: u64) -> Result<u64> {
        let end = self.end.saturating_sub(offset);
        let most = most.max(least).min(end);
        match &mut self.source {
            ByteSource::Plain { len, .. } => Ok(len.saturating_sub(offset).min(most)),
            #[cfg(feature = "compression")]
            ByteSource::Compressed(stream) => {
                let found = lock(stream).available(offset, least.min(end), most);
                found.map_err(|source| self.decompress_error(source))
            }
            #[cfg(feature = "compression")]
            ByteSource::Blocks(blocks) => {
                let found = blocks.available(offset, least.min(end), most);
                found.map_err(|source| self.decompress_error(source))
            }
        }
    }

    /// Treats the file as ending at `end`, if it is longer.
    pub(crate) const fn cut(&mut self, end: u64) {
        self.end = end;
    }

    /// Makes visible what was appended since the file was opened. A compressed file does not grow.
    pub(crate) fn refresh(&mut self) -> Result<()> {
        let found = match &mut self.source {
            ByteSource::Plain { file, len } => {
                file.metadata().map(|metadata| *len = metadata.len())
            }
            #[cfg(feature = "compression")]
            ByteSource::Compressed(_) | ByteSource::Blocks(_) => Ok(()),
        };
        found.map_err(io_error("stat", &self.path))
    }

    pub(crate) const fn is_compressed(&self) -> bool {
        !matches!(self.source, ByteSource::Plain { .. })
    }

    /// Returns the offset up to which damage that begins at `offset` is examined: a small
    /// compressed file can expand to gigabytes that are not records.
    pub(crate) const fn most_damage(&self, offset: u64) -> u64 {
        if self.is_compressed() { offset.saturating_add(MAX_DAMAGE) } else { u64::MAX }
    }

    /// Checks, before memory is taken for a long record of a compressed file, that both of its
    /// length words say so: what is there between costs its author nothing.
    fn check_ends(&mut self, offset: u64, len: u64) -> Result<()> {
        if !self.is_compressed() || len <= CHUNK as u64 {
            return Ok(());
        }
        if len > MAX_COMPRESSED_RECORD {
            let found = len as u32;
            let most = MAX_COMPRESSED_RECORD as u32;
            return Err(self.corrupt(offset, RecordError::TooLong { found, most }));
        }
        let mut head = [0; frame::LENGTH_WORD];
        let mut tail = [0; frame::LENGTH_WORD];
        self.read_at(&mut head, offset)?;
        self.read_at(&mut tail, offset + len - frame::LENGTH_WORD as u64)?;
        let header = frame::parse_length(&head).map_err(|error| self.corrupt(offset, error))?;
        let trailer = frame::parse_trailer(&tail).map_err(|error| self.corrupt(offset, error))?;
        if header == trailer {
            return Ok(());
        }
        Err(self.corrupt(offset, RecordError::Trailer { header, trailer }))
    }

    /// Returns whether several readers may start anywhere in the file, each at its own place.
    pub(crate) fn is_seekable(&self) -> bool {
        match &self.source {
            ByteSource::Plain { .. } => true,
            #[cfg(feature = "compression")]
            ByteSource::Compressed(_) => false,
            #[cfg(feature = "compression")]
            ByteSource::Blocks(blocks) => blocks.has_small_blocks(),
        }
    }

    /// Returns the end of the damaged block that `offset` is in; `None` if it is in none, or if
    /// the damage has no known end. Only blocks that reading has met are known.
    #[cfg_attr(
        not(feature = "compression"),
        expect(unused_variables, reason = "only compressed files have blocks")
    )]
    pub(crate) fn damaged_until(&self, offset: u64) -> Option<u64> {
        match &self.source {
            #[cfg(feature = "compression")]
            ByteSource::Blocks(blocks) => {
                blocks.damaged_until(offset).map(|until| until.min(self.end))
            }
            _ => None,
        }
    }

    /// Returns all bytes of the file. A compressed one that does not list its blocks is decoded
    /// to its end.
    pub(crate) fn len(&mut self) -> Result<u64> {
        self.available(0, u64::MAX, u64::MAX)
    }

    /// Returns the label at the start of the file, which must be of a file of this role.
    pub(crate) fn read_label(&mut self, role: Role) -> Result<ArchiveLabel> {
        let (label, found) = self.read_any_label()?;
        if found != role.volume() {
            let file = self.path.clone();
            let expected = role.volume();
            return Err(Error::VolumeMismatch { file, found, expected });
        }
        Ok(label)
    }

    /// Returns the label at the start of the file, and its volume word.
    pub(crate) fn read_any_label(&mut self) -> Result<(ArchiveLabel, i32)> {
        let least = Version::V2.label_size();
        let most = Version::V3.label_size();
        let size = self.available(0, least, most)? as usize;
        let mut bytes = vec![0; size];
        self.read_at(&mut bytes, 0)?;
        let len = frame::parse_length(&bytes).map_err(|e| self.corrupt(0, e))? as usize;
        let record = bytes.get(..len.min(size)).unwrap_or_default();
        archive_label::parse(record).map_err(|e| self.corrupt(0, e))
    }

    pub(crate) fn read_at(&mut self, bytes: &mut [u8], offset: u64) -> Result<()> {
        match &mut self.source {
            ByteSource::Plain { file, .. } => {
                let read = file.read_exact_at(bytes, offset);
                read.map_err(io_error("read", &self.path))
            }
            #[cfg(feature = "compression")]
            ByteSource::Compressed(stream) => {
                let read = lock(stream).read_at(bytes, offset);
                read.map_err(|source| self.decompress_error(source))
            }
            #[cfg(feature = "compression")]
            ByteSource::Blocks(blocks) => {
                let read = blocks.read_at(bytes, offset);
                read.map_err(|source| self.decompress_error(source))
            }
        }
    }

    /// Says how long it took to read a number of pieces of this plain file, and where the next
    /// ones are. If that was long, the kernel is asked to bring what follows into memory: it
    /// takes pieces for reads at random places, and waits for the disk at each.
    pub(crate) fn announce(&mut self, offset: u64, pieces: u32, took: Duration) {
        if took > WAIT * pieces {
            self.announced.get_or_insert(offset);
        }
        if let (ByteSource::Plain { file, .. }, Some(announced)) = (&self.source, self.announced)
            && offset + ANNOUNCED / 2 > announced
        {
            let start = announced.max(offset);
            let advice = PosixFadviseAdvice::POSIX_FADV_WILLNEED;
            // It costs time only if it fails.
            let _ = posix_fadvise(file, start as i64, ANNOUNCED as i64, advice);
            self.announced = Some(start + ANNOUNCED);
        }
    }

    /// Returns the entries of an index, [as many](index::MAX_ENTRIES) as are read, and whether it
    /// has more.
    pub(crate) fn read_index(&mut self, version: Version) -> Result<(Vec<u8>, bool)> {
        let start = version.label_size();
        let most = index::MAX_ENTRIES as usize * index::size(version);
        let entries = self.read_from(start, most)?;
        let has_more = self.available(start + entries.len() as u64, 0, 1)? > 0;
        Ok((entries, has_more))
    }

    /// Reads the file from `offset` on, `most` bytes at most, as far as it can be decompressed.
    pub(crate) fn read_from(&mut self, offset: u64, most: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            // Not more at once than is there: what a file says of its length may be wrong.
            let step = STEP.min(most - bytes.len()) as u64;
            let len = self.available(offset + bytes.len() as u64, 0, step)? as usize;
            if len == 0 {
                return Ok(bytes);
            }
            let before = bytes.len();
            bytes.resize(before + len, 0);
            self.read_at(bytes.get_mut(before..).unwrap_or_default(), offset + before as u64)?;
        }
    }

    /// Returns whether the file holds nothing but zeros from `offset` on, which of a compressed
    /// file are [`MAX_DAMAGE`] bytes at most.
    pub(crate) fn is_zero_from(&mut self, mut offset: u64) -> Result<bool> {
        let most = self.most_damage(offset);
        let mut chunk = vec![0; CHUNK];
        loop {
            offset = self.skip_hole(offset);
            let left = self.available(offset, 0, CHUNK as u64)? as usize;
            let bytes = chunk.get_mut(..left).unwrap_or_default();
            self.read_at(bytes, offset)?;
            if bytes.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            if left == 0 {
                return Ok(self.damaged_until(offset).is_none());
            }
            offset += left as u64;
            if offset > most {
                return Ok(false);
            }
        }
    }

    /// Returns the first place from `offset` on that is in no hole of a plain file: bytes that
    /// were never written, which are read as zeros and take no room on the disk.
    pub(crate) fn skip_hole(&self, offset: u64) -> u64 {
        match &self.source {
            ByteSource::Plain { file, len } => match lseek(file, offset as i64, Whence::SeekData) {
                Ok(data) => data as u64,
                Err(Errno::ENXIO) => offset.max(self.end.min(*len)),
                // A file system that knows no holes.
                Err(_) => offset,
            },
            #[cfg(feature = "compression")]
            _ => offset,
        }
    }

    pub(crate) fn corrupt(&self, offset: u64, source: RecordError) -> Error {
        Error::Corrupt { file: self.path.clone(), offset, source }
    }

    /// Wraps an error of the decoder: it is damage unless it is the system's.
    #[cfg(feature = "compression")]
    fn decompress_error(&self, source: std::io::Error) -> Error {
        if source.raw_os_error().is_some() {
            return io_error("read", &self.path)(source);
        }
        Error::Decompress { file: self.path.clone(), source }
    }
}

/// A stretch of a file in memory. Grows to the largest record met.
#[derive(Debug)]
pub(crate) struct FileWindow {
    buffer: Vec<u8>,
    start: u64,
    len: usize,
    /// Bytes that are read next: twice as many as the last time.
    ahead: usize,
}

impl Default for FileWindow {
    fn default() -> Self {
        Self { buffer: Vec::new(), start: 0, len: 0, ahead: CHUNK }
    }
}

impl FileWindow {
    /// Reads little ahead next time: not much of it may be needed.
    pub(crate) const fn read_little(&mut self) {
        self.ahead = LITTLE;
    }

    /// Forgets what it holds: the next file has other bytes.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Examines what starts at `offset`; a record is in the buffer afterwards.
    pub(crate) fn forward(&mut self, file: &mut RecordFile, offset: u64) -> Result<NextRecord> {
        let word = frame::LENGTH_WORD as u64;
        let left = self.fill(file, offset, word)?;
        if left == 0 {
            return Ok(NextRecord::End);
        }
        if left < word {
            return Ok(NextRecord::Torn { needed: word, left });
        }
        let head = self.get(offset, frame::LENGTH_WORD).unwrap_or_default();
        let len = frame::parse_length(head).map_err(|e| file.corrupt(offset, e))?;
        let needed = u64::from(len);
        match self.fill(file, offset, needed)? {
            left if left < needed => Ok(NextRecord::Torn { needed, left }),
            _ => Ok(NextRecord::Record(len as usize)),
        }
    }

    /// Brings `wanted` bytes into the buffer if the file has them; returns how
    /// many there are.
    fn fill(&mut self, file: &mut RecordFile, offset: u64, wanted: u64) -> Result<u64> {
        if self.get(offset, wanted as usize).is_some() {
            return Ok(wanted);
        }
        let left = file.available(offset, wanted, self.ahead as u64)?;
        if left < wanted {
            return Ok(left);
        }
        file.check_ends(offset, wanted)?;
        self.load(file, offset, left as usize)?;
        Ok(wanted)
    }

    /// Returns the length of the record that ends at `end` and starts at `floor` or later; it is
    /// in the buffer afterwards. `None` if `end` is `floor`.
    pub(crate) fn backward(
        &mut self,
        file: &mut RecordFile,
        floor: u64,
        end: u64,
    ) -> Result<Option<usize>> {
        let left = end.saturating_sub(floor);
        if left == 0 {
            return Ok(None);
        }
        let short = |file: &RecordFile, needed| {
            let field = "record before";
            file.corrupt(end, RecordError::Truncated { field, needed, left })
        };
        let at = end.checked_sub(frame::OVERHEAD as u64).filter(|at| *at >= floor);
        let at = at.ok_or_else(|| short(file, frame::OVERHEAD as u64))?;
        if self.get(at, frame::OVERHEAD).is_none() {
            self.load_backward(file, floor, at, end)?;
        }
        let tail = self.get(at + frame::LENGTH_WORD as u64, frame::LENGTH_WORD);
        let len = frame::parse_length(tail.unwrap_or_default());
        let len = len.map_err(|e| file.corrupt(end, e))?;
        let start = end.checked_sub(u64::from(len)).filter(|start| *start >= floor);
        let start = start.ok_or_else(|| short(file, u64::from(len)))?;
        if self.get(start, len as usize).is_none() {
            file.check_ends(start, u64::from(len))?;
            self.load_backward(file, floor, start, end)?;
        }
        Ok(Some(len as usize))
    }

    /// Returns bytes of the file, if they are in the buffer.
    pub(crate) fn get(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let at = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let end = at.checked_add(len).filter(|end| *end <= self.len)?;
        self.buffer.get(at..end)
    }

    /// Returns the part of the file from `offset` on that is in the buffer.
    pub(crate) fn rest(&self, offset: u64) -> &[u8] {
        let at = offset.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.buffer.get(at..self.len)).unwrap_or_default()
    }

    fn load_backward(
        &mut self,
        file: &mut RecordFile,
        floor: u64,
        start: u64,
        end: u64,
    ) -> Result<()> {
        let start = start.min(end.saturating_sub(self.ahead as u64)).max(floor);
        self.load(file, start, (end - start) as usize)
    }

    fn load(&mut self, file: &mut RecordFile, start: u64, len: usize) -> Result<()> {
        self.len = 0;
        if self.buffer.len() < len {
            self.buffer.resize(len, 0);
        }
        let target = self.buffer.get_mut(..len).unwrap_or_default();
        file.read_at(target, start)?;
        self.start = start;
        self.len = len;
        self.ahead = (2 * self.ahead).min(CHUNK);
        Ok(())
    }
}

/// Compares the labels of two files of one archive: version, process and host must agree.
pub(crate) fn check_labels(
    label: &ArchiveLabel,
    file: &Path,
    first: &ArchiveLabel,
    other: &Path,
) -> Result<()> {
    match label_difference(label, first) {
        None => Ok(()),
        Some(LabelDifference { field, found, expected }) => Err(Error::LabelMismatch {
            file: file.to_owned(),
            other: other.to_owned(),
            field,
            found,
            expected,
        }),
    }
}

/// A field in which the labels of two files of one archive must not differ and do.
pub(crate) struct LabelDifference {
    pub(crate) field: &'static str,
    pub(crate) found: String,
    pub(crate) expected: String,
}

/// Compares the label of a file with that of another one of its archive. Their start times may
/// differ.
pub(crate) fn label_difference(
    label: &ArchiveLabel,
    first: &ArchiveLabel,
) -> Option<LabelDifference> {
    let (field, found, expected) = if label.version != first.version {
        ("version", label.version.number().to_string(), first.version.number().to_string())
    } else if label.pid != first.pid {
        ("pid", label.pid.to_string(), first.pid.to_string())
    } else if label.hostname != first.hostname {
        ("host name", label.hostname.to_string(), first.hostname.to_string())
    } else {
        return None;
    };
    Some(LabelDifference { field, found, expected })
}
