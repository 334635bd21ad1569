//! A table: one row per time, one column per instance.
//!
//! Rows are written in blocks, so that a long table starts at once and needs no
//! more memory than a short one. A column is as wide as its widest cell so far;
//! a wider cell in a later block shifts the columns from there on. If the
//! columns do not fit next to each other, a block is split into panels, each
//! with all its rows, its own head and the times, so that nothing is wrapped or
//! cut. A single row that does not fit is a list instead, with a line per column.
//!
//! A table for people has a title with what all columns have in common, and each
//! of its columns a unit that suits the numbers ([`ColumnUnit`]), chosen for the
//! first block with numbers, and chosen again when later numbers are too large for it.
//! It has no column for an instance without values, if others of the metric have some.

use pcp_types::names::{common_branch, common_labels, is_metric_name, label_values};
use pcp_types::scaled::scaled;
use std::collections::VecDeque;
use std::fmt::Display;
use std::ops::Range;

use pcp_archive::replay::Sample;
use pcp_archive::{Timestamp, Units, Value};

use super::Report;
use crate::Failure;
use crate::columns::{Column, ValueTime, cell};
use crate::text::{Output, broken, push_plain, shown};
use crate::time::Zone;
use pcp_types::scaled::ColumnUnit;

/// The cell of a missing value.
pub(crate) const MISSING: &str = "-";
/// Names are broken at dots to fit columns of this width.
const NAME_WIDTH: usize = 16;
/// Decimal places of rates and converted values.
const PLACES: usize = 3;
/// Blanks between two columns.
const GAP: usize = 2;
const BLOCK_ROWS: usize = 1000;
/// The most cells of a block of more than one row.
const BLOCK_CELLS: usize = 100_000;

/// A row: the time, and the cells of all columns; a mark and an event have no cells.
pub(crate) struct Row {
    pub(crate) at: Timestamp,
    pub(crate) time: String,
    pub(crate) cells: Vec<TableCell>,
    pub(crate) event: Option<String>,
}

/// The value of a column in a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TableCell {
    Missing,
    Text(String),
    /// A number in the units of the column's metric, which the table scales.
    Number(f64),
    /// A whole number without a unit, of which a table that does not scale it prints all digits.
    Integer(i128),
}

impl TableCell {
    /// Returns the number that a table may scale.
    fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Integer(number) => Some(*number as f64),
            Self::Missing | Self::Text(_) => None,
        }
    }
}

/// The table of a report and the rows that are not written yet.
pub(crate) struct Blocks {
    table: Table,
    rows: Vec<Row>,
    /// The events that no row has passed yet.
    events: VecDeque<Row>,
    /// Rows of a full block.
    len: usize,
    has_values: bool,
}

impl Blocks {
    pub(crate) fn new(report: &Report<'_>) -> Self {
        let columns: Vec<&Column> = report.columns.iter().collect();
        let mut table = Table::new(&columns, report.title.as_deref(), report.width);
        table.max_lines = report.max_lines;
        let events = report.events.iter().map(|(at, event)| Row {
            at: *at,
            time: report.time_text(&report.zone, *at),
            cells: Vec::new(),
            event: Some(event.clone()),
        });
        let events = events.collect();
        let len = block_len(report.columns.len());
        Self { table, rows: Vec::new(), events, len, has_values: false }
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
        let values = row.cells.iter().filter(|cell| **cell != TableCell::Missing).count() as u64;
        self.has_values |= values > 0;
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

    /// Writes the last block: the head alone if there is no row. A table for people without any
    /// value is not written. Returns the places of the columns for which there was no room.
    pub(crate) fn finish(mut self, out: &mut Output) -> Result<Vec<usize>, Failure> {
        let is_for_people = self.table.title.is_some();
        self.rows.extend(self.events);
        let has_events = self.rows.iter().any(|row| row.event.is_some());
        if is_for_people && !self.has_values && !self.table.begun && !has_events {
            return Ok(Vec::new());
        }
        match self.rows.as_slice() {
            [row] if self.table.is_list(row) => self.table.write_list(out, row),
            rows => self.table.write_block(out, rows)?,
        }
        Ok(self.table.left_out)
    }
}

fn block_len(columns: usize) -> usize {
    (BLOCK_CELLS / columns.max(1)).clamp(1, BLOCK_ROWS)
}

/// A table that is written block by block.
pub(crate) struct Table {
    columns: Vec<TableColumn>,
    /// The line above a table for people.
    title: Option<String>,
    width: usize,
    /// The width of each column so far. It never shrinks.
    widths: Vec<usize>,
    time_width: usize,
    /// The columns that are written, ascending. Their number never shrinks.
    written: Vec<usize>,
    /// The head is written.
    begun: bool,
    /// The lines that there is room for.
    max_lines: Option<usize>,
    /// The columns for which there is no room, ascending.
    left_out: Vec<usize>,
}

#[derive(Default)]
struct TableColumn {
    /// The index of the metric: its columns are in one panel if they fit.
    metric: usize,
    /// The name and instance in one line.
    name: String,
    /// The name and instance, wrapped to lines that are not much wider than numbers.
    lines: Vec<String>,
    /// The units of values that are not scaled.
    units: String,
    scaled_from: Option<Units>,
    /// The unit of the numbers, once there were any.
    unit: Option<ColumnUnit>,
    /// The time that values stand for, where columns differ in it.
    time: Option<&'static str>,
}

impl TableColumn {
    fn unit_title(&self) -> &str {
        match (&self.unit, self.scaled_from) {
            (Some(unit), Some(_)) if !unit.title().is_empty() => unit.title(),
            (None, Some(_)) => "",
            _ => &self.units,
        }
    }

    /// Chooses the unit for some numbers, unless the one so far suits them. Returns whether the
    /// head changes.
    fn choose_unit(&mut self, numbers: &[f64]) -> bool {
        let Some(from) = self.scaled_from.filter(|_| !numbers.is_empty()) else { return false };
        let suits = |unit: &ColumnUnit| numbers.iter().all(|number| unit.suits(*number));
        if self.unit.as_ref().is_some_and(suits) {
            return false;
        }
        let before = self.unit_title().to_owned();
        self.unit = Some(ColumnUnit::choose(from, numbers));
        self.unit_title() != before
    }

    fn text(&self, cell: &TableCell) -> String {
        match (cell, &self.unit) {
            (TableCell::Missing, _) => MISSING.to_owned(),
            (TableCell::Text(text), _) => text.clone(),
            (TableCell::Integer(number), Some(unit)) if !unit.title().is_empty() => {
                unit.format(*number as f64)
            }
            (TableCell::Integer(number), _) => number.to_string(),
            (TableCell::Number(number), Some(unit)) => unit.format(*number),
            (TableCell::Number(number), None) => number.to_string(),
        }
    }

    /// Returns the lines of the head: of a table for people each has a line for the unit if any
    /// has.
    fn head(&self, has_unit_line: bool) -> Vec<String> {
        let mut lines = self.lines.clone();
        let unit = self.unit_title();
        if has_unit_line || !unit.is_empty() {
            lines.push(shown(unit).into_owned());
        }
        lines.extend(self.time.map(str::to_owned));
        lines
    }
}

impl Table {
    /// Creates a table with a column for each of some metrics and instances. The title of a table
    /// for people is what all names have in common and a text, such as the date.
    pub(crate) fn new(columns: &[&Column], title: Option<&str>, width: usize) -> Self {
        let has = |time| columns.iter().any(|column| column.scale.time == Some(time));
        let has_both = has(ValueTime::Interval) && has(ValueTime::Instant);
        let common = match title {
            Some(_) => CommonName::find(columns),
            None => CommonName::default(),
        };
        let heads = columns.iter().map(|column| {
            let name = common.rest_of_name(&column.name);
            let instance = column.instance_title();
            let instance = instance.as_deref();
            let instance = instance.map(|title| common.rest_of_instance(&column.name, title));
            TableColumn {
                metric: if title.is_some() { column.metric } else { usize::MAX },
                name: match &instance {
                    Some(instance) => shown(&format!("{name}[{instance}]")).into_owned(),
                    None => shown(name).into_owned(),
                },
                lines: head_lines(name, instance.as_deref(), title.is_some()),
                units: column.scale.units.clone(),
                scaled_from: column.scale.scaled_from.filter(|_| title.is_some()),
                unit: None,
                time: has_both.then(|| column.scale.time.map_or("", ValueTime::title)),
            }
        });
        let columns: Vec<TableColumn> = heads.collect();
        let title = title.map(|title| common.title(title));
        let widths = vec![0; columns.len()];
        Self {
            columns,
            title,
            width,
            widths,
            time_width: 0,
            written: Vec::new(),
            begun: false,
            max_lines: None,
            left_out: Vec::new(),
        }
    }

    /// Leaves out the columns that do not fit next to each other.
    pub(crate) fn with_one_panel(self) -> Self {
        Self { max_lines: Some(0), ..self }
    }

    /// Returns the places of the columns that are left out, ascending.
    pub(crate) fn left_out(&self) -> &[usize] {
        &self.left_out
    }

    /// Returns whether the head is written.
    pub(crate) const fn is_begun(&self) -> bool {
        self.begun
    }

    /// Writes the next rows: below the last ones if all columns fit next to each
    /// other, else as new panels.
    pub(crate) fn write_block(&mut self, out: &mut Output, rows: &[Row]) -> Result<(), Failure> {
        if self.begun && rows.is_empty() {
            return Ok(());
        }
        let has_new_unit = self.choose_units(rows);
        let has_new_column = self.choose_written(rows);
        let texts: Vec<Vec<String>> = rows.iter().map(|row| self.texts(row)).collect();
        self.widen(rows, &texts);
        let mut panels = self.panels();
        if !self.begun
            && let Some(max_lines) = self.max_lines
            && self.fitting(&panels, rows.len(), max_lines) < panels.len()
        {
            panels = self.leave_out(rows, max_lines);
        }
        let continues = self.begun && panels.len() == 1 && !has_new_unit && !has_new_column;
        for panel in panels {
            if !continues {
                self.push_heading(out, &panel);
            }
            self.push_rows(out, rows, &texts, &panel)?;
        }
        Ok(())
    }

    /// Adds the columns to write for some rows: those with values, and all of a metric that has
    /// none at all. Only a table for people leaves columns out. Returns whether some are new.
    fn choose_written(&mut self, rows: &[Row]) -> bool {
        let mut has_values = vec![self.title.is_none(); self.columns.len()];
        for place in &self.written {
            if let Some(has_values) = has_values.get_mut(*place) {
                *has_values = true;
            }
        }
        for row in rows {
            for (has_values, cell) in has_values.iter_mut().zip(&row.cells) {
                *has_values |= *cell != TableCell::Missing;
            }
        }
        let mut written = Vec::new();
        let mut place = 0;
        for of_metric in self.columns.chunk_by(|one, other| one.metric == other.metric) {
            let places = place..place + of_metric.len();
            place = places.end;
            let of_metric = has_values.get(places.clone()).unwrap_or_default();
            let has_any = of_metric.contains(&true);
            let of_metric =
                places.zip(of_metric).filter(|(_, has_values)| **has_values || !has_any);
            written.extend(of_metric.map(|(place, _)| place));
        }
        written.retain(|place| self.left_out.binary_search(place).is_err());
        let has_new = written != self.written;
        self.written = written;
        has_new
    }

    /// Chooses the units of columns for the numbers in some rows. Returns whether a head changes.
    fn choose_units(&mut self, rows: &[Row]) -> bool {
        let mut has_changed = false;
        for (place, column) in self.columns.iter_mut().enumerate() {
            let cells = rows.iter().filter_map(|row| row.cells.get(place));
            let numbers: Vec<f64> = cells.filter_map(TableCell::number).collect();
            has_changed |= column.choose_unit(&numbers);
        }
        has_changed
    }

    fn texts(&self, row: &Row) -> Vec<String> {
        let cells = self.columns.iter().zip(&row.cells);
        cells.map(|(column, cell)| column.text(cell)).collect()
    }

    fn has_unit_line(&self) -> bool {
        self.title.is_some() && self.columns.iter().any(|column| !column.unit_title().is_empty())
    }

    fn widen(&mut self, rows: &[Row], texts: &[Vec<String>]) {
        let has_unit_line = self.has_unit_line();
        for (place, (width, column)) in self.widths.iter_mut().zip(&self.columns).enumerate() {
            let head = column.head(has_unit_line);
            let cells = texts.iter().filter_map(|texts| texts.get(place));
            *width = widest(head.iter().chain(cells)).max(*width);
        }
        self.time_width = widest(rows.iter().map(|row| &row.time)).max(self.time_width);
    }

    /// Returns the columns of each panel.
    fn panels(&self) -> Vec<Vec<usize>> {
        let metrics = self.columns.iter().map(|column| column.metric);
        let all: Vec<(usize, usize)> = self.widths.iter().copied().zip(metrics).collect();
        let columns: Vec<(usize, usize)> = chosen(&all, &self.written).copied().collect();
        let panels = panels(&columns, self.width.saturating_sub(self.time_width));
        let places = |panel: Range<usize>| self.written.get(panel).unwrap_or_default().to_vec();
        panels.into_iter().map(places).collect()
    }

    /// Returns how many panels fit into a number of lines, at least one.
    fn fitting(&self, panels: &[Vec<usize>], rows: usize, max_lines: usize) -> usize {
        let mut used = 0;
        let mut fitting = 0;
        for panel in panels {
            // A rule, and the title or an empty line.
            used += self.heading(panel).len() + 2 + rows;
            if fitting > 0 && used > max_lines {
                break;
            }
            fitting += 1;
        }
        fitting
    }

    /// Leaves out the columns without a value, and those for which a number of lines still has no
    /// room. Returns the panels of the others.
    fn leave_out(&mut self, rows: &[Row], max_lines: usize) -> Vec<Vec<usize>> {
        let all = self.written.clone();
        let has_value = |place: &usize| {
            let mut cells = rows.iter().filter_map(|row| row.cells.get(*place));
            cells.any(|cell| *cell != TableCell::Missing)
        };
        if all.iter().any(has_value) {
            self.written.retain(has_value);
        }
        let mut panels = self.panels();
        panels.truncate(self.fitting(&panels, rows.len(), max_lines));
        self.written = panels.concat();
        self.left_out = all;
        self.left_out.retain(|place| self.written.binary_search(place).is_err());
        panels
    }

    /// Returns the lines of the head of a panel, each with a text for each column.
    fn heading(&self, panel: &[usize]) -> Vec<Vec<String>> {
        let has_unit_line = self.has_unit_line();
        let columns = chosen(&self.columns, panel);
        let heads: Vec<Vec<String>> = columns.map(|column| column.head(has_unit_line)).collect();
        let height = heads.iter().map(Vec::len).max().unwrap_or(0);
        let mut lines = Vec::new();
        for line in 0..height {
            // Heads are aligned at their last lines.
            let texts = heads.iter().map(|head| {
                let number = (line + head.len()).checked_sub(height);
                number.and_then(|number| head.get(number)).cloned().unwrap_or_default()
            });
            let texts = texts.collect::<Vec<_>>();
            // A line of units or times may have nothing to say about this panel.
            if self.title.is_none() || texts.iter().any(|text| !text.is_empty()) {
                lines.push(texts);
            }
        }
        lines
    }

    /// Appends the head of a panel and the rule below it, after an empty line from
    /// the second panel on.
    fn push_heading(&mut self, out: &mut Output, panel: &[usize]) {
        match &self.title {
            _ if self.begun => out.text.push(b'\n'),
            Some(title) if !title.is_empty() => {
                out.text.extend_from_slice(format!("{title}\n").as_bytes());
            }
            _ => {}
        }
        self.begun = true;
        let widths: Vec<usize> = chosen(&self.widths, panel).copied().collect();
        for texts in self.heading(panel) {
            push_line(out, "", self.time_width, &texts, &widths);
        }
        let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        push_line(out, &"-".repeat(self.time_width), self.time_width, &rule, &widths);
    }

    fn push_rows(
        &self,
        out: &mut Output,
        rows: &[Row],
        texts: &[Vec<String>],
        panel: &[usize],
    ) -> Result<(), Failure> {
        let widths: Vec<usize> = chosen(&self.widths, panel).copied().collect();
        for (row, texts) in rows.iter().zip(texts) {
            if let Some(event) = &row.event {
                let time_width = self.time_width;
                let line = format!("{:<time_width$}{:GAP$}{event}\n", row.time, "");
                out.text.extend_from_slice(line.as_bytes());
            } else if row.cells.is_empty() {
                push_line(out, &row.time, self.time_width, &["<mark>"], &[6]);
            } else {
                let cells: Vec<&String> = chosen(texts, panel).collect();
                push_line(out, &row.time, self.time_width, &cells, &widths);
            }
            out.spill()?;
        }
        Ok(())
    }

    /// Returns whether a table for people of this one row is a list: the columns do not fit next
    /// to each other.
    pub(crate) fn is_list(&mut self, row: &Row) -> bool {
        if self.begun || self.title.is_none() || row.cells.is_empty() {
            return false;
        }
        let rows = std::slice::from_ref(row);
        self.choose_units(rows);
        self.choose_written(rows);
        let texts = self.texts(row);
        self.widen(rows, &[texts]);
        self.panels().len() > 1
    }

    /// Writes a row as a list, in which each number has its own unit.
    pub(crate) fn write_list(&mut self, out: &mut Output, row: &Row) {
        if let Some(max_lines) = self.max_lines {
            let room = max_lines.saturating_sub(1).max(1).min(self.written.len());
            self.left_out = self.written.split_off(room);
        }
        let time = row.time.as_str();
        let title = self.title.as_deref().filter(|title| !title.is_empty());
        let title = title.map_or_else(|| time.to_owned(), |title| format!("{title} {time}"));
        out.text.extend_from_slice(format!("{title}\n").as_bytes());
        let columns: Vec<&TableColumn> = chosen(&self.columns, &self.written).collect();
        let width = widest(columns.iter().map(|column| &column.name));
        let values = columns.iter().zip(chosen(&row.cells, &self.written)).map(|(column, cell)| {
            let text = match (cell, column.scaled_from) {
                // A single number does not say whether it changes.
                (TableCell::Integer(number), _) => number.to_string(),
                (TableCell::Number(number), Some(units)) => scaled(*number, units),
                (TableCell::Number(_) | TableCell::Text(_), _) => {
                    return (column.text(cell), column.units.clone());
                }
                (TableCell::Missing, _) => MISSING.to_owned(),
            };
            let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
            (number.to_owned(), unit.to_owned())
        });
        let values: Vec<(String, String)> = values.collect();
        let number_width = widest(values.iter().map(|(number, _)| number));
        for (column, (number, unit)) in columns.iter().zip(values) {
            let line = format!("{:<width$}{:GAP$}{number:>number_width$} {unit}", column.name, "");
            out.text.extend_from_slice(line.trim_end().as_bytes());
            out.text.push(b'\n');
        }
    }
}

/// The part of the names that all columns of a table share; the title states it once.
#[derive(Default)]
struct CommonName {
    /// A branch of the name space, or a whole name.
    name: String,
    /// The names of the labels after which all instances are called.
    labels: Option<String>,
    /// The metrics whose instances have the same labels: the values alone are in the head.
    labelled: Vec<String>,
}

impl CommonName {
    fn find(columns: &[&Column]) -> Self {
        let Some((first, others)) = columns.split_first() else { return Self::default() };
        let is_one_metric = others.iter().all(|column| column.name == first.name);
        let has_instances = columns.iter().all(|column| column.instance_title().is_some());
        let name = if is_one_metric && has_instances {
            first.name.clone()
        } else if columns.iter().all(|column| is_metric_name(&column.name)) {
            common_branch(&first.name, others.iter().map(|column| column.name.as_str())).to_owned()
        } else {
            // The dots of an expression are inside of the names in it.
            String::new()
        };
        let mut labelled = Vec::new();
        let mut labels: Vec<Option<String>> = Vec::new();
        for of_metric in columns.chunk_by(|one, other| one.name == other.name) {
            let titles: Vec<_> = of_metric.iter().map(|column| column.instance_title()).collect();
            let has_instances = titles.iter().all(Option::is_some);
            let names = common_labels(titles.iter().flatten().map(|title| &**title));
            let names = names.filter(|_| has_instances);
            if names.is_some() {
                labelled.extend(of_metric.first().map(|column| column.name.clone()));
            }
            labels.push(names);
        }
        labels.dedup();
        let labels = if labels.len() == 1 { labels.pop().flatten() } else { None };
        Self { name, labels, labelled }
    }

    fn title(&self, text: &str) -> String {
        let mut title = shown(&self.name).into_owned();
        if let Some(labels) = &self.labels {
            title.push_str(" by ");
            title.push_str(&shown(labels));
        }
        if !title.is_empty() && !text.is_empty() {
            title.push_str(", ");
        }
        title.push_str(text);
        title
    }

    fn rest_of_name<'n>(&self, name: &'n str) -> &'n str {
        let rest = name.strip_prefix(self.name.as_str()).unwrap_or(name);
        rest.strip_prefix('.').unwrap_or(rest)
    }

    fn rest_of_instance(&self, name: &str, title: &str) -> String {
        let is_labelled = self.labelled.iter().any(|labelled| labelled == name);
        let values = label_values(title).filter(|_| is_labelled);
        values.unwrap_or_else(|| title.to_owned())
    }
}

pub(crate) fn row(report: &Report<'_>, zone: &Zone, sample: &Sample<'_>) -> Row {
    let cells = report
        .columns
        .iter()
        .map(|column| table_cell(cell(sample, column), column, report.precision))
        .collect();
    Row {
        at: sample.timestamp,
        event: None,
        time: report.time_text(zone, sample.timestamp),
        cells: if sample.is_mark { Vec::new() } else { cells },
    }
}

/// Returns a time of day with this many decimal places of the second, and the date if it has one.
pub(crate) fn time_text(
    zone: &Zone,
    timestamp: Timestamp,
    places: usize,
    has_date: bool,
) -> String {
    let mut time = Vec::new();
    if has_date {
        zone.push_date_time(&mut time, timestamp, places);
    } else {
        zone.push_time(&mut time, timestamp, places);
    }
    String::from_utf8_lossy(&time).into_owned()
}

/// Returns the cell of a value; floating-point numbers that are not scaled have `precision` decimal
/// places if that is given.
pub(crate) fn table_cell(
    value: Option<Value<'_>>,
    column: &Column,
    precision: Option<usize>,
) -> TableCell {
    let Some(value) = value else { return TableCell::Missing };
    if let Some(units) = column.scale.scaled_from
        && let Some(number) = value.as_f64()
    {
        return match value {
            Value::U32(whole) if units == Units::NONE => TableCell::Integer(whole.into()),
            Value::I32(whole) if units == Units::NONE => TableCell::Integer(whole.into()),
            Value::U64(whole) if units == Units::NONE => TableCell::Integer(whole.into()),
            Value::I64(whole) if units == Units::NONE => TableCell::Integer(whole.into()),
            _ => TableCell::Number(number),
        };
    }
    let mut text = Vec::new();
    push_plain(&mut text, value, precision.or(column.scale.is_computed.then_some(PLACES)));
    TableCell::Text(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the lines above a column: the name broken at its dots, an expression at its blanks, and
/// the instance, also broken at its commas in a table for people; control characters of names as
/// their bytes.
fn head_lines(name: &str, instance: Option<&str>, is_for_people: bool) -> Vec<String> {
    let name = shown(name);
    let mut lines = if name.is_empty() || is_metric_name(&name) {
        broken(&name, '.', NAME_WIDTH)
    } else {
        let longest = name.split(' ').map(str::len).max().unwrap_or(0);
        broken(&name, ' ', longest.max(NAME_WIDTH))
    };
    let Some(instance) = instance else { return lines };
    let instance = format!("[{}]", shown(instance));
    if is_for_people {
        lines.extend(broken(&instance, ',', NAME_WIDTH));
    } else {
        lines.push(instance);
    }
    lines
}

/// Returns what some places of a list have.
fn chosen<'l, T>(all: &'l [T], places: &'l [usize]) -> impl Iterator<Item = &'l T> {
    places.iter().filter_map(|place| all.get(*place))
}

fn widest<'t>(texts: impl Iterator<Item = &'t String>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0)
}

/// Returns the panels of columns, given by their widths and metrics, that fit next to each other,
/// at least one each. The columns of a metric are in one panel if they fit into one.
fn panels(columns: &[(usize, usize)], width: usize) -> Vec<Range<usize>> {
    let mut panels = Vec::new();
    let mut begin = 0;
    let mut used = 0;
    let mut before = None;
    for (place, (own, metric)) in columns.iter().enumerate() {
        let is_first_of_metric = before != Some(*metric) && *metric != usize::MAX;
        before = Some(*metric);
        let mut is_split = false;
        if is_first_of_metric {
            let of_metric = columns.iter().skip(place).take_while(|(_, other)| other == metric);
            let all: usize = of_metric.map(|(own, _)| GAP + own).sum();
            is_split = all <= width && used + all > width;
        }
        if place > begin && (is_split || used + GAP + own > width) {
            panels.push(begin..place);
            begin = place;
            used = 0;
        }
        used += GAP + own;
    }
    panels.push(begin..columns.len());
    panels
}

fn push_line(
    out: &mut Output,
    time: &str,
    time_width: usize,
    cells: &[impl Display],
    widths: &[usize],
) {
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

    fn column(name: &str, instance: Option<&str>) -> Column {
        Column {
            metric: 0,
            instance: None,
            number: None,
            name: name.to_owned(),
            instance_name: instance.map(Into::into),
            labels: crate::columns::Labels::new(),
            scale: Scale::default(),
        }
    }

    fn table(columns: &[(&str, Option<&str>)], title: Option<&str>, width: usize) -> Table {
        let place = |name: &str| columns.iter().position(|(other, _)| *other == name);
        let columns = columns.iter().map(|(name, instance)| {
            let metric = place(name).unwrap();
            Column { metric, ..column(name, *instance) }
        });
        let columns: Vec<Column> = columns.collect();
        Table::new(&columns.iter().collect::<Vec<_>>(), title, width)
    }

    #[test]
    fn a_long_name_is_broken_at_its_dots() {
        let lines = head_lines("mmv.acme.products.count", Some("Anvils"), false);
        assert_eq!(lines, ["mmv.acme.", "products.count", "[Anvils]"]);
        let lines = head_lines("jobs", Some("endpoint=/render,code=503"), true);
        assert_eq!(lines, ["jobs", "[endpoint=/render,", "code=503]"]);
    }

    #[test]
    fn an_expression_is_no_name_with_a_branch() {
        let ratio = "mmv.shop.hits / sum(mmv.shop.requests)";
        let table = table(&[(ratio, None)], Some("2023-11-14"), 80);
        assert_eq!(table.title.as_deref(), Some("2023-11-14"));
        assert_eq!(table.columns[0].lines, ["mmv.shop.hits /", "sum(mmv.shop.requests)"]);
    }

    #[test]
    fn an_instance_without_values_beside_others_has_no_column() {
        let columns = [("a.b", Some("x")), ("a.b", Some("y")), ("a.b", Some("z"))];
        let row = |time: &str, cells: [Option<&str>; 3]| {
            let cell = |text: Option<&str>| {
                text.map_or(TableCell::Missing, |text| TableCell::Text(text.to_owned()))
            };
            let cells = cells.map(cell).to_vec();
            Row { at: Timestamp::EPOCH, time: time.to_owned(), cells, event: None }
        };
        let written = |table: &mut Table, rows: &[Row]| {
            let mut out = Output::new();
            table.write_block(&mut out, rows).unwrap();
            String::from_utf8(out.text.split_off(0)).unwrap()
        };
        let mut people = table(&columns, Some("day"), 80);
        let first = written(&mut people, &[row("1", [Some("7"), None, None])]);
        assert_eq!(first, "a.b, day\n   [x]\n-  ---\n1    7\n");
        // One that comes later has a column from there on.
        let second = written(&mut people, &[row("2", [None, None, Some("9")])]);
        assert_eq!(second, "\n   [x]  [z]\n-  ---  ---\n2    -    9\n");
        let mut empty = table(&columns[..2], Some("day"), 80);
        let nothing = written(&mut empty, &[row("1", [None, None, None])]);
        assert_eq!(nothing, "a.b, day\n   [x]  [y]\n-  ---  ---\n1    -    -\n");
        let mut exact = table(&columns[..2], None, 80);
        let all = written(&mut exact, &[row("1", [Some("7"), None, None])]);
        assert!(all.contains("[x]  [y]"), "{all}");
    }

    #[test]
    fn metrics_without_values_give_way_to_others() {
        let columns = [("a.down", None), ("a.up", None), ("a.busy", None)];
        let row = |cells: [TableCell; 3]| Row {
            at: Timestamp::EPOCH,
            time: "1".to_owned(),
            cells: cells.to_vec(),
            event: None,
        };
        let text = |text: &str| TableCell::Text(text.to_owned());
        let written = |max_lines: usize, row: Row| {
            let mut table = table(&columns, Some("day"), 7);
            table.max_lines = Some(max_lines);
            let mut out = Output::new();
            table.write_block(&mut out, &[row]).unwrap();
            (String::from_utf8(out.text.split_off(0)).unwrap(), table.left_out)
        };
        let busy = || row([TableCell::Missing, text("3"), text("9")]);
        let (all, left_out) = written(100, busy());
        assert!(all.contains("down") && left_out.is_empty(), "{all}");
        let (some, left_out) = written(4, busy());
        assert!(some.contains("up") && !some.contains("down"), "{some}");
        assert_eq!(left_out, [0, 2]);
        let (none, left_out) = written(4, row([const { TableCell::Missing }; 3]));
        assert!(none.contains("down"), "{none}");
        assert_eq!(left_out, [1, 2]);
    }

    #[test]
    fn a_head_has_control_characters_as_their_bytes() {
        let lines = head_lines("a.x", Some("two\nlines \u{1b}[2J"), false);
        assert_eq!(lines, ["a.x", r"[two\x0alines \x1b[2J]"]);
    }

    #[test]
    fn what_all_names_have_in_common_is_in_the_title() {
        let heads = |columns: &[(&str, Option<&str>)]| {
            let table = table(columns, Some("2023-11-14"), 80);
            let names: Vec<String> =
                table.columns.iter().map(|column| column.name.clone()).collect();
            (table.title.unwrap_or_default(), names.join(" "))
        };
        let one = [("a.b.c", Some("path=/x")), ("a.b.c", Some("path=/y"))];
        assert_eq!(heads(&one), ("a.b.c by path, 2023-11-14".to_owned(), "[/x] [/y]".to_owned()));
        let two = [("a.b.c", None), ("a.b.c.p99", None), ("a.b.d", Some("path=/x,y,code=200"))];
        let (title, names) = heads(&two);
        assert_eq!(title, "a.b, 2023-11-14");
        assert_eq!(names, "c c.p99 d[path=/x,y,code=200]");
        let labels = [("a.b", Some("path=/x,code=200")), ("a.b", Some("path=/y,code=503"))];
        let title = "a.b by path, code, 2023-11-14".to_owned();
        assert_eq!(heads(&labels), (title, "[/x,200] [/y,503]".to_owned()));
        assert_eq!(heads(&[("a.b", None), ("c", None)]).1, "a.b c");
        assert_eq!(heads(&[("load", None)]).0, "2023-11-14");
    }

    fn block(table: &mut Table, rows: &[(&str, &[&str])]) -> String {
        let rows: Vec<Row> = rows
            .iter()
            .map(|(time, row)| Row {
                at: Timestamp::EPOCH,
                time: (*time).to_owned(),
                cells: row.iter().map(|text| TableCell::Text((*text).to_owned())).collect(),
                event: None,
            })
            .collect();
        let mut out = Output::new();
        table.write_block(&mut out, &rows).unwrap();
        String::from_utf8(out.text).unwrap()
    }

    #[test]
    fn a_later_block_continues_and_widens_the_table() {
        let mut table = table(&[("a", None), ("b", None)], None, 30);
        let first = block(&mut table, &[("1", &["7", "8"])]);
        assert_eq!(first, "   a  b\n-  -  -\n1  7  8\n");
        let wider = block(&mut table, &[("2", &["70", "8"]), ("3", &["7", "8"])]);
        assert_eq!(wider, "2  70  8\n3   7  8\n");
        assert_eq!(block(&mut table, &[]), "");
    }

    #[test]
    fn a_block_too_wide_is_panels_with_heads_from_there_on() {
        let mut table = table(&[("a", None), ("b", None)], None, 8);
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
        let panels_of = |widths: &[usize], width| {
            let columns: Vec<_> = widths.iter().map(|width| (*width, usize::MAX)).collect();
            panels(&columns, width)
        };
        assert_eq!(panels_of(&[10, 10, 10], 40), vec![Range { start: 0, end: 3 }]);
        assert_eq!(panels_of(&[10, 10, 10], 25), [0..2, 2..3]);
        assert_eq!(panels_of(&[50, 10], 25), [0..1, 1..2]);
    }

    #[test]
    fn columns_of_a_metric_are_in_one_panel() {
        let columns = [(10, 0), (10, 1), (10, 1), (50, 2), (10, 3)];
        assert_eq!(panels(&columns, 30), [0..1, 1..3, 3..4, 4..5]);
        assert_eq!(panels(&[(10, 0), (10, 1), (10, 1), (10, 1)], 30), [0..2, 2..4]);
    }

    #[test]
    fn a_million_columns_of_a_metric_are_divided_at_once() {
        assert_eq!(panels(&vec![(10, 0); 1_000_000], 24).len(), 500_000);
    }

    #[test]
    fn numbers_have_the_unit_that_suits_their_column() {
        let mut latency = column("a.latency", None);
        latency.scale.scaled_from = Some(Units::nanoseconds());
        let mut table = Table::new(&[&latency], Some(""), 80);
        let mut block = |numbers: &[f64]| {
            let row = |number: &f64| Row {
                at: Timestamp::EPOCH,
                time: "1".to_owned(),
                cells: vec![TableCell::Number(*number)],
                event: None,
            };
            let rows: Vec<Row> = numbers.iter().map(row).collect();
            let mut out = Output::new();
            table.write_block(&mut out, &rows).unwrap();
            String::from_utf8(out.text).unwrap()
        };
        assert_eq!(
            block(&[9.9e6, 4.4e7]),
            "a\n   latency\n        ms\n-  -------\n1     9.90\n1     44.0\n"
        );
        assert_eq!(block(&[1.2e9]), "1     1200\n");
        assert_eq!(block(&[1.2e12]), "\n   latency\n       min\n-  -------\n1       20\n");
    }

    #[test]
    fn numbers_without_a_unit_are_scaled_if_they_are_large_and_change() {
        let mut depth = column("a.depth", None);
        depth.scale.scaled_from = Some(Units::NONE);
        let block = |numbers: &[i128]| {
            let row = |number: &i128| Row {
                at: Timestamp::EPOCH,
                time: "1".to_owned(),
                cells: vec![TableCell::Integer(*number)],
                event: None,
            };
            let rows: Vec<Row> = numbers.iter().map(row).collect();
            let mut out = Output::new();
            let mut table = Table::new(&[&depth], Some(""), 80);
            table.write_block(&mut out, &rows).unwrap();
            String::from_utf8(out.text).unwrap()
        };
        let version = i128::from(u64::MAX);
        assert_eq!(
            block(&[1_234_567, 2_000_000]),
            "a\n   depth\n       M\n-  -----\n1   1.23\n1   2.00\n"
        );
        assert!(block(&[version; 2]).ends_with("1  18446744073709551615\n"));
        assert!(block(&[99_999, 7]).ends_with("1  99999\n1      7\n"));
    }

    #[test]
    fn a_single_row_that_does_not_fit_is_a_list() {
        let mut table = table(&[("a.b", None), ("a.cd", Some("x"))], Some(""), 8);
        let row = Row {
            at: Timestamp::EPOCH,
            time: "1".to_owned(),
            cells: vec![TableCell::Text("1000".to_owned()), TableCell::Missing],
            event: None,
        };
        assert!(table.is_list(&row));
        let mut out = Output::new();
        table.write_list(&mut out, &row);
        assert_eq!(String::from_utf8(out.text).unwrap(), "a 1\nb      1000\ncd[x]     -\n");
    }
}
