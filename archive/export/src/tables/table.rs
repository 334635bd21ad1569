//! One table of a host: its rows in memory, and the file that they go to.

use std::path::PathBuf;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use pcp_archive::InstanceId;

use super::batch::{Batch, CellType, Column, RowKey, Shape};
use super::naming::ColumnNames;
use super::text::TextFile;
use super::writer::ParquetFile;
use super::{Format, Totals, WriteError};
use crate::walk::SeriesId;

/// What a row is made for: an instance, or a series in narrow tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum SlotKey {
    Single,
    Instance(InstanceId),
    Series(SeriesId),
}

/// The rows of one instance.
#[derive(Debug, Clone)]
pub(super) struct RowSlot {
    pub(super) made_for: SlotKey,
    pub(super) members: Vec<SeriesId>,
    pub(super) is_dirty: bool,
    key: Option<RowKey>,
    /// The place of `key` in the rows' keys, if the rows are of that generation.
    place: (u64, u32),
    /// The step in which it has its last row, and where.
    row: (u64, usize),
    /// The step in which a series of it began.
    pub(super) began: u64,
}

impl RowSlot {
    /// Makes this the key of the rows to come.
    pub(super) fn set_key(&mut self, key: RowKey) {
        if self.key.as_ref() != Some(&key) {
            (self.key, self.place) = (Some(key), (0, 0));
        }
    }
}

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) column_names: ColumnNames,
    pub(super) columns: Vec<Column>,
    /// Places in `columns`, by name.
    by_name: HashMap<String, u32>,
    pub(super) slots: Vec<RowSlot>,
    pub(super) by_key: HashMap<SlotKey, u32>,
    free: Vec<u32>,
    times: Vec<i64>,
    begins: Vec<bool>,
    key_of_row: Vec<u32>,
    keys: Vec<RowKey>,
    /// Counts the batches.
    generation: u64,
    open: Option<OpenFile>,
}

/// A file that is being written, with the columns that it has.
#[derive(Debug)]
struct OpenFile {
    writer: Writer,
    path: PathBuf,
    columns: Vec<usize>,
    has: HashSet<usize>,
    totals: Totals,
}

#[derive(Debug)]
enum Writer {
    Parquet(ParquetFile),
    Text(TextFile),
}

/// Where the files of a table go.
#[derive(Debug)]
pub(super) struct FileTarget<'p> {
    pub(super) format: Format,
    pub(super) directory: PathBuf,
    /// `part-ARCHIVE`.
    pub(super) stem: &'p str,
    /// The number of the next file.
    pub(super) part: &'p mut u32,
    /// Of the file's metadata.
    pub(super) about: &'p [(&'static str, String)],
}

impl Table {
    pub(super) fn new(name: String, shape: Shape) -> Self {
        Self {
            name,
            shape,
            column_names: ColumnNames::new(),
            columns: Vec::new(),
            by_name: HashMap::new(),
            slots: Vec::new(),
            by_key: HashMap::new(),
            free: Vec::new(),
            times: Vec::new(),
            begins: Vec::new(),
            key_of_row: Vec::new(),
            keys: Vec::new(),
            generation: 1,
            open: None,
        }
    }

    /// The number of rows in memory.
    pub(super) fn rows(&self) -> usize {
        self.times.len()
    }

    /// Bytes of a row in memory, at most.
    #[inline]
    pub(super) fn row_bytes(&self) -> usize {
        13 + 10 * self.columns.len()
    }

    /// Bytes of the rows in memory, at most.
    pub(super) fn bytes(&self) -> usize {
        self.rows() * self.row_bytes()
    }

    /// Whether it has a file open.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The slot of what rows are made for.
    pub(super) fn slot(&mut self, key: SlotKey) -> u32 {
        if let Some(slot) = self.by_key.get(&key) {
            return *slot;
        }
        let new = RowSlot {
            made_for: key,
            members: Vec::new(),
            is_dirty: false,
            key: None,
            place: (0, 0),
            row: (0, 0),
            began: 0,
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(new.clone());
            // More than 2^32 of them do not fit into memory.
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(free) = self.slots.get_mut(slot as usize) {
            *free = new;
        }
        self.by_key.insert(key, slot);
        slot
    }

    /// The place of a column, a new one if there is none with its name.
    pub(super) fn column(
        &mut self,
        name: String,
        cell_type: CellType,
        about: impl FnOnce() -> Arc<str>,
    ) -> u32 {
        if let Some(known) = self.by_name.get(&name) {
            return *known;
        }
        // More than 2^32 of them do not fit into memory.
        let at = u32::try_from(self.columns.len()).unwrap_or(u32::MAX);
        self.columns.push(Column::new(name.clone(), cell_type, about()));
        self.by_name.insert(name, at);
        at
    }

    /// Forgets a slot.
    pub(super) fn remove(&mut self, key: SlotKey) {
        if let Some(slot) = self.by_key.remove(&key) {
            self.free.push(slot);
        }
    }

    /// The row of a slot in a step, and whether it is new.
    #[inline]
    pub(super) fn row(&mut self, slot: u32, step: u64, time: i64) -> Option<(usize, bool)> {
        let slot = self.slots.get_mut(slot as usize)?;
        if slot.row.0 == step {
            return Some((slot.row.1, false));
        }
        let row = self.times.len();
        slot.row = (step, row);
        if slot.place.0 != self.generation {
            slot.place = (self.generation, u32::try_from(self.keys.len()).ok()?);
            self.keys.push(slot.key.clone()?);
        }
        self.times.push(time);
        self.begins.push(slot.began == step);
        self.key_of_row.push(slot.place.1);
        Some((row, true))
    }

    /// Writes the rows in memory to the file, a new one if they have columns that the open one
    /// has not.
    pub(super) fn write(&mut self, place: &mut FileTarget<'_>) -> Result<Totals, WriteError> {
        let mut closed = Totals::default();
        let rows = self.rows();
        if rows == 0 {
            return Ok(closed);
        }
        let values: Vec<usize> =
            self.columns.iter_mut().map(|column| column.complete(rows)).collect();
        let has_values = |at: usize| values.get(at).is_some_and(|values| *values > 0);
        let is_new = |at: usize| {
            has_values(at) && self.open.as_ref().is_none_or(|file| !file.has.contains(&at))
        };
        if self.open.is_none() || (0..self.columns.len()).any(is_new) {
            let mut columns = self.open.as_ref().map_or_else(Vec::new, |file| file.columns.clone());
            closed = self.close()?;
            columns.extend((0..self.columns.len()).filter(|at| has_values(*at)));
            self.begin(columns, place)?;
        }
        if let Some(file) = &mut self.open {
            let columns: Vec<&Column> =
                file.columns.iter().filter_map(|at| self.columns.get(*at)).collect();
            let batch = Batch {
                shape: self.shape,
                times: &self.times,
                begins: &self.begins,
                key_of_row: &self.key_of_row,
                keys: &self.keys,
                columns: &columns,
            };
            let written = match &mut file.writer {
                Writer::Parquet(writer) => writer.write(&batch),
                Writer::Text(writer) => writer.write(&batch),
            };
            written.map_err(|source| WriteError { path: file.path.clone(), source })?;
            file.totals.rows += rows as u64;
            file.totals.values += values.iter().sum::<usize>() as u64;
        }
        self.clear();
        Ok(closed)
    }

    /// Begins a file with these columns, by their names.
    fn begin(
        &mut self,
        mut columns: Vec<usize>,
        place: &mut FileTarget<'_>,
    ) -> Result<(), WriteError> {
        let name = |at: &usize| self.columns.get(*at).map(|column| column.name.as_str());
        columns.sort_by(|one, other| name(one).cmp(&name(other)));
        columns.dedup();
        let file = format!("{}-{}.{}", place.stem, place.part, place.format.extension());
        let path = place.directory.join(&file);
        let of_file: Vec<&Column> = columns.iter().filter_map(|at| self.columns.get(*at)).collect();
        let (directory, shape) = (&place.directory, self.shape);
        let writer = match place.format {
            Format::Parquet => ParquetFile::create(directory, &file, shape, &of_file, place.about)
                .map(Writer::Parquet),
            Format::Csv => TextFile::csv(directory, &file, shape, &of_file).map(Writer::Text),
            Format::JsonLines => TextFile::json_lines(directory, &file).map(Writer::Text),
        };
        let writer = writer.map_err(|source| WriteError { path: path.clone(), source })?;
        *place.part += 1;
        let has = columns.iter().copied().collect();
        self.open = Some(OpenFile { writer, path, columns, has, totals: Totals::default() });
        Ok(())
    }

    /// Completes the open file, and returns what it has got.
    pub(super) fn close(&mut self) -> Result<Totals, WriteError> {
        let Some(OpenFile { writer, path, mut totals, .. }) = self.open.take() else {
            return Ok(Totals::default());
        };
        let bytes = match writer {
            Writer::Parquet(writer) => writer.finish(),
            Writer::Text(writer) => writer.finish(),
        };
        totals.bytes = bytes.map_err(|source| WriteError { path, source })?;
        totals.files = 1;
        Ok(totals)
    }

    fn clear(&mut self) {
        self.times.clear();
        self.begins.clear();
        self.key_of_row.clear();
        self.keys.clear();
        self.generation += 1;
        self.columns.iter_mut().for_each(Column::clear);
    }
}
