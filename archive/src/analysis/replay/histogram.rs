//! Quantiles of the values that a histogram counted between two moments.
//!
//! [`histogram`](crate::scan::histogram) has the metrics that a histogram consists of.
//!
//! An example with precision 1:
//!
//! | bucket | values | at 10 s | at 20 s | growth | cumulative |
//! |---|---|---|---|---|---|
//! | 4 | 4..5 | 100 | 130 | 30 | 30 |
//! | 5 | 6..7 | 50 | 110 | 60 | 90 |
//! | 6 | 8..11 | - | 10 | 10 | 100 |
//!
//! Of these 100 values the 50th in order is in bucket 5, so the quantile 0.5 is 6.5,
//! the middle of that bucket; the quantile 0.99 is 9.5. Bucket 6 had no value at 10 s
//! because it was empty, and counts from 0: the sum had a value at 10 s, so the
//! histogram existed.
//!
//! There is no quantile if nothing was counted. What `counted` has is the sum of what the buckets
//! grew on their [lines](super::lines): before and after a mark, a [reset](super::resets), which
//! all parts of a histogram have at the same time, and the end of a program. Where the agent's
//! events say when the next run began, all that it counted from 0 is added. By PCP's rules
//! ([`Gaps::Join`](crate::replay::Gaps)) there is no quantile over a mark or a reset.

mod counted;
mod successive;

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashSet;

use self::counted::{CountedBuckets, HistogramLines};
pub use self::successive::SuccessiveHistogram;
use super::expression::{ExpressionValues, Problem};
use super::{Decrease, MetricTrack, Replay};
use crate::scan::SelectedMetric;
use crate::scan::histogram::{Bucket, HistogramLayout};
use crate::{
    InstanceId, Metadata, MetricDesc, Pmid, Semantics, Timestamp, Units, Value, ValueType,
};

/// A number that says what a histogram counted between two moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HistogramValue {
    /// The number of values per second.
    Rate,
    /// A quantile of the values, from 0 to 1.
    Quantile(f64),
    /// The quantile 1, under the name of the greatest value.
    Maximum,
    /// The fraction of the values that are at most this, in the units of the histogram.
    Below(f64),
}

impl HistogramValue {
    /// Computes the number from what was counted; `None` if nothing was.
    fn of_counts(self, counted: &CountedBuckets) -> Option<f64> {
        match self {
            Self::Rate => rate(counted),
            Self::Quantile(rank) => quantile(&counted.buckets, rank),
            Self::Maximum => quantile(&counted.buckets, 1.0),
            Self::Below(limit) => part_below(&counted.buckets, limit),
        }
    }
}

/// A number of a histogram, as a derived metric.
#[derive(Debug, Clone)]
pub(super) struct Quantile {
    value: HistogramValue,
    layout: Arc<HistogramLayout>,
    /// The instances of the histograms that it is shown of; `None` for all.
    chosen: Option<Arc<HashSet<InstanceId>>>,
    /// The operand that counts values by bucket.
    counts: usize,
    sum: Option<usize>,
    lines: Arc<[HistogramLines]>,
}

/// Growth of the count of a bucket between two moments.
#[derive(Debug, Clone, Copy, PartialEq)]
struct BucketGrowth {
    bucket: Bucket,
    count: f64,
}

/// The count of one bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BucketCount {
    /// The least value in it.
    pub first: f64,
    /// The greatest value in it; the least one of a bucket without an upper bound.
    pub last: f64,
    /// Number of values in the bucket.
    pub count: f64,
}

impl BucketCount {
    /// Returns a quantile, from 0 to 1, of counts in the order of their buckets; `None` if nothing
    /// was counted.
    pub fn quantile(counts: &[Self], rank: f64) -> Option<f64> {
        let total: f64 = counts.iter().map(|bucket| bucket.count).sum();
        let rank = (rank * total).min(total);
        let mut so_far = 0.0;
        let bucket = counts.iter().find(|bucket| {
            so_far += bucket.count;
            so_far >= rank
        })?;
        Some(f64::midpoint(bucket.first, bucket.last))
    }
}

/// The growth of a histogram's buckets between two moments.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramCounts {
    /// The instance of the histogram; `None` if it has none.
    pub instance: Option<InstanceId>,
    /// The buckets in which something was counted, in their order.
    pub buckets: Vec<BucketCount>,
    /// The seconds in which that was observed; 0 if there are none, or a counter fell.
    pub seconds: f64,
}

/// Converts a quantile to a percentage: 0.5 to 50, 0.999 to 99.9.
fn percent(quantile: f64) -> f64 {
    (quantile * 1e8).round() / 1e6
}

/// A histogram, or those of a metric with labels.
pub(super) struct Histogram {
    pub(super) counts: SelectedMetric,
    layout: Arc<HistogramLayout>,
    /// The instances of those whose quantiles are wanted; `None` for all.
    chosen: Option<HashSet<InstanceId>>,
}

impl Histogram {
    /// Returns the histogram whose buckets a metric counts, if it does.
    pub(super) fn find(metadata: &Metadata, metric: &SelectedMetric) -> Option<Self> {
        let layout = HistogramLayout::find(metadata, &metric.name, &metric.desc)?;
        Some(Self { counts: metric.clone(), layout: Arc::new(layout), chosen: None })
    }

    pub(super) fn limit_to(&mut self, buckets: &HashSet<InstanceId>) {
        if self.layout.indom().is_none() && !buckets.is_empty() {
            return;
        }
        let owners = buckets.iter().filter_map(|bucket| self.layout.bucket(*bucket)?.histogram);
        self.chosen = Some(owners.collect());
    }

    /// Returns the instances of the sum that are wanted; `None` for all.
    pub(super) const fn chosen(&self) -> Option<&HashSet<InstanceId>> {
        self.chosen.as_ref()
    }

    pub(super) fn sum(&self) -> Option<Pmid> {
        self.layout.sum()
    }

    /// Returns the name of the derived metric: the rate has that of the histogram.
    pub(super) fn value_name(&self, value: HistogramValue) -> String {
        let name = self.layout.name();
        match value {
            HistogramValue::Rate => name.to_owned(),
            HistogramValue::Quantile(rank) => format!("{name}.p{}", percent(rank)),
            HistogramValue::Maximum => format!("{name}.max"),
            HistogramValue::Below(limit) => format!("{name}.below{limit}"),
        }
    }

    /// Converts a value to the histogram's units; a number without units is already in them.
    pub(super) fn in_own_units(&self, value: f64, units: Units) -> Result<f64, Problem> {
        let own = self.layout.units();
        if units.is_plain_number() {
            return Ok(value);
        }
        let conversion = units
            .conversion_to(own)
            .ok_or_else(|| Problem::Rescale { from: units.to_string(), to: own.to_string() })?;
        Ok(conversion.apply(value))
    }

    pub(super) fn sum_name(&self) -> String {
        format!("{}.sum", self.layout.name())
    }

    /// Returns a number of it, given the operands that have its metrics.
    pub(super) fn quantile(
        &self,
        value: HistogramValue,
        counts: usize,
        sum: Option<usize>,
    ) -> Quantile {
        let layout = Arc::clone(&self.layout);
        let chosen = self.chosen.clone().map(Arc::new);
        Quantile { value, layout, chosen, counts, sum, lines: Arc::default() }
    }

    pub(super) fn desc(&self, pmid: Pmid, value: HistogramValue) -> MetricDesc {
        let value_type = ValueType::Double;
        let semantics = Semantics::Instant;
        let indom = self.layout.indom();
        let units = match value {
            HistogramValue::Rate => Units::count().per_second(),
            HistogramValue::Quantile(_) | HistogramValue::Maximum => self.layout.units(),
            HistogramValue::Below(_) => Units::NONE,
        };
        MetricDesc { pmid, value_type, indom, semantics, units }
    }
}

impl Quantile {
    pub(super) fn histogram_name(&self) -> &str {
        self.layout.name()
    }

    /// Returns whether it is a quantile or the greatest value, in the units of the values.
    pub(super) const fn is_quantile(&self) -> bool {
        matches!(self.value, HistogramValue::Quantile(_) | HistogramValue::Maximum)
    }

    pub(super) const fn counts(&self) -> usize {
        self.counts
    }

    pub(super) fn instances(&self) -> BTreeSet<Option<InstanceId>> {
        let all = self.layout.histograms().iter().copied();
        all.filter(|instance| self.is_chosen(*instance)).collect()
    }

    fn is_chosen(&self, instance: Option<InstanceId>) -> bool {
        self.chosen
            .as_ref()
            .is_none_or(|chosen| instance.is_some_and(|instance| chosen.contains(&instance)))
    }

    pub(super) fn has_same_histograms(&self, other: &Self) -> bool {
        (self.counts, self.sum) == (other.counts, other.sum)
    }

    pub(super) fn share_lines(&mut self, other: &Self) {
        self.lines = Arc::clone(&other.lines);
    }

    /// Finds the lines in what was read; `places` are those of the operands.
    pub(super) fn find_lines(
        &mut self,
        tracks: &[MetricTrack],
        places: &[usize],
        decrease: Decrease,
    ) {
        let place = |operand: usize| places.get(operand).copied();
        let operands = [place(self.counts), self.sum.and_then(place)];
        self.lines = HistogramLines::find(&self.layout, tracks, operands, decrease).into();
    }

    /// Computes the number for each histogram from what it counted between two moments.
    pub(super) fn values<'r>(
        &self,
        replay: &Replay<'_>,
        since: Timestamp,
        at: Timestamp,
    ) -> ExpressionValues<'r> {
        let mut values = ExpressionValues::new();
        for (instance, counted) in self.counted_by_instance(replay, since, at) {
            let value = self.value.of_counts(&counted);
            values.extend(value.map(|value| (instance, Value::Double(value))));
        }
        values
    }

    pub(super) fn bucket_counts(
        &self,
        replay: &Replay<'_>,
        since: Timestamp,
        at: Timestamp,
    ) -> Vec<HistogramCounts> {
        let mut all = Vec::new();
        for (instance, counted) in self.counted_by_instance(replay, since, at) {
            let buckets = sorted(&counted.buckets);
            all.push(HistogramCounts { instance, buckets, seconds: counted.seconds });
        }
        all
    }

    fn counted_by_instance(
        &self,
        replay: &Replay<'_>,
        since: Timestamp,
        at: Timestamp,
    ) -> impl Iterator<Item = (Option<InstanceId>, CountedBuckets)> {
        let moments = [since, at].map(|moment| replay.moment(moment));
        let all = self.layout.histograms().iter().copied().zip(self.lines.iter());
        let all = all.filter(move |(instance, _)| since < at && self.is_chosen(*instance));
        all.map(move |(instance, lines)| (instance, lines.counted(replay, &moments)))
    }
}

fn rate(counted: &CountedBuckets) -> Option<f64> {
    let count: f64 = counted.buckets.iter().map(|growth| growth.count).sum();
    (counted.seconds > 0.0).then(|| count / counted.seconds)
}

/// Returns the fraction of the counted values that are at most a limit, interpolated linearly
/// within the bucket that contains it. `None` if nothing was counted.
fn part_below(counted: &[BucketGrowth], limit: f64) -> Option<f64> {
    let mut below = 0.0;
    let mut all = 0.0;
    for BucketGrowth { bucket, count } in counted {
        let part = match bucket.last {
            Some(last) if last <= limit => 1.0,
            Some(last) if bucket.first <= limit => (limit - bucket.first) / (last - bucket.first),
            _ => 0.0,
        };
        below += part * count;
        all += count;
    }
    (all > 0.0).then(|| below / all)
}

fn quantile(counted: &[BucketGrowth], rank: f64) -> Option<f64> {
    BucketCount::quantile(&sorted(counted), rank)
}

/// Returns the buckets in which something was counted, in their order.
fn sorted(counted: &[BucketGrowth]) -> Vec<BucketCount> {
    let mut buckets: Vec<BucketCount> = counted
        .iter()
        .filter(|growth| growth.count > 0.0)
        .map(|BucketGrowth { bucket, count }| BucketCount {
            first: bucket.first,
            last: bucket.last.unwrap_or(bucket.first),
            count: *count,
        })
        .collect();
    buckets.sort_by(|one, other| one.first.total_cmp(&other.first));
    buckets
}

#[cfg(test)]
mod tests;
