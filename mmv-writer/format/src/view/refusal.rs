//! Errors that keep a file from being read at all.

use crate::layout::{Header, MAX_CLUSTER, SectionKind};

/// Error that makes a reader refuse the whole file, with the numbers that it found.
///
/// What to do: if [`Refusal::is_not_ready`], read the file again soon; if
/// [`Refusal::is_just_created`], report it only if it lasts; any other lasts until
/// the file changes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Reading failed, or the file became shorter while it was read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A directory, FIFO, socket or device.
    #[error("not a regular file")]
    NotRegular,
    /// Shorter than a header.
    #[error("size {found} is less than a header's {expected} bytes", expected = Header::BYTES)]
    TooShort {
        /// The size of the file.
        found: u64,
    },
    /// The first four bytes are not `MMV\0`.
    #[error(
        "not an MMV file: it begins with \"{found}\", expected \"MMV\" and a NUL",
        found = found.escape_ascii()
    )]
    Magic {
        /// The first four bytes.
        found: [u8; 4],
    },
    /// Written by a host of the other byte order.
    #[error("version {found:#010x} is in the other byte order")]
    ForeignByteOrder {
        /// The version as this host reads it.
        found: i32,
    },
    /// An unknown version of the format.
    #[error("version {found} is not 1, 2 or 3")]
    Version {
        /// The number in the header.
        found: i32,
    },
    /// The generations are 0 or differ: the producer is still writing.
    #[error("not ready: generation 1 is {generation1}, generation 2 is {generation2}")]
    NotReady {
        /// Generation 1 of the header.
        generation1: u64,
        /// Generation 2 of the header.
        generation2: u64,
    },
    /// Entries were added while the file was read, and not announced by a new
    /// generation yet.
    #[error("grew while it was read, in generation {generation}")]
    Grew {
        /// The value of both generations.
        generation: u64,
    },
    /// The producer wrote while the file was read.
    #[error(
        "changed while it was read: generation {expected}, then {generation1} and {generation2}"
    )]
    Changed {
        /// The value of both generations at first.
        expected: u64,
        /// Generation 1 at the end.
        generation1: u64,
        /// Generation 2 at the end.
        generation2: u64,
    },
    /// The cluster does not fit a PMID.
    #[error("cluster {found}, expected 0 to {MAX_CLUSTER}")]
    Cluster {
        /// The number in the header.
        found: i32,
    },
    /// A table of contents with too few or too many entries.
    #[error("the table of contents has {found} entries, expected {min} to {max}")]
    TocCount {
        /// The count in the header.
        found: i32,
        /// The lower limit: metrics and values.
        min: i32,
        /// The upper limit that is accepted.
        max: i32,
    },
    /// The table of contents is not wholly inside the file.
    #[error("the table of contents ends at {end}, the file at {file_len}")]
    TocOutside {
        /// The offset of the first byte after it.
        end: u64,
        /// The size of the file.
        file_len: u64,
    },
    /// A section with a negative count.
    #[error("section {section} has {found} entries")]
    SectionCount {
        /// The kind of the section.
        section: SectionKind,
        /// The count in the table of contents.
        found: i32,
    },
    /// A section that is not wholly between the table of contents and the end of
    /// the file.
    #[error(
        "section {section}: {count} entries of {entry_bytes} bytes at {offset} are not within bytes {start} to {file_len}"
    )]
    SectionOutside {
        /// The kind of the section.
        section: SectionKind,
        /// The offset of its first byte.
        offset: u64,
        /// The number of its entries.
        count: u32,
        /// The size of each entry.
        entry_bytes: usize,
        /// The offset of the end of the table of contents.
        start: u64,
        /// The size of the file.
        file_len: u64,
    },
    /// Two sections share bytes.
    #[error(
        "sections {first} and {second} overlap: one ends at {end}, the other starts at {offset}"
    )]
    SectionsOverlap {
        /// The section that starts first.
        first: SectionKind,
        /// The section that starts inside it.
        second: SectionKind,
        /// The offset of the end of the first.
        end: u64,
        /// The offset of the start of the second.
        offset: u64,
    },
    /// A second section of a kind.
    #[error("the section {section} occurs again at offset {offset}")]
    SectionTwice {
        /// The kind of both sections.
        section: SectionKind,
        /// The offset of the second one.
        offset: u64,
    },
    /// No metrics or no values section.
    #[error("no section {section}")]
    SectionMissing {
        /// The kind of the missing section.
        section: SectionKind,
    },
    /// More entries than an agent of PCP takes.
    #[error("section {section} has {found} entries, more than {max}")]
    SectionTooLong {
        /// The kind of the section.
        section: SectionKind,
        /// The number of its entries.
        found: u32,
        /// The upper limit of PCP's agent.
        max: u32,
    },
    /// The values cannot be read as whole words.
    #[error("section values starts at {offset}, which is not divisible by 8")]
    ValuesMisaligned {
        /// The offset of its first byte.
        offset: u64,
    },
    /// An instance domain's instances are outside the file.
    #[error(
        "indom {serial}: {count} instances at {offset} are not within the file's {file_len} bytes"
    )]
    IndomOutside {
        /// The serial of the domain.
        serial: u32,
        /// The offset of the first instance.
        offset: u64,
        /// The number of instances.
        count: u32,
        /// The size of the file.
        file_len: u64,
    },
    /// More metadata than [`Limits`](super::Limits) allows.
    #[error("{needed} bytes of metadata, more than the {limit} allowed")]
    TooLarge {
        /// The bytes that further reading would need.
        needed: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The system has no memory for the metadata.
    #[error("no memory is left for {needed} bytes of metadata")]
    NoMemory {
        /// The bytes that were requested.
        needed: u64,
    },
}

impl Refusal {
    /// Returns whether the producer is in the middle of writing, or truncated the file while it was
    /// read. Nothing is known to be wrong: read the file again.
    pub fn is_not_ready(&self) -> bool {
        match self {
            Self::NotReady { .. } | Self::Changed { .. } | Self::Grew { .. } => true,
            Self::Io(error) => error.kind() == std::io::ErrorKind::UnexpectedEof,
            _ => false,
        }
    }

    /// Returns whether the file looks like one that a producer has only just created: no byte yet,
    /// or only zeros.
    pub fn is_just_created(&self) -> bool {
        matches!(self, Self::TooShort { found: 0 } | Self::Magic { found: [0, 0, 0, 0] })
    }
}
