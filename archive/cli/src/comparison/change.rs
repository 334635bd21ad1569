//! Changes between two sides, and their verdicts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use pcp_archive::Units;
use serde::Serialize;

use super::distribution::{LargestDifference, largest_difference};
use super::estimate::{ColumnSums, Estimate, difference_freedom, student_quantile, student_tail};
use super::histogram::{HistogramColumns, QuantileBounds, first_at_rank, mixed_buckets};
use super::run::{ObservedRun, RunHistogram, SeriesName};
use super::{SAME, Statistic};

/// Confidence level of bounds.
const LEVEL: f64 = 0.95;
/// False discovery rate: the expected fraction of false alarms among the reported differences.
const MAX_FALSE: f64 = 0.05;
/// The quantiles of histograms that are always compared.
const RANKS: [f64; 3] = [0.5, 0.9, 0.99];

/// The result of comparing a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// The new number is higher.
    Higher,
    /// The new number is lower.
    Lower,
    /// Their ratio is within 5 % of 1, both are in one bucket of a histogram, or at most 5 % of its
    /// values differ by more than 5 %.
    Same,
    /// None of these can be established.
    Unclear,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::Same => "same",
            Self::Unclear => "unclear",
        })
    }
}

/// A number on both sides.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change {
    pub(crate) metric: String,
    pub(crate) instance: Option<Arc<str>>,
    pub(crate) statistic: Statistic,
    pub(crate) units: Units,
    pub(crate) base: f64,
    pub(crate) new: f64,
    /// Bounds of the ratio at 95 % confidence; `None` if the base may be 0, or of a quantile if
    /// too few values are known.
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    pub(crate) base_may_be_zero: bool,
    pub(crate) verdict: Verdict,
    /// The p-value: the probability of a difference at least this large by chance.
    pub(crate) significance: f64,
}

/// The side that has a metric which the other lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunSide {
    Base,
    New,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Comparison {
    /// Sorted by significant effect, largest first; unclear changes are last.
    pub(crate) changes: Vec<Change>,
    /// Metrics and instances that only one side has.
    pub(crate) one_sided: Vec<(RunSide, String, Option<Arc<str>>)>,
}

/// Compares a run with others. `ranks` are further quantiles of histograms.
pub(crate) fn compare(bases: &[&ObservedRun], new: &ObservedRun, ranks: &[f64]) -> Comparison {
    let mut ranks = [&RANKS, ranks].concat();
    ranks.sort_by(f64::total_cmp);
    ranks.dedup_by(|one, other| is_same_rank(*one, *other));
    let mut comparison = Comparison::default();
    let names = bases.iter().copied().chain([new]).flat_map(|run| run.series.keys());
    for name in names.collect::<BTreeSet<_>>() {
        comparison.add_series(name, bases, new);
    }
    comparison.add_shares(bases, new);
    let names = bases.iter().copied().chain([new]).flat_map(|run| run.histograms.keys());
    for name in names.collect::<BTreeSet<_>>() {
        comparison.add_histogram(name, bases, new, &ranks);
    }
    control_false_discoveries(&mut comparison.changes);
    drop_known_moves(&mut comparison.changes);
    comparison.changes.sort_by(|one, other| {
        let by_name = || (&one.metric, &one.instance).cmp(&(&other.metric, &other.instance));
        other.effect().total_cmp(&one.effect()).then_with(by_name)
    });
    comparison
}

/// Returns whether two ranks differ by rounding at most: 0.999 and 99.9 / 100.
fn is_same_rank(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-9
}

impl Change {
    /// Returns whether it is that of a statistic.
    pub(crate) fn is_of(&self, statistic: Statistic) -> bool {
        match (self.statistic, statistic) {
            (Statistic::Quantile(one), Statistic::Quantile(other)) => is_same_rank(one, other),
            (one, other) => one == other,
        }
    }

    /// Returns the ratio of the new to the base value; `None` if the base is 0.
    pub(crate) fn ratio(&self) -> Option<f64> {
        (self.base != 0.0).then(|| self.new / self.base)
    }

    /// Returns the sort key: the logarithm of the bound of the ratio that is closest to 1.
    fn effect(&self) -> f64 {
        match (self.verdict, self.low, self.high) {
            (Verdict::Unclear, ..) => -2.0,
            (Verdict::Same, ..) => -1.0,
            (Verdict::Higher, Some(low), _) if low > 0.0 => low.ln().max(0.0),
            (Verdict::Lower, _, Some(high)) if high > 0.0 => -high.ln().min(0.0),
            // A change from or to 0, or of the sign.
            _ => f64::INFINITY,
        }
    }

    fn new(
        name: &SeriesName,
        statistic: Statistic,
        units: Units,
        base: Estimate,
        new: Estimate,
    ) -> Self {
        let freedom = difference_freedom(base, new);
        let deviation = (base.variance + new.variance).sqrt();
        let difference = new.value - base.value;
        let significance = match (difference == 0.0, deviation == 0.0) {
            (true, _) => 1.0,
            // Two different constants do not differ by chance.
            (false, true) => 0.0,
            (false, false) => student_tail(difference / deviation, freedom),
        };
        let mut bounds = ratio_bounds(base, new, student_quantile(LEVEL, freedom));
        if matches!(statistic, Statistic::Rate | Statistic::Share) {
            bounds = bounds.map(|(low, high)| (low.max(0.0), high));
        }
        let is_zero = difference == 0.0 && deviation == 0.0;
        let is_same =
            is_zero || bounds.is_some_and(|(low, high)| low >= 1.0 - SAME && high <= 1.0 + SAME);
        let (metric, instance) = name.clone();
        Self {
            metric,
            instance,
            statistic,
            units,
            base: base.value,
            new: new.value,
            low: bounds.map(|(low, _)| low),
            high: bounds.map(|(_, high)| high),
            base_may_be_zero: bounds.is_none(),
            verdict: if is_same { Verdict::Same } else { Verdict::Unclear },
            significance,
        }
    }
}

/// Returns the bounds of the ratio of two independent estimates (Fieller); `None` if the base may
/// be 0. `student` is the quantile of Student's distribution at their level of confidence.
fn ratio_bounds(base: Estimate, new: Estimate, student: f64) -> Option<(f64, f64)> {
    let uncertain = student.powi(2) * base.variance / base.value.powi(2);
    if base.value == 0.0 || uncertain >= 1.0 {
        return None;
    }
    let ratio = new.value / base.value;
    let certain = 1.0 - uncertain;
    let deviation = (new.variance * certain + ratio.powi(2) * base.variance).sqrt();
    let margin = student * deviation / base.value.abs();
    Some(((ratio - margin) / certain, (ratio + margin) / certain))
}

/// Sets the verdict of the significant changes to higher or lower, at a false discovery rate of 5 %.
fn control_false_discoveries(changes: &mut [Change]) {
    changes.sort_by(|one, other| one.significance.total_cmp(&other.significance));
    let significances: Vec<f64> = changes.iter().map(|change| change.significance).collect();
    let different = count_discoveries(&significances, changes.len(), MAX_FALSE);
    for change in changes.iter_mut().take(different) {
        // A significant difference within 5 % or one bucket is still "the same".
        if change.verdict == Verdict::Unclear {
            let is_higher = change.new > change.base;
            change.verdict = if is_higher { Verdict::Higher } else { Verdict::Lower };
        }
    }
}

/// Removes the shares above a limit of histograms whose mean or a quantile already differs.
fn drop_known_moves(changes: &mut Vec<Change>) {
    let mut known = BTreeSet::new();
    for change in &*changes {
        let is_of_values = matches!(change.statistic, Statistic::Mean | Statistic::Quantile(_));
        if is_of_values && matches!(change.verdict, Verdict::Higher | Verdict::Lower) {
            known.insert((change.metric.clone(), change.instance.clone()));
        }
    }
    changes.retain(|change| {
        !matches!(change.statistic, Statistic::ShareAbove { .. })
            || !known.contains(&(change.metric.clone(), change.instance.clone()))
    });
}

/// Returns the number of the least p-values of `tests` that are discoveries at a false discovery rate
/// (Benjamini and Hochberg). They are in ascending order; others that are missing are greater.
pub(crate) fn count_discoveries(significances: &[f64], tests: usize, rate: f64) -> usize {
    let limits = (1..).map(|rank| f64::from(rank) * rate / tests as f64);
    let mut discoveries = 0;
    for ((place, significance), limit) in significances.iter().enumerate().zip(limits) {
        if *significance <= limit {
            discoveries = place + 1;
        }
    }
    discoveries
}

impl Comparison {
    fn add_series(&mut self, name: &SeriesName, bases: &[&ObservedRun], new: &ObservedRun) {
        let units = units_of(name, bases, new);
        let base: Vec<Estimate> =
            bases.iter().filter_map(|run| series_estimate(run, name, units)).collect();
        let estimate = series_estimate(new, name, units);
        let is_rate = bases
            .iter()
            .copied()
            .chain([new])
            .any(|run| run.series.get(name).is_some_and(|columns| columns.is_rate));
        let statistic = if is_rate { Statistic::Rate } else { Statistic::Value };
        match (Estimate::from_runs(&base), estimate) {
            (Some(base), Some(new)) => {
                self.changes.push(Change::new(name, statistic, units, base, new));
            }
            (Some(_), None) => self.add_one_sided(RunSide::Base, name),
            (None, Some(_)) => self.add_one_sided(RunSide::New, name),
            (None, None) => {}
        }
    }

    fn add_one_sided(&mut self, side: RunSide, name: &SeriesName) {
        self.one_sided.push((side, name.0.clone(), name.1.clone()));
    }

    /// Adds the share of each instance of counters that have several instances in any run.
    fn add_shares(&mut self, bases: &[&ObservedRun], new: &ObservedRun) {
        for (metric, instances) in split_counters(bases, new) {
            let Some(new) = CounterTotal::new(new, metric) else { continue };
            let bases: Vec<CounterTotal<'_>> =
                bases.iter().filter_map(|run| CounterTotal::new(run, metric)).collect();
            for instance in instances {
                let name = (metric.to_owned(), Some(Arc::clone(instance)));
                let base: Vec<Estimate> =
                    bases.iter().filter_map(|total| total.share(&name)).collect();
                if let (Some(base), Some(new)) = (Estimate::from_runs(&base), new.share(&name)) {
                    self.changes.push(Change::new(&name, Statistic::Share, Units::NONE, base, new));
                }
            }
        }
    }

    fn add_histogram(
        &mut self,
        name: &SeriesName,
        bases: &[&ObservedRun],
        new: &ObservedRun,
        ranks: &[f64],
    ) {
        let base: Vec<&RunHistogram> =
            bases.iter().filter_map(|run| run.histograms.get(name)).collect();
        let Some(new) = new.histograms.get(name) else {
            return self.add_one_sided(RunSide::Base, name);
        };
        let Some(first) = base.first() else { return self.add_one_sided(RunSide::New, name) };
        let units = first.units;
        let Some(base) =
            base.into_iter().map(|one| in_units(one, units)).collect::<Option<Vec<_>>>()
        else {
            return;
        };
        let Some(new) = in_units(new, units) else { return };
        let estimates = |number: fn(&HistogramColumns) -> Option<Estimate>| {
            let base: Vec<Estimate> = base.iter().filter_map(number).collect();
            Estimate::from_runs(&base).zip(number(&new))
        };
        if let Some((base, new)) = estimates(HistogramColumns::rate) {
            let units = Units::count().per_second();
            self.changes.push(Change::new(name, Statistic::Rate, units, base, new));
        }
        if let Some((base, new)) = estimates(HistogramColumns::mean) {
            self.changes.push(Change::new(name, Statistic::Mean, units, base, new));
        }
        for rank in ranks {
            self.changes.extend(quantile_change(name, *rank, units, &base, &new));
        }
        if let Some(largest) = largest_difference(&base, &new) {
            self.changes.push(distribution_change(name, units, &largest));
        }
    }
}

/// Returns the units of the first run that has a series.
fn units_of(name: &SeriesName, bases: &[&ObservedRun], new: &ObservedRun) -> Units {
    let columns = bases.iter().copied().chain([new]).find_map(|run| run.series.get(name));
    columns.map_or(Units::NONE, |columns| columns.units)
}

/// Returns the factor between two units; `None` if their dimensions differ.
fn factor(from: Units, to: Units) -> Option<f64> {
    if from == to { Some(1.0) } else { Some(from.conversion_to(to)?.apply(1.0)) }
}

/// Returns the estimate for a series; 0 if the run has the counter but not this instance.
fn series_estimate(run: &ObservedRun, name: &SeriesName, units: Units) -> Option<Estimate> {
    let Some(columns) = run.series.get(name) else {
        return run.has_counter(&name.0).then_some(Estimate::zero());
    };
    let factor = factor(columns.units, units)?;
    let mut estimate = Estimate::new(&columns.parts)?;
    estimate.value *= factor;
    estimate.variance *= factor.powi(2);
    Some(estimate)
}

fn in_units(histogram: &RunHistogram, units: Units) -> Option<HistogramColumns> {
    let mut columns = histogram.columns.clone();
    columns.scale(factor(histogram.units, units)?);
    Some(columns)
}

/// Returns the counters that have several instances in any run, with the instances of all runs.
fn split_counters<'r>(
    bases: &[&'r ObservedRun],
    new: &'r ObservedRun,
) -> BTreeMap<&'r str, BTreeSet<&'r Arc<str>>> {
    let mut counters: BTreeMap<&str, BTreeSet<&Arc<str>>> = BTreeMap::new();
    let mut split = BTreeSet::new();
    for run in bases.iter().copied().chain([new]) {
        let mut previous = None;
        for ((metric, instance), columns) in &run.series {
            if let Some(instance) = instance.as_ref().filter(|_| columns.is_rate) {
                counters.entry(metric).or_default().insert(instance);
                if previous == Some(metric) {
                    split.insert(metric.as_str());
                }
                previous = Some(metric);
            }
        }
    }
    counters.retain(|metric, _| split.contains(metric));
    counters
}

/// A counter of a run, and the growth of all its instances in each column.
struct CounterTotal<'r> {
    run: &'r ObservedRun,
    growth: Vec<ColumnSums>,
}

impl<'r> CounterTotal<'r> {
    /// Returns `None` if the run does not have the counter.
    fn new(run: &'r ObservedRun, metric: &str) -> Option<Self> {
        let mut growth: Vec<ColumnSums> = Vec::new();
        for columns in run.instances(metric).filter(|columns| columns.is_rate) {
            growth.resize(columns.parts.len(), ColumnSums::default());
            for (whole, part) in growth.iter_mut().zip(&columns.parts) {
                whole.denominator += part.numerator;
                whole.observations = part.observations.max(whole.observations);
            }
        }
        (!growth.is_empty()).then_some(Self { run, growth })
    }

    /// Estimates the share of an instance in the growth of all: 0 if the run does not have it.
    fn share(&self, name: &SeriesName) -> Option<Estimate> {
        let mut parts = self.growth.clone();
        if let Some(columns) = self.run.series.get(name) {
            for (part, own) in parts.iter_mut().zip(&columns.parts) {
                part.numerator = own.numerator;
            }
        }
        Estimate::new(&parts)
    }
}

/// Compares a quantile. Its significance is that of the share of values above the quantile of both
/// sides combined.
fn quantile_change(
    name: &SeriesName,
    rank: f64,
    units: Units,
    bases: &[HistogramColumns],
    new: &HistogramColumns,
) -> Option<Change> {
    // Two bounds at this level hold together at `LEVEL`.
    let level = LEVEL.sqrt();
    let base: Vec<QuantileBounds> =
        bases.iter().filter_map(|run| run.quantile(rank, level)).collect();
    let bounds = new.quantile(rank, level)?;
    let count = base.len() as f64;
    let value = base.iter().map(|run| run.value).sum::<f64>() / count;
    let base_low = base.iter().map(|run| run.low).reduce(f64::min)?;
    let base_high = base.iter().map(|run| run.high).reduce(|one, other| Some(one?.max(other?)))?;
    let limit = first_at_rank(&mixed_buckets(bases, new), rank)?;
    let shares: Vec<Estimate> = bases.iter().filter_map(|run| run.share_above(limit)).collect();
    let shares = Change::new(
        name,
        Statistic::Quantile(rank),
        units,
        Estimate::from_runs(&shares)?,
        new.share_above(limit)?,
    );
    let base_may_be_zero = base_low <= 0.0 && base_high.is_some() && bounds.high.is_some();
    let low = base_high.filter(|high| *high > 0.0).map(|high| bounds.low / high);
    let high = bounds.high.filter(|_| base_low > 0.0).map(|high| high / base_low);
    let one_bucket = base.iter().all(|run| run.first.total_cmp(&bounds.first).is_eq());
    let is_near = low.zip(high).is_some_and(|(low, high)| low >= 1.0 - SAME && high <= 1.0 + SAME);
    let verdict = if one_bucket || is_near { Verdict::Same } else { Verdict::Unclear };
    Some(Change { base: value, new: bounds.value, low, high, base_may_be_zero, verdict, ..shares })
}

/// Returns the change of the share of values above the limit at which it differs most.
fn distribution_change(name: &SeriesName, units: Units, largest: &LargestDifference) -> Change {
    let LargestDifference { limit, base, new, significance, level, is_same } = *largest;
    let student = student_quantile(level, difference_freedom(base, new));
    let bounds = ratio_bounds(base, new, student);
    let (metric, instance) = name.clone();
    Change {
        metric,
        instance,
        statistic: Statistic::ShareAbove { limit, units },
        units: Units::NONE,
        base: base.value,
        new: new.value,
        low: bounds.map(|(low, _)| low.max(0.0)),
        high: bounds.map(|(_, high)| high),
        base_may_be_zero: bounds.is_none(),
        verdict: if is_same { Verdict::Same } else { Verdict::Unclear },
        significance,
    }
}

#[cfg(test)]
mod tests {
    use super::super::estimate::tests::{Noise, values};
    use super::super::histogram::BucketColumns;
    use super::super::run::SeriesColumns;
    use super::*;

    fn estimate(value: f64, variance: f64) -> Estimate {
        Estimate { value, variance, freedom: 7.0 }
    }

    fn change(base: Estimate, new: Estimate) -> Change {
        let name = ("acme.orders".to_owned(), None);
        Change::new(&name, Statistic::Rate, Units::count(), base, new)
    }

    #[test]
    fn bounds_of_a_ratio_are_those_of_fieller() {
        let student = student_quantile(LEVEL, 7.0);
        // g = 2.3646 ^ 2 * 0.04 / 10 ^ 2 = 0.002237; (2 -+ 0.10573) / (1 - g).
        let (low, high) =
            ratio_bounds(estimate(10.0, 0.04), estimate(20.0, 0.04), student).unwrap();
        assert!((low - 1.89852).abs() < 1e-5 && (high - 2.11045).abs() < 1e-5, "{low} {high}");
        assert_eq!(ratio_bounds(estimate(0.0, 0.0), estimate(1.0, 0.1), student), None);
        assert_eq!(ratio_bounds(estimate(1.0, 4.0), estimate(1.0, 0.1), student), None);
    }

    #[test]
    fn constants_differ_or_are_the_same() {
        let mut changes = [
            change(estimate(4.0, 0.0), estimate(8.0, 0.0)),
            change(estimate(4.0, 0.0), estimate(4.0, 0.0)),
            change(estimate(0.0, 0.0), estimate(0.0, 0.0)),
            change(estimate(5.0, 9.0), estimate(6.0, 9.0)),
        ];
        control_false_discoveries(&mut changes);
        let verdicts = changes.map(|change| change.verdict);
        assert_eq!(verdicts, [Verdict::Higher, Verdict::Unclear, Verdict::Same, Verdict::Same]);
    }

    #[test]
    fn of_many_numbers_some_differ_by_chance() {
        // The smallest of 100 p-values of equal runs is about 0.01.
        let mut noise: Vec<Change> =
            (1..=100).map(|_| change(estimate(5.0, 1.0), estimate(6.0, 1.0))).collect();
        for (place, change) in (1..).zip(&mut noise) {
            change.significance = f64::from(place) / 100.0;
        }
        control_false_discoveries(&mut noise);
        assert!(noise.iter().all(|change| change.verdict == Verdict::Unclear));
        noise.iter_mut().take(3).for_each(|change| change.significance = 1e-4);
        control_false_discoveries(&mut noise);
        let found = noise.iter().filter(|change| change.verdict == Verdict::Higher).count();
        assert_eq!(found, 3);
    }

    /// A stationary process: autoregressive, or the sum of such a process and as much noise.
    #[derive(Debug, Clone, Copy)]
    enum Process {
        Autoregressive(f64),
        WithNoise(f64),
    }

    impl Process {
        fn numbers(self, noise: &mut Noise, count: usize) -> Vec<f64> {
            match self {
                Self::Autoregressive(correlation) => noise.numbers(correlation, count),
                Self::WithNoise(correlation) => {
                    let scale = (1.0 - correlation * correlation).sqrt();
                    let mut numbers = noise.numbers(correlation, count);
                    for number in &mut numbers {
                        *number = *number * scale + noise.next();
                    }
                    numbers
                }
            }
        }
    }

    /// Compares the two halves, of `seconds` each, of 100 stationary processes. Returns in how many
    /// of the comparisons any of them differs.
    fn false_alarms(process: Process, seconds: usize, comparisons: u64) -> usize {
        let mut noise = Noise(seconds as u64);
        let mut alarms = 0;
        for _ in 0..comparisons {
            let mut base = ObservedRun::default();
            let mut new = ObservedRun::default();
            for place in 0..100 {
                let numbers = process.numbers(&mut noise, 2 * seconds);
                let (first, second) = numbers.split_at(seconds);
                for (run, half) in [(&mut base, first), (&mut new, second)] {
                    // Their mean is 0, so that no ratio is within 5 % of 1.
                    let parts = values(half.iter().copied());
                    let columns = SeriesColumns { is_rate: false, units: Units::NONE, parts };
                    run.series.insert((format!("acme.queue{place}"), None), columns);
                }
            }
            let found = compare(&[&base], &new, &[]).changes;
            let different =
                |change: &Change| matches!(change.verdict, Verdict::Higher | Verdict::Lower);
            alarms += usize::from(found.iter().any(different));
        }
        alarms
    }

    /// Compares the two halves, of 150 seconds each, of 12 histograms whose 12 values a second are
    /// around a level that follows a stationary process. Returns in how many of the comparisons a
    /// share above a limit differs.
    fn false_moves(correlation: f64, comparisons: usize) -> usize {
        let mut noise = Noise(comparisons as u64);
        let mut alarms = 0;
        for _ in 0..comparisons {
            let mut base = ObservedRun::default();
            let mut new = ObservedRun::default();
            for place in 0..12 {
                let levels = noise.numbers(correlation, 300);
                let (first, second) = levels.split_at(150);
                for (run, levels) in [(&mut base, first), (&mut new, second)] {
                    let name = (format!("acme.latency{place}"), None);
                    run.histograms.insert(name, histogram_around(levels, &mut noise));
                }
            }
            let found = compare(&[&base], &new, &[]).changes;
            let is_move = |change: &Change| {
                matches!(change.statistic, Statistic::ShareAbove { .. })
                    && matches!(change.verdict, Verdict::Higher | Verdict::Lower)
            };
            alarms += usize::from(found.iter().any(is_move));
        }
        alarms
    }

    /// Returns a histogram with 12 values around each of some levels, in buckets a tenth wide.
    fn histogram_around(levels: &[f64], noise: &mut Noise) -> RunHistogram {
        let mut buckets = Vec::new();
        let mut first = 100.0;
        while first < 10_000.0 {
            let last = first * 1.1 - 1.0;
            buckets.push(BucketColumns {
                first,
                last: Some(last),
                counts: vec![0.0; levels.len()],
            });
            first = last + 1.0;
        }
        for (column, level) in levels.iter().enumerate() {
            for _ in 0..12 {
                let value = 1000.0 * (0.5 * level + 2.0 * noise.next()).exp();
                let place = buckets.partition_point(|bucket| bucket.first <= value).max(1) - 1;
                buckets[place].counts[column] += 1.0;
            }
        }
        let columns = HistogramColumns {
            buckets,
            sums: vec![12_000.0; levels.len()],
            seconds: vec![1.0; levels.len()],
            observations: vec![1; levels.len()],
        };
        RunHistogram { units: Units::NONE, columns }
    }

    #[test]
    fn of_a_dozen_stationary_histograms_none_differs() {
        for correlation in [0.0, 0.9] {
            let alarms = false_moves(correlation, 20);
            assert!(alarms <= 1, "{alarms} of 20 with {correlation}");
        }
    }

    #[test]
    fn of_a_hundred_stationary_numbers_none_differ() {
        for (process, seconds) in [
            (Process::Autoregressive(0.0), 64),
            (Process::Autoregressive(0.5), 64),
            (Process::Autoregressive(0.9), 300),
            (Process::WithNoise(0.9), 300),
            (Process::WithNoise(0.95), 300),
            (Process::WithNoise(0.95), 900),
        ] {
            let alarms = false_alarms(process, seconds, 20);
            assert!(alarms <= 2, "{alarms} of 20 with {process:?}, {seconds} s");
        }
    }
}
