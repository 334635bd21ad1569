//! The length words around every record.
//!
//! | + | bytes | field |
//! |---|---|---|
//! | 0 | 4 | `len`: bytes of the whole record, this word and the last included |
//! | 4 | len - 8 | body |
//! | len - 4 | 4 | `len` again |
//!
//! The second word lets a reader walk backwards, and shows a record that was
//! not written to its end.
//!
//! **Source**: LOGARCHIVE(5), "Record framing".

use zerocopy::FromBytes;
use zerocopy::big_endian::U32;

use crate::{EncodeError, RecordError};

pub(crate) const LENGTH_WORD: usize = 4;
/// Bytes that the framing adds to a body.
pub(crate) const OVERHEAD: usize = 2 * LENGTH_WORD;
/// Limit on the length of a record: PCP reads lengths as signed.
const MAX_LENGTH: u64 = i32::MAX as u64;

/// Returns the length of the record that starts with `bytes`, from its first word alone.
///
/// # Errors
///
/// [`RecordError::Truncated`] with fewer than four bytes,
/// [`RecordError::FrameLength`] if the word is smaller than the framing or,
/// as PCP sees it, negative.
pub(crate) fn parse_length(bytes: &[u8]) -> Result<u32, RecordError> {
    let (word, _) = U32::read_from_prefix(bytes).map_err(|_| RecordError::Truncated {
        field: "record length",
        needed: LENGTH_WORD as u64,
        left: bytes.len() as u64,
    })?;
    let length = word.get();
    if (length as usize) < OVERHEAD || u64::from(length) > MAX_LENGTH {
        return Err(RecordError::FrameLength { found: length, least: OVERHEAD as u32 });
    }
    Ok(length)
}

/// Parses the body of a whole record: `record` has exactly the length in its first word.
///
/// # Errors
///
/// [`RecordError::Truncated`] or [`RecordError::TrailingBytes`] if it is not,
/// [`RecordError::Trailer`] if the last word differs from the first.
pub(crate) fn parse(record: &[u8]) -> Result<&[u8], RecordError> {
    let header = parse_length(record)?;
    let found = record.len() as u64;
    let needed = u64::from(header);
    if found < needed {
        return Err(RecordError::Truncated { field: "record", needed, left: found });
    }
    if found > needed {
        return Err(RecordError::TrailingBytes { left: found - needed });
    }
    let trailer = parse_trailer(record)?;
    if trailer != header {
        return Err(RecordError::Trailer { header, trailer });
    }
    Ok(record.get(LENGTH_WORD..record.len() - LENGTH_WORD).unwrap_or_default())
}

/// Returns the last word of `bytes`: how far back the record before starts.
pub(crate) fn parse_trailer(bytes: &[u8]) -> Result<u32, RecordError> {
    let (_, word) = U32::read_from_suffix(bytes).map_err(|_| RecordError::Truncated {
        field: "record trailer",
        needed: LENGTH_WORD as u64,
        left: bytes.len() as u64,
    })?;
    Ok(word.get())
}

/// Appends a record to `out`; `body` appends the bytes between the length
/// words. After an error `out` is unchanged.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = out.len();
    out.extend([0; LENGTH_WORD]);
    let written = body(out).and_then(|()| close(out, start));
    if written.is_err() {
        out.truncate(start);
    }
    written
}

fn close(out: &mut Vec<u8>, start: usize) -> Result<(), EncodeError> {
    let found = (out.len() - start + LENGTH_WORD) as u64;
    if found > MAX_LENGTH {
        return Err(EncodeError::TooLarge { field: "record", found, max: MAX_LENGTH });
    }
    let word = (found as u32).to_be_bytes();
    if let Some(header) = out.get_mut(start..start + LENGTH_WORD) {
        header.copy_from_slice(&word);
    }
    out.extend(word);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out, |out| {
            out.extend(body);
            Ok(())
        })
        .unwrap();
        out
    }

    #[test]
    fn both_words_hold_the_whole_length() {
        assert_eq!(framed(b"abc"), b"\0\0\0\x0babc\0\0\0\x0b");
        assert_eq!(parse(b"\0\0\0\x0babc\0\0\0\x0b").unwrap(), b"abc");
        assert_eq!(parse(&framed(b"")).unwrap(), b"");
    }

    #[test]
    fn every_truncation_is_refused() {
        let record = framed(b"abcdef");
        for len in 0..record.len() {
            assert!(parse(&record[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn a_different_trailer_is_refused_with_both_numbers() {
        let mut record = framed(b"abc");
        record[10] = 12;
        assert_eq!(parse(&record), Err(RecordError::Trailer { header: 11, trailer: 12 }));
    }

    #[test]
    fn lengths_below_the_framing_and_negative_ones_are_refused() {
        for found in [0u32, 7, 0x8000_0000, u32::MAX] {
            assert_eq!(
                parse_length(&found.to_be_bytes()),
                Err(RecordError::FrameLength { found, least: 8 })
            );
        }
        assert_eq!(parse_length(&8u32.to_be_bytes()), Ok(8));
        let negative = parse_length(&u32::MAX.to_be_bytes()).unwrap_err();
        assert_eq!(
            negative.to_string(),
            "record length 4294967295 is not between 8 and 2147483647"
        );
    }

    #[test]
    fn a_failed_body_leaves_nothing_behind() {
        let mut out = b"before".to_vec();
        let failed = encode(&mut out, |out| {
            out.extend(b"partial");
            Err(EncodeError::TooLarge { field: "x", found: 2, max: 1 })
        });
        assert!(failed.is_err());
        assert_eq!(out, b"before");
    }
}
