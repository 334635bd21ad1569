//! What can be wrong, in two layers.
//!
//! [`RecordError`] speaks of bytes alone: it is what the parsers of
//! [`format`](crate::format) return, and it knows neither file nor offset.
//! [`Error`] is what an archive returns; [`Error::Corrupt`] puts the file and
//! the offset of the record in front.

use std::io;
use std::path::PathBuf;

use pcp_types::{InDom, Pmid, Timestamp, ValueType};

/// A record's bytes do not make sense.
///
/// Where PCP has a code for it, it is `PM_ERR_LOGREC`, or `PM_ERR_LABEL` in a
/// label record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A field, or a table whose length an earlier field gives, ends after
    /// the record does. Found before anything is allocated for it.
    #[error("{field}: {needed} bytes needed, {left} left")]
    Truncated {
        /// The field or table.
        field: &'static str,
        /// Bytes it needs.
        needed: u64,
        /// Bytes there are.
        left: u64,
    },
    /// The record is longer than its fields.
    #[error("{left} bytes left behind the last field")]
    Surplus {
        /// Bytes behind the last field.
        left: u64,
    },
    /// The length word in front of a record is too small for any record.
    #[error("record length {found} is less than {least}")]
    FrameLength {
        /// The length word.
        found: u32,
        /// The smallest length that is possible there.
        least: u32,
    },
    /// The length words before and behind a record differ.
    #[error("trailer length {trailer} differs from header length {header}")]
    Trailer {
        /// The word in front.
        header: u32,
        /// The word behind.
        trailer: u32,
    },
    /// A record of fixed length has another length.
    #[error("{record}: length {found}, expected {expected}")]
    Length {
        /// The kind of record.
        record: &'static str,
        /// The length found, framing included.
        found: u64,
        /// The length of this kind.
        expected: u64,
    },
    /// Not the magic number of an archive (`PM_ERR_LABEL`).
    #[error("magic number {found:#010x}, expected 0x500526nn")]
    Magic {
        /// The word found.
        found: u32,
    },
    /// An archive version that is neither 2 nor 3 (`PM_ERR_LABEL`).
    #[error("archive version {found}, expected 2 or 3")]
    UnknownVersion {
        /// The version found.
        found: u32,
    },
    /// A feature bit that is not known here (`PM_ERR_FEATURE`).
    #[error("unknown feature bits {unknown:#010x}")]
    Features {
        /// The unknown ones of the bits that are set.
        unknown: u32,
    },
    /// A metadata record of no kind that this version has (`PM_ERR_RECTYPE`).
    #[error("metadata record type {found} does not exist in version {version}")]
    RecordType {
        /// The type word.
        found: u32,
        /// The archive's version.
        version: u32,
    },
    /// A number outside the values that the field has.
    #[error("{field} {found} is not among its values")]
    Field {
        /// The field.
        field: &'static str,
        /// The number found.
        found: i64,
    },
    /// A negative count or index.
    #[error("{field} {found} is negative")]
    Negative {
        /// The field.
        field: &'static str,
        /// The number found.
        found: i64,
    },
    /// An offset that leads out of the bytes that it counts in.
    #[error("{field} {found} lies beyond {end}")]
    Offset {
        /// The field.
        field: &'static str,
        /// The offset found.
        found: u64,
        /// The first offset that is too large.
        end: u64,
    },
    /// A string without a NUL before its end.
    #[error("{field} is not terminated within {len} bytes")]
    Unterminated {
        /// The field.
        field: &'static str,
        /// The bytes searched.
        len: u64,
    },
    /// Text that has to be UTF-8 and is not.
    #[error("{field} is not UTF-8 from byte {at}")]
    NotUtf8 {
        /// The field.
        field: &'static str,
        /// The first bad byte, counted from the start of the text.
        at: u64,
    },
    /// Strings of a table overlap: together they are longer than the table.
    #[error("{field}: {found} bytes in a table of {room}")]
    Overlap {
        /// The strings.
        field: &'static str,
        /// Their bytes, NULs included, each string counted once.
        found: u64,
        /// Bytes of the table.
        room: u64,
    },
    /// Value blocks overlap, or leave a gap between the last value set and
    /// the trailer.
    #[error("value block at {found}, expected at {expected}")]
    BlockOrder {
        /// Where the block, or the end of the record, is.
        found: u64,
        /// Where the previous block ends.
        expected: u64,
    },
    /// A value is stored in a way that its metric's type does not have.
    #[error("metric {pmid}: value of format {format}, {len} bytes, is no {value_type}")]
    ValueEncoding {
        /// The metric.
        pmid: Pmid,
        /// 0 in place, 1 and 2 in a block.
        format: u32,
        /// Bytes of the value, without a block's header.
        len: u64,
        /// The metric's type.
        value_type: ValueType,
    },
    /// A value is no event array (`PM_ERR_TYPE`).
    #[error("the value is no event array")]
    NotEvents,
    /// Data of a metric that has no descriptor (`PM_ERR_PMID_LOG`).
    #[error("metric {pmid} has no descriptor")]
    UnknownMetric {
        /// The metric.
        pmid: Pmid,
    },
}

/// Why a record cannot be encoded: a limit of the format is exceeded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// Something is longer or more than its field can say.
    #[error("{field}: {found} is more than {max}")]
    TooLarge {
        /// What is too large.
        field: &'static str,
        /// Its size.
        found: u64,
        /// The largest size that can be stored.
        max: u64,
    },
    /// A metric without a name; readers refuse such an archive.
    #[error("metric {pmid} has no name")]
    NoName {
        /// The metric.
        pmid: Pmid,
    },
    /// A metric name that a name space cannot have (`lex` in
    /// `src/libpcp/src/pmns.c`).
    #[error(
        "metric name \"{name}\", byte {at}: a letter first, then letters, digits and _, \
         single dots between the parts"
    )]
    MetricName {
        /// The name.
        name: String,
        /// The first byte that does not belong, or where one is missing.
        at: u64,
    },
    /// A value without a value set to belong to, or a record without any.
    #[error("no value set was begun")]
    NoSet,
    /// A NUL inside a text that a NUL ends.
    #[error("{field} contains a NUL at byte {at}")]
    Nul {
        /// The text.
        field: &'static str,
        /// Where.
        at: u64,
    },
    /// A label name that is not a letter followed by letters, digits and `_`.
    #[error("label name \"{name}\" is not a letter and then letters, digits or _")]
    LabelName {
        /// The name.
        name: String,
    },
    /// A label value that is not JSON.
    #[error("value of label {name} is not JSON: {value}")]
    LabelValue {
        /// The label.
        name: String,
        /// Its value.
        value: String,
    },
    /// Two labels of one set have the same name.
    #[error("label {name} occurs twice in one set")]
    RepeatedLabel {
        /// The name.
        name: String,
    },
    /// Two instances of one domain have the same number.
    #[error("instance {id} occurs twice in one instance domain")]
    RepeatedInstance {
        /// The number.
        id: i32,
    },
    /// A value of an event metric that readers could not unpack.
    #[error("metric {pmid}: event array: {source}")]
    EventArray {
        /// The metric.
        pmid: Pmid,
        /// What is wrong with it.
        source: RecordError,
    },
    /// The flag of lost event records stands for itself.
    #[error("event flags {flags:#x} are those of lost records")]
    EventFlags {
        /// The flags.
        flags: u32,
    },
    /// An event parameter without an event record to belong to.
    #[error("metric {pmid}: no event record was begun")]
    NoEventRecord {
        /// The metric of the parameter.
        pmid: Pmid,
    },
    /// The parameter of an event record is an event array.
    #[error("metric {pmid}: event arrays do not contain event arrays")]
    NestedEvents {
        /// The metric of the parameter.
        pmid: Pmid,
    },
    /// Version 2 has no records of differences: an instance domain is always
    /// written whole.
    #[error("instance domain {indom}: version 2 has no difference records")]
    DeltaInV2 {
        /// The domain.
        indom: InDom,
    },
    /// A prepared record of another version than the archive's.
    #[error("a record of version {found} in an archive of version {expected}")]
    Version {
        /// The record's version.
        found: u32,
        /// The archive's.
        expected: u32,
    },
    /// A moment that version 2 cannot store: its seconds have 32 bits.
    #[error("{stamp} is outside the years that version 2 can say")]
    TimeRange {
        /// The moment.
        stamp: Timestamp,
    },
}

/// What opening, reading or writing an archive can fail with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused an operation on a file.
    #[error("{}: {operation}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What was tried: "open", "read", "write", ...
        operation: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A record is damaged.
    #[error("{}: offset {offset}: {source}", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// Where the record starts, bytes from the start of the file.
        offset: u64,
        /// What is wrong with it.
        source: RecordError,
    },
    /// No file of an archive has this name (`PM_ERR_LOGFILE`).
    #[error("{}: no archive of this name", path.display())]
    NotFound {
        /// The name given.
        path: PathBuf,
    },
    /// The directory holds several archives.
    #[error("{}: {count} archives in this directory, name one", path.display())]
    Ambiguous {
        /// The directory.
        path: PathBuf,
        /// How many.
        count: usize,
    },
    /// A file that an archive must have is missing (`PM_ERR_LOGFILE`).
    #[error("{}: missing", file.display())]
    Missing {
        /// The file, or the pattern of the data volumes.
        file: PathBuf,
    },
    /// A member is compressed, and this library was built without the feature
    /// `compression`.
    #[error("{}: compressed, expand it first", file.display())]
    Compressed {
        /// The file.
        file: PathBuf,
    },
    /// The data of a compressed member is damaged (`PM_ERR_LOGREC`).
    #[error("{}: cannot be expanded: {source}", file.display())]
    Expand {
        /// The file.
        file: PathBuf,
        /// What the decoder says.
        source: io::Error,
    },
    /// The archive has to be repaired before this can be done.
    #[error("{}: offset {offset}: damaged: {reason}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where the damage starts.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// The labels of two files of the archive contradict each other
    /// (`PM_ERR_LABEL`).
    #[error("{}: label: {field} differs from that of {}", file.display(), other.display())]
    LabelMismatch {
        /// The file.
        file: PathBuf,
        /// The file it is compared with.
        other: PathBuf,
        /// The field: "version", "pid" or "host name".
        field: &'static str,
    },
    /// A file's label says that it is another volume (`PM_ERR_LABEL`).
    #[error("{}: label of volume {found}, expected {expected}", file.display())]
    VolumeMismatch {
        /// The file.
        file: PathBuf,
        /// The label's volume: -1 metadata, -2 index.
        found: i32,
        /// The volume that the file's name says.
        expected: i32,
    },
    /// A metric's second descriptor contradicts the first
    /// (`PM_ERR_LOGCHANGETYPE`, `SEM`, `INDOM`, `UNITS`).
    #[error("{}: offset {offset}: metric {pmid} changes its {field}", file.display())]
    DescChanged {
        /// The metadata file.
        file: PathBuf,
        /// Where the second descriptor starts.
        offset: u64,
        /// The metric.
        pmid: Pmid,
        /// "type", "semantics", "instance domain" or "units".
        field: &'static str,
    },
    /// Archives that are to be one timeline are of different hosts
    /// (`PM_ERR_LOGHOST`).
    #[error("{}: of host {found}, but {} is of {expected}", file.display(), other.display())]
    HostDiffers {
        /// An archive.
        file: PathBuf,
        /// Its host.
        found: String,
        /// The archive before it.
        other: PathBuf,
        /// The host of that.
        expected: String,
    },
    /// Archives that are to be one timeline overlap (`PM_ERR_LOGOVERLAP`).
    #[error("{}: begins at {start}, before {} ends at {end}", file.display(), other.display())]
    Overlap {
        /// An archive.
        file: PathBuf,
        /// Its first moment.
        start: Timestamp,
        /// The archive before it.
        other: PathBuf,
        /// The last moment of that.
        end: Timestamp,
    },
    /// A metric has another descriptor in a later archive of a timeline.
    #[error(
        "{}: metric {name} ({pmid}) has another {field} than in {}: tell the two apart first, \
         with convert --rename and --pmid",
        file.display(), other.display()
    )]
    DescDiffers {
        /// The later archive.
        file: PathBuf,
        /// The metric's name there.
        name: String,
        /// The metric.
        pmid: Pmid,
        /// The earlier archive.
        other: PathBuf,
        /// "type", "semantics", "instance domain" or "units".
        field: &'static str,
    },
    /// A name belongs to another metric in a later archive of a timeline.
    #[error(
        "{}: metric {name} is {pmid}, but {expected} in {}: if they are the same, use \
         convert --pmid {name}={expected} first, else convert --rename",
        file.display(), other.display()
    )]
    PmidDiffers {
        /// The later archive.
        file: PathBuf,
        /// The name.
        name: String,
        /// The metric that has it there.
        pmid: Pmid,
        /// The earlier archive.
        other: PathBuf,
        /// The metric that has it there.
        expected: Pmid,
    },
    /// No metric of the archive has this name, or one below it.
    #[error("{name}: no metric of this name")]
    NoMetric {
        /// The name.
        name: String,
    },
    /// A metric cannot get the PMID of another one.
    #[error("metric {owner} has PMID {pmid} already: {name} cannot")]
    PmidTaken {
        /// The metric that wants it.
        name: String,
        /// The PMID.
        pmid: Pmid,
        /// The metric that has it.
        owner: String,
    },
    /// The values of a metric are events, whose parameters are metrics named
    /// by PMIDs: those cannot change.
    #[error("metric {name} has events, which name other metrics by PMID: no PMID can change")]
    EventParameters {
        /// The metric with the events.
        name: String,
    },
    /// The archive has no record (`PM_ERR_NODATA`).
    #[error("{}: no records", path.display())]
    NoData {
        /// The archive's base name.
        path: PathBuf,
    },
    /// An archive of this name exists; a writer never overwrites one.
    #[error("{}: exists", file.display())]
    Exists {
        /// The file in the way.
        file: PathBuf,
    },
    /// What is to be written cannot be stored.
    #[error("{source}")]
    Encode {
        /// Which limit is exceeded.
        #[from]
        source: EncodeError,
    },
    /// A metric was declared before with another descriptor: this needs a
    /// new archive.
    #[error("metric {pmid} changes its {field}")]
    MetricChanged {
        /// The metric.
        pmid: Pmid,
        /// "type", "semantics", "instance domain" or "units".
        field: &'static str,
    },
    /// A name was declared before for another metric.
    #[error("metric name {name} belongs to {owner}, not to {pmid}")]
    NameTaken {
        /// The name.
        name: String,
        /// The metric that has it.
        owner: Pmid,
        /// The metric that wants it.
        pmid: Pmid,
    },
    /// The name of one metric goes on where another's ends: a name space
    /// cannot have both.
    #[error("metric name {name} cannot stand beside {other}")]
    LeafAndFolder {
        /// The name.
        name: String,
        /// The name that was declared before.
        other: String,
    },
    /// Values of a metric that was not declared.
    #[error("metric {pmid} was not declared")]
    Undeclared {
        /// The metric.
        pmid: Pmid,
    },
    /// A value is not of its metric's type, has an instance although the
    /// metric has no instance domain, or the reverse.
    #[error("metric {pmid} ({value_type}, indom {indom:?}): a value of another kind")]
    ValueMismatch {
        /// The metric.
        pmid: Pmid,
        /// Its type.
        value_type: ValueType,
        /// Its instance domain.
        indom: Option<InDom>,
    },
    /// A record is older than the one before it, or of the same time although
    /// one of the two is a mark.
    #[error("record of {stamp} after one of {last}: it must be later, next to a mark at any rate")]
    TimeBackwards {
        /// The record's time.
        stamp: Timestamp,
        /// The time of the last record written.
        last: Timestamp,
    },
    /// A mark or a result without value sets cannot begin an archive.
    #[error("the first record has no values")]
    EmptyStart,
}

/// The result of this crate's fallible functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;
