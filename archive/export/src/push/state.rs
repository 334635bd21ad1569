//! The cursor of a host, in a file of its own.
//!
//! The file is replaced atomically: a new file is written, synchronized and renamed, so that after a
//! crash the file is either the old or the new one.
//!
//! ```json
//! {"version":1,"url":"http://127.0.0.1:9090/api/v1/write",
//!  "sent":{"archive":"20261120.12.00","volume":0,"offset":81240,"time":1763640000000000000},
//!  "sending":{"archive":"20261120.12.00","volume":0,"offset":90312,"time":1763640010000000000},
//!  "counts":{"sent":10000,"requests":1,"repeated":0,"refused":0,"too_old":0,"lost_gaps":0,"damaged":0}}
//! ```

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::DeliveryCounts;
use crate::position::Position;

/// The version of the file format.
const VERSION: u32 = 1;
/// Limit on the size of a state file, which is far larger than any cursor.
const MAX_FILE_SIZE: u64 = 64 << 10;

/// The progress of sending a host's archives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cursor {
    version: u32,
    url: String,
    /// The position before which all samples are stored by the receiver, or counted as dropped.
    pub(super) sent: Option<Position>,
    /// The end of the batch after `sent` that is being sent.
    pub(super) sending: Option<Position>,
    /// The counts since the first run.
    pub(super) counts: DeliveryCounts,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StateError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// The file is not a state file of this program.
    #[error("{}: not a state file of this program: {why}", path.display())]
    Invalid { path: PathBuf, why: String },
    /// The file belongs to another receiver.
    #[error(
        "{}: belongs to the receiver {url}; use another --state directory for each receiver",
        path.display()
    )]
    OtherReceiver { path: PathBuf, url: String },
    /// Another process uses the directory.
    #[error("{}: in use by another mmv-export push", path.display())]
    InUse { path: PathBuf },
}

#[derive(Debug)]
pub(crate) struct StateDirectory {
    path: PathBuf,
    /// Holds the lock while it is open.
    _lock: File,
}

impl StateDirectory {
    /// Creates the directory if it does not exist, and locks it.
    pub(crate) fn open(path: &Path) -> Result<Self, StateError> {
        let lock = fs::create_dir_all(path).and_then(|()| File::create(path.join(".lock")));
        let lock = lock.map_err(|source| StateError::Io { path: path.to_owned(), source })?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(Errno::WOULDBLOCK) => Err(StateError::InUse { path: path.to_owned() }),
            Err(error) => Err(StateError::Io { path: path.to_owned(), source: error.into() }),
        }
    }

    pub(super) fn file(&self, host: &str, url: &str) -> StateFile {
        // Host names are directory names made printable, which do not normally contain a slash.
        let name = format!("{}.json", host.replace('/', "_"));
        StateFile { path: self.path.join(name), url: url.to_owned() }
    }
}

/// The file with the cursor of a host.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    url: String,
}

impl StateFile {
    /// Reads the cursor; a new one if there is no file.
    pub(super) fn read(&self) -> Result<Cursor, StateError> {
        let text = match fs::metadata(&self.path).map(|data| data.len()) {
            Ok(length) if length > MAX_FILE_SIZE => {
                let why = format!("{length} bytes; the limit is {MAX_FILE_SIZE}");
                return Err(StateError::Invalid { path: self.path.clone(), why });
            }
            Ok(_) => fs::read(&self.path).map_err(|source| self.io(source))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let url = self.url.clone();
                return Ok(Cursor { version: VERSION, url, ..Cursor::default() });
            }
            Err(source) => return Err(self.io(source)),
        };
        let cursor: Cursor = serde_json::from_slice(&text).map_err(|error| {
            StateError::Invalid { path: self.path.clone(), why: error.to_string() }
        })?;
        if cursor.version != VERSION {
            let why = format!("version {}, expected {VERSION}", cursor.version);
            return Err(StateError::Invalid { path: self.path.clone(), why });
        }
        if cursor.url != self.url {
            return Err(StateError::OtherReceiver { path: self.path.clone(), url: cursor.url });
        }
        Ok(cursor)
    }

    /// Replaces the file. After it returns, the cursor survives a crash of the machine.
    pub(super) fn write(&self, cursor: &Cursor) -> Result<(), StateError> {
        self.replace(cursor).map_err(|source| self.io(source))
    }

    fn replace(&self, cursor: &Cursor) -> std::io::Result<()> {
        let new = self.path.with_extension("json.new");
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(cursor)?)?;
        file.sync_data()?;
        fs::rename(&new, &self.path)?;
        match self.path.parent() {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    }

    fn io(&self, source: std::io::Error) -> StateError {
        StateError::Io { path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_belongs_to_one_receiver() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(directory.path()).unwrap();
        let file = state.file("web1", "http://a/");
        let mut cursor = file.read().unwrap();
        assert_eq!(cursor.sent, None);
        cursor.sent =
            Some(Position { archive: "20261120".to_owned(), volume: 1, offset: 2, time: 3 });
        cursor.counts.sent = 7;
        file.write(&cursor).unwrap();
        assert_eq!(file.read().unwrap(), cursor);
        let other = state.file("web1", "http://b/").read();
        assert!(matches!(other, Err(StateError::OtherReceiver { .. })), "{other:?}");
    }

    #[test]
    fn file_that_is_no_state_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(directory.path()).unwrap();
        let file = state.file("web1", "http://a/");
        for content in ["", "{", "{\"version\":2,\"url\":\"\",\"counts\":{}}", "[]"] {
            fs::write(&file.path, content).unwrap();
            assert!(matches!(file.read(), Err(StateError::Invalid { .. })), "{content}");
        }
        fs::write(&file.path, vec![b' '; 70_000]).unwrap();
        assert!(matches!(file.read(), Err(StateError::Invalid { .. })));
    }

    #[test]
    fn two_processes_do_not_send_from_one_state() {
        let directory = tempfile::tempdir().unwrap();
        let first = StateDirectory::open(directory.path()).unwrap();
        let second = StateDirectory::open(directory.path());
        assert!(matches!(second, Err(StateError::InUse { .. })));
        drop(first);
        StateDirectory::open(directory.path()).unwrap();
    }
}
