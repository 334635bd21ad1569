//! From one scale of the same dimension to another (`pmConvScale(3)`,
//! `src/libpcp/src/units.c`).

use super::{SIGNED, Units};

/// The conversion of a number in one unit to the same quantity in another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conversion {
    factor: f64,
    offset: f64,
}

impl Conversion {
    /// Returns the conversion that multiplies by `factor`.
    pub const fn times(factor: f64) -> Self {
        Self { factor, offset: 0.0 }
    }

    /// Returns the number in the other unit.
    pub fn apply(self, value: f64) -> f64 {
        value * self.factor + self.offset
    }

    /// Multiplies the result of this conversion by `factor`.
    #[must_use]
    pub fn and_times(self, factor: f64) -> Self {
        Self { factor: self.factor * factor, offset: self.offset * factor }
    }
}

/// Doubles have all integers up to it.
const EXACT_INTEGERS: f64 = 9_007_199_254_740_992.0;

/// Nanoseconds in each scale of time.
const NANOSECONDS: [f64; 6] = [1.0, 1e3, 1e6, 1e9, 6e10, 3.6e12];

impl Units {
    /// Returns the conversion of numbers in these units to numbers in `to`, or `None` if the two
    /// measure different things (`PM_ERR_CONV`) or have a scale that PCP does not define
    /// (`PM_ERR_UNIT`).
    ///
    /// All powers must agree. A plain number counts as `count`, so a ratio can
    /// be had in `count x 10^-2`, which is per cent.
    ///
    /// ```
    /// use pcp_types::Units;
    ///
    /// let to_mega = Units::kilobytes().per_second().conversion_to("Mbyte / min".parse()?);
    /// assert_eq!(to_mega.map(|c| c.apply(1024.0)), Some(60.0));
    /// assert_eq!(Units::kilobytes().conversion_to(Units::seconds()), None);
    /// # Ok::<(), pcp_types::Error>(())
    /// ```
    pub fn conversion_to(self, to: Self) -> Option<Conversion> {
        let from = self.or_count();
        let to = to.or_count();
        let extra = from.extra_unit();
        let quotient = from.quotient_to(to)?;
        let scaled = Conversion::times(quotient.above / quotient.below);
        if extra == 0 {
            return Some(scaled);
        }
        let physical = physical(extra, from.extra_scale(), to.extra_scale())?;
        Some(physical.and_times(scaled.factor))
    }

    /// Returns the whole numbers, without a common divisor, that a number in these units is
    /// multiplied with and divided by to be one in `to`. `None` if [`conversion_to`] gives none,
    /// for physical units, and where the numbers have more than 53 bits.
    ///
    /// ```
    /// use pcp_types::Units;
    ///
    /// assert_eq!(Units::milliseconds().ratio_to(Units::seconds()), Some((1, 1000)));
    /// ```
    ///
    /// [`conversion_to`]: Self::conversion_to
    pub fn ratio_to(self, to: Self) -> Option<(u64, u64)> {
        let from = self.or_count();
        let quotient = from.quotient_to(to.or_count())?;
        let is_exact = |number: f64| number <= EXACT_INTEGERS;
        if from.extra_unit() != 0 || !is_exact(quotient.above) || !is_exact(quotient.below) {
            return None;
        }
        let above = quotient.above as u64;
        let below = quotient.below as u64;
        let divisor = greatest_common_divisor(above, below);
        Some((above / divisor, below / divisor))
    }

    /// Returns the factor between two units with a count, as a fraction.
    fn quotient_to(self, to: Self) -> Option<Quotient> {
        let from = self;
        let [space, time, count, _] = from.powers();
        if to.powers() != from.powers() {
            return None;
        }
        // Powers are multiplied apart and divided once: the quotient is then
        // the double nearest to the exact one.
        let space_size = |units: Self| size(1024.0, units.space_scale() as i32, 0..=8);
        let count_size = |units: Self| size(10.0, units.count_scale(), SIGNED);
        let mut quotient = Quotient { above: 1.0, below: 1.0 };
        quotient.scale(space, space_size(from), space_size(to))?;
        quotient.scale(time, from.time_size(), to.time_size())?;
        quotient.scale(count, count_size(from), count_size(to))?;
        Some(quotient)
    }

    /// Returns the seconds in the unit of time: 0.001 for `millisec` and for anything per
    /// `millisec`; `None` for a scale that PCP does not define.
    pub fn time_scale_in_seconds(self) -> Option<f64> {
        let (above, below) = self.time_size()?;
        Some(above / below / 1e9)
    }

    /// Returns the units, with `count` for a plain number.
    fn or_count(self) -> Self {
        if self.is_plain_number() { self.with(super::DIM_COUNT, 1) } else { self }
    }

    fn time_size(self) -> Option<(f64, f64)> {
        NANOSECONDS.get(self.time_scale() as usize).map(|&nanoseconds| (nanoseconds, 1.0))
    }
}

fn greatest_common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one.max(1)
}

/// Returns `base` to the power of a scale as a fraction, so that negative powers of ten stay exact;
/// `None` for a scale that PCP does not define.
fn size(base: f64, scale: i32, known: std::ops::RangeInclusive<i32>) -> Option<(f64, f64)> {
    known.contains(&scale).then(|| (base.powi(scale.max(0)), base.powi(-scale.min(0))))
}

/// A fraction that is not yet divided.
struct Quotient {
    above: f64,
    below: f64,
}

impl Quotient {
    /// Multiplies by `from / to` to a power; neither matters at power 0.
    fn scale(
        &mut self,
        power: i32,
        from: Option<(f64, f64)>,
        to: Option<(f64, f64)>,
    ) -> Option<()> {
        if power == 0 {
            return Some(());
        }
        let from = from?;
        let to = to?;
        let above = from.0 * to.1;
        let below = from.1 * to.0;
        let (above, below) = if power > 0 { (above, below) } else { (below, above) };
        self.above *= above.powi(power.abs());
        self.below *= below.powi(power.abs());
        Some(())
    }
}

/// Returns the conversion between two scales of a physical unit, given by its code. Only
/// temperatures have different zeros, which a unit per degree has not.
fn physical(extra: i32, from: u32, to: u32) -> Option<Conversion> {
    if extra.abs() == 1 {
        let (size, zero) = temperature(from)?;
        let (to_size, to_zero) = temperature(to)?;
        if extra < 0 {
            return Some(Conversion::times(to_size / size));
        }
        // One conversion of the zero's difference keeps 0 C exactly 32 F.
        let offset = (zero - to_zero) / to_size;
        return Some(Conversion { factor: size / to_size, offset });
    }
    let from = power_of_ten(extra.abs(), from)?;
    let to = power_of_ten(extra.abs(), to)?;
    let power = if extra < 0 { to - from } else { from - to };
    Some(Conversion::times(if power < 0 { 1.0 / 10f64.powi(-power) } else { 10f64.powi(power) }))
}

/// Returns the size of a degree in kelvin, and how many kelvin above 0 C its zero is.
fn temperature(scale: u32) -> Option<(f64, f64)> {
    match scale {
        1 => Some((1.0, 0.0)),
        2 => Some((5.0 / 9.0, -160.0 / 9.0)),
        3 => Some((1.0, -273.15)),
        _ => None,
    }
}

/// Returns the power of ten by which a scale of volt, ampere or watt multiplies the unit.
fn power_of_ten(unit: i32, scale: u32) -> Option<i32> {
    match (unit, scale) {
        (2 | 3, scale @ 1..=3) => Some(-3 * (scale as i32 - 1)),
        (4, scale @ 1..=4) => Some(-3 * (scale as i32 - 2)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(value: f64, from: &str, to: &str) -> Option<f64> {
        let parse = |text: &str| text.parse::<Units>().unwrap();
        Some(parse(from).conversion_to(parse(to))?.apply(value))
    }

    #[test]
    fn scales_of_one_dimension_convert_exactly() {
        for (value, from, to, expected) in [
            (2048.0, "byte", "Kbyte", 2.0f64),
            (1.0, "Gbyte", "byte", 1_073_741_824.0),
            (1500.0, "millisec", "sec", 1.5),
            (1.0, "hour", "nanosec", 3.6e12),
            (3.0, "count x 10^3", "count", 3000.0),
            (1.0, "count / sec", "count / min", 60.0),
            (1024.0, "Kbyte / sec", "Mbyte / hour", 3600.0),
            (1.0, "millisec^2", "sec^2", 1e-6),
            (0.25, "", "count x 10^-2", 25.0),
            (7.0, "count", "", 7.0),
        ] {
            let found = converted(value, from, to).unwrap();
            assert_eq!(found.to_bits(), expected.to_bits(), "{value} {from} in {to}: {found}");
        }
    }

    #[test]
    fn physical_units_convert_with_their_zeros() {
        for (value, from, to, expected) in [
            (0.0, "temperature (C)", "temperature (F)", 32.0),
            (100.0, "temperature (C)", "temperature (F)", 212.0),
            (-40.0, "temperature (F)", "temperature (C)", -40.0),
            (0.0, "temperature (K)", "temperature (C)", -273.15),
            (1.5, "voltage (V)", "voltage (mV)", 1500.0),
            (2500.0, "power (W)", "power (kW)", 2.5),
            (5.0, "count / temperature (C)", "count / temperature (F)", 25.0 / 9.0),
        ] {
            let found = converted(value, from, to).unwrap();
            assert!((found - expected).abs() < 1e-9, "{value} {from} in {to}: {found}");
        }
    }

    #[test]
    fn what_measures_something_else_does_not_convert() {
        for (from, to) in [
            ("byte", "sec"),
            ("byte", "byte^2"),
            ("count / sec", "count"),
            ("byte", "count"),
            ("voltage (V)", "current (A)"),
            ("sec", "time-7"),
        ] {
            assert_eq!(converted(1.0, from, to), None, "{from} in {to}");
        }
    }
}
