//! Counters of events.

use mmv_writer::{Counter, Error, Family, Labels, Registry, Units};
use tracing_core::Level;

#[derive(Labels, Clone, PartialEq, Eq, Hash)]
struct EventLabels {
    level: &'static str,
}

/// The counters of events by level, all of which readers see from the start.
#[derive(Debug)]
pub(crate) struct EventCounters {
    error: Counter,
    warn: Counter,
    info: Counter,
    debug: Counter,
    trace: Counter,
}

impl EventCounters {
    /// Registers the metric `events`.
    pub(crate) fn register(registry: &Registry) -> Result<Self, Error> {
        let events = registry.counter("events").units(Units::count());
        let family: Family<EventLabels> = events.help("events by level").build_family()?;
        Ok(Self {
            error: family.get(&EventLabels { level: "error" }),
            warn: family.get(&EventLabels { level: "warn" }),
            info: family.get(&EventLabels { level: "info" }),
            debug: family.get(&EventLabels { level: "debug" }),
            trace: family.get(&EventLabels { level: "trace" }),
        })
    }

    pub(crate) fn count(&self, level: Level) {
        let counter = match level {
            Level::ERROR => &self.error,
            Level::WARN => &self.warn,
            Level::INFO => &self.info,
            Level::DEBUG => &self.debug,
            Level::TRACE => &self.trace,
        };
        counter.inc();
    }
}
