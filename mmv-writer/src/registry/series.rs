//! The files of one registry: the first, and those it goes on in when that is
//! full.
//!
//! A further file has the first one's name with `.2`, `.3` and so on behind it,
//! and complete metric names in it (NOPREFIX), so that a metric's name does not say
//! which file it is in.

use std::fs::File;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::check;
use crate::Error;
use crate::layout::{Flags, MAGIC, MAX_CLUSTER};
use crate::publish::{self, Identity, Published};

/// Which clusters further files ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clusters {
    /// None: there are no further files.
    None,
    /// Readers choose one for each.
    Chosen,
    /// This one, and those behind it.
    From(u32),
}

/// The files of one registry.
#[derive(Debug)]
pub(crate) struct Series {
    first: Identity,
    clusters: Clusters,
    /// How many files there are besides the first.
    further: u32,
    /// The number behind the name of the last one.
    number: u32,
}

impl Series {
    pub(crate) fn new(first: Identity, clusters: Clusters) -> Self {
        Self { first, clusters, further: 0, number: 1 }
    }

    /// The next file, if there may be one.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if its cluster would be none.
    pub(crate) fn next(&mut self) -> Result<Option<Identity>, Error> {
        if self.clusters == Clusters::None {
            return Ok(None);
        }
        let mut number = self.number + 1;
        while is_in_use(&numbered(&self.first.path, number)) {
            number += 1;
        }
        let path = numbered(&self.first.path, number);
        let name = format!("{}.{number}", self.first.name);
        let cluster = match self.clusters {
            Clusters::None | Clusters::Chosen => 0,
            Clusters::From(first) => first.saturating_add(self.further),
        };
        check::range("cluster", &name, cluster, 0, MAX_CLUSTER)?;
        let prefixed = !self.first.flags.contains(Flags::NO_PREFIX);
        let prefix = if prefixed { format!("{}.", self.first.name) } else { String::new() };
        self.number = number;
        self.further += 1;
        let flags = self.first.flags.with(Flags::NO_PREFIX);
        Ok(Some(Identity { name, path, cluster, flags, prefix }))
    }
}

/// The path of a further file.
pub(crate) fn numbered(first: &Path, number: u32) -> PathBuf {
    let mut path = first.as_os_str().to_owned();
    path.push(format!(".{number}"));
    path.into()
}

/// Whether a file is there that another registry keeps, of this process or another
/// one: its owner has it locked.
fn is_in_use(path: &Path) -> bool {
    let Some(file) = publish::open(path) else { return false };
    matches!(Flock::lock(file, FlockArg::LockSharedNonblock), Err((_, Errno::EWOULDBLOCK)))
}

/// Removes further files that an earlier run under the same name left when it was
/// killed. Failing to is no reason not to start.
pub(crate) fn remove_stale(first: &Path, ours: &[Published]) {
    for number in 2.. {
        let path = numbered(first, number);
        if ours.iter().any(|published| published.path() == path) {
            continue;
        }
        let Some(file) = publish::open(&path) else { return };
        if is_left_over(file) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// Whether a file is like those that registries go on in, and its owner is gone.
fn is_left_over(file: File) -> bool {
    let Some(header) = publish::header_of(&file) else { return false };
    let is_further =
        header.magic == MAGIC && Flags::from_raw(header.flags).contains(Flags::NO_PREFIX);
    let is_gone = || kill(Pid::from_raw(header.pid), None) == Err(Errno::ESRCH);
    is_further
        && header.pid > 0
        && is_gone()
        && Flock::lock(file, FlockArg::LockSharedNonblock).is_ok()
}

#[cfg(test)]
mod tests;
