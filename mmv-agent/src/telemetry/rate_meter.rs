//! Rates per second over about the last minute, or the last hour.

use std::collections::VecDeque;
use std::time::Duration;

const READINGS: usize = 13;

/// Readings of two counters.
#[derive(Debug, Clone)]
pub(crate) struct RateMeter {
    readings: VecDeque<(Duration, [u64; 2])>,
    /// Minimum time between two readings.
    pause: Duration,
}

impl RateMeter {
    /// Creates a meter over `time` of two counters that start at 0.
    pub(crate) fn new(time: Duration) -> Self {
        let readings = VecDeque::from([(Duration::ZERO, [0; 2])]);
        Self { readings, pause: time / (READINGS - 1) as u32 }
    }

    /// Adds a reading; `now` counts from the start.
    pub(crate) fn note(&mut self, now: Duration, counters: [u64; 2]) {
        if self.readings.back().is_some_and(|(at, _)| now < *at + self.pause) {
            return;
        }
        if self.readings.len() == READINGS {
            self.readings.pop_front();
        }
        self.readings.push_back((now, counters));
    }

    /// Returns the time of which it knows the rates.
    pub(crate) fn span(&self, now: Duration) -> Duration {
        self.readings.front().map_or(Duration::ZERO, |(at, _)| now.saturating_sub(*at))
    }

    /// Returns the rates since the oldest reading, given the present counters.
    pub(crate) fn rates(&self, now: Duration, counters: [u64; 2]) -> [f64; 2] {
        let Some((at, before)) = self.readings.front() else { return [0.0; 2] };
        let time = now.saturating_sub(*at).as_secs_f64();
        if time <= 0.0 {
            return [0.0; 2];
        }
        [0, 1].map(|number| counters[number].saturating_sub(before[number]) as f64 / time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_minute() {
        let mut meter = RateMeter::new(Duration::from_secs(60));
        let rates =
            |meter: &RateMeter, now, done| meter.rates(now, done).map(|rate| rate.round() as u64);
        assert_eq!(rates(&meter, Duration::ZERO, [0, 0]), [0, 0]);
        let second = Duration::from_secs(1);
        // A thousand a second in the first hour, ten a second after it.
        let done = |at: u64| [1000 * at.min(3600) + 10 * at.saturating_sub(3600), at];
        for at in 0..=3600 {
            meter.note(second * at, done(at.into()));
        }
        assert_eq!(rates(&meter, second * 3600, done(3600)), [1000, 1]);
        for at in 3600..3700 {
            meter.note(second * at, done(at.into()));
        }
        assert_eq!(rates(&meter, second * 3700, done(3700)), [10, 1]);
    }
}
