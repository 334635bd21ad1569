//! What the loader hands to the sampler.
//!
//! A plan is complete: the sampler swaps it in at the beginning of a tick and makes
//! nothing of its parts.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::partition::GroupShapes;
use super::recorder_plan::RecorderPlan;
use crate::config::Settings;
use crate::metadata::Catalog;
use crate::source::{ActiveSource, Ticket};
use crate::telemetry::{EventKind, Events};

/// A source of a plan.
#[derive(Debug)]
pub(crate) struct PlannedSource {
    pub(crate) ticket: Ticket,
    pub(crate) owner: u32,
    /// `None` for a source that the sampler has.
    pub(crate) new: Option<Box<ActiveSource>>,
}

/// All sources in the order of their numbers in shapes, and what is logged of them.
#[derive(Debug)]
pub(crate) struct Plan {
    pub sources: Vec<PlannedSource>,
    /// The metadata.
    pub catalog: Arc<Catalog>,
    /// The values of each group.
    pub shares: GroupShapes,
    /// What the flight recorder samples, if it is configured.
    pub recorded: Option<RecorderPlan>,
    /// The settings that it was made for, if they are new.
    pub settings: Option<Box<Settings>>,
}

impl Plan {
    /// Takes the place of a plan that was not swapped in.
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

/// What happened to files.
#[derive(Debug, Default)]
pub(crate) struct LoaderReport {
    /// For the archive.
    pub events: Events,
    /// How many events of each kind there were.
    pub counts: [u64; EventKind::NAMES.len()],
    /// A program was restarted.
    pub restarted: bool,
    /// Whether a file was replaced while no agent ran; `None` if that was reported.
    pub replaced: Option<bool>,
}

impl LoaderReport {
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| *count == 0) && !self.restarted && self.replaced.is_none()
    }

    /// Adds what came before.
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

/// What is new since the last update that the sampler has taken.
#[derive(Debug, Default)]
pub(crate) struct Update {
    /// The sources, if they or their metadata have changed.
    pub plan: Option<Plan>,
    /// What happened.
    pub news: LoaderReport,
}

impl Update {
    /// Whether nothing is new.
    pub(crate) fn is_empty(&self) -> bool {
        self.plan.is_none() && self.news.is_empty()
    }

    /// Takes the place of an update that the sampler has not taken.
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

/// What the sampler has replaced. Freeing it takes as long as it is large, which is the
/// loader's work.
#[derive(Default)]
pub(crate) struct Retired(Vec<Box<dyn Send>>);

impl Retired {
    /// Adds something.
    pub(crate) fn push(&mut self, what: impl Send + 'static) {
        self.0.push(Box::new(what));
    }
}

impl fmt::Debug for Retired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Retired").field(&self.0.len()).finish()
    }
}
