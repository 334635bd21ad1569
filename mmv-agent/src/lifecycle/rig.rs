//! A test rig: an agent with temporary directories and a clock that the test moves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crossbeam::channel::{Receiver, Sender, unbounded};
use mmv_format::mapping::guard;
use mmv_writer::{Counter, Registry};
use pcp_archive::check::{Finding, Severity, check};
use pcp_archive::raw::{TextKind, TextTarget};
use pcp_archive::replay::Decrease;
use pcp_archive::scan::Selection;
use pcp_archive::summary::summarize;
use pcp_archive::{Archive, ArchiveSet, OwnedValue, Source};
use pcp_types::Timestamp;
use tempfile::TempDir;

use crate::config::{Destination, Group, Retention, Settings};
use crate::discovery::RemovalOutcome;
use crate::host::Host;
use crate::housekeeping::{Housekeeper, HousekeepingRules, PrologueIds, Store, Task};
use crate::loading::partition::GroupId;
use crate::loading::{Loader, LoaderHandle, loader};
use crate::logging::{
    ArchiveNames, Archiver, Order, Policy, QueueReceiver, WriterMessage, archive_writer, queue,
};
use crate::moment::Moment;
use crate::sampling::groups::DueGroups;
use crate::sampling::{Sampler, sampler};
use crate::telemetry::status::RetainedArchives;
use crate::telemetry::{OwnMetrics, SharedStatus};

/// The domain of prologues.
const PMCD: u32 = 2;

const INTERVAL: Duration = Duration::from_secs(1);

/// Time from a tick to the discovery of changes of the directory.
const BETWEEN_TICKS: Duration = Duration::from_millis(900);

/// Sampler, queue and archive writer on one thread.
pub(super) struct Rig {
    dir: TempDir,
    sampler: Sampler,
    receiver: QueueReceiver,
    archiver: Archiver,
    housekeeper: Housekeeper,
    tasks: Receiver<Task>,
    home: Home,
    now: Duration,
    start: Timestamp,
    stalled: bool,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::with(|_| ())
    }

    pub(super) fn with_queue(bytes: u64) -> Self {
        Self::with(|settings| settings.reloadable.limits.queue_bytes = bytes)
    }

    pub(super) fn with_groups(groups: Vec<Group>) -> Self {
        Self::with(|settings| settings.reloadable.groups = groups)
    }

    pub(super) fn with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::with_home(|home| change(&mut home.settings))
    }

    fn with_home(change: impl FnOnce(&mut Home)) -> Self {
        guard::install().unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("mmv")).unwrap();
        let mut home = Home::new(dir.path());
        change(&mut home);
        let (sampler, receiver, archiver, housekeeper, tasks) = home.agent();
        Self {
            housekeeper,
            home,
            tasks,
            archiver,
            sampler,
            dir,
            receiver,
            now: Duration::ZERO,
            start: Timestamp::new(1_700_000_000, 0).unwrap(),
            stalled: false,
        }
    }

    /// An agent that publishes its own metrics. It changes their file only together with
    /// its own.
    pub(super) fn with_own_metrics() -> Self {
        Self::with_home(|home| {
            let own = OwnMetrics::publish(&home.settings.fixed.mmv_dir);
            home.settings.fixed.own_metrics = true;
            home.shared = Arc::default();
            home.shared.set_own(own);
        })
    }

    pub(super) fn own(&self) -> Arc<OwnMetrics> {
        self.home.shared.own()
    }

    pub(super) fn own_groups(&self) -> Vec<(GroupId, u64)> {
        let groups = self.home.settings.own_groups().into_iter().enumerate();
        groups
            .map(|(at, group)| (GroupId::OwnMetrics(at), group.interval.unwrap().as_secs()))
            .collect()
    }

    /// Ends the agent and starts another one, which cleans up.
    pub(super) fn restart(&mut self) {
        self.restart_and(|_| ());
    }

    /// Ends the agent and starts another one, which does something before it cleans up.
    pub(super) fn restart_and(&mut self, meanwhile: impl FnOnce(&mut Self)) {
        self.keep();
        self.home.shared = Arc::default();
        let (sampler, receiver, archiver, housekeeper, tasks) = self.home.agent();
        self.sampler = sampler;
        self.receiver = receiver;
        self.tasks = tasks;
        std::mem::replace(&mut self.archiver, archiver).finish();
        self.housekeeper = housekeeper;
        self.clean_up_around(meanwhile);
    }

    /// Cleans up what was left before `meanwhile`.
    pub(super) fn clean_up_around(&mut self, meanwhile: impl FnOnce(&mut Self)) {
        let left = self.housekeeper.leftovers();
        meanwhile(self);
        self.housekeeper.clean_up(&left);
    }

    /// The files whose clusters are remembered.
    pub(super) fn remembered(&mut self) -> Vec<String> {
        self.keep();
        let clusters = self.home.store.memory().clusters;
        let mut names: Vec<_> =
            clusters.into_iter().map(|known| known.file.0.into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(super) fn synced(&self) -> u64 {
        self.archiver.report().synced
    }

    fn keep(&mut self) {
        while let Ok(task) = self.tasks.try_recv() {
            self.housekeeper.perform(task);
        }
        self.housekeeper.save();
    }

    /// Performs tasks, and deletes archives as the housekeeper would at the rig's time.
    pub(super) fn tidy(&mut self) {
        self.keep();
        let wall = self.start.saturating_add(self.now);
        self.housekeeper.tidy(Moment { monotonic: self.now, wall });
    }

    /// Lets the housekeeper compress what has waited long enough after `time`.
    pub(super) fn compress_after(&mut self, time: Duration) {
        self.keep();
        while self.housekeeper.compress_next(SystemTime::now() + time, &self.tasks) {}
    }

    /// Reduces archives as the housekeeper would at the rig's time. Returns how many.
    pub(super) fn reduce(&mut self) -> usize {
        let mut reduced = 0;
        loop {
            self.tidy();
            if !self.housekeeper.reduce_next(&self.tasks) {
                return reduced;
            }
            reduced += 1;
        }
    }

    pub(super) fn change_retention(&mut self, retention: Retention) {
        self.home.settings.reloadable.retention = retention;
        let rules = HousekeepingRules::new(&self.home.settings.reloadable);
        self.housekeeper.perform(Task::Change(rules));
    }

    pub(super) fn kept(&self) -> RetainedArchives {
        self.home.shared.kept()
    }

    pub(super) fn last_error(&self) -> Option<String> {
        self.home.shared.last_error().map(|error| error.what)
    }

    pub(super) fn server(&self) -> PrologueIds {
        self.home.store.server()
    }

    pub(super) fn mmv_dir(&self) -> PathBuf {
        self.dir.path().join("mmv")
    }

    pub(super) fn archive_dir(&self) -> PathBuf {
        self.dir.path().join("archives")
    }

    pub(super) fn host_directory(&self) -> PathBuf {
        self.archive_dir().join("box")
    }

    pub(super) fn regroup(&mut self, groups: Vec<Group>) {
        self.home.settings.reloadable.groups = groups;
        let now = Moment { monotonic: self.now, wall: self.start.saturating_add(self.now) };
        self.sampler.change(&self.home.settings, now, Duration::ZERO);
    }

    pub(super) fn order(&mut self, order: Order) {
        self.sampler.delivery.queue.order(order);
        self.write();
    }

    /// Samples of all sources are missing before the next tick.
    pub(super) fn gap(&mut self) {
        self.sampler.note_gap();
    }

    pub(super) fn tick(&mut self) {
        let everything = self.sampler.everything();
        self.tick_due(everything);
    }

    pub(super) fn last_tick(&mut self) {
        self.sampler.note_end();
        self.tick();
    }

    pub(super) fn tick_of(&mut self, groups: &[GroupId]) {
        let groups = groups.iter().copied().collect();
        self.tick_due(DueGroups { groups, ..DueGroups::default() });
    }

    fn tick_due(&mut self, due: DueGroups) {
        let before = self.now + BETWEEN_TICKS;
        let before = Moment { monotonic: before, wall: self.start.saturating_add(before) };
        for request in self.sampler.last_values_requests(before) {
            assert!(self.sampler.tick(before, DueGroups::of_last_values(request)));
        }
        self.now += INTERVAL;
        let wall = self.start.saturating_add(self.now);
        assert!(self.sampler.tick(Moment { monotonic: self.now, wall }, due));
        if !self.stalled {
            self.write();
        }
    }

    /// From now on the loader's plans come only [when told to](Self::deliver_plan).
    pub(super) fn delay_plans(&mut self) {
        self.sampler.loading().be_late();
    }

    /// Lets the next tick have the plan that the loader has made.
    pub(super) fn deliver_plan(&mut self) {
        self.sampler.loading().deliver_late();
    }

    pub(super) fn skip(&mut self, time: Duration) {
        self.now += time;
    }

    pub(super) fn set_clock_forward(&mut self, by: Duration) {
        self.start = self.start.saturating_add(by);
    }

    pub(super) fn set_clock_back(&mut self, by: Duration) {
        self.start = self.start.saturating_sub(by);
    }

    /// Runs `meanwhile` while the writer is stalled.
    pub(super) fn stall(&mut self, meanwhile: impl FnOnce(&mut Self)) {
        self.stalled = true;
        meanwhile(self);
        self.stalled = false;
        self.write();
    }

    fn write(&mut self) {
        while let Some(job) = self.receiver.waiting() {
            match job {
                WriterMessage::Write(sample) => {
                    self.archiver.write(&sample);
                    self.receiver.done(sample);
                }
                WriterMessage::Do(order) => self.archiver.obey(&order),
            }
        }
    }

    pub(super) fn missing(&mut self, file: &str) -> u64 {
        let (reply, answer) = unbounded();
        self.sampler.send_files(reply);
        let files = answer.recv().unwrap().sources;
        files.iter().find(|source| source.file == file).unwrap().missing
    }

    pub(super) fn dropped(&self) -> u64 {
        self.sampler.delivery.report.dropped
    }

    pub(super) fn lost(&self) -> u64 {
        self.archiver.report().lost
    }

    pub(super) fn archives(&self) -> Vec<PathBuf> {
        self.archiver.report().archives.clone()
    }

    pub(super) fn finish(self) -> Log {
        let report = self.archiver.finish();
        for base in &report.archives {
            assert_sound(base);
        }
        let base = report.archives.last().expect("an archive was written");
        Log {
            archives: report.archives.len(),
            set: ArchiveSet::open(&report.archives).unwrap(),
            entries: entries_of(base),
            archive: Archive::open(base).unwrap(),
            _dir: self.dir,
        }
    }
}

/// Returns the growth of all instances of a counter, by the rules of summaries.
pub(super) fn increase(set: &ArchiveSet, name: &str) -> u64 {
    let source = Source::from(set);
    let mut selection = Selection::new(source);
    selection.select(name);
    let span = source.start()..=source.end();
    let summaries = summarize(&selection, span, Decrease::Reset).unwrap();
    let instances = summaries.iter().flat_map(|metric| &metric.instances);
    let sums = instances.filter_map(|instance| Some(instance.statistics.as_ref()?.sum));
    sums.sum::<f64>() as u64
}

fn assert_sound(base: &Path) {
    let report = check(base).unwrap();
    let findings = report.findings().iter();
    let errors: Vec<&Finding> =
        findings.filter(|finding| finding.defect.severity() == Severity::Error).collect();
    assert!(errors.is_empty(), "{}: {errors:?}", base.display());
}

/// The state that is kept from one run to the next, and the settings.
struct Home {
    store: Arc<Store>,
    shared: Arc<SharedStatus>,
    settings: Settings,
}

impl Home {
    fn new(dir: &Path) -> Self {
        let destination = Destination::Directory(dir.join("archives"));
        Self {
            store: Arc::new(Store::in_memory()),
            shared: Arc::default(),
            settings: Settings::new(dir.join("mmv"), destination, INTERVAL),
        }
    }

    fn agent(&self) -> (Sampler, QueueReceiver, Archiver, Housekeeper, Receiver<Task>) {
        let settings = &self.settings;
        let host = Host { name: "box".into(), ..Host::local() };
        let (writer, receiver) = queue(settings.reloadable.limits.queue_bytes as usize);
        let (housekeeper, tasks) = unbounded();
        let names = ArchiveNames::new(settings.fixed.destination.clone(), &host.name);
        let store = Arc::clone(&self.store);
        let shared = Arc::clone(&self.shared);
        let links = archive_writer::ArchiverLinks {
            store,
            shared,
            housekeeper: housekeeper.clone(),
            lock: None,
        };
        let (outcomes, removals) = unbounded();
        let keeper = self.housekeeper(outcomes);
        let names = names.after_found(keeper.leftovers().bases());
        let archiver = Archiver::new(names, &host, Policy::new(settings), links);
        let [shared, of_loader] = [(); 2].map(|()| Arc::clone(&self.shared));
        let links =
            loader::LoaderLinks { housekeeper: housekeeper.clone(), removals, shared: of_loader };
        let loader = Loader::new(settings, host, self.store.memory(), links);
        let loading = LoaderHandle::inline(loader);
        let links = sampler::SamplerLinks { housekeeper, shared, recorder: None };
        let sampler = Sampler::new(settings, loading, writer, links);
        (sampler, receiver, archiver, keeper, tasks)
    }

    fn housekeeper(&self, outcomes: Sender<RemovalOutcome>) -> Housekeeper {
        let Destination::Directory(directory) = &self.settings.fixed.destination else {
            panic!("a directory")
        };
        let store = Arc::clone(&self.store);
        let shared = Arc::clone(&self.shared);
        Housekeeper::new(
            store,
            shared,
            outcomes,
            Some(directory.join("box")),
            HousekeepingRules::new(&self.settings.reloadable),
        )
    }
}

pub(super) fn counter_file(rig: &Rig, file: &str, metric: &str) -> (Counter<u64>, Registry) {
    let registry = Registry::builder(file).sealed().directory(rig.mmv_dir()).build().unwrap();
    let counter = registry.counter(metric).build().unwrap();
    (counter, registry.publish().unwrap())
}

/// One record: values by metric name, or `name[instance]`.
pub(super) struct LoggedRecord {
    pub(super) timestamp: Timestamp,
    pub(super) mark: bool,
    pub(super) sets: usize,
    pub(super) values: BTreeMap<String, OwnedValue>,
}

/// All records of an archive but the prologue, which is the first one.
pub(super) fn entries_of(base: &Path) -> Vec<LoggedRecord> {
    let archive = Archive::open(base).unwrap();
    let metadata = archive.metadata();
    let mut records = archive.records().unwrap();
    let mut entries = Vec::new();
    while let Some(record) = records.next().unwrap() {
        let result = record.to_owned(metadata).unwrap();
        let mut values = BTreeMap::new();
        for set in &result.value_sets {
            let metric = metadata.metric(set.pmid).unwrap();
            for (instance, value) in set.values.as_ref().unwrap() {
                let mut name = metric.display_name();
                if let Some(id) = instance {
                    let known = metadata.indom_at(metric.desc.indom.unwrap(), result.timestamp);
                    let known = known.unwrap();
                    let one = known.iter().find(|one| one.id == *id).unwrap();
                    name = format!("{name}[{}]", one.name);
                }
                assert!(values.insert(name, value.clone()).is_none());
            }
        }
        let timestamp = result.timestamp;
        let mark = record.is_mark();
        if result.value_sets.first().is_some_and(|set| set.pmid.domain() == PMCD) {
            assert!(entries.is_empty() && result.value_sets.len() == 5, "a prologue");
            continue;
        }
        entries.push(LoggedRecord { timestamp, mark, sets: result.value_sets.len(), values });
    }
    entries
}

pub(super) struct Log {
    pub(super) archives: usize,
    pub(super) entries: Vec<LoggedRecord>,
    set: ArchiveSet,
    /// The last one.
    archive: Archive,
    _dir: TempDir,
}

impl Log {
    pub(super) fn archive(&self) -> &Archive {
        &self.archive
    }

    pub(super) fn marks(&self) -> usize {
        self.entries.iter().filter(|entry| entry.mark).count()
    }

    pub(super) fn samples(&self) -> impl Iterator<Item = &LoggedRecord> {
        self.entries.iter().filter(|entry| !entry.mark)
    }

    pub(super) fn keys(&self) -> BTreeSet<&str> {
        self.entries.iter().flat_map(|entry| entry.values.keys().map(String::as_str)).collect()
    }

    /// The values of a metric in all records but marks.
    pub(super) fn series(&self, key: &str) -> Vec<Option<OwnedValue>> {
        let records = self.entries.iter().filter(|entry| !entry.mark);
        records.map(|entry| entry.values.get(key).cloned()).collect()
    }

    /// Returns the growth of all instances of a counter in all archives of the last agent.
    pub(super) fn increase(&self, name: &str) -> u64 {
        increase(&self.set, name)
    }

    pub(super) fn help(&self, name: &str) -> Option<String> {
        let metadata = self.archive.metadata();
        let pmid = metadata.metric_by_name(name)?.desc.pmid;
        metadata.text(TextTarget::Metric(pmid), TextKind::OneLine).map(ToString::to_string)
    }

    pub(super) fn labels(&self, level: &str) -> Vec<(String, String)> {
        let mut labels = Vec::new();
        for (target, history) in self.archive.metadata().labels() {
            if format!("{:?}", target.class()) != level {
                continue;
            }
            for set in history.sets_at(Timestamp::MAX).unwrap_or(&[]) {
                labels.extend(set.pairs().map(|(name, value, _)| (name.into(), value.into())));
            }
        }
        labels
    }
}
