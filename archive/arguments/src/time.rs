//! Times on the command line.
//!
//! [`parse_time`] reads a time, with [`parse_interval`] for intervals. A time is
//! one of
//!
//! | text | meaning |
//! |---|---|
//! | `2024-05-01T10:00:00Z`, `@2024-05-01 10:00` | a date; without an offset, in the reporting time zone |
//! | `2024/5/1 10:00` | the same, as in PCP's tools |
//! | `2024-05-01T10:00:00[Europe/Berlin]` | a date in the zone in brackets |
//! | `@1714557600.5` | seconds since 1970 UTC |
//! | `@10:30`, `@Tue 10:30:05.5`, `@May 1 4:00 pm 2024` | ctime format with missing parts, as in PCP's tools |
//! | `30s`, `+30s` | after the start |
//! | `-5min` | before the end |
//! | `2 hours ago`, `now` | before now |
//! | `18:05`, `18:05:23`, `6:05pm` | the last such time in the archive, else the nearest |
//! | `yesterday 18:05`, `last monday`, `Nov 22` | as of GNU date, from now |

mod ctime;
mod words;

use std::ops::RangeInclusive;
use std::time::Duration;

use jiff::civil;
use jiff::tz::TimeZone;
use pcp_archive::Timestamp;
use pcp_types::parse_interval;

use crate::ArgumentError;

/// An error of a time on the command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// None of the forms of a time.
    #[error(
        "\"{0}\" is not a time such as 18:05, 2024-05-01T18:05:00Z, \"yesterday 18:05\", \
         \"2 hours ago\", +30s (after the start), -30s (before the end) or @1714557600.5"
    )]
    Time(String),
    /// A date that does not exist.
    #[error("\"{0}\" does not exist in the reporting time zone")]
    NoSuchDate(String),
    /// A date that does not exist in the zone in brackets.
    #[error("\"{0}\": the zone in brackets does not exist, or has no such date and offset")]
    NoSuchDateInZone(String),
}

/// Formats a date and time such as `2023-11-14 22:13:20.123456789 UTC`; in seconds outside the years
/// that jiff has.
pub fn long(timestamp: Timestamp, zone: &TimeZone) -> String {
    match to_jiff(timestamp) {
        Some(instant) => {
            instant.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S%.9f %Z").to_string()
        }
        None => timestamp.to_string(),
    }
}

impl From<TimeError> for ArgumentError {
    fn from(error: TimeError) -> Self {
        Self::Usage(error.to_string())
    }
}

/// The times and the zone that relative and incomplete times refer to.
#[derive(Debug, Clone)]
pub struct Frame {
    /// `30s` is after this; missing parts of a date are those of this.
    pub start: Timestamp,
    /// `-30s` is before this.
    pub end: Timestamp,
    /// `30s ago` is before this.
    pub now: Timestamp,
    /// The zone of dates without one.
    pub zone: TimeZone,
}

/// Reads a time of any form in the table of this module.
///
/// # Errors
///
/// [`TimeError`] for other text, and for dates that do not exist.
pub fn parse_time(text: &str, frame: &Frame) -> Result<Timestamp, TimeError> {
    let trimmed = text.trim();
    if let Some(date) = trimmed.strip_prefix('@') {
        return absolute(date.trim(), frame).ok_or_else(|| TimeError::Time(text.to_owned()))?;
    }
    if let Some(after) = trimmed.strip_prefix('+') {
        return Ok(frame.start.saturating_add(relative(after, text)?));
    }
    if let Some(before) = trimmed.strip_prefix('-') {
        return Ok(frame.end.saturating_sub(relative(before, text)?));
    }
    if let Some(date) = parse_iso(trimmed, &frame.zone) {
        return date;
    }
    if trimmed.eq_ignore_ascii_case("now") {
        return Ok(frame.now);
    }
    if let Some(before) = trimmed.strip_suffix(" ago") {
        return Ok(frame.now.saturating_sub(relative(before, text)?));
    }
    if let Ok(after) = parse_interval(trimmed) {
        return Ok(frame.start.saturating_add(after));
    }
    words::parse(trimmed, frame).ok_or_else(|| TimeError::Time(text.to_owned()))?
}

/// Parses a time as [`parse_time`], but takes a bare number as `SECONDS.NANOSECONDS` since 1970.
///
/// # Errors
///
/// Those of [`parse_time`].
pub fn parse_timestamp(text: &str, frame: &Frame) -> Result<Timestamp, TimeError> {
    parse_epoch(text.trim()).map_or_else(|| parse_time(text, frame), Ok)
}

fn relative(interval_text: &str, whole: &str) -> Result<Duration, TimeError> {
    parse_interval(interval_text).map_err(|_| TimeError::Time(whole.to_owned()))
}

/// Parses a time after `@`; `None` for other text.
fn absolute(text: &str, frame: &Frame) -> Option<Result<Timestamp, TimeError>> {
    if let Some(timestamp) = parse_epoch(text) {
        return Some(Ok(timestamp));
    }
    parse_iso(text, &frame.zone).or_else(|| ctime::parse(text, frame))
}

/// Parses `SECONDS` or `SECONDS.FRACTION` since 1970 UTC.
fn parse_epoch(text: &str) -> Option<Timestamp> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || !whole.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Timestamp::new(whole.parse().ok()?, format!("{fraction:0<9}").parse().ok()?).ok()
}

/// Converts `2024/5/1 10:00` to `2024-05-01 10:00`; `None` for other text.
fn with_dashes(text: &str) -> Option<String> {
    let end = text.find(['T', 't', ' ']).unwrap_or(text.len());
    let (date, time) = text.split_at(end);
    let mut parts = date.split('/');
    let (Some(year), Some(month), Some(day), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let is_number = |part: &str, digits: RangeInclusive<usize>| {
        digits.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_date = is_number(year, 4..=4) && is_number(month, 1..=2) && is_number(day, 1..=2);
    is_date.then(|| format!("{year}-{month:0>2}-{day:0>2}{time}"))
}

/// Parses RFC 3339 with or without an offset, also with a zone in brackets (RFC 9557); `None` for
/// other text. The parts of the date may be separated by slashes.
fn parse_iso(text: &str, zone: &TimeZone) -> Option<Result<Timestamp, TimeError>> {
    let with_dashes = with_dashes(text);
    let text = with_dashes.as_deref().unwrap_or(text);
    if let Some((date, _)) = text.split_once('[') {
        // The parsers below ignore the brackets.
        date.parse::<civil::DateTime>().ok()?;
        let zoned = text.parse::<jiff::Zoned>();
        let timestamp = zoned.map(|zoned| from_jiff(zoned.timestamp()));
        return Some(timestamp.map_err(|_| TimeError::NoSuchDateInZone(text.to_owned())));
    }
    if let Ok(instant) = text.parse::<jiff::Timestamp>() {
        return Some(Ok(from_jiff(instant)));
    }
    let civil = text.parse::<civil::DateTime>().ok()?;
    Some(time_in_zone(civil, zone, text))
}

/// Converts a local time. One that occurs twice, at the end of daylight saving time, is the later
/// of the two, as in PCP (`__pmMktime` in `src/libpcp/src/tz.c`).
fn time_in_zone(
    civil: civil::DateTime,
    zone: &TimeZone,
    text: &str,
) -> Result<Timestamp, TimeError> {
    let instant = zone.to_ambiguous_timestamp(civil).later();
    Ok(from_jiff(instant.map_err(|_| TimeError::NoSuchDate(text.to_owned()))?))
}

fn from_jiff(instant: jiff::Timestamp) -> Timestamp {
    Timestamp::from_nanos(instant.as_nanosecond())
}

/// Converts a time for jiff, which has the years -9999 to 9999; `None` for others.
pub fn to_jiff(timestamp: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_nanosecond(timestamp.as_nanos()).ok()
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

    fn offset(text: &str) -> i128 {
        parse_time(text, &frame()).unwrap().nanos_since(frame().start) / 1_000_000
    }

    #[test]
    fn relative_times_are_after_the_start_or_before_the_end() {
        assert_eq!(offset("30"), 30_000);
        assert_eq!(offset("+1min"), 60_000);
        assert_eq!(offset("-1h"), 82_800_000);
    }

    #[test]
    fn a_local_time_that_occurs_twice_is_the_later_one() {
        // From UTC+11 back to UTC+10 on 2024-04-07 at 03:00.
        let zone = TimeZone::posix("AEST-10AEDT,M10.1.0,M4.1.0/3").unwrap();
        let frame = Frame { zone, ..frame() };
        let seconds = |text| parse_time(text, &frame).unwrap().seconds();
        for text in ["2024-04-07 02:30:00", "@2024-04-07T02:30", "@Apr 7 02:30:00 2024"] {
            assert_eq!(seconds(text), 1_712_421_000, "{text}");
        }
        // Before and after it there is one.
        assert_eq!(seconds("2024-04-07 01:30:00"), 1_712_413_800);
        assert_eq!(seconds("2024-04-07 03:30:00"), 1_712_424_600);
        // A time that is skipped is one after the step.
        assert_eq!(seconds("2024-10-06 02:30:00"), 1_728_145_800);
    }

    #[test]
    fn ago_is_before_now() {
        assert_eq!(offset("now"), 90_000_000);
        assert_eq!(offset("2 hours ago"), 82_800_000);
        assert_eq!(offset("1h30m ago"), 84_600_000);
        assert!(parse_time("long ago", &frame()).is_err());
        assert!(parse_time("ago", &frame()).is_err());
    }

    #[test]
    fn absolute_times_are_seconds_or_dates() {
        assert_eq!(offset("@1700000000.5"), 500);
        assert_eq!(offset("2023-11-14T22:13:21Z"), 1000);
        assert_eq!(offset("2023-11-14T23:13:21+01:00"), 1000);
        assert_eq!(offset("@2023-11-14 22:13:22"), 2000);
        assert_eq!(offset("2023/11/14 22:13:21"), 1000);
        assert_eq!(offset("@2023/11/14T22:13:22.5"), 2500);
        assert_eq!(offset("2023/11/15"), 6_400_000);
        assert_eq!(offset("2023/12/1 00:00"), 1_388_800_000);
        for text in ["14/11/2023", "23/11/14", "2023/11", "2023/11/14/1", "2023/111/1", "2023//1"] {
            assert!(parse_time(text, &frame()).is_err(), "{text}");
        }
    }

    #[test]
    fn bare_number_is_relative_or_since_1970_by_option() {
        let timestamp = parse_timestamp("1700000001.000000007", &frame()).unwrap();
        assert_eq!(timestamp, Timestamp::new(1_700_000_001, 7).unwrap());
        assert_eq!(parse_timestamp("+2", &frame()).unwrap().seconds(), 1_700_000_002);
    }

    #[test]
    fn dates_without_an_offset_are_read_in_the_reporting_zone() {
        let zone = TimeZone::posix("AEST-10").unwrap();
        let frame = Frame { zone, ..frame() };
        let timestamp = parse_time("@2023-11-15 08:13:20", &frame).unwrap();
        assert_eq!(timestamp, frame.start);
    }

    #[test]
    fn a_zone_in_brackets_overrides_the_reporting_zone() {
        assert_eq!(offset("2023-11-14T23:13:21[Europe/Berlin]"), 1000);
        assert_eq!(offset("@2023-11-14 23:13:21+01:00[Europe/Berlin]"), 1000);
        for text in
            ["2023-11-14T23:13:21[Mars/Olympus]", "2023-11-14T23:13:21+05:00[Europe/Berlin]"]
        {
            let wrong = TimeError::NoSuchDateInZone(text.to_owned());
            assert_eq!(parse_time(text, &frame()), Err(wrong));
        }
    }

    #[test]
    fn other_text_is_rejected() {
        for text in ["", "soon", "@", "@soon", "@25:00", "@10:61", "2023-13-01T00:00:00Z"] {
            assert!(parse_time(text, &frame()).is_err(), "{text}");
        }
    }
}
