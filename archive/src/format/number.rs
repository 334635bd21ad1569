//! Numbers where they lie in a record, in place or as the payload of a block:
//! big-endian, in four bytes or eight.

/// The bits of a number of four bytes; `None` if the record ends before.
#[inline]
pub(crate) fn word(record: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(u32::from_be_bytes(*record.get(at..)?.first_chunk()?)))
}

/// The same of eight bytes.
#[inline]
pub(crate) fn long(record: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(*record.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_big_endian_and_inside() {
        let record = [0xff, 0, 0, 0, 1, 0, 0, 0, 2];
        assert_eq!(word(&record, 1), Some(1));
        assert_eq!(long(&record, 1), Some(0x1_0000_0002));
        assert_eq!(word(&record, 0), Some(0xff00_0000), "no sign");
        assert_eq!((word(&record, 6), long(&record, 2), word(&record, 10)), (None, None, None));
    }
}
