//! Values as tests write them.

use pcp_archive::{OwnedValue, ValueType};

/// A value, which takes the type of its metric when it is written.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// A whole number.
    Integer(i128),
    /// Any number.
    Number(f64),
    /// A string, or the bytes of an aggregate or of an event array.
    Bytes(Vec<u8>),
    /// The metric is in the record, but this value is not.
    Absent,
    /// The metric has no values for this reason, a negative code of PMAPI.
    Error(i32),
}

macro_rules! from_integers {
    ($($integer:ty),*) => {
        $(impl From<$integer> for Cell {
            fn from(value: $integer) -> Self {
                Self::Integer(value.into())
            }
        })*
    };
}

from_integers!(i32, u32, i64, u64);

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl<C: Into<Self>> From<Option<C>> for Cell {
    fn from(value: Option<C>) -> Self {
        value.map_or(Self::Absent, Into::into)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Bytes(value.into())
    }
}

impl From<OwnedValue> for Cell {
    fn from(value: OwnedValue) -> Self {
        match value {
            OwnedValue::I32(value) => value.into(),
            OwnedValue::U32(value) => value.into(),
            OwnedValue::I64(value) => value.into(),
            OwnedValue::U64(value) => value.into(),
            OwnedValue::Float(value) => f64::from(value).into(),
            OwnedValue::Double(value) => value.into(),
            OwnedValue::String(value)
            | OwnedValue::Aggregate(value)
            | OwnedValue::Event(value)
            | OwnedValue::HighresEvent(value) => value.into(),
        }
    }
}

impl From<Vec<u8>> for Cell {
    fn from(value: Vec<u8>) -> Self {
        Self::Bytes(value)
    }
}

impl Cell {
    /// Returns the value as one of a metric of this type; `None` for an absent one.
    ///
    /// # Panics
    ///
    /// If the type has no such value.
    pub(crate) fn of_type(self, value_type: ValueType) -> Option<OwnedValue> {
        let value = match (value_type, self) {
            (_, Self::Absent) => return None,
            (ValueType::I32, Self::Integer(value)) => value.try_into().ok().map(OwnedValue::I32),
            (ValueType::U32, Self::Integer(value)) => value.try_into().ok().map(OwnedValue::U32),
            (ValueType::I64, Self::Integer(value)) => value.try_into().ok().map(OwnedValue::I64),
            (ValueType::U64, Self::Integer(value)) => value.try_into().ok().map(OwnedValue::U64),
            (ValueType::Float, Self::Integer(value)) => Some(OwnedValue::Float(value as f32)),
            (ValueType::Float, Self::Number(value)) => Some(OwnedValue::Float(value as f32)),
            (ValueType::Double, Self::Integer(value)) => Some(OwnedValue::Double(value as f64)),
            (ValueType::Double, Self::Number(value)) => Some(OwnedValue::Double(value)),
            (ValueType::String, Self::Bytes(value)) => Some(OwnedValue::String(value)),
            (ValueType::Aggregate, Self::Bytes(value)) => Some(OwnedValue::Aggregate(value)),
            (ValueType::Event, Self::Bytes(value)) => Some(OwnedValue::Event(value)),
            (ValueType::HighresEvent, Self::Bytes(value)) => Some(OwnedValue::HighresEvent(value)),
            _ => None,
        };
        Some(value.unwrap_or_else(|| panic!("no such value of type `{value_type}`")))
    }
}
