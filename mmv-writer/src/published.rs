//! A file that readers find, until it is withdrawn.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Once;

use mmv_format::file::{PublishedFile, TemporaryFile, size_limit};

use crate::Error;
use crate::identity::FileIdentity;
use crate::mapping::LockRegistration;
use crate::system::{process_id, standard_error_end};

/// A published file. Dropping this withdraws it: the file is removed, unless another
/// one has replaced it meanwhile. A forked child withdraws nothing.
#[derive(Debug)]
pub(crate) struct PublicationGuard {
    path: PathBuf,
    /// `None` if the file could not be created.
    file: Option<(PublishedFile, LockRegistration)>,
    generation: u64,
    /// The process that published it; only this one may withdraw it.
    process: u32,
    overflow: Vec<PublicationGuard>,
}

impl PublicationGuard {
    /// Publishes a complete file by renaming it; that of another running process is replaced only
    /// if the identity allows it. After an error the file keeps its temporary name.
    pub(crate) fn rename(
        file: &mut TemporaryFile,
        identity: &FileIdentity,
    ) -> Result<PublishedFile, Error> {
        let path = &identity.path;
        if identity.replace_running {
            Ok(file.publish(path)?)
        } else {
            Ok(file.publish_unless_running(path)?)
        }
    }

    /// Makes the state of a file that was renamed, with its lock.
    pub(crate) fn new(
        file: PublishedFile,
        lock: LockRegistration,
        path: &Path,
        generation: u64,
    ) -> Self {
        let mut published = Self::unpublished(path);
        published.file = Some((file, lock));
        published.generation = generation;
        published
    }

    /// Makes the state of a file that could not be created.
    pub(crate) fn unpublished(path: &Path) -> Self {
        let process = process_id();
        Self { path: path.to_owned(), file: None, generation: 0, process, overflow: Vec::new() }
    }

    /// Adds overflow files, which are withdrawn together with this one.
    pub(crate) fn with_overflow(mut self, overflow: Vec<Self>) -> Self {
        self.overflow = overflow;
        self
    }

    /// Returns the overflow files, `app.2` and so on, in order: they hold what did not fit the
    /// first file. Usually there are none.
    pub(crate) fn overflow(&self) -> &[Self] {
        &self.overflow
    }

    /// Returns whether there is a file: always, except for a lenient registry.
    pub(crate) fn is_published(&self) -> bool {
        self.file.is_some()
    }

    /// Returns whether another process published it, of which this one is a forked child.
    pub(crate) fn is_inherited(&self) -> bool {
        self.process != process_id()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the generation in the file's header: the time of publication in nanoseconds since
    /// 1970, different from that of the file before it.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }
}

impl Drop for PublicationGuard {
    fn drop(&mut self) {
        if let Some((file, _)) = &self.file
            && !self.is_inherited()
        {
            // On failure readers still see that the process is gone.
            let _ = file.withdraw(&self.path);
        }
    }
}

/// Fails in a forked child: the file at `path` is its parent's.
pub(crate) fn check_process(created: u32, path: &Path) -> Result<(), Error> {
    let found = process_id();
    if created == found {
        return Ok(());
    }
    Err(Error::Forked { path: path.to_owned(), created, found })
}

/// Turns an [`Error::Io`] or [`Error::Running`] into `None` for a lenient registry, and prints it
/// once in the life of the process.
pub(crate) fn unless_lenient<T>(
    result: Result<T, Error>,
    lenient: bool,
) -> Result<Option<T>, Error> {
    static WARN: Once = Once::new();
    let is_unsupported =
        |error: &Error| cfg!(not(target_os = "linux")) && matches!(error, Error::Io { .. });
    match result {
        // Nothing can be done about it, so it is neither an error nor logged.
        Err(error) if is_unsupported(&error) => Ok(None),
        Err(error @ (Error::Io { .. } | Error::Running { .. })) if lenient => {
            WARN.call_once(|| warn(&format!("metrics are not published: {error}\n")));
            Ok(None)
        }
        result => result.map(Some),
    }
}

/// Prints a line on standard error, unless that is a file that would exceed the limit of the
/// system on file sizes, for which the system would end the process. For crates that count
/// through this one.
#[doc(hidden)]
pub fn warn(line: &str) {
    let end = standard_error_end(line.len());
    if end.is_ok_and(|end| end <= size_limit()) {
        // A closed standard error is no reason to fail.
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests;
