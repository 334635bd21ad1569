//! Limit on the file descriptors of harvested files: one each, two with a process.

use std::io;

use nix::errno::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

use crate::error::Error;

/// Descriptors reserved for archives, the directory and logs.
const RESERVE: u64 = 64;

/// Returns true if the system refused something for lack of descriptors or memory.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw);
    matches!(code, Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM))
}

/// Raises this process's limit to the hard limit.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        let current = limit.current;
        warn!(%error, ?current, "cannot raise the limit of open files; fewer files are harvested");
    }
}

/// Fails if so few files may be open that no MMV file can be harvested.
///
/// # Errors
///
/// [`Error::TooFewDescriptors`].
pub(crate) fn check() -> Result<(), Error> {
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit <= RESERVE => Err(Error::TooFewDescriptors { limit, needed: RESERVE }),
        _ => Ok(()),
    }
}

/// Returns the number of descriptors for all harvested files together.
pub(crate) fn available() -> u64 {
    let limit = getrlimit(Resource::Nofile).current;
    limit.unwrap_or(u64::MAX).saturating_sub(RESERVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raised_limit_is_the_largest_allowed_and_leaves_a_reserve() {
        raise_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert_eq!(available(), limit.current.unwrap_or(u64::MAX).saturating_sub(RESERVE));
    }
}
