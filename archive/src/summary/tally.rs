//! The numbers of one instance, value by value.

use pcp_types::{Semantics, Timestamp, ValueType};

use super::{Extreme, Statistics};
use crate::replay::interpolate::Decrease;
use crate::scan::{Chunk, Column, SelectedMetric};

/// What the values of one instance come to so far.
#[derive(Debug)]
pub(super) struct Tally {
    kind: Kind,
    wraps: bool,
    /// How many seconds the unit of time of rates has; `None` if there is no
    /// such unit, and no rate.
    unit_of_time: Option<f64>,
    last: Option<Last>,
    count: u64,
    /// The sum of the values, or of a counter's rates.
    total: f64,
    /// The sum of what is averaged over time: values times seconds, or a
    /// counter's growth.
    weighted: f64,
    seconds: f64,
    minimum: Extreme,
    maximum: Extreme,
}

/// What becomes of a value until the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It grows, at a rate.
    Counter,
    /// It holds, if there is a next one.
    Instant,
    /// It holds, up to a mark or the end if there is no next one.
    Discrete,
}

/// The value before the next one.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// As in [`Column::words`].
    word: u64,
    value: f64,
    at: Timestamp,
    /// A mark hides it from the next value.
    hidden: bool,
}

impl Tally {
    pub(super) fn new(metric: &SelectedMetric, decrease: Decrease) -> Self {
        let kind = match metric.desc.semantics {
            Semantics::Counter => Kind::Counter,
            Semantics::Discrete => Kind::Discrete,
            Semantics::Instant => Kind::Instant,
        };
        let none = Extreme { value: 0.0, at: Timestamp::EPOCH };
        Self {
            kind,
            wraps: decrease == Decrease::Wrap,
            unit_of_time: metric.rate_time_scale(),
            last: None,
            count: 0,
            total: 0.0,
            weighted: 0.0,
            seconds: 0.0,
            minimum: none,
            maximum: none,
        }
    }

    /// Whether there was any value, be it one without a rate.
    pub(super) const fn has_values(&self) -> bool {
        self.last.is_some()
    }

    /// Adds what a chunk has of the instance. `clock` is for each row how long
    /// after the one in front of it it was.
    pub(super) fn add(&mut self, chunk: &Chunk, column: &Column, clock: &[f64]) {
        match column.value_type() {
            ValueType::I32 => self.add_numbers::<i32>(chunk, column, clock),
            ValueType::U32 => self.add_numbers::<u32>(chunk, column, clock),
            ValueType::I64 => self.add_numbers::<i64>(chunk, column, clock),
            ValueType::U64 => self.add_numbers::<u64>(chunk, column, clock),
            ValueType::Float => self.add_numbers::<f32>(chunk, column, clock),
            ValueType::Double => self.add_numbers::<f64>(chunk, column, clock),
            _ => {}
        }
    }

    fn add_numbers<N: Number>(&mut self, chunk: &Chunk, column: &Column, clock: &[f64]) {
        let stamps = chunk.stamps();
        let mut marks = chunk
            .marks()
            .iter()
            .filter_map(|&row| Some((row, *stamps.get(row as usize)?)))
            .peekable();
        // Of the last value, if it lies in this chunk.
        let mut last_row = None;
        for (&row, &word) in column.rows().iter().zip(column.words()) {
            while let Some((_, at)) = marks.next_if(|(mark, _)| *mark < row) {
                self.meet_mark(at);
            }
            let number = N::of(word);
            let value = number.value();
            let Some(&at) = stamps.get(row as usize).filter(|_| !value.is_nan()) else { continue };
            if let Some(last) = self.last.filter(|last| !last.hidden) {
                let follows = last_row.is_some_and(|last_row| last_row + 1 == row);
                let seconds = match clock.get(row as usize).filter(|_| follows) {
                    Some(seconds) => *seconds,
                    None => at.seconds_since(last.at),
                };
                if self.kind == Kind::Counter {
                    if seconds <= 0.0 {
                        // Of two values at one time the first counts.
                        continue;
                    }
                    let growth = N::of(last.word).growth_to(number, self.wraps);
                    if let (Some(growth), Some(unit)) = (growth, self.unit_of_time) {
                        self.weighted += growth;
                        self.seconds += seconds;
                        self.count(growth * unit / seconds, at);
                    }
                } else {
                    self.weighted += last.value * seconds;
                    self.seconds += seconds;
                }
            }
            if self.kind != Kind::Counter {
                self.count(value, at);
            }
            self.last = Some(Last { word, value, at, hidden: false });
            last_row = Some(row);
        }
        for (_, at) in marks {
            self.meet_mark(at);
        }
    }

    /// Counts a value, or a counter's rate.
    #[inline]
    fn count(&mut self, value: f64, at: Timestamp) {
        if self.count == 0 || value < self.minimum.value {
            self.minimum = Extreme { value, at };
        }
        if self.count == 0 || value > self.maximum.value {
            self.maximum = Extreme { value, at };
        }
        self.count += 1;
        self.total += value;
    }

    /// Nothing before a mark is joined to what comes after it.
    fn meet_mark(&mut self, at: Timestamp) {
        self.hold_until(at);
        if let Some(last) = &mut self.last {
            last.hidden = true;
        }
    }

    /// A discrete value holds until something else is known.
    fn hold_until(&mut self, at: Timestamp) {
        if let Some(last) = self.last.filter(|last| !last.hidden && self.kind == Kind::Discrete) {
            let seconds = at.seconds_since(last.at).max(0.0);
            self.weighted += last.value * seconds;
            self.seconds += seconds;
        }
    }

    /// What it all came to, in a window that ends at `end`.
    pub(super) fn finish(mut self, end: Timestamp) -> Option<Statistics> {
        self.hold_until(end);
        if self.count == 0 {
            return None;
        }
        let is_counter = self.kind == Kind::Counter;
        let unit = self.unit_of_time.filter(|_| is_counter).unwrap_or(1.0);
        let stochastic_average = self.total / self.count as f64;
        let time_average = match self.seconds {
            seconds if seconds > 0.0 => self.weighted * unit / seconds,
            _ => stochastic_average,
        };
        Some(Statistics {
            count: self.count,
            seconds: self.seconds,
            sum: if is_counter { self.weighted } else { self.total },
            stochastic_average,
            time_average,
            minimum: self.minimum,
            maximum: self.maximum,
        })
    }
}

/// A type of numbers in a column.
trait Number: Copy {
    /// The number that lies in a column as this word.
    fn of(word: u64) -> Self;

    fn value(self) -> f64;

    /// How much a counter grew from this to `after`; `None` if it was set back.
    fn growth_to(self, after: Self, wraps: bool) -> Option<f64>;
}

/// The integers `$number`, whose differences are `$unsigned`; `$double` turns
/// either into a double.
macro_rules! integer {
    ($number:ty, $unsigned:ty, $double:ident) => {
        impl Number for $number {
            fn of(word: u64) -> Self {
                word as Self
            }

            fn value(self) -> f64 {
                $double!(self)
            }

            fn growth_to(self, after: Self, wraps: bool) -> Option<f64> {
                // The difference of two numbers of a type is exact in the
                // unsigned one, and so is what is missing to its end.
                (after >= self || wraps).then(|| $double!(after.wrapping_sub(self) as $unsigned))
            }
        }
    };
}

/// A double with all bits of an integer.
macro_rules! exact {
    ($number:expr) => {
        f64::from($number)
    };
}

/// The double nearest to an integer.
macro_rules! nearest {
    ($number:expr) => {
        $number as f64
    };
}

integer!(i32, u32, exact);
integer!(u32, u32, exact);
integer!(i64, u64, nearest);
integer!(u64, u64, nearest);

impl Number for f32 {
    fn of(word: u64) -> Self {
        Self::from_bits(word as u32)
    }

    fn value(self) -> f64 {
        f64::from(self)
    }

    fn growth_to(self, after: Self, _: bool) -> Option<f64> {
        (after >= self).then(|| f64::from(after) - f64::from(self))
    }
}

impl Number for f64 {
    fn of(word: u64) -> Self {
        Self::from_bits(word)
    }

    fn value(self) -> f64 {
        self
    }

    fn growth_to(self, after: Self, _: bool) -> Option<f64> {
        (after >= self).then_some(after - self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_exact_in_all_types() {
        assert_eq!(100u32.growth_to(203, false), Some(103.0));
        assert_eq!((u64::MAX - 5).growth_to(u64::MAX - 1, false), Some(4.0), "above 2^53");
        assert_eq!(i32::MIN.growth_to(i32::MAX, false), Some(4_294_967_295.0));
        assert_eq!((-5i64).growth_to(5, false), Some(10.0));
        assert_eq!(0.5f64.growth_to(2.0, false), Some(1.5));
        assert_eq!(0.5f32.growth_to(0.5, false), Some(0.0));
    }

    #[test]
    fn a_counter_that_goes_down_was_set_back_or_wrapped() {
        assert_eq!(203u32.growth_to(100, false), None);
        assert_eq!(4_294_967_000u32.growth_to(50, true), Some(346.0));
        assert_eq!(i32::MAX.growth_to(i32::MIN, true), Some(1.0));
        assert_eq!(u64::MAX.growth_to(0, true), Some(1.0));
        assert_eq!(2.0f64.growth_to(1.0, true), None, "doubles do not wrap");
    }
}
