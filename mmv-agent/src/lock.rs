//! Locks that allow one agent per archive directory.
//!
//! | lock | purpose |
//! |---|---|
//! | a file in the directory that only the agent's user can open | moves with the directory; no
//! other user can lock it, since locking requires opening it at least for reading |
//! | the directory itself | holds when the file is removed. Locks of other users are ignored |
//! | a file beside the state file | two agents never share a state |
//!
//! A path may come to refer to another directory, when the directory is renamed or a link is
//! switched. [`Lock::confirm`] detects that before anything is written there.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use mmv_format::file::is_locked_by_strangers;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::unistd::geteuid;
use tracing::{debug, info, warn};

use crate::error::Error;

/// Name of the lock file. It begins with a dot, since pmproxy finds no archives in directories
/// with a file called `lock`.
const NAME: &str = ".mmv-agent.pid";
/// Name of the lock file of earlier versions, readable for all.
const READABLE: &str = ".mmv-agent.lock";
/// Mode of the lock file: for the agent's user only.
const MODE: u32 = 0o600;

/// The lock of an archive directory. No other agent writes to it while this exists.
#[derive(Debug)]
pub(crate) struct Lock {
    directory: PathBuf,
    held: Mutex<HeldDirectory>,
    _state: Option<Flock<File>>,
}

/// The locks of a directory.
#[derive(Debug)]
struct HeldDirectory {
    file: DeviceAndInode,
    _file_lock: Flock<File>,
    directory: DeviceAndInode,
    /// `None` if the file system cannot lock directories, or another user has locked it.
    directory_lock: Option<Flock<File>>,
    /// Incremented whenever the locks are taken again.
    generation: u64,
}

/// Identity of a file.
type DeviceAndInode = (u64, u64);

impl Lock {
    /// Locks the directory, which must exist.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] if another agent has it; [`Error::ArchiveDirectory`].
    pub(crate) fn take(directory: &Path) -> Result<Self, Error> {
        let held = Mutex::new(HeldDirectory::take(directory, None)?);
        Ok(Self { directory: directory.to_owned(), held, _state: None })
    }

    /// Locks the state file as well. Without permission to write next to it the state is not saved
    /// either, and there is nothing to lock.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] if another agent has it.
    pub(crate) fn with_state(self, state: Option<&Path>) -> Result<Self, Error> {
        let state_lock = state.map(lock_state).transpose()?.flatten();
        Ok(Self { _state: state_lock, ..self })
    }

    /// Makes sure that the path still refers to the locked directory; otherwise creates and locks
    /// the directory that the path refers to. Returns a number that grows whenever that was
    /// necessary.
    ///
    /// # Errors
    ///
    /// As for [`take`](Self::take); then nothing may be written there.
    pub(crate) fn confirm(&self) -> Result<u64, Error> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let named = fs::symlink_metadata(self.directory.join(NAME));
        if !named.is_ok_and(|named| id(&named) == held.file) {
            let failed =
                |source| Error::ArchiveDirectory { directory: self.directory.clone(), source };
            fs::create_dir_all(&self.directory).map_err(failed)?;
            *held = HeldDirectory::take(&self.directory, Some(&mut held))?;
            warn!(directory = %self.directory.display(), "the lock file was removed; locking the directory again");
        }
        Ok(held.generation)
    }
}

impl HeldDirectory {
    fn take(directory: &Path, before: Option<&mut Self>) -> Result<Self, Error> {
        let failed = |source| Error::ArchiveDirectory { directory: directory.to_owned(), source };
        let locked = |holder| Error::Locked { directory: PathBuf::from(directory), holder };
        let opened = File::open(directory).map_err(failed)?;
        let directory_id = id(&opened.metadata().map_err(failed)?);
        let file = open(&directory.join(NAME)).map_err(failed)?;
        let mut file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => file,
            Err((mut file, Errno::EWOULDBLOCK)) => return Err(locked(holder(&mut file))),
            Err((_, error)) => return Err(failed(error.into())),
        };
        let generation = before.as_ref().map_or(0, |before| before.generation + 1);
        let same = before.filter(|before| before.directory == directory_id);
        let directory_lock = match same.and_then(|before| before.directory_lock.take()) {
            Some(lock) => Some(lock),
            None => lock_directory(opened).map_err(|()| locked(holder(&mut file)))?,
        };
        note_holder(&mut file).map_err(failed)?;
        // While this agent has the new lock, no other agent replaces the old one.
        if let Some(holder) = remove_readable(&directory.join(READABLE)).map_err(failed)? {
            return Err(locked(holder));
        }
        Ok(Self {
            file: id(&file.metadata().map_err(failed)?),
            _file_lock: file,
            directory: directory_id,
            directory_lock,
            generation,
        })
    }
}

fn id(file: &fs::Metadata) -> DeviceAndInode {
    (file.dev(), file.ino())
}

/// Locks a directory itself. Fails if another agent has locked it.
fn lock_directory(directory: File) -> Result<Option<Flock<File>>, ()> {
    let (directory, error) = match Flock::lock(directory, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => return Ok(Some(lock)),
        Err(failed) => failed,
    };
    if error != Errno::EWOULDBLOCK {
        debug!(%error, "cannot lock the directory itself");
        return Ok(None);
    }
    // Any user who can read the directory can lock it.
    if !directory.metadata().is_ok_and(|found| is_locked_by_strangers(&found)) {
        return Err(());
    }
    warn!("a process of another user has locked the archive directory; its lock is ignored");
    Ok(None)
}

fn lock_state(state: &Path) -> Result<Option<Flock<File>>, Error> {
    let path = state.with_extension("lock");
    let directory = path.parent().unwrap_or(Path::new("."));
    let file = match fs::create_dir_all(directory).and_then(|()| open(&path)) {
        Ok(file) => file,
        Err(error) => {
            warn!(
                file = %path.display(), %error,
                "cannot lock the state file: no second agent may be started with it"
            );
            return Ok(None);
        }
    };
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(mut lock) => {
            // The pid only serves the message of another agent.
            let _ = note_holder(&mut lock);
            Ok(Some(lock))
        }
        Err((mut file, Errno::EWOULDBLOCK)) => {
            Err(Error::Locked { directory: directory.to_owned(), holder: holder(&mut file) })
        }
        Err((_, error)) => {
            warn!(
                file = %path.display(), %error,
                "cannot lock the state file: no second agent may be started with it"
            );
            Ok(None)
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(MODE);
    let file = options.custom_flags(OFlag::O_NOFOLLOW.bits()).open(path)?;
    // A copy from a backup may have another mode.
    if file.metadata()?.mode() & 0o777 != MODE {
        file.set_permissions(Permissions::from_mode(MODE))?;
    }
    Ok(file)
}

/// Removes the lock file of an earlier version, unless an agent of that version holds it, whose
/// pid is returned. A lock of any other process is ignored.
fn remove_readable(path: &Path) -> io::Result<Option<String>> {
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(path);
    let file = match file {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    if let Err((mut file, _)) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        let holder = holder(&mut file);
        let process = fs::metadata(format!("/proc/{holder}")).ok().filter(|_| !holder.is_empty());
        // Only an agent can have written its pid there.
        if process.is_some_and(|process| process.uid() == geteuid().as_raw()) {
            return Ok(Some(holder));
        }
        warn!(file = %path.display(), "a process that is not an agent of this user holds the lock; its lock is ignored");
    }
    fs::remove_file(path)?;
    info!(file = %path.display(), "removed the lock file of an earlier version; the lock is {NAME} now");
    Ok(None)
}

/// Returns the pid in the file; empty if the holder has not written it yet.
fn holder(file: &mut File) -> String {
    let mut holder = String::new();
    let _ = file.take(20).read_to_string(&mut holder);
    holder.trim().into()
}

/// Returns the pid of the agent that writes to a directory, from its lock; `None` if there is none
/// or this user may not read it.
pub(crate) fn holder_in(directory: &Path) -> Option<u32> {
    // Trying the lock would keep an agent from starting meanwhile.
    let flags = OFlag::O_NOFOLLOW.bits();
    let mut file =
        OpenOptions::new().read(true).custom_flags(flags).open(directory.join(NAME)).ok()?;
    let holder: u32 = holder(&mut file).parse().ok()?;
    let process = fs::metadata(format!("/proc/{holder}")).ok()?;
    (process.uid() == file.metadata().ok()?.uid()).then_some(holder)
}

fn note_holder(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_agent_gets_an_error_that_names_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = Lock::take(dir.path()).unwrap();
        let refused = Lock::take(dir.path()).unwrap_err();
        assert!(refused.to_string().contains(&format!("process {}", std::process::id())));
        drop(first);
        Lock::take(dir.path()).unwrap();
    }

    #[test]
    fn the_holder_is_a_process_that_exists() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(holder_in(dir.path()), None);
        let _lock = Lock::take(dir.path()).unwrap();
        assert_eq!(holder_in(dir.path()), Some(std::process::id()));
        fs::write(dir.path().join(NAME), "4194305\n").unwrap();
        assert_eq!(holder_in(dir.path()), None);
    }

    #[test]
    fn removed_lock_is_retaken_unless_another_agent_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::take(dir.path()).unwrap();
        assert_eq!(lock.confirm().unwrap(), 0);
        for generation in [1, 2] {
            fs::remove_file(dir.path().join(NAME)).unwrap();
            assert!(matches!(Lock::take(dir.path()), Err(Error::Locked { .. })), "its inode");
            fs::remove_file(dir.path().join(NAME)).unwrap();
            assert_eq!(lock.confirm().unwrap(), generation);
            assert!(Lock::take(dir.path()).is_err());
        }
    }

    #[test]
    fn directory_that_takes_the_path_is_locked_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let [path, moved] = ["archives", "moved"].map(|name| dir.path().join(name));
        fs::create_dir(&path).unwrap();
        let lock = Lock::take(&path).unwrap();
        fs::rename(&path, &moved).unwrap();
        assert!(Lock::take(&moved).is_err());
        assert_eq!(lock.confirm().unwrap(), 1);
        assert!(Lock::take(&path).is_err(), "it was made and locked");
        Lock::take(&moved).unwrap();

        fs::rename(&path, dir.path().join("again")).unwrap();
        fs::create_dir(&path).unwrap();
        let other = Lock::take(&path).unwrap();
        assert!(matches!(lock.confirm(), Err(Error::Locked { .. })));
        drop(other);
        assert_eq!(lock.confirm().unwrap(), 2);
        assert_eq!(lock.confirm().unwrap(), 2);
    }

    #[test]
    fn two_agents_never_share_a_state() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state/web.example.json");
        let lock = |name| {
            let archives = dir.path().join(name);
            fs::create_dir_all(&archives).unwrap();
            Lock::take(&archives).unwrap().with_state(Some(&state))
        };
        let first = lock("one").unwrap();
        let refused = lock("two").unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        drop(first);
        lock("two").unwrap();
    }

    #[test]
    fn only_the_user_of_the_agent_can_open_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        for _ in 0..2 {
            drop(Lock::take(dir.path()).unwrap());
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
            fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        }
    }

    #[test]
    fn the_lock_of_an_earlier_version_holds_for_its_agent_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(READABLE);
        for (holder, is_agent) in [(std::process::id().to_string(), true), (String::new(), false)] {
            fs::write(&path, &holder).unwrap();
            let other = File::open(&path).unwrap();
            let held = Flock::lock(other, FlockArg::LockExclusiveNonblock).unwrap();
            let taken = Lock::take(dir.path());
            assert_eq!(taken.is_err(), is_agent, "{taken:?}");
            assert_eq!(path.exists(), is_agent);
            drop(held);
        }
        fs::write(&path, "1").unwrap();
        Lock::take(dir.path()).unwrap();
        assert!(!path.exists(), "nobody held it");
    }
}
