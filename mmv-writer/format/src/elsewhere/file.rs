//! MMV files where there are none: elsewhere than on Linux none is created, so that no
//! [`TemporaryFile`] and no [`PublishedFile`] exists.

#[path = "../file/error.rs"]
mod error;

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::layout::Header;
pub use error::{FileError, PublishError};

/// Size that takes the place of a limit on files: that of the private memory of a registry.
const PRIVATE_BYTES: u64 = 4 << 20;

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
        Err(FileError::with("create", directory)(io::ErrorKind::Unsupported.into()))
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
