//! Names, paths and clusters of overflow files: those that hold what does not fit
//! the first file of a registry. And the removal of files that killed processes left.
//!
//! An overflow file has the first one's name with `.2`, `.3` and so on appended,
//! and complete metric names in it (NOPREFIX), so that the name of a metric does
//! not depend on the file it is in.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mmv_format::file::{is_taken, open, read_header};
use mmv_format::layout::{Flags, MAGIC, MAX_CLUSTER};

use crate::Error;
use crate::identity::FileIdentity;
use crate::published::PublicationGuard;
use crate::system::{has_ended, is_locked};

/// Age of a file from which it may be removed when its process was killed.
const MIN_REMOVABLE_AGE: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clusters {
    /// There are no overflow files.
    None,
    /// No cluster: readers choose one for each file.
    Chosen,
    /// This cluster for the first overflow file, the next one for the second and so on.
    From(u32),
}

/// The overflow files of one registry.
#[derive(Debug)]
pub(crate) struct OverflowFiles {
    first: FileIdentity,
    clusters: Clusters,
    count: u32,
    /// The number in the name of the last one.
    number: u32,
}

impl OverflowFiles {
    pub(crate) fn new(first: FileIdentity, clusters: Clusters) -> Self {
        Self { first, clusters, count: 0, number: 1 }
    }

    /// Returns the next file, if there may be one.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if its cluster would be too large.
    pub(crate) fn next(&mut self) -> Result<Option<FileIdentity>, Error> {
        let cluster = match self.clusters {
            Clusters::None => return Ok(None),
            Clusters::Chosen => 0,
            Clusters::From(first) => first.saturating_add(self.count),
        };
        let mut number = self.number + 1;
        while is_in_use(&numbered(&self.first.path, number))
            || is_taken(&numbered(&self.first.path, number))
        {
            number += 1;
        }
        let path = numbered(&self.first.path, number);
        let name = format!("{}.{number}", self.first.name);
        Error::check_range("cluster", &name, cluster, 0, MAX_CLUSTER)?;
        let prefixed = !self.first.flags.contains(Flags::NO_PREFIX);
        let prefix =
            if prefixed { format!("{}.", self.first.name) } else { self.first.prefix.clone() };
        self.number = number;
        self.count += 1;
        let flags = self.first.flags.with(Flags::NO_PREFIX);
        let absent = self.first.absent;
        let chosen = None;
        let replace_running = self.first.replace_running;
        let per_process = self.first.per_process;
        Ok(Some(FileIdentity {
            name,
            path,
            chosen,
            cluster,
            replace_running,
            per_process,
            flags,
            absent,
            prefix,
            attempts: 0,
        }))
    }
}

fn numbered(first: &Path, number: u32) -> PathBuf {
    let mut path = first.as_os_str().to_owned();
    path.push(format!(".{number}"));
    path.into()
}

/// Returns whether another registry, of any process, holds the lock of a file.
fn is_in_use(path: &Path) -> bool {
    open(path).is_some_and(is_locked)
}

/// Removes overflow files that an earlier run under the same name left when it was
/// killed, except for `ours`. A failure does not keep the caller from starting.
pub(crate) fn remove_stale(first: &Path, ours: &[PublicationGuard]) {
    for number in 2.. {
        let path = numbered(first, number);
        if ours.iter().any(|published| published.path() == path) {
            continue;
        }
        let Some(file) = open(&path) else { return };
        if is_stale(file) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// Returns whether a file looks like one with complete metric names whose owner has ended.
fn is_stale(file: File) -> bool {
    let Some(header) = read_header(&file) else { return false };
    let flags = Flags::from_raw(header.flags);
    header.magic == MAGIC
        && flags.contains(Flags::NO_PREFIX)
        && header.pid > 0
        && has_ended(header.pid, file)
}

/// Removes the files of processes of an application that were killed, when the files are older than an
/// hour: nobody else takes their names. An agent that runs has opened them long before.
pub(crate) fn remove_ended(ours: &Path, application: &str) {
    let Some(directory) = ours.parent() else { return };
    let Ok(entries) = directory.read_dir() else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if is_of_process(&path, application)
            && path != ours
            && let Some(file) = open(&path)
            && is_old(&file)
            && is_stale(file)
        {
            let _ = std::fs::remove_file(&path);
            remove_stale(&path, &[]);
        }
    }
}

/// Returns whether a file is called like that of a process of an application.
fn is_of_process(path: &Path, application: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let after = name.and_then(|name| name.strip_prefix(application));
    let number = after.and_then(|after| after.strip_prefix('.'));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

fn is_old(file: &File) -> bool {
    let modified = file.metadata().and_then(|metadata| metadata.modified());
    let Ok(modified) = modified else { return false };
    modified.elapsed().is_ok_and(|age| age >= MIN_REMOVABLE_AGE)
}

#[cfg(test)]
pub(crate) mod tests;
