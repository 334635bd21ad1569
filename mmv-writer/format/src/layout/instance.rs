//! Instances, section 2.
//!
//! | offset | length | field | meaning |
//! |---|---|---|---|
//! | 0 | 8 | `indom` | the entry of its domain |
//! | 8 | 4 | `padding` | version 1: 0 |
//! | 8 | 4 | `reuses` | versions 2 and 3: how often the entry was used before, in growing files |
//! | 12 | 4 | `id` | its number (internal identifier) |
//! | 16 | 64 | `name` | version 1: the name with its NUL |
//! | 16 | 8 | `name` | versions 2 and 3: the string entry of the name |

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::NAME_BYTES;

/// An instance of a version 1 file (`mmv_disk_instance_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct InstanceV1 {
    /// Offset of the entry of its domain.
    pub indom: u64,
    /// Unused, 0.
    pub padding: u32,
    /// The number within the domain.
    pub id: i32,
    /// The NUL-terminated name.
    pub name: [u8; NAME_BYTES],
}

/// An instance of a version 2 or 3 file (`mmv_disk_instance2_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct InstanceV2 {
    /// Offset of the entry of its domain.
    pub indom: u64,
    /// Number of instances that had the entry before, in a growing file; otherwise 0. PCP does not
    /// use these bytes.
    pub reuses: u32,
    /// The number within the domain.
    pub id: i32,
    /// Offset of the string entry of the name.
    pub name: u64,
}

const _: () = assert!(size_of::<InstanceV1>() == 80);
const _: () = assert!(align_of::<InstanceV1>() == 8);
const _: () = assert!(size_of::<InstanceV2>() == 24);
const _: () = assert!(align_of::<InstanceV2>() == 8);

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;
    use crate::layout::nul_padded;

    #[rustfmt::skip]
    const HEAD: [u8; 16] = [0x78, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0,  7, 0, 0, 0];

    #[test]
    fn the_bytes_of_version_1_are_those_of_the_table() {
        let name = nul_padded(b"sda").unwrap();
        let entry = InstanceV1 { indom: 0x78, padding: 0, id: 7, name };
        let mut bytes = [0; 80];
        bytes[..16].copy_from_slice(&HEAD);
        bytes[16..19].copy_from_slice(b"sda");
        assert_eq!(entry.as_bytes(), bytes);
        assert_eq!(InstanceV1::read_from_bytes(&bytes), Ok(entry));
    }

    #[test]
    fn the_bytes_of_version_2_are_those_of_the_table() {
        let entry = InstanceV2 { indom: 0x78, reuses: 0, id: 7, name: 0x1200 };
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&HEAD);
        bytes[17] = 0x12;
        assert_eq!(entry.as_bytes(), bytes);
        assert_eq!(InstanceV2::read_from_bytes(&bytes), Ok(entry));
    }
}
