//! Native histograms: one series, each sample of which has the counts of all buckets.
//!
//! The sum of the values is the value of the sample. Buckets are added when they are first hit. With
//! custom buckets this changes the bounds of the histogram, which receivers take for a reset
//! unless a stale marker comes before it.

use std::sync::Arc;

use crate::mapping::{Family, FamilyId, Label};
use crate::samples::HistogramForm;
use crate::samples::buckets::{BucketBounds, BucketCounts};
use crate::samples::table::{FamilyPart, SampleSeries, SampleSeriesId, Table};

#[derive(Debug)]
pub(super) struct Native {
    form: HistogramForm,
    series: SampleSeriesId,
    bounds: Arc<[BucketBounds]>,
    counts: Vec<u64>,
    /// The counts of the last sample.
    sent: Vec<u64>,
    /// NaN while it is not known.
    sum: f64,
    has_new_bounds: bool,
    /// Whether a reset is known that no sample has told yet.
    is_reset: bool,
}

impl Native {
    pub(super) fn new(
        form: HistogramForm,
        id: FamilyId,
        family: &Family,
        labels: Arc<[Label]>,
        table: &mut Table,
    ) -> Self {
        let part = match form {
            HistogramForm::Custom => FamilyPart::CustomBuckets,
            HistogramForm::Classic | HistogramForm::Exponential => FamilyPart::ExponentialBuckets,
        };
        let name = family.name.as_str().into();
        let series =
            SampleSeries { name, labels, family: id, part, is_discrete: false, start: None };
        Self {
            form,
            series: table.add(series),
            bounds: Arc::default(),
            counts: Vec::new(),
            sent: Vec::new(),
            sum: f64::NAN,
            has_new_bounds: false,
            is_reset: false,
        }
    }

    /// Returns the place of the bucket with an upper bound, or that at which to insert it.
    fn place(&self, upper: Option<f64>) -> Result<usize, usize> {
        let key = upper.unwrap_or(f64::INFINITY);
        self.bounds.binary_search_by(|bounds| bounds.upper.unwrap_or(f64::INFINITY).total_cmp(&key))
    }

    pub(super) fn add_bucket(&mut self, bounds: BucketBounds) {
        let Err(place) = self.place(bounds.upper) else { return };
        let mut all = self.bounds.to_vec();
        all.insert(place, bounds);
        self.bounds = all.into();
        self.counts.insert(place, 0);
        self.sent.insert(place, 0);
        self.has_new_bounds = true;
    }

    pub(super) fn set_bucket(&mut self, upper: Option<f64>, count: f64) {
        let place = self.place(upper);
        if let Some(known) = place.ok().and_then(|place| self.counts.get_mut(place)) {
            // Counts are whole numbers.
            *known = count as u64;
        }
    }

    pub(super) fn set_sum(&mut self, sum: f64) {
        self.sum = sum;
    }

    pub(super) fn send(
        &mut self,
        began: Option<i64>,
        start: Option<i64>,
        milliseconds: i64,
        table: &mut Table,
    ) {
        table.set_start(self.series, start);
        if std::mem::take(&mut self.has_new_bounds) && self.form == HistogramForm::Custom {
            table.interrupt(self.series, milliseconds);
        }
        if let Some(began) = began {
            self.sent.fill(0);
            let zeros = self.sample(self.sent.clone(), true);
            self.is_reset = !table.zero_histogram(self.series, began, milliseconds, zeros);
        }
        self.is_reset |= self.counts.iter().zip(&self.sent).any(|(now, before)| now < before);
        let counts = self.sample(self.counts.clone(), self.is_reset);
        if table.histogram(self.series, milliseconds, self.sum, counts) {
            self.is_reset = false;
        }
        self.sent.clone_from(&self.counts);
    }

    fn sample(&self, counts: Vec<u64>, is_reset: bool) -> BucketCounts {
        BucketCounts { bounds: Arc::clone(&self.bounds), counts, is_reset }
    }

    pub(super) fn end(&mut self, milliseconds: i64, table: &mut Table) {
        table.stale(self.series, milliseconds);
        self.counts.fill(0);
    }
}
