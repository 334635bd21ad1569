//! Runs all slow work on files: listing the directory, opening, parsing, naming, and building the
//! catalog.
//!
//! Input: moments, settings, and findings of the sampler about its sources. Output: updates for
//! the sampler. The thread is in [`loading`](super::thread); this module reads no clock and never
//! waits.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use crossbeam::channel::{Receiver, Sender};
use tracing::info;

use super::catalog_builder::CatalogBuilder;
use super::continuity::Continuity;
use super::disk_shares::DiskShares;
use super::partition::{GroupId, group_configs, partition};
use super::recorder_plan::RecorderPlan;
use super::reporter::Reporter;
use super::shortage::ShortageReport;
use super::sources::Sources;
use super::update::{LoaderReport, Plan, RetiredObjects, Update};
use crate::config::{Group, Settings};
use crate::discovery::RemovalOutcome;
use crate::host::Host;
use crate::housekeeping::{LoaderState, Task};
use crate::moment::Moment;
use crate::source::{Gap, SourceFinding, Ticket};
use crate::telemetry::{FileReport, SharedStatus};

#[derive(Debug)]
pub(crate) enum Request {
    /// Reread or close the sources with these findings.
    Found(Vec<(Ticket, SourceFinding)>),
    /// Report these spells of missing samples.
    Gaps(Vec<Gap>),
    /// The last values of these files were read before their turn.
    LastValuesRead(BTreeSet<OsString>),
    Change(Box<Settings>),
    /// Send the status of files.
    Files(Sender<FileReport>),
    /// Find and open all files that there are.
    CatchUp,
    /// Charge users for records of these groups, weighted by the compression ratio.
    Logged(BTreeMap<GroupId, u64>),
    /// Free memory that the sampler has no more use for.
    Free(RetiredObjects),
    End,
}

/// The loader's channels to other threads than the sampler.
#[derive(Debug)]
pub(crate) struct LoaderLinks {
    pub housekeeper: Sender<Task>,
    /// Outcomes of file removals.
    pub removals: Receiver<RemovalOutcome>,
    pub shared: Arc<SharedStatus>,
}

/// Time between checks of the agent's own file.
const OWN_FILE_CHECK: Duration = Duration::from_secs(1);

/// The files, their metadata and the catalog.
#[derive(Debug)]
pub(crate) struct Loader {
    reporter: Reporter,
    pub(crate) sources: Sources,
    catalogs: CatalogBuilder,
    continuity: Continuity,
    disk: DiskShares,
    groups: Vec<(GroupId, Group)>,
    intervals: BTreeMap<GroupId, Duration>,
    /// Patterns of metrics for the flight recorder; `None` if it is not configured.
    recorded: Option<Vec<String>>,
    /// Settings that the sampler has not received yet.
    settings: Option<Box<Settings>>,
    now: Moment,
    /// True once all files that existed at the start were tried.
    complete: bool,
    news: LoaderReport,
    /// Time of the next check of the agent's own file; `None` if it has none.
    own_file_check: Option<Duration>,
    links: LoaderLinks,
}

/// Returns the groups that choose metrics, in the order of the configuration.
fn choosing(settings: &Settings) -> Vec<(GroupId, Group)> {
    let mut groups = group_configs(settings);
    groups.retain(|(id, _)| *id != GroupId::Default);
    groups
}

fn intervals(settings: &Settings) -> BTreeMap<GroupId, Duration> {
    let groups = group_configs(settings).into_iter();
    groups.map(|(id, group)| (id, settings.reloadable.interval_of(&group))).collect()
}

fn recorded(settings: &Settings) -> Option<Vec<String>> {
    settings.reloadable.flight_recorder.as_ref().map(|own| own.metrics.clone())
}

impl Loader {
    /// Creates the loader with what an earlier run remembered.
    pub(crate) fn new(
        settings: &Settings,
        host: Host,
        mut memory: LoaderState,
        links: LoaderLinks,
    ) -> Self {
        let harvested = std::mem::take(&mut memory.harvested);
        let known_files = harvested.iter().map(|file| file.file.0.clone()).collect();
        let continuity = Continuity::new(harvested);
        let names = std::mem::take(&mut memory.owners.names);
        let logged = std::mem::take(&mut memory.logged);
        let path = settings.fixed.mmv_dir.clone();
        let limits = settings.reloadable.limits;
        let mut sources = Sources::new(path, links.shared.own().file.clone(), limits, memory);
        sources.change(&settings.reloadable);
        sources.known_files = known_files;
        if settings.reads_ended {
            sources.read_ended();
        }
        Self {
            reporter: Reporter::of_files(settings.fixed.events),
            sources,
            catalogs: CatalogBuilder::new(host, settings, names),
            continuity,
            disk: DiskShares::new(&settings.reloadable, logged),
            groups: choosing(settings),
            intervals: intervals(settings),
            recorded: recorded(settings),
            settings: None,
            now: Moment::START,
            complete: false,
            news: LoaderReport::default(),
            own_file_check: settings.fixed.own_metrics.then_some(OWN_FILE_CHECK),
            links,
        }
    }

    pub(crate) fn begin(&mut self, now: Moment) {
        self.now = now;
        self.reporter.begin(now);
        self.catalogs.begin(now);
        if self.disk.begin(now.day()) {
            self.catalogs.invalidate();
        }
    }

    /// Handles a request of the sampler. Returns false at the end.
    pub(crate) fn handle(&mut self, request: Request) -> bool {
        match request {
            Request::Found(findings) => {
                for (ticket, finding) in findings {
                    self.sources.take_finding(
                        ticket,
                        finding,
                        self.now.monotonic,
                        &mut self.reporter,
                    );
                }
            }
            Request::Gaps(gaps) => self.sources.take_gaps(gaps, &mut self.reporter),
            Request::LastValuesRead(files) => self.sources.close_read(&files, &mut self.reporter),
            Request::Change(settings) => {
                self.sources.change(&settings.reloadable);
                self.catalogs.change(&settings.reloadable);
                self.disk.change(&settings.reloadable);
                self.groups = choosing(&settings);
                self.intervals = intervals(&settings);
                self.recorded = recorded(&settings);
                self.settings = Some(settings);
            }
            Request::Files(reply) => {
                let mut sources = self.sources.status(self.now.monotonic);
                self.catalogs.complete(&mut sources);
                let owners = self.sources.owners(&self.disk);
                let largest_metrics = self.disk.largest().to_vec();
                // The client may have stopped waiting.
                let _ = reply.try_send(FileReport { sources, owners, largest_metrics });
            }
            Request::CatchUp => while self.step() {},
            Request::Logged(records) => self.charge(&records),
            Request::Free(retired) => drop(retired),
            Request::End => return false,
        }
        true
    }

    /// Finds files that have come or gone and programs that were restarted, and opens files.
    /// Returns true if files that are due are left for the next step, so that other work gets a
    /// turn.
    pub(crate) fn step(&mut self) -> bool {
        let now = self.now.monotonic;
        let mut more = self.sources.discover(now, &mut self.reporter);
        self.sources.read_due(now, &mut self.reporter);
        more |= self.sources.admit(now, &mut self.reporter);
        self.complete |= !more;
        match self.sources.update_shortage(self.now.wall) {
            Some(ShortageReport::Began { reason }) => self.links.shared.note_error(reason),
            Some(ShortageReport::Ended { since, reason }) => {
                self.reporter.shortage_ended(since, reason);
            }
            None => {}
        }
        if self.complete
            && let Some(replaced) = self.continuity.was_replaced(&self.sources)
        {
            self.news.replaced = Some(replaced);
        }
        self.news.restarted |= self.sources.restarts.take_detected();
        for outcome in self.links.removals.try_iter() {
            self.reporter.removed(&outcome);
        }
        let dead = self.sources.removal.take_requests();
        if !dead.is_empty() {
            self.assign(Task::Remove(dead));
        }
        self.publish_again(now);
        for (files, count) in self.links.shared.own().files.iter().zip(self.sources.count()) {
            files.set(count);
        }
        more
    }

    /// Publishes the agent's own file again if it is gone.
    fn publish_again(&mut self, now: Duration) {
        let Some(due) = self.own_file_check.filter(|due| now >= *due) else { return };
        self.own_file_check = Some(due.max(now) + OWN_FILE_CHECK);
        let shared = &self.links.shared;
        if let Some(own) = shared.own().publish_again(self.sources.directory()) {
            info!("the file of the agent's own metrics is gone; publishing it again");
            self.sources.set_own_file(own.file.clone());
            shared.set_own(own);
        }
    }

    /// Returns true once all files that existed at the start were tried.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns what has changed since the last call.
    pub(crate) fn update(&mut self) -> Update {
        let plan = self.plan();
        let mut news = std::mem::take(&mut self.news);
        (news.events, news.counts) = self.reporter.events.take();
        if self.disk.is_news() {
            self.continuity.invalidate();
        }
        let task = self.continuity.save(
            self.now,
            &mut self.sources,
            |memory| LoaderState {
                owners: self.catalogs.owners(memory.owners),
                logged: self.disk.remember(),
                ..memory
            },
            &self.links.shared,
        );
        if let Some(task) = task {
            self.assign(task);
        }
        Update { plan, news }
    }

    /// Returns a plan if the sources or the settings have changed.
    fn plan(&mut self) -> Option<Plan> {
        let now = self.now.monotonic;
        let outdated = self.catalogs.take_outdated(now);
        if !self.sources.take_changed() && !outdated {
            return None;
        }
        self.continuity.invalidate();
        self.sources.make_room(now, &mut self.reporter);
        let mut merged = self.catalogs.merge(&self.sources, now, &mut self.reporter);
        let users = self.sources.users();
        let disk = &self.disk;
        let is_suspended =
            |source: usize| users.get(source).is_some_and(|user| disk.is_suspended(*user));
        merged.retain(|source| !is_suspended(source));
        merged.catalog.retain_users(|user| !disk.is_suspended(user));
        let shape = merged.shape;
        let mut catalog = merged.catalog;
        let all = self.recorded.is_some().then(|| shape.clone());
        let groups: Vec<_> = self.groups.iter().map(|(id, group)| (*id, group)).collect();
        let shares = partition(shape, &mut catalog, &groups);
        self.disk.set_records(&shares, &users);
        self.disk.set_largest(&shares, &self.intervals, &catalog);
        let catalog = self.catalogs.set(catalog, self.reporter.events.logged);
        let recorded = self.recorded.as_ref().zip(all);
        let recorded =
            recorded.map(|(patterns, shape)| RecorderPlan::new(patterns, shape, &catalog));
        let sources = self.sources.hand_over();
        Some(Plan { sources, catalog, shares, recorded, settings: self.settings.take() })
    }

    /// Charges users for what was logged. Users over their daily limit are left out from the next
    /// plan on.
    fn charge(&mut self, records: &BTreeMap<GroupId, u64>) {
        if let Some((base, volume)) = self.links.shared.writing() {
            let mut file = base.into_os_string();
            file.push(format!(".{volume}"));
            self.disk.begin_volume(file.into());
        }
        for (group, records) in records {
            self.disk.charge(*group, *records);
        }
        for (user, bytes) in self.links.shared.take_charges() {
            self.disk.charge_bytes(user, bytes);
        }
        for volume in self.links.shared.take_compressed() {
            if self.disk.credit(&volume) {
                self.catalogs.invalidate();
            }
        }
        for user in self.disk.suspend(|user| self.sources.is_alone(user)) {
            self.reporter.over_daily_limit(user, self.disk.bytes(user));
            self.catalogs.invalidate();
        }
    }

    /// Sends the housekeeping thread a task.
    fn assign(&self, task: Task) {
        // Sending fails only while the agent stops.
        let _ = self.links.housekeeper.send(task);
    }
}
