//! Quantiles of what a histogram counted between two moments.
//!
//! A histogram is a counter with an instance for each bucket, and a label
//! `histogram` with the units of the values that are counted; its domain has the
//! labels `bucket_precision` and `bucket_max`, which say what the buckets are
//! (`docs/mmv-format.md` has all of this). A counter of the sum of all values
//! stands beside it: `NAME.bucket` and `NAME.sum`.
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

use pcp_types::{Pmid, Semantics, Timestamp, Units, ValueType};

use super::derived::{Pair, Rule};
use super::expression::Values;
use super::rate::value_of;
use super::{SelectedMetric, Selection};
use crate::format::labelset::LabelTarget;
use crate::{MetricDesc, Source, Value};

/// The label of the counter of buckets, with the units of the values.
const UNITS: &str = "histogram";
/// How finely the domain's buckets are split.
const PRECISION: &str = "bucket_precision";
/// The highest value that is not counted with all higher ones.
const MAX: &str = "bucket_max";
/// More than any writer splits.
const MOST_PRECISION: u32 = 32;

/// A quantile of a histogram's values, as a derived metric.
#[derive(Debug, Clone)]
pub(super) struct Quantile {
    /// From 0 to 1.
    rank: f64,
    buckets: Buckets,
    /// The operand that counts values by bucket.
    counts: usize,
    /// The operand that adds the values up, if it was logged.
    sum: Option<usize>,
}

impl Selection<'_> {
    /// Replaces each selected histogram, its buckets and its sum, by quantiles
    /// of the values that it counted since the moment before, from 0 for the
    /// least value to 1 for the largest. They are metrics called `NAME.p50`,
    /// `NAME.p99.9`. Returns how many histograms there were.
    ///
    /// A value is known as well as its bucket is narrow: with a precision of 3
    /// within 6.3 %.
    pub fn quantiles(&mut self, quantiles: &[f64]) -> usize {
        let source = self.chosen.source();
        let all = self.chosen.metrics().iter();
        let histograms: Vec<_> = all.filter_map(|one| Histogram::of(source, one)).collect();
        for histogram in &histograms {
            let parts = [Some(histogram.counts.desc.pmid), histogram.sum.map(|desc| desc.pmid)];
            self.chosen.retain(|metric| !parts.contains(&Some(metric.desc.pmid)));
            let counts = self.operand(&histogram.counts.name);
            let sum = histogram.sum.map(|_| self.operand(&histogram.sum_name()));
            for &rank in quantiles {
                let name = format!("{}.p{}", histogram.name(), percent(rank));
                let buckets = histogram.buckets;
                let rule = Rule::Quantile(Quantile { rank, buckets, counts, sum });
                self.add(name, |pmid| histogram.desc(pmid), rule);
            }
        }
        histograms.len()
    }
}

/// 0.5 is 50, 0.999 is 99.9.
fn percent(quantile: f64) -> f64 {
    (quantile * 1e8).round() / 1e6
}

/// What is known of a histogram.
struct Histogram {
    counts: SelectedMetric,
    sum: Option<MetricDesc>,
    units: Units,
    buckets: Buckets,
}

impl Histogram {
    /// The histogram whose buckets a metric counts, if it does.
    fn of(source: Source<'_>, metric: &SelectedMetric) -> Option<Self> {
        let MetricDesc { pmid, indom, semantics, .. } = metric.desc;
        let units = text_label(source, LabelTarget::Item(pmid), UNITS)?;
        let number = |name| label(source, LabelTarget::InDom(indom?), name)?.parse::<u64>().ok();
        let precision = u32::try_from(number(PRECISION)?).ok()?;
        let buckets = Buckets::new(precision, number(MAX)?)?;
        let is_counter = semantics == Semantics::Counter && metric.has_numbers();
        let units = Units::parse(&units).ok()?.units;
        let mut histogram = Self { counts: metric.clone(), sum: None, units, buckets };
        let sum = source.metadata().metric_by_name(&histogram.sum_name());
        histogram.sum = sum.map(|metric| metric.desc).filter(|desc| desc.indom.is_none());
        is_counter.then_some(histogram)
    }

    /// The name that the metrics of the histogram share.
    fn name(&self) -> &str {
        self.counts.name.strip_suffix(".bucket").unwrap_or(&self.counts.name)
    }

    fn sum_name(&self) -> String {
        format!("{}.sum", self.name())
    }

    fn desc(&self, pmid: Pmid) -> MetricDesc {
        let (value_type, semantics) = (ValueType::Double, Semantics::Instant);
        MetricDesc { pmid, value_type, indom: None, semantics, units: self.units }
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

impl Quantile {
    /// The quantile of what was counted between two moments; `places` are those
    /// of the operands.
    pub(super) fn values<'r>(&self, places: &[usize], pair: &Pair<'r>) -> Values<'r> {
        self.value(places, pair).map(|value| (None, Value::Double(value))).into_iter().collect()
    }

    fn value(&self, places: &[usize], pair: &Pair<'_>) -> Option<f64> {
        let place = *places.get(self.counts)?;
        let seconds = pair.at.seconds_since(pair.since);
        let before = pair.before.as_ref()?;
        let sum = self.sum.and_then(|sum| places.get(sum).copied());
        let (was, is) = (before.get(place)?, pair.now.get(place)?);
        let was_there = !was.is_empty()
            || sum.and_then(|sum| before.get(sum)).is_some_and(|sum| !sum.is_empty());
        // A bucket that had a value and has none was begun anew, and so was a sum
        // without a rate.
        let is_whole = was.iter().all(|(bucket, _)| value_of(is, *bucket).is_some());
        let is_growing = sum.is_none_or(|sum| {
            let has_value = |list: &[Values<'_>]| list.get(sum).is_some_and(|one| !one.is_empty());
            !has_value(before) || has_value(&pair.rates)
        });
        if !was_there || !is_whole || !is_growing {
            return None;
        }
        let mut grown = Vec::with_capacity(is.len());
        for (bucket, value) in is {
            let growth = match value_of(was, *bucket) {
                Some(_) => value_of(pair.rates.get(place)?, *bucket)?.as_f64()? * seconds,
                None => value.as_f64()?,
            };
            grown.push((bucket.as_ref()?.get(), growth));
        }
        self.buckets.quantile(&grown, self.rank)
    }
}

/// What the buckets of a domain are.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Buckets {
    precision: u32,
    /// The bucket of all values that are higher than the domain's largest.
    last: u64,
}

impl Buckets {
    /// `None` for a precision that nobody can mean.
    fn new(precision: u32, max: u64) -> Option<Self> {
        if precision > MOST_PRECISION {
            return None;
        }
        let of_max = match max.checked_ilog2().and_then(|log| log.checked_sub(precision)) {
            Some(shift) => (u64::from(shift) << precision) + (max >> shift),
            None => max,
        };
        Some(Self { precision, last: of_max + 1 })
    }

    /// The lowest value of a bucket; `None` for numbers that none has.
    fn start(self, bucket: u64) -> Option<f64> {
        let each = 1u64 << self.precision;
        if bucket < each {
            return Some(bucket as f64);
        }
        let shift = bucket / each - 1;
        // Up to 2^64, where the one behind the last bucket begins.
        let shift = i32::try_from(shift).ok().filter(|shift| *shift <= 64)?;
        Some((each + bucket % each) as f64 * 2f64.powi(shift))
    }

    /// What a value in a bucket is taken for: the middle of the values that fall
    /// into it, of the last bucket, which has no end, the least.
    fn middle(self, bucket: i32) -> Option<f64> {
        let bucket = u64::try_from(bucket).ok().filter(|bucket| *bucket <= self.last)?;
        let first = self.start(bucket)?;
        if bucket == self.last {
            return Some(first);
        }
        let highest = self.start(bucket + 1)? - 1.0;
        Some(f64::midpoint(first, highest.max(first)))
    }

    /// The quantile of values of which each bucket, in order, has so many.
    fn quantile(self, grown: &[(i32, f64)], quantile: f64) -> Option<f64> {
        let total: f64 = grown.iter().map(|(_, growth)| growth).sum();
        let rank = (quantile * total).min(total);
        let mut so_far = 0.0;
        let mut found = None;
        for &(bucket, growth) in grown.iter().filter(|(_, growth)| *growth > 0.0) {
            so_far += growth;
            found = Some(bucket);
            if so_far >= rank {
                break;
            }
        }
        self.middle(found?)
    }
}

#[cfg(test)]
mod tests;
