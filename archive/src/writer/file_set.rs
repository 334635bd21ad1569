//! The three open files of an archive, written together.

use std::io;
use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit};

use super::append_file::AppendFile;
use super::index_policy::IndexPolicy;
use crate::files::{AddExtension as _, MemberFiles, sync_directory, unfinished_metadata};
use crate::format::{Role, archive_label, index};
use crate::{ArchiveLabel, EncodeError, Error, IndexEntry, Result, Timestamp};

/// Metadata, index and the present data volume.
#[derive(Debug)]
pub(super) struct FileSet {
    base: PathBuf,
    label: ArchiveLabel,
    pub(super) metadata: AppendFile,
    index: AppendFile,
    pub(super) data: AppendFile,
    pub(super) volume: u32,
    policy: IndexPolicy,
    /// Limit for each file.
    buffer_bytes: usize,
    /// The longest file that the process may write, if bytes are buffered: then it is too
    /// late to begin another volume when a write fails.
    most: u64,
    /// Start of the last record in its volume.
    last_offset: u64,
    /// Bytes of the volumes before the present one.
    closed_bytes: u64,
    /// Names were added to the directory since it was last synced.
    directory_changed: bool,
}

/// A record with the metadata that precedes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewRecord<'r> {
    pub(super) timestamp: Timestamp,
    pub(super) metadata: &'r [u8],
    /// The metadata describes new metrics or instances.
    pub(super) changed: bool,
    pub(super) record: &'r [u8],
}

impl FileSet {
    /// Creates the files with their labels: all three or none. Readers do not find the archive
    /// until [`show`](Self::show).
    pub(super) fn create(
        base: &Path,
        label: ArchiveLabel,
        policy: IndexPolicy,
        buffer_bytes: usize,
    ) -> Result<Self> {
        let metadata = create_file(unfinished_metadata(base), &label, Role::Metadata)?;
        let index = create(base, &label, Role::Index).inspect_err(|_| metadata.remove())?;
        let data = create(base, &label, Role::Data(0)).inspect_err(|_| {
            index.remove();
            metadata.remove();
        })?;
        let limit = getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(soft, _)| soft);
        Ok(Self {
            base: base.to_owned(),
            label,
            metadata: metadata.buffered(buffer_bytes),
            index: index.buffered(buffer_bytes),
            data: data.buffered(buffer_bytes),
            volume: 0,
            policy,
            buffer_bytes,
            most: if buffer_bytes > 0 { limit } else { u64::MAX },
            last_offset: 0,
            closed_bytes: 0,
            directory_changed: true,
        })
    }

    /// Lets readers find the archive, which has a record by now.
    pub(super) fn show(&mut self) -> Result<()> {
        self.flush()?;
        self.metadata.show(&self.base)
    }

    /// Compares the files with what their names lead to, and the volumes with those that
    /// were written.
    ///
    /// # Errors
    ///
    /// [`Error::Disturbed`], [`Error::Io`].
    pub(super) fn check(&self) -> Result<()> {
        self.metadata.check()?;
        self.data.check()?;
        self.index.check()?;
        let volumes = MemberFiles::list(&self.base)?.volumes;
        match (0..self.volume).find(|number| !volumes.contains_key(number)) {
            Some(number) => {
                let file = self.base.with_extension_added(&Role::Data(number).extension());
                Err(Error::Disturbed { file, change: "removed" })
            }
            None => Ok(()),
        }
    }

    /// Removes all files of an archive that was not [shown](Self::show), those that this writer
    /// has created. As in [`remove_archive`](crate::remove_archive) the metadata is the last.
    pub(super) fn remove(&self) {
        self.data.remove();
        self.index.remove();
        self.metadata.remove();
    }

    pub(super) fn bytes(&self) -> u64 {
        self.closed_bytes + self.metadata.len() + self.index.len() + self.data.len()
    }

    /// Returns whether a record would make the volume larger than `limit`, or than the largest
    /// offset of the index. A volume without records takes any.
    pub(super) fn would_exceed(&self, limit: u64, record: usize) -> bool {
        let limit = limit.min(self.label.version.max_file_size()).min(self.most);
        !self.is_volume_empty() && self.data.len().saturating_add(record as u64) > limit
    }

    fn is_volume_empty(&self) -> bool {
        self.data.len() == self.label.version.label_size()
    }

    /// Writes metadata, a record and, if one is due, an index entry. With `switch` the record
    /// begins a new volume; it also does where the system allows the present one no further byte
    /// (`EFBIG`). If anything fails, all is as before.
    pub(super) fn write(&mut self, new: NewRecord<'_>, switch: bool) -> Result<()> {
        match self.write_once(new, switch) {
            Err(Error::Io { file, source, .. })
                if source.kind() == io::ErrorKind::FileTooLarge
                    && file == self.data.path()
                    && !self.is_volume_empty() =>
            {
                self.write_once(new, true)
            }
            written => written,
        }
    }

    fn write_once(&mut self, new: NewRecord<'_>, switch: bool) -> Result<()> {
        self.cut_back()?;
        let closed = if switch && !self.is_volume_empty() { self.open_next()? } else { None };
        let metadata_len = self.metadata.len();
        let index_len = self.index.len();
        let data_len = self.data.len();
        let policy = self.policy.clone();
        let written = self.append(new);
        if written.is_ok() {
            self.closed_bytes += closed.map_or(0, |closed| closed.len());
            return written;
        }
        self.metadata.cut(metadata_len);
        self.index.cut(index_len);
        self.data.cut(data_len);
        self.policy = policy;
        if let Some(closed) = closed {
            self.data.remove();
            self.data = closed;
            self.volume -= 1;
        }
        written
    }

    fn append(&mut self, new: NewRecord<'_>) -> Result<()> {
        let NewRecord { timestamp, metadata, changed, record } = new;
        self.check_metadata_size(metadata.len())?;
        let entry = IndexEntry {
            timestamp,
            volume: self.volume,
            metadata_offset: self.metadata.len(),
            data_offset: self.data.len(),
        };
        let demanded = changed || self.is_volume_empty();
        self.metadata.append(metadata)?;
        self.data.append(record)?;
        if self.policy.is_due(timestamp, demanded, metadata.len() + record.len()) {
            self.write_entry(&entry)?;
        }
        self.last_offset = entry.data_offset;
        Ok(())
    }

    /// Cuts off what failed writes have left.
    fn cut_back(&mut self) -> Result<()> {
        self.metadata.cut_back()?;
        self.data.cut_back()?;
        self.index.cut_back()
    }

    /// Checks the size of the metadata file. There is only one: when it is full, so is the archive.
    fn check_metadata_size(&self, more: usize) -> Result<()> {
        let found = self.metadata.len().saturating_add(more as u64);
        let max = self.label.version.max_file_size();
        if found > max {
            return Err(EncodeError::TooLarge { field: "metadata file", found, max }.into());
        }
        Ok(())
    }

    /// Writes the index entry that shows readers where the archive ends.
    pub(super) fn write_final_entry(&mut self, last: Timestamp) -> Result<()> {
        self.cut_back()?;
        if !self.policy.is_due(last, true, 0) {
            return Ok(());
        }
        let len = self.index.len();
        let entry = IndexEntry {
            timestamp: last,
            volume: self.volume,
            metadata_offset: self.metadata.len(),
            data_offset: self.last_offset,
        };
        self.write_entry(&entry).inspect_err(|_| self.index.cut(len))
    }

    fn write_entry(&mut self, entry: &IndexEntry) -> Result<()> {
        let version = self.label.version;
        let mut bytes = Vec::with_capacity(index::size(version));
        index::encode(version, entry, &mut bytes)?;
        self.index.append(&bytes)
    }

    /// Makes the next volume the present one; returns the one before, which
    /// is on disk.
    fn open_next(&mut self) -> Result<Option<AppendFile>> {
        self.data.sync()?;
        let data = create(&self.base, &self.label, Role::Data(self.volume + 1))?;
        let data = data.buffered(self.buffer_bytes);
        self.volume += 1;
        self.directory_changed = true;
        Ok(Some(std::mem::replace(&mut self.data, data)))
    }

    /// Syncs the files, metadata first: a record on disk without its metadata is worth less than
    /// the reverse.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.metadata.sync()?;
        self.data.sync()?;
        self.index.sync()?;
        if self.directory_changed {
            sync_directory(&self.base)?;
            self.directory_changed = false;
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        self.metadata.flush()?;
        self.data.flush()?;
        self.index.flush()
    }

    /// Extends a file to a length, with a hole.
    #[cfg(test)]
    pub(super) fn stretch(&mut self, name: &str, len: u64) {
        let file = if name == "data" { &mut self.data } else { &mut self.metadata };
        file.stretch(len);
    }
}

pub(super) fn create(base: &Path, label: &ArchiveLabel, role: Role) -> Result<AppendFile> {
    create_file(base.with_extension_added(&role.extension()), label, role)
}

fn create_file(path: PathBuf, label: &ArchiveLabel, role: Role) -> Result<AppendFile> {
    let mut bytes = Vec::new();
    archive_label::encode(label, role, &mut bytes)?;
    AppendFile::create(path, &bytes)
}
