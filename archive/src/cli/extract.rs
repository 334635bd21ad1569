//! `mmv-archive extract`: part of an archive, or several as one, as a new one.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use pcp_types::Timestamp;
use serde::Serialize;

use super::ArchiveArgument;
use super::columns::selected;
use super::failure::Failure;
use super::output::Output;
use super::progress::ProgressOptions;
use super::warn;
use super::window::WindowOptions;
use super::zone::{Zone, ZoneOptions};
use crate::extract::Extract;
use crate::staging::Staging;
use crate::{Archive, ArchiveSet, ArchiveWriter, Source, Summary, Version, WriterOptions};

/// So many metrics without a name are listed.
const MOST_LISTED: usize = 10;

/// Options of `extract`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    archive: ArchiveArgument,

    /// Keep only these metrics, all metrics below these names, or all that
    /// patterns with * and ? match; without a name all metrics. Of an event metric
    /// the descriptors of its parameters are kept too.
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,

    /// Keep only these instances, by name or number; may be repeated. Metrics
    /// without instances are kept.
    #[arg(short = 'i', long = "instance", value_name = "NAME")]
    instances: Vec<String>,

    #[command(flatten)]
    output: OutputOptions,

    #[command(flatten)]
    window: WindowOptions,

    #[command(flatten)]
    zone: ZoneOptions,
}

/// Where a new archive goes.
#[derive(Debug, Args)]
pub(super) struct OutputOptions {
    /// The base name of the new archive. It appears when it is complete. What a
    /// killed run leaves behind is hidden (.NAME.PID.*) and may be removed.
    #[arg(short = 'o', long = "output", value_name = "BASE")]
    base: PathBuf,

    /// Begin a new data volume before one becomes larger than this: bytes, or
    /// with a unit such as 100MB or 64MiB.
    #[arg(long, value_name = "SIZE", value_parser = volume_size)]
    volume_size: Option<u64>,

    /// The format's version: 3, or 2 for readers that know no other, with times
    /// cut to microseconds.
    #[arg(long, value_name = "VERSION", default_value = "3", value_parser = archive_version)]
    archive_version: Version,

    /// Replace an archive of that name. An archive that is read never is.
    #[arg(long)]
    force: bool,

    /// Print one JSON object instead of text, with times as [seconds, nanoseconds].
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    progress: ProgressOptions,
}

#[derive(Serialize)]
struct JsonSummary<'s> {
    archive: &'s Path,
    records: u64,
    start: (i64, u32),
    end: (i64, u32),
    volumes: u32,
    bytes: u64,
}

impl Arguments {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let archives = self.archive.open()?;
        let source = Source::from(&archives);
        let zone = self.zone.zone(source.label())?;
        let window = self.window.window(source.start(), source.end(), zone.time_zone())?;
        if window.unaligned {
            warn(&"the alignment leads out of the archive and is ignored");
        }
        if self.metrics.is_empty() {
            tell_nameless(source);
        }
        let all = [String::new()];
        let names = if self.metrics.is_empty() { &all[..] } else { &self.metrics };
        let extract = Extract::new(selected(source, names, &self.instances)?);
        let extract = extract.window(window.origin.max(window.start)..=window.end);
        let staging = self.output.staging(&archives)?;
        let summary = self.output.write(&extract, &archives, &staging)?;
        self.output.commit(staging, &summary, &zone)
    }
}

impl OutputOptions {
    /// Where the new archive is written until it is complete.
    pub(super) fn staging(&self, archives: &ArchiveSet) -> Result<Staging, Failure> {
        let sources: Vec<&Path> = archives.archives().iter().map(Archive::base).collect();
        Ok(if self.force {
            Staging::replacing(&self.base, &sources)?
        } else {
            Staging::new(&self.base)?
        })
    }

    /// Writes it under its hidden name.
    pub(super) fn write(
        &self,
        extract: &Extract<'_>,
        archives: &ArchiveSet,
        staging: &Staging,
    ) -> Result<Summary, Failure> {
        let (version, volume_bytes) = (self.archive_version, self.volume_size);
        let options = WriterOptions { version, volume_bytes, ..WriterOptions::default() };
        let label = Source::from(archives).label().into();
        let mut writer = ArchiveWriter::create(staging.hidden(), label, options)?;
        let (mut done, total) = (0, bytes_of(archives));
        let mut progress = self.progress.start();
        extract.write(&mut writer, |record| {
            done += record.size() as u64;
            progress.show(done.min(total), total);
        })?;
        drop(progress);
        writer.sync()?;
        let summary = writer.finish()?;
        if summary.records == 0 {
            return Err(Failure::NoData(
                "no record of this time has one of the metrics".to_owned(),
            ));
        }
        Ok(summary)
    }

    /// Lets it appear, and says what it is.
    pub(super) fn commit(
        &self,
        staging: Staging,
        summary: &Summary,
        zone: &Zone,
    ) -> Result<(), Failure> {
        staging.commit()?;
        let (start, end) = summary.span.unwrap_or((Timestamp::EPOCH, Timestamp::EPOCH));
        let mut out = Output::new();
        if self.json {
            out.json_line(&JsonSummary {
                archive: &self.base,
                records: summary.records,
                start: (start.seconds(), start.nanoseconds()),
                end: (end.seconds(), end.nanoseconds()),
                volumes: summary.volumes,
                bytes: summary.bytes,
            })?;
        } else {
            let text = format!(
                "{}: {} records from {} to {}, {} bytes\n",
                self.base.display(),
                summary.records,
                zone.long(start),
                zone.long(end),
                summary.bytes
            );
            out.text.extend_from_slice(text.as_bytes());
        }
        out.finish()
    }
}

/// Says which metrics cannot be selected, since none of their names, if they
/// have any, is theirs alone.
pub(super) fn tell_nameless(source: Source<'_>) {
    let metrics = source.metadata().metrics().iter();
    let nameless = metrics.filter(|metric| metric.names.is_empty()).map(|metric| metric.desc.pmid);
    let nameless: Vec<String> = nameless.map(|pmid| pmid.to_string()).collect();
    let (listed, more) = nameless.split_at(nameless.len().min(MOST_LISTED));
    if listed.is_empty() {
        return;
    }
    let listed = listed.join(", ");
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    warn(&format_args!("metrics without a name of their own are left out: {listed}{more}"));
}

/// Bytes of all data volumes, as far as they can be known.
fn bytes_of(archives: &ArchiveSet) -> u64 {
    let files = archives.archives().iter().flat_map(|archive| {
        let volumes = archive.volumes();
        volumes.filter_map(|number| archive.volume_path(number))
    });
    files.filter_map(|file| fs::metadata(file).ok()).map(|found| found.len()).sum()
}

/// `2` or `3`.
fn archive_version(text: &str) -> Result<Version, String> {
    match text {
        "2" => Ok(Version::V2),
        "3" => Ok(Version::V3),
        _ => Err("archives have version 2 or 3".to_owned()),
    }
}

/// Bytes: a number, with a unit behind it or not.
fn volume_size(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1000,
        "kib" => 1 << 10,
        "m" | "mb" => 1_000_000,
        "mib" => 1 << 20,
        "g" | "gb" => 1_000_000_000,
        "gib" => 1 << 30,
        _ => return Err("a size is bytes, or has a unit such as MB or MiB".to_owned()),
    };
    let number: Option<u64> = number.parse().ok();
    let bytes = number.and_then(|number| number.checked_mul(factor)).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| "this is no size".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_decimal_and_binary_units() {
        for (text, bytes) in
            [("1", 1), ("100MB", 100_000_000), ("64MiB", 64 << 20), ("2 g", 2_000_000_000)]
        {
            assert_eq!(volume_size(text), Ok(bytes));
        }
        for text in ["", "0", "-1", "MB", "1TB", "99999999999999999999", "9999999999999GB", "1.5MB"]
        {
            assert!(volume_size(text).is_err(), "{text}");
        }
    }
}
