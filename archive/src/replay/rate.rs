//! Counters as rates: the growth of a counter divided by the time.
//!
//! A counter of 100 at 0 s and 203 at 10 s, in `count`, has a rate of
//! 103 / 10 s = 10.3 `count / sec` at 10 s since 0 s. At 7 s since 5 s the
//! counter is taken from its line: (172 - 152) / 2 s = 10 `count / sec`, the
//! values being rounded to integers as everywhere.
//!
//! A counter that measures time loses its unit: 2500 `millisec` of work in 10 s
//! are a utilisation of 0.25.
//!
//! There is no rate if either value is missing, if there is a mark in between, or if
//! the counter decreased in between, even between two samples: what it counted before
//! it was reset is not known, and a rate from the two ends alone would be too small or
//! negative. A counter that may wrap ([`Decrease::Wrap`]) continues from 0 after the
//! end of its type.

use std::ops::Range;

use super::expression::Values;
use super::two_moments::{TwoMoments, value_of};
use super::{Column, Decrease, Replay, Sample, Track};
use crate::scan::SelectedMetric;
use crate::{InstanceId, Semantics, Timestamp, Units, Value};

impl SelectedMetric {
    /// Whether the metric has rates: a counter whose values are numbers.
    pub fn has_rates(&self) -> bool {
        self.desc.semantics == Semantics::Counter && self.has_numbers()
    }

    /// The units of the metric's rates: `count / sec` of a `count`, and a plain
    /// number (a utilisation) of a time.
    pub fn rate_units(&self) -> Units {
        self.desc.units.per_second()
    }

    /// How many seconds the unit of time of the metric's rates has; `None` if
    /// its units name none that exists.
    pub(crate) fn rate_time_scale(&self) -> Option<f64> {
        time_scale(self.desc.units)
    }
}

impl Replay<'_> {
    /// As [`at`](Self::at), but counters as their rates since an earlier
    /// moment, in [`SelectedMetric::rate_units`]; each a [`Value::Double`]. An
    /// instance without a rate is left out. Metrics that have no rates have
    /// their values at `at`.
    ///
    /// The result depends on the two moments alone, not on earlier calls: the first
    /// sample of a window has rates like every other.
    pub fn rates_at(&self, at: Timestamp, since: Timestamp) -> Option<Sample<'_>> {
        let mut pair = self.pair(at, since)?;
        let derived = self.derived.iter();
        let derived = derived.map(|derived| self.derived_rate(derived, &pair)).collect();
        Some(self.sample(at, std::mem::take(&mut pair.rates), derived))
    }

    /// All tracks at two moments, and the rates in between.
    pub(super) fn pair(&self, at: Timestamp, since: Timestamp) -> Option<TwoMoments<'_>> {
        let mut now = self.tracks_at(at)?;
        let seconds = at.seconds_since(since);
        let mut before = self.tracks_at(since).filter(|_| seconds > 0.0);
        let is_joined = seconds > 0.0 && !self.has_mark_between(since, at);
        // Only derived metrics need both.
        let mut rates =
            if self.derived.is_empty() { std::mem::take(&mut now) } else { now.clone() };
        for (place, track) in self.tracks.iter().enumerate() {
            let Some(rates) = rates.get_mut(place).filter(|_| track.metric.has_rates()) else {
                continue;
            };
            let mut nothing = Values::new();
            let before = before.as_mut().and_then(|before| before.get_mut(place));
            let before = before.unwrap_or(&mut nothing);
            if !is_joined {
                before.clear();
            }
            *rates = self.rates_of(track, before, rates, since..at);
        }
        Some(TwoMoments { since, at, now, before, rates })
    }

    /// The rates of a counter over a span, from its values at both ends.
    fn rates_of<'v>(
        &self,
        track: &Track,
        before: &Values<'_>,
        after: &Values<'_>,
        span: Range<Timestamp>,
    ) -> Values<'v> {
        let Some(scale) = track.metric.rate_time_scale() else { return Values::new() };
        let seconds = span.end.seconds_since(span.start);
        let rate = |(instance, last): &(Option<InstanceId>, Value<'_>)| {
            let first = value_of(before, *instance)?;
            let column = track.column_of(*instance)?;
            let growth = self.growth_of(column, first, *last, span.clone())?;
            Some((*instance, Value::Double(growth * scale / seconds)))
        };
        after.iter().filter_map(rate).collect()
    }

    /// How much a counter grew over a span, given its values at both ends.
    pub(super) fn growth_of(
        &self,
        column: &Column,
        first: Value<'_>,
        last: Value<'_>,
        span: Range<Timestamp>,
    ) -> Option<f64> {
        growth(first, self.observed_between(column, span.start, span.end), last, self.decrease)
    }

    /// Whether a mark lies after `since` and not after `at`.
    pub(super) fn has_mark_between(&self, since: Timestamp, at: Timestamp) -> bool {
        self.timeline.reach(since).prior.start != self.timeline.reach(at).prior.start
    }

    /// The observations strictly between two moments.
    fn observed_between<'s>(
        &self,
        column: &'s Column,
        since: Timestamp,
        at: Timestamp,
    ) -> impl Iterator<Item = Value<'s>> {
        let records = self.timeline.between(since, at);
        let place = |record| column.rows().count_before(record);
        let places = place(records.start)..place(records.end);
        places.filter_map(|place| Some(column.get(place)?.1))
    }
}

/// The rate of a counter in [`SelectedMetric::rate_units`] from one of its
/// observations to the next, for callers that have only these two; `None` if it was
/// reset, or no time has passed.
pub fn rate_between(
    metric: &SelectedMetric,
    (since, before): (Timestamp, Value<'_>),
    (at, after): (Timestamp, Value<'_>),
) -> Option<f64> {
    let seconds = at.seconds_since(since);
    let growth = growth(before, std::iter::empty(), after, Decrease::Reset)?;
    let scale = time_scale(metric.desc.units)?;
    (seconds > 0.0).then(|| growth * scale / seconds)
}

/// How many seconds the time unit of a counter's rate has: those of the unit
/// if the counter has one, else a second.
fn time_scale(units: Units) -> Option<f64> {
    if units.time_dimension() == 0 { Some(1.0) } else { units.time_scale_in_seconds() }
}

/// How much a counter grew from `first` over the observations in `between` to
/// `last`, or `None` if it was reset in between.
///
/// 4 294 967 000 to 50 in an unsigned 32-bit counter is nothing after a reset,
/// and 346 if the counter wrapped.
pub(super) fn growth<'v>(
    first: Value<'_>,
    between: impl Iterator<Item = Value<'v>>,
    last: Value<'_>,
    decrease: Decrease,
) -> Option<f64> {
    let values = between.map(number).chain([number(last)]);
    match number(first)? {
        Number::Integer { value, range } => {
            let mut sum = 0;
            let mut before = value;
            for number in values {
                let Some(Number::Integer { value, .. }) = number else { return None };
                sum += match value - before {
                    less if less < 0 && decrease == Decrease::Reset => return None,
                    less if less < 0 => less + range,
                    more => more,
                };
                before = value;
            }
            Some(sum as f64)
        }
        Number::Float(value) => {
            let mut before = value;
            for number in values {
                let Some(Number::Float(value)) = number else { return None };
                if !matches!(value.partial_cmp(&before), Some(order) if order.is_ge()) {
                    return None;
                }
                before = value;
            }
            Some(before - value)
        }
    }
}

/// A number in a form that holds all of its type.
#[derive(Debug, Clone, Copy)]
enum Number {
    Integer {
        value: i128,
        /// How many values the type has.
        range: i128,
    },
    Float(f64),
}

fn number(value: Value<'_>) -> Option<Number> {
    let integer = |value, bits: u32| Some(Number::Integer { value, range: 1 << bits });
    match value {
        Value::I32(v) => integer(i128::from(v), 32),
        Value::U32(v) => integer(i128::from(v), 32),
        Value::I64(v) => integer(i128::from(v), 64),
        Value::U64(v) => integer(i128::from(v), 64),
        Value::Float(v) => Some(Number::Float(f64::from(v))),
        Value::Double(v) => Some(Number::Float(v)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(values: &[Value<'_>], decrease: Decrease) -> Option<f64> {
        let [first, between @ .., last] = values else { panic!("two at least") };
        growth(*first, between.iter().copied(), *last, decrease)
    }

    #[test]
    fn the_rate_of_a_time_is_a_utilisation() {
        assert_eq!(time_scale(Units::milliseconds()), Some(0.001));
        assert_eq!(time_scale(Units::count()), Some(1.0));
        assert_eq!(time_scale(Units::bytes().per_second()), Some(1.0));
        assert_eq!(time_scale("count / min".parse().unwrap()), Some(60.0));
        assert_eq!(time_scale("time-7".parse().unwrap()), None);
    }

    #[test]
    fn growth_is_the_difference_of_the_ends() {
        let u32s = [Value::U32(100), Value::U32(150), Value::U32(203)];
        assert_eq!(grown(&u32s, Decrease::Reset), Some(103.0));
        let doubles = [Value::Double(0.5), Value::Double(0.5), Value::Double(2.0)];
        assert_eq!(grown(&doubles, Decrease::Reset), Some(1.5));
        let large = [Value::U64(u64::MAX - 5), Value::U64(u64::MAX - 1)];
        assert_eq!(grown(&large, Decrease::Reset), Some(4.0), "no bit is lost above 2^53");
    }

    #[test]
    fn a_counter_that_was_set_back_on_the_way_has_not_grown() {
        let hidden = [Value::U32(100), Value::U32(7), Value::U32(400)];
        assert_eq!(grown(&hidden, Decrease::Reset), None);
        let doubles = [Value::Double(1.0), Value::Double(0.0), Value::Double(2.0)];
        assert_eq!(grown(&doubles, Decrease::Wrap), None, "doubles do not wrap");
        assert_eq!(grown(&[Value::Double(1.0), Value::Double(f64::NAN)], Decrease::Reset), None);
    }

    #[test]
    fn a_wrapped_counter_grew_to_its_end_and_on() {
        for (values, growth) in [
            ([Value::U32(4_294_967_000), Value::U32(50), Value::U32(50)], 346.0),
            ([Value::I32(i32::MAX), Value::I32(i32::MIN), Value::I32(i32::MIN + 1)], 2.0),
            ([Value::U64(u64::MAX), Value::U64(0), Value::U64(0)], 1.0),
            ([Value::I64(i64::MAX), Value::I64(i64::MIN), Value::I64(i64::MAX)], 2f64.powi(64)),
        ] {
            assert_eq!(grown(&values, Decrease::Wrap), Some(growth), "{values:?}");
        }
    }
}
