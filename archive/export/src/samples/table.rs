//! Series as Prometheus has them, and what was last said of each.

use std::sync::Arc;

use crate::mapping::{FamilyId, Label};
use crate::shared_values::fit;

use super::{Sample, SampleKind};

/// A series of samples. Numbers are used again for later series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SampleSeriesId(u32);

impl SampleSeriesId {
    /// The number, for tables beside: the least that is free.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Which part of its family a series is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FamilyPart {
    /// All of a counter or gauge.
    Value,
    /// How many values of a histogram are not greater than a bound, which may be infinite.
    Bucket(f64),
    /// The sum of the values of a histogram.
    Sum,
    /// The number of the values of a histogram.
    Count,
}

/// What is the same for all samples of a series.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleSeries {
    /// The name, with `_total`, `_bucket` and so on.
    pub name: Arc<str>,
    /// The other labels, sorted by name.
    pub labels: Arc<[Label]>,
    /// The family.
    pub family: FamilyId,
    /// Which part of it.
    pub part: FamilyPart,
    /// The value holds until the next one.
    pub is_discrete: bool,
    /// When the program began to count from 0, nanoseconds since 1970 UTC, if the archive
    /// says so.
    pub start: Option<i64>,
}

#[derive(Debug)]
struct SeriesState {
    series: SampleSeries,
    /// The time of the last sample, of any kind.
    last: i64,
    /// The last sample is a value.
    is_live: bool,
    /// The last sample is of the step with this number.
    step: u64,
    /// A value was put after its time, since another one had its millisecond.
    is_late: bool,
}

/// All series, and the samples of a step.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Vec<Option<SeriesState>>,
    free: Vec<SampleSeriesId>,
    pub(super) samples: Vec<Sample>,
    /// Series that are new in the step.
    pub(super) began: Vec<SampleSeriesId>,
    pub(super) step: u64,
    /// The time of the step, and that of the steps before it.
    now: i64,
    previous: i64,
    /// No sample of an archive is at this time or earlier.
    floor: i64,
    /// Values that have the millisecond of an earlier one, or an earlier time.
    pub(super) dropped: u64,
}

impl Table {
    /// Begins a step, whose samples take the place of those of the step before.
    pub(super) fn begin(&mut self, milliseconds: i64) {
        self.samples.clear();
        self.began.clear();
        self.step += 1;
        if milliseconds != self.now {
            self.previous = std::mem::replace(&mut self.now, milliseconds);
        }
    }

    pub(super) fn add(&mut self, series: SampleSeries) -> SampleSeriesId {
        let entry =
            SeriesState { series, last: self.floor, is_live: false, step: 0, is_late: false };
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            SampleSeriesId(u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX))
        });
        if let Some(place) = self.entries.get_mut(id.index()) {
            *place = Some(entry);
        }
        self.began.push(id);
        id
    }

    pub(super) fn remove(&mut self, id: SampleSeriesId) {
        if let Some(place) = self.entries.get_mut(id.index())
            && place.take().is_some()
        {
            self.free.push(id);
        }
    }

    pub(super) fn get(&self, id: SampleSeriesId) -> Option<&SampleSeries> {
        Some(&self.entries.get(id.index())?.as_ref()?.series)
    }

    fn entry(&mut self, id: SampleSeriesId) -> Option<&mut SeriesState> {
        self.entries.get_mut(id.index())?.as_mut()
    }

    /// Gives memory back that is only needed within a step.
    pub(super) fn rest(&mut self) {
        fit(&mut self.entries);
        self.samples = Vec::new();
        self.began = Vec::new();
    }

    /// All series are void; later samples are after those so far.
    pub(super) fn clear(&mut self) {
        let last = self.entries.iter().flatten().map(|entry| entry.last).max();
        self.floor = self.floor.max(last.unwrap_or(i64::MIN));
        self.entries.clear();
        self.free.clear();
    }

    pub(super) fn set_start(&mut self, id: SampleSeriesId, start: Option<i64>) {
        if let Some(entry) = self.entry(id) {
            entry.series.start = start;
        }
    }

    /// A value at a time. Two records within a millisecond are a millisecond apart.
    pub(super) fn value(&mut self, id: SampleSeriesId, milliseconds: i64, value: f64) {
        let step = self.step;
        let Some(entry) = self.entry(id) else { return };
        let at = if milliseconds == entry.last && !entry.is_late {
            entry.is_late = true;
            milliseconds.saturating_add(1)
        } else {
            entry.is_late &= milliseconds <= entry.last;
            milliseconds
        };
        if at <= entry.last {
            self.dropped += 1;
            return;
        }
        (entry.last, entry.is_live, entry.step) = (at, true, step);
        let kind = SampleKind::Value;
        self.samples.push(Sample { series: id, milliseconds: at, value, kind });
    }

    /// What a series had at a time at which it was not known yet: before its first value.
    pub(super) fn earlier(&mut self, id: SampleSeriesId, milliseconds: i64, value: f64) {
        self.before(id, milliseconds, value, SampleKind::Value);
    }

    /// A counter began at 0 at a time, before the value at another, and after the last value of the
    /// run before and its stale marker.
    pub(super) fn zero(&mut self, id: SampleSeriesId, began: i64, first: i64) {
        let began = began.max(self.previous.saturating_add(2)).min(first.saturating_sub(1));
        self.before(id, began, 0.0, SampleKind::Zero);
    }

    fn before(&mut self, id: SampleSeriesId, milliseconds: i64, value: f64, kind: SampleKind) {
        let Some(entry) = self.entry(id) else { return };
        if milliseconds > entry.last {
            entry.last = milliseconds;
            self.samples.push(Sample { series: id, milliseconds, value, kind });
        }
    }

    /// A series that was live and has no value in this step ended at a time.
    pub(super) fn stale(&mut self, id: SampleSeriesId, milliseconds: i64) {
        let step = self.step;
        let Some(entry) = self.entry(id) else { return };
        if !entry.is_live || entry.step == step {
            return;
        }
        let milliseconds = milliseconds.max(entry.last.saturating_add(1));
        (entry.last, entry.is_live, entry.is_late) = (milliseconds, false, false);
        let (value, kind) = (super::stale_value(), SampleKind::Stale);
        self.samples.push(Sample { series: id, milliseconds, value, kind });
    }
}
