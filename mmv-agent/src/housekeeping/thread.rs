//! The housekeeping thread.
//!
//! | work | time |
//! |---|---|
//! | saves the loader's state | at once if there are new PMIDs, else within seconds |
//! | repairs archives that an earlier run left open | at the start |
//! | deletes closed archives ([`retention`]) | when one was closed, and every ten seconds |
//! | compresses closed volumes and large metadata, then reduces old archives, one at a time ([`background`](super::background)) | when they are old enough |
//! | removes files of dead processes ([`removal`]) | when the loader requests it |
//!
//! It never touches the archive that is being written ([`SharedStatus::writing`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, never, select};
use nix::sys::statvfs::statvfs;
use pcp_archive::Compression;
use pcp_archive::compress::{Effort, compress_member, is_same};
use pcp_archive::internal::{ReplaceOutcome, member_files, remove_archive, replace_by_reduced};
use pcp_types::{Timestamp, format_interval};
use rustix::time::{ClockId, clock_gettime};
use tracing::{debug, info, warn};

use super::archive_directory::{self, ArchiveFile, ArchiveFileKind, ArchiveFiles};
use super::background::{BackgroundWork, Done};
use super::repair::{self, Outcome};
use super::retention::{self, ClosedArchive};
use super::retention_clock::RetentionClock;
use super::span::{self, Span};
use super::{LoaderState, Store};
use crate::config::{CompressionPolicy, ReloadableSettings, Retention};
use crate::discovery::{DeadFile, RemovalOutcome, RemovalRefusal, removal};
use crate::lock::Lock;
use crate::moment::Moment;
use crate::telemetry::{CompressedVolume, RetainedTier, SharedStatus, micros};

/// Interval of retention, and of saving state without new PMIDs. Losing the latter costs a mark,
/// so a program that restarts all the time is not worth a write each time.
const RETENTION_INTERVAL: Duration = Duration::from_secs(10);

/// Number of waiting volumes from which compression lags behind.
const BACKLOG: usize = 10;
const LAGS: &str =
    "compression lags behind: the volumes that wait take more disk space until it has caught up";

/// Least size in bytes of the metadata of a closed archive that is compressed. Programs whose
/// instances come and go all day produce more; smaller metadata is quicker to read uncompressed.
const MIN_COMPRESSED_METADATA: u64 = 256 << 10;

/// Interval of retention while a volume is being compressed.
const BUSY_RETENTION_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which the clock of retention is saved.
const CLOCK_SAVE_INTERVAL: Duration = Duration::from_secs(3_600);
const JUMPED: &str = "the clock was set forward: archives are not deleted for their age by the \
    new time until the agent has run for retention.age";

/// Time for which the files of a replaced archive stay, for readers that have opened it.
const LINGER: Duration = Duration::from_secs(60);

/// Time until an archive that could not be reduced is tried again.
const REDUCTION_RETRY_INTERVAL: Duration = Duration::from_secs(3_600);

const NO_ROOM: &str = "retention limit exceeded: no closed archive is left to delete";

#[derive(Debug)]
pub(crate) enum Task {
    /// Save the loader's state.
    Remember(LatestLoaderState),
    /// A volume or an archive was closed.
    Closed,
    /// Repair this archive, since another program has changed one of its files.
    Repair(PathBuf),
    Remove(Vec<DeadFile>),
    /// Apply other rules.
    Change(HousekeepingRules),
    /// End, although a thread that could send a task may still run.
    End,
}

/// The latest state of the loader. While the disk stalls, a newer state replaces the waiting one,
/// so that memory does not grow.
#[derive(Debug, Clone, Default)]
pub(crate) struct LatestLoaderState(Arc<Mutex<Option<LoaderState>>>);

impl LatestLoaderState {
    /// Replaces the waiting state. Returns true if there was none.
    pub(crate) fn put(&self, memory: LoaderState) -> bool {
        self.lock().replace(memory).is_none()
    }

    fn take(&self) -> Option<LoaderState> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<LoaderState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rules for deletion, compression and reduction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HousekeepingRules {
    pub retention: Retention,
    pub compression: CompressionPolicy,
    /// True if archives live for minutes only: compression has ordinary priority, and deletions
    /// are logged at level debug.
    pub is_short_lived: bool,
}

impl HousekeepingRules {
    pub(crate) fn new(settings: &ReloadableSettings) -> Self {
        let retention = settings.retention.clone();
        let compression = settings.compression;
        Self { retention, compression, is_short_lived: false }
    }
}

/// Files and archives that earlier runs left behind.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    /// Closed or open archives.
    archives: Vec<PathBuf>,
    /// Hidden directories of repairs that were interrupted.
    abandoned: Vec<PathBuf>,
    /// Archives whose creation or deletion was interrupted.
    unfinished: Vec<PathBuf>,
    /// Archives without metadata of which there is a complete one with another interval.
    superseded: Vec<PathBuf>,
    /// Useless files.
    files: Vec<PathBuf>,
}

impl Leftovers {
    /// Returns the base names that archives of this run must not have, since this thread repairs
    /// or removes what it finds under them.
    pub(crate) fn bases(&self) -> impl Iterator<Item = &Path> {
        let all = self.archives.iter().chain(&self.unfinished).chain(&self.superseded);
        all.map(PathBuf::as_path)
    }
}

#[derive(Debug)]
pub(crate) struct Housekeeper {
    store: Arc<Store>,
    shared: Arc<SharedStatus>,
    /// The loader's inbox for the outcomes of removals.
    removals: Sender<RemovalOutcome>,
    rules: HousekeepingRules,
    /// The host's archive directory; `None` if the user has named the archive and looks after it.
    directory: Option<PathBuf>,
    /// State that is not saved yet.
    unsaved: Option<LoaderState>,
    /// Start and end of closed archives.
    spans: BTreeMap<PathBuf, (Timestamp, Timestamp)>,
    /// Messages that are not logged again.
    logged: BTreeSet<String>,
    /// Files that cannot be compressed.
    incompressible: BTreeSet<PathBuf>,
    /// Archives that wait for their repair.
    broken: Vec<PathBuf>,
    begun: Duration,
    clock: RetentionClock,
    /// Time of the last save of the clock, and its number of jumps.
    clock_saved: Option<(Duration, usize)>,
    in_work: Option<BackgroundArchive>,
    /// The oldest archive that is to be reduced, and its new interval.
    reducible: Option<(PathBuf, Duration)>,
    /// Archives that cannot be reduced, and when that was tried.
    irreducible: BTreeMap<PathBuf, Instant>,
    /// Archives that reduced ones have replaced, and when.
    replaced: Vec<(PathBuf, Instant)>,
    /// Set when [`Task::End`] was received.
    is_ending: bool,
    /// Held until this thread ends, which is the last one.
    lock: Option<Arc<Lock>>,
}

/// An archive that is worked on in the background.
#[derive(Debug)]
struct BackgroundArchive {
    base: PathBuf,
    /// Set when retention is to delete it.
    is_doomed: bool,
}

impl BackgroundArchive {
    fn new(base: &Path) -> Self {
        Self { base: base.to_owned(), is_doomed: false }
    }
}

impl Housekeeper {
    /// Creates a housekeeper for the archives in `directory` and the state in `store`.
    pub(crate) fn new(
        store: Arc<Store>,
        shared: Arc<SharedStatus>,
        removals: Sender<RemovalOutcome>,
        directory: Option<PathBuf>,
        rules: HousekeepingRules,
    ) -> Self {
        let clock = store.retention_clock();
        let clock = clock.as_ref().map(RetentionClock::resume).unwrap_or_default();
        Self {
            store,
            shared,
            removals,
            rules,
            directory,
            unsaved: None,
            spans: BTreeMap::new(),
            logged: BTreeSet::new(),
            is_ending: false,
            incompressible: BTreeSet::new(),
            broken: Vec::new(),
            begun: since_boot(),
            clock,
            clock_saved: None,
            in_work: None,
            reducible: None,
            irreducible: BTreeMap::new(),
            replaced: Vec::new(),
            lock: None,
        }
    }

    /// Makes it hold the lock on the directory as well.
    pub(crate) fn with_lock(self, lock: Option<Arc<Lock>>) -> Self {
        Self { lock, ..self }
    }

    /// Finds what earlier runs left behind. Must be called before this run creates files, which
    /// look like leftovers. None of its archives may have one of the [names](Leftovers::bases).
    pub(crate) fn leftovers(&self) -> Leftovers {
        let Some(directory) = self.directory.as_deref() else { return Leftovers::default() };
        let archives = archive_directory::archives(directory).unwrap_or_default();
        let superseded = archive_directory::superseded(&archives);
        let mut others = Vec::new();
        for found in archives {
            if !superseded.contains(&found.base) {
                others.push(found.base);
            }
        }
        Leftovers {
            archives: others,
            superseded,
            abandoned: archive_directory::abandoned(directory),
            unfinished: archive_directory::unfinished(directory),
            files: archive_directory::leftovers(directory).unwrap_or_default(),
        }
    }

    /// Works until all senders of tasks are gone.
    pub(crate) fn run(mut self, leftovers: &Leftovers, tasks: &Receiver<Task>) {
        self.clean_up(leftovers);
        let mut last: Option<Instant> = None;
        while !self.is_ending {
            let interval = self
                .clock
                .next_effect()
                .map_or(RETENTION_INTERVAL, |next| next.min(RETENTION_INTERVAL));
            let wait = last.map_or(Duration::ZERO, |last| interval.saturating_sub(last.elapsed()));
            match tasks.recv_timeout(wait) {
                Ok(Task::Closed) | Err(RecvTimeoutError::Timeout) => {}
                Ok(task) => {
                    self.perform(task);
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.work(tasks);
            last = Some(Instant::now());
        }
        self.save();
        self.repair_broken();
        self.remove_replaced(Duration::ZERO);
    }

    /// Saves, repairs, deletes, compresses and reduces what is due. Returns the bytes of the
    /// archive that is being written.
    pub(crate) fn work(&mut self, tasks: &Receiver<Task>) -> u64 {
        self.save();
        self.repair_broken();
        let mut current = self.tidy(self.now());
        while !self.shared.has_ended()
            && (self.compress_next(SystemTime::now(), tasks) || self.reduce_next(tasks))
        {
            current = self.tidy(self.now());
        }
        current
    }

    /// Returns true if only this agent may write to the directory. Its path may have come to refer
    /// to another agent's directory.
    fn has_directory(&mut self) -> bool {
        let confirmed = self.lock.as_ref().map(|lock| lock.confirm());
        if let Some(Err(error)) = &confirmed {
            self.warn_once(&error.to_string());
        }
        !matches!(confirmed, Some(Err(_)))
    }

    /// Repairs archives of this run that another program has damaged.
    pub(crate) fn repair_broken(&mut self) {
        if self.broken.is_empty() || !self.has_directory() {
            return;
        }
        let broken = std::mem::take(&mut self.broken);
        if let Some(directory) = self.directory.as_deref() {
            let bases: Vec<&Path> = broken.iter().map(PathBuf::as_path).collect();
            repair_all(directory, &bases);
        }
    }

    /// Performs a task. State with new PMIDs is saved at once.
    pub(crate) fn perform(&mut self, task: Task) {
        match task {
            Task::Closed => {}
            Task::End => self.is_ending = true,
            Task::Change(rules) => self.rules = rules,
            // The volume being compressed may belong to it.
            Task::Repair(base) => self.broken.push(base),
            Task::Remove(files) => files.into_iter().for_each(|file| self.remove(file)),
            Task::Remember(latest) => {
                let Some(memory) = latest.take() else { return };
                let saved = self.store.memory();
                let urgent =
                    saved.used != memory.used || saved.clusters.len() != memory.clusters.len();
                self.unsaved = Some(memory);
                if urgent {
                    self.save();
                }
            }
        }
    }

    fn remove(&self, file: DeadFile) {
        let result = removal::remove(&file);
        if let Err(RemovalRefusal::Refused(error)) = &result {
            let path = file.directory.join(&file.name);
            self.shared.note_error(format!("cannot remove {}: {error}", path.display()));
        }
        // Sending fails only while the agent stops.
        let _ = self.removals.send(RemovalOutcome { file, result });
    }

    /// Saves the state that is not saved yet.
    pub(crate) fn save(&mut self) {
        let is_saved = self.unsaved.is_none() && !self.store.is_failing();
        if is_saved || !self.has_directory() {
            return;
        }
        match self.unsaved.take() {
            Some(memory) => self.store.remember(memory),
            None => self.store.retry(),
        }
    }

    /// Repairs archives that an earlier run left open, and removes its other leftovers.
    pub(crate) fn clean_up(&mut self, leftovers: &Leftovers) {
        let Some(directory) = self.directory.clone() else { return };
        for base in &leftovers.unfinished {
            let archive = base.display();
            match remove_archive(base) {
                Ok(()) => info!(%archive, "removed: left unfinished by an earlier run"),
                Err(error) => warn!(%archive, %error, "cannot be removed"),
            }
        }
        for base in &leftovers.superseded {
            let archive = base.display();
            match remove_archive(base) {
                Ok(()) => info!(%archive, "removed: another one has taken its place"),
                Err(error) => warn!(%archive, %error, "cannot be removed"),
            }
        }
        // Of the archives themselves nothing is in them that another repair would not find.
        for path in &leftovers.abandoned {
            let directory = path.display();
            match fs::remove_dir_all(path) {
                Ok(()) => info!(%directory, "removed: left by a repair that was interrupted"),
                Err(error) => warn!(%directory, %error, "cannot be removed"),
            }
        }
        for path in &leftovers.files {
            let file = path.display();
            // An incomplete compressed file may belong to another program.
            let twins = archive_directory::compressed_twins(path).collect::<Vec<_>>();
            if !twins.is_empty() && !twins.iter().any(|twin| is_same(twin, path).unwrap_or(false)) {
                warn!(%file, "its compressed copy differs: both are kept; check them, and remove one");
                continue;
            }
            match fs::remove_file(path) {
                Ok(()) => info!(%file, "removed: left by an earlier run"),
                Err(error) => warn!(%file, %error, "cannot be removed"),
            }
        }
        let bases: Vec<&Path> = leftovers.bases().collect();
        repair_all(&directory, &bases);
    }

    /// Deletes archives by the rules of retention. Returns the bytes of the archive that is being
    /// written.
    pub(crate) fn tidy(&mut self, at: Moment) -> u64 {
        let Some(directory) = self.directory.clone() else { return 0 };
        self.remove_replaced(LINGER);
        let Some(found) = self.archives(&directory) else { return 0 };
        let writing = self.shared.writing().map(|(base, _)| base);
        let mut current = 0;
        let mut closed: Vec<(Timestamp, ArchiveFiles)> = Vec::new();
        for found in found {
            if writing.as_ref() == Some(&found.base) {
                current += found.bytes();
            } else if found.has_metadata() {
                closed.push((self.span(&found).1, found));
            }
        }
        closed.sort_by_key(|(end, _)| *end);
        let sizes: Vec<ClosedArchive> = closed
            .iter()
            .map(|(end, found)| ClosedArchive {
                bytes: found.bytes(),
                end: *end,
                interval: found.interval(),
            })
            .collect();
        let free = free_bytes(&directory).unwrap_or(u64::MAX);
        let now = self.retention_time(at, sizes.last().map(|newest| newest.end));
        let rules = &self.rules.retention;
        let (mut doomed, excess) = retention::doomed(&sizes, current, free, now, rules);
        if writing.is_none() {
            // Space that other programs use up is no reason to delete the last archive.
            doomed.retain(|(number, reason)| number + 1 < sizes.len() || !reason.is_room());
        }
        let mut is_kept = vec![true; closed.len()];
        for (number, reason) in doomed {
            let found = &closed[number].1;
            let archive = found.base.display();
            if let Some(in_work) = &mut self.in_work
                && in_work.base == found.base
            {
                in_work.is_doomed = true;
                continue;
            }
            match remove_archive(&found.base) {
                Ok(()) => {
                    let bytes_of = found.bytes();
                    if self.rules.is_short_lived {
                        debug!(%archive, bytes = bytes_of, %reason, "deleted");
                    } else {
                        info!(%archive, bytes = bytes_of, %reason, "deleted");
                    }
                    self.shared.own().deleted.inc();
                    is_kept[number] = false;
                }
                Err(error) => self.warn_once(&format!("cannot delete {archive}: {error}")),
            }
            self.spans.remove(&found.base);
        }
        match excess {
            // Logged without the numbers, which change all the time.
            Some(reason) if self.logged.insert(NO_ROOM.to_owned()) => warn!(%reason, "{NO_ROOM}"),
            Some(_) => {}
            None => drop(self.logged.remove(NO_ROOM)),
        }
        let mut kept = Vec::new();
        for (number, is_kept) in is_kept.into_iter().enumerate() {
            if is_kept {
                kept.push((sizes[number], closed[number].1.base.clone()));
            }
        }
        self.shared.set_kept(self.tiers(&kept, current), free_bytes(&directory));
        self.note_oldest(&closed);
        self.reducible = self.due_reduction(&kept, now);
        current
    }

    /// Returns number and size of the archives of each interval, with the bytes of the one that is
    /// being written.
    fn tiers(&self, kept: &[(ClosedArchive, PathBuf)], current: u64) -> Vec<RetainedTier> {
        let mut tiers: BTreeMap<Duration, RetainedTier> = BTreeMap::new();
        if current > 0 {
            let tier = RetainedTier { archives: 1, bytes: current, ..RetainedTier::default() };
            tiers.insert(Duration::ZERO, tier);
        }
        for (archive, base) in kept {
            let start = self.spans.get(base).map(|(start, _)| start.seconds());
            let tier = tiers.entry(archive.interval).or_default();
            tier.interval = archive.interval.as_secs_f64();
            tier.archives += 1;
            tier.bytes += archive.bytes;
            tier.oldest = tier.oldest.into_iter().chain(start).min();
        }
        tiers.into_values().collect()
    }

    /// Returns the oldest archive that is to be reduced, and to which interval.
    fn due_reduction(
        &self,
        kept: &[(ClosedArchive, PathBuf)],
        now: Timestamp,
    ) -> Option<(PathBuf, Duration)> {
        for (archive, base) in kept {
            let tried = self.irreducible.get(base);
            if tried.is_some_and(|at| at.elapsed() < REDUCTION_RETRY_INTERVAL) {
                continue;
            }
            if let Some(interval) = retention::due_interval(archive, now, &self.rules.retention) {
                return Some((base.clone(), interval));
            }
        }
        None
    }

    /// Removes what is left of archives that were replaced this long ago.
    fn remove_replaced(&mut self, ago: Duration) {
        if self.replaced.first().is_none_or(|(_, at)| at.elapsed() < ago) || !self.has_directory() {
            return;
        }
        let (old, recent) = self.replaced.drain(..).partition(|(_, at)| at.elapsed() >= ago);
        self.replaced = recent;
        for (base, _) in old {
            if let Err(error) = remove_archive(&base) {
                self.warn_once(&format!("cannot delete {}: {error}", base.display()));
            }
        }
    }

    fn now(&self) -> Moment {
        Moment { monotonic: since_boot().saturating_sub(self.begun), wall: Timestamp::now() }
    }

    /// Returns the time by which archives are too old. It is saved once in an hour, and after a
    /// jump.
    fn retention_time(&mut self, at: Moment, newest: Option<Timestamp>) -> Timestamp {
        let Some(age) = self.rules.retention.age else { return at.wall };
        let now = self.clock.now(at, age, newest);
        let state = self.clock.state();
        let jumps = state.jumps.len();
        let is_saved = self.clock_saved.is_some_and(|(when, saved)| {
            saved == jumps && at.monotonic.saturating_sub(when) < CLOCK_SAVE_INTERVAL.min(age / 20)
        });
        if !is_saved {
            if jumps > self.clock_saved.map_or(0, |(_, saved)| saved) {
                warn!("{JUMPED}");
            }
            self.clock_saved = Some((at.monotonic, jumps));
            self.store.set_retention_clock(state);
        }
        now
    }

    /// Returns all archives; `None`, after a warning, if they cannot be listed or belong to
    /// another agent.
    fn archives(&mut self, directory: &Path) -> Option<Vec<ArchiveFiles>> {
        if !self.has_directory() {
            return None;
        }
        match archive_directory::archives(directory) {
            Ok(found) => Some(found),
            Err(error) => {
                self.warn_once(&format!("cannot list {}: {error}", directory.display()));
                None
            }
        }
    }

    /// Reports the start of the oldest archive. State from before it is not needed.
    fn note_oldest(&mut self, closed: &[(Timestamp, ArchiveFiles)]) {
        let starts = closed.iter().filter_map(|(_, found)| self.spans.get(&found.base));
        if let Some((start, _)) = starts.min_by_key(|(start, _)| *start) {
            self.shared.set_oldest(start.seconds());
        }
    }

    /// Returns start and end of a closed archive's data.
    fn span(&mut self, found: &ArchiveFiles) -> (Timestamp, Timestamp) {
        if let Some(span) = self.spans.get(&found.base) {
            return *span;
        }
        let Span { start, end, doubt } = span::from_files(found);
        if let Some(doubt) = doubt {
            self.warn_once(&doubt);
        }
        self.spans.insert(found.base.clone(), (start, end));
        (start, end)
    }

    /// Compresses the oldest waiting file. Returns false if there is none. Tasks are performed
    /// meanwhile, and the end of the agent is not delayed.
    pub(crate) fn compress_next(&mut self, now: SystemTime, tasks: &Receiver<Task>) -> bool {
        let Some(method) = self.rules.compression.method else { return false };
        let Some(directory) = self.directory.clone() else { return false };
        let Some(found) = self.archives(&directory) else { return false };
        let current = self.shared.writing();
        let waiting: Vec<&ArchiveFile> = found
            .iter()
            .filter(|found| found.has_metadata())
            .flat_map(|found| waiting(found, current.as_ref()))
            .filter(|file| {
                let age = now.duration_since(file.modified).unwrap_or_default();
                age >= self.rules.compression.after && !self.incompressible.contains(&file.path)
            })
            .collect();
        if waiting.len() < BACKLOG {
            self.logged.remove(LAGS);
        } else if self.logged.insert(LAGS.to_owned()) {
            warn!(volumes = waiting.len(), "{LAGS}");
        }
        let Some(file) = waiting.first() else { return false };
        let of = found.iter().find(|found| found.members.contains(file));
        self.in_work = of.map(|found| BackgroundArchive::new(&found.base));
        let compressed = self.compress(file, method, tasks);
        self.in_work = None;
        compressed
    }

    /// Compresses a file. Returns false if the agent ended before it was done.
    fn compress(
        &mut self,
        file: &ArchiveFile,
        method: Compression,
        tasks: &Receiver<Task>,
    ) -> bool {
        let plain = file.path.clone();
        let work = move |go_on: &mut dyn FnMut() -> bool| {
            compress_member(&plain, method, Effort::Least, go_on)
        };
        let compressor = match BackgroundWork::start("compressor", self.rules.is_short_lived, work)
        {
            Ok(compressor) => compressor,
            Err(error) => {
                self.warn_once(&format!("no volume is compressed: {error}"));
                return false;
            }
        };
        let (done, given_up) = self.attend(&compressor, tasks);
        let error = match done {
            Some(Done { result: Ok(Some(compressed)), time }) => {
                self.shared.own().compression.time.add(micros(time));
                if let ArchiveFileKind::Volume(_) = file.kind {
                    let volume = CompressedVolume {
                        file: file.path.clone(),
                        before: file.bytes,
                        after: file_size(&compressed),
                    };
                    self.shared.add_compressed(volume, time);
                }
                return true;
            }
            // The archive is deleted next.
            Some(Done { result: Ok(None), .. }) => return given_up,
            Some(Done { result: Err(error), .. }) => error.to_string(),
            None => "its compression panicked; please report it".to_owned(),
        };
        warn!(file = %file.path.display(), %error, "cannot compress a file; it is kept as it is");
        self.shared.note_error(error);
        self.incompressible.insert(file.path.clone());
        true
    }

    /// Reduces the oldest archive that is due, as the last [`tidy`](Self::tidy) found. Returns false
    /// if there is none, or if the agent ended before it was done. Tasks are performed meanwhile,
    /// and the end of the agent is not delayed.
    pub(crate) fn reduce_next(&mut self, tasks: &Receiver<Task>) -> bool {
        let Some((base, interval)) = self.reducible.take() else { return false };
        self.in_work = Some(BackgroundArchive::new(&base));
        let reduced = self.reduce(&base, interval, tasks);
        self.in_work = None;
        reduced
    }

    fn reduce(&mut self, base: &Path, interval: Duration, tasks: &Receiver<Task>) -> bool {
        let archive = base.display();
        let before = archive_bytes(base);
        let method = self.rules.compression.method;
        let of = base.to_owned();
        let work =
            move |go_on: &mut dyn FnMut() -> bool| replace_by_reduced(&of, interval, method, go_on);
        let reducer = match BackgroundWork::start("reducer", false, work) {
            Ok(reducer) => reducer,
            Err(error) => {
                self.warn_once(&format!("no archive is reduced: {error}"));
                return false;
            }
        };
        let (done, given_up) = self.attend(&reducer, tasks);
        let error = match done {
            Some(Done { result: Ok(ReplaceOutcome::Replaced(new)), .. }) => {
                let after = archive_bytes(&new);
                let interval = format_interval(interval);
                info!(%archive, %interval, before, after, "reduced");
                self.shared.own().reduced.inc();
                self.spans.remove(base);
                self.irreducible.remove(base);
                self.replaced.push((base.to_owned(), Instant::now()));
                return true;
            }
            // The archive is deleted next.
            Some(Done { result: Ok(ReplaceOutcome::Cancelled), .. }) => return given_up,
            Some(Done { result: Err(error), .. }) => error.to_string(),
            None => "its reduction panicked; please report it".to_owned(),
        };
        let what = format!("cannot reduce {archive}, it is kept as it is: {error}");
        self.warn_once(&what);
        self.irreducible.insert(base.to_owned(), Instant::now());
        true
    }

    /// Works while an archive is in work in the background. Returns the result, `None` if the
    /// thread panicked, and whether it was given up because retention deletes the archive.
    fn attend<T: Send + 'static>(
        &mut self,
        background: &BackgroundWork<T>,
        tasks: &Receiver<Task>,
    ) -> (Option<Done<T>>, bool) {
        let mut tasks = tasks;
        let none = never();
        let mut tidied = Instant::now();
        let mut given_up = false;
        loop {
            let mut is_closed = false;
            select! {
                recv(background.done()) -> done => {
                    return (done.ok(), given_up);
                }
                recv(tasks) -> task => if let Ok(task) = task {
                    is_closed = matches!(task, Task::Closed);
                    self.perform(task);
                } else {
                    // The agent has ended.
                    background.give_up();
                    tasks = &none;
                },
                default(BUSY_RETENTION_INTERVAL) => {}
            }
            // Other volumes are written during the minutes that one may take.
            if is_closed || tidied.elapsed() >= BUSY_RETENTION_INTERVAL {
                self.tidy(self.now());
                tidied = Instant::now();
            }
            given_up |= self.in_work.as_ref().is_some_and(|archive| archive.is_doomed);
            if given_up || self.is_ending || self.shared.has_ended() {
                background.give_up();
            }
        }
    }

    fn warn_once(&mut self, what: &str) {
        if self.logged.insert(what.to_owned()) {
            warn!("{what}");
            self.shared.note_error(what.to_owned());
        }
    }
}

/// Repairs archives that were left open, if they are in the directory.
fn repair_all(directory: &Path, bases: &[&Path]) {
    let found = archive_directory::archives(directory).unwrap_or_default();
    for found in found.iter().filter(|found| bases.contains(&found.base.as_path())) {
        let archive = found.base.display();
        match repair::repair(found) {
            Ok(Outcome::WasClosed) => {}
            Ok(Outcome::Reindexed) => info!(%archive, "was left open: index rebuilt"),
            Ok(Outcome::IndexReplaced) => info!(%archive, "its index was damaged: rebuilt"),
            Ok(Outcome::Bare) => {
                warn!(%archive, "kept: its metadata is missing, without which it cannot be read");
            }
            Ok(Outcome::Repaired) => info!(%archive, "was left open: repaired"),
            Ok(Outcome::Empty) => match remove_archive(&found.base) {
                Ok(()) => info!(%archive, "removed: left without a record"),
                Err(error) => warn!(%archive, %error, "cannot be removed"),
            },
            Err(error) => warn!(%archive, %error, "was left open; cannot repair it"),
        }
    }
}

/// Returns the files of an archive that are to be compressed: closed volumes and, when the archive
/// is closed and has no plain volume, much metadata.
fn waiting<'f>(found: &'f ArchiveFiles, writing: Option<&(PathBuf, u32)>) -> Vec<&'f ArchiveFile> {
    let current = writing.filter(|(base, _)| *base == found.base).map(|(_, volume)| *volume);
    let mut files = Vec::new();
    for file in found.members.iter().filter(|file| !file.compressed) {
        if let ArchiveFileKind::Volume(number) = file.kind
            && current.is_none_or(|now| number < now)
        {
            files.push(file);
        }
    }
    if current.is_none() && files.is_empty() {
        files.extend(found.members.iter().filter(|file| {
            file.kind == ArchiveFileKind::Metadata
                && !file.compressed
                && file.bytes >= MIN_COMPRESSED_METADATA
        }));
    }
    files
}

fn file_size(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |metadata| metadata.len())
}

/// Returns the bytes of the files of an archive.
fn archive_bytes(base: &Path) -> u64 {
    let files = member_files(base).unwrap_or_default();
    let sizes = files.iter().filter_map(|file| fs::metadata(file).ok());
    sizes.map(|found| found.len()).sum()
}

/// Returns the time since boot, including the time for which the machine was suspended.
fn since_boot() -> Duration {
    clock_gettime(ClockId::Boottime).try_into().unwrap_or_default()
}

/// Returns the space that ordinary users have in the file system of a directory, in bytes.
fn free_bytes(directory: &Path) -> Option<u64> {
    let stat = statvfs(directory).ok()?;
    Some(stat.blocks_available().saturating_mul(stat.fragment_size()))
}
