//! The parts of a plan that are the same for all windows.

use std::sync::Arc;

use hashbrown::HashSet;

use super::Options;
use super::grid::Grid;
use super::track::{CellKind, InstanceTrack};
use crate::InstanceId;
use crate::analysis::growth::lifetime::{Lifetime, Lifetimes};
use crate::analysis::growth::walls::RunState;
use crate::scan::{SelectedMetric, Selection};

/// The metrics that are read, and which of their instances exist when.
#[derive(Debug, Clone)]
pub(super) struct EnvelopeScope {
    pub(super) metrics: Vec<SelectedMetric>,
    pub(super) rates: bool,
    /// For each metric the instances that are read; all without.
    pub(super) wanted: Vec<Option<Arc<HashSet<InstanceId>>>>,
    pub(super) lives: Lifetimes,
}

impl EnvelopeScope {
    /// Creates the scope of a selection of [numbers](crate::analysis::growth::numbers).
    pub(super) fn new(selection: &Selection<'_>, options: Options) -> Self {
        let Options { rates, gaps } = options;
        let metrics = selection.metrics().to_vec();
        let lives = Lifetimes::new(selection, gaps, rates);
        Self { metrics, rates, wanted: selection.instances_by_metric(), lives }
    }

    /// Returns the instances of a metric that have a name and are read, and when they exist.
    pub(super) fn instances(
        &self,
        place: usize,
    ) -> impl Iterator<Item = (Option<InstanceId>, Lifetime)> {
        let indom = self.metrics.get(place).and_then(|metric| metric.desc.indom);
        let single = indom.is_none().then_some((None, Lifetime::ALWAYS));
        let named = indom.into_iter().flat_map(|indom| self.lives.in_domain(indom));
        let wanted = self.wanted.get(place).and_then(Option::as_ref);
        let named = named.filter(move |(id, _)| wanted.is_none_or(|all| all.contains(id)));
        single.into_iter().chain(named.map(|(id, life)| (Some(id), life)))
    }

    pub(super) fn kind(&self, metric: &SelectedMetric) -> CellKind {
        CellKind::new(metric, self.rates)
    }

    /// Returns a new track of an instance; `None` if it has no name.
    pub(super) fn track(
        &self,
        metric: &SelectedMetric,
        instance: Option<InstanceId>,
        run: &RunState,
    ) -> Option<InstanceTrack> {
        let life = self.lives.lifetime(metric, instance)?;
        Some(InstanceTrack::new(self.kind(metric), metric.desc.value_type, life, run))
    }
}

pub(super) struct WindowPlan<'s> {
    pub(super) grid: &'s Grid,
    pub(super) scope: &'s EnvelopeScope,
    /// For each metric the instances whose rates may reach over the window without an
    /// observation in it.
    pub(super) reaching: Vec<Vec<Option<InstanceId>>>,
}

impl<'s> WindowPlan<'s> {
    /// Plans a window that begins with the first record.
    pub(super) const fn of_all(scope: &'s EnvelopeScope, grid: &'s Grid) -> Self {
        Self { grid, scope, reaching: Vec::new() }
    }

    pub(super) fn new(scope: &'s EnvelopeScope, grid: &'s Grid) -> Self {
        let window = grid.window();
        let reaching = scope.metrics.iter().enumerate().map(|(place, metric)| {
            if !matches!(scope.kind(metric), CellKind::Rate(_)) {
                return Vec::new();
            }
            let alive = scope.instances(place).filter(|(_, life)| life.overlaps(&window));
            alive.map(|(instance, _)| instance).collect()
        });
        let reaching = reaching.collect();
        Self { grid, scope, reaching }
    }
}
