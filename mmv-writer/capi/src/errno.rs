//! Conversion of failures to errno.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::errno::Errno;

/// Calls `run`; on failure or a panic sets `errno` and returns `failed`.
pub(crate) fn report<T>(failed: T, run: impl FnOnce() -> Result<T, Errno>) -> T {
    // Unwind safe: what a panic leaves half done is a registry, whose parts are
    // consistent, and which is not used again.
    let result = catch_unwind(AssertUnwindSafe(run));
    match result.unwrap_or(Err(Errno::ENOTRECOVERABLE)) {
        Ok(done) => done,
        Err(errno) => {
            errno.set();
            failed
        }
    }
}

/// Returns the number of a system error; `EINVAL` for an error without one.
pub(crate) fn from_io_error(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EINVAL, Errno::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_and_panics_become_errno() {
        assert_eq!(report(-1, || Ok(0)), 0);
        assert_eq!(report(-1, || Err(Errno::E2BIG)), -1);
        assert_eq!(Errno::last(), Errno::E2BIG);
        assert_eq!(report(-1, || unreachable!("caught")), -1);
        assert_eq!(Errno::last(), Errno::ENOTRECOVERABLE);
    }
}
