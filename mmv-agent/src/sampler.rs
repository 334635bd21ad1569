//! One tick: what changed, all values that are due, a record for each group.
//!
//! Reads no clock; the moments come from the caller. The catalog is kept while
//! the sources and their metadata stay; what each group keeps is in
//! [`lane`](crate::lane).

use std::sync::Arc;
use std::time::Duration;

use crossbeam::channel::Sender;
use mmv_archive::Version;
use pcp_types::Timestamp;
use tracing::{info, warn};

use crate::catalog::{Catalog, Conflict, merge};
use crate::config::{Group, LogMode, Settings};
use crate::events::{self, Kind};
use crate::groups::{Share, deal};
use crate::hindsight::Hindsight;
use crate::host::Host;
use crate::keeper::Note;
use crate::lane::Lane;
use crate::ledger::Ledger;
use crate::meanings::Meanings;
use crate::queue::{Offer, Order, Outlet, Sample};
use crate::seldom::{Changes, Standing};
use crate::sources::Sources;
use crate::state::{Harvested, Memory};
use crate::status::{GroupStatus, Status};

/// How long metrics whose meaning changes too often are left out at least.
const LEFT_OUT: Duration = Duration::from_secs(60);

/// How often files and events are counted for the agent's own metrics.
const COUNTED: Duration = Duration::from_secs(1);

/// How the group is called of what no group has.
const REST: &str = "the rest";

/// What records of that size come to in a day, in bytes.
fn bytes_a_day(bytes: usize, interval: Duration) -> u64 {
    (bytes as f64 * 86_400.0 / interval.as_secs_f64()) as u64
}

/// A lane for each group, and one for the rest.
fn lanes(groups: &[Group], version: Version) -> Vec<Lane> {
    (0..=groups.len()).map(|_| Lane::new(version)).collect()
}

/// What the sampler has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SamplerReport {
    /// Records handed to the writer.
    pub records: u64,
    /// Values in them.
    pub values: u64,
    /// Records dropped because the queue was full.
    pub dropped: u64,
    /// Ticks passed over because an earlier one took too long.
    pub missed: u64,
}

/// The sampler's state between ticks.
#[derive(Debug)]
pub(crate) struct Sampler {
    host: Host,
    sources: Sources,
    outlet: Outlet,
    catalog: Arc<Catalog>,
    groups: Vec<Group>,
    /// One for each group, and a last one for what no group has.
    lanes: Vec<Lane>,
    meanings: Meanings,
    /// The day that the archive is of, in days since 1970.
    day: Option<i64>,
    /// When metrics that were left out because of their new meaning are looked
    /// at again.
    left_out: Option<Duration>,
    standing: Standing,
    /// The catalog is that of other sources, or of other groups.
    outdated: bool,
    /// What was left out and has been said.
    conflicts: Vec<(String, Conflict)>,
    unsaid: usize,
    /// A mark belongs before the next sample.
    mark: bool,
    /// What the next tick has to tell of the agent.
    to_tell: Vec<Kind>,
    dropping: u64,
    /// The first of the samples that are being dropped, and how many records had
    /// been dropped before.
    dropping_since: (Timestamp, u64),
    /// When the last tick was.
    last: Option<Timestamp>,
    /// When files were last counted.
    counted: Option<Duration>,
    report: SamplerReport,
    links: Links,
    /// The files that an earlier run harvested, until they were compared with
    /// those of this one.
    harvested: Option<Vec<Harvested>>,
    /// One of them was replaced meanwhile, which the sink does not know yet.
    unobserved: bool,
    /// The day on which the keeper was last told what to remember.
    remembered: Option<i64>,
    hindsight: Option<Hindsight>,
}

/// With whom the sampler is in touch, beside the writer.
#[derive(Debug)]
pub(crate) struct Links {
    /// Who saves what is to be remembered.
    pub keeper: Sender<Note>,
    /// Where it is said how long.
    pub ledger: Arc<Ledger>,
}

impl Sampler {
    /// Samples the files of the settings' directory, with what an earlier run
    /// remembered.
    pub(crate) fn new(
        settings: &Settings,
        host: Host,
        memory: Memory,
        outlet: Outlet,
        links: Links,
    ) -> Self {
        let mut sources = Sources::new(settings.mmv_dir.clone(), settings.limits, &memory);
        if settings.events {
            sources.journal().log();
        }
        sources.restarts().want(settings.mark_on_restart);
        sources.removal().change(settings.remove_dead_after);
        Self {
            host,
            sources,
            outlet,
            links,
            harvested: Some(memory.harvested),
            unobserved: false,
            remembered: None,
            hindsight: settings.hindsight.clone().map(Hindsight::new),
            catalog: Arc::default(),
            lanes: lanes(&settings.groups, settings.archive_version),
            groups: settings.groups.clone(),
            meanings: Meanings::default(),
            day: None,
            left_out: None,
            standing: Standing::default(),
            // Events need their descriptors though there may be no file.
            outdated: settings.events,
            conflicts: Vec::new(),
            unsaid: 0,
            mark: false,
            to_tell: vec![Kind::Started],
            dropping: 0,
            dropping_since: (Timestamp::EPOCH, 0),
            last: None,
            counted: None,
            report: SamplerReport::default(),
        }
    }

    /// Other settings from now on.
    pub(crate) fn change(&mut self, settings: &Settings) {
        if self.groups != settings.groups {
            self.lanes = lanes(&settings.groups, settings.archive_version);
            self.groups.clone_from(&settings.groups);
            self.stand();
        }
        match (&mut self.hindsight, settings.hindsight.clone()) {
            (Some(hindsight), Some(settings)) => hindsight.change(settings),
            (hindsight, settings) => *hindsight = settings.map(Hindsight::new),
        }
        self.sources.set_limits(settings.limits);
        self.sources.restarts().want(settings.mark_on_restart);
        self.sources.removal().change(settings.remove_dead_after);
        self.host.labels.clone_from(&settings.labels);
        self.outdated = true;
    }

    /// The writer's end of things.
    pub(crate) fn outlet(&mut self) -> &mut Outlet {
        &mut self.outlet
    }

    /// Tells the writer to do something.
    pub(crate) fn order(&self, order: Order) {
        self.outlet.order(order);
    }

    /// Tells the keeper something.
    pub(crate) fn tell(&self, note: Note) {
        // Without a keeper nothing is kept.
        let _ = self.links.keeper.send(note);
    }

    /// Says that samples of all sources are missing before the next one.
    pub(crate) fn note_gap(&mut self) {
        self.mark = true;
        self.to_tell.push(Kind::Gap);
    }

    /// What is kept in memory, if anything is to be.
    pub(crate) fn hindsight(&mut self) -> Option<&mut Hindsight> {
        self.hindsight.as_mut()
    }

    /// The number of hindsight among groups whose turn it is.
    pub(crate) fn hindsight_number(&self) -> usize {
        self.lanes.len()
    }

    /// Counts ticks that were passed over.
    pub(crate) fn note_missed(&mut self, ticks: u64) {
        self.report.missed += ticks;
        self.links.ledger.own().missed.add(ticks);
    }

    /// Says of each group, once, what it comes to; `interval` is that of a group.
    pub(crate) fn foretell(&mut self, interval: impl Fn(usize) -> Duration) {
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            let Some((values, bytes)) = lane.first_size() else { continue };
            let group = self.groups.get(number).map_or(REST, |group| group.name.as_str());
            let interval = interval(number);
            let megabytes = bytes_a_day(bytes, interval) as f64 / 1e6;
            info!(%group, values, ?interval, "{megabytes:.1} MB a day before compression");
        }
    }

    /// How many files are harvested now.
    pub(crate) fn files(&self) -> usize {
        self.sources.len()
    }

    /// What is being done `now`, with groups of these intervals.
    pub(crate) fn status(&self, intervals: &[Duration], now: Duration) -> Status {
        let SamplerReport { records, values, dropped, missed } = self.report;
        let names = self.groups.iter().map(|group| group.name.as_str()).chain([REST]);
        let groups = self.lanes.iter().zip(names).zip(intervals);
        let groups = groups.map(|((lane, name), interval)| {
            let (values, bytes) = lane.size();
            let bytes_a_day = bytes_a_day(bytes, *interval);
            let interval = interval.as_secs_f64();
            GroupStatus { name: name.to_owned(), interval, values, bytes_a_day }
        });
        Status {
            sources: self.sources.status(now),
            groups: groups.collect(),
            records,
            values,
            dropped,
            missed,
            queued: self.outlet.waiting() as u64,
            archive: self.links.ledger.archive_status(),
            kept: self.links.ledger.kept(),
            last_error: self.links.ledger.last_error(),
            hindsight: self.hindsight.as_ref().map(Hindsight::status),
            ..Status::default()
        }
    }

    /// What the threads know of each other.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.links.ledger
    }

    /// What has been done so far.
    pub(crate) fn report(&self) -> SamplerReport {
        self.report
    }

    /// Takes one sample of the groups that are due, and of
    /// [hindsight](Self::hindsight_number) (`None`: all): `now` is counted from the
    /// start, `stamp` is the time that the records bear. `false` if nobody takes
    /// samples any more.
    pub(crate) fn tick(&mut self, now: Duration, stamp: Timestamp, due: Option<&[usize]>) -> bool {
        self.begin(now, stamp);
        let day = stamp.seconds().div_euclid(86_400);
        if self.day.replace(day) != Some(day) {
            self.meanings.forget();
        }
        self.sources.refresh(now);
        if self.sources.restarts().take() {
            self.mark = true;
            if let Some(hindsight) = &mut self.hindsight {
                hindsight.note_gap();
            }
        }
        self.bury();
        self.update(now);
        if let Some(before) = self.harvested.take() {
            let now = self.sources.harvested(None);
            self.unobserved = before.iter().any(|file| !now.contains(file));
        }
        let is_due = |number: usize| due.is_none_or(|due| due.contains(&number));
        let mut turn: Vec<bool> = (0..=self.lanes.len()).map(is_due).collect();
        self.harvest(now, stamp, &turn);
        // What a process has left behind is logged by all groups that have it,
        // with their other values, since it is looked at only this once.
        let before = turn.clone();
        for source in self.sources.ended() {
            for (lane, turn) in self.lanes.iter().zip(&mut turn) {
                *turn |= lane.needs(source);
            }
            turn[self.lanes.len()] |= self.hindsight.as_ref().is_some_and(|own| own.needs(source));
        }
        if turn != before {
            self.harvest(now, stamp, &turn);
        }
        self.remember(stamp);
        if let (Some(hindsight), Some(true)) = (&mut self.hindsight, turn.last()) {
            hindsight.take(stamp, &self.sources.values(now));
        }
        let before = self.report.values;
        let goes_on = match self.sample(now, stamp, &turn) {
            Some(sample) => self.hand_over(sample),
            None => true,
        };
        self.count(now, self.report.values - before);
        goes_on
    }

    /// Brings the agent's own metrics up to date.
    fn count(&mut self, now: Duration, values: u64) {
        let own = self.links.ledger.own();
        own.values.add(values);
        own.queued.set(self.outlet.waiting() as u64);
        if self.counted.is_some_and(|at| now < at + COUNTED) {
            return;
        }
        self.counted = Some(now);
        for (files, now) in own.files.iter().zip(self.sources.count()) {
            files.set(now);
        }
        for (known, now) in own.events.iter().zip(self.sources.journal().counts()) {
            known.add(now - known.value());
        }
    }

    /// The next tick is the last one.
    pub(crate) fn note_end(&mut self) {
        self.to_tell.push(Kind::Stopped);
    }

    /// Notes what the moment of a tick says.
    fn begin(&mut self, now: Duration, stamp: Timestamp) {
        let journal = self.sources.journal();
        journal.begin(now, stamp);
        let last = self.last.replace(stamp);
        for kind in self.to_tell.drain(..) {
            journal.note(kind, |happening| {
                if kind == Kind::Gap {
                    happening.since = last;
                    return;
                }
                happening.pid = Some(std::process::id().cast_signed());
                happening.reason = Some(concat!("mmv-agent ", env!("CARGO_PKG_VERSION")).into());
            });
        }
    }

    /// Has files removed that are due, and tells of those that were.
    fn bury(&mut self) {
        for (dead, stays) in self.links.ledger.take_removed() {
            self.sources.removed(&dead, stays.as_ref());
        }
        let dead = self.sources.removal().take();
        if !dead.is_empty() {
            self.links.ledger.put_dead(dead);
            self.tell(Note::Remove);
        }
    }

    /// Reads the sources that the groups need whose turn it is.
    fn harvest(&mut self, now: Duration, stamp: Timestamp, turn: &[bool]) {
        let Self { lanes, sources, hindsight, .. } = self;
        let hindsight = hindsight.as_ref().filter(|_| turn.last() == Some(&true));
        let reshaped = sources.harvest(now, stamp, |source| {
            hindsight.is_some_and(|hindsight| hindsight.needs(source))
                || lanes.iter().zip(turn).any(|(lane, due)| *due && lane.needs(source))
        });
        for lane in &mut self.lanes {
            if reshaped.iter().any(|source| lane.needs(*source)) {
                lane.reshape();
            }
        }
        self.update(now);
    }

    /// Has the keeper save what the next run has to know, when that has changed
    /// and once a day.
    fn remember(&mut self, stamp: Timestamp) {
        let day = stamp.seconds().div_euclid(86_400);
        if self.remembered == Some(day) {
            return;
        }
        self.remembered = Some(day);
        let ledger = &self.links.ledger;
        let own = ledger.own().file.as_deref();
        let memory = self.sources.remember(stamp.seconds(), ledger.oldest(), own);
        // A keeper whose disk stalls finds the newest of them.
        if self.links.ledger.put_memory(memory) {
            self.tell(Note::Remember);
        }
    }

    /// Makes the catalog anew if it is not that of the sources.
    fn update(&mut self, now: Duration) {
        self.outdated |= self.left_out.take_if(|due| *due <= now).is_some();
        let changed = self.sources.take_changed();
        if !std::mem::take(&mut self.outdated) && !changed {
            return;
        }
        let mut merged = merge(self.catalog.id + 1, &self.sources.members(), &self.host);
        for (file, conflict) in &merged.conflicts {
            let is_new = !self.conflicts.iter().any(|(_, known)| known == conflict);
            if is_new && self.sources.may_speak() {
                warn!(file = %file, reason = %conflict, "left out");
            }
        }
        if merged.unsaid > self.unsaid && self.sources.may_speak() {
            warn!(more = merged.unsaid, "more is left out for such reasons");
        }
        self.remembered = None;
        self.unsaid = merged.unsaid;
        self.conflicts = std::mem::take(&mut merged.conflicts);
        let sources = &self.sources;
        let out = self.meanings.sift(&mut merged, |source| sources.owner(source), now);
        if let Some(first) = out.first() {
            if self.left_out.is_none() {
                let metrics = out.len();
                warn!(%first, metrics, "left out: new meanings too often");
            }
            self.left_out = Some(now + LEFT_OUT);
        }
        let hindsight = self.hindsight.as_ref();
        let chosen = hindsight.map(|hindsight| hindsight.choose(&merged.layout, &merged.catalog));
        let shares = deal(merged.layout, &mut merged.catalog, &self.groups);
        if self.sources.journal().is_logged() {
            events::declare(&mut merged.catalog);
        }
        self.catalog = Arc::new(merged.catalog);
        self.lay_out(shares);
        if let (Some(hindsight), Some(layout)) = (&mut self.hindsight, chosen) {
            hindsight.lay_out(layout, &self.catalog, self.sources.len());
        }
    }

    fn lay_out(&mut self, shares: Vec<Share>) {
        let count = self.sources.len();
        let mut gone = false;
        for (number, (lane, share)) in self.lanes.iter_mut().zip(shares).enumerate() {
            let log = self.groups.get(number).map_or(LogMode::Every, |group| group.log);
            gone |= lane.lay_out(share, log, count);
        }
        let orphans =
            (0..count).filter(|source| !self.lanes.iter().any(|lane| lane.needs(*source)));
        let orphans: Vec<usize> = orphans.collect();
        if let Some(last) = self.lanes.last_mut() {
            for source in orphans {
                last.adopt(source);
            }
        }
        if gone {
            self.stand();
        }
    }

    fn stand(&mut self) {
        let all = self.lanes.iter().flat_map(|lane| lane.seldom().standing());
        self.standing = Arc::new(all.cloned().collect());
    }

    /// The records of the values just read; `None` if there are none.
    fn sample(&mut self, now: Duration, stamp: Timestamp, turn: &[bool]) -> Option<Sample> {
        let Self { lanes, outlet, .. } = self;
        outlet.collect(|template| lanes.iter().any(|lane| lane.template() == Some(template)));
        let values = self.sources.values(now);
        let (mut records, mut changes, mut different) = (Vec::new(), Changes::default(), false);
        for (lane, _) in lanes.iter_mut().zip(turn).filter(|(_, turn)| **turn) {
            different |= lane.look(&values, &mut changes);
            if let Some((record, count)) = lane.record(stamp, &values, outlet) {
                records.push(record);
                self.report.values += count as u64;
            }
        }
        if different {
            self.stand();
        }
        let events = self.sources.journal().due();
        let catalog = Arc::clone(&self.catalog);
        let standing = Arc::clone(&self.standing);
        let Self { mark, unobserved, .. } = *self;
        // Behind a mark all that stands is logged again, be it as before.
        let again = mark && !standing.is_empty();
        let nothing = records.is_empty() && changes.after.is_empty() && events.is_empty() && !again;
        (!nothing).then_some(Sample {
            stamp,
            catalog,
            records,
            changes,
            standing,
            events,
            mark,
            unobserved,
        })
    }

    fn hand_over(&mut self, sample: Sample) -> bool {
        let records = sample.records.len() as u64;
        let (stamp, tells) = (sample.stamp, !sample.events.is_empty());
        let ledger = Arc::clone(&self.links.ledger);
        match self.outlet.offer(sample) {
            Offer::Taken => {
                if tells {
                    self.sources.journal().clear();
                }
                if self.dropping > 0 {
                    info!(dropped = self.dropping, "samples are taken again");
                    let ((since, before), dropped) = (self.dropping_since, self.report.dropped);
                    self.sources.journal().note(Kind::Dropped, |happening| {
                        happening.records = Some(dropped - before);
                        happening.since = Some(since);
                    });
                }
                self.dropping = 0;
                self.mark = false;
                self.unobserved = false;
                self.report.records += records;
                ledger.own().sampled.add(records);
            }
            Offer::Full => {
                if self.dropping == 0 {
                    warn!("the queue is full: samples are dropped until the disk has caught up");
                    self.dropping_since = (stamp, self.report.dropped);
                }
                self.dropping += 1;
                self.mark = true;
                self.report.dropped += records;
                ledger.own().dropped.add(records);
            }
            Offer::Gone => return false,
        }
        true
    }
}
