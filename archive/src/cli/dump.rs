//! `mmv-archive dump`: an archive record by record, as pmdumplog prints it.
//!
//! The sections come in pmdumplog's order (label, descriptors, labels, help
//! text, instance domains on disk and resolved, temporal index, records) and
//! in its words, so that the two can be compared with diff(1). The text of an
//! error code stored in place of values is this project's own.
//!
//! That holds byte for byte in a file or a pipe. On a terminal the control
//! characters in names and strings are blanks (see [`Output`]).

mod batches;
mod hex;
mod index;
mod json;
mod metadata;
mod on_disk;
mod records;
mod walk;

pub(super) use metadata::{descriptor, units};

use clap::Args;
use pcp_types::{Pmid, Timestamp};

use super::ArchiveArgument;
use super::columns::selected;
use super::failure::Failure;
use super::output::Output;
use super::window::SpanOptions;
use super::zone::{Zone, ZoneOptions};
use crate::{Archive, Version};

/// Options of `dump`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of pmdumplog")]
pub(super) struct Arguments {
    #[command(flatten)]
    archive: ArchiveArgument,

    /// Print only the values of these metrics, of all metrics below these names,
    /// or of those that patterns such as "disk.*.read" match; without a name those
    /// of all metrics.
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,

    /// Print everything but labels and help text: -d -i -L -m -s -t.
    #[arg(short = 'a', long)]
    all: bool,

    /// Print the descriptors of the metrics.
    #[arg(short = 'd', long)]
    descs: bool,

    /// Print the labels of the metrics.
    #[arg(short = 'e', long)]
    labelsets: bool,

    /// Print the help text of metrics and instance domains.
    #[arg(short = 'H', long)]
    helptext: bool,

    /// Print the instance domains, complete after each change.
    #[arg(short = 'i', long)]
    insts: bool,

    /// Print the instance domains as the file has them, in its order: whole,
    /// or what was added and deleted.
    #[arg(short = 'I', long)]
    on_disk_insts: bool,

    /// Print the archive's label.
    #[arg(short = 'l', long)]
    label: bool,

    /// Print the archive's label with its time zone and process.
    #[arg(short = 'L', long)]
    long_label: bool,

    /// Print the records; this is what happens without any of these options.
    #[arg(short = 'm', long = "values")]
    values: bool,

    /// Print marks even where metrics are named; without names they always are.
    #[arg(short = 'M', long)]
    markrecs: bool,

    /// Print the records backwards, from the newest to the oldest.
    #[arg(short = 'r', long)]
    reverse: bool,

    /// Print the size of each record.
    #[arg(short = 's', long)]
    sizes: bool,

    /// Print the temporal index.
    #[arg(short = 't', long)]
    index: bool,

    /// Print the records of one file in hexadecimal, whatever it holds: name the
    /// file as the archive (BASE.meta). Of a base name these are all files.
    #[arg(short = 'v', long, conflicts_with_all = [
        "metrics", "all", "descs", "labelsets", "helptext", "insts", "on_disk_insts", "label",
        "long_label", "values", "markrecs", "reverse", "sizes", "index", "dates", "json", "start",
        "finish",
    ])]
    hex: bool,

    /// Print times with their date; twice: and with the seconds since the
    /// archive's start; three times: and with those since 1970.
    #[arg(short = 'x', action = clap::ArgAction::Count)]
    dates: u8,

    /// Print the records as JSON Lines: times as [seconds, nanoseconds], event
    /// arrays as their records.
    #[arg(long, conflicts_with_all = [
        "all", "descs", "labelsets", "helptext", "insts", "on_disk_insts", "label",
        "long_label", "sizes", "index",
    ])]
    json: bool,

    #[command(flatten)]
    span: SpanOptions,

    #[command(flatten)]
    zone: ZoneOptions,
}

/// What all sections print from and to.
struct Dump<'a> {
    archive: &'a Archive,
    zone: Zone,
    /// How much of the date goes with a time, 0..=3.
    dates: u8,
    out: &'a mut Output,
}

impl Arguments {
    pub(super) fn run(&self) -> Result<(), Failure> {
        if self.hex {
            return self.archive.each_file(hex::print);
        }
        self.archive.each(self.json, |archive, out| self.print(archive, out))
    }

    fn print(&self, archive: &Archive, out: &mut Output) -> Result<(), Failure> {
        let zone = self.zone.zone(archive.label())?;
        let (start, end) = (archive.label().start, archive.end());
        let window = || self.span.window(start, end, zone.time_zone());
        let window = self.span.is_given().then(window).transpose()?;
        let chosen = self.chosen(archive)?;
        let options = records::Options {
            chosen: chosen.as_deref(),
            window,
            reverse: self.reverse,
            marks: chosen.is_none() || self.markrecs,
            sizes: self.sizes || self.all,
        };
        let mut dump = Dump { archive, zone, dates: self.dates, out };
        if self.json {
            json::records(&mut dump, &options)
        } else {
            self.sections(&mut dump, &options)
        }
    }

    /// The sections asked for, in pmdumplog's order.
    fn sections(&self, dump: &mut Dump<'_>, options: &records::Options<'_>) -> Result<(), Failure> {
        if self.label || self.long_label || self.all {
            metadata::label(dump, self.long_label || self.all);
        }
        if self.descs || self.all {
            metadata::descriptors(dump)?;
        }
        if self.labelsets {
            metadata::labels(dump)?;
        }
        if self.helptext {
            metadata::help_text(dump)?;
        }
        if self.on_disk_insts {
            on_disk::print(dump)?;
        }
        if self.insts || self.all {
            metadata::instances(dump)?;
        }
        if self.index || self.all {
            index::print(dump)?;
        }
        if self.values || self.all || !self.names_a_section() {
            batches::print(dump, options)?;
        }
        Ok(())
    }

    fn names_a_section(&self) -> bool {
        self.descs
            || self.labelsets
            || self.helptext
            || self.insts
            || self.on_disk_insts
            || self.label
            || self.long_label
            || self.index
    }

    /// The metrics named, in the order of their names, `None` for all.
    fn chosen(&self, archive: &Archive) -> Result<Option<Vec<Pmid>>, Failure> {
        if self.metrics.is_empty() {
            return Ok(None);
        }
        let selection = selected(archive.into(), &self.metrics, &[])?;
        Ok(Some(selection.metrics().iter().map(|metric| metric.desc.pmid).collect()))
    }
}

impl Dump<'_> {
    fn text(&mut self, text: &str) {
        self.out.text.extend_from_slice(text.as_bytes());
    }

    /// `HH:MM:SS` with the places that the version can store.
    fn push_time(&mut self, at: Timestamp) {
        let places = self.places();
        self.zone.push_time(&mut self.out.text, at, places);
    }

    /// Places of the second that the archive's version can store.
    fn places(&self) -> usize {
        match self.archive.version() {
            Version::V2 => 6,
            Version::V3 => 9,
        }
    }

    /// A time of the archive with as much of its date as `-x` asks for.
    fn push_stamp(&mut self, at: Timestamp) {
        self.push_dated(at, self.places());
        if self.dates >= 3 {
            self.text(&format!(" {}", at.seconds()));
        }
    }

    /// A time with so many places of the second, its date, and the seconds
    /// since the archive's start, as far as `-x` asks for them.
    fn push_dated(&mut self, at: Timestamp, places: usize) {
        if self.dates > 0 {
            self.zone.push_day(&mut self.out.text, at);
            self.text(" ");
        }
        self.zone.push_time(&mut self.out.text, at, places);
        if self.dates > 0 {
            let year = self.zone.year(at);
            self.text(&format!(" {year:>4}"));
        }
        if self.dates >= 2 {
            let seconds = at.seconds_since(self.archive.label().start);
            self.text(&format!(" ({seconds:.places$})"));
        }
    }
}
