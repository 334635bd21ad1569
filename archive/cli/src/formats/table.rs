//! A table: one row per time, one column per instance.
//!
//! Rows are written in blocks, so that a long table starts at once and needs no
//! more memory than a short one. A column is as wide as its widest cell so far;
//! a wider cell in a later block shifts the columns from there on. If the
//! columns do not fit next to each other, a block is split into panels, each
//! with all its rows, its own head and the times, so that nothing is wrapped or
//! cut.

use std::collections::VecDeque;
use std::ops::Range;

use pcp_archive::replay::Sample;
use pcp_archive::{Timestamp, Value};

use super::Report;
use crate::Failure;
use crate::columns::{Column, ValueTime, cell};
use crate::text::{Output, push_plain, shown};
use crate::time::Zone;

/// The cell of a missing value.
pub(crate) const MISSING: &str = "-";
/// Names are broken at dots to fit columns of this width.
const NAME_WIDTH: usize = 16;
/// Decimal places of rates and converted values.
const PLACES: usize = 3;
/// Blanks between two columns.
const GAP: usize = 2;
/// The most rows of a block.
const BLOCK_ROWS: usize = 1000;
/// The most cells of a block of more than one row.
const BLOCK_CELLS: usize = 100_000;

/// A row: the time, and the cells of all columns; a mark and an event have no cells.
pub(crate) struct Row {
    pub(crate) at: Timestamp,
    pub(crate) time: String,
    pub(crate) cells: Vec<String>,
    /// The text of an event, if the row is one.
    pub(crate) event: Option<String>,
}

/// The table of a report and the rows that are not written yet.
pub(crate) struct Blocks {
    table: Table,
    rows: Vec<Row>,
    /// The events that no row has passed yet.
    events: VecDeque<Row>,
    /// Rows of a full block.
    len: usize,
}

impl Blocks {
    pub(crate) fn new(report: &Report<'_>) -> Self {
        let table = Table::new(heads(report.columns.iter()), report.width);
        let events = report.events.iter().map(|(at, event)| Row {
            at: *at,
            time: time_text(&report.zone, *at, report.places),
            cells: Vec::new(),
            event: Some(event.clone()),
        });
        let events = events.collect();
        Self { table, rows: Vec::new(), events, len: block_len(report.columns.len()) }
    }

    /// Adds a row per sample and writes the blocks that are full; returns the
    /// number of values.
    pub(crate) fn write<'r>(
        &mut self,
        out: &mut Output,
        report: &Report<'_>,
        samples: impl Iterator<Item = Sample<'r>>,
    ) -> Result<u64, Failure> {
        let mut values = 0;
        for sample in samples {
            values += self.push(out, row(report, &report.zone, &sample))?;
        }
        Ok(values)
    }

    /// Adds a row after the events up to its time, and writes the block if it is full;
    /// returns the number of values.
    pub(crate) fn push(&mut self, out: &mut Output, row: Row) -> Result<u64, Failure> {
        while let Some(event) = self.next_event(row.at) {
            self.rows.push(event);
        }
        let values = row.cells.iter().filter(|cell| *cell != MISSING).count() as u64;
        self.rows.push(row);
        if self.rows.len() >= self.len {
            self.table.write_block(out, &self.rows)?;
            self.rows.clear();
        }
        Ok(values)
    }

    /// Takes the next event if it is not after a moment.
    fn next_event(&mut self, at: Timestamp) -> Option<Row> {
        let is_passed = self.events.front().is_some_and(|event| event.at <= at);
        if is_passed { self.events.pop_front() } else { None }
    }

    /// Writes the last block: the head alone if there is no row.
    pub(crate) fn finish(mut self, out: &mut Output) -> Result<(), Failure> {
        self.rows.extend(self.events);
        self.table.write_block(out, &self.rows)
    }
}

/// Returns the number of rows of a block with this number of columns.
fn block_len(columns: usize) -> usize {
    (BLOCK_CELLS / columns.max(1)).clamp(1, BLOCK_ROWS)
}

/// A table that is written block by block.
pub(crate) struct Table {
    heads: Vec<Vec<String>>,
    /// The width of the terminal.
    width: usize,
    /// The width of each column so far. It never shrinks.
    widths: Vec<usize>,
    time_width: usize,
    /// The head is written.
    begun: bool,
}

impl Table {
    pub(crate) fn new(heads: Vec<Vec<String>>, width: usize) -> Self {
        let widths = heads.iter().map(|head| widest(head.iter())).collect();
        Self { heads, width, widths, time_width: 0, begun: false }
    }

    /// Writes the next rows: below the last ones if all columns fit next to each
    /// other, else as new panels.
    pub(crate) fn write_block(&mut self, out: &mut Output, rows: &[Row]) -> Result<(), Failure> {
        if self.begun && rows.is_empty() {
            return Ok(());
        }
        self.widen(rows);
        let panels = panels(&self.widths, self.width.saturating_sub(self.time_width));
        let continues = self.begun && panels.len() == 1;
        for panel in panels {
            if !continues {
                self.push_heading(out, panel.clone());
            }
            self.push_rows(out, rows, panel)?;
        }
        Ok(())
    }

    fn widen(&mut self, rows: &[Row]) {
        for (column, width) in self.widths.iter_mut().enumerate() {
            *width = widest(rows.iter().filter_map(|row| row.cells.get(column))).max(*width);
        }
        self.time_width = widest(rows.iter().map(|row| &row.time)).max(self.time_width);
    }

    /// Appends the head of a panel and the rule below it, after an empty line from
    /// the second panel on.
    fn push_heading(&mut self, out: &mut Output, panel: Range<usize>) {
        if self.begun {
            out.text.push(b'\n');
        }
        self.begun = true;
        let heads = self.heads.get(panel.clone()).unwrap_or_default();
        let widths = self.widths.get(panel).unwrap_or_default();
        let height = heads.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            // Heads are aligned at their last lines.
            let texts = heads.iter().map(|head| {
                let number = (line + head.len()).checked_sub(height);
                number.and_then(|number| head.get(number)).cloned().unwrap_or_default()
            });
            let texts = texts.collect::<Vec<_>>();
            push_line(out, "", self.time_width, &texts, widths);
        }
        let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        push_line(out, &"-".repeat(self.time_width), self.time_width, &rule, widths);
    }

    fn push_rows(
        &self,
        out: &mut Output,
        rows: &[Row],
        panel: Range<usize>,
    ) -> Result<(), Failure> {
        let widths = self.widths.get(panel.clone()).unwrap_or_default();
        for row in rows {
            if let Some(event) = &row.event {
                let time_width = self.time_width;
                let line = format!("{:<time_width$}{:GAP$}{event}\n", row.time, "");
                out.text.extend_from_slice(line.as_bytes());
            } else if row.cells.is_empty() {
                push_line(out, &row.time, self.time_width, &["<mark>".to_owned()], &[6]);
            } else {
                let cells = row.cells.get(panel.clone()).unwrap_or_default();
                push_line(out, &row.time, self.time_width, cells, widths);
            }
            out.spill()?;
        }
        Ok(())
    }
}

pub(crate) fn row(report: &Report<'_>, zone: &Zone, sample: &Sample<'_>) -> Row {
    let cells = report
        .columns
        .iter()
        .map(|column| cell_text(cell(sample, column), column, report.precision))
        .collect();
    Row {
        at: sample.timestamp,
        event: None,
        time: time_text(zone, sample.timestamp, report.places),
        cells: if sample.is_mark { Vec::new() } else { cells },
    }
}

/// Date and time with this many decimal places of the second.
pub(crate) fn time_text(zone: &Zone, timestamp: Timestamp, places: usize) -> String {
    let mut time = Vec::new();
    zone.push_date_time(&mut time, timestamp, places);
    String::from_utf8_lossy(&time).into_owned()
}

/// Returns a value of a column; floating-point numbers have `precision` decimal places if that is
/// given.
pub(crate) fn cell_text(
    value: Option<Value<'_>>,
    column: &Column,
    precision: Option<usize>,
) -> String {
    let Some(value) = value else { return MISSING.to_owned() };
    let mut text = Vec::new();
    push_plain(&mut text, value, precision.or(column.scale.is_computed.then_some(PLACES)));
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the lines above columns. Where rates, which are averages, are next to values of one
/// instant, each says which it is.
pub(crate) fn heads<'c>(columns: impl Iterator<Item = &'c Column> + Clone) -> Vec<Vec<String>> {
    let has = |time| columns.clone().any(|column| column.scale.time == Some(time));
    let has_both = has(ValueTime::Interval) && has(ValueTime::Instant);
    let mut heads: Vec<Vec<String>> = columns.clone().map(head).collect();
    for (head, column) in heads.iter_mut().zip(columns).filter(|_| has_both) {
        head.push(column.scale.time.map(ValueTime::title).unwrap_or_default().to_owned());
    }
    heads
}

/// Returns the lines above a column: the name broken at its dots, the instance, the units; control
/// characters of names as their bytes.
fn head(column: &Column) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for part in shown(&column.name).split_inclusive('.') {
        match lines.last_mut() {
            Some(line) if line.is_empty() || line.len() + part.len() <= NAME_WIDTH => {
                line.push_str(part);
            }
            _ => lines.push(part.to_owned()),
        }
    }
    lines.extend(column.instance_title().map(|name| format!("[{}]", shown(&name))));
    if !column.scale.units.is_empty() {
        lines.push(shown(&column.scale.units).into_owned());
    }
    lines
}

fn widest<'t>(texts: impl Iterator<Item = &'t String>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0)
}

/// Panels of the columns that fit next to each other, at least one each.
fn panels(widths: &[usize], width: usize) -> Vec<Range<usize>> {
    let mut panels = Vec::new();
    let mut begin = 0;
    let mut used = 0;
    for (column, own) in widths.iter().enumerate() {
        if column > begin && used + GAP + own > width {
            panels.push(begin..column);
            begin = column;
            used = 0;
        }
        used += GAP + own;
    }
    panels.push(begin..widths.len());
    panels
}

fn push_line(out: &mut Output, time: &str, time_width: usize, cells: &[String], widths: &[usize]) {
    let begin = out.text.len();
    out.text.extend_from_slice(format!("{time:<time_width$}").as_bytes());
    for (cell, width) in cells.iter().zip(widths) {
        out.text.extend_from_slice(format!("{:GAP$}{cell:>width$}", "").as_bytes());
    }
    while out.text.len() > begin && out.text.last() == Some(&b' ') {
        out.text.pop();
    }
    out.text.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::Scale;

    #[test]
    fn a_long_name_is_broken_at_its_dots() {
        let column = Column {
            metric: 0,
            instance: None,
            number: None,
            name: "mmv.acme.products.count".to_owned(),
            instance_name: Some("Anvils".into()),
            scale: Scale::default(),
        };
        assert_eq!(head(&column), ["mmv.acme.", "products.count", "[Anvils]"]);
    }

    #[test]
    fn a_head_has_control_characters_as_their_bytes() {
        let column = Column {
            metric: 0,
            instance: None,
            number: None,
            name: "a.x".to_owned(),
            instance_name: Some("two\nlines \u{1b}[2J".into()),
            scale: Scale::default(),
        };
        assert_eq!(head(&column), ["a.x", r"[two\x0alines \x1b[2J]"]);
    }

    fn block(table: &mut Table, rows: &[(&str, &[&str])]) -> String {
        let rows: Vec<Row> = rows
            .iter()
            .map(|(time, row)| Row {
                at: Timestamp::EPOCH,
                time: (*time).to_owned(),
                cells: row.iter().map(ToString::to_string).collect(),
                event: None,
            })
            .collect();
        let mut out = Output::new();
        table.write_block(&mut out, &rows).unwrap();
        String::from_utf8(out.text).unwrap()
    }

    #[test]
    fn a_later_block_continues_and_widens_the_table() {
        let mut table = Table::new(vec![vec!["a".to_owned()], vec!["b".to_owned()]], 30);
        let first = block(&mut table, &[("1", &["7", "8"])]);
        assert_eq!(first, "   a  b\n-  -  -\n1  7  8\n");
        let wider = block(&mut table, &[("2", &["70", "8"]), ("3", &["7", "8"])]);
        assert_eq!(wider, "2  70  8\n3   7  8\n");
        assert_eq!(block(&mut table, &[]), "");
    }

    #[test]
    fn a_block_too_wide_is_panels_with_heads_from_there_on() {
        let mut table = Table::new(vec![vec!["a".to_owned()], vec!["b".to_owned()]], 8);
        block(&mut table, &[("1", &["7", "8"])]);
        let panels = block(&mut table, &[("2", &["7000", "8"])]);
        let expected = "\n      a\n-  ----\n2  7000\n\n   b\n-  -\n2  8\n";
        assert_eq!(panels, expected);
    }

    #[test]
    fn a_block_is_bounded_in_rows_and_cells() {
        assert_eq!([1, 100, 10_000, 1_000_000].map(block_len), [1000, 1000, 10, 1]);
    }

    #[test]
    fn panels_hold_what_fits_and_at_least_one_column() {
        assert_eq!(panels(&[10, 10, 10], 40), vec![Range { start: 0, end: 3 }]);
        assert_eq!(panels(&[10, 10, 10], 25), [0..2, 2..3]);
        assert_eq!(panels(&[50, 10], 25), [0..1, 1..2]);
    }
}
