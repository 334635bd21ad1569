//! The values next to a window: lines lead to them from the last value in it, and pass it where
//! it is between two samples.

use std::time::Duration;

use hashbrown::HashSet;
use pcp_archive::envelope::{Envelope, GoOn, Grid, Options};
use pcp_archive::scan::{SelectedMetric, Selection};
use pcp_archive::{Error, Pmid};

/// The most bytes of records that are searched on one side of a window.
const MAX_SEARCHED_BYTES: u64 = 16 << 20;
/// The least time that is searched, and how much longer each next part is.
const MIN_SEARCHED_TIME: Duration = Duration::from_secs(1);
const GROWTH: u32 = 4;
/// The columns of a part: narrow, so that one value alone is in a column.
const COLUMNS: u32 = 1 << 12;
/// The part of the columns at each end of a window that needs a value for none to be searched:
/// a page asks for half as much again on both sides of what it shows.
const EDGE: u32 = 4;

/// On which side of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Before,
    After,
}

/// Calls `found` with the nearest values on both sides of an envelope's window, of metrics that
/// have no value near that end of it. Rates have no neighbours: each has its time. False if
/// `go_on` ended it.
///
/// # Errors
///
/// Those of the reader.
pub(super) fn search(
    selection: &Selection<'_>,
    envelope: &Envelope,
    options: Options,
    go_on: GoOn<'_>,
    found: &mut dyn FnMut(Direction, &Selection<'_>, &Envelope),
) -> Result<bool, Error> {
    let source = selection.source();
    let (start, end) = envelope.grid.window().into_inner();
    for way in [Direction::Before, Direction::After] {
        let mut wanted = lacking(selection, envelope, options, way);
        let nanos = end.nanos_since(start).unsigned_abs();
        let mut length =
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).max(MIN_SEARCHED_TIME);
        while !wanted.metrics().is_empty() {
            let next = Duration::from_nanos(1);
            let (from, to) = match way {
                Direction::Before => (start.saturating_sub(length), start.saturating_sub(next)),
                Direction::After => (end.saturating_add(next), end.saturating_add(length)),
            };
            let from = from.max(source.start());
            let to = to.min(source.end());
            if from > to || source.bytes_of(&(from..=to)) > MAX_SEARCHED_BYTES {
                break;
            }
            let grid = Grid::new(from..=to, COLUMNS);
            let Some(part) = Envelope::read_while(&wanted, grid, options, go_on)? else {
                return Ok(false);
            };
            found(way, &wanted, &part);
            let known = pmids(&wanted, &part);
            wanted.retain(|metric| !known.contains(&metric.desc.pmid));
            let is_all = match way {
                Direction::Before => from <= source.start(),
                Direction::After => to >= source.end(),
            };
            if is_all {
                break;
            }
            length = length.saturating_mul(GROWTH);
        }
    }
    Ok(true)
}

/// Returns the metrics with values of which some series has none near an end of the window, or all.
fn lacking<'s>(
    selection: &Selection<'s>,
    envelope: &Envelope,
    options: Options,
    way: Direction,
) -> Selection<'s> {
    let columns = envelope.grid.columns();
    let edge = columns / EDGE;
    let mut short = HashSet::new();
    for series in &envelope.series {
        let is_near = match way {
            Direction::Before => series.runs.first().is_some_and(|run| run.columns.start < edge),
            Direction::After => {
                series.runs.last().is_some_and(|run| run.columns.end > columns - edge)
            }
        };
        let metric = selection.metrics().get(series.metric);
        short.extend(metric.filter(|_| !is_near).map(|metric| metric.desc.pmid));
    }
    let known = pmids(selection, envelope);
    let mut wanted = selection.clone();
    wanted.retain(|metric: &SelectedMetric| {
        let pmid = &metric.desc.pmid;
        let is_rate = options.rates && metric.has_rates();
        !is_rate && (short.contains(pmid) || !known.contains(pmid))
    });
    wanted
}

/// Returns the metrics that have a series.
fn pmids(selection: &Selection<'_>, envelope: &Envelope) -> HashSet<Pmid> {
    let metrics = envelope.series.iter().filter_map(|one| selection.metrics().get(one.metric));
    metrics.map(|metric| metric.desc.pmid).collect()
}
