//! What a reader of envelopes knows before it reads.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::Options;
use super::grid::Grid;
use super::track::{Kind, Track};
use crate::growth::Gaps;
use crate::growth::lifetime::{CounterDomains, Lifetime, lifetimes};
use crate::growth::walls::RunState;
use crate::scan::{SelectedMetric, Selection};
use crate::{InDom, InstanceId, programs};

type Lives = HashMap<InDom, HashMap<InstanceId, Lifetime>>;

/// The metrics with numbers of a selection, and the agent's events where programs end tracks.
pub(super) fn readable<'a>(selection: &Selection<'a>, options: Options) -> Selection<'a> {
    let mut selection = selection.clone();
    selection.retain(SelectedMetric::has_numbers);
    if options.gaps == Gaps::Keep {
        programs::select_events(&mut selection);
    }
    selection
}

/// The metrics that are read, and which of their instances exist when.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    pub(super) metrics: Vec<SelectedMetric>,
    pub(super) rates: bool,
    /// For each metric the instances that are read; all without.
    pub(super) wanted: Vec<Option<Arc<HashSet<InstanceId>>>>,
    lives: Lives,
    /// Of the counters whose rates are read.
    pub(super) domains: CounterDomains,
}

impl Scope {
    /// That of a selection that is [readable].
    pub(super) fn new(selection: &Selection<'_>, options: Options) -> Self {
        let Options { rates, gaps } = options;
        let metrics = selection.metrics().to_vec();
        let indoms = metrics.iter().filter_map(|metric| metric.desc.indom);
        let history = |indom| Some((indom, selection.source().metadata().identities(indom)?));
        let lives = indoms.filter_map(history).map(|(indom, all): (InDom, _)| {
            let is_of_file = gaps == Gaps::Keep && indom.domain() == programs::DOMAIN;
            (indom, lifetimes(all, is_of_file))
        });
        let lives = lives.collect();
        let domains = CounterDomains::new(selection, if rates { gaps } else { Gaps::Join });
        Self { metrics, rates, wanted: selection.instances_by_metric(), lives, domains }
    }

    /// When an instance of a metric exists; `None` if it has no name.
    pub(super) fn life(
        &self,
        metric: &SelectedMetric,
        instance: Option<InstanceId>,
    ) -> Option<Lifetime> {
        match metric.desc.indom {
            None => Some(Lifetime::ALWAYS),
            Some(indom) => self.lives.get(&indom)?.get(&instance?).copied(),
        }
    }

    /// The instances of a metric that have a name and are read, and when they exist.
    pub(super) fn instances(
        &self,
        place: usize,
    ) -> impl Iterator<Item = (Option<InstanceId>, Lifetime)> {
        let indom = self.metrics.get(place).and_then(|metric| metric.desc.indom);
        let single = indom.is_none().then_some((None, Lifetime::ALWAYS));
        let named = indom.and_then(|indom| self.lives.get(&indom)).into_iter().flatten();
        let wanted = self.wanted.get(place).and_then(Option::as_ref);
        let is_wanted = move |id: &InstanceId| wanted.is_none_or(|all| all.contains(id));
        let named = named.filter(move |(id, _)| is_wanted(id)).map(|(id, life)| (Some(*id), *life));
        single.into_iter().chain(named)
    }

    pub(super) fn kind(&self, metric: &SelectedMetric) -> Kind {
        Kind::of(metric, self.rates)
    }

    /// A new track of an instance; `None` if it has no name.
    pub(super) fn track(
        &self,
        metric: &SelectedMetric,
        instance: Option<InstanceId>,
        run: &RunState,
    ) -> Option<Track> {
        let life = self.life(metric, instance)?;
        Some(Track::new(self.kind(metric), metric.desc.value_type, life, run))
    }
}

/// What a reader of a window knows.
pub(super) struct Plan<'s> {
    pub(super) grid: &'s Grid,
    pub(super) scope: &'s Scope,
    /// For each metric the instances whose rates may reach over the window without an
    /// observation in it.
    pub(super) reaching: Vec<Vec<Option<InstanceId>>>,
}

impl<'s> Plan<'s> {
    /// Of a window that begins with the first record.
    pub(super) const fn of_all(scope: &'s Scope, grid: &'s Grid) -> Self {
        Self { grid, scope, reaching: Vec::new() }
    }

    pub(super) fn new(scope: &'s Scope, grid: &'s Grid) -> Self {
        let window = grid.window();
        let reaching = |(place, metric): (usize, &SelectedMetric)| {
            if !matches!(scope.kind(metric), Kind::Rate(_)) {
                return Vec::new();
            }
            let alive = scope.instances(place).filter(|(_, life)| life.overlaps(&window));
            alive.map(|(instance, _)| instance).collect()
        };
        let reaching = scope.metrics.iter().enumerate().map(reaching).collect();
        Self { grid, scope, reaching }
    }
}
