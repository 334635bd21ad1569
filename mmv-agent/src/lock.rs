//! One agent per directory of archives.
//!
//! The lock is a file that only the agent's user can open: a process that can open a file,
//! even for reading only, can lock it.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::unistd::geteuid;
use tracing::{info, warn};

use crate::error::Error;

/// Its name begins with a dot: in directories with a file called `lock` pmproxy does
/// not look for archives.
const NAME: &str = ".mmv-agent.pid";
/// What agents locked before, readable for all.
const READABLE: &str = ".mmv-agent.lock";
/// For the agent's user only.
const MODE: u32 = 0o600;

/// A directory to which no other agent writes as long as this exists.
#[derive(Debug)]
pub(crate) struct Lock {
    directory: PathBuf,
    file: Flock<File>,
}

impl Lock {
    /// Locks the directory, which must exist.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] if another agent has it; [`Error::ArchiveDirectory`].
    pub(crate) fn take(directory: &Path) -> Result<Self, Error> {
        let failed = |source| Error::ArchiveDirectory { directory: directory.to_owned(), source };
        let locked = |holder| Error::Locked { directory: PathBuf::from(directory), holder };
        let file = open(&directory.join(NAME)).map_err(failed)?;
        let mut file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => file,
            Err((mut file, Errno::EWOULDBLOCK)) => return Err(locked(holder(&mut file))),
            Err((_, error)) => return Err(failed(error.into())),
        };
        note_holder(&mut file).map_err(failed)?;
        // While this agent has the new lock no other changes the old one.
        match remove_readable(&directory.join(READABLE)) {
            Ok(None) => Ok(Self { directory: directory.to_owned(), file }),
            Ok(Some(holder)) => Err(locked(holder)),
            Err(source) => Err(failed(source)),
        }
    }
}

impl Lock {
    /// Takes the lock again if its file was removed, perhaps with the directory. Does nothing
    /// as long as there is no directory.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take): then another agent may write there as well.
    pub(crate) fn renew(&mut self) -> Result<(), Error> {
        let directory = self.directory.clone();
        let failed = |source| Error::ArchiveDirectory { directory: directory.clone(), source };
        let ours = self.file.metadata().map_err(failed)?;
        let named = fs::symlink_metadata(self.directory.join(NAME));
        let is_there = named.is_ok_and(|it| (it.dev(), it.ino()) == (ours.dev(), ours.ino()));
        if !is_there && self.directory.is_dir() {
            *self = Self::take(&self.directory)?;
            warn!(directory = %self.directory.display(), "the lock was removed; it is made again");
        }
        Ok(())
    }
}

/// The file of the lock, which is made if necessary.
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

/// Removes the lock of an earlier version, unless an agent of that version has it, whose
/// process number is returned. Any other process that holds it is ignored.
fn remove_readable(path: &Path) -> io::Result<Option<String>> {
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(path);
    let file = match file {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    if let Err((mut file, _)) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        let holder = holder(&mut file);
        let process = fs::metadata(format!("/proc/{holder}")).ok().filter(|_| !holder.is_empty());
        // Only an agent could write its number there.
        if process.is_some_and(|process| process.uid() == geteuid().as_raw()) {
            return Ok(Some(holder));
        }
        warn!(file = %path.display(), "a process that is not an agent holds the lock; ignored");
    }
    fs::remove_file(path)?;
    info!(file = %path.display(), "removed: the lock is now {NAME}");
    Ok(None)
}

/// The process number in the file; empty if the holder has not written it yet.
fn holder(file: &mut File) -> String {
    let mut holder = String::new();
    let _ = file.take(20).read_to_string(&mut holder);
    holder.trim().into()
}

/// The process of the agent that writes to a directory, by its lock; `None` if there is none
/// or this user may not know.
pub(crate) fn holder_in(directory: &Path) -> Option<u32> {
    // To try the lock would keep an agent from starting meanwhile.
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
    fn a_lock_that_was_removed_is_taken_again_unless_another_agent_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut lock = Lock::take(dir.path()).unwrap();
        fs::remove_file(dir.path().join(NAME)).unwrap();
        lock.renew().unwrap();
        assert!(Lock::take(dir.path()).is_err());
        fs::remove_file(dir.path().join(NAME)).unwrap();
        let other = Lock::take(dir.path()).unwrap();
        assert!(matches!(lock.renew(), Err(Error::Locked { .. })));
        drop(other);
        lock.renew().unwrap();
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
