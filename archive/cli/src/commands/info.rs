//! `mmv-archive info`: label, time span, volumes and counts of an archive.

use std::fmt::Write as _;

use clap::Args;
use pcp_archive::internal::{ArchiveOutline, OutlineEnd};
use pcp_archive::raw::{IndexDefect, TemporalIndex};
use pcp_archive::{Archive, ArchiveLabel, Metadata, Timestamp, Version};
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
    mmv-archive info /var/log/mmv-agent/web1 --json | jq .values
  Which time do years of compressed archives span, at once?
    mmv-archive info /var/log/pcp/pmlogger/web1 --quick";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct InfoCommand {
    #[command(flatten)]
    archive: ArchiveArgument,

    /// Print one JSON object, with times as [seconds, nanoseconds]
    #[arg(long)]
    json: bool,

    /// Leave out the counts, for which all records are read; an archive whose last volume can only
    /// be decompressed from its start, such as one xz stream, ends "at least" at its last index
    /// entry
    #[arg(long)]
    quick: bool,

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
    /// Without records only: set if the end is that of the last record.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_end_exact: Option<bool>,
    volumes: Vec<u32>,
    index_entries: usize,
    /// The first damage of the index and its offset.
    index_defect: Option<String>,
    metrics: usize,
    instance_domains: usize,
    #[serde(flatten)]
    counts: Option<Counts>,
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

impl InfoCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if self.quick {
            return self.archive.each_outline(self.json, |outline, out| self.outline(outline, out));
        }
        self.archive.each(self.json, |archive, out| {
            let info = Info {
                counts: Some(Counts::read(archive)?),
                ..Info::new(archive.label(), archive.end(), archive.index(), archive.metadata())
            };
            self.print(&info.with_volumes(archive.volumes()), archive.label(), out)
        })
    }

    fn outline(&self, outline: &ArchiveOutline, out: &mut Output) -> Result<(), Failure> {
        let end = outline.end();
        let info = Info {
            is_end_exact: Some(matches!(end, OutlineEnd::Exact(_))),
            ..Info::new(outline.label(), end.timestamp(), outline.index(), outline.metadata())
        };
        self.print(&info.with_volumes(outline.volumes()), outline.label(), out)
    }

    fn print(
        &self,
        info: &Info<'_>,
        label: &ArchiveLabel,
        out: &mut Output,
    ) -> Result<(), Failure> {
        if self.json {
            out.json_line(info)?;
        } else {
            out.text.extend_from_slice(info.text(&self.zone.zone(label)?).as_bytes());
        }
        Ok(())
    }
}

fn index_defect(index: &TemporalIndex) -> Option<String> {
    let IndexDefect { offset, error, .. } = index.defects().first()?;
    Some(format!("offset {offset}: {error}"))
}

impl<'a> Info<'a> {
    /// Returns the properties without volumes and counts.
    fn new(
        label: &'a ArchiveLabel,
        end: Timestamp,
        index: &TemporalIndex,
        metadata: &Metadata,
    ) -> Self {
        Self {
            version: if label.version == Version::V3 { 3 } else { 2 },
            host: &label.hostname,
            timezone: &label.timezone,
            zoneinfo: &label.zoneinfo,
            pid: label.pid,
            start: Rfc3339(label.start),
            start_seconds: EpochSeconds(label.start),
            end: Rfc3339(end),
            end_seconds: EpochSeconds(end),
            is_end_exact: None,
            volumes: Vec::new(),
            index_entries: index.entries().len(),
            index_defect: index_defect(index),
            metrics: metadata.metrics().len(),
            instance_domains: metadata.indoms().len(),
            counts: None,
        }
    }

    fn with_volumes(self, volumes: impl Iterator<Item = u32>) -> Self {
        Self { volumes: volumes.collect(), ..self }
    }

    fn text(&self, zone: &Zone) -> String {
        let start = self.start.0;
        let end = self.end.0;
        let at_least = if self.is_end_exact == Some(false) { "at least " } else { "" };
        let unless_empty =
            |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
        let volumes: Vec<String> = self.volumes.iter().map(ToString::to_string).collect();
        let mut lines = vec![
            ("format", format!("PCP archive, version {}", self.version)),
            ("host", self.host.to_owned()),
            ("written by", format!("process {}", self.pid)),
            ("start", zone.long(start)),
            ("end", format!("{at_least}{}", zone.long(end))),
            ("span", format!("{at_least}{}", span(start, end))),
            ("host's time zone", unless_empty(self.timezone)),
            ("host's zone name", unless_empty(self.zoneinfo)),
            ("volumes", format!("{} ({})", volumes.len(), volumes.join(", "))),
            ("index entries", self.index_text()),
            ("metrics", self.metrics.to_string()),
            ("instance domains", self.instance_domains.to_string()),
        ];
        if let Some(counts) = &self.counts {
            lines.extend([
                ("records", format!("{}, of these {} marks", counts.records, counts.marks)),
                ("values", counts.values.to_string()),
                ("bytes in records", counts.data_bytes.to_string()),
            ]);
        }
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
