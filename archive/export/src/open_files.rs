//! How many files may be open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Permits as many open files as the system lets this process have, up to `most`; returns how
/// many may be open.
pub(crate) fn permit(most: u64) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let current = current.unwrap_or(most);
    let wanted = maximum.map_or(most, |maximum| maximum.min(most)).max(current);
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
        assert_eq!(permit(1), before);
        let most = getrlimit(Resource::Nofile).maximum.unwrap_or(before + 1).min(before + 1);
        assert_eq!(permit(most), most.max(before));
        assert_eq!(getrlimit(Resource::Nofile).current, Some(most.max(before)));
    }
}
