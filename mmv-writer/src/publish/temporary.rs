//! A file under a hidden name, until it is complete.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::Published;
use crate::Error;

/// Readable by everyone, as the readers run as other users.
const MODE: u32 = 0o644;

/// How a temporary name ends.
const SUFFIX: &str = ".tmp";

/// A file under a temporary name, locked; removed unless it is published.
#[derive(Debug)]
pub(crate) struct Temporary {
    name: Name,
    file: Flock<File>,
    /// The same file, for mappings, which may outlive it under its name.
    shared: Arc<File>,
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

impl Temporary {
    /// Creates the temporary file for `name`, after removing stale ones.
    pub(crate) fn create(directory: &Path, name: &str) -> Result<Self, Error> {
        remove_stale(directory, name);
        let temporary = loop {
            if let Some(created) = create_locked(directory, name)? {
                break created;
            }
        };
        let permissions = std::fs::Permissions::from_mode(MODE);
        // Not by the mode at creation alone: the umask may have taken bits away.
        let set = temporary.file.set_permissions(permissions);
        set.map_err(Error::io("set mode", temporary.path()))?;
        Ok(temporary)
    }

    /// The temporary name.
    pub(crate) fn path(&self) -> &Path {
        &self.name.path
    }

    /// The open file.
    pub(crate) fn file(&self) -> &Arc<File> {
        &self.shared
    }

    /// Fails in a forked child: what it wrote would be in its parent's file.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        let (created, found) = (self.name.process, std::process::id());
        if created == found {
            return Ok(());
        }
        Err(Error::Forked { path: self.name.path.clone(), created, found })
    }

    /// Gives the file its name, in place of one that is there.
    pub(crate) fn publish(self, path: &Path, generation: u64) -> Result<Published, Error> {
        let process = self.name.process;
        let file = Some(self.rename(path)?);
        let further = Vec::new();
        Ok(Published { path: path.to_owned(), file, generation, process, further })
    }

    /// Gives the file its name for good: nobody withdraws it.
    pub(crate) fn rename(mut self, path: &Path) -> Result<Flock<File>, Error> {
        std::fs::rename(&self.name.path, path).map_err(Error::io("rename", path))?;
        self.name.renamed = true;
        Ok(self.file)
    }
}

/// Creates and locks a temporary file; `None` if another process, taking it for
/// a stale one, removed it between the two.
fn create_locked(directory: &Path, name: &str) -> Result<Option<Temporary>, Error> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let pid = std::process::id();
    let path = directory.join(format!(".{name}.{pid}-{number}{SUFFIX}"));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(MODE);
    let file = match options.open(&path) {
        Ok(file) => file,
        // Of a process of another PID namespace with our number: count on.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
        Err(error) => return Err(Error::io("create", path)(error)),
    };
    let file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(file) => file,
        Err((_, Errno::EWOULDBLOCK)) => return Ok(None),
        Err((_, errno)) => return Err(Error::io("lock", path)(errno.into())),
    };
    let links = file.metadata().map_err(Error::io("stat", &path))?.nlink();
    let shared = file.try_clone().map_err(Error::io("duplicate", &path))?;
    let name = Name { path, renamed: false, process: pid };
    Ok((links > 0).then_some(Temporary { name, file, shared: Arc::new(shared) }))
}

/// Removes temporary files of `name` that nobody has locked. Failing to is no
/// reason not to start.
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
