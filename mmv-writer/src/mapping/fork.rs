//! What happens to writable mappings when the process forks.
//!
//! If parent and child counted in the same cells, readers would take the child's
//! counts for the parent's. So the child gets a private copy of each mapping, at the
//! same address: its handles stay valid, count for the child alone, and cost no more.
//!
//! The handlers run in the thread that forks. It holds the table's lock across
//! the fork, so that the child finds the table consistent and unlocked.

use std::cell::RefCell;
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// A writable mapping of a file, in whole pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// The address.
    pub(super) base: usize,
    pub(super) len: usize,
    /// Open as long as the entry is in the table.
    pub(super) file: RawFd,
    pub(super) offset: i64,
}

type Table = Vec<Entry>;

static TABLE: Mutex<Table> = Mutex::new(Vec::new());

thread_local! {
    /// The table's lock, between the handlers before and after a fork.
    static HELD: RefCell<Option<MutexGuard<'static, Table>>> = const { RefCell::new(None) };
}

fn lock() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An entry of the table, until this is dropped.
#[derive(Debug)]
pub(super) struct Registration(Entry);

/// Enters a mapping into the table.
pub(super) fn register(entry: Entry) -> Registration {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| super::at_fork(prepare, parent, child));
    lock().push(entry);
    Registration(entry)
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut table = lock();
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
    for entry in table.iter() {
        super::make_private(entry);
    }
}
