//! Quantiles of durations.

use std::time::Duration;

use mmv_writer::Buckets;

/// Buckets for times up to a minute, in microseconds, with an error of 12.5 %.
const TIMES: Buckets = Buckets::new(3, 60_000_000);

/// Counts of durations by bucket.
#[derive(Debug, Clone)]
pub(crate) struct DurationQuantiles {
    counts: Vec<u64>,
    total: u64,
    most: Duration,
}

impl DurationQuantiles {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; TIMES.count()], total: 0, most: Duration::ZERO }
    }

    pub(crate) fn record(&mut self, time: Duration) {
        if let Some(count) = self.counts.get_mut(TIMES.index(micros(time))) {
            *count += 1;
            self.total += 1;
        }
        self.most = self.most.max(time);
    }

    pub(crate) fn max(&self) -> Duration {
        self.most
    }

    /// Returns the duration that a share of all, 0.5 for half of them, do not exceed; zero if
    /// there are none.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let wanted = (share * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        let Some(bucket) = bucket else { return Duration::ZERO };
        let (_, last) = TIMES.bounds(bucket).unwrap_or_default();
        Duration::from_micros(last).min(self.most)
    }
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_is_within_its_bucket_and_the_longest() {
        let mut quantiles = DurationQuantiles::new();
        assert_eq!(quantiles.quantile(0.5), Duration::ZERO);
        for millis in 1..=1000 {
            quantiles.record(Duration::from_millis(millis));
        }
        for (share, expected) in [(0.5, 0.5), (0.99, 0.99), (1.0, 1.0)] {
            let found = quantiles.quantile(share).as_secs_f64();
            assert!(found >= expected && found <= expected * 1.125, "{share}: {found}");
        }
        assert_eq!(quantiles.max(), Duration::from_secs(1));
        quantiles.record(Duration::from_secs(3600));
        assert_eq!(quantiles.quantile(1.0), Duration::from_secs(3600));
    }
}
