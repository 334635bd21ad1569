//! The metadata of an MMV file that any program wrote, checked.
//!
//! Every byte may be hostile. [`Contents`] owns its data: it is parsed from a
//! private copy of the file's metadata, never from a mapping, and every
//! offset in it has been checked against the file's size. What is wrong with the
//! file as a whole is a [`Refusal`]; what is wrong with one entry leaves that
//! entry out and is listed as a [`Defect`]. The rules are pmdammv's
//! (`src/pmdas/mmv/src/mmv.c`) and, where that trusts the file, stricter ones.
//!
//! | part | rule |
//! |---|---|
//! | file | header complete, magic, version 1 to 3, g1 = g2 and not 0, cluster 0 to 4095 |
//! | sections | complete, after the table of contents, without overlap, one of each kind; metrics and values present |
//! | indom | serial at most 22 bits; its instances inside the instances section |
//! | instance | number not negative, name not empty and terminated by a NUL; the first entry with a number wins |
//! | metric | name of letters, digits, `_`, `.`, starting with a letter; item at most 1023; type and semantics known; indom present; the first entry with a name or an item wins |
//! | value | without a metric (offset 0) it is unused; metric and instance are entries of their sections and match; a string's text inside the strings section; the first entry of a metric and instance wins |
//! | label | one class bit, `{"name":value}`, attached to something in the file |
//!
//! Texts that are not UTF-8 have the offending bytes replaced by U+FFFD.

mod budget;
mod defect;
mod indoms;
mod labels;
mod metrics;
mod refusal;
mod section;
mod sections;
mod values;

use std::fmt;
use std::fs::File;
use std::time::Instant;

use pcp_types::{InstanceId, Semantics, Units, ValueType};

use crate::growth::{CellOwner, GrowingToc, REUSE_DELAY};
pub use crate::layout::Flags;
use crate::layout::{Header, SectionKind, Version};
use budget::Budget;
pub use budget::{Cost, Source};
pub use defect::{Defect, EntryArray, Problem};
pub use refusal::Refusal;
use section::EntryLookup;
use sections::Sections;

/// Limits on what one file may cost a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Limit on the bytes of metadata that are read, and on the memory for copies and for what
    /// is parsed from them. Holes and entries of zeros are not copied.
    pub bytes: u64,
    /// The process that wrote the file has ended. What it had appended to a
    /// [growing](crate::growth) file and not announced yet is read as well.
    pub writer_has_ended: bool,
}

impl Default for Limits {
    /// Returns a limit of 256 MiB, enough for more than a million instances, of a file whose
    /// process may be alive.
    fn default() -> Self {
        Self { bytes: 256 << 20, writer_has_ended: false }
    }
}

/// Limit on the defects of a file that are listed one by one: a small sparse file can have
/// millions.
pub const MAX_LISTED_DEFECTS: usize = 100;

/// All metadata of one file, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Contents {
    /// The fields of the file's header.
    pub header: HeaderFields,
    /// The table of contents of a growing file; `None` for other files.
    pub growing: Option<GrowingToc>,
    /// The instance domains, in file order; entries with the same serial are
    /// one. A domain may be empty.
    pub indoms: Vec<Indom>,
    /// The metrics, in file order.
    pub metrics: Vec<Metric>,
    /// The values, in file order. A metric may have none.
    pub values: Vec<ValueLocation>,
    /// The labels, in file order.
    pub labels: Vec<Label>,
    /// The first entries that were left out or lost a part, at most [`MAX_LISTED_DEFECTS`].
    pub skipped: Vec<Defect>,
    /// Number of defects that are not in `skipped`.
    pub unlisted: usize,
}

/// Fields of a file's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderFields {
    /// The format's version: 1, 2 or 3.
    pub version: u32,
    /// Generation 1, which was equal to generation 2 and not 0.
    pub generation: u64,
    /// The flags of the file.
    pub flags: Flags,
    /// The process that wrote the file; meaningful with
    /// [`Flags::PROCESS`].
    pub pid: i32,
    /// The requested cluster, 1..=4095; 0: the reader chooses one.
    pub cluster: u32,
    /// The file's size in bytes, to which all offsets were checked.
    pub file_len: u64,
}

/// An instance domain: a set of instances that metrics have values for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Indom {
    /// The number within the file, 0..=4 194 303.
    pub serial: u32,
    /// The one-line help text; may be empty.
    pub short_help: Option<String>,
    /// The long help text; may be empty.
    pub long_help: Option<String>,
    /// The instances, in file order, each number once.
    pub instances: Vec<Instance>,
}

/// An instance of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Instance {
    /// The number, unique in the domain.
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_number"))]
    pub id: InstanceId,
    /// The name, 1..=255 bytes in the file.
    pub name: String,
}

/// The kind of the values in a metric's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetricKind {
    /// A number of a numeric type; 32-bit types in the first four bytes.
    Numeric(ValueType),
    /// Text in a string entry.
    String,
    /// Microseconds in closed intervals, and a running one in `extra`.
    Elapsed,
}

impl MetricKind {
    /// Returns the type of the values that a reader of the metric sees.
    pub const fn value_type(self) -> ValueType {
        match self {
            Self::Numeric(value_type) => value_type,
            Self::String => ValueType::String,
            Self::Elapsed => ValueType::I64,
        }
    }
}

impl fmt::Display for MetricKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elapsed => f.pad("elapsed"),
            kind => kind.value_type().fmt(f),
        }
    }
}

/// A metric's descriptor, without its values.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Metric {
    /// The name without the file's prefix, 1..=255 bytes.
    pub name: String,
    /// The item number of its PMID, 0..=1023, unique in the file.
    pub item: u32,
    /// The kind of its values.
    #[cfg_attr(feature = "serde", serde(rename = "type", serialize_with = "as_text"))]
    pub kind: MetricKind,
    /// The semantics; counter for elapsed time, whatever is in the file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_text"))]
    pub semantics: Semantics,
    /// The units; microseconds for elapsed time, whatever is in the file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_text"))]
    pub units: Units,
    /// The serial of its instance domain, which is in
    /// [`Contents::indoms`]; `None` for a singular metric.
    pub indom: Option<u32>,
    /// The one-line help text; may be empty.
    pub short_help: Option<String>,
    /// The long help text; may be empty.
    pub long_help: Option<String>,
}

/// The location of a value. Offsets are in bytes from the start of the file and inside it. All
/// but `string` are divisible by eight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueLocation {
    /// Index of the metric in [`Contents::metrics`].
    pub metric: usize,
    /// The instance, in the metric's domain; `None` for a singular metric.
    pub instance: Option<InstanceId>,
    /// Offset of the value's eight bytes.
    pub cell: u64,
    /// Offset of the eight bytes of `extra`: minus the start, in microseconds since 1970, of a
    /// running interval of elapsed time.
    pub extra: u64,
    /// Offset of the 256 bytes of text, for a string.
    pub string: Option<u64>,
    /// Offset of the metric's entry.
    pub metric_at: u64,
    /// Offset of the instance's entry; 0 for a singular metric.
    pub instance_at: u64,
    /// Number of instances that had the instance's entry before; 0 unless the file grows.
    pub instance_reuses: u32,
}

impl ValueLocation {
    /// Returns the metric and instance of the cell, by their entries; `None` if one of these is
    /// beyond 4 GiB.
    pub fn owner(&self) -> Option<CellOwner> {
        let instance = self.instance.map(|id| (self.instance_at, id, self.instance_reuses));
        CellOwner::new(self.cell, self.metric_at, instance)
    }
}

/// The kind of object that a label is attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LabelClass {
    /// All metrics of the file.
    Cluster,
    /// An instance domain and all metrics on it.
    Indom,
    /// One metric, by its item.
    Item,
    /// One instance of a domain.
    Instances,
}

impl fmt::Display for LabelClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cluster => "cluster",
            Self::Indom => "indom",
            Self::Item => "item",
            Self::Instances => "instance",
        })
    }
}

/// A label: one name and one value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Label {
    /// The kind of object that it is attached to.
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_text"))]
    pub class: LabelClass,
    /// The cluster as the header has it, an indom's serial, a metric's item or
    /// the serial of the instance's indom.
    pub identity: u32,
    /// The instance, for [`LabelClass::Instances`] only.
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_number"))]
    pub instance: Option<InstanceId>,
    /// True for a label that describes without identifying.
    pub optional: bool,
    /// The name: a letter, then letters, digits and `_`.
    pub name: String,
    /// The value as JSON text, valid by RFC 8259.
    #[cfg_attr(feature = "serde", serde(rename = "value"))]
    pub json_value: String,
}

impl Contents {
    /// Reads the metadata of an open file with `pread`: header, table of
    /// contents and sections, and nothing in between.
    ///
    /// Header and table of contents are read again at the end: a file that
    /// changed meanwhile is [`Refusal::Changed`] or [`Refusal::Grew`]. A
    /// [growing](crate::growth) file may have been appended to while it was read, if that took
    /// less than [`REUSE_DELAY`]: what it had at first is a complete file.
    ///
    /// # Errors
    ///
    /// Any [`Refusal`].
    pub fn read(file: &File, limits: &Limits) -> Result<Self, Refusal> {
        Self::read_at_cost(file, limits).0
    }

    /// Reads the metadata as [`Contents::read`] does, and returns also what that has cost, even if
    /// the file is refused.
    ///
    /// # Errors
    ///
    /// Any [`Refusal`].
    pub fn read_at_cost(file: &File, limits: &Limits) -> (Result<Self, Refusal>, Cost) {
        let mut cost = Cost::default();
        let contents = match file.metadata() {
            Ok(metadata) if metadata.is_file() => {
                Self::read_twice(file, metadata.len(), *limits, &mut cost)
            }
            Ok(_) => Err(Refusal::NotRegular),
            Err(error) => Err(error.into()),
        };
        (contents, cost)
    }

    /// Reads the metadata from any source as [`Contents::read_from`] does, and returns also what
    /// that has cost.
    pub fn read_from_at_cost<S: Source + ?Sized>(
        source: &S,
        file_len: u64,
        limits: &Limits,
    ) -> (Result<Self, Refusal>, Cost) {
        let mut cost = Cost::default();
        (Self::read_twice(source, file_len, *limits, &mut cost), cost)
    }

    /// Reads the metadata from any source of a file's `file_len` bytes, as
    /// [`Contents::read`] does.
    ///
    /// # Errors
    ///
    /// Any [`Refusal`] but [`Refusal::NotRegular`].
    pub fn read_from<S: Source + ?Sized>(
        source: &S,
        file_len: u64,
        limits: &Limits,
    ) -> Result<Self, Refusal> {
        Self::read_twice(source, file_len, *limits, &mut Cost::default())
    }

    fn read_twice<S: Source + ?Sized>(
        source: &S,
        file_len: u64,
        limits: Limits,
        cost: &mut Cost,
    ) -> Result<Self, Refusal> {
        let (contents, toc) = Self::from_source(source, file_len, limits, cost)?;
        let Some(toc) = toc else { return Ok(contents) };
        let mut budget = Budget::new(source, file_len, limits);
        let again = sections::read_header(&mut budget)?;
        if again.generation1 != contents.header.generation
            || again.generation2 != contents.header.generation
        {
            return Err(Refusal::Changed {
                expected: contents.header.generation,
                generation1: again.generation1,
                generation2: again.generation2,
            });
        }
        let same_flags = Flags::from_raw(again.flags) == contents.header.flags;
        if !same_flags || budget.copy(HEADER_BYTES as u64, toc.len() as u64)? != toc {
            return Err(Refusal::Grew { generation: contents.header.generation });
        }
        Ok(contents)
    }

    /// Parses the metadata from a file's bytes in memory.
    ///
    /// # Errors
    ///
    /// Any [`Refusal`] but [`Refusal::Io`], [`Refusal::NotRegular`],
    /// [`Refusal::Changed`] and [`Refusal::Grew`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let len = bytes.len() as u64;
        let limits = Limits::default();
        let (contents, _) = Self::from_source(bytes, len, limits, &mut Cost::default())?;
        Ok(contents)
    }

    /// Reads and parses all metadata. Returns also the table of contents, if it must not change
    /// until the contents are complete.
    fn from_source<S: Source + ?Sized>(
        source: &S,
        file_len: u64,
        limits: Limits,
        cost: &mut Cost,
    ) -> Result<(Self, Option<Vec<u8>>), Refusal> {
        let mut budget = Budget::new(source, file_len, limits);
        let mut skipped = Vec::new();
        let sections = read_sections(&mut budget, &mut skipped);
        let (header, sections) = sections.inspect_err(|_| *cost = budget.cost)?;
        let mut parser = Parser { sections: &sections, budget, skipped, unlisted: 0 };
        let contents = parser.contents(header);
        *cost = parser.budget.cost;
        Ok((contents?, (!sections.are_settled).then_some(sections.toc)))
    }

    /// Returns the instance domain with a serial.
    pub fn indom(&self, serial: u32) -> Option<&Indom> {
        self.indoms.iter().find(|indom| indom.serial == serial)
    }

    /// Returns the values of a metric, given its index, in file order. Scans all values: call it
    /// for one metric, not for each in turn.
    pub fn values_of(&self, metric: usize) -> impl Iterator<Item = &ValueLocation> {
        self.values.iter().filter(move |value| value.metric == metric)
    }
}

fn read_sections<S: Source + ?Sized>(
    budget: &mut Budget<'_, S>,
    skipped: &mut Vec<Defect>,
) -> Result<(HeaderFields, Sections), Refusal> {
    let began = Instant::now();
    let bytes = sections::read_header(budget)?;
    let (version, header) = sections::check_header(&bytes, budget.file_len)?;
    let mut sections = Sections::read(budget, &bytes, version, skipped)?;
    if let Some(growing) = &sections.growing {
        let head = budget.copy(0, GrowingToc::END as u64)?;
        let has_only_grown = growing.flags_of_grown(&head) == Some(header.flags);
        sections.are_settled = has_only_grown && began.elapsed() < REUSE_DELAY;
    }
    Ok((header, sections))
}

/// State that the parsers of all sections share.
struct Parser<'a, S: Source + ?Sized> {
    sections: &'a Sections,
    budget: Budget<'a, S>,
    skipped: Vec<Defect>,
    unlisted: usize,
}

impl<S: Source + ?Sized> Parser<'_, S> {
    fn contents(&mut self, header: HeaderFields) -> Result<Contents, Refusal> {
        let labelled = labels::labelled_instances(self.sections);
        let indoms = indoms::parse(self, &labelled)?;
        let metrics = metrics::parse(self, &indoms)?;
        let values = values::parse(self, &indoms, &metrics)?;
        let labels = labels::parse(self, &header, &indoms, &metrics)?;
        let skipped = std::mem::take(&mut self.skipped);
        let unlisted = self.unlisted;
        let indoms = indoms.domains;
        let metrics = metrics.all;
        let growing = self.sections.growing.clone();
        Ok(Contents { header, growing, indoms, metrics, values, labels, skipped, unlisted })
    }

    fn skip(&mut self, section: SectionKind, index: usize, offset: u64, problem: Problem) {
        if self.skipped.len() >= MAX_LISTED_DEFECTS {
            self.unlisted += 1;
            return;
        }
        let section = EntryArray::Section(section);
        self.skipped.push(Defect { section, index, offset, problem });
    }

    fn version(&self) -> Version {
        self.sections.version
    }

    /// Turns the result of reading an entry into an option: a bad entry is listed and left out, a
    /// bad file ends the reading.
    fn settle<T>(
        &mut self,
        section: SectionKind,
        index: usize,
        offset: u64,
        entry: Result<T, ReadError>,
    ) -> Result<Option<T>, Refusal> {
        match entry {
            Ok(entry) => Ok(Some(entry)),
            Err(ReadError::File(refusal)) => Err(refusal),
            Err(ReadError::Entry(problem)) => {
                self.skip(section, index, offset, problem);
                Ok(None)
            }
        }
    }

    /// Reads the text of the string entry at `offset`, from the copy of the strings section if it
    /// is there, else from the file.
    fn text(&mut self, offset: u64) -> Result<Vec<u8>, ReadError> {
        self.sections.text(&mut self.budget, offset)
    }

    /// Reads a help text; a bad one is listed and dropped.
    fn help(
        &mut self,
        section: SectionKind,
        index: usize,
        entry: u64,
        offset: u64,
    ) -> Result<Option<String>, Refusal> {
        if offset == 0 {
            return Ok(None);
        }
        let text = self.text(offset).map_err(|error| match error {
            ReadError::Entry(problem) => ReadError::Entry(Problem::Help(Box::new(problem))),
            refusal @ ReadError::File(_) => refusal,
        });
        Ok(self.settle(section, index, entry, text)?.map(lossy))
    }
}

/// Error of reading an entry: in the entry, or in the whole file.
enum ReadError {
    Entry(Problem),
    File(Refusal),
}

impl From<Problem> for ReadError {
    fn from(problem: Problem) -> Self {
        Self::Entry(problem)
    }
}

impl From<Refusal> for ReadError {
    fn from(refusal: Refusal) -> Self {
        Self::File(refusal)
    }
}

/// The result of looking up an entry by its offset.
enum Lookup<T> {
    /// The offset is not the start of an entry.
    Nothing,
    /// The entry was left out, and is listed or unused.
    LeftOut,
    Found(T),
}

impl<T> Lookup<T> {
    /// Looks up a copied entry by its number in `entries`, where `None` stands for one that was
    /// left out. An entry of zeros counts as left out.
    fn new(at: &EntryLookup, entries: &[Option<T>]) -> Self
    where
        T: Copy,
    {
        match at {
            EntryLookup::Nothing => Self::Nothing,
            EntryLookup::Zeros => Self::LeftOut,
            EntryLookup::Copy(number) => match entries.get(*number) {
                Some(Some(found)) => Self::Found(*found),
                _ => Self::LeftOut,
            },
        }
    }
}

#[cfg(feature = "serde")]
fn as_text<T: fmt::Display, S: serde::Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

#[cfg(feature = "serde")]
fn as_number<T: Copy + Into<Option<InstanceId>>, S: serde::Serializer>(
    id: &T,
    to: S,
) -> Result<S::Ok, S::Error> {
    serde::Serialize::serialize(&(*id).into().map(InstanceId::get), to)
}

/// Converts a text to UTF-8; invalid bytes become U+FFFD.
fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

const HEADER_BYTES: usize = Header::BYTES;

#[cfg(test)]
mod tests;
