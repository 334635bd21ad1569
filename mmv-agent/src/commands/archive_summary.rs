//! The summary of an archive at the end of a demo or a recording, read back like any
//! archive.

use std::fmt::Write as _;
use std::path::Path;

use mmv_chart::{Chart, Point};
use pcp_archive::replay::{Replay, Sample};
use pcp_archive::{Archive, InDom, InstanceId, Semantics, Timestamp, Value};

const CHART_WIDTH: usize = 76;
const CHART_HEIGHT: usize = 10;

/// A table of everything that was logged below `prefix`, and charts of some of
/// the metrics below it without instances.
pub(crate) fn summarize(base: &Path, prefix: &str, charts: &[&str]) -> pcp_archive::Result<String> {
    let archive = Archive::open(base)?;
    let mut selection = Replay::open(&archive);
    selection.select(prefix);
    let replay = selection.load()?;
    let observations: Vec<Sample<'_>> = replay.observations().collect();

    let mut text = String::new();
    let start = archive.label().start;
    let seconds = archive.end().seconds_since(start);
    // Writing to a String does not fail.
    let _ = writeln!(text, "Logged {} records in {seconds:.1} s\n", observations.len());
    let head = ["metric", "instance", "unit", "last", "per second"].map(str::to_owned);
    let mut lines = vec![head];
    for (place, metric) in replay.metrics().enumerate() {
        for instance in replay.instances(place) {
            let row = Row { archive: &archive, place, indom: metric.desc.indom, instance };
            let (last, rate) = row.last_and_rate(metric.desc.semantics, &observations);
            let units = metric.desc.units.to_string();
            lines.push([metric.name.clone(), row.instance_name(), units, last, rate]);
        }
    }
    push_table(&mut text, &lines);
    for name in charts {
        let wanted = format!("{prefix}.{name}");
        let found = replay.metrics().enumerate().find(|(_, metric)| metric.name == wanted);
        let Some((place, metric)) = found else { continue };
        let row = Row { archive: &archive, place, indom: None, instance: None };
        let rate = metric.desc.semantics == Semantics::Counter;
        let points = row.points(rate, start, &observations);
        let units = if rate { metric.rate_units() } else { metric.desc.units };
        let title = format!("{name}: {units}");
        let chart = Chart::new(CHART_WIDTH, CHART_HEIGHT).title(&title).from_zero(true);
        let _ = write!(text, "\n{}", chart.render(&points));
    }
    Ok(text)
}

/// Appends lines whose last two columns are numbers.
fn push_table(text: &mut String, lines: &[[String; 5]]) {
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let [name, instance, unit, last, rate] = [0, 1, 2, 3, 4].map(width);
    for [a, b, c, d, e] in lines {
        let line = format!("{a:name$}  {b:instance$}  {c:unit$}  {d:>last$}  {e:>rate$}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// One instance of one selected metric.
struct Row<'a> {
    archive: &'a Archive,
    place: usize,
    indom: Option<InDom>,
    instance: Option<InstanceId>,
}

impl Row<'_> {
    fn value<'s>(&self, sample: &'s Sample<'_>) -> Option<&'s Value<'s>> {
        let values = sample.values.get(self.place)?;
        values.iter().find(|(instance, _)| *instance == self.instance).map(|(_, value)| value)
    }

    fn instance_name(&self) -> String {
        let Some(id) = self.instance else { return String::new() };
        let listed = self.indom.and_then(|indom| {
            let metadata = self.archive.metadata();
            metadata.indom_at(indom, self.archive.end())
        });
        let listed = listed.unwrap_or_default();
        let instance = listed.iter().find(|instance| instance.id == id);
        instance.map_or_else(|| id.to_string(), |instance| instance.name.to_string())
    }

    fn last_and_rate(&self, semantics: Semantics, samples: &[Sample<'_>]) -> (String, String) {
        let seen: Vec<_> =
            samples.iter().filter_map(|s| Some((s.timestamp, self.value(s)?))).collect();
        let (Some((begun, first)), Some((ended, last))) = (seen.first(), seen.last()) else {
            return (String::new(), String::new());
        };
        let rate = match (semantics, first.as_f64(), last.as_f64()) {
            (Semantics::Counter, Some(first), Some(last)) if ended > begun => {
                grouped(((last - first) / ended.seconds_since(*begun)).round() as i64)
            }
            _ => String::new(),
        };
        (shown(last), rate)
    }

    /// Points of a chart: the values, or the rate since the sample before.
    fn points(&self, rate: bool, start: Timestamp, samples: &[Sample<'_>]) -> Vec<Point> {
        let values = samples.iter().map(|sample| {
            let value = self.value(sample).and_then(Value::as_f64);
            (sample.timestamp.seconds_since(start), value)
        });
        let values: Vec<Point> = values.collect();
        if !rate {
            return values;
        }
        let pairs = values.windows(2).filter_map(|pair| {
            let [(before, from), (now, to)] = pair else { return None };
            let rise = from.zip(*to).map(|(from, to)| (to - from) / (now - before));
            Some((*now, rise))
        });
        pairs.collect()
    }
}

fn shown(value: &Value<'_>) -> String {
    match value {
        Value::String(bytes) => format!("\"{}\"", String::from_utf8_lossy(bytes)),
        Value::I64(n) => grouped(*n),
        Value::U64(n) => grouped(i64::try_from(*n).unwrap_or(i64::MAX)),
        other => other.as_f64().map_or_else(String::new, |n| n.to_string()),
    }
}

/// `12 345 678`.
pub(crate) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1 000"), (-1_234_567, "-1 234 567")]
        {
            assert_eq!(grouped(number), text);
        }
    }
}
