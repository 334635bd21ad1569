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

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::Replay;
use super::expression::{ExpressionValues, OverFunction};
use crate::{InstanceId, Timestamp, Value};

/// A function of the values in an interval, in an expression.
#[derive(Debug, Clone)]
pub(super) struct ValuesOver {
    pub(super) function: OverFunction,
    pub(super) operand: usize,
    pub(super) instances: BTreeSet<Option<InstanceId>>,
}

impl ValuesOver {
    /// Computes it for each instance from what was logged after one moment, up to another.
    pub(super) fn values<'r>(
        &self,
        replay: &Replay<'_>,
        since: Timestamp,
        at: Timestamp,
    ) -> ExpressionValues<'r> {
        let mut values = ExpressionValues::new();
        let track = replay.operands.get(self.operand).and_then(|place| replay.tracks.get(*place));
        let Some(track) = track.filter(|_| since < at) else { return values };
        let span: RangeInclusive<Timestamp> = since.saturating_add(Duration::from_nanos(1))..=at;
        let rows = replay.timeline.rows_within(span);
        for (column, life) in track.columns.iter().zip(&track.lives) {
            if life.is_none() || !self.instances.contains(&column.instance()) {
                continue;
            }
            let first = column.rows().count_before(rows.start);
            let end = column.rows().count_before(rows.end);
            let numbers = (first..end).filter_map(|place| column.value(place)?.as_f64());
            let value = self.function.compute(numbers.filter(|number| !number.is_nan()));
            values.extend(value.map(|value| (column.instance(), Value::Double(value))));
        }
        values
    }
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
                "a counter in max_over, which takes levels; rate(NAME) is the mean rate",
            ),
            ("delta(max_over(m.queue))", "max_over() cannot be used within rate() or delta()"),
            ("avg_over(m.name)", "string"),
            ("avg_over(m.other)", "no metric m.other"),
            ("avg_over(1 + 2)", "column 10: avg_over() takes a metric, not an expression"),
            (
                "1 + max_over(rate(m.served))",
                "column 14: max_over() takes a metric, not an expression, which has one value an \
                 interval and none within: write max_over(NAME)",
            ),
            ("min_over(m.queue + 1)", "as in sum(min_over(NAME))"),
            ("max_over(", "column 10: max_over() takes a metric"),
        ] {
            let parsed = expression.parse::<Expression>();
            let derived = parsed.and_then(|parsed| Replay::open(&archive).derive(&parsed));
            let error = derived.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
