//! Access to the flight recorder's archives.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use nix::unistd::getegid;
use tracing::warn;

use crate::config::{ANY_USER, group_named};

/// The users who may read a directory; root always may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Everyone,
    /// The agent's user and the members of this group.
    Group(u32),
    Owner,
}

impl Access {
    /// Parses the key `capture-group`.
    pub(crate) fn of_group(name: Option<&str>) -> Self {
        match name {
            None => Self::Group(getegid().as_raw()),
            Some(ANY_USER) => Self::Everyone,
            Some(name) => group_named(name).map_or(Self::Owner, Self::Group),
        }
    }

    /// Sets the mode and the group of a directory.
    ///
    /// # Errors
    ///
    /// From the system, if the mode cannot be set.
    pub(super) fn apply(self, directory: &Path) -> io::Result<()> {
        let mode = match self {
            Self::Everyone => 0o755,
            Self::Owner => 0o700,
            Self::Group(group) => match give_to(directory, group) {
                Ok(()) => 0o750,
                Err(error) => {
                    let directory = directory.display();
                    warn!(
                        %directory, group, %error,
                        "cannot give the directory to the group; the agent must be a member of \
                         it; only the agent's user can capture"
                    );
                    0o700
                }
            },
        };
        fs::set_permissions(directory, Permissions::from_mode(mode))
    }
}

fn give_to(path: &Path, group: u32) -> io::Result<()> {
    let is_there = fs::symlink_metadata(path)?.gid() == group;
    if is_there { Ok(()) } else { chown(path, None, Some(group)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn directory_is_for_those_who_have_access() {
        let dir = tempfile::tempdir().unwrap();
        for (access, expected) in [
            (Access::Everyone, 0o755),
            (Access::Group(getegid().as_raw()), 0o750),
            (Access::Owner, 0o700),
        ] {
            access.apply(dir.path()).unwrap();
            assert_eq!(mode(dir.path()), expected);
        }
    }

    #[test]
    fn directory_belongs_to_group_or_only_to_the_agents_user() {
        let dir = tempfile::tempdir().unwrap();
        Access::Group(4711).apply(dir.path()).unwrap();
        let found = fs::symlink_metadata(dir.path()).unwrap();
        let expected =
            if nix::unistd::geteuid().is_root() { (4711, 0o750) } else { (found.gid(), 0o700) };
        assert_eq!((found.gid(), found.mode() & 0o777), expected);
    }
}
