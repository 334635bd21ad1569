//! Reads only the records that decide the values at some moments.
//!
//! A value at t needs, for each instance, the newest observation not after t
//! and the oldest not before it, up to the nearest mark. So from t the records
//! are searched back until every instance has been seen, or a mark, or the
//! start; and ahead likewise. The records between the two ends of the search are read
//! as a full scan would read them, and give the same values: a metric logged every
//! second needs two records of a day, one that was logged once in the morning needs all
//! since then.
//!
//! ```text
//!           search back <----- t -----> search ahead
//! records   .  .  .  a  b  .   |   b  a  .  .  .  .      a, b: instances
//!                    [== read ========]
//! ```
//!
//! An instance of an MMV file is sought no further than its program had it.
//!
//! The temporal index finds the records around a moment. In an archive whose
//! timestamps go backwards ([`Replay::backward_records`]) a search by time may miss
//! records; a full scan does not.

use std::ops::{Bound, RangeInclusive};
use std::time::Duration;

use hashbrown::{HashMap, HashSet};

use super::{Replay, ReplaySelection};
use crate::scan::programs::events_metric;
use crate::scan::{Chunk, ChunkLimits, ChunkRows, SelectedMetric};
use crate::{IndomHistory, InstanceId, MetricDesc, Pmid, Record, Records, Result, Timestamp};

/// Up to how many moments for each entry of the temporal index it is faster to search
/// for each: a search reads from one entry to the next.
const MOMENTS_PER_ENTRY: f64 = 0.25;

/// A span of time, both ends inclusive.
pub(super) type Span = RangeInclusive<Timestamp>;

/// The index of a metric in the selection, and an instance of it.
pub(super) type Key = (usize, Option<InstanceId>);

impl<'a> ReplaySelection<'a> {
    /// Reads what decides the values at some moments, and `back` before each, for
    /// [`Replay::rates_at`]. If they are few it searches for each, else it reads all
    /// from the first to the last.
    ///
    /// # Errors
    ///
    /// As [`load_spans`](Self::load_spans).
    pub fn load_moments(self, moments: &[Timestamp], back: Duration) -> Result<Replay<'a>> {
        let spans = moments.iter().map(|&at| at.saturating_sub(back)..=at);
        if self.is_worth_searches(moments.len() as f64) {
            return self.load_spans(&spans.collect::<Vec<_>>());
        }
        let first = moments.iter().min();
        let last = moments.iter().max();
        match (first, last) {
            (Some(first), Some(last)) => self.load_spans(&[first.saturating_sub(back)..=*last]),
            _ => self.load_spans(&[]),
        }
    }

    pub(super) fn is_worth_searches(&self, moments: f64) -> bool {
        moments <= self.chosen.source().index_entries() as f64 * MOMENTS_PER_ENTRY
    }

    /// Reads what decides the values in some spans of time. Outside of them there are
    /// no values: [`Replay::sample_at`] returns `None`, and [`Replay::observations`] has what
    /// was read.
    ///
    /// # Errors
    ///
    /// Those of the reader, from the records that are read.
    pub fn load_spans(self, spans: &[Span]) -> Result<Replay<'a>> {
        let source = self.chosen.source();
        let start = source.start();
        let end = source.end();
        if spans.iter().any(|span| *span.start() <= start && *span.end() >= end) {
            return self.load();
        }
        let selection = self.with_operands();
        let mut reading = SeekState::new(&selection)?;
        match selection.deciding(spans, &mut reading) {
            Ok(()) => {
                let taken = reading.take(&selection);
                Ok(selection.replay(taken, end, Some(joined(spans.to_vec()))))
            }
            // The deciding records are on the other side of the damage.
            Err(error) if selection.reads_on_behind(&error) => selection.load(),
            Err(error) => Err(error),
        }
    }

    pub(super) fn deciding(&self, spans: &[Span], reading: &mut SeekState<'a>) -> Result<()> {
        reading.chunk.restart();
        let mut spans: Vec<&Span> =
            spans.iter().filter(|span| span.start() <= span.end()).collect();
        spans.sort_by_key(|span| *span.start());
        let source = self.chosen.source();
        let SeekState { chunk, records } = reading;
        let mut last: Option<Span> = None;
        for span in &spans {
            let reach = self.reach_of(span, records)?.0;
            let (start, end) = match &last {
                // An instance that exists now was found far back.
                Some(last) if reach.start() < last.start() => {
                    return self.deciding_apart(&spans, reading);
                }
                Some(last) if reach.start() <= last.end() => {
                    (last.end().saturating_add(Duration::from_nanos(1)), *last.end())
                }
                _ => (*reach.start(), *reach.end()),
            };
            let end = end.max(*reach.end());
            if start <= end {
                records.move_to(start)?;
                chunk.fill(source, records, Bound::Included(end), ChunkLimits::UNBOUNDED)?;
            }
            last = Some(*reach.start()..=end);
        }
        Ok(())
    }

    /// Decides the moments with all searches before all reading.
    fn deciding_apart(&self, spans: &[&Span], reading: &mut SeekState<'a>) -> Result<()> {
        reading.chunk.restart();
        let source = self.chosen.source();
        let SeekState { chunk, records } = reading;
        let reaches = spans.iter().map(|span| Ok(self.reach_of(span, records)?.0));
        for span in joined(reaches.collect::<Result<_>>()?) {
            records.move_to(*span.start())?;
            chunk.fill(source, records, Bound::Included(*span.end()), ChunkLimits::UNBOUNDED)?;
        }
        Ok(())
    }

    /// Finds the first and the last record that decide the values in a span, and the instances that
    /// can have some.
    pub(super) fn reach_of(
        &self,
        span: &Span,
        records: &mut Records<'_>,
    ) -> Result<(Span, HashSet<Key>)> {
        let search = Search { selection: self, keys: self.keys_in(span) };
        let reach =
            search.find_back(*span.start(), records)?..=search.find_ahead(*span.end(), records)?;
        Ok((reach, search.keys))
    }

    /// Returns whether a program creates instances of a counter after a moment.
    fn has_later_births(&self, metric: &SelectedMetric, end: Timestamp) -> bool {
        let Some(lives) = self.lives.as_deref().filter(|lives| lives.bound_values(metric)) else {
            return false;
        };
        let indom = metric.desc.indom.filter(|_| metric.has_rates());
        indom.is_some_and(|indom| lives.has_births_after(indom, end))
    }

    fn keys_in(&self, span: &Span) -> HashSet<Key> {
        let mut keys = HashSet::new();
        for (place, metric) in self.metrics().iter().enumerate() {
            let Some(indom) = metric.desc.indom else {
                // Events are rare: those among the records that decide the others suffice.
                if metric.desc.pmid != events_metric() || Some(place) < self.shown {
                    keys.insert((place, None));
                }
                continue;
            };
            let alive = self.lives.iter().flat_map(|lives| lives.alive_in(indom, span));
            let labelled = self.chosen.labelled_instances(metric.desc.pmid);
            let alive =
                alive.filter(|instance| labelled.is_none_or(|some| some.contains(instance)));
            keys.extend(alive.map(|instance| (place, Some(instance))));
        }
        keys
    }
}

/// State that is kept from one span to the next: the open files, and what is known about records
/// and columns.
#[derive(Debug)]
pub(super) struct SeekState<'a> {
    pub(super) chunk: Chunk,
    records: Records<'a>,
}

impl<'a> SeekState<'a> {
    pub(super) fn new(selection: &ReplaySelection<'a>) -> Result<Self> {
        let chunk = Chunk::new(&selection.chosen);
        Ok(Self { chunk, records: selection.chosen.source().records()? })
    }

    /// Returns the rows that were read. Columns are dropped if most of them are empty.
    pub(super) fn take(&mut self, selection: &ReplaySelection<'a>) -> ChunkRows {
        if self.chunk.is_mostly_empty() {
            let next = Chunk::new(&selection.chosen);
            return std::mem::replace(&mut self.chunk, next).into_rows();
        }
        self.chunk.take()
    }
}

/// A search for the records that decide the values in a span.
struct Search<'s, 'a> {
    selection: &'s ReplaySelection<'a>,
    keys: HashSet<Key>,
}

impl Search<'_, '_> {
    /// Returns the timestamp of the newest record such that all instances have values in it or in
    /// the records from it to `start`, or a mark ends the search.
    fn find_back(&self, start: Timestamp, records: &mut Records<'_>) -> Result<Timestamp> {
        let source = self.selection.chosen.source();
        let mut missing = MissingInstances::back_from(self, start);
        records.move_back_to(start)?;
        let mut timestamp = start;
        while !missing.keys.is_empty() {
            let Some(record) = records.previous()? else {
                return Ok(source.start().min(timestamp));
            };
            timestamp = record.timestamp();
            if record.is_mark() {
                break;
            }
            missing.remove_found(&record);
            missing.remove_beyond(timestamp);
        }
        Ok(timestamp)
    }

    /// Returns the timestamp of the oldest record such that all instances have values in it or in
    /// the records from `end` to it, or a mark ends the search.
    fn find_ahead(&self, end: Timestamp, records: &mut Records<'_>) -> Result<Timestamp> {
        let mut missing = MissingInstances::ahead_from(self, end);
        records.move_to(end)?;
        let mut timestamp = end;
        while !missing.keys.is_empty() {
            let Some(record) = records.next()? else { break };
            timestamp = record.timestamp();
            // A mark at the end of the span may be followed by records with the same
            // timestamp.
            if record.is_mark() && timestamp > end {
                break;
            }
            missing.remove_found(&record);
            missing.remove_beyond(timestamp);
        }
        Ok(timestamp.max(end))
    }
}

/// The instances that a search has not found yet.
struct MissingInstances<'a> {
    keys: HashSet<Key>,
    /// Instances of MMV files that have no values beyond a time, the nearest of them last.
    bounds: Vec<(Timestamp, Key)>,
    direction: Direction,
    /// The indexes of the metrics in the selection, and their domains.
    places: HashMap<Pmid, SoughtMetric<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Back,
    Ahead,
}

/// A metric whose instances are sought.
struct SoughtMetric<'a> {
    place: usize,
    desc: MetricDesc,
    domain: Option<&'a IndomHistory>,
}

impl<'a> MissingInstances<'a> {
    /// Returns what to search for back from a moment: instances back to their birth.
    fn back_from(search: &Search<'_, 'a>, start: Timestamp) -> Self {
        let mut missing = Self::new(search, Direction::Back);
        // An instance that is created counts from 0 in the last record with any value of its
        // metric.
        let places: HashSet<usize> = missing.bounds.iter().map(|(_, (place, _))| *place).collect();
        missing.keys.extend(places.into_iter().map(|place| (place, None)));
        missing.remove_beyond(start);
        missing
    }

    /// Returns what to search for ahead from a moment: instances up to their death.
    fn ahead_from(search: &Search<'_, 'a>, end: Timestamp) -> Self {
        let mut missing = Self::new(search, Direction::Ahead);
        missing.remove_beyond(end);
        // An instance that is created next counts from 0 in a record before `end`.
        for (place, metric) in search.selection.metrics().iter().enumerate() {
            if search.selection.has_later_births(metric, end) {
                missing.keys.insert((place, None));
            }
        }
        missing
    }

    fn new(search: &Search<'_, 'a>, direction: Direction) -> Self {
        let metadata = search.selection.metadata();
        let metrics = search.selection.metrics();
        let mut places = HashMap::new();
        for (place, SelectedMetric { desc, .. }) in metrics.iter().enumerate() {
            let domain = desc.indom.and_then(|indom| metadata.indom_history(indom));
            places.insert(desc.pmid, SoughtMetric { place, desc: *desc, domain });
        }
        let mut bounds = Vec::new();
        for key in &search.keys {
            let lives = search.selection.lives.as_deref();
            let Some((metric, lives)) = metrics.get(key.0).zip(lives) else { continue };
            if !lives.bound_values(metric) {
                continue;
            }
            let Some(life) = lives.lifetime(metric, key.1) else { continue };
            let bound = match direction {
                Direction::Back => life.birth(),
                Direction::Ahead => life.death(),
            };
            bounds.push((bound, *key));
        }
        bounds.sort_unstable_by_key(|(bound, _)| *bound);
        if direction == Direction::Ahead {
            bounds.reverse();
        }
        Self { keys: search.keys.clone(), bounds, direction, places }
    }

    fn remove_beyond(&mut self, timestamp: Timestamp) {
        while let Some((bound, key)) = self.bounds.last() {
            let is_beyond = match self.direction {
                Direction::Back => timestamp < *bound,
                Direction::Ahead => *bound < timestamp,
            };
            if !is_beyond {
                return;
            }
            self.keys.remove(key);
            self.bounds.pop();
        }
    }

    fn remove_found(&mut self, record: &Record<'_>) {
        for set in record.value_sets() {
            let Some(SoughtMetric { place, desc, domain }) = self.places.get(&set.pmid()) else {
                continue;
            };
            // The scan finds a damaged value again, and reports it.
            for (number, _) in set.values(desc.value_type).flatten() {
                let number = number.filter(|_| desc.indom.is_some());
                let instance = match domain.zip(number) {
                    Some((domain, number)) => domain.identity_at(number, record.timestamp()),
                    None => number,
                };
                self.keys.remove(&(*place, instance));
                if instance.is_some() {
                    self.keys.remove(&(*place, None));
                }
            }
        }
    }
}

pub(super) fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by_key(|span| *span.start());
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.start() <= last.end() => {
                *last = *last.start()..=(*last.end()).max(*span.end());
            }
            _ => joined.push(span),
        }
    }
    joined
}

#[cfg(test)]
mod tests;
