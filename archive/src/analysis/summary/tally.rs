//! The statistics of one instance, value by value.

use super::{Extreme, Statistics};
use crate::analysis::growth::Decrease;
use crate::analysis::growth::number::{Number, with_number};
use crate::analysis::growth::strand::{Link, Strand};
use crate::analysis::growth::walls::{ColumnPart, CounterOrigin, RunState, Wall, each_part};
use crate::scan::{Chunk, Column, SelectedMetric};
use crate::{Semantics, Timestamp, ValueType};

/// Numbers that are added at a time; if one of them is special, they are added
/// one by one.
const BLOCK: usize = 8;

type Words = [u64; BLOCK];
type Doubles = [f64; BLOCK];

/// The sums over the values of one instance so far.
#[derive(Debug)]
pub(super) struct Tally {
    rules: Rules,
    strand: Strand<Last>,
    sums: Sums,
}

#[derive(Debug, Clone, Copy)]
struct Rules {
    value_type: ValueType,
    kind: ValueKind,
    wraps: bool,
    /// Seconds in the unit of time of rates; `None` if there is no such unit, and no rate.
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

/// The effect of a value on the time until the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    /// It grows, at a rate.
    Counter,
    /// It holds, if there is a next one.
    Instant,
    /// It holds, up to a mark or the end if there is no next one.
    Discrete,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    word: u64,
    value: f64,
    at: Timestamp,
}

impl Last {
    /// Returns the state of a counter that was 0 at a time.
    const fn zero(at: Timestamp) -> Self {
        Self { word: 0, value: 0.0, at }
    }
}

impl Tally {
    /// Begins without values. `run` is what is known of the metric by then.
    pub(super) fn new(metric: &SelectedMetric, decrease: Decrease, run: &RunState) -> Self {
        let kind = match metric.desc.semantics {
            Semantics::Counter => ValueKind::Counter,
            Semantics::Discrete => ValueKind::Discrete,
            Semantics::Instant => ValueKind::Instant,
        };
        let wraps = decrease == Decrease::Wrap;
        let unit_of_time = metric.rate_time_scale();
        let value_type = metric.desc.value_type;
        let rules = Rules { value_type, kind, wraps, unit_of_time };
        Self { rules, strand: Strand::new(run.origin(), run.wall), sums: Sums::NONE }
    }

    pub(super) const fn has_values(&self) -> bool {
        self.strand.last().is_some()
    }

    pub(super) fn last_at(&self) -> Option<Timestamp> {
        self.strand.last().map(|last| last.at)
    }

    /// Notes when the instance was created, if that precedes the span of time that is read.
    pub(super) const fn set_birth(&mut self, birth: Option<Timestamp>) {
        self.strand.set_birth(birth);
    }

    /// Adds a chunk's values of the instance. `clock` has for each row the time since the
    /// row before.
    pub(super) fn add(&mut self, chunk: &Chunk, column: &Column, clock: &[f64], walls: &[Wall]) {
        with_number!(
            column.value_type(),
            N => self.add_numbers::<N>(chunk, column, clock, walls),
            else ()
        );
    }

    fn add_numbers<N: Number>(
        &mut self,
        chunk: &Chunk,
        column: &Column,
        clock: &[f64],
        walls: &[Wall],
    ) {
        each_part(column, walls, |part| match part {
            ColumnPart::Wall(wall) => self.interrupt(wall),
            ColumnPart::Values(words, rows) => {
                let timestamps = chunk.timestamps().get(rows.clone());
                if let (Some(timestamps), Some(clock)) = (timestamps, clock.get(rows)) {
                    self.add_stretch::<N>(words, timestamps, clock);
                }
            }
        });
    }

    /// Adds the numbers of consecutive rows.
    fn add_stretch<N: Number>(&mut self, words: &[u64], timestamps: &[Timestamp], clock: &[f64]) {
        let mut done = 0;
        while done < words.len() {
            let first = done;
            done = words.len().min(if first == 0 { 1 } else { first + BLOCK });
            let singles = words.get(first..done).unwrap_or_default().iter();
            for (word, at) in singles.zip(timestamps.get(first..).unwrap_or_default()) {
                self.add_number::<N>(*word, *at);
            }
            let after = (words.get(done - 1..), timestamps.get(done - 1..), clock.get(done..));
            if let (Some(words), Some(timestamps), Some(clock)) = after {
                done += self.add_run::<N>(words, timestamps, clock);
            }
        }
    }

    fn add_number<N: Number>(&mut self, word: u64, at: Timestamp) {
        let number = N::from_word(word);
        let value = N::from_word(word).value();
        if number.is_nan() {
            return;
        }
        if let Some(last) = self.strand.open_end()
            && self.rules.kind == ValueKind::Counter
            && at <= last.at
        {
            // Of two values at one time the first counts.
            return;
        }
        let newest = Last { word, value, at };
        self.add_link::<N>(self.strand.link(), newest);
        if self.rules.kind != ValueKind::Counter {
            self.sums.count(value, at);
        }
        self.strand.add(newest);
    }

    /// Adds the time from what a value follows up to it.
    fn add_link<N: Number>(&mut self, link: Link<Last>, next: Last) {
        match link {
            Link::Value(last) => self.add_interval::<N>(last, next),
            Link::Zero(since) if self.rules.kind == ValueKind::Counter => {
                self.add_interval::<N>(Last::zero(since), next);
            }
            Link::Zero(_) | Link::Nothing => {}
        }
    }

    /// Adds the time since the last value, but not the number that ends it.
    fn add_interval<N: Number>(&mut self, last: Last, next: Last) {
        let seconds = next.at.seconds_since(last.at);
        match (self.rules.kind, self.rules.unit_of_time) {
            (ValueKind::Counter, Some(unit)) => {
                let growth =
                    N::from_word(last.word).growth_to(N::from_word(next.word), self.rules.wraps);
                self.sums.add_growth(growth, seconds, unit, next.at);
            }
            (ValueKind::Counter, None) => {}
            _ => self.sums.hold(last.value, seconds),
        }
    }

    /// Adds the sums of the values that follow. `run` is what is known of the metric until then.
    pub(super) fn join(&mut self, next: &Self, run: &RunState) {
        if let Some(wall) = next.strand.wall() {
            self.hold_until(wall);
        }
        let link = self.strand.join(next.strand, self.last_at(), run);
        if let Some(first) = next.strand.first() {
            self.add_link_of_type(link, first);
        }
        self.sums.join(&next.sums);
    }

    fn add_link_of_type(&mut self, link: Link<Last>, next: Last) {
        with_number!(self.rules.value_type, N => self.add_link::<N>(link, next), else ());
    }

    /// Adds numbers that follow one that was added last, which is the first of
    /// `words`, each `clock` seconds after the one before. Ends before the
    /// first block with a special number, and returns how many it added.
    ///
    /// This is the hot loop: there is no branch for a number, several are computed at
    /// once, and the sums stay in registers.
    fn add_run<N: Number>(
        &mut self,
        words: &[u64],
        timestamps: &[Timestamp],
        clock: &[f64],
    ) -> usize {
        let (Some(last), [first, after @ ..], [at, timestamps @ ..]) =
            (self.strand.open_end(), words, timestamps)
        else {
            return 0;
        };
        // Before the first value is counted there is no least one.
        if last.word != *first || last.at != *at || self.sums.count == 0 {
            return 0;
        }
        let blocks = words.as_chunks().0.iter().zip(after.as_chunks().0);
        let blocks = blocks.zip(clock.as_chunks().0).zip(timestamps.chunks(BLOCK));
        let sums = self.sums;
        let (sums, done) = match (self.rules.kind, self.rules.unit_of_time) {
            (ValueKind::Counter, Some(unit)) => {
                sums.with_blocks(blocks, |before, after, seconds| {
                    let rises = rises::<N>(before, after)?;
                    Some((rises, zip(&rises, seconds, |rise, seconds| rise * unit / seconds)))
                })
            }
            (ValueKind::Counter, None) => (sums, 0),
            _ => sums.with_blocks(blocks, |before, after, seconds| {
                let held = before.map(|word| N::from_word(word).value());
                let values = after.map(|word| N::from_word(word).value());
                Some((zip(&held, seconds, |held, seconds| held * seconds), values))
            }),
        };
        self.sums = sums;
        if let Some(place) = done.checked_sub(1)
            && let (Some(&word), Some(&at)) = (after.get(place), timestamps.get(place))
        {
            self.strand.move_end(Last { word, value: N::from_word(word).value(), at });
        }
        done
    }

    /// Ends the line at a wall: no later interval reaches back before it.
    fn interrupt(&mut self, wall: &Wall) {
        self.hold_until(wall.at);
        self.strand.interrupt(wall.at, wall.origin);
    }

    /// Counts a discrete value as held up to a time.
    fn hold_until(&mut self, at: Timestamp) {
        if let Some(last) =
            self.strand.open_end().filter(|_| self.rules.kind == ValueKind::Discrete)
        {
            let seconds = at.seconds_since(last.at).max(0.0);
            self.sums.hold(last.value, seconds);
        }
    }

    /// Returns the statistics of a window that has no record between its start and the first one
    /// read.
    pub(super) fn finish(mut self, start: Timestamp, end: Timestamp) -> Option<Statistics> {
        self.hold_until(end);
        if let CounterOrigin::ZeroAtEvent(at) = self.strand.first_origin()
            && let Some(first) = self.strand.first()
            && start <= at
        {
            self.add_link_of_type(Link::Zero(at), first);
        }
        let Sums { count, total, weighted, seconds, minimum, maximum } = self.sums;
        if count == 0 {
            return None;
        }
        let is_counter = self.rules.kind == ValueKind::Counter;
        let unit = self.rules.unit_of_time.filter(|_| is_counter).unwrap_or(1.0);
        // Rounding must not move an average beyond the values: that of a constant is the
        // constant. The mean of opposite infinities is not a number.
        let average = |mean: f64| {
            if mean.is_nan() { mean } else { mean.max(minimum.value).min(maximum.value) }
        };
        let stochastic_average = average(total / count as f64);
        let time_average =
            if seconds > 0.0 { average(weighted * unit / seconds) } else { stochastic_average };
        let sum = if is_counter { weighted } else { total };
        Some(Statistics { count, seconds, sum, stochastic_average, time_average, minimum, maximum })
    }
}

impl Sums {
    const NONE: Self = {
        let none = Extreme { value: 0.0, at: Timestamp::EPOCH };
        Self { count: 0, total: 0.0, weighted: 0.0, seconds: 0.0, minimum: none, maximum: none }
    };

    /// Adds blocks of numbers to the sums, and returns how many: each with the numbers
    /// before them, the seconds in between and the times. From these `interval` computes
    /// what is averaged over time and the values to count, which are added in order;
    /// `None`, or a NaN, ends it.
    #[inline]
    fn with_blocks<'p>(
        mut self,
        blocks: impl Iterator<Item = (((&'p Words, &'p Words), &'p Doubles), &'p [Timestamp])>,
        interval: impl Fn(&Words, &Words, &Doubles) -> Option<(Doubles, Doubles)>,
    ) -> (Self, usize) {
        let in_order = |sum: f64, terms: &Doubles| terms.iter().fold(sum, |sum, term| sum + term);
        let mut done = 0;
        for (((before, after), seconds), timestamps) in blocks {
            let Some((weights, values)) = interval(before, after, seconds) else { break };
            let weighted = in_order(self.weighted, &weights);
            let total = in_order(self.total, &values);
            if (weighted + total).is_nan() {
                break;
            }
            self.weighted = weighted;
            self.total = total;
            self.seconds = in_order(self.seconds, seconds);
            let mut minimum = self.minimum.value;
            let mut maximum = self.maximum.value;
            for value in &values {
                minimum = if *value < minimum { *value } else { minimum };
                maximum = if *value > maximum { *value } else { maximum };
            }
            if minimum < self.minimum.value || maximum > self.maximum.value {
                self.find_extremes(&values, timestamps);
            }
            done += BLOCK;
        }
        self.count += done as u64;
        (self, done)
    }

    /// Finds the new minimum or maximum, which few blocks of values have.
    #[cold]
    #[inline(never)]
    fn find_extremes(&mut self, values: &Doubles, timestamps: &[Timestamp]) {
        for (&value, &at) in values.iter().zip(timestamps) {
            if value < self.minimum.value {
                self.minimum = Extreme { value, at };
            }
            if value > self.maximum.value {
                self.maximum = Extreme { value, at };
            }
        }
    }

    /// Adds the growth of a counter in `seconds`; nothing if it was reset. In no time it has no
    /// rate.
    #[inline]
    fn add_growth(&mut self, growth: Option<f64>, seconds: f64, unit: f64, at: Timestamp) {
        if let Some(growth) = growth {
            self.weighted += growth;
            if seconds > 0.0 {
                self.seconds += seconds;
                self.count(growth * unit / seconds, at);
            }
        }
    }

    /// Adds a value that held for `seconds`.
    #[inline]
    fn hold(&mut self, value: f64, seconds: f64) {
        // An infinite value that held for no time has no weight.
        if seconds > 0.0 {
            self.weighted += value * seconds;
            self.seconds += seconds;
        }
    }

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

/// Returns the differences of a counter's numbers to those before them; `None` if one is
/// negative.
#[inline]
fn rises<N: Number>(before: &Words, after: &Words) -> Option<Doubles> {
    let mut falls = 0;
    let rises = zip(before, after, |before, after| {
        let (rise, fall) = N::from_word(before).rise_to(N::from_word(after));
        falls |= fall;
        rise
    });
    (falls >> 63 == 0).then_some(rises)
}

#[inline]
fn zip<A: Copy, B: Copy>(
    one: &[A; BLOCK],
    other: &[B; BLOCK],
    mut with: impl FnMut(A, B) -> f64,
) -> Doubles {
    let mut zipped = [0.0; BLOCK];
    for (zipped, (one, other)) in zipped.iter_mut().zip(one.iter().zip(other)) {
        *zipped = with(*one, *other);
    }
    zipped
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::analysis::growth::walls::CounterOrigin;

    fn tally(value_type: ValueType, kind: ValueKind, wraps: bool) -> Tally {
        let rules = Rules { value_type, kind, wraps, unit_of_time: Some(1.0) };
        Tally { rules, strand: Strand::new(CounterOrigin::Unknown, None), sums: Sums::NONE }
    }

    /// Adds numbers that mostly rise, in blocks and one by one.
    fn both<N: Number>(mut of: impl FnMut() -> Tally, words: &[u64], millis: &[u16]) -> [Tally; 2] {
        let mut nanos = 0;
        let timestamps: Vec<_> = millis
            .iter()
            .map(|millis| {
                nanos += i128::from(*millis) * 1_000_000;
                Timestamp::from_nanos(nanos)
            })
            .collect();
        // As a chunk's clock.
        let clock = millis
            .iter()
            .map(|millis| if *millis > 0 { f64::from(*millis) / 1e3 } else { f64::NAN });
        let clock: Vec<_> = clock.collect();
        let mut blocks = of();
        let mut singles = of();
        blocks.add_stretch::<N>(words, &timestamps, &clock);
        for (word, at) in words.iter().zip(timestamps) {
            singles.add_number::<N>(*word, at);
        }
        [blocks, singles]
    }

    proptest! {
        /// For all numbers of any type, few of them falling, blocks give the same sums to the
        /// bit as single numbers.
        #[test]
        fn pieces_come_to_what_single_numbers_come_to(
            first in any::<u64>(),
            steps in vec((1u64..1 << 40, proptest::option::weighted(0.05, any::<u64>())), 1..70),
            stills in vec(proptest::bool::weighted(0.03), 70),
            kind in prop_oneof![Just(ValueKind::Counter), Just(ValueKind::Instant), Just(ValueKind::Discrete)],
            wraps in any::<bool>(),
        ) {
            let mut word = first;
            let words: Vec<_> = steps
                .iter()
                .map(|(step, jump)| {
                    word = jump.unwrap_or(word.wrapping_add(*step));
                    word
                })
                .collect();
            let millis = stills.iter().map(|still| if *still { 0 } else { 125 });
            let millis: Vec<u16> = millis.take(words.len()).collect();
            let low = words.iter().map(|word| word >> 32).collect::<Vec<_>>();
            let doubles: Vec<_> = words.iter().map(|word| (*word as f64 - 1e18).to_bits()).collect();
            let of = |value_type| move || tally(value_type, kind, wraps);
            let all = [
                both::<u64>(of(ValueType::U64), &words, &millis),
                both::<i64>(of(ValueType::I64), &words, &millis),
                both::<u32>(of(ValueType::U32), &low, &millis),
                both::<i32>(of(ValueType::I32), &low, &millis),
                both::<f64>(of(ValueType::Double), &doubles, &millis),
                both::<f64>(of(ValueType::Double), &words, &millis),
                both::<f32>(of(ValueType::Float), &low, &millis),
            ];
            for [blocks, singles] in all {
                // Also equal if both are NaN.
                prop_assert_eq!(format!("{blocks:?}"), format!("{singles:?}"));
            }
        }
    }
}
