//! Stops a command from reading further once its answer is no longer needed.
//!
//! A command opens its archives on one thread and reads them on several, so the flag belongs to the
//! thread that opens them, and is [passed](ArchiveSet::cancel_reading_by) to the archives.
//!
//! [`ArchiveSet::cancel_reading_by`]: pcp_archive::ArchiveSet::cancel_reading_by

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Set to stop the command.
pub(crate) type CancelFlag = Arc<AtomicBool>;

thread_local! {
    static CURRENT: RefCell<CancelFlag> = RefCell::default();
}

/// Runs a command on this thread; it stops once the flag is set.
pub(crate) fn with_flag<T>(flag: CancelFlag, command: impl FnOnce() -> T) -> T {
    let before = CURRENT.replace(flag);
    let done = command();
    CURRENT.set(before);
    done
}

/// Returns the flag of this thread.
pub(crate) fn flag() -> CancelFlag {
    CURRENT.with_borrow(Arc::clone)
}
