//! Why a file is not read at all.

use crate::layout::{Header, MAX_CLUSTER, SectionKind};

/// Why a file as a whole is refused, with the numbers.
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
        /// The file's size.
        found: u64,
    },
    /// The first four bytes are not `MMV\0`.
    #[error(
        "it is no MMV file: it begins with \"{found}\", not with \"MMV\" and a NUL",
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
    #[error("not ready: generations {generation1} and {generation2}")]
    NotReady {
        /// Generation 1.
        generation1: u64,
        /// Generation 2.
        generation2: u64,
    },
    /// Entries were added while the file was read, and not announced by a new
    /// generation yet.
    #[error("grew while it was read, in generation {generation}")]
    Grew {
        /// Both generations.
        generation: u64,
    },
    /// The producer wrote while the file was read.
    #[error(
        "changed while it was read: generation {expected}, then {generation1} and {generation2}"
    )]
    Changed {
        /// Both generations at first.
        expected: u64,
        /// Generation 1 at the end.
        generation1: u64,
        /// Generation 2 at the end.
        generation2: u64,
    },
    /// The cluster does not fit a PMID.
    #[error("cluster {found} is not within 0..={MAX_CLUSTER}")]
    Cluster {
        /// The number in the header.
        found: i32,
    },
    /// A table of contents with too few or too many entries.
    #[error("{found} entries in the table of contents, not {min}..={max}")]
    TocCount {
        /// The count in the header.
        found: i32,
        /// The least: metrics and values.
        min: i32,
        /// The most that is accepted.
        max: i32,
    },
    /// The table of contents is not wholly inside the file.
    #[error("the table of contents ends at {end}, the file at {file_len}")]
    TocOutside {
        /// Where it would end.
        end: u64,
        /// The file's size.
        file_len: u64,
    },
    /// A section with a negative count.
    #[error("section {section} has {found} entries")]
    SectionCount {
        /// Which one.
        section: SectionKind,
        /// The count.
        found: i32,
    },
    /// A section that is not wholly between the table of contents and the end of
    /// the file.
    #[error(
        "section {section}: {count} entries of {entry_bytes} bytes at {offset} are not within {start}..{file_len}"
    )]
    SectionOutside {
        /// Which one.
        section: SectionKind,
        /// Its first byte.
        offset: u64,
        /// Its entries.
        count: u32,
        /// Bytes of each.
        entry_bytes: usize,
        /// The end of the table of contents.
        start: u64,
        /// The file's size.
        file_len: u64,
    },
    /// Two sections share bytes.
    #[error(
        "sections {first} and {second} overlap: one ends at {end}, the other starts at {offset}"
    )]
    SectionsOverlap {
        /// The one that starts first.
        first: SectionKind,
        /// The other.
        second: SectionKind,
        /// Where the first one ends.
        end: u64,
        /// Where the second one starts.
        offset: u64,
    },
    /// A second section of a kind.
    #[error("two sections {section}, the second at {offset}")]
    SectionTwice {
        /// Which one.
        section: SectionKind,
        /// Where the second one starts.
        offset: u64,
    },
    /// No metrics or no values section.
    #[error("no section {section}")]
    SectionMissing {
        /// Which one.
        section: SectionKind,
    },
    /// More entries than an agent of PCP takes.
    #[error("section {section} has {found} entries, more than {max}")]
    SectionTooLong {
        /// Which one.
        section: SectionKind,
        /// Its count.
        found: u32,
        /// The most.
        max: u32,
    },
    /// The values cannot be read as whole words.
    #[error("section values starts at {offset}, which is not divisible by 8")]
    ValuesMisaligned {
        /// Its first byte.
        offset: u64,
    },
    /// An instance domain's instances are outside the file.
    #[error(
        "indom {serial}: {count} instances at {offset} are not within the file's {file_len} bytes"
    )]
    IndomOutside {
        /// The domain.
        serial: u32,
        /// The first instance.
        offset: u64,
        /// How many.
        count: u32,
        /// The file's size.
        file_len: u64,
    },
    /// More metadata than [`Limits`](super::Limits) allows.
    #[error("{needed} bytes of metadata, more than the {limit} allowed")]
    TooLarge {
        /// What reading further would need.
        needed: u64,
        /// The limit.
        limit: u64,
    },
    /// The system has no memory for the metadata.
    #[error("no memory is left for {needed} bytes of metadata")]
    NoMemory {
        /// How much was asked for.
        needed: u64,
    },
}

impl Refusal {
    /// Whether the producer is in the middle of writing, or cut the file while it
    /// was read: nothing is known to be wrong, look again.
    pub fn is_not_ready(&self) -> bool {
        match self {
            Self::NotReady { .. } | Self::Changed { .. } | Self::Grew { .. } => true,
            Self::Io(error) => error.kind() == std::io::ErrorKind::UnexpectedEof,
            _ => false,
        }
    }

    /// Whether the file looks like one that a producer has only just created:
    /// no byte yet, or only zeros.
    pub fn is_just_created(&self) -> bool {
        matches!(self, Self::TooShort { found: 0 } | Self::Magic { found: [0, 0, 0, 0] })
    }
}
