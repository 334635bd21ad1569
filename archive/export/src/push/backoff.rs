//! Delays before a request is repeated.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// Upper bound of the first delay.
const FIRST_DELAY: Duration = Duration::from_millis(250);
/// Longest delay, unless the receiver asks for more.
const MAX_DELAY: Duration = Duration::from_secs(30);
/// Longest delay that a receiver may ask for.
pub(super) const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Delays that double each time, with jitter, so that senders that failed together do not all
/// return at the same time.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    tries: u32,
}

impl Backoff {
    /// Returns the next delay: between half of the current bound and the bound, and at least what
    /// the receiver asks for.
    pub(super) fn next(&mut self, asked: Option<Duration>) -> Duration {
        let bound = FIRST_DELAY.saturating_mul(1 << self.tries.min(16)).min(MAX_DELAY);
        self.tries = self.tries.saturating_add(1);
        let half = bound / 2;
        let random = RandomState::new().hash_one(self.tries);
        let jitter = half.mul_f64(random as f64 / u64::MAX as f64);
        (half + jitter).max(asked.unwrap_or_default().min(MAX_RETRY_AFTER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_differ() {
        let mut backoff = Backoff::default();
        let waits: Vec<Duration> = (0..40).map(|_| backoff.next(None)).collect();
        assert!(waits[0] <= FIRST_DELAY && waits[0] >= FIRST_DELAY / 2, "{waits:?}");
        assert!(waits[20..].iter().all(|wait| *wait >= MAX_DELAY / 2 && *wait <= MAX_DELAY));
        assert!(waits[20..].iter().any(|wait| *wait != waits[20]), "{waits:?}");
    }

    #[test]
    fn a_receiver_can_ask_for_more_within_a_bound() {
        let seconds = |asked| Backoff::default().next(Some(Duration::from_secs(asked)));
        assert_eq!(seconds(7), Duration::from_secs(7));
        assert_eq!(seconds(u64::MAX), MAX_RETRY_AFTER);
    }
}
