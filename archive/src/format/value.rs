//! Values of metrics, and the results they come in.

use crate::{ErrorCode, InstanceId, Pmid, Timestamp, ValueType};
use zerocopy::FromBytes as _;
use zerocopy::big_endian::U32;

/// One value (`pmAtomValue`), borrowed from the bytes of a record.
pub type Value<'a> = AnyValue<&'a [u8]>;

/// One value with its own bytes.
pub type OwnedValue = AnyValue<Vec<u8>>;

/// One value, with the bytes `B` of what is not a number: a [`Value`] or an
/// [`OwnedValue`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AnyValue<B> {
    /// A value of type [`ValueType::I32`].
    I32(i32),
    /// A value of type [`ValueType::U32`].
    U32(u32),
    /// A value of type [`ValueType::I64`].
    I64(i64),
    /// A value of type [`ValueType::U64`].
    U64(u64),
    /// A value of type [`ValueType::Float`].
    Float(f32),
    /// A value of type [`ValueType::Double`].
    Double(f64),
    /// [`ValueType::String`]: the bytes before the NUL, in no known encoding.
    String(B),
    /// [`ValueType::Aggregate`] and [`ValueType::AggregateStatic`]: opaque
    /// bytes.
    Aggregate(B),
    /// [`ValueType::Event`]: the packed array after its block header,
    /// starting with the number of event records.
    Event(B),
    /// [`ValueType::HighresEvent`]: the same, with times of 16 bytes.
    HighresEvent(B),
}

impl Value<'_> {
    /// Returns a copy that owns its bytes.
    pub fn to_owned(&self) -> OwnedValue {
        self.with_bytes(|bytes| bytes.to_vec())
    }

    /// Returns the type; of an aggregate always [`ValueType::Aggregate`].
    pub const fn value_type(&self) -> ValueType {
        match self {
            Self::I32(_) => ValueType::I32,
            Self::U32(_) => ValueType::U32,
            Self::I64(_) => ValueType::I64,
            Self::U64(_) => ValueType::U64,
            Self::Float(_) => ValueType::Float,
            Self::Double(_) => ValueType::Double,
            Self::String(_) => ValueType::String,
            Self::Aggregate(_) => ValueType::Aggregate,
            Self::Event(_) => ValueType::Event,
            Self::HighresEvent(_) => ValueType::HighresEvent,
        }
    }

    /// Returns whether values of a type are represented like this one.
    pub const fn is_of(&self, value_type: ValueType) -> bool {
        let is_static = matches!(value_type, ValueType::AggregateStatic);
        let stored_as = if is_static { ValueType::Aggregate } else { value_type };
        self.value_type().code() == stored_as.code()
    }

    /// Returns the number as a double; `None` for values that are not numbers. Integers above 2^53
    /// are rounded.
    #[inline]
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::I32(v) => Some(f64::from(v)),
            Self::U32(v) => Some(f64::from(v)),
            Self::I64(v) => Some(v as f64),
            Self::U64(v) => Some(v as f64),
            Self::Float(v) => Some(f64::from(v)),
            Self::Double(v) => Some(v),
            _ => None,
        }
    }

    /// Returns the number of records of an event array; `None` for other values.
    pub fn event_count(&self) -> Option<u32> {
        match self {
            Self::Event(bytes) | Self::HighresEvent(bytes) => {
                U32::read_from_prefix(bytes).ok().map(|(word, _)| word.get())
            }
            _ => None,
        }
    }
}

impl OwnedValue {
    /// Borrows the value.
    pub fn as_value(&self) -> Value<'_> {
        self.with_bytes(Vec::as_slice)
    }
}

impl<B> AnyValue<B> {
    /// Returns the value at which a counter of this type begins.
    pub(crate) const fn zero<'v>(&self) -> Value<'v> {
        match self {
            Self::I32(_) => AnyValue::I32(0),
            Self::U32(_) => AnyValue::U32(0),
            Self::I64(_) => AnyValue::I64(0),
            Self::Float(_) => AnyValue::Float(0.0),
            Self::Double(_) => AnyValue::Double(0.0),
            _ => AnyValue::U64(0),
        }
    }

    fn with_bytes<'s, C>(&'s self, convert: impl FnOnce(&'s B) -> C) -> AnyValue<C> {
        match self {
            Self::I32(v) => AnyValue::I32(*v),
            Self::U32(v) => AnyValue::U32(*v),
            Self::I64(v) => AnyValue::I64(*v),
            Self::U64(v) => AnyValue::U64(*v),
            Self::Float(v) => AnyValue::Float(*v),
            Self::Double(v) => AnyValue::Double(*v),
            Self::String(bytes) => AnyValue::String(convert(bytes)),
            Self::Aggregate(bytes) => AnyValue::Aggregate(convert(bytes)),
            Self::Event(bytes) => AnyValue::Event(convert(bytes)),
            Self::HighresEvent(bytes) => AnyValue::HighresEvent(convert(bytes)),
        }
    }
}

/// The values of one metric in a record, or why there are none
/// (`pmValueSet`).
#[derive(Debug, Clone, PartialEq)]
pub struct ValueSet {
    /// The metric of the values.
    pub pmid: Pmid,
    /// The values in file order, by instance; `None` is the instance of a
    /// metric without instances. Empty: the metric is known and has none now.
    pub values: Result<Vec<(Option<InstanceId>, OwnedValue)>, ErrorCode>,
}

/// The values of many metrics at one time: one record of a data volume (`pmResult`). Without
/// value sets it is a mark: values before and after must not be joined.
#[derive(Debug, Clone, PartialEq)]
pub struct FetchResult {
    /// The time at which they were fetched.
    pub timestamp: Timestamp,
    /// The metrics in file order.
    pub value_sets: Vec<ValueSet>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owned_value_is_the_value_it_was_made_from() {
        for value in [
            Value::I32(-1),
            Value::U32(u32::MAX),
            Value::I64(i64::MIN),
            Value::U64(u64::MAX),
            Value::Float(1.5),
            Value::Double(-2.5),
            Value::String(b"text"),
            Value::Aggregate(b"\0\xff"),
            Value::Event(&[0; 4]),
            Value::HighresEvent(&[0; 4]),
        ] {
            assert_eq!(value.to_owned().as_value(), value);
        }
    }

    #[test]
    fn an_event_array_starts_with_its_count() {
        assert_eq!(Value::Event(&[0, 0, 1, 2, 9]).event_count(), Some(258));
        assert_eq!(Value::Event(&[0, 0, 1]).event_count(), None);
        assert_eq!(Value::Aggregate(&[0; 8]).event_count(), None);
    }
}
