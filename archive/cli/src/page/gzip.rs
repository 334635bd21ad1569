//! A gzip stream (RFC 1952) of parts that grow side by side.
//!
//! In: the bytes of several parts, in any order. Out: one stream of the parts, one after the
//! other. Each is compressed while it grows, so that no part is in memory uncompressed. A part ends
//! on a byte boundary with a block that is not the last one; an empty last block follows the parts.

use std::io::{self, Write as _};

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

/// Magic number, deflate, no flags, no time, no extra flags, unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// A last block with fixed codes that ends at once.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// A part of a stream.
pub(super) struct GzipPart {
    encoder: DeflateEncoder<Vec<u8>>,
    sum: Crc,
}

impl Default for GzipPart {
    fn default() -> Self {
        let encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        Self { encoder, sum: Crc::new() }
    }
}

impl std::fmt::Debug for GzipPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GzipPart").field("len", &self.sum.amount()).finish_non_exhaustive()
    }
}

impl GzipPart {
    pub(super) fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.encoder.write_all(bytes)
    }
}

#[expect(clippy::little_endian_bytes, reason = "gzip's order")]
pub(super) fn stream(parts: impl IntoIterator<Item = GzipPart>) -> io::Result<Vec<u8>> {
    let mut out = HEADER.to_vec();
    let mut sum = Crc::new();
    for mut part in parts {
        // To the boundary of a byte.
        part.encoder.flush()?;
        out.append(part.encoder.get_mut());
        sum.combine(&part.sum);
    }
    out.extend(LAST_BLOCK);
    out.extend(sum.sum().to_le_bytes());
    out.extend(sum.amount().to_le_bytes());
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// forall pieces of three parts in any order: the stream is the parts one after the other.
        #[test]
        fn parts_come_one_after_the_other(
            pieces in prop::collection::vec((0usize..3, prop::collection::vec(0u8..4, 0..900)), 0..40)
        ) {
            let mut parts: [GzipPart; 3] = Default::default();
            let mut plain: [Vec<u8>; 3] = Default::default();
            for (place, piece) in &pieces {
                parts[*place].add(piece).unwrap();
                plain[*place].extend(piece);
            }
            let bytes = stream(parts).unwrap();
            let mut decoder = GzDecoder::new(&bytes[..]);
            let mut found = Vec::new();
            decoder.read_to_end(&mut found).unwrap();
            prop_assert_eq!(found, plain.concat());
            // All of it is one member.
            prop_assert!(decoder.into_inner().is_empty());
        }
    }
}
