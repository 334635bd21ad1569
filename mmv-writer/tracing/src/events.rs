//! Counters of events.

use std::sync::PoisonError;

use crossbeam_utils::sync::ShardedLock;
use hashbrown::HashMap;
use mmv_writer::{Counter, Error, Family, Labels, Registry, Units, warn};
use tracing_core::Metadata;
use tracing_core::callsite::Identifier;

/// The target of events that have no counter of their own.
const OVERFLOW: &str = "*";

/// Number of levels of events.
const LEVELS: usize = 5;

/// The labels of an event.
#[derive(Labels, Debug, Clone, PartialEq, Eq, Hash)]
struct Origin {
    level: &'static str,
    target: String,
}

/// The counters of events, by level and target.
#[derive(Debug)]
pub(crate) struct Events {
    family: Family<Origin>,
    max: usize,
    counters: ShardedLock<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    by_callsite: HashMap<Identifier, Counter>,
    /// Number of pairs of level and target that have a counter of their own.
    own: usize,
    /// True if a line about pairs without one was printed.
    warned: bool,
}

impl Events {
    /// Registers the metric.
    pub(crate) fn new(registry: &Registry, max: usize) -> Result<Self, Error> {
        let events = registry.counter("events").units(Units::count()).help("events of tracing");
        // The limit is on pairs with a target of their own; there is one more for each level.
        let family = events.max_series(max.saturating_add(LEVELS)).build_family()?;
        Ok(Self { family, max, counters: ShardedLock::default() })
    }

    /// Counts an event of this callsite.
    pub(crate) fn count(&self, event: &Metadata<'_>) {
        let callsite = event.callsite();
        let known = self.counters.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counter) = known.by_callsite.get(&callsite) {
            return counter.inc();
        }
        drop(known);
        let mut known = self.counters.write().unwrap_or_else(PoisonError::into_inner);
        let Counters { by_callsite, own, warned } = &mut *known;
        let make = || self.counter(event, own, warned);
        by_callsite.entry(callsite).or_insert_with(make).inc();
    }

    /// Returns the counter of a level and target, of which `own` have one already.
    fn counter(&self, event: &Metadata<'_>, own: &mut usize, warned: &mut bool) -> Counter {
        let level = event.level().as_str();
        let target = event.target();
        let mut origin = Origin { level, target: target.to_owned() };
        if let Some(counter) = self.family.get_existing(&origin) {
            return counter;
        }
        if *own < self.max {
            *own += 1;
            return self.family.get(&origin);
        }
        if !std::mem::replace(warned, true) {
            let max = self.max;
            warn(&format!(
                "tracing: target {target} has no counter of its own: there are {max}, and \
                 target={OVERFLOW} of events has all others\n"
            ));
        }
        OVERFLOW.clone_into(&mut origin.target);
        self.family.get(&origin)
    }
}
