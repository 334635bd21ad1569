//! Numbers of metrics.

use pcp_archive::Value;

/// A numeric value of a metric, widened without loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A signed integer.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
    /// A number of single or double precision.
    F64(f64),
}

/// The largest integer up to which all integers are doubles.
const EXACT: u64 = 1 << f64::MANTISSA_DIGITS;

impl Number {
    /// Converts a value; `None` for strings, events and bytes.
    #[inline]
    pub fn from_value(value: Value<'_>) -> Option<Self> {
        Some(match value {
            Value::I32(value) => Self::I64(value.into()),
            Value::I64(value) => Self::I64(value),
            Value::U32(value) => Self::U64(value.into()),
            Value::U64(value) => Self::U64(value),
            Value::Float(value) => Self::F64(value.into()),
            Value::Double(value) => Self::F64(value),
            _ => return None,
        })
    }

    /// Returns the nearest double.
    #[inline]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::I64(value) => value as f64,
            Self::U64(value) => value as f64,
            Self::F64(value) => value,
        }
    }

    /// Returns whether conversion to a double may round: an integer beyond 2^53.
    #[inline]
    pub fn is_beyond_doubles(self) -> bool {
        match self {
            Self::I64(value) => value.unsigned_abs() > EXACT,
            Self::U64(value) => value > EXACT,
            Self::F64(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_value() {
        for (value, number, double) in [
            (Value::I32(-1), Number::I64(-1), -1.0),
            (Value::U32(u32::MAX), Number::U64(4_294_967_295), 4_294_967_295.0),
            (Value::Float(1.5), Number::F64(1.5), 1.5),
            (Value::Double(-0.1), Number::F64(-0.1), -0.1),
        ] {
            assert_eq!(Number::from_value(value), Some(number));
            assert_eq!(number.as_f64().to_bits(), f64::to_bits(double));
        }
        assert_eq!(Number::from_value(Value::String(b"1")), None);
    }

    #[test]
    fn integers_beyond_2_to_the_53_may_be_rounded() {
        assert!(!Number::U64(1 << 53).is_beyond_doubles());
        assert!(Number::U64((1 << 53) + 1).is_beyond_doubles());
        assert!(Number::I64(-(1 << 53) - 1).is_beyond_doubles());
        assert!(!Number::F64(1e300).is_beyond_doubles());
    }
}
