//! The output files of a repair.

use std::path::{Path, PathBuf};

use crate::format::{Role, index};
use crate::writer::append_file::AppendFile;
use crate::writer::file_set;
use crate::{ArchiveLabel, IndexEntry, Result, Timestamp, Version};

/// Bytes of records from one index entry to the next.
const INDEX_BYTES: u64 = 100_000;
const BUFFER: usize = 64 << 10;

pub(super) fn create(base: &Path, label: &ArchiveLabel, role: Role) -> Result<AppendFile> {
    Ok(file_set::create(base, label, role)?.buffered(BUFFER))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VolumeNumbers {
    /// Those of the old volumes, which the new ones replace.
    Old,
    /// 0, 1, 2 and so on, so that none is missing.
    Consecutive,
}

/// The new data volumes and their index.
pub(super) struct DataFiles {
    base: PathBuf,
    label: ArchiveLabel,
    numbers: VolumeNumbers,
    volume: Option<OpenVolume>,
    index: IndexFile,
}

/// The volume being written.
struct OpenVolume {
    number: u32,
    /// The number of the volume that its records are from.
    old_number: u32,
    file: AppendFile,
}

impl DataFiles {
    pub(super) fn create(
        base: &Path,
        label: &ArchiveLabel,
        numbers: VolumeNumbers,
    ) -> Result<Self> {
        let index = IndexFile::create(base, label)?;
        Ok(Self { base: base.to_owned(), label: label.clone(), numbers, volume: None, index })
    }

    /// Appends a record that was in the volume with this number.
    pub(super) fn append(
        &mut self,
        old_number: u32,
        timestamp: Timestamp,
        metadata_offset: u64,
        record: &[u8],
    ) -> Result<()> {
        if self.volume.as_ref().is_none_or(|open| open.old_number != old_number) {
            self.begin_volume(old_number)?;
        }
        let Some(OpenVolume { number, file, .. }) = &mut self.volume else { return Ok(()) };
        self.index.note(timestamp, *number, metadata_offset, file.len(), record.len())?;
        file.append(record)
    }

    fn begin_volume(&mut self, old_number: u32) -> Result<()> {
        let full = self.volume.take();
        let number = match (self.numbers, &full) {
            (VolumeNumbers::Old, _) => old_number,
            (VolumeNumbers::Consecutive, Some(full)) => full.number + 1,
            (VolumeNumbers::Consecutive, None) => 0,
        };
        let file = create(&self.base, &self.label, Role::Data(number))?;
        self.volume = Some(OpenVolume { number, old_number, file });
        full.map_or(Ok(()), |mut full| full.file.sync())
    }

    /// Syncs all files, and returns the number of index entries.
    pub(super) fn finish(self, metadata_end: u64) -> Result<u64> {
        if let Some(mut volume) = self.volume {
            volume.file.sync()?;
        }
        self.index.finish(metadata_end)
    }
}

/// A new index: an entry at the first record of each volume, where new
/// metadata begins, and every 100 kB.
pub(super) struct IndexFile {
    out: AppendFile,
    version: Version,
    entries: u64,
    /// The last entry, and the last record.
    entry: Option<IndexEntry>,
    last: Option<IndexEntry>,
    since: u64,
}

impl IndexFile {
    pub(super) fn create(base: &Path, label: &ArchiveLabel) -> Result<Self> {
        let out = create(base, label, Role::Index)?;
        let version = label.version;
        Ok(Self { out, version, entries: 0, entry: None, last: None, since: 0 })
    }

    /// Adds the next record, `len` bytes at `data_offset` of its volume.
    pub(super) fn note(
        &mut self,
        timestamp: Timestamp,
        volume: u32,
        metadata_offset: u64,
        data_offset: u64,
        len: usize,
    ) -> Result<()> {
        let own = IndexEntry { timestamp, volume, metadata_offset, data_offset };
        let is_due = self.entry.is_none_or(|entry| {
            let is_new = entry.volume != volume || entry.metadata_offset != metadata_offset;
            entry.timestamp != timestamp && (is_new || self.since >= INDEX_BYTES)
        });
        if is_due {
            self.put(&own)?;
        }
        self.since += len as u64;
        self.last = Some(own);
        Ok(())
    }

    /// Writes the last entry, for the last record and the end of the metadata, and returns the
    /// number of entries.
    pub(super) fn finish(mut self, metadata_end: u64) -> Result<u64> {
        if let Some(last) = self.last
            && self.entry.is_none_or(|entry| entry.timestamp != last.timestamp)
        {
            self.put(&IndexEntry { metadata_offset: metadata_end, ..last })?;
        }
        self.out.sync()?;
        Ok(self.entries)
    }

    fn put(&mut self, entry: &IndexEntry) -> Result<()> {
        let mut bytes = Vec::with_capacity(index::size(self.version));
        index::encode(self.version, entry, &mut bytes)?;
        self.out.append(&bytes)?;
        self.entries += 1;
        self.entry = Some(*entry);
        self.since = 0;
        Ok(())
    }
}
