//! MMV files where there are none: elsewhere than on Linux none is created, so that no
//! [`TemporaryFile`] and no [`PublishedFile`] exists.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pcp_types::printable;

use crate::layout::Header;

/// Size that takes the place of a limit on files: that of the private memory of a registry.
const PRIVATE_BYTES: u64 = 4 << 20;

/// Error of a file that could not be created.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {action}: {source}", path = printable::path(path))]
pub struct FileError {
    /// The step that failed, as an infinitive: "create".
    pub action: &'static str,
    /// The directory or file.
    pub path: PathBuf,
    /// [`io::ErrorKind::Unsupported`].
    pub source: io::Error,
}

/// Error of a file that could not be published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// There are no files.
    #[error(transparent)]
    File(#[from] FileError),
    /// A running process has a file of this name.
    #[error("{}: a running process has this name", printable::path(path))]
    Running {
        /// The name of both files.
        path: PathBuf,
        /// The process that has it.
        process: Option<u32>,
    },
}

/// A file before it is renamed.
#[derive(Debug)]
pub struct TemporaryFile(Infallible);

/// A file after it was renamed.
#[derive(Debug)]
pub struct PublishedFile(Infallible);

impl TemporaryFile {
    /// Fails.
    ///
    /// # Errors
    ///
    /// [`FileError`] with [`io::ErrorKind::Unsupported`].
    pub fn create(directory: &Path, _: &str) -> Result<Self, FileError> {
        let source = io::ErrorKind::Unsupported.into();
        Err(FileError { action: "create", path: directory.to_owned(), source })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        match self.0 {}
    }

    /// Returns the open file.
    pub fn file(&self) -> &Arc<File> {
        match self.0 {}
    }

    /// Returns the process that created the file.
    pub fn process(&self) -> u32 {
        match self.0 {}
    }

    /// Renames the file.
    ///
    /// # Errors
    ///
    /// None.
    pub fn publish(&mut self, _: &Path) -> Result<PublishedFile, FileError> {
        match self.0 {}
    }

    /// Renames the file.
    ///
    /// # Errors
    ///
    /// None.
    pub fn publish_unless_running(&mut self, _: &Path) -> Result<PublishedFile, PublishError> {
        match self.0 {}
    }
}

impl PublishedFile {
    /// Removes the file.
    ///
    /// # Errors
    ///
    /// None.
    pub fn withdraw(&self, _: &Path) -> io::Result<()> {
        match self.0 {}
    }
}

/// Returns the size of the private memory of a registry.
pub fn size_limit() -> u64 {
    PRIVATE_BYTES
}

/// Fails.
///
/// # Errors
///
/// [`io::ErrorKind::Unsupported`].
pub fn allocate(_: &File, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Fails.
///
/// # Errors
///
/// [`io::ErrorKind::Unsupported`].
pub fn extend(_: &File, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns a generation: 1, since no file precedes another.
pub fn next_generation(_: &Path) -> u64 {
    1
}

/// Returns no file.
pub fn open(_: &Path) -> Option<File> {
    None
}

/// Returns no header.
pub fn read_header(_: &File) -> Option<Header> {
    None
}

/// Returns false: other users have no files.
pub fn is_taken(_: &Path) -> bool {
    false
}
