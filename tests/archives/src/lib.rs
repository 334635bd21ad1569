//! Makes small archives for tests: metrics, instances, times, values and marks in a few lines.
//!
//! ```
//! use pcp_archive::Archive;
//! use test_archives::Builder;
//!
//! let archive = Builder::new()
//!     .metric("app.queue", "u32 instant none")
//!     .metric("app.requests", "u64 counter count")
//!     .instances("app.requests", ["/a", "/b"])
//!     .row(0, [("app.queue", 3), ("app.requests[/a]", 10)])
//!     .mark(1)
//!     .row(2, [("app.requests[/a]", 5), ("app.requests[/b]", 1)])
//!     .finish();
//! assert_eq!(Archive::open(archive.base())?.metadata().metrics().len(), 2);
//! # Ok::<(), pcp_archive::Error>(())
//! ```
//!
//! Unit tests of `pcp-archive` are of another build of that crate than this one links. They use what
//! takes and returns types of `pcp-types` and of the standard library, and open archives by path.

#![expect(clippy::missing_panics_doc, reason = "what cannot be written is wrong data of a test")]

mod builder;
mod cell;
pub mod changing;
mod samples;
mod seconds;

use std::ops::Deref;
use std::path::{Path, PathBuf};

use pcp_archive::Timestamp;
use tempfile::TempDir;

pub use builder::{Builder, label};
pub use cell::Cell;
pub use samples::of_every_kind;
pub use seconds::Seconds;

/// Returns the time of a number of seconds after the start of all test archives.
#[must_use]
pub fn at(seconds: impl Seconds) -> Timestamp {
    Timestamp::from_nanos(1_700_000_000_000_000_000 + seconds.nanos())
}

/// Returns a directory in memory, where the system has one: syncing files there is free.
#[must_use]
pub fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    made.expect("a temporary directory")
}

/// An archive, which is removed with its directory on drop. Stands for its base name.
#[derive(Debug)]
pub struct TestArchive {
    base: PathBuf,
    /// `None` if the directory is another's.
    directory: Option<TempDir>,
}

impl TestArchive {
    /// Returns the base name.
    #[must_use]
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Returns the path of the member with this suffix, such as `meta` or `0`.
    #[must_use]
    pub fn member(&self, suffix: &str) -> PathBuf {
        let mut path = self.base.clone().into_os_string();
        path.push(".");
        path.push(suffix);
        path.into()
    }

    /// Returns the directory, for more files beside the archive.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.base.parent().unwrap_or(Path::new("."))
    }

    /// Returns the directory and the base name.
    #[must_use]
    pub fn into_parts(self) -> (TempDir, PathBuf) {
        (self.directory.expect("a directory of its own"), self.base)
    }
}

impl Deref for TestArchive {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.base
    }
}

impl AsRef<Path> for TestArchive {
    fn as_ref(&self) -> &Path {
        &self.base
    }
}

impl AsRef<std::ffi::OsStr> for TestArchive {
    fn as_ref(&self) -> &std::ffi::OsStr {
        self.base.as_os_str()
    }
}
