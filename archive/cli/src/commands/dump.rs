//! `mmv-archive dump`: an archive record by record, as pmdumplog prints it.
//!
//! The sections have pmdumplog's order (label, descriptors, labels, help text,
//! instance domains on disk and resolved, temporal index, records) and its
//! format, so that diff(1) can compare the two. Only the texts of PCP's own error codes
//! differ. On a terminal, control characters in names and strings are blanks
//! (see [`Output`]).

mod batches;
mod hex;
mod index;
mod json;
mod metadata;
mod on_disk;
mod records;

use std::borrow::Cow;

use clap::Args;
use hashbrown::{HashMap, HashSet};
use pcp_archive::{Archive, ByteText, InstanceId, Pmid, Timestamp, Value, Version};

use crate::Failure;
use crate::options::ArchiveArgument;
use crate::options::archives::require_records;
use crate::selection::select_metrics;
use crate::text::{Output, shown, value};
use crate::time::{SpanOptions, Zone, ZoneOptions};

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  Print everything, as pmdumplog -a does:
    mmv-archive dump -a @
  Print the records of one metric with dates, newest first:
    mmv-archive dump -r -x @ mmv.shop.orders
  What is in the label, and in the index?
    mmv-archive dump -L -t @
  Print the bytes of one file of an archive:
    mmv-archive dump -v 20261123.00.10.index";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of pmdumplog")]
pub(crate) struct DumpCommand {
    #[command(flatten)]
    archive: ArchiveArgument,

    /// Metrics whose values are printed: names, branches of the name space, or patterns such as
    /// "disk.*.read", also with labels: "mmv.shop.requests{code=~'5..'}" [default: all]
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,

    /// Print everything except labels and help text: -d -i -L -m -s -t
    #[arg(short = 'a', long)]
    all: bool,

    /// Print the descriptors of the metrics
    #[arg(short = 'd', long)]
    descs: bool,

    /// Print the labels of the metrics
    #[arg(short = 'e', long)]
    labelsets: bool,

    /// Print the help text of metrics and instance domains
    #[arg(short = 'H', long)]
    helptext: bool,

    /// Print the instance domains, in full after each change
    #[arg(short = 'i', long)]
    insts: bool,

    /// Print the records of instance domains as they are in the file, in full or as changes
    #[arg(short = 'I', long)]
    on_disk_insts: bool,

    /// Print the archive's label
    #[arg(short = 'l', long)]
    label: bool,

    /// Print the archive's label with its time zone and process ID
    #[arg(short = 'L', long)]
    long_label: bool,

    /// Print the records [default without any other section]
    #[arg(short = 'm', long = "values")]
    values: bool,

    /// Print marks even if metrics are named
    #[arg(short = 'M', long)]
    markrecs: bool,

    /// Print the records in reverse order, newest first
    #[arg(short = 'r', long)]
    reverse: bool,

    /// Print the size of each record
    #[arg(short = 's', long)]
    sizes: bool,

    /// Print the temporal index
    #[arg(short = 't', long)]
    index: bool,

    /// Print the records of the archive's files, or of a single named file, in hexadecimal
    #[arg(short = 'v', long, conflicts_with_all = [
        "metrics", "all", "descs", "labelsets", "helptext", "insts", "on_disk_insts", "label",
        "long_label", "values", "markrecs", "reverse", "sizes", "index", "dates", "json", "start",
        "finish",
    ])]
    hex: bool,

    /// Print names and texts byte for byte as pmdumplog does, also those that control a terminal
    #[arg(long, conflicts_with_all = ["hex", "json"])]
    raw_text: bool,

    /// Print dates with times; -xx adds the seconds since the start of the archive, -xxx those
    /// since 1970
    #[arg(short = 'x', action = clap::ArgAction::Count)]
    dates: u8,

    /// Print the records as JSON Lines, with times as [seconds, nanoseconds]
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

/// Metrics, and the instances of some of them.
type ChosenMetrics = (Vec<Pmid>, HashMap<Pmid, HashSet<InstanceId>>);

/// The archive and the output of all sections.
struct Dump<'a> {
    archive: &'a Archive,
    zone: Zone,
    /// The number of `-x`, 0..=3.
    dates: u8,
    /// The instances of metrics that are chosen by labels.
    labelled: HashMap<Pmid, HashSet<InstanceId>>,
    /// Names and texts are printed byte for byte.
    is_raw: bool,
    out: &'a mut Output,
}

impl DumpCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if self.hex {
            return self.archive.each_file(hex::print);
        }
        self.archive.each_also_empty(self.json, |archive, out| {
            self.print(archive, out)?;
            require_records(archive)
        })
    }

    fn print(&self, archive: &Archive, out: &mut Output) -> Result<(), Failure> {
        let zone = self.zone.zone(archive.label())?;
        let start = archive.label().start;
        let end = archive.end();
        let window = if self.span.is_given() {
            Some(self.span.window(start, end, zone.time_zone())?)
        } else {
            None
        };
        let (chosen, labelled) = match self.chosen(archive)? {
            Some((chosen, labelled)) => (Some(chosen), labelled),
            None => (None, HashMap::new()),
        };
        let options = records::Options {
            chosen: chosen.as_deref(),
            window,
            reverse: self.reverse,
            marks: chosen.is_none() || self.markrecs,
            sizes: self.sizes || self.all,
        };
        if self.raw_text {
            out.write_raw();
        }
        let dates = self.dates;
        let is_raw = self.raw_text;
        let mut dump = Dump { archive, zone, dates, labelled, is_raw, out };
        if self.json {
            json::records(&mut dump, &options)
        } else {
            self.sections(&mut dump, &options)
        }
    }

    /// Prints the chosen sections, in pmdumplog's order.
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
        let mut is_whole = true;
        if self.index || self.all {
            is_whole = index::print(dump)?;
        }
        if self.values || self.all || !self.names_a_section() {
            batches::print(dump, options)?;
        }
        if is_whole { Ok(()) } else { Err(Failure::Lost) }
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

    /// Returns the chosen metrics in the order of their names, and the instances of those that are
    /// chosen by labels; `None` for all.
    fn chosen(&self, archive: &Archive) -> Result<Option<ChosenMetrics>, Failure> {
        if self.metrics.is_empty() {
            return Ok(None);
        }
        let selection = select_metrics(archive.into(), &self.metrics, &[])?;
        let pmids: Vec<Pmid> = selection.metrics().iter().map(|metric| metric.desc.pmid).collect();
        let labelled = pmids
            .iter()
            .filter_map(|pmid| Some((*pmid, selection.labelled_instances(*pmid)?.clone())));
        let labelled = labelled.collect();
        Ok(Some((pmids, labelled)))
    }
}

impl Dump<'_> {
    /// Returns whether an instance of a metric is printed.
    fn shows(&self, pmid: Pmid, instance: Option<InstanceId>) -> bool {
        let Some(some) = self.labelled.get(&pmid) else { return true };
        instance.is_some_and(|instance| some.contains(&instance))
    }

    fn text(&mut self, text: &str) {
        self.out.text.extend_from_slice(text.as_bytes());
    }

    fn name(&mut self, name: &str) {
        self.out.text.extend_from_slice(&line_of(name, self.is_raw));
    }

    fn several_lines(&mut self, text: &str) {
        for part in text.split_inclusive(['\n', '\t']) {
            let end = part.trim_end_matches(['\n', '\t']).len();
            self.name(part.get(..end).unwrap_or_default());
            self.text(part.get(end..).unwrap_or_default());
        }
    }

    fn value(&mut self, value: Value<'_>) {
        let push = if self.is_raw { value::push_raw } else { value::push };
        push(&mut self.out.text, value);
    }

    /// Appends `HH:MM:SS` with the decimal places of the archive's version.
    fn push_time(&mut self, timestamp: Timestamp) {
        let places = self.places();
        self.zone.push_time(&mut self.out.text, timestamp, places);
    }

    /// Returns the decimal places of the second in the archive's version.
    fn places(&self) -> usize {
        match self.archive.version() {
            Version::V2 => 6,
            Version::V3 => 9,
        }
    }

    /// Appends a time of the archive with its date, as `-x` requires.
    fn push_timestamp(&mut self, timestamp: Timestamp) {
        self.push_dated(timestamp, self.places());
        if self.dates >= 3 {
            self.text(&format!(" {}", timestamp.seconds()));
        }
    }

    /// Appends a time with its date and the seconds since the start of the archive,
    /// as `-x` requires.
    fn push_dated(&mut self, timestamp: Timestamp, places: usize) {
        if self.dates > 0 {
            self.zone.push_day(&mut self.out.text, timestamp);
            self.text(" ");
        }
        self.zone.push_time(&mut self.out.text, timestamp, places);
        if self.dates > 0 {
            let year = self.zone.year(timestamp);
            self.text(&format!(" {year:>4}"));
        }
        if self.dates >= 2 {
            let seconds = timestamp.seconds_since(self.archive.label().start);
            self.text(&format!(" ({seconds:.places$})"));
        }
    }
}

fn line_of(name: &str, is_raw: bool) -> Cow<'_, [u8]> {
    if is_raw {
        return ByteText::unescape(name);
    }
    match shown(name) {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}
