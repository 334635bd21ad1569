//! Rows that have the mean, the minimum and the maximum of their part of the window: a line
//! through them shows a spike of a single sample, however long the window is.

use std::collections::HashMap;
use std::time::Duration;

use pcp_archive::envelope::{Cell, Envelope, Grid, Options, Series};
use pcp_archive::replay::Replay;
use pcp_archive::scan::Selection;
use pcp_archive::{InstanceId, Pmid, Result, Semantics, Source, Value};

use super::{Clock, Reading, Row};
use crate::columns::Column;
use crate::groups::groups;
use crate::time::Window;

/// The most cells that are read in one pass: each takes 56 bytes until it is in a row.
const CELLS_AT_ONCE: usize = 1 << 17;

/// Returns the rows of these columns, one for about each `step`. Not for histograms, nor for
/// metrics that are computed.
///
/// # Errors
///
/// Those of the reader: damage is not passed by.
pub(super) fn rows(
    source: Source<'_>,
    replay: &Replay<'_>,
    columns: &[Column],
    options: Options,
    window: Window,
    step: Duration,
    clock: &Clock,
) -> Result<Vec<Row>> {
    let span = window.end.nanos_since(window.start).max(1);
    let count = u32::try_from(span / step.as_nanos().max(1) as i128).unwrap_or(u32::MAX).max(1);
    let grid = Grid::new(window.start..=window.end, count);
    let width = span as f64 / 1e9 / f64::from(grid.columns());
    let begin = clock.seconds(window.start);
    let mut rows: Vec<Row> = Vec::new();
    for column in 0..grid.columns() {
        rows.push((begin + width * (f64::from(column) + 0.5), vec![None; columns.len()]));
    }
    let mut selection = Selection::new(source);
    let mut places: HashMap<(Pmid, Option<InstanceId>), Vec<usize>> = HashMap::new();
    for (number, metric) in replay.metrics().enumerate() {
        selection.select(&metric.name);
        let own = columns.iter().enumerate().filter(|(_, column)| column.metric == number);
        for (place, column) in own {
            places.entry((metric.desc.pmid, column.instance)).or_default().push(place);
        }
    }
    for group in groups(&selection, grid.columns(), CELLS_AT_ONCE) {
        for series in Envelope::read(&group, grid.clone(), options)?.series {
            let Some(metric) = group.metrics().get(series.metric) else { continue };
            let is_discrete = metric.desc.semantics == Semantics::Discrete;
            for place in places.get(&(metric.desc.pmid, series.instance)).into_iter().flatten() {
                if let Some(column) = columns.get(*place) {
                    add(&series, *place, column, is_discrete, &mut rows);
                }
            }
        }
    }
    Ok(rows)
}

/// Adds a series. Between two observations that belong together, however far apart, a value is
/// on the line from one to the other, or as before where it is discrete.
fn add(series: &Series, place: usize, column: &Column, is_discrete: bool, rows: &mut [Row]) {
    let mut last: Option<(usize, f64)> = None;
    for (at, cell) in series.cells() {
        let at = at as usize;
        let reading = of_cell(cell, column);
        let both = last.filter(|_| cell.joined).zip(reading);
        if let Some(((from, before), Reading { value, .. })) = both {
            let rise = if is_discrete { 0.0 } else { (value - before) / (at - from) as f64 };
            let between = rows.get_mut(from + 1..at).into_iter().flatten();
            for (count, (_, row)) in (1_u32..).zip(between) {
                set(row, place, Reading { value: before + rise * f64::from(count), spread: None });
            }
        }
        if let (Some(reading), Some((_, row))) = (reading, rows.get_mut(at)) {
            set(row, place, reading);
        }
        last = reading.map(|reading| (at, reading.value));
    }
}

fn set(row: &mut [Option<Reading>], place: usize, reading: Reading) {
    if let Some(known) = row.get_mut(place) {
        *known = Some(reading);
    }
}

/// Returns the numbers of a cell in the units of a column. Infinity is on no axis.
fn of_cell(cell: &Cell, column: &Column) -> Option<Reading> {
    let number = |number| column.scale.apply(Value::Double(number)).as_f64();
    let least = number(cell.minimum)?;
    let greatest = number(cell.maximum)?;
    let spread = Some((least, greatest)).filter(|(least, greatest)| least < greatest);
    let value = number(cell.mean()).filter(|value| value.is_finite())?;
    (least.is_finite() && greatest.is_finite()).then_some(Reading { value, spread })
}
