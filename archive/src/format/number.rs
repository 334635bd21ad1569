//! Numbers in a record, in place or as the payload of a block: big-endian, in
//! four bytes or eight.

/// Returns the bits of a number in the first four bytes; `None` if there are fewer.
#[inline]
pub(crate) fn word(bytes: &[u8]) -> Option<u64> {
    Some(u64::from(u32::from_be_bytes(*bytes.first_chunk()?)))
}

/// Reads a number of eight bytes.
#[inline]
pub(crate) fn long(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_big_endian_and_inside() {
        let bytes = [0xff, 0, 0, 0, 1, 0, 0, 0, 2];
        assert_eq!(word(&bytes[1..]), Some(1));
        assert_eq!(long(&bytes[1..]), Some(0x1_0000_0002));
        assert_eq!(word(&bytes), Some(0xff00_0000), "no sign");
        assert_eq!((word(&bytes[6..]), long(&bytes[2..]), word(&[])), (None, None, None));
    }
}
