//! The bytes of an MMV file: versions 1, 2 and 3 of the format.
//!
//! A file is a header, a table of contents and up to six sections, each an
//! array of fixed-size entries. All offsets are counted from the start of the
//! file and point at the first byte of an *entry*. Everything is in the byte
//! order and alignment of the host that wrote it.
//!
//! | section | code | entry, version 1 | entry, versions 2 and 3 |
//! |---|---|---|---|
//! | instance domains | 1 | [`IndomEntry`] 32 | the same |
//! | instances | 2 | [`InstanceV1`] 80 | [`InstanceV2`] 24 |
//! | metrics | 3 | [`MetricV1`] 104 | [`MetricV2`] 48 |
//! | values | 4 | [`ValueEntry`] 32 | the same |
//! | strings | 5 | [`StringEntry`] 256 | the same |
//! | labels | 6 | none | [`LabelEntry`] 256, version 3 only |
//!
//! The whole format in prose is in `docs/mmv-format.md`. Source: `mmv(5)` and
//! `src/libpcp_mmv/src/mmv_dev.h` of PCP.

mod header;
mod indom;
mod instance;
mod label;
mod metric;
mod string;
mod toc;
mod value;

pub use header::{Header, MAGIC};
pub use indom::IndomEntry;
pub use instance::{InstanceV1, InstanceV2};
pub use label::{
    LABEL_CLUSTER, LABEL_INDOM, LABEL_INSTANCES, LABEL_ITEM, LABEL_OPTIONAL, LabelEntry,
};
pub use metric::{MetricV1, MetricV2, TYPE_ELAPSED};
pub use string::StringEntry;
pub use toc::TocEntry;
pub use value::{EXTRA_OFFSET, INSTANCE_OFFSET, METRIC_OFFSET, NO_VALUE, ValueEntry};

/// Size of a name inside a version 1 entry, with its NUL.
pub const NAME_BYTES: usize = 64;
/// Size of an entry of the strings section, with its NUL.
pub const STRING_BYTES: usize = 256;
/// Size of a label's JSON text, with its NUL.
pub const LABEL_BYTES: usize = 244;
/// Limit of pmdammv on the metrics of a file.
pub const MAX_METRICS: u32 = 1023;
/// Limit of pmdammv on the labels of a file.
pub const MAX_LABELS: u32 = 255;
/// Limit of pmdammv on the instance domains of a file, and on the instances of each.
pub const MAX_INDOMS: u32 = (1 << 22) - 1;
/// The largest item number: 10 bits of a PMID.
pub const MAX_ITEM: u32 = 1023;
/// The largest cluster number: 12 bits of a PMID.
pub const MAX_CLUSTER: u32 = 4095;
/// The largest serial, and the largest cluster with instance domains, for
/// which `cluster << 11 | serial` is unique and fits the 22 bits of an indom.
pub const MAX_SERIAL: u32 = 2047;

/// A version of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// Names inside the entries, at most 63 bytes.
    V1,
    /// Names in the strings section, at most 255 bytes.
    V2,
    /// Version 2 and labels.
    V3,
}

impl Version {
    /// Returns the number in the header.
    pub const fn code(self) -> i32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }

    /// Returns the version of a number in a header.
    pub const fn from_code(code: i32) -> Option<Self> {
        match code {
            1 => Some(Self::V1),
            2 => Some(Self::V2),
            3 => Some(Self::V3),
            _ => None,
        }
    }
}

/// The kind of a section, by its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SectionKind {
    /// Instance domains, without their instances.
    Indoms,
    /// Instances of all domains.
    Instances,
    /// Descriptors of metrics, without their values.
    Metrics,
    /// Values: the only part that changes after publication.
    Values,
    /// Texts: names (version 2 and later), help, string values.
    Strings,
    /// Labels, in version 3 only.
    Labels,
}

impl SectionKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [Self; 6] =
        [Self::Indoms, Self::Instances, Self::Metrics, Self::Values, Self::Strings, Self::Labels];

    /// Returns the code in the table of contents.
    pub const fn code(self) -> i32 {
        self as i32 + 1
    }

    /// Returns the kind of a code.
    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Returns the size of one entry.
    pub const fn entry_bytes(self, version: Version) -> usize {
        match (self, version) {
            (Self::Indoms, _) => size_of::<IndomEntry>(),
            (Self::Instances, Version::V1) => size_of::<InstanceV1>(),
            (Self::Instances, _) => size_of::<InstanceV2>(),
            (Self::Metrics, Version::V1) => size_of::<MetricV1>(),
            (Self::Metrics, _) => size_of::<MetricV2>(),
            (Self::Values, _) => size_of::<ValueEntry>(),
            (Self::Strings, _) => size_of::<StringEntry>(),
            (Self::Labels, _) => size_of::<LabelEntry>(),
        }
    }
}

impl std::fmt::Display for SectionKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Indoms => "indoms",
            Self::Instances => "instances",
            Self::Metrics => "metrics",
            Self::Values => "values",
            Self::Strings => "strings",
            Self::Labels => "labels",
        })
    }
}

/// The flags of a file (`MMV_FLAG_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u32);

impl Flags {
    /// Metric names do not carry the file's name (`MMV_FLAG_NOPREFIX`).
    pub const NO_PREFIX: Self = Self(1);
    /// The file is valid only while the process of the header lives
    /// (`MMV_FLAG_PROCESS`).
    pub const PROCESS: Self = Self(2);
    /// All-ones integers, NaN and empty strings mean "no value"
    /// (`MMV_FLAG_SENTINEL`).
    pub const SENTINEL: Self = Self(4);

    /// Makes flags of a header's word; unknown bits are kept.
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// Returns the word for a header.
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// Returns whether all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns these flags and those of `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the bits that no version of PCP defines.
    pub const fn unknown(self) -> u32 {
        self.0 & !7
    }
}

/// Returns the bytes before the first NUL; `None` if there is no NUL.
pub fn until_nul(bytes: &[u8]) -> Option<&[u8]> {
    bytes.iter().position(|byte| *byte == 0).and_then(|end| bytes.get(..end))
}

/// Returns `text` in an array of `N` bytes, padded with NULs; `None` if it leaves no room for
/// one.
pub fn nul_padded<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() >= N {
        return None;
    }
    bytes.get_mut(..text.len())?.copy_from_slice(text);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_read_back_and_others_are_no_section_and_no_version() {
        for kind in SectionKind::ALL {
            assert_eq!(SectionKind::from_code(kind.code()), Some(kind));
        }
        assert_eq!(SectionKind::Labels.code(), 6);
        for code in [i32::MIN, -1, 0, 7, i32::MAX] {
            assert_eq!(SectionKind::from_code(code), None);
        }
        for version in [Version::V1, Version::V2, Version::V3] {
            assert_eq!(Version::from_code(version.code()), Some(version));
        }
        assert_eq!(Version::from_code(0), None);
        assert_eq!(Version::from_code(4), None);
    }

    #[test]
    fn a_text_ends_before_its_first_nul_and_needs_one() {
        assert_eq!(until_nul(b"ab\0c\0"), Some(&b"ab"[..]));
        assert_eq!(until_nul(b"abc"), None);
        assert_eq!(nul_padded::<4>(b"abc"), Some(*b"abc\0"));
        assert_eq!(nul_padded::<4>(b"abcd"), None);
    }
}
