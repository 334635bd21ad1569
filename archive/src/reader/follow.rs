//! Reading an archive that is still being written.
//!
//! ```no_run
//! use pcp_archive::follow::Follower;
//!
//! # fn main() -> Result<(), pcp_archive::Error> {
//! let mut follower = Follower::open("20261120.12.00")?;
//! loop {
//!     while let Some(followed) = follower.next()? {
//!         println!("{}: {} metrics", followed.record.timestamp(), followed.record.len());
//!     }
//!     std::thread::sleep(std::time::Duration::from_millis(500));
//! }
//! # }
//! ```
//!
//! A record is returned once, when all of it is there:
//!
//! | at the end of what was read is | then |
//! |---|---|
//! | a whole record | it is returned; metadata that has come since is read first |
//! | nothing, or the beginning of a record, or zeros | nothing yet: ask again later |
//! | the same, but the next volume exists | the writer has left this one: on with the next, if nothing is unfinished |
//! | anything else | an error, each time |
//!
//! Writers put metadata on disk before the data that needs it, so a record's
//! metadata is there when the record is.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::load_whole_metadata;
use crate::files::{
    AddExtension as _, FileWindow, Members, NextRecord, RecordFile, check_labels, next_intact,
};
use crate::format::Role;
use crate::{Archive, ArchiveLabel, Error, Metadata, Record, RecordError, Result, Timestamp};

/// Follows an archive that grows, record by record.
///
/// The files that were opened stay open: it does not matter if they are renamed,
/// compressed or removed meanwhile.
#[derive(Debug)]
pub struct Follower {
    base: PathBuf,
    label: ArchiveLabel,
    metadata_file: RecordFile,
    /// Length of the metadata when it was read.
    metadata_len: u64,
    metadata: Metadata,
    /// Number of times that it was read.
    metadata_version: u64,
    file: RecordFile,
    volume: u32,
    /// Offset of the next record in it, and of the one before.
    offset: u64,
    last_offset: u64,
    window: FileWindow,
}

/// A record that has come, and what is known about its metrics by now.
#[derive(Debug, Clone, Copy)]
pub struct FollowedRecord<'f> {
    /// The record that was read.
    pub record: Record<'f>,
    /// All metadata there is when the record is returned, and so all that the
    /// record needs.
    pub metadata: &'f Metadata,
    /// A number that changes whenever the metadata does.
    pub metadata_version: u64,
    file: &'f Path,
}

impl FollowedRecord<'_> {
    /// Returns the error for a value of the record that its metric's type cannot have, with file
    /// and offset: an error of [`Values`](crate::raw::Values) has neither.
    pub fn damaged(&self, source: RecordError) -> Error {
        Error::Corrupt { file: self.file.to_owned(), offset: self.record.offset(), source }
    }
}

impl Follower {
    /// Begins at the first record of an archive, which may have none yet. The
    /// path is as for [`Archive::open`].
    ///
    /// # Errors
    ///
    /// As [`Archive::open`], but an archive without records is none.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let members = Members::find(path.as_ref())?;
        let mut metadata_file = RecordFile::open(&members.metadata)?;
        let label = metadata_file.read_label(Role::Metadata)?;
        let metadata_len = metadata_file.len()?;
        let (metadata, ..) = load_whole_metadata(&mut metadata_file, label.version)?;
        let Some((&volume, path)) = members.volumes.first_key_value() else {
            return Err(Error::NoData { path: members.base });
        };
        let mut file = RecordFile::open(path)?;
        let own = file.read_label(Role::Data(volume))?;
        check_labels(&own, path, &label, &members.metadata)?;
        let offset = label.version.label_size();
        Ok(Self {
            base: members.base,
            label,
            metadata_file,
            metadata_len,
            metadata,
            metadata_version: 0,
            file,
            volume,
            offset,
            last_offset: offset,
            window: FileWindow::default(),
        })
    }

    /// Moves to the first record whose time is `from` or later, of those there
    /// are now; or after all of them, if none is.
    ///
    /// # Errors
    ///
    /// As [`Archive::open`] and [`Archive::records_from`].
    pub fn seek(&mut self, from: Timestamp) -> Result<()> {
        let archive = match Archive::open(&self.base) {
            Err(Error::NoData { .. }) => return Ok(()),
            archive => archive?,
        };
        let mut records = archive.records_from(from)?;
        let next = records.next()?.map(|record| (record.volume(), record.offset()));
        let place = match next {
            Some(place) => Some(place),
            None => records.previous()?.map(|last| (last.volume(), last.end_offset())),
        };
        let Some((volume, offset)) = place else { return Ok(()) };
        if volume != self.volume {
            self.open_volume(volume)?;
        }
        self.offset = offset;
        self.last_offset = offset;
        Ok(())
    }

    /// Returns the volume and the offset of the next record.
    pub const fn place(&self) -> (u32, u64) {
        (self.volume, self.offset)
    }

    /// Moves to a record by its volume and offset.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] for a volume that is not there, and those of opening one.
    pub fn move_to(&mut self, volume: u32, offset: u64) -> Result<()> {
        if volume != self.volume && !self.open_volume(volume)? {
            let file = self.base.with_extension_added(&volume.to_string());
            return Err(Error::Missing { file });
        }
        self.offset = offset;
        self.last_offset = offset;
        Ok(())
    }

    /// Returns the archive's name: the common part of its files' names.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Returns the label: who writes the archive, where, and since when.
    pub const fn label(&self) -> &ArchiveLabel {
        &self.label
    }

    /// Returns the metadata that was there when the last record was returned, or when the archive
    /// was opened.
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Moves from a damaged record, at which [`next`](Self::next) failed, to the next whole
    /// one of its volume, or to the end of what the volume has now. Returns how many bytes
    /// are between.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn skip_damage(&mut self) -> Result<u64> {
        let from = self.offset;
        let file = RecordFile::open(&self.file.path)?;
        let (after, _) = next_intact(file, self.label.version, from)?;
        self.window.clear();
        self.offset = after;
        self.last_offset = after;
        Ok(after.saturating_sub(from))
    }

    /// Returns the next record; `None` if it is not there yet.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] for damage, and for a record that ends with its
    /// volume although the next volume exists; [`Error::Io`]. The position is
    /// unchanged: the same error comes again.
    #[expect(clippy::should_implement_trait, reason = "the item borrows from the follower")]
    pub fn next(&mut self) -> Result<Option<FollowedRecord<'_>>> {
        let Some(len) = self.load_next()? else { return Ok(None) };
        self.update_metadata()?;
        let bytes = self.window.get(self.offset, len).unwrap_or_default();
        let record = Record::parse(self.label.version, bytes, self.volume, self.offset);
        let record = record.map_err(|source| self.file.corrupt(self.offset, source))?;
        self.last_offset = self.offset;
        self.offset += len as u64;
        Ok(Some(FollowedRecord {
            record,
            metadata: &self.metadata,
            metadata_version: self.metadata_version,
            file: &self.file.path,
        }))
    }

    /// Brings the next record into the window; its length, if it is there.
    fn load_next(&mut self) -> Result<Option<usize>> {
        loop {
            if let Ok(NextRecord::Record(len)) = self.window.forward(&mut self.file, self.offset) {
                return Ok(Some(len));
            }
            // In this order: once the next volume exists, the present one grows
            // no more.
            let next = Members::find(&self.base)?.volumes.into_keys().find(|n| *n > self.volume);
            self.update_file()?;
            match (self.window.forward(&mut self.file, self.offset), next) {
                (Ok(NextRecord::Record(len)), _) => return Ok(Some(len)),
                (Ok(_), None) => return Ok(None),
                (Err(error), None) if self.is_unwritten(&error)? => return Ok(None),
                (Err(error), _) => return Err(error),
                (Ok(NextRecord::Torn { needed, left }), Some(_)) => {
                    let error = RecordError::Truncated { field: "record", needed, left };
                    return Err(self.file.corrupt(self.offset, error));
                }
                (Ok(NextRecord::End), Some(next)) => {
                    if !self.open_volume(next)? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Returns whether an error means that what is at the position is not there yet: zeros up to
    /// the end of the file, or less than there was a moment ago.
    fn is_unwritten(&mut self, error: &Error) -> Result<bool> {
        match error {
            Error::Corrupt { .. } => self.file.is_zero_from(self.offset),
            Error::Io { source, .. } => Ok(source.kind() == ErrorKind::UnexpectedEof),
            _ => Ok(false),
        }
    }

    /// Sees what was appended to the volume, or taken back: a writer that
    /// cannot write a record's index entry cuts the record off again.
    fn update_file(&mut self) -> Result<()> {
        self.window.clear();
        self.file.refresh()?;
        if self.file.len()? < self.offset {
            self.offset = self.last_offset;
        }
        Ok(())
    }

    /// Makes a volume the present one; false if its label is not there yet.
    fn open_volume(&mut self, volume: u32) -> Result<bool> {
        let members = Members::find(&self.base)?;
        let Some(path) = members.volumes.get(&volume) else { return Ok(false) };
        let mut file = RecordFile::open(path)?;
        let size = self.label.version.label_size();
        if file.available(0, 0, size)? < size {
            return Ok(false);
        }
        let label = file.read_label(Role::Data(volume))?;
        check_labels(&label, path, &self.label, &members.metadata)?;
        self.window.clear();
        self.file = file;
        self.volume = volume;
        self.offset = size;
        self.last_offset = size;
        Ok(true)
    }

    /// Reads the metadata again if its length has changed: a writer also cuts
    /// off what it could not write completely.
    fn update_metadata(&mut self) -> Result<()> {
        self.metadata_file.refresh()?;
        let len = self.metadata_file.len()?;
        if len != self.metadata_len {
            let version = self.label.version;
            (self.metadata, ..) = load_whole_metadata(&mut self.metadata_file, version)?;
            self.metadata_len = len;
            self.metadata_version += 1;
        }
        Ok(())
    }
}

/// Returns the start of an archive, from the label of its metadata, which is all that is read.
/// The path is as for [`Archive::open`].
///
/// # Errors
///
/// As [`Follower::open`], of what it reads.
pub fn start_of(path: impl AsRef<Path>) -> Result<Timestamp> {
    let members = Members::find(path.as_ref())?;
    Ok(RecordFile::open(&members.metadata)?.read_label(Role::Metadata)?.start)
}

#[cfg(test)]
mod tests;
