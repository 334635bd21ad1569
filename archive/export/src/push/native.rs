//! Native histograms of Prometheus remote write, and the exponential buckets that OTLP has too.
//!
//! Source: `prompb/types.proto` and `io/prometheus/write/v2/types.proto` of Prometheus, and the
//! specification "Native Histograms". Custom buckets have the greatest values of the archive's
//! buckets as upper bounds, and those of the buckets below as lower ones. All values of a bucket
//! go into the exponential bucket that has the middle of the bucket, which is the value that the
//! quantiles of an archive have.

use std::collections::BTreeMap;

use prost::Message;

use super::series::Point;
use crate::samples::{BucketCounts, FamilyPart};

/// The schema of custom buckets.
const CUSTOM_SCHEMA: i32 = -53;
/// The schema of exponential buckets, the finest of Prometheus: each power of two has 2^8.
pub(super) const EXPONENTIAL_SCHEMA: i32 = 8;
/// The reset hint of the first histogram after a reset. All others have none: a receiver that
/// did not store the histogram before has to compare.
const RESET: i32 = 1;

/// The message `Histogram`, whose fields have the same numbers in 1.0 and 2.0.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    count: Option<u64>,
    #[prost(double, tag = "3")]
    sum: f64,
    #[prost(sint32, tag = "4")]
    schema: i32,
    #[prost(uint64, optional, tag = "6")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "11")]
    spans: Vec<Span>,
    /// The count of each bucket, less that of the bucket before.
    #[prost(sint64, repeated, tag = "12")]
    deltas: Vec<i64>,
    #[prost(int32, tag = "14")]
    reset_hint: i32,
    #[prost(int64, tag = "15")]
    milliseconds: i64,
    #[prost(double, repeated, tag = "16")]
    custom_values: Vec<f64>,
    /// Milliseconds since 1970 UTC; 0 if unknown. Of 2.0 only.
    #[prost(int64, tag = "17")]
    start: i64,
}

/// A run of buckets.
#[derive(Clone, Copy, PartialEq, Message)]
struct Span {
    /// The number of the first bucket, or the distance to the end of the span before.
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

impl Histogram {
    /// Converts a sample of a series with this part. A stale marker has no buckets, and its value
    /// as the sum.
    pub(super) fn new(point: &Point, part: FamilyPart) -> Self {
        let is_custom = part == FamilyPart::CustomBuckets;
        let mut made = Self {
            count: Some(0),
            sum: point.value,
            schema: if is_custom { CUSTOM_SCHEMA } else { EXPONENTIAL_SCHEMA },
            zero_count: Some(0),
            milliseconds: point.milliseconds,
            start: point.start,
            ..Self::default()
        };
        let Some(counts) = &point.buckets else { return made };
        made.count = Some(counts.total());
        made.reset_hint = if counts.is_reset { RESET } else { 0 };
        if is_custom {
            made.custom_values = custom_values(counts);
            let buckets = custom(counts, &made.custom_values);
            made.set_buckets(&buckets);
        } else {
            let exponential = Exponential::new(counts);
            made.zero_count = Some(exponential.zeros);
            made.set_buckets(&exponential.buckets);
        }
        made
    }

    fn set_buckets(&mut self, buckets: &BTreeMap<i32, u64>) {
        let mut before = 0;
        let mut end = 0;
        for (&number, &count) in buckets {
            match self.spans.last_mut().filter(|_| number == end) {
                Some(span) => span.length += 1,
                None => self.spans.push(Span { offset: number - end, length: 1 }),
            }
            end = number + 1;
            // Modulo 2^64, as the receiver adds them up.
            let count = count.cast_signed();
            self.deltas.push(count.wrapping_sub(before));
            before = count;
        }
    }
}

/// Returns both bounds of each bucket that was hit so far, each once.
fn custom_values(counts: &BucketCounts) -> Vec<f64> {
    let mut values: Vec<f64> = Vec::new();
    for bounds in counts.bounds.iter() {
        values.extend(bounds.lower);
        values.extend(bounds.upper);
    }
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// Returns the counts of custom buckets by their numbers.
fn custom(counts: &BucketCounts, custom_values: &[f64]) -> BTreeMap<i32, u64> {
    let mut buckets = BTreeMap::new();
    for (bounds, count) in counts.occupied() {
        let upper = bounds.upper.unwrap_or(f64::INFINITY);
        let number = custom_values.partition_point(|value| *value < upper);
        add(&mut buckets, i32::try_from(number).unwrap_or(i32::MAX), count);
    }
    buckets
}

fn add(buckets: &mut BTreeMap<i32, u64>, number: i32, count: u64) {
    let known = buckets.entry(number).or_insert(0);
    *known = known.saturating_add(count);
}

/// The counts of exponential buckets: bucket `i` ends with 2^(i / 2^[`EXPONENTIAL_SCHEMA`]).
#[derive(Debug, Default, PartialEq)]
pub(super) struct Exponential {
    /// The number of values that are 0.
    pub(super) zeros: u64,
    pub(super) buckets: BTreeMap<i32, u64>,
}

impl Exponential {
    pub(super) fn new(counts: &BucketCounts) -> Self {
        let mut made = Self::default();
        for (bounds, count) in counts.occupied() {
            if bounds.middle > 0.0 {
                add(&mut made.buckets, number(bounds.middle), count);
            } else {
                made.zeros = made.zeros.saturating_add(count);
            }
        }
        made
    }

    /// Returns the counts of all buckets from the first to the last with values, at the finest
    /// scale at which there are at most `limit` of them.
    #[cfg(feature = "otlp")]
    pub(super) fn dense(&self, limit: usize) -> DenseBuckets {
        let mut dense = DenseBuckets { scale: EXPONENTIAL_SCHEMA, ..DenseBuckets::default() };
        let first = self.buckets.keys().next();
        let last = self.buckets.keys().next_back();
        let Some((first, last)) = first.zip(last) else { return dense };
        // Bucket i of OTLP begins where that of Prometheus ends.
        let mut offset = first - 1;
        let mut end = last - 1;
        let mut shift = 0;
        while usize::try_from(end - offset).is_ok_and(|distance| distance >= limit) {
            offset >>= 1;
            end >>= 1;
            shift += 1;
        }
        dense.scale -= shift;
        dense.offset = offset;
        dense.counts = vec![0; usize::try_from(end - offset + 1).unwrap_or_default()];
        for (number, count) in &self.buckets {
            let place = usize::try_from(((number - 1) >> shift) - offset).ok();
            if let Some(known) = place.and_then(|place| dense.counts.get_mut(place)) {
                *known = known.saturating_add(*count);
            }
        }
        dense
    }
}

/// Exponential buckets in the form of OTLP: bucket `i` begins after 2^(i / 2^scale).
#[cfg(feature = "otlp")]
#[derive(Debug, Default, PartialEq)]
pub(super) struct DenseBuckets {
    pub(super) scale: i32,
    /// The number of the first bucket.
    pub(super) offset: i32,
    pub(super) counts: Vec<u64>,
}

/// Returns the number of the exponential bucket of a value above 0.
fn number(value: f64) -> i32 {
    let per_power = f64::from(1 << EXPONENTIAL_SCHEMA);
    // At most 1 024 powers of two, so it fits.
    (value.log2() * per_power).ceil() as i32
}

#[cfg(test)]
mod tests;
