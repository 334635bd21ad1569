//! Replay batch by batch, so that a year takes no more memory than a day.
//!
//! The moments of a [`Window`] are processed in order, a batch at a time: the deciding
//! records are read, the values computed, and the memory reused. A batch has as many
//! moments as hold about [`VALUES`] observations; it grows where observations are few,
//! and where the search for neighbours outside of the batch reads more than the batch
//! itself. So an archive with a metric that was logged once a day is read in batches of
//! days, without a search over a day for each minute.
//!
//! ```text
//! moments     |  |  |  |  |  |  |  |  |  |
//!             [= batch =][== batch ==][===
//! read      [=============]
//!                      [================]      neighbours are read twice
//! ```
//!
//! [`LoggedBatches`] has the observations themselves, each read once.
//!
//! Both begin with an outline: a replay without observations that lists the instances
//! that have some. Damage and records that go back in time cannot be detected within a
//! batch: after them all later moments are computed from the whole archive, as
//! [`ReplaySelection::load`] reads it.

mod parallel;

use std::ops::{Bound, Range};
use std::time::Duration;

use super::seek::{SeekState, Span, joined};
use super::{Replay, ReplaySelection};
use crate::scan::{Chunk, ChunkLimits};
use crate::{Records, Result, Timestamp};

/// Approximate number of observations in a batch, at 12 bytes each.
const VALUES: usize = 1 << 18;

/// The moments of the first batch, while the density of observations is not known.
pub(super) const FIRST: i128 = 16;

/// The rows of an outline that are read before the first check whether all
/// instances have been seen.
const FIRST_ROWS: usize = 16;

/// Values at even steps, batch by batch; made by
/// [`ReplaySelection::window`].
#[derive(Debug)]
pub struct Window<'a> {
    pub(super) moments: MomentReader<'a>,
    /// The moments that are left, by their numbers.
    pub(super) left: Range<i128>,
    pub(super) batch: i128,
    /// Approximate limit on the observations held.
    pub(super) most: usize,
    reading: SeekState<'a>,
    /// The outline, and later the batch.
    replay: Replay<'a>,
    /// The replay has everything from here on.
    is_whole: bool,
}

/// Moments, counted from the first, and what is computed for them.
#[derive(Debug)]
pub(super) struct MomentReader<'a> {
    selection: ReplaySelection<'a>,
    first: Timestamp,
    step: Duration,
    back: Duration,
    /// Set if there are so few moments that the neighbours of each are searched for.
    is_sparse: bool,
}

pub(super) struct Batch<'a> {
    pub(super) replay: Replay<'a>,
    pub(super) values: usize,
    /// Most of it is outside of the batch: the batch was too short, whatever it
    /// holds.
    pub(super) is_searched: bool,
}

impl<'a> ReplaySelection<'a> {
    /// Begins a window of the moments from the start of a span to its end, every
    /// `step`, and `back` before each, for [`Replay::rates_at`]. A step of zero is
    /// replaced by a nanosecond.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load), from the records that are read.
    pub fn window(self, span: Span, step: Duration, back: Duration) -> Result<Window<'a>> {
        let selection = self.with_operands();
        let step = step.max(Duration::from_nanos(1));
        let nanos = step.as_nanos() as i128;
        let source = selection.chosen.source();
        // Of the moments before the archive one is tried.
        let early = source.start().nanos_since(*span.start()).max(0) / nanos;
        let skipped = early.saturating_sub(1).max(0) * nanos;
        let first = Timestamp::from_nanos(span.start().as_nanos().saturating_add(skipped));
        let last = (*span.end()).min(source.end());
        let count = if last < first { 0 } else { last.nanos_since(first) / nanos + 1 };
        let is_sparse = back.is_zero() && selection.is_worth_searches(count as f64);
        let outline = selection.outline(&(first.saturating_sub(back)..=last))?;
        let full = VALUES as f64 / (outline.values_per_nano * nanos as f64);
        let batch = if full.is_finite() { full as i128 } else { FIRST };
        let reading = SeekState::new(&selection)?;
        let moments = MomentReader { selection, first, step, back, is_sparse };
        let Outline { replay, is_whole, .. } = outline;
        let left = 0..count;
        let batch = batch.max(1);
        let most = VALUES;
        Ok(Window { moments, left, batch, most, reading, replay, is_whole })
    }

    /// Begins to return what was logged; see [`Replay::observations`].
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn logged(self) -> Result<LoggedBatches<'a>> {
        let selection = self.with_operands();
        let source = selection.chosen.source();
        let mut chunk = Chunk::new(&selection.chosen);
        let mut records = source.records()?;
        let mut lost = Vec::new();
        while selection.fill(&mut chunk, &mut records, ChunkLimits::CHUNK, &mut lost)? {
            chunk.clear();
        }
        let end = chunk.newest().unwrap_or(source.start());
        chunk.clear();
        let replay = Replay { lost, ..selection.clone().replay(chunk.take(), end, None) };
        chunk.restart();
        Ok(LoggedBatches {
            records: source.records()?,
            selection,
            chunk,
            replay,
            has_more: true,
            limits: ChunkLimits::CHUNK,
        })
    }

    /// Finds the instances that have values in the records that decide a span, and whether all of
    /// these records were read for that. The search ends as soon as all are found.
    fn outline(&self, span: &Span) -> Result<Outline<'a>> {
        let source = self.chosen.source();
        let whole = |replay| Outline { replay, is_whole: true, values_per_nano: 0.0 };
        match self.seen(span) {
            Ok((chunk, values_per_nano)) if chunk.backward_records() == 0 => {
                let replay = self.clone().replay(chunk.into_rows(), source.end(), Some(Vec::new()));
                Ok(Outline { replay, is_whole: false, values_per_nano })
            }
            Ok(_) => Ok(whole(self.clone().load()?)),
            Err(error) if self.reads_on_behind(&error) => Ok(whole(self.clone().load()?)),
            Err(error) => Err(error),
        }
    }

    /// Returns a chunk without rows that has the columns of a span, and the number of values per
    /// nanosecond at its start.
    fn seen(&self, span: &Span) -> Result<(Chunk, f64)> {
        let source = self.chosen.source();
        let mut chunk = Chunk::new(&self.chosen);
        let mut values_per_nano = 0.0;
        if span.start() > span.end() {
            return Ok((chunk, values_per_nano));
        }
        let mut records = source.records()?;
        let (reach, keys) = self.reach_of(span, &mut records)?;
        records.move_to(*reach.start())?;
        let last = *reach.end();
        let mut limits = ChunkLimits { rows: FIRST_ROWS, ..ChunkLimits::CHUNK };
        loop {
            let more = chunk.fill(source, &mut records, Bound::Included(last), limits)?;
            if let [first, .., last] = chunk.timestamps() {
                values_per_nano = chunk.values() as f64 / last.nanos_since(*first) as f64;
            }
            chunk.clear();
            limits.rows = (limits.rows * 4).min(ChunkLimits::CHUNK.rows);
            if !more || keys.iter().all(|&(metric, instance)| chunk.has_column(metric, instance)) {
                return Ok((chunk, values_per_nano));
            }
        }
    }
}

/// A replay without observations, and how dense those are.
struct Outline<'a> {
    replay: Replay<'a>,
    /// The replay has all that there is, instead.
    is_whole: bool,
    values_per_nano: f64,
}

impl<'a> Window<'a> {
    /// Returns the batch; before the first one the outline, which has no values, but all
    /// instances of all batches.
    pub fn replay(&self) -> &Replay<'a> {
        &self.replay
    }

    /// Returns whether the replay has everything from here on: it has found damage, or records
    /// that go back in time, and reports them.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Reads the next batch and returns the span of its moments, from the first
    /// to the last of them; `None` after the last batch.
    ///
    /// # Errors
    ///
    /// As [`ReplaySelection::load`].
    pub fn next_batch(&mut self) -> Result<Option<Span>> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let begin = self.left.start;
        let mut end = self.left.end;
        if !self.is_whole {
            let after = begin.saturating_add(self.batch).min(end);
            self.read(begin..after)?;
            if !self.is_whole {
                end = after;
            }
        }
        self.left.start = end;
        Ok(Some(self.moments.span(begin..end)))
    }

    /// Reads what decides the values of a batch, or everything.
    fn read(&mut self, batch: Range<i128>) -> Result<()> {
        let read = self.moments.read(batch, &mut self.reading)?;
        let Some(Batch { replay, values, is_searched }) = read else {
            self.replay = self.moments.selection.clone().load()?;
            self.is_whole = true;
            return Ok(());
        };
        self.replay = replay;
        self.batch = match values {
            _ if is_searched => self.batch.saturating_mul(2),
            values if values < self.most / 2 => self.batch.saturating_mul(2),
            values if values > self.most => (self.batch / 2).max(1),
            _ => self.batch,
        };
        Ok(())
    }
}

impl<'a> MomentReader<'a> {
    pub(super) fn span(&self, batch: Range<i128>) -> Span {
        let moment = |number: i128| {
            Timestamp::from_nanos(self.first.as_nanos() + number * self.step.as_nanos() as i128)
        };
        moment(batch.start)..=moment(batch.end - 1)
    }

    /// Reads what decides the values of a batch; `None` if that takes the whole
    /// archive.
    pub(super) fn read(
        &self,
        batch: Range<i128>,
        reading: &mut SeekState<'a>,
    ) -> Result<Option<Batch<'a>>> {
        let batch = self.span(batch);
        let spans: Vec<Span> = if self.is_sparse {
            crate::analysis::replay::times(batch.clone(), self.step).map(|at| at..=at).collect()
        } else {
            vec![batch.start().saturating_sub(self.back)..=*batch.end()]
        };
        match self.selection.deciding(&spans, reading) {
            Ok(()) if reading.chunk.backward_records() == 0 => {
                let chunk = &reading.chunk;
                let inside =
                    chunk.timestamps().iter().filter(|timestamp| batch.contains(timestamp)).count();
                let is_searched = !self.is_sparse && inside < chunk.timestamps().len() / 2;
                let values = chunk.values();
                let end = self.selection.chosen.source().end();
                let taken = reading.take(&self.selection);
                let replay = self.selection.clone().replay(taken, end, Some(joined(spans)));
                Ok(Some(Batch { replay, values, is_searched }))
            }
            Err(error) if !self.selection.reads_on_behind(&error) => Err(error),
            Ok(()) | Err(_) => Ok(None),
        }
    }
}

/// The observations, batch by batch; made by [`ReplaySelection::logged`].
#[derive(Debug)]
pub struct LoggedBatches<'a> {
    selection: ReplaySelection<'a>,
    records: Records<'a>,
    /// Empty, after the last batch.
    chunk: Chunk,
    /// The outline, and later the batch.
    replay: Replay<'a>,
    has_more: bool,
    limits: ChunkLimits,
}

impl<'a> LoggedBatches<'a> {
    /// Returns the batch, for its [observations](Replay::observations); before the first one the
    /// outline, which has none, but all instances. All of them report what was lost of the
    /// archive.
    pub fn replay(&self) -> &Replay<'a> {
        &self.replay
    }

    /// Reads the next batch; returns whether there was one.
    ///
    /// # Errors
    ///
    /// As [`ReplaySelection::load`].
    pub fn next_batch(&mut self) -> Result<bool> {
        while self.has_more {
            // The outline has found the same damage.
            let mut lost = Vec::new();
            let chunk = &mut self.chunk;
            let records = &mut self.records;
            self.has_more = self.selection.fill(chunk, records, self.limits, &mut lost)?;
            let next = Chunk::new(&self.selection.chosen).after(&self.chunk);
            let rows = std::mem::replace(&mut self.chunk, next);
            if let Some(&end) = rows.timestamps().last() {
                let lost = std::mem::take(&mut self.replay.lost);
                let replay = self.selection.clone().replay(rows.into_rows(), end, None);
                self.replay = Replay { lost, ..replay };
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests;
