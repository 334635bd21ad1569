//! The types of metric values (`PM_TYPE_*`, `<pcp/pmapi.h>`).

use std::fmt;

use crate::Error;

/// The type of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueType {
    /// Known to exist, but not supported by its agent (`PM_TYPE_NOSUPPORT`,
    /// -1); such a metric never has a value.
    NoSupport = -1,
    /// Signed 32-bit integer (`PM_TYPE_32`, 0).
    I32 = 0,
    /// Unsigned 32-bit integer (`PM_TYPE_U32`, 1).
    U32 = 1,
    /// Signed 64-bit integer (`PM_TYPE_64`, 2).
    I64 = 2,
    /// Unsigned 64-bit integer (`PM_TYPE_U64`, 3).
    U64 = 3,
    /// IEEE single precision (`PM_TYPE_FLOAT`, 4).
    Float = 4,
    /// IEEE double precision (`PM_TYPE_DOUBLE`, 5).
    Double = 5,
    /// Bytes up to a NUL (`PM_TYPE_STRING`, 6).
    String = 6,
    /// Opaque bytes (`PM_TYPE_AGGREGATE`, 7).
    Aggregate = 7,
    /// Opaque bytes that PCP holds by a static pointer
    /// (`PM_TYPE_AGGREGATE_STATIC`, 8); in a file the same as 7.
    AggregateStatic = 8,
    /// An array of event records, microsecond times (`PM_TYPE_EVENT`, 9).
    Event = 9,
    /// An array of event records, nanosecond times
    /// (`PM_TYPE_HIGHRES_EVENT`, 10).
    HighresEvent = 10,
}

impl ValueType {
    /// All types, in the order of their codes.
    pub const ALL: [Self; 12] = [
        Self::NoSupport,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::Float,
        Self::Double,
        Self::String,
        Self::Aggregate,
        Self::AggregateStatic,
        Self::Event,
        Self::HighresEvent,
    ];

    /// Returns the `PM_TYPE_*` code.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// Returns the type of a code.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownType`] outside -1..=10.
    pub const fn from_code(code: i32) -> Result<Self, Error> {
        if code < -1 || code > 10 {
            return Err(Error::UnknownType(code));
        }
        #[expect(clippy::indexing_slicing, reason = "checked above; `get` is not const")]
        Ok(Self::ALL[(code + 1) as usize])
    }

    /// Returns whether a value is one number: the types that counters may have and that can be
    /// interpolated.
    pub const fn is_numeric(self) -> bool {
        matches!(self, Self::I32 | Self::U32 | Self::I64 | Self::U64 | Self::Float | Self::Double)
    }

    /// Returns whether the values are arrays of event records.
    pub const fn is_event(self) -> bool {
        matches!(self, Self::Event | Self::HighresEvent)
    }

    /// Returns the bytes of one value: 4 or 8, `None` where it varies.
    pub const fn fixed_size(self) -> Option<usize> {
        match self {
            Self::I32 | Self::U32 | Self::Float => Some(4),
            Self::I64 | Self::U64 | Self::Double => Some(8),
            _ => None,
        }
    }
}

/// As pmdumplog prints it: `32-bit unsigned int`, `event record array`.
impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NoSupport => "Not Supported",
            Self::I32 => "32-bit int",
            Self::U32 => "32-bit unsigned int",
            Self::I64 => "64-bit int",
            Self::U64 => "64-bit unsigned int",
            Self::Float => "float",
            Self::Double => "double",
            Self::String => "string",
            Self::Aggregate => "aggregate",
            Self::AggregateStatic => "static aggregate",
            Self::Event => "event record array",
            Self::HighresEvent => "highres event record array",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_read_back_and_others_are_refused() {
        for value_type in ValueType::ALL {
            assert_eq!(ValueType::from_code(value_type.code()), Ok(value_type));
        }
        for code in [-2, 11, 255, i32::MIN, i32::MAX] {
            assert_eq!(ValueType::from_code(code), Err(Error::UnknownType(code)));
        }
    }

    #[test]
    fn numeric_types_are_those_with_a_fixed_size() {
        for value_type in ValueType::ALL {
            assert_eq!(value_type.is_numeric(), value_type.fixed_size().is_some());
        }
    }
}
