//! What is wrong with single entries of a file that is otherwise used.

use pcp_types::InstanceId;

use crate::layout::{MAX_INDOMS, MAX_ITEM, MAX_LABELS, SectionKind};

/// An entry that was left out, or lost a part, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{section} entry {index} at {offset}: {problem}")]
pub struct Defect {
    /// The array that the entry is in.
    pub section: Place,
    /// Its index there, from 0.
    pub index: usize,
    /// Where it starts, in bytes from the start of the file.
    pub offset: u64,
    /// What is wrong.
    pub problem: Problem,
}

/// An array of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// The table of contents.
    Toc,
    /// A section.
    Section(SectionKind),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Toc => f.pad("table of contents"),
            Self::Section(section) => section.fmt(f),
        }
    }
}

/// What is wrong with an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A section of no known kind.
    #[error("unknown section kind {found}")]
    UnknownSection {
        /// The code.
        found: i32,
    },
    /// Labels in a file of version 1 or 2; all are ignored.
    #[error("labels in a file of version {found}")]
    LabelsInVersion {
        /// The version.
        found: i32,
    },
    /// More labels than PCP takes; all are ignored.
    #[error("{found} labels, more than {MAX_LABELS}")]
    TooManyLabels {
        /// How many.
        found: u32,
    },
    /// A text that is not wholly inside the file.
    #[error("256 bytes of text at {found} are not within the file's {file_len} bytes")]
    TextOutside {
        /// Where it would start.
        found: u64,
        /// The file's size.
        file_len: u64,
    },
    /// A text without an end.
    #[error("no NUL in the {len} bytes of text at {found}")]
    TextWithoutEnd {
        /// Where it starts.
        found: u64,
        /// The bytes that were looked at.
        len: usize,
    },
    /// The help text is bad; the entry is used without it.
    #[error("help text: {0}")]
    Help(Box<Problem>),
    /// A serial that does not fit an indom.
    #[error("serial {found} is larger than {MAX_INDOMS}")]
    Serial {
        /// The serial.
        found: u32,
    },
    /// Instances of a domain that are not entries of the instances section.
    #[error("{count} instances at {found} are not entries of the instances section")]
    NotInstances {
        /// The offset of the first.
        found: u64,
        /// How many.
        count: u32,
    },
    /// The domains together claim more instances than the file has.
    #[error("{found} instances claimed up to this domain, but the file has {expected}")]
    InstancesClaimedTwice {
        /// What all domains so far claim.
        found: u64,
        /// The entries of the instances section.
        expected: u64,
    },
    /// An instance number that archives cannot hold.
    #[error("instance number {found} is negative")]
    NegativeInstance {
        /// The number.
        found: i32,
    },
    /// A second instance of a number in a domain.
    #[error("instance {found} is already in domain {serial}")]
    InstanceTwice {
        /// The number.
        found: InstanceId,
        /// The domain.
        serial: u32,
    },
    /// An instance or metric without a name.
    #[error("empty name")]
    EmptyName,
    /// A metric name with other characters than letters, digits, `_` and `.`,
    /// or that does not start with a letter, or with an empty component.
    #[error("\"{found}\" is not a metric name")]
    Name {
        /// The name, non-UTF-8 replaced.
        found: String,
    },
    /// A metric name that an earlier entry has.
    #[error("metric name \"{found}\" is already taken")]
    NameTwice {
        /// The name.
        found: String,
    },
    /// An item number that does not fit a PMID.
    #[error("item {found} is larger than {MAX_ITEM}")]
    Item {
        /// The number.
        found: u32,
    },
    /// An item number that an earlier entry has.
    #[error("item {found} is already taken")]
    ItemTwice {
        /// The number.
        found: u32,
    },
    /// A type that MMV values cannot have.
    #[error("type {found} is none of 0..=6 and 9")]
    Type {
        /// The code.
        found: i32,
    },
    /// A semantics that does not exist.
    #[error("semantics {found} is none of 0, 1, 3 and 4")]
    Semantics {
        /// The code.
        found: i32,
    },
    /// A domain that is not in the file.
    #[error("no indom with serial {found}")]
    NoIndom {
        /// The serial.
        found: u32,
    },
    /// A value whose metric is not an entry of the metrics section.
    #[error("{found} is not a metric entry")]
    NotAMetric {
        /// The offset.
        found: u64,
    },
    /// A value whose instance is not an entry of the instances section in the
    /// metric's domain, or that has one although the metric is singular.
    #[error("{found} is not an instance entry of the metric's domain")]
    NotAnInstance {
        /// The offset.
        found: u64,
    },
    /// A second value of a metric and instance.
    #[error("a second value of metric entry {metric} and instance entry {instance}")]
    ValueTwice {
        /// The metric's offset.
        metric: u64,
        /// The instance's offset.
        instance: u64,
    },
    /// A string value whose text is not in the strings section.
    #[error("256 bytes of text at {found} are not within the strings section")]
    NotAString {
        /// The offset.
        found: i64,
    },
    /// A label with none or several class bits, or unknown ones.
    #[error("label flags {found:#x} do not name one class")]
    LabelFlags {
        /// The word.
        found: u32,
    },
    /// A label that is not `{"name":value}`.
    #[error("label is not {{\"name\":value}} but {found}")]
    LabelJson {
        /// The text, non-UTF-8 replaced.
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
