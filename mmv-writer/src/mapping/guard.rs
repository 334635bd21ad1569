//! The SIGBUS guard: a file truncated under its mapping costs that file, not
//! the process.
//!
//! Reading a mapped page beyond the end of its file raises SIGBUS. The handler
//! looks the address up in a table of the ranges that [`ReadMapping`]s
//! registered. For one of those it puts anonymous zero pages over the *whole*
//! range, marks it dead and returns; the load is then repeated and gives 0. A
//! SIGBUS of any other cause goes to the handler that was there before.
//!
//! Not through a signal library: those run the previous handler first, and
//! that of a Rust program, std's watch for stack overflows, answers by
//! resetting SIGBUS to its default, so that the second fault would kill.
//!
//! Nothing is installed by linking this crate. A process that maps foreign
//! files calls [`install`] once.
//!
//! [`ReadMapping`]: super::ReadMapping

#![expect(unsafe_code, reason = "a signal handler and a mapping at a fixed address")]

use std::ffi::{c_int, c_void};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};

use nix::errno::Errno;
use nix::libc::{BUS_ADRERR, siginfo_t};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};

/// How many mappings can exist at a time.
pub const CAPACITY: usize = 4096;

/// A range of addresses. Written by the owner of the slot, read by the handler
/// on whatever thread faults, hence the version: odd while the range changes.
struct Slot {
    taken: AtomicBool,
    version: AtomicUsize,
    base: AtomicUsize,
    len: AtomicUsize,
    dead: AtomicBool,
}

static TABLE: [Slot; CAPACITY] = [const { Slot::new() }; CAPACITY];

/// What SIGBUS did before [`install`].
static PREVIOUS: OnceLock<SigAction> = OnceLock::new();

impl Slot {
    const fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
            version: AtomicUsize::new(0),
            base: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            dead: AtomicBool::new(false),
        }
    }

    /// Changes the range; only the slot's owner calls this.
    fn set(&self, base: usize, len: usize) {
        self.version.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        self.base.store(base, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
        self.dead.store(false, Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The range, if it has `address` inside and did not change meanwhile.
    ///
    /// The range that a thread faults in is one that it is using, so that one
    /// cannot change; the version keeps out a mixture of an old base and a new
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

/// A registered range; dropping it takes the range out of the table.
pub(super) struct Registration(&'static Slot);

impl Registration {
    /// Whether the handler has replaced the range.
    pub(super) fn is_dead(&self) -> bool {
        self.0.dead.load(Ordering::Relaxed)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.0.set(0, 0);
        self.0.taken.store(false, Ordering::Release);
    }
}

/// Puts a range into the table; `None` if the table is full.
pub(super) fn register(base: usize, len: usize) -> Option<Registration> {
    let free = |slot: &&Slot| {
        slot.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let slot = TABLE.iter().find(free)?;
    slot.set(base, len);
    Some(Registration(slot))
}

/// Installs the handler for this process. Further calls do nothing.
///
/// A handler for SIGBUS that is installed later takes the place of this one.
///
/// # Errors
///
/// What `sigaction(2)` says.
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

/// The address of a fault; `None` for a SIGBUS that another process sent.
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

/// Replaces the registered mapping around `address` by zero pages; `false` if
/// there is none or the kernel has no memory for it.
fn rescue(address: usize) -> bool {
    let found = TABLE.iter().find_map(|slot| Some((slot, slot.range_around(address)?)));
    let Some((slot, (base, len))) = found else { return false };
    let (Some(start), Some(length)) = (NonZeroUsize::new(base), NonZeroUsize::new(len)) else {
        return false;
    };
    let flags = MapFlags::MAP_FIXED | MapFlags::MAP_PRIVATE;
    // Before the pages: whoever reads a zero from them must find the flag set.
    slot.dead.store(true, Ordering::Release);
    // SAFETY: MAP_FIXED replaces whatever is in the range. The range is exactly
    // a live mapping of a `ReadMapping` (registered after mapping, taken out
    // before unmapping, in use by the thread that faulted), to which no
    // reference exists, only atomic loads; zeros are valid for those.
    unsafe { mmap_anonymous(Some(start), length, ProtFlags::PROT_READ, flags) }.is_ok()
}

/// Does what would have happened without the guard.
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
        // Nothing can be done here about a failure to send.
        let _ = raise(Signal::SIGBUS);
    }
}

#[cfg(test)]
mod tests;
