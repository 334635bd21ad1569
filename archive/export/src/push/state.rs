//! The cursor of a host, in a file of its own.
//!
//! The file is replaced as a whole: written beside, synchronized, renamed. After a crash it is
//! the old one or the new one.
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

use super::Counts;
use crate::position::Position;

/// Of the file.
const VERSION: u32 = 1;
/// No state is longer.
const LONGEST: u64 = 64 << 10;

/// How far a host's archives are sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cursor {
    version: u32,
    url: String,
    /// All before it is stored by the receiver, or counted as dropped.
    pub(super) sent: Option<Position>,
    /// The end of the batch from `sent` on that is being sent.
    pub(super) sending: Option<Position>,
    /// Since the first run.
    pub(super) counts: Counts,
}

/// Why there is no cursor.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is not one of ours.
    #[error("{}: not a state of this program: {why}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The file is about another receiver.
    #[error(
        "{}: it has what was sent to {url}; give another receiver another --state",
        path.display()
    )]
    OtherReceiver {
        /// The file.
        path: PathBuf,
        /// Its receiver.
        url: String,
    },
    /// Another process sends from this state.
    #[error("{}: in use by another mmv-export push", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
}

/// A directory of cursors that no other process uses.
#[derive(Debug)]
pub(crate) struct StateDirectory {
    path: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
}

impl StateDirectory {
    /// Makes the directory if there is none, and locks it.
    pub(crate) fn open(path: &Path) -> Result<Self, StateError> {
        let io = |source| StateError::Io { path: path.to_owned(), source };
        fs::create_dir_all(path).map_err(io)?;
        let lock = File::create(path.join(".lock")).map_err(io)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(Errno::WOULDBLOCK) => Err(StateError::InUse { path: path.to_owned() }),
            Err(error) => Err(io(error.into())),
        }
    }

    /// The file of a host.
    pub(super) fn file(&self, host: &str, url: &str) -> StateFile {
        // Of a name with a slash there is no directory, but a backslash may be in one.
        let name = format!("{}.json", host.replace('/', "_"));
        StateFile { path: self.path.join(name), url: url.to_owned() }
    }
}

/// The file with a cursor.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    url: String,
}

impl StateFile {
    /// The cursor; at the start of all if there is no file.
    pub(super) fn read(&self) -> Result<Cursor, StateError> {
        let text = match fs::metadata(&self.path).map(|data| data.len()) {
            Ok(length) if length > LONGEST => {
                let why = format!("{length} bytes, more than {LONGEST}");
                return Err(StateError::Invalid { path: self.path.clone(), why });
            }
            Ok(_) => fs::read(&self.path).map_err(|source| self.io(source))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let url = self.url.clone();
                return Ok(Cursor { version: VERSION, url, ..Cursor::default() });
            }
            Err(source) => return Err(self.io(source)),
        };
        let invalid = |why: String| StateError::Invalid { path: self.path.clone(), why };
        let cursor: Cursor =
            serde_json::from_slice(&text).map_err(|error| invalid(error.to_string()))?;
        if cursor.version != VERSION {
            return Err(invalid(format!("version {}, not {VERSION}", cursor.version)));
        }
        if cursor.url != self.url {
            let (path, url) = (self.path.clone(), cursor.url);
            return Err(StateError::OtherReceiver { path, url });
        }
        Ok(cursor)
    }

    /// Replaces the file. When it returns, the cursor outlives a crash of the machine.
    pub(super) fn write(&self, cursor: &Cursor) -> Result<(), StateError> {
        let beside = self.path.with_extension("json.new");
        let replace = || {
            let mut file = File::create(&beside)?;
            file.write_all(&serde_json::to_vec(cursor)?)?;
            file.sync_data()?;
            fs::rename(&beside, &self.path)?;
            match self.path.parent() {
                Some(parent) => File::open(parent)?.sync_all(),
                None => Ok(()),
            }
        };
        replace().map_err(|source| self.io(source))
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
    fn what_is_no_state_is_an_error_and_not_a_start_from_the_beginning() {
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
