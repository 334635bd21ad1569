//! The limit on open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit on open files to `wanted`, as far as the hard limit allows, and returns the
/// limit.
pub(crate) fn raise_limit(wanted: u64) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let current = current.unwrap_or(wanted);
    let wanted = maximum.map_or(wanted, |maximum| maximum.min(wanted)).max(current);
    match setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }) {
        Ok(()) => wanted,
        Err(_) => current,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_and_never_lowered() {
        let before = getrlimit(Resource::Nofile).current.unwrap();
        assert_eq!(raise_limit(1), before);
        let most = getrlimit(Resource::Nofile).maximum.unwrap_or(before + 1).min(before + 1);
        assert_eq!(raise_limit(most), most.max(before));
        assert_eq!(getrlimit(Resource::Nofile).current, Some(most.max(before)));
    }
}
