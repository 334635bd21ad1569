//! `mmv-archive follow`: the values of metrics as they are logged.

mod programs;
mod view;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::Args;
use mmv_arguments::archives;
use pcp_archive::follow::{Follower, start_of};
use pcp_archive::internal::half_made;
use pcp_archive::replay::{Gaps, HistogramValue};
use pcp_archive::scan::{Selection, Selector};
use pcp_archive::{Archive, ArchiveSet, Metadata, Source, Timestamp};
use pcp_types::names::selects;
use pcp_types::parse_interval;

use crate::movement::{CONTEXT, moved_series};
use crate::options::histograms::{DEFAULT_VALUES, names_any_bucket_counter};
use crate::options::{DisplayOptions, GapOptions, QuantileOptions, warn_of_unreadable};
use crate::order::{MovedSeries, is_unnamed_machinery};
use crate::selection::parse_selector;
use crate::text::{Output, warn};
use crate::time::{Frame, Zone, ZoneOptions};
use crate::{Failure, time};
use programs::{EndedPrograms, has_events};
use view::{Choice, View};

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  Print the rate of a counter as it is logged, until Ctrl-C:
    mmv-archive follow @ mmv.shop.orders
  Print the p99 of each interval between records:
    mmv-archive follow @ mmv.shop.latency --quantile 0.99
  Begin ten minutes before the newest record:
    mmv-archive follow @ mmv.server.requests -S -10min
  Pass each value on as a line of JSON:
    mmv-archive follow @ mmv.shop --json | jq -c .";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct FollowCommand {
    /// Archive: its base name, any of its files, or a directory for the newest archive in it and
    /// those that follow it; @ for those of this machine's agent
    archive: PathBuf,

    /// Metrics to show: names, branches of the name space, or patterns such as "disk.*.read", also
    /// with labels: "mmv.shop.requests{code=~'5..'}" [default: all]
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,

    /// First record to show: a date, a time before the newest record (-10min) or after the start
    /// of the archive (0s) [default: the newest]
    #[arg(short = 'S', long = "start", value_name = "TIME", allow_hyphen_values = true)]
    start: Option<String>,

    /// Stop after this many records
    #[arg(short = 's', long, value_name = "COUNT")]
    samples: Option<u64>,

    /// Interval at which to look for new records
    #[arg(long, value_name = "INTERVAL", default_value = "250ms")]
    poll: String,

    /// Print all digits of numbers, in the units of their metrics, and whole names and dates in the
    /// heads and rows of the table
    #[arg(long)]
    exact: bool,

    /// Decimal places of floating-point numbers in the table, which is then exact [default for rates
    /// in an exact table: 3]
    #[arg(long, value_name = "PLACES", value_parser = clap::value_parser!(u8).range(..=20))]
    precision: Option<u8>,

    /// Print JSON Lines, one object per value, without converting counters to rates
    #[arg(long, conflicts_with = "precision")]
    json: bool,

    #[command(flatten)]
    quantiles: QuantileOptions,

    /// Show the buckets of histograms; without this and --json values per second, p50, p99 and maximum
    /// are shown
    #[arg(long, conflicts_with = "quantile")]
    buckets: bool,

    #[command(flatten)]
    gaps: GapOptions,

    #[command(flatten)]
    display: DisplayOptions,

    #[command(flatten)]
    zone: ZoneOptions,
}

impl FollowCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let poll = parse_interval(&self.poll)?;
        let archive = archives::resolve(&self.archive);
        let mut queue = Queue::new(&archive);
        let mut follower = queue.newest()?;
        let zone = self.zone.zone(follower.label())?;
        let first = self.first(&follower, &zone)?;
        follower.seek(first)?;
        let choice = Choice {
            metrics: selectors(&self.metrics, follower.metadata())?,
            names: &self.metrics,
            hides_machinery: self.hides_machinery(follower.metadata()),
            instances: &self.display.instances,
            rates: !self.display.no_rate && !self.json,
            units: self.display.units()?,
            precision: self.precision.map(usize::from),
            scaled: self.is_for_people() && !self.exact && self.precision.is_none(),
            width: self.display.width(),
            json: self.json,
            gaps: self.gaps.gaps(),
            histogram_values: self.histogram_values(),
            first_series: self.first_series(&follower),
        };
        choice.unknown(follower.metadata()).for_each(|name| {
            warn(&format_args!("{name}: no metric of this name in the archive yet"));
        });
        if !self.quantiles.quantile.is_empty() && !choice.has_histogram(follower.metadata()) {
            warn(&"none of the metrics in the archive is a histogram yet");
        }
        let ended = EndedPrograms::before(first, &follower, &choice, &zone);
        let mut ended = ended.unwrap_or_else(|error| {
            warn(&error);
            EndedPrograms::default()
        });
        let mut view = View::new(&choice, zone.clone());
        let mut out = Output::new();
        let mut remaining = self.samples.unwrap_or(u64::MAX);
        while remaining > 0 {
            // Before the records are read: once a later archive exists, this one is
            // complete.
            let next = queue.open_next(&follower)?;
            while remaining > 0
                && let Some(followed) = follower.next()?
            {
                remaining -= u64::from(view.show(&followed, &mut out)?);
                if has_events(&followed) {
                    // Behind the values that were logged before.
                    out.flush()?;
                    ended.note(&followed, &choice, &zone);
                }
            }
            out.flush()?;
            match next {
                Some(next) => {
                    follower = next;
                    view.begin_archive();
                }
                None if remaining > 0 => thread::sleep(poll.max(Duration::from_millis(1))),
                None => {}
            }
        }
        Ok(())
    }

    /// Returns whether the output is a table, and not by PCP's rules.
    fn is_for_people(&self) -> bool {
        !self.json && self.gaps.gaps() == Gaps::Keep
    }

    /// Returns whether the table leaves out the agent's metrics and those of pmcd: if the archive
    /// has others that are selected.
    fn hides_machinery(&self, metadata: &Metadata) -> bool {
        if self.display.all || !self.is_for_people() {
            return false;
        }
        let names = metadata.subtree("").map(|(name, _)| name);
        let selectors: Vec<Selector> =
            self.metrics.iter().filter_map(|text| text.parse().ok()).collect();
        let is_selected = |name: &str| {
            selectors.is_empty() || selectors.iter().any(|one| selects(one.name(), name))
        };
        let mut selected = names.filter(|name| is_selected(name));
        selected.any(|name| !is_unnamed_machinery(name, &self.metrics))
    }

    /// Returns the programs and metrics that moved in the last day.
    fn first_series(&self, follower: &Follower) -> MovedSeries {
        let Ok(archive) = Archive::open(follower.base()) else { return MovedSeries::default() };
        if !self.is_for_people() {
            return MovedSeries::default();
        }
        let mut selection = Selection::new(&archive);
        selection.select("");
        let end = archive.end();
        let context = (end.saturating_sub(CONTEXT), end);
        moved_series(Source::from(&archive), selection.metrics(), context)
    }

    /// Returns the numbers that histograms are shown as; none if their buckets are.
    fn histogram_values(&self) -> Vec<HistogramValue> {
        let has_metrics = self.buckets || self.json || self.gaps.gaps() == Gaps::Join;
        if self.quantiles.quantile.is_empty()
            && !has_metrics
            && !names_any_bucket_counter(&self.metrics)
        {
            return DEFAULT_VALUES.to_vec();
        }
        self.quantiles.quantile.iter().copied().map(HistogramValue::Quantile).collect()
    }

    /// Returns the time of the first record to show.
    fn first(&self, follower: &Follower, zone: &Zone) -> Result<Timestamp, Failure> {
        let end = match Archive::open(follower.base()) {
            Err(pcp_archive::Error::NoData { .. }) => follower.label().start,
            archive => archive?.end(),
        };
        let Some(text) = &self.start else { return Ok(end) };
        let start = follower.label().start;
        let now = Timestamp::now();
        let frame = Frame { start, end, now, zone: zone.time_zone().clone() };
        Ok(time::parse_time(text, &frame)?)
    }
}

/// Parses the metrics of the command line.
fn selectors(texts: &[String], metadata: &Metadata) -> Result<Vec<Selector>, Failure> {
    texts.iter().map(|text| parse_selector(text, metadata)).collect()
}

/// The archives of a directory, in the order of their start.
struct Queue<'a> {
    path: &'a Path,
    /// Archives that are complete, or older than the first that is followed.
    done: HashSet<PathBuf>,
}

impl<'a> Queue<'a> {
    fn new(path: &'a Path) -> Self {
        Self { path, done: HashSet::new() }
    }

    fn newest(&mut self) -> Result<Follower, Failure> {
        let mut newest: Option<(Timestamp, PathBuf)> = None;
        let bases = ArchiveSet::bases([self.path])?;
        let several = bases.len() > 1;
        for base in bases {
            // Its writer ended while it made the files, or makes them now.
            if several && half_made(&base)?.is_some() {
                continue;
            }
            let start = match start_of(&base) {
                Err(error) if several && error.is_damage() => {
                    warn_of_unreadable(&error);
                    continue;
                }
                start => start?,
            };
            if newest.as_ref().is_none_or(|(latest, _)| *latest <= start) {
                newest = Some((start, base.clone()));
            }
            self.done.insert(base);
        }
        let path = newest.map_or_else(|| self.path.to_owned(), |(_, base)| base);
        Ok(Follower::open(path)?)
    }

    fn open_next(&mut self, current: &Follower) -> Result<Option<Follower>, Failure> {
        if !self.path.is_dir() {
            return Ok(None);
        }
        let mut next: Option<(Timestamp, PathBuf)> = None;
        for base in ArchiveSet::bases([self.path])? {
            if self.done.contains(&base) {
                continue;
            }
            // Without a label yet, or not an archive: retried at the next poll.
            let Ok(start) = start_of(&base) else { continue };
            let is_first = next.as_ref().is_none_or(|(earliest, _)| start < *earliest);
            if start >= current.label().start && is_first {
                next = Some((start, base));
            }
        }
        let Some((_, base)) = next else { return Ok(None) };
        // The files of an archive do not appear all at once.
        let Ok(follower) = Follower::open(&base) else { return Ok(None) };
        self.done.insert(base);
        Ok(Some(follower))
    }
}
