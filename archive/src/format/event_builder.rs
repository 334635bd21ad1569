//! Packs event records into an array.

use super::event_array::{encode_parameter, encode_record, encode_start};
use super::{EventFlags, WORD, value_block};
use crate::{EncodeError, OwnedValue, Pmid, Timestamp, Value, ValueType};

/// An event array under construction: the value of a metric of type
/// [`ValueType::Event`] or [`ValueType::HighresEvent`].
#[derive(Debug, Clone)]
pub struct EventArrayBuilder {
    highres: bool,
    bytes: Vec<u8>,
    records: u32,
    open: Option<OpenRecord>,
}

/// The record that parameters are added to.
#[derive(Debug, Clone, Copy)]
struct OpenRecord {
    /// Offset of the count word.
    count_at: usize,
    parameters: u32,
}

impl EventArrayBuilder {
    /// Returns an empty array of [`ValueType::Event`]: times are cut to microseconds and end in
    /// 2038.
    pub fn new() -> Self {
        Self::with_resolution(false)
    }

    /// Returns an empty array of [`ValueType::HighresEvent`]: times have nanoseconds.
    pub fn highres() -> Self {
        Self::with_resolution(true)
    }

    fn with_resolution(highres: bool) -> Self {
        let mut bytes = Vec::new();
        encode_start(&mut bytes);
        Self { highres, bytes, records: 0, open: None }
    }

    /// Begins a record; the parameters that follow belong to it.
    ///
    /// # Errors
    ///
    /// [`EncodeError::EventFlags`] for [`EventFlags::MISSED`], which is what
    /// [`missed`](Self::missed) is for; [`EncodeError::TimeRange`] for a time
    /// that the array cannot hold; [`EncodeError::TooLarge`] if the array
    /// would have 16 MiB. After an error the array is as before.
    pub fn record(
        &mut self,
        timestamp: Timestamp,
        flags: EventFlags,
    ) -> Result<&mut Self, EncodeError> {
        if flags.contains(EventFlags::MISSED) {
            return Err(EncodeError::EventFlags { flags: flags.bits() });
        }
        self.put_record(timestamp, flags, 0)?;
        let count_at = self.bytes.len() - WORD;
        self.open = Some(OpenRecord { count_at, parameters: 0 });
        Ok(self)
    }

    /// Adds a record that stands for `count` lost ones.
    ///
    /// # Errors
    ///
    /// [`EncodeError::TooLarge`] for a count of 2^31, else as
    /// [`record`](Self::record).
    pub fn missed(&mut self, timestamp: Timestamp, count: u32) -> Result<&mut Self, EncodeError> {
        let found = u64::from(count);
        let max = i32::MAX as u64;
        if found > max {
            return Err(EncodeError::TooLarge { field: "lost event records", found, max });
        }
        self.put_record(timestamp, EventFlags::MISSED, count)?;
        self.open = None;
        Ok(self)
    }

    /// Adds a parameter to the last record: what a metric was then.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoEventRecord`] if there is none, or if it stands for
    /// lost ones; [`EncodeError::NestedEvents`]; [`EncodeError::Nul`] for a
    /// string with a NUL; [`EncodeError::TooLarge`]. After an error the array
    /// is as before.
    pub fn parameter(&mut self, pmid: Pmid, value: Value<'_>) -> Result<&mut Self, EncodeError> {
        let Some(mut open) = self.open else { return Err(EncodeError::NoEventRecord { pmid }) };
        self.put(|out| put_parameter(pmid, value, out))?;
        open.parameters += 1;
        self.set_word(open.count_at, open.parameters);
        self.open = Some(open);
        Ok(self)
    }

    /// Returns the number of records.
    pub const fn len(&self) -> u32 {
        self.records
    }

    /// Returns whether there is no record.
    pub const fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Returns the finished value.
    pub fn finish(self) -> OwnedValue {
        if self.highres {
            OwnedValue::HighresEvent(self.bytes)
        } else {
            OwnedValue::Event(self.bytes)
        }
    }

    fn put_record(
        &mut self,
        timestamp: Timestamp,
        flags: EventFlags,
        count: u32,
    ) -> Result<(), EncodeError> {
        let highres = self.highres;
        self.put(|out| encode_record(highres, timestamp, flags, count, out))?;
        self.records += 1;
        self.set_word(0, self.records);
        Ok(())
    }

    /// Appends something, or nothing if it fails or the array gets too long.
    fn put(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let len = self.bytes.len();
        let put = encode(&mut self.bytes)
            .and_then(|()| value_block::header(ValueType::Event, self.bytes.len()).map(drop));
        if put.is_err() {
            self.bytes.truncate(len);
        }
        put
    }

    fn set_word(&mut self, at: usize, word: u32) {
        if let Some(bytes) = self.bytes.get_mut(at..at + WORD) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
    }
}

impl Default for EventArrayBuilder {
    fn default() -> Self {
        Self::new()
    }
}

fn put_parameter(pmid: Pmid, value: Value<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let mut put = |value_type, payload: &[u8]| encode_parameter(pmid, value_type, payload, out);
    match value {
        Value::I32(v) => put(ValueType::I32, &v.to_be_bytes()),
        Value::U32(v) => put(ValueType::U32, &v.to_be_bytes()),
        Value::I64(v) => put(ValueType::I64, &v.to_be_bytes()),
        Value::U64(v) => put(ValueType::U64, &v.to_be_bytes()),
        Value::Float(v) => put(ValueType::Float, &v.to_be_bytes()),
        Value::Double(v) => put(ValueType::Double, &v.to_be_bytes()),
        Value::Aggregate(bytes) => put(ValueType::Aggregate, bytes),
        Value::String(bytes) => {
            EncodeError::check_nul("event parameter", bytes)?;
            put(ValueType::String, bytes)
        }
        Value::Event(_) | Value::HighresEvent(_) => Err(EncodeError::NestedEvents { pmid }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::event_array::EventArray;
    use crate::format::metadata_record::test_support::hex;

    const PMID: Pmid = Pmid::from_raw(0x0780_0086);

    fn time(seconds: i64, nanoseconds: u32) -> Timestamp {
        Timestamp::new(seconds, nanoseconds).unwrap()
    }

    #[test]
    fn a_record_has_the_bytes_that_pmlogger_writes() {
        let mut builder = EventArrayBuilder::new();
        let record = builder.record(time(0x5464_02c3, 555_839_999), EventFlags::POINT).unwrap();
        record.parameter(PMID, Value::String(b"fetch #5")).unwrap();
        let expected = hex("00000001 546402c3 00087b3f 00000001 00000001 \
                            07800086 0600000c 6665746368202335");
        assert_eq!(builder.finish(), OwnedValue::Event(expected));
    }

    #[test]
    fn lost_records_are_counted_in_high_resolution_too() {
        let mut builder = EventArrayBuilder::highres();
        builder.missed(time(1, 2), 7).unwrap();
        let lost = builder.parameter(PMID, Value::U32(1)).unwrap_err();
        assert_eq!(lost, EncodeError::NoEventRecord { pmid: PMID });
        let expected = hex("00000001 0000000000000001 0000000000000002 80000000 00000007");
        assert_eq!(builder.finish(), OwnedValue::HighresEvent(expected));
    }

    #[test]
    fn a_value_out_of_range_is_rejected_and_leaves_nothing() {
        let mut builder = EventArrayBuilder::new();
        let early = time(1, 0);
        let late = time(i64::from(i32::MAX) + 1, 0);
        let refused = builder.parameter(PMID, Value::U32(1)).unwrap_err();
        assert_eq!(refused, EncodeError::NoEventRecord { pmid: PMID });
        let refused = builder.record(late, EventFlags::POINT).unwrap_err();
        assert_eq!(refused, EncodeError::TimeRange { timestamp: late });
        let refused = builder.record(early, EventFlags::MISSED).unwrap_err();
        assert_eq!(refused, EncodeError::EventFlags { flags: 1 << 31 });
        assert!(builder.missed(early, 1 << 31).is_err());
        builder.record(early, EventFlags::NONE).unwrap();
        for (value, expected) in [
            (Value::Event(&[0; 4]), EncodeError::NestedEvents { pmid: PMID }),
            (Value::String(b"a\0"), EncodeError::Nul { field: "event parameter", at: 1 }),
        ] {
            assert_eq!(builder.parameter(PMID, value).unwrap_err(), expected);
        }
        let half = vec![b'x'; 1 << 23];
        builder.parameter(PMID, Value::Aggregate(&half)).unwrap();
        let refused = builder.parameter(PMID, Value::Aggregate(&half));
        assert!(matches!(refused, Err(EncodeError::TooLarge { .. })));
        let value = builder.finish();
        let array = EventArray::unpack(value.as_value()).unwrap();
        let counts: Vec<_> = array.records().map(|record| record.parameters().count()).collect();
        assert_eq!(counts, [1]);
    }

    fn parameter() -> impl Strategy<Value = OwnedValue> {
        prop_oneof![
            any::<i32>().prop_map(OwnedValue::I32),
            any::<u32>().prop_map(OwnedValue::U32),
            any::<i64>().prop_map(OwnedValue::I64),
            any::<u64>().prop_map(OwnedValue::U64),
            prop::num::f32::NORMAL.prop_map(OwnedValue::Float),
            prop::num::f64::NORMAL.prop_map(OwnedValue::Double),
            prop::collection::vec(1u8.., 0..9).prop_map(OwnedValue::String),
            prop::collection::vec(any::<u8>(), 0..9).prop_map(OwnedValue::Aggregate),
        ]
    }

    proptest! {
        /// forall records: unpacked they are what was packed
        #[test]
        fn what_is_packed_is_unpacked(
            highres: bool,
            records in prop::collection::vec(
                (0..i32::MAX, 0u32..1_000_000, 0u32..32, prop::collection::vec(parameter(), 0..4)),
                0..5,
            ),
        ) {
            let mut builder =
                if highres { EventArrayBuilder::highres() } else { EventArrayBuilder::new() };
            for (seconds, micros, flags, parameters) in &records {
                let timestamp = time(i64::from(*seconds), micros * 1000);
                builder.record(timestamp, EventFlags::from_bits(*flags)).unwrap();
                for value in parameters {
                    builder.parameter(PMID, value.as_value()).unwrap();
                }
                builder.missed(timestamp, *flags).unwrap();
            }
            let value = builder.finish();
            let array = EventArray::unpack(value.as_value()).unwrap();
            prop_assert_eq!(array.len() as usize, 2 * records.len());
            prop_assert_eq!(array.is_highres(), highres);
            let unpacked: Vec<_> = array.records().collect();
            for (pair, (seconds, micros, flags, parameters)) in unpacked.chunks(2).zip(&records) {
                let timestamp = time(i64::from(*seconds), micros * 1000);
                prop_assert_eq!((pair[0].timestamp(), pair[0].flags().bits()), (timestamp, *flags));
                let found: Vec<_> = pair[0].parameters().map(|(_, v)| v.to_owned()).collect();
                prop_assert_eq!(&found, parameters);
                prop_assert_eq!((pair[1].timestamp(), pair[1].missed()), (timestamp, Some(*flags)));
            }
        }
    }
}
