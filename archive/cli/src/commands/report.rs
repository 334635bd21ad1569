//! `mmv-archive report`: the values of metrics over time.
//!
//! The options become a `Request` (which times, how counters are converted), the
//! metrics a selection; `samples` reads them and passes them to the writer of the
//! format.

mod conditions;
mod largest;
mod samples;

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use hashbrown::HashSet;
use mmv_chart::axis::time_step;
use pcp_archive::internal::programs::{ProgramEvent, for_each_event};
use pcp_archive::replay::{Decrease, Expression, Gaps, Replay, ReplaySelection, SelectedMetric};
use pcp_archive::{Metadata, Pmid, Source, Timestamp};
use pcp_types::parse_interval;

use crate::columns::sort_columns;
use crate::columns::{Choice, Column};
use crate::formats::{Format, Report, Writer};
use crate::left_out::check_whole_set;
use crate::movement::{CONTEXT, moved_series};
use crate::options::histograms::{self, NamedSeries};
use crate::options::{ArchiveArgument, DisplayOptions, FormatOptions, GapOptions};
use crate::order::{MovedSeries, SeriesOrder, branch, histogram_name};
use crate::screen::{NamedColumn, left_out, put_first_numbers_first, put_p99_next_to_rate};
use crate::selection::{
    check_complete, has_branch, leave_out_machinery, select_with_derived, warn_of_losses,
};
use crate::text::{no_room_for, output_height, shown, shown_path, terminal_height, warn};
use crate::time::{Frame, Window, WindowOptions, Zone, ZoneOptions};
use crate::{Failure, columns, time};
use samples::{Request, SampleTimes, Samples};

/// The options of samples at regular intervals, which conflict with given times.
const REGULAR: [&str; 5] = ["start", "finish", "last", "align", "origin"];

/// Maximum age of the last record of an archive that is still being written.
const RECENT: Duration = Duration::from_secs(120);

/// Records in which the last value is searched for: about a day of one each second, which takes
/// less than a second.
const MAX_SEARCHED: usize = 100_000;

/// The rows of a report without given times, where standard output is not a terminal.
const DEFAULT_ROWS: usize = 20;
/// Lines of a terminal beside the rows: title, head and rule, the note and the next prompt.
const HEAD_ROWS: usize = 8;
/// Lines of a screen reserved for the messages around a table and for the next prompt.
const NOTE_LINES: usize = 5;
/// The most programs that have a panel each in a report without names, the lines of its head, and
/// its fewest rows.
const MAX_PANELS: usize = 3;
const PANEL_HEAD: usize = 6;
const MIN_PANEL_ROWS: usize = 4;
/// The fewest rows of a report without given times, on the smallest terminals.
const MIN_ROWS: usize = 10;
/// The length of a report without given times.
const MINUTE: Duration = Duration::from_secs(60);
const NANOS_PER_SECOND: u128 = 1_000_000_000;
/// The intervals that a minute is divided into.
const ROUND_SECONDS: [u64; 10] = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20];

const EXAMPLES: &str = "\
Examples:
  The p99 of the last minute:
    mmv-archive report @ --last 1m -t 1m mmv.shop.latency --quantile p99
  The rate in each minute of the last hour, with restarts of the program:
    mmv-archive report @ --last 1h -t 1m mmv.shop.orders --events
  The share of one endpoint in all requests:
    mmv-archive report @ --last 1m -e \\
        'rate(mmv.server.requests[cart]) / sum(rate(mmv.server.requests))'
  Fail if the p99 was above 50 ms in a minute of the last hour:
    mmv-archive report @ --last 1h -t 1m mmv.shop.latency \\
        --fail-if 'p99(mmv.shop.latency) > 50ms'
  Values as they were logged, for a spreadsheet:
    mmv-archive report @ --last 1h --raw mmv.shop.orders --format csv";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option on the command line")]
pub(crate) struct ReportCommand {
    #[command(flatten)]
    archive: ArchiveArgument,

    /// Metrics to report: names, branches of the name space, or patterns such as "disk.*.read",
    /// also with labels: "mmv.shop.requests{code=~'5..'}" [default: the first of each program, as many as fit
    /// on one screen; those of the program that changed most come first]
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,

    /// Also report a derived metric: "free = 100 * mem.free / mem.total",
    /// "sum(rate(disk.dev.read))", "net.in.bytes[eth0]", "sum(web.requests{code=~'5..'})"; with the
    /// operators + - * /, comparisons, && || ! ?:, and the functions rate, delta, instant, sum,
    /// avg, min, max, count, sum by (path) (x), scalar, defined, novalue, mkconst, matchinst,
    /// rescale(x, "Mbyte"), p99(histogram), below(100ms, histogram), max_over(x) of the values
    /// in the interval, min_over, avg_over, topk(3, x), x or 0. Or read definitions from a file or
    /// directory, named with a leading /, ./ or ../, and report those that METRIC selects, or all.
    /// May be repeated
    #[expect(clippy::doc_markdown, reason = "the help has no backticks")]
    #[arg(
        short = 'e',
        long = "derived",
        value_name = "EXPRESSION|FILE",
        allow_hyphen_values = true,
        conflicts_with = "raw"
    )]
    expressions: Vec<String>,

    /// Report the sum over all instances of each METRIC; expressions have a function for it
    #[arg(long, requires = "metrics", conflicts_with_all = ["raw", "instances", "quantile"])]
    sum: bool,

    /// Show only the COUNT instances of each metric with the largest means, of a histogram with the
    /// largest of its highest quantile. Those of the whole window; the others are left out
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["raw", "stepping", "sum"])]
    top: Option<usize>,

    /// Show these quantiles of each histogram: p50,p99,1; p99, 99 and 0.99 are the same. They are of
    /// the values counted in the interval before each sample; if the program restarted or nothing
    /// was logged for part of the interval, only the remaining part is used [default: values per
    /// second, p50, p99 and maximum]
    #[arg(long, value_name = "QUANTILE", value_delimiter = ',', value_parser = histograms::quantile)]
    #[arg(conflicts_with_all = ["raw", "stepping"])]
    quantile: Vec<f64>,

    /// Show the buckets of histograms; so does the name of their counter, as mmv.shop.latency.bucket
    #[arg(long, conflicts_with = "quantile")]
    buckets: bool,

    /// Exit with status 1 if this expression, as of --derived, is not 0 in a row, for any instance:
    /// "p99(mmv.shop.latency) > 50ms"; also if it has no value in any row. May be repeated
    #[arg(long, value_name = "CONDITION", conflicts_with_all = ["raw", "stepping"])]
    fail_if: Vec<Expression>,

    /// Print what happened to the programs of the metrics between the rows of the table: when
    /// they appeared, ended or were restarted
    #[arg(long, conflicts_with_all = ["json", "at", "times"])]
    events: bool,

    /// Report the values as they were logged, at the times they were logged
    #[arg(long, conflicts_with_all = ["at", "times", "interval", "samples", "align", "origin"])]
    raw: bool,

    /// Report the values at this time, a date or SECONDS.NANOSECONDS since 1970; of an archive that
    /// is being written, the last ones at "now"; may be repeated
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = REGULAR)]
    at: Vec<String>,

    /// Report the values at the times in this file, one per line
    #[arg(long, value_name = "FILE", conflicts_with_all = REGULAR)]
    times: Option<PathBuf>,

    /// Time between samples: 250ms, 5min, 1h30m; rates are averages over it, other values are those
    /// at the time of the sample [default: 1s]
    #[arg(short = 't', long, value_name = "INTERVAL")]
    interval: Option<String>,

    /// Choose the interval, a round one of at least a second, so that the window has at most this
    /// many rows
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(2..))]
    #[arg(conflicts_with_all = ["interval", "samples", "raw", "at", "times"])]
    rows: Option<u32>,

    /// Stop after this many samples
    #[arg(short = 's', long, value_name = "COUNT")]
    samples: Option<usize>,

    /// Convert counters to rates per second [default in tables]
    #[arg(long, conflicts_with_all = ["no_rate", "raw"])]
    rate: bool,

    /// Print all digits of numbers in tables, in the units of their metrics, and whole names and
    /// dates in their heads and rows
    #[arg(long)]
    exact: bool,

    /// Decimal places of floating-point numbers in CSV and in tables, which are then exact [default
    /// for rates in exact tables: 3]
    #[arg(long, value_name = "PLACES", value_parser = clap::value_parser!(u8).range(..=20))]
    precision: Option<u8>,

    /// Treat an integer counter that decreases as wrapped, not as reset
    #[arg(long)]
    counter_wrap: bool,

    /// Report no counter at the first sample after a mark, as PCP's own programs do when they
    /// step through an archive
    #[arg(long, conflicts_with_all = ["raw", "rate", "at", "times"])]
    stepping: bool,

    #[command(flatten)]
    gaps: GapOptions,

    #[command(flatten)]
    window: WindowOptions,

    #[command(flatten)]
    display: DisplayOptions,

    #[command(flatten)]
    format: FormatOptions,

    #[command(flatten)]
    zone: ZoneOptions,
}

impl ReportCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        // Expressions may use any metric.
        let asked = self.expressions.is_empty().then_some(&*self.metrics);
        let archives = self.archive.open(asked.unwrap_or_default())?;
        let source = Source::from(&archives);
        let zone = self.zone.zone(source.label())?;
        let frame = Frame {
            start: source.start(),
            end: source.end(),
            now: Timestamp::now(),
            zone: zone.time_zone().clone(),
        };
        let conditions = conditions::select(self.replay(source), &self.fail_if)?;
        let selection = self.selection(source)?;
        let used_metrics = selection.used_metrics();
        let last = self.last_screen(source, &used_metrics, &frame)?;
        let (window, step) = if let Some(last) = last {
            last
        } else {
            let step = self.step(&frame)?;
            (self.window(step, &frame, &selection)?, step)
        };
        let context = match last {
            Some((window, _)) => (window.end.saturating_sub(CONTEXT), window.end),
            None => (window.start, window.end),
        };
        let first = self.first_series(source, &used_metrics, context);
        let request = self.request(window, step, &frame, &selection)?;
        let mut samples = Samples::new(selection.clone(), &request)?;
        let replay = samples.replay();
        warn_of_losses(replay, &zone);
        let mut columns = self.columns(source, replay, first)?;
        if columns.is_empty() {
            check_whole_set(&archives)?;
            return Err(no_values(source, &used_metrics, &request));
        }
        if let Some(top) = self.top {
            let left_out =
                largest::keep(&mut columns, top, selection, source.metadata(), &request)?;
            if left_out > 0 {
                warn(&format_args!("{left_out} more instances are left out by --top"));
            }
        }
        let pmids = replay.metrics().map(|metric| metric.desc.pmid.to_string()).collect();
        let width = self.display.width();
        let places = self.places(window, step);
        let precision = self.precision.map(usize::from);
        let metadata = source.metadata();
        let events = self.events(source, &used_metrics, window)?;
        let title = self.title(window, &zone);
        let max_lines = self.max_lines(metadata);
        let report = Report {
            metadata,
            pmids,
            columns,
            zone,
            places,
            precision,
            width,
            title,
            max_lines,
            events,
        };
        let names = names_of(&report.columns, metadata, replay);
        let mut writer = Writer::begin(report, self.format.format());
        samples.write(&request, &mut writer)?;
        let written = writer.finish()?;
        check_complete(samples.replay(), &archives)?;
        if written.values == 0 {
            return Err(no_values(source, &used_metrics, &request));
        }
        if !written.left_out.is_empty() {
            warn(&no_room_for(&left_out(&names, &written.left_out)));
        }
        if !self.fail_if.is_empty() {
            conditions::check(conditions, &self.fail_if, &request, &request.zone)?;
        }
        Ok(())
    }

    /// Starts a selection with the rules of the options.
    fn replay<'a>(&self, source: Source<'a>) -> ReplaySelection<'a> {
        let decrease = if self.counter_wrap { Decrease::Wrap } else { Decrease::Reset };
        Replay::open(source).decrease(decrease).gaps(self.gaps.gaps()).read_on()
    }

    fn selection<'a>(&self, source: Source<'a>) -> Result<ReplaySelection<'a>, Failure> {
        let selection = self.replay(source);
        let mut selection = select_with_derived(selection, &self.metrics, &self.expressions)?;
        if self.is_for_people() && !self.display.all {
            leave_out_machinery(&mut selection, &self.metrics);
        }
        if !self.quantile.is_empty() && selection.quantiles(&self.quantile) == 0 {
            return Err(Failure::NoData("none of the metrics is a histogram".to_owned()));
        }
        if self.shows_histograms() {
            let named = NamedSeries { metrics: &self.metrics, instances: &self.display.instances };
            histograms::replace_bucket_counters(&mut selection, named);
        }
        if self.sum {
            selection.sum_instances(self.has_rates())?;
        }
        Ok(selection)
    }

    /// Returns the events within the window of the programs of used metrics, and of the agent.
    fn events(
        &self,
        source: Source<'_>,
        metrics: &[SelectedMetric],
        window: Window,
    ) -> Result<Vec<(Timestamp, String)>, Failure> {
        let mut events = Vec::new();
        if !self.events {
            return Ok(events);
        }
        if self.format.format() != Format::Table {
            let reason = "--events is for tables; print events with mmv-archive events --json";
            return Err(Failure::Usage(reason.to_owned()));
        }
        let span = window.start..=window.end;
        for_each_event(source, span, |event| {
            let is_wanted =
                |metric: &SelectedMetric| event.concerns(&metric.name, metric.desc.pmid);
            if event.file.is_none() || metrics.iter().any(is_wanted) {
                events.push((event.at, event_text(event)));
            }
        })?;
        events.sort_by_key(|(at, _)| *at);
        Ok(events)
    }

    /// Returns whether the output is a table of what was computed, not data for programs or values
    /// by PCP's rules.
    fn is_for_people(&self) -> bool {
        let is_table = self.format.format() == Format::Table;
        is_table && !self.raw && !self.stepping && self.gaps.gaps() == Gaps::Keep
    }

    /// Returns whether numbers of a table are rounded, in units that suit them.
    fn is_scaled(&self) -> bool {
        self.is_for_people() && !self.exact && self.precision.is_none()
    }

    /// Returns the title of a table whose numbers are scaled: the date, if all rows are of one day.
    fn title(&self, window: Window, zone: &Zone) -> Option<String> {
        if !self.is_scaled() {
            return None;
        }
        let date = |at| zone.strftime(at, "%F");
        let is_one_day = self.at.is_empty() && self.times.is_none();
        let first = date(window.origin);
        let is_one_day = is_one_day && first == date(window.end);
        Some(if is_one_day { first } else { String::new() })
    }

    fn has_no_names(&self) -> bool {
        self.metrics.is_empty() && self.expressions.is_empty()
    }

    /// Returns whether the times of the rows, or the window, are given.
    fn has_times(&self) -> bool {
        let WindowOptions { span, align, origin } = &self.window;
        let has_rows = !self.at.is_empty() || self.times.is_some() || self.samples.is_some();
        let has_window = span.is_given() || align.is_some() || origin.is_some();
        has_rows || self.rows.is_some() || has_window
    }

    /// Returns the lines that a table for people may have: those of the screen if no metric is named,
    /// also for branches on a terminal if no time is given.
    fn max_lines(&self, metadata: &Metadata) -> Option<usize> {
        if !self.is_scaled() {
            return None;
        }
        let height = if self.has_no_names() {
            output_height()
        } else {
            let is_limited = has_branch(&self.metrics, metadata) && !self.has_times();
            terminal_height().filter(|_| is_limited)?
        };
        Some(height.saturating_sub(NOTE_LINES).max(MIN_ROWS))
    }

    /// Returns whether histograms are reported as such, not as the metrics that they consist of:
    /// unless these are asked for, or the output is to be that of PCP's programs.
    fn shows_histograms(&self) -> bool {
        let has_metrics = self.buckets || self.raw || self.stepping || self.sum;
        !has_metrics && self.quantile.is_empty() && self.gaps.gaps() == Gaps::Keep
    }

    /// Returns whether counters are converted to rates: by default in tables, as in PCP's
    /// pmrep.
    fn has_rates(&self) -> bool {
        let by_default = self.format.format() == Format::Table && !self.raw;
        self.rate || (by_default && !self.display.no_rate && !self.stepping)
    }

    /// Returns the programs and metrics that a table for people shows first where it has no room for
    /// all: those that moved in the context.
    fn first_series(
        &self,
        source: Source<'_>,
        metrics: &[SelectedMetric],
        context: (Timestamp, Timestamp),
    ) -> MovedSeries {
        let is_selective = self.has_no_names() || has_branch(&self.metrics, source.metadata());
        if !self.is_for_people() || !is_selective {
            return MovedSeries::default();
        }
        moved_series(source, metrics, context)
    }

    fn columns(
        &self,
        source: Source<'_>,
        replay: &Replay<'_>,
        first: MovedSeries,
    ) -> Result<Vec<Column>, Failure> {
        let units = self.display.units()?;
        let instances = self.display.instances.as_slice();
        let rates = self.has_rates();
        let choice = Choice {
            instances,
            rates,
            units: &units,
            raw: self.raw,
            scaled: self.is_scaled(),
            labels: self.format.format() == Format::Jsonl,
        };
        let mut columns = columns::columns(source.metadata(), replay, &choice);
        if self.is_for_people() {
            let order = SeriesOrder::new(source.metadata()).with_first(first);
            sort_columns(&mut columns, &self.metrics, replay, order);
            let names = names_of(&columns, source.metadata(), replay);
            let mut ordered: Vec<NamedColumn<Column>> = names.into_iter().zip(columns).collect();
            put_p99_next_to_rate(&mut ordered);
            if self.max_lines(source.metadata()).is_some() {
                put_first_numbers_first(&mut ordered);
            }
            columns = ordered.into_iter().map(|(_, column)| column).collect();
        }
        Ok(columns)
    }

    /// Returns the window. The first sample of the last part of an archive, of one that begins some
    /// time ago, and of rates within a window of two instants, is an interval after its start, so
    /// that no rate and no quantile has anything of the time before. pmval also answers for the one
    /// interval between two instants.
    fn window(
        &self,
        step: Duration,
        frame: &Frame,
        selection: &ReplaySelection<'_>,
    ) -> Result<Window, Failure> {
        let window = self.window.window(frame.start, frame.end, &frame.zone)?;
        let WindowOptions { span, align, origin } = &self.window;
        if self.raw || align.is_some() || origin.is_some() {
            return Ok(window);
        }
        let first = window.start.saturating_add(step);
        let start = span.start.as_deref().map(str::trim);
        let is_ago = start.is_some_and(|start| start.ends_with(" ago"));
        let is_one_interval = start.is_some()
            && first <= window.end
            && window.end < first.saturating_add(step)
            && self.has_rates()
            && self.quantile.is_empty()
            && self.expressions.is_empty()
            && selection.metrics().iter().all(SelectedMetric::has_rates);
        if span.last.is_some() || is_ago || is_one_interval {
            return Ok(Window { origin: first.min(window.end), ..window });
        }
        Ok(window)
    }

    /// Returns the window and the interval of a table for people without given times: the last
    /// minute in which the metrics have values, in as many rows as the screen has, or as many rows
    /// of a given interval. `None` if the whole archive fits, or other times are asked for.
    fn last_screen(
        &self,
        source: Source<'_>,
        metrics: &[SelectedMetric],
        frame: &Frame,
    ) -> Result<Option<(Window, Duration)>, Failure> {
        if !self.is_for_people() || self.has_times() {
            return Ok(None);
        }
        let mut rows = terminal_height()
            .map_or(DEFAULT_ROWS, |height| height.saturating_sub(HEAD_ROWS).max(MIN_ROWS));
        if self.has_no_names() {
            let programs: HashSet<&str> =
                metrics.iter().map(|metric| branch(&metric.name)).collect();
            let panels = programs.len().clamp(1, MAX_PANELS);
            let lines = output_height().saturating_sub(HEAD_ROWS) / panels;
            rows = rows.min(lines.saturating_sub(PANEL_HEAD).max(MIN_PANEL_ROWS));
        }
        let all = source.end().nanos_since(source.start()).max(0).unsigned_abs();
        if all / self.step(frame)?.as_nanos() < rows as u128 {
            return Ok(None);
        }
        let intervals = u32::try_from(rows).unwrap_or(u32::MAX).saturating_sub(1).max(1);
        let (step, length) = if self.interval.is_some() {
            let step = self.step(frame)?;
            (step, step.saturating_mul(intervals))
        } else {
            let length = u64::try_from(all / NANOS_PER_SECOND).unwrap_or(u64::MAX);
            let length = length.min(MINUTE.as_secs());
            let fits = |seconds: &u64| length / seconds <= u64::from(intervals);
            let seconds = ROUND_SECONDS.into_iter().find(fits).unwrap_or(MINUTE.as_secs());
            (Duration::from_secs(seconds), MINUTE)
        };
        let end = last_value(source, metrics, source.end()).unwrap_or(source.end());
        let known = end.nanos_since(source.start()).max(0).unsigned_abs();
        let steps = length.min(Duration::from_nanos(u64::try_from(known).unwrap_or(u64::MAX)));
        let steps = u32::try_from(steps.as_nanos() / step.as_nanos()).unwrap_or(u32::MAX);
        let start = end.saturating_sub(step.saturating_mul(steps));
        let shown = interval_text(length);
        warn(&format_args!(
            "this is the last {shown} with values; --last 1h, --since and --until show more"
        ));
        Ok(Some((Window { start, end, origin: start }, step)))
    }

    fn request(
        &self,
        window: Window,
        step: Duration,
        frame: &Frame,
        selection: &ReplaySelection<'_>,
    ) -> Result<Request, Failure> {
        Ok(Request {
            times: self.sample_times(window, step, frame, selection)?,
            window,
            step,
            count: self.count(),
            rates: self.has_rates(),
            zone: Zone::new(frame.zone.clone()),
            stepping: self.stepping,
        })
    }

    fn sample_times(
        &self,
        window: Window,
        step: Duration,
        frame: &Frame,
        selection: &ReplaySelection<'_>,
    ) -> Result<SampleTimes, Failure> {
        if self.raw {
            return Ok(SampleTimes::Logged);
        }
        if self.at.is_empty() && self.times.is_none() {
            let span = window.end.nanos_since(window.origin).max(0).unsigned_abs();
            let steps = (span / step.as_nanos()).min((self.count() as u128).saturating_sub(1));
            let whole = u64::try_from(steps * step.as_nanos()).unwrap_or(u64::MAX);
            let last = window.origin.saturating_add(Duration::from_nanos(whole));
            // A window that ends before its start has no samples.
            let first = window.origin;
            let last = if self.count() == 0 { first.saturating_sub(step) } else { last };
            return Ok(SampleTimes::Regular { first, last });
        }
        let mut times = Vec::new();
        for text in &self.at {
            let at = time::parse_timestamp(text, frame)?;
            // An archive that is being written ends shortly before now.
            let is_recent = frame.end < at && at <= frame.end.saturating_add(RECENT);
            let at = if is_recent && at <= frame.now { newest(selection, frame)? } else { at };
            times.push(at);
        }
        if let Some(path) = &self.times {
            times.extend(times_in(path, frame)?);
        }
        times.truncate(self.count());
        Ok(SampleTimes::Listed(times))
    }

    fn count(&self) -> usize {
        self.samples.unwrap_or(usize::MAX)
    }

    fn step(&self, frame: &Frame) -> Result<Duration, Failure> {
        if let Some(rows) = self.rows {
            let window = self.window.window(frame.start, frame.end, &frame.zone)?;
            let length = window.end.seconds_since(window.start);
            // Both ends of the window have a row.
            let intervals = f64::from(rows - 1);
            let Ok(step) = time_step(length, |_| Ok::<_, Infallible>(intervals));
            return Ok(Duration::try_from_secs_f64(step.max(1.0)).unwrap_or(Duration::MAX));
        }
        let step = parse_interval(self.interval.as_deref().unwrap_or("1s"))?;
        if step.is_zero() {
            return Err(Failure::Usage("the interval between samples is zero".to_owned()));
        }
        Ok(step)
    }

    /// Returns the decimal places of the second in a table: none if all times are full seconds, or
    /// full seconds apart in a table of rounded numbers, else three or nine.
    fn places(&self, window: Window, step: Duration) -> usize {
        let even_times = !self.raw && self.at.is_empty() && self.times.is_none();
        let is_rounded = window.origin.nanoseconds() == 0 || self.is_scaled();
        if even_times && is_rounded && step.subsec_nanos() == 0 {
            return 0;
        }
        if step < Duration::from_millis(1) { 9 } else { 3 }
    }
}

/// Returns the time of the newest record that has one of the metrics, of the last [`RECENT`] of the
/// archive; else the end of the archive.
fn newest(selection: &ReplaySelection<'_>, frame: &Frame) -> Result<Timestamp, Failure> {
    let pmids: HashSet<Pmid> = selection.metrics().iter().map(|metric| metric.desc.pmid).collect();
    let mut records = selection.source().records_back_from(frame.end)?;
    let earliest = frame.end.saturating_sub(RECENT);
    while let Some(record) = records.previous()?.filter(|record| record.timestamp() >= earliest) {
        if record.value_sets().any(|set| !set.is_empty() && pmids.contains(&set.pmid())) {
            return Ok(record.timestamp());
        }
    }
    Ok(frame.end)
}

/// Returns the failure of a window without values, with the time of the last value before it.
fn no_values(source: Source<'_>, metrics: &[SelectedMetric], request: &Request) -> Failure {
    let zone = &request.zone;
    let archive = zone.period(&(source.start()..=source.end()));
    let reason = "the metrics have no values at these times";
    let first = match &request.times {
        SampleTimes::Listed(times) => times.iter().min().copied(),
        SampleTimes::Logged | SampleTimes::Regular { .. } => None,
    };
    let first = first.unwrap_or(request.window.start);
    let last = last_value(source, metrics, first.min(source.end()));
    let last = last.map(|at| format!(", the last value before was at {}", zone.date_time(at)));
    let last = last.unwrap_or_default();
    Failure::NoData(format!("{reason}{last}; the archive is from {archive}"))
}

/// Returns the time of the last record with a value of one of the metrics, not after a moment;
/// `None` also if it is too far back to be searched for, or the archive is damaged there.
fn last_value(
    source: Source<'_>,
    metrics: &[SelectedMetric],
    until: Timestamp,
) -> Option<Timestamp> {
    let pmids: HashSet<Pmid> = metrics.iter().map(|metric| metric.desc.pmid).collect();
    let mut records = source.records_back_from(until).ok()?;
    for _ in 0..MAX_SEARCHED {
        let record = records.previous().ok()??;
        let mut sets = record.value_sets();
        if sets.any(|set| !set.is_empty() && pmids.contains(&set.pmid())) {
            return Some(record.timestamp());
        }
    }
    None
}

/// Returns the name of each column's metric, of a histogram for each of its numbers.
fn names_of(columns: &[Column], metadata: &Metadata, replay: &Replay<'_>) -> Vec<String> {
    let metrics: Vec<&SelectedMetric> = replay.metrics().collect();
    let names = columns.iter().map(|column| {
        let metric = metrics.get(column.metric);
        let histogram = metric.and_then(|metric| histogram_name(metadata, metric));
        histogram.unwrap_or(&column.name).to_owned()
    });
    names.collect()
}

/// Formats a length of time after "the last": `minute`, `20 minutes`, `95 seconds`.
fn interval_text(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        _ if length.subsec_nanos() > 0 => format!("{length:?}"),
        60 => "minute".to_owned(),
        _ if seconds.is_multiple_of(60) => format!("{} minutes", seconds / 60),
        _ => format!("{seconds} seconds"),
    }
}

/// Formats an event as `shop restarted (pid 4711)`.
fn event_text(event: &ProgramEvent<'_>) -> String {
    let pid = event.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    let reason = event.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    let words = format!("{} {}{pid}{reason}", event.file.unwrap_or("agent"), event.kind);
    shown(&words).into_owned()
}

/// Reads the times in a file, one per line; empty lines and comments (`#`) are ignored.
fn times_in(path: &Path, frame: &Frame) -> Result<Vec<Timestamp>, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Input(format!("{}: {error}", shown_path(path))))?;
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| time::parse_timestamp(line, frame).map_err(Failure::from)).collect()
}
