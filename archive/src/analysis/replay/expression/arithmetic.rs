//! Arithmetic with values of the six numeric types.
//!
//! Both operands are converted to the type of the result, as in C; integers that
//! leave their type wrap, as in libpcp (`bin_op` in
//! `src/libpcp/src/derive_fetch.c`). Integers are computed in 128 bits, which
//! hold all of them, and truncated at the end with the same result.

use std::cmp::Ordering;

use super::parse::Operator;
use crate::{Value, ValueType};

/// Returns the value of an integer, `None` for other types.
pub(super) fn integer(value: Value<'_>) -> Option<i128> {
    match value {
        Value::I32(v) => Some(i128::from(v)),
        Value::U32(v) => Some(i128::from(v)),
        Value::I64(v) => Some(i128::from(v)),
        Value::U64(v) => Some(i128::from(v)),
        _ => None,
    }
}

/// Returns an integer truncated to an integer type or converted to a floating point one.
fn integer_value(number: i128, value_type: ValueType) -> Option<Value<'static>> {
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

/// Returns a number in single precision, converted as in C.
fn single(value: Value<'_>) -> Option<f32> {
    match value {
        Value::Float(v) => Some(v),
        Value::Double(v) => Some(v as f32),
        other => integer(other).map(|number| number as f32),
    }
}

/// Returns the result of an operator. A quotient is a double, and 0 divided by anything is 0, so
/// that the mean of no requests is not NaN. Comparisons and boolean operators result in 0 or 1;
/// numbers of different types compare by value.
pub(super) fn binary(
    operator: Operator,
    left: Value<'_>,
    right: Value<'_>,
    value_type: ValueType,
) -> Option<Value<'static>> {
    use Ordering::{Equal, Greater, Less};
    let order = || compare(left, right);
    let holds = match operator {
        Operator::Or => is_true(left)? | is_true(right)?,
        Operator::And => is_true(left)? & is_true(right)?,
        Operator::Less => order() == Some(Less),
        Operator::AtMost => matches!(order(), Some(Less | Equal)),
        Operator::Equal => order() == Some(Equal),
        Operator::AtLeast => matches!(order(), Some(Greater | Equal)),
        Operator::Greater => order() == Some(Greater),
        Operator::NotEqual => order() != Some(Equal),
        Operator::Plus | Operator::Minus | Operator::Times | Operator::Over => {
            return number(operator, left, right, value_type);
        }
    };
    Some(Value::U32(holds.into()))
}

/// Returns whether a number is not 0; `None` without a number.
pub(super) fn is_true(value: Value<'_>) -> Option<bool> {
    Some(value.as_f64()? != 0.0)
}

fn number(
    operator: Operator,
    left: Value<'_>,
    right: Value<'_>,
    value_type: ValueType,
) -> Option<Value<'static>> {
    match value_type {
        ValueType::Double => {
            let left = left.as_f64()?;
            let right = right.as_f64()?;
            Some(Value::Double(match operator {
                Operator::Plus => left + right,
                Operator::Minus => left - right,
                Operator::Times => left * right,
                Operator::Over if left == 0.0 => 0.0,
                _ => left / right,
            }))
        }
        ValueType::Float => {
            let left = single(left)?;
            let right = single(right)?;
            Some(Value::Float(match operator {
                Operator::Plus => left + right,
                Operator::Minus => left - right,
                _ => left * right,
            }))
        }
        integers => {
            let left = integer(left)?;
            let right = integer(right)?;
            let number = match operator {
                Operator::Plus => left.wrapping_add(right),
                Operator::Minus => left.wrapping_sub(right),
                _ => left.wrapping_mul(right),
            };
            integer_value(number, integers)
        }
    }
}

/// Returns a constant in another type, without its fraction if that is an integer type; `None`
/// for a type that is not a number.
pub(super) fn constant(value: Value<'_>, value_type: ValueType) -> Option<Value<'static>> {
    match (value, value_type) {
        (Value::Double(v), ValueType::Double) => Some(Value::Double(v)),
        (Value::Double(v), ValueType::Float) => Some(Value::Float(v as f32)),
        (Value::Double(v), _) => integer_value(v as i128, value_type),
        _ => integer_value(integer(value)?, value_type),
    }
}

pub(super) fn growth(
    before: Value<'_>,
    now: Value<'_>,
    value_type: ValueType,
) -> Option<Value<'static>> {
    match (integer(before), integer(now)) {
        (Some(before), Some(now)) => integer_value(now - before, value_type),
        _ => binary(Operator::Minus, now, before, value_type),
    }
}

pub(super) fn negative(value: Value<'_>, value_type: ValueType) -> Option<Value<'static>> {
    match value {
        Value::Float(v) => Some(Value::Float(-v)),
        Value::Double(v) => Some(Value::Double(-v)),
        other => integer_value(-integer(other)?, value_type),
    }
}

/// Returns a converted value in its own type: integers are rounded, halves upwards, and clamped
/// to the range of the type.
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

/// Returns the order of two numbers; `None` if one is NaN or not a number.
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
    fn operands_are_converted_to_the_type_of_the_result() {
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
    fn comparisons_compare_the_numbers_whatever_their_types() {
        use Operator::{AtLeast, AtMost, Equal, Greater, Less, NotEqual};
        let nan = Value::Double(f64::NAN);
        for (left, right, holding) in [
            (Value::U32(3), Value::U32(3), [false, true, true, true, false, false]),
            (Value::I32(-1), Value::U32(0), [true, true, false, false, false, true]),
            (Value::U64(u64::MAX), Value::I64(-1), [false, false, false, true, true, true]),
            (Value::U32(1), Value::Double(0.5), [false, false, false, true, true, true]),
            (nan, Value::U32(0), [false, false, false, false, false, true]),
            (nan, nan, [false, false, false, false, false, true]),
        ] {
            let all = [Less, AtMost, Equal, AtLeast, Greater, NotEqual];
            let found = all.map(|operator| binary(operator, left, right, ValueType::U32));
            let expected = holding.map(|holds| Some(Value::U32(holds.into())));
            assert_eq!(found, expected, "{left:?}, {right:?}");
        }
    }

    #[test]
    fn every_number_but_0_is_true() {
        use Operator::{And, Or};
        let no = Value::Double(0.0);
        let yes = Value::U64(u64::MAX);
        for (left, right, and, or) in
            [(no, no, 0, 0), (no, yes, 0, 1), (yes, no, 0, 1), (yes, yes, 1, 1)]
        {
            assert_eq!(binary(And, left, right, ValueType::U32), Some(Value::U32(and)));
            assert_eq!(binary(Or, left, right, ValueType::U32), Some(Value::U32(or)));
        }
        assert_eq!(is_true(Value::Double(f64::NAN)), Some(true), "as in C");
    }

    #[test]
    fn constants_take_any_type_that_holds_them() {
        let integer = Value::U32(u32::MAX);
        let double = Value::Double(0.5);
        assert_eq!(constant(integer, ValueType::I32), Some(Value::I32(-1)), "as in PCP");
        assert_eq!(constant(integer, ValueType::U64), Some(Value::U64(u64::from(u32::MAX))));
        assert_eq!(constant(Value::U32(7), ValueType::Float), Some(Value::Float(7.0)));
        assert_eq!(constant(double, ValueType::Float), Some(Value::Float(0.5)));
        assert_eq!(constant(Value::Double(7.9), ValueType::U32), Some(Value::U32(7)));
        assert_eq!(constant(double, ValueType::String), None);
        assert_eq!(constant(integer, ValueType::String), None);
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
