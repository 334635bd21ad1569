//! Moments (`struct timespec` in PCP 6 and later).

use std::fmt;
use std::ops::{Add, Sub};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Error;

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// A moment: whole seconds since 1970-01-01 00:00 UTC and nanoseconds after.
///
/// Before 1970 the seconds are negative and the nanoseconds still count
/// forwards. Leap seconds do not exist, as everywhere in POSIX time. Ordered
/// by time. Prints as `1700000000.123456789`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    seconds: i64,
    nanoseconds: u32,
}

impl Timestamp {
    /// 1970-01-01 00:00 UTC.
    pub const EPOCH: Self = Self { seconds: 0, nanoseconds: 0 };
    /// The earliest representable moment.
    pub const MIN: Self = Self { seconds: i64::MIN, nanoseconds: 0 };
    /// The latest representable moment.
    pub const MAX: Self = Self { seconds: i64::MAX, nanoseconds: 999_999_999 };

    /// Returns a moment from its two parts.
    ///
    /// # Errors
    ///
    /// [`Error::Nanoseconds`] above 999 999 999.
    pub const fn new(seconds: i64, nanoseconds: u32) -> Result<Self, Error> {
        if nanoseconds > 999_999_999 {
            return Err(Error::Nanoseconds(nanoseconds as i64));
        }
        Ok(Self { seconds, nanoseconds })
    }

    /// Returns the system's clock, now.
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }

    /// Returns the whole seconds since 1970 UTC, rounded down.
    pub const fn seconds(self) -> i64 {
        self.seconds
    }

    /// Nanoseconds after [`seconds`](Self::seconds), 0..=999 999 999.
    pub const fn nanoseconds(self) -> u32 {
        self.nanoseconds
    }

    /// Nanoseconds since 1970 UTC.
    pub const fn as_nanos(self) -> i128 {
        self.seconds as i128 * NANOS_PER_SECOND + self.nanoseconds as i128
    }

    /// Returns the moment `nanos` nanoseconds after 1970 UTC, or the nearest representable one.
    pub const fn from_nanos(nanos: i128) -> Self {
        let seconds = nanos.div_euclid(NANOS_PER_SECOND);
        if seconds > i64::MAX as i128 {
            return Self::MAX;
        }
        if seconds < i64::MIN as i128 {
            return Self::MIN;
        }
        Self { seconds: seconds as i64, nanoseconds: nanos.rem_euclid(NANOS_PER_SECOND) as u32 }
    }

    /// Nanoseconds from `earlier` to `self`; negative if `earlier` is later.
    pub const fn nanos_since(self, earlier: Self) -> i128 {
        self.as_nanos() - earlier.as_nanos()
    }

    /// Seconds from `start` to `self` the way PCP's interpolation takes time:
    /// a whole number of nanoseconds, divided once (`src/libpcp/src/interp.c`).
    pub fn seconds_since(self, start: Self) -> f64 {
        self.nanos_since(start) as f64 / 1e9
    }

    /// Returns the moment `duration` later, or the latest representable one.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self::from_nanos(self.as_nanos().saturating_add(duration.as_nanos() as i128))
    }

    /// Returns the moment `duration` earlier, or the earliest representable one.
    #[must_use]
    pub fn saturating_sub(self, duration: Duration) -> Self {
        Self::from_nanos(self.as_nanos().saturating_sub(duration.as_nanos() as i128))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    /// As [`Timestamp::saturating_add`].
    fn add(self, duration: Duration) -> Self {
        self.saturating_add(duration)
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    /// As [`Timestamp::saturating_sub`].
    fn sub(self, duration: Duration) -> Self {
        self.saturating_sub(duration)
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self::EPOCH.saturating_add(after),
            Err(before) => Self::EPOCH.saturating_sub(before.duration()),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.seconds, self.nanoseconds)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_the_order_in_time_before_1970_too() {
        let at = |seconds, nanos| Timestamp::new(seconds, nanos).unwrap();
        assert!(at(-1, 999_999_999) < at(0, 0));
        assert!(at(-2, 0) < at(-1, 0));
        assert_eq!(at(0, 0).nanos_since(at(-1, 999_999_999)), 1);
    }

    #[test]
    fn a_second_of_nanoseconds_is_refused() {
        assert_eq!(Timestamp::new(0, 1_000_000_000), Err(Error::Nanoseconds(1_000_000_000)));
    }

    #[test]
    fn nanoseconds_carry_into_seconds() {
        let start = Timestamp::new(1_700_000_000, 999_999_999).unwrap();
        let later = start.saturating_add(Duration::from_nanos(1));
        assert_eq!(later, Timestamp::new(1_700_000_001, 0).unwrap());
        assert_eq!(start + Duration::from_nanos(1), later);
        assert_eq!(later.saturating_sub(Duration::from_nanos(1)), start);
    }

    #[test]
    fn moments_beyond_the_ends_saturate() {
        let second = Duration::from_secs(1);
        assert_eq!(Timestamp::EPOCH + second - second, Timestamp::EPOCH);
        assert_eq!(Timestamp::MIN - second, Timestamp::MIN);
        assert_eq!(Timestamp::MAX.saturating_add(Duration::from_secs(1)), Timestamp::MAX);
        assert_eq!(Timestamp::from_nanos(i128::MIN).seconds(), i64::MIN);
    }

    proptest::proptest! {
        /// forall t: from_nanos(as_nanos(t)) = t
        #[test]
        fn nanoseconds_read_back(seconds: i64, nanoseconds in 0u32..1_000_000_000) {
            let t = Timestamp::new(seconds, nanoseconds).unwrap();
            proptest::prop_assert_eq!(Timestamp::from_nanos(t.as_nanos()), t);
        }
    }
}
