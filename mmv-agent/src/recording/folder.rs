//! The folder for the MMV files of a recording, which goes with it.
//!
//! A run that is killed cannot take its folder away; the next one does. Folders in
//! use are known by a lock, which the command inherits: it and its children may
//! outlive the run, and go on using the folder.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, Flock, FlockArg, OFlag, fcntl};
use nix::unistd::geteuid;
use tempfile::TempDir;

const PREFIX: &str = "mmv-record-";

/// A folder without a lock that is younger may be one that is about to be locked.
const YOUNG: Duration = Duration::from_secs(60);

/// A folder that is taken away when this is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    dir: TempDir,
    _lock: Flock<File>,
}

impl Folder {
    /// A new folder with a folder `mmv` in it, among other temporary ones. What
    /// runs before have left there is taken away.
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
        fs::create_dir(dir.path().join("mmv"))?;
        Ok(Self { dir, _lock: lock })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The folder for MMV files in it.
    pub(super) fn mmv_dir(&self) -> PathBuf {
        self.path().join("mmv")
    }
}

/// Locks a folder, if nobody else does and it is one.
fn lock(folder: &Path) -> io::Result<Flock<File>> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(folder)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error.into())
}

/// Takes away what was left. Other users' folders are theirs, and whatever cannot be
/// taken away stays.
fn clean_up(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            let _ = take_away(&entry.path());
        }
    }
}

fn take_away(folder: &Path) -> io::Result<()> {
    let locked = lock(folder)?;
    let found = locked.metadata()?;
    let is_old = found.modified()?.elapsed().is_ok_and(|age| age > YOUNG);
    if is_old && found.uid() == geteuid().as_raw() { fs::remove_dir_all(folder) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    /// A folder of a run that has ended so long ago.
    fn leftover(others: &Path, name: &str, age: Duration) -> PathBuf {
        let folder = others.join(name);
        fs::create_dir_all(folder.join("mmv")).unwrap();
        fs::write(folder.join("mmv").join("app"), "MMV").unwrap();
        File::open(&folder).unwrap().set_modified(SystemTime::now() - age).unwrap();
        folder
    }

    #[test]
    fn what_dead_runs_have_left_goes_and_nothing_else() {
        let others = tempfile::tempdir().unwrap();
        let old = 2 * YOUNG;
        let dead = leftover(others.path(), "mmv-record-dead", old);
        let young = leftover(others.path(), "mmv-record-young", Duration::ZERO);
        let foreign = leftover(others.path(), "mmv-other", old);
        let elsewhere = leftover(others.path(), "elsewhere", old);
        let link = others.path().join("mmv-record-link");
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        let in_use = Folder::among(others.path()).unwrap();
        File::open(in_use.path()).unwrap().set_modified(SystemTime::now() - old).unwrap();
        let folder = Folder::among(others.path()).unwrap();
        assert!(!dead.exists());
        for stays in [&young, &foreign, &elsewhere, &link, &in_use.mmv_dir(), &folder.mmv_dir()] {
            assert!(stays.exists(), "{}", stays.display());
        }
        let paths = [in_use.path().to_owned(), folder.path().to_owned()];
        drop((in_use, folder));
        assert!(paths.iter().all(|path| !path.exists()));
    }
}
