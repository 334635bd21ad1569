//! Histograms whose buckets are registered when they are first hit.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pcp_types::Units;

use super::{Buckets, duration_in_units, nanoseconds_in};
use crate::mapping::Cell;

/// Number of buckets whose cells are allocated together: most histograms hit few powers of two.
const ROW: usize = 16;

pub(crate) trait BucketSource: fmt::Debug + Send + Sync {
    /// Registers a bucket and returns its cell; `None` if it does not fit. Once the series is
    /// [closed](Self::close), returns a cell that no reader sees.
    fn register(&self, bucket: usize) -> Option<Cell>;

    /// Records a value whose bucket does not fit, this many times.
    fn record_overflow(&self, value: u64, times: u64);

    /// Ends registration, and returns the buckets that were registered.
    fn close(&self) -> Vec<usize>;
}

/// The cells of a histogram, each present once its bucket was hit.
#[derive(Debug, Clone)]
pub(crate) struct LazyCells {
    buckets: Buckets,
    /// Index of the last bucket.
    last: usize,
    rows: Arc<[OnceLock<Row>]>,
    sum: Cell,
    /// As that of `Cells`.
    per_unit: u64,
    source: Arc<dyn BucketSource>,
}

/// Cells of consecutive buckets; `None` for a bucket that did not fit.
type Row = [OnceLock<Option<Cell>>; ROW];

impl LazyCells {
    pub(crate) fn new(
        buckets: Buckets,
        units: Units,
        sum: Cell,
        source: Arc<dyn BucketSource>,
    ) -> Self {
        let count = buckets.count();
        let rows = (0..count.div_ceil(ROW)).map(|_| OnceLock::new()).collect();
        let last = count.saturating_sub(1);
        Self { buckets, last, rows, sum, per_unit: nanoseconds_in(units), source }
    }

    #[inline]
    pub(super) fn record_many(&self, value: u64, times: u64) {
        let bucket = self.buckets.position(value).min(self.last);
        match self.known_cell(bucket) {
            Some(cell) => {
                self.sum.add(value.wrapping_mul(times));
                cell.add(times);
            }
            None => self.record_in_new_bucket(bucket, value, times),
        }
    }

    #[inline]
    pub(super) fn record(&self, value: u64) {
        self.record_many(value, 1);
    }

    #[inline]
    pub(super) fn in_units(&self, time: Duration) -> u64 {
        duration_in_units(time, self.per_unit)
    }

    /// Returns the cell of a bucket that was hit before and fitted.
    #[inline]
    fn known_cell(&self, bucket: usize) -> Option<&Cell> {
        let row = self.rows.get(bucket / ROW)?.get()?;
        row.get(bucket % ROW)?.get()?.as_ref()
    }

    /// Registers the bucket of a value, unless that was done, and records the value. Not inlined:
    /// the way of all later values saves fewer registers so.
    #[cold]
    #[inline(never)]
    fn record_in_new_bucket(&self, bucket: usize, value: u64, times: u64) {
        if let Some(row) = self.rows.get(bucket / ROW) {
            let row = row.get_or_init(|| std::array::from_fn(|_| OnceLock::new()));
            if let Some(cell) = row.get(bucket % ROW) {
                cell.get_or_init(|| self.source.register(bucket));
            }
        }
        match self.known_cell(bucket) {
            Some(cell) => {
                self.sum.add(value.wrapping_mul(times));
                cell.add(times);
            }
            None => self.source.record_overflow(value, times),
        }
    }

    pub(super) fn count(&self) -> u64 {
        let rows = self.rows.iter().filter_map(OnceLock::get);
        let cells = rows.flatten().filter_map(|cell| cell.get()?.as_ref());
        cells.map(Cell::load).fold(0, u64::wrapping_add)
    }

    pub(super) fn sum(&self) -> u64 {
        self.sum.load()
    }

    pub(super) fn close(&self) -> Vec<usize> {
        self.source.close()
    }
}
