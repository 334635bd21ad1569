//! What archives come to, and how long they will be kept.

use serde::{Deserialize, Serialize};

use crate::config::Retention;

const DAY: f64 = 86_400.0;

/// The archives that there are, and what compressing them has come to. As long as
/// the keeper has not looked, or if nobody keeps archives, all of it is zero.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Kept {
    /// How many archives, that which is being written included.
    pub archives: u64,
    /// Bytes of all their files.
    pub bytes: u64,
    /// When the oldest one that is closed begins, in seconds since 1970.
    pub oldest: Option<i64>,
    /// Bytes that the file system has free.
    pub free: u64,
    /// Bytes of the data volumes that this run has compressed.
    pub compressed_from: u64,
    /// What they have now.
    pub compressed_to: u64,
}

/// What is to be expected if all goes on as now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Forecast {
    /// Bytes that are written in a day, before compression.
    pub bytes_a_day: u64,
    /// What is left of that when it is compressed, as measured; `None`: no volume
    /// was compressed by this run.
    pub compressed_to: Option<f64>,
    /// How many days of data there will be; `None`: nothing is deleted.
    pub days: Option<f64>,
    /// What sets that limit: `age`, `size` or `free`.
    pub limit: Option<String>,
}

impl Forecast {
    /// That of so many bytes a day and so many archives.
    pub(crate) fn new(bytes_a_day: u64, kept: &Kept, retention: &Retention) -> Self {
        let compressed_to = (kept.compressed_from > 0)
            .then(|| kept.compressed_to as f64 / kept.compressed_from as f64);
        let rate = bytes_a_day as f64 * compressed_to.unwrap_or(1.0);
        let days = |bytes: u64| (rate > 0.0).then(|| bytes as f64 / rate);
        let age = retention.age.map(|age| age.as_secs_f64() / DAY);
        let size = retention.size.and_then(days);
        // What is there and what may still be added. A folder that nobody has looked
        // at says nothing.
        let room = retention.free.filter(|_| kept.free > 0);
        let room = room.map(|least| kept.bytes.saturating_add(kept.free).saturating_sub(least));
        let limits = [("age", age), ("size", size), ("free", room.and_then(days))];
        let first = limits
            .into_iter()
            .filter_map(|(limit, days)| Some((limit, days?)))
            .min_by(|(_, one), (_, other)| one.total_cmp(other));
        Self {
            bytes_a_day,
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

    fn retention() -> Retention {
        let age = Some(Duration::from_secs(14 * 86_400));
        Retention { age, size: Some(1_000), free: Some(500) }
    }

    fn limit(bytes_a_day: u64, kept: &Kept) -> (f64, String) {
        let forecast = Forecast::new(bytes_a_day, kept, &retention());
        (forecast.days.unwrap(), forecast.limit.unwrap())
    }

    #[test]
    fn the_limit_that_is_met_first_says_how_long_archives_are_kept() {
        let kept = Kept { archives: 1, bytes: 300, free: 10_000, ..Kept::default() };
        assert_eq!(limit(10, &kept), (14.0, "age".to_owned()));
        assert_eq!(limit(100, &kept), (10.0, "size".to_owned()));
        let full = Kept { free: 600, ..kept.clone() };
        assert_eq!(limit(100, &full), (4.0, "free".to_owned()));
        assert_eq!(limit(0, &full), (14.0, "age".to_owned()));
        let nothing = Retention { age: None, size: None, free: None };
        assert_eq!(Forecast::new(100, &kept, &nothing).days, None);
    }

    #[test]
    fn compression_counts_once_it_was_measured() {
        let kept = Kept { free: 10_000, ..Kept::default() };
        assert_eq!(limit(200, &kept), (5.0, "size".to_owned()));
        let measured = Kept { compressed_from: 100, compressed_to: 50, ..kept };
        assert_eq!(limit(200, &measured), (10.0, "size".to_owned()));
        let forecast = Forecast::new(200, &measured, &retention());
        assert_eq!((forecast.bytes_a_day, forecast.compressed_to), (200, Some(0.5)));
    }
}
