//! Event arrays: several records, each with parameters, packed into one value.
//!
//! Behind the block's header word (format notes: LOGARCHIVE(5) does not
//! describe the array, `<pcp/pmapi.h>` and `src/libpcp/src/endian.c` do):
//!
//! | bytes | field |
//! |---|---|
//! | 4 | number of records |
//! | 8, or 16 in high resolution | seconds, and micro- or nanoseconds |
//! | 4 | flags |
//! | 4 | number of parameters; of a missed record: records lost |
//! | 4 + 4 + n | a parameter: PMID, type and length, value padded to a word |

use pcp_types::{Pmid, Timestamp, ValueType};

use crate::Value;

/// The record stands for records that were lost.
const MISSED: u32 = 1 << 31;

/// The other flags and their names.
const FLAGS: [(u32, &str); 5] = [(1, "point"), (2, "start"), (4, "end"), (8, "id"), (16, "parent")];

/// One record of an event array.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EventRecord<'a> {
    pub(super) timestamp: Timestamp,
    pub(super) flags: u32,
    /// Records lost, if this one stands for lost ones.
    pub(super) missed: Option<u32>,
    /// The parameters in file order.
    pub(super) parameters: Vec<(Pmid, Value<'a>)>,
}

/// The records of an event array, or `None` if it is damaged or `value` is
/// none.
pub(super) fn unpack(value: Value<'_>) -> Option<Vec<EventRecord<'_>>> {
    let (mut rest, highres) = match value {
        Value::Event(bytes) => (bytes, false),
        Value::HighresEvent(bytes) => (bytes, true),
        _ => return None,
    };
    let count = word(&mut rest)?;
    let mut records = Vec::new();
    for _ in 0..count {
        records.push(record(&mut rest, highres)?);
    }
    Some(records)
}

/// The names of a record's flags: `point`, `start,id`, `missed`.
pub(super) fn flag_names(flags: u32) -> String {
    if flags & MISSED != 0 {
        return "missed".to_owned();
    }
    let set = FLAGS.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name);
    set.collect::<Vec<_>>().join(",")
}

fn record<'a>(rest: &mut &'a [u8], highres: bool) -> Option<EventRecord<'a>> {
    let timestamp = stamp(rest, highres)?;
    let flags = word(rest)?;
    let count = word(rest)?;
    let missed = (flags & MISSED != 0).then_some(count);
    let mut parameters = Vec::new();
    for _ in 0..if missed.is_some() { 0 } else { count } {
        parameters.push(parameter(rest)?);
    }
    Some(EventRecord { timestamp, flags, missed, parameters })
}

fn stamp(rest: &mut &[u8], highres: bool) -> Option<Timestamp> {
    if highres {
        let seconds = long(rest)? as i64;
        return Timestamp::new(seconds, u32::try_from(long(rest)?).ok()?).ok();
    }
    let seconds = i64::from(word(rest)? as i32);
    Timestamp::new(seconds, word(rest)?.checked_mul(1000)?).ok()
}

fn parameter<'a>(rest: &mut &'a [u8]) -> Option<(Pmid, Value<'a>)> {
    let pmid = Pmid::from_raw(word(rest)?);
    let header = word(rest)?;
    let value_type = ValueType::from_code((header >> 24) as i32).ok()?;
    // The length includes the header word and excludes the padding.
    let len = (header & 0x00ff_ffff).checked_sub(4)? as usize;
    let value = take(rest, len)?;
    take(rest, len.next_multiple_of(4) - len)?;
    Some((pmid, scalar(value_type, value)?))
}

fn scalar(value_type: ValueType, bytes: &[u8]) -> Option<Value<'_>> {
    let mut rest = bytes;
    Some(match value_type {
        ValueType::I32 => Value::I32(word(&mut rest)? as i32),
        ValueType::U32 => Value::U32(word(&mut rest)?),
        ValueType::I64 => Value::I64(long(&mut rest)? as i64),
        ValueType::U64 => Value::U64(long(&mut rest)?),
        ValueType::Float => Value::Float(f32::from_bits(word(&mut rest)?)),
        ValueType::Double => Value::Double(f64::from_bits(long(&mut rest)?)),
        ValueType::String => {
            let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
            Value::String(bytes.get(..end)?)
        }
        ValueType::Aggregate | ValueType::AggregateStatic => Value::Aggregate(bytes),
        ValueType::NoSupport | ValueType::Event | ValueType::HighresEvent => return None,
    })
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(len)?;
    *rest = left;
    Some(taken)
}

fn word(rest: &mut &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(take(rest, 4)?.try_into().ok()?))
}

fn long(rest: &mut &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(take(rest, 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u32], tail: &[u8]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).chain(tail.iter().copied()).collect()
    }

    /// The array `09000028 00000001 ...` that pmlogger wrote, without its
    /// header word.
    fn one_record() -> Vec<u8> {
        let words = [1, 0x5464_02c3, 0x0008_7b3f, 1, 1, 0x0780_0086, 0x0600_000c];
        bytes(&words, b"fetch #5")
    }

    #[test]
    fn a_record_with_a_string_is_read() {
        let array = one_record();
        let records = unpack(Value::Event(&array)).unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].timestamp, Timestamp::new(0x5464_02c3, 555_839_000).unwrap());
        assert_eq!(flag_names(records[0].flags), "point");
        let (pmid, value) = records[0].parameters[0];
        assert_eq!((pmid.to_string().as_str(), value), ("30.0.134", Value::String(b"fetch #5")));
    }

    #[test]
    fn high_resolution_times_have_64_bits_twice() {
        let words = [1, 0, 0x5464_02c3, 0, 0x2123_0060, 1, 0];
        let array = bytes(&words, b"");
        let records = unpack(Value::HighresEvent(&array)).unwrap();
        assert_eq!(records[0].timestamp, Timestamp::new(0x5464_02c3, 0x2123_0060).unwrap());
    }

    #[test]
    fn a_missed_record_has_a_count_and_no_parameters() {
        let array = bytes(&[1, 1, 0, MISSED, 7], b"");
        let records = unpack(Value::Event(&array)).unwrap();
        assert_eq!((records[0].missed, records[0].parameters.len()), (Some(7), 0));
        assert_eq!(flag_names(records[0].flags), "missed");
    }

    #[test]
    fn an_array_cut_anywhere_is_damaged() {
        let array = one_record();
        for len in 0..array.len() {
            assert_eq!(unpack(Value::Event(&array[..len])), None, "{len}");
        }
    }

    #[test]
    fn a_count_without_records_allocates_nothing_and_is_damaged() {
        assert_eq!(unpack(Value::Event(&u32::MAX.to_be_bytes())), None);
        let endless_parameters = bytes(&[1, 1, 0, 1, u32::MAX], b"");
        assert_eq!(unpack(Value::Event(&endless_parameters)), None);
    }
}
