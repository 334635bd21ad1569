//! Values, section 4.
//!
//! | offset | length | field | meaning |
//! |---|---|---|---|
//! | 0 | 8 | `cell` | the value; 32-bit types use the first four bytes |
//! | 8 | 8 | `extra` | elapsed time: see below; string: its string entry |
//! | 16 | 8 | `metric` | the entry of its metric, 0: the entry is unused |
//! | 24 | 8 | `instance` | the entry of its instance, 0: singular |
//!
//! Elapsed time: `cell` has the microseconds of all closed intervals. A
//! negative `extra` is minus the start of a running interval, in microseconds
//! since 1970; a reader adds now + `extra`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The cell of an integer or of elapsed time that has no value, in a file with
/// [`Flags::SENTINEL`](super::Flags::SENTINEL). Read as a floating-point number
/// of either width it is a NaN, which means the same.
pub const NO_VALUE: u64 = u64::MAX;
/// Offset of `extra` in an entry.
pub const EXTRA_OFFSET: u64 = 8;
/// Offset of `metric` in an entry.
pub const METRIC_OFFSET: u64 = 16;
/// Offset of `instance` in an entry.
pub const INSTANCE_OFFSET: u64 = 24;

/// One value of one metric and instance (`mmv_disk_value_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ValueEntry {
    /// The eight bytes of the value.
    pub cell: u64,
    /// Minus the start of a running interval, or the offset of a string entry.
    pub extra: i64,
    /// Offset of the metric entry, 0 for an entry that is not in use.
    pub metric: u64,
    /// Offset of the instance entry, 0 for the value of a singular metric.
    pub instance: u64,
}

const _: () = assert!(size_of::<ValueEntry>() == 32);
const _: () = assert!(align_of::<ValueEntry>() == 8);
const _: () = assert!(std::mem::offset_of!(ValueEntry, extra) as u64 == EXTRA_OFFSET);
const _: () = assert!(std::mem::offset_of!(ValueEntry, metric) as u64 == METRIC_OFFSET);
const _: () = assert!(std::mem::offset_of!(ValueEntry, instance) as u64 == INSTANCE_OFFSET);

impl ValueEntry {
    /// Size of one entry.
    pub const BYTES: usize = size_of::<Self>();
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let entry = ValueEntry { cell: 42, extra: -2, metric: 0x208, instance: 0x98 };
        #[rustfmt::skip]
        let bytes = [
            42, 0, 0, 0, 0, 0, 0, 0,
            0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            8, 2, 0, 0, 0, 0, 0, 0,
            0x98, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(entry.as_bytes(), bytes);
        assert_eq!(ValueEntry::read_from_bytes(&bytes), Ok(entry));
    }
}
