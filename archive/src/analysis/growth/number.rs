//! The numeric types, and how much a counter grew from one number to the next.

use super::Decrease;
use crate::Value;

/// A type of numbers in a column.
pub(crate) trait Number: Copy {
    /// Returns the number that a column stores as this word.
    fn from_word(word: u64) -> Self;

    fn value(self) -> f64;

    fn is_nan(self) -> bool;

    /// Returns the difference to `after`, without a branch. The highest bit of the second number
    /// is set if `after` is less, or too much greater: then the first is meaningless.
    fn rise_to(self, after: Self) -> (f64, u64);

    /// Returns the growth of a counter from this value to `after`; `None` if it was set back.
    fn growth_to(self, after: Self, wraps: bool) -> Option<f64>;
}

/// The integers `$number`, whose differences are `$unsigned`; `$double` turns
/// either into a double.
macro_rules! integer {
    ($number:ty, $unsigned:ty, $double:ident) => {
        impl Number for $number {
            fn from_word(word: u64) -> Self {
                word as Self
            }

            #[inline]
            fn rise_to(self, after: Self) -> (f64, u64) {
                // With an offset that makes the least number 0, numbers keep their order.
                let least = Self::MIN as $unsigned;
                let [before, after] = [self, after].map(|n| u64::from(n as $unsigned ^ least));
                let rise = after.wrapping_sub(before);
                // The borrow of the subtraction.
                let borrow = (!after & before) | ((!after | before) & rise);
                (rise.cast_signed() as f64, borrow | rise)
            }

            fn is_nan(self) -> bool {
                false
            }

            fn value(self) -> f64 {
                $double!(self)
            }

            fn growth_to(self, after: Self, wraps: bool) -> Option<f64> {
                // The difference of two numbers of a type is exact in the unsigned type,
                // and so is the distance to its end.
                (after >= self || wraps).then(|| $double!(after.wrapping_sub(self) as $unsigned))
            }
        }
    };
}

/// A double with all bits of an integer.
macro_rules! exact {
    ($number:expr) => {
        f64::from($number)
    };
}

/// The double nearest to an integer.
macro_rules! nearest {
    ($number:expr) => {
        $number as f64
    };
}

/// Evaluates an expression in which `$number` is the type of numbers that columns of a value type
/// have; otherwise another one.
macro_rules! with_number {
    ($value_type:expr, $number:ident => $result:expr, else $other:expr) => {
        match $value_type {
            $crate::ValueType::I32 => with_number!(@ $number = i32, $result),
            $crate::ValueType::U32 => with_number!(@ $number = u32, $result),
            $crate::ValueType::I64 => with_number!(@ $number = i64, $result),
            $crate::ValueType::U64 => with_number!(@ $number = u64, $result),
            $crate::ValueType::Float => with_number!(@ $number = f32, $result),
            $crate::ValueType::Double => with_number!(@ $number = f64, $result),
            _ => $other,
        }
    };
    (@ $number:ident = $type:ty, $result:expr) => {{
        type $number = $type;
        $result
    }};
}

pub(crate) use with_number;

/// Returns the growth of a counter from its value `first` over others to `last`; `None` if it was
/// reset in between.
///
/// 4 294 967 000 to 50 in an unsigned 32-bit counter is nothing after a reset, and 346 if the
/// counter wrapped.
pub(crate) fn growth<'v>(
    first: Value<'v>,
    between: impl Iterator<Item = Value<'v>>,
    last: Value<'v>,
    decrease: Decrease,
) -> Option<f64> {
    let wraps = decrease == Decrease::Wrap;
    let mut before = first;
    let mut sum = 0.0;
    let mut has_wrapped = false;
    for value in between.chain([last]) {
        sum += step(before, value, wraps)?;
        has_wrapped |= wraps && step(before, value, false).is_none();
        before = value;
    }
    // The difference of the ends is rounded once only.
    if has_wrapped { Some(sum) } else { step(first, last, false) }
}

fn step(before: Value<'_>, after: Value<'_>, wraps: bool) -> Option<f64> {
    match (before, after) {
        (Value::I32(before), Value::I32(after)) => before.growth_to(after, wraps),
        (Value::U32(before), Value::U32(after)) => before.growth_to(after, wraps),
        (Value::I64(before), Value::I64(after)) => before.growth_to(after, wraps),
        (Value::U64(before), Value::U64(after)) => before.growth_to(after, wraps),
        (Value::Float(before), Value::Float(after)) => before.growth_to(after, wraps),
        (Value::Double(before), Value::Double(after)) => before.growth_to(after, wraps),
        _ => None,
    }
}

integer!(i32, u32, exact);
integer!(u32, u32, exact);
integer!(i64, u64, nearest);
integer!(u64, u64, nearest);

impl Number for f32 {
    fn from_word(word: u64) -> Self {
        Self::from_bits(word as u32)
    }

    fn is_nan(self) -> bool {
        self.is_nan()
    }

    fn value(self) -> f64 {
        f64::from(self)
    }

    #[inline]
    fn rise_to(self, after: Self) -> (f64, u64) {
        f64::from(self).rise_to(f64::from(after))
    }

    fn growth_to(self, after: Self, _: bool) -> Option<f64> {
        f64::from(self).growth_to(f64::from(after), false)
    }
}

impl Number for f64 {
    fn from_word(word: u64) -> Self {
        Self::from_bits(word)
    }

    fn is_nan(self) -> bool {
        self.is_nan()
    }

    fn value(self) -> f64 {
        self
    }

    #[inline]
    fn rise_to(self, after: Self) -> (f64, u64) {
        (after - self, (after - self).to_bits())
    }

    fn growth_to(self, after: Self, _: bool) -> Option<f64> {
        // The growth from infinity is not known.
        let growth = (after >= self).then_some(after - self);
        growth.filter(|growth| !growth.is_nan())
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

    #[test]
    fn growth_is_exact_in_all_types() {
        assert_eq!(100u32.growth_to(203, false), Some(103.0));
        assert_eq!((u64::MAX - 5).growth_to(u64::MAX - 1, false), Some(4.0), "above 2^53");
        assert_eq!(i32::MIN.growth_to(i32::MAX, false), Some(4_294_967_295.0));
        assert_eq!((-5i64).growth_to(5, false), Some(10.0));
        assert_eq!(0.5f64.growth_to(2.0, false), Some(1.5));
        assert_eq!(0.5f32.growth_to(0.5, false), Some(0.0));
    }

    #[test]
    fn a_rise_is_the_growth_or_says_that_it_is_none() {
        fn check<N: Number + std::fmt::Debug>(numbers: &[N]) {
            for before in numbers {
                for after in numbers {
                    let (rise, fall) = before.rise_to(*after);
                    match before.growth_to(*after, false) {
                        Some(growth) if fall >> 63 == 0 => {
                            assert!(rise.to_bits() == growth.to_bits(), "{before:?} {after:?}");
                        }
                        Some(growth) => assert!(growth >= 9e18, "{before:?} {after:?}"),
                        None => assert!(fall >> 63 == 1 || rise.is_nan(), "{before:?} {after:?}"),
                    }
                }
            }
        }
        check(&[0, 1, 99, 1 << 53, (1 << 53) + 1, (1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX]);
        check(&[i64::MIN, i64::MIN + 1, -5, -1, 0, 1, (1 << 53) + 1, i64::MAX - 1, i64::MAX]);
        check(&[0, 1, 99, 1 << 31, u32::MAX]);
        check(&[i32::MIN, -1, 0, 7, i32::MAX]);
        check(&[-1.5, 0.0, 0.1, 1e300, f64::INFINITY, f64::NEG_INFINITY]);
        check(&[-1.5, 0.0, 0.1, 1e30, f32::INFINITY]);
    }

    #[test]
    fn a_counter_that_goes_down_was_set_back_or_wrapped() {
        assert_eq!(203u32.growth_to(100, false), None);
        assert_eq!(4_294_967_000u32.growth_to(50, true), Some(346.0));
        assert_eq!(i32::MAX.growth_to(i32::MIN, true), Some(1.0));
        assert_eq!(u64::MAX.growth_to(0, true), Some(1.0));
        assert_eq!(2.0f64.growth_to(1.0, true), None, "doubles do not wrap");
    }
}
