//! The values of chosen metrics as columns, chunk by chunk.
//!
//! In: a [`Selection`] of a source and a span of time. Out: [`Chunk`]s of rows with
//! a [`Column`] for each instance. A scan takes no more memory for a day than for
//! a minute, apart from the list of columns.
//!
//! An archive is written row by row: a record has the values of many metrics at
//! one time. Computations need a metric column by column: its values one after
//! the other, with their timestamps. This module turns rows into columns;
//! replay, reports and summaries work on these.
//!
//! # A chunk
//!
//! Let an archive hold three records and a mark, of a metric `load` without
//! instances and a counter `bytes` by network interface:
//!
//! ```text
//!   time   load   bytes[eth0]  bytes[eth1]      columns of the chunk:
//!   0 s    0.5    100                             load         rows 0 1 3
//!   10 s   0.7    150          20                              values 0.5 0.7 0.1
//!   15 s   mark                                   bytes[eth0]  rows 0 1    values 100 150
//!   20 s   0.1                 25                 bytes[eth1]  rows 1 3    values 20 25
//! ```
//!
//! A record, or a mark, is a *row*: its place in [`Chunk::timestamps`], counted
//! from 0 in each chunk. A [`Column`] is what a chunk has of one metric and
//! instance. Columns are sparse: a row in which the metric has no value, or an
//! error, or lacks the instance, takes no place in them. Marks are rows
//! without values ([`Chunk::marks`]): nothing before one may be joined to what
//! comes after it.
//!
//! A chunk is small enough for a processor's cache, and its memory is used
//! again for the next. So a scan takes as much memory for a day as for a
//! minute: what grows is only the list of the columns, one for each instance
//! that had a value. A column keeps its place in [`Chunk::columns`] from chunk
//! to chunk, which is where a sum over chunks finds its own.
//!
//! ```
//! use pcp_archive::scan::{Columns, Selection};
//! # use pcp_archive::{ArchiveWriter, Timestamp};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let base = directory.path().join("a");
//! # let mut writer = ArchiveWriter::create(&base)?;
//! # let load_key = writer.gauge::<f64>("load").add()?;
//! # for (second, load) in [(0, 0.5), (10, 0.7), (20, 0.1)] {
//! #     writer.record(Timestamp::new(second, 0)?, |r| r.set(load_key, load))?;
//! #     if second == 10 {
//! #         writer.write_mark(Timestamp::new(15, 0)?)?;
//! #     }
//! # }
//! # writer.finish()?;
//! # let archive = pcp_archive::Archive::open(&base)?;
//! let mut selection = Selection::new(&archive);
//! selection.select("load");
//! let mut columns = Columns::open(&selection, ..)?;
//! let (mut sum, mut count) = (0.0, 0);
//! while let Some(chunk) = columns.next_chunk()? {
//!     for column in chunk.columns(0) {
//!         for (row, load) in column.numbers() {
//!             println!("{}: {load}", chunk.timestamps()[row as usize]);
//!             sum += load;
//!             count += 1;
//!         }
//!     }
//!     # assert_eq!(chunk.marks(), [2]);
//!     # assert!(*chunk.columns(0)[0].rows() == [0, 1, 3]);
//! }
//! assert_eq!((sum, count), (0.5 + 0.7 + 0.1, 3));
//! # Ok(())
//! # }
//! ```

mod chunk;
mod damage;
pub(crate) mod extremes;
pub mod histogram;
mod instances;
// Public in `internal`, for our commands.
#[doc(hidden)]
pub mod programs;
mod router;
pub(crate) mod segments;
mod selection;
mod selector;

use std::ops::{Bound, RangeBounds, RangeInclusive};

use crate::files::parallel;
use crate::reader::salvage::Loss;
use crate::{Error, Records, Result, Source, Timestamp};
use chunk::Extent;
pub(crate) use chunk::{ChunkLimits, ChunkRows};

pub use crate::reader::column::Column;

pub use crate::reader::column::Rows;
pub use chunk::Chunk;
pub use extremes::is_extreme;
pub use instances::select_instances;
pub use selection::{SelectedInstances, SelectedMetric, Selection};
pub use selector::{MetricLabels, Selector, SelectorError};

/// A place between two records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowPlace {
    /// The time of the record before it, or the start of the source.
    pub(crate) timestamp: Timestamp,
    /// The number of records with this time before it.
    pub(crate) passed: u32,
}

/// The columns of a selection from the first record of a span to its last.
///
/// Not an [`Iterator`]: a chunk lives until the next call.
#[derive(Debug)]
pub struct Columns<'a> {
    source: Source<'a>,
    records: Records<'a>,
    last: Bound<Timestamp>,
    limits: ChunkLimits,
    /// By how much a chunk may have more rows than the one before.
    growth: usize,
    chunk: Chunk,
    /// The state of the scan after the chunk that was returned.
    rest: ColumnsState,
    /// The damage that was skipped; `None` if damage is an error.
    lost: Option<Vec<Loss>>,
}

#[derive(Debug)]
enum ColumnsState {
    Records,
    Error(Error),
    Nothing,
}

impl<'a> Columns<'a> {
    /// Begins a scan of the records with timestamps in `span`: `..` is the
    /// whole archive, `start..=end` a window. The index is used to find its
    /// first record.
    ///
    /// # Errors
    ///
    /// Those of [`Source::records_from`].
    pub fn open(selection: &Selection<'a>, span: impl RangeBounds<Timestamp>) -> Result<Self> {
        Self::begin(selection, span, Chunk::new(selection))
    }

    /// Begins a scan at a place, of no record that goes back from there.
    pub(crate) fn open_after(
        selection: &Selection<'a>,
        place: RowPlace,
        last: Bound<Timestamp>,
    ) -> Result<Self> {
        let RowPlace { timestamp, passed } = place;
        let chunk = Chunk::new(selection).from(timestamp);
        let mut columns = Self::begin(selection, (Bound::Included(timestamp), last), chunk)?;
        for _ in 0..passed {
            while columns.records.next()?.is_some_and(|record| record.timestamp() < timestamp) {}
        }
        Ok(columns)
    }

    /// Begins another scan of the same selection, and reuses the buffers of this one.
    fn reopen(
        mut self,
        selection: &Selection<'a>,
        span: impl RangeBounds<Timestamp>,
    ) -> Result<Self> {
        self.chunk.restart();
        Self::begin(selection, span, self.chunk)
    }

    fn begin(
        selection: &Selection<'a>,
        span: impl RangeBounds<Timestamp>,
        chunk: Chunk,
    ) -> Result<Self> {
        let source = selection.source();
        let records = match span.start_bound() {
            Bound::Unbounded => source.records()?,
            Bound::Included(&start) => source.records_from(start)?,
            Bound::Excluded(&start) => {
                source.records_from(Timestamp::from_nanos(start.as_nanos().saturating_add(1)))?
            }
        };
        let last = span.end_bound().cloned();
        let limits = ChunkLimits::CHUNK;
        let rest = ColumnsState::Records;
        Ok(Self { source, records, last, limits, growth: 1, chunk, rest, lost: None })
    }

    /// Opens columns as [`open`](Self::open), but reads past damage, which counts as a mark.
    pub(crate) fn open_past_damage(
        selection: &Selection<'a>,
        span: &RangeInclusive<Timestamp>,
    ) -> Result<Self> {
        let mut lost = Vec::new();
        let columns = match Self::open(selection, span.clone()) {
            // The way to the first record is damaged.
            Err(error) if error.is_damage() => {
                let mut columns = Self::open(selection, ..=*span.end())?;
                damage::skip_until(&mut columns.records, *span.start(), &mut lost)?;
                columns
            }
            opened => opened?,
        };
        Ok(Self { lost: Some(lost), ..columns })
    }

    /// Returns the damage that was skipped.
    pub(crate) fn take_lost(&mut self) -> Vec<Loss> {
        self.lost.take().unwrap_or_default()
    }

    /// Returns the next chunk, with at least one row; `None` when all were returned.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] for a damaged record, or for a value that cannot be
    /// of its metric's type, and [`Error::Io`]. All rows before it were
    /// returned earlier, and the scan has ended.
    pub fn next_chunk(&mut self) -> Result<Option<&Chunk>> {
        self.chunk.clear();
        match std::mem::replace(&mut self.rest, ColumnsState::Nothing) {
            ColumnsState::Nothing => return Ok(None),
            ColumnsState::Error(error) => return Err(error),
            ColumnsState::Records => {}
        }
        let filled = self.fill();
        self.limits.rows =
            self.limits.rows.saturating_mul(self.growth).min(ChunkLimits::CHUNK.rows);
        self.rest = match filled {
            Ok(true) => ColumnsState::Records,
            Ok(false) => ColumnsState::Nothing,
            Err(error) if self.chunk.timestamps().is_empty() => return Err(error),
            Err(error) => ColumnsState::Error(error),
        };
        Ok(Some(&self.chunk).filter(|chunk| !chunk.timestamps().is_empty()))
    }

    fn fill(&mut self) -> Result<bool> {
        let Self { source, records, last, limits, chunk, lost, .. } = self;
        match lost {
            None => chunk.fill(*source, records, *last, *limits),
            Some(lost) => chunk.fill_past_damage(*source, records, *last, *limits, lost),
        }
    }

    /// Hands each chunk to `work` while the next one is read by another thread, as long as `work`
    /// returns `true`.
    ///
    /// # Errors
    ///
    /// Those of [`next_chunk`](Self::next_chunk) and of `work`.
    pub(crate) fn read_ahead(self, mut work: impl FnMut(ChunkRows) -> Result<bool>) -> Result<()> {
        let take_next = |columns: &mut Self, ()| columns.take_next();
        parallel::in_order([self], take_next, |jobs| {
            jobs.push(());
            while let Some(next) = jobs.pop() {
                let Some(rows) = next? else { break };
                jobs.push(());
                if !work(rows)? {
                    break;
                }
            }
            Ok(())
        })
    }

    fn take_next(&mut self) -> Result<Option<ChunkRows>> {
        let has_rows = self.next_chunk()?.is_some();
        Ok(has_rows.then(|| self.chunk.take()))
    }

    /// Sets the rows of the first chunk, and the factor by which each is larger than the one
    /// before, up to the usual size.
    pub(crate) fn growing(mut self, rows: usize, factor: usize) -> Self {
        self.limits.rows = rows;
        self.growth = factor;
        self
    }

    #[cfg(test)]
    pub(crate) fn with_limits(mut self, limits: ChunkLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the extent of the records read so far.
    const fn extent(&self) -> Extent {
        self.chunk.extent()
    }

    /// Returns the number of records so far that were skipped because they are earlier than the
    /// record before them. Such an archive is damaged.
    pub fn backward_records(&self) -> u64 {
        self.chunk.backward_records()
    }
}

#[cfg(test)]
mod tests;
