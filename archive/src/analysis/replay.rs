//! Replay: the value of any metric at any time, by the rules of PCP 7.2.1.
//!
//! In come an archive, which holds observations at the logger's intervals, and a
//! selection of metrics; out go values at any moment in between. Invariant: they depend
//! on the archive and the moment only, not on earlier calls, the direction or the step.
//! (PCP's depend on earlier fetches in some cases; the result here is then that of a
//! new context.)
//!
//! # The rules by example
//!
//! A metric was logged as 100 at 0 s, 203 at 10 s and 50 at 20 s; then the logger
//! stopped, which is recorded as a *mark* at 20.001 s; then 60 at 40 s and 81 at
//! 50 s. Its value at t:
//!
//! | t | counter | instant | discrete | why |
//! |---|---|---|---|---|
//! | 5 | 152 | 100 | 100 | counter: 100 + 5 * 103/10 = 151.5, rounded; others: the nearer observation, the earlier one if both are equally near |
//! | 7 | 172 | 203 | 203 | the later one is nearer |
//! | 10 | 203 | 203 | 203 | an observation at t is the result |
//! | 15 | 127 | 203 | 203 | a counter that decreases was reset: interpolation is linear all the same |
//! | 20.0005 | - | - | 50 | no next observation before the mark; discrete values need none |
//! | 25 | - | - | - | the mark hides everything before it |
//! | 45 | 71 | 60 | 60 | |
//! | 51 | - | - | - | after the end of the archive |
//!
//! The rules apply to each instance of a metric separately. A record in which a metric
//! has an error code or lacks an instance is not an observation of it, and does not
//! interrupt interpolation; only marks do.
//!
//! # Reading order
//!
//! `interpolate` has the rules, each a small function; `timeline` the records and marks;
//! `growth` the times at which an instance exists; this file applies them to the columns that a
//! [scan] has read; `lines` computes what counters grew, and `rate` their rates; [`expression`]
//! computes values from those of several metrics, `histogram` quantiles, and `derived` adds both to
//! a selection; `seek` reads only the parts of an archive that decide the results, and `window`
//! reads them in batches.
//!
//! # Cost
//!
//! One forward scan of the archive collects the observations of the selected
//! metrics, 12 bytes each for a number. A value then takes two binary searches
//! for each instance, whatever the step. For few moments or a narrow window,
//! [`ReplaySelection::load_moments`] and [`ReplaySelection::load_spans`] read only what
//! decides the values there; many moments, and logged values, are read [batch by
//! batch](ReplaySelection::window) in bounded memory, the batches of a window on [all
//! processors](Window::for_each).

mod damage;
mod derived;
pub mod expression;
mod histogram;
pub(crate) mod interpolate;
mod lines;
mod observations;
mod over;
mod rate;
mod resets;
mod seek;
mod steps;
mod successive_rates;
mod timeline;
mod two_moments;
mod window;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};

use super::growth::lifetime::{self, Lifetime, Lifetimes};
use super::growth::walls::Walls;
use crate::reader::salvage::Loss;
use crate::scan::{Chunk, ChunkLimits, ChunkRows, Column, programs};
use crate::{InstanceId, Metadata, Pmid, Result, Semantics, Source, Timestamp, Value, scan};

use derived::{Derivations, DerivedMetric, IntervalValue, LabelGroups, NeededMetric};
use interpolate::{ObservedValue, value_at};
use lines::TrackWalls;
use timeline::{Reach, Timeline};

pub use super::growth::Decrease;

pub use super::growth::Gaps;
pub use crate::scan::SelectedMetric;
pub use expression::{Expression, ExpressionError, ExpressionValues};
pub use histogram::{BucketCount, HistogramCounts, HistogramValue, SuccessiveHistogram};
pub use observations::Observations;
pub(crate) use rate::rate_between;
pub use successive_rates::SuccessiveRates;
pub use window::{LoggedBatches, Window};

/// Time before the archive's start for which PCP still returns a result, without values: 1 ms.
const SLOP: f64 = 0.001;

/// Metrics chosen for replay; [`load`](Self::load) reads their observations.
#[derive(Debug, Clone)]
pub struct ReplaySelection<'a> {
    chosen: scan::Selection<'a>,
    derivations: Derivations,
    /// Number of metrics that are shown, once it is known; the others are only operands of
    /// derived ones.
    shown: Option<usize>,
    /// The instances that are shown of metrics of which derived ones need more.
    limits: HashMap<Pmid, HashSet<InstanceId>>,
    /// Lifetimes of the selected instances, once they are known.
    lives: Option<Arc<Lifetimes>>,
    reads_on: bool,
    decrease: Decrease,
    gaps: Gaps,
}

impl<'a> ReplaySelection<'a> {
    /// Adds metrics by name, subtree or pattern, as
    /// [`scan::Selection::select`] does, and returns how many the name selects.
    pub fn select(&mut self, name: &str) -> usize {
        self.chosen.select(name)
    }

    /// Adds a metric by its name, of which only these instances are wanted, or all.
    pub fn select_limited(&mut self, name: &str, instances: Option<&HashSet<InstanceId>>) {
        self.chosen.select_operand(name, instances);
    }

    /// Adds an instance to those that are replayed, as
    /// [`scan::Selection::select_instance`] does. If none is added, all are replayed.
    pub fn select_instance(&mut self, instance: impl Into<String>) {
        self.chosen.select_instance(instance);
    }

    /// Removes the metrics for which `is_kept` returns false.
    pub fn retain(&mut self, is_kept: impl FnMut(&SelectedMetric) -> bool) {
        self.chosen.retain(is_kept);
    }

    /// Sets what a decrease of an integer counter means; by default a reset.
    #[must_use]
    pub fn decrease(mut self, decrease: Decrease) -> Self {
        self.decrease = decrease;
        self
    }

    /// Sets what a time without values means; by default, where the program of an MMV file
    /// was away its metrics have no values.
    #[must_use]
    pub fn gaps(mut self, gaps: Gaps) -> Self {
        self.gaps = gaps;
        self
    }

    /// Returns the metrics so far.
    pub fn metrics(&self) -> &[SelectedMetric] {
        self.chosen.metrics()
    }

    /// Returns the archive or archives that are replayed.
    pub const fn source(&self) -> Source<'a> {
        self.chosen.source()
    }

    /// Returns the metadata that names are looked up in.
    pub const fn metadata(&self) -> &'a Metadata {
        self.chosen.source().metadata()
    }

    /// Reads the archive once and keeps the observations of the selection.
    ///
    /// # Errors
    ///
    /// Those of the reader: a damaged record ends the scan, unless the selection
    /// [reads on](Self::read_on).
    pub fn load(self) -> Result<Replay<'a>> {
        let selection = self.with_operands();
        let source = selection.chosen.source();
        let mut chunk = Chunk::new(&selection.chosen);
        let mut records = source.records()?;
        let mut lost = Vec::new();
        while selection.fill(&mut chunk, &mut records, ChunkLimits::UNBOUNDED, &mut lost)? {}
        let end = chunk.timestamps().last().copied().unwrap_or(source.start());
        Ok(Replay { lost, ..selection.replay(chunk.into_rows(), end, None) })
    }

    /// Adds the operands of derived metrics that are not selected themselves, after the
    /// metrics that are shown, and last the events that say when programs ran.
    fn with_operands(mut self) -> Self {
        self.shown = self.shown.or(Some(self.metrics().len()));
        for NeededMetric { name, instances } in &self.derivations.operands {
            let pmid = self.metadata().metric_by_name(name).map(|metric| metric.desc.pmid);
            let shown = pmid.and_then(|pmid| self.chosen.labelled_instances(pmid)).cloned();
            self.chosen.select_operand(name, instances.as_ref());
            if let (Some(pmid), Some(shown)) = (pmid, shown)
                && self.chosen.labelled_instances(pmid) != Some(&shown)
            {
                self.limits.entry(pmid).or_insert(shown);
            }
        }
        if self.gaps == Gaps::Keep {
            for (pmid, shown) in lifetime::read_witnesses(&mut self.chosen, self.gaps) {
                self.limits.entry(pmid).or_insert(shown);
            }
            programs::select_events(&mut self.chosen);
        } else {
            self.chosen.mark_archives();
        }
        if self.lives.is_none() {
            self.lives = Some(Arc::new(Lifetimes::new(&self.chosen, self.gaps, true)));
        }
        self
    }

    /// Builds the replay from the rows that were read.
    fn replay(
        self,
        taken: ChunkRows,
        end: Timestamp,
        covered: Option<Vec<RangeInclusive<Timestamp>>>,
    ) -> Replay<'a> {
        let source = self.chosen.source();
        let shown = self.metrics().iter().take(self.shown.unwrap_or(0)).cloned();
        let derived = self.derivations.all.iter().map(|derived| derived.metric.clone());
        let operands = self.derivations.operands.iter().filter_map(|needed| {
            let pmid = source.metadata().metric_by_name(&needed.name)?.desc.pmid;
            self.metrics().iter().position(|metric| metric.desc.pmid == pmid)
        });
        let operands: Vec<usize> = operands.collect();
        let shown = shown.chain(derived).collect();
        let ChunkRows { timestamps, marks, columns, backward_records } = taken;
        let lives = self.lives.as_deref();
        let metrics = self.chosen.metrics().iter().cloned();
        let timeline = Timeline::new(source.start(), timestamps, marks);
        let mut limits = self.limits;
        let mut tracks: Vec<MetricTrack> = metrics
            .zip(columns)
            .map(|(metric, columns)| {
                let shown = limits.remove(&metric.desc.pmid);
                MetricTrack::new(lives, &timeline, metric, columns, shown)
            })
            .collect();
        find_walls(&mut tracks, &timeline, lives, self.gaps, self.decrease);
        let mut derived = self.derivations.all;
        let mut of_interval = self.derivations.of_interval;
        let decrease = self.decrease;
        derived::find_histograms(&mut derived, &mut of_interval, &tracks, &operands, decrease);
        Replay {
            source,
            timeline,
            metrics: shown,
            derived,
            of_interval,
            groups: self.derivations.groups,
            operands,
            tracks,
            decrease: self.decrease,
            gaps: self.gaps,
            backward_records,
            lost: Vec::new(),
            end,
            covered,
        }
    }
}

/// One metric and the observations of its instances.
#[derive(Debug)]
struct MetricTrack {
    metric: SelectedMetric,
    /// Ordered by instance.
    columns: Vec<Column>,
    /// Parallel to `columns`; `None` for an instance that is not replayed.
    lives: Vec<Option<Lifetime>>,
    /// The instances that are shown; `None` for all.
    shown: Option<HashSet<InstanceId>>,
    walls: TrackWalls,
}

/// Finds the walls of each track. By PCP's rules only marks are walls.
fn find_walls(
    tracks: &mut [MetricTrack],
    timeline: &Timeline,
    lives: Option<&Lifetimes>,
    gaps: Gaps,
    decrease: Decrease,
) {
    let events = tracks.iter().find(|track| track.is_of_events() && gaps == Gaps::Keep);
    let events = events.and_then(|track| track.columns.first());
    let walls = Walls::find(timeline.timestamps(), timeline.marks(), events, None);
    for track in tracks {
        let presences = lives.and_then(|lives| lives.presences(&track.metric));
        track.walls = TrackWalls::find(track, &walls, timeline, presences, gaps, decrease);
    }
}

impl MetricTrack {
    fn is_of_events(&self) -> bool {
        self.metric.desc.pmid == programs::events_metric()
    }

    fn new(
        lives: Option<&Lifetimes>,
        timeline: &Timeline,
        metric: SelectedMetric,
        mut columns: Vec<Column>,
        shown: Option<HashSet<InstanceId>>,
    ) -> Self {
        columns.sort_by_key(Column::instance);
        let life = |column: &Column| lives?.lifetime(&metric, column.instance());
        if lives.is_some_and(|lives| lives.bound_values(&metric)) {
            for column in &mut columns {
                if let Some(life) = life(column) {
                    column.keep_rows(&timeline.rows_within(life.birth()..=life.death()));
                }
            }
        }
        let lives = columns.iter().map(life).collect();
        Self { metric, columns, lives, shown, walls: TrackWalls::default() }
    }

    fn shows(&self, instance: Option<InstanceId>) -> bool {
        self.shown
            .as_ref()
            .is_none_or(|shown| instance.is_some_and(|instance| shown.contains(&instance)))
    }

    fn place_of(&self, instance: Option<InstanceId>) -> Option<usize> {
        self.columns.binary_search_by_key(&instance, Column::instance).ok()
    }

    fn instances(&self) -> impl Iterator<Item = Option<InstanceId>> {
        self.columns.iter().map(Column::instance)
    }

    fn values_at<'s>(
        &'s self,
        moment: &Moment,
        timeline: &Timeline,
        decrease: Decrease,
    ) -> ExpressionValues<'s> {
        let reach = moment.reach.limited(self.walls.all());
        let mut values = ExpressionValues::new();
        for (place, (life, column)) in self.lives.iter().zip(&self.columns).enumerate() {
            if !life.is_some_and(|life| life.contains(moment.at)) {
                continue;
            }
            let semantics = self.metric.desc.semantics;
            let own = self.walls.with_births(place).map(|walls| moment.reach.limited(walls));
            let reach = own.as_ref().unwrap_or(&reach);
            let value = column_value(column, semantics, reach, timeline, decrease);
            values.extend(value.map(|value| (column.instance(), value)));
        }
        values
    }
}

fn column_value<'s>(
    column: &'s Column,
    semantics: Semantics,
    reach: &Reach,
    timeline: &Timeline,
    decrease: Decrease,
) -> Option<Value<'s>> {
    let (prior, next) = reach.neighbours(column.rows());
    let observed = |(place, record)| {
        Some(ObservedValue { at: timeline.seconds(record), value: column.value(place)? })
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
    /// The time of the values.
    pub timestamp: Timestamp,
    /// A mark was logged at this moment. Never set in interpolated samples.
    pub is_mark: bool,
    /// For each selected metric, in the order of [`Replay::metrics`], the
    /// values by instance, ascending; the instance is `None` for a metric without
    /// instances. Empty if the metric has no value.
    pub values: Vec<ExpressionValues<'r>>,
}

/// The values of selected metrics at any time, of one archive or of several as one.
#[derive(Debug)]
pub struct Replay<'a> {
    source: Source<'a>,
    timeline: Timeline,
    /// The shown metrics: the first tracks, then the derived metrics.
    metrics: Vec<SelectedMetric>,
    derived: Vec<DerivedMetric>,
    /// The quantiles and functions of intervals in expressions.
    of_interval: Vec<IntervalValue>,
    /// The domains of groups in expressions.
    groups: Vec<LabelGroups>,
    /// The tracks of the operands of derived metrics.
    operands: Vec<usize>,
    tracks: Vec<MetricTrack>,
    decrease: Decrease,
    gaps: Gaps,
    backward_records: u64,
    lost: Vec<Loss>,
    end: Timestamp,
    /// The spans that were loaded, in order and disjoint; `None` for all of the archive.
    covered: Option<Vec<RangeInclusive<Timestamp>>>,
}

impl<'a> Replay<'a> {
    /// Begins the selection of metrics of an archive, or of an
    /// [`ArchiveSet`](crate::ArchiveSet).
    pub fn open(source: impl Into<Source<'a>>) -> ReplaySelection<'a> {
        ReplaySelection {
            chosen: scan::Selection::new(source),
            derivations: Derivations::default(),
            shown: None,
            limits: HashMap::new(),
            lives: None,
            reads_on: false,
            decrease: Decrease::Reset,
            gaps: Gaps::Keep,
        }
    }

    /// Returns the selected metrics, in the order of their selection, then the derived ones.
    pub fn metrics(&self) -> impl ExactSizeIterator<Item = &SelectedMetric> {
        self.metrics.iter()
    }

    fn shown(&self) -> usize {
        self.metrics.len() - self.derived.len()
    }

    /// Returns the instances of a metric that have values in what was read, ascending; a single
    /// `None` for a metric without instances.
    pub fn instances(&self, metric: usize) -> impl Iterator<Item = Option<InstanceId>> {
        let track = self.tracks.get(metric).filter(|_| metric < self.shown());
        let own = track
            .into_iter()
            .flat_map(|track| track.instances().filter(|instance| track.shows(*instance)));
        own.chain(self.derived_instances(metric))
    }

    /// Returns the number of records that were skipped because they are earlier than the record
    /// before them. Such an archive is damaged.
    pub fn backward_records(&self) -> u64 {
        self.backward_records
    }

    /// Returns the median time between two observations of the instance with most of them, not of
    /// the agent's events; `None` if no instance has two.
    pub fn typical_interval(&self) -> Option<Duration> {
        let sampled = self.tracks.iter().filter(|track| !track.is_of_events());
        let all = sampled.flat_map(|track| &track.columns);
        let longest = all.max_by_key(|column| column.len())?;
        let timestamps: Vec<Timestamp> =
            longest.rows().iter().filter_map(|record| self.timeline.timestamp(record)).collect();
        let gaps =
            timestamps.windows(2).filter_map(|pair| Some(pair.last()?.nanos_since(*pair.first()?)));
        let mut gaps: Vec<i128> = gaps.collect();
        gaps.sort_unstable();
        let median = gaps.get(gaps.len() / 2)?;
        Some(Duration::from_nanos(u64::try_from(*median).ok()?))
    }

    /// Returns the timestamp of the last record; no metric has a value after it.
    pub fn end(&self) -> Timestamp {
        self.end
    }

    /// Returns the values of the selected metrics at a moment, or `None` if it is outside the
    /// archive (`PM_ERR_EOL`) or of what was [read](ReplaySelection::load_spans).
    pub fn sample_at(&self, at: Timestamp) -> Option<Sample<'_>> {
        let values = self.tracks_at(at)?;
        let derived = self.derived_at(&values);
        Some(self.sample(at, values, derived))
    }

    /// Returns the values of all tracks, including those that are only operands of derived
    /// metrics.
    fn tracks_at(&self, at: Timestamp) -> Option<Vec<ExpressionValues<'_>>> {
        self.some_at(at, |_| true)
    }

    /// Computes a sample without values of the tracks that are not wanted.
    fn some_at(
        &self,
        at: Timestamp,
        is_wanted: impl Fn(&MetricTrack) -> bool,
    ) -> Option<Vec<ExpressionValues<'_>>> {
        let moment = self.has_moment(at).then(|| self.moment(at))?;
        let mut all = Vec::with_capacity(self.tracks.len());
        for track in &self.tracks {
            let values =
                is_wanted(track).then(|| track.values_at(&moment, &self.timeline, self.decrease));
            all.push(values.unwrap_or_default());
        }
        Some(all)
    }

    fn moment(&self, at: Timestamp) -> Moment {
        Moment { at, reach: self.timeline.reach(at) }
    }

    /// Returns whether a moment is in the archive and in the records that were read.
    fn has_moment(&self, at: Timestamp) -> bool {
        self.timeline.seconds_of(at) >= -SLOP && at <= self.end() && self.is_covered(at)
    }

    fn is_covered(&self, at: Timestamp) -> bool {
        self.covered.as_ref().is_none_or(|spans| {
            let place = spans.partition_point(|span| *span.end() < at);
            spans.get(place).is_some_and(|span| span.contains(&at))
        })
    }

    /// Iterates over samples from `start` to `end`, both inclusive, every `step`, within the
    /// archive. A step of zero gives one sample.
    pub fn window(
        &self,
        start: Timestamp,
        end: Timestamp,
        step: Duration,
    ) -> impl Iterator<Item = Sample<'_>> {
        // Steps before the archive are skipped.
        let before = self.source.start().nanos_since(start).max(0);
        let step_nanos = (step.as_nanos() as i128).max(1);
        let skipped = (before / step_nanos).saturating_sub(1).max(0);
        let skipped = if step.is_zero() { 0 } else { skipped * step_nanos };
        let start = Timestamp::from_nanos(start.as_nanos() + skipped);
        times(start..=end.min(self.end()), step).filter_map(|at| self.sample_at(at))
    }

    /// Returns what was logged, record by record: the observations themselves, and the marks as
    /// samples without values. Records without any value of the selected metrics are skipped.
    /// Derived metrics have no values here.
    pub fn observations(&self) -> Observations<'_> {
        Observations::new(self)
    }
}

/// Returns the moments from the start of a span to its end, both inclusive, every `step`. A step
/// of zero gives one moment.
pub fn times(span: RangeInclusive<Timestamp>, step: Duration) -> impl Iterator<Item = Timestamp> {
    let step = step.as_nanos() as i128;
    let length = span.end().nanos_since(*span.start());
    let count = if step > 0 { length / step } else { 0 };
    let steps = if length < 0 { 0..0 } else { 0..count + 1 };
    steps.map(move |k| Timestamp::from_nanos(span.start().as_nanos() + k * step))
}

#[cfg(test)]
mod tests;
