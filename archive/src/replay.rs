//! The value of any metric at any time, by the rules of PCP 7.2.1.
//!
//! An archive holds observations, as often as someone chose to log. Replay
//! answers for the moments in between, and its answers are a function of the
//! archive and the moment alone: not of what was asked before, not of the
//! direction, not of the step. (PCP's own depend on earlier fetches in some
//! corners; where they do, the answer here is that of a fresh context.)
//!
//! # The rules, worked by hand
//!
//! Let a metric be logged as 100 at 0 s, 203 at 10 s and 50 at 20 s; then the
//! logger stopped, which a *mark* at 20.001 s says; then 60 at 40 s and 81 at
//! 50 s. What is its value at t?
//!
//! | t | counter | instant | discrete | why |
//! |---|---|---|---|---|
//! | 5 | 152 | 100 | 100 | counter: 100 + 5 * 103/10 = 151.5, rounded; others: the nearer observation, in the middle the earlier |
//! | 7 | 172 | 203 | 203 | the later one is nearer |
//! | 10 | 203 | 203 | 203 | an observation at t is the answer |
//! | 15 | 127 | 203 | 203 | a counter that goes down was reset: the line goes down |
//! | 20.0005 | - | - | 50 | no next one before the mark; discrete values need none |
//! | 25 | - | - | - | the mark hides everything before it |
//! | 45 | 71 | 60 | 60 | |
//! | 51 | - | - | - | after the end of the archive |
//!
//! The same holds for each instance of a metric on its own. Records in which a
//! metric has an error code or lacks an instance do not count as observations
//! of it, and never break a line; only marks do.
//!
//! # Reading order
//!
//! [`interpolate`] has the rules, each a small function; `timeline` knows
//! records and marks; `series` the observations of one instance; `lifetime`
//! when an instance exists; this file puts them together; `rate` makes rates
//! of counters; `seek` reads no more of an archive than answers need.
//!
//! # Cost
//!
//! One forward scan of the archive collects the observations of the selected
//! metrics, 12 bytes each for a number. An answer then takes two binary
//! searches an instance, whatever the step. Where few moments or a narrow
//! window are asked for, [`Selection::load_moments`] and
//! [`Selection::load_spans`] read only what decides their answers.

pub(crate) mod glob;
pub mod interpolate;
mod lifetime;
mod observations;
mod rate;
mod seek;
mod series;
mod timeline;

use std::ops::RangeInclusive;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use pcp_types::{InstanceId, Pmid, Semantics, Timestamp};

use crate::{IndomHistory, Metadata, MetricDesc, Records, Result, Source, Value};
use interpolate::{Decrease, Observed, value_at};
use lifetime::Lifetime;
use series::Series;
use timeline::{Reach, Timeline};

pub use observations::Observations;
pub(crate) use rate::rate_between;

/// How far before the archive's start PCP still answers, with nothing: 1 ms.
const SLOP: f64 = 0.001;

/// A metric that is replayed.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectedMetric {
    /// The name it was selected by.
    pub name: String,
    /// Its descriptor.
    pub desc: MetricDesc,
}

/// Metrics chosen for replay; [`load`](Self::load) reads their observations.
#[derive(Debug)]
pub struct Selection<'a> {
    source: Source<'a>,
    metrics: Vec<SelectedMetric>,
    selected: HashSet<Pmid>,
    decrease: Decrease,
}

impl<'a> Selection<'a> {
    /// Adds a metric by its name, or all metrics below a name, or all whose
    /// names a pattern with `*` and `?` matches, in the order of their names;
    /// an empty name adds all there are. A metric that is selected already is
    /// not added again.
    ///
    /// Returns how many metrics the name stands for: 0 is a name that the
    /// archive does not have.
    pub fn select(&mut self, name: &str) -> usize {
        let is_pattern = glob::is_pattern(name);
        let below = self.source.metadata().subtree(if is_pattern { "" } else { name });
        let mut found = 0;
        for (leaf, metric) in below.filter(|(leaf, _)| !is_pattern || glob::matches(name, leaf)) {
            found += 1;
            if self.selected.insert(metric.desc.pmid) {
                self.metrics.push(SelectedMetric { name: leaf.to_owned(), desc: metric.desc });
            }
        }
        found
    }

    /// What a decrease of an integer counter means; a reset without this.
    #[must_use]
    pub fn decrease(mut self, decrease: Decrease) -> Self {
        self.decrease = decrease;
        self
    }

    /// The metrics so far.
    pub fn metrics(&self) -> &[SelectedMetric] {
        &self.metrics
    }

    /// Reads the archive once and keeps the observations of the selection.
    ///
    /// # Errors
    ///
    /// Those of the reader: a damaged record ends the scan.
    pub fn load(self) -> Result<Replay<'a>> {
        let source = self.source;
        let mut replay = self.unread();
        replay.scan(source.records()?, Timestamp::MAX)?;
        replay.end = replay.timeline.end().unwrap_or(replay.end);
        replay.settle();
        Ok(replay)
    }

    /// The replay of the selection before any record is read.
    fn unread(self) -> Replay<'a> {
        let start = self.source.start();
        Replay {
            source: self.source,
            timeline: Timeline::new(start),
            tracks: self.metrics.into_iter().map(Track::new).collect(),
            decrease: self.decrease,
            backward_records: 0,
            end: start,
            covered: None,
        }
    }
}

/// One metric and the observations of its instances.
#[derive(Debug)]
struct Track {
    metric: SelectedMetric,
    /// Ordered by instance once loaded.
    series: Vec<Series>,
    places: HashMap<Option<InstanceId>, usize>,
    /// Parallel to `series`; `None` for an instance that is not replayed.
    lives: Vec<Option<Lifetime>>,
}

impl Track {
    fn new(metric: SelectedMetric) -> Self {
        Self { metric, series: Vec::new(), places: HashMap::new(), lives: Vec::new() }
    }

    /// The series of an instance. `hint` is where it was in the last record,
    /// and where it most likely is again.
    fn series_of(&mut self, instance: Option<InstanceId>, hint: usize) -> Option<&mut Series> {
        // A metric without a domain has one series, whatever number its
        // records carry.
        let instance = instance.filter(|_| self.metric.desc.indom.is_some());
        let place = match self.series.get(hint) {
            Some(series) if series.instance() == instance => hint,
            _ => *self.places.entry(instance).or_insert_with(|| {
                self.series.push(Series::new(instance, self.metric.desc.value_type));
                self.series.len() - 1
            }),
        };
        self.series.get_mut(place)
    }

    /// The series of an instance once they are in order.
    fn series_with(&self, instance: Option<InstanceId>) -> Option<&Series> {
        let place = self.series.binary_search_by_key(&instance, Series::instance).ok()?;
        self.series.get(place)
    }

    /// Orders the instances and finds out when each exists.
    fn settle(&mut self, metadata: &Metadata) {
        self.series.sort_by_key(Series::instance);
        self.places.clear();
        self.lives = match self.metric.desc.indom {
            None => vec![Some(Lifetime::ALWAYS); self.series.len()],
            Some(indom) => {
                let history = metadata.indom_history(indom);
                let lives = lifetime::lifetimes(history.map_or(&[], IndomHistory::states));
                let life = |series: &Series| lives.get(&series.instance()?).copied();
                self.series.iter().map(life).collect()
            }
        };
    }

    /// The values at one moment by instance.
    fn values_at(
        &self,
        moment: &Moment,
        timeline: &Timeline,
        decrease: Decrease,
    ) -> Vec<(Option<InstanceId>, Value<'_>)> {
        let lives = self.lives.iter().zip(&self.series);
        let alive = lives.filter(|(life, _)| life.is_some_and(|life| life.contains(moment.at)));
        alive
            .filter_map(|(_, series)| {
                let semantics = self.metric.desc.semantics;
                let value = series_value(series, semantics, &moment.reach, timeline, decrease)?;
                Some((series.instance(), value))
            })
            .collect()
    }
}

/// The value of one series within the reach of a moment.
fn series_value<'s>(
    series: &'s Series,
    semantics: Semantics,
    reach: &Reach,
    timeline: &Timeline,
    decrease: Decrease,
) -> Option<Value<'s>> {
    let (prior, next) = series.neighbours(reach);
    let observed = |place: usize| {
        let (record, value) = series.get(place)?;
        Some(Observed { at: timeline.seconds(record), value })
    };
    value_at(semantics, observed(prior?), next.and_then(observed), reach.at, decrease)
}

/// A moment and where its neighbours are.
#[derive(Debug)]
struct Moment {
    at: Timestamp,
    reach: Reach,
}

/// The selected metrics at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample<'r> {
    /// The moment.
    pub timestamp: Timestamp,
    /// A mark was logged at this moment. Never set in interpolated samples.
    pub is_mark: bool,
    /// For each selected metric, in the order of [`Replay::metrics`], the
    /// values by instance, ascending; a metric without instances has `None` as
    /// its instance. Empty where the metric has no value.
    pub values: Vec<Vec<(Option<InstanceId>, Value<'r>)>>,
}

/// One archive, or several as one, whose selected metrics can be asked for at
/// any time.
#[derive(Debug)]
pub struct Replay<'a> {
    source: Source<'a>,
    timeline: Timeline,
    tracks: Vec<Track>,
    decrease: Decrease,
    backward_records: u64,
    end: Timestamp,
    /// The spans that were read for, in order and apart; `None` if all was.
    covered: Option<Vec<RangeInclusive<Timestamp>>>,
}

impl<'a> Replay<'a> {
    /// Begins the selection of metrics of an archive, or of an
    /// [`ArchiveSet`](crate::ArchiveSet).
    pub fn open(source: impl Into<Source<'a>>) -> Selection<'a> {
        Selection {
            source: source.into(),
            metrics: Vec::new(),
            selected: HashSet::new(),
            decrease: Decrease::Reset,
        }
    }

    /// The selected metrics, in the order of their selection.
    pub fn metrics(&self) -> impl ExactSizeIterator<Item = &SelectedMetric> {
        self.tracks.iter().map(|track| &track.metric)
    }

    /// The instances of a metric that have values in what was read, ascending.
    /// Without instances the one is `None`.
    pub fn instances(&self, metric: usize) -> impl Iterator<Item = Option<InstanceId>> {
        let series = self.tracks.get(metric).map(|track| track.series.as_slice());
        series.unwrap_or_default().iter().map(Series::instance)
    }

    /// Records that were left out because their stamp lies before that of the
    /// record in front of them. Such an archive is damaged.
    pub fn backward_records(&self) -> u64 {
        self.backward_records
    }

    /// The time between two observations that is typical (the median) of the
    /// instance with most of them; `None` if no instance has two.
    pub fn typical_interval(&self) -> Option<Duration> {
        let all = self.tracks.iter().flat_map(|track| &track.series);
        let longest = all.max_by_key(|series| series.records().count())?;
        let stamps: Vec<Timestamp> =
            longest.records().filter_map(|record| self.timeline.stamp(record)).collect();
        let gaps =
            stamps.windows(2).filter_map(|pair| Some(pair.last()?.nanos_since(*pair.first()?)));
        let mut gaps: Vec<i128> = gaps.collect();
        gaps.sort_unstable();
        let median = gaps.get(gaps.len() / 2)?;
        Some(Duration::from_nanos(u64::try_from(*median).ok()?))
    }

    /// The stamp of the last record; no metric has a value after it.
    pub fn end(&self) -> Timestamp {
        self.end
    }

    /// The values of the selected metrics at a moment, or `None` if it lies
    /// outside the archive (`PM_ERR_EOL`) or of what was
    /// [read](Selection::load_spans).
    pub fn at(&self, at: Timestamp) -> Option<Sample<'_>> {
        if self.timeline.seconds_of(at) < -SLOP || at > self.end() || !self.is_covered(at) {
            return None;
        }
        let moment = Moment { at, reach: self.timeline.reach(at) };
        let values = |track| Track::values_at(track, &moment, &self.timeline, self.decrease);
        let values = self.tracks.iter().map(values).collect();
        Some(Sample { timestamp: at, is_mark: false, values })
    }

    fn is_covered(&self, at: Timestamp) -> bool {
        self.covered.as_ref().is_none_or(|spans| {
            let place = spans.partition_point(|span| *span.end() < at);
            spans.get(place).is_some_and(|span| span.contains(&at))
        })
    }

    /// Samples from `start` to `end`, both included, every `step`, as far as
    /// they lie in the archive. A step of zero gives one sample.
    pub fn window(
        &self,
        start: Timestamp,
        end: Timestamp,
        step: Duration,
    ) -> impl Iterator<Item = Sample<'_>> {
        // Steps that certainly lie before the archive are not tried.
        let before = self.source.start().nanos_since(start).max(0);
        let step_nanos = (step.as_nanos() as i128).max(1);
        let skipped = (before / step_nanos).saturating_sub(1).max(0);
        let skipped = if step.is_zero() { 0 } else { skipped * step_nanos };
        let start = Timestamp::from_nanos(start.as_nanos() + skipped);
        times(start..=end.min(self.end()), step).filter_map(|at| self.at(at))
    }

    /// What was logged, record by record: the observations themselves, and the
    /// marks as samples without values. Records without any value of the
    /// selected metrics are passed over.
    pub fn observations(&self) -> Observations<'_> {
        Observations::new(self)
    }

    /// Reads records until one is later than `until`, and keeps what belongs to
    /// the selected metrics.
    fn scan(&mut self, mut records: Records<'_>, until: Timestamp) -> Result<()> {
        let by_pmid: HashMap<Pmid, usize> = self
            .tracks
            .iter()
            .enumerate()
            .map(|(place, track)| (track.metric.desc.pmid, place))
            .collect();
        while let Some(record) = records.next()? {
            if record.timestamp() > until {
                break;
            }
            let Some(number) = self.timeline.push(record.timestamp(), record.is_mark()) else {
                self.backward_records += 1;
                continue;
            };
            for set in record.value_sets() {
                let track = by_pmid.get(&set.pmid()).and_then(|&place| self.tracks.get_mut(place));
                let Some(track) = track else { continue };
                for (hint, value) in set.values(track.metric.desc.value_type).enumerate() {
                    let (instance, value) =
                        value.map_err(|error| self.source.damaged(&record, error))?;
                    if let Some(series) = track.series_of(instance, hint) {
                        series.push(number, value);
                    }
                }
            }
        }
        Ok(())
    }

    fn settle(&mut self) {
        for track in &mut self.tracks {
            track.settle(self.source.metadata());
        }
    }
}

/// The moments from the start of a span to its end, both included, every
/// `step`. A step of zero gives one.
pub fn times(span: RangeInclusive<Timestamp>, step: Duration) -> impl Iterator<Item = Timestamp> {
    let step = step.as_nanos() as i128;
    let length = span.end().nanos_since(*span.start());
    let count = if step > 0 { length / step } else { 0 };
    let steps = if length < 0 { 0..0 } else { 0..count + 1 };
    steps.map(move |k| Timestamp::from_nanos(span.start().as_nanos() + k * step))
}

#[cfg(test)]
mod tests;
