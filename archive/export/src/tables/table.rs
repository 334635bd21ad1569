//! A table of a host: its rows in memory, and the open file.

use std::path::PathBuf;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use pcp_archive::InstanceId;
use slab::Slab;

use super::batch::{Batch, CellType, Column, LabelColumn, RowKey, Shape};
use super::naming::ColumnNames;
use super::text::TextFile;
use super::writer::ParquetFile;
use super::{Format, Totals, WriteError};
use crate::walk::SeriesId;

/// The key of a slot: an instance, or a series in narrow tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum SlotKey {
    Single,
    Instance(InstanceId),
    Series(SeriesId),
}

/// The state of the rows of one instance or series.
#[derive(Debug)]
pub(super) struct RowSlot {
    pub(super) made_for: SlotKey,
    pub(super) members: Vec<SeriesId>,
    pub(super) is_dirty: bool,
    key: Option<RowKey>,
    /// The index of `key` among the keys of a generation of rows.
    key_place: KeyPlace,
    /// Its last row.
    row: StepRow,
    /// The last step in which one of its series began.
    pub(super) began: u64,
    /// The last step in which one of its counters began with an unknown count.
    pub(super) began_unknown: u64,
    /// Its last row of zeros.
    zero_row: StepRow,
}

#[derive(Debug, Clone, Copy, Default)]
struct KeyPlace {
    /// 0 without a place.
    generation: u64,
    index: u32,
}

/// A row, and the step in which it was added.
#[derive(Debug, Clone, Copy, Default)]
struct StepRow {
    /// 0 without a row.
    step: u64,
    index: usize,
}

impl RowSlot {
    /// Returns the index of the key among those of a generation of rows, adding it.
    fn place_of_key(&mut self, generation: u64, keys: &mut Vec<RowKey>) -> Option<u32> {
        if self.key_place.generation != generation {
            let index = u32::try_from(keys.len()).ok()?;
            keys.push(self.key.clone()?);
            self.key_place = KeyPlace { generation, index };
        }
        Some(self.key_place.index)
    }

    /// Sets the key of later rows.
    pub(super) fn set_key(&mut self, key: RowKey) {
        if self.key.as_ref() != Some(&key) {
            self.key = Some(key);
            self.key_place = KeyPlace::default();
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) columns: Vec<Column>,
    /// Indexes in `columns`, by name.
    by_name: HashMap<String, u32>,
    pub(super) slots: Slab<RowSlot>,
    pub(super) by_key: HashMap<SlotKey, u32>,
    times: Vec<i64>,
    begins: Vec<bool>,
    key_of_row: Vec<u32>,
    keys: Vec<RowKey>,
    /// The number of the batch in memory.
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
    labels: Vec<LabelColumn>,
    totals: Totals,
}

#[derive(Debug)]
enum Writer {
    Parquet(ParquetFile),
    Text(TextFile),
}

#[derive(Debug)]
pub(super) struct FileTarget<'p> {
    pub(super) format: Format,
    pub(super) directory: PathBuf,
    /// The beginning of file names, `part-ARCHIVE`.
    pub(super) stem: &'p str,
    pub(super) part: &'p mut u32,
    /// Entries of the file's metadata.
    pub(super) about: &'p [(&'static str, String)],
}

impl Table {
    pub(super) fn new(name: String, shape: Shape) -> Self {
        Self { name, shape, generation: 1, ..Self::default() }
    }

    pub(super) fn rows(&self) -> usize {
        self.times.len()
    }

    /// Returns an upper bound of the bytes of a row in memory.
    #[inline]
    pub(super) fn row_bytes(&self) -> usize {
        13 + 10 * self.columns.len()
    }

    /// Returns an upper bound of the bytes of all rows in memory.
    pub(super) fn bytes(&self) -> usize {
        self.rows() * self.row_bytes()
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns the index of the slot of a key, adding it.
    pub(super) fn slot(&mut self, key: SlotKey) -> u32 {
        if let Some(slot) = self.by_key.get(&key) {
            return *slot;
        }
        let new = RowSlot {
            made_for: key,
            members: Vec::new(),
            is_dirty: false,
            key: None,
            key_place: KeyPlace::default(),
            row: StepRow::default(),
            began: 0,
            began_unknown: 0,
            zero_row: StepRow::default(),
        };
        // More than 2^32 of them do not fit into memory.
        let slot = u32::try_from(self.slots.insert(new)).unwrap_or(u32::MAX);
        self.by_key.insert(key, slot);
        slot
    }

    /// Returns the index of the column with a name, adding it.
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

    /// Removes a slot, whose index is reused.
    pub(super) fn remove(&mut self, key: SlotKey) {
        if let Some(slot) = self.by_key.remove(&key) {
            self.slots.try_remove(slot as usize);
        }
    }

    /// Returns the row of a slot in a step, and whether it is new.
    #[inline]
    pub(super) fn row(&mut self, slot: u32, step: u64, time: i64) -> Option<(usize, bool)> {
        let slot = self.slots.get_mut(slot as usize)?;
        if slot.row.step == step {
            return Some((slot.row.index, false));
        }
        let key = slot.place_of_key(self.generation, &mut self.keys)?;
        let row = self.times.len();
        slot.row = StepRow { step, index: row };
        self.times.push(time);
        self.begins.push(slot.began == step);
        self.key_of_row.push(key);
        Some((row, true))
    }

    /// Returns the row of zeros that a slot has before its row in a step, and whether it is new. The
    /// row after it does not begin: the difference is growth. `None` if a counter of the slot began
    /// with an unknown count.
    pub(super) fn zero_row(&mut self, slot: u32, step: u64, time: i64) -> Option<(usize, bool)> {
        let slot = self.slots.get_mut(slot as usize)?;
        if slot.began_unknown == step {
            return None;
        }
        if slot.zero_row.step == step {
            return Some((slot.zero_row.index, false));
        }
        let key = slot.place_of_key(self.generation, &mut self.keys)?;
        let row = self.times.len();
        slot.zero_row = StepRow { step, index: row };
        slot.began = 0;
        self.times.push(time);
        self.begins.push(true);
        self.key_of_row.push(key);
        Some((row, true))
    }

    /// Writes the rows in memory to the open file, or to a new one if they have columns that the
    /// open file lacks.
    pub(super) fn write(
        &mut self,
        names: &mut ColumnNames,
        place: &mut FileTarget<'_>,
    ) -> Result<Totals, WriteError> {
        let mut closed = Totals::default();
        let rows = self.rows();
        if rows == 0 {
            return Ok(closed);
        }
        let values: Vec<usize> =
            self.columns.iter_mut().map(|column| column.complete(rows)).collect();
        let used: Vec<usize> = (0..self.columns.len())
            .filter(|at| values.get(*at).is_some_and(|values| *values > 0))
            .collect();
        let labels = self.label_columns(names);
        let is_complete = self.open.as_ref().is_some_and(|file| {
            used.iter().all(|at| file.has.contains(at))
                && labels.iter().all(|label| file.labels.contains(label))
        });
        if !is_complete {
            let mut columns = used;
            let mut all_labels = labels;
            if let Some(file) = &self.open {
                columns.extend(&file.columns);
                all_labels.extend(file.labels.iter().cloned());
            }
            all_labels.sort_by(|one, other| one.column.cmp(&other.column));
            all_labels.dedup();
            closed = self.close()?;
            self.begin(columns, all_labels, place)?;
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
                labels: &file.labels,
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

    /// Returns the columns of the labels that the rows in memory have.
    fn label_columns(&self, names: &mut ColumnNames) -> Vec<LabelColumn> {
        let mut seen: HashSet<&Arc<str>> = HashSet::new();
        let mut columns = Vec::new();
        for label in self.keys.iter().flat_map(|key| key.labels.iter()) {
            if seen.insert(&label.name) {
                let column = names.label_column(&label.name);
                columns.push(LabelColumn { label: Arc::clone(&label.name), column });
            }
        }
        columns
    }

    /// Begins a file with these columns, sorted by name.
    fn begin(
        &mut self,
        mut columns: Vec<usize>,
        labels: Vec<LabelColumn>,
        place: &mut FileTarget<'_>,
    ) -> Result<(), WriteError> {
        columns.sort_by(|one, other| {
            let [one, other] = [one, other].map(|at| self.columns.get(*at));
            one.map(|column| &column.name).cmp(&other.map(|column| &column.name))
        });
        columns.dedup();
        let file = format!("{}-{}.{}", place.stem, place.part, place.format.extension());
        let path = place.directory.join(&file);
        let of_file: Vec<&Column> = columns.iter().filter_map(|at| self.columns.get(*at)).collect();
        let directory = &place.directory;
        let shape = self.shape;
        let writer = match place.format {
            Format::Parquet => {
                ParquetFile::create(directory, &file, shape, &labels, &of_file, place.about)
                    .map(Writer::Parquet)
            }
            Format::Csv => {
                TextFile::csv(directory, &file, shape, &labels, &of_file).map(Writer::Text)
            }
            Format::JsonLines => TextFile::json_lines(directory, &file).map(Writer::Text),
        };
        let writer = writer.map_err(|source| WriteError { path: path.clone(), source })?;
        *place.part += 1;
        let has = columns.iter().copied().collect();
        self.open =
            Some(OpenFile { writer, path, columns, has, labels, totals: Totals::default() });
        Ok(())
    }

    /// Completes the open file, and returns its totals.
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
