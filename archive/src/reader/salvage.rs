//! Reading damaged archives.
//!
//! A [`Salvage`] opens where [`Archive`](crate::Archive) refuses, and returns
//! every valid record: metadata records one by one, and data records in file
//! order. After a damaged place the next good record is searched byte by byte;
//! the bytes before it are reported as [`Loss`].
//!
//! A record counts as good if its length words agree and all its fields make
//! sense. In compressed files, records above 8 MiB are not found after damage.

mod records;

use std::path::{Path, PathBuf};

pub use records::{SalvageItem, SalvagedRecords};

use super::MetadataLoader;
use crate::files::{AddExtension as _, MemberFiles, RecordFile, ScannedRecord, Scanner};
use crate::format::{MetadataRecord, Role, metadata_record};
use crate::{ArchiveLabel, Error, Metadata, Result, Timestamp, Version};

/// A stretch of a file without usable records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The file with the stretch.
    pub file: PathBuf,
    /// Start of the stretch, in bytes from the start of the (expanded) file.
    pub offset: u64,
    /// Its length. 0 where a compressed file cannot be decompressed further.
    pub bytes: u64,
    /// The error at its start.
    pub reason: String,
    /// The time of the last good data record before it.
    pub after: Option<Timestamp>,
    /// The time of the next good one, as far as that was read.
    pub before: Option<Timestamp>,
}

/// A metadata record that can be used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MetadataPlace {
    pub(crate) offset: u64,
    pub(crate) len: usize,
    /// The time of a domain's or of labels; others have none.
    pub(crate) timestamp: Option<Timestamp>,
}

/// A damaged archive, open for reading what is left of it.
#[derive(Debug)]
pub struct Salvage {
    files: MemberFiles,
    label: ArchiveLabel,
    metadata: Metadata,
    places: Vec<MetadataPlace>,
    lost: Vec<Loss>,
}

impl Salvage {
    /// Opens an archive, named as for [`Archive::open`](crate::Archive::open).
    /// One file with a good label is enough.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Ambiguous`]; [`Error::Corrupt`] if no
    /// file has a good label; [`Error::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let files = MemberFiles::find(path.as_ref())?;
        let label = find_label(&files)?;
        let mut salvage = Self {
            files,
            label,
            metadata: Metadata::default(),
            places: Vec::new(),
            lost: Vec::new(),
        };
        salvage.read_metadata()?;
        Ok(salvage)
    }

    /// Returns the label of the first file that has a good one, metadata first.
    pub const fn label(&self) -> &ArchiveLabel {
        &self.label
    }

    /// Returns the metadata that can be read.
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the stretches of the metadata that are lost.
    pub fn lost_metadata(&self) -> &[Loss] {
        &self.lost
    }

    /// Iterates over all good data records, and what is lost between them.
    pub fn records(&self) -> SalvagedRecords<'_> {
        SalvagedRecords::new(self)
    }

    pub(crate) const fn files(&self) -> &MemberFiles {
        &self.files
    }

    /// Returns the places of the good metadata records, in file order.
    pub(crate) fn metadata_places(&self) -> &[MetadataPlace] {
        &self.places
    }

    pub(crate) const fn version(&self) -> Version {
        self.label.version
    }

    fn read_metadata(&mut self) -> Result<()> {
        let Some(path) = self.files.metadata.clone() else {
            let file = self.files.base.with_extension_added("meta");
            let reason = "there is no such file".to_owned();
            self.lost.push(Loss { file, offset: 0, bytes: 0, reason, after: None, before: None });
            return Ok(());
        };
        let version = self.version();
        let mut loader = MetadataLoader::default();
        let mut scanner = Scanner::of_metadata(RecordFile::open(&path)?, version);
        while let Some(piece) = scanner.next()? {
            let (offset, bytes, reason) = match piece {
                ScannedRecord::Damage(damage) => {
                    (damage.offset, damage.len, damage.error.to_string())
                }
                ScannedRecord::Record { offset, len } => {
                    match use_record(&mut loader, version, offset, scanner.bytes(offset, len)) {
                        Ok(timestamp) => {
                            self.places.push(MetadataPlace { offset, len, timestamp });
                            continue;
                        }
                        Err(reason) => (offset, len as u64, reason),
                    }
                }
            };
            let file = path.clone();
            self.lost.push(Loss { file, offset, bytes, reason, after: None, before: None });
        }
        self.metadata = loader.finish();
        Ok(())
    }
}

/// Returns the time of a record that was added to the metadata, or why it was not.
fn use_record(
    loader: &mut MetadataLoader,
    version: Version,
    offset: u64,
    bytes: &[u8],
) -> Result<Option<Timestamp>, String> {
    let record = metadata_record::parse(version, bytes).map_err(|error| error.to_string())?;
    let timestamp = match &record {
        MetadataRecord::Indom(record) => Some(record.timestamp),
        MetadataRecord::Label(record) => Some(record.timestamp),
        MetadataRecord::Desc(_) | MetadataRecord::Text(_) => None,
    };
    let added = loader.add(offset, record);
    added.map_err(|(pmid, difference)| format!("metric {pmid} changes its {difference}"))?;
    Ok(timestamp)
}

/// Returns the first good label; without one, what is wrong with the last.
fn find_label(files: &MemberFiles) -> Result<ArchiveLabel> {
    let mut failure = Error::NotFound { path: files.base.clone() };
    for (path, _) in files.all() {
        match RecordFile::open(path)?.read_any_label() {
            Ok((label, _)) => return Ok(label),
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Returns whether a file can hold records of the archive: its own label, if it is good, is of
/// the same version and role.
pub(crate) fn belongs(file: &mut RecordFile, role: Role, version: Version) -> Result<bool> {
    match file.read_any_label() {
        Ok((label, volume)) => Ok(label.version == version && volume == role.volume()),
        Err(error @ Error::Io { .. }) => Err(error),
        Err(_) => Ok(true),
    }
}

#[cfg(test)]
mod tests;
