//! The table of contents, which follows the header.
//!
//! | offset | length | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | `kind` | the section's code, 1..=6 |
//! | 4 | 4 | `count` | its entries |
//! | 8 | 8 | `offset` | where its first entry is |

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Kind, number of entries and offset of one section (`mmv_disk_toc_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct TocEntry {
    /// The section's code, see [`SectionKind`](super::SectionKind).
    pub kind: i32,
    /// Number of entries of the section.
    pub count: i32,
    /// Offset of the first entry of the section.
    pub offset: u64,
}

const _: () = assert!(size_of::<TocEntry>() == 16);
const _: () = assert!(align_of::<TocEntry>() == 8);

impl TocEntry {
    /// Size of one entry.
    pub const BYTES: usize = size_of::<Self>();

    /// Offset of the field `offset` in an entry.
    pub const OFFSET: usize = std::mem::offset_of!(Self, offset);
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let entry = TocEntry { kind: 2, count: 3, offset: 0x98 };
        let bytes = [2, 0, 0, 0, 3, 0, 0, 0, 0x98, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(entry.as_bytes(), bytes);
        assert_eq!(TocEntry::read_from_bytes(&bytes), Ok(entry));
    }
}
