//! Options that a writer needs before the first record.

use std::time::Duration;

use jiff::tz::TimeZone;

use crate::{ArchiveLabel, ByteText, Version};

/// The writer's fields in the label of every file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterLabel {
    /// The process that writes.
    pub pid: i32,
    /// The host that the values are from, at most 255 bytes; in version 2 at
    /// most 63.
    pub hostname: ByteText,
    /// Its time zone as a POSIX rule without daylight saving, `AEST-10`; in version 2 at most 39
    /// bytes.
    pub timezone: ByteText,
    /// That zone's name with a colon, `:Australia/Melbourne`, or nothing.
    /// Version 2 has no place for it.
    pub zoneinfo: ByteText,
}

impl From<&ArchiveLabel> for WriterLabel {
    fn from(label: &ArchiveLabel) -> Self {
        Self {
            pid: label.pid,
            hostname: label.hostname.clone(),
            timezone: label.timezone.clone(),
            zoneinfo: label.zoneinfo.clone(),
        }
    }
}

impl WriterLabel {
    /// Returns the label of this process on this host: its name (`gethostname(2)`) or
    /// "localhost", and its time zone.
    pub fn local() -> Self {
        let zone = TimeZone::system();
        let info = zone.to_offset_info(jiff::Timestamp::now());
        let hostname = nix::unistd::gethostname()
            .ok()
            .and_then(|name| name.into_string().ok())
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| "localhost".to_owned());
        let zoneinfo = zone
            .iana_name()
            .filter(|name| *name != "UTC" && *name != "Etc/Unknown")
            .map_or_else(String::new, |name| format!(":{name}"));
        Self {
            pid: std::process::id().cast_signed(),
            hostname: hostname.into(),
            timezone: posix_zone(info.abbreviation(), info.offset().seconds()).into(),
            zoneinfo: zoneinfo.into(),
        }
    }

    /// Returns the label as an archive of this version can store it: a longer host name is cut
    /// off, and a longer time zone, of which a part means another one, becomes UTC.
    #[must_use]
    pub fn fitted(mut self, version: Version) -> Self {
        let [host, zone, _] = version.string_sizes();
        let hostname = self.hostname.to_bytes();
        if hostname.len() >= host {
            // A character of UTF-8 is not cut in two.
            let mut end = host - 1;
            while end > 0 && hostname.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
                end -= 1;
            }
            self.hostname = ByteText::from_bytes(hostname.get(..end).unwrap_or_default());
        }
        if self.timezone.to_bytes().len() >= zone {
            self.timezone = "UTC".into();
        }
        self
    }
}

/// The format of an archive, and the sizes at which its files are cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterOptions {
    /// Version 2 is for readers that are older than PCP 6.0. It has times in
    /// microseconds (what is below is cut off) and up to 2038, files of less
    /// than 2 GiB, and no empty instance domains.
    pub version: Version,
    /// Bytes of records and metadata from one index entry to the next, if no
    /// entry is due earlier; 100 000 by default.
    pub index_bytes: u64,
    /// Time from one index entry to the next, likewise. `None`, the default: only
    /// bytes count, as for PCP.
    pub index_interval: Option<Duration>,
    /// The size that a data volume may reach; a record that would exceed it
    /// begins the next volume. `None`, the default: only
    /// [`switch_volume`](super::ArchiveWriter::switch_volume) begins one.
    pub volume_bytes: Option<u64>,
    /// Bytes of each file that may wait to be written together, for archives that are not read
    /// before they are [finished](super::ArchiveWriter::finish) or
    /// [synced](super::ArchiveWriter::sync). 0, the default: each record is in its file when the
    /// call returns. With more, a limit on the size of files that is not the process's
    /// (`RLIMIT_FSIZE`) is an error; without a buffer the next volume begins there.
    pub buffer_bytes: usize,
}

/// Version 3; index entries every 100 kB, as PCP writes them; volumes without
/// limit; no buffer.
impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            version: Version::V3,
            index_bytes: 100_000,
            index_interval: None,
            volume_bytes: None,
            buffer_bytes: 0,
        }
    }
}

/// Formats a POSIX zone string without daylight rules. POSIX counts westward. Zones whose
/// abbreviation is not made of letters (`+03`) are called UTC, since PCP accepts only letters
/// there.
fn posix_zone(abbreviation: &str, east_seconds: i32) -> String {
    let lettered =
        abbreviation.len() >= 3 && abbreviation.bytes().all(|byte| byte.is_ascii_alphabetic());
    let name = if lettered { abbreviation } else { "UTC" };
    if east_seconds == 0 {
        return name.to_owned();
    }
    let sign = if east_seconds > 0 { "-" } else { "" };
    let minutes = east_seconds.unsigned_abs() / 60;
    match minutes % 60 {
        0 => format!("{name}{sign}{}", minutes / 60),
        rest => format!("{name}{sign}{}:{rest:02}", minutes / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_written_the_way_posix_counts() {
        assert_eq!(posix_zone("AEST", 36_000), "AEST-10");
        assert_eq!(posix_zone("IST", 19_800), "IST-5:30");
        assert_eq!(posix_zone("EST", -18_000), "EST5");
        assert_eq!(posix_zone("UTC", 0), "UTC");
        assert_eq!(posix_zone("+03", 10_800), "UTC-3");
    }

    #[test]
    fn label_of_this_host_has_name_and_zone() {
        let label = WriterLabel::local();
        assert!(!label.hostname.to_string().is_empty() && !label.timezone.to_string().is_empty());
    }
}
