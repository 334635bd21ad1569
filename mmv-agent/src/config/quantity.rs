//! Lengths of time and numbers of bytes, as people write them.

use std::time::Duration;

use mmv_archive::Version;
use serde::de::{Deserialize, Deserializer, Error as _};

/// A text that is no quantity of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text is not a number followed by a unit.
    #[error("\"{text}\" is not a number with a unit: {units}")]
    Syntax {
        /// The text given.
        text: String,
        /// The units there are.
        units: &'static str,
    },
    /// The number is too small or too large.
    #[error("\"{text}\" is not between {least} and {most}")]
    Range {
        /// The text given.
        text: String,
        /// The least that is allowed.
        least: &'static str,
        /// The most that is allowed.
        most: &'static str,
    },
}

/// Reads a length of time: `100ms`, `2s`, `1m`, `1.5h`, `1d`; a number alone
/// is seconds.
///
/// # Errors
///
/// [`QuantityError::Syntax`] for other text, [`QuantityError::Range`] for
/// less than a millisecond or more than a million days.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    const UNITS: &[(&str, f64)] =
        &[("ms", 0.001), ("", 1.0), ("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0)];
    let seconds = parse(text, UNITS, "ms, s, m, h or d")?;
    if !(0.001..=86_400.0 * 1e6).contains(&seconds) {
        let text = text.to_owned();
        return Err(QuantityError::Range { text, least: "1ms", most: "1000000d" });
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Reads a number of bytes: `64MB`, `1.5GB`, `512KiB`; a number alone is bytes.
///
/// # Errors
///
/// [`QuantityError::Syntax`] for other text, [`QuantityError::Range`] for
/// less than a byte or more than an exabyte.
pub fn parse_size(text: &str) -> Result<u64, QuantityError> {
    const UNITS: &[(&str, f64)] = &[
        ("", 1.0),
        ("B", 1.0),
        ("KB", 1e3),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("KiB", 1024.0),
        ("MiB", 1024.0 * 1024.0),
        ("GiB", 1024.0 * 1024.0 * 1024.0),
        ("TiB", 1024.0 * 1024.0 * 1024.0 * 1024.0),
    ];
    let bytes = parse(text, UNITS, "kB, MB, GB, TB, KiB, MiB, GiB or TiB")?;
    if !(1.0..=1e18).contains(&bytes) {
        return Err(QuantityError::Range { text: text.to_owned(), least: "1", most: "1000000TB" });
    }
    Ok(bytes as u64)
}

fn parse(text: &str, known: &[(&str, f64)], units: &'static str) -> Result<f64, QuantityError> {
    let syntax = || QuantityError::Syntax { text: text.to_owned(), units };
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let each = known.iter().find(|(name, _)| *name == unit).ok_or_else(syntax)?.1;
    Ok(number.parse::<f64>().map_err(|_| syntax())? * each)
}

/// A length of time in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Length(pub(super) Duration);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_duration(&text).map(Self).map_err(D::Error::custom)
    }
}

/// The version of archives: `2` or `3`.
///
/// # Errors
///
/// For another text, in words.
pub fn archive_version(text: &str) -> Result<Version, String> {
    match text {
        "2" => Ok(Version::V2),
        "3" => Ok(Version::V3),
        _ => Err("archives have version 2 or 3".to_owned()),
    }
}

/// A number of bytes in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size(pub(super) u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_size(&text).map(Self).map_err(D::Error::custom)
    }
}

/// A setting that may be `"none"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OrNone<T>(pub(super) Option<T>);

impl<'de> Deserialize<'de> for OrNone<Duration> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        or_none(deserializer, parse_duration)
    }
}

impl<'de> Deserialize<'de> for OrNone<u64> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        or_none(deserializer, parse_size)
    }
}

fn or_none<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl Fn(&str) -> Result<T, QuantityError>,
) -> Result<OrNone<T>, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "none" => Ok(OrNone(None)),
        text => parse(text).map(|value| OrNone(Some(value))).map_err(D::Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_with_their_unit() {
        for (text, millis) in [
            ("100ms", 100),
            ("500ms", 500),
            ("2s", 2_000),
            ("1m", 60_000),
            ("1.5h", 5_400_000),
            ("1d", 86_400_000),
            ("3", 3_000),
            ("0.25", 250),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_with_their_unit() {
        for (text, bytes) in [
            ("1", 1),
            ("700B", 700),
            ("64MB", 64_000_000),
            ("1.5GB", 1_500_000_000),
            ("2KiB", 2048),
            ("3TiB", 3 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn text_without_number_or_with_another_unit_is_no_quantity() {
        for text in ["", "s", "1 s", "-1s", "1us", "1.2.3s", "ten", "1e3s"] {
            assert!(matches!(parse_duration(text), Err(QuantityError::Syntax { .. })), "{text}");
        }
        for text in ["", "MB", "1 MB", "-1MB", "1mb", "1M", "ten"] {
            assert!(matches!(parse_size(text), Err(QuantityError::Syntax { .. })), "{text}");
        }
    }

    #[test]
    fn nothing_and_for_ever_are_out_of_range() {
        for text in ["0", "0s", "0.5ms", "99999999999d"] {
            assert!(matches!(parse_duration(text), Err(QuantityError::Range { .. })), "{text}");
        }
        for text in ["0", "0.5", "9999999TB"] {
            assert!(matches!(parse_size(text), Err(QuantityError::Range { .. })), "{text}");
        }
    }
}
