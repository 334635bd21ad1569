//! Reckoning with values of the six numeric types.
//!
//! Both operands become the type of the result, as in C; integers that leave
//! their type wrap, as in libpcp (`bin_op` in `src/libpcp/src/derive_fetch.c`).
//! All integers fit 128 bits, so that is where they are reckoned with; what is
//! cut off in the end is the same.

use std::cmp::Ordering;

use pcp_types::ValueType;

use super::parse::Operator;
use crate::Value;

/// An integer, or `None` if the value is none.
pub(super) fn integer(value: Value<'_>) -> Option<i128> {
    match value {
        Value::I32(v) => Some(i128::from(v)),
        Value::U32(v) => Some(i128::from(v)),
        Value::I64(v) => Some(i128::from(v)),
        Value::U64(v) => Some(i128::from(v)),
        _ => None,
    }
}

/// An integer cut to an integer type, or turned into a floating point one.
fn of_integer(number: i128, value_type: ValueType) -> Option<Value<'static>> {
    Some(match value_type {
        ValueType::I32 => Value::I32(number as i32),
        ValueType::U32 => Value::U32(number as u32),
        ValueType::I64 => Value::I64(number as i64),
        ValueType::U64 => Value::U64(number as u64),
        ValueType::Float => Value::Float(number as f32),
        ValueType::Double => Value::Double(number as f64),
        _ => return None,
    })
}

/// A single precision number, as C converts to it.
fn single(value: Value<'_>) -> Option<f32> {
    match value {
        Value::Float(v) => Some(v),
        Value::Double(v) => Some(v as f32),
        other => integer(other).map(|number| number as f32),
    }
}

/// The value of an operation in the type of its result. A quotient is a
/// double, and 0 over anything is 0, so that the mean of no requests is no
/// infinity.
pub(super) fn binary(
    operator: Operator,
    left: Value<'_>,
    right: Value<'_>,
    value_type: ValueType,
) -> Option<Value<'static>> {
    match value_type {
        ValueType::Double => {
            let (left, right) = (left.as_f64()?, right.as_f64()?);
            Some(Value::Double(match operator {
                Operator::Plus => left + right,
                Operator::Minus => left - right,
                Operator::Times => left * right,
                Operator::Over if left == 0.0 => 0.0,
                Operator::Over => left / right,
            }))
        }
        ValueType::Float => {
            let (left, right) = (single(left)?, single(right)?);
            Some(Value::Float(match operator {
                Operator::Plus => left + right,
                Operator::Minus => left - right,
                Operator::Times => left * right,
                Operator::Over => return None,
            }))
        }
        integers => {
            let (left, right) = (integer(left)?, integer(right)?);
            let number = match operator {
                Operator::Plus => left.wrapping_add(right),
                Operator::Minus => left.wrapping_sub(right),
                Operator::Times => left.wrapping_mul(right),
                Operator::Over => return None,
            };
            of_integer(number, integers)
        }
    }
}

/// How much a value grew, in the type that `delta` has.
pub(super) fn growth(
    before: Value<'_>,
    now: Value<'_>,
    value_type: ValueType,
) -> Option<Value<'static>> {
    match (integer(before), integer(now)) {
        (Some(before), Some(now)) => of_integer(now - before, value_type),
        _ => binary(Operator::Minus, now, before, value_type),
    }
}

/// The value with its sign turned, in a signed type.
pub(super) fn negative(value: Value<'_>, value_type: ValueType) -> Option<Value<'static>> {
    match value {
        Value::Float(v) => Some(Value::Float(-v)),
        Value::Double(v) => Some(Value::Double(-v)),
        other => of_integer(-integer(other)?, value_type),
    }
}

/// A converted value: a floating point number, or an integer rounded to the
/// nearest one, halves upwards, and held within its type.
pub(super) fn rescaled(value: Value<'_>, to: f64) -> Value<'_> {
    let rounded = (to + 0.5).floor();
    match value {
        Value::I32(_) => Value::I32(rounded as i32),
        Value::U32(_) => Value::U32(rounded as u32),
        Value::I64(_) => Value::I64(rounded as i64),
        Value::U64(_) => Value::U64(rounded as u64),
        Value::Float(_) => Value::Float(to as f32),
        Value::Double(_) => Value::Double(to),
        other => other,
    }
}

/// The order of two values of one type; `None` next to what is no number.
pub(super) fn compare(left: Value<'_>, right: Value<'_>) -> Option<Ordering> {
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_become_the_type_of_the_result() {
        use Operator::{Minus, Over, Plus, Times};
        for (left, operator, right, value_type, expected) in [
            (Value::U32(7), Plus, Value::U32(8), ValueType::U32, Value::U32(15)),
            (Value::I32(-7), Times, Value::U64(2), ValueType::U64, Value::U64(u64::MAX - 13)),
            (Value::U32(1), Minus, Value::U32(2), ValueType::U32, Value::U32(u32::MAX)),
            (Value::I32(i32::MAX), Plus, Value::I32(1), ValueType::I32, Value::I32(i32::MIN)),
            (Value::U64(u64::MAX), Times, Value::U64(u64::MAX), ValueType::U64, Value::U64(1)),
            (Value::U32(1), Over, Value::U32(4), ValueType::Double, Value::Double(0.25)),
            (Value::U32(0), Over, Value::U32(0), ValueType::Double, Value::Double(0.0)),
            (Value::U32(1), Over, Value::U32(0), ValueType::Double, Value::Double(f64::INFINITY)),
            (Value::Float(0.5), Times, Value::U32(3), ValueType::Float, Value::Float(1.5)),
            (Value::Float(0.5), Minus, Value::Double(1.0), ValueType::Double, Value::Double(-0.5)),
        ] {
            let found = binary(operator, left, right, value_type);
            assert_eq!(found, Some(expected), "{left:?} {} {right:?}", operator.sign());
        }
        assert_eq!(binary(Plus, Value::String(b"1"), Value::U32(1), ValueType::U32), None);
    }

    #[test]
    fn growth_is_signed_and_exact() {
        let grown = |before, now, value_type| growth(before, now, value_type).unwrap();
        assert_eq!(grown(Value::U32(5), Value::U32(3), ValueType::I64), Value::I64(-2));
        let large = Value::U64(u64::MAX - 1);
        assert_eq!(grown(large, Value::U64(u64::MAX), ValueType::Double), Value::Double(1.0));
        assert_eq!(
            grown(Value::Float(1.0), Value::Float(1.5), ValueType::Float),
            Value::Float(0.5)
        );
    }

    #[test]
    fn rescaled_integers_are_rounded_and_stay_in_their_type() {
        assert_eq!(rescaled(Value::U64(0), 2.5), Value::U64(3));
        assert_eq!(rescaled(Value::I32(0), -2.5), Value::I32(-2));
        assert_eq!(rescaled(Value::U32(0), 1e12), Value::U32(u32::MAX));
        assert_eq!(rescaled(Value::Double(0.0), 2.5), Value::Double(2.5));
    }
}
