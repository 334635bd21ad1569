//! Changes of the MMV directory, with the table of its files.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::{error, warn};

use super::descriptor_budget::is_shortage;
use super::directory::{Directory, DirectoryEntry, DirectoryScan};
use super::file_table::FileTable;
use super::listing::{DirectoryLimits, Listing, MAX_OTHERS};
use super::{Change, FileId};

/// The directory and the table of its files.
#[derive(Debug)]
pub(crate) struct Watcher {
    directory: Directory,
    /// Set once an unreadable directory was logged.
    unreadable: bool,
    /// Reason why the directory cannot be read, if the system lacks descriptors or memory.
    shortage: Option<String>,
    /// Files at the last scan.
    pub table: FileTable,
    /// Entries that are not regular files.
    others: HashSet<OsString>,
    /// Set once an excess of files was logged.
    overfull: bool,
}

/// Changes found by a scan.
#[derive(Debug, Default)]
pub(crate) struct DirectoryChanges {
    /// Files that were replaced or are gone.
    pub files: Vec<Change>,
    /// New files and files whose owner has changed, with their owners.
    pub owners: Vec<(OsString, u32)>,
    /// All files, if they were listed.
    pub listed: Option<HashSet<FileId>>,
    /// New entries that are not regular files, with a description.
    pub others: Vec<(OsString, &'static str)>,
}

impl Watcher {
    /// Watches the directory at `path`, which need not exist.
    pub(crate) fn new(path: PathBuf, limits: DirectoryLimits) -> Self {
        Self {
            directory: Directory::new(path, limits),
            unreadable: false,
            shortage: None,
            table: FileTable::default(),
            others: HashSet::new(),
            overfull: false,
        }
    }

    pub(crate) fn set_limits(&mut self, limits: DirectoryLimits) {
        self.directory.limits = limits;
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns a descriptor that is readable when the directory has changed, if it is watched.
    pub(crate) fn watch(&self) -> Option<BorrowedFd<'_>> {
        self.directory.watch()
    }

    /// Returns the reason why the directory cannot be read, if the system lacks descriptors or
    /// memory.
    pub(crate) fn shortage(&self) -> Option<&str> {
        self.shortage.as_deref()
    }

    /// Returns true while a listing is in progress, which the next scan continues.
    pub(crate) fn is_listing(&self) -> bool {
        self.directory.is_listing()
    }

    /// Returns the time of the next scan that is due without an event.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.directory.due()
    }

    /// Updates the table if the directory may have changed; `known` are names of files that were
    /// harvested.
    pub(crate) fn scan<'a>(
        &mut self,
        now: Duration,
        known: impl Iterator<Item = &'a OsStr>,
    ) -> DirectoryChanges {
        let look = self.directory.scan(now, known);
        if let Err(error) = &look
            && !self.unreadable
        {
            error!(directory = %self.path().display(), %error, "cannot read the directory");
        }
        // A scan that reads nothing does not show that the directory can be read.
        let has_read = self.directory.is_listing()
            || look.as_ref().is_ok_and(|look| *look != DirectoryScan::default());
        if look.is_err() || has_read {
            self.unreadable = look.is_err();
            self.shortage = match &look {
                Err(error) if is_shortage(error) => {
                    Some(format!("the directory cannot be read: {error}"))
                }
                _ => None,
            };
        }
        let DirectoryScan { listing, touched, .. } = look.unwrap_or_default();
        let mut changes = DirectoryChanges::default();
        if let Some(listing) = listing {
            self.take_listing(listing, now, &mut changes);
        }
        for (name, found) in touched {
            self.take_entry(name, found, now, &mut changes);
        }
        changes
    }

    fn take_listing(&mut self, listing: Listing, now: Duration, changes: &mut DirectoryChanges) {
        let Listing { files, others, left_out } = listing;
        if left_out > 0 && !self.overfull {
            let directory = self.path().display();
            warn!(
                %directory, skipped = left_out,
                "some files are skipped: one user has more than twice limits.files, or all users more than \
                 three times"
            );
        }
        self.overfull = left_out > 0;
        let known: HashSet<OsString> = others.iter().map(|(name, _)| name.clone()).collect();
        let known = std::mem::replace(&mut self.others, known);
        changes.listed = Some(files.iter().map(|listed| listed.id).collect());
        changes.files = self.table.compare(&files, now);
        changes.others = others.into_iter().filter(|(name, _)| !known.contains(name)).collect();
    }

    /// Applies the present state of a name. A file beyond the limits waits for the next listing,
    /// which decides among all files of its user.
    fn take_entry(
        &mut self,
        name: OsString,
        found: Option<DirectoryEntry>,
        now: Duration,
        changes: &mut DirectoryChanges,
    ) {
        match found {
            Some(DirectoryEntry::File(file)) => {
                self.others.remove(&name);
                let is_new = self.table.get(&name).is_none();
                if is_new && !self.directory.limits.allow(file.owner, self.table.counts()) {
                    return;
                }
                changes.owners.push((name, file.owner));
                changes.files.extend(self.table.update(&file, now));
            }
            other => {
                changes.files.extend(self.table.remove(&name));
                match other {
                    Some(DirectoryEntry::Other(kind)) if self.others.len() < MAX_OTHERS => {
                        if self.others.insert(name.clone()) {
                            changes.others.push((name, kind));
                        }
                    }
                    _ => {
                        self.others.remove(&name);
                    }
                }
            }
        }
    }
}
