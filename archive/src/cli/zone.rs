//! The time zone of a report, and moments as text in it.

use std::sync::{Mutex, PoisonError};

use clap::Args;
use jiff::tz::TimeZone;
use pcp_types::Timestamp;

use super::failure::Failure;
use super::number::padded;
use super::time::to_jiff;
use crate::ArchiveLabel;

/// Which time zone times are read and written in.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ZoneOptions {
    /// Use the time zone of the host that was logged, as the archive's label
    /// has it, instead of the local one.
    #[arg(short = 'z', long = "hostzone", conflicts_with = "timezone")]
    host_zone: bool,

    /// Use this time zone: a name such as Europe/Berlin or UTC, or a POSIX
    /// form such as EST5EDT or AEST-10.
    #[arg(short = 'Z', long = "timezone", value_name = "ZONE")]
    timezone: Option<String>,
}

/// A time zone chosen.
#[derive(Debug)]
pub(crate) struct Zone {
    zone: TimeZone,
    /// The offset from UTC in seconds of the hour it was last asked for; zones
    /// change their offset at full hours of UTC only, or nearly so: the hour
    /// is a quarter of one.
    cached: Mutex<Option<(i64, i64)>>,
}

impl Clone for Zone {
    fn clone(&self) -> Self {
        Self::new(self.zone.clone())
    }
}

impl ZoneOptions {
    /// The zone that the options name.
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

/// The local zone. Where nothing but the system's own file says which that is,
/// the time zone database is not searched for its name: that takes longer than
/// most questions to an archive.
fn local() -> TimeZone {
    let own = || TimeZone::tzif("Local", &std::fs::read("/etc/localtime").ok()?).ok();
    let is_set = std::env::var_os("TZ").is_some();
    Some(own).filter(|_| !is_set).and_then(|own| own()).unwrap_or_else(TimeZone::system)
}

/// A zone by its name in the time zone database, with or without the colon of
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

/// The zone of an archive's label. Where the host had an abbreviation without
/// an offset in TZ, its C library took that for an offset of zero, and the
/// label has it so; what a user asks for is never read that way.
fn of_label(name: &str) -> Result<TimeZone, Failure> {
    named(name).or_else(|failure| at_zero(name).map_err(|_| failure))
}

/// A zone of this abbreviation with the clock of UTC.
fn at_zero(abbreviation: &str) -> Result<TimeZone, Failure> {
    TimeZone::posix(&format!("{abbreviation}+0"))
        .map_err(|_| Failure::Usage(format!("\"{abbreviation}\" is not a time zone")))
}

/// Seconds in the unit by which offsets are remembered.
const QUARTER: i64 = 900;

impl Zone {
    pub(crate) fn new(zone: TimeZone) -> Self {
        Self { zone, cached: Mutex::new(None) }
    }

    pub(crate) fn time_zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Seconds that the zone's clock is ahead of UTC at a moment.
    pub(crate) fn offset(&self, at: Timestamp) -> i64 {
        let quarter = at.seconds().div_euclid(QUARTER);
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, offset)) = *cached
            && known == quarter
        {
            return offset;
        }
        let offset =
            to_jiff(at).map_or(0, |instant| i64::from(self.zone.to_offset(instant).seconds()));
        *cached = Some((quarter, offset));
        offset
    }

    /// Appends `HH:MM:SS.fraction` with so many places of the second, cut.
    pub(crate) fn push_time(&self, out: &mut Vec<u8>, at: Timestamp, places: usize) {
        let of_day = (at.seconds().wrapping_add(self.offset(at))).rem_euclid(86_400) as u32;
        padded(out, of_day / 3600, 2);
        out.push(b':');
        padded(out, of_day / 60 % 60, 2);
        out.push(b':');
        padded(out, of_day % 60, 2);
        if places > 0 {
            out.push(b'.');
            padded(
                out,
                at.nanoseconds() / 10u32.pow(9u32.saturating_sub(places as u32)),
                places.min(9),
            );
        }
    }

    /// Appends `Tue Nov 14`, the day part of ctime.
    pub(crate) fn push_day(&self, out: &mut Vec<u8>, at: Timestamp) {
        out.extend_from_slice(self.strftime(at, "%a %b %e").as_bytes());
    }

    /// The year.
    pub(crate) fn year(&self, at: Timestamp) -> String {
        self.strftime(at, "%Y")
    }

    /// A date and time such as `2023-11-14 22:13:20.123456789 UTC`.
    pub(crate) fn long(&self, at: Timestamp) -> String {
        self.strftime(at, "%Y-%m-%d %H:%M:%S%.9f %Z")
    }

    /// RFC 3339 with nanoseconds and the offset, which reads back exactly.
    pub(crate) fn rfc3339(&self, at: Timestamp) -> String {
        self.strftime(at, "%Y-%m-%dT%H:%M:%S%.9f%:z")
    }

    /// jiff's strftime; moments outside its years are written in seconds.
    pub(crate) fn strftime(&self, at: Timestamp, format: &str) -> String {
        match to_jiff(at) {
            Some(instant) => instant.to_zoned(self.zone.clone()).strftime(format).to_string(),
            None => at.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(zone: &str, at: Timestamp, places: usize) -> String {
        let mut out = Vec::new();
        Zone::new(named(zone).unwrap()).push_time(&mut out, at, places);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_moment_is_written_in_the_zone_asked_for() {
        let at = Timestamp::new(1_700_000_000, 123_456_789).unwrap();
        assert_eq!(time("UTC", at, 9), "22:13:20.123456789");
        assert_eq!(time("AEST-10", at, 6), "08:13:20.123456");
        assert_eq!(time("IST-5:30", at, 0), "03:43:20");
        assert_eq!(time(":Europe/Berlin", at, 0), "23:13:20");
        assert_eq!(Zone::new(named("UTC").unwrap()).long(at), "2023-11-14 22:13:20.123456789 UTC");
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
    fn what_is_no_zone_is_refused() {
        for name in ["Mars/Olympus", "PST", "Berlin", "foo", ""] {
            assert!(matches!(named(name), Err(Failure::Usage(_))), "{name}");
        }
    }

    #[test]
    fn an_abbreviation_alone_is_an_offset_of_zero_in_a_label_only() {
        let at = Timestamp::new(1_700_000_000, 0).unwrap();
        let label = |name| Zone::new(of_label(name).unwrap()).long(at);
        assert_eq!(label("PST"), "2023-11-14 22:13:20.000000000 PST");
        assert_eq!(label("PST8"), "2023-11-14 14:13:20.000000000 PST");
        assert_eq!(Zone::new(named("GMT").unwrap()).long(at), label("GMT"));
        assert!(matches!(of_label(""), Err(Failure::Usage(_))));
    }
}
