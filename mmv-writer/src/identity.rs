//! The identity of a registry's file: its name, its path and the fields of its header.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mmv_format::directory::MmvDirectory;
use mmv_format::file::{TemporaryFile, is_taken};
use mmv_format::layout::{Flags, Header, MAGIC, TocEntry, Version};
use zerocopy::IntoBytes;

use crate::Error;
use crate::mapping::LockRegistration;
use crate::system::{is_own_file, process_id, user_id, wall_time};

/// The rule for the sentinel flag of a file, which allows values to be absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Absent {
    /// The file gets the flag with the first metric that needs it.
    #[default]
    ByNeed,
    Always,
    Never,
}

/// The name, path and header fields of a file that is to be created.
#[derive(Debug, Clone)]
pub(crate) struct FileIdentity {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// The directory, if the program names none: it is created where that is allowed.
    pub(crate) chosen: Option<MmvDirectory>,
    pub(crate) cluster: u32,
    /// True if it replaces the file of another running process.
    pub(crate) replace_running: bool,
    /// True if it is one of several of an application, whose metrics have the same items in each.
    pub(crate) per_process: bool,
    pub(crate) flags: Flags,
    pub(crate) absent: Absent,
    pub(crate) prefix: String,
    /// Number of names that were given up because other users have them.
    pub(crate) attempts: u32,
}

/// Limit on the number appended to a file name when other users have taken the lower ones.
const MAX_NUMBER: u32 = 9;
/// Limit on attempts to find another name. From the second on, the name is unpredictable.
const MAX_ATTEMPTS: u32 = 5;

impl FileIdentity {
    /// Changes to another name of the file if another user has taken this one, or had it when
    /// publication failed with `error`. The metrics keep the names that this one gives them. Returns
    /// false if the name is not taken.
    pub(crate) fn leave_taken_name(&mut self, error: Option<&Error>) -> bool {
        // The file that was in the way may be gone, and may be there again.
        let was_taken = || error.is_some_and(is_for_name) && !is_own_file(&self.path);
        if self.attempts == MAX_ATTEMPTS || !is_taken(&self.path) && !was_taken() {
            return false;
        }
        if !self.flags.contains(Flags::NO_PREFIX) {
            self.prefix = format!("{}.", self.name);
            self.flags = self.flags.with(Flags::NO_PREFIX);
        }
        let directory = self.path.parent().unwrap_or(Path::new("")).to_owned();
        self.name = if self.attempts == 0 {
            free_name(&directory, &self.name)
        } else {
            unforeseeable_name(&self.name)
        };
        self.path = directory.join(&self.name);
        self.attempts += 1;
        true
    }

    /// Creates the temporary file, after removing stale ones. Children of fork do not
    /// inherit its lock.
    pub(crate) fn temporary(&self) -> Result<(TemporaryFile, LockRegistration), Error> {
        if let Some(chosen) = &self.chosen {
            chosen.prepare()?;
        }
        let directory = self.path.parent().unwrap_or(Path::new(""));
        let file = TemporaryFile::create(directory, &self.name)?;
        let lock = LockRegistration::new(&file);
        Ok((file, lock))
    }

    /// Returns the header, with generation 2 still 0, and the table of contents.
    pub(crate) fn head(&self, version: Version, generation: u64, toc: &[TocEntry]) -> Vec<u8> {
        let mut head = self.header(version, generation, toc.len()).as_bytes().to_vec();
        head.extend(toc.as_bytes());
        head
    }

    fn header(&self, version: Version, generation: u64, sections: usize) -> Header {
        Header {
            magic: MAGIC,
            version: version.code(),
            generation1: generation,
            generation2: 0,
            toc_count: sections as i32,
            flags: self.flags.raw(),
            pid: process_id().cast_signed(),
            cluster: self.cluster.cast_signed(),
        }
    }
}

/// Returns whether a file was not published because of another one with its name.
fn is_for_name(error: &Error) -> bool {
    match error {
        Error::Running { .. } => true,
        Error::Io { action: "rename" | "replace", source, .. } => {
            source.kind() == ErrorKind::PermissionDenied
        }
        _ => false,
    }
}

/// Returns a name for a file in place of one that another user has.
fn free_name(directory: &Path, taken: &str) -> String {
    let with_user = format!("{taken}.{}", user_id());
    let numbered = (2..=MAX_NUMBER).map(|number| format!("{with_user}.{number}"));
    let mut names = [with_user.clone()].into_iter().chain(numbered);
    let free = names.find(|name| !is_taken(&directory.join(name)));
    free.unwrap_or_else(|| unforeseeable_name(taken))
}

fn unforeseeable_name(taken: &str) -> String {
    format!("{taken}.{}.{}.{}", user_id(), process_id(), wall_time().as_nanos())
}
