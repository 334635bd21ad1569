//! The versions of the format, and the sizes that follow from them.

/// The version of an archive's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Version {
    /// Times in microseconds, 32-bit seconds; written before PCP 6.2.
    V2 = 2,
    /// Times in nanoseconds, 64-bit seconds, difference records.
    #[default]
    V3 = 3,
}

impl Version {
    /// Returns 2 or 3.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// Returns the length of the label record in bytes, framing included: where the first record or
    /// index entry of a file starts.
    pub const fn label_size(self) -> u64 {
        match self {
            Self::V2 => 132,
            Self::V3 => 808,
        }
    }

    /// Returns the maximum size of a file of an archive: the index cannot hold larger offsets.
    pub(crate) const fn max_file_size(self) -> u64 {
        match self {
            Self::V2 => i32::MAX as u64,
            Self::V3 => i64::MAX as u64,
        }
    }

    /// Returns the lengths of the host name, time zone and zoneinfo fields in bytes; the last one
    /// does not exist in version 2.
    pub(crate) const fn string_sizes(self) -> [usize; 3] {
        match self {
            Self::V2 => [64, 40, 0],
            Self::V3 => [256, 256, 256],
        }
    }
}
