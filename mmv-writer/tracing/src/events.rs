//! How many events there were.

use std::sync::{PoisonError, Weak};

use crossbeam_utils::sync::ShardedLock;
use hashbrown::HashMap;
use mmv_writer::{Counter, Error, LabelledFamily, LiveRegistry, Units, warn};
use tracing_core::Metadata;
use tracing_core::callsite::Identifier;

/// The target of events without a place.
const OVERFLOW: &str = "*";

/// The counters of events.
#[derive(Debug)]
pub(crate) struct Events {
    /// `None`: the file is withdrawn.
    family: Option<LabelledFamily<Counter<u64>, 2>>,
    max: usize,
    counters: ShardedLock<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    by_callsite: HashMap<Identifier, Counter<u64>>,
    /// How many pairs of level and target have an instance.
    own: usize,
    /// Whether a line about those without one was printed.
    warned: bool,
}

impl Events {
    /// Registers the metric.
    pub(crate) fn new(registry: &Weak<LiveRegistry>, max: usize) -> Result<Self, Error> {
        let register = |registry: &LiveRegistry| {
            let indom = registry.indom("events").help("levels and targets of events");
            let indom = indom.build_labelled(["level", "target"])?;
            let events = registry.counter("events").units(Units::count());
            events.help("events of tracing").build_labelled(&indom)
        };
        let family = registry.upgrade().map(|registry| register(&registry)).transpose()?;
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

    /// The counter of a level and target, of which `own` have one already.
    fn counter(&self, event: &Metadata<'_>, own: &mut usize, warned: &mut bool) -> Counter<u64> {
        let Some(family) = &self.family else { return Counter::noop() };
        let (level, target) = (event.level().as_str(), event.target());
        if let Some(counter) = family.get([level, target]) {
            return counter;
        }
        let counter = if *own < self.max {
            *own += 1;
            family.get_or_create([level, target])
        } else {
            if !std::mem::replace(warned, true) {
                let max = self.max;
                warn(&format!(
                    "tracing: target {target} has no counter of its own: there are {max}, and \
                     target={OVERFLOW} of events has all others\n"
                ));
            }
            family.get_or_create([level, OVERFLOW])
        };
        counter.unwrap_or_else(|error| {
            warn(&format!("tracing: {error}\n"));
            Counter::noop()
        })
    }
}
