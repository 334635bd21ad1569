//! Times and intervals as they are written on a command line.
//!
//! An *interval* is a sum of numbers with units: `10`, `250ms`, `1h30m`,
//! `2 days 3`. A number without a unit counts seconds. Unlike PCP, where the
//! last `s` is taken for a plural and `10ms` means ten minutes, `ms` and `us`
//! are what they look like.
//!
//! A *moment* is one of
//!
//! | text | meaning |
//! |---|---|
//! | `2024-05-01T10:00:00Z`, `@2024-05-01 10:00` | a date; without an offset in the reporting time zone |
//! | `2024-05-01T10:00:00[Europe/Berlin]` | a date in the zone it names |
//! | `@1714557600.5` | seconds since 1970 UTC |
//! | `@10:30`, `@Tue 10:30:05.5`, `@May 1 4:00 pm 2024` | ctime form with parts left out (format of PCP's tools) |
//! | `30s`, `+30s` | so long after the start |
//! | `-5min` | so long before the end |
//! | `2 hours ago`, `now` | so long before the present |

mod ctime;

use std::time::Duration;

use jiff::civil;
use jiff::tz::TimeZone;
use pcp_types::Timestamp;

/// What is wrong with a time on the command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TimeError {
    /// Not a sum of numbers with units.
    #[error("\"{0}\" is not an interval such as 10, 250ms, 1h30m or \"2 days 3\"")]
    Interval(String),
    /// None of the forms of a moment.
    #[error(
        "\"{0}\" is not a time such as 2024-05-01T10:00:00Z, @1714557600.5, @10:30, \
         +30s (after the start), -30s (before the end) or \"2 hours ago\""
    )]
    Moment(String),
    /// A date that does not exist, or cannot be said in 64 bits.
    #[error("\"{0}\" is not a date that exists in the reporting time zone")]
    NoSuchDate(String),
    /// A date with a zone in brackets that do not go together.
    #[error("\"{0}\": the zone in brackets does not exist, or has no such date and offset")]
    NoSuchDateInZone(String),
}

/// What the parts that a moment leaves out refer to.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// Where `30s` counts from, and where missing parts of a date come from.
    pub(crate) start: Timestamp,
    /// Where `-30s` counts from.
    pub(crate) end: Timestamp,
    /// Where `30s ago` counts from.
    pub(crate) now: Timestamp,
    /// The zone of dates that name none.
    pub(crate) zone: TimeZone,
}

/// The units of intervals, longest first so that `min` is not read as `m`.
const UNITS: &[(&str, u64)] = &[
    ("nanosecond", 1),
    ("microsecond", 1_000),
    ("millisecond", 1_000_000),
    ("second", 1_000_000_000),
    ("minute", 60_000_000_000),
    ("hour", 3_600_000_000_000),
    ("day", 86_400_000_000_000),
    ("nsec", 1),
    ("usec", 1_000),
    ("msec", 1_000_000),
    ("sec", 1_000_000_000),
    ("min", 60_000_000_000),
    ("hr", 3_600_000_000_000),
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Reads an interval.
///
/// # Errors
///
/// [`TimeError::Interval`] for other text, an empty one, and more than 584
/// years.
pub(crate) fn interval(text: &str) -> Result<Duration, TimeError> {
    let wrong = || TimeError::Interval(text.to_owned());
    let mut rest = text.trim_start();
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut nanos = 0u64;
    while !rest.is_empty() {
        let (item, after) = interval_item(rest).ok_or_else(wrong)?;
        nanos = nanos.checked_add(item).ok_or_else(wrong)?;
        rest = after.trim_start();
    }
    Ok(Duration::from_nanos(nanos))
}

/// One `number [unit]` of an interval in nanoseconds, and the text after it.
fn interval_item(text: &str) -> Option<(u64, &str)> {
    let number_len = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(number_len);
    let rest = rest.trim_start();
    let word_len = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let (word, after) = rest.split_at(word_len);
    Some((scaled(number, unit_nanos(word)?)?, after))
}

fn unit_nanos(word: &str) -> Option<u64> {
    if word.is_empty() {
        return Some(1_000_000_000);
    }
    let word = word.to_ascii_lowercase();
    let exact = |word: &str| UNITS.iter().find(|(name, _)| *name == word).map(|(_, nanos)| *nanos);
    exact(&word).or_else(|| exact(word.strip_suffix('s')?))
}

/// A decimal number times `unit`, exact down to the nanosecond.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Eighteen places are enough to tell the nanoseconds of a day apart.
    let places = fraction.get(..18).unwrap_or(fraction);
    let part: u128 = if places.is_empty() { 0 } else { places.parse().ok()? };
    let part = part * u128::from(unit) / 10u128.pow(places.len() as u32);
    u64::try_from(u128::from(whole) * u128::from(unit) + part).ok()
}

/// Reads a moment of any form in the table of this module.
///
/// # Errors
///
/// [`TimeError`] for other text and dates that do not exist.
pub(crate) fn moment(text: &str, frame: &Frame) -> Result<Timestamp, TimeError> {
    let trimmed = text.trim();
    if let Some(date) = trimmed.strip_prefix('@') {
        return absolute(date.trim(), frame).ok_or_else(|| TimeError::Moment(text.to_owned()))?;
    }
    if let Some(after) = trimmed.strip_prefix('+') {
        return Ok(frame.start.saturating_add(relative(after, text)?));
    }
    if let Some(before) = trimmed.strip_prefix('-') {
        return Ok(frame.end.saturating_sub(relative(before, text)?));
    }
    if let Some(date) = iso(trimmed, &frame.zone) {
        return date;
    }
    if trimmed.eq_ignore_ascii_case("now") {
        return Ok(frame.now);
    }
    if let Some(before) = trimmed.strip_suffix(" ago") {
        return Ok(frame.now.saturating_sub(relative(before, text)?));
    }
    Ok(frame.start.saturating_add(relative(trimmed, text)?))
}

/// Reads a moment where a bare number means `SECONDS.NANOSECONDS` since 1970.
///
/// # Errors
///
/// As [`moment`].
pub(crate) fn stamp(text: &str, frame: &Frame) -> Result<Timestamp, TimeError> {
    epoch(text.trim()).map_or_else(|| moment(text, frame), Ok)
}

fn relative(interval_text: &str, whole: &str) -> Result<Duration, TimeError> {
    interval(interval_text).map_err(|_| TimeError::Moment(whole.to_owned()))
}

/// What may follow an `@`; `None` if the text has none of the forms.
fn absolute(text: &str, frame: &Frame) -> Option<Result<Timestamp, TimeError>> {
    if let Some(stamp) = epoch(text) {
        return Some(Ok(stamp));
    }
    iso(text, &frame.zone).or_else(|| ctime::parse(text, frame))
}

/// `SECONDS` or `SECONDS.FRACTION` since 1970 UTC.
fn epoch(text: &str) -> Option<Timestamp> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || !whole.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Timestamp::new(whole.parse().ok()?, format!("{fraction:0<9}").parse().ok()?).ok()
}

/// RFC 3339, its cousins without an offset, and both with a zone in brackets
/// (RFC 9557); `None` if it is no date at all.
fn iso(text: &str, zone: &TimeZone) -> Option<Result<Timestamp, TimeError>> {
    if let Some((date, _)) = text.split_once('[') {
        // The parsers below pass over the brackets, which change the moment.
        date.parse::<civil::DateTime>().ok()?;
        let zoned = text.parse::<jiff::Zoned>();
        let moment = zoned.map(|zoned| from_jiff(zoned.timestamp()));
        return Some(moment.map_err(|_| TimeError::NoSuchDateInZone(text.to_owned())));
    }
    if let Ok(instant) = text.parse::<jiff::Timestamp>() {
        return Some(Ok(from_jiff(instant)));
    }
    let civil = text.parse::<civil::DateTime>().ok()?;
    Some(in_zone(civil, zone, text))
}

fn in_zone(civil: civil::DateTime, zone: &TimeZone, text: &str) -> Result<Timestamp, TimeError> {
    let instant = zone.to_timestamp(civil).map_err(|_| TimeError::NoSuchDate(text.to_owned()))?;
    Ok(from_jiff(instant))
}

pub(crate) fn from_jiff(instant: jiff::Timestamp) -> Timestamp {
    Timestamp::from_nanos(instant.as_nanosecond())
}

/// A moment for jiff, which knows the years -9999 to 9999 only; `None` beyond.
pub(crate) fn to_jiff(stamp: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_nanosecond(stamp.as_nanos()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        // 2023-11-14 22:13:20 UTC, a Tuesday
        let start = Timestamp::new(1_700_000_000, 0).unwrap();
        let end = start.saturating_add(Duration::from_secs(86_400));
        let now = end.saturating_add(Duration::from_secs(3600));
        Frame { start, end, now, zone: TimeZone::UTC }
    }

    fn seconds(text: &str) -> f64 {
        interval(text).unwrap().as_secs_f64()
    }

    fn offset(text: &str) -> i128 {
        moment(text, &frame()).unwrap().nanos_since(frame().start) / 1_000_000
    }

    #[test]
    fn intervals_are_sums_of_numbers_with_units() {
        assert_eq!(interval("10").unwrap(), Duration::from_secs(10));
        assert_eq!(interval("1h30m").unwrap(), Duration::from_secs(5400));
        assert_eq!(interval("2 days 3").unwrap(), Duration::from_secs(172_803));
        assert_eq!(interval("1.5 Minutes").unwrap(), Duration::from_secs(90));
        assert_eq!(interval("0.25").unwrap(), Duration::from_millis(250));
        assert_eq!(interval("0.000000001").unwrap(), Duration::from_nanos(1));
        assert_eq!(interval(".5h").unwrap(), Duration::from_secs(1800));
    }

    #[test]
    fn ms_are_milliseconds_and_us_microseconds() {
        assert_eq!(interval("10ms").unwrap(), Duration::from_millis(10));
        assert_eq!(interval("10us").unwrap(), Duration::from_micros(10));
        assert_eq!(interval("10 msecs").unwrap(), Duration::from_millis(10));
        assert!((seconds("10mins") - 600.0).abs() < f64::EPSILON);
    }

    #[test]
    fn other_text_is_no_interval() {
        for text in ["", "  ", "s", "-5", "5 weeks", "1h-5", "1..5", "99999999999999999999", "1e3"]
        {
            assert!(interval(text).is_err(), "{text}");
        }
    }

    #[test]
    fn relative_moments_count_from_the_start_or_back_from_the_end() {
        assert_eq!(offset("30"), 30_000);
        assert_eq!(offset("+1min"), 60_000);
        assert_eq!(offset("-1h"), 82_800_000);
    }

    #[test]
    fn what_was_ago_counts_back_from_now() {
        assert_eq!(offset("now"), 90_000_000);
        assert_eq!(offset("2 hours ago"), 82_800_000);
        assert_eq!(offset("1h30m ago"), 84_600_000);
        assert!(moment("long ago", &frame()).is_err());
        assert!(moment("ago", &frame()).is_err());
    }

    #[test]
    fn absolute_moments_are_seconds_or_dates() {
        assert_eq!(offset("@1700000000.5"), 500);
        assert_eq!(offset("2023-11-14T22:13:21Z"), 1000);
        assert_eq!(offset("2023-11-14T23:13:21+01:00"), 1000);
        assert_eq!(offset("@2023-11-14 22:13:22"), 2000);
    }

    #[test]
    fn a_bare_number_is_relative_or_a_stamp_as_the_option_says() {
        let at = stamp("1700000001.000000007", &frame()).unwrap();
        assert_eq!(at, Timestamp::new(1_700_000_001, 7).unwrap());
        assert_eq!(stamp("+2", &frame()).unwrap().seconds(), 1_700_000_002);
    }

    #[test]
    fn dates_without_an_offset_are_read_in_the_reporting_zone() {
        let zone = TimeZone::posix("AEST-10").unwrap();
        let frame = Frame { zone, ..frame() };
        let at = moment("@2023-11-15 08:13:20", &frame).unwrap();
        assert_eq!(at, frame.start);
    }

    #[test]
    fn a_zone_in_brackets_holds_against_the_reporting_zone() {
        assert_eq!(offset("2023-11-14T23:13:21[Europe/Berlin]"), 1000);
        assert_eq!(offset("@2023-11-14 23:13:21+01:00[Europe/Berlin]"), 1000);
        for text in
            ["2023-11-14T23:13:21[Mars/Olympus]", "2023-11-14T23:13:21+05:00[Europe/Berlin]"]
        {
            let wrong = TimeError::NoSuchDateInZone(text.to_owned());
            assert_eq!(moment(text, &frame()), Err(wrong));
        }
    }

    #[test]
    fn other_text_is_no_moment() {
        for text in ["", "soon", "@", "@soon", "@25:00", "@10:61", "2023-13-01T00:00:00Z"] {
            assert!(moment(text, &frame()).is_err(), "{text}");
        }
    }
}
