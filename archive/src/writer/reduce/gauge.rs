//! The mean and the extremes of an instantaneous number in each interval.

use super::grid::Piece;
use super::output::{InstanceOutput, OutputSlot};
use crate::analysis::growth::lifetime::Lifetime;
use crate::analysis::growth::number::Number;
use crate::{Timestamp, ValueType};

/// Number of grid times between two values from which on the later value does not stand for the
/// time since the earlier one.
const SPARSE: i128 = 3;

/// One instance of an instantaneous number.
#[derive(Debug)]
pub(super) struct GaugeTrack {
    /// The statistic that is written: the mean, with its extremes, or one of these alone.
    kept: OutputSlot,
    value_type: ValueType,
    life: Lifetime,
    current: Option<IntervalSums>,
    /// The last value that the next one continues.
    last_at: Option<Timestamp>,
}

/// The values of an interval so far.
#[derive(Debug, Clone, Copy)]
struct IntervalSums {
    interval: i128,
    /// The sum of the values, each times its seconds.
    weighted: f64,
    seconds: f64,
    /// The first value of a line, whose time is that until the next one.
    first: Option<f64>,
    minimum: GaugeValue,
    maximum: GaugeValue,
    last: GaugeValue,
    last_at: Timestamp,
}

/// A number, and the word that it is stored as.
#[derive(Debug, Clone, Copy)]
struct GaugeValue {
    number: f64,
    word: u64,
}

impl GaugeTrack {
    pub(super) const fn new(kept: OutputSlot, value_type: ValueType, life: Lifetime) -> Self {
        Self { kept, value_type, life, current: None, last_at: None }
    }

    /// Adds values of consecutive rows in one interval.
    pub(super) fn add<N: Number>(&mut self, piece: &Piece<'_>, output: &mut InstanceOutput<'_>) {
        if self.current.is_some_and(|sums| sums.interval != piece.interval) {
            self.finish(true, output);
        }
        let start = output.grid().end(piece.interval - 1);
        // Between values of one interval there is no time of the grid.
        let mut last_at = self.last_at.filter(|last| {
            let first = piece.timestamps.first().copied().unwrap_or(*last);
            let ends = output.grid().ends_within(*last, first);
            ends.end - ends.start < SPARSE
        });
        let mut sums = self.current;
        // The row before has a value, in this interval.
        let mut follows = false;
        let times = piece.timestamps.iter().copied().zip(piece.seconds.iter().copied());
        for (&word, (at, since_row_before)) in piece.words.iter().zip(times) {
            let number = N::from_word(word);
            if number.is_nan() {
                follows = false;
                continue;
            }
            let value = number.value();
            let seconds = match last_at {
                Some(_) if follows => Some(since_row_before),
                last => last.map(|last| at.seconds_since(last.max(start))),
            };
            last_at = Some(at);
            follows = true;
            let own = GaugeValue { number: value, word };
            let Some(sums) = &mut sums else {
                sums = Some(IntervalSums {
                    interval: piece.interval,
                    weighted: seconds.map_or(0.0, |seconds| value * seconds),
                    seconds: seconds.unwrap_or(0.0),
                    first: seconds.is_none().then_some(value),
                    minimum: own,
                    maximum: own,
                    last: own,
                    last_at: at,
                });
                continue;
            };
            let seconds = seconds.unwrap_or(0.0);
            if let Some(first) = sums.first.take() {
                sums.weighted += first * seconds;
                sums.seconds += seconds;
            }
            sums.weighted += value * seconds;
            sums.seconds += seconds;
            if value < sums.minimum.number {
                sums.minimum = own;
            }
            if value > sums.maximum.number {
                sums.maximum = own;
            }
            sums.last = own;
            sums.last_at = at;
        }
        self.current = sums;
        self.last_at = last_at;
    }

    /// Writes an interval that has ended before `now`.
    pub(super) fn settle(&mut self, now: Timestamp, output: &mut InstanceOutput<'_>) {
        if self.current.is_some_and(|sums| output.grid().end(sums.interval) < now) {
            self.finish(true, output);
        }
    }

    /// Ends the line before `at` or, without, with its last value: no later value continues it.
    pub(super) fn end(&mut self, at: Option<Timestamp>, output: &mut InstanceOutput<'_>) {
        let is_whole =
            self.current.zip(at).is_some_and(|(sums, at)| output.grid().end(sums.interval) < at);
        self.finish(is_whole, output);
        self.last_at = None;
    }

    /// Writes the interval. If it is not whole its values are at the time of the last one.
    fn finish(&mut self, is_whole: bool, output: &mut InstanceOutput<'_>) {
        let Some(mut sums) = self.current.take() else { return };
        let end = output.grid().end(sums.interval);
        let at = if is_whole && self.life.contains(end) { end } else { sums.last_at };
        let rest = at.seconds_since(sums.last_at);
        sums.weighted += sums.last.number * rest;
        sums.seconds += rest;
        match self.kept {
            OutputSlot::Value => {
                let mean = sums.mean().and_then(|mean| word_of(mean, self.value_type));
                output.put(at, mean.unwrap_or(sums.last.word));
                output.put_extreme(OutputSlot::Minimum, at, sums.minimum.word);
                output.put_extreme(OutputSlot::Maximum, at, sums.maximum.word);
            }
            OutputSlot::Minimum => output.put(at, sums.minimum.word),
            OutputSlot::Maximum => output.put(at, sums.maximum.word),
        }
    }
}

impl IntervalSums {
    /// Returns the mean over time; `None` without time, and of opposite infinities.
    fn mean(&self) -> Option<f64> {
        let mean = self.weighted / self.seconds;
        // Rounding must not move it beyond the values.
        let mean = mean.max(self.minimum.number).min(self.maximum.number);
        (self.seconds > 0.0 && !(self.weighted / self.seconds).is_nan()).then_some(mean)
    }
}

/// Returns the word of the number of a type that is nearest to a mean.
fn word_of(mean: f64, value_type: ValueType) -> Option<u64> {
    let rounded = mean.round();
    Some(match value_type {
        ValueType::I32 => u64::from((rounded as i32).cast_unsigned()),
        ValueType::U32 => u64::from(rounded as u32),
        ValueType::I64 => (rounded as i64).cast_unsigned(),
        ValueType::U64 => rounded as u64,
        ValueType::Float => u64::from((mean as f32).to_bits()),
        ValueType::Double => mean.to_bits(),
        _ => return None,
    })
}
