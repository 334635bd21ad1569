//! The defects that a check reports.

use std::fmt;
use std::path::PathBuf;

use pcp_types::printable;

use crate::error::date::Date;
use crate::error::volume_text;
use crate::{
    ByteText, DescDifference, Error, InDom, InstanceId, Pmid, RecordError, Timestamp, Units,
};

/// The weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Not an error.
    Note,
    /// Breaks a rule, or is left out by readers; all else is read.
    Warning,
    /// Data is lost, unreadable or contradictory.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A defect and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The file that it is in.
    pub file: PathBuf,
    /// Start of the record or index entry, in bytes from the start of the (expanded) file.
    pub offset: u64,
    /// The rule that is broken.
    pub defect: Defect,
}

/// `FILE: offset N: SEVERITY: TEXT [RULE]`
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, defect } = self;
        let rule = defect.rule();
        let severity = defect.severity();
        write!(f, "{}: offset {offset}: {severity}: {defect} [{rule}]", printable::path(file))
    }
}

/// A rule that is broken, with its numbers.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the numbers of the text above each variant")]
pub enum Defect {
    // -- Files ----------------------------------------------------------------
    #[error("there is no such file")]
    MissingFile,
    #[error("there is no index")]
    MissingIndex,
    #[error("cannot be decompressed: {reason}")]
    Compression { reason: String },
    #[error("{source}; {lost} bytes belong to no record")]
    Frame { source: RecordError, lost: u64 },
    #[error("incomplete at the end: {source}")]
    TornTail { source: RecordError },
    #[error("incomplete at the end, so PCP's readers refuse the archive: {source}")]
    TornMetadata { source: RecordError },
    #[error("no record after the label")]
    NoRecords,
    // -- Labels ---------------------------------------------------------------
    #[error("label: {source}")]
    Label { source: RecordError },
    #[error("label: {field} differs from that of the archive's other files")]
    LabelDiffers { field: &'static str },
    #[error("label of {}, expected that of {}", volume_text(*found), volume_text(*expected))]
    LabelVolume { found: i32, expected: i32 },
    // -- Index ----------------------------------------------------------------
    #[error("index entry: {source}")]
    IndexEntry { source: RecordError },
    #[error("index entry: offset {found} in the metadata is not within {least} to {end}")]
    IndexMetadataOffset { found: u64, least: u64, end: u64 },
    #[error("index entry: offset {found} in volume {volume} is not within {least} to {end}")]
    IndexDataOffset { found: u64, volume: u32, least: u64, end: u64 },
    #[error("index entry: volume {volume} does not exist")]
    IndexVolumeMissing { volume: u32 },
    #[error("index entry: time {} is before the archive's start, {}", Date(*found), Date(*start))]
    IndexBeforeStart { found: Timestamp, start: Timestamp },
    #[error(
        "index entry: time {} is before that of the previous entry, {}",
        Date(*found), Date(*before)
    )]
    IndexTimeBackwards { found: Timestamp, before: Timestamp },
    #[error("index entry: volume {found} is below that of the previous entry, {before}")]
    IndexVolumeBackwards { found: u32, before: u32 },
    #[error("index entry: {field} offset {found} is below that of the previous entry, {before}")]
    IndexOffsetBackwards { field: &'static str, found: u64, before: u64 },
    #[error("index entry: offset {found} in volume {volume} is inside a record")]
    IndexBoundary { found: u64, volume: u32 },
    #[error(
        "index entry: time {}, but volume {volume} has a record of {} before its offset",
        Date(*found), Date(*later)
    )]
    IndexLaterBefore { found: Timestamp, later: Timestamp, volume: u32 },
    // -- Metadata -------------------------------------------------------------
    #[error("metadata: {source}")]
    Metadata { source: RecordError },
    #[error("metric {pmid} changes its {difference}")]
    DescChanged { pmid: Pmid, difference: DescDifference },
    #[error("metric {pmid} has instance domain {indom}, which belongs to another agent")]
    DescIndom { pmid: Pmid, indom: InDom },
    #[error("metric {pmid}: {field} {found} of its units {:#010x}", units.raw())]
    DescUnits { pmid: Pmid, units: Units, field: &'static str, found: i64 },
    #[error("name {name} of metric {pmid} belongs to metric {owner}")]
    NameTaken { name: ByteText, pmid: Pmid, owner: Pmid },
    #[error("metric {pmid}: byte {at} of its name \"{name}\" is {byte:#04x}")]
    MetricName { name: String, pmid: Pmid, at: usize, byte: u8 },
    #[error("metric {pmid}: its name \"{name}\" has an empty part at byte {at}")]
    MetricNamePart { name: String, pmid: Pmid, at: usize },
    #[error("metric {pmid}: a name of {found} bytes exceeds the limit of {max}")]
    MetricNameLength { pmid: Pmid, found: u64, max: u64 },
    #[error("metadata of {}, before the archive's start, {}", Date(*found), Date(*start))]
    MetadataBeforeStart { found: Timestamp, start: Timestamp },
    #[error("metadata of {}, after the archive's end, {}", Date(*found), Date(*end))]
    MetadataAfterEnd { found: Timestamp, end: Timestamp },
    #[error("metadata of {} after metadata of {}", Date(*found), Date(*before))]
    MetadataBackwards { found: Timestamp, before: Timestamp },
    #[error("domain {indom}: instance {id} occurs twice")]
    InstanceRepeated { indom: InDom, id: InstanceId },
    #[error("domain {indom}: a record without instances, which readers ignore")]
    IndomEmpty { indom: InDom },
    #[error("domain {indom}: a difference without a full record before it")]
    DeltaFirst { indom: InDom },
    #[error("domain {indom}: a difference removes instance {id}, which the domain does not have")]
    DeltaUnknown { indom: InDom, id: InstanceId },
    #[error("domain {indom}: a difference adds instance {id}, which the domain already has")]
    DeltaKnown { indom: InDom, id: InstanceId },
    #[error("labels of {target}: {what}")]
    LabelJson { target: String, what: &'static str },
    #[error("labels of {target}: {source}; the set is left out")]
    LabelSet { target: String, source: RecordError },
    #[error(
        "labels of {target}: a set for instance {id}, but only instance domains have instances"
    )]
    LabelInstance { target: String, id: InstanceId },
    // -- Data -----------------------------------------------------------------
    #[error("record: {source}")]
    Data { source: RecordError },
    #[error("record of {}, before the archive's start, {}", Date(*found), Date(*start))]
    DataBeforeStart { found: Timestamp, start: Timestamp },
    #[error("record of {} after one of {}", Date(*found), Date(*before))]
    DataBackwards { found: Timestamp, before: Timestamp },
    #[error("values of metric {pmid}, which has no descriptor")]
    DataMetric { pmid: Pmid },
    #[error("{source}")]
    DataValue { source: RecordError },
    #[error("metric {pmid}: event array: {source}")]
    DataEvents { pmid: Pmid, source: RecordError },
    #[error("{source}")]
    DataType { source: RecordError },
    #[error("metric {pmid}: the value format changes from {before} to {found}")]
    DataFormat { pmid: Pmid, found: u32, before: u32 },
    #[error("metric {pmid} has no instances, but {count} values")]
    DataSingular { pmid: Pmid, count: usize },
    #[error("metric {pmid}: instance {id} is not in domain {indom} at {}", Date(*timestamp))]
    DataInstance { pmid: Pmid, indom: InDom, id: InstanceId, timestamp: Timestamp },
    #[error("counter {pmid} decreases from {before} to {found}")]
    CounterDecrease { pmid: Pmid, found: f64, before: f64 },
}

impl Defect {
    /// Returns the defect of compressed data; the finding names the file.
    pub(super) fn compression(error: &Error) -> Self {
        let reason = match error {
            Error::Decompress { source, .. } => source.to_string(),
            other => other.to_string(),
        };
        Self::Compression { reason }
    }

    /// Returns the name of the rule, the same for all its findings.
    pub const fn rule(&self) -> &'static str {
        self.class().0
    }

    /// Returns the severity of all defects of this kind.
    pub const fn severity(&self) -> Severity {
        self.class().1
    }

    /// Returns whether it is a set of labels that is not UTF-8, which PCP's readers use and ours
    /// leave out. A repair keeps it.
    pub const fn is_foreign_text(&self) -> bool {
        matches!(self, Self::LabelSet { source: RecordError::NotUtf8 { .. }, .. })
    }

    /// Returns whether sound archives often have it: counters that start again, instances that
    /// are not in their domain, names of old versions of PCP. Other notes are of what readers
    /// accept, and yet may be the trace of damage.
    pub const fn is_usual(&self) -> bool {
        matches!(
            self,
            Self::CounterDecrease { .. }
                | Self::DataInstance { .. }
                | Self::IndomEmpty { .. }
                | Self::MetricName { byte: b'!'..=b'~', .. }
                | Self::MetricNamePart { .. }
        )
    }

    const fn class(&self) -> (&'static str, Severity) {
        use Severity::{Error, Note, Warning};
        match self {
            Self::MissingFile => ("file-missing", Error),
            Self::MissingIndex => ("index-missing", Warning),
            Self::Compression { .. } => ("compression", Error),
            Self::Frame { .. } => ("record-frame", Error),
            Self::TornTail { .. } => ("torn-tail", Warning),
            Self::TornMetadata { .. } => ("torn-tail", Error),
            Self::NoRecords => ("no-records", Warning),
            Self::Label { .. } => ("label", Error),
            Self::LabelDiffers { .. } => ("label-differs", Error),
            Self::LabelVolume { .. } => ("label-volume", Error),
            Self::IndexEntry { .. } => ("index-entry", Error),
            Self::IndexMetadataOffset { .. } => ("index-metadata-offset", Error),
            Self::IndexDataOffset { .. } => ("index-data-offset", Error),
            Self::IndexVolumeMissing { .. } => ("index-volume-missing", Warning),
            Self::IndexBeforeStart { .. } => ("index-before-start", Error),
            Self::IndexTimeBackwards { .. } => ("index-time-backwards", Error),
            Self::IndexVolumeBackwards { .. } => ("index-volume-backwards", Error),
            Self::IndexOffsetBackwards { .. } => ("index-offset-backwards", Error),
            Self::IndexBoundary { .. } => ("index-boundary", Error),
            Self::IndexLaterBefore { .. } => ("index-later-before", Error),
            Self::Metadata { .. } => ("metadata-record", Error),
            Self::DescChanged { .. } => ("desc-changed", Error),
            Self::DescIndom { .. } => ("desc-indom", Note),
            Self::DescUnits { .. } => ("desc-units", Note),
            Self::NameTaken { .. } => ("name-taken", Warning),
            Self::MetricName { byte: 0, .. } | Self::MetricNameLength { .. } => {
                ("metric-name", Error)
            }
            Self::MetricName { .. } | Self::MetricNamePart { .. } => ("metric-name", Note),
            Self::MetadataBeforeStart { .. } => ("metadata-before-start", Warning),
            Self::MetadataAfterEnd { .. } => ("metadata-after-end", Warning),
            Self::MetadataBackwards { .. } => ("metadata-backwards", Warning),
            Self::InstanceRepeated { .. } => ("instance-repeated", Warning),
            Self::IndomEmpty { .. } => ("indom-empty", Note),
            Self::DeltaFirst { .. } => ("delta-first", Warning),
            Self::DeltaUnknown { .. } => ("delta-unknown", Warning),
            Self::DeltaKnown { .. } => ("delta-known", Warning),
            Self::LabelJson { .. } | Self::LabelSet { .. } => ("label-json", Warning),
            Self::LabelInstance { .. } => ("label-instance", Warning),
            Self::Data { .. } => ("data-record", Error),
            Self::DataBeforeStart { .. } => ("data-before-start", Error),
            Self::DataBackwards { .. } => ("data-backwards", Error),
            Self::DataMetric { .. } => ("data-metric", Error),
            Self::DataValue { .. } => ("data-value", Error),
            Self::DataType { .. } => ("data-type", Error),
            Self::DataEvents { .. } => ("data-events", Error),
            Self::DataFormat { .. } => ("data-format", Error),
            Self::DataSingular { .. } => ("data-singular", Error),
            Self::DataInstance { .. } => ("data-instance", Note),
            Self::CounterDecrease { .. } => ("counter-decrease", Note),
        }
    }
}
