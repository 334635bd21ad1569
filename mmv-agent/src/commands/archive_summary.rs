//! Summarizes an archive at the end of a demo or a recording, reading it back like any archive.
//!
//! The table is that of `mmv-archive summary`: numbers of a metric have one unit of their size, and
//! names are without the branch that all have in common.

use std::fmt::Write as _;
use std::path::Path;

use mmv_chart::{Chart, Grid, Point};
use pcp_archive::replay::{Decrease, HistogramValue, Replay, Sample, SelectedMetric};
use pcp_archive::scan::histogram::HistogramLayout;
use pcp_archive::summary::{self, MetricSummary};
use pcp_archive::{Archive, InDom, InstanceId, Pmid, Semantics, Timestamp, Units, Value, scan};
use pcp_types::names::{common_branch, common_labels, label_values};
use pcp_types::printable;
use pcp_types::scaled::{ColumnUnit, axis_unit};

const CHART_WIDTH: usize = 76;
const CHART_HEIGHT: usize = 10;

/// Returns a table of everything that was logged below `prefix`, with a histogram as itself, and
/// charts of some of the metrics below it without instances.
pub(crate) fn summarize(base: &Path, prefix: &str, charts: &[&str]) -> pcp_archive::Result<String> {
    let archive = Archive::open(base)?;
    let mut selection = Replay::open(&archive);
    selection.select(prefix);
    let replay = selection.load()?;
    let observations: Vec<Sample<'_>> = replay.observations().collect();
    let start = archive.label().start;
    let end = archive.end();
    let mut logged = scan::Selection::new(&archive);
    logged.select(prefix);
    let summaries = summary::summarize(&logged, start..=end, Decrease::Reset)?;

    let (mut metrics, parts) = histograms(&archive, prefix)?;
    for (place, metric) in replay.metrics().enumerate() {
        if parts.contains(&metric.desc.pmid) {
            continue;
        }
        let mut shown = MetricLines::new(&metric.name, metric.desc.units, metric.rate_units());
        for instance in replay.instances(place) {
            let row = Row { place, instance };
            shown.lines.push(Line {
                instance: instance_name(&archive, metric.desc.indom, instance),
                last: row.last(&observations),
                rate: rate_of(metric, instance, &summaries),
                quantiles: [None; 2],
            });
        }
        metrics.push(shown);
    }
    metrics.sort_by_key(MetricLines::rank);
    for metric in &mut metrics {
        metric.lines.sort_by(|one, other| one.instance.cmp(&other.instance));
    }

    let mut text = String::new();
    let seconds = end.seconds_since(start);
    let records = observations.len();
    let branch = metrics.split_first().map_or("", |(first, others)| {
        common_branch(&first.name, others.iter().map(|metric| metric.name.as_str()))
    });
    let gap = if branch.is_empty() { "" } else { ", " };
    let branch = branch.to_owned();
    // Writing to a String does not fail.
    let branch_text = printable::line(&branch);
    let s = if records == 1 { "" } else { "s" };
    let _ = writeln!(text, "{branch_text}{gap}{records} record{s} in {seconds:.1} s");
    text.extend(table(&metrics, &branch).rows(None));
    for name in charts {
        let wanted = format!("{prefix}.{name}");
        let found = replay.metrics().enumerate().find(|(_, metric)| metric.name == wanted);
        let Some((place, metric)) = found else { continue };
        let row = Row { place, instance: None };
        let rate = metric.desc.semantics == Semantics::Counter;
        let mut points = if rate {
            row.rates(&replay, start, &observations)
        } else {
            row.values(start, &observations)
        };
        let units = if rate { metric.rate_units() } else { metric.desc.units };
        let sizes = points.iter().filter_map(|(_, value)| value.map(f64::abs));
        let (size, unit) =
            axis_unit(sizes.fold(0.0, f64::max), units).unwrap_or_else(|| (1.0, units.to_string()));
        for value in points.iter_mut().filter_map(|(_, value)| value.as_mut()) {
            *value /= size;
        }
        let title = format!("{name}: {unit}");
        let chart = Chart::new(CHART_WIDTH, CHART_HEIGHT).title(&title).from_zero(true);
        let _ = write!(text, "\n{}", chart.render(&points));
    }
    Ok(text)
}

/// The lines of the table for a metric or a histogram.
struct MetricLines {
    name: String,
    units: Units,
    rate_units: Units,
    /// Of the quantiles of a histogram.
    quantile_units: Option<Units>,
    lines: Vec<Line>,
}

/// The cells of an instance.
struct Line {
    /// Empty for a metric without instances.
    instance: String,
    /// `None` for one without values.
    last: Option<LastValue>,
    rate: Option<f64>,
    /// The median and the 99th percentile.
    quantiles: [Option<f64>; 2],
}

enum LastValue {
    Number(f64),
    Text(String),
}

impl Line {
    fn last_number(&self) -> Option<f64> {
        match self.last {
            Some(LastValue::Number(number)) => Some(number),
            _ => None,
        }
    }
}

/// The order of metrics in a table, as in `mmv-archive summary`.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Histogram,
    Rate,
    Gauge,
    Text,
}

impl MetricLines {
    fn new(name: &str, units: Units, rate_units: Units) -> Self {
        let name = name.to_owned();
        Self { name, units, rate_units, quantile_units: None, lines: Vec::new() }
    }

    /// Returns the order of metrics: by program, the kind and the name.
    fn rank(&self) -> (String, Rank, String) {
        // Names begin with that of the program: `mmv.shop.requests`.
        let program = self.name.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
        let has = |is: fn(&Line) -> bool| self.lines.iter().any(is);
        let rank = if self.quantile_units.is_some() {
            Rank::Histogram
        } else if has(|line| line.rate.is_some()) {
            Rank::Rate
        } else if has(|line| line.last_number().is_some()) {
            Rank::Gauge
        } else {
            Rank::Text
        };
        (program, rank, self.name.clone())
    }

    /// Chooses the units for the last values, the rates and the quantiles.
    fn column_units(&self) -> [ColumnUnit; 3] {
        let numbers = |number: fn(&Line) -> Option<f64>| -> Vec<f64> {
            self.lines.iter().filter_map(number).collect()
        };
        let quantiles: Vec<f64> =
            self.lines.iter().flat_map(|line| line.quantiles).flatten().collect();
        [
            ColumnUnit::choose(self.units, &numbers(Line::last_number)),
            ColumnUnit::choose(self.rate_units, &numbers(|line| line.rate)),
            ColumnUnit::choose(self.quantile_units.unwrap_or(Units::NONE), &quantiles),
        ]
    }

    fn title(&self, [last, rate, quantiles]: &[ColumnUnit; 3]) -> String {
        let has_last = self.lines.iter().any(|line| line.last_number().is_some());
        let has_rate = self.lines.iter().any(|line| line.rate.is_some());
        let has_quantiles = self.quantile_units.is_some();
        let units = [(has_last, last), (has_rate, rate), (has_quantiles, quantiles)];
        let names = units.into_iter().filter(|(is_used, _)| *is_used);
        let names = names.map(|(_, unit)| unit.title()).filter(|name| !name.is_empty());
        names.collect::<Vec<_>>().join(", ")
    }
}

/// Returns what the histograms below `prefix` counted, and the metrics that they consist of.
fn histograms(
    archive: &Archive,
    prefix: &str,
) -> pcp_archive::Result<(Vec<MetricLines>, Vec<Pmid>)> {
    let mut selection = Replay::open(archive);
    selection.select(prefix);
    let mut parts = Vec::new();
    for metric in selection.metrics() {
        let layout = HistogramLayout::find(archive.metadata(), &metric.name, &metric.desc);
        if let Some(layout) = layout {
            parts.push(metric.desc.pmid);
            parts.extend(layout.sum());
        }
    }
    let mut found = Vec::new();
    let values = [0.5, 0.99].map(HistogramValue::Quantile);
    let values = [HistogramValue::Rate, values[0], values[1]];
    if parts.is_empty() || selection.histograms(&values, |_| true) == 0 {
        return Ok((found, Vec::new()));
    }
    let replay = selection.load()?;
    let start = archive.label().start;
    let end = archive.end();
    let Some(numbers) = replay.rates_at(end, start) else { return Ok((found, Vec::new())) };
    let metrics: Vec<SelectedMetric> = replay.metrics().cloned().collect();
    let places: Vec<usize> = (0..metrics.len()).filter(|place| replay.is_derived(*place)).collect();
    for places in places.chunks(values.len()) {
        let [rate, median, high] = *places else { continue };
        let Some((metric, quantile)) = metrics.get(rate).zip(metrics.get(median)) else { continue };
        let mut shown = MetricLines::new(&metric.name, Units::count(), metric.desc.units);
        shown.quantile_units = Some(quantile.desc.units);
        for counted in replay.bucket_counts(median, start, end) {
            let count: f64 = counted.buckets.iter().map(|bucket| bucket.count).sum();
            let number =
                |place| Row { place, instance: counted.instance }.value(&numbers)?.as_f64();
            shown.lines.push(Line {
                instance: instance_name(archive, metric.desc.indom, counted.instance),
                last: Some(LastValue::Number(count)),
                rate: number(rate),
                quantiles: [number(median), number(high)],
            });
        }
        found.push(shown);
    }
    Ok((found, parts))
}

/// Returns the table of some metrics, whose names have a branch in common.
fn table(metrics: &[MetricLines], branch: &str) -> Grid {
    let lines = || metrics.iter().flat_map(|metric| &metric.lines);
    let has_rates = lines().any(|line| line.rate.is_some());
    let has_quantiles = metrics.iter().any(|metric| metric.quantile_units.is_some());
    let mut heads = vec!["", "Last"];
    if has_rates {
        heads.push("Rate");
    }
    if has_quantiles {
        heads.extend(["p50", "p99"]);
    }
    heads.push("Unit");
    let mut grid = Grid::new(heads.len());
    for head in &heads {
        grid.cell(|text| text.push_str(head));
    }
    for metric in metrics {
        let units = metric.column_units();
        let [last_unit, rate_unit, quantile_unit] = &units;
        let title = metric.title(&units);
        let name = metric.name.strip_prefix(branch).unwrap_or(&metric.name);
        let name = printable::line(name.strip_prefix('.').unwrap_or(name)).into_owned();
        let instances = metric.lines.iter().map(|line| line.instance.as_str());
        let has_instances = instances.clone().any(|instance| !instance.is_empty());
        let labels = common_labels(instances).filter(|_| has_instances);
        if has_instances {
            match &labels {
                Some(labels) => grid.format(format_args!("{name} by {labels}")),
                None => grid.format(format_args!("{name}")),
            }
            for _ in 2..heads.len() {
                grid.cell(|_| {});
            }
            grid.format(format_args!("{title}"));
        }
        for line in &metric.lines {
            let values = label_values(&line.instance).filter(|_| labels.is_some());
            let own = values.as_deref().unwrap_or(&line.instance);
            if has_instances {
                grid.format(format_args!("  {own}"));
            } else {
                grid.format(format_args!("{name}"));
            }
            match &line.last {
                Some(LastValue::Number(number)) => push_number(&mut grid, Some(*number), last_unit),
                Some(LastValue::Text(text)) => grid.format(format_args!("{text}")),
                None => push_number(&mut grid, None, last_unit),
            }
            if has_rates {
                push_number(&mut grid, line.rate, rate_unit);
            }
            if has_quantiles {
                for quantile in line.quantiles {
                    push_number(&mut grid, quantile, quantile_unit);
                }
            }
            let title = if has_instances { "" } else { &title };
            grid.format(format_args!("{title}"));
        }
    }
    grid
}

fn push_number(grid: &mut Grid, number: Option<f64>, unit: &ColumnUnit) {
    match number {
        Some(number) => grid.cell(|text| text.push_str(&unit.format(number))),
        None => grid.format(format_args!("-")),
    }
}

/// One instance of one selected metric.
struct Row {
    place: usize,
    instance: Option<InstanceId>,
}

impl Row {
    fn value<'s>(&self, sample: &'s Sample<'_>) -> Option<&'s Value<'s>> {
        let values = sample.values.get(self.place)?;
        values.iter().find(|(instance, _)| *instance == self.instance).map(|(_, value)| value)
    }

    fn last(&self, samples: &[Sample<'_>]) -> Option<LastValue> {
        let last = samples.iter().rev().find_map(|sample| self.value(sample))?;
        match last {
            Value::String(bytes) => {
                Some(LastValue::Text(format!("\"{}\"", printable::bytes(bytes))))
            }
            other => other.as_f64().map(LastValue::Number),
        }
    }

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

    /// Returns the lines of a metric with instances and their last values and rates.
    fn metric(name: &str, units: Units, lines: &[(&str, f64, Option<f64>)]) -> MetricLines {
        let mut metric = MetricLines::new(name, units, units.per_second());
        for (instance, last, rate) in lines {
            metric.lines.push(Line {
                instance: (*instance).to_owned(),
                last: Some(LastValue::Number(*last)),
                rate: *rate,
                quantiles: [None; 2],
            });
        }
        metric
    }

    #[test]
    fn numbers_of_a_metric_have_one_unit() {
        let bytes = [("code=200", 2_500_000.0, Some(512_000.0)), ("code=503", 40_000.0, Some(0.0))];
        let metrics = [
            metric("mmv.web.sent", Units::bytes(), &bytes),
            metric("mmv.web.queue", Units::count(), &[("", 7.0, None)]),
        ];
        let text: String = table(&metrics, "mmv.web").rows(None).collect();
        let expected = [
            "              Last  Rate  Unit\n",
            "sent by code              kB, kB/s\n",
            "  200         2500   512\n",
            "  503           40     0\n",
            "queue            7     -  count\n",
        ];
        assert_eq!(text, expected.concat());
        let gauges: String = table(&metrics[1..], "mmv.web").rows(None).collect();
        assert_eq!(gauges, "       Last  Unit\nqueue     7  count\n");
    }

    #[test]
    fn metrics_are_grouped_by_program_and_kind() {
        let mut metrics = [
            metric("mmv.web.queue", Units::NONE, &[("", 7.0, None)]),
            metric("mmv.mail.depth", Units::NONE, &[("", 7.0, None)]),
            metric("mmv.web.sent", Units::bytes(), &[("", 7.0, Some(1.0))]),
        ];
        metrics.sort_by_key(MetricLines::rank);
        let names = metrics.each_ref().map(|metric| metric.name.as_str());
        assert_eq!(names, ["mmv.mail.depth", "mmv.web.sent", "mmv.web.queue"]);
    }

    #[test]
    fn digits_are_grouped_by_three() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1 000"), (-1_234_567, "-1 234 567")]
        {
            assert_eq!(grouped(number), text);
        }
    }
}
