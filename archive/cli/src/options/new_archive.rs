//! Options of commands that write a new archive.
//!
//! The archive is written in a hidden directory ([`OutputOptions::staging`],
//! [`OutputOptions::write`], [`OutputOptions::write_reduced`] or [`OutputOptions::recompress`]) and
//! appears when it is complete ([`OutputOptions::commit`]).

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use pcp_archive::compress::{Effort, recompress};
use pcp_archive::extract::{Extract, StepsBack};
use pcp_archive::internal::staging::Staging;
use pcp_archive::raw::EncodeError;
use pcp_archive::reduce::Reduce;
use pcp_archive::{
    Archive, ArchiveSet, ArchiveWriter, Compression, Error, Pmid, Source, Summary, Timestamp,
    Version, WriterLabel, WriterOptions,
};
use pcp_types::parse_size;
use serde::Serialize;

use super::ProgressOptions;
use crate::Failure;
use crate::text::{EpochSeconds, Output, Rfc3339, shown_path, warn};
use crate::time::Zone;

/// Size of the write buffer of each file.
const WRITTEN_AT_ONCE: usize = 256 << 10;

/// Options of the new archive.
#[derive(Debug, Args)]
pub(crate) struct OutputOptions {
    /// Base name of the new archive, which appears when it is complete; an interrupted run leaves
    /// a hidden directory (.NAME.PID)
    #[arg(short = 'o', long = "output", value_name = "BASE", value_parser = base_names())]
    base: PathBuf,

    /// Maximum size of a data volume in bytes, or with a unit such as 100MB or 64MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    volume_size: Option<u64>,

    /// Version of the format: 2 or 3; version 2 stores microseconds only
    #[arg(long, value_name = "VERSION", default_value = "3", value_parser = archive_version)]
    archive_version: Version,

    /// Replace an existing archive of that name, unless it is one of the inputs
    #[arg(long)]
    force: bool,

    /// Print one JSON object, with times as [seconds, nanoseconds]
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    progress: ProgressOptions,
}

/// Parses the base name of a new archive.
pub(crate) fn base_names() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        let is_directory = path.as_os_str().as_encoded_bytes().ends_with(b"/");
        if is_directory || path.file_name().is_none() {
            return Err("this is a directory: add the name of the new archive");
        }
        Ok(path)
    })
}

#[derive(Serialize)]
struct JsonSummary<'s> {
    archive: &'s Path,
    records: u64,
    start: Rfc3339,
    start_seconds: EpochSeconds,
    end: Rfc3339,
    end_seconds: EpochSeconds,
    volumes: u32,
    bytes: u64,
}

impl OutputOptions {
    /// Returns the hidden name of the new archive.
    pub(crate) fn staging(&self, archives: &ArchiveSet) -> Result<Staging, Failure> {
        let sources: Vec<&Path> = archives.archives().iter().map(Archive::base).collect();
        Ok(if self.force {
            Staging::replacing(&self.base, &sources)?
        } else {
            Staging::new(&self.base)?
        })
    }

    /// Writes the archive under its hidden name.
    pub(crate) fn write(
        &self,
        extract: &Extract<'_>,
        archives: &ArchiveSet,
        staging: &Staging,
    ) -> Result<Summary, Failure> {
        let label = Source::from(archives).label().into();
        let label = extract.relabel(label, self.archive_version)?;
        let mut writer = self.create(&label, staging)?;
        let mut done = 0;
        let total = archives.archives().iter().map(bytes_of).sum();
        let mut progress = self.progress.start();
        let written = extract.write(&mut writer, |record| {
            done += record.size() as u64;
            progress.show(done.min(total), total);
        });
        drop(progress);
        let steps_back = written.map_err(|error| explain(error, self.archive_version))?;
        if let Some(steps_back) = steps_back {
            warn_of_steps_back(&steps_back);
        }
        finish(writer)
    }

    /// Writes one value an interval, with the options and progress of [`write`](Self::write).
    pub(crate) fn write_reduced(
        &self,
        reduce: &Reduce<'_>,
        archives: &ArchiveSet,
        staging: &Staging,
    ) -> Result<Summary, Failure> {
        let mut writer = self.create(&Source::from(archives).label().into(), staging)?;
        let source = Source::from(archives);
        let total = archives.archives().iter().map(bytes_of).sum();
        let length = source.end().seconds_since(source.start());
        let mut progress = self.progress.start();
        let written = reduce.write(&mut writer, |at| {
            // Of how many bytes the records were is not known.
            let part = at.seconds_since(source.start()) / length;
            progress.show(((total as f64 * part) as u64).min(total), total);
        });
        drop(progress);
        let seen = written.map_err(|error| explain(error, self.archive_version))?;
        if seen.backward_records > 0 {
            warn(&format_args!(
                "{} records are earlier than one before them and are left out; \"repair\" keeps \
                 them, in further archives",
                seen.backward_records
            ));
        }
        finish(writer)
    }

    /// Returns the writer of the archive under its hidden name.
    fn create(&self, label: &WriterLabel, staging: &Staging) -> Result<ArchiveWriter, Failure> {
        let version = self.archive_version;
        let volume_bytes = self.volume_size;
        // Readers see the archive only when it is complete, so there is no need to write often.
        let buffer_bytes = WRITTEN_AT_ONCE;
        let defaults = WriterOptions::default();
        let options = WriterOptions { version, volume_bytes, buffer_bytes, ..defaults };
        let label = fit_label(label, version);
        let created = ArchiveWriter::create_with(staging.hidden(), label, options);
        created.map_err(|error| explain(error, version))
    }

    /// Copies a single archive whose records stay as they are, with volumes of this compression.
    /// Returns `None` if records have to be read, also where metrics without a name are left out.
    pub(crate) fn copy(
        &self,
        archives: &ArchiveSet,
        compression: Option<Compression>,
    ) -> Result<Option<(Staging, Summary)>, Failure> {
        let [archive] = archives.archives() else { return Ok(None) };
        let has_names = archive.metadata().metrics().iter().all(|metric| !metric.names.is_empty());
        if self.volume_size.is_some() || self.archive_version != archive.version() || !has_names {
            return Ok(None);
        }
        let staging = self.staging(archives)?;
        let mut done = 0;
        let total = bytes_of(archive);
        let mut progress = self.progress.start();
        let watch = &mut |bytes| {
            done += bytes;
            progress.show(done.min(total), total);
        };
        let made = recompress(archive, staging.hidden(), compression, Effort::Usual, watch)?;
        Ok(made.map(|summary| (staging, summary)))
    }

    /// Renames the archive to its own name, and prints a summary.
    pub(crate) fn commit(
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
                start: Rfc3339(start),
                start_seconds: EpochSeconds(start),
                end: Rfc3339(end),
                end_seconds: EpochSeconds(end),
                volumes: summary.volumes,
                bytes: summary.bytes,
            })?;
        } else {
            let text = format!(
                "{}: {} records from {} to {}, {} bytes\n",
                shown_path(&self.base),
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

/// Finishes an archive, which must not be empty.
fn finish(mut writer: ArchiveWriter) -> Result<Summary, Failure> {
    writer.sync()?;
    let summary = writer.finish()?;
    if summary.records == 0 {
        return Err(Failure::NoData("none of the metrics has a value in this window".to_owned()));
    }
    Ok(summary)
}

/// Warns of metrics that are left out because of their names, with the length of those; whether
/// there are none.
pub(crate) fn warn_of_unnameable(unnameable: &[(Pmid, usize)]) -> bool {
    for (pmid, len) in unnameable {
        warn(&format_args!(
            "metric {pmid} is left out: its name has {len} bytes, and PCP's readers have room for \
             4095; convert --rename OLD=NEW, or repair, gives it another"
        ));
    }
    unnameable.is_empty()
}

/// Changes what of a label this version has no room for, and says so.
fn fit_label(label: &WriterLabel, version: Version) -> WriterLabel {
    let fitted = label.clone().fitted(version);
    let number = version.number();
    if fitted.hostname != label.hostname {
        warn(&format_args!(
            "version {number} has no room for the host name {}: shortened to {}",
            label.hostname, fitted.hostname
        ));
    }
    if fitted.timezone != label.timezone {
        warn(&format_args!(
            "version {number} has no room for the time zone {}: replaced by {}",
            label.timezone, fitted.timezone
        ));
    }
    fitted
}

/// Converts an error of the writer: what version 2 cannot hold is an impossible request, and no
/// damage.
fn explain(error: Error, version: Version) -> Failure {
    use EncodeError::{TimeRange, TooLarge};
    match error {
        Error::Encode { source: source @ (TimeRange { .. } | TooLarge { .. }) }
            if version == Version::V2 =>
        {
            Failure::Usage(format!(
                "{source}: version 2 cannot hold this archive, version 3 can; leave out \
                 --archive-version 2"
            ))
        }
        error => error.into(),
    }
}

/// Warns of records that got a later time so that the new archive is in the order of time.
fn warn_of_steps_back(steps_back: &StepsBack) {
    let StepsBack { file, offset, timestamp, latest, records, longest } = steps_back;
    let file = shown_path(file);
    let others = match records {
        1 => String::new(),
        _ => format!(" ({records} records in all are up to {longest:?} too early)"),
    };
    let timestamp = Rfc3339(*timestamp);
    let latest = Rfc3339(*latest);
    warn(&format_args!(
        "{file}: offset {offset}: record of {timestamp} after one of {latest}{others}: copied with \
         the later time; \"repair\" keeps the times, in further archives"
    ));
}

/// Returns the size in bytes of all data volumes that can be read.
fn bytes_of(archive: &Archive) -> u64 {
    total_size(archive.volumes().filter_map(|number| archive.volume_path(number)))
}

pub(crate) fn total_size(files: impl IntoIterator<Item = impl AsRef<Path>>) -> u64 {
    let sizes = files.into_iter().filter_map(|file| fs::metadata(file).ok());
    sizes.map(|found| found.len()).sum()
}

/// Parses the version, `2` or `3`.
fn archive_version(text: &str) -> Result<Version, String> {
    match text {
        "2" => Ok(Version::V2),
        "3" => Ok(Version::V3),
        _ => Err("the version is 2 or 3".to_owned()),
    }
}
