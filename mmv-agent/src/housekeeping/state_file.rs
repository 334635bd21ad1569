//! The state file: the state that one run leaves to the next.
//!
//! | state | purpose |
//! |---|---|
//! | clusters of files | a metric keeps its PMID, so archives of different days can be merged |
//! | items of clusters | a metric keeps its PMID when its program is rebuilt |
//! | owners of names | no other user takes the names of a program that restarts |
//! | pid and sequence number in prologues | archives join without a mark where only time was lost
//! |
//! | name of the newest archive | no name is reused |
//! | clock of retention | a wall clock that jumped deletes nothing at once |
//! | harvested files | a file that was replaced while no agent ran is detected |
//! | producers of files | another process with the same pid does not revive a file |
//!
//! Invariant: at any time the complete old or the complete new JSON file exists. On each change a
//! temporary file is synced and renamed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tracing::{error, info, warn};

use super::retention_clock::ClockState;
use crate::discovery::{FileId, FileName, Producer};
use crate::metadata::{FileCluster, ItemAllocators, Owners};
use crate::telemetry::SharedStatus;

/// Format of the file; no other is read.
const FORMAT: u32 = 1;

/// The identity of the source of an archive's values in its prologue. pmlogextract joins two
/// archives without a mark if both numbers are equal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PrologueIds {
    /// Pid of the agent that began to count.
    pub pid: u64,
    /// Number of losses that no mark in an archive shows.
    pub seqnum: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownFile {
    pub file: FileName,
    #[serde(flatten)]
    id: FileId,
}

impl KnownFile {
    pub(crate) fn new(file: &OsStr, id: FileId) -> Self {
        Self { file: FileName(file.to_owned()), id }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileProducer {
    #[serde(flatten)]
    pub id: FileId,
    pub process: Producer,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoaderState {
    /// Files with another cluster than they asked for; files that hold none come first, in the
    /// order of their release.
    pub clusters: Vec<FileCluster>,
    /// Clusters that any file has ever had.
    pub used: Vec<u32>,
    /// Items of names, by cluster.
    #[serde(default)]
    pub numbers: ItemAllocators,
    pub harvested: Vec<KnownFile>,
    /// Producers of existing files that are or were harvested.
    #[serde(default)]
    pub fed: Vec<FileProducer>,
    /// Owners of names, clusters and instance domains.
    #[serde(default)]
    pub owners: Owners,
    #[serde(default)]
    pub logged: LoggedToday,
}

/// The bytes logged for each user on a day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoggedToday {
    /// Day, counted from 1970.
    pub day: i64,
    /// Bytes by user.
    pub bytes: BTreeMap<u32, u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    format: u32,
    /// Boot id of the machine when it was written.
    boot: String,
    pub server: PrologueIds,
    /// Last assigned archive name, relative to the host's directory.
    #[serde(default)]
    pub newest_archive: Option<String>,
    #[serde(default)]
    pub retention_clock: Option<ClockState>,
    pub memory: LoaderState,
}

#[derive(Debug)]
pub(crate) struct Store {
    /// `None` if the state is kept in memory only.
    path: Option<PathBuf>,
    /// True if there was no readable state.
    is_new: bool,
    inner: Mutex<Inner>,
    shared: Arc<SharedStatus>,
}

#[derive(Debug, Default)]
struct Inner {
    state: State,
    /// Set while saving fails, which the log and the status report.
    failing: bool,
}

impl Store {
    /// Creates a state without a file.
    pub(crate) fn in_memory() -> Self {
        Self::new(None, State::default(), Arc::default())
    }

    /// Creates a state without a file for archives that continue those of a prologue.
    pub(crate) fn with_prologue_ids(server: PrologueIds) -> Self {
        let store = Self::in_memory();
        store.lock().state.server = server;
        store
    }

    /// Reads the state from the file at `path`, and updates it if the host was booted since. If
    /// the file cannot be written, this run's archives are not joined with others, since the next
    /// run would not know of this one.
    pub(crate) fn open(path: PathBuf, shared: Arc<SharedStatus>) -> Self {
        let loaded = load(&path);
        let is_new = loaded.is_none();
        let store = Self { is_new, ..Self::new(Some(path), loaded.unwrap_or_default(), shared) };
        store.update(|_| {});
        if store.lock().failing {
            let server = PrologueIds::default();
            store.lock().state.server = server.or_this_process();
        }
        store
    }

    fn new(path: Option<PathBuf>, mut state: State, shared: Arc<SharedStatus>) -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let boot = boot.trim().to_owned();
        if state.boot != boot {
            state.server.seqnum = state.server.seqnum.wrapping_add(1);
            state.boot = boot;
            // The processes are gone, and clock ticks count from another start.
            state.memory.fed.iter_mut().for_each(|fed| fed.process.started = Producer::NEVER);
        }
        state.format = FORMAT;
        state.server = state.server.or_this_process();
        Self { path, is_new: false, inner: Mutex::new(Inner { state, failing: false }), shared }
    }

    /// Adds the owners that `recover` finds, if no state could be read.
    pub(crate) fn with_recovered_owners(self, recover: impl FnOnce() -> Owners) -> Self {
        if self.is_new {
            let owners = recover();
            if !owners.names.is_empty() {
                let names = owners.names.len();
                info!(names, "no state file: owners of names recovered from the archives");
                self.update(|state| state.memory.owners = owners);
            }
        }
        self
    }

    /// Returns the identity for prologues.
    pub(crate) fn server(&self) -> PrologueIds {
        self.lock().state.server
    }

    pub(crate) fn memory(&self) -> LoaderState {
        self.lock().state.memory.clone()
    }

    /// Returns the last assigned archive name.
    pub(crate) fn newest_archive(&self) -> Option<String> {
        self.lock().state.newest_archive.clone()
    }

    pub(crate) fn retention_clock(&self) -> Option<ClockState> {
        self.lock().state.retention_clock.clone()
    }

    /// Stores the clock of retention. Returns after the state is on disk.
    pub(crate) fn set_retention_clock(&self, clock: ClockState) {
        self.update(|state| state.retention_clock = Some(clock));
    }

    /// Stores the name of a new archive. Returns after the state is on disk.
    pub(crate) fn name_archive(&self, newest: Option<String>) {
        if newest.is_some() {
            self.update(|state| state.newest_archive = newest);
        }
    }

    /// Counts a loss that no mark shows, so that the next archive is not joined with earlier ones.
    /// Returns after the state is on disk.
    pub(crate) fn count_loss(&self) {
        self.update(|state| state.server.seqnum = state.server.seqnum.wrapping_add(1));
    }

    /// Stores the loader's state. Returns after the state is on disk.
    pub(crate) fn remember(&self, memory: LoaderState) {
        self.update(|state| state.memory = memory);
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.lock().failing
    }

    /// Saves the state again if saving failed.
    pub(crate) fn retry(&self) {
        if self.is_failing() {
            self.update(|_| {});
        }
    }

    /// Changes the state and saves it. A failure is logged once, and reported in the status until
    /// the state is saved.
    fn update(&self, change: impl FnOnce(&mut State)) {
        let mut inner = self.lock();
        change(&mut inner.state);
        let Some(path) = &self.path else { return };
        let saved = save(path, &inner.state);
        let file = path.display();
        if let Err(error) = &saved {
            let what = format!("{file}: the state cannot be written: {error}");
            if !inner.failing {
                error!(%file, %error, "the state cannot be written; PMIDs may change at the next start");
                self.shared.note_error(what.clone());
            }
            self.shared.set_state_error(Some(what));
        } else if inner.failing {
            info!(%file, "the state can be written again");
            self.shared.set_state_error(None);
        }
        inner.failing = saved.is_err();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A thread that panicked with the lock held has left the state consistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PrologueIds {
    /// Returns the identity, or this process if there is none yet.
    fn or_this_process(self) -> Self {
        match self.pid {
            0 => Self { pid: std::process::id().into(), seqnum: 1 },
            _ => self,
        }
    }
}

/// Reads the state file; `None` if there is none, or, after a warning, if it cannot be read.
fn load(path: &Path) -> Option<State> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        text => text,
    };
    let state = text.and_then(|text| Ok(serde_json::from_slice::<State>(&text)?));
    let file = path.display();
    match state {
        Ok(state) if state.format == FORMAT => Some(state),
        Ok(state) => {
            let found = state.format;
            let expected = FORMAT;
            warn!(%file, found, expected, "a state file of another format is ignored: PMIDs may change");
            None
        }
        Err(error) => {
            warn!(%file, %error, "the state file cannot be read and is ignored: PMIDs may change");
            None
        }
    }
}

/// Replaces the file by a rename.
fn save(path: &Path, state: &State) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary)?;
    file.write_all(&serde_json::to_vec_pretty(state)?)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    fn memory() -> LoaderState {
        let name = |bytes: &[u8]| FileName(OsStr::from_bytes(bytes).to_owned());
        let cluster = |file, requested, cluster| FileCluster {
            file,
            requested,
            cluster,
            seen: 7,
            owner: Some(1),
        };
        let id = FileId { device: 1, inode: 2, born: Some((0, 0)) };
        LoaderState {
            clusters: vec![cluster(name(b"app"), 0, 1), cluster(name(b"\xff\n"), 321, 2)],
            used: vec![1, 2, 321],
            numbers: ItemAllocators::from([(1, Arc::default())]),
            harvested: vec![KnownFile::new(OsStr::new("app"), id)],
            fed: vec![FileProducer {
                id,
                process: Producer { pid: 5, generation: 6, started: 7, ended: true },
            }],
            owners: serde_json::from_str(
                "{\"names\": {\"mmv.app\": {\"owner\": 8, \"absent\": 9}}}",
            )
            .unwrap(),
            logged: LoggedToday { day: 19_000, bytes: BTreeMap::from([(1_000, 7)]) },
        }
    }

    fn open(path: PathBuf) -> Store {
        Store::open(path, Arc::default())
    }

    #[test]
    fn the_next_start_finds_the_state() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deeper").join("state.json");
        let store = open(path.clone());
        let server = store.server();
        assert_eq!(server, PrologueIds { pid: std::process::id().into(), seqnum: 1 });
        store.remember(memory());
        store.count_loss();
        let again = open(path.clone());
        assert_eq!(again.memory(), memory());
        assert_eq!(again.server(), PrologueIds { seqnum: 2, ..server });
        assert!(!path.with_extension("new").exists());
    }

    #[test]
    fn a_boot_is_a_loss_and_the_end_of_all_processes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        let store = open(path.clone());
        store.remember(memory());
        let server = store.server();
        let text = fs::read_to_string(&path).unwrap();
        let mut state: State = serde_json::from_str(&text).unwrap();
        state.boot = "another".into();
        fs::write(&path, serde_json::to_vec(&state).unwrap()).unwrap();
        let store = open(path.clone());
        assert_eq!(store.server(), PrologueIds { seqnum: 2, ..server });
        let [before, after] =
            [memory(), store.memory()].map(|memory| (memory.fed[0].id, memory.fed[0].process));
        assert_eq!(before.0, after.0);
        assert!(before.1.is_other(after.1) && after.1.is_other(before.1));
        assert_eq!(open(path).server(), PrologueIds { seqnum: 2, ..server });
    }

    #[test]
    fn a_state_file_that_cannot_be_read_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        for text in ["", "{", "[]", "{\"format\": 9}"] {
            fs::write(&path, text).unwrap();
            let store = open(path.clone());
            assert_eq!(store.memory(), LoaderState::default(), "{text}");
            assert_eq!(store.server().seqnum, 1, "{text}");
        }
    }

    #[test]
    fn without_a_writable_state_file_archives_join_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        let mut state = Store::in_memory().lock().state.clone();
        state.server = PrologueIds { pid: 1, seqnum: 5 };
        fs::write(&path, serde_json::to_vec(&state).unwrap()).unwrap();
        // Not even root can make a file of that name.
        fs::create_dir(path.with_extension("new")).unwrap();
        let shared = Arc::<SharedStatus>::default();
        let store = Store::open(path.clone(), Arc::clone(&shared));
        assert_eq!(store.server(), PrologueIds { pid: std::process::id().into(), seqnum: 1 });
        store.remember(memory());
        assert_eq!(store.memory(), memory(), "it goes on");
        assert!(shared.state_error().is_some_and(|error| error.contains("state.json")));
        store.retry();
        assert!(store.is_failing() && shared.state_error().is_some());
        fs::remove_dir(path.with_extension("new")).unwrap();
        store.retry();
        assert_eq!((store.is_failing(), shared.state_error()), (false, None));
        assert_eq!(open(path).memory(), memory(), "without another change");
    }
}
