//! Rows of which each has the mean, the least and the greatest value of its part of the
//! window: a line through them shows a spike of a single sample, however long the window is.

use std::collections::HashMap;
use std::time::Duration;

use pcp_archive::envelope::{Cell, Envelope, Grid, Options};
use pcp_archive::replay::Replay;
use pcp_archive::scan::Selection;
use pcp_archive::{InstanceId, Pmid, Result, Value};

use super::{Clock, Reading, Row};
use crate::columns::Column;
use crate::time::Window;

/// The rows of these columns, one for about each `step`. Not for histograms, nor for metrics
/// that are computed.
pub(super) fn rows(
    selection: &Selection<'_>,
    (replay, columns): (&Replay<'_>, &[Column]),
    options: Options,
    (window, step): (Window, Duration),
    clock: &Clock,
) -> Result<Vec<Row>> {
    let span = window.end.nanos_since(window.start).max(1);
    let count = u32::try_from(span / step.as_nanos().max(1) as i128).unwrap_or(u32::MAX).max(1);
    let grid = Grid::new(window.start..=window.end, count);
    let width = span as f64 / 1e9 / f64::from(grid.columns());
    let begin = clock.seconds(window.start);
    let time = |column: u32| begin + width * (f64::from(column) + 0.5);
    let mut rows: Vec<Row> =
        (0..grid.columns()).map(|column| (time(column), vec![None; columns.len()])).collect();
    let envelope = Envelope::read(selection, grid, options)?;
    let mut places: HashMap<(Pmid, Option<InstanceId>), Vec<usize>> = HashMap::new();
    let pmids: Vec<Pmid> = replay.metrics().map(|metric| metric.desc.pmid).collect();
    for (place, column) in columns.iter().enumerate() {
        if let Some(pmid) = pmids.get(column.metric) {
            places.entry((*pmid, column.instance)).or_default().push(place);
        }
    }
    for series in &envelope.series {
        let metric = selection.metrics().get(series.metric);
        let key = metric.map(|metric| (metric.desc.pmid, series.instance));
        for place in key.and_then(|key| places.get(&key)).into_iter().flatten() {
            let Some(column) = columns.get(*place) else { continue };
            for (at, cell) in series.cells() {
                let row = rows.get_mut(at as usize).and_then(|(_, row)| row.get_mut(*place));
                if let Some(reading) = row {
                    *reading = of_cell(cell, column);
                }
            }
        }
    }
    Ok(rows)
}

/// The numbers of a cell in the units of a column. Infinity is on no axis.
fn of_cell(cell: &Cell, column: &Column) -> Option<Reading> {
    let number = |number| column.scale.apply(Value::Double(number)).as_f64();
    let (least, greatest) = (number(cell.minimum)?, number(cell.maximum)?);
    let spread = Some((least, greatest)).filter(|(least, greatest)| least < greatest);
    let value = number(cell.mean()).filter(|value| value.is_finite())?;
    (least.is_finite() && greatest.is_finite()).then_some(Reading { value, spread })
}
