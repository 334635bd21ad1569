//! Histograms: the state that both forms share.

mod classic;
mod native;

use std::sync::Arc;

use pcp_archive::scan::histogram::HistogramBucket;

use self::classic::Classic;
use self::native::Native;
use super::HistogramForm;
use super::buckets::BucketBounds;
use super::table::Table;
use crate::mapping::{Family, FamilyId, Label};

#[derive(Debug)]
enum Parts {
    Classic(Classic),
    Native(Native),
}

#[derive(Debug)]
pub(super) struct Histogram {
    parts: Parts,
    /// The number of its series of the archive that have values now.
    pub(super) live: usize,
    /// Whether all of its series of the archive began in this step.
    pub(super) is_new: bool,
    /// The time at which it began to count from 0, until the zeros are sent.
    pub(super) from_zero: Option<i64>,
    pub(super) start: Option<i64>,
    pub(super) is_touched: bool,
}

impl Histogram {
    pub(super) fn new(
        form: HistogramForm,
        id: FamilyId,
        family: &Family,
        labels: Arc<[Label]>,
        table: &mut Table,
    ) -> Self {
        let parts = match form {
            HistogramForm::Classic => Parts::Classic(Classic::new(id, family, labels, table)),
            HistogramForm::Custom | HistogramForm::Exponential => {
                Parts::Native(Native::new(form, id, family, labels, table))
            }
        };
        Self { parts, live: 0, is_new: false, from_zero: None, start: None, is_touched: false }
    }

    /// Adds a bucket, unless it is known.
    pub(super) fn add_bucket(&mut self, bucket: &HistogramBucket, family: &Family) {
        if let Parts::Native(native) = &mut self.parts {
            native.add_bucket(BucketBounds::new(bucket, family.scale));
        }
    }

    /// Sets the count of the bucket with an upper bound in base units.
    pub(super) fn set_bucket(&mut self, bound: Option<f64>, count: f64, table: &mut Table) {
        self.is_touched = true;
        match &mut self.parts {
            Parts::Classic(classic) => {
                let counts_from_zero = self.from_zero.is_some();
                classic.set_bucket(bound, count, self.start, counts_from_zero, table);
            }
            Parts::Native(native) => native.set_bucket(bound, count),
        }
    }

    pub(super) fn set_sum(&mut self, sum: f64, table: &mut Table) {
        self.is_touched = true;
        match &mut self.parts {
            Parts::Classic(classic) => classic.set_sum(sum, self.start, table),
            Parts::Native(native) => native.set_sum(sum),
        }
    }

    /// Sets the count of a bucket that no longer has a value to 0.
    pub(super) fn empty_bucket(&mut self, bound: Option<f64>) {
        match &mut self.parts {
            Parts::Classic(classic) => classic.empty_bucket(bound),
            Parts::Native(native) => native.set_bucket(bound, 0.0),
        }
    }

    /// Adds the samples of all parts, after the values of a step were set.
    pub(super) fn send(&mut self, milliseconds: i64, table: &mut Table) {
        self.is_touched = false;
        self.is_new = false;
        let began = self.from_zero.take().map(|began| began.div_euclid(1_000_000));
        match &mut self.parts {
            Parts::Classic(classic) => classic.send(began, self.start, milliseconds, table),
            Parts::Native(native) => native.send(began, self.start, milliseconds, table),
        }
    }

    /// Ends all series with stale markers.
    pub(super) fn end(&mut self, milliseconds: i64, table: &mut Table) {
        match &mut self.parts {
            Parts::Classic(classic) => classic.end(milliseconds, table),
            Parts::Native(native) => native.end(milliseconds, table),
        }
    }
}
