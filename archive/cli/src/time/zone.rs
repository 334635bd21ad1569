//! The time zone of a command, and times as text in it.

use std::sync::{Mutex, PoisonError};

use clap::Args;
use jiff::tz::TimeZone;
use pcp_archive::{ArchiveLabel, Timestamp};

use crate::Failure;
use crate::text::number::padded;
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

/// A time zone.
#[derive(Debug)]
pub(crate) struct Zone {
    zone: TimeZone,
    /// The last quarter of an hour of UTC and its offset in seconds. Zones change
    /// their offset only at the start of one.
    cached: Mutex<Option<(i64, i64)>>,
}

impl Clone for Zone {
    fn clone(&self) -> Self {
        Self::new(self.zone.clone())
    }
}

impl ZoneOptions {
    /// The zone of the options.
    ///
    /// # Errors
    ///
    /// [`Failure::Usage`] for a zone that does not exist.
    pub(crate) fn zone(&self, label: &ArchiveLabel) -> Result<Zone, Failure> {
        let zone = match (&self.timezone, self.host_zone) {
            (Some(name), _) => named(name)?,
            (None, true) => of_label(&label.timezone)?,
            (None, false) => local(),
        };
        Ok(Zone::new(zone))
    }
}

/// The local zone. Without TZ the system's own file is read, and the time zone
/// database is not searched for its name, which takes longer than most commands.
fn local() -> TimeZone {
    let own = || TimeZone::tzif("Local", &std::fs::read("/etc/localtime").ok()?).ok();
    let is_set = std::env::var_os("TZ").is_some();
    Some(own).filter(|_| !is_set).and_then(|own| own()).unwrap_or_else(TimeZone::system)
}

/// A zone by its name in the time zone database, also with the colon of
/// `:Area/City`, or by a POSIX rule. UTC and GMT need no database.
fn named(name: &str) -> Result<TimeZone, Failure> {
    let plain = name.strip_prefix(':').unwrap_or(name);
    if plain == "UTC" || plain == "GMT" {
        return at_zero(plain);
    }
    TimeZone::get(plain).or_else(|_| TimeZone::posix(plain)).map_err(|_| {
        Failure::Usage(format!(
            "\"{name}\" is not a time zone: neither a name such as Europe/Berlin, \
             nor a POSIX rule with an offset such as PST8PDT"
        ))
    })
}

/// The zone of an archive's label. C libraries take an abbreviation without an
/// offset in TZ as an offset of zero, and labels have such abbreviations. On the
/// command line they are an error.
fn of_label(name: &str) -> Result<TimeZone, Failure> {
    named(name).or_else(|failure| at_zero(name).map_err(|_| failure))
}

/// A zone of this abbreviation with the clock of UTC.
fn at_zero(abbreviation: &str) -> Result<TimeZone, Failure> {
    TimeZone::posix(&format!("{abbreviation}+0"))
        .map_err(|_| Failure::Usage(format!("\"{abbreviation}\" is not a time zone")))
}

/// Seconds of a quarter of an hour.
const QUARTER: i64 = 900;

impl Zone {
    pub(crate) fn new(zone: TimeZone) -> Self {
        Self { zone, cached: Mutex::new(None) }
    }

    pub(crate) fn time_zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The offset from UTC in seconds.
    pub(crate) fn offset(&self, timestamp: Timestamp) -> i64 {
        let quarter = timestamp.seconds().div_euclid(QUARTER);
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, offset)) = *cached
            && known == quarter
        {
            return offset;
        }
        let offset = to_jiff(timestamp)
            .map_or(0, |instant| i64::from(self.zone.to_offset(instant).seconds()));
        *cached = Some((quarter, offset));
        offset
    }

    /// Appends `HH:MM:SS.fraction`, truncated to `places` decimal places.
    pub(crate) fn push_time(&self, out: &mut Vec<u8>, timestamp: Timestamp, places: usize) {
        let of_day =
            (timestamp.seconds().wrapping_add(self.offset(timestamp))).rem_euclid(86_400) as u32;
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

    /// Appends `Tue Nov 14`, the day part of ctime.
    pub(crate) fn push_day(&self, out: &mut Vec<u8>, timestamp: Timestamp) {
        out.extend_from_slice(self.strftime(timestamp, "%a %b %e").as_bytes());
    }

    /// The year.
    pub(crate) fn year(&self, timestamp: Timestamp) -> String {
        self.strftime(timestamp, "%Y")
    }

    /// A date and time such as `2023-11-14 22:13:20.123456789 UTC`.
    pub(crate) fn long(&self, timestamp: Timestamp) -> String {
        self.strftime(timestamp, "%Y-%m-%d %H:%M:%S%.9f %Z")
    }

    /// RFC 3339 with nanoseconds and the offset, which reads back exactly.
    pub(crate) fn rfc3339(&self, timestamp: Timestamp) -> String {
        self.strftime(timestamp, "%Y-%m-%dT%H:%M:%S%.9f%:z")
    }

    /// Formats a time by jiff's strftime; in seconds outside the years that it has.
    pub(crate) fn strftime(&self, timestamp: Timestamp, format: &str) -> String {
        match to_jiff(timestamp) {
            Some(instant) => instant.to_zoned(self.zone.clone()).strftime(format).to_string(),
            None => timestamp.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
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
    fn other_text_is_not_a_zone() {
        for name in ["Mars/Olympus", "PST", "Berlin", "foo", ""] {
            assert!(matches!(named(name), Err(Failure::Usage(_))), "{name}");
        }
    }

    #[test]
    fn an_abbreviation_alone_is_an_offset_of_zero_in_a_label_only() {
        let timestamp = Timestamp::new(1_700_000_000, 0).unwrap();
        let label = |name| Zone::new(of_label(name).unwrap()).long(timestamp);
        assert_eq!(label("PST"), "2023-11-14 22:13:20.000000000 PST");
        assert_eq!(label("PST8"), "2023-11-14 14:13:20.000000000 PST");
        assert_eq!(Zone::new(named("GMT").unwrap()).long(timestamp), label("GMT"));
        assert!(matches!(of_label(""), Err(Failure::Usage(_))));
    }
}
