//! One file of framed records, and the buffer that it is read through.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, RecordError, Result};
use crate::format::archive_label::{self, ArchiveLabel, Role, Version};
use crate::format::frame;

/// How much is read at once.
const CHUNK: usize = 256 * 1024;

/// A file of an archive, open for reading. Its length is taken once: what is
/// appended later is not seen.
#[derive(Debug)]
pub(crate) struct RecordFile {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) len: u64,
}

/// What is at a place where a record should start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// A record of so many bytes, now in the buffer.
    Record(usize),
    /// The end of the file.
    End,
    /// A record that needs more bytes than the file has.
    Torn { needed: u64, left: u64 },
}

impl RecordFile {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed =
            |operation| move |source| Error::Io { file: path.to_owned(), operation, source };
        let file = File::open(path).map_err(failed("open"))?;
        let metadata = file.metadata().map_err(failed("stat"))?;
        Ok(Self { path: path.to_owned(), file, len: metadata.len() })
    }

    /// The label at the start of the file, which must be of a file of this
    /// role.
    pub(crate) fn read_label(&self, role: Role) -> Result<ArchiveLabel> {
        let size = self.len.min(Version::V3.label_size()) as usize;
        let mut bytes = vec![0; size];
        self.read_at(&mut bytes, 0)?;
        let len = frame::parse_length(&bytes).map_err(|e| self.corrupt(0, e))? as usize;
        let record = bytes.get(..len.min(size)).unwrap_or_default();
        let (label, found) = archive_label::parse(record).map_err(|e| self.corrupt(0, e))?;
        if found != role.volume() {
            let (file, expected) = (self.path.clone(), role.volume());
            return Err(Error::VolumeMismatch { file, found, expected });
        }
        Ok(label)
    }

    pub(crate) fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        let read = self.file.read_exact_at(bytes, offset);
        read.map_err(|source| self.io("read", source))
    }

    /// The whole rest of the file from `offset` on.
    pub(crate) fn read_from(&self, offset: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut file = &self.file;
        let read = file
            .seek(SeekFrom::Start(offset))
            .and_then(|_| file.take(self.len.saturating_sub(offset)).read_to_end(&mut bytes));
        read.map_err(|source| self.io("read", source))?;
        Ok(bytes)
    }

    /// Whether the file holds nothing but zeros from `offset` on.
    pub(crate) fn is_zero_from(&self, mut offset: u64) -> Result<bool> {
        let mut chunk = vec![0; CHUNK];
        while offset < self.len {
            let left = usize::try_from(self.len - offset).unwrap_or(usize::MAX);
            let bytes = chunk.get_mut(..left.min(CHUNK)).unwrap_or_default();
            self.read_at(bytes, offset)?;
            if bytes.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            offset += bytes.len() as u64;
        }
        Ok(true)
    }

    pub(crate) fn corrupt(&self, offset: u64, source: RecordError) -> Error {
        Error::Corrupt { file: self.path.clone(), offset, source }
    }

    fn io(&self, operation: &'static str, source: io::Error) -> Error {
        Error::Io { file: self.path.clone(), operation, source }
    }
}

/// A stretch of a file in memory. Grows to the largest record met.
#[derive(Debug, Default)]
pub(crate) struct Window {
    buffer: Vec<u8>,
    start: u64,
    len: usize,
}

impl Window {
    /// Forgets what it holds: the next file has other bytes.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// What starts at `offset`; a record is in the buffer afterwards.
    pub(crate) fn forward(&mut self, file: &RecordFile, offset: u64) -> Result<Next> {
        let left = file.len.saturating_sub(offset);
        if left == 0 {
            return Ok(Next::End);
        }
        let word = frame::LENGTH_WORD as u64;
        if left < word {
            return Ok(Next::Torn { needed: word, left });
        }
        if self.get(offset, frame::LENGTH_WORD).is_none() {
            self.load_forward(file, offset, frame::LENGTH_WORD)?;
        }
        let head = self.get(offset, frame::LENGTH_WORD).unwrap_or_default();
        let len = frame::parse_length(head).map_err(|e| file.corrupt(offset, e))?;
        if u64::from(len) > left {
            return Ok(Next::Torn { needed: u64::from(len), left });
        }
        if self.get(offset, len as usize).is_none() {
            self.load_forward(file, offset, len as usize)?;
        }
        Ok(Next::Record(len as usize))
    }

    /// The length of the record that ends at `end` and starts at `floor` or
    /// later; it is in the buffer afterwards. `None` if `end` is `floor`.
    pub(crate) fn backward(
        &mut self,
        file: &RecordFile,
        floor: u64,
        end: u64,
    ) -> Result<Option<usize>> {
        let left = end.saturating_sub(floor);
        if left == 0 {
            return Ok(None);
        }
        let short = |needed| {
            let field = "record before";
            file.corrupt(end, RecordError::Truncated { field, needed, left })
        };
        let at = end.checked_sub(frame::OVERHEAD as u64).filter(|at| *at >= floor);
        let at = at.ok_or_else(|| short(frame::OVERHEAD as u64))?;
        if self.get(at, frame::OVERHEAD).is_none() {
            self.load_backward(file, floor, at, end)?;
        }
        let tail = self.get(at + frame::LENGTH_WORD as u64, frame::LENGTH_WORD);
        let len = frame::parse_length(tail.unwrap_or_default());
        let len = len.map_err(|e| file.corrupt(end, e))?;
        let start = end.checked_sub(u64::from(len)).filter(|start| *start >= floor);
        let start = start.ok_or_else(|| short(u64::from(len)))?;
        if self.get(start, len as usize).is_none() {
            self.load_backward(file, floor, start, end)?;
        }
        Ok(Some(len as usize))
    }

    /// Bytes of the file that are in the buffer.
    pub(crate) fn get(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let at = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let end = at.checked_add(len).filter(|end| *end <= self.len)?;
        self.buffer.get(at..end)
    }

    fn load_forward(&mut self, file: &RecordFile, offset: u64, len: usize) -> Result<()> {
        let left = usize::try_from(file.len - offset).unwrap_or(usize::MAX);
        self.load(file, offset, len.max(CHUNK).min(left))
    }

    fn load_backward(&mut self, file: &RecordFile, floor: u64, start: u64, end: u64) -> Result<()> {
        let start = start.min(end.saturating_sub(CHUNK as u64)).max(floor);
        self.load(file, start, (end - start) as usize)
    }

    fn load(&mut self, file: &RecordFile, start: u64, len: usize) -> Result<()> {
        self.len = 0;
        if self.buffer.len() < len {
            self.buffer.resize(len, 0);
        }
        let target = self.buffer.get_mut(..len).unwrap_or_default();
        file.read_at(target, start)?;
        self.start = start;
        self.len = len;
        Ok(())
    }
}
