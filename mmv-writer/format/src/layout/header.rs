//! The header, the first 40 bytes of a file.
//!
//! | offset | length | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | `magic` | `4d 4d 56 00`, "MMV" and NUL |
//! | 4 | 4 | `version` | 1, 2 or 3 |
//! | 8 | 8 | `generation1` | not 0 once the file is being filled |
//! | 16 | 8 | `generation2` | equal to `generation1` once it is complete |
//! | 24 | 4 | `toc_count` | entries of the table of contents, at least 2 |
//! | 28 | 4 | `flags` | see [`Flags`](super::Flags) |
//! | 32 | 4 | `pid` | the process that writes the file |
//! | 36 | 4 | `cluster` | 1..=4095 requested, 0: the reader chooses |

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The first four bytes of every MMV file.
pub const MAGIC: [u8; 4] = *b"MMV\0";

/// The header of a file (`mmv_disk_header_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Header {
    /// Always [`MAGIC`].
    pub magic: [u8; 4],
    /// Version of the format, see [`Version`](super::Version).
    pub version: i32,
    /// Different for every new content; 0 in a file that was only created.
    pub generation1: u64,
    /// 0 while the file is being filled, then `generation1`.
    pub generation2: u64,
    /// Number of entries in the table of contents.
    pub toc_count: i32,
    /// Bits of [`Flags`](super::Flags).
    pub flags: u32,
    /// The process that writes the file.
    pub pid: i32,
    /// The cluster of all PMIDs of the file.
    pub cluster: i32,
}

const _: () = assert!(size_of::<Header>() == 40);
const _: () = assert!(align_of::<Header>() == 8);

impl Header {
    /// Size of the header; the table of contents follows.
    pub const BYTES: usize = size_of::<Self>();
    /// Offset of `generation1`.
    pub const GENERATION1: usize = std::mem::offset_of!(Self, generation1);
    /// Offset of `generation2`.
    pub const GENERATION2: usize = std::mem::offset_of!(Self, generation2);
    /// Offset of `toc_count`, which shares a word with `flags`.
    pub const TOC_COUNT: usize = std::mem::offset_of!(Self, toc_count);
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let header = Header {
            magic: MAGIC,
            version: 1,
            generation1: 0x6b00_1f75_0007_a15b,
            generation2: 0x6b00_1f75_0007_a15c,
            toc_count: 5,
            flags: 2,
            pid: 0x2774,
            cluster: 321,
        };
        #[rustfmt::skip]
        let bytes = [
            0x4d, 0x4d, 0x56, 0x00,  1, 0, 0, 0,
            0x5b, 0xa1, 0x07, 0x00, 0x75, 0x1f, 0x00, 0x6b,
            0x5c, 0xa1, 0x07, 0x00, 0x75, 0x1f, 0x00, 0x6b,
            5, 0, 0, 0,  2, 0, 0, 0,
            0x74, 0x27, 0, 0,  0x41, 1, 0, 0,
        ];
        assert_eq!(header.as_bytes(), bytes);
        assert_eq!(Header::read_from_bytes(&bytes), Ok(header));
        assert_eq!((Header::GENERATION1, Header::GENERATION2), (8, 16));
        assert_eq!(Header::TOC_COUNT, 24);
    }
}
