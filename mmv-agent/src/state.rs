//! What the agent remembers from one run to the next.
//!
//! | | so that |
//! |---|---|
//! | clusters of files | a metric keeps its PMID, and archives of different days can be merged |
//! | process and sequence number in prologues | archives join without a mark where nothing was lost but time |
//! | items of clusters | the same, when a program is built anew |
//! | the files under harvest | it is known whether one was replaced while no agent ran |
//! | the processes of files | another process with the number of one does not bring its file back |
//!
//! One small JSON file, which is written anew whenever something of it changes:
//! a temporary file is synced and takes the name of the old one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use crate::numbering::ByCluster;
use crate::roster::FileId;

/// The format of the file; another one is not read.
const FORMAT: u32 = 1;

/// Who served the values of an archive, as prologues say it. pmlogextract joins
/// two archives without a mark if both numbers are the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Server {
    /// A process number; that of the agent which began to count.
    pub pid: u64,
    /// Counts how often something was lost that no mark in an archive tells.
    pub seqnum: u32,
}

/// The cluster of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileCluster {
    /// The file's name.
    pub file: FileName,
    /// What it asked for; 0: nothing.
    pub requested: u32,
    /// What it got.
    pub cluster: u32,
    /// When it was last harvested, in seconds since 1970.
    pub seen: i64,
}

/// A file under harvest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Harvested {
    /// Its name.
    pub file: FileName,
    device: u64,
    inode: u64,
    born: Option<(u64, u32)>,
}

impl Harvested {
    /// The file of that name and identity.
    pub(crate) fn new(file: &OsStr, id: FileId) -> Self {
        let FileId { device, inode, .. } = id;
        Self { file: FileName(file.to_owned()), device, inode, born: since_1970(id.born) }
    }
}

/// Which process a file counts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Feeder {
    /// The process number in the header.
    pub pid: i32,
    /// The generation of the file's metadata: a process may take over a file.
    pub generation: u64,
    /// When the process was started, in clock ticks after the system was.
    pub started: u64,
    /// It has ended, and the last values were taken.
    #[serde(default)]
    pub ended: bool,
}

impl Feeder {
    /// When no process is started.
    const NEVER: u64 = u64::MAX;

    /// Whether a process is not this one, though the file says so.
    pub(crate) fn is_other(self, now: Self) -> bool {
        let same = (self.pid, self.generation) == (now.pid, now.generation);
        same && self.started != now.started
    }
}

/// A file's process, for the next run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fed {
    device: u64,
    inode: u64,
    born: Option<(u64, u32)>,
    process: Feeder,
}

impl Fed {
    /// The file of that identity, and its process.
    pub(crate) fn new(id: FileId, process: Feeder) -> Self {
        let FileId { device, inode, .. } = id;
        Self { device, inode, born: since_1970(id.born), process }
    }

    /// The file, and its process.
    pub(crate) fn parts(&self) -> (FileId, Feeder) {
        let since =
            |(seconds, nanos)| SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanos));
        let Self { device, inode, born, process } = *self;
        (FileId { device, inode, born: born.and_then(since) }, process)
    }
}

/// When a file was made, in seconds and nanoseconds.
fn since_1970(born: Option<SystemTime>) -> Option<(u64, u32)> {
    let since = born?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some((since.as_secs(), since.subsec_nanos()))
}

/// What the sampler remembers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Memory {
    /// Files that did not just get the cluster they asked for; those without
    /// one now first, the longest-released in front.
    pub clusters: Vec<FileCluster>,
    /// Clusters that were ever given to a file.
    pub used: Vec<u32>,
    /// The numbers of names, by cluster.
    #[serde(default)]
    pub numbers: ByCluster,
    /// The files under harvest.
    pub harvested: Vec<Harvested>,
    /// The processes of files that are or were under harvest and are still there.
    #[serde(default)]
    pub fed: Vec<Fed>,
}

/// All of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    format: u32,
    /// Which boot of the machine it is of.
    boot: String,
    /// What prologues say.
    pub server: Server,
    /// What the sampler remembers.
    pub memory: Memory,
}

/// A file's name in JSON: text where it is text, else its bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "TextOrBytes", into = "TextOrBytes")]
pub(crate) struct FileName(pub(crate) OsString);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum TextOrBytes {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<TextOrBytes> for FileName {
    fn from(name: TextOrBytes) -> Self {
        Self(match name {
            TextOrBytes::Text(text) => text.into(),
            TextOrBytes::Bytes(bytes) => OsString::from_vec(bytes),
        })
    }
}

impl From<FileName> for TextOrBytes {
    fn from(FileName(name): FileName) -> Self {
        name.into_string().map_or_else(|name| Self::Bytes(name.as_bytes().to_vec()), Self::Text)
    }
}

/// The state and its file.
#[derive(Debug)]
pub(crate) struct Store {
    /// `None`: only as long as the process runs.
    path: Option<PathBuf>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    state: State,
    /// Saving has failed, and that was said.
    failing: bool,
}

impl Store {
    /// A state that nobody keeps.
    pub(crate) fn in_memory() -> Self {
        Self::with(None, State::default())
    }

    /// The state in the file at `path`, brought up to date: the host may have
    /// been booted since. Where it cannot be written, archives of this run are
    /// joined with no others, since the next run would not know of this one.
    pub(crate) fn open(path: PathBuf) -> Self {
        let state = load(&path).unwrap_or_default();
        let store = Self::with(Some(path), state);
        store.update(|_| {});
        if store.lock().failing {
            let server = Server::default();
            store.lock().state.server = server.or_this_process();
        }
        store
    }

    fn with(path: Option<PathBuf>, mut state: State) -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let boot = boot.trim().to_owned();
        if state.boot != boot {
            state.server.seqnum = state.server.seqnum.wrapping_add(1);
            state.boot = boot;
            // All processes of then are gone, and ticks count from another start.
            state.memory.fed.iter_mut().for_each(|fed| fed.process.started = Feeder::NEVER);
        }
        state.format = FORMAT;
        state.server = state.server.or_this_process();
        Self { path, inner: Mutex::new(Inner { state, failing: false }) }
    }

    /// What prologues say.
    pub(crate) fn server(&self) -> Server {
        self.lock().state.server
    }

    /// What the sampler remembers.
    pub(crate) fn memory(&self) -> Memory {
        self.lock().state.memory.clone()
    }

    /// Something was lost that no mark tells: the next archive is not to be
    /// joined with those before. On disk when this returns.
    pub(crate) fn count_loss(&self) {
        self.update(|state| state.server.seqnum = state.server.seqnum.wrapping_add(1));
    }

    /// The sampler remembers this from now on. On disk when this returns.
    pub(crate) fn remember(&self, memory: Memory) {
        self.update(|state| state.memory = memory);
    }

    /// Changes the state and saves it. If that fails it is said once, and
    /// tried again with the next change.
    fn update(&self, change: impl FnOnce(&mut State)) {
        let mut inner = self.lock();
        change(&mut inner.state);
        let Some(path) = &self.path else { return };
        let saved = save(path, &inner.state);
        let file = path.display();
        match &saved {
            Ok(()) if inner.failing => info!(%file, "the state can be written again"),
            Err(error) if !inner.failing => {
                warn!(%file, %error, "the state cannot be written; PMIDs may change at the next start");
            }
            _ => {}
        }
        inner.failing = saved.is_err();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Whoever panicked with it has changed single numbers at most.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// The same, or this process where there is none yet.
    fn or_this_process(self) -> Self {
        match self.pid {
            0 => Self { pid: std::process::id().into(), seqnum: 1 },
            _ => self,
        }
    }
}

/// The state of a file; `None` if there is none, or none that can be read,
/// which is said.
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
            let (found, expected) = (state.format, FORMAT);
            warn!(%file, found, expected, "a state of another format begins anew");
            None
        }
        Err(error) => {
            warn!(%file, %error, "the state cannot be read and begins anew");
            None
        }
    }
}

/// The old file or the new one is there at every moment, whole.
fn save(path: &Path, state: &State) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary)?;
    file.write_all(&serde_json::to_vec_pretty(state)?)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn memory() -> Memory {
        let name = |bytes: &[u8]| FileName(OsStr::from_bytes(bytes).to_owned());
        let cluster = |file, requested, cluster| FileCluster { file, requested, cluster, seen: 7 };
        let id = FileId { device: 1, inode: 2, born: Some(SystemTime::UNIX_EPOCH) };
        Memory {
            clusters: vec![cluster(name(b"app"), 0, 1), cluster(name(b"\xff\n"), 321, 2)],
            used: vec![1, 2, 321],
            numbers: ByCluster::from([(1, Arc::default())]),
            harvested: vec![Harvested::new(OsStr::new("app"), id)],
            fed: vec![Fed::new(id, Feeder { pid: 5, generation: 6, started: 7, ended: true })],
        }
    }

    #[test]
    fn what_is_remembered_is_there_at_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deeper").join("state.json");
        let store = Store::open(path.clone());
        let server = store.server();
        assert_eq!(server, Server { pid: std::process::id().into(), seqnum: 1 });
        store.remember(memory());
        store.count_loss();
        let again = Store::open(path.clone());
        assert_eq!(again.memory(), memory());
        assert_eq!(again.server(), Server { seqnum: 2, ..server });
        assert!(!path.with_extension("new").exists());
    }

    #[test]
    fn a_boot_is_a_loss_and_the_end_of_all_processes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        let store = Store::open(path.clone());
        store.remember(memory());
        let server = store.server();
        let text = fs::read_to_string(&path).unwrap();
        let mut state: State = serde_json::from_str(&text).unwrap();
        state.boot = "another".into();
        fs::write(&path, serde_json::to_vec(&state).unwrap()).unwrap();
        let store = Store::open(path.clone());
        assert_eq!(store.server(), Server { seqnum: 2, ..server });
        let [before, after] = [memory(), store.memory()].map(|memory| memory.fed[0].parts());
        assert_eq!(before.0, after.0);
        assert!(before.1.is_other(after.1) && after.1.is_other(before.1));
        assert_eq!(Store::open(path).server(), Server { seqnum: 2, ..server });
    }

    #[test]
    fn a_state_that_cannot_be_read_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        for text in ["", "{", "[]", "{\"format\": 9}"] {
            fs::write(&path, text).unwrap();
            let store = Store::open(path.clone());
            assert_eq!(store.memory(), Memory::default(), "{text}");
            assert_eq!(store.server().seqnum, 1, "{text}");
        }
    }

    #[test]
    fn where_the_state_cannot_be_kept_archives_are_joined_with_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        let mut state = Store::with(None, State::default()).lock().state.clone();
        state.server = Server { pid: 1, seqnum: 5 };
        fs::write(&path, serde_json::to_vec(&state).unwrap()).unwrap();
        // Not even root can make a file of that name.
        fs::create_dir(path.with_extension("new")).unwrap();
        let store = Store::open(path);
        assert_eq!(store.server(), Server { pid: std::process::id().into(), seqnum: 1 });
        store.remember(memory());
        assert_eq!(store.memory(), memory(), "it goes on");
    }
}
