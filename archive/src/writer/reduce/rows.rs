//! The rows of a chunk in which some columns have values.

use crate::Timestamp;
use crate::scan::Column;

use super::grid::IntervalGrid;

/// For each row the place of one of the columns with a value in it, and the last such row before it.
#[derive(Debug)]
pub(super) struct RowsWithValues {
    columns: Vec<Option<u32>>,
    before: Vec<Option<u32>>,
}

impl RowsWithValues {
    pub(super) fn new<'c>(columns: impl Iterator<Item = &'c Column>, rows: usize) -> Self {
        let mut with_values = vec![None; rows];
        for (place, column) in (0..).zip(columns) {
            for (places, first) in column.rows().stretches() {
                let rows = first as usize..first as usize + places.len();
                with_values.get_mut(rows).unwrap_or_default().fill(Some(place));
            }
        }
        let mut last = None;
        let before = (0..).zip(&with_values).map(|(row, column)| {
            let before = last;
            if column.is_some() {
                last = Some(row);
            }
            before
        });
        let before = before.collect();
        Self { columns: with_values, before }
    }

    /// Returns the last row with values before another.
    pub(super) fn before(&self, row: u32) -> Option<u32> {
        self.before.get(row as usize).copied().flatten()
    }

    /// Returns the place of a column with a value in a row.
    pub(super) fn column(&self, row: u32) -> Option<usize> {
        self.columns.get(row as usize).copied().flatten().map(|place| place as usize)
    }

    /// Returns the rows in which a column has a value that it had not in the row with values before,
    /// if a time of the grid is between the two. `newest` is the time of the last value before the
    /// chunk, and `last` returns that of a column by its place.
    pub(super) fn new_over_grid<'c>(
        &self,
        columns: impl Iterator<Item = &'c Column>,
        timestamps: &[Timestamp],
        grid: &IntervalGrid,
        newest: Option<Timestamp>,
        last: impl Fn(usize) -> Option<Timestamp>,
    ) -> Vec<u32> {
        let time = |row: u32| timestamps.get(row as usize).copied();
        let mut rows = Vec::new();
        for (place, column) in columns.enumerate() {
            for (_, row) in column.rows().stretches() {
                let Some(at) = time(row) else { continue };
                let (before, had_value) = match self.before(row) {
                    Some(before) => {
                        let next = column.rows().first_from(before);
                        (time(before), next.is_some_and(|(_, next)| next == before))
                    }
                    None => (newest, newest.is_some() && last(place) == newest),
                };
                let Some(before) = before.filter(|_| !had_value) else { continue };
                if !grid.ends_within(before, at).is_empty() {
                    rows.push(row);
                }
            }
        }
        rows.sort_unstable();
        rows.dedup();
        rows
    }
}
