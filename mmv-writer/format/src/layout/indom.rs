//! Instance domains, section 1.
//!
//! | offset | length | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | `serial` | the domain's number within the file |
//! | 4 | 4 | `count` | its instances |
//! | 8 | 8 | `instances` | the first of them, in section 2; they are contiguous |
//! | 16 | 8 | `short_help` | a string entry, 0: none |
//! | 24 | 8 | `long_help` | a string entry, 0: none |

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// One instance domain, or a part of one: entries with the same serial form one domain
/// (`mmv_disk_indom_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IndomEntry {
    /// The domain's number within the file.
    pub serial: u32,
    /// Number of instances at `instances`.
    pub count: u32,
    /// Offset of the first instance entry.
    pub instances: u64,
    /// Offset of the one-line help text, 0 for none.
    pub short_help: u64,
    /// Offset of the long help text, 0 for none.
    pub long_help: u64,
}

const _: () = assert!(size_of::<IndomEntry>() == 32);
const _: () = assert!(align_of::<IndomEntry>() == 8);

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let entry =
            IndomEntry { serial: 10, count: 5, instances: 0xd8, short_help: 0x100, long_help: 0 };
        #[rustfmt::skip]
        let bytes = [
            10, 0, 0, 0,  5, 0, 0, 0,
            0xd8, 0, 0, 0, 0, 0, 0, 0,
            0, 1, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(entry.as_bytes(), bytes);
        assert_eq!(IndomEntry::read_from_bytes(&bytes), Ok(entry));
    }
}
