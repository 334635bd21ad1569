//! One tick: what changed, all values that are due, a record for each group.
//!
//! In comes the moment of a tick, and what is due; out goes a sample for the writer
//! thread, and one for the flight recorder. No clock is read here.

use std::sync::Arc;
use std::time::Duration;

use crossbeam::channel::{Receiver, Sender};

use super::SamplerReport;
use super::catalog_builder::CatalogBuilder;
use super::continuity::Continuity;
use super::delivery::Delivery;
use super::groups::{Due, Groups};
use super::reporter::Reporter;
use super::sources::Sources;
use crate::config::Settings;
use crate::discovery::RemovalOutcome;
use crate::flight_recorder::FlightRecorder;
use crate::host::Host;
use crate::housekeeping::{Memory, Task};
use crate::logging::{QueueSender, Sample};
use crate::moment::Moment;
use crate::telemetry::{Kind, SharedStatus, Status};

/// How often files and events are counted for the agent's own metrics.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);

/// The sampler's state between ticks.
#[derive(Debug)]
pub(crate) struct Sampler {
    reporter: Reporter,
    sources: Sources,
    catalogs: CatalogBuilder,
    /// The groups.
    pub groups: Groups,
    /// The flight recorder, if it is configured.
    pub flight_recorder: Option<FlightRecorder>,
    /// The way to the writer thread, and what was done so far.
    pub delivery: Delivery,
    continuity: Continuity,
    /// When files were last counted.
    counted: Option<Duration>,
    links: Links,
}

/// The way to other threads, besides the queue to the writer.
#[derive(Debug)]
pub(crate) struct Links {
    /// The tasks of the housekeeping thread.
    pub housekeeper: Sender<Task>,
    /// What became of files that were to be removed.
    pub removals: Receiver<RemovalOutcome>,
    /// What the threads share.
    pub shared: Arc<SharedStatus>,
}

impl Sampler {
    /// Samples the files of the settings' directory, with what an earlier run
    /// remembered.
    pub(crate) fn new(
        settings: &Settings,
        host: Host,
        mut memory: Memory,
        queue: QueueSender,
        links: Links,
    ) -> Self {
        let continuity = Continuity::new(std::mem::take(&mut memory.harvested));
        let (path, limits) = (settings.fixed.mmv_dir.clone(), settings.reloadable.limits);
        let mut sources = Sources::new(path, links.shared.own.file.clone(), limits, memory);
        sources.change(&settings.reloadable);
        Self {
            reporter: Reporter::new(settings.fixed.events),
            sources,
            catalogs: CatalogBuilder::new(host, settings.fixed.events),
            groups: Groups::new(settings),
            flight_recorder: settings.reloadable.flight_recorder.clone().map(FlightRecorder::new),
            delivery: Delivery::new(queue),
            continuity,
            counted: None,
            links,
        }
    }

    /// Applies other settings, at a time counted from midnight.
    pub(crate) fn change(&mut self, settings: &Settings, since_midnight: Duration) {
        self.groups.change(settings, since_midnight);
        match (&mut self.flight_recorder, settings.reloadable.flight_recorder.clone()) {
            (Some(flight_recorder), Some(settings)) => flight_recorder.change(settings),
            (flight_recorder, settings) => *flight_recorder = settings.map(FlightRecorder::new),
        }
        self.sources.change(&settings.reloadable);
        self.catalogs.change(settings.reloadable.labels.clone());
    }

    /// Gives the housekeeping thread a task.
    pub(crate) fn assign(&self, task: Task) {
        // The thread has ended only if the agent is about to.
        let _ = self.links.housekeeper.send(task);
    }

    /// What the threads share.
    pub(crate) fn shared(&self) -> &SharedStatus {
        &self.links.shared
    }

    /// Samples of all sources are missing before the next one.
    pub(crate) fn note_gap(&mut self) {
        self.delivery.mark = true;
        self.reporter.report_at_next_tick(Kind::Gap);
    }

    /// Counts ticks that were skipped.
    pub(crate) fn note_missed(&mut self, ticks: u64) {
        self.delivery.report.missed += ticks;
        self.shared().own.missed.add(ticks);
    }

    /// The next tick is the last one.
    pub(crate) fn note_end(&mut self) {
        self.reporter.report_at_next_tick(Kind::Stopped);
    }

    /// How many files are harvested.
    pub(crate) fn files(&self) -> usize {
        self.sources.len()
    }

    /// The sampler's part of the status.
    pub(crate) fn status(&self, now: Duration) -> Status {
        let SamplerReport { records, values, dropped, missed } = self.delivery.report;
        Status {
            sources: self.sources.status(now),
            groups: self.groups.status(),
            records,
            values,
            dropped,
            missed,
            queued: self.delivery.queue.waiting() as u64,
            archive: self.shared().archive_status(),
            kept: self.shared().kept(),
            last_error: self.shared().last_error(),
            flight_recorder: self.flight_recorder.as_ref().map(FlightRecorder::status),
            ..Status::default()
        }
    }

    /// All that can be due.
    pub(crate) fn everything(&self) -> Due {
        Due { groups: self.groups.ids(), flight_recorder: true }
    }

    /// Samples what is due. False if the writer has ended.
    pub(crate) fn tick(&mut self, now: Moment, due: Due) -> bool {
        self.discover(now);
        self.update_catalog(now);
        let due = self.harvest(now, due);
        let sample = self.sample(now, &due);
        self.deliver(now, sample)
    }

    /// Finds out which files have come and gone, which programs were restarted, and
    /// which files have to be removed.
    fn discover(&mut self, now: Moment) {
        self.reporter.begin(now);
        self.sources.discover(now.monotonic, &mut self.reporter);
        self.sources.admit(now.monotonic, &mut self.reporter);
        if let Some(replaced) = self.continuity.was_replaced(&self.sources) {
            self.delivery.unobserved = replaced;
        }
        if self.sources.restarts.take() {
            self.delivery.mark = true;
            if let Some(flight_recorder) = &mut self.flight_recorder {
                flight_recorder.note_gap();
            }
        }
        for outcome in self.links.removals.try_iter() {
            self.reporter.removed(&outcome);
        }
        let dead = self.sources.removal.take();
        if !dead.is_empty() {
            self.assign(Task::Remove(dead));
        }
        self.catalogs.begin(now);
    }

    /// Builds the catalog again if the sources or the settings have changed.
    fn update_catalog(&mut self, now: Moment) {
        let outdated = self.catalogs.take_outdated(now.monotonic);
        if !self.sources.take_changed() && !outdated {
            return;
        }
        self.continuity.invalidate();
        let merged = self.catalogs.merge(&self.sources, now.monotonic, &mut self.reporter);
        let (shape, mut catalog, sources) = (merged.shape, merged.catalog, self.sources.len());
        let chosen = self.flight_recorder.as_ref().map(|own| own.choose(&shape, &catalog));
        let shares = self.groups.partition(shape, &mut catalog);
        let catalog = self.catalogs.set(catalog, self.reporter.events.logged);
        self.groups.set_shares(shares, sources);
        if let (Some(flight_recorder), Some(shape)) = (&mut self.flight_recorder, chosen) {
            flight_recorder.lay_out(shape, &catalog, sources);
        }
    }

    /// Reads the sources that are needed for what is due, and returns what is due then.
    /// The last values of a process that has ended are logged by all groups that have
    /// some, together with their other values, since they are read only once.
    fn harvest(&mut self, now: Moment, mut due: Due) -> Due {
        loop {
            self.read(now, &due);
            let before = due.clone();
            for source in self.sources.ended() {
                due.groups.extend(self.groups.that_need(source));
                due.flight_recorder |= self.recorder_needs(source);
            }
            // Groups that have become due may read more sources that have ended.
            if due == before {
                break;
            }
        }
        let task = self.continuity.save(now, &mut self.sources, &self.links.shared);
        if let Some(task) = task {
            self.assign(task);
        }
        due
    }

    fn recorder_needs(&self, source: usize) -> bool {
        self.flight_recorder.as_ref().is_some_and(|own| own.needs(source))
    }

    /// Reads the sources that are needed and were not read at this tick.
    fn read(&mut self, now: Moment, due: &Due) {
        let needed: Vec<bool> = (0..self.sources.len())
            .map(|source| {
                (due.flight_recorder && self.recorder_needs(source))
                    || self.groups.that_need(source).any(|id| due.groups.contains(&id))
            })
            .collect();
        let is_needed = |source: usize| needed.get(source).copied().unwrap_or(false);
        let reshaped = self.sources.harvest(now, is_needed, &mut self.reporter);
        self.groups.reshape(&reshaped);
        self.update_catalog(now);
    }

    /// The sample of the values just read; `None` if there is nothing to log.
    fn sample(&mut self, now: Moment, due: &Due) -> Option<Sample> {
        let values = self.sources.values(now);
        if let (Some(flight_recorder), true) = (&mut self.flight_recorder, due.flight_recorder) {
            flight_recorder.take(now.wall, &values);
        }
        let Delivery { queue, report, mark, unobserved, .. } = &mut self.delivery;
        let logged = self.groups.log(now, &due.groups, &values, queue);
        report.values += logged.values;
        self.links.shared.own.values.add(logged.values);
        let (events, last_known) = (self.reporter.events.due(), self.groups.last_known());
        // After a mark all last-known values are logged again.
        let again = *mark && !last_known.is_empty();
        let (records, changes) = (logged.records, logged.changes);
        let nothing = records.is_empty() && changes.after.is_empty() && events.is_empty() && !again;
        (!nothing).then(|| Sample {
            timestamp: now.wall,
            catalog: self.catalogs.catalog(),
            records,
            changes,
            last_known,
            events,
            mark: *mark,
            unobserved: *unobserved,
        })
    }

    /// Hands over a sample, and updates the agent's own metrics. False if the writer
    /// has ended.
    fn deliver(&mut self, now: Moment, sample: Option<Sample>) -> bool {
        let own = &self.links.shared.own;
        let goes_on =
            sample.is_none_or(|sample| self.delivery.deliver(sample, &mut self.reporter, own));
        own.queued.set(self.delivery.queue.waiting() as u64);
        let now = now.monotonic;
        if self.counted.is_none_or(|counted| now >= counted + COUNT_INTERVAL) {
            self.counted = Some(now);
            for (files, count) in own.files.iter().zip(self.sources.count()) {
                files.set(count);
            }
            for (known, count) in own.events.iter().zip(self.reporter.events.counts) {
                known.add(count - known.value());
            }
        }
        goes_on
    }
}
