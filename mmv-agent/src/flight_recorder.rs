//! The flight recorder: samples of the last minutes, in greater detail than archives.
//!
//! In come the values at each tick of its own interval; out go, on request, the chunks of
//! samples. A sample is kept as its difference from the one before ([`delta`]), in a [`ring`].
//!
//! Invariant: the samples never span more time or use more memory than configured.
//! `mmv-agent capture` writes them into an archive: the agent hands over the
//! chunks of the ring as they are (`control::capture_socket`, [`wire`]), and the command turns them
//! into an archive, by its own rights and on its own time ([`capture`](crate::commands::capture)).

pub(crate) mod delta;
mod ring;
mod shape;
pub(crate) mod wire;

pub(crate) use delta::{Damaged, Reader};
pub(crate) use ring::Chunk;
pub(crate) use shape::Shape;
pub(crate) use wire::{Hello, Message, Refusal, Request};

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use pcp_types::{Pmid, Timestamp, names};
use tracing::{info, warn};

use crate::config::FlightRecorderSettings;
use crate::metadata::{Catalog, RecordShape};
use crate::source::Values;
use crate::telemetry::FlightRecorderStatus;
use delta::Gather;
use ring::Ring;

/// A chunk ends when it has this fraction of the memory, or of the time.
const CHUNKS: u32 = 16;
/// The most bytes of a chunk, if they hold some samples.
const CHUNK: usize = 1 << 20;
/// But at least this many times its first sample, which is complete.
const SAMPLES: usize = 8;

/// The samples of the last minutes.
#[derive(Debug, Default)]
pub(crate) struct FlightRecorder {
    settings: FlightRecorderSettings,
    ring: Ring,
    /// The metrics; `None` before the first catalog, or if they are too large.
    shape: Option<Arc<Shape>>,
    gathers: Vec<Gather>,
    /// Which sources have values of them.
    sources: Vec<bool>,
    /// The previous sample, source by source.
    known: Vec<Values>,
    open: Open,
    after_gap: bool,
    missed: u64,
    /// It was logged that nothing fits, and nothing has fit since.
    warned: bool,
}

/// The chunk that samples are added to.
#[derive(Debug, Default)]
struct Open {
    /// First and last; `None` while there is no sample.
    span: Option<(Timestamp, Timestamp)>,
    there: Vec<bool>,
    after_gap: bool,
    samples: u64,
    /// Bytes of the first sample, which is complete.
    whole: usize,
    bytes: Vec<u8>,
}

/// Chunks for a capture, and the time from which samples are wanted.
#[derive(Debug)]
pub(crate) struct Held {
    /// The chunks, the oldest first.
    pub chunks: Vec<Arc<Chunk>>,
    /// Samples before this are not wanted.
    pub since: Timestamp,
}

/// The part of a record shape that is kept: the metrics with these names or patterns, or
/// all if there are none.
pub(crate) fn choose(
    patterns: &[String],
    record_shape: &RecordShape,
    catalog: &Catalog,
) -> RecordShape {
    // Both are in the order of the PMIDs.
    let sets = record_shape.iter().zip(&catalog.metrics).filter(|(_, (_, name))| {
        patterns.is_empty() || patterns.iter().any(|pattern| names::selects(pattern, name))
    });
    sets.map(|(set, _)| set).collect()
}

/// What is sampled, made before it is: that takes as long as there are metrics.
#[derive(Debug)]
pub(crate) struct Layout {
    shape: Shape,
    gathers: Vec<Gather>,
}

impl Layout {
    /// Samples of these values. Metrics that are not in the catalog (no group logs them) are
    /// left out.
    pub(crate) fn new(mut record_shape: RecordShape, catalog: &Arc<Catalog>) -> Self {
        let logged: HashSet<Pmid> = catalog.metrics.iter().map(|(desc, _)| desc.pmid).collect();
        record_shape.retain(|set| logged.contains(&set.pmid));
        let (shape, gathers) = Shape::new(&record_shape, Arc::clone(catalog));
        Self { shape, gathers }
    }
}

impl FlightRecorder {
    /// A recorder without samples.
    pub(crate) fn new(settings: FlightRecorderSettings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Returns the interval of its samples.
    pub(crate) fn interval(&self) -> Duration {
        self.settings.interval
    }

    /// Applies other settings; the metrics are chosen again at the next catalog.
    pub(crate) fn change(&mut self, settings: FlightRecorderSettings) {
        self.settings = settings;
    }

    /// Sets what is sampled from now on, of this many sources. Returns what is of no use any
    /// more, to be freed elsewhere.
    pub(crate) fn lay_out(&mut self, layout: Layout, sources: usize) -> impl Send + use<> {
        let Layout { shape, gathers } = layout;
        let before = std::mem::replace(&mut self.gathers, gathers);
        self.sources = vec![false; sources];
        for gather in &self.gathers {
            if let Some(wanted) = self.sources.get_mut(gather.source) {
                *wanted = true;
            }
        }
        if self.shape.as_ref().is_some_and(|known| known.is_like(&shape)) {
            return (before, Some(shape));
        }
        self.close();
        self.shape = Some(self.ring.shared(shape)).filter(|shape| !shape.sets.is_empty());
        (before, None)
    }

    /// Whether it records values of source number `source`.
    pub(crate) fn needs(&self, source: usize) -> bool {
        self.shape.is_some() && self.sources.get(source).copied().unwrap_or(false)
    }

    /// Samples are missing before the next one.
    pub(crate) fn note_gap(&mut self) {
        self.after_gap = true;
    }

    /// Counts skipped ticks.
    pub(crate) fn note_missed(&mut self, ticks: u64) {
        self.missed += ticks;
    }

    /// Records a sample of the sources' values.
    pub(crate) fn take(&mut self, timestamp: Timestamp, values: &[Option<&Values>]) {
        let is_there = |gather: &Gather| values.get(gather.source).is_some_and(Option::is_some);
        let as_before = self.gathers.iter().map(is_there).eq(self.open.there.iter().copied());
        if self.open.span.is_some_and(|(_, last)| timestamp <= last) {
            info!("the clock was set back: the flight recorder starts over");
            (self.open.span, self.ring) = (None, Ring::default());
        }
        if !as_before || self.after_gap || self.is_full(timestamp) {
            self.close();
        }
        if self.shape.is_none() {
            return;
        }
        let last = match &mut self.open.span {
            Some((_, last)) => std::mem::replace(last, timestamp),
            None => self.begin(timestamp, values),
        };
        let open = &mut self.open;
        delta::put_varint(u64::try_from(timestamp.nanos_since(last)).unwrap_or(0), &mut open.bytes);
        delta::encode(&self.gathers, &mut self.known, values, &mut open.bytes);
        open.samples += 1;
        if open.samples == 1 {
            open.whole = open.bytes.len();
        }
        self.shrink(timestamp);
    }

    /// Begins a chunk with a sample of this time.
    fn begin(&mut self, timestamp: Timestamp, values: &[Option<&Values>]) -> Timestamp {
        let blank = |gather: &Gather| Values::blank(gather.cells.len(), gather.texts.len());
        self.known = self.gathers.iter().map(blank).collect();
        let is_there = |gather: &Gather| values.get(gather.source).is_some_and(Option::is_some);
        self.open.there = self.gathers.iter().map(is_there).collect();
        self.open.span = Some((timestamp, timestamp));
        self.open.after_gap = std::mem::take(&mut self.after_gap);
        (self.open.samples, self.open.whole) = (0, 0);
        self.open.bytes.clear();
        timestamp
    }

    /// Whether the chunk has enough samples.
    fn is_full(&self, timestamp: Timestamp) -> bool {
        let Some((first, _)) = self.open.span else { return false };
        let part = self.settings.memory / CHUNKS as usize;
        let most = part.min(CHUNK).max(SAMPLES * self.open.whole).min(self.settings.memory / 4);
        self.open.bytes.len() >= most
            || timestamp >= first.saturating_add(self.settings.span / CHUNKS)
    }

    /// Moves the open chunk into the ring; its buffer is kept for the next one.
    fn close(&mut self) {
        if let Some(chunk) = self.chunk() {
            self.ring.push(chunk);
        }
        (self.open.span, self.open.samples) = (None, 0);
    }

    /// The open chunk; `None` if it has no samples.
    fn chunk(&self) -> Option<Chunk> {
        let (open, shape) = (&self.open, self.shape.as_ref()?);
        let (first, last) = open.span?;
        Some(Chunk {
            shape: Arc::clone(shape),
            there: open.there.clone(),
            after_gap: open.after_gap,
            first,
            last,
            samples: open.samples,
            bytes: open.bytes.clone(),
        })
    }

    /// Drops samples that are too old or too many.
    fn shrink(&mut self, now: Timestamp) {
        let (memory, oldest) = (self.settings.memory, now.saturating_sub(self.settings.span));
        let own = self.own_size();
        self.ring.shrink(oldest, memory.saturating_sub(own));
        if own > memory {
            if !std::mem::replace(&mut self.warned, true) {
                warn!(needed = own, memory, "flight recorder: not even one sample fits");
            }
            self.shape = None;
            self.open = Open::default();
            self.known = Vec::new();
        } else {
            self.warned = false;
        }
    }

    /// Bytes outside the ring.
    fn own_size(&self) -> usize {
        let shape = self.shape.as_ref().map_or(0, |shape| self.ring.cost(shape));
        let known = self.known.iter().map(Values::size);
        let gathers = self.gathers.iter().map(Gather::size);
        shape + self.open.bytes.capacity() + known.chain(gathers).sum::<usize>()
    }

    /// The samples of the last `time`, or all of them, for a capture.
    pub(crate) fn held(&self, now: Timestamp, time: Option<Duration>) -> Held {
        let time = time.unwrap_or(self.settings.span);
        let since = now.saturating_sub(time);
        let open = self.chunk().filter(|chunk| chunk.last >= since).map(Arc::new);
        Held { chunks: self.ring.since(since).cloned().chain(open).collect(), since }
    }

    /// Its status.
    pub(crate) fn status(&self) -> FlightRecorderStatus {
        let first = self.ring.first().or(self.open.span.map(|(first, _)| first));
        let newest = self.open.span.map(|(_, last)| last);
        let span = first.zip(newest).map_or(0.0, |(first, last)| last.seconds_since(first));
        let sets = self.shape.iter().flat_map(|shape| &shape.sets);
        FlightRecorderStatus {
            interval: self.settings.interval.as_secs_f64(),
            values: sets.map(|set| set.instances.len()).sum(),
            samples: self.ring.samples() + self.open.samples,
            span,
            bytes: (self.ring.size() + self.own_size()) as u64,
            limit: self.settings.memory as u64,
            missed: self.missed,
        }
    }
}

#[cfg(test)]
mod tests;
