//! A socket in a directory, which is created again when it is gone.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, socket,
};
use tracing::{info, warn};

/// Limit on connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// Any user may connect.
const MODE: u32 = 0o666;

#[derive(Debug)]
pub(super) struct Bound {
    path: PathBuf,
    /// The socket with its device and inode.
    listener: Option<(UnixListener, (u64, u64))>,
    /// The last warning, which is not repeated.
    warned: String,
}

impl Bound {
    /// Creates the state of a socket that does not exist before it is [checked](Self::check).
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), listener: None, warned: String::new() }
    }

    pub(super) fn listener(&self) -> Option<&UnixListener> {
        self.listener.as_ref().map(|(listener, _)| listener)
    }

    /// Creates the socket, and its directory if necessary, unless it exists.
    pub(super) fn check(&mut self) {
        if let Some((_, own)) = &self.listener {
            if identity(&self.path).is_ok_and(|found| found == *own) {
                return;
            }
            if is_served(&self.path) {
                self.warn("another process has taken its place");
                return;
            }
        }
        match bind_at(&self.path) {
            Ok(made) => {
                if self.listener.replace(made).is_some() {
                    info!(socket = %self.path.display(), "the socket was removed; creating it again");
                }
                self.warned.clear();
            }
            Err(error) => self.warn(&error.to_string()),
        }
    }

    /// Warns once about the reason why the socket does not exist.
    fn warn(&mut self, why: &str) {
        if self.warned != why {
            warn!(socket = %self.path.display(), error = why, "cannot listen on the socket");
            why.clone_into(&mut self.warned);
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Some((_, own)) = &self.listener
            && identity(&self.path).is_ok_and(|found| found == *own)
        {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns device and inode.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Creates a socket; returns it with its device and inode.
fn bind_at(path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    // The lock on the archives ensures that no other agent listens there.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let made = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    bind(made.as_raw_fd(), &UnixAddr::new(path)?)?;
    fs::set_permissions(path, Permissions::from_mode(MODE))?;
    // No client can connect before this.
    listen(&made, Backlog::new(BACKLOG)?)?;
    Ok((made.into(), identity(path)?))
}

fn try_connect(path: &Path) -> nix::Result<()> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let client = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(client.as_raw_fd(), &UnixAddr::new(path)?)
}

/// Returns true if a process listens there.
fn is_served(path: &Path) -> bool {
    matches!(try_connect(path), Ok(()) | Err(Errno::EAGAIN))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn any_user_may_connect() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deeper").join("a.sock");
        let mut bound = Bound::new(&path);
        bound.check();
        assert_eq!(fs::symlink_metadata(&path).unwrap().mode() & 0o777, MODE);
        UnixStream::connect(&path).unwrap();
        drop(bound);
        assert!(!path.exists());
    }

    #[test]
    fn removed_socket_is_created_again_but_no_foreign_file_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deeper").join("a.sock");
        let mut bound = Bound::new(&path);
        bound.check();
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        assert!(UnixStream::connect(&path).is_err());
        bound.check();
        UnixStream::connect(&path).unwrap();
        // Neither a socket without a process nor a file is in the way.
        fs::remove_file(&path).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        bound.check();
        UnixStream::connect(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "stale").unwrap();
        bound.check();
        UnixStream::connect(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        bound.check();
        assert_eq!(bound.warned, "another process has taken its place");
        drop(bound);
        assert!(path.exists(), "it is another's");
        drop(other);
    }

    #[test]
    fn a_socket_that_cannot_be_made_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file").join("a.sock");
        fs::write(dir.path().join("file"), "").unwrap();
        let mut bound = Bound::new(&path);
        bound.check();
        assert!(bound.listener().is_none() && !bound.warned.is_empty());
        fs::remove_file(dir.path().join("file")).unwrap();
        bound.check();
        UnixStream::connect(&path).unwrap();
    }
}
