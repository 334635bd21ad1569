//! A moment by both clocks.

use std::time::Duration;

use pcp_types::Timestamp;

/// A moment: ticks and pauses go by the monotonic clock, records have the time of the
/// wall clock, which may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Since the start of the agent.
    pub monotonic: Duration,
    /// The time of day.
    pub wall: Timestamp,
}

impl Moment {
    /// Before anything has happened.
    pub(crate) const START: Self = Self { monotonic: Duration::ZERO, wall: Timestamp::EPOCH };

    /// The day of the wall clock, counted from 1970.
    pub(crate) fn day(self) -> i64 {
        self.wall.seconds().div_euclid(86_400)
    }
}
