//! Numbers of bytes as text.

use crate::{Error, decimal};

/// Limit on a size: an exabyte. Sums of a few sizes fit 64 bits.
const MAX: u128 = 1_000_000_000_000_000_000;

/// Names of units, in bytes. The case of names does not matter.
const UNITS: [(&str, u64); 14] = [
    ("", 1),
    ("b", 1),
    ("k", 1_000),
    ("kb", 1_000),
    ("kib", 1 << 10),
    ("m", 1_000_000),
    ("mb", 1_000_000),
    ("mib", 1 << 20),
    ("g", 1_000_000_000),
    ("gb", 1_000_000_000),
    ("gib", 1 << 30),
    ("t", 1_000_000_000_000),
    ("tb", 1_000_000_000_000),
    ("tib", 1 << 40),
];

/// Reads a number of bytes: a decimal number with a unit, such as `700`, `64MB`, `1.5 GB` or
/// `512KiB`.
///
/// `k`, `M`, `G` and `T`, also with a `B`, are powers of 1000; `KiB`, `MiB`, `GiB` and `TiB` are
/// powers of 1024. The case of units does not matter. A part of a byte is cut off.
///
/// ```
/// use pcp_types::parse_size;
///
/// assert_eq!(parse_size("500K"), Ok(500_000));
/// assert_eq!(parse_size("512KiB"), Ok(524_288));
/// ```
///
/// # Errors
///
/// [`Error::Size`] for other text, for less than a byte, and for more than an exabyte.
pub fn parse_size(text: &str) -> Result<u64, Error> {
    let invalid = || Error::Size(text.to_owned());
    let (number, unit) = decimal::split(text.trim());
    let unit = unit.trim_start();
    let known = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let (_, unit) = known.ok_or_else(invalid)?;
    let bytes = decimal::times(number, *unit).ok_or_else(invalid)?;
    if !(1..=MAX).contains(&bytes) {
        return Err(invalid());
    }
    u64::try_from(bytes).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_size_has_decimal_and_binary_units() {
        for (text, bytes) in [
            ("1", 1),
            ("700B", 700),
            ("500K", 500_000),
            ("20M", 20_000_000),
            ("2 g", 2_000_000_000),
            ("100MB", 100_000_000),
            ("64mib", 64 << 20),
            ("1.5GB", 1_500_000_000),
            (" 2KiB ", 2048),
            ("3TiB", 3 << 40),
            ("1.5", 1),
            ("0.001k", 1),
            ("1000000TB", 1_000_000_000_000_000_000),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn other_text_is_no_size() {
        for text in ["", "MB", "-1MB", "1e3", "1.2.3kB", "ten", "1 M B", "1PB", "1kBB"] {
            assert_eq!(parse_size(text), Err(Error::Size(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn less_than_a_byte_and_more_than_an_exabyte_are_refused() {
        for text in ["0", "0MB", "0.5", "0.0009k", "1000001TB", "99999999999999999999"] {
            assert_eq!(parse_size(text), Err(Error::Size(text.to_owned())), "{text}");
        }
        let text = parse_size("0").unwrap_err().to_string();
        assert!(text.contains("\"0\"") && text.contains("512KiB"), "{text}");
    }

    proptest! {
        /// forall text near the grammar: no panic
        #[test]
        fn hostile_text_does_not_panic(text in "[0-9. kKmMgGtTiIbB\u{e9}-]{0,24}") {
            let _ = parse_size(&text);
        }
    }
}
