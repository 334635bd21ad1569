//! Guards that measure times.

use std::fmt;
use std::time::Duration;

use crate::system::Instant;

pub(super) trait AddDuration: Sync {
    fn add_duration(&self, time: Duration);
}

/// A running measurement of a time; see [`Timer::start`](crate::Timer::start) and
/// [`Histogram::start`](crate::Histogram::start).
pub struct Timing<'m> {
    metric: &'m dyn AddDuration,
    since: Instant,
}

impl<'m> Timing<'m> {
    pub(super) fn new(metric: &'m dyn AddDuration) -> Self {
        Self { metric, since: Instant::now() }
    }

    /// Ends without adding the time.
    pub fn discard(self) {
        std::mem::forget(self);
    }
}

impl Drop for Timing<'_> {
    fn drop(&mut self) {
        self.metric.add_duration(self.since.elapsed());
    }
}

impl fmt::Debug for Timing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timing").field("since", &self.since).finish_non_exhaustive()
    }
}
