//! A scratch folder a test: where its MMV files, archives and logs lie.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A temporary folder with the folders that PCP's programs and ours expect in it.
/// Removed at the end, unless the test failed.
#[derive(Debug)]
pub(crate) struct Scratch {
    folder: Option<TempDir>,
}

impl Scratch {
    /// A new, empty one.
    pub(crate) fn new() -> Self {
        let folder = TempDir::with_prefix("mmv-test-").expect("a temporary folder");
        for name in ["tmp/mmv", "run", "log", "archives"] {
            fs::create_dir_all(folder.path().join(name)).expect("a folder in it");
        }
        Self { folder: Some(folder) }
    }

    /// The folder itself.
    pub(crate) fn path(&self) -> &Path {
        self.folder.as_ref().expect("present until dropped").path()
    }

    /// The folder to be `$PCP_TMP_DIR`.
    pub(crate) fn tmp_dir(&self) -> PathBuf {
        self.path().join("tmp")
    }

    /// The folder of MMV files, `$PCP_TMP_DIR/mmv`.
    pub(crate) fn mmv_dir(&self) -> PathBuf {
        self.path().join("tmp/mmv")
    }

    /// The folder for archives of the agent.
    pub(crate) fn archives(&self) -> PathBuf {
        self.path().join("archives")
    }

    /// Copies a file into the MMV folder under a name, whole at once (by renaming).
    pub(crate) fn install(&self, from: &Path, name: &str) -> PathBuf {
        let bytes = fs::read(from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
        self.install_bytes(&bytes, name)
    }

    /// Puts bytes into the MMV folder under a name, whole at once (by renaming).
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
            && let Some(folder) = self.folder.take()
        {
            eprintln!("kept for a look: {}", folder.keep().display());
        }
    }
}
