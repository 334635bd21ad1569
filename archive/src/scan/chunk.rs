//! A stretch of an archive, column by column.

use std::ops::Bound;

use pcp_types::{InstanceId, Timestamp};

use super::router::{Form, Plan, Router, Track};
use super::{Column, Selection};
use crate::error::{RecordError, Result};
use crate::format::{number, value_block};
use crate::reader::Run;
use crate::{Record, Records, Source, ValueSetView};

/// Where a chunk ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) rows: usize,
    pub(crate) values: usize,
    /// Of values that are not numbers.
    pub(crate) bytes: usize,
}

impl Room {
    /// 64 Ki values and rows, 12 and 16 bytes each, and 1 MiB of text: what a
    /// processor's second cache holds. The record that fills it is in whole.
    pub(crate) const CHUNK: Self = Self { rows: 1 << 16, values: 1 << 16, bytes: 1 << 20 };

    /// All that is read.
    pub(crate) const UNBOUNDED: Self =
        Self { rows: usize::MAX, values: usize::MAX, bytes: usize::MAX };

    /// How many rows of so many values there is room for; `None` if that is
    /// not known.
    fn rows_of(self, values: usize) -> Option<usize> {
        (self.values < usize::MAX).then(|| self.rows.min(self.values.div_ceil(values.max(1))))
    }
}

/// Rows of an archive and the columns of the selected metrics over them.
#[derive(Debug)]
pub struct Chunk {
    stamps: Vec<Timestamp>,
    marks: Vec<u32>,
    /// By metric, and in the order of [`Track::instances`].
    columns: Vec<Vec<Column>>,
    router: Router,
    values: usize,
    bytes: usize,
    newest: Option<Timestamp>,
    backward_records: u64,
    first: Option<Place>,
    behind: Option<Place>,
}

/// What a chunk read.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) stamps: Vec<Timestamp>,
    pub(crate) marks: Vec<u32>,
    /// By metric, and in no order of the instances.
    pub(crate) columns: Vec<Vec<Column>>,
    /// Records that were left out because their time goes back.
    pub(crate) backward_records: u64,
}

/// Where a record is: archive, volume, offset.
type Place = (u32, u32, u64);

/// Where the records lie that were read.
#[derive(Debug)]
pub(super) struct Limits {
    first: Option<Place>,
    /// The one at which reading ended because it was behind the last one
    /// wanted.
    behind: Option<Place>,
    /// No time went back.
    is_forward: bool,
}

impl Limits {
    /// Whether others ended right where these begin: together that is what one
    /// scan had read.
    pub(super) fn follow(&self, other: &Self) -> bool {
        self.is_forward && other.is_forward && other.behind == self.first.or(self.behind)
    }
}

fn place_of(record: &Record<'_>) -> Place {
    (record.archive(), record.volume(), record.offset())
}

impl Chunk {
    /// A chunk without rows.
    pub(crate) fn new(selection: &Selection<'_>) -> Self {
        Self {
            stamps: Vec::new(),
            marks: Vec::new(),
            columns: vec![Vec::new(); selection.metrics().len()],
            router: Router::new(selection),
            values: 0,
            bytes: 0,
            newest: None,
            backward_records: 0,
            first: None,
            behind: None,
        }
    }

    /// The times of the rows, none before the one in front of it.
    pub fn stamps(&self) -> &[Timestamp] {
        &self.stamps
    }

    /// The rows that are marks, rising.
    pub fn marks(&self) -> &[u32] {
        &self.marks
    }

    /// The columns of a metric, given by its place in the selection, in the
    /// order in which the archive first has values of their instances. Those
    /// of earlier chunks keep their places, even if they are empty now.
    pub fn columns(&self, metric: usize) -> &[Column] {
        self.columns.get(metric).map_or(&[], Vec::as_slice)
    }

    /// How many values were read.
    pub(crate) const fn values(&self) -> usize {
        self.values
    }

    /// Whether a metric, given by its place, has a column of an instance.
    pub(crate) fn has_column(&self, metric: usize, instance: Option<InstanceId>) -> bool {
        self.router.tracks().get(metric).is_some_and(|track| track.has_column(instance))
    }

    /// The same for the records that follow those of another chunk.
    pub(crate) fn behind(self, other: &Self) -> Self {
        Self { newest: other.newest, ..self }
    }

    /// Takes the rows out, with their columns. Others are left in the same
    /// places, with room for as many values.
    pub(crate) fn take(&mut self) -> Taken {
        let columns = self.columns.iter_mut().map(|own| own.iter_mut().map(Column::take).collect());
        Taken {
            columns: columns.collect(),
            stamps: std::mem::take(&mut self.stamps),
            marks: std::mem::take(&mut self.marks),
            backward_records: self.backward_records,
        }
    }

    /// The rows, with their columns.
    pub(crate) fn into_taken(self) -> Taken {
        let Self { stamps, marks, columns, backward_records, .. } = self;
        Taken { stamps, marks, columns, backward_records }
    }

    /// Records that were left out because their time goes back.
    pub(crate) const fn backward_records(&self) -> u64 {
        self.backward_records
    }

    /// Where what was read lies.
    pub(super) const fn limits(&self) -> Limits {
        Limits { first: self.first, behind: self.behind, is_forward: self.backward_records == 0 }
    }

    /// Takes all rows away, as if none had been read; columns keep their places.
    pub(crate) fn restart(&mut self) {
        self.clear();
        self.backward_records = 0;
        (self.newest, self.first, self.behind) = (None, None, None);
    }

    /// Whether most columns have no values.
    pub(crate) fn is_mostly_empty(&self) -> bool {
        let all = || self.columns.iter().flatten();
        2 * all().filter(|column| column.is_empty()).count() > all().count()
    }

    /// Takes all rows away; the columns keep their places and the memory they
    /// are likely to need again.
    pub(crate) fn clear(&mut self) {
        self.stamps.clear();
        self.marks.clear();
        self.columns.iter_mut().flatten().for_each(Column::clear);
        (self.values, self.bytes) = (0, 0);
    }

    /// Adds the records up to `last`, as far as there is room; returns whether
    /// there may be more.
    ///
    /// # Errors
    ///
    /// Those of the reader. The rows in front of the damaged record are there.
    pub(crate) fn fill(
        &mut self,
        source: Source<'_>,
        records: &mut Records<'_>,
        last: Bound<Timestamp>,
        room: Room,
    ) -> Result<bool> {
        while self.has_room(room) {
            if self.add_run(records, last, room)? {
                continue;
            }
            let Some(record) = records.next()? else { return Ok(false) };
            if is_behind(last, record.timestamp()) {
                self.behind = Some(place_of(&record));
                return Ok(false);
            }
            self.first.get_or_insert_with(|| place_of(&record));
            self.add(&record).map_err(|error| source.damaged(&record, error))?;
        }
        Ok(true)
    }

    /// The time of the last row.
    pub(crate) const fn newest(&self) -> Option<Timestamp> {
        self.newest
    }

    /// Adds a mark in place of records that are damaged, right behind the last
    /// row and not behind the next record, whose time is `next`.
    pub(crate) fn add_gap(&mut self, next: Timestamp) {
        let (Some(newest), Ok(row)) = (self.newest, u32::try_from(self.stamps.len())) else {
            return;
        };
        let behind = Timestamp::from_nanos(newest.as_nanos().saturating_add(1));
        let stamp = if next < newest { behind } else { behind.min(next) };
        self.newest = Some(stamp);
        self.stamps.push(stamp);
        self.marks.push(row);
    }

    fn has_room(&self, room: Room) -> bool {
        self.stamps.len() < room.rows && self.values < room.values && self.bytes < room.bytes
    }

    /// Adds a record, all of it or, if one of its values is damaged, nothing.
    fn add(&mut self, record: &Record<'_>) -> Result<(), RecordError> {
        let (stamp, row) = (record.timestamp(), u32::try_from(self.stamps.len()));
        // Where time went back it could not be searched.
        let (Ok(row), false) = (row, self.newest.is_some_and(|newest| stamp < newest)) else {
            self.backward_records += 1;
            return Ok(());
        };
        self.add_values(row, record)?;
        self.newest = Some(stamp);
        self.stamps.push(stamp);
        if record.is_mark() {
            self.marks.push(row);
        }
        Ok(())
    }

    /// Adds the values of a record, and plans how to add those of others like
    /// it.
    fn add_values(&mut self, row: u32, record: &Record<'_>) -> Result<(), RecordError> {
        let mut values = 0;
        for (position, set) in record.value_sets().enumerate() {
            let Some((metric, track)) = self.router.find(position, set.pmid()) else { continue };
            let Some(columns) = self.columns.get_mut(metric) else { continue };
            match add_set(row, &set, track, columns) {
                Ok(bytes) => self.bytes += bytes,
                Err(error) => {
                    let columns = self.columns.iter_mut().flatten();
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
    /// whether any were added. Those that need more thought are left: that
    /// lie behind `last`, or back in time.
    fn add_run(
        &mut self,
        records: &mut Records<'_>,
        last: Bound<Timestamp>,
        room: Room,
    ) -> Result<bool> {
        let router = &self.router;
        let is_wanted = |layout| router.plan(layout).is_some();
        let Some(run) = records.peek_run(is_wanted, |stamp| is_behind(last, stamp))? else {
            return Ok(false);
        };
        let (Some(plan), Ok(row)) = (router.plan(run.layout()), u32::try_from(self.stamps.len()))
        else {
            return Ok(false);
        };
        for &stamp in run.stamps() {
            let is_back = self.newest.is_some_and(|newest| stamp < newest);
            if !self.has_room(room) || is_back {
                break;
            }
            self.values += plan.values;
            self.bytes += plan.bytes;
            self.newest = Some(stamp);
            self.stamps.push(stamp);
        }
        let count = self.stamps.len() - row as usize;
        copy(plan, row, &run, count, &mut self.columns, room.rows_of(plan.values));
        records.pass_run(count);
        Ok(count > 0)
    }
}

fn is_behind(last: Bound<Timestamp>, stamp: Timestamp) -> bool {
    match last {
        Bound::Included(last) => stamp > last,
        Bound::Excluded(end) => stamp >= end,
        Bound::Unbounded => false,
    }
}

/// Adds the values of a metric; returns how many bytes were copied of those
/// that are not numbers.
#[inline]
fn add_set(
    row: u32,
    set: &ValueSetView<'_>,
    track: &mut Track,
    columns: &mut Vec<Column>,
) -> Result<usize, RecordError> {
    let mut bytes = 0;
    for (position, value) in set.values(track.value_type()).enumerate() {
        let (instance, value) = value?;
        let Some(place) = track.place(position, instance) else { continue };
        if columns.is_empty() {
            // Most metrics have one instance for good.
            columns.reserve_exact(set.len());
        }
        grow(columns, track);
        if let Some(column) = columns.get_mut(place) {
            bytes += column.push(row, value);
        }
    }
    Ok(bytes)
}

/// Makes the columns that the track has and the chunk has not.
#[inline]
fn grow(columns: &mut Vec<Column>, track: &Track) {
    while let Some(instance) = track.instances().get(columns.len()) {
        columns.push(Column::new(*instance, track.value_type()));
    }
}

/// Adds the values of the first `count` records of a run, column by column, to
/// columns that are likely to have so many rows.
fn copy(
    plan: &Plan,
    row: u32,
    run: &Run<'_>,
    count: usize,
    columns: &mut [Vec<Column>],
    likely_rows: Option<usize>,
) {
    let rows = row..row + count as u32;
    for step in &plan.steps {
        let column = columns.get_mut(step.metric as usize);
        let Some(column) = column.and_then(|own| own.get_mut(step.place as usize)) else {
            continue;
        };
        if let Some(rows) = likely_rows {
            column.expect(rows);
        }
        let (bytes, stride) = (run.bytes().get(step.at as usize..), run.stride());
        let bytes = bytes.unwrap_or_default();
        match step.form {
            Form::Word => gather(column.extend(rows.clone()), bytes, stride, number::word),
            Form::Long => gather(column.extend(rows.clone()), bytes, stride, number::long),
            Form::Bytes(len) => {
                for (row, payload) in rows.clone().zip(bytes.chunks(stride)) {
                    let payload = payload.get(..len as usize).unwrap_or_default();
                    if let Some(value) = value_block::decode(column.value_type(), payload) {
                        column.push(row, value);
                    }
                }
            }
        }
    }
}

/// Reads numbers, the first of them at the start of `bytes`, each so many bytes
/// behind the one before. Not inlined: the loop is to have all registers.
#[inline(never)]
fn gather(
    words: &mut [u64],
    mut bytes: &[u8],
    stride: usize,
    number: impl Fn(&[u8]) -> Option<u64>,
) {
    for word in words {
        *word = number(bytes).unwrap_or_default();
        bytes = bytes.get(stride..).unwrap_or_default();
    }
}
