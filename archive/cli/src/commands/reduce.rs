//! `mmv-archive reduce`: one value an interval, as a new archive.

use std::time::Duration;

use clap::Args;
use jiff::tz::TimeZone;
use pcp_archive::reduce::Reduce;
use pcp_archive::{Source, Timestamp};
use pcp_types::parse_interval;

use crate::Failure;
use crate::left_out::check_whole_set;
use crate::options::{ArchiveArgument, OutputOptions, warn_of_unnameable};
use crate::selection::{select_metrics, warn_of_unnamed};
use crate::time::{self, Frame, SpanOptions, ZoneOptions};

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  Keep a value a minute of all metrics:
    mmv-archive reduce @ -t 1min -o minutes
  A value an hour of two days of one program:
    mmv-archive reduce '/srv/web1/2026112[23]*' mmv.shop -t 1h -o hours
  A value a day, at midnight in Sydney:
    mmv-archive reduce @ -t 24h -o days \\
        --origin 2026-11-01T00:00 -Z Australia/Sydney";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ReduceCommand {
    #[command(flatten)]
    archive: ArchiveArgument,

    /// Metrics to keep: names, branches of the name space, or patterns such as "disk.*.read", also
    /// with labels: "mmv.shop.requests{code=~'5..'}" [default: all]
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,

    /// Keep only these instances, by name, number or a pattern such as "sd*"; may be repeated
    #[arg(short = 'i', long = "instance", value_name = "NAME")]
    instances: Vec<String>,

    /// Time between two values: 30s, 1min, 1h
    #[arg(short = 't', long, value_name = "INTERVAL", default_value = "1min", value_parser = interval)]
    interval: Duration,

    /// A time at which there are values; the others are intervals before and after it [default:
    /// 1970 in UTC, so that they are multiples of the interval]
    #[arg(short = 'O', long, value_name = "TIME", allow_hyphen_values = true)]
    origin: Option<String>,

    #[command(flatten)]
    output: OutputOptions,

    #[command(flatten)]
    span: SpanOptions,

    #[command(flatten)]
    zone: ZoneOptions,
}

impl ReduceCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let archives = self.archive.open_for_copy(&self.metrics)?;
        let source = Source::from(&archives);
        let zone = self.zone.zone(source.label())?;
        let window = self.span.window(source.start(), source.end(), zone.time_zone())?;
        if self.metrics.is_empty() {
            warn_of_unnamed(source);
        }
        let selection = select_metrics(source, &self.metrics, &self.instances)?;
        let mut reduce = Reduce::new(selection, self.interval);
        if let Some(origin) = &self.origin {
            reduce = reduce.origin(parse_origin(origin, source, zone.time_zone())?);
        }
        // If the clock was set back the last record is not the latest.
        if window.start > source.start() || window.end < source.end() {
            reduce = reduce.window(window.start..=window.end);
        }
        let is_whole = warn_of_unnameable(&reduce.unnameable()?);
        let staging = self.output.staging(&archives)?;
        let summary = self.output.write_reduced(&reduce, &archives, &staging)?;
        self.output.commit(staging, &summary, &zone)?;
        check_whole_set(&archives)?;
        if is_whole { Ok(()) } else { Err(Failure::Lost) }
    }
}

fn parse_origin(text: &str, source: Source<'_>, zone: &TimeZone) -> Result<Timestamp, Failure> {
    let start = source.start();
    let frame = Frame { start, end: source.end(), now: Timestamp::now(), zone: zone.clone() };
    time::parse_time(text, &frame).map_err(Failure::from)
}

/// Parses an interval longer than 0.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = parse_interval(text).map_err(|error| error.to_string())?;
    if interval.is_zero() {
        Err("the interval is 0; it must be longer".to_owned())
    } else {
        Ok(interval)
    }
}
