//! Numbers of histograms between successive records, for readers that have one record at a time.

use std::sync::Arc;

use hashbrown::HashMap;

use super::counted::{CountedBuckets, is_zero};
use super::{BucketGrowth, Histogram, HistogramValue};
use crate::analysis::growth::{Decrease, growth};
use crate::scan::SelectedMetric;
use crate::scan::histogram::HistogramLayout;
use crate::{InDom, InstanceId, Metadata, OwnedValue, Pmid, Timestamp, Value};

/// The numbers of a histogram from each of its records to the next.
///
/// The rules are those of
/// [`ReplaySelection::quantiles`](crate::replay::ReplaySelection::quantiles): a bucket that appears
/// counts from 0 if the histogram had values before, and nothing continues over a record in which a
/// bucket or the sum is less than before. Marks and the events of the agent are the caller's to
/// [report](Self::interrupt). The first record after one has no rate, as it is not known since when its
/// values were counted.
#[derive(Debug)]
pub struct SuccessiveHistogram {
    counts: SelectedMetric,
    layout: Arc<HistogramLayout>,
    states: usize,
    /// The numbers, and the metric of each.
    values: Vec<(HistogramValue, SelectedMetric)>,
    last: HashMap<CounterKey, OwnedValue>,
    /// The time of these, unless the line ended.
    since: Option<Timestamp>,
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

impl SuccessiveHistogram {
    /// Returns numbers of the histogram whose buckets a metric counts; `None` if it counts none.
    pub fn new(
        metadata: &Metadata,
        metric: &SelectedMetric,
        values: &[HistogramValue],
    ) -> Option<Self> {
        let histogram = Histogram::find(metadata, metric)?;
        let values = values.iter().map(|&value| {
            let name = histogram.value_name(value);
            let desc = histogram.desc(metric.desc.pmid, value);
            (value, SelectedMetric { name, desc })
        });
        let values = values.collect();
        let Histogram { counts, layout, .. } = histogram;
        let mut new = Self {
            counts,
            layout,
            states: 0,
            values,
            last: HashMap::new(),
            since: None,
            from_zero: false,
            now: Vec::new(),
        };
        new.states = states_of(metadata, new.indoms());
        Some(new)
    }

    /// Returns the numbers as metrics. They have the PMID of the counter of buckets.
    pub fn metrics(&self) -> impl Iterator<Item = &SelectedMetric> {
        self.values.iter().map(|(_, metric)| metric)
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
        let own = self.values.first().and_then(|(_, metric)| metric.desc.indom);
        [self.counts.desc.indom, own]
    }

    /// Ends the line at a mark, or where the program ended or began: no later value continues it.
    /// With `from_zero` the next counts begin at 0.
    pub fn interrupt(&mut self, from_zero: bool) {
        self.last.clear();
        self.since = None;
        self.from_zero = from_zero;
    }

    /// Adds a value of the next record, of one of the [parts](Self::parts).
    pub fn add(&mut self, pmid: Pmid, instance: Option<InstanceId>, value: Value<'_>) {
        let is_sum = Some(pmid) == self.layout.sum();
        self.now.push((CounterKey { is_sum, instance }, value.to_owned()));
    }

    /// Ends the record of a time and returns, for each of the [metrics](Self::metrics), the number of
    /// what was counted since the record before, of each instance that has something in the
    /// record: `None` where nothing was counted.
    pub fn end_record(&mut self, at: Timestamp) -> Vec<Vec<(Option<InstanceId>, Option<f64>)>> {
        let now = std::mem::take(&mut self.now);
        let seconds = self.since.map_or(0.0, |since| at.seconds_since(since));
        if !now.is_empty() {
            self.since = Some(at);
        }
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
        let mut records = Vec::new();
        for (instance, record) in self.layout.histograms().iter().zip(all) {
            if record.is_there {
                let counted = record.counted.map(|buckets| CountedBuckets { buckets, seconds });
                records.push((*instance, counted));
            }
        }
        let mut values = Vec::new();
        for (value, _) in &self.values {
            let own = records.iter().map(|(instance, counted)| {
                (*instance, counted.as_ref().and_then(|counted| value.of_counts(counted)))
            });
            values.push(own.collect());
        }
        values
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
    fn latency() -> SuccessiveHistogram {
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
        SuccessiveHistogram {
            counts: metric("latency.bucket", 1),
            layout: Arc::new(layout),
            states: 0,
            values: vec![
                (HistogramValue::Maximum, metric("latency.max", 1)),
                (HistogramValue::Rate, metric("latency", 1)),
            ],
            last: HashMap::new(),
            since: None,
            from_zero: false,
            now: Vec::new(),
        }
    }

    fn next(all: &mut SuccessiveHistogram, buckets: &[(i32, u64)], sum: u64) -> Option<f64> {
        next_two(all, 0, buckets, sum)[0]
    }

    /// Returns the greatest value and the rate of the next record, at a second.
    fn next_two(
        all: &mut SuccessiveHistogram,
        second: i64,
        buckets: &[(i32, u64)],
        sum: u64,
    ) -> [Option<f64>; 2] {
        let [counts, total] = [1, 2].map(|item| Pmid::new(70, 1, item).unwrap());
        for (bucket, count) in buckets {
            all.add(counts, InstanceId::new(*bucket).ok(), Value::U64(*count));
        }
        all.add(total, None, Value::U64(sum));
        let values = all.end_record(Timestamp::new(second, 0).unwrap());
        let values: Vec<Option<f64>> = values.iter().map(|of| of[0].1).collect();
        values.try_into().unwrap()
    }

    #[test]
    fn a_rate_is_per_second_since_the_record_before() {
        let mut all = latency();
        assert_eq!(next_two(&mut all, 10, &[(4, 10)], 40), [None, None]);
        assert_eq!(next_two(&mut all, 20, &[(4, 30), (5, 5)], 150), [Some(6.5), Some(2.5)]);
        all.end_record(Timestamp::new(25, 0).unwrap());
        assert_eq!(next_two(&mut all, 30, &[(4, 30), (5, 5)], 150), [None, Some(0.0)]);
        assert_eq!(next_two(&mut all, 32, &[(4, 1)], 4), [None, None], "a reset");
        assert_eq!(next_two(&mut all, 34, &[(4, 3)], 12), [Some(4.5), Some(1.0)]);
        all.interrupt(true);
        assert_eq!(next_two(&mut all, 40, &[(5, 9)], 60), [Some(6.5), None], "since when?");
    }

    #[test]
    fn quantiles_are_of_what_was_counted_since_the_record_before() {
        let mut all = latency();
        let nothing = all.end_record(Timestamp::EPOCH);
        assert!(nothing.iter().all(Vec::is_empty), "nothing of it in the record");
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
