//! Errors, in two layers.
//!
//! [`RecordError`] describes bytes: the parsers of [`format`](crate::format)
//! return it, without file and offset. [`Error`] is what an archive returns;
//! [`Error::Corrupt`] puts the file and the offset of the record in front.

pub(crate) mod date;
mod difference;
pub(crate) mod rules;
pub(crate) mod series;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use pcp_types::printable::{line, path as shown_path};

use crate::{InDom, Pmid, Timestamp, ValueType};
use date::Date;
pub use difference::DescDifference;
use rules::RulesError;
use series::SeriesError;

/// The bytes of a record are malformed.
///
/// Where PCP has a code for it, it is `PM_ERR_LOGREC`, or `PM_ERR_LABEL` in a
/// label record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are those of the message above each variant")]
pub enum RecordError {
    /// A field, or a table whose length an earlier field gives, ends after
    /// the record does. Found before anything is allocated for it.
    #[error("{field}: expected {needed} bytes, found {left}")]
    Truncated { field: &'static str, needed: u64, left: u64 },
    /// The record is longer than its fields.
    #[error("found {left} bytes after the last field, expected none")]
    TrailingBytes { left: u64 },
    /// The length word before a record is too small for any record or, as PCP reads it, negative.
    #[error("record length {found} is not between {least} and {}", i32::MAX)]
    FrameLength { found: u32, least: u32 },
    /// The length words before and after a record differ.
    #[error("trailer length {trailer} differs from header length {header}")]
    Trailer { header: u32, trailer: u32 },
    /// A record that is longer than any in a compressed file.
    #[error("record length {found} exceeds {most}, the limit in a compressed file")]
    TooLong { found: u32, most: u32 },
    /// A record of fixed length has another length. Lengths include the framing.
    #[error("{record}: length {found}, expected {expected}")]
    Length { record: &'static str, found: u64, expected: u64 },
    /// Not the magic number of an archive (`PM_ERR_LABEL`).
    #[error("magic number {found:#010x}, expected 0x500526nn")]
    Magic { found: u32 },
    /// An archive version that is neither 2 nor 3 (`PM_ERR_LABEL`).
    #[error("archive version {found}, expected 2 or 3")]
    UnknownVersion { found: u32 },
    /// A feature bit that is not known here (`PM_ERR_FEATURE`).
    #[error("unknown feature bits {unknown:#010x}: only newer programs can read the archive")]
    Features { unknown: u32 },
    /// A metadata record of no kind that this version has (`PM_ERR_RECTYPE`).
    #[error("metadata record type {found} does not exist in version {version}")]
    RecordType { found: u32, version: u32 },
    /// A number outside the values that the field has.
    #[error("invalid {field} {found}")]
    Field { field: &'static str, found: i64 },
    /// A negative count or index.
    #[error("{field} {found} is negative")]
    Negative { field: &'static str, found: i64 },
    /// An offset beyond the end of the bytes that it refers to. `end` is the first
    /// offset that is too large.
    #[error("{field} {found}, expected less than {end}")]
    Offset { field: &'static str, found: u64, end: u64 },
    /// A string without a NUL before its end.
    #[error("{field} is not terminated within {len} bytes")]
    Unterminated { field: &'static str, len: u64 },
    /// Text that has to be UTF-8 and is not. `at` counts from the start of the text.
    #[error("{field} is not valid UTF-8 at byte {at}")]
    NotUtf8 { field: &'static str, at: u64 },
    /// Text that has to be a JSON object and is not.
    #[error("{field} is not a JSON object")]
    NotJson { field: &'static str },
    /// Strings of a table overlap: together they are longer than the table. NULs
    /// count, and each string once.
    #[error("{field} overlap: {found} bytes in a table of {room} bytes")]
    Overlap { field: &'static str, found: u64, room: u64 },
    /// A time is before `least`, which precedes it in the file.
    #[error("time {}, expected {} or later", Date(*found), Date(*least))]
    TimeBefore { found: Timestamp, least: Timestamp },
    /// A time is after `most`, which follows it in the file.
    #[error("time {}, expected {} or earlier", Date(*found), Date(*most))]
    TimeAfter { found: Timestamp, most: Timestamp },
    /// Records or entries beyond the limit of those that are read.
    #[error("more than {most} {field}; the others are not read")]
    TooMany { field: &'static str, most: u64 },
    /// Value blocks overlap, or leave a gap between the last value set and the
    /// trailer. `found` is the offset of the block, or of the end of the record;
    /// `expected` is where the previous block ends.
    #[error("value block at {found}, expected at {expected}")]
    BlockOrder { found: u64, expected: u64 },
    /// A value is stored in a way that its metric's type does not have. `format` is 0
    /// in place, 1 and 2 in a block; `len` does not include the header of a block.
    #[error("metric {pmid}: {len} bytes of format {format} are not a value of type {value_type}")]
    ValueEncoding { pmid: Pmid, format: u32, len: u64, value_type: ValueType },
    /// The block of a value states another type than the descriptor of its metric. Type
    /// 0 states none: old loggers wrote it for every type.
    #[error(
        "metric {pmid}: found a value of type {}, expected {expected} as in the descriptor",
        type_text(*found)
    )]
    ValueType { pmid: Pmid, found: i32, expected: ValueType },
    /// A value is not an event array (`PM_ERR_TYPE`).
    #[error("the value is not an event array")]
    NotEvents,
    /// The label of a file contradicts that of the metadata (`PM_ERR_LABEL`).
    #[error("label: {field} {}, expected {} as in the metadata", line(found), line(expected))]
    LabelMismatch { field: &'static str, found: String, expected: String },
    /// A compressed file cannot be decompressed.
    #[error("cannot be decompressed: {reason}")]
    Decompress { reason: String },
    /// Data of a metric that has no descriptor (`PM_ERR_PMID_LOG`).
    #[error("metric {pmid} has no descriptor")]
    UnknownMetric { pmid: Pmid },
}

fn instances_text(indom: Option<InDom>) -> String {
    match indom {
        Some(indom) => format!("with instances of domain {indom}"),
        None => "without instances".to_owned(),
    }
}

/// Returns the file that the volume number of a label means.
pub(crate) fn volume_text(number: i32) -> String {
    match number {
        -2 => "the index".to_owned(),
        -1 => "the metadata".to_owned(),
        volume => format!("volume {volume}"),
    }
}

fn type_text(code: i32) -> String {
    ValueType::from_code(code).map_or_else(|_| format!("code {code}"), |found| found.to_string())
}

/// A record cannot be encoded: a limit of the format is exceeded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are those of the message above each variant")]
pub enum EncodeError {
    /// A length or count exceeds its field.
    #[error("{field}: {found} exceeds the limit of {max}")]
    TooLarge { field: &'static str, found: u64, max: u64 },
    /// A metric without a name; readers refuse such an archive.
    #[error("metric {pmid} has no name")]
    NoName { pmid: Pmid },
    /// A metric name that a name space cannot have (`lex` in
    /// `src/libpcp/src/pmns.c`). `at` is the first byte that does not belong, or
    /// where one is missing.
    #[error(
        "metric name \"{name}\", byte {at}: expected a letter, then letters, digits and _, \
         with single dots between the parts",
        name = line(name)
    )]
    MetricName { name: String, at: u64 },
    /// A value without a value set to belong to, or a record without any.
    #[error("no value set was begun")]
    NoSet,
    /// A NUL inside a text that a NUL ends.
    #[error("{field} contains a NUL at byte {at}")]
    Nul { field: &'static str, at: u64 },
    /// A label name that is not a letter followed by letters, digits and `_`.
    #[error(
        "label name \"{name}\": expected a letter, then letters, digits and _",
        name = line(name)
    )]
    LabelName { name: String },
    /// A label value that is not JSON.
    #[error("value of label {name} is not JSON: {value}", name = line(name), value = line(value))]
    LabelValue { name: String, value: String },
    /// Two labels of one set have the same name.
    #[error("label {name} occurs twice in one set", name = line(name))]
    RepeatedLabel { name: String },
    /// Two instances of one domain have the same number.
    #[error("instance {id} occurs twice in one instance domain")]
    RepeatedInstance { id: i32 },
    /// A value of an event metric that readers could not unpack.
    #[error("metric {pmid}: event array: {source}")]
    EventArray { pmid: Pmid, source: RecordError },
    /// The flag of lost event records cannot be combined with others.
    #[error("event flags {flags:#x} are reserved for lost records")]
    EventFlags { flags: u32 },
    /// An event parameter without an event record to belong to. `pmid` is the metric
    /// of the parameter.
    #[error("metric {pmid}: no event record was begun")]
    NoEventRecord { pmid: Pmid },
    /// The parameter of an event record is an event array. `pmid` is the metric of
    /// the parameter.
    #[error("metric {pmid}: event arrays do not contain event arrays")]
    NestedEvents { pmid: Pmid },
    /// Version 2 has no records of differences: an instance domain is always
    /// written whole.
    #[error("instance domain {indom} has a difference record, which version 2 cannot hold")]
    DeltaInV2 { indom: InDom },
    /// A prepared record of another version than the archive's.
    #[error("a record of version {found} in an archive of version {expected}")]
    Version { found: u32, expected: u32 },
    /// A moment that version 2 cannot store: its seconds have 32 bits.
    #[error("{} is outside the range of version 2 timestamps, 1901 to 2038", Date(*timestamp))]
    TimeRange { timestamp: Timestamp },
}

impl EncodeError {
    /// Returns [`TooLarge`](Self::TooLarge) if a size exceeds its limit.
    pub(crate) fn check_size(field: &'static str, found: usize, max: usize) -> Result<(), Self> {
        if found > max {
            return Err(Self::TooLarge { field, found: found as u64, max: max as u64 });
        }
        Ok(())
    }

    /// Returns [`Nul`](Self::Nul) if a NUL-terminated text contains a NUL.
    pub(crate) fn check_nul(field: &'static str, text: &[u8]) -> Result<(), Self> {
        match text.iter().position(|byte| *byte == 0) {
            Some(at) => Err(Self::Nul { field, at: at as u64 }),
            None => Ok(()),
        }
    }
}

/// An error of opening, reading or writing an archive.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are those of the message above each variant")]
pub enum Error {
    /// The system refused an operation on a file. `operation` is "open", "read",
    /// "write", ...
    #[error("{}: {operation}: {source}", shown_path(file))]
    Io { file: PathBuf, operation: &'static str, source: io::Error },
    /// A record is damaged. `offset` is where the record starts, in bytes from the
    /// start of the file.
    #[error("{}: offset {offset}: {source}", shown_path(file))]
    Corrupt { file: PathBuf, offset: u64, source: RecordError },
    /// No file of an archive has this name (`PM_ERR_LOGFILE`).
    #[error("{}: no archive of this name", shown_path(path))]
    NotFound { path: PathBuf },
    /// The directory holds several archives.
    #[error("{}: {count} archives in this directory; name one", shown_path(path))]
    Ambiguous { path: PathBuf, count: usize },
    /// The directory holds no archives itself, and several directories with archives.
    #[error("{}: {count} directories with archives in this one; name one", shown_path(path))]
    SeveralHosts { path: PathBuf, count: usize },
    /// A process writes the archive, whose files are to be replaced.
    #[error(
        "{}: process {pid} ({}) is writing to it; stop it first, or repair to another name",
        shown_path(file),
        line(name)
    )]
    Written { file: PathBuf, pid: u32, name: String },
    /// A file that an archive must have is missing (`PM_ERR_LOGFILE`). `file` is the
    /// file, or the pattern of the data volumes.
    #[error("{}: missing from the archive", shown_path(file))]
    Missing { file: PathBuf },
    /// A directory, FIFO, socket or device has the name of a member.
    #[error("{}: not a regular file", shown_path(file))]
    NotRegular { file: PathBuf },
    /// A member is compressed, and this library was built without the feature
    /// `compression`.
    #[error("{}: compressed, which this build cannot read; decompress it first", shown_path(file))]
    Compressed { file: PathBuf },
    /// The data of a compressed member is damaged (`PM_ERR_LOGREC`).
    #[error("{}: cannot be decompressed: {source}", shown_path(file))]
    Decompress { file: PathBuf, source: io::Error },
    /// The archive has to be repaired before this can be done. `offset` is where the
    /// damage starts.
    #[error("{}: offset {offset}: damaged: {reason}", shown_path(file), reason = line(reason))]
    Damaged { file: PathBuf, offset: u64, reason: String },
    /// The labels of two files of the archive contradict each other (`PM_ERR_LABEL`).
    /// `field` is "version", "pid", "host name" or "start time".
    #[error(
        "{}: offset 0: label: {field} {}, expected {} as in {}",
        shown_path(file),
        line(found),
        line(expected),
        shown_path(other)
    )]
    LabelMismatch {
        file: PathBuf,
        other: PathBuf,
        field: &'static str,
        found: String,
        expected: String,
    },
    /// A file's label is that of another volume (`PM_ERR_LABEL`). -1 is the metadata,
    /// -2 the index; `expected` is the volume in the name of the file.
    #[error(
        "{}: offset 0: label of {}, expected that of {}",
        shown_path(file), volume_text(*found), volume_text(*expected)
    )]
    VolumeMismatch { file: PathBuf, found: i32, expected: i32 },
    /// A metric's second descriptor contradicts the first (`PM_ERR_LOGCHANGETYPE`,
    /// `SEM`, `INDOM`, `UNITS`). `offset` is where the second descriptor starts.
    #[error("{}: offset {offset}: metric {pmid} changes its {difference}", shown_path(file))]
    DescChanged { file: PathBuf, offset: u64, pmid: Pmid, difference: Box<DescDifference> },
    /// Archives for one timeline are of different hosts (`PM_ERR_LOGHOST`). `other`
    /// is the archive before `file`.
    #[error(
        "{}: recorded on host {found}, but {} on {expected}",
        shown_path(file), shown_path(other), found = line(found), expected = line(expected)
    )]
    HostDiffers { file: PathBuf, found: String, other: PathBuf, expected: String },
    /// Archives for one timeline overlap (`PM_ERR_LOGOVERLAP`). `file` starts at
    /// `start`; `other` is the archive before it.
    #[error(
        "{}: begins at {}, before {} ends at {}",
        shown_path(file), Date(*start), shown_path(other), Date(*end)
    )]
    Overlap { file: PathBuf, start: Timestamp, other: PathBuf, end: Timestamp },
    /// A metric has another descriptor in a later archive of a timeline. `file` is
    /// the later archive, with `name`.
    #[error(
        "{}: metric {name} ({pmid}) has {} {}, but {} in {}: make them two metrics first, with \
         convert --rename and --pmid",
        shown_path(file), difference.field, difference.found, difference.expected,
        shown_path(other), name = line(name)
    )]
    DescDiffers {
        file: PathBuf,
        name: String,
        pmid: Pmid,
        other: PathBuf,
        difference: Box<DescDifference>,
    },
    /// A name belongs to another metric in a later archive of a timeline. `file` is
    /// the later archive, where the name belongs to `pmid`; in `other` it belongs to
    /// `expected`.
    #[error(
        "{}: metric {name} is {pmid}, but {expected} in {}: if they are the same, use \
         convert --pmid {name}={expected} first, else convert --rename",
        shown_path(file), shown_path(other), name = line(name)
    )]
    PmidDiffers { file: PathBuf, name: String, pmid: Pmid, other: PathBuf, expected: Pmid },
    /// No metric of the archive has this name, or one below it.
    #[error("{name}: no metric of this name", name = line(name))]
    NoMetric { name: String },
    /// A metric cannot get the PMID of another one. `name` wants it, `owner` has it.
    #[error(
        "metric {name} cannot get PMID {pmid}, which metric {owner} has",
        name = line(name), owner = line(owner)
    )]
    PmidTaken { name: String, pmid: Pmid, owner: String },
    /// The values of a metric are events, whose parameters are metrics named
    /// by PMIDs: those cannot change.
    #[error(
        "metric {name} has events, which refer to metrics by PMID, so no PMID can change",
        name = line(name)
    )]
    EventParameters { name: String },
    /// A rule of a change, or of several, that cannot be applied to the archive.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// A question for one metric that has no answer.
    #[error(transparent)]
    Series(Box<SeriesError>),
    /// A value does not fit the type or the unit that a rule gives its metric. `offset` is where
    /// its record starts.
    #[error(
        "{}: offset {offset}: metric {name}: {value} does not fit type {value_type}: choose \
         another type or unit ({rule})",
        shown_path(file), name = line(name)
    )]
    Unconvertible {
        file: PathBuf,
        offset: u64,
        name: String,
        value: String,
        value_type: ValueType,
        rule: String,
    },
    /// The archive has no record (`PM_ERR_NODATA`). `path` is the base name of the
    /// archive.
    #[error("{}: no records", shown_path(path))]
    NoData { path: PathBuf },
    /// An archive of this name exists; a writer never overwrites one.
    #[error(
        "{}: already exists; choose another name, files are never overwritten",
        shown_path(file)
    )]
    Exists { file: PathBuf },
    /// Another program has changed a file of the archive that is being written. `change` is
    /// "removed", "replaced" or "truncated".
    #[error("{}: {change} by another program while it was written", shown_path(file))]
    Disturbed { file: PathBuf, change: &'static str },
    /// A record or its metadata cannot be encoded.
    #[error("{source}")]
    Encode {
        #[from]
        source: EncodeError,
    },
    /// A metric was declared before with another descriptor: this needs a new
    /// archive.
    #[error("metric {pmid} changes its {difference}, which needs a new archive")]
    MetricChanged { pmid: Pmid, difference: Box<DescDifference> },
    /// A name was declared before for another metric. `pmid` wants the name, `owner`
    /// has it.
    #[error("metric name {name} belongs to {owner}, not to {pmid}", name = line(name))]
    NameTaken { name: String, owner: Pmid, pmid: Pmid },
    /// The name of one metric is a prefix of another's: a name space cannot have
    /// both. `other` was declared before.
    #[error(
        "metric name {name} cannot exist together with {other}: a name is either a metric or a \
         branch",
        name = line(name), other = line(other)
    )]
    LeafAndBranch { name: String, other: String },
    /// Values of a metric that was not declared.
    #[error("metric {pmid} was not declared; declare it before its first value")]
    Undeclared { pmid: Pmid },
    /// A value is not of its metric's type, has an instance although the
    /// metric has no instance domain, or the reverse.
    #[error(
        "the value does not match the declaration of metric {pmid}: {value_type}, {}",
        instances_text(*indom)
    )]
    ValueMismatch { pmid: Pmid, value_type: ValueType, indom: Option<InDom> },
    /// A key of another writer.
    #[error(
        "the key of a metric belongs to another writer: use the one that add() returned for this \
         archive"
    )]
    ForeignKey,
    /// A value of an instance that the metric does not have now.
    #[error(
        "metric {metric} has no instance \"{instance}\": name it in set_instances first",
        metric = line(metric), instance = line(instance)
    )]
    UnknownInstance { metric: String, instance: String },
    /// A value without an instance, of a metric that has instances.
    #[error(
        "metric {metric} has a value for each instance: use set_instance in place of set",
        metric = line(metric)
    )]
    InstanceNeeded { metric: String },
    /// A value of an instance, of a metric that has none.
    #[error(
        "metric {metric} has no instances: use set in place of set_instance, or add it with \
         instances()",
        metric = line(metric)
    )]
    NoInstances { metric: String },
    /// An instance domain that the writer did not create.
    #[error("instance domain {indom} is not one that instances() of this writer returned")]
    UnknownInDom { indom: InDom },
    /// There are no more numbers for another of these: "metrics", "instance domains" or
    /// "instances of one domain".
    #[error("an archive cannot have more {what}")]
    OutOfNumbers { what: &'static str },
    /// A record is older than the one before it, or of the same time although one of
    /// the two is a mark. `last` is the time of the last record written.
    #[error(
        "record of {} after one of {}: times must not decrease, and must differ before and after \
         a mark",
        Date(*timestamp), Date(*last)
    )]
    TimeBackwards { timestamp: Timestamp, last: Timestamp },
    /// An archive cannot begin with a mark.
    #[error("a mark cannot be the first record of an archive")]
    LeadingMark,
    /// A result without value sets: in a file it would be a mark.
    #[error(
        "the record of {} has no value sets; a mark is written by write_mark",
        Date(*timestamp)
    )]
    EmptyRecord { timestamp: Timestamp },
}

/// The message: it is what is printed when `main` returns the error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Returns whether bytes of a file are not a record, cannot be decompressed to any, or are a
    /// label of another archive. Intact records may follow:
    /// [`Records::skip_damage`](crate::Records::skip_damage) moves on to them.
    pub const fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Corrupt { .. }
                | Self::Decompress { .. }
                | Self::LabelMismatch { .. }
                | Self::VolumeMismatch { .. }
        )
    }

    /// Returns whether a file is missing, as one that another program has removed since its
    /// directory was listed.
    pub fn is_missing_file(&self) -> bool {
        match self {
            Self::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
            _ => matches!(self, Self::Missing { .. } | Self::NotFound { .. }),
        }
    }
}

/// Returns the error of a failed operation on a file, for `map_err`.
pub(crate) fn io_error(operation: &'static str, file: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io { file: file.to_owned(), operation, source }
}

/// The result of this crate's fallible functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;
