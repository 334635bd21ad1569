//! Ends the reading of a command whose answer nobody wants any more.
//!
//! A command opens its archives on one thread and reads them on several. The flag of the thread that
//! opens them is [handed](ArchiveSet::cancel_reading_by) to the archives.
//!
//! [`ArchiveSet::cancel_reading_by`]: pcp_archive::ArchiveSet::cancel_reading_by

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Is set once the command is to end.
pub(crate) type CancelFlag = Arc<AtomicBool>;

thread_local! {
    static CURRENT: RefCell<CancelFlag> = RefCell::default();
}

/// Runs a command on this thread that ends once a flag is set.
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
