//! Summarizes an archive at the end of a demo or a recording, reading it back like any archive.

mod quantiles;

use std::fmt::Write as _;
use std::path::Path;

use mmv_chart::{Chart, Point};
use pcp_archive::replay::{Decrease, Replay, Sample, SelectedMetric};
use pcp_archive::summary::{self, MetricSummary};
use pcp_archive::{Archive, InDom, InstanceId, Semantics, Timestamp, Value, scan};
use pcp_types::printable;

use quantiles::QuantileTable;

const CHART_WIDTH: usize = 76;
const CHART_HEIGHT: usize = 10;

/// Returns a table of everything that was logged below `prefix`, with quantiles instead of the
/// buckets of histograms, and charts of some of the metrics below it without instances.
pub(crate) fn summarize(base: &Path, prefix: &str, charts: &[&str]) -> pcp_archive::Result<String> {
    let archive = Archive::open(base)?;
    let mut selection = Replay::open(&archive);
    selection.select(prefix);
    let replay = selection.load()?;
    let observations: Vec<Sample<'_>> = replay.observations().collect();
    let quantiles = QuantileTable::new(&archive, prefix, &replay, &observations)?;

    let start = archive.label().start;
    let end = archive.end();
    let mut logged = scan::Selection::new(&archive);
    logged.select(prefix);
    let summaries = summary::summarize(&logged, start..=end, Decrease::Reset)?;

    let mut text = String::new();
    let seconds = end.seconds_since(start);
    // Writing to a String does not fail.
    let _ = writeln!(text, "Logged {} records in {seconds:.1} s:\n", observations.len());
    let head = ["metric", "instance", "last", "unit", "rate", ""].map(str::to_owned);
    let mut lines = vec![head];
    for (place, metric) in replay.metrics().enumerate() {
        if quantiles.replace(&metric.name) {
            continue;
        }
        for instance in replay.instances(place) {
            let row = Row { archive: &archive, place, indom: metric.desc.indom, instance };
            let last = row.last(&observations);
            let rate = rate_of(metric, instance, &summaries);
            // A rate without unit is a utilisation.
            let rate_units = rate.map_or_else(String::new, |_| metric.rate_units().to_string());
            let units = metric.desc.units.to_string();
            let instance = row.instance_name();
            lines.push([
                printable::line(&metric.name).into_owned(),
                instance,
                last,
                units,
                rate.map_or_else(String::new, number),
                rate_units,
            ]);
        }
    }
    push_table(&mut text, &lines, [false, false, true, false, true, false]);
    if let Some(lines) = quantiles.lines() {
        text.push('\n');
        push_table(&mut text, lines, [false, false, true, true, false]);
    }
    for name in charts {
        let wanted = format!("{prefix}.{name}");
        let found = replay.metrics().enumerate().find(|(_, metric)| metric.name == wanted);
        let Some((place, metric)) = found else { continue };
        let row = Row { archive: &archive, place, indom: None, instance: None };
        let rate = metric.desc.semantics == Semantics::Counter;
        let points = if rate {
            row.rates(&replay, start, &observations)
        } else {
            row.values(start, &observations)
        };
        let units = if rate { metric.rate_units() } else { metric.desc.units };
        let title = format!("{name}: {units}");
        let chart = Chart::new(CHART_WIDTH, CHART_HEIGHT).title(&title).from_zero(true);
        let _ = write!(text, "\n{}", chart.render(&points));
    }
    Ok(text)
}

/// Appends a table with numbers aligned to the right. A column that is empty below the head is
/// left out.
fn push_table<const N: usize>(text: &mut String, lines: &[[String; N]], numbers: [bool; N]) {
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = || lines.iter().filter_map(|line| line.get(column));
        let is_used = cells().skip(1).any(|cell| !cell.is_empty());
        let width = cells().map(|cell| cell.chars().count()).max().unwrap_or(0);
        if is_used { width } else { 0 }
    });
    for cells in lines {
        let mut line = String::new();
        for ((cell, width), is_number) in cells.iter().zip(widths).zip(numbers) {
            let _ = match (width, is_number) {
                (0, _) => Ok(()),
                (_, true) => write!(line, "{cell:>width$}  "),
                (_, false) => write!(line, "{cell:width$}  "),
            };
        }
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
        instance_name(self.archive, self.indom, self.instance)
    }

    /// Returns the last value as text; empty without values.
    fn last(&self, samples: &[Sample<'_>]) -> String {
        let last = samples.iter().rev().find_map(|sample| self.value(sample));
        last.map_or_else(String::new, shown)
    }

    /// Returns the points of a chart: the values.
    fn values(&self, start: Timestamp, samples: &[Sample<'_>]) -> Vec<Point> {
        let points = samples.iter().map(|sample| {
            let value = self.value(sample).and_then(Value::as_f64);
            (sample.timestamp.seconds_since(start), value)
        });
        points.collect()
    }

    /// Returns the points of a chart: the rate of a counter from each sample to the next.
    fn rates(&self, replay: &Replay<'_>, start: Timestamp, samples: &[Sample<'_>]) -> Vec<Point> {
        let mut points = Vec::new();
        for pair in samples.windows(2) {
            let [before, now] = pair else { continue };
            let rates = replay.rates_at(now.timestamp, before.timestamp);
            let rate = rates.and_then(|rates| self.value(&rates)?.as_f64());
            points.push((now.timestamp.seconds_since(start), rate));
        }
        points
    }
}

/// Returns the rate of a counter in the time in which it was logged.
fn rate_of(
    metric: &SelectedMetric,
    instance: Option<InstanceId>,
    summaries: &[MetricSummary],
) -> Option<f64> {
    let summary = summaries.iter().find(|summary| summary.metric.name == metric.name)?;
    let summary = summary.instances.iter().find(|summary| summary.instance == instance)?;
    metric.has_rates().then_some(summary.statistics.as_ref()?.time_average)
}

/// Returns the name of an instance at the end of an archive; empty for a metric without instances.
fn instance_name(archive: &Archive, indom: Option<InDom>, id: Option<InstanceId>) -> String {
    let Some(id) = id else { return String::new() };
    let listed = indom.and_then(|indom| archive.metadata().indom_at(indom, archive.end()));
    let listed = listed.unwrap_or_default();
    let instance = listed.iter().find(|instance| instance.id == id);
    instance.map_or_else(|| id.to_string(), |instance| printable::line(&instance.name).into_owned())
}

/// Formats a computed number: `0`, `0.683`, `12 345`.
fn number(value: f64) -> String {
    if value.abs() >= 10.0 || value.fract() == 0.0 {
        grouped(value.round() as i64)
    } else {
        format!("{value:.3}")
    }
}

fn shown(value: &Value<'_>) -> String {
    match value {
        Value::String(bytes) => format!("\"{}\"", printable::bytes(bytes)),
        Value::I64(n) => grouped(*n),
        Value::U64(n) => grouped(i64::try_from(*n).unwrap_or(i64::MAX)),
        other => other.as_f64().map_or_else(String::new, |n| n.to_string()),
    }
}

/// Formats an integer in groups of digits: `12 345 678`.
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
    fn small_numbers_have_decimal_places() {
        let numbers = [(0.0, "0"), (0.6834, "0.683"), (1.0, "1"), (12_345.6, "12 346")];
        for (value, text) in numbers {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn columns_without_cells_are_left_out() {
        let lines = [["metric", "instance", "last"], ["a", "", "1 000"], ["bc", "", "7"]];
        let mut text = String::new();
        push_table(&mut text, &lines.map(|line| line.map(str::to_owned)), [false, false, true]);
        assert_eq!(text, "metric   last\na       1 000\nbc          7\n");
    }

    #[test]
    fn digits_are_grouped_by_three() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1 000"), (-1_234_567, "-1 234 567")]
        {
            assert_eq!(grouped(number), text);
        }
    }
}
