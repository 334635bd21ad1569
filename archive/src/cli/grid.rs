//! A table whose columns are as wide as their widest cells.

use std::fmt::{self, Write as _};
use std::iter;

use super::failure::Failure;
use super::output::Output;

/// Blanks between two columns.
const GAP: usize = 2;

/// The cells of a table, row by row, in one piece of text.
pub(super) struct Grid {
    text: String,
    /// Of each cell, in characters and where its text ends.
    cells: Vec<(usize, usize)>,
    /// Of each column: its widest cell.
    widths: Vec<usize>,
}

impl Grid {
    /// An empty table of so many columns, one at least.
    pub(super) fn new(columns: usize) -> Self {
        Self { text: String::new(), cells: Vec::new(), widths: vec![0; columns] }
    }

    /// Adds a cell, whose text `write` appends.
    pub(super) fn cell(&mut self, write: impl FnOnce(&mut String)) {
        let start = self.text.len();
        write(&mut self.text);
        let width = self.text.get(start..).unwrap_or_default().chars().count();
        let column = self.cells.len() % self.widths.len();
        if let Some(widest) = self.widths.get_mut(column) {
            *widest = width.max(*widest);
        }
        self.cells.push((width, self.text.len()));
    }

    /// Adds a cell of text in some format.
    pub(super) fn format(&mut self, text: fmt::Arguments<'_>) {
        // A string takes all text.
        self.cell(|cell| cell.write_fmt(text).unwrap_or_default());
    }

    /// Writes it with columns as wide as their widest cells. Texts in the first
    /// and the last column begin below each other, in the others they end so.
    pub(super) fn write(&self, out: &mut Output) -> Result<(), Failure> {
        let (mut start, last) = (0, self.widths.len() - 1);
        for row in self.cells.chunks(self.widths.len()) {
            // Nothing is blank at the end of a line.
            let mut blanks = 0;
            for (column, (&(width, end), widest)) in row.iter().zip(&self.widths).enumerate() {
                let text = self.text.get(start..end).unwrap_or_default();
                let rest = widest - width;
                let is_left = column == 0 || column == last;
                if !text.is_empty() {
                    let before = blanks + if is_left { 0 } else { rest };
                    out.text.extend(iter::repeat_n(b' ', before));
                    out.text.extend_from_slice(text.as_bytes());
                    blanks = 0;
                }
                blanks += GAP + if is_left || text.is_empty() { rest } else { 0 };
                start = end;
            }
            out.text.push(b'\n');
            out.spill()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_begin_and_numbers_end_below_each_other() {
        let mut grid = Grid::new(3);
        for cell in ["Metric", "Mean", "Units", "load", "0.25", "", "net.\u{e4}", "", "KiB"] {
            grid.cell(|text| text.push_str(cell));
        }
        let mut out = Output::new();
        grid.write(&mut out).unwrap();
        let expected = "Metric  Mean  Units\nload    0.25\nnet.\u{e4}         KiB\n";
        assert_eq!(String::from_utf8(out.text).unwrap(), expected);
    }
}
