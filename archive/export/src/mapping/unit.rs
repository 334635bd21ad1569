//! Base units as suffixes of names, and the conversion of values to them.

use pcp_types::Units;

/// A conversion to base units: seconds, bytes, and plain counts. It multiplies first and divides
/// once, so that the result is the double nearest to the exact quotient (1100 milliseconds are 1.1
/// seconds).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    above: f64,
    below: f64,
}

impl Scale {
    /// The conversion that changes nothing.
    pub const NONE: Self = Self { above: 1.0, below: 1.0 };

    /// Converts a value to base units.
    #[inline]
    pub fn apply(self, value: f64) -> f64 {
        if self == Self::NONE { value } else { value * self.above / self.below }
    }

    fn multiply(&mut self, factor: f64, power: i32) {
        let side = if power > 0 { &mut self.above } else { &mut self.below };
        *side *= factor.powi(power.abs());
    }
}

/// Returns the base unit of units as a suffix of names, and the conversion to it. The suffix is
/// empty for plain numbers and counts. Units with a scale that PCP does not define have none, and
/// their values are not converted.
pub fn base_unit(units: Units) -> (String, Scale) {
    let Some(scale) = scale_of(units) else { return (String::new(), Scale::NONE) };
    let physical = match (units.extra_unit().abs(), units.extra_scale()) {
        (1, 2) => ("fahrenheit", "fahrenheit"),
        (1, 3) => ("kelvin", "kelvin"),
        (1, _) => ("celsius", "celsius"),
        (2, _) => ("volts", "volt"),
        (3, _) => ("amperes", "ampere"),
        (4, _) => ("watts", "watt"),
        _ => ("", ""),
    };
    let powers = [
        (units.space_dimension(), ("bytes", "byte")),
        (units.time_dimension(), ("seconds", "second")),
        (units.extra_unit().signum(), physical),
        (units.count_dimension(), ("", "count")),
    ];
    let mut words: Vec<String> = Vec::new();
    for (power, (plural, _)) in
        powers.iter().filter(|(power, (plural, _))| *power > 0 && !plural.is_empty())
    {
        words.push(powered(plural, *power));
    }
    for (power, (_, singular)) in powers.iter().filter(|(power, _)| *power < 0) {
        words.push(format!("per_{}", powered(singular, -power)));
    }
    (words.join("_"), scale)
}

/// Appends a power to a unit: `bytes`, but `bytes2` for a square.
fn powered(word: &str, power: i32) -> String {
    if power == 1 { word.to_owned() } else { format!("{word}{power}") }
}

fn scale_of(units: Units) -> Option<Scale> {
    let mut scale = Scale::NONE;
    if units.space_dimension() != 0 {
        let power = i32::try_from(units.space_scale()).ok().filter(|power| *power <= 8)?;
        scale.multiply(1024.0, power * units.space_dimension());
    }
    match (units.time_dimension(), units.time_scale()) {
        (0, _) | (_, 3) => {}
        (power, 0) => scale.multiply(1e9, -power),
        (power, 1) => scale.multiply(1e6, -power),
        (power, 2) => scale.multiply(1e3, -power),
        (power, 4) => scale.multiply(60.0, power),
        (power, 5) => scale.multiply(3600.0, power),
        _ => return None,
    }
    if units.count_dimension() != 0 {
        scale.multiply(10.0, units.count_scale() * units.count_dimension());
    }
    let power = match (units.extra_unit().abs(), units.extra_scale()) {
        (0, _) | (1, 1..=3) | (2 | 3, 1) | (4, 2) => 0,
        (2 | 3, 2) | (4, 3) => -1,
        (2 | 3, 3) | (4, 4) => -2,
        (4, 1) => 1,
        _ => return None,
    };
    scale.multiply(1e3, power * units.extra_unit().signum());
    Some(scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcp_types::ExtraUnit;

    #[test]
    fn units_are_ends_of_names_in_base_units() {
        for (units, end, value, expected) in [
            ("", "", 7.0, 7.0),
            ("count", "", 7.0, 7.0),
            ("count x 10^3", "", 7.0, 7000.0),
            ("count x 10^-2", "", 7.0, 0.07),
            ("byte", "bytes", 3.0, 3.0),
            ("Kbyte", "bytes", 3.0, 3072.0),
            ("Mbyte / sec", "bytes_per_second", 1.0, 1_048_576.0),
            ("sec", "seconds", 3.0, 3.0),
            ("millisec", "seconds", 1100.0, 1.1),
            ("microsec", "seconds", 7.0, 0.000_007),
            ("nanosec", "seconds", 3.0, 0.000_000_003),
            ("hour", "seconds", 0.5, 1800.0),
            ("count / sec", "per_second", 2.0, 2.0),
            ("count / millisec", "per_second", 2.0, 2000.0),
            ("count / hour", "per_second", 7200.0, 2.0),
            ("byte / count", "bytes_per_count", 2.0, 2.0),
            ("millisec / count", "seconds_per_count", 500.0, 0.5),
        ] {
            let (found, scale) = base_unit(units.parse().unwrap());
            assert_eq!((found.as_str(), scale.apply(value)), (end, expected), "{units}");
        }
        let square = Units::new([2, 0, 0], [1, 0, 0]).unwrap();
        let (found, scale) = base_unit(square);
        assert_eq!((found.as_str(), scale.apply(1.0)), ("bytes2", 1_048_576.0));
    }

    #[test]
    fn physical_units_have_their_names() {
        for (unit, end, expected) in [
            (ExtraUnit::Celsius, "celsius", 2000.0),
            (ExtraUnit::Fahrenheit, "fahrenheit", 2000.0),
            (ExtraUnit::Kelvin, "kelvin", 2000.0),
            (ExtraUnit::Millivolt, "volts", 2.0),
            (ExtraUnit::Microampere, "amperes", 0.002),
            (ExtraUnit::Kilowatt, "watts", 2_000_000.0),
            (ExtraUnit::Watt, "watts", 2000.0),
        ] {
            let (found, scale) = base_unit(Units::extra(unit));
            assert_eq!((found.as_str(), scale.apply(2000.0)), (end, expected), "{unit:?}");
        }
    }

    #[test]
    fn scales_that_pcp_does_not_define_leave_names_and_values_alone() {
        let unknown = Units::new([0, 1, 0], [0, 7, 0]).unwrap();
        assert_eq!(base_unit(unknown), (String::new(), Scale::NONE));
        let unknown = Units::new([1, 0, 0], [9, 0, 0]).unwrap();
        assert_eq!(base_unit(unknown), (String::new(), Scale::NONE));
    }
}
