//! The durations of spans.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crossbeam_utils::sync::ShardedLock;
use hashbrown::HashMap;
use mmv_writer::{Error, Family, Histogram, HistogramBuilder, Registry, Units, warn};
use tracing_core::Metadata;
use tracing_core::callsite::Identifier;
use tracing_core::span::Attributes;

use crate::labels::SpanLabels;
use crate::names::metric_name;

const UNITS: Units = Units::nanoseconds();

/// Name of the histogram of spans that have none of their own.
const OVERFLOW: &str = "span_overflow";

#[derive(Debug)]
pub(crate) struct Spans {
    registry: Registry,
    max: usize,
    /// The fields that are labels.
    fields: Vec<&'static str>,
    by_callsite: ShardedLock<HashMap<Identifier, SpanMetric>>,
    by_name: Mutex<ByName>,
}

#[derive(Debug, Default)]
struct ByName {
    own: HashMap<String, SpanMetric>,
    overflow: Option<Histogram>,
}

#[derive(Debug, Clone)]
enum SpanMetric {
    Plain(Histogram),
    ByLabels(Family<SpanLabels, Histogram>),
}

impl Spans {
    pub(crate) fn new(registry: Registry, max: usize, fields: Vec<&'static str>) -> Self {
        let by_callsite = ShardedLock::default();
        Self { registry, max, fields, by_callsite, by_name: Mutex::default() }
    }

    pub(crate) fn labels(&self, span: &Attributes<'_>) -> SpanLabels {
        let mut labels = SpanLabels::new(span.metadata(), &self.fields);
        if !labels.is_empty() {
            span.record(&mut labels);
        }
        labels
    }

    pub(crate) fn record(
        &self,
        span: &'static Metadata<'static>,
        labels: &SpanLabels,
        time: Duration,
    ) {
        let callsite = span.callsite();
        let known = self.by_callsite.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(metric) = known.get(&callsite) {
            return self.record_in(metric, labels, time);
        }
        drop(known);
        let metric = self.metric(span.name(), labels);
        self.record_in(&metric, labels, time);
        let mut known = self.by_callsite.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(callsite, metric);
    }

    fn record_in(&self, metric: &SpanMetric, labels: &SpanLabels, time: Duration) {
        match metric {
            SpanMetric::Plain(histogram) => histogram.record_duration(time),
            SpanMetric::ByLabels(family) if labels.is_empty() => {
                let labels = SpanLabels::empty(&self.fields);
                family.with(&labels, |histogram| histogram.record_duration(time));
            }
            SpanMetric::ByLabels(family) => {
                family.with(labels, |histogram| histogram.record_duration(time));
            }
        }
    }

    /// Returns the metric of a name, which is registered if there is none: by labels if the first
    /// span of the name has any.
    fn metric(&self, name: &str, labels: &SpanLabels) -> SpanMetric {
        // Held until it is registered, so that each is registered once.
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let metric_name = metric_name(name);
        if let Some(metric) = metric_name.as_ref().and_then(|metric| by_name.own.get(metric)) {
            return metric.clone();
        }
        if let Some(metric_name) = metric_name.filter(|_| by_name.own.len() < self.max) {
            match self.register(&metric_name, name, !labels.is_empty()) {
                Ok(metric) => {
                    by_name.own.insert(metric_name, metric.clone());
                    return metric;
                }
                Err(error) => warn(&format!("tracing: {error}\n")),
            }
        }
        SpanMetric::Plain(by_name.overflow.get_or_insert_with(|| self.overflow(name)).clone())
    }

    fn register(&self, metric: &str, name: &str, has_labels: bool) -> Result<SpanMetric, Error> {
        let histogram = self.histogram(metric, &format!("durations of spans \"{name}\""));
        if has_labels {
            histogram.build_family().map(SpanMetric::ByLabels)
        } else {
            histogram.build().map(SpanMetric::Plain)
        }
    }

    fn overflow(&self, name: &str) -> Histogram {
        let max = self.max;
        warn(&format!(
            "tracing: {OVERFLOW} has the spans that have no place, such as \
                       \"{name}\": there is one for {max} names\n"
        ));
        let help = "durations of all spans that have no histogram of their own";
        self.histogram(OVERFLOW, help).build().unwrap_or_else(|error| {
            warn(&format!("tracing: {error}\n"));
            Histogram::noop()
        })
    }

    /// Begins a histogram. `help` is short enough: a name of 200 bytes is not shorter than that
    /// of its span.
    fn histogram(&self, metric: &str, help: &str) -> HistogramBuilder<'_> {
        self.registry.histogram(metric).units(UNITS).help(help.replace('\0', " "))
    }
}
