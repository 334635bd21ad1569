//! The handling of writable mappings when the process forks.
//!
//! If parent and child counted in the same cells, readers would take the child's
//! counts for the parent's. So the child gets a private copy of each mapping, at the
//! same address: its handles stay valid, count for the child alone, and cost no more.
//!
//! It also gives up the locks of its parent's files, which say that the parent lives.
//!
//! The handlers run in the thread that forks. It holds the table's lock across
//! the fork, so that the child finds the table consistent and unlocked.

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use mmv_format::file::TemporaryFile;
use nix::fcntl::Flock;

/// A writable mapping of a file, in whole pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mapping) struct WritableMapping {
    /// Address of the first page.
    pub(super) base: usize,
    pub(super) len: usize,
    /// Open as long as the entry is in the table.
    pub(super) file: RawFd,
    pub(super) offset: i64,
}

/// The lock of a published file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LockEntry {
    /// The descriptor that holds the lock. Both descriptors are open as long as the entry is in the
    /// table.
    pub(super) locked: RawFd,
    /// Another descriptor of the file.
    pub(super) unlocked: RawFd,
}

#[derive(Debug)]
struct Table {
    mappings: Vec<WritableMapping>,
    locks: Vec<LockEntry>,
}

static TABLE: Mutex<Table> = Mutex::new(Table { mappings: Vec::new(), locks: Vec::new() });

thread_local! {
    /// The table's lock, held between the handlers before and after a fork.
    static HELD: RefCell<Option<MutexGuard<'static, Table>>> = const { RefCell::new(None) };
}

fn lock() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An entry of the table, removed on drop.
#[derive(Debug)]
pub(in crate::mapping) struct Registration(WritableMapping);

pub(super) fn register(entry: WritableMapping) -> Registration {
    install();
    lock().mappings.push(entry);
    Registration(entry)
}

fn install() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| super::at_fork(prepare, parent, child));
}

/// The entry of a file's lock in the table, removed on drop. No forked child holds the lock, so
/// that it is free when this process ends.
#[derive(Debug)]
pub(crate) struct LockRegistration {
    entry: LockEntry,
    _open: (Arc<Flock<File>>, Arc<File>),
}

impl LockRegistration {
    pub(crate) fn new(file: &TemporaryFile) -> Self {
        install();
        let locked = Arc::clone(file.lock());
        let unlocked = Arc::clone(file.file());
        let entry = LockEntry { locked: locked.as_raw_fd(), unlocked: unlocked.as_raw_fd() };
        lock().locks.push(entry);
        Self { entry, _open: (locked, unlocked) }
    }
}

impl Drop for LockRegistration {
    fn drop(&mut self) {
        lock().locks.retain(|entry| *entry != self.entry);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let table = &mut lock().mappings;
        if let Some(index) = table.iter().position(|entry| *entry == self.0) {
            table.swap_remove(index);
        }
    }
}

extern "C" fn prepare() {
    let table = lock();
    // Fails only while the thread ends; the lock is then not held in the child.
    let _ = HELD.try_with(|held| *held.borrow_mut() = Some(table));
}

extern "C" fn parent() {
    let _ = HELD.try_with(|held| held.borrow_mut().take());
}

extern "C" fn child() {
    let Ok(Some(table)) = HELD.try_with(|held| held.borrow_mut().take()) else { return };
    table.mappings.iter().for_each(super::make_private);
    table.locks.iter().copied().for_each(super::give_up_lock);
}
