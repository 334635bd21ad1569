//! Functions of the system elsewhere than on Linux: there is no file, hence no lock and no other
//! process to look at.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

#[cfg(not(target_family = "wasm"))]
pub(crate) use std::time::Instant;

/// The time of a target without a clock: it stands still, and what is timed takes none.
#[cfg(target_family = "wasm")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant;

#[cfg(target_family = "wasm")]
impl Instant {
    pub(crate) fn now() -> Self {
        Self
    }

    pub(crate) fn elapsed(self) -> Duration {
        Duration::ZERO
    }
}

/// Returns 0: the number only distinguishes a forked child from its parent.
pub(crate) fn process_id() -> u32 {
    0
}

pub(crate) fn user_id() -> u32 {
    0
}

/// Returns 0: only readers of a file compare it with a clock.
pub(crate) fn wall_time() -> Duration {
    Duration::ZERO
}

pub(crate) fn is_own_file(_: &Path) -> bool {
    false
}

pub(crate) fn is_locked(_: File) -> bool {
    false
}

pub(crate) fn has_ended(_: i32, _: File) -> bool {
    false
}

pub(crate) fn write_all_at(_: &File, _: &[u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns 0: no limit ends the process.
pub(crate) fn standard_error_end(_: usize) -> io::Result<u64> {
    Ok(0)
}
