//! `mmv-archive snapshot`: metrics over time as one file that a browser opens from disk.
//!
//! The file has the page, its data and no address of anything else. The data is described in
//! `payload`.

mod heat;
mod payload;

use std::path::{Path, PathBuf};

use clap::Args;
use hashbrown::HashSet;
use pcp_archive::envelope::{Envelope, Grid, Options};
use pcp_archive::programs::for_each_event;
use pcp_archive::replay::Replay;
use pcp_archive::scan::{SelectedMetric, Selection};
use pcp_archive::{Source, TextKind, TextTarget, Timestamp};

use crate::left_out::check_whole;
use crate::options::{ArchiveArgument, GapOptions};
use crate::selection::select_metrics;
use crate::text::warn;
use crate::time::{SpanOptions, Window, Zone, ZoneOptions, to_jiff};
use crate::{Failure, columns, page};
use payload::{Event, Header, Heat, Metric, Payload};

/// The most columns; a power of two, so that they can be halved.
const MAX_COLUMNS: u32 = 1 << 14;
/// The least columns that a small limit of the size leaves.
const MIN_COLUMNS: u32 = 16;
/// The most cells of all series together, 56 bytes each.
const MAX_CELLS: usize = 1 << 21;
/// The most events that are drawn.
const MAX_EVENTS: usize = 10_000;
/// The most changes of the clock that are known to the page.
const MAX_CHANGES: usize = 200;

/// Options of `snapshot`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    archive: ArchiveArgument,

    /// Metrics of the snapshot: names, branches of the name space, or patterns such as
    /// "disk.*.read", also with labels: "mmv.shop.requests{code=~'5..'}" [default: all]
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,

    /// File to write, which a browser opens
    #[arg(short = 'o', long, value_name = "FILE.html")]
    output: PathBuf,

    /// Only these instances, by name, number or a pattern such as "sd*"; may be repeated
    /// [default: all]
    #[arg(short = 'i', long = "instance", value_name = "NAME")]
    instances: Vec<String>,

    /// Largest size of the file, as 500K or 20M: time is divided into fewer columns until it fits
    #[arg(long, value_name = "SIZE", default_value = "8M", value_parser = size)]
    max_size: u64,

    #[command(flatten)]
    gaps: GapOptions,

    #[command(flatten)]
    span: SpanOptions,

    #[command(flatten)]
    zone: ZoneOptions,
}

/// Bytes from a text such as 500K, 20M or 1G, with multiples of 1024.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let scale = match text.get(digits.len()..).unwrap_or_default().to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        _ => return Err("not a size such as 500K or 20M".to_owned()),
    };
    let size = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
    size.filter(|size| *size > 0).ok_or_else(|| "not a size such as 500K or 20M".to_owned())
}

impl Arguments {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let archives = self.archive.open()?;
        let source = Source::from(&archives);
        let zone = self.zone.zone(source.label())?;
        let window = self.span.window(source.start(), source.end(), zone.time_zone())?;
        let mut selection = select_metrics(source, &self.metrics, &self.instances)?;
        let heats = self.histograms(&mut selection, window)?;
        let [rates, raw] = self.envelopes(&selection, window)?;
        let header = header(source, &selection, (window, &zone), heats)?;
        let payload = Payload::new(header, rates, raw);
        if payload.is_empty() {
            let reason = "the metrics have no numbers at these times";
            return Err(Failure::NoData(reason.to_owned()));
        }
        let (html, columns) = self.fitted(payload)?;
        write(&self.output, html.as_bytes())?;
        self.say(window, &html, columns);
        check_whole(archives.archives())
    }

    /// Takes the histograms out of a selection, for heat maps.
    fn histograms(
        &self,
        selection: &mut Selection<'_>,
        window: Window,
    ) -> Result<Vec<Heat>, Failure> {
        let source = selection.source();
        let open = || Replay::open(source).gaps(self.gaps.gaps()).read_on();
        let mut all = open();
        for metric in selection.metrics() {
            all.select(&metric.name);
        }
        if all.quantiles(&[0.5]) == 0 {
            return Ok(Vec::new());
        }
        let others: HashSet<_> = all.metrics().iter().map(|metric| metric.desc.pmid).collect();
        let mut histograms = open();
        for metric in selection.metrics() {
            if !others.contains(&metric.desc.pmid) {
                histograms.select(&metric.name);
            }
        }
        histograms.quantiles(&[0.5]);
        selection.retain(|metric| others.contains(&metric.desc.pmid));
        let replay = histograms.load_spans(&[window.start..=window.end])?;
        Ok(heat::maps(source, &replay, window))
    }

    /// The values, counters as rates; and the counters as they are.
    fn envelopes(
        &self,
        selection: &Selection<'_>,
        window: Window,
    ) -> Result<[Envelope; 2], Failure> {
        let grid = Grid::new(window.start..=window.end, columns_for(selection));
        let options = |rates| Options { rates, gaps: self.gaps.gaps() };
        let mut counters = selection.clone();
        counters.retain(SelectedMetric::has_rates);
        let rates = Envelope::read(selection, grid.clone(), options(true))?;
        let mut raw = Envelope::read(&counters, grid, options(false))?;
        // By their places in the whole selection.
        let place = |pmid| selection.metrics().iter().position(|one| one.desc.pmid == pmid);
        for series in &mut raw.series {
            let counter = counters.metrics().get(series.metric);
            series.metric = counter.and_then(|one| place(one.desc.pmid)).unwrap_or(usize::MAX);
        }
        Ok([rates, raw])
    }

    /// The page in the most columns that the limit of the size allows, and how many these
    /// are at most and in it.
    fn fitted(&self, mut payload: Payload) -> Result<(String, [u32; 2]), Failure> {
        let most = payload.columns();
        loop {
            let html = page::with_data(&payload.compressed()?);
            if html.len() as u64 <= self.max_size {
                return Ok((html, [most, payload.columns()]));
            }
            let excess = html.len() as u64 / self.max_size;
            for _ in 0..excess.max(1).ilog2().max(1) {
                if payload.columns() <= MIN_COLUMNS || !payload.halve() {
                    let (least, columns) = (html.len(), payload.columns());
                    return Err(Failure::Usage(format!(
                        "{least} bytes are needed for {columns} columns; choose fewer metrics or \
                         a larger --max-size"
                    )));
                }
            }
        }
    }

    /// Tells the size and the resolution.
    fn say(&self, window: Window, html: &str, [most, columns]: [u32; 2]) {
        let seconds = window.end.seconds_since(window.start) / f64::from(columns);
        let path = self.output.display();
        let kibibytes = html.len().div_ceil(1024);
        let each = if seconds < 1.0 {
            format!("{:.3} ms", seconds * 1e3)
        } else {
            format!("{seconds:.3} s")
        };
        let why = if columns < most {
            format!("; --max-size allows no more, {most} would be possible")
        } else {
            String::new()
        };
        warn(&format_args!("{path}: {kibibytes} KiB, {columns} columns of {each}{why}"));
    }
}

/// The number of columns for which there is enough memory, by the number of instances.
fn columns_for(selection: &Selection<'_>) -> u32 {
    let metadata = selection.source().metadata();
    let count = |metric: &SelectedMetric| {
        let history = metric.desc.indom.and_then(|indom| metadata.indom_history(indom));
        history.map_or(1, |history| history.union().len())
    };
    let series: usize = selection.metrics().iter().map(count).sum();
    let mut columns = MAX_COLUMNS;
    while columns > MIN_COLUMNS && columns as usize * series > MAX_CELLS {
        columns /= 2;
    }
    columns
}

/// What the page knows apart from the values.
fn header(
    source: Source<'_>,
    selection: &Selection<'_>,
    (window, zone): (Window, &Zone),
    heats: Vec<Heat>,
) -> Result<Header, Failure> {
    let metadata = source.metadata();
    let metric = |metric: &SelectedMetric| {
        let target = TextTarget::Metric(metric.desc.pmid);
        let text = |kind| metadata.text(target, kind).map(ToString::to_string);
        let names = metric.desc.indom.map(|indom| columns::instance_names(metadata, indom));
        Metric {
            name: metric.name.clone(),
            help: text(TextKind::Full).or_else(|| text(TextKind::OneLine)).unwrap_or_default(),
            units: columns::units(metric, false),
            rate_units: metric.has_rates().then(|| columns::units(metric, true)),
            semantics: metric.desc.semantics.to_string(),
            names: names.unwrap_or_default(),
        }
    };
    let mut events = Vec::new();
    for_each_event(source, window.start..=window.end, |event| {
        if events.len() < MAX_EVENTS && (window.start..=window.end).contains(&event.at) {
            events.push(Event {
                time: seconds(event.at),
                kind: event.kind.to_owned(),
                file: event.file.map(ToOwned::to_owned),
                pid: event.pid,
                reason: event.reason.map(ToOwned::to_owned),
            });
        }
    })?;
    Ok(Header {
        host: source.label().hostname.to_string(),
        start: seconds(window.start),
        end: seconds(window.end),
        zone: changes(zone, window),
        metrics: selection.metrics().iter().map(metric).collect(),
        events,
        heats,
    })
}

/// The offset of the clock in seconds and its name: from each time on.
fn changes(zone: &Zone, window: Window) -> Vec<(f64, i64, String)> {
    let at = |time| (seconds(time), zone.offset(time), zone.strftime(time, "%Z"));
    let mut all = vec![at(window.start)];
    if let Some(start) = to_jiff(window.start) {
        let later = zone.time_zone().following(start).take(MAX_CHANGES);
        let later = later.filter_map(|change| {
            let nanos = change.timestamp().as_nanosecond();
            Some(Timestamp::from_nanos(nanos)).filter(|time| *time <= window.end)
        });
        all.extend(later.map(at));
    }
    all
}

/// Seconds since 1970, to the microsecond.
fn seconds(timestamp: Timestamp) -> f64 {
    timestamp.as_nanos() as f64 / 1e9
}

/// Writes a file under a hidden name first, so that nobody sees a part of it.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failure = |error: std::io::Error| Failure::Image(format!("{}: {error}", path.display()));
    let name = path
        .file_name()
        .ok_or_else(|| Failure::Usage(format!("{}: is not the name of a file", path.display())))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}", std::process::id()));
    let hidden = path.with_file_name(hidden);
    let written = std::fs::write(&hidden, bytes).and_then(|()| std::fs::rename(&hidden, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&hidden);
        failure(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_unit() {
        assert_eq!([size("500K"), size("20M"), size("7")], [Ok(512_000), Ok(20 << 20), Ok(7)]);
        for text in ["", "M", "-1M", "1.5M", "0", "99999999999G", "1T"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
