//! What changed in the directory of MMV files since the last look.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::{error, warn};

use super::descriptor_budget::is_shortage;
use super::directory::Directory;
use super::file_table::FileTable;
use super::listing::{Listing, Room};
use super::{Change, FileId};

/// The directory and the table of its files.
#[derive(Debug)]
pub(crate) struct Watcher {
    directory: Directory,
    /// The directory could not be read, which was logged.
    unreadable: bool,
    /// Why it cannot be, if the system lacks descriptors or memory.
    shortage: Option<String>,
    /// The files that were there at the last look.
    pub table: FileTable,
    /// Entries that are no regular files.
    others: HashSet<OsString>,
    /// There were more files than are looked at, which was logged.
    overfull: bool,
}

/// The result of a look.
#[derive(Debug)]
pub(crate) struct Changes {
    /// Files that were replaced or are gone.
    pub files: Vec<Change>,
    /// All files there are.
    pub listed: HashSet<FileId>,
    /// New entries that are no regular files, and what they are.
    pub others: Vec<(OsString, &'static str)>,
}

impl Watcher {
    /// Watches the directory at `path`, which need not exist.
    pub(crate) fn new(path: PathBuf, room: Room) -> Self {
        Self {
            directory: Directory::new(path, room),
            unreadable: false,
            shortage: None,
            table: FileTable::default(),
            others: HashSet::new(),
            overfull: false,
        }
    }

    /// Changes how many files are looked at.
    pub(crate) fn set_room(&mut self, room: Room) {
        self.directory.room = room;
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Readable when the directory has changed, if it is under watch.
    pub(crate) fn watch(&self) -> Option<BorrowedFd<'_>> {
        self.directory.watch()
    }

    /// Why the directory cannot be read, if the system lacks descriptors or memory.
    pub(crate) fn shortage(&self) -> Option<&str> {
        self.shortage.as_deref()
    }

    /// Updates the table if the directory may have changed.
    pub(crate) fn look(&mut self, now: Duration) -> Option<Changes> {
        let listing = self.directory.look(now);
        if let Err(error) = &listing
            && !self.unreadable
        {
            error!(directory = %self.path().display(), %error, "cannot read the directory");
        }
        self.unreadable = listing.is_err();
        self.shortage = match &listing {
            Err(error) if is_shortage(error) => {
                Some(format!("the directory cannot be read: {error}"))
            }
            _ => None,
        };
        let Listing { files, others, left_out } = listing.ok()??;
        if left_out > 0 && !self.overfull {
            let directory = self.path().display();
            warn!(%directory, files = left_out, "too many files: these are skipped");
        }
        self.overfull = left_out > 0;
        let known: HashSet<OsString> = others.iter().map(|(name, _)| name.clone()).collect();
        let known = std::mem::replace(&mut self.others, known);
        Some(Changes {
            listed: files.iter().map(|listed| listed.id).collect(),
            files: self.table.compare(&files, now),
            others: others.into_iter().filter(|(name, _)| !known.contains(name)).collect(),
        })
    }
}
