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

    /// Records a value whose bucket does not fit.
    fn record_overflow(&self, value: u64);

    /// Ends registration, and returns the buckets that were registered.
    fn close(&self) -> Vec<usize>;
}

/// The cells of a histogram, each present once its bucket was hit.
#[derive(Debug, Clone)]
pub(crate) struct LazyCells {
    buckets: Buckets,
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
        let rows = (0..buckets.count().div_ceil(ROW)).map(|_| OnceLock::new()).collect();
        Self { buckets, rows, sum, per_unit: nanoseconds_in(units), source }
    }

    #[inline]
    pub(super) fn record(&self, value: u64) {
        match self.cell(self.buckets.index(value)) {
            Some(cell) => {
                self.sum.add(value);
                cell.add(1);
            }
            None => self.source.record_overflow(value),
        }
    }

    #[inline]
    pub(super) fn in_units(&self, time: Duration) -> u64 {
        duration_in_units(time, self.per_unit)
    }

    /// Returns the cell of a bucket, which is registered by the first call.
    #[inline]
    fn cell(&self, bucket: usize) -> Option<&Cell> {
        let row = self.rows.get(bucket / ROW)?;
        let row = row.get_or_init(|| std::array::from_fn(|_| OnceLock::new()));
        let cell = row.get(bucket % ROW)?;
        cell.get_or_init(|| self.source.register(bucket)).as_ref()
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
