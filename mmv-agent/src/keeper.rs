//! The thread that keeps house: what may wait for a disk, and may take long.
//!
//! | it | when |
//! |---|---|
//! | saves what the sampler remembers | a new PMID at once, else within seconds |
//! | repairs what an earlier run left open | at the start |
//! | deletes closed archives ([`retention`]) | one was closed, and every ten seconds |
//! | compresses closed volumes, one at a time | they are old enough |
//! | removes what dead programs left ([`removal`](crate::removal)) | the sampler says so |
//!
//! It is the last of the agent's threads for the scheduler, and never touches what
//! is being written ([`Ledger`]).

mod folder;
mod mending;
mod retention;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crossbeam::channel::{Receiver, RecvTimeoutError};
use mmv_archive::compress::{Effort, compress_volume, is_same};
use mmv_archive::{Compression, TemporalIndex};
use nix::sys::statvfs::statvfs;
use pcp_types::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use tracing::{info, warn};

use crate::config::{CompressionPolicy, Retention, Settings};
use crate::ledger::Ledger;
use crate::removal::{self, Stays};
use crate::spread::micros;
use crate::state::{Memory, Store};
use folder::{Found, Kind, Member};
use mending::Mended;
use retention::Closed;

/// How often it looks around. A program that restarts all the time is not
/// worth a write each time either: what is lost with the last of them costs a
/// mark, and no PMID.
const PAUSE: Duration = Duration::from_secs(10);

/// With so many volumes waiting compression has fallen behind.
const BACKLOG: usize = 10;

/// The lowest priority.
const NICE: i32 = 19;

/// What the thread is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Note {
    /// The sampler has something to remember; it is in the ledger.
    Remember,
    /// A volume or an archive was closed.
    Closed,
    /// Files are to be removed; they are in the ledger.
    Remove,
    /// Other rules from now on.
    Change(Rules),
}

/// What is kept, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    retention: Retention,
    compression: CompressionPolicy,
}

impl Rules {
    /// Those of some settings.
    pub(crate) fn of(settings: &Settings) -> Self {
        Self { retention: settings.retention, compression: settings.compression }
    }
}

/// What earlier runs have left.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Their archives.
    archives: Vec<PathBuf>,
    /// Files that nobody needs.
    files: Vec<PathBuf>,
}

/// The keeper's state.
#[derive(Debug)]
pub(crate) struct Keeper {
    store: Arc<Store>,
    ledger: Arc<Ledger>,
    rules: Rules,
    /// The host's folder; `None` if the user has named the archive, and keeps
    /// it.
    folder: Option<PathBuf>,
    /// What is not saved yet.
    unsaved: Option<Memory>,
    /// Start and end of closed archives.
    spans: BTreeMap<PathBuf, (Timestamp, Timestamp)>,
    /// What was said, and is not said again.
    said: BTreeSet<String>,
    /// Volumes that cannot be compressed.
    spoilt: BTreeSet<PathBuf>,
}

impl Keeper {
    /// A keeper of the archives in `folder` and of `store`.
    pub(crate) fn new(
        store: Arc<Store>,
        ledger: Arc<Ledger>,
        folder: Option<PathBuf>,
        rules: Rules,
    ) -> Self {
        Self {
            store,
            ledger,
            rules,
            folder,
            unsaved: None,
            spans: BTreeMap::new(),
            said: BTreeSet::new(),
            spoilt: BTreeSet::new(),
        }
    }

    /// What earlier runs have left. To be asked before this one makes files:
    /// those of an archive that is being made look like leftovers.
    pub(crate) fn left(&self) -> Left {
        let Some(folder) = self.folder.as_deref() else { return Left::default() };
        let archives = folder::archives(folder).unwrap_or_default();
        Left {
            archives: archives.into_iter().map(|found| found.base).collect(),
            files: folder::leftovers(folder).unwrap_or_default(),
        }
    }

    /// Works until nobody is left who could say something.
    pub(crate) fn run(mut self, left: &Left, notes: &Receiver<Note>) {
        // Best effort: without it the keeper is merely less polite.
        let _ = rustix::process::nice(NICE);
        self.clean_up(left);
        let mut looked = None;
        loop {
            let wait =
                looked.map_or(Duration::ZERO, |at: Instant| PAUSE.saturating_sub(at.elapsed()));
            match notes.recv_timeout(wait) {
                Ok(Note::Closed) | Err(RecvTimeoutError::Timeout) => {}
                Ok(note) => {
                    self.take(note);
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.save();
            self.tidy(Timestamp::now());
            while !self.ledger.has_ended() && self.compress_next(SystemTime::now(), notes) {
                self.tidy(Timestamp::now());
            }
            looked = Some(Instant::now());
        }
        self.save();
    }

    /// Takes a note. A new PMID is saved at once.
    pub(crate) fn take(&mut self, note: Note) {
        match note {
            Note::Closed => {}
            Note::Change(rules) => self.rules = rules,
            Note::Remove => self.remove_dead(),
            Note::Remember => {
                let Some(memory) = self.ledger.take_memory() else { return };
                let known = self.store.memory();
                let urgent =
                    known.used != memory.used || known.clusters.len() != memory.clusters.len();
                self.unsaved = Some(memory);
                if urgent {
                    self.save();
                }
            }
        }
    }

    fn remove_dead(&self) {
        for dead in self.ledger.take_dead() {
            let stays = removal::remove(&dead).err();
            if let Some(Stays::Refused(error)) = &stays {
                let file = dead.directory.join(&dead.name);
                self.ledger.note_error(format!("{}: cannot be removed: {error}", file.display()));
            }
            self.ledger.put_removed(dead, stays);
        }
    }

    /// Saves what is not saved yet.
    pub(crate) fn save(&mut self) {
        if let Some(memory) = self.unsaved.take() {
            self.store.remember(memory);
        }
    }

    /// Repairs the archives that an earlier run left open, and takes away what
    /// it left besides.
    pub(crate) fn clean_up(&mut self, left: &Left) {
        let Some(folder) = self.folder.clone() else { return };
        for file in &left.files {
            let what = file.display();
            // Somebody else may have left it unfinished: then it is made again.
            let twins = folder::compressed_twins(file).collect::<Vec<_>>();
            if !twins.is_empty() && !twins.iter().any(|twin| is_same(twin, file).unwrap_or(false)) {
                warn!(file = %what, "is there compressed as well, but not the same; it stays");
                continue;
            }
            match fs::remove_file(file) {
                Ok(()) => info!(file = %what, "left by an earlier run, removed"),
                Err(error) => warn!(file = %what, %error, "cannot be removed"),
            }
        }
        let found = folder::archives(&folder).unwrap_or_default();
        for found in found.iter().filter(|found| left.archives.contains(&found.base)) {
            let archive = found.base.display();
            if !found.has_metadata() && !folder::is_being_repaired(&found.base) {
                warn!(%archive, "has no metadata, which the agent did not do; it stays");
                continue;
            }
            match mending::mend(found) {
                Ok(Mended::Closed) => {}
                Ok(Mended::Reindexed) => info!(%archive, "was left open; its index is whole now"),
                Ok(Mended::Repaired) => info!(%archive, "was left open; it is whole now"),
                Ok(Mended::Empty) => {
                    info!(%archive, "was left without a record, removed");
                    if let Err(error) = found.delete() {
                        warn!(%archive, %error, "cannot be removed");
                    }
                }
                Err(error) => warn!(%archive, %error, "was left open, and cannot be repaired"),
            }
        }
    }

    /// Deletes what has to go.
    pub(crate) fn tidy(&mut self, now: Timestamp) {
        let Some(folder) = self.folder.clone() else { return };
        let Some(found) = self.archives(&folder) else { return };
        let writing = self.ledger.writing().map(|(base, _)| base);
        let is_current = |found: &Found| writing.as_ref() == Some(&found.base);
        let current = found.iter().filter(|found| is_current(found)).map(Found::bytes).sum();
        let closed = found.into_iter().filter(|found| !is_current(found) && found.has_metadata());
        let mut closed: Vec<(Timestamp, Found)> =
            closed.map(|found| (self.span(&found).1, found)).collect();
        closed.sort_by_key(|(end, _)| *end);
        let sizes: Vec<Closed> =
            closed.iter().map(|(end, found)| Closed { bytes: found.bytes(), end: *end }).collect();
        let free = free_bytes(&folder).unwrap_or(u64::MAX);
        let rules = &self.rules.retention;
        let (mut doomed, rest) = retention::doomed(&sizes, current, free, now, rules);
        if writing.is_none() {
            // Room that others use up is no reason to be left with nothing at all.
            doomed.retain(|(number, reason)| number + 1 < sizes.len() || !reason.is_room());
        }
        let (mut archives, mut bytes) = (sizes.len() as u64 + u64::from(current > 0), current);
        bytes += sizes.iter().map(|one| one.bytes).sum::<u64>();
        for (number, reason) in doomed {
            let found = &closed[number].1;
            let archive = found.base.display();
            match found.delete() {
                Ok(()) => {
                    info!(%archive, bytes = found.bytes(), %reason, "deleted");
                    self.ledger.own().deleted.inc();
                    archives -= 1;
                    bytes = bytes.saturating_sub(found.bytes());
                }
                Err(error) => self.warn_once(&format!("{archive} cannot be deleted: {error}")),
            }
            self.spans.remove(&found.base);
        }
        match rest {
            Some(reason) => {
                let what = "although all closed archives are deleted";
                // Without the numbers, which change all the time.
                if self.said.insert(what.to_owned()) {
                    warn!(%reason, "{what}");
                }
            }
            None => {
                self.said.remove("although all closed archives are deleted");
            }
        }
        self.ledger.set_kept(archives, bytes, free_bytes(&folder).unwrap_or(0));
        self.note_oldest(&closed);
    }

    /// The archives there are; `None`, and that is said, if nobody can see.
    fn archives(&mut self, folder: &Path) -> Option<Vec<Found>> {
        match folder::archives(folder) {
            Ok(found) => Some(found),
            Err(error) => {
                self.warn_once(&format!("{} cannot be listed: {error}", folder.display()));
                None
            }
        }
    }

    /// What is older than all archives need not be remembered.
    fn note_oldest(&mut self, closed: &[(Timestamp, Found)]) {
        let starts = closed.iter().filter_map(|(_, found)| self.spans.get(&found.base));
        if let Some((start, _)) = starts.min_by_key(|(start, _)| *start) {
            self.ledger.set_oldest(start.seconds());
        }
    }

    /// Start and end of a closed archive's data; of one that cannot be read,
    /// when it was last written.
    fn span(&mut self, found: &Found) -> (Timestamp, Timestamp) {
        if let Some(span) = self.spans.get(&found.base) {
            return *span;
        }
        let index = found.members.iter().find(|member| member.kind == Kind::Index);
        // Compressed volumes would have to be expanded to see their ends.
        let known = index.and_then(|member| TemporalIndex::open(&member.path).ok());
        let known = known.and_then(|(label, index)| {
            let last = index.entries().last()?;
            Some((label.start, last.stamp))
        });
        let span = known.unwrap_or_else(|| {
            let since = found.modified().duration_since(SystemTime::UNIX_EPOCH);
            let written = Timestamp::EPOCH.saturating_add(since.unwrap_or_default());
            (written, written)
        });
        self.spans.insert(found.base.clone(), span);
        span
    }

    /// Compresses the oldest volume that waits for it; false if none does. New
    /// PMIDs are saved meanwhile, and the end of the agent is not kept waiting.
    pub(crate) fn compress_next(&mut self, now: SystemTime, notes: &Receiver<Note>) -> bool {
        let Some(method) = self.rules.compression.method else { return false };
        let Some(folder) = self.folder.clone() else { return false };
        let Some(found) = self.archives(&folder) else { return false };
        let current = self.ledger.writing();
        let waiting: Vec<&Member> = found
            .iter()
            .filter(|found| found.has_metadata())
            .flat_map(|found| waiting(found, current.as_ref()))
            .filter(|volume| {
                let age = now.duration_since(volume.modified).unwrap_or_default();
                age >= self.rules.compression.after && !self.spoilt.contains(&volume.path)
            })
            .collect();
        let behind = "compression has fallen behind";
        if waiting.len() < BACKLOG {
            self.said.remove(behind);
        } else if self.said.insert(behind.to_owned()) {
            warn!(volumes = waiting.len(), "{behind}");
        }
        let Some(volume) = waiting.first() else { return false };
        self.compress(&volume.path, method, notes)
    }

    /// False if it was given up, for the agent ends.
    fn compress(&mut self, volume: &Path, method: Compression, notes: &Receiver<Note>) -> bool {
        let ledger = Arc::clone(&self.ledger);
        let go_on = &mut || {
            notes.try_iter().for_each(|note| self.take(note));
            !ledger.has_ended()
        };
        let size = |file: &Path| fs::metadata(file).map_or(0, |file| file.len());
        let (before, begun) = (size(volume), processor_time());
        match compress_volume(volume, method, Effort::Least, go_on) {
            Ok(Some(compressed)) => {
                self.ledger.add_compressed(before, size(&compressed));
                let time = processor_time().saturating_sub(begun);
                self.ledger.own().compression.time.add(micros(time));
                true
            }
            Ok(None) => false,
            Err(error) => {
                warn!(volume = %volume.display(), %error, "stays as it is");
                self.ledger.note_error(error.to_string());
                self.spoilt.insert(volume.to_owned());
                true
            }
        }
    }

    fn warn_once(&mut self, what: &str) {
        if self.said.insert(what.to_owned()) {
            warn!("{what}");
            self.ledger.note_error(what.to_owned());
        }
    }
}

/// The volumes of an archive that nobody writes and that are not compressed.
fn waiting<'f>(
    found: &'f Found,
    writing: Option<&(PathBuf, u32)>,
) -> impl Iterator<Item = &'f Member> {
    let current = writing.filter(|(base, _)| *base == found.base).map(|(_, volume)| *volume);
    found.members.iter().filter(move |member| match member.kind {
        Kind::Volume(number) => !member.compressed && current.is_none_or(|now| number < now),
        _ => false,
    })
}

/// How long this thread has run on a processor.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// How much room ordinary users have left where a folder is.
fn free_bytes(folder: &Path) -> Option<u64> {
    let stat = statvfs(folder).ok()?;
    Some(stat.blocks_available().saturating_mul(stat.fragment_size()))
}
