//! A scratch directory for each test, with its MMV files, archives and logs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A temporary directory with the directories that PCP's programs and ours expect in it.
/// Removed at the end, unless the test failed.
#[derive(Debug)]
pub(crate) struct Scratch {
    directory: Option<TempDir>,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self::of(TempDir::with_prefix("mmv-test-").expect("a temporary directory"))
    }

    /// Creates a scratch directory in a file system in memory, where there is one.
    pub(crate) fn in_memory() -> Self {
        TempDir::with_prefix_in("mmv-test-", "/dev/shm").map_or_else(|_| Self::new(), Self::of)
    }

    fn of(directory: TempDir) -> Self {
        for name in ["tmp/mmv", "run", "log", "archives"] {
            fs::create_dir_all(directory.path().join(name)).expect("a directory in it");
        }
        Self { directory: Some(directory) }
    }

    /// Creates a scratch directory with a copy of another's archives.
    pub(crate) fn with_archives_of(other: &Self) -> Self {
        let scratch = Self::new();
        let from = other.archives().join(".");
        let status = Command::new("cp").arg("-a").args([from, scratch.archives()]).status();
        assert!(status.expect("start cp").success());
        scratch
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.as_ref().expect("present until dropped").path()
    }

    /// Returns the directory to be `$PCP_TMP_DIR`.
    pub(crate) fn tmp_dir(&self) -> PathBuf {
        self.path().join("tmp")
    }

    /// Returns the directory of MMV files, `$PCP_TMP_DIR/mmv`.
    pub(crate) fn mmv_dir(&self) -> PathBuf {
        self.path().join("tmp/mmv")
    }

    pub(crate) fn archives(&self) -> PathBuf {
        self.path().join("archives")
    }

    /// Copies a file into the MMV directory under a name, atomically (by renaming).
    pub(crate) fn install(&self, from: &Path, name: &str) -> PathBuf {
        let bytes = fs::read(from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
        self.install_bytes(&bytes, name)
    }

    /// Puts bytes into the MMV directory under a name, atomically (by renaming).
    pub(crate) fn install_bytes(&self, bytes: &[u8], name: &str) -> PathBuf {
        let hidden = self.mmv_dir().join(format!(".{name}"));
        let path = self.mmv_dir().join(name);
        fs::write(&hidden, bytes).expect("write an MMV file");
        fs::rename(&hidden, &path).expect("rename an MMV file");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(directory) = self.directory.take()
        {
            eprintln!("kept for inspection: {}", directory.keep().display());
        }
    }
}
