//! The temporal index in memory.

use std::path::Path;

use crate::files::{RecordFile, check_labels};
use crate::format::{Bytes, Role, index};
use crate::{ArchiveLabel, IndexEntry, RecordError, Result, Timestamp, Version};

/// The entries of an archive's `.index` file, rising in time.
///
/// The index only makes seeking fast; an archive is whole without it. A damaged
/// one is therefore no error: it is empty, and [`defect`](Self::defect) has the
/// reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemporalIndex {
    entries: Vec<IndexEntry>,
    defect: Option<(u64, RecordError)>,
}

impl TemporalIndex {
    /// The label and the entries of one `.index` file, whatever else there is of
    /// the archive. Of an archive that was closed the label has the start and
    /// the last entry the end.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io); [`Error::Corrupt`](crate::Error::Corrupt)
    /// for a damaged label.
    pub fn open(file: &Path) -> Result<(ArchiveLabel, Self)> {
        let mut file = RecordFile::open(file)?;
        let label = file.read_label(Role::Index)?;
        let entries = file.read_from(label.version.label_size())?;
        Ok((label.clone(), Self::parse(label.version, &entries)))
    }

    /// All entries, none of them earlier than the one before.
    pub fn entries(&self) -> &[IndexEntry] {
        &self.entries
    }

    /// Why the index is not used: the offset in `.index` and what is wrong
    /// there. Entries before a last one that is cut off are used.
    pub const fn defect(&self) -> Option<&(u64, RecordError)> {
        self.defect.as_ref()
    }

    /// The newest entry earlier than `target`.
    pub(super) fn last_before(&self, target: Timestamp) -> Option<&IndexEntry> {
        let after = self.entries.partition_point(|entry| entry.timestamp < target);
        self.entries.get(after.checked_sub(1)?)
    }

    fn parse(version: Version, bytes: &[u8]) -> Self {
        let mut index = Self::default();
        let mut rest = Bytes::new(bytes);
        index.entries.reserve_exact(rest.len() / index::size(version));
        let mut offset = version.label_size();
        while rest.len() >= index::size(version) {
            match parse_entry(version, &mut rest, index.entries.last()) {
                Ok(entry) => index.entries.push(entry),
                Err(error) => return Self { entries: Vec::new(), defect: Some((offset, error)) },
            }
            offset += index::size(version) as u64;
        }
        if let Err(RecordError::TrailingBytes { left }) = rest.end() {
            let (field, needed) = ("index entry", index::size(version) as u64);
            index.defect = Some((offset, RecordError::Truncated { field, needed, left }));
        }
        index
    }
}

fn parse_entry(
    version: Version,
    bytes: &mut Bytes<'_>,
    before: Option<&IndexEntry>,
) -> Result<IndexEntry, RecordError> {
    let entry = index::parse(version, bytes)?;
    if before.is_some_and(|before| entry.timestamp < before.timestamp) {
        // A search by time needs the order.
        let found = entry.timestamp.seconds();
        return Err(RecordError::Field { field: "time of an index entry", found });
    }
    Ok(entry)
}

/// Reads an index file of the archive whose metadata has `label`.
pub(super) fn load(path: &Path, label: &ArchiveLabel, metadata: &Path) -> Result<TemporalIndex> {
    let mut file = RecordFile::open(path)?;
    let needed = label.version.label_size();
    let left = file.available(0, 0, needed)?;
    if left < needed {
        // The archive was being created when its writer died.
        let defect = RecordError::Truncated { field: "label", needed, left };
        return Ok(TemporalIndex { entries: Vec::new(), defect: Some((0, defect)) });
    }
    let own = file.read_label(Role::Index)?;
    check_labels(&own, path, label, metadata)?;
    Ok(TemporalIndex::parse(label.version, &file.read_from(label.version.label_size())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{descs, label};
    use crate::{ArchiveWriter, FetchResult, ValueSet, WriterOptions};

    fn entry(seconds: i64) -> IndexEntry {
        let timestamp = Timestamp::new(seconds, 0).unwrap();
        IndexEntry { timestamp, volume: 0, metadata_offset: 808, data_offset: 808 }
    }

    fn index(seconds: &[i64], cut: usize) -> TemporalIndex {
        let mut bytes = Vec::new();
        for seconds in seconds {
            index::encode(Version::V3, &entry(*seconds), &mut bytes).unwrap();
        }
        TemporalIndex::parse(Version::V3, &bytes[..bytes.len() - cut])
    }

    #[test]
    fn one_file_has_start_and_end_of_a_closed_archive() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().join("a");
        let mut writer = ArchiveWriter::create(&base, label(), WriterOptions::default()).unwrap();
        let desc = descs().remove(0);
        writer.declare_metric(&desc, &["a"]).unwrap();
        for seconds in [10, 20, 30] {
            let timestamp = Timestamp::new(seconds, 0).unwrap();
            let value_sets = vec![ValueSet { pmid: desc.pmid, values: Ok(Vec::new()) }];
            writer.write_result(&FetchResult { timestamp, value_sets }).unwrap();
        }
        writer.finish().unwrap();
        let file = base.with_extension("index");
        let (label, index) = TemporalIndex::open(&file).unwrap();
        assert_eq!(label.start.seconds(), 10);
        assert_eq!(index.entries().last().unwrap().timestamp.seconds(), 30);
        std::fs::write(&file, b"short").unwrap();
        assert!(TemporalIndex::open(&file).is_err());
    }

    #[test]
    fn the_newest_entry_before_a_time_is_found() {
        let index = index(&[10, 20, 20, 30], 0);
        let before = |seconds| {
            let target = Timestamp::new(seconds, 0).unwrap();
            index.last_before(target).map(|entry| entry.timestamp.seconds())
        };
        assert_eq!(before(10), None);
        assert_eq!(before(11), Some(10));
        assert_eq!(before(20), Some(10));
        assert_eq!(before(99), Some(30));
    }

    #[test]
    fn an_entry_that_is_cut_off_costs_only_itself() {
        let index = index(&[10, 20], 1);
        assert_eq!(index.entries(), [entry(10)]);
        let (offset, error) = index.defect().unwrap();
        assert_eq!(*offset, 808 + 32);
        assert!(matches!(error, RecordError::Truncated { needed: 32, left: 31, .. }));
    }

    #[test]
    fn an_index_that_goes_back_in_time_is_not_used() {
        let index = index(&[20, 10, 30], 0);
        assert_eq!(index.entries(), []);
        assert_eq!(index.defect().unwrap().0, 808 + 32);
    }
}
