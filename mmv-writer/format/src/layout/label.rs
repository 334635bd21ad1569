//! Labels, section 6 of version 3.
//!
//! | offset | length | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | `flags` | one class bit, and 0x80 if optional |
//! | 4 | 4 | `identity` | the cluster, the indom's serial or the metric's item |
//! | 8 | 4 | `instance` | the instance's number, else -1 |
//! | 12 | 244 | `json` | `{"name":value}` and a NUL |
//!
//! | class bit | attached to | `identity` |
//! |---|---|---|
//! | 4 | an instance domain | serial |
//! | 8 | all metrics of the file | cluster |
//! | 16 | a metric | item |
//! | 32 | an instance | serial of its domain |

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::LABEL_BYTES;

/// Class bit of a label of an instance domain (`PM_LABEL_INDOM`).
pub const LABEL_INDOM: u32 = 4;
/// Class bit of a label of the whole file (`PM_LABEL_CLUSTER`).
pub const LABEL_CLUSTER: u32 = 8;
/// Class bit of a label of a metric (`PM_LABEL_ITEM`).
pub const LABEL_ITEM: u32 = 16;
/// Class bit of a label of an instance (`PM_LABEL_INSTANCES`).
pub const LABEL_INSTANCES: u32 = 32;
/// Bit of a label that describes without identifying (`PM_LABEL_OPTIONAL`).
pub const LABEL_OPTIONAL: u32 = 128;

/// One name and value of a label (`mmv_disk_label_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct LabelEntry {
    /// One class bit, with [`LABEL_OPTIONAL`] for an optional label.
    pub flags: u32,
    /// Cluster, serial or item that it is attached to, depending on the class.
    pub identity: u32,
    /// The instance it is attached to, or -1.
    pub instance: i32,
    /// The NUL-terminated JSON text.
    pub json: [u8; LABEL_BYTES],
}

const _: () = assert!(size_of::<LabelEntry>() == 256);
const _: () = assert!(align_of::<LabelEntry>() == 4);

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;
    use crate::layout::nul_padded;

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let json = nul_padded(b"{\"zone\":\"b\"}").unwrap();
        let entry =
            LabelEntry { flags: LABEL_INSTANCES | LABEL_OPTIONAL, identity: 1, instance: 3, json };
        let mut bytes = [0; 256];
        bytes[..12].copy_from_slice(&[0xa0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0]);
        bytes[12..24].copy_from_slice(b"{\"zone\":\"b\"}");
        assert_eq!(entry.as_bytes(), bytes);
        assert_eq!(LabelEntry::read_from_bytes(&bytes), Ok(entry));
    }
}
