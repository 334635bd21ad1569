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
//! let subscriber = tracing_subscriber::registry().with(MetricsLayer::new(&registry)?);
//! // Or `.init()`, for the whole program.
//! tracing::subscriber::with_default(subscriber, || {
//!     let _order = tracing::info_span!("order").entered();
//!     tracing::warn!("no anvils left");
//! });
//! # Ok(())
//! # }
//! ```
//!
//! | | in the file |
//! |---|---|
//! | a span that ends | a value of the histogram `mmv.shop.span.NAME` (`NAME.bucket` and `NAME.sum`): nanoseconds from its creation to its end, whether or not it was entered meanwhile |
//! | an event | one more of the counter `mmv.shop.events`, in the instance `level=WARN,target=shop::store` |
//!
//! Other characters of a span's name than letters, digits, `_` and single dots are
//! written as one `_`: `request cart` is `request_cart`. Spans of one name, or of names that
//! become one, are one metric, wherever they are created.
//!
//! Only what is enabled is counted: filter with those of `tracing-subscriber`.
//!
//! # Limits
//!
//! The number of series is limited, as names may be made at run time:
//! [`MetricsLayerBuilder::max_spans`] and [`MetricsLayerBuilder::max_events`]. Spans without
//! a place are in the histogram `span_overflow`, events in the instance of their level and
//! the target `*`. One line on standard error says so.
//!
//! # Cost
//!
//! Each series is found by its callsite, under a lock that threads share for reading
//! without disturbing each other. A span costs two readings of the clock and the two
//! atomic additions of a histogram, about 110 ns more than the 210 ns of a subscriber
//! without layers; an event 20 ns more than 8 ns. The example `cost` measures it.
//!
//! # The registry
//!
//! The layer counts in the registry of the program, beside its other metrics, and keeps its
//! file as any handle does. A subscriber of the whole program is never dropped: where the file
//! is to be removed at the end of `main`, call [`Registry::withdraw`].

#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used)]

mod events;
mod names;
mod spans;

use std::time::Instant;

use mmv_writer::{Error, Registry};
use tracing_core::span::{Attributes, Id};
use tracing_core::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use events::Events;
use spans::Spans;

/// Default limit on the names of spans that have a histogram each.
const MAX_SPANS: usize = 100;
/// Default limit on the pairs of level and target that have a counter each.
const MAX_EVENTS: usize = 500;

/// A layer that counts spans and events of a subscriber; see the documentation of the crate.
#[derive(Debug)]
#[must_use = "a layer counts when it is part of a subscriber"]
pub struct MetricsLayer {
    spans: Spans,
    events: Events,
}

/// Options for a layer; see [`MetricsLayer::builder`].
#[derive(Debug, Clone)]
#[must_use = "a layer is made by build()"]
pub struct MetricsLayerBuilder {
    registry: Registry,
    max_spans: usize,
    max_events: usize,
}

/// Time at which a span was created.
struct Created(Instant);

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
        MetricsLayerBuilder { registry, max_spans: MAX_SPANS, max_events: MAX_EVENTS }
    }
}

impl MetricsLayerBuilder {
    /// Sets the limit on the names of spans that have a histogram each; 100 by default. Spans of
    /// other names share the histogram `span_overflow`.
    pub fn max_spans(mut self, most: usize) -> Self {
        self.max_spans = most;
        self
    }

    /// Sets the limit on the pairs of level and target that have a counter each; 500 by default.
    /// Others are counted by level, with the target `*`.
    pub fn max_events(mut self, most: usize) -> Self {
        self.max_events = most;
        self
    }

    /// Registers the metric `events`, and makes the layer. Histograms of spans are
    /// registered when the first span of a name ends.
    ///
    /// # Errors
    ///
    /// The errors of [`MetricsLayer::new`].
    pub fn build(self) -> Result<MetricsLayer, Error> {
        let events = Events::new(&self.registry, self.max_events)?;
        Ok(MetricsLayer { spans: Spans::new(self.registry, self.max_spans), events })
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for MetricsLayer {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(Created(Instant::now()));
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.events.count(event.metadata());
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let created = span.extensions().get().map(|Created(at)| *at);
        if let Some(created) = created {
            self.spans.record(span.metadata(), created.elapsed());
        }
    }
}

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
