//! The least, greatest and mean value that a metric was logged with in an interval.
//!
//! With a record each second, of 4, 9, 5 and 6 at 1 s to 4 s:
//!
//! | interval | values | `min_over` | `max_over` | `avg_over` |
//! |---|---|---|---|---|
//! | from 0 s to 2 s | 4, 9 | 4 | 9 | 6.5 |
//! | from 2 s to 4 s | 5, 6 | 5 | 6 | 5.5 |
//!
//! A value at the beginning of the interval belongs to the one before, and one without number to
//! none. Where nothing was logged there is no value.
//!
//! An expression has a value at each time in the interval at which a metric in it was logged. Its
//! rates and quantiles are those since the time before that, or since the interval began: with a
//! counter of 0, 10, 40 and 45 at 1 s to 4 s, `max_over(rate(x))` from 1 s to 4 s is 30.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::expression::{Bound, ExpressionValues, OverFunction};
use super::{MetricTrack, Replay};
use crate::{InstanceId, Timestamp, Value};

/// A function of the values in an interval, in an expression.
#[derive(Debug, Clone)]
pub(super) struct ValuesOver {
    pub(super) function: OverFunction,
    pub(super) of: Bound,
    /// The operands of the expression, with the buckets of its histograms.
    pub(super) operands: Vec<usize>,
}

impl ValuesOver {
    /// Computes it for each instance from what was logged after one moment, up to another.
    pub(super) fn values<'r>(
        &self,
        replay: &Replay<'_>,
        since: Timestamp,
        at: Timestamp,
    ) -> ExpressionValues<'r> {
        if since >= at {
            return ExpressionValues::new();
        }
        match self.of.selected_metric() {
            Some((operand, chosen)) => self.of_metric(replay, operand, chosen, since, at),
            None => self.of_expression(replay, since, at),
        }
    }

    fn of_metric<'r>(
        &self,
        replay: &Replay<'_>,
        operand: usize,
        chosen: Option<&[InstanceId]>,
        since: Timestamp,
        at: Timestamp,
    ) -> ExpressionValues<'r> {
        let mut values = ExpressionValues::new();
        let Some(track) = track_of(replay, operand) else { return values };
        let rows = replay.timeline.rows_within(span_after(since, at));
        for (column, life) in track.columns.iter().zip(&track.lives) {
            let instance = column.instance();
            let is_chosen = chosen.is_none_or(|chosen| {
                instance.is_some_and(|instance| chosen.binary_search(&instance).is_ok())
            });
            if life.is_none() || !is_chosen {
                continue;
            }
            let first = column.rows().count_before(rows.start);
            let end = column.rows().count_before(rows.end);
            let numbers = (first..end).filter_map(|place| column.value(place)?.as_f64());
            let value = self.function.compute(numbers.filter(|number| !number.is_nan()));
            values.extend(value.map(|value| (instance, Value::Double(value))));
        }
        values
    }

    fn of_expression<'r>(
        &self,
        replay: &Replay<'_>,
        since: Timestamp,
        at: Timestamp,
    ) -> ExpressionValues<'r> {
        let mut numbers: BTreeMap<Option<InstanceId>, Vec<f64>> = BTreeMap::new();
        let mut before = since;
        for time in self.logged_times(replay, since, at) {
            if let Some(pair) = replay.pair(time, before) {
                let values = replay.with_moments(&pair, |moments| self.of.values(moments));
                for (instance, value) in values {
                    let number = value.as_f64().filter(|number| !number.is_nan());
                    numbers.entry(instance).or_default().extend(number);
                }
            }
            before = time;
        }
        let mut values = ExpressionValues::new();
        for (instance, numbers) in numbers {
            let value = self.function.compute(numbers.into_iter());
            values.extend(value.map(|value| (instance, Value::Double(value))));
        }
        values
    }

    /// Returns the times at which a metric of the expression was logged.
    fn logged_times(&self, replay: &Replay<'_>, since: Timestamp, at: Timestamp) -> Vec<Timestamp> {
        let rows = replay.timeline.rows_within(span_after(since, at));
        let mut is_logged = vec![false; rows.len()];
        for track in self.operands.iter().filter_map(|operand| track_of(replay, *operand)) {
            for column in &track.columns {
                let first = column.rows().count_before(rows.start);
                let end = column.rows().count_before(rows.end);
                for row in (first..end).filter_map(|place| column.rows().get(place)) {
                    if let Some(is_logged) = is_logged.get_mut((row - rows.start) as usize) {
                        *is_logged = true;
                    }
                }
            }
        }
        let logged = rows.zip(is_logged).filter(|(_, is_logged)| *is_logged);
        logged.filter_map(|(row, _)| replay.timeline.timestamp(row)).collect()
    }
}

fn track_of<'r>(replay: &'r Replay<'_>, operand: usize) -> Option<&'r MetricTrack> {
    replay.operands.get(operand).and_then(|place| replay.tracks.get(*place))
}

/// Returns the times after one moment, up to another.
fn span_after(since: Timestamp, at: Timestamp) -> RangeInclusive<Timestamp> {
    since.saturating_add(Duration::from_nanos(1))..=at
}

impl OverFunction {
    fn compute(self, numbers: impl Iterator<Item = f64>) -> Option<f64> {
        match self {
            Self::Min => numbers.reduce(f64::min),
            Self::Max => numbers.reduce(f64::max),
            Self::Avg => {
                let mut count = 0.0;
                let mut sum = 0.0;
                for number in numbers {
                    count += 1.0;
                    sum += number;
                }
                (count > 0.0).then(|| sum / count)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use test_archives::{Builder, at};

    use super::super::{Expression, Replay};
    use crate::Archive;

    /// Returns the values of an expression between two times in seconds, by instance.
    fn between(expression: &str, since: i64, until: i64) -> Vec<f64> {
        let mut builder = Builder::new()
            .metric("m.queue", "double instant count")
            .metric("m.load", "double instant none")
            .instances("m.queue", ["a", "b"]);
        for (second, depth) in [(0, 7), (1, 4), (2, 9), (3, 5), (4, 6)] {
            let other = (second == 2).then_some(1.0);
            let load = if second == 3 { f64::NAN } else { f64::from(depth) / 2.0 };
            let depth = Some(f64::from(depth));
            let row = [("m.queue[a]", depth), ("m.queue[b]", other), ("m.load", Some(load))];
            builder = builder.row(second, row);
        }
        let archive = builder.finish();
        let archive = Archive::open(&archive).unwrap();
        let mut selection = Replay::open(&archive);
        selection.derive(&expression.parse::<Expression>().unwrap()).unwrap();
        assert!(selection.needs_moment_before());
        let replay = selection.load().unwrap();
        let sample = replay.at_since(at(until), at(since)).unwrap();
        sample.values[0].iter().map(|(_, value)| value.as_f64().unwrap()).collect()
    }

    #[test]
    fn values_are_those_of_the_table_of_the_module() {
        for (function, [first, second]) in
            [("min_over", [4.0, 5.0]), ("max_over", [9.0, 6.0]), ("avg_over", [6.5, 5.5])]
        {
            let expression = format!("({function}(m.queue))[a]");
            assert_eq!(between(&expression, 0, 2), [first], "{function}");
            assert_eq!(between(&expression, 2, 4), [second], "{function}");
        }
    }

    #[test]
    fn instances_have_their_own_values_and_no_value_is_not_zero() {
        assert_eq!(between("max_over(m.queue)", 1, 4), [9.0, 1.0]);
        assert_eq!(between("max_over(m.queue)", 2, 4), [6.0], "nothing of b in these seconds");
        assert_eq!(between("max_over(m.load) - min_over(m.load)", 0, 3), [2.5], "without a NaN");
        assert_eq!(between("max_over(m.load)", 2, 3), [0.0; 0]);
        assert_eq!(between("sum(avg_over(m.queue))", 0, 2), [7.5]);
        assert_eq!(between("max_over(m.queue) > 8 or 0", 2, 4), [0.0, 0.0]);
    }

    #[test]
    fn an_expression_has_a_value_at_each_logged_time() {
        assert_eq!(between("max_over(sum(m.queue))", 0, 3), [10.0]);
        assert_eq!(between("max_over(m.queue * 2)", 0, 2), [18.0, 2.0]);
        assert_eq!(between("avg_over(m.queue - m.load)", 0, 2), [3.25, -3.5]);
        assert_eq!(between("max_over(sum(m.queue)) - max_over(m.load)", 0, 2), [5.5]);
        assert_eq!(between("max_over(2)", 0, 2), [0.0; 0], "no metric was logged");
    }

    /// The table of the module: a counter of 0, 10, 40 and 45.
    #[test]
    fn rates_and_quantiles_in_an_expression_are_those_between_logged_times() {
        let counts = [[0, 0], [10, 0], [35, 5], [40, 5]];
        let mut builder = Builder::new()
            .metric("m.served", "u64 counter count")
            .metric("m.other", "u32 instant")
            .metric("m.latency.bucket", "u64 counter count")
            .numbered_instances("m.latency.bucket", [(4, "4..5"), (9, "16..19")])
            .labels("m.latency.bucket", &[("histogram", "microsec")])
            .domain_labels("m.latency.bucket", &[("bucket_max", 30), ("bucket_precision", 2)]);
        for (second, [few, many]) in (1..).zip(counts) {
            let served = ("m.served", few + many);
            let buckets = [("m.latency.bucket[4..5]", few), ("m.latency.bucket[16..19]", many)];
            builder = builder.row(second, [served, buckets[0], buckets[1]]);
            // What else is logged in between is not a time of the expression.
            builder = builder.row_at(at(f64::from(second) + 0.5), [("m.other", 1)]);
        }
        let archive = builder.finish();
        let archive = Archive::open(&archive).unwrap();
        let value = |expression: &str, since: i64, until: i64| {
            let mut selection = Replay::open(&archive);
            selection.derive(&expression.parse::<Expression>().unwrap()).unwrap();
            let replay = selection.load().unwrap();
            let sample = replay.at_since(at(until), at(since)).unwrap();
            sample.values[0].first().and_then(|(_, value)| value.as_f64())
        };
        assert_eq!(value("max_over(rate(m.served))", 1, 4), Some(30.0));
        assert_eq!(value("min_over(rate(m.served))", 1, 4), Some(5.0));
        assert_eq!(value("avg_over(rate(m.served))", 1, 4), Some(15.0));
        assert_eq!(value("max_over(rate(m.served))", 3, 4), Some(5.0));
        let p99 = value("p99(m.latency)", 2, 3);
        assert_eq!(value("max_over(p99(m.latency))", 1, 4), p99);
        assert!(value("min_over(p99(m.latency))", 1, 4) < p99);
        assert_eq!(value("max_over(rate(m.latency))", 1, 4), Some(30.0));
    }

    #[test]
    fn counters_and_nested_intervals_are_errors() {
        let archive = Builder::new()
            .metric("m.served", "u64 counter count")
            .metric("m.name", "string discrete")
            .metric("m.queue", "u32 instant count")
            .row(0, [("m.queue", 1)])
            .finish();
        let archive = Archive::open(&archive).unwrap();
        for (expression, expected) in [
            (
                "max_over(m.served)",
                "max_over cannot be used with a counter; write max_over(rate(NAME))",
            ),
            ("delta(max_over(m.queue))", "max_over() cannot be used within rate() or delta()"),
            ("avg_over(m.name)", "string"),
            ("avg_over(m.other)", "no metric m.other"),
            ("avg_over(m.qeue)", "no metric m.qeue in the archive; the nearest name is m.queue"),
            (
                "max_over(1 + min_over(m.queue))",
                "column 14: min_over() cannot be used within max_over(), min_over() or avg_over()",
            ),
            ("max_over(", "column 10: found the end, expected a metric"),
        ] {
            let parsed = expression.parse::<Expression>();
            let derived = parsed.and_then(|parsed| Replay::open(&archive).derive(&parsed));
            let error = derived.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
