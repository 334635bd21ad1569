//! Guards that record times in a histogram.

use std::time::Instant;

use super::Histogram;

/// A running measurement of a time; see [`Histogram::start`].
#[derive(Debug)]
pub struct HistogramTiming<'h> {
    histogram: &'h Histogram,
    since: Instant,
}

impl<'h> HistogramTiming<'h> {
    pub(super) fn new(histogram: &'h Histogram) -> Self {
        Self { histogram, since: Instant::now() }
    }

    /// Ends without recording the time.
    pub fn discard(self) {
        std::mem::forget(self);
    }
}

impl Drop for HistogramTiming<'_> {
    fn drop(&mut self) {
        self.histogram.record_duration(self.since.elapsed());
    }
}
