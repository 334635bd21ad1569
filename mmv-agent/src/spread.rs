//! How times are spread: some quantiles of all that were noted.

use std::time::Duration;

use mmv_writer::Buckets;

/// Times up to a minute, in microseconds, to 12.5 %.
const TIMES: Buckets = Buckets::new(3, 60_000_000);

/// How many times there were in each bucket.
#[derive(Debug, Clone)]
pub(crate) struct Spread {
    counts: Vec<u64>,
    total: u64,
    most: Duration,
}

impl Spread {
    /// Without any time.
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; TIMES.count()], total: 0, most: Duration::ZERO }
    }

    /// Notes a time.
    pub(crate) fn note(&mut self, time: Duration) {
        if let Some(count) = self.counts.get_mut(TIMES.index(micros(time))) {
            *count += 1;
            self.total += 1;
        }
        self.most = self.most.max(time);
    }

    /// The longest time.
    pub(crate) fn most(&self) -> Duration {
        self.most
    }

    /// The time that a share of all times, 0.5 for the half, are not longer than;
    /// zero if there were none.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let wanted = (share * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reached = |count: &u64| {
            seen += count;
            seen >= wanted
        };
        let Some(bucket) = self.counts.iter().position(reached) else { return Duration::ZERO };
        let (_, last) = TIMES.bounds(bucket).unwrap_or_default();
        Duration::from_micros(last).min(self.most)
    }
}

/// A time in microseconds.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_right_to_its_bucket_and_never_above_the_longest() {
        let mut spread = Spread::new();
        assert_eq!(spread.quantile(0.5), Duration::ZERO);
        for millis in 1..=1000 {
            spread.note(Duration::from_millis(millis));
        }
        for (share, expected) in [(0.5, 0.5), (0.99, 0.99), (1.0, 1.0)] {
            let found = spread.quantile(share).as_secs_f64();
            assert!(found >= expected && found <= expected * 1.125, "{share}: {found}");
        }
        assert_eq!(spread.most(), Duration::from_secs(1));
        spread.note(Duration::from_secs(3600));
        assert_eq!(spread.quantile(1.0), Duration::from_secs(3600));
    }
}
