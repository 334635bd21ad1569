//! Classic histograms: cumulative counts by upper bound, a series for each.
//!
//! An archive has the count of each bucket that was ever hit. Here each bucket has the count of
//! all values up to its bound, also before it was hit: when a bucket appears, it gets a sample with
//! the count of the buckets below it at the time of the previous sample. Otherwise the increase
//! over that time would be greater for the lower bucket than for the new one.

use std::sync::Arc;

use crate::mapping::{Family, FamilyId, Label};
use crate::samples::table::{FamilyPart, SampleSeries, SampleSeriesId, Table};
use crate::samples::{bound_text, named};

/// A bucket below the infinite one.
#[derive(Debug)]
struct Bucket {
    bound: f64,
    count: f64,
    /// The last sent count of this bucket and those below it.
    cumulative: f64,
    series: SampleSeriesId,
}

#[derive(Debug)]
pub(super) struct Classic {
    family: FamilyId,
    base: Arc<str>,
    labels: Arc<[Label]>,
    /// The buckets, sorted by bound.
    buckets: Vec<Bucket>,
    /// The count of the bucket without a bound.
    unbounded: f64,
    infinite: SampleSeriesId,
    count: SampleSeriesId,
    sum: Option<(SampleSeriesId, f64)>,
    /// The time of the last samples, unless the histogram has ended since.
    last: Option<i64>,
}

impl Classic {
    pub(super) fn new(
        id: FamilyId,
        family: &Family,
        labels: Arc<[Label]>,
        table: &mut Table,
    ) -> Self {
        let base: Arc<str> = family.name.as_str().into();
        let bucket_name = format!("{base}_bucket").into();
        let bucket_labels = with_bound(&labels, f64::INFINITY);
        let bucket = FamilyPart::Bucket(f64::INFINITY);
        let infinite = table.add(new_series(id, bucket_name, bucket_labels, bucket, None));
        let count_name = format!("{base}_count").into();
        let count_labels = Arc::clone(&labels);
        let count = table.add(new_series(id, count_name, count_labels, FamilyPart::Count, None));
        Self {
            family: id,
            base,
            labels,
            buckets: Vec::new(),
            unbounded: 0.0,
            infinite,
            count,
            sum: None,
            last: None,
        }
    }

    /// Sets the count of the bucket with an upper bound in base units.
    pub(super) fn set_bucket(
        &mut self,
        bound: Option<f64>,
        count: f64,
        start: Option<i64>,
        counts_from_zero: bool,
        table: &mut Table,
    ) {
        let Some(bound) = bound else {
            self.unbounded = count;
            return;
        };
        match self.buckets.binary_search_by(|bucket| bucket.bound.total_cmp(&bound)) {
            Ok(at) => {
                if let Some(bucket) = self.buckets.get_mut(at) {
                    bucket.count = count;
                }
            }
            Err(at) => {
                let below = at.checked_sub(1).and_then(|below| self.buckets.get(below));
                let cumulative = below.map_or(0.0, |below| below.cumulative);
                let name = format!("{}_bucket", self.base).into();
                let labels = with_bound(&self.labels, bound);
                let part = FamilyPart::Bucket(bound);
                let series = table.add(new_series(self.family, name, labels, part, start));
                self.buckets.insert(at, Bucket { bound, count, cumulative, series });
                if let Some(last) = self.last.filter(|_| !counts_from_zero) {
                    table.earlier(series, last, cumulative);
                }
            }
        }
    }

    pub(super) fn set_sum(&mut self, sum: f64, start: Option<i64>, table: &mut Table) {
        let series = if let Some((series, _)) = self.sum {
            series
        } else {
            let name = format!("{}_sum", self.base).into();
            let labels = Arc::clone(&self.labels);
            table.add(new_series(self.family, name, labels, FamilyPart::Sum, start))
        };
        self.sum = Some((series, sum));
    }

    /// Sets the count of a bucket that no longer has a value to 0.
    pub(super) fn empty_bucket(&mut self, bound: Option<f64>) {
        match bound {
            None => self.unbounded = 0.0,
            Some(bound) => {
                let at = self.buckets.binary_search_by(|bucket| bucket.bound.total_cmp(&bound));
                if let Some(bucket) = at.ok().and_then(|at| self.buckets.get_mut(at)) {
                    bucket.count = 0.0;
                }
            }
        }
    }

    /// Adds the samples of all parts, after the values of a step were set.
    pub(super) fn send(
        &mut self,
        began: Option<i64>,
        start: Option<i64>,
        milliseconds: i64,
        table: &mut Table,
    ) {
        if let Some(began) = began {
            self.all().for_each(|series| table.zero(series, began, milliseconds));
        }
        self.all().for_each(|series| table.set_start(series, start));
        let mut total = 0.0;
        for bucket in &mut self.buckets {
            total += bucket.count;
            bucket.cumulative = total;
            table.value(bucket.series, milliseconds, total);
        }
        total += self.unbounded;
        table.value(self.infinite, milliseconds, total);
        table.value(self.count, milliseconds, total);
        if let Some((series, sum)) = self.sum {
            table.value(series, milliseconds, sum);
        }
        self.last = Some(milliseconds);
    }

    /// Ends all series with stale markers.
    pub(super) fn end(&mut self, milliseconds: i64, table: &mut Table) {
        self.all().for_each(|series| table.stale(series, milliseconds));
        self.last = None;
        self.unbounded = 0.0;
        self.buckets.iter_mut().for_each(|bucket| bucket.count = 0.0);
    }

    fn all(&self) -> impl Iterator<Item = SampleSeriesId> {
        let buckets = self.buckets.iter().map(|bucket| bucket.series);
        let others = [Some(self.infinite), Some(self.count), self.sum.map(|(series, _)| series)];
        buckets.chain(others.into_iter().flatten())
    }
}

fn new_series(
    family: FamilyId,
    name: Arc<str>,
    labels: Arc<[Label]>,
    part: FamilyPart,
    start: Option<i64>,
) -> SampleSeries {
    SampleSeries { name, labels, family, part, is_discrete: false, start }
}

fn with_bound(labels: &[Label], bound: f64) -> Arc<[Label]> {
    named(labels, "le", &bound_text(bound))
}
