//! The values of one metric and instance in a chunk.

mod rows;

use std::ops::Range;

pub use self::rows::Rows;

use crate::event::widened;
use crate::{InstanceId, OwnedValue, Value, ValueType};

/// The values of one metric and instance, and the rows that they are in.
///
/// `words` holds numbers as their bits; of all other values `words` holds the
/// end of the bytes in `bytes`, and each begins where the one before ends.
#[derive(Debug, Clone)]
pub struct Column {
    instance: Option<InstanceId>,
    value_type: ValueType,
    rows: Rows,
    words: Vec<u64>,
    bytes: Vec<u8>,
}

impl Column {
    pub(crate) fn new(instance: Option<InstanceId>, value_type: ValueType) -> Self {
        Self { instance, value_type, rows: Rows::default(), words: Vec::new(), bytes: Vec::new() }
    }

    /// Returns the instance; `None` in a metric without instances.
    pub const fn instance(&self) -> Option<InstanceId> {
        self.instance
    }

    /// Returns the type of all values.
    pub const fn value_type(&self) -> ValueType {
        self.value_type
    }

    /// Returns the rows that have a value.
    pub const fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Returns the values as they are stored: a number as its bits, in the lowest of a word.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the number of values.
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether the chunk has no value of this instance.
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the row and the value at a place, counted from 0.
    #[inline]
    pub fn get(&self, place: usize) -> Option<(u32, Value<'_>)> {
        Some((self.rows.get(place)?, self.value(place)?))
    }

    #[inline]
    pub(crate) fn value(&self, place: usize) -> Option<Value<'_>> {
        let word = *self.words.get(place)?;
        let bytes = || {
            let begin = place.checked_sub(1).and_then(|before| self.words.get(before)).copied();
            self.bytes.get(begin.unwrap_or(0) as usize..word as usize).unwrap_or_default()
        };
        Some(match self.value_type {
            ValueType::String => Value::String(bytes()),
            ValueType::Aggregate | ValueType::AggregateStatic => Value::Aggregate(bytes()),
            ValueType::Event => Value::Event(bytes()),
            ValueType::HighresEvent => Value::HighresEvent(bytes()),
            numeric => return number(numeric, word),
        })
    }

    /// Returns the rows and values in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, Value<'_>)> {
        (0..self.len()).filter_map(|place| self.get(place))
    }

    /// Returns the rows and values in order, as doubles; nothing if the values are not numbers.
    /// Integers above 2^53 are rounded.
    pub fn numbers(&self) -> impl DoubleEndedIterator<Item = (u32, f64)> {
        self.iter().filter_map(|(row, value)| Some((row, value.as_f64()?)))
    }

    /// Adds the value of a row, which is not before the last one added; within
    /// one row the first value counts. Returns how many bytes were copied of a
    /// value that is not a number.
    #[inline]
    pub(crate) fn push(&mut self, row: u32, value: Value<'_>) -> usize {
        if self.rows.last() == Some(row) {
            return 0;
        }
        let mut copied = 0;
        let word = match value {
            Value::I32(v) => u64::from(v as u32),
            Value::U32(v) => u64::from(v),
            Value::I64(v) => v as u64,
            Value::U64(v) => v,
            Value::Float(v) => u64::from(v.to_bits()),
            Value::Double(v) => v.to_bits(),
            Value::String(v) | Value::Aggregate(v) | Value::Event(v) | Value::HighresEvent(v) => {
                if let Some(OwnedValue::HighresEvent(longer)) = widened(value, self.value_type) {
                    self.bytes.extend_from_slice(&longer);
                } else {
                    self.bytes.extend_from_slice(v);
                }
                copied = v.len();
                self.bytes.len() as u64
            }
        };
        self.rows.extend(row..row + 1);
        self.words.push(word);
        copied
    }

    /// Reserves memory for the first values at once.
    #[inline]
    pub(crate) fn expect(&mut self, rows: usize) {
        if self.words.capacity() == 0 {
            self.words.reserve_exact(rows);
        }
    }

    /// Makes room for the numbers of rows after the last one, as they are
    /// stored in [`words`](Self::words).
    #[inline]
    pub(crate) fn extend(&mut self, rows: Range<u32>) -> &mut [u64] {
        let len = self.words.len();
        let added = rows.len();
        self.rows.extend(rows);
        self.words.resize(len + added, 0);
        self.words.get_mut(len..).unwrap_or_default()
    }

    /// Takes the value of the last row away again, if there is one.
    pub(crate) fn drop_row(&mut self, row: u32) {
        if self.rows.last() == Some(row) {
            self.rows.pop();
            self.words.pop();
            let end = self.words.last().copied().filter(|_| !self.bytes.is_empty());
            self.bytes.truncate(end.unwrap_or(0) as usize);
        }
    }

    pub(crate) fn keep_rows(&mut self, kept: &Range<u32>) {
        let first = self.rows.get(0).is_none_or(|row| kept.contains(&row));
        let last = self.rows.last().is_none_or(|row| kept.contains(&row));
        if first && last {
            return;
        }
        let all = self.take();
        for (row, value) in all.iter() {
            if kept.contains(&row) {
                self.push(row, value);
            }
        }
    }

    /// Takes the values out; there is room for as many others.
    pub(crate) fn take(&mut self) -> Self {
        let words = Vec::with_capacity(self.words.capacity());
        let rows = self.rows.emptied();
        let other = Self { rows, words, ..Self::new(self.instance, self.value_type) };
        std::mem::replace(self, other)
    }

    /// Takes all values away. Memory that was filled to less than a quarter is
    /// freed: else every column would keep as much as its fullest chunk needed,
    /// all of them together more than any chunk.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        clear(&mut self.words);
        clear(&mut self.bytes);
    }
}

/// Returns the number of a type that a column stores as this word; `None` if the type is not of
/// numbers.
#[inline]
pub(crate) fn number(value_type: ValueType, word: u64) -> Option<Value<'static>> {
    Some(match value_type {
        ValueType::I32 => Value::I32(word as u32 as i32),
        ValueType::U32 => Value::U32(word as u32),
        ValueType::I64 => Value::I64(word as i64),
        ValueType::U64 => Value::U64(word),
        ValueType::Float => Value::Float(f32::from_bits(word as u32)),
        ValueType::Double => Value::Double(f64::from_bits(word)),
        _ => return None,
    })
}

pub(crate) fn clear<T>(vector: &mut Vec<T>) {
    let len = vector.len();
    vector.clear();
    if len < vector.capacity() / 4 {
        vector.shrink_to(2 * len);
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
            let mut column = Column::new(None, value_type);
            column.push(3, value);
            column.push(5, value);
            assert_eq!(column.get(1), Some((5, value)));
            assert_eq!(column.iter().collect::<Vec<_>>(), [(3, value), (5, value)]);
            let numbers: Vec<f64> = column.numbers().map(|(_, number)| number).collect();
            assert_eq!(numbers, Vec::from_iter(value.as_f64().map(|v| [v; 2])).concat());
        }
    }

    #[test]
    fn the_first_value_of_a_row_counts() {
        let mut column = Column::new(None, ValueType::String);
        let copied = [(1, "a"), (1, "b"), (2, "cc")]
            .map(|(row, text)| column.push(row, Value::String(text.as_bytes())));
        assert_eq!(copied, [1, 0, 2]);
        assert!(*column.rows() == [1, 2]);
        assert_eq!(column.get(0), Some((1, Value::String(b"a"))));
        assert_eq!(column.get(1), Some((2, Value::String(b"cc"))));
    }

    #[test]
    fn a_row_that_is_dropped_leaves_the_others() {
        let mut column = Column::new(None, ValueType::String);
        column.push(1, Value::String(b"a"));
        column.push(2, Value::String(b"bb"));
        column.drop_row(3);
        assert_eq!(column.len(), 2);
        column.drop_row(2);
        column.push(4, Value::String(b"ccc"));
        let all: Vec<_> = column.iter().collect();
        assert_eq!(all, [(1, Value::String(b"a")), (4, Value::String(b"ccc"))]);
    }

    #[test]
    fn rows_outside_of_a_range_are_removed_with_their_values() {
        let mut column = Column::new(None, ValueType::String);
        for row in [1, 2, 3, 7, 8, 9] {
            column.push(row, Value::String(&b"123456789"[..row as usize]));
        }
        column.keep_rows(&(0..10));
        assert_eq!(column.len(), 6);
        column.keep_rows(&(3..9));
        let all: Vec<_> = column.iter().collect();
        let text = |length| Value::String(&b"123456789"[..length]);
        assert_eq!(all, [(3, text(3)), (7, text(7)), (8, text(8))]);
    }

    #[test]
    fn memory_that_is_hardly_used_is_given_back() {
        let mut column = Column::new(None, ValueType::U32);
        for row in 0..1000 {
            column.push(row, Value::U32(row));
        }
        column.clear();
        assert!(column.words.capacity() >= 1000, "the next chunk is likely to be as full");
        column.push(0, Value::U32(0));
        column.clear();
        assert!(column.words.capacity() < 100);
    }
}
