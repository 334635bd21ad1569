//! Texts, section 5.
//!
//! | offset | length | field | meaning |
//! |---|---|---|---|
//! | 0 | 256 | `text` | at most 255 bytes and a NUL |

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::STRING_BYTES;

/// A name, a help text or the value of a string metric (`mmv_disk_string_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct StringEntry {
    /// The NUL-terminated text.
    pub text: [u8; STRING_BYTES],
}

const _: () = assert!(size_of::<StringEntry>() == 256);
const _: () = assert!(align_of::<StringEntry>() == 1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::nul_padded;

    #[test]
    fn the_text_is_at_the_start_and_padded_with_nul() {
        let entry = StringEntry { text: nul_padded(b"one line").unwrap() };
        let mut bytes = [0; 256];
        bytes[..8].copy_from_slice(b"one line");
        assert_eq!(entry.as_bytes(), bytes);
        assert_eq!(StringEntry::read_from_bytes(&bytes), Ok(entry));
    }
}
