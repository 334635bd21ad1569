//! The counts of a histogram in a run.

use std::ops::Range;

use super::estimate::{ColumnSums, Estimate};

/// Limit on the parts whose quantiles give the usual one, and the least number of values above it in
/// each on average.
const MAX_PARTS: usize = 15;
const MIN_ABOVE: f64 = 2.0;

#[derive(Debug, Clone)]
pub(crate) struct BucketColumns {
    /// The least value in it.
    pub(crate) first: f64,
    /// The greatest value in it; `None` of the last bucket, which has no upper bound.
    pub(crate) last: Option<f64>,
    pub(crate) counts: Vec<f64>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct HistogramColumns {
    /// The buckets with counts, in the order of their bounds.
    pub(crate) buckets: Vec<BucketColumns>,
    /// The growth of the sum of all values in each column.
    pub(crate) sums: Vec<f64>,
    /// The seconds for which the histogram was observed in each column.
    pub(crate) seconds: Vec<f64>,
    /// The number of records in each column.
    pub(crate) observations: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct QuantileBounds {
    /// The middle of its bucket.
    pub(crate) value: f64,
    /// The least value of its bucket.
    pub(crate) first: f64,
    /// The least value of the bucket at the lower rank.
    pub(crate) low: f64,
    /// The greatest value of the bucket at the upper rank; `None` if it has no upper bound.
    pub(crate) high: Option<f64>,
}

impl BucketColumns {
    fn middle(&self) -> f64 {
        f64::midpoint(self.first, self.last.unwrap_or(self.first))
    }

    /// Returns the fraction of the values of a bucket at or above a limit, assuming an even spread.
    fn part_from(&self, limit: f64) -> f64 {
        if self.first >= limit {
            return 1.0;
        }
        match self.last {
            Some(last) if last > limit => (last - limit) / (last - self.first),
            _ => 0.0,
        }
    }
}

impl HistogramColumns {
    /// Extends the observed time by that of one of the histogram's metrics.
    pub(crate) fn observe(&mut self, parts: &[ColumnSums]) {
        self.sums.resize(parts.len(), 0.0);
        self.seconds.resize(parts.len(), 0.0);
        self.observations.resize(parts.len(), 0);
        for ((seconds, observations), part) in
            self.seconds.iter_mut().zip(&mut self.observations).zip(parts)
        {
            *seconds = seconds.max(part.denominator);
            *observations = part.observations.max(*observations);
        }
    }

    pub(super) fn sort(&mut self) {
        self.buckets.sort_by(|one, other| one.first.total_cmp(&other.first));
    }

    /// Multiplies the values by a factor, to convert their units.
    pub(super) fn scale(&mut self, factor: f64) {
        for bucket in &mut self.buckets {
            bucket.first *= factor;
            bucket.last = bucket.last.map(|last| last * factor);
        }
        self.sums.iter_mut().for_each(|sum| *sum *= factor);
    }

    /// Returns the number of all values in each column.
    fn totals(&self) -> Vec<f64> {
        let mut totals = vec![0.0; self.seconds.len()];
        for bucket in &self.buckets {
            totals.iter_mut().zip(&bucket.counts).for_each(|(total, count)| *total += count);
        }
        totals
    }

    /// Returns the number of all values.
    pub(super) fn count(&self) -> f64 {
        self.totals().iter().sum()
    }

    /// Returns the columns of a ratio.
    fn parts(&self, numerators: &[f64], denominators: &[f64]) -> Vec<ColumnSums> {
        let sums = numerators.iter().zip(denominators).zip(&self.observations);
        sums.map(|((numerator, denominator), observations)| ColumnSums {
            numerator: *numerator,
            denominator: *denominator,
            observations: *observations,
        })
        .collect()
    }

    /// Returns the values per second.
    pub(super) fn rate(&self) -> Option<Estimate> {
        Estimate::new(&self.rate_parts())
    }

    /// Returns the values and seconds of each column.
    pub(crate) fn rate_parts(&self) -> Vec<ColumnSums> {
        self.parts(&self.totals(), &self.seconds)
    }

    /// Returns the mean value; `None` also if no sum was logged.
    pub(super) fn mean(&self) -> Option<Estimate> {
        if self.sums.iter().all(|sum| *sum == 0.0) {
            return None;
        }
        Estimate::new(&self.parts(&self.sums, &self.totals()))
    }

    /// Returns the share of values in the buckets above the one that begins at `limit`, plus half
    /// of those in it.
    pub(super) fn share_above(&self, limit: f64) -> Option<Estimate> {
        Estimate::new(&self.parts_above(limit))
    }

    /// Returns the values above a limit, as [`share_above`](Self::share_above), and all values of
    /// each column.
    pub(crate) fn parts_above(&self, limit: f64) -> Vec<ColumnSums> {
        let mut above = vec![0.0; self.seconds.len()];
        for bucket in self.buckets.iter().filter(|bucket| bucket.first >= limit) {
            let part = if bucket.first > limit { 1.0 } else { 0.5 };
            above.iter_mut().zip(&bucket.counts).for_each(|(above, count)| *above += part * count);
        }
        self.parts(&above, &self.totals())
    }

    /// Returns for each limit the share of values at or above it.
    pub(super) fn shares_from(&self, limits: &[f64]) -> Option<Vec<Estimate>> {
        let totals = self.totals();
        let mut shares = Vec::with_capacity(limits.len());
        for limit in limits {
            let mut from = vec![0.0; totals.len()];
            for bucket in &self.buckets {
                let part = bucket.part_from(*limit);
                if part > 0.0 {
                    let counts = from.iter_mut().zip(&bucket.counts);
                    counts.for_each(|(from, count)| *from += part * count);
                }
            }
            shares.push(Estimate::new(&self.parts(&from, &totals))?);
        }
        Some(shares)
    }

    /// Returns the bucket that contains the value of a rank from 0 to 1.
    pub(crate) fn bucket(&self, rank: f64) -> Option<&BucketColumns> {
        self.bucket_of_columns(rank, 0..self.seconds.len())
    }

    /// Returns the bucket that contains the value of a rank from 0 to 1 of those in some columns.
    pub(crate) fn bucket_of_columns(
        &self,
        rank: f64,
        columns: Range<usize>,
    ) -> Option<&BucketColumns> {
        let count_of = |bucket: &BucketColumns| -> f64 {
            bucket.counts.get(columns.clone()).unwrap_or_default().iter().sum()
        };
        let wanted = rank.clamp(0.0, 1.0) * self.buckets.iter().map(count_of).sum::<f64>();
        let mut before = 0.0;
        let mut last = None;
        for bucket in &self.buckets {
            let count = count_of(bucket);
            before += count;
            if count > 0.0 {
                last = Some(bucket);
                if before >= wanted && before > 0.0 {
                    break;
                }
            }
        }
        last
    }

    /// Returns the buckets that contain the value of a rank in equal parts of some columns, in the
    /// order of their bounds. The parts have a few values above that rank.
    pub(crate) fn buckets_of_parts(&self, rank: f64, columns: Range<usize>) -> Vec<&BucketColumns> {
        let totals = self.totals();
        let count: f64 = totals.get(columns.clone()).unwrap_or_default().iter().sum();
        let parts = (count * (1.0 - rank) / MIN_ABOVE).clamp(1.0, MAX_PARTS as f64) as usize;
        let length = columns.len().div_ceil(parts).max(1);
        let mut buckets = Vec::with_capacity(parts);
        for begin in columns.clone().step_by(length) {
            let end = (begin + length).min(columns.end);
            buckets.extend(self.bucket_of_columns(rank, begin..end));
        }
        buckets.sort_by(|one, other| one.first.total_cmp(&other.first));
        buckets
    }

    /// Returns a quantile of the values in some columns: the middle of its bucket.
    pub(crate) fn quantile_of_columns(&self, rank: f64, columns: Range<usize>) -> Option<f64> {
        self.bucket_of_columns(rank, columns).map(BucketColumns::middle)
    }

    /// Returns a quantile, with bounds at a level of confidence.
    pub(super) fn quantile(&self, rank: f64, level: f64) -> Option<QuantileBounds> {
        let bucket = self.bucket(rank)?;
        let above = self.share_above(bucket.first)?;
        let count = self.count();
        // At least the variance of independent values.
        let variance = above.variance.max(rank * (1.0 - rank) / count);
        let margin = Estimate { variance, ..above }.margin(level);
        let high = if rank + margin < 1.0 { self.bucket(rank + margin)?.last } else { None };
        let low = self.bucket(rank - margin)?.first;
        let value = bucket.middle();
        Some(QuantileBounds { value, first: bucket.first, low, high })
    }
}

/// Returns the least values of the buckets of both sides, ascending, each with its part of all values
/// if both sides have the same weight.
pub(super) fn mixed_buckets(bases: &[HistogramColumns], new: &HistogramColumns) -> Vec<(f64, f64)> {
    let weighted = bases.iter().map(|run| (run, 0.5 / bases.len() as f64)).chain([(new, 0.5)]);
    let mut buckets: Vec<(f64, f64)> = Vec::new();
    for (run, weight) in weighted {
        let count = run.count();
        for bucket in run.buckets.iter().filter(|_| count > 0.0) {
            buckets.push((bucket.first, bucket.counts.iter().sum::<f64>() * weight / count));
        }
    }
    buckets.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    buckets
}

/// Returns the least value of the bucket with a rank in [`mixed_buckets`].
pub(super) fn first_at_rank(buckets: &[(f64, f64)], rank: f64) -> Option<f64> {
    let mut before = 0.0;
    for (first, part) in buckets {
        before += part;
        if before >= rank {
            return Some(*first);
        }
    }
    buckets.last().map(|(first, _)| *first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a histogram with buckets 10 wide and 16 columns, each with the given counts.
    fn histogram(counts: &[f64]) -> HistogramColumns {
        let bucket = |(place, count): (usize, &f64)| BucketColumns {
            first: 10.0 * place as f64,
            last: Some(10.0 * place as f64 + 9.0),
            counts: vec![*count; 16],
        };
        HistogramColumns {
            buckets: counts.iter().enumerate().map(bucket).collect(),
            sums: vec![50.0; 16],
            seconds: vec![2.0; 16],
            observations: vec![2; 16],
        }
    }

    #[test]
    fn numbers_of_a_histogram_are_quotients() {
        let histogram = histogram(&[5.0, 3.0, 0.0, 2.0]);
        let value = |estimate: Option<Estimate>| estimate.map(|estimate| estimate.value);
        assert_eq!(value(histogram.rate()), Some(5.0));
        assert_eq!(value(histogram.mean()), Some(5.0));
        assert_eq!(value(histogram.share_above(0.0)), Some(0.75));
    }

    #[test]
    fn bounds_of_a_quantile_are_those_of_buckets() {
        let many = histogram(&[500.0, 300.0, 0.0, 200.0]);
        let median = many.quantile(0.6, 0.95).unwrap();
        assert_eq!((median.value, median.low, median.high), (14.5, 10.0, Some(19.0)));
        // Rank 0.8 of 160 values is at the border of two buckets.
        let few = histogram(&[5.0, 3.0, 0.0, 2.0]);
        let edge = few.quantile(0.8, 0.95).unwrap();
        assert_eq!((edge.value, edge.low, edge.high), (14.5, 10.0, Some(39.0)));
        let top = few.quantile(0.999, 0.95).unwrap();
        assert_eq!((top.value, top.high), (34.5, None), "there may be greater ones");
    }
}
