//! `mmv-archive follow`: the values of metrics as they are logged.

mod view;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::Args;
use pcp_types::Timestamp;

use super::columns::WantedUnits;
use super::failure::Failure;
use super::output::Output;
use super::time::{self, Frame};
use super::warn;
use super::zone::{Zone, ZoneOptions};
use crate::follow::{Follower, start_of};
use crate::{Archive, ArchiveSet};
use view::{Choice, View};

/// Options of `follow`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The archive: its base name, any of its files, or a directory, which stands for the newest
    /// archive in it and for those that will follow that one.
    archive: PathBuf,

    /// The metrics to show, names below which all metrics are shown, or patterns such as
    /// "disk.*.read"; without any all metrics.
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,

    /// Show these instances only, by name or number; may be repeated. Without it all are.
    #[arg(short = 'i', long = "instance", value_name = "NAME")]
    instances: Vec<String>,

    /// Begin with the values since this time (-10min: before the newest record; a date; "0s": all
    /// there are) instead of the newest.
    #[arg(short = 'S', long = "start", value_name = "TIME", allow_hyphen_values = true)]
    start: Option<String>,

    /// Stop after this many records instead of never.
    #[arg(short = 's', long, value_name = "COUNT")]
    samples: Option<u64>,

    /// Look for new records this often.
    #[arg(long, value_name = "INTERVAL", default_value = "250ms")]
    poll: String,

    /// Show counters as they are instead of their rates since the record before.
    #[arg(long)]
    no_rate: bool,

    /// Show values in these units where they measure the same: "Mbyte",
    /// "Kbyte / sec", "count x 10^-2"; may be repeated.
    #[arg(long, value_name = "UNITS")]
    units: Vec<String>,

    /// Write floating point numbers in the table with so many places; rates have 3 without it.
    #[arg(long, value_name = "PLACES", value_parser = clap::value_parser!(u8).range(..=20))]
    precision: Option<u8>,

    /// Write JSON Lines, a value each, counters as they are.
    #[arg(long, conflicts_with = "precision")]
    json: bool,

    /// The width of the table in columns; by default that of the terminal as
    /// COLUMNS says, or 100.
    #[arg(long, value_name = "COLUMNS")]
    width: Option<usize>,

    #[command(flatten)]
    zone: ZoneOptions,
}

impl Arguments {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let poll = time::interval(&self.poll)?;
        let mut queue = Queue::new(&self.archive);
        let mut follower = queue.newest()?;
        let zone = self.zone.zone(follower.label())?;
        follower.seek(self.first(&follower, &zone)?)?;
        let choice = Choice {
            metrics: &self.metrics,
            instances: &self.instances,
            rates: !self.no_rate && !self.json,
            units: WantedUnits::parse_all(&self.units)?,
            precision: self.precision.map(usize::from),
            width: self.width.unwrap_or_else(super::terminal_width),
            json: self.json,
        };
        choice.unknown(follower.metadata()).for_each(|name| {
            warn(&format_args!("{name}: no metric of this name in the archive so far"));
        });
        let mut view = View::new(&choice, zone);
        let mut out = Output::new();
        let mut left = self.samples.unwrap_or(u64::MAX);
        while left > 0 {
            // In this order: once a later archive exists, this one is complete.
            let next = queue.after(&follower)?;
            while left > 0
                && let Some(followed) = follower.next()?
            {
                left -= u64::from(view.show(&followed, &mut out)?);
            }
            out.flush()?;
            match next {
                Some(next) => {
                    follower = next;
                    view.begin_archive();
                }
                None if left > 0 => thread::sleep(poll.max(Duration::from_millis(1))),
                None => {}
            }
        }
        Ok(())
    }

    /// The time of the first record that is shown.
    fn first(&self, follower: &Follower, zone: &Zone) -> Result<Timestamp, Failure> {
        let end = match Archive::open(follower.base()) {
            Err(crate::Error::NoData { .. }) => follower.label().start,
            archive => archive?.end(),
        };
        let Some(text) = &self.start else { return Ok(end) };
        let (start, now) = (follower.label().start, Timestamp::now());
        let frame = Frame { start, end, now, zone: zone.time_zone().clone() };
        Ok(time::moment(text, &frame)?)
    }
}

/// The archives that are followed, one after the other.
struct Queue<'a> {
    path: &'a Path,
    /// Those that are over, or were there before the one that is followed.
    done: HashSet<PathBuf>,
}

impl<'a> Queue<'a> {
    fn new(path: &'a Path) -> Self {
        Self { path, done: HashSet::new() }
    }

    /// The archive that started last.
    fn newest(&mut self) -> Result<Follower, Failure> {
        let mut newest: Option<(Timestamp, PathBuf)> = None;
        for base in ArchiveSet::bases(&[self.path])? {
            let start = start_of(&base)?;
            if newest.as_ref().is_none_or(|(latest, _)| *latest <= start) {
                newest = Some((start, base.clone()));
            }
            self.done.insert(base);
        }
        let path = newest.map_or_else(|| self.path.to_owned(), |(_, base)| base);
        Ok(Follower::open(path)?)
    }

    /// The archive that has come to the directory and begins after another.
    fn after(&mut self, present: &Follower) -> Result<Option<Follower>, Failure> {
        if !self.path.is_dir() {
            return Ok(None);
        }
        let mut next: Option<(Timestamp, PathBuf)> = None;
        for base in ArchiveSet::bases(&[self.path])? {
            if self.done.contains(&base) {
                continue;
            }
            // Its label is not there yet, or it is no archive: it is tried again.
            let Ok(start) = start_of(&base) else { continue };
            let is_first = next.as_ref().is_none_or(|(earliest, _)| start < *earliest);
            if start >= present.label().start && is_first {
                next = Some((start, base));
            }
        }
        let Some((_, base)) = next else { return Ok(None) };
        // Files of an archive come one after the other.
        let Ok(follower) = Follower::open(&base) else { return Ok(None) };
        self.done.insert(base);
        Ok(Some(follower))
    }
}
