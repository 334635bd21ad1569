//! `mmv-archive plot`: metrics over time as lines.

mod lines;
mod terminal;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use pcp_types::Timestamp;

use super::columns::{Choice, WantedUnits};
use super::failure::Failure;
use super::output::Output;
use super::time;
use super::window::{SpanOptions, Window};
use super::zone::{Zone, ZoneOptions};
use super::{ArchiveArgument, columns};
use crate::Source;
use crate::picture::{Panel, Picture, PictureError};
use crate::replay::{self, Replay, Sample};

/// As many samples are drawn at most, unless an interval is given.
const SAMPLES: u128 = 800;

/// Options of `plot`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    archive: ArchiveArgument,

    /// The metrics to plot, names below which all metrics are plotted,
    /// or patterns such as "disk.*.read".
    #[arg(required_unless_present = "expressions", value_name = "METRIC")]
    metrics: Vec<String>,

    /// Plot what this works out of metrics, too, as for report: "free = 100 *
    /// mem.free / mem.total"; may be repeated.
    #[arg(short = 'e', long = "derived", value_name = "EXPRESSION", allow_hyphen_values = true)]
    expressions: Vec<String>,

    /// Write the picture to this file, SVG or PNG as its name ends; without it
    /// the plot is drawn in the terminal.
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Plot these instances only, by name or number; may be repeated. Without it all are.
    #[arg(short = 'i', long = "instance", value_name = "NAME")]
    instances: Vec<String>,

    /// Draw so many lines a unit, those with the largest means, and the sum of the
    /// others; by default 4 in the terminal, in a picture as many as fit, at most 12.
    #[arg(long, value_name = "COUNT")]
    top: Option<usize>,

    /// The time between samples; by default that between the logged values, or
    /// more where those are too many to be told apart.
    #[arg(short = 't', long, value_name = "INTERVAL")]
    interval: Option<String>,

    /// Plot counters as they are instead of their rates.
    #[arg(long)]
    no_rate: bool,

    /// Plot values in these units where they measure the same: "Mbyte",
    /// "Kbyte / sec", "count x 10^-2"; may be repeated.
    #[arg(long, value_name = "UNITS")]
    units: Vec<String>,

    /// The size of a picture in pixels.
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value = "1200x675")]
    size: String,

    /// The width of a plot in the terminal; by default that of the terminal as
    /// COLUMNS says, or 100.
    #[arg(long, value_name = "COLUMNS")]
    width: Option<usize>,

    #[command(flatten)]
    span: SpanOptions,

    #[command(flatten)]
    zone: ZoneOptions,
}

/// What a plot says besides its lines.
struct Caption {
    title: String,
    subtitle: String,
    clock: Clock,
}

/// Times as seconds on the clock of the chosen zone at the start, so that
/// round times are round in that zone.
struct Clock {
    zone: Zone,
    /// Seconds of UTC from which times count: small numbers keep their
    /// fractions in a double. A full day on the clock.
    zero: i64,
    format: &'static str,
}

impl Clock {
    fn new(zone: Zone, window: Window) -> Self {
        let ahead = zone.offset(window.start);
        let day = (window.start.seconds().saturating_add(ahead)).div_euclid(86_400);
        let zero = day.saturating_mul(86_400).saturating_sub(ahead);
        let format = match window.end.nanos_since(window.start) / 1_000_000_000 {
            0..300 => "%H:%M:%S",
            300..172_800 => "%H:%M",
            172_800..604_800 => "%a %H:%M",
            _ => "%b %e",
        };
        Self { zone, zero, format }
    }

    fn seconds(&self, at: Timestamp) -> f64 {
        at.seconds_since(Timestamp::from_nanos(i128::from(self.zero) * 1_000_000_000))
    }

    fn label(&self, seconds: f64) -> String {
        let nanos = i128::from(self.zero) * 1_000_000_000 + (seconds * 1e9).round() as i128;
        self.zone.strftime(Timestamp::from_nanos(nanos), self.format)
    }
}

impl Arguments {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let size = size(&self.size)?;
        let archives = self.archive.open()?;
        let source = Source::from(&archives);
        let zone = self.zone.zone(source.label())?;
        let (start, end) = (source.start(), source.end());
        let window = self.span.window(start, end, zone.time_zone())?;
        let replay = self.load(source)?;
        let clock = Clock::new(zone, window);
        let panels = self.panels(source, &replay, window, &clock)?;
        let caption = self.caption(source, window, clock);
        if let Some(path) = &self.output {
            write_picture(path, &caption, &panels, size)?;
            return super::report::whole(&replay);
        }
        let width = self.width.unwrap_or_else(super::terminal_width);
        let mut out = Output::new();
        out.text.extend_from_slice(terminal::render(&caption, &panels, width).as_bytes());
        out.finish()?;
        super::report::whole(&replay)
    }

    fn load<'a>(&self, source: Source<'a>) -> Result<Replay<'a>, Failure> {
        let selection = super::report::select(
            Replay::open(source).read_on(),
            &self.metrics,
            &self.expressions,
        )?;
        let replay = selection.load()?;
        super::report::tell(&replay);
        Ok(replay)
    }

    /// The lines by unit, of each unit those that are drawn.
    fn panels(
        &self,
        source: Source<'_>,
        replay: &Replay<'_>,
        window: Window,
        clock: &Clock,
    ) -> Result<Vec<Panel>, Failure> {
        let units = WantedUnits::parse_all(&self.units)?;
        let (instances, rates) = (self.instances.as_slice(), !self.no_rate);
        let choice = Choice { instances, rates, units: &units, raw: false };
        let columns = columns::columns(source.metadata(), replay, &choice);
        let step = self.step(replay, window)?;
        let samples = replay::times(window.start..=window.end, step).filter_map(|at| {
            let rates = || replay.rates_at(at, at.saturating_sub(step));
            if self.no_rate { replay.at_since(at, at.saturating_sub(step)) } else { rates() }
        });
        let samples: Vec<Sample<'_>> = samples.collect();
        let top = self.top.or_else(|| self.output.is_none().then_some(4));
        let panels = lines::panels(&columns, &samples, clock, top);
        if panels.is_empty() {
            return Err(Failure::NoData("the metrics have no numbers at these times".to_owned()));
        }
        Ok(panels)
    }

    /// Rates over less than the time between two observations would show how
    /// the values between are rounded, not what happened.
    fn step(&self, replay: &Replay<'_>, window: Window) -> Result<Duration, Failure> {
        let span = window.end.nanos_since(window.start).unsigned_abs();
        let least = Duration::from_nanos((span / SAMPLES).max(1) as u64);
        let step = match &self.interval {
            Some(text) => time::interval(text)?,
            None => replay.typical_interval().map_or(least, |logged| logged.max(least)),
        };
        if step.is_zero() {
            return Err(Failure::Usage("the interval between samples is zero".to_owned()));
        }
        Ok(step)
    }

    fn caption(&self, source: Source<'_>, window: Window, clock: Clock) -> Caption {
        let zone = &clock.zone;
        let same_day = zone.strftime(window.start, "%F") == zone.strftime(window.end, "%F");
        let until = zone.strftime(window.end, if same_day { "%T %Z" } else { "%F %T %Z" });
        let subtitle = format!(
            "{}, {} to {until}",
            source.label().hostname,
            zone.strftime(window.start, "%F %T"),
        );
        let titles: Vec<&str> =
            self.metrics.iter().chain(&self.expressions).map(String::as_str).collect();
        Caption { title: titles.join(", "), subtitle, clock }
    }
}

/// `1200x675`.
fn size(text: &str) -> Result<(u32, u32), Failure> {
    let sides = text.split_once('x').and_then(|(width, height)| {
        Some((width.trim().parse().ok()?, height.trim().parse().ok()?))
    });
    sides.ok_or_else(|| Failure::Usage(format!("\"{text}\" is not a size such as 1200x675")))
}

fn write_picture(
    path: &Path,
    caption: &Caption,
    panels: &[Panel],
    (width, height): (u32, u32),
) -> Result<(), Failure> {
    let picture = Picture::new(&caption.title, panels)
        .subtitle(&caption.subtitle)
        .size(width, height)
        .time_labels(|seconds| caption.clock.label(seconds));
    let extension = path.extension().and_then(|extension| extension.to_str());
    let bytes = match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("svg") => picture.svg().map(String::into_bytes),
        Some("png") => picture.png(),
        _ => {
            let path = path.display();
            return Err(Failure::Usage(format!("{path}: a picture ends in .svg or .png")));
        }
    };
    let bytes = bytes.map_err(|error| match error {
        PictureError::Size { .. } => Failure::Usage(error.to_string()),
        error => Failure::Output(std::io::Error::other(error)),
    })?;
    let written = std::fs::write(path, bytes);
    written.map_err(|error| Failure::Picture(format!("{}: {error}", path.display())))
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
    fn round_times_are_round_on_the_clock_of_the_zone() {
        // 03:43:20 in India, half an hour off the hours of UTC.
        let start = Timestamp::new(1_700_000_000, 0).unwrap();
        let end = start.saturating_add(Duration::from_secs(3600));
        let window = Window { start, end, origin: start, unaligned: false };
        let clock = Clock::new(Zone::new(TimeZone::posix("IST-5:30").unwrap()), window);
        let since_midnight = 3.0 * 3600.0 + 43.0 * 60.0 + 20.0;
        assert!((clock.seconds(start) - since_midnight).abs() < 1e-9);
        assert_eq!(clock.label(4.0 * 3600.0), "04:00");
    }
}
