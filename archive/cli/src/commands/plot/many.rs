//! The rows of more lines than fit in memory.
//!
//! The window is read twice: first for the mean of each column, then for the columns with the
//! largest means and for the sums of the others. Memory grows with the number of columns and
//! with that of rows, not with their product.

use hashbrown::HashMap;
use pcp_archive::replay::{self, ReplaySelection};

use super::{Clock, Reading, Row, Sampling, Span, number};
use crate::Failure;
use crate::columns::Column;

/// The most readings that are kept of all columns; each takes about 100 bytes until it is drawn.
pub(super) const MAX_READINGS: u128 = 1 << 20;

/// The columns to draw, their rows, and the sums of all others.
pub(super) struct ReducedColumns {
    pub(super) columns: Vec<Column>,
    /// Readings of these columns, then those of the sums.
    pub(super) rows: Vec<Row>,
    pub(super) sums: Vec<SumOfOthers>,
}

/// The sum of the columns of a metric that are not drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SumOfOthers {
    pub(super) metric: usize,
    /// Its index in a row.
    pub(super) place: usize,
    /// The number of columns.
    pub(super) count: usize,
}

/// The values of a column in all rows.
#[derive(Debug, Clone, Copy)]
struct Tally {
    sum: f64,
    count: u32,
    /// The times of the first and the last value.
    first: f64,
    last: f64,
}

impl Tally {
    const EMPTY: Self = Self { sum: 0.0, count: 0, first: f64::INFINITY, last: f64::NEG_INFINITY };

    fn add(&mut self, other: Self) {
        self.sum += other.sum;
        self.count += other.count;
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

/// The treatment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It has this place in a row.
    Drawn(usize),
    /// It is part of the sum at this place.
    Summed(usize),
    /// It has no value.
    Dropped,
}

/// Reads the window for `top` columns of each metric, and those for which `is_kept`.
pub(super) fn reduce(
    selection: &ReplaySelection<'_>,
    columns: Vec<Column>,
    top: usize,
    is_kept: &dyn Fn(&Column) -> bool,
    span: &Span,
    sampling: Sampling,
    clock: &Clock,
) -> Result<ReducedColumns, Failure> {
    let tallies = tallies(selection, &columns, span, sampling, clock)?;
    let (fates, sums) = choose(&columns, &tallies, top, is_kept);
    let drawn = fates.iter().filter(|fate| matches!(fate, Fate::Drawn(_))).count();
    let len = drawn + sums.len();
    let row = |sample: &replay::Sample<'_>, seconds: f64| {
        let mut row = vec![None; len];
        let mut gaps = vec![false; len];
        for ((column, fate), tally) in columns.iter().zip(&fates).zip(&tallies) {
            let (Fate::Drawn(place) | Fate::Summed(place)) = *fate else { continue };
            let Some(value) = number(sample, column) else {
                let is_gap = tally.first < seconds && seconds < tally.last;
                if let Some(gap) = gaps.get_mut(place) {
                    *gap |= is_gap;
                }
                continue;
            };
            if let Some(reading) = row.get_mut(place) {
                let before = reading.map_or(0.0, |reading: Reading| reading.value);
                *reading = Some(Reading { value: before + value, spread: None });
            }
        }
        for (reading, is_gap) in row.iter_mut().zip(gaps) {
            *reading = reading.filter(|_| !is_gap);
        }
        (seconds, row)
    };
    let mut rows = Vec::new();
    selection.clone().window(span.clone(), sampling.step, sampling.step)?.for_each(
        |replay, span| {
            let samples = replay::times(span, sampling.step).filter_map(|timestamp| {
                let sample = sampling.sample_at(replay, timestamp)?;
                Some(row(&sample, clock.seconds(timestamp)))
            });
            Ok::<Vec<Row>, Failure>(samples.collect())
        },
        |more| {
            rows.extend(more);
            Ok(())
        },
    )?;
    let mut all = columns.into_iter().zip(fates);
    let columns = all.by_ref().filter(|(_, fate)| matches!(fate, Fate::Drawn(_)));
    Ok(ReducedColumns { columns: columns.map(|(column, _)| column).collect(), rows, sums })
}

/// Returns the means of columns, and the times between which they have values.
fn tallies(
    selection: &ReplaySelection<'_>,
    columns: &[Column],
    span: &Span,
    sampling: Sampling,
    clock: &Clock,
) -> Result<Vec<Tally>, Failure> {
    let mut tallies = vec![Tally::EMPTY; columns.len()];
    selection.clone().window(span.clone(), sampling.step, sampling.step)?.for_each(
        |replay, span| {
            let mut tallies = vec![Tally::EMPTY; columns.len()];
            for timestamp in replay::times(span, sampling.step) {
                let Some(sample) = sampling.sample_at(replay, timestamp) else { continue };
                let seconds = clock.seconds(timestamp);
                for (tally, column) in tallies.iter_mut().zip(columns) {
                    if let Some(value) = number(&sample, column) {
                        tally.add(Tally { sum: value, count: 1, first: seconds, last: seconds });
                    }
                }
            }
            Ok::<Vec<Tally>, Failure>(tallies)
        },
        |more| {
            tallies.iter_mut().zip(more).for_each(|(tally, more)| tally.add(more));
            Ok(())
        },
    )?;
    Ok(tallies)
}

/// Decides which columns are drawn: those with the largest means of each metric.
fn choose(
    columns: &[Column],
    tallies: &[Tally],
    top: usize,
    is_kept: &dyn Fn(&Column) -> bool,
) -> (Vec<Fate>, Vec<SumOfOthers>) {
    let mut of_metric: HashMap<usize, Vec<(f64, usize)>> = HashMap::new();
    for (place, (column, tally)) in columns.iter().zip(tallies).enumerate() {
        if let Some(mean) = tally.mean().filter(|_| !is_kept(column)) {
            of_metric.entry(column.metric).or_default().push((mean, place));
        }
    }
    let mut is_drawn: Vec<bool> = columns.iter().map(is_kept).collect();
    let mut summed: Vec<(usize, Vec<usize>)> = Vec::new();
    for (metric, mut ranked) in of_metric {
        ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let others = ranked.split_off(top.min(ranked.len()));
        for (_, place) in ranked {
            if let Some(is_drawn) = is_drawn.get_mut(place) {
                *is_drawn = true;
            }
        }
        if !others.is_empty() {
            summed.push((metric, others.into_iter().map(|(_, place)| place).collect()));
        }
    }
    summed.sort_unstable_by_key(|(metric, _)| *metric);
    let mut places = 0..;
    let mut fates = Vec::new();
    for is_drawn in is_drawn {
        let place = if is_drawn { places.next() } else { None };
        fates.push(place.map_or(Fate::Dropped, Fate::Drawn));
    }
    let mut sums = Vec::new();
    for (metric, others) in summed {
        let Some(place) = places.next() else { break };
        sums.push(SumOfOthers { metric, place, count: others.len() });
        for other in others {
            if let Some(fate) = fates.get_mut(other) {
                *fate = Fate::Summed(place);
            }
        }
    }
    (fates, sums)
}
