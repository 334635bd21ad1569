//! One series of numbers by column for each statistic of a run.

use std::collections::BTreeMap;
use std::ops::Range;

use pcp_archive::Units;

use super::contrast::{StrongestContrasts, strongest_contrasts};
use crate::comparison::{ColumnSums, ObservedRun, RunHistogram, SeriesName, Statistic};

/// The quantiles of histograms that are examined. The lower ones show what moves between buckets
/// below the median, where the others see nothing.
const RANKS: [f64; 5] = [0.1, 0.25, 0.5, 0.9, 0.99];

/// Least number of columns before the window that tell what is usual.
const MIN_COLUMNS_BEFORE: usize = 96;

/// Least ratio of the value of a quantile in the whole time to the usual one to examine both.
const MIN_FAR: f64 = 2.0;

/// A statistic of one instance of a metric.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Subject {
    pub(super) name: SeriesName,
    pub(super) statistic: Statistic,
    /// For a quantile, its usual value before the window; the series is the share of values above it.
    pub(super) limit: f64,
}

/// The columns with a value, in order, and the values.
#[derive(Debug, Clone, Default)]
pub(super) struct Track {
    pub(super) columns: Vec<u32>,
    pub(super) values: Vec<f64>,
    /// The amount that one event adds to each value; 0 if events are not counted.
    pub(super) quanta: Vec<f64>,
}

/// An instance that had no value before a column, although others of its metric had.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Appearance {
    pub(super) name: SeriesName,
    pub(super) column: usize,
}

impl Subject {
    /// Returns the statistics of all series and histograms. `first` is the first column of the
    /// window.
    pub(super) fn all(run: &ObservedRun, first: usize) -> Vec<Self> {
        let mut all = Vec::new();
        for (name, series) in &run.series {
            let statistic = if series.is_rate { Statistic::Rate } else { Statistic::Value };
            all.push(Self { name: name.clone(), statistic, limit: 0.0 });
        }
        for (name, histogram) in &run.histograms {
            all.push(Self { name: name.clone(), statistic: Statistic::Rate, limit: 0.0 });
            for rank in RANKS {
                let columns = histogram.columns.seconds.len();
                let before = if first >= MIN_COLUMNS_BEFORE { first } else { columns };
                let before = histogram.columns.buckets_of_parts(rank, 0..before);
                let whole = histogram.columns.buckets_of_parts(rank, 0..columns);
                let Some(usual) = before.get(before.len() / 2) else { continue };
                let Some(whole) = whole.last() else { continue };
                let mut limit = usual.first;
                if whole.first > MIN_FAR * limit {
                    // A few values far above the others are detected best on their own.
                    limit = (limit.max(1.0) * whole.first).sqrt();
                }
                let statistic = Statistic::Quantile(rank);
                all.push(Self { name: name.clone(), statistic, limit });
            }
        }
        all
    }

    /// Returns the value of each column in which an observation ends; for a quantile it is the share
    /// of values above the limit. A rate that extends over several columns is one value.
    pub(super) fn track(&self, run: &ObservedRun) -> Track {
        let mut track = Track::default();
        let is_counted = self.is_counted(run);
        let mut sums = ColumnSums::default();
        for (column, part) in (0..).zip(self.parts(run)) {
            sums.add(part);
            if sums.denominator > 0.0 && part.observations > 0 {
                track.columns.push(column);
                track.values.push(sums.numerator / sums.denominator);
                track.quanta.push(if is_counted { 1.0 / sums.denominator } else { 0.0 });
                sums = ColumnSums::default();
            }
        }
        track
    }

    /// Returns the statistic over a range of columns.
    pub(super) fn number(&self, run: &ObservedRun, columns: Range<usize>) -> Option<f64> {
        if let Statistic::Quantile(rank) = self.statistic {
            return run.histograms.get(&self.name)?.columns.quantile_of_columns(rank, columns);
        }
        let mut whole = ColumnSums::default();
        for part in self.parts(run).get(columns)? {
            whole.add(*part);
        }
        (whole.denominator > 0.0).then(|| whole.numerator / whole.denominator)
    }

    /// Returns whether values are numbers of events in a time, or shares of events.
    fn is_counted(&self, run: &ObservedRun) -> bool {
        match self.statistic {
            Statistic::Value => false,
            Statistic::Rate => {
                let units = self.units(run);
                units.space_dimension() == 0 && units.time_dimension() == -1
            }
            _ => true,
        }
    }

    /// Returns the number of events in a range of columns that the statistic counts; `None` for
    /// values.
    pub(super) fn events(&self, run: &ObservedRun, columns: Range<usize>) -> Option<f64> {
        if !self.is_counted(run) {
            return None;
        }
        Some(self.parts(run).get(columns)?.iter().map(|part| part.numerator).sum())
    }

    /// Returns whether values are of intervals between samples.
    pub(super) fn is_interval(&self) -> bool {
        self.statistic != Statistic::Value
    }

    /// Returns the number of observations in each column.
    pub(super) fn observations(&self, run: &ObservedRun) -> Vec<u32> {
        match (run.series.get(&self.name), run.histograms.get(&self.name)) {
            (Some(series), _) => series.parts.iter().map(|part| part.observations).collect(),
            (None, Some(histogram)) => histogram.columns.observations.clone(),
            (None, None) => Vec::new(),
        }
    }

    pub(super) fn units(&self, run: &ObservedRun) -> Units {
        if let Some(RunHistogram { units, .. }) = run.histograms.get(&self.name) {
            return match self.statistic {
                Statistic::Rate => Units::count().per_second(),
                _ => *units,
            };
        }
        run.series.get(&self.name).map_or(Units::NONE, |series| series.units)
    }

    fn parts(&self, run: &ObservedRun) -> Vec<ColumnSums> {
        if let Some(histogram) = run.histograms.get(&self.name) {
            return match self.statistic {
                Statistic::Rate => histogram.columns.rate_parts(),
                _ => histogram.columns.parts_above(self.limit),
            };
        }
        run.series.get(&self.name).map(|series| series.parts.clone()).unwrap_or_default()
    }
}

impl Track {
    /// Removes the values of some places.
    pub(super) fn remove(&mut self, places: Range<usize>) {
        self.columns.drain(places.clone());
        self.values.drain(places.clone());
        self.quanta.drain(places);
    }

    /// Returns the most significant contrasts in a column or after it.
    pub(super) fn strongest_contrasts(&self, first: usize) -> StrongestContrasts {
        strongest_contrasts(&self.values, &self.quanta, self.place(first))
    }

    /// Returns the place of the first value in a column or after it.
    pub(super) fn place(&self, column: usize) -> usize {
        self.columns.partition_point(|own| (*own as usize) < column)
    }

    /// Returns a value for each of the first `columns` columns, NaN where a column has none.
    pub(super) fn by_column(&self, columns: usize) -> Vec<f64> {
        let mut all = vec![f64::NAN; columns];
        for (column, value) in self.columns.iter().zip(&self.values) {
            if let Some(place) = all.get_mut(*column as usize) {
                *place = *value;
            }
        }
        all
    }
}

/// Sets counters to 0 before their instance appeared, where other instances of the metric have
/// values, and returns the instances that appeared.
pub(crate) fn fill_before_appearance(run: &mut ObservedRun) -> Vec<Appearance> {
    let mut present: BTreeMap<String, Vec<ColumnSums>> = BTreeMap::new();
    for ((metric, _), series) in &run.series {
        let all = present.entry(metric.clone()).or_default();
        all.resize(series.parts.len().max(all.len()), ColumnSums::default());
        for (all, part) in all.iter_mut().zip(&series.parts) {
            all.denominator = all.denominator.max(part.denominator);
            all.observations = all.observations.max(part.observations);
        }
    }
    let mut appearances = Vec::new();
    for (name, series) in &mut run.series {
        if name.1.is_none() {
            continue;
        }
        let Some(all) = present.get(&name.0) else { continue };
        let Some(first) = series.parts.iter().position(|part| part.denominator > 0.0) else {
            continue;
        };
        let before = all.iter().take(first);
        if before.clone().all(|part| part.denominator <= 0.0) {
            continue;
        }
        appearances.push(Appearance { name: name.clone(), column: first });
        if series.is_rate {
            for (part, other) in series.parts.iter_mut().zip(before) {
                *part = *other;
            }
        }
    }
    appearances
}
