//! Moments in time on two clocks.

use std::time::Duration;

use pcp_types::Timestamp;

/// A moment on both clocks. Ticks and pauses follow the monotonic clock; records have the time of
/// the wall clock, which may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Time since the start of the agent.
    pub monotonic: Duration,
    pub wall: Timestamp,
}

/// Formats a time since 1970 in UTC, like `2023-11-14T22:13:20.5Z`.
pub(crate) fn utc_text(seconds: i64, nanos: u32) -> String {
    jiff::Timestamp::new(seconds, nanos.cast_signed())
        .map_or_else(|_| format!("{seconds} s after 1970"), |time| time.to_string())
}

impl Moment {
    /// The start of the agent, at an unknown time.
    pub(crate) const START: Self = Self { monotonic: Duration::ZERO, wall: Timestamp::EPOCH };

    /// Returns the day of the wall clock, counted from 1970.
    pub(crate) fn day(self) -> i64 {
        self.wall.seconds().div_euclid(86_400)
    }
}
