//! A table for reading: a line a time, a column an instance.
//!
//! Columns are as wide as their widest cell. Where they do not all fit beside
//! each other, the table is cut into panels, each with all lines and with the
//! times again, so nothing is ever wrapped or left out.

use std::ops::Range;

use super::columns::{Column, push_plain};
use super::{Failure, Output, Report, Sample};

/// What stands where there is no value.
const MISSING: &str = "-";
/// Names are broken at their dots to fit columns of this width.
const NAME_WIDTH: usize = 16;
/// Blanks between two columns.
const GAP: usize = 2;

/// One line: the time, and the cells of all columns; a mark has no cells.
struct Row {
    time: String,
    cells: Vec<String>,
}

/// Writes the table; returns the number of values in it.
pub(super) fn write<'a>(
    out: &mut Output,
    report: &Report<'a>,
    samples: impl Iterator<Item = Sample<'a>>,
) -> Result<u64, Failure> {
    let mut values = 0;
    let rows: Vec<Row> = samples
        .map(|sample| {
            let row = row(report, &sample);
            values += row.cells.iter().filter(|cell| *cell != MISSING).count() as u64;
            row
        })
        .collect();
    let heads: Vec<Vec<String>> = report.columns.iter().map(head).collect();
    let widths: Vec<usize> = (0..heads.len()).map(|column| width(column, &heads, &rows)).collect();
    let time_width = rows.iter().map(|row| row.time.len()).max().unwrap_or(0);
    for (number, panel) in
        panels(&widths, report.width.saturating_sub(time_width)).into_iter().enumerate()
    {
        if number > 0 {
            out.text.push(b'\n');
        }
        write_panel(out, &heads, &rows, &widths, time_width, panel)?;
    }
    Ok(values)
}

fn row(report: &Report<'_>, sample: &Sample<'_>) -> Row {
    let mut time = Vec::new();
    time.extend_from_slice(report.zone.strftime(sample.timestamp, "%Y-%m-%d ").as_bytes());
    report.zone.push_time(&mut time, sample.timestamp, report.places);
    let cells = report.columns.iter().map(|column| cell_text(sample, column)).collect();
    Row {
        time: String::from_utf8_lossy(&time).into_owned(),
        cells: if sample.is_mark { Vec::new() } else { cells },
    }
}

fn cell_text(sample: &Sample<'_>, column: &Column) -> String {
    match super::cell(sample, column) {
        None => MISSING.to_owned(),
        Some(value) => {
            let mut text = Vec::new();
            push_plain(&mut text, value);
            // A control character in a string must not break the table.
            let text = String::from_utf8_lossy(&text);
            text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
        }
    }
}

/// The lines above a column: the name broken at its dots, the instance, the
/// units.
fn head(column: &Column) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for part in column.name.split_inclusive('.') {
        match lines.last_mut() {
            Some(line) if line.is_empty() || line.len() + part.len() <= NAME_WIDTH => {
                line.push_str(part);
            }
            _ => lines.push(part.to_owned()),
        }
    }
    lines.extend(column.instance_name.as_deref().map(|name| format!("[{name}]")));
    if !column.units.is_empty() {
        lines.push(column.units.clone());
    }
    lines
}

fn width(column: usize, heads: &[Vec<String>], rows: &[Row]) -> usize {
    let head = heads.get(column).into_iter().flatten();
    let cells = rows.iter().filter_map(|row| row.cells.get(column));
    head.chain(cells).map(|text| text.chars().count()).max().unwrap_or(0)
}

/// The columns that fit beside each other, at least one a panel.
fn panels(widths: &[usize], room: usize) -> Vec<Range<usize>> {
    let mut panels = Vec::new();
    let mut begin = 0;
    let mut used = 0;
    for (column, width) in widths.iter().enumerate() {
        if column > begin && used + GAP + width > room {
            panels.push(begin..column);
            (begin, used) = (column, 0);
        }
        used += GAP + width;
    }
    panels.push(begin..widths.len());
    panels
}

fn write_panel(
    out: &mut Output,
    heads: &[Vec<String>],
    rows: &[Row],
    widths: &[usize],
    time_width: usize,
    panel: Range<usize>,
) -> Result<(), Failure> {
    let heads = heads.get(panel.clone()).unwrap_or_default();
    let widths = widths.get(panel.clone()).unwrap_or_default();
    let height = heads.iter().map(Vec::len).max().unwrap_or(0);
    for line in 0..height {
        // Heads stand on their column: the last lines are level.
        let text = |head: &Vec<String>| {
            (line + head.len())
                .checked_sub(height)
                .and_then(|i| head.get(i))
                .cloned()
                .unwrap_or_default()
        };
        push_line(out, "", time_width, &heads.iter().map(text).collect::<Vec<_>>(), widths);
    }
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    push_line(out, &"-".repeat(time_width), time_width, &rule, widths);
    for row in rows {
        if row.cells.is_empty() {
            push_line(out, &row.time, time_width, &["<mark>".to_owned()], &[6]);
        } else {
            push_line(
                out,
                &row.time,
                time_width,
                row.cells.get(panel.clone()).unwrap_or_default(),
                widths,
            );
        }
        out.spill()?;
    }
    Ok(())
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

    #[test]
    fn a_long_name_is_broken_at_its_dots() {
        let column = Column {
            metric: 0,
            instance: None,
            name: "mmv.acme.products.count".to_owned(),
            instance_name: Some("Anvils".into()),
            units: "count".to_owned(),
        };
        assert_eq!(head(&column), ["mmv.acme.", "products.count", "[Anvils]", "count"]);
    }

    #[test]
    fn panels_hold_what_fits_and_at_least_one_column() {
        assert_eq!(panels(&[10, 10, 10], 40), vec![Range { start: 0, end: 3 }]);
        assert_eq!(panels(&[10, 10, 10], 25), [0..2, 2..3]);
        assert_eq!(panels(&[50, 10], 25), [0..1, 1..2]);
    }
}
