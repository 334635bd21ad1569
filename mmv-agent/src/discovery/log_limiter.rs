//! Limits the rate of log lines about files.
//!
//! Any process that may create files could make the agent log as fast as it ticks.

use std::time::Duration;

use tracing::warn;

use super::TokenBucket;

/// How many lines may follow each other at once.
const BURST: f64 = 200.0;
/// How many lines a second are allowed after that.
const PER_SECOND: f64 = 1.0;

/// Decides which lines about files are logged.
#[derive(Debug)]
pub(crate) struct LogLimiter {
    bucket: TokenBucket,
    now: Duration,
    suppressed: u64,
}

impl LogLimiter {
    /// A limiter that has not seen any line.
    pub(crate) fn new() -> Self {
        let bucket = TokenBucket::new(BURST, PER_SECOND);
        Self { bucket, now: Duration::ZERO, suppressed: 0 }
    }

    /// Sets the time, counted from the start of the agent.
    pub(crate) fn set_now(&mut self, now: Duration) {
        self.now = now;
    }

    /// Whether a line may be logged; one that may not is counted.
    pub(crate) fn may_log(&mut self) -> bool {
        if !self.bucket.try_take(1.0, self.now) {
            if self.suppressed == 0 {
                warn!("too many log lines about files: most are suppressed from here on");
            }
            self.suppressed += 1;
            return false;
        }
        if self.suppressed > 0 {
            warn!(lines = self.suppressed, "log lines about files were suppressed");
            self.suppressed = 0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_lines_is_limited_to_the_rate() {
        let mut limiter = LogLimiter::new();
        let logged = (0..1_000).filter(|_| limiter.may_log()).count();
        assert_eq!(logged, 200);
        let mut later = 0;
        for second in 1..=10 {
            limiter.set_now(Duration::from_secs(second));
            later += (0..100).filter(|_| limiter.may_log()).count();
        }
        assert_eq!(later, 10);
    }
}
