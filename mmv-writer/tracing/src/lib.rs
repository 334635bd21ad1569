//! A layer for `tracing` that writes what a program does to a file of Performance
//! Co-Pilot's MMV format: the durations of spans as histograms, events as counters.
//!
//! ```
//! use mmv_tracing::MetricsLayer;
//! use mmv_writer::Registry;
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! # fn main() -> Result<(), mmv_writer::Error> {
//! # let directory = tempfile::tempdir().unwrap();
//! let registry = Registry::builder("shop").lenient();
//! # let registry = registry.directory(directory.path());
//! let registry = registry.build()?;
//! let layer = MetricsLayer::builder(&registry).fields(["endpoint"]).build()?;
//! let subscriber = tracing_subscriber::registry().with(layer);
//! // Or `.init()`, for the whole program.
//! tracing::subscriber::with_default(subscriber, || {
//!     let _request = tracing::info_span!("request", endpoint = "/cart").entered();
//!     tracing::warn!("no anvils left");
//! });
//! # Ok(())
//! # }
//! ```
//!
//! | | in the file |
//! |---|---|
//! | a span that ends | a value of the histogram `mmv.shop.span.NAME` (`NAME.bucket` and `NAME.sum`): nanoseconds from its creation to its end, whether or not it was entered meanwhile |
//! | a span with a field of [`MetricsLayerBuilder::fields`] | a value of that histogram's series for the labels: `endpoint=/cart` |
//! | an event | one more of the counter `mmv.shop.events`, in the instance `level=warn`; the others are `error`, `info`, `debug` and `trace` |
//!
//! Other characters of a span's name than letters, digits, `_` and single dots are
//! written as one `_`: `request cart` is `request_cart`. Spans of one name, or of names that
//! become one, are one metric, wherever they are created.
//!
//! # Labels
//!
//! No field of a span is a label unless the program names it: a field that has any number of
//! values (a user, a request) would make a series of each. A label's value is what the
//! program recorded last before the span's end; it is empty if that is nothing. The labels of one
//! span are not those of the spans inside of it. A name is kept with or without labels, as its
//! first span that ends has them: if others of the name differ, they have empty values or none.
//!
//! Only what is enabled is counted: filter with those of `tracing-subscriber`.
//!
//! # Limits
//!
//! The number of names is limited, as they may be made at run time:
//! [`MetricsLayerBuilder::max_spans`]. Spans without a place are in the histogram
//! `span_overflow`, and one line on standard error says so. Of the labels of one name there are
//! at most 1000 sets; others are in its series `overflow`: see
//! [cardinality](mmv_writer::Family#cardinality).
//!
//! # Cost
//!
//! Each metric is found by its callsite, under a lock that threads share for reading
//! without disturbing each other. A span costs two readings of the clock and the two
//! atomic additions of a histogram, about 110 ns more than the 210 ns of a subscriber
//! without layers, and a look-up by its labels if it has any; an event costs one atomic addition.
//! The example `cost` measures it.
//!
//! # The registry
//!
//! The layer counts in the registry of the program, beside its other metrics, and keeps its
//! file as any handle does. A subscriber of the whole program is never dropped: where the file
//! is to be removed at the end of `main`, call [`Registry::withdraw`].

#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used)]

mod events;
mod labels;
mod names;
mod spans;

use std::time::Instant;

use mmv_writer::{Error, Registry};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use events::EventCounters;
use labels::SpanLabels;
use spans::Spans;

/// Default limit on the names of spans that have a histogram each.
const MAX_SPANS: usize = 100;

/// A layer that counts spans and events of a subscriber; see the documentation of the crate.
#[derive(Debug)]
#[must_use = "a layer counts when it is part of a subscriber"]
pub struct MetricsLayer {
    spans: Spans,
    events: EventCounters,
}

/// Options for a layer; see [`MetricsLayer::builder`].
#[derive(Debug, Clone)]
#[must_use = "a layer is made by build()"]
pub struct MetricsLayerBuilder {
    registry: Registry,
    max_spans: usize,
    fields: Vec<&'static str>,
}

/// The state of a span, kept in its extensions.
struct OpenSpan {
    created: Instant,
    labels: SpanLabels,
}

impl MetricsLayer {
    /// Makes a layer that counts in a registry, which has no metric `events` yet.
    ///
    /// # Errors
    ///
    /// The errors of [`mmv_writer::MetricBuilder::build_family`].
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        Self::builder(registry).build()
    }

    /// Returns options for a layer.
    pub fn builder(registry: &Registry) -> MetricsLayerBuilder {
        let registry = registry.clone();
        MetricsLayerBuilder { registry, max_spans: MAX_SPANS, fields: Vec::new() }
    }
}

impl MetricsLayerBuilder {
    /// Sets the limit on the names of spans that have a histogram each; 100 by default. Spans of
    /// other names share the histogram `span_overflow`.
    pub fn max_spans(mut self, most: usize) -> Self {
        self.max_spans = most;
        self
    }

    /// Makes labels of these fields of spans, of those that have them; none by default.
    ///
    /// ```
    /// # use mmv_tracing::MetricsLayer;
    /// # use mmv_writer::Registry;
    /// # fn main() -> Result<(), mmv_writer::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let registry = Registry::builder("shop").directory(directory.path()).build()?;
    /// let layer = MetricsLayer::builder(&registry).fields(["endpoint", "http.method"]).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn fields(mut self, names: impl IntoIterator<Item = &'static str>) -> Self {
        self.fields = names.into_iter().collect();
        self
    }

    /// Registers the metric `events`, and makes the layer. Histograms of spans are
    /// registered when the first span of a name ends.
    ///
    /// # Errors
    ///
    /// The errors of [`MetricsLayer::new`].
    pub fn build(self) -> Result<MetricsLayer, Error> {
        let events = EventCounters::register(&self.registry)?;
        Ok(MetricsLayer { spans: Spans::new(self.registry, self.max_spans, self.fields), events })
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for MetricsLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let labels = self.spans.labels(attributes);
            span.extensions_mut().replace(OpenSpan { created: Instant::now(), labels });
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<OpenSpan>() {
            values.record(&mut open.labels);
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.events.count(*event.metadata().level());
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        if let Some(open) = span.extensions().get::<OpenSpan>() {
            self.spans.record(span.metadata(), &open.labels, open.created.elapsed());
        }
    }
}

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
