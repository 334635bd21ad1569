//! Event arrays: several event records packed into one value.
//!
//! What follows the header word of a block of type 9 (`EVENT`) or 10
//! (`HIGHRES_EVENT`):
//!
//! | bytes, event | highres | field | ours |
//! |---|---|---|---|
//! | 4 | 4 | number of records | `len` |
//! | 8 | 16 | seconds, and micro- or nanoseconds | `timestamp` |
//! | 4 | 4 | flags | `flags` |
//! | 4 | 4 | number of parameters; of a missed record: records lost | `missed` |
//! | 4 + 4 + n | same | a parameter: PMID, type and length, value | `parameters` |
//!
//! From the time on it is a record, and they follow each other. The length in a
//! parameter includes its own word; the value is padded to a word, and a string
//! has no NUL. Times in high resolution are two true 64-bit numbers.
//!
//! **Source**: `<pcp/pmapi.h>`; `src/libpcp/src/{endian,events}.c`.
//! LOGARCHIVE(5) does not describe the array.

use std::fmt;
use std::ops::BitOr;

use zerocopy::big_endian::{I32, I64, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::bytes::count;
use super::{Bytes, WORD, padded, timestamp, value_block};
use crate::{EncodeError, Pmid, RecordError, Timestamp, Value, ValueType, Version};

/// The low 24 bits of a parameter's type and length are its length.
const LENGTH_MASK: u32 = 0x00ff_ffff;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HighresTimestamp {
    seconds: I64,
    nanoseconds: I64,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RecordHead {
    flags: U32,
    count: I32,
}

/// The fields before the value of a parameter.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ParameterHead {
    pmid: U32,
    type_and_length: U32,
}

const _: () = assert!(size_of::<HighresTimestamp>() == 16);
const _: () = assert!(size_of::<RecordHead>() == 8 && size_of::<ParameterHead>() == 8);

/// The flags of an event record (`PM_EVENT_FLAG_*`).
///
/// Printed as PCP prints them: `start,id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EventFlags(u32);

impl EventFlags {
    /// None of the flags.
    pub const NONE: Self = Self(0);
    /// Something that happened at one time.
    pub const POINT: Self = Self(1);
    /// The start of something.
    pub const START: Self = Self(2);
    /// The end of something.
    pub const END: Self = Self(4);
    /// A parameter identifies what starts or ends.
    pub const ID: Self = Self(8);
    /// A parameter identifies what that is a part of.
    pub const PARENT: Self = Self(16);
    /// The record stands for records that were lost; never with another flag.
    pub const MISSED: Self = Self(1 << 31);

    /// Returns the flags of a word; PCP gives bits without a name no meaning.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns the flags as a word.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns whether all of `flags` are set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitOr for EventFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for EventFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(EventFlags, &str); 6] = [
            (EventFlags::POINT, "point"),
            (EventFlags::START, "start"),
            (EventFlags::END, "end"),
            (EventFlags::ID, "id"),
            (EventFlags::PARENT, "parent"),
            (EventFlags::MISSED, "missed"),
        ];
        let set = NAMES.iter().filter(|(flag, _)| self.contains(*flag));
        for (place, (_, name)) in set.enumerate() {
            f.write_str(if place > 0 { "," } else { "" })?;
            f.write_str(name)?;
        }
        Ok(())
    }
}

/// The records of an event array, borrowed from the value.
///
/// An array that was unpacked is whole: every record and parameter was looked
/// at once, and what the iterators return cannot fail.
#[derive(Debug, Clone, Copy)]
pub struct EventArray<'a> {
    records: Bytes<'a>,
    count: u32,
    highres: bool,
}

impl<'a> EventArray<'a> {
    /// Returns the records in a value. Nothing is copied or allocated.
    ///
    /// # Errors
    ///
    /// [`RecordError::NotEvents`] for a value of another type;
    /// [`RecordError::Truncated`], [`RecordError::Negative`],
    /// [`RecordError::Field`] and [`RecordError::ValueEncoding`] where PCP's
    /// `pmUnpackEventRecords` fails (`PM_ERR_TOOBIG`, `PM_ERR_TOOSMALL`,
    /// `PM_ERR_CONV`, `PM_ERR_TYPE`), and for numbers with too few bytes and
    /// times with a second and more below the second.
    pub fn unpack(value: Value<'a>) -> Result<Self, RecordError> {
        let (bytes, highres) = match value {
            Value::Event(bytes) => (bytes, false),
            Value::HighresEvent(bytes) => (bytes, true),
            _ => return Err(RecordError::NotEvents),
        };
        let mut bytes = Bytes::new(bytes);
        let field = "number of event records";
        let count = count(field, bytes.take::<I32>(field)?.get())?;
        let array = Self { records: bytes, count, highres };
        for _ in 0..count {
            EventRecord::parse(&mut bytes, highres)?;
        }
        Ok(array)
    }

    /// Returns the number of records, those that stand for lost ones included.
    pub const fn len(&self) -> u32 {
        self.count
    }

    /// Returns whether there is no record.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns whether times have nanoseconds, not microseconds.
    pub const fn is_highres(&self) -> bool {
        self.highres
    }

    /// Returns the number of lost records: the sum over all records that stand for lost ones.
    pub fn missed(&self) -> u64 {
        self.records().filter_map(|record| record.missed()).map(u64::from).sum()
    }

    /// Returns the bytes of a value of [`ValueType::HighresEvent`](crate::ValueType::HighresEvent)
    /// with the same records.
    pub(crate) fn to_highres(self) -> Result<Vec<u8>, EncodeError> {
        let mut out = self.count.to_be_bytes().to_vec();
        let mut rest = self.records;
        for _ in 0..self.count {
            // Cannot fail: the array was checked when it was unpacked.
            let Ok(record) = EventRecord::parse(&mut rest, self.highres) else { break };
            encode_record(true, record.timestamp, record.flags, record.count, &mut out)?;
            let mut parameters = record.parameters;
            let len = parameters.len() - rest.len();
            out.extend(parameters.rest().iter().take(len));
        }
        Ok(out)
    }

    /// Returns the records in the order of the array, which need not be that of time.
    pub const fn records(&self) -> EventRecords<'a> {
        EventRecords { rest: self.records, left: self.count, highres: self.highres }
    }
}

/// The records of an event array.
#[derive(Debug, Clone)]
pub struct EventRecords<'a> {
    rest: Bytes<'a>,
    left: u32,
    highres: bool,
}

impl<'a> Iterator for EventRecords<'a> {
    type Item = EventRecord<'a>;

    fn next(&mut self) -> Option<EventRecord<'a>> {
        self.left = self.left.checked_sub(1)?;
        // Cannot fail: the array was checked when it was unpacked.
        EventRecord::parse(&mut self.rest, self.highres).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

/// One record of an event array.
#[derive(Debug, Clone, Copy)]
pub struct EventRecord<'a> {
    timestamp: Timestamp,
    flags: EventFlags,
    /// The number of parameters, or of records lost.
    count: u32,
    parameters: Bytes<'a>,
}

impl<'a> EventRecord<'a> {
    fn parse(bytes: &mut Bytes<'a>, highres: bool) -> Result<Self, RecordError> {
        let timestamp = if highres {
            bytes.take::<HighresTimestamp>("timestamp")?.get()?
        } else {
            timestamp::parse(Version::V2, bytes)?
        };
        let head: &RecordHead = bytes.take("event record")?;
        let flags = EventFlags(head.flags.get());
        let count = count("number of event parameters", head.count.get())?;
        let record = Self { timestamp, flags, count, parameters: *bytes };
        if flags.contains(EventFlags::MISSED) {
            if flags == EventFlags::MISSED {
                return Ok(record);
            }
            let found = i64::from(flags.bits());
            return Err(RecordError::Field { field: "event flags", found });
        }
        for _ in 0..count {
            parse_parameter(bytes)?;
        }
        Ok(record)
    }

    /// Returns the time of the event.
    pub const fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// Returns the flags of the event.
    pub const fn flags(&self) -> EventFlags {
        self.flags
    }

    /// Returns the number of records that this one stands for, if they were lost. PCP writes 0 in
    /// high resolution, whatever it was.
    pub fn missed(&self) -> Option<u32> {
        (self.flags == EventFlags::MISSED).then_some(self.count)
    }

    /// Metrics and values that belong to the record, in the order of the
    /// array; a metric can be there twice.
    pub fn parameters(&self) -> EventParameters<'a> {
        let left = if self.missed().is_some() { 0 } else { self.count };
        EventParameters { rest: self.parameters, left }
    }

    /// Returns the record as `pmUnpackEventRecords` returns it: the flags, if there are any, as
    /// the value of a metric [`FLAGS_PMID`], a count of lost records as that of [`MISSED_PMID`],
    /// then the parameters.
    pub fn unpacked(&self) -> impl Iterator<Item = (Pmid, Value<'a>)> + use<'a> {
        let flags = (self.flags != EventFlags::NONE).then_some((FLAGS_PMID, self.flags.bits()));
        let missed = self.missed().map(|missed| (MISSED_PMID, missed));
        let own = flags.into_iter().chain(missed);
        own.map(|(pmid, word)| (pmid, Value::U32(word))).chain(self.parameters())
    }
}

/// The metric `event.flags`, 511.0.1, that PCP makes up for the flags of an
/// unpacked record.
pub const FLAGS_PMID: Pmid = Pmid::from_raw(511 << 22 | 1);
/// The metric `event.missed`, 511.0.2, likewise for lost records.
pub const MISSED_PMID: Pmid = Pmid::from_raw(511 << 22 | 2);

/// The parameters of an event record.
#[derive(Debug, Clone)]
pub struct EventParameters<'a> {
    rest: Bytes<'a>,
    left: u32,
}

impl<'a> Iterator for EventParameters<'a> {
    type Item = (Pmid, Value<'a>);

    fn next(&mut self) -> Option<(Pmid, Value<'a>)> {
        self.left = self.left.checked_sub(1)?;
        parse_parameter(&mut self.rest).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

fn parse_parameter<'a>(bytes: &mut Bytes<'a>) -> Result<(Pmid, Value<'a>), RecordError> {
    let head: &ParameterHead = bytes.take("event parameter")?;
    let pmid = Pmid::from_raw(head.pmid.get());
    let word = head.type_and_length.get();
    let code = (word >> 24) as i32;
    let len = (word & LENGTH_MASK) as usize;
    let value_type = ValueType::from_code(code)
        .map_err(|_| RecordError::Field { field: "type", found: i64::from(code) })?;
    let Some(len) = len.checked_sub(WORD) else {
        return Err(RecordError::Field { field: "event parameter length", found: len as i64 });
    };
    let padded = bytes.slice("event parameter", padded(len) as u64)?;
    let payload = padded.get(..len).unwrap_or_default();
    match decode(value_type, payload) {
        Some(value) => Ok((pmid, value)),
        None => Err(RecordError::ValueEncoding { pmid, format: 1, len: len as u64, value_type }),
    }
}

/// Decodes a parameter: unlike a block it may have a type of 32 bits, and
/// arrays do not contain arrays.
fn decode(value_type: ValueType, payload: &[u8]) -> Option<Value<'_>> {
    let word = || payload.first_chunk().map(|word| u32::from_be_bytes(*word));
    match value_type {
        ValueType::I32 => word().map(|word| Value::I32(word.cast_signed())),
        ValueType::U32 => word().map(Value::U32),
        ValueType::Event | ValueType::HighresEvent => None,
        _ => value_block::decode(value_type, payload),
    }
}

impl HighresTimestamp {
    fn get(self) -> Result<Timestamp, RecordError> {
        let found = self.nanoseconds.get();
        u32::try_from(found)
            .ok()
            .and_then(|nanoseconds| Timestamp::new(self.seconds.get(), nanoseconds).ok())
            .ok_or(RecordError::Field { field: "nanoseconds", found })
    }
}

/// Appends the number of records of an array that has none yet.
pub(super) fn encode_start(out: &mut Vec<u8>) {
    out.extend([0; WORD]);
}

/// Appends a record without its parameters.
///
/// # Errors
///
/// [`EncodeError::TimeRange`] outside high resolution, as version 2.
pub(super) fn encode_record(
    highres: bool,
    timestamp: Timestamp,
    flags: EventFlags,
    count: u32,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    if highres {
        let timestamp = HighresTimestamp {
            seconds: timestamp.seconds().into(),
            nanoseconds: i64::from(timestamp.nanoseconds()).into(),
        };
        out.extend(timestamp.as_bytes());
    } else {
        timestamp::encode(Version::V2, timestamp, out)?;
    }
    let head = RecordHead { flags: flags.bits().into(), count: (count as i32).into() };
    out.extend(head.as_bytes());
    Ok(())
}

/// Appends a parameter.
///
/// # Errors
///
/// [`EncodeError::TooLarge`] for 16 MiB.
pub(super) fn encode_parameter(
    pmid: Pmid,
    value_type: ValueType,
    payload: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let header = value_block::header(value_type, payload.len())?;
    out.extend(pmid.raw().to_be_bytes());
    out.extend(header);
    out.extend(payload);
    out.resize(out.len() + padded(payload.len()) - payload.len(), 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::metadata_record::test_support::hex;

    /// The array `09000028 00000001 ...` that pmlogger wrote, without its
    /// header word.
    const ONE_RECORD: &str = "00000001 546402c3 00087b3f 00000001 00000001 \
                              07800086 0600000c 6665746368202335";

    fn records(value: Value<'_>) -> Vec<EventRecord<'_>> {
        EventArray::unpack(value).unwrap().records().collect()
    }

    #[test]
    fn a_record_with_a_string_is_read() {
        let array = hex(ONE_RECORD);
        let records = records(Value::Event(&array));
        let [record] = records.as_slice() else { panic!("{records:?}") };
        assert_eq!(record.timestamp(), Timestamp::new(0x5464_02c3, 555_839_000).unwrap());
        assert_eq!(record.flags(), EventFlags::POINT);
        let (pmid, value) = record.parameters().next().unwrap();
        assert_eq!((pmid.to_string().as_str(), value), ("30.0.134", Value::String(b"fetch #5")));
        let unpacked: Vec<_> = record.unpacked().collect();
        assert_eq!(unpacked, [(FLAGS_PMID, Value::U32(1)), (pmid, value)]);
        assert_eq!(FLAGS_PMID.to_string(), "511.0.1");
        assert_eq!(MISSED_PMID.to_string(), "511.0.2");
    }

    #[test]
    fn high_resolution_times_have_64_bits_twice() {
        let array = hex("00000001 00000001546402c3 0000000021230060 00000000 00000000");
        let record = records(Value::HighresEvent(&array))[0];
        assert_eq!(record.timestamp(), Timestamp::new(0x1_5464_02c3, 0x2123_0060).unwrap());
        assert_eq!((record.flags(), record.unpacked().count()), (EventFlags::NONE, 0));
    }

    #[test]
    fn a_missed_record_has_a_count_and_no_parameters() {
        let array = hex("00000002 00000001 00000000 80000000 00000007 \
                         00000002 00000000 80000000 00000005");
        let value = Value::Event(&array);
        let record = records(value)[0];
        assert_eq!((record.missed(), record.parameters().count()), (Some(7), 0));
        let expected = [(FLAGS_PMID, Value::U32(1 << 31)), (MISSED_PMID, Value::U32(7))];
        assert_eq!(record.unpacked().collect::<Vec<_>>(), expected);
        assert_eq!(EventArray::unpack(value).unwrap().missed(), 12);
    }

    #[test]
    fn a_missed_record_has_no_other_flag() {
        let array = hex("00000001 00000001 00000000 80000001 00000007");
        let expected = RecordError::Field { field: "event flags", found: 0x8000_0001 };
        assert_eq!(EventArray::unpack(Value::Event(&array)).unwrap_err(), expected);
    }

    #[test]
    fn flags_are_named_as_pcp_names_them() {
        let flags = EventFlags::START | EventFlags::ID | EventFlags::PARENT;
        assert_eq!((flags.to_string().as_str(), flags.bits()), ("start,id,parent", 26));
        assert_eq!(EventFlags::MISSED.to_string(), "missed");
        assert_eq!(EventFlags::NONE.to_string(), "");
    }

    #[test]
    fn an_array_cut_anywhere_is_refused() {
        let array = hex(ONE_RECORD);
        for len in 0..array.len() {
            let cut = EventArray::unpack(Value::Event(&array[..len]));
            assert!(matches!(cut, Err(RecordError::Truncated { .. })), "{len}: {cut:?}");
        }
    }

    #[test]
    fn flipped_bits_never_panic_and_give_no_more_than_there_is() {
        let array = hex(ONE_RECORD);
        for bit in 0..array.len() * 8 {
            let mut flipped = array.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            for value in [Value::Event(&flipped), Value::HighresEvent(&flipped)] {
                let Ok(unpacked) = EventArray::unpack(value) else { continue };
                let parameters = unpacked.records().flat_map(|record| record.parameters());
                assert!(parameters.count() <= 1 && unpacked.len() <= 1, "{bit}");
            }
        }
    }

    #[test]
    fn counts_without_records_and_negative_ones_are_refused() {
        for text in [
            "7fffffff",
            "ffffffff",
            "00000001 00000001 00000000 00000001 7fffffff",
            "00000001 00000001 00000000 00000001 ffffffff",
        ] {
            assert!(EventArray::unpack(Value::Event(&hex(text))).is_err(), "{text}");
        }
    }

    #[test]
    fn parameters_must_be_of_a_type_and_long_enough_for_it() {
        let record = "00000001 00000001 00000000 00000001 00000001 07800086 ";
        for (parameter, fine) in [
            ("00000008 00000001", true),
            ("00000007 00000001", false),
            ("00000003 00000001", false),
            ("0200000c 0000000000000001", true),
            ("0200000b 0000000000000001", false),
            ("07000007 01020300", true),
            ("09000008 00000000", false),
            ("0a000008 00000000", false),
            ("0b000008 00000000", false),
        ] {
            let array = hex(&format!("{record}{parameter}"));
            assert_eq!(EventArray::unpack(Value::Event(&array)).is_ok(), fine, "{parameter}");
        }
    }

    #[test]
    fn other_values_are_no_arrays() {
        let found = EventArray::unpack(Value::Aggregate(&[0; 4]));
        assert_eq!(found.unwrap_err(), RecordError::NotEvents);
    }
}
