//! The buckets of native histograms.

use std::sync::Arc;

use pcp_archive::scan::histogram::HistogramBucket;

use crate::mapping::Scale;

/// The bounds of a bucket, in base units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BucketBounds {
    /// The greatest value of the bucket below; `None` of the first bucket.
    pub lower: Option<f64>,
    /// The middle of the bucket; of one without an upper bound its least value.
    pub middle: f64,
    /// The greatest value in the bucket; `None` without an upper bound.
    pub upper: Option<f64>,
}

impl BucketBounds {
    /// Converts the bounds of a bucket of whole numbers to base units.
    pub(super) fn new(bucket: &HistogramBucket, scale: Scale) -> Self {
        let middle = bucket.last.map_or(bucket.first, |last| f64::midpoint(bucket.first, last));
        let lower = (bucket.first > 0.0).then(|| scale.apply(bucket.first - 1.0));
        let upper = bucket.last.map(|last| scale.apply(last));
        Self { lower, middle: scale.apply(middle), upper }
    }
}

/// The counts of a histogram's buckets at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct BucketCounts {
    /// The buckets that were hit so far, by rising upper bounds.
    pub bounds: Arc<[BucketBounds]>,
    /// The number of values in each of them.
    pub counts: Vec<u64>,
    /// Whether the histogram is known to have been reset since the sample before.
    pub is_reset: bool,
}

impl BucketCounts {
    /// Returns the number of all values.
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |total, count| total.saturating_add(*count))
    }

    /// Returns the buckets that have values, with their counts.
    pub fn occupied(&self) -> impl Iterator<Item = (&BucketBounds, u64)> {
        self.bounds.iter().zip(self.counts.iter().copied()).filter(|(_, count)| *count > 0)
    }
}
