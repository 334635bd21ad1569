use std::time::Duration;

/// A rate limit that allows bursts: a bucket of tokens that is refilled at a constant rate.
#[derive(Debug, Clone)]
pub(crate) struct TokenBucket {
    capacity: f64,
    per_second: f64,
    tokens: f64,
    updated: Duration,
}

impl TokenBucket {
    pub(crate) fn new(capacity: f64, per_second: f64) -> Self {
        Self { capacity, per_second, tokens: capacity, updated: Duration::ZERO }
    }

    /// Refills the bucket, and returns true if it is not empty; `now` counts from the start of the
    /// agent.
    pub(crate) fn has_any(&mut self, now: Duration) -> bool {
        let elapsed = now.saturating_sub(self.updated).as_secs_f64();
        self.tokens = (self.tokens + elapsed * self.per_second).min(self.capacity);
        self.updated = self.updated.max(now);
        self.tokens > 0.0
    }

    pub(crate) fn try_take(&mut self, tokens: f64, now: Duration) -> bool {
        let enough = self.has_any(now) && self.tokens >= tokens;
        if enough {
            self.tokens -= tokens;
        }
        enough
    }

    /// Takes tokens even if the bucket has fewer; the debt is refilled first.
    pub(crate) fn take(&mut self, tokens: f64) {
        self.tokens -= tokens;
    }

    pub(crate) fn is_full(&mut self, now: Duration) -> bool {
        self.has_any(now) && self.tokens >= self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn tokens_are_refilled_up_to_the_capacity() {
        let mut bucket = TokenBucket::new(10.0, 2.0);
        assert!(bucket.is_full(SECOND * 100));
        bucket.take(10.0);
        assert!(!bucket.has_any(SECOND * 100));
        assert!(bucket.has_any(SECOND * 101));
        assert!(!bucket.is_full(SECOND * 104));
        assert!(bucket.is_full(SECOND * 105));
    }

    #[test]
    fn no_more_tokens_are_taken_than_there_are() {
        let mut bucket = TokenBucket::new(2.0, 0.5);
        let taken = [0, 0, 0, 1, 2, 3].map(|second| bucket.try_take(1.0, SECOND * second));
        assert_eq!(taken, [true, true, false, false, true, false]);
    }

    #[test]
    fn a_debt_is_refilled_first() {
        let mut bucket = TokenBucket::new(10.0, 2.0);
        bucket.take(30.0);
        assert!(!bucket.has_any(SECOND * 10));
        assert!(bucket.has_any(SECOND * 11));
    }
}
