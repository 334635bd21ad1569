//! The directory of MMV files: what is in it, and whether that changed.
//!
//! inotify reports that something changed; a listing shows what. Events can be lost
//! (the directory did not exist yet, was replaced, or is on a network file system), so
//! the directory is also listed every [`SAFETY_SCAN`], and at each look while there is
//! no watch.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use super::FileId;
use super::file_table::Listed;
use super::listing::{Collector, Listing, Room};

/// The longest time between two listings.
pub(crate) const SAFETY_SCAN: Duration = Duration::from_secs(10);

/// A directory under watch.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// How many of its files are listed.
    pub(super) room: Room,
    watch: Option<Inotify>,
    next_scan: Duration,
}

impl Directory {
    /// The directory at `path`, which need not exist.
    pub(crate) fn new(path: PathBuf, room: Room) -> Self {
        Self { path, room, watch: None, next_scan: Duration::ZERO }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Readable when the directory has changed; `None` while changes show in listings
    /// only.
    pub(crate) fn watch(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(AsFd::as_fd)
    }

    /// The contents of the directory, if they may have changed since the last look;
    /// `now` counts from the start. A directory that does not exist is empty.
    ///
    /// # Errors
    ///
    /// From the system, when the directory exists and cannot be read.
    pub(crate) fn look(&mut self, now: Duration) -> io::Result<Option<Listing>> {
        let notified = self.drain();
        if self.watch.is_some() && !notified && now < self.next_scan {
            return Ok(None);
        }
        self.next_scan = now + SAFETY_SCAN;
        if self.watch.is_none() {
            // Before the listing, so that nothing is missed between the two.
            self.watch = watch(&self.path).ok();
        }
        list(&self.path, self.room).map(Some)
    }

    /// Takes all events; true if there was one. A watch whose directory is gone is
    /// dropped.
    fn drain(&mut self) -> bool {
        let Some(watch) = &self.watch else { return false };
        let mut notified = false;
        loop {
            match watch.read_events() {
                Ok(events) => {
                    notified = true;
                    if events.iter().any(|event| event.mask.intersects(ends_the_watch())) {
                        self.watch = None;
                        return true;
                    }
                }
                Err(Errno::EAGAIN) => return notified,
                Err(Errno::EINTR) => {}
                Err(_) => {
                    self.watch = None;
                    return true;
                }
            }
        }
    }
}

fn ends_the_watch() -> AddWatchFlags {
    AddWatchFlags::IN_IGNORED
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_UNMOUNT
        | AddWatchFlags::IN_Q_OVERFLOW
}

fn watch(path: &Path) -> nix::Result<Inotify> {
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
    let flags = AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_MOVED_FROM
        | AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_ONLYDIR;
    inotify.add_watch(path, flags)?;
    Ok(inotify)
}

/// All names that do not begin with a dot. Symbolic links are not followed: any
/// process that may write here could otherwise make the agent read any file that the
/// agent may read.
fn list(path: &Path, room: Room) -> io::Result<Listing> {
    let mut listing = Collector::new(room);
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listing.finish()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if name.as_bytes().first() == Some(&b'.') {
            continue;
        }
        // An entry that has gone since is not there.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_file() {
            let (id, owner) = (FileId::of(&metadata), metadata.uid());
            let bytes = metadata.blocks().saturating_mul(512);
            listing.add(Listed { name, id, owner, bytes });
        } else {
            listing.add_other(name, kind(&metadata));
        }
    }
    Ok(listing.finish())
}

fn kind(metadata: &fs::Metadata) -> &'static str {
    if metadata.is_symlink() {
        "a symbolic link, which is not followed"
    } else if metadata.is_dir() {
        "a directory"
    } else {
        "not a regular file"
    }
}

/// Opens a file of the directory for reading. Never blocks (on a FIFO without a
/// writer), never follows a link, and never gets a controlling terminal; the caller
/// checks with `fstat` what was opened.
///
/// # Errors
///
/// From the system.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY | libc::O_CLOEXEC;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(listing: &Listing) -> Vec<&str> {
        listing.files.iter().map(|listed| listed.name.to_str().unwrap()).collect()
    }

    const SECOND: Duration = Duration::from_secs(1);
    const ROOM: Room = Room::for_limit(100, 0);

    #[test]
    fn only_regular_files_without_a_dot_are_listed_in_byte_order() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b", "a", "B", ".hidden", "\u{e4}"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        fs::create_dir(dir.path().join("directory")).unwrap();
        symlink("/etc/passwd", dir.path().join("link")).unwrap();
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(names(&list(dir.path(), ROOM).unwrap()), ["B", "a", "b", "\u{e4}"]);
        let mut others = list(dir.path(), ROOM).unwrap().others;
        others.sort();
        assert_eq!(
            others.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            ["directory", "fifo", "link"]
        );
        assert!(!open(&fifo).unwrap().metadata().unwrap().is_file());
        assert!(open(&dir.path().join("link")).is_err());
    }

    #[test]
    fn a_look_lists_only_when_something_changed_or_the_scan_is_due() {
        let dir = tempfile::tempdir().unwrap();
        let mut directory = Directory::new(dir.path().to_owned(), ROOM);
        assert!(directory.look(Duration::ZERO).unwrap().is_some());
        assert!(directory.look(SECOND).unwrap().is_none());
        fs::write(dir.path().join("a"), "").unwrap();
        assert_eq!(names(&directory.look(SECOND).unwrap().unwrap()), ["a"]);
        assert!(directory.look(SECOND).unwrap().is_none());
        fs::rename(dir.path().join("a"), dir.path().join("b")).unwrap();
        assert_eq!(names(&directory.look(SECOND).unwrap().unwrap()), ["b"]);
        fs::remove_file(dir.path().join("b")).unwrap();
        assert_eq!(directory.look(SECOND).unwrap(), Some(Listing::default()));
        assert!(directory.look(SECOND).unwrap().is_none());
        assert!(directory.look(SECOND + SAFETY_SCAN).unwrap().is_some());
    }

    #[test]
    fn a_directory_may_come_go_and_come_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mmv");
        let mut directory = Directory::new(path.clone(), ROOM);
        assert_eq!(directory.look(SECOND).unwrap(), Some(Listing::default()));
        for _ in 0..2 {
            fs::create_dir(&path).unwrap();
            fs::write(path.join("a"), "").unwrap();
            assert_eq!(names(&directory.look(SECOND).unwrap().unwrap()), ["a"]);
            fs::remove_dir_all(&path).unwrap();
            assert_eq!(directory.look(SECOND).unwrap(), Some(Listing::default()));
        }
    }
}
