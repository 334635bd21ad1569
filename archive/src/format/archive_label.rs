//! The label: the first record of every file of an archive.
//!
//! | v2 + | v3 + | bytes (v2 / v3) | field | ours |
//! |---|---|---|---|---|
//! | 0 | 0 | 4 | 132 / 808 | |
//! | 4 | 4 | 4 | 0x50052602 / 0x50052603 | `version` |
//! | 8 | 8 | 4 | process that wrote | `pid` |
//! | 12 | 12 | 8 / 12 | time of the first record | `start` |
//! | 20 | 24 | 4 | volume; -1 metadata, -2 index | `Role` |
//! | - | 28 | 4 | feature bits | |
//! | - | 32 | 4 | reserved, 0 | |
//! | 24 | 36 | 64 / 256 | host name, NUL-padded | `hostname` |
//! | 88 | 292 | 40 / 256 | time zone (`AEST-10`) | `timezone` |
//! | - | 548 | 256 | zone's name (`:Australia/Melbourne`) | `zoneinfo` |
//! | 128 | 804 | 4 | 132 / 808 | |
//!
//! **Source**: LOGARCHIVE(5), "Archive label"; `src/libpcp/src/e_loglabel.c`.

use zerocopy::IntoBytes;
use zerocopy::big_endian::{I32, U32};

use super::bytes::before_nul;
use super::{Bytes, frame, timestamp};
use crate::{ByteText, EncodeError, RecordError, Timestamp, Version};

/// The upper 24 bits of the magic number.
const MAGIC: u32 = 0x5005_2600;
const MAGIC_MASK: u32 = 0xffff_ff00;
/// A bit that PCP's own tests set and every reader accepts.
const FEATURE_QA: u32 = 1 << 31;

/// The label of an archive, the same in all its files (`__pmLogLabel`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveLabel {
    /// The format of all files of the archive.
    pub version: Version,
    /// The process that wrote the archive.
    pub pid: i32,
    /// The time of the first record; no record is earlier.
    pub start: Timestamp,
    /// The host that the values are from.
    pub hostname: ByteText,
    /// That host's time zone as a POSIX rule with west positive, without
    /// daylight saving: `AEST-10`.
    pub timezone: ByteText,
    /// That zone's name with a colon, `:Australia/Melbourne`; may be empty,
    /// and always is in version 2.
    pub zoneinfo: ByteText,
}

/// The kind of file that a label is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Data(u32),
    Metadata,
    Index,
}

impl Role {
    pub(crate) const fn volume(self) -> i32 {
        match self {
            Self::Data(number) => number as i32,
            Self::Metadata => -1,
            Self::Index => -2,
        }
    }

    /// Returns the end of a file's name, after the base name and a dot.
    pub(crate) fn extension(self) -> String {
        match self {
            Self::Data(number) => number.to_string(),
            Self::Metadata => "meta".to_owned(),
            Self::Index => "index".to_owned(),
        }
    }
}

/// Parses a label record. Returns it with the volume word of the file that it is in.
///
/// # Errors
///
/// [`RecordError::Magic`], [`RecordError::UnknownVersion`],
/// [`RecordError::Length`], [`RecordError::Features`], and what framing,
/// times and strings can be wrong with.
pub(crate) fn parse(record: &[u8]) -> Result<(ArchiveLabel, i32), RecordError> {
    let mut body = Bytes::new(frame::parse(record)?);
    let version = parse_magic(body.take::<U32>("magic number")?.get())?;
    if record.len() as u64 != version.label_size() {
        return Err(RecordError::Length {
            record: "label",
            found: record.len() as u64,
            expected: version.label_size(),
        });
    }
    let pid = body.take::<I32>("pid")?.get();
    let start = timestamp::parse(version, &mut body)?;
    let volume = body.take::<I32>("volume")?.get();
    if version == Version::V3 {
        let unknown = body.take::<U32>("feature bits")?.get() & !FEATURE_QA;
        if unknown != 0 {
            return Err(RecordError::Features { unknown });
        }
        body.take::<U32>("reserved")?;
    }
    let [host, zone, info] = version.string_sizes();
    let hostname = string(&mut body, "host name", host)?;
    let timezone = string(&mut body, "timezone", zone)?;
    let zoneinfo =
        if info == 0 { ByteText::default() } else { string(&mut body, "zoneinfo", info)? };
    body.end()?;
    Ok((ArchiveLabel { version, pid, start, hostname, timezone, zoneinfo }, volume))
}

/// Parses the version, from the word after the length: it decides how long the label is.
pub(crate) fn parse_magic(word: u32) -> Result<Version, RecordError> {
    if word & MAGIC_MASK != MAGIC {
        return Err(RecordError::Magic { found: word });
    }
    match word & !MAGIC_MASK {
        2 => Ok(Version::V2),
        3 => Ok(Version::V3),
        found => Err(RecordError::UnknownVersion { found }),
    }
}

fn string(body: &mut Bytes<'_>, field: &'static str, size: usize) -> Result<ByteText, RecordError> {
    let bytes = body.slice(field, size as u64)?;
    let text = before_nul(bytes).ok_or(RecordError::Unterminated { field, len: size as u64 })?;
    Ok(ByteText::from_bytes(text))
}

/// Appends the label record of one file.
///
/// # Errors
///
/// [`EncodeError::TooLarge`] if a string does not leave room for its NUL,
/// [`EncodeError::Nul`], [`EncodeError::TimeRange`].
pub(crate) fn encode(
    label: &ArchiveLabel,
    role: Role,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let version = label.version;
    frame::encode(out, |out| {
        out.extend(U32::new(MAGIC | version.number()).as_bytes());
        out.extend(I32::new(label.pid).as_bytes());
        timestamp::encode(version, label.start, out)?;
        out.extend(I32::new(role.volume()).as_bytes());
        if version == Version::V3 {
            out.extend([0; 8]);
        }
        let [host, zone, info] = version.string_sizes();
        put_string(out, "host name", &label.hostname, host)?;
        put_string(out, "timezone", &label.timezone, zone)?;
        if info > 0 {
            put_string(out, "zoneinfo", &label.zoneinfo, info)?;
        }
        Ok(())
    })
}

fn put_string(
    out: &mut Vec<u8>,
    field: &'static str,
    text: &ByteText,
    size: usize,
) -> Result<(), EncodeError> {
    let bytes = text.to_bytes();
    EncodeError::check_size(field, bytes.len(), size - 1)?;
    EncodeError::check_nul(field, &bytes)?;
    out.extend(&*bytes);
    out.resize(out.len() + size - bytes.len(), 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(version: Version) -> ArchiveLabel {
        let micros = Timestamp::new(0x6553_f100, 123_456_000).unwrap();
        let nanos = Timestamp::new(0x6552_c830, 0x0c41_4f62).unwrap();
        ArchiveLabel {
            version,
            pid: if version == Version::V2 { 0x7da2 } else { 0x002f_368f },
            start: if version == Version::V2 { micros } else { nanos },
            hostname: "bozo.localdomain".into(),
            timezone: "AEDT-11".into(),
            zoneinfo: if version == Version::V2 { "" } else { ":Australia/Melbourne" }.into(),
        }
    }

    /// The record as bytes, from its parts.
    fn record(head: &str, strings: [(usize, &str); 3], len: usize) -> Vec<u8> {
        let words = head.split_whitespace().map(|word| u32::from_str_radix(word, 16).unwrap());
        let mut bytes: Vec<u8> = words.flat_map(u32::to_be_bytes).collect();
        bytes.resize(len, 0);
        for (at, text) in strings {
            bytes[at..at + text.len()].copy_from_slice(text.as_bytes());
        }
        bytes[len - 4..].copy_from_slice(&(len as u32).to_be_bytes());
        bytes
    }

    fn encoded(label: &ArchiveLabel, role: Role) -> Vec<u8> {
        let mut out = Vec::new();
        encode(label, role, &mut out).unwrap();
        out
    }

    #[test]
    fn version_3_bytes_both_ways() {
        let head = "328 50052603 2f368f 6552c830 0 0c414f62 fffffffe 0 0";
        let strings = [(36, "bozo.localdomain"), (292, "AEDT-11"), (548, ":Australia/Melbourne")];
        let bytes = record(head, strings, 808);
        assert_eq!(encoded(&label(Version::V3), Role::Index), bytes);
        assert_eq!(parse(&bytes), Ok((label(Version::V3), -2)));
    }

    #[test]
    fn version_2_bytes_both_ways() {
        let head = "84 50052602 7da2 6553f100 1e240 0";
        let strings = [(24, "bozo.localdomain"), (88, "AEDT-11"), (0x40, "")];
        let bytes = record(head, strings, 132);
        assert_eq!(encoded(&label(Version::V2), Role::Data(0)), bytes);
        assert_eq!(parse(&bytes), Ok((label(Version::V2), 0)));
    }

    #[test]
    fn every_truncation_is_refused() {
        for version in [Version::V2, Version::V3] {
            let bytes = encoded(&label(version), Role::Metadata);
            for len in 0..bytes.len() {
                assert!(parse(&bytes[..len]).is_err(), "{version:?} {len}");
            }
        }
    }

    #[test]
    fn another_magic_is_refused_before_the_version() {
        let mut bytes = encoded(&label(Version::V3), Role::Data(0));
        bytes[7] = 4;
        assert_eq!(parse(&bytes), Err(RecordError::UnknownVersion { found: 4 }));
        bytes[4] = 0;
        assert_eq!(parse(&bytes), Err(RecordError::Magic { found: 0x0005_2604 }));
    }

    #[test]
    fn a_version_3_label_with_version_2_magic_has_the_wrong_length() {
        let mut bytes = encoded(&label(Version::V3), Role::Data(0));
        bytes[7] = 2;
        assert!(matches!(parse(&bytes), Err(RecordError::Length { expected: 132, .. })));
    }

    #[test]
    fn of_the_feature_bits_only_the_qa_bit_is_accepted() {
        let mut bytes = encoded(&label(Version::V3), Role::Data(0));
        bytes[28] = 0x80;
        assert!(parse(&bytes).is_ok());
        bytes[31] = 1;
        assert_eq!(parse(&bytes), Err(RecordError::Features { unknown: 1 }));
    }

    #[test]
    fn a_string_without_nul_is_refused() {
        let mut bytes = encoded(&label(Version::V3), Role::Data(0));
        bytes[36..292].fill(b'x');
        assert!(matches!(parse(&bytes), Err(RecordError::Unterminated { len: 256, .. })));
    }

    #[test]
    fn strings_that_leave_no_room_for_the_nul_are_not_written() {
        let mut long = label(Version::V2);
        long.timezone = "x".repeat(40).into();
        let error = encode(&long, Role::Data(0), &mut Vec::new()).unwrap_err();
        assert_eq!(error, EncodeError::TooLarge { field: "timezone", found: 40, max: 39 });
    }

    #[test]
    fn a_flipped_bit_errs_or_changes_the_label_and_never_panics() {
        let bytes = encoded(&label(Version::V3), Role::Data(7));
        let good = parse(&bytes).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // Reserved words and the padding after a NUL mean nothing.
            let free = bit == 28 * 8 + 7 || (32..36).contains(&(bit / 8)) || bytes[bit / 8] == 0;
            assert!(parse(&flipped) != Ok(good.clone()) || free, "bit {bit}");
        }
    }
}
