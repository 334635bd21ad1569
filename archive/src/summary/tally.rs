//! The numbers of one instance, value by value.

use pcp_types::{Semantics, Timestamp, ValueType};

use super::{Extreme, Statistics};
use crate::replay::interpolate::Decrease;
use crate::scan::{Chunk, Column, SelectedMetric};

/// What the values of one instance come to so far.
#[derive(Debug)]
pub(super) struct Tally {
    rules: Rules,
    /// The first mark, if it was met before any value.
    mark: Option<Timestamp>,
    first: Option<Last>,
    last: Option<Last>,
    sums: Sums,
}

/// How values of a metric are counted.
#[derive(Debug, Clone, Copy)]
struct Rules {
    value_type: ValueType,
    kind: Kind,
    wraps: bool,
    /// How many seconds the unit of time of rates has; `None` if there is no
    /// such unit, and no rate.
    unit_of_time: Option<f64>,
}

/// The numbers that grow with each value.
#[derive(Debug, Clone, Copy)]
struct Sums {
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
    /// Nothing so far, but perhaps a mark.
    pub(super) fn new(
        metric: &SelectedMetric,
        decrease: Decrease,
        mark: Option<Timestamp>,
    ) -> Self {
        let kind = match metric.desc.semantics {
            Semantics::Counter => Kind::Counter,
            Semantics::Discrete => Kind::Discrete,
            Semantics::Instant => Kind::Instant,
        };
        let (wraps, unit_of_time) = (decrease == Decrease::Wrap, metric.rate_time_scale());
        let value_type = metric.desc.value_type;
        let rules = Rules { value_type, kind, wraps, unit_of_time };
        Self { rules, mark, first: None, last: None, sums: Sums::NONE }
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
        let (rows, words, stamps) = (column.rows(), column.words(), chunk.stamps());
        let mut marks = chunk.marks().iter().copied().peekable();
        // Behind the last value added, and behind the last of those that follow
        // it row by row: no mark is between these, and the clock knows how long
        // after each other they were.
        let (mut done, mut end) = (0, 0);
        while let (Some(&row), Some(&word)) = (rows.get(done), words.get(done)) {
            while let Some(mark) = marks.next_if(|mark| *mark < row) {
                self.meet_mark(stamps.get(mark as usize).copied());
            }
            let Some(&at) = stamps.get(row as usize) else { break };
            self.add_number::<N>(word, at);
            done += 1;
            if end < done {
                let rest = rows.get(done..).unwrap_or_default().iter().zip(row + 1..);
                end = done + rest.take_while(|(found, next)| *found == next).count();
            }
            let first = row as usize + 1;
            let run = (words.get(done..end), clock.get(first..), stamps.get(first..));
            if let (Some(words), Some(clock), Some(stamps)) = run
                // Else there is no least value yet.
                && self.sums.count > 0
                && self.last.is_some_and(|last| !last.hidden && last.at == at)
            {
                done += self.add_run::<N>(words, clock, stamps);
            }
        }
        for mark in marks {
            self.meet_mark(stamps.get(mark as usize).copied());
        }
    }

    /// Adds a number, whatever was before it.
    fn add_number<N: Number>(&mut self, word: u64, at: Timestamp) {
        let (number, value) = (N::of(word), N::of(word).value());
        if number.is_nan() {
            return;
        }
        if let Some(last) = self.last.filter(|last| !last.hidden) {
            if self.rules.kind == Kind::Counter && at <= last.at {
                // Of two values at one time the first counts.
                return;
            }
            self.add_interval::<N>(last, number, at);
        }
        if self.rules.kind != Kind::Counter {
            self.sums.count(value, at);
        }
        let newest = Last { word, value, at, hidden: false };
        self.first.get_or_insert(newest);
        self.last = Some(newest);
    }

    /// Adds the time since the last value, but not the number that ends it.
    fn add_interval<N: Number>(&mut self, last: Last, number: N, at: Timestamp) {
        let seconds = at.seconds_since(last.at);
        match (self.rules.kind, self.rules.unit_of_time) {
            (Kind::Counter, Some(unit)) => {
                let growth = N::of(last.word).growth_to(number, self.rules.wraps);
                self.sums.add_growth(growth, seconds, unit, at);
            }
            (Kind::Counter, None) => {}
            _ => self.sums.hold(last.value, seconds),
        }
    }

    /// Adds what the values behind the last one came to by themselves.
    pub(super) fn join(&mut self, next: &Self) {
        self.meet_mark(next.mark);
        let Some(first) = next.first else { return };
        if let Some(last) = self.last.filter(|last| !last.hidden) {
            match self.rules.value_type {
                ValueType::I32 => self.add_interval(last, i32::of(first.word), first.at),
                ValueType::U32 => self.add_interval(last, u32::of(first.word), first.at),
                ValueType::I64 => self.add_interval(last, i64::of(first.word), first.at),
                ValueType::U64 => self.add_interval(last, u64::of(first.word), first.at),
                ValueType::Float => self.add_interval(last, f32::of(first.word), first.at),
                ValueType::Double => self.add_interval(last, f64::of(first.word), first.at),
                _ => {}
            }
        }
        self.sums.join(&next.sums);
        self.first.get_or_insert(first);
        self.last = next.last;
    }

    /// Adds numbers each of which came so many seconds after the one before,
    /// up to the first that is special; returns how many were added.
    fn add_run<N: Number>(&mut self, words: &[u64], clock: &[f64], stamps: &[Timestamp]) -> usize {
        let Some(last) = self.last else { return 0 };
        let (rules, sums, first) = (self.rules, &mut self.sums, N::of(last.word));
        let (done, newest) = match (rules.kind, rules.unit_of_time) {
            (Kind::Counter, Some(unit)) => {
                sums.add_run(first, words, clock, stamps, |before, number, seconds| {
                    let growth = before.growth_to(number, rules.wraps)?;
                    Some((growth, growth * unit / seconds))
                })
            }
            (Kind::Counter, None) => sums.add_run(first, words, clock, stamps, |_, _, _| None),
            _ => sums.add_run(first, words, clock, stamps, |before, number, seconds| {
                Some((before.value() * seconds, number.value()))
            }),
        };
        if let Some(&at) = done.checked_sub(1).and_then(|place| stamps.get(place)) {
            let (word, value) = (newest.word(), newest.value());
            self.last = Some(Last { word, value, at, hidden: false });
        }
        done
    }

    /// Nothing before a mark, if there is one, is joined to what comes after it.
    pub(super) fn meet_mark(&mut self, at: Option<Timestamp>) {
        let Some(at) = at else { return };
        self.hold_until(at);
        match &mut self.last {
            Some(last) => last.hidden = true,
            None => self.mark = self.mark.or(Some(at)),
        }
    }

    /// A discrete value holds until something else is known.
    fn hold_until(&mut self, at: Timestamp) {
        if let Some(last) =
            self.last.filter(|last| !last.hidden && self.rules.kind == Kind::Discrete)
        {
            let seconds = at.seconds_since(last.at).max(0.0);
            self.sums.hold(last.value, seconds);
        }
    }

    /// What it all came to, in a window that ends at `end`.
    pub(super) fn finish(mut self, end: Timestamp) -> Option<Statistics> {
        self.hold_until(end);
        let Sums { count, total, weighted, seconds, minimum, maximum } = self.sums;
        if count == 0 {
            return None;
        }
        let is_counter = self.rules.kind == Kind::Counter;
        let unit = self.rules.unit_of_time.filter(|_| is_counter).unwrap_or(1.0);
        let stochastic_average = total / count as f64;
        let time_average =
            if seconds > 0.0 { weighted * unit / seconds } else { stochastic_average };
        let sum = if is_counter { weighted } else { total };
        Some(Statistics { count, seconds, sum, stochastic_average, time_average, minimum, maximum })
    }
}

impl Sums {
    const NONE: Self = {
        let none = Extreme { value: 0.0, at: Timestamp::EPOCH };
        Self { count: 0, total: 0.0, weighted: 0.0, seconds: 0.0, minimum: none, maximum: none }
    };

    /// Adds numbers that lie as [`Tally::add_run`] says, each with the one
    /// before it; returns how many, and the last of them. `interval` gives for
    /// both what is averaged over time and the value to count, if anything.
    ///
    /// This is where the time goes: the sums stay in registers, and are made
    /// in the order of the values.
    #[inline]
    fn add_run<N: Number>(
        &mut self,
        first: N,
        words: &[u64],
        clock: &[f64],
        stamps: &[Timestamp],
        interval: impl Fn(N, N, f64) -> Option<(f64, f64)>,
    ) -> (usize, N) {
        let Self { mut count, mut total, mut weighted, seconds: mut all_seconds, .. } = *self;
        let (mut minimum, mut maximum) = (self.minimum.value, self.maximum.value);
        let (mut before, mut done) = (first, 0);
        for (&word, &seconds) in words.iter().zip(clock) {
            let number = N::of(word);
            if seconds <= 0.0 || number.is_nan() {
                break;
            }
            if let Some((weight, value)) = interval(before, number, seconds) {
                weighted += weight;
                all_seconds += seconds;
                count += 1;
                total += value;
                if value < minimum || value > maximum {
                    self.meet_extreme(value, stamps.get(done));
                    (minimum, maximum) = (self.minimum.value, self.maximum.value);
                }
            }
            before = number;
            done += 1;
        }
        (self.count, self.total) = (count, total);
        (self.weighted, self.seconds) = (weighted, all_seconds);
        (done, before)
    }

    /// A value outside of all before it, which is rare.
    #[cold]
    fn meet_extreme(&mut self, value: f64, at: Option<&Timestamp>) {
        let Some(&at) = at else { return };
        let extreme = Extreme { value, at };
        if value < self.minimum.value {
            self.minimum = extreme;
        }
        if value > self.maximum.value {
            self.maximum = extreme;
        }
    }

    /// Adds what a counter grew by in so many seconds; nothing if it was set
    /// back.
    #[inline]
    fn add_growth(&mut self, growth: Option<f64>, seconds: f64, unit: f64, at: Timestamp) {
        if let Some(growth) = growth {
            self.weighted += growth;
            self.seconds += seconds;
            self.count(growth * unit / seconds, at);
        }
    }

    /// Adds a value that held for so many seconds.
    #[inline]
    fn hold(&mut self, value: f64, seconds: f64) {
        self.weighted += value * seconds;
        self.seconds += seconds;
    }

    /// Adds the sums of what comes later.
    fn join(&mut self, later: &Self) {
        if self.count == 0 || (later.count > 0 && later.minimum.value < self.minimum.value) {
            self.minimum = later.minimum;
        }
        if self.count == 0 || (later.count > 0 && later.maximum.value > self.maximum.value) {
            self.maximum = later.maximum;
        }
        self.count += later.count;
        self.total += later.total;
        self.weighted += later.weighted;
        self.seconds += later.seconds;
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
}

/// A type of numbers in a column.
trait Number: Copy {
    /// The number that lies in a column as this word.
    fn of(word: u64) -> Self;

    /// The word that it lies in a column as.
    fn word(self) -> u64;

    fn value(self) -> f64;

    fn is_nan(self) -> bool;

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

            fn word(self) -> u64 {
                u64::from(self as $unsigned)
            }

            fn is_nan(self) -> bool {
                false
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

    fn word(self) -> u64 {
        u64::from(self.to_bits())
    }

    fn is_nan(self) -> bool {
        self.is_nan()
    }

    fn value(self) -> f64 {
        f64::from(self)
    }

    fn growth_to(self, after: Self, _: bool) -> Option<f64> {
        f64::from(self).growth_to(f64::from(after), false)
    }
}

impl Number for f64 {
    fn of(word: u64) -> Self {
        Self::from_bits(word)
    }

    fn word(self) -> u64 {
        self.to_bits()
    }

    fn is_nan(self) -> bool {
        self.is_nan()
    }

    fn value(self) -> f64 {
        self
    }

    fn growth_to(self, after: Self, _: bool) -> Option<f64> {
        // Infinity does not grow.
        let growth = (after >= self).then_some(after - self);
        growth.filter(|growth| !growth.is_nan())
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
