//! Metrics, section 3.
//!
//! | offset, v1 | offset, v2 and v3 | length | field | meaning |
//! |---|---|---|---|---|
//! | 0 | 0 | 64 or 8 | `name` | v1: the name with its NUL; else its string entry |
//! | 64 | 8 | 4 | `item` | 0..=1023, unique in the file |
//! | 68 | 12 | 4 | `type_code` | `PM_TYPE_*` 0..=6, or 9 for elapsed time |
//! | 72 | 16 | 4 | `semantics` | `PM_SEM_*` 1, 3, 4; 0 stands for counter |
//! | 76 | 20 | 4 | `units` | the `pmUnits` word |
//! | 80 | 24 | 4 | `indom` | a domain's serial; 0 or 0xffffffff: singular |
//! | 84 | 28 | 4 | `padding` | 0 |
//! | 88 | 32 | 8 | `short_help` | a string entry, 0: none |
//! | 96 | 40 | 8 | `long_help` | a string entry, 0: none |

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::NAME_BYTES;

/// The type code of elapsed time (`MMV_TYPE_ELAPSED`), which is not
/// `PM_TYPE_EVENT` here; readers see a signed 64-bit counter of microseconds.
pub const TYPE_ELAPSED: i32 = 9;

/// A metric of a version 1 file (`mmv_disk_metric_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct MetricV1 {
    /// The NUL-terminated name.
    pub name: [u8; NAME_BYTES],
    /// The item number of its PMID.
    pub item: u32,
    /// The code of the type of its values.
    pub type_code: i32,
    /// The code of the semantics of its values.
    pub semantics: i32,
    /// The `pmUnits` word.
    pub units: u32,
    /// The serial of its instance domain; 0 or all ones for a singular metric.
    pub indom: u32,
    /// Unused, 0.
    pub padding: u32,
    /// Offset of the one-line help text, 0 for none.
    pub short_help: u64,
    /// Offset of the long help text, 0 for none.
    pub long_help: u64,
}

/// A metric of a version 2 or 3 file (`mmv_disk_metric2_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct MetricV2 {
    /// Offset of the string entry of the name.
    pub name: u64,
    /// The item number of its PMID.
    pub item: u32,
    /// The code of the type of its values.
    pub type_code: i32,
    /// The code of the semantics of its values.
    pub semantics: i32,
    /// The `pmUnits` word.
    pub units: u32,
    /// The serial of its instance domain; 0 or all ones for a singular metric.
    pub indom: u32,
    /// Unused, 0.
    pub padding: u32,
    /// Offset of the one-line help text, 0 for none.
    pub short_help: u64,
    /// Offset of the long help text, 0 for none.
    pub long_help: u64,
}

impl MetricV2 {
    /// Name of a metric that was removed: an offset where no string is. PCP's reader skips such an
    /// entry.
    pub const REMOVED: u64 = 1 << 63;
}

const _: () = assert!(size_of::<MetricV1>() == 104);
const _: () = assert!(align_of::<MetricV1>() == 8);
const _: () = assert!(size_of::<MetricV2>() == 48);
const _: () = assert!(align_of::<MetricV2>() == 8);

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;
    use crate::layout::nul_padded;

    #[rustfmt::skip]
    const TAIL: [u8; 40] = [
        1, 0, 0, 0,  3, 0, 0, 0,
        1, 0, 0, 0,  0, 0, 0x10, 0,
        2, 0, 0, 0,  0, 0, 0, 0,
        0, 9, 0, 0, 0, 0, 0, 0,
        0, 10, 0, 0, 0, 0, 0, 0,
    ];

    #[test]
    fn the_bytes_of_version_1_are_those_of_the_table() {
        let entry = MetricV1 {
            name: nul_padded(b"count").unwrap(),
            item: 1,
            type_code: 3,
            semantics: 1,
            units: 0x0010_0000,
            indom: 2,
            padding: 0,
            short_help: 0x900,
            long_help: 0xa00,
        };
        let mut bytes = [0; 104];
        bytes[..5].copy_from_slice(b"count");
        bytes[64..].copy_from_slice(&TAIL);
        assert_eq!(entry.as_bytes(), bytes);
        assert_eq!(MetricV1::read_from_bytes(&bytes), Ok(entry));
    }

    #[test]
    fn the_bytes_of_version_2_are_those_of_the_table() {
        let entry = MetricV2 {
            name: 0x1300,
            item: 1,
            type_code: 3,
            semantics: 1,
            units: 0x0010_0000,
            indom: 2,
            padding: 0,
            short_help: 0x900,
            long_help: 0xa00,
        };
        let mut bytes = [0; 48];
        bytes[1] = 0x13;
        bytes[8..].copy_from_slice(&TAIL);
        assert_eq!(entry.as_bytes(), bytes);
        assert_eq!(MetricV2::read_from_bytes(&bytes), Ok(entry));
    }
}
