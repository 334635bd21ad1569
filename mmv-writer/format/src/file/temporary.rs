//! A file under a hidden name until it is complete, and the same file after its publication.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
#[cfg(target_env = "gnu")]
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::fcntl::{Flock, FlockArg};
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use nix::unistd::geteuid;

use super::holder::{Claim, OwnFile, claim, is_running};
use super::{FileError, PublishError, identity, remove_if_same};

/// Mode of files: readable by all, as readers run as other users.
const MODE: u32 = 0o644;

/// `S_ISVTX` of `inode(7)`: only the owner of a file may rename or remove it.
const STICKY: u32 = 0o1000;

const SUFFIX: &str = ".tmp";

/// A locked file under a temporary name, removed on drop unless it was published.
#[derive(Debug)]
pub struct TemporaryFile {
    name: Name,
    file: Arc<Flock<File>>,
    /// A second descriptor of the file, for mappings, which may outlive its name. The lock
    /// belongs to the open file description of the first one, which a mapping must not keep alive.
    shared: Arc<File>,
}

/// A published file, locked until this is dropped. Dropping leaves the file in place.
#[derive(Debug)]
pub struct PublishedFile {
    file: Arc<Flock<File>>,
    _own: OwnFile,
}

/// Limit on attempts to claim a file that another process has locked: one that only checks the
/// file holds the lock for a moment.
const TRIES: u32 = 20;
/// Delay before another attempt.
const PAUSE: Duration = Duration::from_millis(5);

impl PublishedFile {
    /// Removes `path` if it leads to this file, and not to one that replaced it.
    ///
    /// # Errors
    ///
    /// The errors of stat and unlink.
    pub fn withdraw(&self, path: &Path) -> io::Result<()> {
        remove_if_same(path, identity(&self.file.metadata()?))
    }
}

/// A file name, removed on drop unless the file was renamed.
#[derive(Debug)]
struct Name {
    path: PathBuf,
    renamed: bool,
    /// The process that created the file; only this one may rename or remove it.
    process: u32,
}

impl Drop for Name {
    fn drop(&mut self) {
        if !self.renamed && self.process == std::process::id() {
            // What cannot be removed now is removed at the next start.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl TemporaryFile {
    /// Creates the temporary file for `name`, after removing stale ones.
    ///
    /// # Errors
    ///
    /// [`FileError`], for instance where there is no such directory.
    pub fn create(directory: &Path, name: &str) -> Result<Self, FileError> {
        remove_stale(directory, name);
        loop {
            if let Some(created) = create_locked(directory, name)? {
                return Ok(created);
            }
        }
    }

    /// Returns the path under the temporary name.
    pub fn path(&self) -> &Path {
        &self.name.path
    }

    /// Returns the open file, for mappings.
    pub fn file(&self) -> &Arc<File> {
        &self.shared
    }

    /// Returns the locked file, which holds the lock also after publication. A forked child
    /// inherits it and must close it at once, else the file seems to be in use after this process
    /// has ended.
    pub fn lock(&self) -> &Arc<Flock<File>> {
        &self.file
    }

    /// Returns the process that created the file; a forked child must not publish it.
    pub fn process(&self) -> u32 {
        self.name.process
    }

    /// Renames the file to `path`, where it replaces an older one.
    ///
    /// # Errors
    ///
    /// [`FileError`] from rename; the older file then stays, and this one keeps its temporary name.
    pub fn publish(&mut self, path: &Path) -> Result<PublishedFile, FileError> {
        self.rename(path, true)?;
        self.published(path)
    }

    /// Renames the file to `path`. Returns false if there is a file of that name and `replace` is
    /// false.
    fn rename(&mut self, path: &Path, replace: bool) -> Result<bool, FileError> {
        let renamed = if replace {
            std::fs::rename(&self.name.path, path)
        } else {
            rename_new(&self.name.path, path)
        };
        match renamed {
            Err(error) if !replace && error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(FileError::with("rename", path)(named_owner(path, error))),
            Ok(()) => {
                self.name.renamed = true;
                Ok(true)
            }
        }
    }

    fn published(&self, path: &Path) -> Result<PublishedFile, FileError> {
        let metadata = self.file.metadata().map_err(FileError::with("stat", path))?;
        let own = OwnFile::new(identity(&metadata));
        Ok(PublishedFile { file: Arc::clone(&self.file), _own: own })
    }

    /// Renames the file to `path`, where it replaces one of this process, or one whose
    /// process has ended.
    ///
    /// # Errors
    ///
    /// [`PublishError::Running`] if another process publishes a file there; else as
    /// [`publish`](Self::publish), and for a file of another user, who is named. The older
    /// file then stays, and this one keeps its temporary name.
    pub fn publish_unless_running(&mut self, path: &Path) -> Result<PublishedFile, PublishError> {
        let mut found = 0;
        for _ in 0..TRIES {
            match claim(path) {
                // Locked until the name is ours, so that no other process replaces it too.
                Claim::Free(_lock) => return Ok(self.publish(path)?),
                Claim::Gone if self.rename(path, false)? => return Ok(self.published(path)?),
                Claim::Gone => {}
                Claim::Running(process) => {
                    found = process;
                    break;
                }
                Claim::Locked(process) => {
                    found = process;
                    sleep(PAUSE);
                }
            }
        }
        // The process in the header of another user's file is whatever that user wrote.
        let owner = foreign_owner(path).filter(|_| !geteuid().is_root());
        if owner.is_some() {
            let denied = named_owner(path, Errno::EPERM.into());
            return Err(FileError::with("replace", path)(denied).into());
        }
        let process = u32::try_from(found).ok().filter(|_| is_running(found));
        Err(PublishError::Running { path: path.to_owned(), process })
    }
}

/// Returns whether another user has something at `path` that this process cannot replace, or must
/// not replace because a running process publishes it.
///
/// In a directory for all users (sticky, `unlink(2)`) any user can make an entry of any name, which
/// nobody else can remove.
pub fn is_taken(path: &Path) -> bool {
    let Ok(found) = path.symlink_metadata() else { return false };
    let user = geteuid();
    if found.uid() == user.as_raw() {
        return false;
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new(".")).metadata();
    let is_sticky = directory
        .is_ok_and(|directory| directory.mode() & STICKY != 0 && directory.uid() != user.as_raw());
    (is_sticky && !user.is_root())
        || found.is_dir()
        || matches!(claim(path), Claim::Running(_) | Claim::Locked(_))
}

/// Returns the owner of the file at `path`, if it is another user.
fn foreign_owner(path: &Path) -> Option<u32> {
    let owner = path.symlink_metadata().ok()?.uid();
    (owner != geteuid().as_raw()).then_some(owner)
}

/// Adds to an error the user whose file is in the way, if any: in a directory for all users
/// (sticky, `unlink(2)`), nobody else can remove it.
fn named_owner(path: &Path, error: io::Error) -> io::Error {
    match foreign_owner(path) {
        Some(owner) => {
            let text = format!("{error}: a file of user {owner} has this name");
            io::Error::new(error.kind(), text)
        }
        None => error,
    }
}

/// Renames a file unless there is one of the new name.
#[cfg(target_env = "gnu")]
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let flags = RenameFlags::RENAME_NOREPLACE;
    match renameat2(AT_FDCWD, from, AT_FDCWD, to, flags) {
        // A file system that cannot.
        Err(Errno::EINVAL | Errno::ENOSYS) => std::fs::rename(from, to),
        renamed => Ok(renamed?),
    }
}

/// Renames a file; the caller found no file of the new name a moment ago.
#[cfg(not(target_env = "gnu"))]
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

/// Creates and locks a temporary file; `None` if another process took it for a stale one and
/// removed it before it was locked.
fn create_locked(directory: &Path, name: &str) -> Result<Option<TemporaryFile>, FileError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let pid = std::process::id();
    let path = directory.join(format!(".{name}.{pid}-{number}{SUFFIX}"));
    let mut options = OpenOptions::new();
    // Nobody else can open it, and lock it, before it is locked.
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = match options.open(&path) {
        Ok(file) => file,
        // A process in another PID namespace has our number: try the next name.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(FileError::with("create a file in this directory", directory)(error));
        }
        Err(error) => return Err(FileError::with("create", path)(error)),
    };
    let file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(file) => file,
        Err((_, Errno::EWOULDBLOCK)) => return Ok(None),
        Err((_, errno)) => return Err(FileError::with("lock", path)(errno.into())),
    };
    let links = file.metadata().map_err(FileError::with("stat", &path))?.nlink();
    if links == 0 {
        return Ok(None);
    }
    // Locked, it is not removed by others.
    let name = Name { path, renamed: false, process: pid };
    let path = &name.path;
    // The umask may have cleared bits of the mode at creation.
    let set = file.set_permissions(std::fs::Permissions::from_mode(MODE));
    set.map_err(FileError::with("set mode", path))?;
    let again = OpenOptions::new().read(true).write(true).open(path);
    let shared = Arc::new(again.map_err(FileError::with("open", path))?);
    Ok(Some(TemporaryFile { name, file: Arc::new(file), shared }))
}

/// Removes temporary files of `name` whose lock is free. Failures are ignored, as they do not
/// keep the caller from starting.
fn remove_stale(directory: &Path, name: &str) {
    let prefix = format!(".{name}.");
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let file_name = entry.file_name();
        let is_ours = file_name
            .to_str()
            .is_some_and(|name| name.starts_with(&prefix) && name.ends_with(SUFFIX));
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if !is_ours || !is_file {
            continue;
        }
        // It may be a FIFO by now.
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(O_NONBLOCK | O_NOFOLLOW);
        let Ok(file) = options.open(entry.path()) else { continue };
        if let Ok(_lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
