//! A table with columns as wide as their widest cells.

use std::fmt::{self, Write as _};
use std::iter;

/// Blanks between two columns.
const GAP: usize = 2;

/// The cells of a table, row by row, in one string.
#[derive(Debug)]
pub struct Grid {
    text: String,
    /// Of each cell: its width in characters, and the end of its text.
    cells: Vec<(usize, usize)>,
    /// The widest cell of each column.
    widths: Vec<usize>,
}

impl Grid {
    /// Creates an empty table of at least one column.
    pub fn new(columns: usize) -> Self {
        Self { text: String::new(), cells: Vec::new(), widths: vec![0; columns] }
    }

    /// Adds a cell; `write` appends its text.
    pub fn cell(&mut self, write: impl FnOnce(&mut String)) {
        let start = self.text.len();
        write(&mut self.text);
        let width = self.text.get(start..).unwrap_or_default().chars().count();
        let column = self.cells.len() % self.widths.len();
        if let Some(widest) = self.widths.get_mut(column) {
            *widest = width.max(*widest);
        }
        self.cells.push((width, self.text.len()));
    }

    /// Adds a cell of formatted text.
    pub fn format(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        self.cell(|cell| cell.write_fmt(text).unwrap_or_default());
    }

    /// Returns the rows as text, with their line breaks. The first and the last column are
    /// left-aligned, the others right-aligned. Where the table is too wide for a terminal, the
    /// cells of the first column that leave no room for the others have lines of their own.
    pub fn rows(&self, terminal: Option<usize>) -> impl Iterator<Item = String> {
        let mut start = 0;
        let last = self.widths.len() - 1;
        let others = self.widths.iter().skip(1).sum::<usize>() + GAP * last;
        let room = terminal.map_or(usize::MAX, |terminal| terminal.saturating_sub(others));
        let mut widths = self.widths.clone();
        if let Some(first) = widths.first_mut() {
            let names = self.cells.iter().step_by(last + 1).map(|(width, _)| *width);
            *first = names.filter(|width| *width <= room).max().unwrap_or(0);
        }
        self.cells.chunks(self.widths.len()).map(move |row| {
            let mut line = String::new();
            // Lines do not end in blanks.
            let mut blanks = 0;
            for (column, (&(width, end), widest)) in row.iter().zip(&widths).enumerate() {
                let text = self.text.get(start..end).unwrap_or_default();
                let padding = widest.saturating_sub(width);
                let is_left = column == 0 || column == last;
                if !text.is_empty() {
                    let before = blanks + if is_left { 0 } else { padding };
                    line.extend(iter::repeat_n(' ', before));
                    line.push_str(text);
                    blanks = 0;
                }
                blanks += GAP + if is_left || text.is_empty() { padding } else { 0 };
                start = end;
                if column == 0 && width > room && last > 0 {
                    line.push('\n');
                    blanks = widest + GAP;
                }
            }
            line.push('\n');
            line
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_left_aligned_and_numbers_right_aligned() {
        let mut grid = Grid::new(3);
        for cell in ["Metric", "Mean", "Units", "load", "0.25", "", "net.\u{e4}", "", "KiB"] {
            grid.cell(|text| text.push_str(cell));
        }
        let text = |terminal| grid.rows(Some(terminal)).collect::<String>();
        let expected = "Metric  Mean  Units\nload    0.25\nnet.\u{e4}         KiB\n";
        assert_eq!(text(19), expected);
        let expected = "Metric\n       Mean  Units\nload   0.25\nnet.\u{e4}        KiB\n";
        assert_eq!(text(18), expected);
    }
}
