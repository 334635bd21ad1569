//! An agent in a box: temporary directories and a clock that is moved by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crossbeam::channel::{Receiver, unbounded};
use mmv_archive::check::{Finding, Severity, check};
use mmv_archive::{Archive, LabelTarget, OwnedValue, TextKind, TextTarget};
use mmv_writer::mapping::guard;
use mmv_writer::{Counter, Published, Registry};
use pcp_types::Timestamp;
use tempfile::TempDir;

use crate::archive_name::ArchiveNames;
use crate::config::{Destination, Group, Settings};
use crate::host::Host;
use crate::keeper::{Keeper, Note, Rules};
use crate::ledger::Ledger;
use crate::own::Own;
use crate::queue::{Inlet, Job, Order, queue};
use crate::sampler::{self, Sampler};
use crate::sink::{self, Policy, Sink};
use crate::state::{Server, Store};

/// The domain of prologues.
const PMCD: u32 = 2;

const INTERVAL: Duration = Duration::from_secs(1);

/// Sampler, queue and sink on one thread.
pub(super) struct Rig {
    dir: TempDir,
    sampler: Sampler,
    inlet: Inlet,
    sink: Sink,
    keeper: Keeper,
    notes: Receiver<Note>,
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
        Self::with(|settings| settings.limits.queue_bytes = bytes)
    }

    pub(super) fn with_groups(groups: Vec<Group>) -> Self {
        Self::with(|settings| settings.groups = groups)
    }

    /// An agent with other settings.
    pub(super) fn with(change: impl FnOnce(&mut Settings)) -> Self {
        guard::install().unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("mmv")).unwrap();
        let mut home = Home::new(dir.path());
        change(&mut home.settings);
        let (sampler, inlet, sink, notes) = home.agent();
        Self {
            keeper: home.keeper(),
            home,
            notes,
            sink,
            sampler,
            dir,
            inlet,
            now: Duration::ZERO,
            start: Timestamp::new(1_700_000_000, 0).unwrap(),
            stalled: false,
        }
    }

    /// Ends the agent and starts another one.
    pub(super) fn restart(&mut self) {
        self.keep();
        self.home.ledger = Arc::new(Ledger::new(Own::unseen()));
        let (sampler, inlet, sink, notes) = self.home.agent();
        self.sampler = sampler;
        self.inlet = inlet;
        self.notes = notes;
        std::mem::replace(&mut self.sink, sink).finish();
        self.keeper = self.home.keeper();
        let left = self.keeper.left();
        self.keeper.clean_up(&left);
    }

    /// The keeper cleans up what was left before something was done.
    pub(super) fn clean_up_around(&mut self, meanwhile: impl FnOnce(&mut Self)) {
        let left = self.keeper.left();
        meanwhile(self);
        self.keeper.clean_up(&left);
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

    /// How often records were brought to disk.
    pub(super) fn synced(&self) -> u64 {
        self.sink.report().synced
    }

    /// What the thread of that name does.
    fn keep(&mut self) {
        while let Ok(note) = self.notes.try_recv() {
            self.keeper.take(note);
        }
        self.keeper.save();
    }

    /// The keeper looks around, at the rig's time.
    pub(super) fn tidy(&mut self) {
        self.keep();
        self.keeper.tidy(self.start.saturating_add(self.now));
    }

    /// The keeper compresses what has waited long enough after so much time.
    pub(super) fn compress_after(&mut self, time: Duration) {
        self.keep();
        while self.keeper.compress_next(SystemTime::now() + time, &self.notes) {}
    }

    /// What prologues say.
    pub(super) fn server(&self) -> Server {
        self.home.store.server()
    }

    pub(super) fn mmv_dir(&self) -> PathBuf {
        self.dir.path().join("mmv")
    }

    pub(super) fn archive_dir(&self) -> PathBuf {
        self.dir.path().join("archives")
    }

    pub(super) fn host_folder(&self) -> PathBuf {
        self.archive_dir().join("box")
    }

    /// Other groups from the next tick on.
    pub(super) fn regroup(&mut self, groups: Vec<Group>) {
        self.home.settings.groups = groups;
        self.sampler.change(&self.home.settings);
    }

    /// Tells the writer to do something.
    pub(super) fn order(&mut self, order: Order) {
        self.sampler.order(order);
        self.write();
    }

    /// Samples of all sources are missing before the next tick.
    pub(super) fn gap(&mut self) {
        self.sampler.note_gap();
    }

    /// One tick, a second after the last one, and what the writer does then.
    pub(super) fn tick(&mut self) {
        self.tick_of(None);
    }

    /// A tick of some groups.
    pub(super) fn tick_of(&mut self, due: Option<&[usize]>) {
        self.now += INTERVAL;
        assert!(self.sampler.tick(self.now, self.start.saturating_add(self.now), due));
        if !self.stalled {
            self.write();
        }
    }

    /// Lets time pass without a tick.
    pub(super) fn skip(&mut self, time: Duration) {
        self.now += time;
    }

    pub(super) fn set_clock_back(&mut self, by: Duration) {
        self.start = self.start.saturating_sub(by);
    }

    /// Does something while the writer does nothing.
    pub(super) fn stall(&mut self, meanwhile: impl FnOnce(&mut Self)) {
        self.stalled = true;
        meanwhile(self);
        self.stalled = false;
        self.write();
    }

    fn write(&mut self) {
        while let Some(job) = self.inlet.waiting() {
            match job {
                Job::Write(sample) => {
                    self.sink.write(&sample);
                    self.inlet.done(sample);
                }
                Job::Do(order) => self.sink.obey(&order),
            }
        }
    }

    pub(super) fn dropped(&self) -> u64 {
        self.sampler.report().dropped
    }

    pub(super) fn lost(&self) -> u64 {
        self.sink.report().lost
    }

    pub(super) fn archives(&self) -> Vec<PathBuf> {
        self.sink.report().archives.clone()
    }

    /// The last archive, read back.
    pub(super) fn finish(self) -> Log {
        let report = self.sink.finish();
        for base in &report.archives {
            assert_sound(base);
        }
        let base = report.archives.last().expect("an archive was written");
        Log {
            archives: report.archives.len(),
            entries: entries_of(base),
            archive: Archive::open(base).unwrap(),
            _dir: self.dir,
        }
    }
}

/// Whatever happened to the agent, its archives are without errors.
fn assert_sound(base: &Path) {
    let report = check(base).unwrap();
    let is_error = |finding: &&Finding| finding.defect.severity() == Severity::Error;
    let errors: Vec<&Finding> = report.findings().iter().filter(is_error).collect();
    assert!(errors.is_empty(), "{}: {errors:?}", base.display());
}

/// What lasts from one run to the next, and how it is to run.
struct Home {
    store: Arc<Store>,
    ledger: Arc<Ledger>,
    settings: Settings,
}

impl Home {
    fn new(dir: &Path) -> Self {
        let destination = Destination::Folder(dir.join("archives"));
        Self {
            store: Arc::new(Store::in_memory()),
            ledger: Arc::new(Ledger::new(Own::unseen())),
            settings: Settings::new(dir.join("mmv"), destination),
        }
    }

    /// An agent that is to be run here.
    fn agent(&self) -> (Sampler, Inlet, Sink, Receiver<Note>) {
        let settings = &self.settings;
        let host = Host { name: "box".into(), ..Host::here() };
        let (writer, inlet) = queue(settings.limits.queue_bytes as usize);
        let (keeper, notes) = unbounded();
        let names = ArchiveNames::new(settings.destination.clone(), &host.name);
        let (store, ledger) = (Arc::clone(&self.store), Arc::clone(&self.ledger));
        let links = sink::Links { store, ledger, keeper: keeper.clone() };
        let sink = Sink::new(names, &host, Policy::of(settings), links);
        let links = sampler::Links { keeper, ledger: Arc::clone(&self.ledger) };
        let sampler = Sampler::new(settings, host, self.store.memory(), writer, links);
        (sampler, inlet, sink, notes)
    }

    fn keeper(&self) -> Keeper {
        let Destination::Folder(folder) = &self.settings.destination else { panic!("a folder") };
        let (store, ledger) = (Arc::clone(&self.store), Arc::clone(&self.ledger));
        Keeper::new(store, ledger, Some(folder.join("box")), Rules::of(&self.settings))
    }
}

/// A published file with one counter, item 1.
pub(super) fn counter_file(rig: &Rig, file: &str, metric: &str) -> (Counter<u64>, Published) {
    let registry = Registry::builder(file).directory(rig.mmv_dir()).build().unwrap();
    let counter = registry.counter(metric).build().unwrap();
    (counter, registry.publish().unwrap())
}

/// One record: values by metric name, or `name[instance]`.
pub(super) struct Entry {
    pub(super) stamp: Timestamp,
    pub(super) mark: bool,
    pub(super) sets: usize,
    pub(super) values: BTreeMap<String, OwnedValue>,
}

/// All records of an archive but the prologue, which is the first one.
pub(super) fn entries_of(base: &Path) -> Vec<Entry> {
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
        let (stamp, mark) = (result.timestamp, record.is_mark());
        if result.value_sets.first().is_some_and(|set| set.pmid.domain() == PMCD) {
            assert!(entries.is_empty() && result.value_sets.len() == 5, "a prologue");
            continue;
        }
        entries.push(Entry { stamp, mark, sets: result.value_sets.len(), values });
    }
    entries
}

/// An archive, read back.
pub(super) struct Log {
    pub(super) archives: usize,
    pub(super) entries: Vec<Entry>,
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

    /// The records that have samples.
    pub(super) fn samples(&self) -> impl Iterator<Item = &Entry> {
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

    pub(super) fn help(&self, name: &str) -> Option<String> {
        let metadata = self.archive.metadata();
        let pmid = metadata.metric_by_name(name)?.desc.pmid;
        metadata.text(TextTarget::Metric(pmid), TextKind::OneLine).map(str::to_owned)
    }

    /// Names and values of all labels of a level.
    pub(super) fn labels(&self, level: &str) -> Vec<(String, String)> {
        let is_level = |target: LabelTarget| format!("{:?}", target.class()) == level;
        let histories = self.archive.metadata().labels().filter(|(target, _)| is_level(*target));
        let sets = histories.flat_map(|(_, history)| history.at(Timestamp::MAX).unwrap_or(&[]));
        sets.flat_map(|set| set.pairs().map(|(name, value, _)| (name.into(), value.into())))
            .collect()
    }
}
