//! What was done in a second, over about the last minute.

use std::collections::VecDeque;
use std::time::Duration;

/// How far marks are apart at least.
const APART: Duration = Duration::from_secs(5);
/// How many are kept.
const KEPT: usize = 13;

/// What had been done, at some moments.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    marks: VecDeque<(Duration, [u64; 2])>,
}

impl Pace {
    /// Nothing has been done at the start.
    pub(crate) fn new() -> Self {
        Self { marks: VecDeque::from([(Duration::ZERO, [0; 2])]) }
    }

    /// So much has been done up to `now`, counted from the start.
    pub(crate) fn note(&mut self, now: Duration, done: [u64; 2]) {
        if self.marks.back().is_some_and(|(at, _)| now < *at + APART) {
            return;
        }
        if self.marks.len() == KEPT {
            self.marks.pop_front();
        }
        self.marks.push_back((now, done));
    }

    /// What was done in a second since the oldest mark, if so much has been done
    /// by now.
    pub(crate) fn rates(&self, now: Duration, done: [u64; 2]) -> [f64; 2] {
        let Some((at, before)) = self.marks.front() else { return [0.0; 2] };
        let time = now.saturating_sub(*at).as_secs_f64();
        let rate = |(now, before): (u64, u64)| now.saturating_sub(before) as f64 / time;
        let [first, second] = [0, 1].map(|at| (done[at], before[at]));
        if time > 0.0 { [rate(first), rate(second)] } else { [0.0; 2] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_minute() {
        let mut pace = Pace::new();
        let rates = |pace: &Pace, now, done| pace.rates(now, done).map(|rate| rate.round() as u64);
        assert_eq!(rates(&pace, Duration::ZERO, [0, 0]), [0, 0]);
        let second = Duration::from_secs(1);
        // A thousand a second in the first hour, ten a second after it.
        let done = |at: u64| [1000 * at.min(3600) + 10 * at.saturating_sub(3600), at];
        for at in 0..=3600 {
            pace.note(second * at, done(at.into()));
        }
        assert_eq!(rates(&pace, second * 3600, done(3600)), [1000, 1]);
        for at in 3600..3700 {
            pace.note(second * at, done(at.into()));
        }
        assert_eq!(rates(&pace, second * 3700, done(3700)), [10, 1]);
    }
}
