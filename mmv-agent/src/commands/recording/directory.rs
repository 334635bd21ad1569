//! The temporary directory for the MMV files of a recording.
//!
//! A killed run cannot remove its directory; the next run does. Directories in
//! use are locked. The command inherits the lock, since it and its children may
//! outlive the run and continue to use the directory.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mmv_format::file::KEEP_FILES;
use nix::fcntl::{FcntlArg, FdFlag, Flock, FlockArg, OFlag, fcntl};
use nix::unistd::geteuid;
use tempfile::TempDir;

const PREFIX: &str = "mmv-record-";

/// Minimum age of a removed directory: a younger one may be about to be locked.
const YOUNG: Duration = Duration::from_secs(60);

/// A directory that is removed on drop.
#[derive(Debug)]
pub(super) struct RecordingDirectory {
    dir: TempDir,
    _lock: Flock<File>,
}

impl RecordingDirectory {
    /// Creates a temporary directory with a directory `mmv` in it. Removes what earlier runs left.
    ///
    /// # Errors
    ///
    /// From the system.
    pub(super) fn new() -> io::Result<Self> {
        Self::among(&std::env::temp_dir())
    }

    fn among(others: &Path) -> io::Result<Self> {
        clean_up(others);
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(others)?;
        let lock = lock(dir.path())?;
        fcntl(&*lock, FcntlArg::F_SETFD(FdFlag::empty()))?;
        let mmv_dir = dir.path().join("mmv");
        fs::create_dir(&mmv_dir)?;
        File::create(mmv_dir.join(KEEP_FILES))?;
        Ok(Self { dir, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn mmv_dir(&self) -> PathBuf {
        self.path().join("mmv")
    }
}

/// Locks a directory, unless another process has locked it.
fn lock(directory: &Path) -> io::Result<Flock<File>> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(directory)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error.into())
}

/// Removes what earlier runs left, except directories of other users.
fn clean_up(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            let _ = remove(&entry.path());
        }
    }
}

fn remove(directory: &Path) -> io::Result<()> {
    let locked = lock(directory)?;
    let found = locked.metadata()?;
    let is_old = found.modified()?.elapsed().is_ok_and(|age| age > YOUNG);
    if is_old && found.uid() == geteuid().as_raw() { fs::remove_dir_all(directory) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    /// The directory of a run that ended this long ago.
    fn leftover(others: &Path, name: &str, age: Duration) -> PathBuf {
        let directory = others.join(name);
        fs::create_dir_all(directory.join("mmv")).unwrap();
        fs::write(directory.join("mmv").join("app"), "MMV").unwrap();
        File::open(&directory).unwrap().set_modified(SystemTime::now() - age).unwrap();
        directory
    }

    #[test]
    fn only_directories_of_dead_runs_are_removed() {
        let others = tempfile::tempdir().unwrap();
        let old = 2 * YOUNG;
        let dead = leftover(others.path(), "mmv-record-dead", old);
        let young = leftover(others.path(), "mmv-record-young", Duration::ZERO);
        let foreign = leftover(others.path(), "mmv-other", old);
        let elsewhere = leftover(others.path(), "elsewhere", old);
        let link = others.path().join("mmv-record-link");
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        let in_use = RecordingDirectory::among(others.path()).unwrap();
        File::open(in_use.path()).unwrap().set_modified(SystemTime::now() - old).unwrap();
        let directory = RecordingDirectory::among(others.path()).unwrap();
        assert!(!dead.exists());
        for stays in [&young, &foreign, &elsewhere, &link, &in_use.mmv_dir(), &directory.mmv_dir()]
        {
            assert!(stays.exists(), "{}", stays.display());
        }
        let paths = [in_use.path().to_owned(), directory.path().to_owned()];
        drop((in_use, directory));
        assert!(paths.iter().all(|path| !path.exists()));
    }
}
