//! Writes that fail on purpose, for tests: each thread has a disk of its own.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Number of writes that succeed before it.
    pub(crate) after: usize,
    /// Number of its bytes that reach the file; all if it has fewer.
    pub(crate) bytes: usize,
    /// Set if everything fails from then on, including the truncation of files.
    pub(crate) is_lasting: bool,
}

#[derive(Debug, Default)]
struct Disk {
    fault: Option<Fault>,
    is_broken: bool,
    writes: Vec<PathBuf>,
    /// The process is killed before this number of further steps.
    kill: Option<usize>,
    is_killed: bool,
}

/// The panic that stands for the end of a killed process.
#[derive(Debug)]
struct Killed;

/// Runs a process that is killed before one of its changes of the file system; `None` if it was.
pub(crate) fn killed_before<T>(step: usize, process: impl FnOnce() -> T) -> Option<T> {
    DISK.with_borrow_mut(|disk| disk.kill = Some(step));
    let ended = panic::catch_unwind(AssertUnwindSafe(process));
    heal();
    match ended {
        Ok(result) => Some(result),
        Err(panic) if panic.is::<Killed>() => None,
        Err(panic) => panic::resume_unwind(panic),
    }
}

/// Ends the process if it is killed before this change of the file system.
pub(crate) fn before_step() {
    let is_killed = DISK.with_borrow_mut(|disk| {
        let Some(left) = &mut disk.kill else { return false };
        disk.is_killed = *left == 0;
        *left = left.saturating_sub(1);
        disk.is_killed
    });
    if is_killed {
        panic::resume_unwind(Box::new(Killed));
    }
}

/// Returns true while a killed process is unwound, which changes nothing.
pub(crate) fn is_killed() -> bool {
    DISK.with_borrow(|disk| disk.is_killed)
}

thread_local! {
    static DISK: RefCell<Disk> = RefCell::default();
}

/// A write will fail.
pub(crate) fn plan(fault: Fault) {
    DISK.with_borrow_mut(|disk| disk.fault = Some(fault));
}

/// After a lasting fault everything works again.
pub(crate) fn revive() {
    DISK.with_borrow_mut(|disk| disk.is_broken = false);
}

/// Everything works, and no fault is planned. Returns the files of the writes
/// since the last call, in order; those that failed are among them.
pub(crate) fn heal() -> Vec<PathBuf> {
    DISK.take().writes
}

/// Fails if this write is to, with some of its bytes at `offset`.
pub(crate) fn before_write(file: &File, path: &Path, bytes: &[u8], offset: u64) -> io::Result<()> {
    before_step();
    before_change()?;
    DISK.with_borrow_mut(|disk| {
        disk.writes.push(path.to_owned());
        match &mut disk.fault {
            None => Ok(()),
            Some(fault) if fault.after > 0 => {
                fault.after -= 1;
                Ok(())
            }
            Some(fault) => {
                file.write_all_at(&bytes[..fault.bytes.min(bytes.len())], offset)?;
                disk.is_broken = fault.is_lasting;
                disk.fault = None;
                Err(io::ErrorKind::StorageFull.into())
            }
        }
    })
}

pub(crate) fn before_change() -> io::Result<()> {
    let is_broken = DISK.with_borrow(|disk| disk.is_broken);
    if is_broken { Err(io::Error::other("the disk is broken")) } else { Ok(()) }
}
