//! Forecast of the size and the retention of archives.

use serde::{Deserialize, Serialize};

use crate::config::Retention;

const DAY: f64 = 86_400.0;

/// All archives, and the result of compression. Zero until the housekeeping thread has listed the
/// archives, and always if the user has named the archive.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RetainedArchives {
    /// Number of archives, including the one that is being written.
    pub archives: u64,
    pub bytes: u64,
    /// The same archives by their intervals, which rise.
    pub tiers: Vec<RetainedTier>,
    /// Start of the oldest closed archive, in seconds since 1970.
    pub oldest: Option<i64>,
    /// Free bytes of the file system; `None` if not known yet.
    pub free: Option<u64>,
    /// Bytes of the data volumes that this run compressed.
    pub compressed_from: u64,
    /// Their bytes after compression.
    pub compressed_to: u64,
    /// Processor time of compression in nanoseconds.
    pub compression_time: u64,
}

/// The archives of one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RetainedTier {
    /// Seconds from one value to the next; 0 of archives with all samples.
    pub interval: f64,
    pub archives: u64,
    pub bytes: u64,
    /// Start of the oldest closed archive, in seconds since 1970.
    pub oldest: Option<i64>,
}

/// Size and cost of compression for a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct PerValue {
    /// Bytes in the compressed volume.
    pub bytes: f64,
    /// Nanoseconds of processor time.
    pub nanoseconds: f64,
}

impl RetainedArchives {
    /// Returns size and cost of compression for a value, if any volume was compressed; `values`
    /// values took `bytes` bytes before compression.
    pub(crate) fn per_value(&self, values: u64, bytes: u64) -> Option<PerValue> {
        let compressed = values as f64 * self.compressed_from as f64 / bytes as f64;
        (compressed > 0.0).then(|| PerValue {
            bytes: self.compressed_to as f64 / compressed,
            nanoseconds: self.compression_time as f64 / compressed,
        })
    }
}

/// The forecast if nothing changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Forecast {
    /// Bytes written in a day, before compression.
    pub bytes_a_day: u64,
    /// The seconds before now in which this was measured, an hour at most; `None` if it was
    /// computed from the last record of each group, since the agent has just started.
    pub measured_over: Option<f64>,
    /// Measured ratio of compressed to plain bytes; `None` if this run has compressed no volume.
    pub compressed_to: Option<f64>,
    /// Days of data that will be kept, a lower bound if `compressed_to` is unknown; `None` if
    /// nothing is deleted.
    pub days: Option<f64>,
    /// The key of retention that limits them: `age`, `size` or `free`.
    pub limit: Option<String>,
}

impl Forecast {
    pub(crate) fn new(bytes_a_day: u64, kept: &RetainedArchives, retention: &Retention) -> Self {
        let compressed_to = (kept.compressed_from > 0)
            .then(|| kept.compressed_to as f64 / kept.compressed_from as f64);
        let rate = bytes_a_day as f64 * compressed_to.unwrap_or(1.0);
        let days = |bytes: u64| (rate > 0.0).then(|| bytes as f64 / rate);
        let age = retention.age.map(|age| age.as_secs_f64() / DAY);
        let size = retention.size.and_then(days);
        // The existing bytes plus those that may be added.
        let room = retention.free.zip(kept.free);
        let room = room.map(|(least, free)| kept.bytes.saturating_add(free).saturating_sub(least));
        let limits = [("age", age), ("size", size), ("free", room.and_then(days))];
        let first = limits
            .into_iter()
            .filter_map(|(limit, days)| Some((limit, days?)))
            .min_by(|(_, one), (_, other)| one.total_cmp(other));
        Self {
            bytes_a_day,
            measured_over: None,
            compressed_to,
            days: first.map(|(_, days)| days),
            limit: first.map(|(limit, _)| limit.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn compression_has_a_result_and_a_cost_for_a_value() {
        let none = RetainedArchives::default();
        assert_eq!((none.per_value(10, 320), none.per_value(0, 0)), (None, None));
        let kept = RetainedArchives {
            compressed_from: 3_200,
            compressed_to: 400,
            compression_time: 3_500,
            ..RetainedArchives::default()
        };
        // 100 of 1000 values were compressed.
        let expected = PerValue { bytes: 4.0, nanoseconds: 35.0 };
        assert_eq!(kept.per_value(1_000, 32_000), Some(expected));
    }

    fn retention() -> Retention {
        let age = Some(Duration::from_secs(14 * 86_400));
        Retention { age, size: Some(1_000), free: Some(500), tiers: Vec::new() }
    }

    fn limit(bytes_a_day: u64, kept: &RetainedArchives) -> (f64, String) {
        let forecast = Forecast::new(bytes_a_day, kept, &retention());
        (forecast.days.unwrap(), forecast.limit.unwrap())
    }

    #[test]
    fn the_first_limit_to_be_reached_sets_the_days() {
        let kept = RetainedArchives {
            archives: 1,
            bytes: 300,
            free: Some(10_000),
            ..RetainedArchives::default()
        };
        assert_eq!(limit(10, &kept), (14.0, "age".to_owned()));
        assert_eq!(limit(100, &kept), (10.0, "size".to_owned()));
        let full = RetainedArchives { free: Some(600), ..kept.clone() };
        assert_eq!(limit(100, &full), (4.0, "free".to_owned()));
        let nothing_free = RetainedArchives { bytes: 700, free: Some(0), ..kept.clone() };
        assert_eq!(limit(100, &nothing_free), (2.0, "free".to_owned()));
        let unknown = RetainedArchives { free: None, ..kept.clone() };
        assert_eq!(limit(100, &unknown), (10.0, "size".to_owned()));
        assert_eq!(limit(0, &full), (14.0, "age".to_owned()));
        let nothing = Retention::NONE;
        assert_eq!(Forecast::new(100, &kept, &nothing).days, None);
    }

    #[test]
    fn compression_counts_as_soon_as_it_is_measured() {
        let kept = RetainedArchives { free: Some(10_000), ..RetainedArchives::default() };
        assert_eq!(limit(200, &kept), (5.0, "size".to_owned()));
        let measured = RetainedArchives { compressed_from: 100, compressed_to: 50, ..kept };
        assert_eq!(limit(200, &measured), (10.0, "size".to_owned()));
        let forecast = Forecast::new(200, &measured, &retention());
        assert_eq!((forecast.bytes_a_day, forecast.compressed_to), (200, Some(0.5)));
    }
}
