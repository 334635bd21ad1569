//! Updates that the loader hands to the sampler.
//!
//! A plan is complete: the sampler swaps it in at the beginning of a tick without further work.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::partition::GroupShapes;
use super::recorder_plan::RecorderPlan;
use crate::config::Settings;
use crate::metadata::Catalog;
use crate::source::{ActiveSource, Ticket};
use crate::telemetry::{EventKind, Events};

#[derive(Debug)]
pub(crate) struct PlannedSource {
    pub(crate) ticket: Ticket,
    pub(crate) owner: u32,
    /// `None` for a source that the sampler already has.
    pub(crate) new: Option<Box<ActiveSource>>,
}

/// All sources in the order of their numbers in shapes, and their logged values.
#[derive(Debug)]
pub(crate) struct Plan {
    pub sources: Vec<PlannedSource>,
    pub catalog: Arc<Catalog>,
    /// Values of each group.
    pub shares: GroupShapes,
    /// Plan of the flight recorder, if configured.
    pub recorded: Option<RecorderPlan>,
    /// Settings that it was made for, if they are new.
    pub settings: Option<Box<Settings>>,
}

impl Plan {
    /// Merges in an earlier plan that the sampler did not take.
    pub(crate) fn follow(&mut self, before: Self) {
        self.settings = self.settings.take().or(before.settings);
        let before = before.sources.into_iter().map(|source| (source.ticket, source.new));
        let mut before: HashMap<_, _> = before.collect();
        for source in &mut self.sources {
            if source.new.is_none() {
                source.new = before.remove(&source.ticket).flatten();
            }
        }
    }
}

/// Events and counts about files.
#[derive(Debug, Default)]
pub(crate) struct LoaderReport {
    /// Events for the archive.
    pub events: Events,
    /// Number of events of each kind.
    pub counts: [u64; EventKind::NAMES.len()],
    /// True if a program was restarted.
    pub restarted: bool,
    /// True if a file was replaced while no agent ran; `None` if that was reported.
    pub replaced: Option<bool>,
}

impl LoaderReport {
    fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| *count == 0) && !self.restarted && self.replaced.is_none()
    }

    /// Merges in an earlier report.
    fn follow(&mut self, before: Self) {
        let later = std::mem::replace(self, before);
        self.events.add(&later.events);
        for (count, later) in self.counts.iter_mut().zip(later.counts) {
            *count += later;
        }
        self.restarted |= later.restarted;
        self.replaced = later.replaced.or(self.replaced);
    }
}

/// Everything that has changed since the sampler took an update.
#[derive(Debug, Default)]
pub(crate) struct Update {
    /// Set if the sources or their metadata have changed.
    pub plan: Option<Plan>,
    pub news: LoaderReport,
}

impl Update {
    pub(crate) fn is_empty(&self) -> bool {
        self.plan.is_none() && self.news.is_empty()
    }

    /// Merges in an earlier update that the sampler did not take.
    pub(crate) fn replace(&mut self, before: Self) {
        let Self { plan, news } = before;
        self.news.follow(news);
        let Some(before) = plan else { return };
        match &mut self.plan {
            Some(plan) => plan.follow(before),
            plan => *plan = Some(before),
        }
    }
}

/// Objects that the sampler has replaced. Freeing them takes time in proportion to their size, so
/// the loader does it.
#[derive(Default)]
pub(crate) struct RetiredObjects(Vec<Box<dyn Send>>);

impl RetiredObjects {
    pub(crate) fn push(&mut self, what: impl Send + 'static) {
        self.0.push(Box::new(what));
    }
}

impl fmt::Debug for RetiredObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Retired").field(&self.0.len()).finish()
    }
}
