//! Hindsight: what happened in the last minutes, more closely than archives have it.
//!
//! A sample is taken at each tick of an interval of its own and kept in memory, as
//! what differs from the one before ([`delta`]), in a [`ring`] that is bounded by
//! time and bytes. `mmv-agent capture` has it written out: the agent hands over the
//! chunks of the ring as they are ([`serve`], [`wire`]), and the command turns them
//! into an archive, by its own rights and on its own time ([`capture`](crate::capture)).

pub(crate) mod delta;
pub(crate) mod ring;
pub(crate) mod serve;
pub(crate) mod shape;
pub(crate) mod wire;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mmv_archive::scan::glob;
use pcp_types::{Pmid, Timestamp};
use tracing::{info, warn};

use crate::catalog::Catalog;
use crate::config::HindsightSettings;
use crate::harvest::Values;
use crate::record::Layout;
use crate::status::HindsightStatus;
use delta::Gather;
use ring::{Chunk, Ring};
use shape::Shape;

/// A chunk ends when it has this part of the memory, or of the time.
const CHUNKS: u32 = 16;
/// Bytes that a chunk has at most, if that is enough for some samples.
const CHUNK: usize = 1 << 20;
/// So many times its first sample, which is whole: else chunks would be little else.
const SAMPLES: usize = 8;

/// The samples of the last minutes.
#[derive(Debug)]
pub(crate) struct Hindsight {
    settings: HindsightSettings,
    ring: Ring,
    /// What is sampled; `None` before the first catalog, or if it is too large.
    shape: Option<Arc<Shape>>,
    gathers: Vec<Gather>,
    /// Which sources have values of it.
    sources: Vec<bool>,
    /// The sample before, source by source.
    known: Vec<Values>,
    open: Open,
    after_gap: bool,
    missed: u64,
    /// It was said that nothing fits, and nothing did since.
    told: bool,
}

/// The chunk that samples are added to.
#[derive(Debug, Default)]
struct Open {
    /// First and last; `None` while there is no sample.
    span: Option<(Timestamp, Timestamp)>,
    there: Vec<bool>,
    after_gap: bool,
    samples: u64,
    /// Those of the first sample.
    whole: usize,
    bytes: Vec<u8>,
}

/// Chunks that are handed over, and from when on samples are wanted.
#[derive(Debug)]
pub(crate) struct Held {
    /// The chunks, the oldest first.
    pub chunks: Vec<Arc<Chunk>>,
    /// Samples before this are not wanted.
    pub since: Timestamp,
}

impl Hindsight {
    /// Nothing yet.
    pub(crate) fn new(settings: HindsightSettings) -> Self {
        Self {
            settings,
            ring: Ring::default(),
            shape: None,
            gathers: Vec::new(),
            sources: Vec::new(),
            known: Vec::new(),
            open: Open::default(),
            after_gap: false,
            missed: 0,
            told: false,
        }
    }

    /// Other settings from now on. What is wanted is asked for again.
    pub(crate) fn change(&mut self, settings: HindsightSettings) {
        self.settings = settings;
    }

    /// What of a layout is wanted.
    pub(crate) fn choose(&self, layout: &Layout, catalog: &Catalog) -> Layout {
        let patterns = &self.settings.metrics;
        // Both are in the order of the PMIDs.
        let sets = layout.iter().zip(&catalog.metrics).filter(|(_, (_, name))| {
            patterns.is_empty() || patterns.iter().any(|pattern| glob::means(pattern, name))
        });
        sets.map(|(set, _)| set.clone()).collect()
    }

    /// What is sampled from now on, of so many sources. Metrics that are not in the
    /// catalog (no group logs them) are left out.
    pub(crate) fn lay_out(&mut self, mut layout: Layout, catalog: &Arc<Catalog>, sources: usize) {
        let logged: HashSet<Pmid> = catalog.metrics.iter().map(|(desc, _)| desc.pmid).collect();
        layout.retain(|set| logged.contains(&set.pmid));
        let (shape, gathers) = Shape::new(&layout, Arc::clone(catalog));
        self.gathers = gathers;
        self.sources = vec![false; sources];
        for gather in &self.gathers {
            if let Some(wanted) = self.sources.get_mut(gather.source) {
                *wanted = true;
            }
        }
        if self.shape.as_ref().is_some_and(|known| known.is_like(&shape)) {
            return;
        }
        self.close();
        self.shape = Some(self.ring.shared(shape)).filter(|shape| !shape.sets.is_empty());
    }

    /// Whether it wants values of source number `source`.
    pub(crate) fn needs(&self, source: usize) -> bool {
        self.shape.is_some() && self.sources.get(source).copied().unwrap_or(false)
    }

    /// Samples are missing before the next one.
    pub(crate) fn note_gap(&mut self) {
        self.after_gap = true;
    }

    /// Counts ticks that were passed over.
    pub(crate) fn note_missed(&mut self, ticks: u64) {
        self.missed += ticks;
    }

    /// Takes a sample of what was read of the sources.
    pub(crate) fn take(&mut self, stamp: Timestamp, values: &[Option<&Values>]) {
        let is_there = |gather: &Gather| values.get(gather.source).is_some_and(Option::is_some);
        let as_before = self.gathers.iter().map(is_there).eq(self.open.there.iter().copied());
        if self.open.span.is_some_and(|(_, last)| stamp <= last) {
            info!("the clock was set back: hindsight begins anew");
            (self.open.span, self.ring) = (None, Ring::default());
        }
        if !as_before || self.after_gap || self.is_full(stamp) {
            self.close();
        }
        if self.shape.is_none() {
            return;
        }
        let last = match &mut self.open.span {
            Some((_, last)) => std::mem::replace(last, stamp),
            None => self.begin(stamp, values),
        };
        let open = &mut self.open;
        delta::put_varint(u64::try_from(stamp.nanos_since(last)).unwrap_or(0), &mut open.bytes);
        delta::encode(&self.gathers, &mut self.known, values, &mut open.bytes);
        open.samples += 1;
        if open.samples == 1 {
            open.whole = open.bytes.len();
        }
        self.shrink(stamp);
    }

    /// Begins a chunk with a sample of this time.
    fn begin(&mut self, stamp: Timestamp, values: &[Option<&Values>]) -> Timestamp {
        let blank = |gather: &Gather| Values::blank(gather.cells.len(), gather.texts.len());
        self.known = self.gathers.iter().map(blank).collect();
        let is_there = |gather: &Gather| values.get(gather.source).is_some_and(Option::is_some);
        self.open.there = self.gathers.iter().map(is_there).collect();
        self.open.span = Some((stamp, stamp));
        self.open.after_gap = std::mem::take(&mut self.after_gap);
        (self.open.samples, self.open.whole) = (0, 0);
        self.open.bytes.clear();
        stamp
    }

    /// Whether the chunk has enough samples.
    fn is_full(&self, stamp: Timestamp) -> bool {
        let Some((first, _)) = self.open.span else { return false };
        let part = self.settings.memory / CHUNKS as usize;
        let most = part.min(CHUNK).max(SAMPLES * self.open.whole).min(self.settings.memory / 4);
        self.open.bytes.len() >= most || stamp >= first.saturating_add(self.settings.span / CHUNKS)
    }

    /// Puts the chunk among the others; its buffer is kept for the next one.
    fn close(&mut self) {
        if let Some(chunk) = self.chunk() {
            self.ring.push(chunk);
        }
        (self.open.span, self.open.samples) = (None, 0);
    }

    /// What the open chunk has; `None` if that is nothing.
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

    /// Lets go what is too old or too much.
    fn shrink(&mut self, now: Timestamp) {
        let (memory, oldest) = (self.settings.memory, now.saturating_sub(self.settings.span));
        let own = self.own_size();
        self.ring.shrink(oldest, memory.saturating_sub(own));
        if own > memory {
            if !std::mem::replace(&mut self.told, true) {
                warn!(needed = own, memory, "hindsight: even one sample does not fit");
            }
            self.shape = None;
            self.open = Open::default();
            self.known = Vec::new();
        } else {
            self.told = false;
        }
    }

    /// Bytes of what is not in the ring.
    fn own_size(&self) -> usize {
        let shape = self.shape.as_ref().map_or(0, |shape| self.ring.cost(shape));
        let known = self.known.iter().map(Values::size);
        let gathers = self.gathers.iter().map(Gather::size);
        shape + self.open.bytes.capacity() + known.chain(gathers).sum::<usize>()
    }

    /// The samples of the last `time`, or all of them, to be handed over.
    pub(crate) fn held(&self, now: Timestamp, time: Option<Duration>) -> Held {
        let time = time.unwrap_or(self.settings.span);
        let since = now.saturating_sub(time);
        let open = self.chunk().filter(|chunk| chunk.last >= since).map(Arc::new);
        Held { chunks: self.ring.since(since).cloned().chain(open).collect(), since }
    }

    /// What it has.
    pub(crate) fn status(&self) -> HindsightStatus {
        let first = self.ring.first().or(self.open.span.map(|(first, _)| first));
        let newest = self.open.span.map(|(_, last)| last);
        let span = first.zip(newest).map_or(0.0, |(first, last)| last.seconds_since(first));
        let sets = self.shape.iter().flat_map(|shape| &shape.sets);
        HindsightStatus {
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
