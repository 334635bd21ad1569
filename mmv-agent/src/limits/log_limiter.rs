//! Limits the rate of log lines about files.
//!
//! Any process that may create files could make the agent log as fast as it ticks. Lines
//! about files of one user do not use up those about files of another.

use std::time::Duration;

use hashbrown::HashMap;
use tracing::warn;

use super::FairRate;

/// How many lines about files of one user may follow each other at once.
const BURST: f64 = 200.0;
/// How many lines a second are allowed after that.
const PER_SECOND: f64 = 1.0;

/// Decides which lines about files are logged.
#[derive(Debug)]
pub(crate) struct LogLimiter {
    rate: FairRate,
    now: Duration,
    /// By user.
    suppressed: HashMap<u32, u64>,
}

impl LogLimiter {
    /// A limiter that has not seen any line.
    pub(crate) fn new() -> Self {
        let rate = FairRate::new(BURST, PER_SECOND);
        Self { rate, now: Duration::ZERO, suppressed: HashMap::new() }
    }

    /// Sets the time, counted from the start of the agent.
    pub(crate) fn set_now(&mut self, now: Duration) {
        self.now = now;
    }

    /// Whether a line about a file of this user may be logged; one that may not is counted.
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
