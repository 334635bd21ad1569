//! Memory of the system: files that are mapped for writing, and what a fork does to them.
//!
//! Elsewhere than on Linux `elsewhere.rs` takes the place of this module.

mod fork;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::{Advice, MmapOptions, MmapRaw};
use nix::libc;

pub(crate) use fork::LockRegistration;

/// A mapping, unmapped when this is dropped.
#[expect(dead_code, reason = "owned so that the memory is unmapped when it is dropped")]
pub(super) enum MappedMemory {
    // Dropped in this order: the entry for forks, the mapping, the file.
    File(fork::Registration, MmapRaw, Arc<File>),
    Anonymous(MmapRaw),
}

impl MappedMemory {
    /// Maps a part of a file for writing, and returns its address.
    pub(super) fn file(
        file: &Arc<File>,
        offset: u64,
        len: usize,
    ) -> io::Result<(NonNull<u8>, Self)> {
        let map = MmapOptions::new().offset(offset).len(len).map_raw(file)?;
        let base = NonNull::new(map.as_mut_ptr())
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // The mapping starts at the page that the offset is in.
        let ahead = offset % page_size();
        let entry = fork::WritableMapping {
            base: base.as_ptr() as usize - ahead as usize,
            len: len + ahead as usize,
            file: file.as_raw_fd(),
            offset: (offset - ahead).cast_signed(),
        };
        Ok((base, Self::File(fork::register(entry), map, Arc::clone(file))))
    }

    /// Maps memory that is zero and takes no room until it is written, and returns its address.
    pub(super) fn anonymous(len: usize) -> io::Result<(NonNull<u8>, Self)> {
        let map = MmapRaw::from(MmapOptions::new().len(len).map_anon()?);
        let base = NonNull::new(map.as_mut_ptr())
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok((base, Self::Anonymous(map)))
    }

    /// Advises the system that a file is written only, so that it need not be read ahead.
    pub(super) fn expect_no_reading(&self) {
        if let Self::File(_, map, _) = self {
            // A failure only costs time.
            let _ = map.advise(Advice::Random);
        }
    }
}

fn page_size() -> u64 {
    // SAFETY: sysconf has no requirements (POSIX).
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}

/// Registers the functions that are called at each fork: before it, after it in the
/// parent, and after it in the child.
fn at_fork(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    // SAFETY: pthread_atfork needs functions that stay valid; these are static.
    // They do not unwind: each only takes a lock, releases it, or maps (POSIX).
    let result = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    // It fails only without memory for three pointers.
    debug_assert_eq!(result, 0, "pthread_atfork");
}

/// Replaces a shared mapping of a file with a private copy of its content, in a forked child.
fn make_private(entry: &fork::WritableMapping) {
    let address = std::ptr::without_provenance_mut::<libc::c_void>(entry.base);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
    // SAFETY: MAP_FIXED replaces what is mapped in the range, so the range must
    // be ours: it is that of a segment's mapping, whose entry is taken out of the
    // table before it is unmapped, and whose file is open as long. Nothing but
    // atomic accesses through pointers uses the memory, and they find the same
    // content and protection there (mmap(2)). Only this thread runs in the child.
    let mapped =
        unsafe { libc::mmap(address, entry.len, protection, flags, entry.file, entry.offset) };
    // There is no way to report it here; the child then counts in the parent's file.
    debug_assert_ne!(mapped, libc::MAP_FAILED, "mmap");
}

/// Closes the descriptor that holds the lock of a file, in a forked child, by making it another
/// one of the same file. The lock stays the parent's.
fn give_up_lock(lock: fork::LockEntry) {
    // SAFETY: dup3 takes numbers and touches no memory (dup(2)). Both descriptors are open:
    // the entry is taken out of the table before they are closed. What owns the first one
    // in the child finds a descriptor of the same file, which it may use and close.
    let made = unsafe { libc::dup3(lock.unlocked, lock.locked, libc::O_CLOEXEC) };
    debug_assert_ne!(made, -1, "dup3");
}
