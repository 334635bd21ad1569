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
//! Over the end of a program's run, over the time until the next, and over a mark, the rate
//! is what the counter grew in the runs over the time of these ([`lines`](super::lines)). Of
//! metrics of other producers only marks are known.
//!
//! An instance that its program creates between the two moments counts from 0 there, and one that
//! it removes counts until its last value.
//!
//! Otherwise there is no rate if either value is missing, if there is a mark in between, or if
//! the counter decreased in between, even between two samples: what it counted before
//! it was reset is not known, and a rate from the two ends alone would be too small or
//! negative. A counter that may wrap ([`Decrease::Wrap`]) continues from 0 after the
//! end of its type.

use super::expression::ExpressionValues;
use super::lines::TrackGrowth;
use super::two_moments::TwoMoments;
use super::{Decrease, MetricTrack, Replay, Sample};
use crate::analysis::growth::growth;
use crate::scan::SelectedMetric;
use crate::{Semantics, Timestamp, Units, Value};

impl SelectedMetric {
    /// Returns whether the metric has rates: a counter whose values are numbers.
    pub fn has_rates(&self) -> bool {
        self.desc.semantics == Semantics::Counter && self.has_numbers()
    }

    /// Returns the units of the metric's rates: `count / sec` of a `count`, and a plain number (a
    /// utilisation) of a time.
    pub fn rate_units(&self) -> Units {
        self.desc.units.per_second()
    }

    /// Returns the seconds in the unit of time of the metric's rates; `None` if its units name
    /// none that exists.
    pub(crate) fn rate_time_scale(&self) -> Option<f64> {
        time_scale(self.desc.units)
    }
}

impl Replay<'_> {
    /// Returns a sample as [`sample_at`](Self::sample_at), but with counters as their rates since
    /// an earlier moment, in [`SelectedMetric::rate_units`]; each a [`Value::Double`]. An instance
    /// without a rate is left out: all of them if `since` is not before `at`, or is outside the
    /// archive. Metrics that have no rates have their values at `at`.
    ///
    /// The result depends on the two moments alone, not on earlier calls: the first
    /// sample of a window has rates like every other.
    pub fn rates_at(&self, at: Timestamp, since: Timestamp) -> Option<Sample<'_>> {
        let mut pair = self.pair(at, since)?;
        let derived = self.derived.iter();
        let derived = derived.map(|derived| self.derived_rate(derived, &pair)).collect();
        Some(self.sample(at, std::mem::take(&mut pair.rates), derived))
    }

    /// Returns all tracks at two moments, and the rates in between.
    pub(super) fn pair(&self, at: Timestamp, since: Timestamp) -> Option<TwoMoments<'_>> {
        // Only derived metrics need the values of counters.
        let is_derived = !self.derived.is_empty();
        let mut now = self.some_at(at, |track| is_derived || !track.metric.has_rates())?;
        let is_span = since < at && self.has_moment(since);
        let mut before = if is_span && is_derived { self.tracks_at(since) } else { None };
        let mut rates = if is_derived { now.clone() } else { std::mem::take(&mut now) };
        let mut grown: Vec<Option<ExpressionValues<'_>>> = vec![None; self.tracks.len()];
        let moments = [since, at].map(|moment| self.moment(moment));
        let has_mark = self.has_mark_between(since, at);
        for (place, track) in self.tracks.iter().enumerate() {
            let Some(rates) = rates.get_mut(place).filter(|_| track.metric.has_rates()) else {
                continue;
            };
            rates.clear();
            if !is_span {
                continue;
            }
            let growth = self.growth_of(track, &moments);
            *rates = rates_of(track, &growth);
            let before = before.as_mut().and_then(|before| before.get_mut(place));
            if let Some(before) = before.filter(|_| growth.is_cut || has_mark) {
                before.clear();
            }
            if let Some(grown) = grown.get_mut(place).filter(|_| growth.is_cut) {
                let totals = growth.instances.iter().filter_map(|(instance, grown)| {
                    Some((*instance, Value::Double(grown.total()?)))
                });
                *grown = Some(totals.collect());
            }
        }
        Some(TwoMoments { since, at, now, before, rates, grown })
    }

    pub(super) fn has_mark_between(&self, since: Timestamp, at: Timestamp) -> bool {
        self.timeline.reach(since).prior.start != self.timeline.reach(at).prior.start
    }
}

/// Returns the rates of a counter: what it grew by the time in which that was observed.
fn rates_of<'v>(track: &MetricTrack, growth: &TrackGrowth) -> ExpressionValues<'v> {
    let Some(scale) = track.metric.rate_time_scale() else { return ExpressionValues::new() };
    let observed = growth.instances.iter().filter(|(_, grown)| grown.seconds > 0.0);
    let rates = observed
        .map(|(instance, grown)| (*instance, Value::Double(grown.by * scale / grown.seconds)));
    rates.collect()
}

/// Returns the rate of a counter in [`SelectedMetric::rate_units`] from one of its observations
/// to the next, for callers that have only these two; `None` if it was reset, or no time has
/// passed.
pub(crate) fn rate_between(
    metric: &SelectedMetric,
    [since, at]: [Timestamp; 2],
    before: Value<'_>,
    after: Value<'_>,
) -> Option<f64> {
    let seconds = at.seconds_since(since);
    let growth = growth(before, std::iter::empty(), after, Decrease::Reset)?;
    let scale = time_scale(metric.desc.units)?;
    (seconds > 0.0).then(|| growth * scale / seconds)
}

/// Returns the seconds in the time unit of a counter's rate: those of the unit if the counter has
/// one, else a second.
fn time_scale(units: Units) -> Option<f64> {
    if units.time_dimension() == 0 { Some(1.0) } else { units.time_scale_in_seconds() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_a_time_is_a_utilisation() {
        assert_eq!(time_scale(Units::milliseconds()), Some(0.001));
        assert_eq!(time_scale(Units::count()), Some(1.0));
        assert_eq!(time_scale(Units::bytes().per_second()), Some(1.0));
        assert_eq!(time_scale("count / min".parse().unwrap()), Some(60.0));
        assert_eq!(time_scale("time-7".parse().unwrap()), None);
    }
}
