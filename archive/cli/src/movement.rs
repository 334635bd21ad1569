//! How much metrics and programs move away from what is usual in a window, so that an incident is
//! the first thing that a page, a report or a plot shows.
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
//! A metric has the largest one of its instances, a histogram that of its p99. A program has the
//! largest one of its metrics, and again those of its histograms, errors and rates, each the largest
//! one: an incident is seen in several of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashSet;
use pcp_archive::scan::{SelectedMetric, Selection};
use pcp_archive::{Source, Timestamp};
use serde::Serialize;

use crate::Failure;
use crate::comparison::{ColumnSums, ObservedRun, RunHistogram};
use crate::explanation::fill_before_appearance;
use crate::groups::max_series;
use crate::order::{MovedSeries, branch, is_error, is_unnamed_machinery};

/// Limit on the columns of all series together, about 100 bytes each.
const MAX_CELLS: usize = 1 << 19;
/// Limit on the series; with more of them no movements are computed.
const MAX_SERIES: usize = 1 << 15;
/// Smallest movement that counts: that of a value half as high again as usual.
const MIN_MOVEMENT: f64 = 0.2;
/// Movement from which a metric is listed before the others of its program: that of a value three
/// times as high as usual.
const LEADING_MOVEMENT: f64 = 0.5;
/// Minimum number of values from which a usual level is derived.
const MIN_VALUES: usize = 8;
/// Observations per column from which a single column is not treated as an isolated peak.
const MIN_OBSERVATIONS: usize = 3;
/// Larger values are ignored, since their differences could overflow.
const MAX_VALUE: f64 = f64::MAX / 4.0;
const RANK: f64 = 0.99;

/// The longest window whose movements order the programs of a table that shows its end.
pub(crate) const CONTEXT: Duration = Duration::from_secs(86_400);

/// Limits on what is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MovementLimits {
    /// Limit on the columns of a window.
    columns: usize,
    /// Limit on the bytes of records; of a larger window only the last part is read.
    bytes: u64,
}

impl MovementLimits {
    /// Limits for a page, which reads a window once.
    pub(crate) const PAGE: Self = Self { columns: 1024, bytes: 128 << 20 };
    /// Limits for a table or picture, whose order should not cost noticeable time.
    pub(crate) const TABLE: Self = Self { columns: 256, bytes: 16 << 20 };
}

/// The movements in a window, without those of size 0.
#[derive(Debug, Default)]
pub(crate) struct Movements {
    pub(crate) metrics: Vec<Movement>,
    pub(crate) programs: BTreeMap<String, f64>,
}

/// The movement of a metric, or of an instance of a histogram.
#[derive(Debug, Serialize)]
pub(crate) struct Movement {
    name: String,
    /// Of a histogram.
    instance: Option<Arc<str>>,
    size: f64,
    #[serde(skip)]
    is_level: bool,
}

impl Movements {
    /// Reads the movements of the programs of a selection in a window.
    ///
    /// # Errors
    ///
    /// Those of the reader.
    pub(crate) fn read(
        mut selection: Selection<'_>,
        (start, end): (Timestamp, Timestamp),
        limits: MovementLimits,
    ) -> Result<Self, Failure> {
        selection.retain(|metric| metric.has_numbers() && !is_unnamed_machinery(&metric.name, &[]));
        let series = max_series(&selection);
        if series == 0 || series > MAX_SERIES {
            return Ok(Self::default());
        }
        let (start, end) = last_part(selection.source(), start, end, limits.bytes);
        if start >= end {
            return Ok(Self::default());
        }
        let columns = (MAX_CELLS / series).min(limits.columns) as u32;
        let mut run = ObservedRun::read_values(&selection, start..=end, columns)?;
        fill_before_appearance(&mut run);
        Ok(Self::of_run(&run, &selection))
    }

    fn of_run(run: &ObservedRun, selection: &Selection<'_>) -> Self {
        let metadata = selection.source().metadata();
        let errors = selection.metrics().iter().filter(|metric| is_error(metadata, metric));
        let errors: HashSet<&str> = errors.map(|metric| metric.name.as_str()).collect();
        let mut metrics: BTreeMap<&str, (Signal, f64)> = BTreeMap::new();
        for ((name, _), series) in &run.series {
            let signal = match series.is_rate {
                true if errors.contains(name.as_str()) => Signal::Errors,
                true => Signal::Rate,
                false => Signal::Level,
            };
            let size = Track::of_parts(&series.parts).movement();
            let (_, most) = metrics.entry(name).or_insert((signal, 0.0));
            *most = most.max(size);
        }
        let mut found = Self::default();
        let mut programs = BTreeMap::new();
        for (name, (signal, size)) in metrics {
            found.add(name, None, signal, size, &mut programs);
        }
        for ((name, instance), histogram) in &run.histograms {
            let size = Track::of_quantiles(histogram).movement();
            found.add(name, instance.clone(), Signal::Latency, size, &mut programs);
        }
        found.programs = programs.into_iter().map(|(name, of)| (name, of.size())).collect();
        found
    }

    /// Adds a movement to the list and to its program, unless it is too small.
    fn add(
        &mut self,
        name: &str,
        instance: Option<Arc<str>>,
        signal: Signal,
        size: f64,
        programs: &mut BTreeMap<String, ProgramSignals>,
    ) {
        if size < MIN_MOVEMENT {
            return;
        }
        programs.entry(branch(name).to_owned()).or_default().add(signal, size);
        let is_level = matches!(signal, Signal::Level);
        self.metrics.push(Movement { name: name.to_owned(), instance, size, is_level });
    }
}

/// Returns the movements of some metrics; none if there is only one program, or if the records cannot
/// be read, which is reported when their values are shown.
pub(crate) fn moved_series(
    source: Source<'_>,
    metrics: &[SelectedMetric],
    window: (Timestamp, Timestamp),
) -> MovedSeries {
    let programs: HashSet<&str> = metrics.iter().map(|metric| branch(&metric.name)).collect();
    if programs.len() < 2 {
        return MovedSeries::default();
    }
    let mut selection = Selection::new(source);
    for metric in metrics {
        selection.select(&metric.name);
    }
    let movements = Movements::read(selection, window, MovementLimits::TABLE).unwrap_or_default();
    let mut programs: Vec<(String, f64)> = movements.programs.into_iter().collect();
    programs.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let programs = programs.into_iter().map(|(name, _)| name).collect();
    let far =
        movements.metrics.into_iter().filter(|one| !one.is_level && one.size >= LEADING_MOVEMENT);
    MovedSeries { programs, metrics: far.map(|one| one.name).collect() }
}

/// The kind of a metric, by what it tells about its program.
#[derive(Debug, Clone, Copy)]
enum Signal {
    Latency,
    Errors,
    Rate,
    Level,
}

/// The largest movement of the metrics of a program, of each kind.
#[derive(Debug, Default)]
struct ProgramSignals {
    latency: f64,
    errors: f64,
    rate: f64,
    level: f64,
}

impl ProgramSignals {
    fn add(&mut self, signal: Signal, size: f64) {
        let most = match signal {
            Signal::Latency => &mut self.latency,
            Signal::Errors => &mut self.errors,
            Signal::Rate => &mut self.rate,
            Signal::Level => &mut self.level,
        };
        *most = most.max(size);
    }

    /// Returns the movement of the program. A level that moves alone, such as memory in use, counts
    /// less than what happened to requests.
    fn size(&self) -> f64 {
        let Self { latency, errors, rate, level } = *self;
        latency + errors + rate + latency.max(errors).max(rate).max(level)
    }
}

/// Returns the window, or the part at its end that is within the limit.
fn last_part(
    source: Source<'_>,
    start: Timestamp,
    end: Timestamp,
    max_bytes: u64,
) -> (Timestamp, Timestamp) {
    let end = end.min(source.end());
    let mut start = start.max(source.start());
    while start < end {
        let bytes = source.bytes_of(&(start..=end));
        if bytes <= max_bytes {
            break;
        }
        // Assumes records of equal length; otherwise the window is shortened repeatedly.
        let nanos = end.nanos_since(start);
        let part = nanos.saturating_mul(max_bytes.into()) / i128::from(bytes);
        start = Timestamp::from_nanos(end.as_nanos() - part.min(nanos - 1 - nanos / 16));
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
    fn what_happened_to_requests_moves_a_program_more_than_its_memory() {
        let program = |signals: &[(Signal, f64)]| {
            let mut all = ProgramSignals::default();
            for (signal, size) in signals {
                all.add(*signal, *size);
            }
            all.size()
        };
        let memory = program(&[(Signal::Level, 1.0), (Signal::Level, 0.9)]);
        let slow = program(&[(Signal::Latency, 0.8)]);
        let failing = program(&[(Signal::Latency, 0.8), (Signal::Errors, 0.9)]);
        assert!(failing > slow && slow > memory && memory > 0.0, "{failing} {slow} {memory}");
    }

    #[test]
    fn a_new_level_and_a_slow_rise_are_one_movement() {
        let level = movement_of(&values_with(100.0, 300.0, &[(20, 60)]), 1);
        assert!((level - 0.5).abs() < 1e-9, "{level}");
        let rise: Vec<f64> = (0..60).map(|at| 100.0 + 10.0 * f64::from(at)).collect();
        assert!(movement_of(&rise, 1) > MIN_MOVEMENT);
    }
}
