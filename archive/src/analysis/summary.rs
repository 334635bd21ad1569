//! Statistics of metrics over a span of time.
//!
//! One pass over the columns of a [scan](crate::scan), in memory that grows
//! with the number of instances and not with the length of the archive. The
//! numbers are those of PCP's pmlogsummary, except for the table below, which
//! has the reasons.
//!
//! # Example
//!
//! A metric was logged as 100 at 0 s, 150 at 10 s, 160 at 30 s; then the
//! logger stopped, which is recorded as a mark at 31 s; then 7 at 60 s and 27 at 70 s,
//! the end of the archive.
//!
//! | | counter | instant | discrete |
//! |---|---|---|---|
//! | what is averaged | rates: 5 (10 s), 0.5 (20 s), 2 (10 s) | 100, 150, 160, 7, 27 | the same |
//! | count | 3 | 5 | 5 |
//! | stochastic average: all have the same weight | 7.5 / 3 = 2.5 | 444 / 5 = 88.8 | 88.8 |
//! | for how long each counts | as above | until the next one: 10, 20, 0, 10, 0 s | until the next one or the mark: 10, 20, 1, 10, 0 s |
//! | time average | (50 + 10 + 20) / 40 s = 2 | (1000 + 3000 + 70) / 40 s = 101.75 | (1000 + 3000 + 160 + 70) / 41 s = 103.17 |
//! | minimum, at | 0.5, 30 s | 7, 60 s | 7, 60 s |
//! | maximum, at | 5, 10 s | 160, 30 s | 160, 30 s |
//! | sum | 80: its growth | 444 | 444 |
//!
//! Where the program of an MMV file ended or was away, by the events in
//! the archive, there is no value, as if there were a mark for its metrics alone.
//!
//! A counter of an MMV file's program also counts before its first value where it is known that it
//! began at 0: in a run that began, by the events, and as an instance that came into a domain while
//! the program ran. It was 0 when the agent noticed the run, or in the record before, where the
//! program or the instance had no value yet, and its first rate is that since then. If that is
//! before the span, the rate does not count, as no rate that begins there does.
//!
//! A counter that decreases was reset: its growth is not known, so that interval counts
//! neither as a rate nor as time, like one with a mark in it. (With [`Decrease::Wrap`]
//! it continued from 0 after the end of its type.) Metrics whose values are not numbers
//! have no summary, and NaN is skipped.
//!
//! In an archive that was [reduced](crate::reduce) the minimum and maximum of an instantaneous
//! number are those of its original values, at the ends of their intervals.
//!
//! # Where pmlogsummary differs
//!
//! | of | pmlogsummary 7.2.1 | here | because |
//! |---|---|---|---|
//! | the first rate of a counter, if it is the least or the greatest | its time is that of the first value | that of the second, as of all other rates | the time of a rate is the end of its interval |
//! | discrete, stochastic average | the last value counts again at each mark and at the end | each value counts once | its manual: each observation has an equal weighting |
//! | discrete, between two marks and after the last one | the value from before the first mark holds | no value | the mark hides it |
//! | one value, or all at one time: time average | 0 | the stochastic average | its own comment: "just report the one value" |
//! | 64-bit counters above 2^53 | differences of rounded values | exact differences | |
//! | a first value that is NaN | everything is NaN | skipped like others | |
//!
//! **Source**: pmlogsummary(1); `src/pmlogsummary/pmlogsummary.c`.

mod tally;

use std::ops::RangeInclusive;

use super::growth::lifetime::{self, CounterDomains};
use super::growth::strand::InstanceStrands;
use super::growth::walls::{MetricWalls, Walls};
use super::growth::{Decrease, Gaps, numbers};
use crate::reader::salvage::Loss;
use crate::scan::extremes::{self, GaugeExtreme, Side};
use crate::scan::segments::{by_time, by_time_past_damage};
use crate::scan::{Chunk, Column, Columns, SelectedMetric, Selection};
use crate::{InstanceId, Pmid, Result, Source, Timestamp, Units};
use hashbrown::{HashMap, HashSet};
use tally::Tally;

/// A metric and the summaries of its instances.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSummary {
    /// The metric, as it was selected.
    pub metric: SelectedMetric,
    /// The units of averages, minimum and maximum: those of the metric, or for
    /// a counter those of its rates. A sum is in the metric's own units.
    pub units: Units,
    /// By instance, ascending; a single `None` for a metric without instances.
    pub instances: Vec<InstanceSummary>,
}

/// One instance that had values.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceSummary {
    /// The instance; `None` in a metric without instances.
    pub instance: Option<InstanceId>,
    /// `None` for a counter without a rate: it has a single value, or each value follows
    /// a higher one or a mark.
    pub statistics: Option<Statistics>,
}

/// Statistics of some values; for a counter, of its rates.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    /// The number of values: of rates, for a counter.
    pub count: u64,
    /// For how many seconds there is a value: the weight of the time average.
    pub seconds: f64,
    /// The sum of the values; for a counter its growth, in its own units.
    pub sum: f64,
    /// The average in which all values have the same weight.
    pub stochastic_average: f64,
    /// The average in which each value is weighted by the time for which it held.
    pub time_average: f64,
    /// Least value and its time.
    pub minimum: Extreme,
    /// Greatest value and its time.
    pub maximum: Extreme,
}

/// The least or greatest value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extreme {
    /// The value, or rate of a counter.
    pub value: f64,
    /// The time of the first record with it; of a rate, the end of its
    /// interval.
    pub at: Timestamp,
}

/// Computes the summaries of the selected metrics over the records of a span, in the order of the
/// selection. Metrics without values in the span, and those that are not numbers, are left out.
/// Where the program of an MMV file was away its metrics have no values.
///
/// ```
/// use pcp_archive::replay::Decrease;
/// use pcp_archive::{scan::Selection, summary::summarize};
/// # use pcp_archive::{Archive, ArchiveWriter, Timestamp, Units};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let base = directory.path().join("a");
/// # let mut writer = ArchiveWriter::create(&base)?;
/// # let sold_key = writer.counter::<u64>("acme.sold").units(Units::count()).add()?;
/// # for (second, sold) in [(0, 100), (10, 150), (30, 160)] {
/// #     writer.record(Timestamp::new(second, 0)?, |r| r.set(sold_key, sold))?;
/// # }
/// # writer.finish()?;
/// # let archive = Archive::open(&base)?;
///
/// let mut selection = Selection::new(&archive);
/// selection.select("acme.sold"); // 100 at 0 s, 150 at 10 s, 160 at 30 s
/// let span = archive.label().start..=archive.end();
/// let summaries = summarize(&selection, span, Decrease::Reset)?;
/// assert_eq!(summaries[0].units.to_string(), "count / sec");
/// let sold = summaries[0].instances[0].statistics.as_ref().expect("two rates");
/// assert_eq!((sold.count, sold.sum, sold.time_average), (2, 60.0, 2.0));
/// assert_eq!((sold.maximum.value, sold.maximum.at.seconds()), (5.0, 10));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Those of the [scan](Columns::next_chunk).
pub fn summarize(
    selection: &Selection<'_>,
    span: RangeInclusive<Timestamp>,
    decrease: Decrease,
) -> Result<Vec<MetricSummary>> {
    let (selection, extremes) = numbers_with_extremes(selection, Gaps::Keep);
    let scope = SummaryScope::new(&selection, decrease, Gaps::Keep);
    let segments = by_time(&selection, &span, |columns| SummarySegment::read(&scope, columns))?;
    Ok(extremes.joined(SummarySegment::joined(segments, selection.source(), &span)))
}

/// Summarizes as [`summarize`], for any gaps, but reads past damage, which counts as a mark, and
/// also returns what was lost.
///
/// # Errors
///
/// As [`summarize`], except [damage](crate::Error::is_damage).
pub fn summarize_past_damage(
    selection: &Selection<'_>,
    span: RangeInclusive<Timestamp>,
    decrease: Decrease,
    gaps: Gaps,
) -> Result<(Vec<MetricSummary>, Vec<Loss>)> {
    let (selection, extremes) = numbers_with_extremes(selection, gaps);
    let scope = SummaryScope::new(&selection, decrease, gaps);
    let (segments, lost) =
        by_time_past_damage(&selection, &span, |columns| SummarySegment::read(&scope, columns))?;
    let summaries = SummarySegment::joined(segments, selection.source(), &span);
    Ok((extremes.joined(summaries), lost))
}

/// The extremes of gauges in a selection.
struct SummaryExtremes {
    /// Metrics that are summarized for themselves.
    own: HashSet<Pmid>,
    extremes: Vec<GaugeExtreme>,
    /// The instances of a metric that are summarized, if not all that are read.
    limits: HashMap<Pmid, HashSet<InstanceId>>,
}

/// Returns the metrics with numbers of a selection, and those with extremes of its gauges.
fn numbers_with_extremes<'a>(
    selection: &Selection<'a>,
    gaps: Gaps,
) -> (Selection<'a>, SummaryExtremes) {
    let own = selection.metrics().iter().map(|metric| metric.desc.pmid).collect();
    let mut selection = numbers(selection, gaps);
    let extremes = extremes::select(&mut selection);
    let limits = lifetime::read_witnesses(&mut selection, gaps);
    (selection, SummaryExtremes { own, extremes, limits })
}

impl SummaryExtremes {
    fn joined(&self, mut summaries: Vec<MetricSummary>) -> Vec<MetricSummary> {
        let places = summaries.iter().map(|summary| summary.metric.desc.pmid).zip(0..);
        let places: HashMap<Pmid, usize> = places.collect();
        for GaugeExtreme { gauge, extreme, side } in &self.extremes {
            let found = places.get(gauge).zip(places.get(extreme));
            let Some((&gauge, &extreme)) = found else { continue };
            let extreme = summaries.get(extreme).map(|summary| summary.instances.clone());
            let Some(gauge) = summaries.get_mut(gauge) else { continue };
            for found in extreme.into_iter().flatten() {
                let place =
                    gauge.instances.binary_search_by_key(&found.instance, |own| own.instance);
                let own = place.ok().and_then(|place| gauge.instances.get_mut(place));
                let own = own.and_then(|own| own.statistics.as_mut());
                if let Some((own, found)) = own.zip(found.statistics) {
                    own.widen(*side, &found);
                }
            }
        }
        summaries.retain(|summary| self.own.contains(&summary.metric.desc.pmid));
        for summary in &mut summaries {
            if let Some(limit) = self.limits.get(&summary.metric.desc.pmid) {
                summary
                    .instances
                    .retain(|one| one.instance.is_none_or(|instance| limit.contains(&instance)));
            }
        }
        summaries.retain(|summary| !summary.instances.is_empty());
        summaries
    }
}

impl Statistics {
    /// Takes an extreme over, if it is beyond that of the values.
    fn widen(&mut self, side: Side, other: &Self) {
        match side {
            Side::Minimum if other.minimum.value < self.minimum.value => {
                self.minimum = other.minimum;
            }
            Side::Maximum if other.maximum.value > self.maximum.value => {
                self.maximum = other.maximum;
            }
            _ => {}
        }
    }
}

struct SummaryScope<'s, 'a> {
    selection: &'s Selection<'a>,
    decrease: Decrease,
    domains: CounterDomains,
}

impl<'s, 'a> SummaryScope<'s, 'a> {
    fn new(selection: &'s Selection<'a>, decrease: Decrease, gaps: Gaps) -> Self {
        Self { selection, decrease, domains: CounterDomains::new(selection, gaps) }
    }
}

struct SummarySegment<'s> {
    metrics: Vec<Tallies<'s>>,
}

impl<'s> SummarySegment<'s> {
    fn read(scope: &'s SummaryScope<'_, '_>, columns: &mut Columns<'_>) -> Result<Self> {
        let metrics = scope.selection.metrics().iter();
        let metrics = metrics.map(|metric| Tallies::new(metric, scope.decrease)).collect();
        let mut segment = Self { metrics };
        let mut clock = RowIntervals::default();
        let mut before = None;
        while let Some(chunk) = columns.next_chunk()? {
            clock.set(chunk);
            let walls = Walls::of_chunk(chunk.rows(), scope.selection, before);
            for (place, tallies) in segment.metrics.iter_mut().enumerate() {
                let timestamps = chunk.timestamps();
                let columns = chunk.columns(place);
                let metric = tallies.metric;
                let presences = scope.domains.presences(metric);
                let run = tallies.instances.run;
                let walls = MetricWalls::new(&walls, metric, timestamps, columns, presences, run);
                tallies.add(chunk, columns, &clock.seconds, &walls);
            }
            before = chunk.timestamps().last().copied();
        }
        Ok(segment)
    }

    fn joined(
        segments: Vec<Self>,
        source: Source<'_>,
        span: &RangeInclusive<Timestamp>,
    ) -> Vec<MetricSummary> {
        let whole = segments.into_iter().reduce(Self::join);
        whole.map_or(Vec::new(), |whole| whole.summaries(source, span))
    }

    fn join(mut self, next: Self) -> Self {
        for (tallies, next) in self.metrics.iter_mut().zip(next.metrics) {
            tallies.join(next);
        }
        self
    }

    fn summaries(self, source: Source<'_>, span: &RangeInclusive<Timestamp>) -> Vec<MetricSummary> {
        let start = source.start().max(*span.start());
        let summaries = self.metrics.into_iter();
        summaries.filter_map(|tallies| tallies.summary(start, *span.end())).collect()
    }
}

/// The seconds from the row before to each row of a chunk: the same for all
/// columns, and most values follow one in the row before. NaN for a row at the
/// same time, and for the first.
#[derive(Debug, Default)]
struct RowIntervals {
    seconds: Vec<f64>,
}

impl RowIntervals {
    fn set(&mut self, chunk: &Chunk) {
        self.seconds.clear();
        self.seconds.push(f64::NAN);
        let pairs = chunk.timestamps().iter().zip(chunk.timestamps().iter().skip(1));
        self.seconds.extend(pairs.map(|(before, after)| {
            let seconds = after.seconds_since(*before);
            if seconds > 0.0 { seconds } else { f64::NAN }
        }));
    }
}

/// A metric, and one tally for each of its columns.
struct Tallies<'s> {
    metric: &'s SelectedMetric,
    decrease: Decrease,
    instances: InstanceStrands<Tally>,
}

impl<'s> Tallies<'s> {
    fn new(metric: &'s SelectedMetric, decrease: Decrease) -> Self {
        Self { metric, decrease, instances: InstanceStrands::default() }
    }

    fn add(&mut self, chunk: &Chunk, columns: &[Column], clock: &[f64], walls: &MetricWalls<'_>) {
        let InstanceStrands { all, run } = &mut self.instances;
        let new = columns.iter().skip(all.len());
        // The instances of most metrics never change.
        all.reserve_exact(new.len());
        for column in new {
            all.push((column.instance(), Tally::new(self.metric, self.decrease, run)));
        }
        for (column, (_, tally)) in columns.iter().zip(all) {
            if !tally.has_values() {
                tally.set_birth(walls.birth_before(column));
            }
            tally.add(chunk, column, clock, &walls.walls_of_column(column, || tally.last_at()));
        }
        run.pass(walls);
    }

    fn join(&mut self, next: Self) {
        self.instances.join(
            next.instances,
            |_, run| Tally::new(self.metric, self.decrease, run),
            |own, next, run| own.join(&next, run),
        );
    }

    fn summary(self, start: Timestamp, end: Timestamp) -> Option<MetricSummary> {
        let counts = self.metric.has_rates();
        let units = if counts { self.metric.rate_units() } else { self.metric.desc.units };
        let seen = self.instances.all.into_iter().filter(|(_, tally)| tally.has_values());
        let mut instances: Vec<_> = seen
            .map(|(instance, tally)| InstanceSummary {
                instance,
                statistics: tally.finish(start, end),
            })
            .collect();
        instances.sort_by_key(|summary| summary.instance);
        let metric = self.metric.clone();
        (!instances.is_empty()).then_some(MetricSummary { metric, units, instances })
    }
}

#[cfg(test)]
mod tests;
