//! The number types of metrics, and their encoding in a cell.

use pcp_types::ValueType;

use crate::mapping::Cell;

/// A number type that a metric can have: `i32`, `u32`, `i64`, `u64`, `f32` and
/// `f64`. Implemented for these only.
///
/// A cell is always loaded and stored as a whole; a 32-bit number is in its first
/// four bytes, the others are 0.
pub trait Number: Copy + PartialOrd + Send + Sync + sealed::Sealed + 'static {
    /// The type in PCP's terms.
    const VALUE_TYPE: ValueType;

    /// Encodes the number for a cell.
    fn to_cell(self) -> u64;

    /// Decodes the number in a cell.
    fn from_cell(word: u64) -> Self;

    /// Returns the sum; integers wrap around.
    #[must_use]
    fn plus(self, other: Self) -> Self;

    /// Returns the difference; integers wrap around.
    #[must_use]
    fn minus(self, other: Self) -> Self;

    /// The number one, which `inc` adds.
    const ONE: Self;
}

mod sealed {
    use crate::mapping::Cell;

    pub trait Sealed {
        /// Adds to a cell that other threads may change at the same time.
        fn add_to(cell: &Cell, delta: Self);
    }
}

macro_rules! number {
    ($type:ident, $value_type:ident, $one:expr, $plus:path, $minus:path, $add_to:expr) => {
        impl sealed::Sealed for $type {
            #[inline]
            fn add_to(cell: &Cell, delta: Self) {
                $add_to(cell, delta);
            }
        }

        impl Number for $type {
            const VALUE_TYPE: ValueType = ValueType::$value_type;
            const ONE: Self = $one;

            #[inline]
            fn to_cell(self) -> u64 {
                let mut word = [0; 8];
                word[..size_of::<Self>()].copy_from_slice(&self.to_ne_bytes());
                u64::from_ne_bytes(word)
            }

            #[inline]
            fn from_cell(word: u64) -> Self {
                let mut bytes = [0; size_of::<Self>()];
                bytes.copy_from_slice(&word.to_ne_bytes()[..size_of::<Self>()]);
                Self::from_ne_bytes(bytes)
            }

            #[inline]
            fn plus(self, other: Self) -> Self {
                $plus(self, other)
            }

            #[inline]
            fn minus(self, other: Self) -> Self {
                $minus(self, other)
            }
        }
    };
}

number!(i32, I32, 1, i32::wrapping_add, i32::wrapping_sub, add_by_update);
number!(u32, U32, 1, u32::wrapping_add, u32::wrapping_sub, add_by_update);
number!(i64, I64, 1, i64::wrapping_add, i64::wrapping_sub, add_whole);
number!(u64, U64, 1, u64::wrapping_add, u64::wrapping_sub, add_whole);
number!(f32, Float, 1.0, std::ops::Add::add, std::ops::Sub::sub, add_by_update);
number!(f64, Double, 1.0, std::ops::Add::add, std::ops::Sub::sub, add_by_update);

#[inline]
fn add_by_update<T: Number>(cell: &Cell, delta: T) {
    cell.update(|word| T::from_cell(word).plus(delta).to_cell());
}

/// Adds an integer that takes the whole cell, in one instruction.
#[inline]
fn add_whole<T: Number>(cell: &Cell, delta: T) {
    cell.add(delta.to_cell());
}

#[cfg(test)]
mod tests {
    use super::sealed::Sealed as _;
    use super::*;

    fn reads_back<T: Number + PartialEq + std::fmt::Debug>(values: &[T]) {
        for value in values {
            assert_eq!(T::from_cell(value.to_cell()), *value);
        }
    }

    #[test]
    fn every_type_reads_back_at_its_ends() {
        reads_back(&[i32::MIN, -1, 0, i32::MAX]);
        reads_back(&[0, u32::MAX]);
        reads_back(&[i64::MIN, -1, i64::MAX]);
        reads_back(&[0, u64::MAX]);
        reads_back(&[f32::MIN, -0.0, f32::INFINITY]);
        reads_back(&[f64::MIN, -0.0, f64::INFINITY]);
    }

    #[test]
    fn a_narrow_number_leaves_the_other_half_zero() {
        let bytes = (-1i32).to_cell().to_ne_bytes();
        assert_eq!(bytes, [255, 255, 255, 255, 0, 0, 0, 0]);
    }

    #[test]
    fn integers_wrap_around() {
        let cell = Cell::private();
        cell.store(u32::MAX.to_cell());
        u32::add_to(&cell, 2);
        assert_eq!(cell.load(), 1u32.to_cell());
        cell.store(i64::MAX.to_cell());
        i64::add_to(&cell, 1);
        assert_eq!(i64::from_cell(cell.load()), i64::MIN);
    }
}
