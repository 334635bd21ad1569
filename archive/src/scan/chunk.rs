//! A chunk of an archive, column by column.

use std::ops::Bound;

use super::router::{ColumnMap, Router};
use super::{Column, Selection};
use crate::reader::fast::RecordRun;
use crate::{InstanceId, Record, RecordError, Records, Result, Source, Timestamp, ValueSetView};

#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkLimits {
    pub(crate) rows: usize,
    pub(crate) values: usize,
    /// Of values that are not numbers.
    pub(crate) bytes: usize,
}

impl ChunkLimits {
    /// 64 Ki values and rows, 12 and 16 bytes each, and 1 MiB of text: what a
    /// processor's second cache holds. The record that fills it is added
    /// completely.
    pub(crate) const CHUNK: Self = Self { rows: 1 << 16, values: 1 << 16, bytes: 1 << 20 };

    /// All that is read.
    pub(crate) const UNBOUNDED: Self =
        Self { rows: usize::MAX, values: usize::MAX, bytes: usize::MAX };

    /// Returns the number of rows with this many values that fit; `None` if that is not known.
    fn rows_of(self, values: usize) -> Option<usize> {
        (self.values < usize::MAX).then(|| self.rows.min(self.values.div_ceil(values.max(1))))
    }
}

/// Rows of an archive and the columns of the selected metrics over them.
#[derive(Debug)]
pub struct Chunk {
    /// The columns of each metric are in the order of [`ColumnMap::instances`].
    rows: ChunkRows,
    router: Router,
    values: usize,
    bytes: usize,
    newest: Option<Timestamp>,
    first: Option<RecordLocation>,
    after: Option<RecordLocation>,
}

#[derive(Debug, Default)]
pub(crate) struct ChunkRows {
    pub(crate) timestamps: Vec<Timestamp>,
    pub(crate) marks: Vec<u32>,
    /// By metric.
    pub(crate) columns: Vec<Vec<Column>>,
    /// Records that were left out because their time goes back.
    pub(crate) backward_records: u64,
}

impl ChunkRows {
    /// Returns the columns of a metric, as [`Chunk::columns`].
    pub(crate) fn columns(&self, metric: usize) -> &[Column] {
        self.columns.get(metric).map_or(&[], Vec::as_slice)
    }
}

type RecordLocation = (u32, u32, u64);

/// The first and last records that were read.
#[derive(Debug)]
pub(super) struct Extent {
    first: Option<RecordLocation>,
    /// The one at which reading ended because it was after the last one wanted.
    after: Option<RecordLocation>,
    /// No time went back.
    is_forward: bool,
}

impl Extent {
    /// Returns whether others ended right where these begin: together that is what one scan had
    /// read.
    pub(super) fn follow(&self, other: &Self) -> bool {
        self.is_forward && other.is_forward && other.after == self.first.or(self.after)
    }
}

fn place_of(record: &Record<'_>) -> RecordLocation {
    (record.archive(), record.volume(), record.offset())
}

impl Chunk {
    /// Returns a chunk without rows.
    pub(crate) fn new(selection: &Selection<'_>) -> Self {
        Self {
            rows: ChunkRows {
                columns: vec![Vec::new(); selection.metrics().len()],
                ..ChunkRows::default()
            },
            router: Router::new(selection),
            values: 0,
            bytes: 0,
            newest: None,
            first: None,
            after: None,
        }
    }

    /// Reads excerpts of short records as well.
    #[cfg(test)]
    pub(super) fn by_excerpts(self) -> Self {
        let router = self.router.with_effort(crate::reader::fast::ReadCost::NONE);
        Self { router, ..self }
    }

    /// Returns the timestamps of the rows, in order.
    pub fn timestamps(&self) -> &[Timestamp] {
        &self.rows.timestamps
    }

    /// Returns the rows that are marks, rising.
    pub fn marks(&self) -> &[u32] {
        &self.rows.marks
    }

    /// Returns the columns of a metric, given by its place in the selection, in the order in
    /// which the archive first has values of their instances. Those of earlier chunks keep their
    /// places, even if they are empty now.
    pub fn columns(&self, metric: usize) -> &[Column] {
        self.rows.columns(metric)
    }

    pub(crate) const fn values(&self) -> usize {
        self.values
    }

    pub(crate) fn has_column(&self, metric: usize, instance: Option<InstanceId>) -> bool {
        self.router.maps().get(metric).is_some_and(|map| map.has_column(instance))
    }

    /// Continues another chunk: records before its newest row go back in time.
    pub(crate) fn after(self, other: &Self) -> Self {
        Self { newest: other.newest, ..self }
    }

    /// Sets the time of the newest row so far: records before it go back in time.
    pub(super) fn from(self, newest: Timestamp) -> Self {
        Self { newest: Some(newest), ..self }
    }

    /// Takes the rows out, with their columns. Others are left in the same
    /// places, with limits for as many values.
    pub(crate) fn take(&mut self) -> ChunkRows {
        let columns =
            self.rows.columns.iter_mut().map(|own| own.iter_mut().map(Column::take).collect());
        ChunkRows {
            columns: columns.collect(),
            timestamps: std::mem::take(&mut self.rows.timestamps),
            marks: std::mem::take(&mut self.rows.marks),
            backward_records: self.rows.backward_records,
        }
    }

    pub(crate) const fn rows(&self) -> &ChunkRows {
        &self.rows
    }

    pub(crate) fn into_rows(self) -> ChunkRows {
        self.rows
    }

    /// Returns the number of records that were left out because their time goes back.
    pub(crate) const fn backward_records(&self) -> u64 {
        self.rows.backward_records
    }

    /// Returns the extent of the records that were read.
    pub(super) const fn extent(&self) -> Extent {
        Extent { first: self.first, after: self.after, is_forward: self.rows.backward_records == 0 }
    }

    /// Takes all rows away, as if none had been read; columns keep their places.
    pub(crate) fn restart(&mut self) {
        self.clear();
        self.rows.backward_records = 0;
        self.newest = None;
        self.first = None;
        self.after = None;
        self.router.restart();
    }

    /// Returns whether most columns have no values.
    pub(crate) fn is_mostly_empty(&self) -> bool {
        let mut all = 0;
        let mut empty = 0;
        for column in self.rows.columns.iter().flatten() {
            all += 1;
            empty += usize::from(column.is_empty());
        }
        2 * empty > all
    }

    /// Takes all rows away; the columns keep their places and the memory they
    /// are likely to need again.
    pub(crate) fn clear(&mut self) {
        self.rows.timestamps.clear();
        self.rows.marks.clear();
        self.rows.columns.iter_mut().flatten().for_each(Column::clear);
        self.values = 0;
        self.bytes = 0;
    }

    /// Adds the records up to `last`, up to the limits; returns whether there
    /// may be more.
    ///
    /// # Errors
    ///
    /// Those of the reader. The rows before the damaged record are kept.
    pub(crate) fn fill(
        &mut self,
        source: Source<'_>,
        records: &mut Records<'_>,
        last: Bound<Timestamp>,
        limits: ChunkLimits,
    ) -> Result<bool> {
        while self.has_room(limits) {
            if self.add_run(records, last, limits)? {
                continue;
            }
            let Some(record) = records.next()? else { return Ok(false) };
            if is_behind(last, record.timestamp()) {
                self.after = Some(place_of(&record));
                return Ok(false);
            }
            self.first.get_or_insert_with(|| place_of(&record));
            self.add(source, &record)?;
        }
        Ok(true)
    }

    pub(crate) const fn newest(&self) -> Option<Timestamp> {
        self.newest
    }

    /// Adds a mark in place of records that are damaged, right after the last
    /// row and not after the next record, whose timestamp is `next`.
    pub(crate) fn add_gap(&mut self, next: Timestamp) {
        let (Some(newest), Ok(row)) = (self.newest, u32::try_from(self.rows.timestamps.len()))
        else {
            return;
        };
        let after = Timestamp::from_nanos(newest.as_nanos().saturating_add(1));
        let timestamp = if next < newest { after } else { after.min(next) };
        self.newest = Some(timestamp);
        self.rows.timestamps.push(timestamp);
        self.rows.marks.push(row);
    }

    fn has_room(&self, limits: ChunkLimits) -> bool {
        self.rows.timestamps.len() < limits.rows
            && self.values < limits.values
            && self.bytes < limits.bytes
    }

    /// Adds a record, all of it or, if one of its values is damaged, nothing.
    fn add(&mut self, source: Source<'_>, record: &Record<'_>) -> Result<()> {
        let timestamp = record.timestamp();
        let row = u32::try_from(self.rows.timestamps.len());
        self.router.move_to(timestamp);
        // Where time went back it could not be searched.
        let (Ok(row), false) = (row, self.newest.is_some_and(|newest| timestamp < newest)) else {
            self.rows.backward_records += 1;
            return Ok(());
        };
        self.add_values(source, row, record)?;
        self.newest = Some(timestamp);
        self.rows.timestamps.push(timestamp);
        if record.is_mark() {
            self.rows.marks.push(row);
        }
        Ok(())
    }

    /// Adds the values of a record, and plans how to add those of others like
    /// it.
    fn add_values(&mut self, source: Source<'_>, row: u32, record: &Record<'_>) -> Result<()> {
        let mut values = 0;
        for (position, set) in record.value_sets().enumerate() {
            let Some((metric, map)) = self.router.find(position, set.pmid()) else { continue };
            let Some(columns) = self.rows.columns.get_mut(metric) else { continue };
            match add_set(row, &set, map, columns, |error| source.leave_out(record, error)) {
                Ok(bytes) => self.bytes += bytes,
                Err(error) => {
                    let columns = self.rows.columns.iter_mut().flatten();
                    columns.for_each(|column| column.drop_row(row));
                    return Err(error);
                }
            }
            values += set.len();
        }
        self.values += values;
        self.router.learn(record);
        Ok(())
    }

    /// Adds records by a plan, if there is one for the next ones, and returns
    /// whether any were added. Left out are records after `last`, and those
    /// that go back in time.
    fn add_run(
        &mut self,
        records: &mut Records<'_>,
        last: Bound<Timestamp>,
        limits: ChunkLimits,
    ) -> Result<bool> {
        let router = &self.router;
        let is_over = |timestamp| is_behind(last, timestamp) || !router.is_current(timestamp);
        if let Some((excerpt, most)) = router.excerpt() {
            let run = records.peek_excerpts(excerpt, most, is_over)?;
            let count = run.map_or(0, |run| self.copy_run(&run, limits));
            self.pass_run(records, count);
            self.router.took_excerpts(count, most);
            if count > 0 {
                return Ok(true);
            }
        }
        let router = &self.router;
        let is_over = |timestamp| is_behind(last, timestamp) || !router.is_current(timestamp);
        let run = records.peek_run(|shape| router.plan(shape).is_some(), is_over)?;
        let Some(run) = run else { return Ok(false) };
        let shape = run.shape;
        let count = self.copy_run(&run, limits);
        self.pass_run(records, count);
        self.router.took_run(shape);
        Ok(count > 0)
    }

    /// Moves past the first records of a run, which have been added.
    fn pass_run(&mut self, records: &mut Records<'_>, count: usize) {
        if count > 0 {
            self.first.get_or_insert_with(|| records.place());
        }
        records.pass_run(count);
    }

    /// Adds the first records of a run, up to the limits and to one that goes back in time;
    /// returns how many.
    fn copy_run(&mut self, run: &RecordRun<'_>, limits: ChunkLimits) -> usize {
        let plan = self.router.plan(run.shape);
        let row = u32::try_from(self.rows.timestamps.len());
        let (Some(plan), Ok(row)) = (plan, row) else { return 0 };
        for &timestamp in run.timestamps {
            let is_back = self.newest.is_some_and(|newest| timestamp < newest);
            if !self.has_room(limits) || is_back {
                break;
            }
            self.values += plan.values;
            self.bytes += plan.bytes;
            self.newest = Some(timestamp);
            self.rows.timestamps.push(timestamp);
        }
        let count = self.rows.timestamps.len() - row as usize;
        plan.copy(row, run, count, &mut self.rows.columns, limits.rows_of(plan.values));
        count
    }
}

fn is_behind(last: Bound<Timestamp>, timestamp: Timestamp) -> bool {
    match last {
        Bound::Included(last) => timestamp > last,
        Bound::Excluded(end) => timestamp >= end,
        Bound::Unbounded => false,
    }
}

/// Adds the values of a metric; returns how many bytes were copied of those
/// that are not numbers. `leave_out` decides about bad values.
#[inline]
fn add_set(
    row: u32,
    set: &ValueSetView<'_>,
    map: &mut ColumnMap,
    columns: &mut Vec<Column>,
    leave_out: impl Fn(RecordError) -> Result<()>,
) -> Result<usize> {
    let mut bytes = 0;
    for (position, value) in set.values(map.value_type()).enumerate() {
        let (instance, value) = match value {
            Ok(pair) => pair,
            Err(error) => {
                leave_out(error)?;
                continue;
            }
        };
        let Some(place) = map.place(position, instance) else { continue };
        if columns.is_empty() {
            // Most metrics have one instance forever.
            columns.reserve_exact(set.len());
        }
        grow(columns, map);
        if let Some(column) = columns.get_mut(place) {
            bytes += column.push(row, value);
        }
    }
    Ok(bytes)
}

/// Makes the columns that the map has and the chunk has not.
#[inline]
fn grow(columns: &mut Vec<Column>, map: &ColumnMap) {
    while let Some(instance) = map.instances().get(columns.len()) {
        columns.push(Column::new(*instance, map.value_type()));
    }
}
