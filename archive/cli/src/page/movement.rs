//! How much what a chart shows moves away from what is usual, so that the charts of an incident are
//! the first ones of a page.
//!
//! The movement of a series is a number from 0 to 1:
//!
//! | series | movement |
//! |---|---|
//! | constant, or peaks of single samples where each has a column | 0 |
//! | from 100 to 120 for some time | 0, less than [`MIN_MOVEMENT`] |
//! | from 5 to 80 for some time | (80 - 5) / (80 + 5) = 0.88 |
//! | the same four times | 0.22 |
//! | from 0 to anything for some time | 1 |
//!
//! A metric has the largest one of its instances, a histogram that of its p99.

use std::collections::BTreeMap;
use std::sync::Arc;

use pcp_archive::Timestamp;
use pcp_archive::scan::Selection;
use serde::Serialize;

use super::series::max_series;
use super::sides::Side;
use crate::comparison::{ColumnSums, ObservedRun, RunHistogram, RunOptions};
use crate::explanation::fill_before_appearance;
use crate::time::Window;
use crate::{Failure, order};

/// The most columns that a window is divided into.
const MAX_COLUMNS: usize = 1024;
/// The most columns of all series together, about 100 bytes each.
const MAX_CELLS: usize = 1 << 19;
/// With more series than this, no movements are computed.
const MAX_SERIES: usize = 1 << 15;
/// The most bytes of records that are read: of more, those of the last part of the window. They
/// are read in a fifth of a second.
const MAX_BYTES: u64 = 128 << 20;
/// The least movement: of a value that is half as high again as usual.
const MIN_MOVEMENT: f64 = 0.2;
/// The fewest values from which a usual level is derived.
const MIN_VALUES: usize = 8;
/// Observations per column from which a single column is not treated as an isolated peak.
const MIN_OBSERVATIONS: usize = 3;
/// Larger values are ignored, since their differences could overflow.
const MAX_VALUE: f64 = f64::MAX / 4.0;
const RANK: f64 = 0.99;

/// The movement of a metric, or of an instance of a histogram. Those that do not move have none.
#[derive(Debug, Serialize)]
pub(crate) struct Movement {
    side: usize,
    name: String,
    /// Of a histogram.
    instance: Option<Arc<str>>,
    size: f64,
}

/// Returns what moves in a window of the page, of the programs of a side.
///
/// # Errors
///
/// Those of the reader.
pub(crate) fn movements(
    place: usize,
    side: &Side,
    mut selection: Selection<'_>,
    window: Window,
) -> Result<Vec<Movement>, Failure> {
    selection
        .retain(|metric| metric.has_numbers() && !order::is_unnamed_machinery(&metric.name, &[]));
    let series = max_series(&selection);
    if series == 0 || series > MAX_SERIES {
        return Ok(Vec::new());
    }
    let (start, end) = last_part(side, window);
    if start >= end {
        return Ok(Vec::new());
    }
    let columns = (MAX_CELLS / series).min(MAX_COLUMNS) as u32;
    let options = RunOptions { columns, past_damage: true, ..RunOptions::default() };
    let mut run = ObservedRun::read(&selection, start..=end, options)?;
    fill_before_appearance(&mut run);
    let mut metrics: BTreeMap<&str, f64> = BTreeMap::new();
    for ((name, _), series) in &run.series {
        let most = metrics.entry(name).or_default();
        *most = most.max(Track::of_parts(&series.parts).movement());
    }
    let metrics = metrics.into_iter().map(|(name, size)| (name, None, size));
    let histograms = run.histograms.iter().map(|((name, instance), histogram)| {
        (name.as_str(), instance.clone(), Track::of_quantiles(histogram).movement())
    });
    let all = metrics.chain(histograms).filter(|(_, _, size)| *size >= MIN_MOVEMENT);
    let all = all.map(|(name, instance, size)| {
        let name = name.to_owned();
        Movement { side: place, name, instance, size }
    });
    Ok(all.collect())
}

/// Returns the window in the times of a side, or as much of its end as is read.
fn last_part(side: &Side, window: Window) -> (Timestamp, Timestamp) {
    let source = side.source();
    let own = side.own_window(window);
    let end = own.end.min(source.end());
    let mut start = own.start.max(source.start());
    while start < end && source.bytes_of(&(start..=end)) > MAX_BYTES {
        let half = end.nanos_since(start) / 2;
        start = Timestamp::from_nanos(end.as_nanos() - half);
    }
    (start, end)
}

/// The values of the columns in which an observation ends.
#[derive(Debug, Default)]
struct Track {
    values: Vec<f64>,
    observations: usize,
}

impl Track {
    fn of_parts(parts: &[ColumnSums]) -> Self {
        let mut track = Self::default();
        let mut sums = ColumnSums::default();
        for part in parts {
            sums.add(*part);
            if part.observations > 0 && sums.denominator > 0.0 {
                track.values.push(sums.numerator / sums.denominator);
                track.observations += sums.observations as usize;
                sums = ColumnSums::default();
            }
        }
        track
    }

    fn of_quantiles(histogram: &RunHistogram) -> Self {
        let columns = &histogram.columns;
        let mut track = Self::default();
        let mut first = 0;
        for (column, observations) in columns.observations.iter().enumerate() {
            if *observations > 0 {
                track.values.extend(columns.quantile_of_columns(RANK, first..column + 1));
                track.observations += *observations as usize;
                first = column + 1;
            }
        }
        track
    }

    fn movement(mut self) -> f64 {
        self.values.retain(|value| value.abs() < MAX_VALUE);
        // The mean of several samples has no peak of one.
        if self.observations < MIN_OBSERVATIONS * self.values.len() {
            self.values = without_peaks(&self.values);
        }
        movement(&self.values)
    }
}

/// Returns how far the values are away from the usual one, relative to both, when they are furthest
/// from it, divided by the number of times at which they are half as far away or more.
fn movement(values: &[f64]) -> f64 {
    if values.len() < MIN_VALUES {
        return 0.0;
    }
    let usual = median(&mut values.to_vec());
    let furthest = |one: f64, other: f64| {
        if (other - usual).abs() > (one - usual).abs() { other } else { one }
    };
    let furthest = values.iter().copied().fold(usual, furthest);
    let distance = (furthest - usual).abs();
    if distance <= 0.0 {
        return 0.0;
    }
    let away = values.iter().map(|value| (value - usual).abs() > distance / 2.0);
    let away: Vec<bool> = away.collect();
    let times = away.chunk_by(|one, next| one == next).filter(|run| run.first() == Some(&true));
    distance / (furthest.abs() + usual.abs()) / times.count() as f64
}

/// Returns the median of each three values that follow each other.
fn without_peaks(values: &[f64]) -> Vec<f64> {
    values.windows(3).map(|three| median(&mut three.to_vec())).collect()
}

fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    let (_, median, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    *median
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sixty values: `during` from some places to others, else `usual`.
    fn values_with(usual: f64, during: f64, parts: &[(usize, usize)]) -> Vec<f64> {
        let is_during = |at: &usize| parts.iter().any(|(from, to)| (from..to).contains(&at));
        (0..60).map(|at| if is_during(&at) { during } else { usual }).collect()
    }

    /// Returns the movement of values with this number of observations each.
    fn movement_of(values: &[f64], observations: usize) -> f64 {
        let observations = observations * values.len();
        Track { values: values.to_vec(), observations }.movement()
    }

    #[test]
    fn a_large_and_lasting_change_moves_most() {
        let incident = movement_of(&values_with(5.0, 80.0, &[(30, 40)]), 1);
        let slower = movement_of(&values_with(5.0, 10.0, &[(30, 40)]), 1);
        let batches =
            movement_of(&values_with(5.0, 80.0, &[(3, 6), (20, 24), (35, 39), (50, 55)]), 1);
        let errors = movement_of(&values_with(0.0, 1.0, &[(30, 40)]), 1);
        assert!((incident - 75.0 / 85.0).abs() < 1e-9, "{incident}");
        assert!((batches - incident / 4.0).abs() < 1e-9, "{batches}");
        assert!(errors > incident && incident > slower && slower > batches);
    }

    #[test]
    fn noise_constants_and_single_peaks_hardly_move() {
        let noise: Vec<f64> = (0..200_u32).map(|at| f64::from(at * 7919 % 101)).collect();
        for values in [&noise, &values_with(5.0, 500.0, &[(30, 31)]), &vec![7.0; 50]] {
            assert!(movement_of(values, 1) < MIN_MOVEMENT, "{values:?}");
        }
        assert!(
            movement_of(&[1.0, 9.0, 9.0, 9.0], 1) < MIN_MOVEMENT,
            "few values have no usual one"
        );
        let broken = [f64::NAN, f64::INFINITY, 0.0, f64::MAX].repeat(10);
        assert!((0.0..=1.0).contains(&movement_of(&broken, 1)));
    }

    #[test]
    fn a_column_of_many_samples_is_no_peak() {
        let values = values_with(5.0, 80.0, &[(30, 31)]);
        assert!(movement_of(&values, 1) < MIN_MOVEMENT);
        assert!(movement_of(&values, 60) > 0.8);
    }

    #[test]
    fn a_new_level_and_a_slow_rise_are_one_movement() {
        let level = movement_of(&values_with(100.0, 300.0, &[(20, 60)]), 1);
        assert!((level - 0.5).abs() < 1e-9, "{level}");
        let rise: Vec<f64> = (0..60).map(|at| 100.0 + 10.0 * f64::from(at)).collect();
        assert!(movement_of(&rise, 1) > MIN_MOVEMENT);
    }
}
