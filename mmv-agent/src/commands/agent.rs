//! Finds the running agent that a command is meant for.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::config::{Sockets, host_directory};
use crate::control::status_socket;
use crate::host::Host;
use crate::lock;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Agent {
    /// It answers at this status socket, if at all.
    At(PathBuf),
    /// This process writes there, and has none of the known sockets.
    Elsewhere {
        /// Directory of its archives.
        directory: PathBuf,
        process: u32,
    },
}

/// Finds the agent of an archive directory; without one, that of this user, else that of the
/// system.
pub(super) fn find(archive_dir: Option<&Path>) -> Agent {
    let host = Host::local().name;
    let Sockets { mut own, mut others } = Sockets::new(archive_dir, &host);
    if let Some(found) = own.iter().position(|socket| UnixStream::connect(socket).is_ok()) {
        return Agent::At(own.swap_remove(found));
    }
    let likeliest = if own.is_empty() { PathBuf::new() } else { own.swap_remove(0) };
    let Some(directory) = archive_dir else { return Agent::At(likeliest) };
    let directory = host_directory(directory, &host);
    let process = lock::holder_in(&directory);
    let found = others.iter().position(|socket| {
        status_socket::ask(socket).is_ok_and(|status| {
            let base = status.archive.base.as_deref().map(Path::new);
            let writes_there = base.is_some_and(|base| is_in(base, &directory));
            process == Some(status.pid) || writes_there
        })
    });
    if let Some(found) = found {
        return Agent::At(others.swap_remove(found));
    }
    match process {
        Some(process) => Agent::Elsewhere { directory, process },
        None => Agent::At(likeliest),
    }
}

/// Returns true if an archive is in a directory or in its subdirectory for a step of the clock.
fn is_in(base: &Path, directory: &Path) -> bool {
    let parent = base.parent().and_then(|parent| parent.canonicalize().ok());
    let directory = directory.canonicalize().ok();
    parent.zip(directory).is_some_and(|(parent, directory)| parent.starts_with(directory))
}
