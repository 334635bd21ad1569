//! The durations of spans.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crossbeam_utils::sync::ShardedLock;
use hashbrown::HashMap;
use mmv_writer::{Error, Histogram, Registry, Units, warn};
use tracing_core::Metadata;
use tracing_core::callsite::Identifier;

use crate::names::metric_name;

const UNITS: Units = Units::nanoseconds();

/// Name of the histogram of spans that have none of their own.
const OVERFLOW: &str = "span_overflow";

/// The histograms of spans.
#[derive(Debug)]
pub(crate) struct Spans {
    registry: Registry,
    max: usize,
    by_callsite: ShardedLock<HashMap<Identifier, Histogram>>,
    by_name: Mutex<ByName>,
}

#[derive(Debug, Default)]
struct ByName {
    /// Histograms by the names of their metrics.
    own: HashMap<String, Histogram>,
    overflow: Option<Histogram>,
}

impl Spans {
    pub(crate) fn new(registry: Registry, max: usize) -> Self {
        Self { registry, max, by_callsite: ShardedLock::default(), by_name: Mutex::default() }
    }

    /// Records the duration of a span of this callsite.
    pub(crate) fn record(&self, span: &'static Metadata<'static>, time: Duration) {
        let callsite = span.callsite();
        let known = self.by_callsite.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(histogram) = known.get(&callsite) {
            return histogram.record_duration(time);
        }
        drop(known);
        let histogram = self.histogram(span.name());
        histogram.record_duration(time);
        let mut known = self.by_callsite.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(callsite, histogram);
    }

    /// Returns the histogram of a name, which is registered if there is none.
    fn histogram(&self, name: &str) -> Histogram {
        // Held until it is registered, so that each is registered once.
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let metric = metric_name(name);
        if let Some(histogram) = metric.as_ref().and_then(|metric| by_name.own.get(metric)) {
            return histogram.clone();
        }
        if let Some(metric) = metric.filter(|_| by_name.own.len() < self.max) {
            match self.register(&metric, &format!("durations of spans \"{name}\"")) {
                Ok(histogram) => {
                    by_name.own.insert(metric, histogram.clone());
                    return histogram;
                }
                Err(error) => warn(&format!("tracing: {error}\n")),
            }
        }
        by_name.overflow.get_or_insert_with(|| self.overflow(name)).clone()
    }

    fn overflow(&self, name: &str) -> Histogram {
        let max = self.max;
        warn(&format!(
            "tracing: {OVERFLOW} has the spans that have no place, such as \
                       \"{name}\": there is one for {max} names\n"
        ));
        let help = "durations of all spans that have no histogram of their own";
        self.register(OVERFLOW, help).unwrap_or_else(|error| {
            warn(&format!("tracing: {error}\n"));
            Histogram::noop()
        })
    }

    /// Registers a histogram. `help` is short enough: a name of 200 bytes is not shorter than that
    /// of its span.
    fn register(&self, metric: &str, help: &str) -> Result<Histogram, Error> {
        self.registry.histogram(metric).units(UNITS).help(help.replace('\0', " ")).build()
    }
}
