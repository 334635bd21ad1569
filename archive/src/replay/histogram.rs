//! Quantiles of the values that a histogram counted between two moments.
//!
//! A histogram is a counter with an instance for each bucket, and a label
//! `histogram` with the units of the values that are counted; its domain has the
//! labels `bucket_precision` and `bucket_max`, which define the buckets
//! (`docs/mmv-format.md` has all of this). A counter of the sum of all values
//! goes with it: `NAME.bucket` and `NAME.sum`.
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
//! There is no quantile if nothing was counted. What `counted` has is that of each part of
//! the time in which the histogram was observed: before and after a mark, a
//! [reset](super::resets), which all parts of a histogram have at the same time, and the end
//! of a program. Where the agent's events say when the next run began, all that it counted
//! from 0 is added ([`runs`](super::runs)). By PCP's rules ([`Gaps::Join`](super::Gaps))
//! there is no quantile over a mark or a reset.
//!
//! Buckets of a domain without those two labels are known by their instances'
//! names, as `path=/,bucket=96..103`. Such a metric has a histogram, and so each
//! quantile an instance, for each instance of the sum, which is named `path=/`.

mod buckets;
mod counted;
mod successive;

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;

use self::buckets::{Bucket, Buckets, Numbered};
use self::counted::Counted;
pub use self::successive::SuccessiveQuantiles;
use super::expression::Values;
use super::resets::Resets;
use super::{Column, Replay, Track};
use crate::scan::SelectedMetric;
use crate::{
    InDom, IndomHistory, Instance, InstanceId, LabelTarget, Metadata, MetricDesc, Pmid, Semantics,
    Timestamp, Units, Value, ValueType,
};

/// The label of the counter of buckets, with the units of the values.
const UNITS: &str = "histogram";
/// How finely the domain's buckets are split.
const PRECISION: &str = "bucket_precision";
/// The highest value that does not share its bucket with all higher ones.
const MAX: &str = "bucket_max";

/// A quantile of a histogram's values, as a derived metric.
#[derive(Debug, Clone)]
pub(super) struct Quantile {
    /// From 0 to 1.
    rank: f64,
    sorted: Arc<Sorted>,
    /// The operand that counts values by bucket.
    counts: usize,
    /// The operand with the sum of the values, if it was logged.
    sum: Option<usize>,
    /// Where the histograms were reset, in what was read.
    resets: Arc<Resets>,
}

/// How many values a bucket has counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BucketCount {
    /// The least value in it.
    pub first: f64,
    /// The greatest value in it; the least one of a bucket without an upper bound.
    pub last: f64,
    /// How many values.
    pub count: f64,
}

/// How the values of a metric are distributed over buckets.
#[derive(Debug)]
struct Sorted {
    buckets: Buckets,
    /// The instance of each histogram, in order; `None` for a single one.
    histograms: Vec<Option<InstanceId>>,
}

/// Which buckets the instances of a metric are, of a histogram that is counted by bucket.
#[derive(Debug, Clone)]
pub struct HistogramLayout {
    name: String,
    sum: Option<Pmid>,
    units: Units,
    sorted: Arc<Sorted>,
}

/// One bucket of a histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HistogramBucket {
    /// The instance of the sum whose histogram it is of; `None` for a single histogram.
    pub histogram: Option<InstanceId>,
    /// The least value in it.
    pub first: f64,
    /// The greatest value in it; `None` of the last bucket, which has no upper bound.
    pub last: Option<f64>,
}

impl HistogramLayout {
    /// The layout of the histogram whose buckets a metric counts; `None` of other metrics.
    /// All instances that the metadata has are known.
    pub fn of(metadata: &Metadata, metric: &SelectedMetric) -> Option<Self> {
        let histogram = Histogram::of(metadata, metric)?;
        let (name, sum) = (histogram.name().to_owned(), histogram.sum.map(|desc| desc.pmid));
        Some(Self { name, sum, units: histogram.units, sorted: histogram.sorted })
    }

    /// The name that the metrics of the histogram share.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The counter of the sum of all values, if there is one.
    pub const fn sum(&self) -> Option<Pmid> {
        self.sum
    }

    /// The units of the values, and so of the bounds of buckets.
    pub const fn units(&self) -> Units {
        self.units
    }

    /// The bucket that an instance is.
    pub fn bucket(&self, instance: InstanceId) -> Option<HistogramBucket> {
        let Bucket { histogram, first, last } = self.sorted.bucket(Some(instance))?;
        let histogram = self.sorted.histograms.get(histogram).copied()?;
        Some(HistogramBucket { histogram, first, last })
    }
}

/// 0.5 is 50, 0.999 is 99.9.
fn percent(quantile: f64) -> f64 {
    (quantile * 1e8).round() / 1e6
}

/// What is known of a histogram, or of those of a metric with labels.
pub(super) struct Histogram {
    pub(super) counts: SelectedMetric,
    pub(super) sum: Option<MetricDesc>,
    units: Units,
    sorted: Arc<Sorted>,
}

impl Histogram {
    /// The histogram whose buckets a metric counts, if it does.
    pub(super) fn of(metadata: &Metadata, metric: &SelectedMetric) -> Option<Self> {
        let MetricDesc { pmid, indom, semantics, .. } = metric.desc;
        let units = text_label(metadata, LabelTarget::Item(pmid), UNITS)?;
        let units = Units::parse(&units).ok()?.units;
        if semantics != Semantics::Counter || !metric.has_numbers() {
            return None;
        }
        let sum = metadata.metric_by_name(&format!("{}.sum", shared_name(metric)));
        let sum = sum.map(|metric| metric.desc);
        let number = |name| label(metadata, LabelTarget::InDom(indom?), name)?.parse::<u64>().ok();
        let (sum, sorted) = match number(PRECISION).zip(number(MAX)) {
            Some((precision, max)) => {
                let numbered = Numbered::new(u32::try_from(precision).ok()?, max)?;
                let buckets = Buckets::Numbered(numbered);
                let sorted = Sorted { buckets, histograms: vec![None] };
                (sum.filter(|desc| desc.indom.is_none()), sorted)
            }
            None => (sum, Sorted::by_name(metadata, indom?, sum.and_then(|desc| desc.indom))?),
        };
        Some(Self { counts: metric.clone(), sum, units, sorted: Arc::new(sorted) })
    }

    /// The name that the metrics of the histogram share.
    fn name(&self) -> &str {
        shared_name(&self.counts)
    }

    pub(super) fn quantile_name(&self, rank: f64) -> String {
        format!("{}.p{}", self.name(), percent(rank))
    }

    pub(super) fn sum_name(&self) -> String {
        format!("{}.sum", self.name())
    }

    /// A quantile of it, given the operands that have its metrics.
    pub(super) fn quantile(&self, rank: f64, counts: usize, sum: Option<usize>) -> Quantile {
        let resets = Arc::default();
        Quantile { rank, sorted: Arc::clone(&self.sorted), counts, sum, resets }
    }

    pub(super) fn desc(&self, pmid: Pmid) -> MetricDesc {
        let indom = self.sum.and_then(|desc| desc.indom);
        let (value_type, semantics) = (ValueType::Double, Semantics::Instant);
        MetricDesc { pmid, value_type, indom, semantics, units: self.units }
    }
}

/// The name of a histogram, by that of the counter of its buckets.
fn shared_name(counts: &SelectedMetric) -> &str {
    counts.name.strip_suffix(".bucket").unwrap_or(&counts.name)
}

impl Sorted {
    /// The buckets of a domain by their names, of histograms that are the instances
    /// of another domain, or of one alone. `None` if they are no buckets.
    fn by_name(metadata: &Metadata, buckets: InDom, histograms: Option<InDom>) -> Option<Self> {
        let named = |indom| {
            let history = metadata.indom_history(indom);
            history.map(IndomHistory::union).unwrap_or_default()
        };
        // By number, as values are.
        let owners: Vec<Instance> = histograms.map(named).unwrap_or_default();
        let (places, histograms): (HashMap<&str, usize>, Vec<_>) = match histograms {
            Some(_) => {
                let all = owners.iter().enumerate();
                all.map(|(place, one)| ((&*one.name, place), Some(one.id))).unzip()
            }
            None => (HashMap::from([("", 0)]), vec![None]),
        };
        let buckets = Buckets::named(&named(buckets), |labels| places.get(labels).copied());
        let any = matches!(&buckets, Buckets::Named(named) if !named.is_empty());
        any.then_some(Self { buckets, histograms })
    }

    fn bucket(&self, instance: Option<InstanceId>) -> Option<Bucket> {
        self.buckets.get(instance?)
    }
}

/// The latest value of a label, as JSON.
fn label(metadata: &Metadata, target: LabelTarget, name: &str) -> Option<String> {
    let sets = metadata.labels_at(target, Timestamp::MAX)?;
    let mut pairs = sets.iter().flat_map(crate::LabelSet::pairs);
    pairs.find(|(found, ..)| *found == name).map(|(_, value, _)| value.to_owned())
}

/// The same for a label whose value is a string, without its quotes.
fn text_label(metadata: &Metadata, target: LabelTarget, name: &str) -> Option<String> {
    let value = label(metadata, target, name)?;
    Some(value.strip_prefix('"')?.strip_suffix('"')?.to_owned())
}

impl Quantile {
    /// The instances of the quantile.
    pub(super) fn instances(&self) -> BTreeSet<Option<InstanceId>> {
        self.sorted.histograms.iter().copied().collect()
    }

    /// Whether another quantile is one of the same histograms.
    pub(super) fn has_same_histograms(&self, other: &Self) -> bool {
        (self.counts, self.sum) == (other.counts, other.sum)
    }

    /// Takes the resets of another quantile of the same histograms.
    pub(super) fn share_resets(&mut self, other: &Self) {
        self.resets = Arc::clone(&other.resets);
    }

    /// Finds the resets in what was read; `places` are those of the operands.
    pub(super) fn find_resets(&mut self, tracks: &[Track], places: &[usize]) {
        let track = |operand: usize| places.get(operand).and_then(|&place| tracks.get(place));
        let counts = track(self.counts).into_iter().flat_map(|track| &track.columns);
        let sums = self.sum.and_then(track).into_iter().flat_map(|track| &track.columns);
        let buckets = counts
            .filter_map(|column| Some((self.sorted.bucket(column.instance())?.histogram, column)));
        let histogram = |column: &Column| {
            self.sorted.histograms.iter().position(|one| *one == column.instance())
        };
        let sums = sums.filter_map(|column| Some((histogram(column)?, column)));
        let all: Vec<(usize, &Column)> = buckets.chain(sums).collect();
        let known = track(self.counts).map_or(&[][..], |track| track.runs.known());
        self.resets = Arc::new(Resets::find(self.sorted.histograms.len(), &all, known));
    }

    /// The quantile of what was counted between two moments.
    pub(super) fn values<'r>(
        &self,
        replay: &Replay<'_>,
        since: Timestamp,
        at: Timestamp,
    ) -> Values<'r> {
        let all = self.counted(replay, since, at);
        let all = self.sorted.histograms.iter().zip(all);
        let value = |(instance, counted): (&Option<InstanceId>, Counted)| {
            let value = quantile(counted.buckets, self.rank)?;
            Some((*instance, Value::Double(value)))
        };
        all.filter_map(value).collect()
    }

    /// What each bucket counted between two moments, in their order.
    pub(super) fn bucket_counts(
        &self,
        replay: &Replay<'_>,
        since: Timestamp,
        at: Timestamp,
    ) -> Vec<(Option<InstanceId>, Vec<BucketCount>)> {
        let all = self.counted(replay, since, at);
        let all = self.sorted.histograms.iter().zip(all);
        let of = |(instance, counted): (&Option<InstanceId>, Counted)| {
            let bucket = |(bucket, count): (Bucket, f64)| BucketCount {
                first: bucket.first,
                last: bucket.last.unwrap_or(bucket.first),
                count,
            };
            let mut buckets: Vec<BucketCount> = counted.buckets.into_iter().map(bucket).collect();
            buckets.retain(|bucket| bucket.count > 0.0);
            buckets.sort_by(|one, other| one.first.total_cmp(&other.first));
            (*instance, buckets)
        };
        all.map(of).collect()
    }
}

/// The quantile of values that are counted by bucket.
fn quantile(mut counted: Vec<(Bucket, f64)>, rank: f64) -> Option<f64> {
    counted.retain(|(_, growth)| *growth > 0.0);
    counted.sort_by(|(one, _), (other, _)| one.first.total_cmp(&other.first));
    let total: f64 = counted.iter().map(|(_, growth)| growth).sum();
    let rank = (rank * total).min(total);
    let mut so_far = 0.0;
    let mut reached = counted.iter().skip_while(|(_, growth)| {
        so_far += growth;
        so_far < rank
    });
    let (bucket, _) = reached.next().or(counted.last())?;
    Some(bucket.middle())
}

#[cfg(test)]
mod tests;
