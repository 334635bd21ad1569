//! `mmv-archive report`: the values of metrics over time.

mod answers;
pub(super) mod csv;
pub(super) mod jsonl;
pub(super) mod table;
mod writer;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use pcp_types::Timestamp;

use super::columns::{self, Choice, Column, WantedUnits};
use super::failure::Failure;
use super::output::Output;
use super::time::{self, Frame};
use super::window::{Window, WindowOptions};
use super::zone::ZoneOptions;
use super::{ArchiveArgument, warn};
use crate::Source;
use crate::replay::interpolate::Decrease;
use crate::replay::{Expression, Replay, Sample, Selection};
use answers::{Answers, Moments, Request};
use writer::{Report, Writer};

/// The options of samples at even steps, which mean nothing at given times.
const EVEN: [&str; 4] = ["start", "finish", "align", "origin"];

/// Options of `report`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option on the command line")]
pub(super) struct Arguments {
    #[command(flatten)]
    archive: ArchiveArgument,

    /// The metrics to report, names below which all metrics are
    /// reported, or patterns such as "disk.*.read".
    #[arg(required_unless_present = "expressions", value_name = "METRIC")]
    metrics: Vec<String>,

    /// Report what this works out of metrics, too: "free = 100 * mem.free /
    /// mem.total", "sum(rate(disk.dev.read))", "net.in.bytes[eth0]"; with + - * /,
    /// rate, delta, instant, sum, avg, min, max, count, scalar, rescale(x,
    /// "Mbyte"); may be repeated.
    #[arg(
        short = 'e',
        long = "derived",
        value_name = "EXPRESSION",
        allow_hyphen_values = true,
        conflicts_with = "raw"
    )]
    expressions: Vec<String>,

    /// Report these instances only, by name or number; may be repeated. Without it all are.
    #[arg(short = 'i', long = "instance", value_name = "NAME")]
    instances: Vec<String>,

    /// Report what the values of all instances of each metric, or their rates, add
    /// up to.
    #[arg(long, conflicts_with_all = ["raw", "instances"])]
    sum: bool,

    /// Report these quantiles of what each histogram counted in the interval before
    /// each sample, in place of its buckets and its sum: 0.5,0.99,1.
    #[arg(long, value_name = "QUANTILE", value_delimiter = ',', value_parser = quantile)]
    #[arg(conflicts_with_all = ["raw", "stepping"])]
    quantile: Vec<f64>,

    /// Report the values as they were logged, at the times they were logged.
    #[arg(long, conflicts_with_all = ["at", "times", "interval", "samples", "align", "origin"])]
    raw: bool,

    /// Report the values at this time, a date or SECONDS.NANOSECONDS since 1970;
    /// may be repeated.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = EVEN)]
    at: Vec<String>,

    /// Report the values at the times in this file, one a line.
    #[arg(long, value_name = "FILE", conflicts_with_all = EVEN)]
    times: Option<PathBuf>,

    /// The time between samples, and back over which rates are taken: 1s (the
    /// default), 250ms, 5min, 1h30m.
    #[arg(short = 't', long, value_name = "INTERVAL")]
    interval: Option<String>,

    /// Stop after this many samples.
    #[arg(short = 's', long, value_name = "COUNT")]
    samples: Option<usize>,

    /// Report counters as their rates, which tables do anyway: how much they grew
    /// in the interval before each sample, a second. None where a counter was
    /// set back.
    #[arg(long, conflicts_with_all = ["no_rate", "raw"])]
    rate: bool,

    /// Report counters as they are in tables, too.
    #[arg(long)]
    no_rate: bool,

    /// Report values in these units where they measure the same: "Mbyte",
    /// "Kbyte / sec", "count x 10^-2"; may be repeated.
    #[arg(long, value_name = "UNITS")]
    units: Vec<String>,

    /// Write floating point numbers in tables and CSV with so many places;
    /// rates in tables have 3 without it.
    #[arg(long, value_name = "PLACES", value_parser = clap::value_parser!(u8).range(..=20))]
    precision: Option<u8>,

    /// Take an integer counter that goes down for one that ran over its end,
    /// not for one that was set back.
    #[arg(long)]
    counter_wrap: bool,

    /// Leave a counter out at the first sample behind a mark, as PCP's own
    /// programs see it that step through an archive.
    #[arg(long, conflicts_with_all = ["raw", "rate", "at", "times"])]
    stepping: bool,

    /// How the values are written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Write JSON Lines; the same as --format jsonl.
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// The width of a table in columns; by default that of the terminal as
    /// COLUMNS says, or 100.
    #[arg(long, value_name = "COLUMNS")]
    width: Option<usize>,

    #[command(flatten)]
    window: WindowOptions,

    #[command(flatten)]
    zone: ZoneOptions,
}

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A line a time, a column an instance, for reading.
    Table,
    /// Comma-separated values (RFC 4180), times in RFC 3339.
    Csv,
    /// A JSON object a value, with its type kept.
    Jsonl,
}

impl Arguments {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let archives = self.archive.open()?;
        let source = Source::from(&archives);
        let zone = self.zone.zone(source.label())?;
        let frame = Frame {
            start: source.start(),
            end: source.end(),
            now: Timestamp::now(),
            zone: zone.time_zone().clone(),
        };
        let window = self.window.window(frame.start, frame.end, &frame.zone)?;
        if window.unaligned {
            warn(&"the alignment leads out of the archive and is ignored");
        }
        let request = self.request(window, &frame)?;
        let mut answers = Answers::new(self.selection(source)?, &request)?;
        let replay = answers.replay();
        tell(replay);
        let columns = self.columns(source, replay)?;
        if columns.is_empty() {
            return Err(Failure::NoData("the metrics have no values at these times".to_owned()));
        }
        let pmids = replay.metrics().map(|metric| metric.desc.pmid.to_string()).collect();
        let width = self.width.unwrap_or_else(super::terminal_width);
        let (places, precision) = (self.places(window)?, self.precision.map(usize::from));
        let metadata = source.metadata();
        let report = Report { metadata, pmids, columns, zone, places, precision, width };
        let mut writer = Writer::begin(report, self.format());
        answers.write(&request, &mut writer)?;
        let values = writer.finish()?;
        whole(answers.replay())?;
        if values == 0 {
            return Err(Failure::NoData("the metrics have no values at these times".to_owned()));
        }
        Ok(())
    }

    /// The metrics that are selected.
    fn selection<'a>(&self, source: Source<'a>) -> Result<Selection<'a>, Failure> {
        let decrease = if self.counter_wrap { Decrease::Wrap } else { Decrease::Reset };
        let selection = Replay::open(source).decrease(decrease).read_on();
        let mut selection = select(selection, &self.metrics, &self.expressions)?;
        if !self.quantile.is_empty() && selection.quantiles(&self.quantile) == 0 {
            return Err(Failure::NoData("none of the metrics is a histogram".to_owned()));
        }
        if self.sum {
            selection.sum_instances(self.has_rates())?;
        }
        Ok(selection)
    }

    fn format(&self) -> Format {
        if self.json { Format::Jsonl } else { self.format }
    }

    /// Whether counters are reported as rates: in tables without being asked,
    /// as by PCP's pmrep.
    fn has_rates(&self) -> bool {
        let by_default = self.format() == Format::Table && !self.raw;
        self.rate || (by_default && !self.no_rate && !self.stepping)
    }

    fn columns(&self, source: Source<'_>, replay: &Replay<'_>) -> Result<Vec<Column>, Failure> {
        let units = WantedUnits::parse_all(&self.units)?;
        let (instances, rates) = (self.instances.as_slice(), self.has_rates());
        let choice = Choice { instances, rates, units: &units, raw: self.raw };
        Ok(columns::columns(source.metadata(), replay, &choice))
    }

    /// What is asked of the archive in this window.
    fn request(&self, window: Window, frame: &Frame) -> Result<Request, Failure> {
        let step = self.step()?;
        Ok(Request {
            moments: self.moments(window, step, frame)?,
            window,
            step,
            count: self.count(),
            rates: self.has_rates(),
            stepping: self.stepping,
        })
    }

    /// The moments that the options ask for.
    fn moments(&self, window: Window, step: Duration, frame: &Frame) -> Result<Moments, Failure> {
        if self.raw {
            return Ok(Moments::Logged);
        }
        if self.at.is_empty() && self.times.is_none() {
            let span = window.end.nanos_since(window.origin).max(0).unsigned_abs();
            let steps = (span / step.as_nanos()).min((self.count() as u128).saturating_sub(1));
            let whole = u64::try_from(steps * step.as_nanos()).unwrap_or(u64::MAX);
            let last = window.origin.saturating_add(Duration::from_nanos(whole));
            // No sample at all is a window that ends before it begins.
            let first = window.origin;
            let last = if self.count() == 0 { first.saturating_sub(step) } else { last };
            return Ok(Moments::Even { first, last });
        }
        let mut times = Vec::new();
        for text in &self.at {
            times.push(time::stamp(text, frame)?);
        }
        if let Some(path) = &self.times {
            times.extend(times_in(path, frame)?);
        }
        times.truncate(self.count());
        Ok(Moments::Listed(times))
    }

    fn count(&self) -> usize {
        self.samples.unwrap_or(usize::MAX)
    }

    fn step(&self) -> Result<Duration, Failure> {
        let step = time::interval(self.interval.as_deref().unwrap_or("1s"))?;
        if step.is_zero() {
            return Err(Failure::Usage("the interval between samples is zero".to_owned()));
        }
        Ok(step)
    }

    /// Places of the second in a table: none if all times are full seconds,
    /// else three, else as many as the step has.
    fn places(&self, window: Window) -> Result<usize, Failure> {
        let step = self.step()?;
        let even_times = !self.raw && self.at.is_empty() && self.times.is_none();
        if even_times && window.origin.nanoseconds() == 0 && step.subsec_nanos() == 0 {
            return Ok(0);
        }
        Ok(if step < Duration::from_millis(1) { 9 } else { 3 })
    }
}

/// A quantile of a command line.
fn quantile(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "not a number from 0 to 1".to_owned())
}

/// The times in a file, one a line; empty lines and those from a `#` on are
/// passed over.
fn times_in(path: &Path, frame: &Frame) -> Result<Vec<Timestamp>, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| time::stamp(line, frame).map_err(Failure::from)).collect()
}

/// Selects metrics by name, and derives others; says which the archive does
/// not have.
pub(super) fn select<'a>(
    mut selection: Selection<'a>,
    names: &[String],
    expressions: &[String],
) -> Result<Selection<'a>, Failure> {
    for text in expressions {
        let expression = text.parse::<Expression>()?;
        match selection.derive(&expression) {
            Err(error) if error.is_unknown_metric() => warn(&error),
            derived => derived?,
        }
    }
    for name in names {
        // As for pmrep a derived metric may be named once more.
        let is_derived = selection.derived().any(|metric| metric.name == *name);
        if selection.select(name) == 0 && !is_derived {
            warn(&format_args!("{name}: no metric of this name in the archive"));
        }
    }
    if selection.metrics().is_empty() && selection.derived().len() == 0 {
        return Err(Failure::NoData("none of the metrics is in the archive".to_owned()));
    }
    Ok(selection)
}

/// An error if parts of the archive were damaged, once the rest is printed.
pub(super) fn whole(replay: &Replay<'_>) -> Result<(), Failure> {
    if replay.lost().is_empty() { Ok(()) } else { Err(Failure::Lost) }
}

/// Says what a replay had to leave out.
pub(super) fn tell(replay: &Replay<'_>) {
    if replay.backward_records() > 0 {
        let count = replay.backward_records();
        warn(&format_args!("{count} records go back in time and are left out"));
    }
    for lost in replay.lost() {
        let between = match (lost.after, lost.before) {
            (Some(after), Some(before)) => format!(" between {after} and {before}"),
            (Some(after), None) => format!(" after {after}"),
            (None, Some(before)) => format!(" before {before}"),
            (None, None) => String::new(),
        };
        let (file, offset, reason) = (lost.file.display(), lost.offset, &lost.reason);
        let bytes = lost.bytes;
        warn(&format_args!("{file}: offset {offset}: {reason}; {bytes} bytes are lost{between}"));
    }
}
