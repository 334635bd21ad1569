//! Units of sums, products and quotients (`map_units` in
//! `src/libpcp/src/derive_parser.y.in`; pmRegisterDerived(3), "Semantic checks
//! and rules").
//!
//! Two scales of one dimension are brought to the larger one: of `byte` and
//! `Kbyte` the bytes are divided by 1024.

use super::{AXES, Conversion, EXTRA_SCALE, EXTRA_UNIT, Field, SCALE_COUNT, SIGNED, Units};

/// The units of a result, and what has to be done to its operands first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CombinedUnits {
    /// The units of the result.
    pub units: Units,
    /// Conversion of the left operand; `None` if it stays as it is.
    pub left: Option<Conversion>,
    /// Conversion of the right operand; `None` if it stays as it is.
    pub right: Option<Conversion>,
}

impl Units {
    /// Units of a sum or difference, `None` if the operands measure different
    /// things. A plain number can be added to a `count`.
    ///
    /// ```
    /// use pcp_types::Units;
    ///
    /// let sum = Units::bytes().plus(Units::kilobytes()).unwrap();
    /// assert_eq!(sum.units, Units::kilobytes());
    /// assert_eq!(sum.left.map(|c| c.apply(2048.0)), Some(2.0));
    /// assert_eq!(sum.right, None);
    /// assert_eq!(Units::bytes().plus(Units::seconds()), None);
    /// ```
    pub fn plus(self, other: Self) -> Option<CombinedUnits> {
        let is_count = |units: Self| units.powers() == [0, 0, 1, 0];
        let counts = (self.is_plain_number() && is_count(other))
            || (is_count(self) && other.is_plain_number());
        if (self.powers() != other.powers() && !counts) || self.clashes_with(other) {
            return None;
        }
        let (left, right) = self.in_common_scales(other);
        let units = if left.is_plain_number() { right } else { left };
        self.combined(other, (left, right), units)
    }

    /// Units of a product, `None` if both operands have a physical unit or a
    /// power leaves -8..=7.
    pub fn times(self, other: Self) -> Option<CombinedUnits> {
        if self.extra_unit() != 0 && other.extra_unit() != 0 {
            return None;
        }
        let (left, right) = self.in_common_scales(other);
        let units = left.with_powers_of(right, 1)?;
        let extra = if left.extra_unit() != 0 { left } else { right };
        let units = units
            .with(EXTRA_UNIT, extra.extra_unit())
            .with(EXTRA_SCALE, extra.extra_scale() as i32);
        self.combined(other, (left, right), units)
    }

    /// Units of a quotient, `None` if the operands have different physical
    /// units or a power leaves -8..=7.
    pub fn over(self, other: Self) -> Option<CombinedUnits> {
        if self.clashes_with(other) {
            return None;
        }
        let (left, right) = self.in_common_scales(other);
        let units = left.with_powers_of(right, -1)?;
        let (extra, scale) = match (left.extra_unit(), right.extra_unit()) {
            (0, 0) => (0, 0),
            (extra, 0) => (extra, left.extra_scale()),
            (0, extra) => (-extra, right.extra_scale()),
            _ => (0, 0),
        };
        let units = units.with(EXTRA_UNIT, extra).with(EXTRA_SCALE, scale as i32);
        self.combined(other, (left, right), units)
    }

    /// Returns whether these are not units at all: all powers are 0, whatever scales there are. A
    /// `count` is none of them.
    pub const fn is_plain_number(self) -> bool {
        let powers = [self.space_dimension(), self.time_dimension(), self.count_dimension()];
        matches!(powers, [0, 0, 0]) && self.extra_unit() == 0
    }

    pub(super) fn powers(self) -> [i32; 4] {
        let space = self.space_dimension();
        let time = self.time_dimension();
        [space, time, self.count_dimension(), self.extra_unit()]
    }

    /// Returns whether both have physical units, and not the same.
    fn clashes_with(self, other: Self) -> bool {
        let is_same =
            self.extra_unit() == other.extra_unit() && self.extra_scale() == other.extra_scale();
        self.extra_unit() != 0 && other.extra_unit() != 0 && !is_same
    }

    /// Converts both units to the larger of their scales on each axis that both have.
    fn in_common_scales(self, other: Self) -> (Self, Self) {
        let mut left = self;
        let mut right = other;
        for (dimension, scale) in AXES {
            if left.signed(dimension) != 0 && right.signed(dimension) != 0 {
                let larger = left.scale(scale).max(right.scale(scale));
                left = left.with(scale, larger);
                right = right.with(scale, larger);
            }
        }
        (left, right)
    }

    /// Returns a scale: those of space and time are unsigned, that of count is signed.
    fn scale(self, field: Field) -> i32 {
        if field.shift == SCALE_COUNT.shift {
            self.count_scale()
        } else {
            self.unsigned(field) as i32
        }
    }

    /// Adds the other's powers, `sign` times, to those of these units. A physical unit is left out.
    /// Returns `None` for a power that units cannot hold.
    fn with_powers_of(self, other: Self, sign: i32) -> Option<Self> {
        let mut units = Self::NONE;
        for (dimension, scale) in AXES {
            let power = self.signed(dimension) + sign * other.signed(dimension);
            if !SIGNED.contains(&power) {
                return None;
            }
            let owner = if self.signed(dimension) == 0 { other } else { self };
            if power != 0 {
                units = units.with(dimension, power).with(scale, owner.scale(scale));
            }
        }
        Some(units)
    }

    fn combined(self, other: Self, scaled: (Self, Self), units: Self) -> Option<CombinedUnits> {
        let conversion = |from: Self, to: Self| {
            if from == to { Some(None) } else { from.conversion_to(to).map(Some) }
        };
        let left = conversion(self, scaled.0)?;
        let right = conversion(other, scaled.1)?;
        Some(CombinedUnits { units, left, right })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Operation = fn(Units, Units) -> Option<CombinedUnits>;

    /// The units of the result, and what becomes of 1 in each operand.
    fn combined(left: &str, operation: Operation, right: &str) -> Option<(String, f64, f64)> {
        let parse = |text: &str| text.parse::<Units>().unwrap();
        let combined = operation(parse(left), parse(right))?;
        let one = |conversion: Option<Conversion>| conversion.map_or(1.0, |c| c.apply(1.0));
        Some((combined.units.to_string(), one(combined.left), one(combined.right)))
    }

    #[test]
    fn sums_are_of_one_dimension_and_in_the_larger_scale() {
        for (left, right, expected) in [
            ("byte", "byte", Some(("byte", 1.0, 1.0))),
            ("Mbyte", "Kbyte", Some(("Mbyte", 1.0, 1.0 / 1024.0))),
            ("millisec", "sec", Some(("sec", 0.001, 1.0))),
            ("count / sec", "count / min", Some(("count / min", 60.0, 1.0))),
            ("count", "count x 10^3", Some(("count x 10^3", 0.001, 1.0))),
            ("count x 10^-2", "count", Some(("count", 0.01, 1.0))),
            ("", "count", Some(("count", 1.0, 1.0))),
            ("count", "", Some(("count", 1.0, 1.0))),
            ("", "", Some(("", 1.0, 1.0))),
            ("byte", "", None),
            ("byte", "count", None),
            ("byte", "byte / sec", None),
            ("voltage (V)", "voltage (V)", Some(("voltage (V)", 1.0, 1.0))),
            ("voltage (V)", "voltage (mV)", None),
        ] {
            let expected = expected.map(|(units, l, r)| (units.to_owned(), l, r));
            assert_eq!(combined(left, Units::plus, right), expected, "{left} + {right}");
        }
    }

    #[test]
    fn powers_are_added_in_products_and_subtracted_in_quotients() {
        for (left, right, product, quotient) in [
            ("byte", "byte", Some("byte^2"), Some("")),
            ("Mbyte", "sec", Some("Mbyte sec"), Some("Mbyte / sec")),
            ("", "sec", Some("sec"), Some("/ sec")),
            ("Kbyte", "count / sec", Some("Kbyte count / sec"), Some("Kbyte sec / count")),
            ("voltage (V)", "current (A)", None, None),
            ("voltage (V)", "voltage (V)", None, Some("")),
            ("byte^7", "byte", None, Some("byte^6")),
            ("sec", "voltage (V)", Some("voltage (V) sec"), Some("sec / voltage (V)")),
        ] {
            let units = |operation| combined(left, operation, right).map(|(units, ..)| units);
            assert_eq!(units(Units::times).as_deref(), product, "{left} * {right}");
            assert_eq!(units(Units::over).as_deref(), quotient, "{left} / {right}");
        }
    }

    #[test]
    fn the_example_of_the_manual_scales_both_axes() {
        // network.interface.speed - bytes / milliseconds
        let (ratio, bytes, millis) = combined("byte", Units::over, "millisec").unwrap();
        assert_eq!((ratio.as_str(), bytes, millis), ("byte / millisec", 1.0, 1.0));
        let difference = combined("Mbyte / sec", Units::plus, "byte / millisec");
        assert_eq!(difference, Some(("Mbyte / sec".to_owned(), 1.0, 1000.0 / 1_048_576.0)));
    }

    #[test]
    fn an_inverse_power_is_scaled_the_other_way() {
        // PCP takes the sign of the right operand's power for both.
        let (units, left, right) = combined("Kbyte", Units::times, "count / Mbyte").unwrap();
        assert_eq!((units.as_str(), left, right), ("count", 1.0 / 1024.0, 1.0));
    }
}
