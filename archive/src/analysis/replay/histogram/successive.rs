//! Quantiles of the values that a histogram counted from one record to the next, for readers
//! that have one record at a time.

use std::sync::Arc;

use hashbrown::HashMap;

use super::counted::is_zero;
use super::{BucketGrowth, Histogram, HistogramValue, quantile};
use crate::analysis::growth::{Decrease, growth};
use crate::scan::SelectedMetric;
use crate::scan::histogram::HistogramLayout;
use crate::{InDom, InstanceId, Metadata, OwnedValue, Pmid, Value};

/// The quantiles of a histogram from each of its records to the next.
///
/// The rules are those of
/// [`ReplaySelection::quantiles`](crate::replay::ReplaySelection::quantiles): a bucket that appears
/// counts from 0 if the histogram had values before, and nothing continues over a record in which a
/// bucket or the sum is less than before. Marks and the events of the agent are the caller's to
/// [report](Self::interrupt).
#[derive(Debug)]
pub struct SuccessiveQuantiles {
    counts: SelectedMetric,
    layout: Arc<HistogramLayout>,
    states: usize,
    /// From 0 to 1, and the metric of each.
    ranks: Vec<(f64, SelectedMetric)>,
    last: HashMap<CounterKey, OwnedValue>,
    /// Counters without a last value began at 0.
    from_zero: bool,
    now: Vec<(CounterKey, OwnedValue)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct CounterKey {
    is_sum: bool,
    instance: Option<InstanceId>,
}

#[derive(Debug, Clone)]
struct InRecord {
    is_there: bool,
    /// The values since the record before, by bucket; `None` after a reset.
    counted: Option<Vec<BucketGrowth>>,
}

impl SuccessiveQuantiles {
    /// Returns the quantiles, from 0 to 1, of the histogram whose buckets a metric counts; `None`
    /// if it counts none.
    pub fn new(metadata: &Metadata, metric: &SelectedMetric, ranks: &[f64]) -> Option<Self> {
        let histogram = Histogram::find(metadata, metric)?;
        let ranks = ranks.iter().map(|&rank| {
            let value = HistogramValue::Quantile(rank);
            let name = histogram.value_name(value);
            let desc = histogram.desc(metric.desc.pmid, value);
            (rank, SelectedMetric { name, desc })
        });
        let ranks = ranks.collect();
        let Histogram { counts, layout, .. } = histogram;
        let last = HashMap::new();
        let now = Vec::new();
        let states = 0;
        let from_zero = false;
        let mut new = Self { counts, layout, states, ranks, last, from_zero, now };
        new.states = states_of(metadata, new.indoms());
        Some(new)
    }

    /// Returns the quantiles as metrics. They have the PMID of the counter of buckets.
    pub fn metrics(&self) -> impl Iterator<Item = &SelectedMetric> {
        self.ranks.iter().map(|(_, metric)| metric)
    }

    /// Returns the metrics that the histogram consists of: the counter of buckets, and the sum.
    pub fn parts(&self) -> impl Iterator<Item = Pmid> {
        [self.counts.desc.pmid].into_iter().chain(self.layout.sum())
    }

    /// Continues with the instances that are known by now.
    pub fn update(&mut self, metadata: &Metadata) {
        let states = states_of(metadata, self.indoms());
        if states != self.states
            && let Some(histogram) = Histogram::find(metadata, &self.counts)
        {
            self.layout = histogram.layout;
            self.states = states;
        }
    }

    /// Returns the domains of the buckets and of the sum.
    fn indoms(&self) -> [Option<InDom>; 2] {
        let quantile = self.ranks.first().and_then(|(_, metric)| metric.desc.indom);
        [self.counts.desc.indom, quantile]
    }

    /// Ends the line at a mark, or where the program ended or began: no later value continues it.
    /// With `from_zero` the next counts begin at 0.
    pub fn interrupt(&mut self, from_zero: bool) {
        self.last.clear();
        self.from_zero = from_zero;
    }

    /// Adds a value of the next record, of one of the [parts](Self::parts).
    pub fn add(&mut self, pmid: Pmid, instance: Option<InstanceId>, value: Value<'_>) {
        let is_sum = Some(pmid) == self.layout.sum();
        self.now.push((CounterKey { is_sum, instance }, value.to_owned()));
    }

    /// Ends the record and returns, for each of the [metrics](Self::metrics), the quantile of
    /// what was counted since the record before, of each instance that has something in the
    /// record: `None` where nothing was counted.
    pub fn end_record(&mut self) -> Vec<Vec<(Option<InstanceId>, Option<f64>)>> {
        let now = std::mem::take(&mut self.now);
        let histograms = self.layout.histograms().len();
        let nothing = InRecord { is_there: false, counted: Some(Vec::new()) };
        let mut all = vec![nothing; histograms];
        for (place, InRecord { is_there, counted }) in all.iter_mut().enumerate() {
            let own = now.iter().filter(|(key, _)| self.place_of(*key) == Some(place));
            let own: Vec<&(CounterKey, OwnedValue)> = own.collect();
            *is_there = !own.is_empty();
            let was_there = self.from_zero || self.was_there(place);
            for (key, value) in &own {
                let value = value.as_value();
                let first = self.last.get(key).map(OwnedValue::as_value);
                let Some(first) = first.or_else(|| was_there.then(|| value.zero())) else {
                    continue;
                };
                let grown = growth(first, std::iter::empty(), value, Decrease::Reset);
                let bucket = self.layout.bucket_in(key.instance).filter(|_| !key.is_sum);
                match (grown, counted.as_mut()) {
                    (None, _) => *counted = None,
                    (Some(count), Some(all)) => {
                        all.extend(bucket.map(|bucket| BucketGrowth { bucket, count }));
                    }
                    (Some(_), None) => {}
                }
            }
            if counted.is_none() {
                let layout = Arc::clone(&self.layout);
                self.last.retain(|key, _| place_in(&layout, *key) != Some(place));
            }
        }
        self.from_zero &= now.is_empty();
        self.last.extend(now);
        let values = self.ranks.iter().map(|(rank, _)| {
            let all = self.layout.histograms().iter().zip(&all);
            let there = all.filter(|(_, record)| record.is_there);
            let values = there.map(|(instance, record)| {
                let counted = record.counted.as_deref();
                (*instance, counted.and_then(|counted| quantile(counted, *rank)))
            });
            values.collect()
        });
        values.collect()
    }

    /// Returns whether a histogram had values before: a bucket, or a sum of 0.
    fn was_there(&self, place: usize) -> bool {
        let own = self.last.iter().filter(|(key, _)| self.place_of(**key) == Some(place));
        own.into_iter().any(|(key, value)| !key.is_sum || is_zero(value.as_value()))
    }

    fn place_of(&self, key: CounterKey) -> Option<usize> {
        place_in(&self.layout, key)
    }
}

fn states_of(metadata: &Metadata, indoms: [Option<InDom>; 2]) -> usize {
    let histories = indoms.into_iter().flatten().filter_map(|indom| metadata.indom_history(indom));
    histories.map(|history| history.states().len()).sum()
}

fn place_in(layout: &HistogramLayout, key: CounterKey) -> Option<usize> {
    if key.is_sum {
        return layout.histograms().iter().position(|one| *one == key.instance);
    }
    layout.bucket_in(key.instance).map(|bucket| bucket.histogram)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::histogram::Buckets;
    use crate::{MetricDesc, Semantics, Units, ValueType};

    /// Returns a histogram of precision 1 up to 10: bucket 4 has 4..5, 5 has 6..7, 6 has 8..11.
    fn latency() -> SuccessiveQuantiles {
        let desc = |item, value_type| MetricDesc {
            pmid: Pmid::new(70, 1, item).unwrap(),
            value_type,
            indom: None,
            semantics: Semantics::Counter,
            units: Units::count(),
        };
        let metric = |name: &str, item| SelectedMetric {
            name: name.to_owned(),
            desc: desc(item, ValueType::U64),
        };
        let buckets = Buckets::numbered(1, 10).unwrap();
        let sum = Some(desc(2, ValueType::U64));
        let layout =
            HistogramLayout::single("latency".to_owned(), sum, Units::microseconds(), buckets);
        SuccessiveQuantiles {
            counts: metric("latency.bucket", 1),
            layout: Arc::new(layout),
            states: 0,
            ranks: vec![(1.0, metric("latency.p100", 1))],
            last: HashMap::new(),
            from_zero: false,
            now: Vec::new(),
        }
    }

    fn next(all: &mut SuccessiveQuantiles, buckets: &[(i32, u64)], sum: u64) -> Option<f64> {
        let [counts, total] = [1, 2].map(|item| Pmid::new(70, 1, item).unwrap());
        for (bucket, count) in buckets {
            all.add(counts, InstanceId::new(*bucket).ok(), Value::U64(*count));
        }
        all.add(total, None, Value::U64(sum));
        let values = all.end_record().remove(0);
        assert_eq!(values.len(), 1);
        values[0].1
    }

    #[test]
    fn quantiles_are_of_what_was_counted_since_the_record_before() {
        let mut all = latency();
        assert_eq!(all.end_record(), [[]], "nothing of it in the record");
        assert_eq!(next(&mut all, &[(4, 10)], 40), None, "nothing before");
        assert_eq!(next(&mut all, &[(4, 11), (5, 1)], 50), Some(6.5), "a bucket that was empty");
        assert_eq!(next(&mut all, &[(4, 11), (5, 1)], 50), None, "nothing counted");
        // Bucket 5 does not fall, but the histogram was reset.
        assert_eq!(next(&mut all, &[(4, 1), (5, 2)], 16), None);
        assert_eq!(next(&mut all, &[(4, 2), (5, 2), (6, 1)], 28), Some(9.5));
        all.interrupt(false);
        assert_eq!(next(&mut all, &[(4, 3), (5, 9), (6, 1)], 74), None, "after a mark");
        assert_eq!(next(&mut all, &[(4, 4), (5, 9), (6, 1)], 78), Some(4.5));
        all.interrupt(true);
        assert_eq!(next(&mut all, &[(5, 9), (6, 2)], 70), Some(9.5), "from 0");
    }

    #[test]
    fn a_sum_of_0_says_that_all_buckets_were_empty() {
        let mut all = latency();
        assert_eq!(next(&mut all, &[], 0), None);
        assert_eq!(next(&mut all, &[(6, 3)], 27), Some(9.5));
        let mut all = latency();
        assert_eq!(next(&mut all, &[], 27), None, "buckets may be logged at other times");
        assert_eq!(next(&mut all, &[(6, 3)], 27), None);
    }
}
