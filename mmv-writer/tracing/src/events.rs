//! Counters of events.

use mmv_writer::{Counter, Error, Family, Labels, Registry, Units};
use tracing_core::Level;

#[derive(Labels, Clone, PartialEq, Eq, Hash)]
struct EventLabels {
    level: &'static str,
}

const LEVELS: [(Level, &str); 5] = [
    (Level::ERROR, "error"),
    (Level::WARN, "warn"),
    (Level::INFO, "info"),
    (Level::DEBUG, "debug"),
    (Level::TRACE, "trace"),
];

/// The counters of events by level, all of which readers see from the start.
#[derive(Debug)]
pub(crate) struct EventCounters([(Level, Counter); 5]);

impl EventCounters {
    /// Registers the metric `events`.
    pub(crate) fn register(registry: &Registry) -> Result<Self, Error> {
        let events = registry.counter("events").units(Units::count());
        let family: Family<EventLabels> = events.help("events by level").build_family()?;
        Ok(Self(LEVELS.map(|(level, name)| (level, family.get(&EventLabels { level: name })))))
    }

    pub(crate) fn count(&self, level: Level) {
        if let Some((_, counter)) = self.0.iter().find(|(counted, _)| *counted == level) {
            counter.inc();
        }
    }
}
