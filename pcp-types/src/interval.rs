//! Lengths of time as text, by the grammar of PCP's `pmParseInterval(3)`.

use std::time::Duration;

use crate::{Error, decimal};

const SECOND: u64 = 1_000_000_000;

/// Names of units, in nanoseconds. A plural `s` may follow each.
const UNITS: [(&str, u64); 22] = [
    ("nanosecond", 1),
    ("nsec", 1),
    ("ns", 1),
    ("microsecond", 1_000),
    ("usec", 1_000),
    ("us", 1_000),
    ("millisecond", 1_000_000),
    ("msec", 1_000_000),
    ("ms", 1_000_000),
    ("second", SECOND),
    ("sec", SECOND),
    ("s", SECOND),
    ("minute", 60 * SECOND),
    ("min", 60 * SECOND),
    ("m", 60 * SECOND),
    ("hour", 3_600 * SECOND),
    ("hr", 3_600 * SECOND),
    ("h", 3_600 * SECOND),
    ("day", 86_400 * SECOND),
    ("d", 86_400 * SECOND),
    ("week", 7 * 86_400 * SECOND),
    ("w", 7 * 86_400 * SECOND),
];

/// Reads an interval: a sum of decimal numbers with units, such as `10`,
/// `250ms`, `1h30m` or `2 days 3`. A number without a unit counts seconds; the
/// case of units does not matter, nor does white space.
///
/// Different from PCP: there the last `s` always marks a plural, so `10ms`
/// means ten minutes. Here `ms`, `us` and `ns` are units, and so are weeks.
///
/// ```
/// use std::time::Duration;
/// use pcp_types::parse_interval;
///
/// assert_eq!(parse_interval("5min"), Ok(Duration::from_secs(300)));
/// assert_eq!(parse_interval("1.5 hours"), Ok(Duration::from_secs(5400)));
/// ```
///
/// # Errors
///
/// [`Error::Interval`] for other text, and for more than 2⁶⁴ - 1 seconds.
pub fn parse_interval(text: &str) -> Result<Duration, Error> {
    let invalid = || Error::Interval(text.to_owned());
    let mut remaining = text.trim_start();
    if remaining.is_empty() {
        return Err(invalid());
    }
    let mut sum = Duration::ZERO;
    while !remaining.is_empty() {
        let (term, after) = term(remaining).ok_or_else(invalid)?;
        sum = sum.checked_add(term).ok_or_else(invalid)?;
        remaining = after.trim_start();
    }
    Ok(sum)
}

/// Returns an interval as a whole number of the longest unit that divides it: `90s`, `1m`, `14d`.
/// [`parse_interval`] reads it.
pub fn format_interval(interval: Duration) -> String {
    const SHORT: [(&str, u128); 7] = [
        ("d", 86_400 * SECOND as u128),
        ("h", 3_600 * SECOND as u128),
        ("m", 60 * SECOND as u128),
        ("s", SECOND as u128),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    let nanos = interval.as_nanos();
    for (unit, length) in SHORT {
        if nanos > 0 && nanos.is_multiple_of(length) {
            return format!("{}{unit}", nanos / length);
        }
    }
    "0s".to_owned()
}

/// Returns one number with its unit, and the text after it.
fn term(text: &str) -> Option<(Duration, &str)> {
    let (number, after) = decimal::split(text);
    let after = after.trim_start();
    let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
    let (word, after) = after.split_at(end);
    let nanos = decimal::times(number, unit(word)?)?;
    let second = u128::from(SECOND);
    let duration = Duration::new(u64::try_from(nanos / second).ok()?, (nanos % second) as u32);
    Some((duration, after))
}

fn unit(word: &str) -> Option<u64> {
    if word.is_empty() {
        return Some(SECOND);
    }
    let find = |word: &str| UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    let (_, nanos) = find(word).or_else(|| find(word.strip_suffix(['s', 'S'])?))?;
    Some(*nanos)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn interval_is_formatted_in_the_longest_unit_that_divides_it() {
        for (millis, text) in [
            (1_209_600_000, "14d"),
            (93_600_000, "26h"),
            (5_400_000, "90m"),
            (61_000, "61s"),
            (1_500, "1500ms"),
            (0, "0s"),
        ] {
            let interval = Duration::from_millis(millis);
            assert_eq!(format_interval(interval), text);
            assert_eq!(parse_interval(text), Ok(interval));
        }
        assert_eq!(format_interval(Duration::from_nanos(1_001)), "1001ns");
    }

    #[test]
    fn an_interval_is_a_sum_of_numbers_with_units() {
        for (text, millis) in [
            ("10", 10_000),
            ("3", 3_000),
            ("0.25", 250),
            ("100ms", 100),
            ("2s", 2_000),
            ("1m", 60_000),
            ("5min", 300_000),
            ("10mins", 600_000),
            ("1.5h", 5_400_000),
            (".5h", 1_800_000),
            ("1.h", 3_600_000),
            ("1d", 86_400_000),
            ("1h30m", 5_400_000),
            ("2w", 1_209_600_000),
            ("2 days 3", 172_803_000),
            ("1.5 Minutes", 90_000),
            ("10 MSECS", 10),
            (" 1 hr ", 3_600_000),
        ] {
            assert_eq!(parse_interval(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn small_units_and_small_parts_are_exact() {
        assert_eq!(parse_interval("10us"), Ok(Duration::from_micros(10)));
        assert_eq!(parse_interval("7ns"), Ok(Duration::from_nanos(7)));
        assert_eq!(parse_interval("0.000000001"), Ok(Duration::from_nanos(1)));
    }

    #[test]
    fn other_text_is_no_interval() {
        for text in ["", "  ", "s", ".", ".s", "-5", "5 years", "1h-5", "1..5", "1.2.3s", "1e3"] {
            assert_eq!(parse_interval(text), Err(Error::Interval(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn the_longest_interval_is_that_of_a_duration() {
        assert_eq!(parse_interval("18446744073709551615"), Ok(Duration::from_secs(u64::MAX)));
        for text in ["18446744073709551616", "18446744073709551615 1", "18446744073709551615m"] {
            assert!(parse_interval(text).is_err(), "{text}");
        }
    }

    proptest! {
        /// forall durations: written out in units, the same duration is read
        #[test]
        fn what_is_written_is_read(days in 0..9_999_u64, millis in 0..86_400_000_u64, nanos in 0..999_999_u64) {
            let expected = Duration::from_secs(days * 86_400)
                + Duration::from_millis(millis)
                + Duration::from_nanos(nanos);
            let text = format!("{days}d{millis}ms {nanos} nsec");
            prop_assert_eq!(parse_interval(&text), Ok(expected));
            let seconds = format!("{}.{:09}", expected.as_secs(), expected.subsec_nanos());
            prop_assert_eq!(parse_interval(&seconds), Ok(expected));
        }

        /// forall text near the grammar: no panic
        #[test]
        fn hostile_text_does_not_panic(text in "[0-9. smhdnu\u{e9}-]{0,24}") {
            let _ = parse_interval(&text);
        }
    }
}
