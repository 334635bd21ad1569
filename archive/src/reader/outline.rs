//! An archive without its records, for the price of its metadata and index.

use std::path::Path;

use super::Archive;
use crate::{ArchiveLabel, Error, Metadata, Result, TemporalIndex, Timestamp};

/// The label, the metadata and the temporal index of an archive. Volumes that can only be
/// decompressed from their start, such as those of one xz stream, are not decompressed.
#[derive(Debug)]
pub struct ArchiveOutline {
    /// Its own end is unset if it was not read.
    archive: Archive,
    end: OutlineEnd,
}

/// The end of an archive whose last record may not have been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutlineEnd {
    /// The time of the last record.
    Exact(Timestamp),
    /// The time of the last index entry, without one that of the label. Records may follow.
    AtLeast(Timestamp),
}

impl ArchiveOutline {
    /// Opens an archive by its name as [`Archive::open_tolerant`].
    ///
    /// # Errors
    ///
    /// As [`Archive::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Archive::read_existing(path.as_ref(), |members| {
            let mut archive = Archive::read_without_end(members, true)?;
            let last = archive.volumes.last();
            let is_seekable = last
                .map_or(Ok(true), |last| last.open(&archive.base).map(|file| file.is_seekable()))?;
            if !is_seekable {
                let indexed = archive.index.entries().last().map(|entry| entry.timestamp);
                let end = OutlineEnd::AtLeast(indexed.unwrap_or(archive.label.start));
                return Ok(Self { archive, end });
            }
            archive.find_end(true)?;
            if !archive.has_records {
                return Err(Error::NoData { path: archive.base });
            }
            let end = OutlineEnd::Exact(archive.end);
            Ok(Self { archive, end })
        })
    }

    /// Returns the archive's name: the common part of its files' names.
    pub fn base(&self) -> &Path {
        self.archive.base()
    }

    /// Returns the label: who wrote the archive, where and when.
    pub const fn label(&self) -> &ArchiveLabel {
        self.archive.label()
    }

    /// Returns the time of the last record, as far as it is known.
    pub const fn end(&self) -> OutlineEnd {
        self.end
    }

    /// Returns the numbers of the data volumes that exist, rising.
    pub fn volumes(&self) -> impl ExactSizeIterator<Item = u32> {
        self.archive.volumes()
    }

    /// Metrics, instance domains, labels and help text.
    pub const fn metadata(&self) -> &Metadata {
        self.archive.metadata()
    }

    /// Returns the temporal index; empty if there is none.
    pub const fn index(&self) -> &TemporalIndex {
        self.archive.index()
    }

    /// Returns the metadata records that were passed by.
    pub fn bad_metadata(&self) -> &[Error] {
        self.archive.bad_metadata()
    }
}

impl OutlineEnd {
    /// Returns the time, exact or not.
    pub const fn timestamp(self) -> Timestamp {
        match self {
            Self::Exact(timestamp) | Self::AtLeast(timestamp) => timestamp,
        }
    }
}

#[cfg(all(test, feature = "compression"))]
mod tests {
    use std::fs;

    use test_archives::{Builder, at};

    use super::*;
    use crate::Compression;
    use crate::writer::compress::compress_volumes;

    #[test]
    fn end_is_the_last_indexed_time_of_what_is_one_stream() {
        let builder = Builder::new().metric("m", "u32 instant");
        let archive = builder.rows([0, 10, 20].map(|n| (n, [("m", n)]))).finish();
        let exact = OutlineEnd::Exact(at(20));
        assert_eq!(ArchiveOutline::open(archive.base()).unwrap().end(), exact);
        compress_volumes(archive.base(), Compression::Gzip).unwrap();
        let outline = ArchiveOutline::open(archive.base()).unwrap();
        let indexed = outline.index().entries().last().unwrap().timestamp;
        assert_eq!(outline.end(), OutlineEnd::AtLeast(indexed));
        assert_eq!(outline.metadata().metrics().len(), 1);
        // Nothing after the label of the volume is read.
        let volume = archive.member("0.gz");
        let bytes = fs::read(&volume).unwrap();
        fs::write(&volume, &bytes[..bytes.len() - 20]).unwrap();
        fs::remove_file(archive.member("index")).unwrap();
        let outline = ArchiveOutline::open(archive.base()).unwrap();
        assert_eq!(outline.end(), OutlineEnd::AtLeast(outline.label().start));
    }
}
