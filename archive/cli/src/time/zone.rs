//! The time zone of a command, and times as text in it.

use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};

use clap::Args;
use jiff::tz::TimeZone;
use mmv_arguments::zone::{at_zero, local, named};
use pcp_archive::{ArchiveLabel, Timestamp};

use crate::Failure;
use crate::text::number::padded;
use crate::text::{shown, warn};
use crate::time::to_jiff;

/// The time zone in which times are read and printed.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ZoneOptions {
    /// Use the time zone in the label of the archive instead of the local one
    #[arg(short = 'z', long = "hostzone", conflicts_with = "timezone")]
    host_zone: bool,

    /// Use this time zone: a name such as Europe/Berlin or UTC, or a POSIX rule such as EST5EDT
    /// or AEST-10
    #[arg(short = 'Z', long = "timezone", value_name = "ZONE")]
    timezone: Option<String>,
}

/// A time zone that caches the last offset.
#[derive(Debug)]
pub(crate) struct Zone {
    zone: TimeZone,
    /// Of the last quarter of an hour of UTC. Since 1973 zones have changed their offset
    /// only at the start of one.
    cached: Mutex<Option<Quarter>>,
}

/// The parts of a time that are the same within a quarter of an hour of one day.
#[derive(Debug)]
struct Quarter {
    /// Quarters of an hour and local days since 1970.
    number: i64,
    day: i64,
    /// The offset from UTC, in seconds and as text.
    offset: i64,
    offset_text: String,
    date: String,
}

impl Clone for Zone {
    fn clone(&self) -> Self {
        Self::new(self.zone.clone())
    }
}

impl ZoneOptions {
    /// Returns the zone of the options.
    ///
    /// # Errors
    ///
    /// [`Failure::Usage`] for a zone that does not exist.
    pub(crate) fn zone(&self, label: &ArchiveLabel) -> Result<Zone, Failure> {
        let zone = match (&self.timezone, self.host_zone) {
            (Some(name), _) => named(name)?,
            (None, true) => label_zone(label),
            (None, false) => local(),
        };
        Ok(Zone::new(zone))
    }
}

/// Returns the zone of an archive's label: its rule, else its name, else UTC with a note. C
/// libraries take an abbreviation without an offset in TZ as an offset of zero, and labels have
/// such abbreviations. On the command line they are an error.
fn label_zone(label: &ArchiveLabel) -> TimeZone {
    let rule = label.timezone.as_str();
    let name = label.zoneinfo.as_str();
    if let Ok(zone) = named(rule).or_else(|_| at_zero(rule)).or_else(|_| named(name)) {
        return zone;
    }
    let unknown = if rule.is_empty() { name } else { rule };
    let reason = match unknown {
        "" => "has no time zone".to_owned(),
        _ => format!("has the time zone \"{}\", which is not known", shown(unknown)),
    };
    warn(&format_args!("the label of the archive {reason}: times are UTC"));
    TimeZone::UTC
}

/// Seconds of a quarter of an hour.
const QUARTER: i64 = 900;
const DAY: i64 = 86_400;

impl Zone {
    pub(crate) fn new(zone: TimeZone) -> Self {
        Self { zone, cached: Mutex::new(None) }
    }

    pub(crate) fn time_zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Returns the offset from UTC in seconds; 0 outside the years that jiff has.
    pub(crate) fn offset(&self, timestamp: Timestamp) -> i64 {
        self.in_quarter(timestamp, |quarter| quarter.offset).unwrap_or(0)
    }

    /// Uses what is known of the quarter of an hour of a time; `None` outside the years that
    /// jiff has.
    fn in_quarter<T>(&self, timestamp: Timestamp, of: impl FnOnce(&Quarter) -> T) -> Option<T> {
        let number = timestamp.seconds().div_euclid(QUARTER);
        let day = |offset| timestamp.seconds().wrapping_add(offset).div_euclid(DAY);
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*cached
            && (known.number, known.day) == (number, day(known.offset))
        {
            return Some(of(known));
        }
        let local = to_jiff(timestamp)?.to_zoned(self.zone.clone());
        let offset = i64::from(local.offset().seconds());
        let offset_text = local.strftime("%:z").to_string();
        let date = local.strftime("%Y-%m-%d").to_string();
        let quarter = Quarter { number, day: day(offset), offset, offset_text, date };
        Some(of(cached.insert(quarter)))
    }

    /// Appends `HH:MM:SS.fraction`, truncated to `places` decimal places.
    pub(crate) fn push_time(&self, out: &mut Vec<u8>, timestamp: Timestamp, places: usize) {
        push_time_at(out, timestamp, self.offset(timestamp), places);
    }

    /// Appends `YYYY-MM-DD HH:MM:SS.fraction`, truncated to `places` decimal places; seconds
    /// outside the years that jiff has.
    pub(crate) fn push_date_time(&self, out: &mut Vec<u8>, timestamp: Timestamp, places: usize) {
        self.push_local(out, timestamp, b' ', places);
    }

    /// Appends RFC 3339 with nanoseconds and the offset, which reads back exactly; seconds
    /// outside the years that jiff has.
    pub(crate) fn push_rfc3339(&self, out: &mut Vec<u8>, timestamp: Timestamp) {
        if self.push_local(out, timestamp, b'T', 9) {
            self.in_quarter(timestamp, |quarter| out.extend(quarter.offset_text.as_bytes()));
        }
    }

    /// Appends the time, and returns false if it is beyond the years that jiff supports.
    fn push_local(
        &self,
        out: &mut Vec<u8>,
        timestamp: Timestamp,
        separator: u8,
        places: usize,
    ) -> bool {
        let pushed = self.in_quarter(timestamp, |quarter| {
            out.extend_from_slice(quarter.date.as_bytes());
            out.push(separator);
            push_time_at(out, timestamp, quarter.offset, places);
        });
        if pushed.is_none() {
            out.extend_from_slice(timestamp.to_string().as_bytes());
        }
        pushed.is_some()
    }

    /// Appends `Tue Nov 14`, the day part of ctime.
    pub(crate) fn push_day(&self, out: &mut Vec<u8>, timestamp: Timestamp) {
        out.extend_from_slice(self.strftime(timestamp, "%a %b %e").as_bytes());
    }

    pub(crate) fn year(&self, timestamp: Timestamp) -> String {
        self.strftime(timestamp, "%Y")
    }

    /// Formats a date and time such as `2023-11-14 22:13:20.123456789 UTC`.
    pub(crate) fn long(&self, timestamp: Timestamp) -> String {
        mmv_arguments::time::long(timestamp, &self.zone)
    }

    /// Formats a date and time to the second, as `2023-11-14 22:13:20 UTC`.
    pub(crate) fn date_time(&self, timestamp: Timestamp) -> String {
        self.strftime(timestamp, "%F %T %Z")
    }

    /// Formats a window, with the date only once if both ends are on the same day.
    pub(crate) fn period(&self, window: &RangeInclusive<Timestamp>) -> String {
        let begin = *window.start();
        let end = *window.end();
        let same_day = self.strftime(begin, "%F") == self.strftime(end, "%F");
        let end = self.strftime(end, if same_day { "%T %Z" } else { "%F %T %Z" });
        format!("{} to {end}", self.strftime(begin, "%F %T"))
    }

    /// Formats a time as [`push_rfc3339`](Self::push_rfc3339) does.
    pub(crate) fn rfc3339(&self, timestamp: Timestamp) -> String {
        let mut text = Vec::new();
        self.push_rfc3339(&mut text, timestamp);
        String::from_utf8(text).unwrap_or_default()
    }

    /// Formats a time by jiff's strftime; in seconds outside the years that it has.
    pub(crate) fn strftime(&self, timestamp: Timestamp, format: &str) -> String {
        match to_jiff(timestamp) {
            Some(instant) => instant.to_zoned(self.zone.clone()).strftime(format).to_string(),
            None => timestamp.to_string(),
        }
    }
}

/// Appends `HH:MM:SS.fraction` of the clock with this offset from UTC.
fn push_time_at(out: &mut Vec<u8>, timestamp: Timestamp, offset: i64, places: usize) {
    let of_day = timestamp.seconds().wrapping_add(offset).rem_euclid(DAY) as u32;
    padded(out, of_day / 3600, 2);
    out.push(b':');
    padded(out, of_day / 60 % 60, 2);
    out.push(b':');
    padded(out, of_day % 60, 2);
    if places > 0 {
        out.push(b'.');
        padded(
            out,
            timestamp.nanoseconds() / 10u32.pow(9u32.saturating_sub(places as u32)),
            places.min(9),
        );
    }
}

#[cfg(test)]
mod tests {
    use pcp_archive::Version;

    use super::*;

    fn time(zone: &str, timestamp: Timestamp, places: usize) -> String {
        let mut out = Vec::new();
        Zone::new(named(zone).unwrap()).push_time(&mut out, timestamp, places);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_time_is_printed_in_its_zone() {
        let timestamp = Timestamp::new(1_700_000_000, 123_456_789).unwrap();
        assert_eq!(time("UTC", timestamp, 9), "22:13:20.123456789");
        assert_eq!(time("AEST-10", timestamp, 6), "08:13:20.123456");
        assert_eq!(time("IST-5:30", timestamp, 0), "03:43:20");
        assert_eq!(time(":Europe/Berlin", timestamp, 0), "23:13:20");
        assert_eq!(
            Zone::new(named("UTC").unwrap()).long(timestamp),
            "2023-11-14 22:13:20.123456789 UTC"
        );
    }

    #[test]
    fn the_offset_follows_the_change_to_summer_time() {
        let zone = Zone::new(named("Europe/Berlin").unwrap());
        let change = 1_711_846_800; // 2024-03-31 01:00 UTC
        let text = |seconds| {
            let mut out = Vec::new();
            zone.push_time(&mut out, Timestamp::new(seconds, 0).unwrap(), 0);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(change - 1), "01:59:59");
        assert_eq!(text(change), "03:00:00");
        assert_eq!(text(change - 2), "01:59:58");
    }

    #[test]
    fn times_in_any_order_are_as_jiff_formats_them() {
        for name in
            ["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "LMT0:00:30"]
        {
            let zone = Zone::new(named(name).unwrap());
            let mut seconds = 0;
            for step in [1, 899, 900, 86_399, 86_400, -1, -900, 7_654_321, 31 * 86_400 + 17] {
                for _ in 0..200 {
                    seconds += step;
                    let timestamp = Timestamp::new(seconds, 999_999_999).unwrap();
                    let expected = zone.strftime(timestamp, "%Y-%m-%dT%H:%M:%S%.9f%:z");
                    assert_eq!(zone.rfc3339(timestamp), expected, "{name}");
                    let mut time = Vec::new();
                    zone.push_date_time(&mut time, timestamp, 6);
                    assert_eq!(time, expected.replace('T', " ").as_bytes()[..26]);
                }
            }
        }
    }

    #[test]
    fn a_time_that_jiff_does_not_have_is_in_seconds() {
        let zone = Zone::new(named("UTC").unwrap());
        let far = Timestamp::new(1 << 50, 5).unwrap();
        let mut time = Vec::new();
        zone.push_date_time(&mut time, far, 3);
        assert_eq!(time, far.to_string().as_bytes());
        assert_eq!(zone.rfc3339(far), far.to_string());
        assert_eq!(zone.offset(far), 0);
    }

    #[test]
    fn other_text_is_not_a_zone() {
        for name in ["Mars/Olympus", "PST", "Berlin", "foo", ""] {
            assert!(matches!(named(name), Err(mmv_arguments::ArgumentError::Usage(_))), "{name}");
        }
    }

    /// 2023-11-14 22:13:20 UTC in the zone of a label with this rule and this name.
    fn time_of_label(rule: &str, name: &str) -> String {
        let timestamp = Timestamp::new(1_700_000_000, 0).unwrap();
        let label = ArchiveLabel {
            version: Version::V3,
            pid: 1,
            start: timestamp,
            hostname: "host".into(),
            timezone: rule.into(),
            zoneinfo: name.into(),
        };
        Zone::new(label_zone(&label)).strftime(timestamp, "%H:%M %Z")
    }

    #[test]
    fn an_abbreviation_alone_is_an_offset_of_zero_in_a_label_only() {
        assert_eq!(time_of_label("PST", ""), "22:13 PST");
        assert_eq!(time_of_label("PST8", ""), "14:13 PST");
        assert_eq!(time_of_label("GMT", ""), "22:13 GMT");
    }

    #[test]
    fn a_label_without_a_known_zone_is_in_utc() {
        assert_eq!(time_of_label("", ":Europe/Berlin"), "23:13 CET");
        assert_eq!(time_of_label("PST8", ":Europe/Berlin"), "14:13 PST");
        assert_eq!(time_of_label("", ""), "22:13 UTC");
        assert_eq!(time_of_label("Mars/Olympus", ":Mars/Olympus"), "22:13 UTC");
    }
}
