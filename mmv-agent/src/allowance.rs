//! So much at once, and so much in the long run.

use std::time::Duration;

/// What somebody may use up: a store that fills up again with time.
#[derive(Debug, Clone)]
pub(crate) struct Allowance {
    most: f64,
    per_second: f64,
    left: f64,
    at: Duration,
}

impl Allowance {
    /// `most` at once, and `per_second` of that in the long run. It is full.
    pub(crate) fn new(most: f64, per_second: f64) -> Self {
        Self { most, per_second, left: most, at: Duration::ZERO }
    }

    /// Whether anything is left; `now` is counted from the start.
    pub(crate) fn has_any(&mut self, now: Duration) -> bool {
        let since = now.saturating_sub(self.at).as_secs_f64();
        self.left = (self.left + since * self.per_second).min(self.most);
        self.at = self.at.max(now);
        self.left > 0.0
    }

    /// Takes so much if so much is left; whether it was.
    pub(crate) fn spend(&mut self, amount: f64, now: Duration) -> bool {
        let enough = self.has_any(now) && self.left >= amount;
        if enough {
            self.left -= amount;
        }
        enough
    }

    /// Takes so much, be it more than is left: then it takes longer until there
    /// is something again.
    pub(crate) fn take(&mut self, amount: f64) {
        self.left -= amount;
    }

    /// Whether all of it is left.
    pub(crate) fn is_full(&mut self, now: Duration) -> bool {
        self.has_any(now) && self.left >= self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_was_taken_comes_back_with_time_and_no_more_than_that() {
        let mut allowance = Allowance::new(10.0, 2.0);
        assert!(allowance.is_full(SECOND * 100));
        allowance.take(10.0);
        assert!(!allowance.has_any(SECOND * 100));
        assert!(allowance.has_any(SECOND * 101));
        assert!(!allowance.is_full(SECOND * 104));
        assert!(allowance.is_full(SECOND * 105));
    }

    #[test]
    fn nothing_is_spent_that_is_not_there() {
        let mut allowance = Allowance::new(2.0, 0.5);
        let spent = [0, 0, 0, 1, 2, 3].map(|second| allowance.spend(1.0, SECOND * second));
        assert_eq!(spent, [true, true, false, false, true, false]);
    }

    #[test]
    fn what_was_taken_beyond_it_has_to_come_back_first() {
        let mut allowance = Allowance::new(10.0, 2.0);
        allowance.take(30.0);
        assert!(!allowance.has_any(SECOND * 10));
        assert!(allowance.has_any(SECOND * 11));
    }
}
