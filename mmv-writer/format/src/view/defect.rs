//! Defects of single entries of a file that is otherwise used.

use pcp_types::InstanceId;

use crate::layout::{MAX_INDOMS, MAX_ITEM, MAX_LABELS, SectionKind};

/// Error of an entry that was left out, or lost a part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{section} entry {index} at {offset}: {problem}")]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Defect {
    /// The array that the entry is in.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::as_text"))]
    pub section: EntryArray,
    /// The index in that array, from 0.
    pub index: usize,
    /// The offset in bytes from the start of the file.
    pub offset: u64,
    /// The reason why it was left out or lost a part.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::as_text"))]
    pub problem: Problem,
}

/// An array of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryArray {
    /// The array after the header.
    Toc,
    /// A section of that kind.
    Section(SectionKind),
}

impl std::fmt::Display for EntryArray {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Toc => f.pad("table of contents"),
            Self::Section(section) => section.fmt(f),
        }
    }
}

/// The reason why an entry was left out or lost a part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A section of no known kind.
    #[error("unknown section kind {found}")]
    UnknownSection {
        /// The code in the table of contents.
        found: i32,
    },
    /// Labels in a file of version 1 or 2; all are ignored.
    #[error("labels in a file of version {found}")]
    LabelsInVersion {
        /// The version of the file.
        found: i32,
    },
    /// More labels than PCP takes; all are ignored.
    #[error("{found} labels exceed the limit of {MAX_LABELS}")]
    TooManyLabels {
        /// The number of labels.
        found: u32,
    },
    /// A text that is not wholly inside the file.
    #[error("256 bytes of text at {found} are not within the file's {file_len} bytes")]
    TextOutside {
        /// The offset of its first byte.
        found: u64,
        /// The size of the file.
        file_len: u64,
    },
    /// A text without an end.
    #[error("no NUL in the {len} bytes of text at {found}")]
    TextWithoutEnd {
        /// The offset of its first byte.
        found: u64,
        /// The number of bytes that were searched.
        len: usize,
    },
    /// The help text is bad; the entry is used without it.
    #[error("help text: {0}")]
    Help(Box<Problem>),
    /// A serial that does not fit an indom.
    #[error("serial {found}, expected at most {MAX_INDOMS}")]
    Serial {
        /// The serial in the entry.
        found: u32,
    },
    /// Instances of a domain that are not entries of the instances section.
    #[error("{count} instances at {found} are not entries of the instances section")]
    NotInstances {
        /// The offset of the first instance.
        found: u64,
        /// The number of instances.
        count: u32,
    },
    /// The domains together claim more instances than the file has.
    #[error("the domains up to this one claim {found} instances, but the file has {expected}")]
    InstancesClaimedTwice {
        /// The number that all domains so far claim.
        found: u64,
        /// The number of entries of the instances section.
        expected: u64,
    },
    /// An instance number that archives cannot hold.
    #[error("instance number {found} is negative")]
    NegativeInstance {
        /// The number in the entry.
        found: i32,
    },
    /// A second instance of a number in a domain.
    #[error("instance {found} is already in domain {serial}")]
    InstanceTwice {
        /// The number of the instance.
        found: InstanceId,
        /// The serial of the domain.
        serial: u32,
    },
    /// An instance or metric without a name.
    #[error("empty name")]
    EmptyName,
    /// A metric name with other characters than letters, digits, `_` and `.`,
    /// or that does not start with a letter, or with an empty component.
    #[error(
        "\"{found}\" is not a metric name, which has letters, digits, '_' and single dots, and \
         begins with a letter"
    )]
    Name {
        /// The name; invalid UTF-8 is replaced.
        found: String,
    },
    /// A metric name that an earlier entry has.
    #[error("metric name \"{found}\" is already taken")]
    NameTwice {
        /// The name that is taken.
        found: String,
    },
    /// An item number that does not fit a PMID.
    #[error("item {found}, expected at most {MAX_ITEM}")]
    Item {
        /// The item number in the entry.
        found: u32,
    },
    /// An item number that an earlier entry has.
    #[error("item {found} is already taken")]
    ItemTwice {
        /// The item number that is taken.
        found: u32,
    },
    /// A type that MMV values cannot have.
    #[error("unknown type {found}, expected 0 to 6 or 9")]
    Type {
        /// The type code in the entry.
        found: i32,
    },
    /// A semantics that does not exist.
    #[error("unknown semantics {found}, expected 0, 1, 3 or 4")]
    Semantics {
        /// The semantics code in the entry.
        found: i32,
    },
    /// A domain that is not in the file.
    #[error("no indom with serial {found}")]
    NoIndom {
        /// The serial that the metric names.
        found: u32,
    },
    /// A value whose metric is not an entry of the metrics section.
    #[error("{found} is not a metric entry")]
    NotAMetric {
        /// The offset that the value refers to.
        found: u64,
    },
    /// A value whose instance is not an entry of the instances section in the
    /// metric's domain, or that has one although the metric is singular.
    #[error("{found} is not an instance entry of the metric's domain")]
    NotAnInstance {
        /// The offset that the value refers to.
        found: u64,
    },
    /// A second value of a metric and instance.
    #[error("a second value of metric entry {metric} and instance entry {instance}")]
    ValueTwice {
        /// The offset of the metric's entry.
        metric: u64,
        /// The offset of the instance's entry.
        instance: u64,
    },
    /// A string value whose text is not in the strings section.
    #[error("256 bytes of text at {found} are not within the strings section")]
    NotAString {
        /// The offset that the value refers to.
        found: i64,
    },
    /// A label with none or several class bits, or unknown ones.
    #[error("label flags {found:#x} do not name one class")]
    LabelFlags {
        /// The flags of the label's entry.
        found: u32,
    },
    /// A label that is not `{"name":value}`.
    #[error("label is not {{\"name\":value}} but {found}")]
    LabelJson {
        /// The text; invalid UTF-8 is replaced.
        found: String,
    },
    /// A label attached to nothing in the file.
    #[error("label of {identity}, instance {instance}, which is not in the file")]
    LabelTarget {
        /// The cluster, serial or item.
        identity: u32,
        /// The instance, -1 for none.
        instance: i32,
    },
}
