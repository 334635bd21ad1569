//! Entries of the temporal index: what follows the label of `.index`, without
//! framing.
//!
//! | v2 + | v3 + | bytes (v2 / v3) | field | ours |
//! |---|---|---|---|---|
//! | 0 | 0 | 8 / 12 | time | `timestamp` |
//! | 8 | 12 | 4 | volume | `volume` |
//! | 12 | 16 | 4 / 8 | offset in `.meta` | `metadata_offset` |
//! | 16 | 24 | 4 / 8 | offset in the data volume | `data_offset` |
//!
//! The 64-bit offsets of version 3 are true big-endian ones, unlike its
//! seconds.
//!
//! **Source**: LOGARCHIVE(5), "Temporal index"; `src/libpcp/src/e_index.c`.

use zerocopy::big_endian::{I32, I64};

use super::{Bytes, timestamp};
use crate::{EncodeError, RecordError, Timestamp, Version};

/// The position of a time in the files of an archive (`__pmLogTI`).
///
/// An entry of our writer points to the start of the record with this time and
/// to the start of the metadata that was written for it. All that a reader may
/// rely on: no record with a later timestamp is before `data_offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry {
    /// The time that was indexed.
    pub timestamp: Timestamp,
    /// Number of the data volume.
    pub volume: u32,
    /// Bytes from the start of the `.meta` file.
    pub metadata_offset: u64,
    /// Bytes from the start of the data volume.
    pub data_offset: u64,
}

/// The most entries of a file that are read: one a minute for half a year. Files of zeros take
/// no room on a disk, and their entries memory.
pub(crate) const MAX_ENTRIES: u64 = 1 << 18;

/// Returns the length of an entry in bytes.
pub(crate) const fn size(version: Version) -> usize {
    match version {
        Version::V2 => 20,
        Version::V3 => 32,
    }
}

/// Parses the next entry.
///
/// # Errors
///
/// [`RecordError::Negative`] for a negative volume or offset, and what times
/// can be wrong with.
pub(crate) fn parse(version: Version, bytes: &mut Bytes<'_>) -> Result<IndexEntry, RecordError> {
    let timestamp = timestamp::parse(version, bytes)?;
    let volume = bytes.take::<I32>("volume")?.get();
    let volume = u32::try_from(volume)
        .map_err(|_| RecordError::Negative { field: "volume", found: i64::from(volume) })?;
    let metadata_offset = parse_offset(version, "metadata offset", bytes)?;
    let data_offset = parse_offset(version, "data offset", bytes)?;
    Ok(IndexEntry { timestamp, volume, metadata_offset, data_offset })
}

fn parse_offset(
    version: Version,
    field: &'static str,
    bytes: &mut Bytes<'_>,
) -> Result<u64, RecordError> {
    let found = match version {
        Version::V2 => i64::from(bytes.take::<I32>(field)?.get()),
        Version::V3 => bytes.take::<I64>(field)?.get(),
    };
    u64::try_from(found).map_err(|_| RecordError::Negative { field, found })
}

/// Appends an entry.
///
/// # Errors
///
/// [`EncodeError::TooLarge`] for a volume of 2^31, an offset of 2^63, or in
/// version 2 of 2^31; [`EncodeError::TimeRange`] in version 2.
pub(crate) fn encode(
    version: Version,
    entry: &IndexEntry,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let max = match version {
        Version::V2 => i64::from(i32::MAX),
        Version::V3 => i64::MAX,
    };
    let volume = signed("volume", u64::from(entry.volume), i64::from(i32::MAX))?;
    let metadata_offset = signed("metadata offset", entry.metadata_offset, max)?;
    let data_offset = signed("data offset", entry.data_offset, max)?;
    timestamp::encode(version, entry.timestamp, out)?;
    out.extend((volume as i32).to_be_bytes());
    for offset in [metadata_offset, data_offset] {
        match version {
            Version::V2 => out.extend((offset as i32).to_be_bytes()),
            Version::V3 => out.extend(offset.to_be_bytes()),
        }
    }
    Ok(())
}

fn signed(field: &'static str, found: u64, max: i64) -> Result<i64, EncodeError> {
    i64::try_from(found).ok().filter(|number| *number <= max).ok_or(EncodeError::TooLarge {
        field,
        found,
        max: max as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::metadata_record::test_support::{every_bit_flipped, hex};

    const EXAMPLE: &str = "6553f10a 00000000 075bcd15 00000000 \
                           0000000000000613 0000000000000400";

    fn example() -> IndexEntry {
        IndexEntry {
            timestamp: Timestamp::new(0x6553_f10a, 0x075b_cd15).unwrap(),
            volume: 0,
            metadata_offset: 0x613,
            data_offset: 0x400,
        }
    }

    #[test]
    fn version_3_bytes_both_ways() {
        let mut out = Vec::new();
        encode(Version::V3, &example(), &mut out).unwrap();
        assert_eq!(out, hex(EXAMPLE));
        assert_eq!(out.len(), size(Version::V3));
        assert_eq!(parse(Version::V3, &mut Bytes::new(&out)), Ok(example()));
    }

    #[test]
    fn version_2_bytes_both_ways() {
        let bytes = hex("6553f10a 0001e240 00000002 00000613 00000400");
        assert_eq!(bytes.len(), size(Version::V2));
        let timestamp = Timestamp::new(0x6553_f10a, 123_456_000).unwrap();
        let expected = IndexEntry { timestamp, volume: 2, ..example() };
        assert_eq!(parse(Version::V2, &mut Bytes::new(&bytes)), Ok(expected));
        let mut out = Vec::new();
        encode(Version::V2, &expected, &mut out).unwrap();
        assert_eq!(out, bytes);
    }

    #[test]
    fn every_truncation_is_refused() {
        for len in 0..32 {
            assert!(parse(Version::V3, &mut Bytes::new(&hex(EXAMPLE)[..len])).is_err());
        }
    }

    #[test]
    fn a_flipped_bit_changes_the_entry_or_errs() {
        for bytes in every_bit_flipped(&hex(EXAMPLE), 0..32) {
            assert_ne!(parse(Version::V3, &mut Bytes::new(&bytes)), Ok(example()));
        }
    }

    #[test]
    fn negative_volumes_and_offsets_are_refused() {
        for (at, field) in [(12, "volume"), (16, "metadata offset"), (24, "data offset")] {
            let mut bytes = hex(EXAMPLE);
            bytes[at] = 0x80;
            let error = parse(Version::V3, &mut Bytes::new(&bytes)).unwrap_err();
            assert!(matches!(error, RecordError::Negative { field: found, .. } if found == field));
        }
    }

    #[test]
    fn numbers_that_readers_would_take_as_negative_are_not_written() {
        let entry = IndexEntry { volume: 1 << 31, ..example() };
        assert!(encode(Version::V3, &entry, &mut Vec::new()).is_err());
        let entry = IndexEntry { data_offset: 1 << 31, ..example() };
        assert!(encode(Version::V2, &entry, &mut Vec::new()).is_err());
        let entry = IndexEntry { data_offset: 1 << 63, ..example() };
        assert!(encode(Version::V3, &entry, &mut Vec::new()).is_err());
    }
}
