//! `mmv-archive info`: label, time span, volumes and counts of an archive.

use std::fmt::Write as _;

use clap::Args;
use pcp_archive::raw::IndexDefect;
use pcp_archive::{Archive, Timestamp, Version};
use serde::Serialize;

use crate::Failure;
use crate::options::ArchiveArgument;
use crate::text::{EpochSeconds, Output, Rfc3339, shown};
use crate::time::{Zone, ZoneOptions};

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  What does this machine's agent have, and since when?
    mmv-archive info @
  Which host and time zone does an archive come from?
    mmv-archive info backup/20261123.00.10
  Print the number of values of each archive in a directory:
    mmv-archive info /var/log/mmv-agent/web1 --json | jq .values";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    archive: ArchiveArgument,

    /// Print one JSON object, with times as [seconds, nanoseconds]
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    zone: ZoneOptions,
}

/// The properties of an archive.
#[derive(Debug, Serialize)]
struct Info<'a> {
    version: u32,
    host: &'a str,
    timezone: &'a str,
    zoneinfo: &'a str,
    pid: i32,
    start: Rfc3339,
    start_seconds: EpochSeconds,
    end: Rfc3339,
    end_seconds: EpochSeconds,
    volumes: Vec<u32>,
    index_entries: usize,
    /// The first damage of the index and its offset.
    index_defect: Option<String>,
    metrics: usize,
    instance_domains: usize,
    #[serde(flatten)]
    counts: Counts,
}

/// Counts of all records.
#[derive(Debug, Default, Serialize)]
struct Counts {
    records: u64,
    marks: u64,
    values: u64,
    data_bytes: u64,
}

impl Counts {
    fn read(archive: &Archive) -> Result<Self, Failure> {
        let mut counts = Self::default();
        let mut records = archive.records()?;
        while let Some(record) = records.next()? {
            counts.records += 1;
            counts.marks += u64::from(record.is_mark());
            counts.values += record.value_sets().map(|set| set.len() as u64).sum::<u64>();
            counts.data_bytes += record.size() as u64;
        }
        Ok(counts)
    }
}

impl Arguments {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        self.archive.each(self.json, |archive, out| self.print(archive, out))
    }

    fn print(&self, archive: &Archive, out: &mut Output) -> Result<(), Failure> {
        let zone = self.zone.zone(archive.label())?;
        let label = archive.label();
        let info = Info {
            version: if archive.version() == Version::V3 { 3 } else { 2 },
            host: &label.hostname,
            timezone: &label.timezone,
            zoneinfo: &label.zoneinfo,
            pid: label.pid,
            start: Rfc3339(label.start),
            start_seconds: EpochSeconds(label.start),
            end: Rfc3339(archive.end()),
            end_seconds: EpochSeconds(archive.end()),
            volumes: archive.volumes().collect(),
            index_entries: archive.index().entries().len(),
            index_defect: index_defect(archive),
            metrics: archive.metadata().metrics().len(),
            instance_domains: archive.metadata().indoms().len(),
            counts: Counts::read(archive)?,
        };
        if self.json {
            out.json_line(&info)?;
        } else {
            out.text.extend_from_slice(info.text(archive, &zone).as_bytes());
        }
        Ok(())
    }
}

fn index_defect(archive: &Archive) -> Option<String> {
    let IndexDefect { offset, error, .. } = archive.index().defects().first()?;
    Some(format!("offset {offset}: {error}"))
}

impl Info<'_> {
    fn text(&self, archive: &Archive, zone: &Zone) -> String {
        let start = archive.label().start;
        let end = archive.end();
        let unless_empty =
            |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
        let volumes: Vec<String> = self.volumes.iter().map(ToString::to_string).collect();
        let lines = [
            ("format", format!("PCP archive, version {}", self.version)),
            ("host", self.host.to_owned()),
            ("written by", format!("process {}", self.pid)),
            ("start", zone.long(start)),
            ("end", zone.long(end)),
            ("span", span(start, end)),
            ("host's time zone", unless_empty(self.timezone)),
            ("host's zone name", unless_empty(self.zoneinfo)),
            ("volumes", format!("{} ({})", volumes.len(), volumes.join(", "))),
            ("index entries", self.index_text()),
            ("metrics", self.metrics.to_string()),
            ("instance domains", self.instance_domains.to_string()),
            ("records", format!("{}, of these {} marks", self.counts.records, self.counts.marks)),
            ("values", self.counts.values.to_string()),
            ("bytes in records", self.counts.data_bytes.to_string()),
        ];
        let lines = lines.iter().map(|(title, text)| format!("{title:<18}{}", shown(text)));
        lines.collect::<Vec<_>>().join("\n") + "\n"
    }

    /// Formats the number of entries, and the damage of the index.
    fn index_text(&self) -> String {
        match &self.index_defect {
            Some(defect) => format!("{} (damaged at {defect})", self.index_entries),
            None => self.index_entries.to_string(),
        }
    }
}

/// Formats a duration such as `1d 2h 3m 4.500s`.
fn span(start: Timestamp, end: Timestamp) -> String {
    let millis = end.nanos_since(start).max(0) / 1_000_000;
    let seconds = millis / 1000;
    let mut text = String::new();
    for (unit, size, within) in [("d", 86_400, i128::MAX), ("h", 3600, 24), ("m", 60, 60)] {
        if seconds >= size {
            let _ = write!(text, "{}{unit} ", seconds / size % within);
        }
    }
    text + &format!("{}.{:03}s", seconds % 60, millis % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_starts_with_its_largest_unit() {
        let span = |millis: i128| span(Timestamp::EPOCH, Timestamp::from_nanos(millis * 1_000_000));
        assert_eq!(span(0), "0.000s");
        assert_eq!(span(61_500), "1m 1.500s");
        assert_eq!(span(3_600_000), "1h 0m 0.000s");
        assert_eq!(span(90_061_001), "1d 1h 1m 1.001s");
        assert_eq!(span(-5), "0.000s");
    }
}
