//! The parsers, for the fuzz targets in `fuzz/`. No part of the interface.

use crate::format::archive_label::{self, Role};
use crate::format::bytes::Bytes;
use crate::format::{Version, index, metadata_record};
use crate::{Record, ValueType};

/// Reads the label of a file; what is read can be written, and is then read
/// as the same.
///
/// # Panics
///
/// If not.
pub fn label(record: &[u8]) {
    let Ok((label, _)) = archive_label::parse(record) else { return };
    let mut again = Vec::new();
    if archive_label::encode(&label, Role::Metadata, &mut again).is_ok() {
        assert_eq!(archive_label::parse(&again), Ok((label, Role::Metadata.volume())));
    }
}

/// Reads a record of the `.meta` file.
pub fn metadata_record(version: Version, record: &[u8]) {
    let _ = metadata_record::parse(version, record);
}

/// Reads a data record and each of its values as every type.
///
/// # Panics
///
/// If there are fewer value sets than it states.
pub fn result(version: Version, record: &[u8]) {
    let Ok(record) = Record::parse(version, record, 0, 0) else { return };
    let mut sets = 0;
    for set in record.value_sets() {
        sets += 1;
        for value_type in ValueType::ALL {
            assert_eq!(set.values(value_type).count(), set.len());
        }
    }
    assert_eq!(sets, record.len());
}

/// Reads entries of the `.index` file; each is written as it was.
///
/// # Panics
///
/// If not.
pub fn index(version: Version, bytes: &[u8]) {
    for bytes in bytes.chunks_exact(index::size(version)) {
        let Ok(entry) = index::parse(version, &mut Bytes::new(bytes)) else { continue };
        let mut again = Vec::new();
        if index::encode(version, &entry, &mut again).is_ok() {
            assert_eq!(again, bytes);
        }
    }
}
