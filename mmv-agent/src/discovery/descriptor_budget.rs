//! How many file descriptors harvested files may keep: one each, two with a process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// Descriptors that are not for harvested files: archives, the directory, logs.
const RESERVE: u64 = 64;

/// Raises this process's limit to the hard limit.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        warn!(%error, "cannot raise the limit of open files");
    }
}

/// How many descriptors all harvested files may keep together.
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
