//! `mmv-archive summary`: averages, minima and maxima over a time window.

mod exact;
mod quantiles;
mod table;

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use hashbrown::{HashMap, HashSet};
use pcp_archive::replay::{Decrease, Gaps};
use pcp_archive::scan::{Selection, is_extreme};
use pcp_archive::summary::{MetricSummary, Statistics, summarize_past_damage};
use pcp_archive::{InstanceId, Metadata, Source, Timestamp, Units, Value};
use serde::Serialize;

use crate::columns::{InstanceLabels, WantedUnits, conversion_to, warn_of_unused_units};
use crate::formats::jsonl::SeriesJson;
use crate::formats::{Format, csv};
use crate::left_out::check_whole_set;
use crate::options::histograms::{self, NamedSeries};
use crate::options::{ArchiveArgument, FormatOptions, GapOptions};
use crate::order::{SeriesOrder, unnamed_machinery};
use crate::selection::{note_left_out, select_metrics, warn_of_loss};
use crate::text::{EpochSeconds, Json, Output, Rfc3339, push_plain};
use crate::time::{Window, WindowOptions, Zone, ZoneOptions};
use crate::{Failure, columns};
use exact::ExactTable;
use quantiles::{CountedValues, Histograms};
use table::SummaryTable;

/// Counters with rates over at most this part of the window are marked with an
/// asterisk, as in pmlogsummary.
const MIN_COVERAGE: f64 = 0.1;

/// The cell of a missing value.
const MISSING: &str = "-";

const EXAMPLES: &str = "\
Examples:
  Which endpoint is the busiest?
    mmv-archive summary @ --last 1h --sort rate --top 1 mmv.server.requests
  The quantiles of the last hour as a whole, the slowest histogram first:
    mmv-archive summary @ --last 1h mmv.shop --sort p99
  When was the rate of orders the highest?
    mmv-archive summary @ --last 1d --times mmv.shop.orders
  How many orders were there yesterday?
    mmv-archive summary @ -S 'yesterday 00:00' -T 'today 00:00' \\
        --total mmv.shop.orders";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option on the command line")]
pub(crate) struct SummaryCommand {
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

    /// Also show the metrics of the agent and of pmcd, which are otherwise shown if they are named
    #[arg(long)]
    all: bool,

    /// Add the times of minimum and maximum to the table
    #[arg(long)]
    times: bool,

    /// Add the sum of all values in the window to the table; of a counter its increase, in its own
    /// units. What a histogram counted is always there, as Count
    #[arg(long)]
    total: bool,

    /// Convert values to these units where the dimension is the same: "Mbyte", "Kbyte / sec",
    /// "count x 10^-2"; may be repeated
    #[arg(long, value_name = "UNITS")]
    units: Vec<String>,

    /// Show these quantiles of each histogram: p50,p99,1; p99, 99 and 0.99 are the same. They are of
    /// all that it counted in the window [default: p50,p99,1]
    #[arg(long, value_name = "QUANTILE", value_delimiter = ',', value_parser = histograms::quantile)]
    quantile: Vec<f64>,

    /// Show the buckets of histograms; so does the name of their counter, as
    /// mmv.shop.latency.bucket
    #[arg(long, conflicts_with = "quantile")]
    buckets: bool,

    /// Print averages with three decimal places in the units of their metrics, also the stochastic
    /// average, and the whole name in each line
    #[arg(long)]
    exact: bool,

    /// Decimal places of numbers in CSV and in tables, which are then exact [default in exact
    /// tables: 3]
    #[arg(long, value_name = "PLACES", value_parser = clap::value_parser!(u8).range(..=20))]
    precision: Option<u8>,

    /// Sort by a column, numbers from the largest down: name, average, rate (the average of
    /// counters and histograms alone), stochastic, minimum, maximum, total, count, or a quantile
    /// such as p99
    #[arg(long, value_name = "COLUMN", value_parser = sort_column)]
    sort: Option<Sort>,

    /// Show only the COUNT instances of each metric with the largest means, of a histogram with the
    /// largest of its highest quantile. With --sort those that come first by that column
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
#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
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
    #[value(alias = "sum")]
    Total,
    /// Number of values
    Count,
    /// This quantile of histograms; other metrics come last
    #[value(skip)]
    Quantile(f64),
}

fn sort_column(text: &str) -> Result<Sort, String> {
    if let Ok(column) = <Sort as ValueEnum>::from_str(text, true) {
        return Ok(column);
    }
    let rank = histograms::quantile(text);
    rank.map(Sort::Quantile).map_err(|_| "neither a column nor a quantile such as p99".to_owned())
}

impl Sort {
    fn key(self, statistics: &Statistics) -> f64 {
        match self {
            Self::Name | Self::Quantile(_) => 0.0,
            Self::Average | Self::Rate => statistics.time_average,
            Self::Stochastic => statistics.stochastic_average,
            Self::Minimum => statistics.minimum.value,
            Self::Maximum => statistics.maximum.value,
            Self::Total => statistics.sum,
            Self::Count => statistics.count as f64,
        }
    }

    /// Returns the key of a histogram, which has a rate and quantiles.
    fn histogram_key(self, counted: &CountedValues, ranks: &[f64]) -> Option<f64> {
        let place = |rank: f64| ranks.iter().position(|one| same_rank(*one, rank));
        let quantile = |rank| counted.quantiles.get(place(rank)?).copied().flatten();
        match self {
            Self::Average | Self::Rate => Some(counted.rate),
            Self::Count => Some(counted.count),
            Self::Maximum => quantile(1.0),
            Self::Quantile(rank) => quantile(rank),
            Self::Name | Self::Stochastic | Self::Minimum | Self::Total => None,
        }
    }

    /// Sorts lines; those without values come last, equal ones keep their order.
    fn sort(self, lines: &mut [Line<'_>], ranks: &[f64]) {
        if self == Self::Name {
            lines.sort_by_cached_key(|line| {
                (line.metric.metric.name.clone(), line.instance_title())
            });
            return;
        }
        let key = |line: &Line<'_>| {
            if let Some(counted) = &line.histogram {
                return self.histogram_key(counted, ranks);
            }
            if matches!(self, Self::Quantile(_)) {
                return None;
            }
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
    /// The counts, if the metric is a histogram.
    histogram: Option<CountedValues>,
    /// The units of `--units` that averages and extremes are in.
    converted_to: Option<String>,
}

/// Returns whether two quantiles are the same but for rounding.
fn same_rank(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-9
}

impl SummaryCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let archives = self.archive.open(&self.metrics)?;
        let source = Source::from(&archives);
        let zone = self.zone.zone(source.label())?;
        let window = self.window.window(source.start(), source.end(), zone.time_zone())?;
        let mut selection = select_metrics(source, &self.metrics, &self.instances)?;
        if self.metrics.is_empty() {
            // They are the extremes of their gauges.
            selection.retain(|metric| !is_extreme(metric, source.metadata()));
        }
        if self.is_for_people() && !self.all {
            let left_out = unnamed_machinery(selection.metrics(), &self.metrics);
            selection.retain(|metric| !left_out.contains(&metric.desc.pmid));
            note_left_out(left_out.len());
        }
        let span = window.origin..=window.end;
        let histograms = self.histograms(&mut selection, &span)?;
        let ranks = if histograms.is_empty() { Vec::new() } else { self.ranks() };
        let ranks = ranks.as_slice();
        let decrease = if self.counter_wrap { Decrease::Wrap } else { Decrease::Reset };
        let units = self.units.iter().map(|text| WantedUnits::parse(text));
        let units = units.collect::<Result<Vec<_>, _>>()?;
        let (mut summaries, lost) =
            summarize_past_damage(&selection, span, decrease, self.gaps.gaps())?;
        for lost in &lost {
            warn_of_loss(lost, &zone);
        }
        for summary in &mut summaries {
            convert(summary, &units);
        }
        let mut lines = histograms.lines(source.metadata(), ranks);
        lines.extend(metric_lines(source.metadata(), &summaries));
        warn_of_unused_units(&units, &own_units(&lines));
        for line in &mut lines {
            let own = conversion_to(line.metric.units, &units);
            line.converted_to = own.map(|(_, text)| text.to_owned());
            if let Some(counted) = &mut line.histogram {
                counted.convert(&units);
                if let Some((conversion, _)) = own {
                    counted.rate = conversion.apply(counted.rate);
                }
            }
        }
        if self.is_for_people() {
            sort_by_rank(&mut lines, source.metadata());
        }
        if let Some(sort) = self.sort {
            sort.sort(&mut lines, ranks);
        }
        if let Some(top) = self.top {
            lines = self.top_of_each_metric(lines, top, ranks);
        }
        let check = || match check_whole_set(&archives) {
            Ok(()) if !lost.is_empty() => Err(Failure::Lost),
            checked => checked,
        };
        if lines.is_empty() {
            check()?;
            let reason = "the metrics have no numbers in this window";
            return Err(Failure::NoData(reason.to_owned()));
        }
        let mut out = Output::new();
        match self.format.format() {
            Format::Table if self.is_scaled() => {
                let table = SummaryTable {
                    ranks,
                    has_times: self.times,
                    has_total: self.total,
                    is_sorted: self.sort.is_some(),
                    window,
                    zone: &zone,
                };
                table.write(&mut out, &lines)?;
            }
            Format::Table => {
                let table = ExactTable {
                    ranks,
                    has_times: self.times,
                    has_total: self.total,
                    places: usize::from(self.precision.unwrap_or(3)),
                    window,
                    zone: &zone,
                };
                table.write(&mut out, &lines)?;
            }
            Format::Csv => self.write_csv(&mut out, &lines, ranks, &zone)?,
            Format::Jsonl => write_json(&mut out, &lines, ranks, source.metadata())?,
        }
        out.finish()?;
        check()
    }

    /// Returns the first lines of each metric, by the column to sort by or else by means.
    fn top_of_each_metric<'s>(
        &self,
        mut lines: Vec<Line<'s>>,
        top: usize,
        ranks: &[f64],
    ) -> Vec<Line<'s>> {
        if self.sort.is_none() {
            for of_metric in
                lines.chunk_by_mut(|one, other| one.name_of_metric() == other.name_of_metric())
            {
                let highest = ranks.iter().copied().max_by(f64::total_cmp);
                let is_histogram = of_metric.iter().any(|line| line.histogram.is_some());
                let quantile = highest.filter(|_| is_histogram).map(Sort::Quantile);
                quantile.unwrap_or(Sort::Average).sort(of_metric, ranks);
            }
        }
        let mut counts: HashMap<String, usize> = HashMap::new();
        lines.retain(|line| {
            let count = counts.entry_ref(line.name_of_metric()).or_default();
            *count += 1;
            *count <= top
        });
        lines
    }

    /// Returns whether the output is a table of what was computed, not data for programs or values
    /// by PCP's rules.
    fn is_for_people(&self) -> bool {
        self.format.format() == Format::Table && self.gaps.gaps() == Gaps::Keep
    }

    /// Returns whether numbers of a table are rounded, in units that suit them.
    fn is_scaled(&self) -> bool {
        self.is_for_people() && !self.exact && self.precision.is_none()
    }

    /// Returns the quantiles shown for histograms, including the one to sort by.
    fn ranks(&self) -> Vec<f64> {
        let mut ranks = if self.quantile.is_empty() {
            histograms::DEFAULT_QUANTILES.to_vec()
        } else {
            self.quantile.clone()
        };
        if let Some(Sort::Quantile(wanted)) = self.sort
            && !ranks.iter().any(|rank| same_rank(*rank, wanted))
        {
            let place = ranks.iter().take_while(|rank| **rank < wanted).count();
            ranks.insert(place, wanted);
        }
        ranks
    }

    /// Returns what the histograms in a selection counted, and removes them from it, unless the
    /// metrics that they consist of are to be summarized.
    fn histograms(
        &self,
        selection: &mut Selection<'_>,
        span: &RangeInclusive<Timestamp>,
    ) -> Result<Histograms, Failure> {
        let gaps = self.gaps.gaps();
        let is_forced = !self.quantile.is_empty();
        let has_metrics = self.buckets || gaps == Gaps::Join;
        if has_metrics && !is_forced {
            return Ok(Histograms::default());
        }
        let named = NamedSeries { metrics: &self.metrics, instances: &self.instances };
        let found = Histograms::take(selection, named, is_forced, gaps, span)?;
        if is_forced && found.is_empty() {
            return Err(Failure::NoData("none of the metrics is a histogram".to_owned()));
        }
        Ok(found)
    }

    /// Writes a header and a line per instance; missing values are empty fields.
    fn write_csv(
        &self,
        out: &mut Output,
        lines: &[Line<'_>],
        ranks: &[f64],
        zone: &Zone,
    ) -> Result<(), Failure> {
        out.text.extend_from_slice(
            b"Metric,Instance,Units,Count,Observed seconds,Sum,Stochastic average,Time average,\
              Minimum,Minimum at,Minimum seconds,Maximum,Maximum at,Maximum seconds",
        );
        for rank in ranks {
            out.text.extend_from_slice(format!(",{}", quantile_title(*rank)).as_bytes());
        }
        out.text.extend_from_slice(if ranks.is_empty() { b"\r\n" } else { b",Quantile units\r\n" });
        for line in lines {
            csv::push_text(&mut out.text, &line.metric.metric.name);
            out.text.push(b',');
            let title = line.instance_title().unwrap_or_default();
            csv::push_text(&mut out.text, &title);
            out.text.push(b',');
            csv::push_text(&mut out.text, &line.units());
            match (line.statistics, &line.histogram) {
                (Some(statistics), _) => self.push_csv_numbers(out, statistics, zone),
                (None, Some(counted)) => {
                    out.text.extend_from_slice(format!(",{:.0},,,,", counted.count).as_bytes());
                    let places = self.precision.map(usize::from);
                    push_plain(&mut out.text, Value::Double(counted.rate), places);
                    out.text.extend_from_slice(b",,,,,,");
                }
                (None, None) => out.text.extend_from_slice(b",0,,,,,,,,,,"),
            }
            for place in 0..ranks.len() {
                out.text.push(b',');
                let counted = line.histogram.as_ref();
                let value = counted.and_then(|counted| counted.quantiles.get(place).copied());
                if let Some(quantile) = value.flatten() {
                    let places = self.precision.map(usize::from);
                    push_plain(&mut out.text, Value::Double(quantile), places);
                }
            }
            if !ranks.is_empty() {
                out.text.push(b',');
                let units = line.histogram.as_ref().map(CountedValues::units_text);
                csv::push_text(&mut out.text, &units.unwrap_or_default());
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
            csv::push_time(text, zone, extreme.at);
        }
    }
}

impl Line<'_> {
    fn name_of_metric(&self) -> &str {
        &self.metric.metric.name
    }

    fn instance_title(&self) -> Option<Arc<str>> {
        columns::instance_title(self.instance, self.name.as_ref())
    }

    /// Returns whether the average is a rate, as of counters and histograms.
    fn is_rate(&self) -> bool {
        self.histogram.is_some() || self.metric.metric.has_rates()
    }

    /// Returns whether a counter has rates over a small part of a window.
    fn is_short(&self, window: Window) -> bool {
        let seconds = window.end.seconds_since(window.origin);
        let covered = self.statistics.map_or(0.0, |statistics| statistics.seconds / seconds);
        self.histogram.is_none() && self.metric.metric.has_rates() && covered <= MIN_COVERAGE
    }

    /// Returns whether there was more than one value, or a counter grew.
    fn is_changing(&self) -> bool {
        if let Some(counted) = &self.histogram {
            return counted.count > 0.0;
        }
        let Some(statistics) = self.statistics else { return false };
        if self.metric.metric.has_rates() {
            return statistics.sum != 0.0;
        }
        statistics.minimum.value < statistics.maximum.value
    }

    /// Returns the units of all columns except the sum.
    fn units(&self) -> String {
        if let Some(units) = &self.converted_to {
            return units.clone();
        }
        let metric = &self.metric.metric;
        columns::units(metric, metric.has_rates())
    }
}

fn own_units(lines: &[Line<'_>]) -> Vec<(Units, String)> {
    let mut all = Vec::new();
    for line in lines {
        all.push((line.metric.units, line.units()));
        all.extend(line.histogram.as_ref().map(|one| (one.units, one.units_text())));
    }
    all
}

/// Converts averages and extremes to units of the same dimension.
fn convert(summary: &mut MetricSummary, wanted: &[WantedUnits]) {
    let Some((conversion, _)) = conversion_to(summary.units, wanted) else { return };
    for instance in &mut summary.instances {
        let Some(statistics) = &mut instance.statistics else { continue };
        for number in [
            &mut statistics.stochastic_average,
            &mut statistics.time_average,
            &mut statistics.minimum.value,
            &mut statistics.maximum.value,
        ] {
            *number = conversion.apply(*number);
        }
    }
}

/// Sorts lines so that what a person looks at first comes first.
fn sort_by_rank(lines: &mut [Line<'_>], metadata: &Metadata) {
    let changing = lines.iter().filter(|line| line.is_changing());
    let changing: HashSet<&str> = changing.map(|line| line.metric.metric.name.as_str()).collect();
    let mut order = SeriesOrder::new(metadata);
    lines.sort_by_cached_key(|line| {
        let metric = &line.metric.metric;
        order.key(metric, line.instance, !changing.contains(metric.name.as_str()))
    });
}

/// Returns the head of the column of a quantile: `p99`, `Max` of the greatest value.
fn quantile_title(rank: f64) -> String {
    if same_rank(rank, 1.0) {
        return "Max".to_owned();
    }
    format!("p{}", (rank * 1e8).round() / 1e6)
}

fn metric_lines<'s>(metadata: &Metadata, summaries: &'s [MetricSummary]) -> Vec<Line<'s>> {
    let mut names: HashMap<_, HashMap<InstanceId, Arc<str>>> = HashMap::new();
    let mut lines = Vec::new();
    for metric in summaries {
        let indom = metric.metric.desc.indom;
        let names = names.entry(indom);
        let names = names.or_insert_with(|| {
            indom.map(|indom| columns::instance_names(metadata, indom)).unwrap_or_default()
        });
        let of_metric = metric.instances.iter().map(|summary| Line {
            metric,
            instance: summary.instance,
            number: columns::number_in_records(metadata, indom, summary.instance),
            name: summary.instance.and_then(|id| names.get(&id).cloned()),
            statistics: summary.statistics.as_ref(),
            histogram: None,
            converted_to: None,
        });
        let mut of_metric: Vec<Line<'_>> = of_metric.collect();
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
    #[serde(flatten)]
    series: SeriesJson<'s>,
    count: u64,
    #[serde(flatten)]
    numbers: Option<Numbers>,
    #[serde(flatten)]
    histogram: Option<HistogramNumbers>,
}

/// The statistics of a histogram.
#[derive(Serialize)]
struct HistogramNumbers {
    rate: Json<'static>,
    /// By name: `p99`, `max`.
    quantiles: serde_json::Map<String, serde_json::Value>,
    quantile_units: String,
}

/// Statistics of at least one value.
#[derive(Serialize)]
struct Numbers {
    observed_seconds: f64,
    sum: Json<'static>,
    stochastic_average: Json<'static>,
    time_average: Json<'static>,
    minimum: Json<'static>,
    minimum_time: Rfc3339,
    minimum_seconds: EpochSeconds,
    maximum: Json<'static>,
    maximum_time: Rfc3339,
    maximum_seconds: EpochSeconds,
}

fn write_json(
    out: &mut Output,
    lines: &[Line<'_>],
    ranks: &[f64],
    metadata: &Metadata,
) -> Result<(), Failure> {
    let mut labels = InstanceLabels::new(metadata);
    let number = Json::number;
    for line in lines {
        let numbers = line.statistics.map(|statistics| Numbers {
            observed_seconds: statistics.seconds,
            sum: number(statistics.sum),
            stochastic_average: number(statistics.stochastic_average),
            time_average: number(statistics.time_average),
            minimum: number(statistics.minimum.value),
            minimum_time: Rfc3339(statistics.minimum.at),
            minimum_seconds: EpochSeconds(statistics.minimum.at),
            maximum: number(statistics.maximum.value),
            maximum_time: Rfc3339(statistics.maximum.at),
            maximum_seconds: EpochSeconds(statistics.maximum.at),
        });
        let histogram = line.histogram.as_ref().map(|counted| {
            let titles = ranks.iter().map(|rank| quantile_title(*rank).to_lowercase());
            let values = counted.quantiles.iter().map(|value| serde_json::Value::from(*value));
            HistogramNumbers {
                rate: number(counted.rate),
                quantiles: titles.zip(values).collect(),
                quantile_units: counted.units_text(),
            }
        });
        out.json_line(&Object {
            series: SeriesJson {
                metric: &line.metric.metric.name,
                instance: line.instance_title(),
                labels: Cow::Owned(labels.get(line.metric.metric.desc.indom, line.instance)),
                units: Cow::Owned(line.units()),
                pmid: line.metric.metric.desc.pmid.to_string(),
                instance_id: line.number.map(InstanceId::get),
            },
            count: match &line.histogram {
                Some(counted) => counted.count.round() as u64,
                None => line.statistics.map_or(0, |statistics| statistics.count),
            },
            numbers,
            histogram,
        })?;
    }
    Ok(())
}
