//! How long to wait before a request goes again.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// The first wait is at most this long.
const FIRST: Duration = Duration::from_millis(250);
/// No wait is longer, unless the receiver asks for it.
const LONGEST: Duration = Duration::from_secs(30);
/// What a receiver may ask for.
pub(super) const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// Doubles the wait each time, with jitter: senders that failed together do not come again
/// together.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    tries: u32,
}

impl Backoff {
    /// The next wait: between half of the present bound and all of it; at least what the
    /// receiver asks for.
    pub(super) fn next(&mut self, asked: Option<Duration>) -> Duration {
        let bound = FIRST.saturating_mul(1 << self.tries.min(16)).min(LONGEST);
        self.tries = self.tries.saturating_add(1);
        let half = bound / 2;
        let random = RandomState::new().hash_one(self.tries);
        let jitter = half.mul_f64(random as f64 / u64::MAX as f64);
        (half + jitter).max(asked.unwrap_or_default().min(LONGEST_ASKED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_differ() {
        let mut backoff = Backoff::default();
        let waits: Vec<Duration> = (0..40).map(|_| backoff.next(None)).collect();
        assert!(waits[0] <= FIRST && waits[0] >= FIRST / 2, "{waits:?}");
        assert!(waits[20..].iter().all(|wait| *wait >= LONGEST / 2 && *wait <= LONGEST));
        assert!(waits[20..].iter().any(|wait| *wait != waits[20]), "{waits:?}");
    }

    #[test]
    fn a_receiver_can_ask_for_more_within_a_bound() {
        let seconds = |asked| Backoff::default().next(Some(Duration::from_secs(asked)));
        assert_eq!(seconds(7), Duration::from_secs(7));
        assert_eq!(seconds(u64::MAX), LONGEST_ASKED);
    }
}
