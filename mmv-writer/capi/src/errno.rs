//! Failures, as C is told of them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mmv_writer::Error;
use nix::errno::Errno;

/// Runs what may fail; on failure sets `errno` and gives `failed`. A panic ends
/// here as well.
pub(crate) fn report<T>(failed: T, run: impl FnOnce() -> Result<T, Errno>) -> T {
    // Unwind safe: what a panic leaves half done is a registry, whose parts are
    // whole, and which is used no further.
    let result = catch_unwind(AssertUnwindSafe(run));
    match result.unwrap_or(Err(Errno::ENOTRECOVERABLE)) {
        Ok(done) => done,
        Err(errno) => {
            errno.set();
            failed
        }
    }
}

/// What the system said; where nothing was asked of it, `E2BIG` for what does not
/// fit, and `EINVAL`.
pub(crate) fn of(error: &Error) -> Errno {
    match error {
        Error::Io { source, .. } => of_io(source),
        Error::Length { .. } => Errno::E2BIG,
        _ => Errno::EINVAL,
    }
}

fn of_io(error: &io::Error) -> Errno {
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
