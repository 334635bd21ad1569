//! Quantiles of the values that a histogram counted between two moments.
//!
//! A histogram is a counter with an instance for each bucket, and a label
//! `histogram` with the units of the values that are counted; its domain has the
//! labels `bucket_precision` and `bucket_max`, which define the buckets
//! (`docs/mmv-format.md` has all of this). A counter of the sum of all values
//! goes with it: `NAME.bucket` and `NAME.sum`.
//!
//! Let a histogram with precision 1 have counted this:
//!
//! | bucket | values | at 10 s | at 20 s | grew by | so far |
//! |---|---|---|---|---|---|
//! | 4 | 4..5 | 100 | 130 | 30 | 30 |
//! | 5 | 6..7 | 50 | 110 | 60 | 90 |
//! | 6 | 8..11 | - | 10 | 10 | 100 |
//!
//! Of these 100 values the 50th in order lies in bucket 5, so the quantile 0.5
//! is 6.5, the middle of that; the quantile 0.99 is 9.5. Bucket 6 had no value at
//! 10 s as nothing had fallen into it, and counts from 0: the sum had a value at
//! 10 s, so the histogram was there.
//!
//! There is no quantile where nothing was counted, over a mark, and where the
//! histogram was set back.
//!
//! Buckets of a domain without those two labels are known by their instances'
//! names, as `path=/,bucket=96..103`. Such a metric has a histogram, and so each
//! quantile an instance, for each instance of the sum, which is named `path=/`.

mod buckets;

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;

use self::buckets::{Bucket, Buckets, Numbered};
use super::expression::Values;
use super::two_moments::{TwoMoments, value_of};
use crate::scan::SelectedMetric;
use crate::{
    InDom, IndomHistory, Instance, InstanceId, LabelTarget, MetricDesc, Pmid, Semantics, Source,
    Timestamp, Units, Value, ValueType,
};

/// The label of the counter of buckets, with the units of the values.
const UNITS: &str = "histogram";
/// How finely the domain's buckets are split.
const PRECISION: &str = "bucket_precision";
/// The highest value that is not counted with all higher ones.
const MAX: &str = "bucket_max";

/// A quantile of a histogram's values, as a derived metric.
#[derive(Debug, Clone)]
pub(super) struct Quantile {
    /// From 0 to 1.
    rank: f64,
    sorted: Arc<Sorted>,
    /// The operand that counts values by bucket.
    counts: usize,
    /// The operand that adds the values up, if it was logged.
    sum: Option<usize>,
}

/// How the values of a metric are sorted.
#[derive(Debug)]
struct Sorted {
    buckets: Buckets,
    /// The instance of each histogram, in order; `None` for one that is alone.
    histograms: Vec<Option<InstanceId>>,
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
    pub(super) fn of(source: Source<'_>, metric: &SelectedMetric) -> Option<Self> {
        let MetricDesc { pmid, indom, semantics, .. } = metric.desc;
        let units = text_label(source, LabelTarget::Item(pmid), UNITS)?;
        let units = Units::parse(&units).ok()?.units;
        if semantics != Semantics::Counter || !metric.has_numbers() {
            return None;
        }
        let sum = source.metadata().metric_by_name(&format!("{}.sum", shared_name(metric)));
        let sum = sum.map(|metric| metric.desc);
        let number = |name| label(source, LabelTarget::InDom(indom?), name)?.parse::<u64>().ok();
        let (sum, sorted) = match number(PRECISION).zip(number(MAX)) {
            Some((precision, max)) => {
                let numbered = Numbered::new(u32::try_from(precision).ok()?, max)?;
                let buckets = Buckets::Numbered(numbered);
                let sorted = Sorted { buckets, histograms: vec![None] };
                (sum.filter(|desc| desc.indom.is_none()), sorted)
            }
            None => (sum, Sorted::by_name(source, indom?, sum.and_then(|desc| desc.indom))?),
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
        Quantile { rank, sorted: Arc::clone(&self.sorted), counts, sum }
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
    fn by_name(source: Source<'_>, buckets: InDom, histograms: Option<InDom>) -> Option<Self> {
        let named = |indom| {
            let history = source.metadata().indom_history(indom);
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

/// The newest value of a label, as JSON.
fn label(source: Source<'_>, target: LabelTarget, name: &str) -> Option<String> {
    let sets = source.metadata().labels_at(target, Timestamp::MAX)?;
    let mut pairs = sets.iter().flat_map(crate::LabelSet::pairs);
    pairs.find(|(found, ..)| *found == name).map(|(_, value, _)| value.to_owned())
}

/// The same of a label that is text, without its quotes.
fn text_label(source: Source<'_>, target: LabelTarget, name: &str) -> Option<String> {
    let value = label(source, target, name)?;
    Some(value.strip_prefix('"')?.strip_suffix('"')?.to_owned())
}

/// What is known of one histogram between two moments.
#[derive(Debug, Clone, Default)]
struct Grown {
    was_there: bool,
    /// It, or a part of it, was reset.
    is_anew: bool,
    /// By how much each bucket grew.
    counted: Vec<(Bucket, f64)>,
}

impl Quantile {
    /// The instances of the quantile.
    pub(super) fn instances(&self) -> BTreeSet<Option<InstanceId>> {
        self.sorted.histograms.iter().copied().collect()
    }

    /// The quantile of what was counted between two moments; `places` are those
    /// of the operands.
    pub(super) fn values<'r>(&self, places: &[usize], pair: &TwoMoments<'r>) -> Values<'r> {
        let all = self.grown(places, pair).unwrap_or_default();
        let all = self.sorted.histograms.iter().zip(all);
        let value = |(instance, grown): (&Option<InstanceId>, Grown)| {
            let is_known = grown.was_there && !grown.is_anew;
            let value = quantile(grown.counted, self.rank).filter(|_| is_known)?;
            Some((*instance, Value::Double(value)))
        };
        all.filter_map(value).collect()
    }

    fn grown(&self, places: &[usize], pair: &TwoMoments<'_>) -> Option<Vec<Grown>> {
        let place = *places.get(self.counts)?;
        let seconds = pair.at.seconds_since(pair.since);
        let before = pair.before.as_ref()?;
        let (was, is) = (before.get(place)?, pair.now.get(place)?);
        let rates = pair.rates.get(place)?;
        let mut all = vec![Grown::default(); self.sorted.histograms.len()];
        for (instance, _) in was {
            let Some(bucket) = self.sorted.bucket(*instance) else { continue };
            let Some(grown) = all.get_mut(bucket.histogram) else { continue };
            grown.was_there = true;
            // A bucket that had a value and has none was reset.
            grown.is_anew |= value_of(is, *instance).is_none();
        }
        for (instance, value) in is {
            let Some(bucket) = self.sorted.bucket(*instance) else { continue };
            let Some(grown) = all.get_mut(bucket.histogram) else { continue };
            let growth = match value_of(was, *instance) {
                Some(_) => value_of(rates, *instance)
                    .and_then(|rate| rate.as_f64())
                    .map(|rate| rate * seconds),
                None => value.as_f64(),
            };
            grown.is_anew |= growth.is_none();
            grown.counted.push((bucket, growth.unwrap_or_default()));
        }
        let sum = self.sum.and_then(|sum| places.get(sum).copied());
        for (grown, histogram) in all.iter_mut().zip(&self.sorted.histograms) {
            let has = |list: &[Values<'_>]| {
                let sums = sum.and_then(|sum| list.get(sum));
                sums.is_some_and(|sums| value_of(sums, *histogram).is_some())
            };
            grown.was_there |= has(before);
            // And so was a sum without a rate.
            grown.is_anew |= has(before) && !has(&pair.rates);
        }
        Some(all)
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
    Some(bucket.middle)
}

#[cfg(test)]
mod tests;
