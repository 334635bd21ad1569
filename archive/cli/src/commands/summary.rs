//! `mmv-archive summary`: averages, minima and maxima over a time window.

mod quantiles;

use std::ops::RangeInclusive;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use hashbrown::{HashMap, HashSet};
use pcp_archive::replay::{Decrease, Replay};
use pcp_archive::scan::Selection;
use pcp_archive::summary::{
    Extreme, InstanceSummary, MetricSummary, Statistics, summarize_past_damage,
};
use pcp_archive::{InstanceId, Metadata, Source, Timestamp, Value};
use serde::Serialize;

use crate::formats::{Format, csv};
use crate::left_out::check_whole_set;
use crate::options::{ArchiveArgument, FormatOptions, GapOptions, histograms};
use crate::selection::{select_metrics, warn_of_loss};
use crate::text::{Grid, Json, Output, json_time, push_plain, shown, terminal_width};
use crate::time::{WindowOptions, Zone, ZoneOptions};
use crate::{Failure, columns};
use quantiles::Quantiles;

/// Counters with rates over at most this part of the window are marked with an
/// asterisk, as in pmlogsummary.
const MIN_COVERAGE: f64 = 0.1;

/// The cell of a missing value.
const MISSING: &str = "-";

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  Which endpoint is the busiest?
    mmv-archive summary @ --last 1h --sort rate --top 1 mmv.server.requests
  The quantiles of the last hour as a whole:
    mmv-archive summary @ --last 1h mmv.shop.latency --quantile 0.5,0.99,1
  When was the rate of orders the highest?
    mmv-archive summary @ --last 1d --times mmv.shop.orders
  How many orders were there yesterday?
    mmv-archive summary @ -S 'yesterday 00:00' -T 'today 00:00' \\
        --sum mmv.shop.orders";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    archive: ArchiveArgument,

    /// Metrics to summarize: names, branches of the name space, or patterns such as "disk.*.read",
    /// also with labels: "mmv.shop.requests{code=~'5..'}" [default: all]
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,

    /// Summarize only these instances, by name, number or a pattern such as "sd*"; may be repeated
    /// [default: all]
    #[arg(short = 'i', long = "instance", value_name = "NAME")]
    instances: Vec<String>,

    /// Add the times of minimum and maximum to the table
    #[arg(long)]
    times: bool,

    /// Add the sum of all values to the table; of a counter its increase, in its own units
    #[arg(long)]
    sum: bool,

    /// Add these quantiles of each histogram, of all that it counted in the window, instead of
    /// its buckets and its sum: 0.5,0.99,1
    #[arg(long, value_name = "QUANTILE", value_delimiter = ',', value_parser = histograms::quantile)]
    quantile: Vec<f64>,

    /// Decimal places of numbers in tables and CSV [default in tables: 3]
    #[arg(long, value_name = "PLACES", value_parser = clap::value_parser!(u8).range(..=20))]
    precision: Option<u8>,

    /// Sort by a column, numbers from the largest down; the average of a counter is its rate
    #[arg(long, value_enum, value_name = "COLUMN")]
    sort: Option<Sort>,

    /// Print only the first COUNT lines, sorted by average without --sort
    #[arg(long, value_name = "COUNT")]
    top: Option<usize>,

    /// Treat an integer counter that decreases as wrapped, not as reset
    #[arg(long)]
    counter_wrap: bool,

    #[command(flatten)]
    gaps: GapOptions,

    #[command(flatten)]
    window: WindowOptions,

    #[command(flatten)]
    format: FormatOptions,

    #[command(flatten)]
    zone: ZoneOptions,
}

/// A column to sort by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// Name of the metric, then of the instance
    Name,
    /// Time average; of a counter its rate
    #[value(alias = "time-average")]
    Average,
    /// The same of counters alone; other metrics come last
    Rate,
    /// Mean of the values
    Stochastic,
    /// Smallest value
    Minimum,
    /// Largest value
    Maximum,
    /// Sum of all values; of a counter its increase
    Sum,
    /// Number of values
    Count,
}

impl Sort {
    fn key(self, statistics: &Statistics) -> f64 {
        match self {
            Self::Name => 0.0,
            Self::Average | Self::Rate => statistics.time_average,
            Self::Stochastic => statistics.stochastic_average,
            Self::Minimum => statistics.minimum.value,
            Self::Maximum => statistics.maximum.value,
            Self::Sum => statistics.sum,
            Self::Count => statistics.count as f64,
        }
    }

    /// Sorts lines; those without values come last, equal ones keep their order.
    fn sort(self, lines: &mut [Line<'_>]) {
        if self == Self::Name {
            lines.sort_by_cached_key(|line| {
                (line.metric.metric.name.clone(), line.instance_title())
            });
            return;
        }
        let key = |line: &Line<'_>| {
            let is_sorted = self != Self::Rate || line.metric.metric.has_rates();
            let statistics = line.statistics.filter(|_| is_sorted);
            statistics.map(|statistics| self.key(statistics)).filter(|key| !key.is_nan())
        };
        lines.sort_by(|one, other| match (key(one), key(other)) {
            (Some(one), Some(other)) => other.total_cmp(&one),
            (one, other) => other.is_some().cmp(&one.is_some()),
        });
    }
}

/// One instance of a metric.
struct Line<'s> {
    metric: &'s MetricSummary,
    instance: Option<InstanceId>,
    /// The newest number that records have for the instance.
    number: Option<InstanceId>,
    /// The instance's name.
    name: Option<Arc<str>>,
    statistics: Option<&'s Statistics>,
    quantile: Option<f64>,
}

impl Arguments {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let archives = self.archive.open(&self.metrics)?;
        let source = Source::from(&archives);
        let zone = self.zone.zone(source.label())?;
        let window = self.window.window(source.start(), source.end(), zone.time_zone())?;
        let mut selection = select_metrics(source, &self.metrics, &self.instances)?;
        let span = window.origin..=window.end;
        let quantiles = self.quantiles(&mut selection, &span)?;
        let decrease = if self.counter_wrap { Decrease::Wrap } else { Decrease::Reset };
        let (summaries, lost) =
            summarize_past_damage(&selection, span, decrease, self.gaps.gaps())?;
        lost.iter().for_each(warn_of_loss);
        let mut lines = lines(source.metadata(), &summaries);
        quantiles.add_to(source.metadata(), &mut lines);
        if let Some(sort) = self.sort.or(self.top.map(|_| Sort::Average)) {
            sort.sort(&mut lines);
        }
        lines.truncate(self.top.unwrap_or(usize::MAX));
        let check = || match check_whole_set(&archives) {
            Ok(()) if !lost.is_empty() => Err(Failure::Lost),
            checked => checked,
        };
        if lines.is_empty() {
            check()?;
            let reason = "the metrics have no numbers at these times";
            return Err(Failure::NoData(reason.to_owned()));
        }
        let mut out = Output::new();
        match self.format.format() {
            Format::Table => {
                let seconds = window.end.seconds_since(window.origin);
                self.write_table(&mut out, &lines, &zone, seconds)?;
            }
            Format::Csv => self.write_csv(&mut out, &lines, &zone)?,
            Format::Jsonl => write_json(&mut out, &lines)?,
        }
        out.finish()?;
        check()
    }

    /// Returns the quantiles of the histograms in a selection, and removes the histograms from it.
    fn quantiles(
        &self,
        selection: &mut Selection<'_>,
        span: &RangeInclusive<Timestamp>,
    ) -> Result<Quantiles, Failure> {
        if self.quantile.is_empty() {
            return Ok(Quantiles::default());
        }
        let mut replay = Replay::open(selection.source()).gaps(self.gaps.gaps()).read_on();
        for metric in selection.metrics() {
            replay.select(&metric.name);
        }
        for instance in &self.instances {
            replay.select_instance(instance);
        }
        if replay.quantiles(&self.quantile) == 0 {
            return Err(Failure::NoData("none of the metrics is a histogram".to_owned()));
        }
        let kept: HashSet<_> = replay.metrics().iter().map(|metric| metric.desc.pmid).collect();
        selection.retain(|metric| kept.contains(&metric.desc.pmid));
        Ok(Quantiles::new(&replay.load_spans(std::slice::from_ref(span))?, span))
    }

    /// Writes a row per instance.
    fn write_table(
        &self,
        out: &mut Output,
        lines: &[Line<'_>],
        zone: &Zone,
        seconds: f64,
    ) -> Result<(), Failure> {
        let heads = self.heads();
        let mut grid = Grid::new(heads.len());
        for head in heads {
            grid.cell(|text| text.push_str(head));
        }
        for line in lines {
            self.push_cells(&mut grid, line, zone, seconds);
        }
        grid.write(out, terminal_width())
    }

    fn heads(&self) -> Vec<&'static str> {
        let mut heads = vec!["Metric", "Time average", "Stochastic"];
        heads.extend(["Minimum"].iter().chain(self.times.then_some(&"At")));
        heads.extend(["Maximum"].iter().chain(self.times.then_some(&"At")));
        heads.extend(self.sum.then_some("Sum"));
        heads.push("Count");
        heads.extend((!self.quantile.is_empty()).then_some("Quantile"));
        heads.push("Units");
        heads
    }

    fn push_cells(&self, grid: &mut Grid, line: &Line<'_>, zone: &Zone, seconds: f64) {
        let statistics = line.statistics;
        let places = usize::from(self.precision.unwrap_or(3));
        let number = |grid: &mut Grid, number: fn(&Statistics) -> f64| match statistics {
            Some(statistics) => grid.format(format_args!("{:.places$}", number(statistics))),
            None => grid.format(format_args!("{MISSING}")),
        };
        let time = |grid: &mut Grid, extreme: fn(&Statistics) -> Extreme| match statistics {
            _ if !self.times => {}
            Some(statistics) => {
                grid.cell(|text| {
                    text.push_str(&zone.strftime(extreme(statistics).at, "%F %T%.3f"));
                });
            }
            None => grid.format(format_args!("{MISSING}")),
        };
        let covered = statistics.map_or(0.0, |statistics| statistics.seconds / seconds);
        let is_short = line.metric.metric.has_rates() && covered <= MIN_COVERAGE;
        grid.cell(|text| {
            text.push_str(if is_short { "*" } else { "" });
            text.push_str(&shown(&line.metric.metric.name));
            if let Some(title) = line.instance_title() {
                text.push_str(&shown(&format!("[{title}]")));
            }
        });
        number(grid, |statistics| statistics.time_average);
        number(grid, |statistics| statistics.stochastic_average);
        number(grid, |statistics| statistics.minimum.value);
        time(grid, |statistics| statistics.minimum);
        number(grid, |statistics| statistics.maximum.value);
        time(grid, |statistics| statistics.maximum);
        if self.sum {
            number(grid, |statistics| statistics.sum);
        }
        grid.format(format_args!("{}", statistics.map_or(0, |statistics| statistics.count)));
        match line.quantile {
            _ if self.quantile.is_empty() => {}
            Some(quantile) => grid.format(format_args!("{quantile:.places$}")),
            None => grid.format(format_args!("{MISSING}")),
        }
        grid.cell(|text| text.push_str(&line.units()));
    }

    /// Writes a header and a line per instance; missing values are empty fields.
    fn write_csv(&self, out: &mut Output, lines: &[Line<'_>], zone: &Zone) -> Result<(), Failure> {
        out.text.extend_from_slice(
            b"Metric,Instance,Units,Count,Seconds,Sum,Stochastic average,Time average,\
              Minimum,Minimum at,Maximum,Maximum at",
        );
        let has_quantiles = !self.quantile.is_empty();
        out.text.extend_from_slice(if has_quantiles { b",Quantile\r\n" } else { b"\r\n" });
        for line in lines {
            csv::push_text(&mut out.text, &line.metric.metric.name);
            out.text.push(b',');
            let title = line.instance_title().unwrap_or_default();
            csv::push_text(&mut out.text, &title);
            out.text.push(b',');
            csv::push_text(&mut out.text, &line.units());
            match line.statistics {
                Some(statistics) => self.push_csv_numbers(out, statistics, zone),
                None => out.text.extend_from_slice(b",0,,,,,,,,"),
            }
            if has_quantiles {
                out.text.push(b',');
            }
            if let Some(quantile) = line.quantile {
                let places = self.precision.map(usize::from);
                push_plain(&mut out.text, Value::Double(quantile), places);
            }
            out.text.extend_from_slice(b"\r\n");
            out.spill()?;
        }
        Ok(())
    }

    fn push_csv_numbers(&self, out: &mut Output, statistics: &Statistics, zone: &Zone) {
        let places = self.precision.map(usize::from);
        let text = &mut out.text;
        let push = |text: &mut Vec<u8>, number: f64| {
            text.push(b',');
            push_plain(text, Value::Double(number), places);
        };
        text.extend_from_slice(format!(",{}", statistics.count).as_bytes());
        push(text, statistics.seconds);
        push(text, statistics.sum);
        push(text, statistics.stochastic_average);
        push(text, statistics.time_average);
        for extreme in [statistics.minimum, statistics.maximum] {
            push(text, extreme.value);
            text.push(b',');
            zone.push_rfc3339(text, extreme.at);
        }
    }
}

impl Line<'_> {
    fn instance_title(&self) -> Option<Arc<str>> {
        columns::instance_title(self.instance, self.name.as_ref())
    }

    /// Returns the units of all columns except the sum.
    fn units(&self) -> String {
        let metric = &self.metric.metric;
        columns::units(metric, metric.has_rates())
    }
}

/// Returns the instances of all metrics, with their names.
fn lines<'s>(metadata: &Metadata, summaries: &'s [MetricSummary]) -> Vec<Line<'s>> {
    let mut names: HashMap<_, HashMap<InstanceId, Arc<str>>> = HashMap::new();
    let mut lines = Vec::new();
    for metric in summaries {
        let indom = metric.metric.desc.indom;
        let names = names.entry(indom);
        let names = names.or_insert_with(|| {
            indom.map(|indom| columns::instance_names(metadata, indom)).unwrap_or_default()
        });
        let line = |summary: &'s InstanceSummary| Line {
            metric,
            instance: summary.instance,
            number: columns::number_in_records(metadata, indom, summary.instance),
            name: summary.instance.and_then(|id| names.get(&id).cloned()),
            statistics: summary.statistics.as_ref(),
            quantile: None,
        };
        let mut of_metric: Vec<Line<'_>> = metric.instances.iter().map(line).collect();
        of_metric.sort_by(|one, other| {
            columns::compare_names(one.name.as_deref(), other.name.as_deref())
        });
        lines.extend(of_metric);
    }
    lines
}

/// One instance as a JSON object.
#[derive(Serialize)]
struct Object<'s> {
    metric: &'s str,
    pmid: String,
    instance: Option<i32>,
    name: Option<&'s str>,
    units: String,
    count: u64,
    #[serde(flatten)]
    numbers: Option<Numbers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quantile: Option<Json<'static>>,
}

/// Statistics of at least one value.
#[derive(Serialize)]
struct Numbers {
    seconds: f64,
    sum: Json<'static>,
    stochastic_average: Json<'static>,
    time_average: Json<'static>,
    minimum: Json<'static>,
    minimum_time: (i64, u32),
    maximum: Json<'static>,
    maximum_time: (i64, u32),
}

fn write_json(out: &mut Output, lines: &[Line<'_>]) -> Result<(), Failure> {
    let number = Json::number;
    for line in lines {
        let numbers = line.statistics.map(|statistics| Numbers {
            seconds: statistics.seconds,
            sum: number(statistics.sum),
            stochastic_average: number(statistics.stochastic_average),
            time_average: number(statistics.time_average),
            minimum: number(statistics.minimum.value),
            minimum_time: json_time(statistics.minimum.at),
            maximum: number(statistics.maximum.value),
            maximum_time: json_time(statistics.maximum.at),
        });
        out.json_line(&Object {
            metric: &line.metric.metric.name,
            pmid: line.metric.metric.desc.pmid.to_string(),
            instance: line.number.map(InstanceId::get),
            name: line.name.as_deref(),
            units: line.units(),
            count: line.statistics.map_or(0, |statistics| statistics.count),
            numbers,
            quantile: line.quantile.map(number),
        })?;
    }
    Ok(())
}
