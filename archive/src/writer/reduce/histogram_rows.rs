//! Rows at which all parts of a histogram are kept because of one of them.
//!
//! A histogram is reset as a whole, and replay adds what each bucket counted before and after. So
//! the values on both sides have to be kept of all buckets and of the sum, also of those that are
//! not less than before.
//!
//! A bucket that is logged for the first time was 0 in the record before. If a time of the grid is
//! between the two, a value there of the others would take the place of that record.

use crate::Timestamp;
use crate::analysis::growth::number::{Number, with_number};
use crate::analysis::growth::walls::{CounterOrigin, Wall};
use crate::scan::histogram::HistogramLayout;
use crate::scan::{ChunkRows, Column, Selection};

use super::grid::IntervalGrid;
use super::rows::RowsWithValues;

/// The metrics of each histogram in a selection, and such rows of a chunk.
#[derive(Debug)]
pub(super) struct HistogramRows {
    /// The places of the buckets and, if it was selected, of the sum.
    histograms: Vec<(Vec<usize>, Vec<Wall>)>,
}

impl HistogramRows {
    pub(super) fn new(selection: &Selection<'_>) -> Self {
        let metadata = selection.source().metadata();
        let metrics = selection.metrics();
        let histograms = metrics.iter().enumerate().filter_map(|(place, metric)| {
            let layout = HistogramLayout::find(metadata, &metric.name, &metric.desc)?;
            let sum = metrics.iter().position(|other| layout.sum() == Some(other.desc.pmid));
            Some(([place].into_iter().chain(sum).collect(), Vec::new()))
        });
        Self { histograms: histograms.collect() }
    }

    /// Finds those of a chunk. `last` returns the last value before it, by the places of a metric
    /// and of a column.
    pub(super) fn find(
        &mut self,
        chunk: &ChunkRows,
        grid: &IntervalGrid,
        last: impl Fn(usize, usize) -> Option<(Timestamp, u64)>,
    ) {
        for (places, walls) in &mut self.histograms {
            walls.clear();
            let mut rows: Vec<u32> = Vec::new();
            for &place in places.iter() {
                for (at, column) in chunk.columns(place).iter().enumerate() {
                    with_number!(
                        column.value_type(),
                        N => add_falls::<N>(column, last(place, at).map(|(_, word)| word), &mut rows),
                        else ()
                    );
                }
            }
            let columns = || places.iter().flat_map(|place| chunk.columns(*place));
            let times: Vec<Option<Timestamp>> = places
                .iter()
                .flat_map(|&place| {
                    let last = &last;
                    (0..chunk.columns(place).len()).map(move |at| last(place, at))
                })
                .map(|last| last.map(|(at, _)| at))
                .collect();
            let newest = times.iter().flatten().max().copied();
            let time_of = |place: usize| times.get(place).copied().flatten();
            let with_values = RowsWithValues::new(columns(), chunk.timestamps.len());
            rows.extend(with_values.new_over_grid(
                columns(),
                &chunk.timestamps,
                grid,
                newest,
                time_of,
            ));
            rows.sort_unstable();
            rows.dedup();
            for row in rows {
                let next = columns().filter_map(|column| column.rows().first_from(row));
                let Some(row) = next.map(|(_, row)| row).min() else { continue };
                let Some(&at) = chunk.timestamps.get(row as usize) else { continue };
                walls.push(Wall { row, origin: CounterOrigin::Unknown, at, is_birth: false });
            }
        }
    }

    /// Returns those of a metric, in the order of rows.
    pub(super) fn walls(&self, place: usize) -> Vec<Wall> {
        let own = self.histograms.iter().filter(|(places, _)| places.contains(&place));
        let mut walls: Vec<Wall> = own.flat_map(|(_, walls)| walls).copied().collect();
        walls.sort_unstable();
        walls
    }
}

/// Adds the rows after the values of a column that are followed by a smaller one.
fn add_falls<N: Number>(column: &Column, last: Option<u64>, rows: &mut Vec<u32>) {
    let falls = |before: u64, after: u64| {
        N::from_word(before).growth_to(N::from_word(after), false).is_none()
    };
    let words = column.words();
    if let (Some(last), Some(first)) = (last, words.first())
        && falls(last, *first)
    {
        rows.push(0);
    }
    for (place, pair) in words.windows(2).enumerate() {
        if let [before, after] = pair
            && falls(*before, *after)
        {
            rows.extend(column.rows().get(place).map(|row| row + 1));
        }
    }
}
