//! Numbers as people write them: about three digits, and a unit that fits their size.
//!
//! A single number has the largest unit of which it is at least one:
//!
//! | value | text |
//! |---|---|
//! | 9961472 nanosec | `9.96 ms` |
//! | 1234567890 byte / sec | `1.23 GB/s` |
//! | 403 count / sec | `403 /s` |
//! | 0.25 without unit | `0.25` |
//!
//! The numbers of a column have one unit, [`ColumnUnit`], which its head names: the largest of which
//! half of the numbers, zeros apart, are at least one; a larger one where the greatest number would
//! have more than five digits. Numbers without unit and whole counts are not scaled if they have at
//! most five digits, nor is a number without unit that never changes: it may be a version or the
//! number of something. A counter without unit counts: its rates are shown as those of a count.
//!
//! Sizes of bytes are decimal.

use crate::{Conversion, Units};

/// Units of time, with their seconds.
const TIMES: [(f64, &str); 7] = [
    (1e-9, "ns"),
    (1e-6, "us"),
    (1e-3, "ms"),
    (1.0, "s"),
    (60.0, "min"),
    (3600.0, "h"),
    (86_400.0, "d"),
];
const SIZES: [(f64, &str); 6] =
    [(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"), (1e15, "PB")];
const SIZE_RATES: [(f64, &str); 6] =
    [(1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s"), (1e12, "TB/s"), (1e15, "PB/s")];
const COUNTS: [(f64, &str); 4] = [(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G")];
const COUNT_RATES: [(f64, &str); 4] = [(1.0, "/s"), (1e3, "k/s"), (1e6, "M/s"), (1e9, "G/s")];
const DIGITS: i32 = 3;
/// Numbers of a column from here on have a larger unit: more digits are hard to compare.
const MAX_IN_COLUMN: f64 = 1e5;

/// The units that numbers are shown in, with their sizes in a base unit, and the conversion to it.
struct UnitFamily {
    to_base: Conversion,
    units: &'static [(f64, &'static str)],
}

impl UnitFamily {
    /// Returns the units for these; `None` for a plain number and for units that have no others.
    fn find(units: Units) -> Option<Self> {
        let families: [(Units, &[(f64, &str)]); 6] = [
            (Units::seconds(), &TIMES),
            (Units::bytes(), &SIZES),
            (Units::bytes().per_second(), &SIZE_RATES),
            (Units::count().per_second(), &COUNT_RATES),
            (Units::NONE.per_second(), &COUNT_RATES),
            (Units::count(), &COUNTS),
        ];
        let mut families = families.into_iter();
        families.find_map(|(base, names)| {
            let to_base = units.conversion_to(base)?;
            Some(Self { to_base, units: names })
        })
    }

    /// Returns the largest unit that a number has at least one of, else the smallest.
    fn largest(&self, in_base: f64) -> (f64, &'static str) {
        let number = significant(in_base.abs());
        let largest = self.units.iter().rfind(|(size, _)| number / size >= 1.0 - 1e-9);
        largest.or(self.units.first()).copied().unwrap_or((1.0, ""))
    }
}

/// Returns the unit of an axis whose largest value is in other units: its size in these, and its
/// name. `None` for units that have no sizes.
pub fn axis_unit(largest: f64, units: Units) -> Option<(f64, String)> {
    for (base, sizes) in [
        (Units::seconds(), &TIMES[..]),
        (Units::bytes(), &SIZES[..]),
        (Units::bytes().per_second(), &SIZE_RATES[..]),
        (Units::count().per_second(), &COUNT_RATES[..1]),
        (Units::NONE.per_second(), &COUNT_RATES[..1]),
    ] {
        let Some(conversion) = units.conversion_to(base) else { continue };
        let largest = conversion.apply(largest.abs());
        let fitting = sizes.iter().rev().find(|(size, _)| *size <= largest);
        let (size, name) = fitting.or(sizes.first())?;
        return Some((size / conversion.apply(1.0), (*name).to_owned()));
    }
    None
}

/// Formats a number in these units.
pub fn scaled(value: f64, units: Units) -> String {
    let Some(family) = UnitFamily::find(units) else {
        return format!("{} {units}", rounded(value));
    };
    let in_base = family.to_base.apply(value);
    if in_base == 0.0 || !in_base.is_finite() {
        return rounded(in_base);
    }
    let (size, name) = family.largest(in_base);
    format!("{} {name}", rounded(in_base / size)).trim_end().to_owned()
}

/// The unit of the numbers in a column.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnUnit {
    conversion: Conversion,
    title: String,
    /// All numbers that it was chosen for are whole.
    is_whole: bool,
}

impl ColumnUnit {
    /// Chooses the unit for numbers in the units of their metric.
    pub fn choose(units: Units, numbers: &[f64]) -> Self {
        let mut sizes: Vec<f64> = numbers.iter().map(|number| number.abs()).collect();
        sizes.retain(|size| *size > 0.0 && size.is_finite());
        sizes.sort_by(f64::total_cmp);
        // Zeros are in the units of the metric.
        let median = sizes.get(sizes.len().saturating_sub(1) / 2).copied().unwrap_or(1.0);
        let greatest = sizes.last().copied().unwrap_or(1.0);
        let is_plain = units == Units::NONE;
        let is_whole = numbers.iter().all(|number| number.fract() == 0.0);
        let is_constant = is_whole && numbers.windows(2).all(|pair| pair.first() == pair.last());
        let is_scaled = !is_plain || (greatest >= MAX_IN_COLUMN && !is_constant);
        let Some(family) = UnitFamily::find(units).filter(|_| is_scaled) else {
            return Self::new(Conversion::times(1.0), units.to_string(), numbers);
        };
        let is_exact = is_whole && greatest < MAX_IN_COLUMN && units == Units::count();
        let typical = if is_exact { 1.0 } else { family.to_base.apply(median) };
        let (mut size, mut name) = family.largest(typical);
        for (larger, its_name) in family.units {
            if *larger > size && family.to_base.apply(greatest) / size >= MAX_IN_COLUMN {
                size = *larger;
                name = its_name;
            }
        }
        let title = match name {
            // Parts of a count, as a histogram of plain numbers has, are plain numbers.
            "" if is_plain || units.count_scale() != 0 => "",
            "" => "count",
            "/s" => "count/s",
            name => name,
        };
        Self::new(family.to_base.and_times(1.0 / size), title.to_owned(), numbers)
    }

    /// Returns the unit of a name for numbers that are in it.
    pub fn fixed(title: &str, numbers: &[f64]) -> Self {
        Self::new(Conversion::times(1.0), title.to_owned(), numbers)
    }

    fn new(conversion: Conversion, title: String, numbers: &[f64]) -> Self {
        let mut converted = numbers.iter().map(|number| conversion.apply(*number));
        let is_whole = converted.all(|number| number.fract() == 0.0);
        Self { conversion, title, is_whole }
    }

    /// Returns the name of the unit for the head of the column.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns whether a number has few enough digits in this unit.
    pub fn suits(&self, number: f64) -> bool {
        self.conversion.apply(number).abs() < MAX_IN_COLUMN
    }

    /// Formats a number of the metric.
    pub fn format(&self, number: f64) -> String {
        let number = self.conversion.apply(number);
        let size = significant(number.abs());
        let is_exact = number == 0.0 || (self.is_whole && number.fract() == 0.0);
        if !number.is_finite() || is_exact {
            return number.to_string();
        }
        let places = match size {
            100.0.. => 0,
            10.0.. => 1,
            1.0.. => 2,
            0.001.. => 3,
            _ => return rounded(number),
        };
        format!("{number:.places$}")
    }
}

/// Rounds a number to the digits that are shown.
fn significant(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let places = DIGITS - 1 - value.abs().log10().floor() as i32;
    if places > 300 {
        return value;
    }
    let factor = 10f64.powi(places);
    (value * factor).round() / factor
}

/// Formats a number with three digits, or all of an integer.
fn rounded(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    let value = significant(value);
    let digits = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    if digits < -6 {
        return format!("{value:.2e}");
    }
    let places = usize::try_from(DIGITS - 1 - digits).unwrap_or(0);
    let text = format!("{value:.places$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_the_unit_of_its_largest_value() {
        for (largest, units, expected) in [
            (40e6, Units::nanoseconds(), Some((1e6, "ms"))),
            (0.0, Units::nanoseconds(), Some((1.0, "ns"))),
            (5.0, Units::seconds(), Some((1.0, "s"))),
            (4_000_000.0, Units::kilobytes(), Some((1e9 / 1024.0, "GB"))),
            (2_000.0, Units::bytes().per_second(), Some((1e3, "kB/s"))),
            (2_000.0, Units::count().per_second(), Some((1.0, "/s"))),
            (2_000.0, Units::NONE.per_second(), Some((1.0, "/s"))),
            (7.0, Units::count(), None),
            (7.0, Units::NONE, None),
        ] {
            let expected = expected.map(|(size, name)| (size, name.to_owned()));
            assert_eq!(axis_unit(largest, units), expected, "{largest} {units}");
        }
    }

    #[test]
    fn numbers_have_three_digits_and_a_unit_of_their_size() {
        let time = Units::nanoseconds();
        let rate = Units::bytes().per_second();
        for (value, units, expected) in [
            (9_961_472.0, time, "9.96 ms"),
            (999.6, time, "1 us"),
            (999_600.0, Units::microseconds(), "1 s"),
            (90.0, Units::seconds(), "1.5 min"),
            (0.5, time, "0.5 ns"),
            (-2_500_000.0, time, "-2.5 ms"),
            (1_234_567_890.0, rate, "1.23 GB/s"),
            (547_000.0, rate, "547 kB/s"),
            (2.0, Units::megabytes(), "2.1 MB"),
            (403.0, Units::count().per_second(), "403 /s"),
            (12_345.0, Units::count().per_second(), "12.3 k/s"),
            (12_345.0, Units::NONE.per_second(), "12.3 k/s"),
            (7.0, Units::count(), "7"),
            (0.25, Units::NONE, "0.25"),
            (0.0, time, "0"),
            (0.0, Units::NONE, "0"),
            (f64::NAN, time, "NaN"),
            (1e-320, Units::NONE, "1.00e-320"),
        ] {
            assert_eq!(scaled(value, units), expected, "{value} {units}");
        }
    }

    #[test]
    fn the_numbers_of_a_column_have_one_unit() {
        let parts = Units::new([0, 0, 1], [0, 0, -6]).unwrap();
        let rate = Units::count().per_second();
        let plain_rate = Units::NONE.per_second();
        let cases: [(Units, &[f64], &str, &str); 14] = [
            (Units::nanoseconds(), &[1.11e6, 4.4e7, 0.0, 4e3], "ms", "1.11 44.0 0 0.004"),
            (Units::nanoseconds(), &[1.1e6, 1.2e9, 1.0e6], "ms", "1.10 1200 1.00"),
            (Units::nanoseconds(), &[1.1e6, 2.0e11], "s", "0.001 200"),
            (Units::bytes().per_second(), &[2_868_514.6, 4_280_399.0], "MB/s", "2.87 4.28"),
            (rate, &[53.0, 106.0, 5270.0], "count/s", "53 106 5270"),
            (rate, &[53.0, 106.4], "count/s", "53.0 106"),
            (plain_rate, &[53.0, 106.4], "count/s", "53.0 106"),
            (plain_rate, &[53_000.0, 106_400.0], "k/s", "53.0 106"),
            (Units::count(), &[99_999.0], "count", "99999"),
            (Units::count(), &[1_234_567.0], "M", "1.23"),
            (parts, &[4_500_000.0, 100_000.0], "", "4.50 0.100"),
            (Units::NONE, &[1_234_567.0, 1_300_000.0], "M", "1.23 1.30"),
            (Units::NONE, &[1_234_567.0, 1_234_567.0], "", "1234567 1234567"),
            (Units::NONE, &[12_345.0, 0.5], "", "12345 0.500"),
        ];
        for (units, numbers, title, expected) in cases {
            let unit = ColumnUnit::choose(units, numbers);
            assert_eq!(unit.title(), title, "{numbers:?} {units}");
            let texts: Vec<String> = numbers.iter().map(|number| unit.format(*number)).collect();
            assert_eq!(texts.join(" "), expected, "{units}");
        }
        let unit = ColumnUnit::choose(Units::milliseconds(), &[0.0]);
        assert_eq!(unit.title(), "ms", "nothing says more than the metric");
        assert!(unit.suits(99_999.0) && !unit.suits(1e6));
    }
}
