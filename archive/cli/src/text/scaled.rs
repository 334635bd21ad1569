//! Numbers as people write them: three digits, and the unit of a size that fits.
//!
//! | value | text |
//! |---|---|
//! | 9961472 nanosec | `9.96 ms` |
//! | 1234567890 byte / sec | `1.23 GB/s` |
//! | 403 count / sec | `403 /s` |
//! | 0.25 without unit | `0.25` |
//!
//! Sizes of bytes are decimal.

use pcp_types::Units;

/// Units of time, with their seconds.
const TIMES: [(f64, &str); 7] = [
    (1e-9, " ns"),
    (1e-6, " us"),
    (1e-3, " ms"),
    (1.0, " s"),
    (60.0, " min"),
    (3600.0, " h"),
    (86_400.0, " d"),
];
const SIZES: [(f64, &str); 6] =
    [(1.0, " B"), (1e3, " kB"), (1e6, " MB"), (1e9, " GB"), (1e12, " TB"), (1e15, " PB")];
const COUNTS: [(f64, &str); 4] = [(1.0, ""), (1e3, " k"), (1e6, " M"), (1e9, " G")];
/// Significant digits.
const DIGITS: i32 = 3;

/// Formats a number in these units.
pub(crate) fn scaled(value: f64, units: Units) -> String {
    let in_units = |base: Units| Some(units.conversion_to(base)?.apply(value));
    if let Some(seconds) = in_units(Units::seconds()) {
        return with_unit(seconds, &TIMES);
    }
    if let Some(bytes) = in_units(Units::bytes()) {
        return with_unit(bytes, &SIZES);
    }
    if let Some(bytes) = in_units(Units::bytes().per_second()) {
        return with_unit(bytes, &SIZES) + "/s";
    }
    if let Some(count) = in_units(Units::count().per_second()) {
        let text = with_unit(count, &COUNTS);
        return if text.contains(' ') { text + "/s" } else { text + " /s" };
    }
    if let Some(count) = in_units(Units::count()) {
        return with_unit(count, &COUNTS);
    }
    match units.to_string() {
        text if text.is_empty() => with_unit(value, &COUNTS),
        text => format!("{} {text}", rounded(value)),
    }
}

/// Returns the unit of an axis whose largest value is in other units: its size in these, and its
/// name. `None` for units that have no sizes.
pub(crate) fn axis_unit(largest: f64, units: Units) -> Option<(f64, String)> {
    for (base, sizes, suffix) in [
        (Units::seconds(), &TIMES[..], ""),
        (Units::bytes(), &SIZES[..], ""),
        (Units::bytes().per_second(), &SIZES[..], "/s"),
        (Units::count().per_second(), &[(1.0, "")], "/s"),
    ] {
        let Some(conversion) = units.conversion_to(base) else { continue };
        let largest = conversion.apply(largest.abs());
        let fitting = sizes.iter().rev().find(|(size, _)| *size <= largest);
        let (size, name) = fitting.or(sizes.first())?;
        return Some((size / conversion.apply(1.0), format!("{}{suffix}", name.trim_start())));
    }
    None
}

/// Formats a number with the largest unit that it has at least one of.
fn with_unit(value: f64, units: &[(f64, &str)]) -> String {
    if value == 0.0 || !value.is_finite() {
        return rounded(value);
    }
    let rounded_size = significant(value.abs());
    let fitting = units.iter().rev().find(|(size, _)| rounded_size / size >= 1.0 - 1e-9);
    let largest = fitting.or(units.first());
    largest.map_or_else(|| rounded(value), |(size, name)| rounded(value / size) + name)
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
}
