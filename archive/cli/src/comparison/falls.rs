//! Falls of counters: in archives without the events of an agent they tell that a program
//! restarted.
//!
//! Not all counters of a program fall in the record of a restart: an instance may be counted again
//! only minutes later. What fell between a value and the next one fell in one of the records
//! between them, so the falls of a program are the fewest records that all its counters allow:
//!
//! | record | `code=200` | `code=500` | |
//! |---|---|---|---|
//! | 0 | 100 | 15 | |
//! | 1 | 2 | - | the fall: `code=200` is less |
//! | 2 | 9 | 1 | `code=500` is less than in record 0, so it fell in record 1 as well |

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use pcp_archive::envelope::Grid;
use pcp_archive::internal::programs::events_name;
use pcp_archive::scan::{Chunk, Column, Columns, Selection};
use pcp_archive::{Pmid, Timestamp, ValueType};

use super::program_of;
use crate::Failure;

/// A fall of a counter of 32 bits by more than this is an overflow.
const HALF_RANGE: f64 = (1_u64 << 31) as f64;

/// The value of a counter before the next one, and its time.
type LastValue = Option<(Timestamp, f64)>;

/// The first fall of the counters of a program in a column of a run.
#[derive(Debug, PartialEq)]
pub(crate) struct Fall {
    /// The time of the first value after it.
    pub(crate) at: Timestamp,
    /// The program of a metric `mmv.PROGRAM.NAME`; of others the metric.
    pub(crate) program: String,
    /// The places of the program's metrics in the selection: those with its cluster.
    pub(super) metrics: Vec<usize>,
}

/// Returns the falls of some counters in a window; none of an archive with the events of an agent,
/// which says when programs restarted. `interrupted` has the places in the selection of all counters
/// that may have fallen. `past_damage` returns the falls before the first damage.
///
/// # Errors
///
/// Those of the scan.
pub(crate) fn read_falls(
    selection: &Selection<'_>,
    interrupted: &BTreeSet<usize>,
    grid: &Grid,
    past_damage: bool,
) -> Result<Vec<Fall>, Failure> {
    if interrupted.is_empty() || events_name(selection.source()).is_some() {
        return Ok(Vec::new());
    }
    let mut counters = selection.clone();
    let may_fall = interrupted.iter().filter_map(|place| selection.metrics().get(*place));
    let may_fall: BTreeSet<Pmid> = may_fall.map(|metric| metric.desc.pmid).collect();
    counters.retain(|metric| may_fall.contains(&metric.desc.pmid));
    let mut last_values = HashMap::new();
    let mut last_falls: HashMap<(u32, u32), Timestamp> = HashMap::new();
    let mut found = BTreeMap::new();
    let mut columns = match Columns::open(&counters, grid.window().clone()) {
        Err(error) if past_damage && error.is_damage() => return Ok(Vec::new()),
        opened => opened?,
    };
    loop {
        let chunk = match columns.next_chunk() {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break,
            Err(error) if past_damage && error.is_damage() => break,
            Err(error) => return Err(error.into()),
        };
        let mut decreases = Vec::new();
        for place in 0..counters.metrics().len() {
            for column in chunk.columns(place) {
                let last: &mut LastValue =
                    last_values.entry((place, column.instance())).or_default();
                add_decreases(chunk, column, last, |decrease| decreases.push((decrease, place)));
            }
        }
        decreases.sort_by_key(|(decrease, place)| (decrease.at, *place));
        for (Decrease { since, at }, place) in decreases {
            let Some(metric) = counters.metrics().get(place) else { continue };
            let cluster = cluster_of(metric.desc.pmid);
            if last_falls.get(&cluster).is_none_or(|last| *last <= since) {
                last_falls.insert(cluster, at);
                found.entry((cluster, grid.column_of(at))).or_insert((at, place));
            }
        }
    }
    let mut places: HashMap<(u32, u32), Vec<usize>> = HashMap::new();
    for (place, metric) in selection.metrics().iter().enumerate() {
        places.entry(cluster_of(metric.desc.pmid)).or_default().push(place);
    }
    let mut falls = Vec::new();
    for ((cluster, _), (at, place)) in found {
        let Some(metric) = counters.metrics().get(place) else { continue };
        falls.push(Fall {
            at,
            program: program_of(&metric.name).unwrap_or(&metric.name).to_owned(),
            metrics: places.get(&cluster).cloned().unwrap_or_default(),
        });
    }
    Ok(falls)
}

/// The times of a value and the next one, which is less.
struct Decrease {
    since: Timestamp,
    at: Timestamp,
}

/// Calls a function with each decrease in a column, unless there is a mark in between. `last` is the
/// value before the column.
fn add_decreases(
    chunk: &Chunk,
    column: &Column,
    last: &mut LastValue,
    mut add: impl FnMut(Decrease),
) {
    let has_32_bits = matches!(column.value_type(), ValueType::I32 | ValueType::U32);
    let mut marks = chunk.marks().iter().copied().peekable();
    for (row, value) in column.numbers() {
        let Some(at) = chunk.timestamps().get(row as usize).copied() else { continue };
        while marks.next_if(|mark| *mark < row).is_some() {
            *last = None;
        }
        if let Some((since, before)) = *last
            && value < before
            && !(has_32_bits && before - value > HALF_RANGE)
        {
            add(Decrease { since, at });
        }
        *last = Some((at, value));
    }
    if marks.next().is_some() {
        *last = None;
    }
}

fn cluster_of(pmid: Pmid) -> (u32, u32) {
    (pmid.domain(), pmid.cluster())
}

#[cfg(test)]
mod tests {
    use pcp_archive::Archive;
    use test_archives::{Builder, at};

    use super::*;

    #[test]
    fn falls_are_those_of_clusters_and_neither_marks_nor_overflows() {
        let row = |second: u64| {
            let orders = if second < 50 { 500 + second } else { second };
            let bytes = (u64::from(u32::MAX) - 70_000 + 1_000 * second) % (1 << 32);
            let seen = if second < 80 { 1_000 + second } else { second };
            let mut cells = vec![
                ("mmv.shop.orders", orders),
                ("mmv.shop.carts", 7),
                ("disk.bytes", bytes),
                ("net.seen", seen),
            ];
            // It is counted again long after the restart.
            if !(50..70).contains(&second) {
                cells.push(("mmv.shop.returns", if second < 50 { 9 } else { 2 }));
            }
            (second, cells)
        };
        let archive = Builder::new()
            .metric_with(Pmid::new(70, 5, 1).unwrap(), "mmv.shop.carts", "u64 instant count")
            .metric_with(Pmid::new(70, 5, 2).unwrap(), "mmv.shop.orders", "u64 counter count")
            .metric_with(Pmid::new(70, 5, 3).unwrap(), "mmv.shop.returns", "u64 counter count")
            .metric_with(Pmid::new(60, 5, 1).unwrap(), "disk.bytes", "u32 counter byte")
            .metric_with(Pmid::new(60, 6, 1).unwrap(), "net.seen", "u64 counter count")
            .rows((0..80).map(row))
            .mark_at(at(79.5))
            .rows((80..100).map(row))
            .finish();
        let archive = Archive::open(archive.base()).unwrap();
        let mut selection = Selection::new(&archive);
        selection.select("");
        let grid = Grid::new(at(0)..=at(99), 128);
        let interrupted = (0..selection.metrics().len()).collect();
        let falls = read_falls(&selection, &interrupted, &grid, false).unwrap();
        let names = |fall: &Fall| {
            let metrics = fall.metrics.iter();
            metrics.map(|place| selection.metrics()[*place].name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(falls.len(), 1, "{falls:?}");
        assert_eq!((falls[0].at, falls[0].program.as_str()), (at(50), "shop"));
        assert_eq!(names(&falls[0]), ["mmv.shop.carts", "mmv.shop.orders", "mmv.shop.returns"]);
    }
}
