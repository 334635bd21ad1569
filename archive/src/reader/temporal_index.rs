//! The temporal index in memory.

use std::cmp::Reverse;
use std::io::ErrorKind;
use std::path::Path;

use crate::files::{RecordFile, check_labels};
use crate::format::{Bytes, Role, index};
use crate::longest_rise::longest_rise;
use crate::{ArchiveLabel, Error, IndexEntry, RecordError, Result, Timestamp};

/// The entries of an archive's `.index` file, rising in time.
///
/// The index only makes seeking fast; an archive is whole without it. A damaged
/// entry is therefore no error: it is left out, and [`defects`](Self::defects) has
/// the reason. Entries before the start in the label are left out, such as zeros at the
/// end of a file whose last bytes a power failure has taken. Of the others that contradict
/// each other in time as few as possible are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemporalIndex {
    entries: Vec<IndexEntry>,
    defects: Vec<IndexDefect>,
}

/// An entry of an `.index` file that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexDefect {
    /// Start of the entry, in bytes from the start of the file.
    pub offset: u64,
    /// Its number in the file; the first entry is 1. 0 for the label.
    pub number: u64,
    /// The reason why it is not used.
    pub error: RecordError,
    /// The entry, if only its time contradicts the start of the archive or other entries.
    pub entry: Option<IndexEntry>,
}

impl IndexDefect {
    /// Returns whether the file ends within it: the writer was interrupted, or is writing.
    pub const fn is_torn(&self) -> bool {
        matches!(self.error, RecordError::Truncated { .. })
    }
}

impl TemporalIndex {
    /// Returns the label and the entries of one `.index` file, whatever else there is of the
    /// archive. Of an archive that was closed the label has the start and the last entry the end.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io); [`Error::Corrupt`](crate::Error::Corrupt)
    /// for a damaged label.
    pub fn open(file: impl AsRef<Path>) -> Result<(ArchiveLabel, Self)> {
        let mut file = RecordFile::open(file.as_ref())?;
        let label = file.read_label(Role::Index)?;
        let (entries, has_more) = file.read_index(label.version)?;
        let index = Self::parse(&label, &entries, has_more);
        Ok((label, index))
    }

    /// Returns all entries, none of them earlier than the one before.
    pub fn entries(&self) -> &[IndexEntry] {
        &self.entries
    }

    /// Returns the entries that are not used, in file order.
    pub fn defects(&self) -> &[IndexDefect] {
        &self.defects
    }

    /// Returns the entries in file order, also those that are not used for their time.
    pub fn all_entries(&self) -> impl Iterator<Item = &IndexEntry> {
        let mut used = self.entries.iter();
        let mut defects = self.defects.iter().filter(|defect| defect.number > 0).peekable();
        let mut number = 0;
        std::iter::from_fn(move || {
            loop {
                number += 1;
                match defects.next_if(|defect| defect.number == number) {
                    Some(IndexDefect { entry: Some(entry), .. }) => return Some(entry),
                    Some(_) => {}
                    None => return used.next(),
                }
            }
        })
    }

    /// Returns the newest entry earlier than `target`.
    pub(super) fn last_before(&self, target: Timestamp) -> Option<&IndexEntry> {
        let after = self.entries.partition_point(|entry| entry.timestamp < target);
        self.entries.get(after.checked_sub(1)?)
    }

    /// Returns the index of a file whose label has this error.
    fn unusable(error: RecordError) -> Self {
        let defect = IndexDefect { offset: 0, number: 0, error, entry: None };
        Self { entries: Vec::new(), defects: vec![defect] }
    }

    fn parse(label: &ArchiveLabel, bytes: &[u8], has_more: bool) -> Self {
        let ArchiveLabel { version, start: least, .. } = *label;
        let size = index::size(version);
        let mut defects = Vec::new();
        let mut add = |number: usize, error, entry| {
            let offset = version.label_size() + (number * size) as u64;
            defects.push(IndexDefect { offset, number: number as u64 + 1, error, entry });
        };
        let mut parsed: Vec<(usize, IndexEntry)> = Vec::with_capacity(bytes.len() / size);
        let entries = bytes.chunks_exact(size);
        let left = entries.remainder().len() as u64;
        for (number, bytes) in entries.enumerate() {
            match index::parse(version, &mut Bytes::new(bytes)) {
                Ok(entry) if entry.timestamp < least => {
                    let error = RecordError::TimeBefore { found: entry.timestamp, least };
                    add(number, error, Some(entry));
                }
                Ok(entry) => parsed.push((number, entry)),
                Err(error) => add(number, error, None),
            }
        }
        let used = longest_rising(parsed.iter().map(|(_, entry)| entry.timestamp));
        let mut entries: Vec<IndexEntry> = Vec::with_capacity(parsed.len());
        let mut too_late = Vec::new();
        for ((number, entry), used) in parsed.into_iter().zip(used) {
            let found = entry.timestamp;
            if used {
                for (number, late) in too_late.drain(..) {
                    let IndexEntry { timestamp: found, .. } = late;
                    let error = RecordError::TimeAfter { found, most: entry.timestamp };
                    add(number, error, Some(late));
                }
                entries.push(entry);
                continue;
            }
            match entries.last().map(|last| last.timestamp) {
                Some(least) if found < least => {
                    add(number, RecordError::TimeBefore { found, least }, Some(entry));
                }
                // A used one follows, or this one would be used.
                _ => too_late.push((number, entry)),
            }
        }
        if has_more {
            let field = "index entries";
            let most = index::MAX_ENTRIES;
            add(bytes.len() / size, RecordError::TooMany { field, most }, None);
        }
        if left > 0 {
            let field = "index entry";
            let needed = size as u64;
            add(bytes.len() / size, RecordError::Truncated { field, needed, left }, None);
        }
        defects.sort_by_key(|defect| defect.number);
        Self { entries, defects }
    }
}

/// Marks the times of a longest sequence that never decreases. Of two that are equally long it is
/// the one with the later times at its start, so an entry that steps back is left out rather than
/// the one before it.
fn longest_rising(times: impl DoubleEndedIterator<Item = Timestamp>) -> Vec<bool> {
    let times: Vec<_> = times.rev().map(Reverse).collect();
    let mut used = longest_rise(&times);
    used.reverse();
    used
}

/// Reads the index file of an archive whose metadata has `label`. If `is_tolerant`, an index
/// whose label cannot be used has one defect and no entries.
pub(super) fn load(
    path: &Path,
    label: &ArchiveLabel,
    metadata: &Path,
    is_tolerant: bool,
) -> Result<TemporalIndex> {
    let error = match load_labelled(path, label, metadata) {
        Err(error) if is_tolerant => error,
        loaded => return loaded,
    };
    let error = match error {
        Error::Corrupt { source, .. } => source,
        // Another program can decompress an unsupported format.
        Error::Decompress { source, .. } if source.kind() != ErrorKind::Unsupported => {
            RecordError::Decompress { reason: source.to_string() }
        }
        Error::LabelMismatch { field, found, expected, .. } => {
            RecordError::LabelMismatch { field, found, expected }
        }
        Error::VolumeMismatch { found, .. } => {
            RecordError::Field { field: "volume", found: found.into() }
        }
        other => return Err(other),
    };
    Ok(TemporalIndex::unusable(error))
}

fn load_labelled(path: &Path, label: &ArchiveLabel, metadata: &Path) -> Result<TemporalIndex> {
    let mut file = RecordFile::open(path)?;
    let needed = label.version.label_size();
    let left = file.available(0, 0, needed)?;
    if left < needed {
        // The archive was being created when its writer died.
        let error = RecordError::Truncated { field: "label", needed, left };
        return Ok(TemporalIndex::unusable(error));
    }
    let own = file.read_label(Role::Index)?;
    check_labels(&own, path, label, metadata)?;
    let (entries, has_more) = file.read_index(label.version)?;
    Ok(TemporalIndex::parse(label, &entries, has_more))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{descs, label};
    use crate::{ArchiveWriter, ByteText, FetchResult, ValueSet, Version, WriterOptions};

    fn entry(seconds: i64) -> IndexEntry {
        let timestamp = Timestamp::new(seconds, 0).unwrap();
        IndexEntry { timestamp, volume: 0, metadata_offset: 808, data_offset: 808 }
    }

    fn index(seconds: &[i64], cut: usize) -> TemporalIndex {
        index_from(0, seconds, cut)
    }

    fn index_from(start: i64, seconds: &[i64], cut: usize) -> TemporalIndex {
        let empty = ByteText::default;
        let label = ArchiveLabel {
            version: Version::V3,
            pid: 1,
            start: Timestamp::new(start, 0).unwrap(),
            hostname: empty(),
            timezone: empty(),
            zoneinfo: empty(),
        };
        let mut bytes = Vec::new();
        for seconds in seconds {
            index::encode(Version::V3, &entry(*seconds), &mut bytes).unwrap();
        }
        TemporalIndex::parse(&label, &bytes[..bytes.len() - cut], false)
    }

    fn closed() -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().join("a");
        let mut writer =
            ArchiveWriter::create_with(&base, label(), WriterOptions::default()).unwrap();
        let desc = descs().remove(0);
        writer.declare_metric(&desc, &["a"]).unwrap();
        for seconds in [10, 20, 30] {
            let timestamp = Timestamp::new(seconds, 0).unwrap();
            let value_sets = vec![ValueSet { pmid: desc.pmid, values: Ok(Vec::new()) }];
            writer.write_result(&FetchResult { timestamp, value_sets }).unwrap();
        }
        writer.finish().unwrap();
        (directory, base.with_extension("index"))
    }

    #[test]
    fn one_file_has_start_and_end_of_a_closed_archive() {
        let (_directory, file) = closed();
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
        let [defect] = index.defects() else { panic!("{index:?}") };
        assert_eq!((defect.offset, defect.number), (808 + 32, 2));
        assert!(defect.is_torn());
        assert!(matches!(defect.error, RecordError::Truncated { needed: 32, left: 31, .. }));
    }

    fn time(seconds: i64) -> Timestamp {
        Timestamp::new(seconds, 0).unwrap()
    }

    fn before(found: i64, least: i64) -> RecordError {
        RecordError::TimeBefore { found: time(found), least: time(least) }
    }

    #[test]
    fn entries_that_contradict_the_others_in_time_are_left_out() {
        let after = |found, most| RecordError::TimeAfter { found: time(found), most: time(most) };
        for (times, used, defects) in [
            (&[20, 10, 30][..], &[20, 30][..], vec![(2, before(10, 20))]),
            (&[99, 10, 20], &[10, 20], vec![(1, after(99, 10))]),
            (&[10, 99, 20, 20, 5], &[10, 20, 20], vec![(2, after(99, 20)), (5, before(5, 20))]),
            (&[30, 20, 10], &[30], vec![(2, before(20, 30)), (3, before(10, 30))]),
        ] {
            let index = index(times, 0);
            assert_eq!(index.entries(), used.iter().copied().map(entry).collect::<Vec<_>>());
            let found = index.defects().iter().map(|defect| (defect.number, defect.error.clone()));
            assert_eq!(found.collect::<Vec<_>>(), defects, "{times:?}");
        }
    }

    /// Half a gigabyte of entries in a file that takes no room on the disk.
    #[test]
    fn of_a_file_with_too_many_entries_the_first_ones_are_read() {
        let (_directory, file) = closed();
        let index = std::fs::File::options().write(true).open(&file).unwrap();
        index.set_len(1 << 29).unwrap();
        let (_, index) = TemporalIndex::open(&file).unwrap();
        assert!(index.entries().len() as u64 <= index::MAX_ENTRIES);
        let last = index.defects().last().unwrap();
        assert_eq!(
            (last.number, last.offset),
            (index::MAX_ENTRIES + 1, 808 + 32 * index::MAX_ENTRIES)
        );
        assert!(
            matches!(last.error, RecordError::TooMany { most: index::MAX_ENTRIES, .. }),
            "{last:?}"
        );
    }

    #[test]
    fn entries_before_the_start_are_left_out_however_many_they_are() {
        let index = index_from(10, &[10, 20, 0, 0, 0, 9], 0);
        assert_eq!(index.entries(), [10, 20].map(entry));
        let found = index.defects().iter().map(|defect| (defect.number, defect.error.clone()));
        let expected =
            [(3, before(0, 10)), (4, before(0, 10)), (5, before(0, 10)), (6, before(9, 10))];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_million_entries_that_go_back_are_sorted_out_at_once() {
        let times: Vec<i64> = (0..1_000_000).rev().collect();
        let used = longest_rising(times.iter().map(|seconds| Timestamp::new(*seconds, 0).unwrap()));
        assert_eq!(used.iter().filter(|used| **used).count(), 1);
        assert!(used[0]);
    }
}
