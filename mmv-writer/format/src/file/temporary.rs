//! A file under a hidden name until it is complete, and after its publication.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::{FileError, identity, remove_if_same};

/// Readable by all users: readers run as other users.
const MODE: u32 = 0o644;

/// How a temporary name ends.
const SUFFIX: &str = ".tmp";

/// A file under a temporary name, locked; removed unless it is published.
#[derive(Debug)]
pub struct TemporaryFile {
    name: Name,
    file: Flock<File>,
    /// The same file, for mappings, which may outlive its name.
    shared: Arc<File>,
}

/// A published file, locked until this is dropped, which leaves it in place.
#[derive(Debug)]
pub struct PublishedFile {
    file: Flock<File>,
}

impl PublishedFile {
    /// Removes `path` if it leads to this file, and not to one that replaced it.
    ///
    /// # Errors
    ///
    /// Those of stat and unlink.
    pub fn withdraw(&self, path: &Path) -> io::Result<()> {
        remove_if_same(path, identity(&self.file.metadata()?))
    }
}

/// A file name that is removed unless it was renamed away.
#[derive(Debug)]
struct Name {
    path: PathBuf,
    renamed: bool,
    /// The process that created it, and alone may rename or remove it.
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
        let temporary = loop {
            if let Some(created) = create_locked(directory, name)? {
                break created;
            }
        };
        let permissions = std::fs::Permissions::from_mode(MODE);
        // The umask may have cleared bits of the mode at creation.
        let set = temporary.file.set_permissions(permissions);
        set.map_err(FileError::with("set mode", temporary.path()))?;
        Ok(temporary)
    }

    /// The temporary name.
    pub fn path(&self) -> &Path {
        &self.name.path
    }

    /// The open file.
    pub fn file(&self) -> &Arc<File> {
        &self.shared
    }

    /// The process that created it; a forked child must not publish it.
    pub fn process(&self) -> u32 {
        self.name.process
    }

    /// Renames the file to `path`, where it replaces an older one.
    ///
    /// # Errors
    ///
    /// [`FileError`] from rename; the older file then stays.
    pub fn publish(mut self, path: &Path) -> Result<PublishedFile, FileError> {
        std::fs::rename(&self.name.path, path).map_err(FileError::with("rename", path))?;
        self.name.renamed = true;
        Ok(PublishedFile { file: self.file })
    }
}

/// Creates and locks a temporary file; `None` if another process, taking it for
/// a stale one, removed it between the two.
fn create_locked(directory: &Path, name: &str) -> Result<Option<TemporaryFile>, FileError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let pid = std::process::id();
    let path = directory.join(format!(".{name}.{pid}-{number}{SUFFIX}"));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(MODE);
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
    let shared = file.try_clone().map_err(FileError::with("duplicate", &path))?;
    let name = Name { path, renamed: false, process: pid };
    Ok((links > 0).then_some(TemporaryFile { name, file, shared: Arc::new(shared) }))
}

/// Removes temporary files of `name` whose lock is free. Failures are ignored: the
/// caller can start all the same.
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
        let Ok(file) = File::open(entry.path()) else { continue };
        if let Ok(_lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
