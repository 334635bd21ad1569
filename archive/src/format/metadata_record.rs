//! The records of the `.meta` file.
//!
//! | + | bytes | field |
//! |---|---|---|
//! | 0 | 4 | length |
//! | 4 | 4 | type |
//! | 8 | .. | by type |
//! | len - 4 | 4 | length |
//!
//! | type | record | version |
//! |---|---|---|
//! | 1 | [`desc`] | 2, 3 |
//! | 2 | [`indom`], whole | 2 |
//! | 3 | [`labelset`] | 2 |
//! | 4 | [`text`] | 2, 3 |
//! | 5 | [`indom`], whole | 3 |
//! | 6 | [`indom`], difference | 3 |
//! | 7 | [`labelset`] | 3 |
//!
//! Nothing in this file is padded or aligned.
//!
//! **Source**: LOGARCHIVE(5), "Metadata"; `src/include/pcp/libpcp.h`.

use zerocopy::big_endian::U32;

use super::indom::BorrowedIndomRecord;
use super::{
    Bytes, DescRecord, LabelRecord, RecordType, TextRecord, desc, frame, indom, labelset, text,
};
use crate::{RecordError, Version};

/// One record of the `.meta` file, borrowing from its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MetadataRecord<'a> {
    Desc(DescRecord<'a>),
    Indom(BorrowedIndomRecord<'a>),
    Label(LabelRecord),
    Text(TextRecord<'a>),
}

/// Parses a whole record, framing included.
///
/// # Errors
///
/// [`RecordError::RecordType`] for a type that the version does not have, and
/// what the parsers of the types return.
pub(crate) fn parse(version: Version, record: &[u8]) -> Result<MetadataRecord<'_>, RecordError> {
    let mut body = Bytes::new(frame::parse(record)?);
    let record_type = RecordType::parse(version, body.take::<U32>("record type")?.get())?;
    let parsed = match record_type {
        RecordType::Desc => MetadataRecord::Desc(desc::parse(&mut body)?),
        RecordType::Indom | RecordType::IndomV2 => {
            MetadataRecord::Indom(indom::parse(version, indom::IndomRecordKind::Full, &mut body)?)
        }
        RecordType::IndomDelta => {
            MetadataRecord::Indom(indom::parse(version, indom::IndomRecordKind::Delta, &mut body)?)
        }
        RecordType::Label | RecordType::LabelV2 => {
            MetadataRecord::Label(labelset::parse(version, &mut body)?)
        }
        RecordType::Text => MetadataRecord::Text(text::parse(&mut body)?),
    };
    body.end()?;
    Ok(parsed)
}

#[cfg(test)]
pub(crate) mod test_support {
    use std::ops::Range;

    use super::*;

    /// Parses hex digits; white space is ignored.
    pub(crate) fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    /// Returns what follows the type word of a framed record.
    pub(crate) fn body(record: &[u8]) -> Bytes<'_> {
        let mut body = Bytes::new(frame::parse(record).unwrap());
        body.take::<U32>("type").unwrap();
        body
    }

    /// Returns all copies of a record with one bit of `range` changed.
    pub(crate) fn every_bit_flipped(
        record: &[u8],
        range: Range<usize>,
    ) -> impl Iterator<Item = Vec<u8>> {
        range.flat_map(move |byte| {
            (0..8).map(move |bit| {
                let mut flipped = record.to_vec();
                flipped[byte] ^= 1 << bit;
                flipped
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::test_support::hex;
    use super::*;

    #[test]
    fn each_version_refuses_the_types_of_the_other() {
        for (found, v2, v3) in [
            (0, false, false),
            (1, true, true),
            (2, true, false),
            (3, true, false),
            (4, true, true),
            (5, false, true),
            (6, false, true),
            (7, false, true),
            (8, false, false),
        ] {
            assert_eq!(RecordType::parse(Version::V2, found).is_ok(), v2, "{found}");
            assert_eq!(RecordType::parse(Version::V3, found).is_ok(), v3, "{found}");
        }
    }

    #[test]
    fn bytes_after_the_last_field_are_refused() {
        let text = "0000001e 00000004 00000005 64000401 6f6e65206c696e6500 00 0000001e";
        assert_eq!(parse(Version::V3, &hex(text)), Err(RecordError::TrailingBytes { left: 1 }));
    }
}
