//! The SIGBUS guard: a file truncated under its mapping costs that file, not
//! the process.
//!
//! Reading a mapped page beyond the end of its file raises SIGBUS. The handler
//! looks the address up in a table of the ranges that [`ReadMapping`]s
//! registered. It maps anonymous zero pages over the *whole* range, marks it
//! dead and returns; the load is then repeated and reads 0. A SIGBUS of any
//! other cause goes to the handler that was installed before.
//!
//! The table is a list of chunks that grows and never shrinks, so it has room
//! for as many mappings as the system allows. The handler reads it without a
//! lock: a chunk is reached through a [`OnceLock`] whose `get` is one atomic
//! load, and stays where it is once it is there. Free slots are in a list of
//! their own, behind a lock that the handler never takes.
//!
//! Signal libraries do not help: those run the previous handler first, and that
//! of a Rust program, std's detection of stack overflows, resets SIGBUS to its
//! default, so that the second fault would kill.
//!
//! Linking this crate installs nothing. A process that maps foreign files calls
//! [`install`] once.
//!
//! [`ReadMapping`]: super::ReadMapping

#![expect(unsafe_code, reason = "a signal handler and a mapping at a fixed address")]

use std::ffi::{c_int, c_void};
use std::iter::successors;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use nix::errno::Errno;
use nix::libc::{BUS_ADRERR, siginfo_t};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};

/// Number of slots that the table grows by.
const CHUNK: usize = 512;

/// A part of the table, with a link to the next part.
struct Chunk {
    slots: [GuardedRange; CHUNK],
    next: OnceLock<Box<Self>>,
}

/// A range of addresses. Written by the owner of the slot, read by the handler
/// on whatever thread faults, hence the version: odd while the range changes.
struct GuardedRange {
    version: AtomicUsize,
    base: AtomicUsize,
    len: AtomicUsize,
    dead: AtomicBool,
}

static TABLE: OnceLock<Box<Chunk>> = OnceLock::new();

/// Slots of the table without an owner.
static FREE: Mutex<Vec<&GuardedRange>> = Mutex::new(Vec::new());

/// The action for SIGBUS that [`install`] replaced.
static PREVIOUS: OnceLock<SigAction> = OnceLock::new();

/// Returns the chunks of the table. Neither locks nor allocates.
fn chunks() -> impl Iterator<Item = &'static Chunk> {
    successors(TABLE.get(), |chunk| chunk.next.get()).map(Box::as_ref)
}

/// Locks the list of free slots. It is valid even after a thread panicked with the lock.
fn free_slots() -> MutexGuard<'static, Vec<&'static GuardedRange>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GuardedRange {
    const fn new() -> Self {
        Self {
            version: AtomicUsize::new(0),
            base: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            dead: AtomicBool::new(false),
        }
    }

    /// Replaces the range; only the slot's owner calls this.
    fn set(&self, base: usize, len: usize) {
        self.version.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        self.base.store(base, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
        self.dead.store(false, Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Returns the range, if it contains `address` and did not change meanwhile.
    ///
    /// The range that a thread faults in is one that it is using, so that one
    /// cannot change; the version excludes a mixture of an old base and a new
    /// length in *another* slot.
    fn range_around(&self, address: usize) -> Option<(usize, usize)> {
        let before = self.version.load(Ordering::Acquire);
        let base = self.base.load(Ordering::Relaxed);
        let len = self.len.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let stable = before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before;
        let inside = address.checked_sub(base).is_some_and(|offset| offset < len);
        (stable && inside).then_some((base, len))
    }
}

/// A registered range, removed from the table on drop.
pub(super) struct Registration(&'static GuardedRange);

impl Registration {
    /// Returns whether the handler has replaced the range.
    pub(super) fn is_dead(&self) -> bool {
        self.0.dead.load(Ordering::Relaxed)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.0.set(0, 0);
        free_slots().push(self.0);
    }
}

/// Adds a range to the table.
///
/// The caller is not a signal handler: it takes a lock, and a full table allocates a
/// chunk. A fault in another thread meanwhile finds the table without the range,
/// which is right, as nothing is mapped there for a reader yet.
pub(super) fn register(base: usize, len: usize) -> Registration {
    let mut free = free_slots();
    let slot = free.pop().unwrap_or_else(|| {
        let end = chunks().last().map_or(&TABLE, |chunk| &chunk.next);
        let chunk =
            || Chunk { slots: [const { GuardedRange::new() }; CHUNK], next: OnceLock::new() };
        let [first, others @ ..] = &end.get_or_init(|| Box::new(chunk())).slots;
        free.extend(others);
        first
    });
    drop(free);
    slot.set(base, len);
    Registration(slot)
}

/// Installs the handler for this process. Further calls do nothing.
///
/// A handler for SIGBUS that is installed later replaces this one.
///
/// # Errors
///
/// The errors of `sigaction(2)`.
pub fn install() -> std::io::Result<()> {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if *installed {
        return Ok(());
    }
    let flags = SaFlags::SA_SIGINFO | SaFlags::SA_ONSTACK;
    let action = SigAction::new(SigHandler::SigAction(on_sigbus), flags, SigSet::empty());
    // SAFETY: sigaction needs a handler that is async-signal-safe: `on_sigbus`
    // uses atomics, the errno of its thread, mmap, sigaction and raise, allocates
    // nothing and takes no lock (signal-safety(7); mmap is a bare system call on
    // Linux).
    let previous = unsafe { sigaction(Signal::SIGBUS, &action) }?;
    // A foreign fault between these two lines finds no previous action and is
    // treated as the default: it kills, as it does in a program without handlers.
    PREVIOUS.get_or_init(|| previous);
    *installed = true;
    Ok(())
}

extern "C" fn on_sigbus(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let errno = Errno::last_raw();
    match fault_address(info) {
        Some(address) if rescue(address) => {}
        fault => pass_on(signal, info, context, fault.is_some()),
    }
    Errno::set_raw(errno);
}

/// Returns the address of a fault; `None` for a SIGBUS that another process sent.
fn fault_address(info: *mut siginfo_t) -> Option<usize> {
    // SAFETY: with SA_SIGINFO the kernel passes a pointer to a siginfo_t that is
    // valid during the handler (sigaction(2)).
    let info = unsafe { info.as_ref() }?;
    if info.si_code != BUS_ADRERR {
        return None;
    }
    // SAFETY: si_addr is the filled member of the union for a SIGBUS with a
    // BUS_* code (sigaction(2)), which the line above made sure of.
    let address = unsafe { info.si_addr() };
    Some(address as usize)
}

/// Replaces the registered mapping around `address` with zero pages. Returns `false` if there is
/// none or the kernel has no memory for it.
fn rescue(address: usize) -> bool {
    let mut slots = chunks().flat_map(|chunk| &chunk.slots);
    let found = slots.find_map(|slot| Some((slot, slot.range_around(address)?)));
    let Some((slot, (base, len))) = found else { return false };
    let (Some(start), Some(length)) = (NonZeroUsize::new(base), NonZeroUsize::new(len)) else {
        return false;
    };
    let flags = MapFlags::MAP_FIXED | MapFlags::MAP_PRIVATE;
    // Before the pages: a thread that reads a zero from them must find the flag set.
    slot.dead.store(true, Ordering::Release);
    // SAFETY: MAP_FIXED replaces whatever is in the range. The range is exactly
    // a live mapping of a `ReadMapping` (registered after mapping, taken out
    // before unmapping, in use by the thread that faulted), to which no
    // reference exists, only atomic loads; zeros are valid for those.
    unsafe { mmap_anonymous(Some(start), length, ProtFlags::PROT_READ, flags) }.is_ok()
}

/// Handles the signal as if there were no guard.
///
/// A signal that was sent, and is not ignored, ends the process: std's handler
/// would swallow it and leave SIGBUS at its default, without the guard.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void, is_fault: bool) {
    match PREVIOUS.get().map(SigAction::handler) {
        Some(SigHandler::Handler(handler)) if is_fault => handler(signal),
        Some(SigHandler::SigAction(handler)) if is_fault => handler(signal, info, context),
        Some(SigHandler::SigIgn) if !is_fault => {}
        _ => die_by_default(is_fault),
    }
}

/// Restores the default action, which ends the process: a fault repeats itself
/// on return, a signal that was sent is sent again.
fn die_by_default(is_fault: bool) {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action runs no code of this process.
    let restored = unsafe { sigaction(Signal::SIGBUS, &default) };
    if restored.is_err() || !is_fault {
        // A failure to send has no remedy here.
        let _ = raise(Signal::SIGBUS);
    }
}

#[cfg(test)]
mod tests;
