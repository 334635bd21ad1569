//! A rate limit on log lines about files.
//!
//! Without it, any process that may create files could make the agent log at every tick. The limit
//! is per user, so that one user's files do not suppress the lines about another's.

use std::time::Duration;

use hashbrown::HashMap;
use tracing::warn;

use super::FairRate;

/// Limit on consecutive lines about files of one user.
const BURST: f64 = 200.0;
/// Limit on lines a second after a burst.
const PER_SECOND: f64 = 1.0;

#[derive(Debug)]
pub(crate) struct LogLimiter {
    rate: FairRate,
    now: Duration,
    /// Number of suppressed lines by user.
    suppressed: HashMap<u32, u64>,
}

impl LogLimiter {
    pub(crate) fn new() -> Self {
        let rate = FairRate::new(BURST, PER_SECOND);
        Self { rate, now: Duration::ZERO, suppressed: HashMap::new() }
    }

    /// Sets the time, counted from the start of the agent.
    pub(crate) fn set_now(&mut self, now: Duration) {
        self.now = now;
    }

    /// Returns true if a line about a file of this user may be logged, and counts it as suppressed
    /// otherwise.
    pub(crate) fn may_log(&mut self, user: u32) -> bool {
        if !self.rate.try_take(user, self.now) {
            let suppressed = self.suppressed.entry(user).or_default();
            *suppressed += 1;
            if *suppressed == 1 {
                warn!(user, "too many log lines about files: most are suppressed from here on");
            }
            return false;
        }
        if let Some(lines) = self.suppressed.remove(&user) {
            warn!(user, lines, "log lines about files were suppressed");
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
        let logged = (0..1_000).filter(|_| limiter.may_log(1)).count();
        assert_eq!(logged, 200);
        let mut later = 0;
        for second in 1..=10 {
            limiter.set_now(Duration::from_secs(second));
            later += (0..100).filter(|_| limiter.may_log(1)).count();
        }
        assert_eq!(later, 10);
    }

    #[test]
    fn lines_about_one_users_files_cost_no_other_user_any() {
        let mut limiter = LogLimiter::new();
        let mut logged = 0;
        for second in 0..100 {
            limiter.set_now(Duration::from_secs(second));
            let _ = (0..1_000).filter(|_| limiter.may_log(1)).count();
            logged += usize::from(limiter.may_log(2));
        }
        assert_eq!(logged, 100);
    }
}
