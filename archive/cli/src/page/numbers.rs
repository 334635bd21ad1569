//! Numbers as browsers store them, so that a page reads them without a copy: little-endian.

/// Appends doubles, little-endian.
#[expect(clippy::little_endian_bytes, reason = "browsers store numbers in this order")]
pub(super) fn doubles(bytes: &mut Vec<u8>, numbers: impl IntoIterator<Item = f64>) {
    for number in numbers {
        bytes.extend(number.to_le_bytes());
    }
}

/// Appends 16-bit numbers, little-endian.
#[expect(clippy::little_endian_bytes, reason = "browsers store numbers in this order")]
pub(super) fn shorts(bytes: &mut Vec<u8>, numbers: impl IntoIterator<Item = u16>) {
    for number in numbers {
        bytes.extend(number.to_le_bytes());
    }
}

/// Returns the beginning of a message: eight letters, the length of a header and the header, padded
/// with blanks to a multiple of 8 bytes so that doubles are aligned. `None` if the header is too
/// long.
#[expect(clippy::little_endian_bytes, reason = "browsers store numbers in this order")]
pub(super) fn head(magic: [u8; 8], json: &[u8]) -> Option<Vec<u8>> {
    let padded = (12 + json.len()).next_multiple_of(8) - 12;
    let mut head = magic.to_vec();
    head.extend(u32::try_from(padded).ok()?.to_le_bytes());
    head.extend(json);
    head.resize(12 + padded, b' ');
    Some(head)
}
