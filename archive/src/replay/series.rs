//! All observations of one metric and instance.

use pcp_types::{InstanceId, ValueType};

use super::timeline::Reach;
use crate::Value;

/// The observations of one metric and instance, in the order of the records.
///
/// Numbers lie in `words` as their bits; of all other values `words` holds the
/// end of the bytes in `bytes`, and each begins where the one before ends.
#[derive(Debug)]
pub(crate) struct Series {
    instance: Option<InstanceId>,
    value_type: ValueType,
    records: Vec<u32>,
    words: Vec<u64>,
    bytes: Vec<u8>,
}

impl Series {
    pub(crate) fn new(instance: Option<InstanceId>, value_type: ValueType) -> Self {
        Self { instance, value_type, records: Vec::new(), words: Vec::new(), bytes: Vec::new() }
    }

    pub(crate) fn instance(&self) -> Option<InstanceId> {
        self.instance
    }

    /// Adds the value of a record, which is not before the last one added.
    /// Within one record the first value counts.
    pub(crate) fn push(&mut self, record: u32, value: Value<'_>) {
        if self.records.last() == Some(&record) {
            return;
        }
        let word = match value {
            Value::I32(v) => u64::from(v as u32),
            Value::U32(v) => u64::from(v),
            Value::I64(v) => v as u64,
            Value::U64(v) => v,
            Value::Float(v) => u64::from(v.to_bits()),
            Value::Double(v) => v.to_bits(),
            Value::String(v) | Value::Aggregate(v) | Value::Event(v) | Value::HighresEvent(v) => {
                self.bytes.extend_from_slice(v);
                self.bytes.len() as u64
            }
        };
        self.records.push(record);
        self.words.push(word);
    }

    /// The places of the newest observation in `reach.prior` and of the oldest
    /// in `reach.next`.
    pub(crate) fn neighbours(&self, reach: &Reach) -> (Option<usize>, Option<usize>) {
        let after = self.records.partition_point(|&record| record < reach.prior.end);
        let prior = after.checked_sub(1).filter(|&i| self.is_within(i, &reach.prior));
        let next = self.records.partition_point(|&record| record < reach.next.start);
        (prior, Some(next).filter(|&i| self.is_within(i, &reach.next)))
    }

    fn is_within(&self, place: usize, records: &std::ops::Range<u32>) -> bool {
        self.records.get(place).is_some_and(|record| records.contains(record))
    }

    /// The places of the observations in some records.
    pub(crate) fn places(&self, records: &std::ops::Range<u32>) -> std::ops::Range<usize> {
        let place = |record| self.records.partition_point(|&other| other < record);
        place(records.start)..place(records.end)
    }

    /// The record and the value at a place.
    pub(crate) fn get(&self, place: usize) -> Option<(u32, Value<'_>)> {
        let word = *self.words.get(place)?;
        let bytes = || {
            let begin = place.checked_sub(1).and_then(|before| self.words.get(before)).copied();
            self.bytes.get(begin.unwrap_or(0) as usize..word as usize).unwrap_or_default()
        };
        let value = match self.value_type {
            ValueType::NoSupport => return None,
            ValueType::I32 => Value::I32(word as u32 as i32),
            ValueType::U32 => Value::U32(word as u32),
            ValueType::I64 => Value::I64(word as i64),
            ValueType::U64 => Value::U64(word),
            ValueType::Float => Value::Float(f32::from_bits(word as u32)),
            ValueType::Double => Value::Double(f64::from_bits(word)),
            ValueType::String => Value::String(bytes()),
            ValueType::Aggregate | ValueType::AggregateStatic => Value::Aggregate(bytes()),
            ValueType::Event => Value::Event(bytes()),
            ValueType::HighresEvent => Value::HighresEvent(bytes()),
        };
        Some((*self.records.get(place)?, value))
    }

    /// The records that have a value, ascending.
    pub(crate) fn records(&self) -> impl Iterator<Item = u32> {
        self.records.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_type_come_back() {
        let all = [
            (ValueType::I32, Value::I32(-1)),
            (ValueType::U32, Value::U32(u32::MAX)),
            (ValueType::I64, Value::I64(i64::MIN)),
            (ValueType::U64, Value::U64(u64::MAX)),
            (ValueType::Float, Value::Float(-1.5)),
            (ValueType::Double, Value::Double(0.1)),
            (ValueType::String, Value::String(b"text")),
            (ValueType::Aggregate, Value::Aggregate(b"")),
        ];
        for (value_type, value) in all {
            let mut series = Series::new(None, value_type);
            series.push(3, value);
            series.push(5, value);
            assert_eq!(series.get(1), Some((5, value)));
        }
    }

    #[test]
    fn the_first_value_of_a_record_counts() {
        let mut series = Series::new(None, ValueType::String);
        series.push(1, Value::String(b"a"));
        series.push(1, Value::String(b"b"));
        series.push(2, Value::String(b"cc"));
        assert_eq!(series.records().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(series.get(0), Some((1, Value::String(b"a"))));
        assert_eq!(series.get(1), Some((2, Value::String(b"cc"))));
    }

    #[test]
    fn neighbours_are_the_closest_within_reach() {
        let mut series = Series::new(None, ValueType::U32);
        for record in [2, 4, 8] {
            series.push(record, Value::U32(record));
        }
        let at = |prior, next| series.neighbours(&Reach { at: 0.0, prior, next });
        assert_eq!(at(0..6, 6..9), (Some(1), Some(2)));
        assert_eq!(at(0..5, 4..9), (Some(1), Some(1)), "a record at the moment is both");
        assert_eq!(at(5..6, 6..8), (None, None), "nothing between the marks");
        assert_eq!(at(0..0, 0..9), (None, Some(0)));
    }
}
