//! A stretch of an archive, column by column.

use std::ops::Bound;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use pcp_types::{InstanceId, Pmid, Timestamp, ValueType};

use super::{Column, SelectedMetric, Selection};
use crate::error::{RecordError, Result};
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
}

/// Rows of an archive and the columns of the selected metrics over them.
#[derive(Debug)]
pub struct Chunk {
    stamps: Vec<Timestamp>,
    marks: Vec<u32>,
    tracks: Vec<Track>,
    routes: Routes,
    values: usize,
    bytes: usize,
    newest: Option<Timestamp>,
    backward_records: u64,
}

impl Chunk {
    /// A chunk without rows.
    pub(crate) fn new(selection: &Selection<'_>) -> Self {
        let metrics = selection.metrics().iter();
        let with_instances = metrics.zip(selection.instances_by_metric());
        let track = |(metric, wanted): (&SelectedMetric, _)| {
            Track::new(metric.desc.value_type, metric.desc.indom.is_some(), wanted)
        };
        Self {
            stamps: Vec::new(),
            marks: Vec::new(),
            tracks: with_instances.map(track).collect(),
            routes: Routes::new(selection),
            values: 0,
            bytes: 0,
            newest: None,
            backward_records: 0,
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
        self.tracks.get(metric).map_or(&[], |track| &track.columns)
    }

    /// How many values were read.
    pub(crate) const fn values(&self) -> usize {
        self.values
    }

    /// Whether a metric, given by its place, has a column of an instance.
    pub(crate) fn has_column(&self, metric: usize, instance: Option<InstanceId>) -> bool {
        self.tracks.get(metric).is_some_and(|track| track.places.contains_key(&instance))
    }

    /// The same for the records that follow those of another chunk.
    pub(crate) fn behind(self, other: &Self) -> Self {
        Self { newest: other.newest, ..self }
    }

    /// The rows' times, the marks, and the columns of each metric.
    pub(crate) fn into_parts(self) -> (Vec<Timestamp>, Vec<u32>, Vec<Vec<Column>>) {
        let columns = self.tracks.into_iter().map(|track| track.columns).collect();
        (self.stamps, self.marks, columns)
    }

    /// Records that were left out because their time goes back.
    pub(crate) const fn backward_records(&self) -> u64 {
        self.backward_records
    }

    /// Takes all rows away; the columns keep their places and the memory they
    /// are likely to need again.
    pub(crate) fn clear(&mut self) {
        self.stamps.clear();
        self.marks.clear();
        self.tracks.iter_mut().flat_map(|track| &mut track.columns).for_each(Column::clear);
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
            let Some(record) = records.next()? else { return Ok(false) };
            let is_behind = match last {
                Bound::Included(last) => record.timestamp() > last,
                Bound::Excluded(end) => record.timestamp() >= end,
                Bound::Unbounded => false,
            };
            if is_behind {
                return Ok(false);
            }
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
        for (position, set) in record.value_sets().enumerate() {
            let track = self.routes.find(position, set.pmid());
            let Some(track) = track.and_then(|track| self.tracks.get_mut(track)) else { continue };
            match track.add(row, &set) {
                Ok(bytes) => self.bytes += bytes,
                Err(error) => {
                    self.drop_row(row);
                    return Err(error);
                }
            }
            self.values += set.len();
        }
        self.newest = Some(stamp);
        self.stamps.push(stamp);
        if record.is_mark() {
            self.marks.push(row);
        }
        Ok(())
    }

    fn drop_row(&mut self, row: u32) {
        let columns = self.tracks.iter_mut().flat_map(|track| &mut track.columns);
        columns.for_each(|column| column.drop_row(row));
    }
}

/// Which track the values of a metric go to.
#[derive(Debug)]
struct Routes {
    by_pmid: HashMap<Pmid, usize>,
    /// The metric at each position of the last record and its track: records
    /// mostly have the same metrics in the same order.
    last: Vec<(Pmid, Option<usize>)>,
}

impl Routes {
    fn new(selection: &Selection<'_>) -> Self {
        let metrics = selection.metrics().iter().enumerate();
        let by_pmid = metrics.map(|(track, metric)| (metric.desc.pmid, track)).collect();
        Self { by_pmid, last: Vec::new() }
    }

    #[inline]
    fn find(&mut self, position: usize, pmid: Pmid) -> Option<usize> {
        match self.last.get_mut(position) {
            Some((last, track)) if *last == pmid => *track,
            other => {
                let track = self.by_pmid.get(&pmid).copied();
                match other {
                    Some(route) => *route = (pmid, track),
                    None => self.last.push((pmid, track)),
                }
                track
            }
        }
    }
}

/// The columns of one metric.
#[derive(Debug)]
struct Track {
    value_type: ValueType,
    has_instances: bool,
    /// The instances that are read; all without.
    wanted: Option<Arc<HashSet<InstanceId>>>,
    columns: Vec<Column>,
    places: HashMap<Option<InstanceId>, usize>,
    /// As [`Routes::last`], for the instances of the metric.
    last: Vec<(Option<InstanceId>, Option<usize>)>,
}

impl Track {
    fn new(
        value_type: ValueType,
        has_instances: bool,
        wanted: Option<Arc<HashSet<InstanceId>>>,
    ) -> Self {
        let (columns, places, last) = (Vec::new(), HashMap::new(), Vec::new());
        Self { value_type, has_instances, wanted, columns, places, last }
    }

    /// Adds the values of a row; returns how many bytes were copied of those
    /// that are not numbers.
    #[inline]
    fn add(&mut self, row: u32, set: &ValueSetView<'_>) -> Result<usize, RecordError> {
        let mut bytes = 0;
        for (position, value) in set.values(self.value_type).enumerate() {
            let (instance, value) = value?;
            let place = self.place(position, instance);
            if let Some(column) = place.and_then(|place| self.columns.get_mut(place)) {
                bytes += column.push(row, value);
            }
        }
        Ok(bytes)
    }

    /// The place of an instance's column; `None` if it is not read.
    #[inline]
    fn place(&mut self, position: usize, instance: Option<InstanceId>) -> Option<usize> {
        match self.last.get(position) {
            Some((last, place)) if *last == instance => *place,
            _ => {
                let place = self.find(instance);
                match self.last.get_mut(position) {
                    Some(last) => *last = (instance, place),
                    None => self.last.push((instance, place)),
                }
                place
            }
        }
    }

    #[cold]
    fn find(&mut self, instance: Option<InstanceId>) -> Option<usize> {
        // A metric without a domain has one column, whatever number its
        // records carry.
        let instance = instance.filter(|_| self.has_instances);
        if let Some(wanted) = &self.wanted
            && !instance.is_some_and(|instance| wanted.contains(&instance))
        {
            return None;
        }
        let (columns, value_type) = (&mut self.columns, self.value_type);
        let place = self.places.entry(instance).or_insert_with(|| {
            columns.push(Column::new(instance, value_type));
            columns.len() - 1
        });
        Some(*place)
    }
}
