//! The files that this process has published and not stopped, by address.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mmv_format::directory::{MmvDirectory, Reason};
use mmv_format::file::MappedFile;
use mmv_format::layout::Flags;
use nix::errno::Errno;

use crate::abi::Map;
use crate::content::Content;
use crate::encode::{Identity, encode};
use crate::errno;

static FILES: Mutex<BTreeMap<usize, FileState>> = Mutex::new(BTreeMap::new());

/// A file in the table, mapped until it is stopped.
struct FileState {
    mapped: MappedFile,
    flags: Flags,
    number: u64,
}

/// A file that was started. The number tells it from another file that is mapped at the same
/// address later.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartedFile {
    pub(crate) map: Map,
    number: u64,
}

/// Publishes a file and adds it to the table.
pub(crate) fn start(
    file: &CStr,
    content: &mut Content,
    identity: Identity,
) -> Result<StartedFile, Errno> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let path = path(file);
    refuse_directory(&path)?;
    prepare_directory(file)?;
    let bytes = encode(content, identity);
    let mapped =
        MappedFile::publish(&path, bytes).map_err(|error| errno::from_io_error(&error.source))?;
    let map: Map = mapped.as_ptr().cast();
    let flags = Flags::from_raw(identity.flags);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    files().insert(map.addr(), FileState { mapped, flags, number });
    Ok(StartedFile { map, number })
}

/// Stops the file at an address, if there is one.
pub(crate) fn stop_at(file: Option<&CStr>, map: Map) {
    stop_if(file, map, |_| true);
}

/// Stops a file, if it is not stopped yet.
pub(crate) fn stop(file: Option<&CStr>, started: StartedFile) {
    stop_if(file, started.map, |published| published.number == started.number);
}

/// Unmaps a file, and removes it if it has the PROCESS flag.
fn stop_if(file: Option<&CStr>, map: Map, is_meant: impl Fn(&FileState) -> bool) {
    let mut files = files();
    if !files.get(&map.addr()).is_some_and(is_meant) {
        return;
    }
    let taken = files.remove(&map.addr());
    drop(files);
    let Some(published) = taken else { return };
    if let Some(file) = file
        && published.flags.contains(Flags::PROCESS)
    {
        // On failure readers still see that the process is gone.
        let _ = published.mapped.withdraw(&path(file));
    }
}

/// Locks the table, for no more than a change of it: a child that is forked in that moment, by
/// another thread, can neither start nor stop a file. Counting takes no lock.
fn files() -> MutexGuard<'static, BTreeMap<usize, FileState>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fails for a directory with the error of open(2), by which libpcp_mmv creates a file.
fn refuse_directory(path: &Path) -> Result<(), Errno> {
    if path.as_os_str().as_bytes().ends_with(b"/") && path.parent().is_some_and(Path::is_dir) {
        return Err(Errno::EISDIR);
    }
    let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    if is_directory { Err(Errno::EEXIST) } else { Ok(()) }
}

/// Creates the directory of this user's files if that is where the file goes. Where none suits,
/// creating the file fails, with the reason of the system.
fn prepare_directory(file: &CStr) -> Result<(), Errno> {
    if file.to_bytes().starts_with(b"/") {
        return Ok(());
    }
    let directory = MmvDirectory::choose();
    if directory.reason() == Reason::Nowhere {
        return Ok(());
    }
    directory.prepare().map_err(|error| errno::from_io_error(&error.source))
}

/// Returns the path of a file in the directory of this user's files, as for programs in Rust;
/// FILE itself if it starts with a slash.
fn path(file: &CStr) -> PathBuf {
    // Joining an absolute path gives that path.
    MmvDirectory::choose().path().join(OsStr::from_bytes(file.to_bytes()))
}
