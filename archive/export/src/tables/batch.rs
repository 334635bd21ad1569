//! Rows in memory: keys, and the cells of columns.
//!
//! Invariant: a column has at most as many cells as there are rows, and either no levels, if
//! no cell is null, or as many levels as cells.

use std::sync::Arc;

use crate::mapping::Label;
use crate::walk::Number;

/// The type of a column's cells. Metrics of 32 bits are widened to 64, so that a metric that changes
/// from one to the other keeps its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum CellType {
    I64,
    U64,
    F64,
}

impl CellType {
    /// Returns the suffix of a column's name.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::I64 => "i64",
            Self::U64 => "u64",
            Self::F64 => "f64",
        }
    }
}

/// The cells of a column. Those of [`CellType::U64`] are the bits of integers, as in the file.
#[derive(Debug)]
pub(super) enum Cells {
    Integers(Vec<i64>),
    Doubles(Vec<f64>),
}

#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) cell_type: CellType,
    /// A description of the metric as JSON, for the file's metadata.
    pub(super) about: Arc<str>,
    pub(super) cells: Cells,
    /// 1 for a value, 0 for null; empty while there are no nulls.
    pub(super) levels: Vec<i16>,
}

impl Column {
    pub(super) fn new(name: String, cell_type: CellType, about: Arc<str>) -> Self {
        let cells = match cell_type {
            CellType::I64 | CellType::U64 => Cells::Integers(Vec::new()),
            CellType::F64 => Cells::Doubles(Vec::new()),
        };
        Self { name, cell_type, about, cells, levels: Vec::new() }
    }

    #[inline]
    pub(super) fn set(&mut self, row: usize, number: Number) {
        match (&mut self.cells, number) {
            (Cells::Integers(cells), Number::I64(value)) => {
                put(cells, &mut self.levels, row, value);
            }
            (Cells::Integers(cells), Number::U64(value)) => {
                put(cells, &mut self.levels, row, value.cast_signed());
            }
            (Cells::Doubles(cells), number) => put(cells, &mut self.levels, row, number.as_f64()),
            // A descriptor does not change within an archive.
            (Cells::Integers(_), Number::F64(_)) => {}
        }
    }

    /// Returns the number of cells; all later ones are null.
    pub(super) fn len(&self) -> usize {
        match &self.cells {
            Cells::Integers(cells) => cells.len(),
            Cells::Doubles(cells) => cells.len(),
        }
    }

    /// Extends the column with nulls to `rows` rows, and returns its number of values.
    pub(super) fn complete(&mut self, rows: usize) -> usize {
        let values = if self.levels.is_empty() {
            self.len()
        } else {
            self.levels.iter().filter(|level| **level == 1).count()
        };
        if self.len() < rows {
            match &mut self.cells {
                Cells::Integers(cells) => pad(cells, &mut self.levels, rows),
                Cells::Doubles(cells) => pad(cells, &mut self.levels, rows),
            }
        }
        values
    }

    pub(super) fn clear(&mut self) {
        self.levels.clear();
        match &mut self.cells {
            Cells::Integers(cells) => cells.clear(),
            Cells::Doubles(cells) => cells.clear(),
        }
    }

    /// Returns the value of a row; `None` if it is null.
    pub(super) fn get(&self, row: usize) -> Option<Number> {
        if !self.levels.is_empty() && self.levels.get(row) != Some(&1) {
            return None;
        }
        Some(match (&self.cells, self.cell_type) {
            (Cells::Integers(cells), CellType::U64) => Number::U64(cells.get(row)?.cast_unsigned()),
            (Cells::Integers(cells), _) => Number::I64(*cells.get(row)?),
            (Cells::Doubles(cells), _) => Number::F64(*cells.get(row)?),
        })
    }
}

#[inline]
fn put<T: Copy + Default>(cells: &mut Vec<T>, levels: &mut Vec<i16>, row: usize, value: T) {
    if row == cells.len() {
        if row == cells.capacity() {
            // Doubling would waste up to half of the memory for thousands of columns.
            cells.reserve_exact((row / 8).max(64));
        }
        cells.push(value);
        if !levels.is_empty() {
            levels.push(1);
        }
        return;
    }
    pad(cells, levels, row + 1);
    if let (Some(cell), Some(level)) = (cells.get_mut(row), levels.get_mut(row)) {
        *cell = value;
        *level = 1;
    }
}

/// Appends nulls up to `rows` cells. From then on the column has levels.
fn pad<T: Copy + Default>(cells: &mut Vec<T>, levels: &mut Vec<i16>, rows: usize) {
    levels.resize(cells.len(), 1);
    if cells.len() < rows {
        cells.resize(rows, T::default());
        levels.resize(rows, 0);
    }
}

/// The columns that identify the series of a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RowKey {
    pub(super) hostname: Arc<str>,
    /// The metric, in narrow tables.
    pub(super) name: Option<Arc<str>>,
    pub(super) instance: Option<i32>,
    pub(super) instance_name: Option<Arc<str>>,
    /// Labels in columns of their own, sorted by name.
    pub(super) labels: Arc<[Label]>,
    /// The least and the greatest value of a bucket; the last bucket has no greatest.
    pub(super) bounds: Option<(f64, Option<f64>)>,
}

impl RowKey {
    /// Returns the value of a label.
    pub(super) fn label(&self, name: &str) -> Option<&Arc<str>> {
        let at = self.labels.binary_search_by(|label| (*label.name).cmp(name)).ok()?;
        self.labels.get(at).map(|label| &label.value)
    }
}

/// A column of labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LabelColumn {
    pub(super) label: Arc<str>,
    pub(super) column: String,
}

/// The optional columns of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// The name of the metric.
    pub(super) has_name: bool,
    pub(super) has_instances: bool,
    /// The bounds of a bucket.
    pub(super) has_bounds: bool,
}

impl Shape {
    /// Returns the names of the columns that are neither labels nor metrics, in their order before
    /// and after the labels.
    pub(super) fn columns(self) -> (Vec<&'static str>, &'static [&'static str]) {
        let mut first = vec!["timestamp", "timestamp_ns", "begins", "hostname"];
        if self.has_name {
            first.push("name");
        }
        if self.has_instances {
            first.extend(["instid", "instname"]);
        }
        (first, if self.has_bounds { &["lower", "upper"] } else { &[] })
    }
}

/// Rows to be written. `times`, `begins` and `key_of_row` have an entry for each row.
#[derive(Debug)]
pub(super) struct Batch<'t> {
    pub(super) shape: Shape,
    /// Nanoseconds since 1970 UTC.
    pub(super) times: &'t [i64],
    /// True for the first row of a series.
    pub(super) begins: &'t [bool],
    /// Indexes in `keys`.
    pub(super) key_of_row: &'t [u32],
    pub(super) keys: &'t [RowKey],
    /// In the order of the file.
    pub(super) labels: &'t [LabelColumn],
    /// Complete columns in the order of the file.
    pub(super) columns: &'t [&'t Column],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_set_in_any_order_and_others_are_null() {
        let mut column = Column::new("a".into(), CellType::U64, "{}".into());
        column.set(0, Number::U64(u64::MAX));
        assert!(column.levels.is_empty());
        column.set(3, Number::U64(3));
        column.set(2, Number::U64(2));
        assert_eq!(column.complete(6), 3);
        let cells: Vec<_> = (0..6).map(|row| column.get(row)).collect();
        let value = |value| Some(Number::U64(value));
        assert_eq!(cells, [value(u64::MAX), None, value(2), value(3), None, None]);
        assert_eq!(column.levels.len(), column.len());
    }

    #[test]
    fn a_column_that_begins_late_has_nulls_before() {
        let mut column = Column::new("a".into(), CellType::F64, "{}".into());
        column.set(2, Number::I64(7));
        assert_eq!(column.complete(3), 1);
        let cells: Vec<_> = (0..3).map(|row| column.get(row)).collect();
        assert_eq!(cells, [None, None, Some(Number::F64(7.0))]);
        column.clear();
        column.set(0, Number::F64(1.0));
        assert_eq!((column.complete(1), column.levels.len()), (1, 0));
    }
}
