//! How much a counter grew from one of its values over others to a last one.

use super::Decrease;
use crate::Value;

/// How much a counter grew from `first` over the observations in `between` to
/// `last`, or `None` if it was reset in between.
///
/// 4 294 967 000 to 50 in an unsigned 32-bit counter is nothing after a reset,
/// and 346 if the counter wrapped.
pub(super) fn growth<'v>(
    first: Value<'_>,
    between: impl Iterator<Item = Value<'v>>,
    last: Value<'_>,
    decrease: Decrease,
) -> Option<f64> {
    let values = between.map(number).chain([number(last)]);
    match number(first)? {
        Number::Integer { value, range } => {
            let mut sum = 0;
            let mut before = value;
            for number in values {
                let Some(Number::Integer { value, .. }) = number else { return None };
                sum += match value - before {
                    less if less < 0 && decrease == Decrease::Reset => return None,
                    less if less < 0 => less + range,
                    more => more,
                };
                before = value;
            }
            Some(sum as f64)
        }
        Number::Float(value) => {
            let mut before = value;
            for number in values {
                let Some(Number::Float(value)) = number else { return None };
                if !matches!(value.partial_cmp(&before), Some(order) if order.is_ge()) {
                    return None;
                }
                before = value;
            }
            Some(before - value)
        }
    }
}

/// A number in a form that holds all of its type.
#[derive(Debug, Clone, Copy)]
enum Number {
    Integer {
        value: i128,
        /// How many values the type has.
        range: i128,
    },
    Float(f64),
}

fn number(value: Value<'_>) -> Option<Number> {
    let integer = |value, bits: u32| Some(Number::Integer { value, range: 1 << bits });
    match value {
        Value::I32(v) => integer(i128::from(v), 32),
        Value::U32(v) => integer(i128::from(v), 32),
        Value::I64(v) => integer(i128::from(v), 64),
        Value::U64(v) => integer(i128::from(v), 64),
        Value::Float(v) => Some(Number::Float(f64::from(v))),
        Value::Double(v) => Some(Number::Float(v)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(values: &[Value<'_>], decrease: Decrease) -> Option<f64> {
        let [first, between @ .., last] = values else { panic!("two at least") };
        growth(*first, between.iter().copied(), *last, decrease)
    }

    #[test]
    fn growth_is_the_difference_of_the_ends() {
        let u32s = [Value::U32(100), Value::U32(150), Value::U32(203)];
        assert_eq!(grown(&u32s, Decrease::Reset), Some(103.0));
        let doubles = [Value::Double(0.5), Value::Double(0.5), Value::Double(2.0)];
        assert_eq!(grown(&doubles, Decrease::Reset), Some(1.5));
        let large = [Value::U64(u64::MAX - 5), Value::U64(u64::MAX - 1)];
        assert_eq!(grown(&large, Decrease::Reset), Some(4.0), "no bit is lost above 2^53");
    }

    #[test]
    fn a_counter_that_was_set_back_on_the_way_has_not_grown() {
        let hidden = [Value::U32(100), Value::U32(7), Value::U32(400)];
        assert_eq!(grown(&hidden, Decrease::Reset), None);
        let doubles = [Value::Double(1.0), Value::Double(0.0), Value::Double(2.0)];
        assert_eq!(grown(&doubles, Decrease::Wrap), None, "doubles do not wrap");
        assert_eq!(grown(&[Value::Double(1.0), Value::Double(f64::NAN)], Decrease::Reset), None);
    }

    #[test]
    fn a_wrapped_counter_grew_to_its_end_and_on() {
        for (values, growth) in [
            ([Value::U32(4_294_967_000), Value::U32(50), Value::U32(50)], 346.0),
            ([Value::I32(i32::MAX), Value::I32(i32::MIN), Value::I32(i32::MIN + 1)], 2.0),
            ([Value::U64(u64::MAX), Value::U64(0), Value::U64(0)], 1.0),
            ([Value::I64(i64::MAX), Value::I64(i64::MIN), Value::I64(i64::MAX)], 2f64.powi(64)),
        ] {
            assert_eq!(grown(&values, Decrease::Wrap), Some(growth), "{values:?}");
        }
    }
}
