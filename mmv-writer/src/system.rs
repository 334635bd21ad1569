//! Functions of the system, except for memory: processes, users, locks, time.
//!
//! Elsewhere than on Linux `elsewhere.rs` takes the place of this module.

use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
pub(crate) use std::time::Instant;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::kill;
use nix::unistd::{Pid, geteuid};

pub(crate) fn process_id() -> u32 {
    std::process::id()
}

pub(crate) fn user_id() -> u32 {
    geteuid().as_raw()
}

/// Returns the time since 1970.
pub(crate) fn wall_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns whether there is a file, and it belongs to this user.
pub(crate) fn is_own_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.uid() == user_id())
}

/// Returns whether another descriptor holds the lock of a file, of any process.
pub(crate) fn is_locked(file: File) -> bool {
    matches!(Flock::lock(file, FlockArg::LockSharedNonblock), Err((_, Errno::EWOULDBLOCK)))
}

/// Returns whether no process has this number, and the lock of its file is free.
pub(crate) fn has_ended(process: i32, file: File) -> bool {
    kill(Pid::from_raw(process), None) == Err(Errno::ESRCH)
        && Flock::lock(file, FlockArg::LockSharedNonblock).is_ok()
}

pub(crate) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// Returns where in its file the standard error ends after `more` bytes; 0 if it is none.
pub(crate) fn standard_error_end(more: usize) -> io::Result<u64> {
    let mut file = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(0);
    }
    Ok(metadata.len().max(file.stream_position()?) + more as u64)
}
