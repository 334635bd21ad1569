//! `mmv-archive plot`: metrics over time as lines, in the terminal or an image.

mod extremes;
mod heat;
mod lines;
mod many;
mod terminal;

use std::borrow::Cow;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use hashbrown::{HashMap, HashSet};
use mmv_chart::Line;
use pcp_archive::envelope::Options;
use pcp_archive::internal::programs::for_each_event;
use pcp_archive::replay::{self, Gaps, HistogramValue, Replay, ReplaySelection, Sample};
use pcp_archive::scan::SelectedMetric;
use pcp_archive::{Metadata, Metric, Source, Timestamp};
use pcp_types::parse_interval;

use crate::columns::{Choice, cell, error_columns, sort_columns};
use crate::image::{Image, ImageError, Mark, Panel};
use crate::movement::moved_series;
use crate::options::histograms::NamedSeries;
use crate::options::{ArchiveArgument, DisplayOptions, GapOptions, QuantileOptions};
use crate::order::{SeriesOrder, branch};
use crate::selection::{
    check_complete, has_branch, is_definition_file, leave_out_machinery, select_with_derived,
    warn_of_losses,
};
use crate::text::{Output, no_room_for, output_height, shown, shown_path};
use crate::time::{SpanOptions, Window, Zone, ZoneOptions};
use crate::{Failure, columns, output_file};
use lines::LineCount;

/// The maximum number of samples without a given interval.
const MAX_SAMPLES: u128 = 800;

/// The maximum number of columns of a heat map without a given interval.
const MAX_INTERVALS: u128 = 200;

/// The quantiles of histograms that are plotted by default.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  Draw the last hour in the terminal:
    mmv-archive plot @ --last 1h mmv.shop.orders
  Write an image of the quantiles of a histogram:
    mmv-archive plot @ --last 1h mmv.shop.latency -o latency.png
  Show how often a histogram counted each latency, over time:
    mmv-archive plot @ --last 1h mmv.shop.latency --heatmap
  Draw the three instances with the largest rates:
    mmv-archive plot @ --last 1h mmv.server.requests --top 3";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct PlotCommand {
    #[command(flatten)]
    archive: ArchiveArgument,

    /// Metrics to plot: names, branches of the name space, or patterns such as "disk.*.read", also
    /// with labels: "mmv.shop.requests{code=~'5..'}" [default: the first of each program, as many as fit
    /// on one screen; those of the program that changed most come first]
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,

    /// Also plot a derived metric, or define those of a file, as for report: "free = 100 * mem.free
    /// / mem.total"; may be repeated
    #[arg(
        short = 'e',
        long = "derived",
        value_name = "EXPRESSION|FILE",
        allow_hyphen_values = true
    )]
    expressions: Vec<String>,

    /// Write an image, SVG or PNG by its extension, instead of text to the terminal
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Show only the COUNT instances of each metric with the largest means, of a histogram with the
    /// largest of its highest quantile. The sum of the others of a metric is a line of its own
    /// [default: up to 5 in the terminal, and in an image those that fit the legend]
    #[arg(long, value_name = "COUNT")]
    top: Option<usize>,

    /// Time between samples [default: that between logged values; if those are too many, their
    /// mean, minimum and maximum over equal parts of the window]
    #[arg(short = 't', long, value_name = "INTERVAL")]
    interval: Option<String>,

    /// Size of the image in pixels
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value = "1200x675")]
    size: String,

    /// Plot how many values each histogram counted over time, as colors on a logarithmic axis of
    /// values; as characters where the output is not a terminal
    #[arg(long, conflicts_with_all = ["quantile", "units", "instances", "no_rate"])]
    heatmap: bool,

    #[command(flatten)]
    quantiles: QuantileOptions,

    #[command(flatten)]
    gaps: GapOptions,

    #[command(flatten)]
    span: SpanOptions,

    #[command(flatten)]
    display: DisplayOptions,

    #[command(flatten)]
    zone: ZoneOptions,
}

/// The seconds of a sample by the clock, and what it has for each column.
type Row = (f64, Vec<Option<Reading>>);

type Span = std::ops::RangeInclusive<Timestamp>;

/// Reading at equal distances.
#[derive(Debug, Clone, Copy)]
struct Sampling {
    step: Duration,
    /// Counters are read as rates over the step.
    rates: bool,
    /// A step has several logged values.
    has_several: bool,
}

impl Sampling {
    fn sample_at<'r>(self, replay: &'r Replay<'_>, at: Timestamp) -> Option<Sample<'r>> {
        let since = at.saturating_sub(self.step);
        if self.rates { replay.rates_at(at, since) } else { replay.at_since(at, since) }
    }
}

/// The value of a line at a time.
#[derive(Debug, Clone, Copy)]
struct Reading {
    value: f64,
    /// The least and the greatest value, where it is the mean of several.
    spread: Option<(f64, f64)>,
}

/// The text of a plot, and its clock.
struct Caption {
    title: String,
    subtitle: String,
    clock: Clock,
    /// The metrics that are not drawn, and why; empty if all are.
    note: String,
}

/// Times as seconds of the local clock at the start, so that round times are round
/// in the time zone of the plot.
struct Clock {
    zone: Zone,
    /// Seconds since 1970 of the midnight before the start: doubles keep the
    /// fractions of small numbers.
    zero: i64,
    /// The length of the window in seconds.
    length: f64,
}

const MINUTE: f64 = 60.0;
const DAY: f64 = 86_400.0;

impl Clock {
    fn new(zone: Zone, window: Window) -> Self {
        let ahead = zone.offset(window.start);
        let day = (window.start.seconds().saturating_add(ahead)).div_euclid(86_400);
        let zero = day.saturating_mul(86_400).saturating_sub(ahead);
        Self { zone, zero, length: window.end.seconds_since(window.start) }
    }

    fn seconds(&self, timestamp: Timestamp) -> f64 {
        timestamp.seconds_since(Timestamp::from_nanos(i128::from(self.zero) * 1_000_000_000))
    }

    /// Returns the time of day, to the second.
    fn exact(&self, seconds: f64) -> String {
        self.format(seconds, "%H:%M:%S")
    }

    /// Returns the label of a time among others that are `step` seconds apart, so that they differ.
    fn label(&self, seconds: f64, step: f64) -> String {
        let date = match self.length {
            length if length < 2.0 * DAY => "",
            length if length < 7.0 * DAY => "%a",
            length if length < 300.0 * DAY => "%b %e",
            _ => "%F",
        };
        let time = self.time_format(step);
        if date.is_empty() || time.is_empty() {
            // Midnight is at another time of the window's first day where clocks are set back.
            let noon = if time.is_empty() { DAY / 2.0 } else { 0.0 };
            return self.format(seconds + noon, &[date, time].concat());
        }
        self.format(seconds, &[date, " ", time].concat())
    }

    /// Returns the format of times of day that are `step` seconds apart: at least as precise as the
    /// window suggests.
    fn time_format(&self, step: f64) -> &'static str {
        let suggested = match self.length {
            length if length < 0.01 => 1e-6,
            length if length < 0.1 => 0.001,
            length if length < 1.0 => 0.01,
            length if length < 10.0 => 0.1,
            length if length < 5.0 * MINUTE => 1.0,
            length if length < 7.0 * DAY => MINUTE,
            _ => DAY,
        };
        // Steps are not exact.
        match step.min(suggested) * 1.000_001 {
            least if least < 1e-6 => "%H:%M:%S%.9f",
            least if least < 0.001 => "%H:%M:%S%.6f",
            least if least < 0.01 => "%H:%M:%S%.3f",
            least if least < 0.1 => "%H:%M:%S%.2f",
            least if least < 1.0 => "%H:%M:%S%.1f",
            least if least < MINUTE => "%H:%M:%S",
            least if least < DAY => "%H:%M",
            _ => "",
        }
    }

    fn format(&self, seconds: f64, format: &str) -> String {
        let nanos = i128::from(self.zero) * 1_000_000_000 + (seconds * 1e9).round() as i128;
        self.zone.strftime(Timestamp::from_nanos(nanos), format)
    }
}

impl PlotCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        self.draw(|caption, panels, size| match &self.output {
            Some(path) => write_image(path, caption, panels, size),
            None => self.print(caption, panels),
        })
    }

    /// Returns a PNG instead of writing the output, which has to be an image, and its caption.
    ///
    /// # Errors
    ///
    /// Those of the command.
    pub(crate) fn picture(&self) -> Result<(Vec<u8>, String), Failure> {
        let mut picture = None;
        self.draw(|caption, panels, size| {
            let bytes = image(caption, panels, size).png().map_err(image_failure)?;
            let lines = [&caption.title, &caption.subtitle, &caption.note];
            let lines = lines.into_iter().filter(|line| !line.is_empty()).cloned();
            picture = Some((bytes, lines.collect::<Vec<_>>().join("\n")));
            Ok(())
        })?;
        picture.ok_or_else(|| Failure::NoData("nothing to draw".to_owned()))
    }

    /// Reads what is plotted, and passes the panels and the size of an image to `output`.
    fn draw(
        &self,
        output: impl FnOnce(&Caption, &[Panel], (u32, u32)) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let size = size(&self.size)?;
        // Expressions may use any metric.
        let asked = self.expressions.is_empty().then_some(&*self.metrics);
        let archives = self.archive.open(asked.unwrap_or_default())?;
        let source = Source::from(&archives);
        let zone = self.zone.zone(source.label())?;
        let start = source.start();
        let end = source.end();
        let window = self.span.window(start, end, zone.time_zone())?;
        let selection = self.selection(source)?;
        let sampling = self.sampling(&selection, window)?;
        let used_metrics = selection.used_metrics();
        let span = window.start..=window.end;
        let mut moments = selection.clone().window(span, sampling.step, sampling.step)?;
        warn_of_losses(moments.replay(), &zone);
        let was_whole = moments.is_whole();
        let clock = Clock::new(zone, window);
        let read = PlotSource { selection: &selection, moments: &mut moments, window };
        let panels = self.panels(source, read, sampling, &clock)?;
        let replay = moments.replay();
        if moments.is_whole() && !was_whole {
            warn_of_losses(replay, &clock.zone);
        }
        let (mut panels, note) = self.fitting(panels, source, size);
        mark_restarts(&mut panels, source, &used_metrics, window, &clock)?;
        panels.iter_mut().for_each(make_printable);
        let caption = Caption { note, ..self.caption(source, window, clock, &panels) };
        output(&caption, &panels, size)?;
        check_complete(replay, &archives)
    }

    /// Prints the panels as text.
    fn print(&self, caption: &Caption, panels: &[Panel]) -> Result<(), Failure> {
        let width = self.display.width();
        let mut out = Output::new();
        // The names are printable; colors have escape sequences.
        out.write_raw();
        out.text.extend_from_slice(
            terminal::render(caption, panels, width, output_height(), has_colors()).as_bytes(),
        );
        out.finish()
    }

    fn selection<'a>(&self, source: Source<'a>) -> Result<ReplaySelection<'a>, Failure> {
        let selection = Replay::open(source).gaps(self.gaps.gaps()).read_on();
        let mut selection = select_with_derived(selection, &self.metrics, &self.expressions)?;
        if !self.display.all && self.gaps.gaps() == Gaps::Keep {
            leave_out_machinery(&mut selection, &self.metrics);
        }
        self.quantiles.apply(&mut selection)?;
        if self.heatmap && selection.quantiles(&QUANTILES[..1]) == 0 {
            return Err(Failure::NoData("none of the metrics is a histogram".to_owned()));
        }
        if self.quantiles.quantile.is_empty() {
            let named = NamedSeries { metrics: &[], instances: &self.display.instances };
            let values = QUANTILES.map(HistogramValue::Quantile);
            selection
                .histograms(&values, |counter| named.selects_histogram(source.metadata(), counter));
        }
        Ok(selection)
    }

    /// Returns the lines, by unit.
    fn panels(
        &self,
        source: Source<'_>,
        PlotSource { selection, moments: window, window: whole }: PlotSource<'_, '_>,
        sampling: Sampling,
        clock: &Clock,
    ) -> Result<Vec<Panel>, Failure> {
        let units = self.display.units()?;
        let instances = self.display.instances.as_slice();
        let Sampling { step, rates, has_several } = sampling;
        let choice = Choice { instances, rates, units: &units, ..Choice::default() };
        let mut columns = columns::columns(source.metadata(), window.replay(), &choice);
        let mut order = SeriesOrder::new(source.metadata());
        if self.is_selective(source.metadata()) && self.gaps.gaps() == Gaps::Keep {
            let metrics = selection.used_metrics();
            let first = moved_series(source, &metrics, (whole.start, whole.end));
            order = order.with_first(first);
        }
        sort_columns(&mut columns, &self.metrics, window.replay(), order);
        if self.heatmap {
            let top = self.top.unwrap_or(4);
            let panels = heat::panels(source, window, whole.start, step, clock, top)?;
            if panels.is_empty() {
                let reason = "the histograms counted nothing at these times";
                return Err(Failure::NoData(reason.to_owned()));
            }
            return Ok(panels);
        }
        let count = match (self.top, &self.output) {
            (Some(top), _) => LineCount::EachMetric(top),
            (None, None) => LineCount::UnitTotal(5),
            (None, Some(_)) => LineCount::FitLegend,
        };
        let histogram = |metric| window.replay().histogram_of(metric);
        let errors = error_columns(source.metadata(), window.replay(), &columns);
        let is_error =
            |column: &columns::Column| errors.contains(&(column.metric, column.instance));
        let readings = columns.len() as u128 * most_rows(whole, step);
        if readings > many::MAX_READINGS && !window.is_whole() {
            let is_kept = |column: &columns::Column| {
                histogram(column.metric).is_some() || (self.top.is_none() && is_error(column))
            };
            let span = whole.start..=whole.end;
            let top = count.max_lines();
            let reduced = many::reduce(selection, columns, top, &is_kept, &span, sampling, clock)?;
            let layout = self.layout(count, &histogram, &is_error);
            let many::ReducedColumns { columns, rows, sums } = reduced;
            return some_panels(lines::panels(&columns, &sums, &rows, &layout));
        }
        let is_plain = self.expressions.is_empty()
            && !window.is_whole()
            && columns.iter().all(|column| histogram(column.metric).is_none());
        let reduced = Some(whole).filter(|_| has_several && is_plain).and_then(|whole| {
            let options = Options { rates, gaps: self.gaps.gaps() };
            // The samples pass by damage, and say what is lost.
            extremes::rows(source, window.replay(), &columns, options, whole, step, clock).ok()
        });
        let rows = match reduced {
            Some(rows) => rows,
            None => rows(window, &columns, sampling, clock)?,
        };
        let histogram = |metric| window.replay().histogram_of(metric);
        let layout = self.layout(count, &histogram, &is_error);
        some_panels(lines::panels(&columns, &[], &rows, &layout))
    }

    fn layout<'o, 'a>(
        &self,
        count: LineCount,
        histogram: &'o dyn Fn(usize) -> Option<&'a str>,
        is_error: &'o dyn Fn(&columns::Column) -> bool,
    ) -> lines::Layout<'o, 'a> {
        let is_separate = self.output.is_none();
        let keeps_units = self.display.has_units();
        lines::Layout { count, is_separate, keeps_units, histogram, is_error }
    }

    /// Returns the panels that can be read in the image, or that fit the terminal, and a line that
    /// names the others. All are drawn where metrics were asked for by their full names.
    fn fitting(
        &self,
        mut panels: Vec<Panel>,
        source: Source<'_>,
        size: (u32, u32),
    ) -> (Vec<Panel>, String) {
        sort_instances(&mut panels);
        // Constants come last.
        panels.sort_by_key(|panel| panel.heat.is_empty() && panel.lines.iter().all(is_constant));
        if !self.is_selective(source.metadata()) {
            return (panels, String::new());
        }
        if self.output.is_none() {
            panels = first_instances_first(panels);
        }
        take_programs_in_turn(&mut panels);
        let room = match self.output {
            Some(_) => Image::max_panels(size.0, size.1),
            None => terminal::max_charts(output_height()),
        };
        let mut others = panels.split_off(room.min(panels.len()));
        let mut left_out: Vec<String> = others.iter_mut().map(|panel| name_of(panel)).collect();
        if self.output.is_none() {
            left_out.extend(terminal::shorten(&mut panels, room));
        }
        if left_out.is_empty() {
            return (panels, String::new());
        }
        left_out.dedup();
        (panels, shown(&no_room_for(&left_out)).into_owned())
    }

    /// Returns whether as many panels are drawn as there is room for: where metrics are not asked for
    /// by their full names.
    fn is_selective(&self, metadata: &Metadata) -> bool {
        let has_names = !self.metrics.is_empty() || !self.expressions.is_empty();
        !has_names || has_branch(&self.metrics, metadata)
    }

    /// Returns the interval between samples: unless it is given, that of logged values, or a longer
    /// one. Rates over less than that would show how values in between are rounded.
    fn sampling(
        &self,
        selection: &ReplaySelection<'_>,
        window: Window,
    ) -> Result<Sampling, Failure> {
        let span = window.end.nanos_since(window.start).unsigned_abs();
        let most = if self.heatmap { MAX_INTERVALS } else { MAX_SAMPLES };
        let least = Duration::from_nanos((span / most).max(1) as u64);
        let (step, has_several) = match &self.interval {
            Some(text) => (parse_interval(text)?, false),
            None => match logged_interval(selection, window, least)? {
                Some(logged) => (logged.max(least), logged < least),
                None => (least, false),
            },
        };
        if step.is_zero() {
            return Err(Failure::Usage("the interval between samples is zero".to_owned()));
        }
        Ok(Sampling { step, rates: !self.display.no_rate, has_several })
    }

    fn caption(
        &self,
        source: Source<'_>,
        window: Window,
        clock: Clock,
        panels: &[Panel],
    ) -> Caption {
        let period = clock.zone.period(&(window.start..=window.end));
        let subtitle = format!("{}, {period}", source.label().hostname);
        let expressions = self.expressions.iter().filter(|text| !is_definition_file(text));
        let titles: Vec<&str> =
            self.metrics.iter().chain(expressions).map(String::as_str).collect();
        let titles = if titles.is_empty() { branches(panels) } else { titles };
        let title = shown(&titles.join(", ")).into_owned();
        Caption { title, subtitle: shown(&subtitle).into_owned(), clock, note: String::new() }
    }
}

/// The source of the lines of a plot.
struct PlotSource<'r, 'a> {
    selection: &'r ReplaySelection<'a>,
    moments: &'r mut replay::Window<'a>,
    window: Window,
}

fn most_rows(window: Window, step: Duration) -> u128 {
    let span = window.end.nanos_since(window.start).unsigned_abs();
    span / step.as_nanos().max(1) + 1
}

fn some_panels(panels: Vec<Panel>) -> Result<Vec<Panel>, Failure> {
    if panels.is_empty() {
        return Err(Failure::NoData("the metrics have no numbers in this window".to_owned()));
    }
    Ok(panels)
}

fn number(sample: &Sample<'_>, column: &columns::Column) -> Option<f64> {
    cell(sample, column).and_then(|value| value.as_f64())
}

/// Returns the values at the times of samples, or the rates before them.
fn rows(
    window: &mut replay::Window<'_>,
    columns: &[columns::Column],
    sampling: Sampling,
    clock: &Clock,
) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    window.for_each(
        |replay, span| {
            let mut rows: Vec<Row> = Vec::new();
            for timestamp in replay::times(span, sampling.step) {
                let Some(sample) = sampling.sample_at(replay, timestamp) else { continue };
                let readings = columns
                    .iter()
                    .map(|column| Some(Reading { value: number(&sample, column)?, spread: None }));
                rows.push((clock.seconds(sample.timestamp), readings.collect()));
            }
            Ok::<_, Failure>(rows)
        },
        |more| {
            rows.extend(more);
            Ok(())
        },
    )?;
    Ok(rows)
}

/// Returns the usual time between logged values, where the window begins to have some.
fn logged_interval(
    selection: &ReplaySelection<'_>,
    window: Window,
    step: Duration,
) -> Result<Option<Duration>, Failure> {
    let span = window.start..=window.end;
    let mut moments = selection.clone().window(span, step, Duration::ZERO)?;
    while moments.next_batch()?.is_some() {
        if let Some(interval) = moments.replay().typical_interval() {
            return Ok(Some(interval));
        }
    }
    Ok(None)
}

/// Returns whether the output has colors: on a terminal, unless `NO_COLOR` is set.
fn has_colors() -> bool {
    let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stdout().is_terminal() && !is_unwanted
}

/// Returns whether a line has one value at all times.
fn is_constant(line: &Line) -> bool {
    let mut values = line.points.iter().filter_map(|(_, value)| *value);
    let first = values.next();
    let has_spread = line.spreads.iter().any(Option::is_some);
    !has_spread && values.all(|value| Some(value) == first)
}

/// Puts the panels of the instances of each histogram in order: the one that rose most and longest
/// is the first.
fn sort_instances(panels: &mut [Panel]) {
    let is_of_one_histogram =
        |one: &Panel, next: &Panel| one.is_histogram && one.metrics == next.metrics;
    for instances in panels.chunk_by_mut(is_of_one_histogram) {
        instances.sort_by(|one, other| rise(other).total_cmp(&rise(one)));
    }
}

/// Moves the panels of all but the first instance of each histogram behind the others.
fn first_instances_first(panels: Vec<Panel>) -> Vec<Panel> {
    let mut seen = HashSet::new();
    let (mut first, others): (Vec<Panel>, Vec<Panel>) = panels
        .into_iter()
        .partition(|panel| !panel.is_histogram || seen.insert(panel.metrics.clone()));
    first.extend(others);
    first
}

/// Puts the first panel of each program before the second of any.
fn take_programs_in_turn(panels: &mut [Panel]) {
    let mut counts: HashMap<String, usize> = HashMap::new();
    let turns = panels.iter().map(|panel| {
        let program = panel.metrics.first().map_or("", |name| branch(name));
        let count = counts.entry(program.to_owned()).or_default();
        *count += 1;
        *count
    });
    let turns: Vec<usize> = turns.collect();
    let mut turns = turns.into_iter();
    panels.sort_by_cached_key(|_| turns.next());
}

/// Returns the branches of the metrics of panels.
fn branches(panels: &[Panel]) -> Vec<&str> {
    let names = panels.iter().flat_map(|panel| &panel.metrics);
    let mut branches: Vec<&str> = names.map(|name| branch(name)).collect();
    let mut seen = HashSet::new();
    branches.retain(|branch| seen.insert(*branch));
    branches
}

/// Returns the average distance of the values of a panel's first line above the lowest quarter of
/// them, as a logarithm of the ratio. A single high value of a fast endpoint weighs little, and a
/// long incident more than a short one.
fn rise(panel: &Panel) -> f64 {
    let Some(line) = panel.lines.first() else { return 0.0 };
    let values = line.points.iter().filter_map(|(_, value)| *value);
    let mut values: Vec<f64> = values.filter(|value| *value > 0.0).collect();
    values.sort_unstable_by(f64::total_cmp);
    let Some(usual) = values.get(values.len() / 4) else { return 0.0 };
    let excess = values.iter().map(|value| (value / usual).ln().max(0.0));
    excess.sum::<f64>() / values.len() as f64
}

/// Returns the heading of a panel without its unit.
fn name_of(panel: &Panel) -> String {
    let heading = panel.unit.split(": ").next().unwrap_or_default();
    match panel.metrics.as_slice() {
        [metric] if !panel.is_histogram => metric.clone(),
        [_, _, ..] if !panel.is_histogram && !heading.contains('.') => panel.metrics.join(", "),
        _ => heading.to_owned(),
    }
}

/// Adds to each panel the times within the window at which programs of its metrics started.
fn mark_restarts(
    panels: &mut [Panel],
    source: Source<'_>,
    used_metrics: &[SelectedMetric],
    window: Window,
    clock: &Clock,
) -> Result<(), Failure> {
    let metadata = source.metadata();
    for_each_event(source, window.start..=window.end, |event| {
        if !event.boundary().is_some_and(|boundary| boundary.from_zero) {
            return;
        }
        let is_used =
            || used_metrics.iter().any(|metric| event.concerns(&metric.name, metric.desc.pmid));
        let label = format!("{} {}", event.file.unwrap_or_default(), event.kind);
        let mark = Mark { at: clock.seconds(event.at), label: shown(&label).into_owned() };
        for panel in &mut *panels {
            // An expression has no program, but the metrics that it is made of have.
            let concerns = panel.metrics.iter().any(|name| {
                let metric = metadata.metric_by_name(name).or_else(|| buckets_of(name, metadata));
                metric.map_or_else(is_used, |metric| event.concerns(name, metric.desc.pmid))
            });
            if concerns && panel.marks.last() != Some(&mark) {
                panel.marks.push(mark.clone());
            }
        }
    })?;
    Ok(())
}

/// Returns the counter of buckets of a histogram, by its name or that of one of its quantiles.
fn buckets_of<'m>(name: &str, metadata: &'m Metadata) -> Option<&'m Metric> {
    let histogram = name.rsplit_once('.').map(|(histogram, _quantile)| histogram);
    let mut names = [Some(name), histogram].into_iter().flatten();
    names.find_map(|name| metadata.metric_by_name(&format!("{name}.bucket")))
}

/// Parses a size in pixels, such as `1200x675`.
fn size(text: &str) -> Result<(u32, u32), Failure> {
    let sides = text.split_once('x').and_then(|(width, height)| {
        Some((width.trim().parse().ok()?, height.trim().parse().ok()?))
    });
    sides.ok_or_else(|| Failure::Usage(format!("\"{text}\" is not a size such as 1200x675")))
}

fn image<'a>(caption: &'a Caption, panels: &'a [Panel], size: (u32, u32)) -> Image<'a> {
    let (width, height) = size;
    Image::new(&caption.title, panels)
        .subtitle(&caption.subtitle)
        .size(width, height)
        .note(&caption.note)
        .time_labels(|seconds, step| caption.clock.label(seconds, step))
}

fn image_failure(error: ImageError) -> Failure {
    match error {
        ImageError::Size { .. } => Failure::Usage(error.to_string()),
        error => Failure::Output(std::io::Error::other(error)),
    }
}

fn write_image(
    path: &Path,
    caption: &Caption,
    panels: &[Panel],
    size: (u32, u32),
) -> Result<(), Failure> {
    let image = image(caption, panels, size);
    let extension = path.extension().and_then(|extension| extension.to_str());
    let bytes = match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("svg") => image.svg().map(String::into_bytes),
        Some("png") => image.png(),
        _ => {
            let path = shown_path(path);
            return Err(Failure::Usage(format!(
                "{path}: the name of an image must end in .svg or .png"
            )));
        }
    };
    let written = output_file::write(path, &bytes.map_err(image_failure)?);
    written.map_err(|error| Failure::Image(format!("{}: {error}", shown_path(path))))
}

/// Replaces characters that terminals or XML cannot show in the names of a panel.
fn make_printable(panel: &mut Panel) {
    for text in panel.lines.iter_mut().map(|line| &mut line.label).chain([&mut panel.unit]) {
        if let Cow::Owned(printable) = shown(text) {
            *text = printable;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    #[test]
    fn a_size_is_two_numbers() {
        assert_eq!(size("800x600").unwrap(), (800, 600));
        for text in ["", "800", "x", "800x", "8e2x600", "-1x5"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn instance_that_was_slow_for_long_is_before_a_fast_one_with_a_peak() {
        let panel = |label: &str, values: &dyn Fn(i32) -> f64| {
            let points = (0..90).map(|at| (f64::from(at), Some(values(at)))).collect();
            let line = Line { label: label.to_owned(), points, ..Line::default() };
            let metrics = vec!["mmv.jobs.latency".to_owned()];
            Panel { is_histogram: true, metrics, lines: vec![line], ..Panel::default() }
        };
        let noise = |at: i32| 1.0 + f64::from(at * 7 % 10) / 10.0;
        let peak = |at: i32| if at == 50 { 6.0 } else { 1.7 * noise(at).sqrt() };
        let long = |at: i32| if (30..70).contains(&at) { 40.0 } else { 5.0 };
        let always = |at: i32| 900.0 * noise(at).sqrt();
        let mut panels =
            vec![panel("/mail", &peak), panel("/report", &always), panel("/render", &long)];
        sort_instances(&mut panels);
        assert_eq!(panels[0].lines[0].label, "/render");
        let panels = first_instances_first(panels);
        assert_eq!(panels.len(), 3);
        assert_eq!(panels[0].lines[0].label, "/render");
    }

    #[test]
    fn round_times_are_round_on_the_clock_of_the_zone() {
        // 03:43:20 in India, half an hour off the hours of UTC.
        let start = Timestamp::new(1_700_000_000, 0).unwrap();
        let end = start.saturating_add(Duration::from_secs(3600));
        let window = Window { start, end, origin: start };
        let clock = Clock::new(Zone::new(TimeZone::posix("IST-5:30").unwrap()), window);
        let since_midnight = 3.0 * 3600.0 + 43.0 * 60.0 + 20.0;
        assert!((clock.seconds(start) - since_midnight).abs() < 1e-9);
        assert_eq!(clock.label(4.0 * 3600.0, 600.0), "04:00");
        for (millis, label) in [(8_000, "04:00:00.5"), (800, "04:00:00.50"), (80, "04:00:00.500")] {
            let end = start.saturating_add(Duration::from_millis(millis));
            let zone = Zone::new(TimeZone::posix("IST-5:30").unwrap());
            let clock = Clock::new(zone, Window { start, end, origin: start });
            assert_eq!(clock.label(4.0 * 3600.0 + 0.5, 1.0), label);
        }
    }

    #[test]
    fn labels_of_neighbouring_ticks_differ() {
        // Clocks are set back in this window: 29 October has 25 hours.
        let start = Timestamp::new(1_698_500_000, 0).unwrap();
        let steps = [1e-6, 0.0005, 0.005, 0.05, 0.5, 5.0, 30.0, 300.0, 43_200.0, DAY, 31_536_000.0];
        for step in steps {
            for count in [2, 7, 24] {
                let length = Duration::from_secs_f64(step * f64::from(count));
                let window = Window { start, end: start.saturating_add(length), origin: start };
                let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
                let clock = Clock::new(Zone::new(zone), window);
                let first = (clock.seconds(start) / step).ceil();
                let mut labels: Vec<String> = (0..count)
                    .map(|tick| clock.label((first + f64::from(tick)) * step, step))
                    .collect();
                labels.dedup();
                assert_eq!(labels.len(), count as usize, "{step}: {labels:?}");
            }
        }
    }
}
