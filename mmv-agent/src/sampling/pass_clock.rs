//! The clock within a tick.

use std::time::{Duration, Instant};

use pcp_types::Timestamp;

use crate::moment::Moment;

/// The clock by which passes over files are limited. In tests that move the time themselves, it
/// stands still and limits nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PassClock {
    start: Option<Instant>,
}

impl PassClock {
    /// Creates the clock of an agent that started at this time.
    pub(super) fn since(start: Instant) -> Self {
        Self { start: Some(start) }
    }

    /// Returns the time since the start of the agent; `now` where the clock stands still.
    pub(super) fn elapsed(self, now: Moment) -> Duration {
        self.start.map_or(now.monotonic, |start| start.elapsed())
    }

    /// Reads both clocks; `None` where they stand still.
    pub(super) fn moment(self) -> Option<Moment> {
        let start = self.start?;
        Some(Moment { monotonic: start.elapsed(), wall: Timestamp::now() })
    }

    /// Converts a time since the start; `None` where the clock stands still.
    pub(super) fn instant(self, at: Duration) -> Option<Instant> {
        self.start?.checked_add(at)
    }
}
