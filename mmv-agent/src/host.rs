//! Properties of the host that archives record.

use std::collections::BTreeMap;
use std::fs;

use jiff::tz::TimeZone;

/// Names and time zone of the host, as pmcd and pmlogger give them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// `gethostname(2)`, or "localhost".
    pub name: String,
    /// NIS domain name, or "localdomain".
    pub domain: String,
    /// Contents of /etc/machine-id, or "localmachine".
    pub machine_id: String,
    /// Zone as a plain POSIX string: abbreviation and hours west (`AEST-10`), without daylight
    /// rules.
    pub timezone: String,
    /// Name of the zone after a colon (`:Australia/Melbourne`); may be empty.
    pub zoneinfo: String,
    /// Labels from the configuration: name and JSON value.
    pub labels: BTreeMap<String, String>,
}

impl Host {
    /// Queries the system.
    pub(crate) fn here() -> Self {
        let zone = TimeZone::system();
        let info = zone.to_offset_info(jiff::Timestamp::now());
        Self {
            name: nix::unistd::gethostname()
                .ok()
                .and_then(|name| name.into_string().ok())
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| "localhost".to_owned()),
            domain: first_word("/proc/sys/kernel/domainname")
                .filter(|domain| domain != "(none)")
                .unwrap_or_else(|| "localdomain".to_owned()),
            machine_id: first_word("/etc/machine-id").unwrap_or_else(|| "localmachine".to_owned()),
            timezone: posix_zone(info.abbreviation(), info.offset().seconds()),
            zoneinfo: zone
                .iana_name()
                .filter(|name| *name != "UTC" && *name != "Etc/Unknown")
                .map_or_else(String::new, |name| format!(":{name}")),
            labels: BTreeMap::new(),
        }
    }

    /// Returns the context labels that pmcd gives, and those of the configuration: name and JSON
    /// value.
    pub(crate) fn context_labels(&self) -> Vec<(&str, String)> {
        let json = |text: &str| serde_json::Value::from(text).to_string();
        let mut labels = vec![
            ("hostname", json(&self.name)),
            ("domainname", json(&self.domain)),
            ("machineid", json(&self.machine_id)),
        ];
        labels.extend(self.labels.iter().map(|(name, value)| (name.as_str(), value.clone())));
        labels
    }
}

/// Returns the name of a host's directory: the host's name, or a similar one if that is no plain
/// and visible file name. The name of a system may have any bytes.
pub(crate) fn file_name(host: &str) -> String {
    let plain = |(at, c): (usize, char)| match c {
        '.' if at == 0 => '_',
        '/' => '_',
        c if c.is_control() => '_',
        c => c,
    };
    match host.char_indices().map(plain).collect::<String>() {
        name if name.is_empty() => "localhost".to_owned(),
        name => name,
    }
}

fn first_word(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.split_whitespace().next().map(str::to_owned)
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
    fn a_host_name_that_is_no_file_name_becomes_one() {
        for (host, expected) in [
            ("web.example.org", "web.example.org"),
            ("..", "_."),
            (".", "_"),
            (".state", "_state"),
            ("../web", "_._web"),
            ("", "localhost"),
            ("a\nb", "a_b"),
        ] {
            assert_eq!(file_name(host), expected, "{host:?}");
        }
    }

    #[test]
    fn this_host_has_a_name_and_a_zone() {
        let host = Host::here();
        assert!(!host.name.is_empty() && !host.domain.is_empty() && !host.machine_id.is_empty());
        assert!(!host.timezone.is_empty());
    }

    #[test]
    fn label_values_are_json_strings() {
        let host = Host { name: "a\"b".into(), ..Host::here() };
        assert_eq!(host.context_labels()[0], ("hostname", "\"a\\\"b\"".into()));
    }
}
