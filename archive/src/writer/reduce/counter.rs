//! The values of a counter's instance that are kept.

use super::grid::Piece;
use super::output::InstanceOutput;
use crate::analysis::growth::Decrease;
use crate::analysis::growth::lifetime::Lifetime;
use crate::analysis::growth::number::Number;
use crate::analysis::replay::interpolate::{ObservedValue, on_the_line};
use crate::reader::column::number;
use crate::{Timestamp, Value, ValueType};

/// From this many grid times between two values on, the values are kept in place of those.
const SPARSE: i128 = 3;

/// The last value of an instance.
#[derive(Debug, Clone, Copy)]
struct Last {
    at: Timestamp,
    /// The interval that the time is in.
    interval: i128,
    word: u64,
    /// It was written.
    is_kept: bool,
}

/// One instance of a counter.
#[derive(Debug)]
pub(super) struct CounterTrack {
    value_type: ValueType,
    life: Lifetime,
    /// The last value of the line; none at its start.
    last: Option<Last>,
    last_at: Option<Timestamp>,
}

impl CounterTrack {
    pub(super) const fn new(value_type: ValueType, life: Lifetime) -> Self {
        Self { value_type, life, last: None, last_at: None }
    }

    /// Returns the time of the last value, of whatever line.
    pub(super) const fn last_at(&self) -> Option<Timestamp> {
        self.last_at
    }

    /// Returns the last value, and its time.
    pub(super) fn last_value(&self) -> Option<(Timestamp, u64)> {
        self.last.map(|last| (last.at, last.word))
    }

    /// Adds values of consecutive rows in one interval.
    pub(super) fn add<N: Number>(&mut self, piece: &Piece<'_>, output: &mut InstanceOutput<'_>) {
        let mut values = piece.words.iter().copied().zip(piece.timestamps.iter().copied());
        if let Some((word, at)) = values.next() {
            self.observe::<N>(word, at, piece.interval, output);
        }
        if rises_only::<N>(piece.words) {
            // Nothing between the first and the last is of interest.
            if let Some((word, at)) = values.next_back() {
                self.observe::<N>(word, at, piece.interval, output);
            }
            return;
        }
        for (word, at) in values {
            self.observe::<N>(word, at, piece.interval, output);
        }
    }

    fn observe<N: Number>(
        &mut self,
        word: u64,
        at: Timestamp,
        interval: i128,
        output: &mut InstanceOutput<'_>,
    ) {
        self.last_at = Some(at);
        let next = Last { at, interval, word, is_kept: false };
        let Some(last) = self.last else {
            // The start of a line.
            self.last = Some(next);
            self.keep_last(output);
            return;
        };
        if at <= last.at {
            // Of several values at one time the last holds.
            self.last = Some(Last { at: last.at, interval: last.interval, ..next });
            if last.is_kept {
                self.keep_last(output);
            }
            return;
        }
        let grows = N::from_word(last.word).growth_to(N::from_word(word), false).is_some();
        let ends = output.grid().ends_before_interval(last.at, last.interval, interval);
        let is_sparse = ends.end - ends.start >= SPARSE;
        let is_alive = |interval| self.life.contains(output.grid().end(interval));
        let is_on_grid = output.grid().end(ends.end) == at;
        if !grows || is_sparse || !ends.clone().all(is_alive) {
            self.keep_last(output);
            self.last = Some(next);
            self.keep_last(output);
            return;
        }
        for interval in ends {
            let end = output.grid().end(interval);
            if let Some(word) = self.word_at(end, last, next, output) {
                output.put(end, word);
            }
        }
        self.last = Some(next);
        if is_on_grid {
            self.keep_last(output);
        }
    }

    /// Returns the value on the line between two others, as replay does.
    fn word_at(
        &self,
        at: Timestamp,
        prior: Last,
        next: Last,
        output: &InstanceOutput<'_>,
    ) -> Option<u64> {
        let seconds = |time: Timestamp| time.seconds_since(output.start());
        let observed = |last: Last| {
            let value = number(self.value_type, last.word)?;
            Some(ObservedValue { at: seconds(last.at), value })
        };
        let value = on_the_line(observed(prior)?, observed(next)?, seconds(at), Decrease::Reset)?;
        word_of(value)
    }

    fn keep_last(&mut self, output: &mut InstanceOutput<'_>) {
        if let Some(last) = self.last.as_mut().filter(|last| !last.is_kept) {
            output.put(last.at, last.word);
            last.is_kept = true;
        }
    }

    /// Writes the last value if no line from it to a later value may be interpolated any more,
    /// because too many grid times have passed.
    pub(super) fn settle(&mut self, now: Timestamp, output: &mut InstanceOutput<'_>) {
        let Some(last) = self.last.filter(|last| !last.is_kept) else { return };
        let ends = output.grid().ends_within(last.at, now);
        if ends.end - ends.start >= SPARSE {
            self.keep_last(output);
        }
    }

    /// Ends the line.
    pub(super) fn end(&mut self, output: &mut InstanceOutput<'_>) {
        self.keep_last(output);
        self.last = None;
    }
}

/// Returns the word that a column has of a number.
fn word_of(value: Value<'_>) -> Option<u64> {
    Some(match value {
        Value::I32(v) => u64::from(v.cast_unsigned()),
        Value::U32(v) => u64::from(v),
        Value::I64(v) => v.cast_unsigned(),
        Value::U64(v) => v,
        Value::Float(v) => u64::from(v.to_bits()),
        Value::Double(v) => v.to_bits(),
        _ => return None,
    })
}

/// Returns whether no number is less than the one before.
fn rises_only<N: Number>(words: &[u64]) -> bool {
    let pairs = words.iter().zip(words.iter().skip(1));
    let mut falls = 0;
    for (before, after) in pairs {
        let (rise, fall) = N::from_word(*before).rise_to(N::from_word(*after));
        falls |= fall | u64::from(rise.is_nan()) << 63;
    }
    falls >> 63 == 0
}
