//! The metrics of a selection in a span of time, and spans that follow each other as one.

use hashbrown::{HashMap, HashSet};

use super::ReadMode;
use super::grid::{Grid, GridMoment, seconds};
use super::plan::WindowPlan;
use super::track::{GridRows, InstanceTrack};
use crate::analysis::growth::strand::InstanceStrands;
use crate::analysis::growth::walls::{MetricWalls, Walls};
use crate::reader::salvage::Loss;
use crate::scan::segments::{by_time, by_time_past_damage};
use crate::scan::{Chunk, Column, Columns, RowPlace, SelectedMetric, Selection};
use crate::{InstanceId, Result, Timestamp};

/// Growth of the span before the window while it lacks something that is searched for.
const GROWTH: i128 = 4;
/// The length of the first such span.
const MIN_SPAN: i128 = 10_000_000_000;
/// The rows of the first chunk after the window; later chunks grow by [`GROWTH`].
const FEW_ROWS: usize = 16;

/// The metrics in a span of time.
#[derive(Debug)]
pub(super) struct EnvelopeSegment {
    pub(super) metrics: Vec<Tracks>,
    pub(super) marks: Vec<Timestamp>,
    /// The end of the rows.
    pub(super) end: Option<RowPlace>,
}

#[derive(Debug, Default)]
pub(super) struct Tracks {
    /// `None` is an instance without a name.
    pub(super) instances: InstanceStrands<Option<InstanceTrack>>,
    /// Tracks from before this span that go on in it, until they do.
    earlier: HashMap<Option<InstanceId>, InstanceTrack>,
}

impl EnvelopeSegment {
    /// Reads the window, and around it what reaches into it. Returns also what was lost in the
    /// window.
    pub(super) fn read(
        plan: &WindowPlan<'_>,
        selection: &Selection<'_>,
        mode: ReadMode<'_>,
    ) -> Result<(Self, Vec<Loss>)> {
        let window = plan.grid.window();
        let read_segment = |columns: &mut Columns<'_>| {
            let mut segment = Self::new(plan.scope.metrics.len());
            segment.fill(plan, selection, columns, &mut |_| (mode.go_on)())?;
            Ok(segment)
        };
        let mut lost = Vec::new();
        let segments;
        if mode.past_damage {
            (segments, lost) = by_time_past_damage(selection, &window, read_segment)?;
        } else {
            segments = by_time(selection, &window, read_segment)?;
        }
        let window = segments.into_iter().reduce(|whole, next| whole.join(plan, next));
        let window = window.unwrap_or_else(|| Self::new(plan.scope.metrics.len()));
        let whole = match Self::read_before(plan, selection, &window, mode)? {
            Some(before) => before.join(plan, window),
            None => window,
        };
        Ok((whole.read_past_window(plan, selection, mode)?, lost))
    }

    pub(super) fn new(metrics: usize) -> Self {
        let metrics = std::iter::repeat_with(Tracks::default).take(metrics).collect();
        Self { metrics, marks: Vec::new(), end: None }
    }

    /// Returns a span of time right after this one, which goes on with its tracks. It may begin
    /// at the time of the last row here, as one that is [appended](Self::append) may not.
    pub(super) fn go_on(&self) -> Self {
        let metrics = self.metrics.iter().map(|tracks| {
            let earlier = tracks.seen().map(|(instance, track)| (instance, track.clone()));
            let instances =
                InstanceStrands { run: tracks.instances.run, ..InstanceStrands::default() };
            Tracks { earlier: earlier.collect(), instances }
        });
        Self { metrics: metrics.collect(), ..Self::new(0) }
    }

    /// Adds chunks until there are no more, or one is not to be followed by another.
    pub(super) fn fill(
        &mut self,
        plan: &WindowPlan<'_>,
        selection: &Selection<'_>,
        columns: &mut Columns<'_>,
        go_on: &mut dyn FnMut(&Self) -> bool,
    ) -> Result<()> {
        while let Some(chunk) = columns.next_chunk()? {
            self.add(plan, selection, chunk);
            if !go_on(self) {
                break;
            }
        }
        Ok(())
    }

    fn add(&mut self, plan: &WindowPlan<'_>, selection: &Selection<'_>, chunk: &Chunk) {
        let before = self.metrics.first().and_then(|tracks| tracks.instances.run.newest());
        let walls = Walls::of_chunk(chunk.rows(), selection, before);
        let timestamps = chunk.timestamps();
        let moments: Vec<GridMoment> = timestamps.iter().map(|at| plan.grid.moment(*at)).collect();
        let between = moments.windows(2).map(|pair| match pair {
            [before, after] => seconds(after.offset - before.offset),
            _ => 0.0,
        });
        let seconds: Vec<f64> = std::iter::once(0.0).chain(between).collect();
        let rows = GridRows { grid: plan.grid, timestamps, moments: &moments, seconds: &seconds };
        let metrics = self.metrics.iter_mut().zip(&plan.scope.metrics);
        for (place, (tracks, metric)) in metrics.enumerate() {
            let columns = chunk.columns(place);
            let known = plan.scope.lives.presences(metric);
            let run = tracks.instances.run;
            let own = MetricWalls::new(&walls, metric, timestamps, columns, known, run);
            tracks.add(plan, metric, columns, rows, &own);
        }
        for at in chunk.marks().iter().filter_map(|row| timestamps.get(*row as usize)) {
            let column = plan.grid.column_of(*at);
            let last = self.marks.last().and_then(|last| plan.grid.column_of(*last));
            if column.is_some() && column != last {
                self.marks.push(*at);
            }
        }
        if let Some(last) = timestamps.last() {
            let count = timestamps.iter().rev().take_while(|at| *at == last).count();
            let passed = u32::try_from(count).unwrap_or(u32::MAX);
            self.pass(RowPlace { timestamp: *last, passed });
        }
    }

    /// Moves the end behind further rows.
    fn pass(&mut self, mut end: RowPlace) {
        if let Some(before) = self.end.filter(|before| before.timestamp == end.timestamp) {
            end.passed = end.passed.saturating_add(before.passed);
        }
        self.end = Some(end);
    }

    /// Appends the segment that follows this one.
    fn join(mut self, plan: &WindowPlan<'_>, next: Self) -> Self {
        self.append(plan, next);
        self
    }

    pub(super) fn append(&mut self, plan: &WindowPlan<'_>, next: Self) {
        let metrics = self.metrics.iter_mut().zip(&plan.scope.metrics).zip(next.metrics);
        for ((tracks, metric), more) in metrics {
            tracks.join(plan, metric, more);
        }
        self.pass_by(plan.grid, next.marks, next.end);
    }

    /// Takes the tracks over from a span of time that [goes on](Self::go_on) with these.
    pub(super) fn replace(&mut self, grid: &Grid, next: Self) {
        for (tracks, more) in self.metrics.iter_mut().zip(next.metrics) {
            tracks.replace(more);
        }
        self.pass_by(grid, next.marks, next.end);
    }

    fn pass_by(&mut self, grid: &Grid, marks: Vec<Timestamp>, end: Option<RowPlace>) {
        let last = self.marks.last().and_then(|last| grid.column_of(*last));
        self.marks
            .extend(marks.into_iter().filter(|at| last.is_none() || grid.column_of(*at) != last));
        if let Some(end) = end {
            self.pass(end);
        }
    }

    /// Merges every two columns into those of a coarser grid, which begins `ahead` columns
    /// earlier.
    pub(super) fn halve(&mut self, coarser: &Grid, ahead: u32) {
        let tracks = self.metrics.iter_mut().flat_map(|tracks| &mut tracks.instances.all);
        for track in tracks.filter_map(|(_, track)| track.as_mut()) {
            track.halve(coarser, ahead);
        }
        self.marks.dedup_by_key(|mark| coarser.column_of(*mark));
    }

    /// Reads the span before the window, as far as the observations in it may continue it.
    fn read_before(
        plan: &WindowPlan<'_>,
        selection: &Selection<'_>,
        window: &Self,
        mode: ReadMode<'_>,
    ) -> Result<Option<Self>> {
        let go_on = mode.go_on;
        let start = *plan.grid.window().start();
        let last = Timestamp::from_nanos(start.as_nanos().saturating_sub(1));
        let first = selection.source().start();
        let mut length = MIN_SPAN;
        if first >= start {
            return Ok(None);
        }
        loop {
            let from = Timestamp::from_nanos(start.as_nanos().saturating_sub(length)).max(first);
            let mut columns = mode.open(selection, from..=last)?;
            let mut before = Self::new(plan.scope.metrics.len());
            before.fill(plan, selection, &mut columns, &mut |_| go_on())?;
            let mut all = before.metrics.iter().zip(&window.metrics).zip(&plan.reaching);
            if from == first
                || all.all(|((before, window), reaching)| window.is_content_with(before, reaching))
                || !go_on()
            {
                return Ok(Some(before));
            }
            length = length.saturating_mul(GROWTH);
        }
    }

    /// Reads on after the window until no rate can reach back into it.
    fn read_past_window(
        mut self,
        plan: &WindowPlan<'_>,
        selection: &Selection<'_>,
        mode: ReadMode<'_>,
    ) -> Result<Self> {
        let end = *plan.grid.window().end();
        let mut instances = self.metrics.iter().flat_map(|tracks| &tracks.instances.all);
        if selection.source().end() <= end
            || !instances.any(|(_, track)| track.as_ref().is_some_and(InstanceTrack::wants_later))
        {
            return Ok(self);
        }
        let next = Timestamp::from_nanos(end.as_nanos().saturating_add(1));
        let columns = mode.open(selection, next..=Timestamp::MAX)?;
        let mut columns = columns.growing(FEW_ROWS, GROWTH as usize);
        let mut after = Self::new(plan.scope.metrics.len());
        after.fill(plan, selection, &mut columns, &mut |after| {
            let mut pairs = self.metrics.iter().zip(&after.metrics);
            (mode.go_on)() && !pairs.all(|(tracks, after)| tracks.is_ended_by(after))
        })?;
        self = self.join(plan, after);
        Ok(self)
    }
}

impl Tracks {
    fn add(
        &mut self,
        plan: &WindowPlan<'_>,
        metric: &SelectedMetric,
        columns: &[Column],
        rows: GridRows<'_>,
        walls: &MetricWalls<'_>,
    ) {
        let InstanceStrands { all, run } = &mut self.instances;
        for column in columns.iter().skip(all.len()) {
            let instance = column.instance();
            let earlier = self.earlier.remove(&instance);
            all.push((instance, earlier.or_else(|| plan.scope.track(metric, instance, run))));
        }
        for (column, (_, track)) in columns.iter().zip(all) {
            if let Some(track) = track {
                if !track.is_observed() {
                    track.set_birth(walls.birth_before(column));
                }
                track.add(
                    rows,
                    column,
                    &walls.walls_of_column(column, || track.last_at(plan.grid)),
                );
            }
        }
        for track in self.earlier.values_mut() {
            walls.all.iter().for_each(|wall| track.interrupt(wall.at, wall.origin));
        }
        run.pass(walls);
    }

    fn join(&mut self, plan: &WindowPlan<'_>, metric: &SelectedMetric, next: Self) {
        self.instances.join(
            next.instances,
            |instance, run| plan.scope.track(metric, instance, run),
            |own: &mut Option<InstanceTrack>, next, run| {
                if let (Some(own), Some(next)) = (own, next) {
                    own.join(plan.grid, next, run);
                }
            },
        );
    }

    fn replace(&mut self, mut next: Self) {
        let mut more: HashMap<_, _> = next.instances.all.into_iter().collect();
        for (instance, track) in &mut self.instances.all {
            if let Some(newer) = more.remove(instance) {
                *track = newer;
            } else if let Some(newer) = next.earlier.remove(instance) {
                *track = Some(newer);
            }
        }
        self.instances.all.extend(more);
        self.instances.run = next.instances.run;
    }

    /// Returns whether an earlier span has all that the observations here may continue.
    fn is_content_with(&self, before: &Self, reaching: &[Option<InstanceId>]) -> bool {
        let known: HashSet<_> = before.observed().map(|(instance, _)| instance).collect();
        let own: HashMap<_, _> = self.seen().collect();
        let is_known = |instance: &Option<InstanceId>| {
            before.instances.run.wall.is_some() || known.contains(instance)
        };
        own.iter().all(|(id, track)| !track.wants_earlier(&before.instances.run) || is_known(id))
            && reaching.iter().all(|instance| own.contains_key(instance) || is_known(instance))
    }

    /// Returns whether no rate reaches from here beyond what was read of the span after.
    fn is_ended_by(&self, after: &Self) -> bool {
        if after.instances.run.wall.is_some() {
            return true;
        }
        let known: HashMap<_, _> = after.observed().collect();
        self.seen().all(|(instance, track)| !track.wants_later() || known.contains_key(&instance))
    }

    /// Returns the instances with an observation that counts: not NaN, and within the lifetime.
    fn observed(&self) -> impl Iterator<Item = (Option<InstanceId>, &InstanceTrack)> {
        self.seen().filter(|(_, track)| track.is_observed())
    }

    /// Returns the instances that have a name.
    fn seen(&self) -> impl Iterator<Item = (Option<InstanceId>, &InstanceTrack)> {
        self.instances.all.iter().filter_map(|(instance, track)| Some((*instance, track.as_ref()?)))
    }
}
