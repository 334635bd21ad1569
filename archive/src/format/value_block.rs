//! Value blocks: values that do not fit into a word, after the last value set
//! of a record.
//!
//! | + | bytes | field |
//! |---|---|---|
//! | 0 | 1 | type; 0 in old archives, where the descriptor decides |
//! | 1 | 3 | L: length with these four bytes, without padding |
//! | 4 | L - 4 | payload |
//! | L | 0..=3 | padding to a whole word, `~` by custom |
//!
//! | type | payload |
//! |---|---|
//! | 64, U64, double | 8 bytes, big-endian |
//! | float | 4 bytes, big-endian |
//! | string | bytes and a NUL |
//! | aggregate | opaque bytes |
//! | event, highres event | number of records, then the records |
//!
//! A value refers to its block by an index in words, counted from two words
//! before the record's start (a leftover of PCP's network header).
//!
//! **Source**: LOGARCHIVE(5), "pmValueBlock"; `src/libpcp/src/p_result.c`.

use super::{WORD, padded};
use crate::{EncodeError, RecordError, Value, ValueType};

pub(crate) const HEADER: usize = 4;
/// The filling that PCP writes.
pub(crate) const PADDING: u8 = 0x7e;
/// The largest length word.
const MAX_LENGTH: usize = 0xff_ffff;
/// Words between the origin of indexes and the record's start.
const INDEX_BIAS: usize = 2;

/// A block: where it starts in its record, and its length with header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ValueBlock {
    pub(crate) start: usize,
    pub(crate) len: usize,
}

impl ValueBlock {
    pub(crate) const fn end(self) -> usize {
        self.start + self.len
    }

    pub(crate) const fn padded_end(self) -> usize {
        self.start + padded(self.len)
    }
}

/// Returns the block that an index word refers to. It is inside `record`, except perhaps its
/// padding.
///
/// # Errors
///
/// [`RecordError::Negative`], [`RecordError::Offset`] for an index before or
/// after the record, [`RecordError::Field`] for a length below the header's,
/// [`RecordError::Truncated`] for one past the record's end.
#[inline]
pub(crate) fn locate(record: &[u8], index: u32) -> Result<ValueBlock, RecordError> {
    find(record, index).ok_or_else(|| misplaced(record, index))
}

/// Finds a block as [`locate`], without a reason if there is none.
#[inline]
fn find(record: &[u8], index: u32) -> Option<ValueBlock> {
    let start = (index as usize).checked_sub(INDEX_BIAS)?.checked_mul(WORD)?;
    let rest = record.get(start..)?;
    let len = length(*rest.first_chunk()?);
    (HEADER <= len && len <= rest.len()).then_some(ValueBlock { start, len })
}

const fn length(header: [u8; HEADER]) -> usize {
    (u32::from_be_bytes(header) & MAX_LENGTH as u32) as usize
}

/// Returns the error of a block that [`find`] does not find.
#[cold]
fn misplaced(record: &[u8], index: u32) -> RecordError {
    if index > i32::MAX as u32 {
        let found = i64::from(index.cast_signed());
        return RecordError::Negative { field: "value block index", found };
    }
    let start = (index as usize).checked_sub(INDEX_BIAS).map(|words| words * WORD);
    let rest = start.and_then(|start| record.get(start..)).unwrap_or_default();
    let Some(header) = rest.first_chunk() else {
        return RecordError::Offset {
            field: "value block index",
            found: u64::from(index),
            end: (record.len() / WORD + INDEX_BIAS) as u64,
        };
    };
    let len = length(*header);
    let left = rest.len() as u64;
    if len < HEADER {
        return RecordError::Field { field: "value block length", found: len as i64 };
    }
    RecordError::Truncated { field: "value block", needed: len as u64, left }
}

/// Returns a block with its header, without padding; empty if the index is bad, which [`locate`]
/// has excluded when the record was parsed.
#[inline]
pub(crate) fn whole(record: &[u8], index: u32) -> &[u8] {
    let Some(block) = find(record, index) else { return &[] };
    record.get(block.start..block.start + block.len).unwrap_or_default()
}

/// Returns the index word of the block at `start` bytes from the record's start.
pub(crate) const fn index_of(start: usize) -> u32 {
    (start / WORD + INDEX_BIAS) as u32
}

/// Returns the length of the payloads of a type; `None` if they may have any.
pub(crate) const fn fixed_len(value_type: ValueType) -> Option<usize> {
    match value_type {
        ValueType::I64 | ValueType::U64 | ValueType::Double => Some(8),
        ValueType::Float => Some(4),
        _ => None,
    }
}

/// Returns a payload as a value of a type; `None` if it is too short for the type, or the type is
/// never stored in a block.
#[inline]
pub(crate) fn decode(value_type: ValueType, payload: &[u8]) -> Option<Value<'_>> {
    let long = || payload.first_chunk::<8>();
    match value_type {
        ValueType::I64 => long().map(|word| Value::I64(i64::from_be_bytes(*word))),
        ValueType::U64 => long().map(|word| Value::U64(u64::from_be_bytes(*word))),
        ValueType::Double => long().map(|word| Value::Double(f64::from_be_bytes(*word))),
        ValueType::Float => {
            payload.first_chunk::<4>().map(|word| Value::Float(f32::from_be_bytes(*word)))
        }
        ValueType::String => {
            let end = payload.iter().position(|&byte| byte == 0).unwrap_or(payload.len());
            payload.get(..end).map(Value::String)
        }
        ValueType::Aggregate | ValueType::AggregateStatic => Some(Value::Aggregate(payload)),
        ValueType::Event => Some(Value::Event(payload)),
        ValueType::HighresEvent => Some(Value::HighresEvent(payload)),
        ValueType::I32 | ValueType::U32 | ValueType::NoSupport => None,
    }
}

/// Returns the header word.
///
/// # Errors
///
/// [`EncodeError::TooLarge`] for a payload of 2^24 - 4 bytes or more.
pub(crate) fn header(value_type: ValueType, payload: usize) -> Result<[u8; HEADER], EncodeError> {
    EncodeError::check_size("value", payload, MAX_LENGTH - HEADER)?;
    let len = payload + HEADER;
    Ok(((value_type.code() as u32) << 24 | len as u32).to_be_bytes())
}

/// Returns the type in a block's header, if it contradicts that of the descriptor: loggers of old
/// wrote 0, and both kinds of aggregates are the same in a file.
#[inline]
pub(crate) fn contradiction(value_type: ValueType, block: &[u8]) -> Option<i32> {
    let code = i32::from(*block.first()?);
    if code == value_type.code() || code == 0 {
        return None;
    }
    let is_aggregate =
        |code| code == ValueType::Aggregate.code() || code == ValueType::AggregateStatic.code();
    let is_same = is_aggregate(code) && is_aggregate(value_type.code());
    (!is_same).then_some(code)
}

/// Parses the type and the length in the header that `block` starts with.
pub(crate) fn parse_header(block: &[u8]) -> Option<(i32, usize)> {
    let header = *block.first_chunk()?;
    Some((i32::from(header[0]), length(header)))
}

/// Writes another payload into a padded block; false, and nothing is written, if
/// it needs another number of words.
pub(crate) fn replace(block: &mut [u8], code: i32, payload: &[u8]) -> bool {
    let nul = usize::from(code == ValueType::String.code());
    let len = HEADER + payload.len() + nul;
    if padded(len) != block.len() {
        return false;
    }
    let Some((head, rest)) = block.split_first_chunk_mut::<HEADER>() else { return false };
    *head = ((code as u32) << 24 | len as u32).to_be_bytes();
    let (value, padding) = rest.split_at_mut(payload.len());
    value.copy_from_slice(payload);
    padding.fill(PADDING);
    if let (Some(first), 1) = (padding.first_mut(), nul) {
        *first = 0;
    }
    true
}

/// Appends a block of a payload in one or two pieces, padded.
///
/// # Errors
///
/// As [`header`].
#[inline]
pub(crate) fn encode(
    value_type: ValueType,
    payload: &[u8],
    more: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let len = payload.len() + more.len();
    out.extend_from_slice(&header(value_type, len)?);
    out.extend_from_slice(payload);
    out.extend_from_slice(more);
    out.resize(out.len() + padded(len) - len, PADDING);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value_type: ValueType, payload: &[u8], more: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(value_type, payload, more, &mut out).unwrap();
        out
    }

    #[test]
    fn blocks_are_headed_and_padded() {
        assert_eq!(
            encoded(ValueType::U64, &1000u64.to_be_bytes(), b""),
            [3, 0, 0, 12, 0, 0, 0, 0, 0, 0, 3, 0xe8]
        );
        assert_eq!(
            encoded(ValueType::Float, &1.5f32.to_be_bytes(), b""),
            [4, 0, 0, 8, 0x3f, 0xc0, 0, 0]
        );
        assert_eq!(encoded(ValueType::String, b"a", b"\0"), b"\x06\0\0\x06a\0~~");
        assert_eq!(encoded(ValueType::String, b"abc", b"\0"), b"\x06\0\0\x08abc\0");
        assert_eq!(encoded(ValueType::Event, &[0; 4], b""), [9, 0, 0, 8, 0, 0, 0, 0]);
    }

    #[test]
    fn an_index_counts_words_from_two_before_the_record() {
        let mut record = vec![0; 172];
        record.extend(encoded(ValueType::U64, &[0; 8], b""));
        assert_eq!(index_of(172), 0x2d);
        assert_eq!(locate(&record, 0x2d), Ok(ValueBlock { start: 172, len: 12 }));
    }

    #[test]
    fn indexes_outside_the_record_are_refused() {
        let record = encoded(ValueType::U64, &[0; 8], b"");
        assert!(locate(&record, 2).is_ok());
        for index in [0, 1, 5, i32::MAX as u32] {
            assert!(matches!(locate(&record, index), Err(RecordError::Offset { .. })), "{index}");
        }
        assert!(matches!(locate(&record, u32::MAX), Err(RecordError::Negative { .. })));
    }

    #[test]
    fn lengths_below_the_header_and_past_the_record_are_refused() {
        for (len, fine) in [(0, false), (3, false), (4, true), (12, true), (13, false)] {
            let mut record = encoded(ValueType::U64, &[0; 8], b"");
            record[3] = len;
            assert_eq!(locate(&record, 2).is_ok(), fine, "{len}");
        }
    }

    #[test]
    fn payloads_too_short_for_their_type_are_no_value() {
        assert_eq!(decode(ValueType::U64, &[0; 7]), None);
        assert_eq!(decode(ValueType::Float, &[0; 3]), None);
        assert_eq!(decode(ValueType::U32, &[0; 4]), None);
        assert_eq!(decode(ValueType::String, b""), Some(Value::String(b"")));
    }

    #[test]
    fn a_string_ends_at_its_first_nul_and_needs_none() {
        assert_eq!(decode(ValueType::String, b"ab\0cd\0"), Some(Value::String(b"ab")));
        assert_eq!(decode(ValueType::String, b"ab"), Some(Value::String(b"ab")));
    }

    #[test]
    fn a_payload_of_16_mib_is_refused() {
        assert!(header(ValueType::Aggregate, 0xff_ffff - 4).is_ok());
        assert!(header(ValueType::Aggregate, 0xff_ffff - 3).is_err());
    }
}
