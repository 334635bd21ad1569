//! Times in an archive.
//!
//! | version | + | bytes | field |
//! |---|---|---|---|
//! | 2 | 0 | 4 | seconds, signed |
//! | 2 | 4 | 4 | **micro**seconds |
//! | 3 | 0 | 4 | seconds, **low** half |
//! | 3 | 4 | 4 | seconds, high half |
//! | 3 | 8 | 4 | **nano**seconds |
//!
//! The halves of version 3 have this order, contrary to the man page:
//! pmlogcheck accepts an archive with true 64-bit big-endian seconds, but its
//! dates are wrong.
//!
//! **Source**: `__pmPutTimestamp`, `__pmLoadTimestamp` in
//! `src/libpcp/src/logmeta.c`.

use zerocopy::big_endian::{I32, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Bytes;
use super::frame::LENGTH_WORD;
use crate::{EncodeError, RecordError, Timestamp, Version};

/// A version 2 time.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct TimestampV2 {
    seconds: I32,
    microseconds: I32,
}

/// A version 3 time.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct TimestampV3 {
    seconds_low: U32,
    seconds_high: U32,
    nanoseconds: I32,
}

const _: () = assert!(size_of::<TimestampV2>() == 8 && size_of::<TimestampV3>() == 12);

/// Returns the length of a time in bytes.
pub(crate) const fn size(version: Version) -> usize {
    match version {
        Version::V2 => size_of::<TimestampV2>(),
        Version::V3 => size_of::<TimestampV3>(),
    }
}

/// Parses the next time.
///
/// # Errors
///
/// [`RecordError::Field`] if the part below a second is negative or a whole
/// second.
pub(crate) fn parse(version: Version, bytes: &mut Bytes<'_>) -> Result<Timestamp, RecordError> {
    match version {
        Version::V2 => bytes.take::<TimestampV2>("timestamp")?.get(),
        Version::V3 => bytes.take::<TimestampV3>("timestamp")?.get(),
    }
}

/// Appends a time. Version 2 loses what is below a microsecond.
///
/// # Errors
///
/// [`EncodeError::TimeRange`] in version 2, before 1901 and after 2038.
pub(crate) fn encode(
    version: Version,
    timestamp: Timestamp,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    match version {
        Version::V2 => out.extend(TimestampV2::new(timestamp)?.as_bytes()),
        Version::V3 => out.extend(TimestampV3::new(timestamp).as_bytes()),
    }
    Ok(())
}

/// Replaces the time of a framed record that begins with one.
///
/// # Errors
///
/// As [`encode`].
pub(crate) fn replace(
    version: Version,
    timestamp: Timestamp,
    record: &mut [u8],
) -> Result<(), EncodeError> {
    let body = record.get_mut(LENGTH_WORD..).unwrap_or_default();
    let replaced = match version {
        Version::V2 => TimestampV2::new(timestamp)?.write_to_prefix(body).is_ok(),
        Version::V3 => TimestampV3::new(timestamp).write_to_prefix(body).is_ok(),
    };
    debug_assert!(replaced, "the record has no room for a time");
    Ok(())
}

/// Returns a time as read back: version 2 truncates it to microseconds, as PCP does when it
/// writes.
///
/// # Errors
///
/// As [`encode`].
pub(crate) fn stored(version: Version, timestamp: Timestamp) -> Result<Timestamp, EncodeError> {
    match version {
        Version::V2 => {
            TimestampV2::new(timestamp)?.get().map_err(|_| EncodeError::TimeRange { timestamp })
        }
        Version::V3 => Ok(timestamp),
    }
}

impl TimestampV2 {
    pub(crate) fn new(timestamp: Timestamp) -> Result<Self, EncodeError> {
        let seconds =
            i32::try_from(timestamp.seconds()).map_err(|_| EncodeError::TimeRange { timestamp })?;
        let microseconds = (timestamp.nanoseconds() / 1000) as i32;
        Ok(Self { seconds: seconds.into(), microseconds: microseconds.into() })
    }

    fn get(self) -> Result<Timestamp, RecordError> {
        let found = self.microseconds.get();
        let nanoseconds = u32::try_from(found).ok().and_then(|micros| micros.checked_mul(1000));
        nanoseconds
            .and_then(|nanos| Timestamp::new(i64::from(self.seconds.get()), nanos).ok())
            .ok_or(RecordError::Field { field: "microseconds", found: i64::from(found) })
    }
}

impl TimestampV3 {
    pub(crate) fn new(timestamp: Timestamp) -> Self {
        let seconds = timestamp.seconds().cast_unsigned();
        Self {
            seconds_low: (seconds as u32).into(),
            seconds_high: ((seconds >> 32) as u32).into(),
            nanoseconds: (timestamp.nanoseconds() as i32).into(),
        }
    }

    fn get(self) -> Result<Timestamp, RecordError> {
        let seconds = u64::from(self.seconds_high.get()) << 32 | u64::from(self.seconds_low.get());
        let found = self.nanoseconds.get();
        u32::try_from(found)
            .ok()
            .and_then(|nanos| Timestamp::new(seconds.cast_signed(), nanos).ok())
            .ok_or(RecordError::Field { field: "nanoseconds", found: i64::from(found) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(version: Version, timestamp: Timestamp) -> Vec<u8> {
        let mut out = Vec::new();
        encode(version, timestamp, &mut out).unwrap();
        out
    }

    fn parsed(version: Version, bytes: &[u8]) -> Result<Timestamp, RecordError> {
        parse(version, &mut Bytes::new(bytes))
    }

    #[test]
    fn version_3_puts_the_low_half_of_the_seconds_first() {
        let timestamp = Timestamp::new(0x1_6553_f100, 0x075b_cd15).unwrap();
        let bytes = [0x65, 0x53, 0xf1, 0, 0, 0, 0, 1, 0x07, 0x5b, 0xcd, 0x15];
        assert_eq!(encoded(Version::V3, timestamp), bytes);
        assert_eq!(parsed(Version::V3, &bytes), Ok(timestamp));
    }

    #[test]
    fn version_2_truncates_to_microseconds() {
        let bytes = [0x65, 0x53, 0xf1, 0, 0, 1, 0xe2, 0x40];
        let timestamp = Timestamp::new(0x6553_f100, 123_456_789).unwrap();
        assert_eq!(encoded(Version::V2, timestamp), bytes);
        let cut = Timestamp::new(0x6553_f100, 123_456_000).unwrap();
        assert_eq!(parsed(Version::V2, &bytes), Ok(cut));
        assert_eq!(stored(Version::V2, timestamp), Ok(cut));
        assert_eq!(stored(Version::V3, timestamp), Ok(timestamp));
    }

    #[test]
    fn a_whole_second_below_the_second_is_refused() {
        let mut bytes = encoded(Version::V3, Timestamp::EPOCH);
        bytes[8..].copy_from_slice(&1_000_000_000u32.to_be_bytes());
        assert_eq!(
            parsed(Version::V3, &bytes),
            Err(RecordError::Field { field: "nanoseconds", found: 1_000_000_000 })
        );
        for micros in [-1i32, 1_000_000, i32::MAX, 4_294_968] {
            let mut bytes = [0; 8];
            bytes[4..].copy_from_slice(&micros.to_be_bytes());
            assert!(parsed(Version::V2, &bytes).is_err(), "{micros}");
        }
    }

    #[test]
    fn version_2_refuses_times_before_1901_and_past_2038() {
        for seconds in [i64::from(i32::MAX) + 1, i64::from(i32::MIN) - 1] {
            let timestamp = Timestamp::new(seconds, 0).unwrap();
            let expected = EncodeError::TimeRange { timestamp };
            assert_eq!(encode(Version::V2, timestamp, &mut Vec::new()), Err(expected.clone()));
            assert_eq!(stored(Version::V2, timestamp), Err(expected));
        }
    }

    proptest::proptest! {
        /// forall t: parse(encode(t)) = t
        #[test]
        fn version_3_reads_back_every_time(seconds: i64, nanos in 0u32..1_000_000_000) {
            let timestamp = Timestamp::new(seconds, nanos).unwrap();
            proptest::prop_assert_eq!(
                parsed(Version::V3, &encoded(Version::V3, timestamp)), Ok(timestamp));
        }
    }
}
