//! The records of one file as raw bytes.
//!
//! A file of an archive is a label and then framed records, or in an index
//! entries of fixed size. No more than that is required here, so a file that
//! cannot be read as part of an archive can still be shown.

use std::path::Path;

use super::{FileWindow, NextRecord, RecordFile};
use crate::format::{Role, frame, index};
use crate::{Error, RecordError, Result};

/// A file of an archive, piece by piece.
#[derive(Debug)]
pub struct RawFile {
    file: RecordFile,
    window: FileWindow,
    offset: u64,
    /// Of an index: memory for one of the entries that follow its label.
    entry: Option<Vec<u8>>,
}

/// A record or damage at a place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RawPiece<'a> {
    /// A record: all of its bytes, both length words included.
    Record(&'a [u8]),
    /// An entry of an index.
    Entry(&'a [u8]),
}

impl RawFile {
    /// Opens a file, compressed or not.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if it cannot be read. A damaged label is not an error here.
    pub fn open(path: &Path) -> Result<Self> {
        let mut file = RecordFile::open(path)?;
        let entry = match file.read_any_label() {
            Ok((label, volume)) if volume == Role::Index.volume() => {
                Some(vec![0; index::size(label.version)])
            }
            _ => None,
        };
        Ok(Self { file, window: FileWindow::default(), offset: 0, entry })
    }

    /// Returns the next piece and where it starts; `None` at the end of the file.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] for lengths that cannot be or
    /// differ, and for a piece that the end of the file cuts off; those of
    /// reading.
    #[expect(clippy::should_implement_trait, reason = "a piece borrows from the file")]
    pub fn next(&mut self) -> Result<Option<(u64, RawPiece<'_>)>> {
        let is_entry = self.offset > 0 && self.entry.is_some();
        if is_entry { self.next_entry() } else { self.next_record() }
    }

    fn next_record(&mut self) -> Result<Option<(u64, RawPiece<'_>)>> {
        let offset = self.offset;
        let len = match self.window.forward(&mut self.file, offset)? {
            NextRecord::Record(len) => len,
            NextRecord::End => return Ok(None),
            NextRecord::Torn { needed, left } => return Err(self.torn("record", needed, left)),
        };
        let record = self.window.get(offset, len).unwrap_or_default();
        frame::parse(record).map_err(|source| self.file.corrupt(offset, source))?;
        self.offset += len as u64;
        Ok(Some((offset, RawPiece::Record(record))))
    }

    fn next_entry(&mut self) -> Result<Option<(u64, RawPiece<'_>)>> {
        let offset = self.offset;
        let needed = self.entry.as_ref().map_or(0, Vec::len) as u64;
        match self.file.available(offset, needed, needed)? {
            0 => return Ok(None),
            left if left < needed => return Err(self.torn("index entry", needed, left)),
            _ => {}
        }
        let entry = self.entry.get_or_insert_default();
        self.file.read_at(entry, offset)?;
        self.offset += needed;
        Ok(Some((offset, RawPiece::Entry(entry))))
    }

    fn torn(&self, field: &'static str, needed: u64, left: u64) -> Error {
        self.file.corrupt(self.offset, RecordError::Truncated { field, needed, left })
    }

    /// Returns the offset of the piece that could not be read, and at most `limit` bytes from
    /// there on.
    ///
    /// # Errors
    ///
    /// Those of reading.
    pub fn remaining(&mut self, limit: u64) -> Result<(u64, Vec<u8>)> {
        let left = self.file.available(self.offset, 0, limit)?;
        let mut bytes = vec![0; left as usize];
        self.file.read_at(&mut bytes, self.offset)?;
        Ok((self.offset, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a framed record of these bytes.
    fn framed(body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        frame::encode(&mut out, |out| {
            out.extend(body);
            Ok(())
        })
        .unwrap();
        out
    }

    #[test]
    fn records_are_reported_with_their_places_whatever_they_hold() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let records = [framed(b"no label"), framed(b""), framed(b"abc")];
        std::fs::write(&path, records.concat()).unwrap();
        let mut file = RawFile::open(&path).unwrap();
        for (offset, record) in [0, 16, 24].into_iter().zip(&records) {
            assert_eq!(file.next().unwrap(), Some((offset, RawPiece::Record(record))));
        }
        assert_eq!(file.next().unwrap(), None);
    }

    #[test]
    fn what_is_left_of_a_torn_record_is_an_error_and_can_be_had() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let whole = framed(b"abc");
        for len in 1..whole.len() {
            std::fs::write(&path, [&whole[..], &whole[..len]].concat()).unwrap();
            let mut file = RawFile::open(&path).unwrap();
            assert!(file.next().unwrap().is_some());
            assert!(matches!(file.next(), Err(Error::Corrupt { offset: 11, .. })), "{len}");
            assert_eq!(file.remaining(100).unwrap(), (11, whole[..len].to_vec()));
        }
    }
}
