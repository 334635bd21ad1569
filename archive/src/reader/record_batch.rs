//! Records copied out of their reader, for another thread.

use crate::Record;
use crate::format::RecordPlace;

/// Copies of records in the order in which they were added.
///
/// A [`Record`] borrows from the reader that found it and is gone with the next
/// one. A batch keeps the bytes of many, so that another thread can read the
/// values. The records were checked when they were read and are not checked
/// again.
#[derive(Debug, Clone, Default)]
pub struct RecordBatch {
    bytes: Vec<u8>,
    places: Vec<RecordPlace>,
}

impl RecordBatch {
    /// Adds a copy of a record.
    pub fn push(&mut self, record: &Record<'_>) {
        self.bytes.extend_from_slice(record.bytes());
        self.places.push(record.place());
    }

    /// Returns the length of all records in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all records and keeps the memory for others.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    /// Returns the records in the order in which they were added.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let mut remaining = self.bytes.as_slice();
        self.places.iter().filter_map(move |place| {
            let (bytes, after) = remaining.split_at_checked(place.size())?;
            remaining = after;
            Record::from_place(place, bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;
    use crate::format::result::mark_size;

    #[test]
    fn records_of_both_versions_come_back_with_their_places() {
        let mark = |version| {
            let size = mark_size(version);
            let mut bytes = vec![0; size];
            bytes[..4].copy_from_slice(&(size as u32).to_be_bytes());
            bytes[size - 4..].copy_from_slice(&(size as u32).to_be_bytes());
            bytes[7] = 9;
            bytes
        };
        let first = mark(Version::V2);
        let second = mark(Version::V3);
        let first = Record::parse(Version::V2, &first, 1, 132).unwrap();
        let second = Record::parse(Version::V3, &second, 2, 808).unwrap().with_archive(3);
        let mut batch = RecordBatch::default();
        batch.push(&first);
        batch.push(&second);
        assert_eq!(batch.size(), first.size() + second.size());
        let found: Vec<_> = batch.records().collect();
        for (found, expected) in found.iter().zip([first, second]) {
            assert_eq!(format!("{found:?}"), format!("{expected:?}"));
        }
        assert_eq!(found.len(), 2);
        batch.clear();
        assert_eq!((batch.size(), batch.records().count()), (0, 0));
    }
}
