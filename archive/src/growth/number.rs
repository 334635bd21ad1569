//! The numeric types, and the difference of two numbers.

/// A type of numbers in a column.
pub(crate) trait Number: Copy {
    /// The number that a column stores as this word.
    fn of(word: u64) -> Self;

    fn value(self) -> f64;

    fn is_nan(self) -> bool;

    /// The difference to `after`, without a branch. The highest bit of the second number
    /// is set if `after` is less, or too much greater: then the first is meaningless.
    fn rise_to(self, after: Self) -> (f64, u64);

    /// How much a counter grew from this to `after`; `None` if it was set back.
    fn growth_to(self, after: Self, wraps: bool) -> Option<f64>;
}

/// The integers `$number`, whose differences are `$unsigned`; `$double` turns
/// either into a double.
macro_rules! integer {
    ($number:ty, $unsigned:ty, $double:ident) => {
        impl Number for $number {
            fn of(word: u64) -> Self {
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

integer!(i32, u32, exact);
integer!(u32, u32, exact);
integer!(i64, u64, nearest);
integer!(u64, u64, nearest);

impl Number for f32 {
    fn of(word: u64) -> Self {
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
    fn of(word: u64) -> Self {
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
