//! The metrics of a selection in a span of time, and spans that follow each other as one.

use std::ops::Bound;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::Options;
use super::grid::{Grid, Moment};
use super::track::{Kind, Rows, Track};
use crate::replay::Gaps;
use crate::replay::lifetime::{Lifetime, lifetimes};
use crate::scan::segments::by_time;
use crate::scan::{Chunk, Columns, SelectedMetric, Selection};
use crate::summary::walls::{Wall, Walls};
use crate::{InDom, InstanceId, Result, Timestamp, programs};

/// By how much a span before the window grows that has not all that is looked for.
const GROWTH: i128 = 4;
/// The length of the first such span: at least a minute.
const LEAST: i128 = 60_000_000_000;

type Lives = HashMap<InDom, HashMap<InstanceId, Lifetime>>;

/// What does not change from segment to segment.
struct Plan<'s> {
    grid: &'s Grid,
    metrics: &'s [SelectedMetric],
    lives: Lives,
    rates: bool,
    /// For each metric the instances whose rates may reach over the window without an
    /// observation in it.
    reaching: Vec<Vec<Option<InstanceId>>>,
}

impl<'s> Plan<'s> {
    fn new(selection: &'s Selection<'_>, grid: &'s Grid, options: Options) -> Self {
        let Options { rates, gaps } = options;
        let metrics = selection.metrics();
        let indoms = metrics.iter().filter_map(|metric| metric.desc.indom);
        let history = |indom| Some((indom, selection.source().metadata().indom_history(indom)?));
        let lives = indoms.filter_map(history).map(|(indom, all): (InDom, _)| {
            let is_of_file = gaps == Gaps::Keep && indom.domain() == programs::DOMAIN;
            (indom, lifetimes(all, is_of_file))
        });
        let lives: Lives = lives.collect();
        let window = grid.window();
        let reaching = |(metric, selected): (&SelectedMetric, Option<Arc<HashSet<_>>>)| {
            if !matches!(Kind::of(metric, rates), Kind::Rate(_)) {
                return Vec::new();
            }
            let Some(indom) = metric.desc.indom else { return vec![None] };
            let alive = lives.get(&indom).into_iter().flatten();
            let alive = alive.filter(|(_, life)| life.overlaps(&window)).map(|(id, _)| *id);
            let is_selected =
                |id: &InstanceId| selected.as_ref().is_none_or(|all| all.contains(id));
            alive.filter(is_selected).map(Some).collect()
        };
        let reaching = metrics.iter().zip(selection.instances_by_metric()).map(reaching).collect();
        Self { grid, metrics, lives, rates, reaching }
    }
}

/// The metrics in a span of time.
pub(super) struct Segment {
    metrics: Vec<Tracks>,
    /// There is a mark in it.
    has_mark: bool,
    /// The first mark of each column.
    marks: Vec<Timestamp>,
}

/// The instances of a metric.
struct Tracks {
    /// In the order of [`Chunk::columns`], while one segment is read. `None` is an instance
    /// without a name.
    instances: Vec<(Option<InstanceId>, Option<Track>)>,
    /// There was a mark or a boundary of its program.
    has_wall: bool,
}

/// The instances of each metric, and the marks.
type Read = (Vec<Vec<(Option<InstanceId>, Track)>>, Vec<Timestamp>);

impl Segment {
    /// Reads the window, and around it what reaches into it.
    pub(super) fn read(selection: &Selection<'_>, grid: &Grid, options: Options) -> Result<Read> {
        let plan = Plan::new(selection, grid, options);
        let work = |columns: &mut Columns<'_>| {
            let mut segment = Self::new(&plan);
            let mut walls = Walls::new(selection);
            while let Some(chunk) = columns.next_chunk()? {
                segment.add(&plan, chunk, &mut walls);
            }
            Ok(segment)
        };
        let segments = by_time(selection, &grid.window(), work)?;
        let window = segments.into_iter().reduce(|whole, next| whole.join(grid, next));
        let window = window.unwrap_or_else(|| Self::new(&plan));
        let whole = match Self::before(&plan, selection, &window)? {
            Some(before) => before.join(grid, window),
            None => window,
        };
        let whole = whole.continued(&plan, selection)?;
        let tracks = whole.metrics.into_iter().map(|tracks| {
            let own = tracks.instances.into_iter();
            own.filter_map(|(instance, track)| Some((instance, track?))).collect()
        });
        Ok((tracks.collect(), whole.marks))
    }

    fn new(plan: &Plan<'_>) -> Self {
        let empty = |_| Tracks { instances: Vec::new(), has_wall: false };
        let metrics = plan.metrics.iter().map(empty).collect();
        Self { metrics, has_mark: false, marks: Vec::new() }
    }

    fn add(&mut self, plan: &Plan<'_>, chunk: &Chunk, walls: &mut Walls) {
        walls.set(chunk);
        let timestamps = chunk.timestamps();
        let moments: Vec<Moment> = timestamps.iter().map(|at| plan.grid.moment(*at)).collect();
        let rows = Rows { grid: plan.grid, timestamps, moments: &moments };
        for (place, (tracks, metric)) in self.metrics.iter_mut().zip(plan.metrics).enumerate() {
            let own = walls.of(&metric.name, metric.desc.pmid);
            tracks.add(plan, chunk, (place, metric), rows, &own);
        }
        for at in chunk.marks().iter().filter_map(|row| timestamps.get(*row as usize)) {
            let column = plan.grid.column_of(*at);
            let last = self.marks.last().and_then(|last| plan.grid.column_of(*last));
            if column.is_some() && column != last {
                self.marks.push(*at);
            }
        }
        self.has_mark |= !chunk.marks().is_empty();
    }

    /// This span of time and the next one.
    fn join(mut self, grid: &Grid, next: Self) -> Self {
        for (tracks, more) in self.metrics.iter_mut().zip(next.metrics) {
            tracks.join(grid, more);
        }
        self.has_mark |= next.has_mark;
        let last = self.marks.last().and_then(|last| grid.column_of(*last));
        let is_new = |at: &Timestamp| last.is_none() || grid.column_of(*at) != last;
        self.marks.extend(next.marks.into_iter().filter(is_new));
        self
    }

    /// What is before the window, as far as the observations in it may continue it.
    fn before(plan: &Plan<'_>, selection: &Selection<'_>, window: &Self) -> Result<Option<Self>> {
        let (start, end) = plan.grid.window().into_inner();
        let first = selection.source().start();
        let mut length = end.nanos_since(start).max(LEAST);
        if first >= start {
            return Ok(None);
        }
        loop {
            let from = Timestamp::from_nanos(start.as_nanos().saturating_sub(length)).max(first);
            let span = (Bound::Included(from), Bound::Excluded(start));
            let mut columns = Columns::open(selection, span)?;
            let (mut before, mut walls) = (Self::new(plan), Walls::new(selection));
            while let Some(chunk) = columns.next_chunk()? {
                before.add(plan, chunk, &mut walls);
            }
            let mut all = before.metrics.iter().zip(&window.metrics).zip(&plan.reaching);
            let has_all = |((before, window), reaching): ((&Tracks, &Tracks), &Vec<_>)| {
                window.is_content_with(before, reaching)
            };
            if from == first || all.all(has_all) {
                return Ok(Some(before));
            }
            length = length.saturating_mul(GROWTH);
        }
    }

    /// This, and what comes after the window until no rate can reach back into it.
    fn continued(mut self, plan: &Plan<'_>, selection: &Selection<'_>) -> Result<Self> {
        let end = *plan.grid.window().end();
        let wants_more = |whole: &Self| {
            whole
                .metrics
                .iter()
                .flat_map(|tracks| &tracks.instances)
                .any(|(_, track)| track.as_ref().is_some_and(Track::wants_later))
        };
        if selection.source().end() <= end || !wants_more(&self) {
            return Ok(self);
        }
        let mut columns = Columns::open(selection, (Bound::Excluded(end), Bound::Unbounded))?;
        let mut walls = Walls::new(selection);
        let mut after = Self::new(plan);
        while let Some(chunk) = columns.next_chunk()? {
            after.add(plan, chunk, &mut walls);
            let mut pairs = self.metrics.iter().zip(&after.metrics);
            if pairs.all(|(tracks, after)| tracks.is_ended_by(after)) {
                break;
            }
        }
        self = self.join(plan.grid, after);
        Ok(self)
    }
}

impl Tracks {
    fn add(
        &mut self,
        plan: &Plan<'_>,
        chunk: &Chunk,
        (place, metric): (usize, &SelectedMetric),
        rows: Rows<'_>,
        walls: &[Wall],
    ) {
        let columns = chunk.columns(place);
        let lives = metric.desc.indom.map(|indom| plan.lives.get(&indom));
        for column in columns.iter().skip(self.instances.len()) {
            let instance = column.instance();
            let life = match lives {
                None => Some(Lifetime::ALWAYS),
                Some(lives) => instance.and_then(|id| lives?.get(&id).copied()),
            };
            let kind = Kind::of(metric, plan.rates);
            let track = |life| Track::new(kind, metric.desc.value_type, life, self.has_wall);
            self.instances.push((instance, life.map(track)));
        }
        for (column, (_, track)) in columns.iter().zip(&mut self.instances) {
            if let Some(track) = track {
                track.add(rows, column, walls);
            }
        }
        self.has_wall |= !walls.is_empty();
    }

    /// Adds the instances of the span of time that follows.
    fn join(&mut self, grid: &Grid, next: Self) {
        let mut more: HashMap<_, _> = next.instances.into_iter().collect();
        for (instance, track) in &mut self.instances {
            let Some(track) = track else { continue };
            match more.remove(instance).flatten() {
                Some(next) => track.join(grid, next),
                None if next.has_wall => track.meet_wall(),
                None => {}
            }
        }
        let (known, has_wall) = (&mut self.instances, self.has_wall);
        known.extend(more.into_iter().map(|(instance, mut track)| {
            if has_wall && let Some(track) = &mut track {
                track.follow_wall();
            }
            (instance, track)
        }));
        self.has_wall |= next.has_wall;
    }

    /// Whether a span before has all that the observations here may continue.
    fn is_content_with(&self, before: &Self, reaching: &[Option<InstanceId>]) -> bool {
        if before.has_wall {
            return true;
        }
        let known: HashSet<_> = before.seen().map(|(instance, _)| instance).collect();
        let own: HashMap<_, _> = self.seen().collect();
        let is_known = |instance| known.contains(instance);
        own.iter().all(|(instance, track)| !track.wants_earlier() || is_known(instance))
            && reaching.iter().all(|instance| own.contains_key(instance) || is_known(instance))
    }

    /// Whether no rate reaches from here beyond what was read of the span after.
    fn is_ended_by(&self, after: &Self) -> bool {
        if after.has_wall {
            return true;
        }
        let known: HashMap<_, _> = after.seen().collect();
        self.seen().all(|(instance, track)| !track.wants_later() || known.contains_key(&instance))
    }

    /// The instances that have a name.
    fn seen(&self) -> impl Iterator<Item = (Option<InstanceId>, &Track)> {
        self.instances.iter().filter_map(|(instance, track)| Some((*instance, track.as_ref()?)))
    }
}
