//! The series of samples, and the last sample of each.

use std::sync::Arc;

use slab::Slab;

use crate::mapping::{FamilyId, Label};

use super::buckets::BucketCounts;
use super::{Sample, SampleKind};

/// The number of a series of samples. Numbers of ended series are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SampleSeriesId(u32);

impl SampleSeriesId {
    /// Returns the number as an index for tables of the caller.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The part of its family that a series has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FamilyPart {
    /// The value of a counter or gauge.
    Value,
    /// The number of values of a histogram up to a bound, which may be infinite.
    Bucket(f64),
    /// The sum of the values of a histogram.
    Sum,
    /// The number of the values of a histogram.
    Count,
    /// A native histogram whose buckets are those of the archive.
    CustomBuckets,
    /// A native histogram with exponential buckets.
    ExponentialBuckets,
}

/// The properties that all samples of a series share.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleSeries {
    /// The name, with `_total`, `_bucket` and so on.
    pub name: Arc<str>,
    /// The other labels, sorted by name.
    pub labels: Arc<[Label]>,
    /// The family in the mapping.
    pub family: FamilyId,
    /// The part of the family.
    pub part: FamilyPart,
    /// Whether a value holds until the next one.
    pub is_discrete: bool,
    /// The time at which the program began to count from 0, in nanoseconds since 1970 UTC, if
    /// known.
    pub start: Option<i64>,
}

/// Returns labels together with that of the metric's name, sorted by name.
#[cfg(any(feature = "push", feature = "serve"))]
pub(crate) fn all_labels<'s>(
    name: &'s str,
    labels: &'s [Label],
) -> impl Iterator<Item = (&'s str, &'s str)> {
    let name = ("__name__", name);
    let at = labels.partition_point(|label| &*label.name < name.0);
    let (before, after) = labels.split_at_checked(at).unwrap_or((labels, &[]));
    let pair = |label: &'s Label| (&*label.name, &*label.value);
    before.iter().map(pair).chain([name]).chain(after.iter().map(pair))
}

#[derive(Debug)]
struct SeriesState {
    series: SampleSeries,
    /// The time of the last sample, of any kind.
    last: i64,
    /// Whether the last sample is a value.
    is_live: bool,
    /// The number of the step with the last value.
    step: u64,
    /// Whether the last value was moved by a millisecond, since an earlier one had its time.
    is_late: bool,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Slab<SeriesState>,
    pub(super) samples: Vec<Sample>,
    /// The counts of the native histograms in `samples`.
    pub(super) buckets: Vec<Arc<BucketCounts>>,
    /// Series that are new in the step.
    pub(super) began: Vec<SampleSeriesId>,
    pub(super) step: u64,
    /// The time of the step, and that of the steps before it.
    now: i64,
    previous: i64,
    /// The time after which all samples of an archive must be.
    floor: i64,
}

impl Table {
    /// Begins a step and removes the samples of the previous one.
    pub(super) fn begin(&mut self, milliseconds: i64) {
        self.samples.clear();
        self.buckets.clear();
        self.began.clear();
        self.step += 1;
        if milliseconds != self.now {
            self.previous = std::mem::replace(&mut self.now, milliseconds);
        }
    }

    pub(super) fn add(&mut self, series: SampleSeries) -> SampleSeriesId {
        let entry =
            SeriesState { series, last: self.floor, is_live: false, step: 0, is_late: false };
        // More than 2^32 of them do not fit into memory.
        let id = SampleSeriesId(u32::try_from(self.entries.insert(entry)).unwrap_or(u32::MAX));
        self.began.push(id);
        id
    }

    pub(super) fn remove(&mut self, id: SampleSeriesId) {
        self.entries.try_remove(id.index());
    }

    pub(super) fn get(&self, id: SampleSeriesId) -> Option<&SampleSeries> {
        Some(&self.entries.get(id.index())?.series)
    }

    fn entry(&mut self, id: SampleSeriesId) -> Option<&mut SeriesState> {
        self.entries.get_mut(id.index())
    }

    /// Releases memory that is only needed within a step.
    pub(super) fn rest(&mut self) {
        self.entries.shrink_to_fit();
        self.samples = Vec::new();
        self.buckets = Vec::new();
        self.began = Vec::new();
    }

    /// Removes all series. Later samples must be after those so far.
    pub(super) fn clear(&mut self) {
        let last = self.entries.iter().map(|(_, entry)| entry.last).max();
        self.floor = self.floor.max(last.unwrap_or(i64::MIN));
        self.entries.clear();
    }

    pub(super) fn set_start(&mut self, id: SampleSeriesId, start: Option<i64>) {
        if let Some(entry) = self.entry(id) {
            entry.series.start = start;
        }
    }

    /// Adds a value. The second of two values within a millisecond is moved to the next one.
    pub(super) fn value(&mut self, id: SampleSeriesId, milliseconds: i64, value: f64) {
        if let Some(milliseconds) = self.accept(id, milliseconds) {
            let kind = SampleKind::Value;
            self.samples.push(Sample { series: id, milliseconds, value, kind, buckets: None });
        }
    }

    /// Adds a value of a native histogram like [`Self::value`], and returns whether it is added.
    pub(super) fn histogram(
        &mut self,
        id: SampleSeriesId,
        milliseconds: i64,
        sum: f64,
        counts: BucketCounts,
    ) -> bool {
        let Some(milliseconds) = self.accept(id, milliseconds) else { return false };
        let kind = SampleKind::Value;
        let buckets = self.keep(counts);
        self.samples.push(Sample { series: id, milliseconds, value: sum, kind, buckets });
        true
    }

    fn keep(&mut self, counts: BucketCounts) -> Option<u32> {
        let place = u32::try_from(self.buckets.len()).ok()?;
        self.buckets.push(Arc::new(counts));
        Some(place)
    }

    /// Notes a value of a series, and returns the time that it gets; `None` if it is not after
    /// the last sample.
    fn accept(&mut self, id: SampleSeriesId, milliseconds: i64) -> Option<i64> {
        let step = self.step;
        let entry = self.entry(id)?;
        let at = if milliseconds == entry.last && !entry.is_late {
            entry.is_late = true;
            milliseconds.saturating_add(1)
        } else {
            entry.is_late &= milliseconds <= entry.last;
            milliseconds
        };
        if at <= entry.last {
            return None;
        }
        entry.last = at;
        entry.is_live = true;
        entry.step = step;
        Some(at)
    }

    /// Adds a value from before the first value of a series.
    pub(super) fn earlier(&mut self, id: SampleSeriesId, milliseconds: i64, value: f64) {
        let kind = SampleKind::Value;
        self.add_before(Sample { series: id, milliseconds, value, kind, buckets: None });
    }

    /// Adds the 0 at which a counter began, before its first value and after the last value of the
    /// previous run and its stale marker.
    pub(super) fn zero(&mut self, id: SampleSeriesId, began: i64, first: i64) {
        let milliseconds = self.zero_time(began, first);
        let kind = SampleKind::Zero;
        self.add_before(Sample { series: id, milliseconds, value: 0.0, kind, buckets: None });
    }

    /// Adds the empty histogram with which a native one began, like [`Self::zero`], and returns
    /// whether it is added.
    pub(super) fn zero_histogram(
        &mut self,
        id: SampleSeriesId,
        began: i64,
        first: i64,
        counts: BucketCounts,
    ) -> bool {
        let milliseconds = self.zero_time(began, first);
        let kind = SampleKind::Zero;
        let buckets = self.keep(counts);
        self.add_before(Sample { series: id, milliseconds, value: 0.0, kind, buckets })
    }

    fn zero_time(&self, began: i64, first: i64) -> i64 {
        began.max(self.previous.saturating_add(2)).min(first.saturating_sub(1))
    }

    fn add_before(&mut self, sample: Sample) -> bool {
        let Some(entry) = self.entry(sample.series) else { return false };
        if sample.milliseconds <= entry.last {
            return false;
        }
        entry.last = sample.milliseconds;
        self.samples.push(sample);
        true
    }

    /// Adds a stale marker right after the last sample of a live series, which continues at a
    /// later time.
    pub(super) fn interrupt(&mut self, id: SampleSeriesId, next: i64) {
        let Some(entry) = self.entry(id) else { return };
        let milliseconds = entry.last.saturating_add(1);
        if !entry.is_live || milliseconds >= next {
            return;
        }
        entry.last = milliseconds;
        entry.is_live = false;
        entry.is_late = false;
        self.push_stale(id, milliseconds);
    }

    /// Ends a series with a stale marker, if it was live and has no value in this step.
    pub(super) fn stale(&mut self, id: SampleSeriesId, milliseconds: i64) {
        let step = self.step;
        let Some(entry) = self.entry(id) else { return };
        if !entry.is_live || entry.step == step {
            return;
        }
        let milliseconds = milliseconds.max(entry.last.saturating_add(1));
        entry.last = milliseconds;
        entry.is_live = false;
        entry.is_late = false;
        self.push_stale(id, milliseconds);
    }

    fn push_stale(&mut self, id: SampleSeriesId, milliseconds: i64) {
        let value = super::stale_value();
        let kind = SampleKind::Stale;
        self.samples.push(Sample { series: id, milliseconds, value, kind, buckets: None });
    }
}
