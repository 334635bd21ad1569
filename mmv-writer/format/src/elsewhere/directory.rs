//! The directory for MMV files where there are none: PCP's name of it, and no way to prepare it.

#[expect(dead_code, reason = "nothing asks which variable names it")]
#[path = "../directory/pcp.rs"]
mod pcp;

use std::io;
use std::path::{Path, PathBuf};

use crate::file::FileError;
pub use pcp::{DEFAULT_TMP_DIR, mmv_directory};

/// The directory that MMV files would be in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MmvDirectory(PathBuf);

impl MmvDirectory {
    /// Returns the directory by PCP's rule.
    pub fn choose() -> Self {
        Self(mmv_directory())
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Fails.
    ///
    /// # Errors
    ///
    /// [`FileError`] with [`io::ErrorKind::Unsupported`].
    pub fn prepare(&self) -> Result<(), FileError> {
        let source = io::ErrorKind::Unsupported.into();
        Err(FileError {
            action: "prepare the directory of MMV files",
            path: self.0.clone(),
            source,
        })
    }
}
