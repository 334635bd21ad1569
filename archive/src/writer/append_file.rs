//! A file that only grows, and is cut back after a partial write.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

#[cfg(test)]
use super::fault;
use crate::{Error, Result, io_error};

/// Archives are readable by all users.
const MODE: u32 = 0o644;

/// A file of an archive that is being written.
#[derive(Debug)]
pub(super) struct AppendFile {
    path: PathBuf,
    file: File,
    /// Up to here the file is whole.
    len: u64,
    /// There may be bytes after `len`.
    ragged: bool,
}

impl AppendFile {
    /// A new file with its first bytes. If they cannot be written there is no
    /// file.
    pub(super) fn create(path: PathBuf, bytes: &[u8]) -> Result<Self> {
        let opened = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&path);
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Error::Exists { file: path });
            }
            opened => opened.map_err(io_error("create", &path))?,
        };
        let mut created = Self { path, file, len: 0, ragged: false };
        match created.append(bytes) {
            Ok(()) => Ok(created),
            Err(error) => {
                created.remove();
                Err(error)
            }
        }
    }

    /// Bytes that are whole.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// One write after the last valid byte.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.cut_back()?;
        // A write would fill what another program has cut off with zeros.
        let found = self.file.metadata().map_err(io_error("inspect", &self.path))?.len();
        if found < self.len {
            return Err(Error::Disturbed { file: self.path.clone(), change: "truncated" });
        }
        self.ragged = true;
        self.write(bytes).map_err(io_error("write", &self.path))?;
        self.ragged = false;
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Drops the bytes after `len`. If the system fails to,
    /// [`cut_back`](Self::cut_back) tries again.
    pub(super) fn cut(&mut self, len: u64) {
        if self.len == len && !self.ragged {
            return;
        }
        self.len = len;
        self.ragged = self.truncate().is_err();
    }

    /// Cuts off what [`cut`](Self::cut) could not.
    pub(super) fn cut_back(&mut self) -> Result<()> {
        if self.ragged {
            self.truncate().map_err(io_error("truncate", &self.path))?;
            self.ragged = false;
        }
        Ok(())
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Compares the file with what its name leads to.
    ///
    /// # Errors
    ///
    /// [`Error::Disturbed`], [`Error::Io`].
    pub(super) fn check(&self) -> Result<()> {
        let disturbed = |change| Err(Error::Disturbed { file: self.path.clone(), change });
        let failed = io_error("inspect", &self.path);
        let open = self.file.metadata().map_err(&failed)?;
        let named = match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return disturbed("removed"),
            named => named.map_err(&failed)?,
        };
        if (open.dev(), open.ino()) != (named.dev(), named.ino()) {
            disturbed("replaced")
        } else if open.len() < self.len {
            disturbed("truncated")
        } else {
            Ok(())
        }
    }

    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(io_error("sync", &self.path))
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        #[cfg(test)]
        fault::before_write(&self.file, &self.path, bytes, self.len)?;
        self.file.write_all_at(bytes, self.len)
    }

    fn truncate(&self) -> io::Result<()> {
        #[cfg(test)]
        fault::before_change()?;
        self.file.set_len(self.len)
    }

    /// Gives the file another name.
    pub(super) fn rename(&mut self, to: PathBuf) -> Result<()> {
        #[cfg(test)]
        fault::before_change().map_err(io_error("rename", &self.path))?;
        fs::rename(&self.path, &to).map_err(io_error("rename", &self.path))?;
        self.path = to;
        Ok(())
    }

    /// Takes the file away. It holds nothing but a label: if that fails, what
    /// stays is an empty volume.
    pub(super) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }

    /// Makes the file so long, with a hole.
    #[cfg(test)]
    pub(super) fn stretch(&mut self, len: u64) {
        self.file.set_len(len).unwrap();
        self.len = len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_file_is_not_touched() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.0");
        fs::write(&path, "old").unwrap();
        assert!(matches!(AppendFile::create(path.clone(), b"new"), Err(Error::Exists { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn what_is_cut_is_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.0");
        let mut file = AppendFile::create(path.clone(), b"label").unwrap();
        file.append(b" record").unwrap();
        file.cut(5);
        assert_eq!(fs::read(&path).unwrap(), b"label");
        file.append(b"!").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"label!");
    }

    #[test]
    fn everybody_may_read_the_file() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.0");
        AppendFile::create(path.clone(), b"label").unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        // The umask of who runs the test may take away more.
        assert_eq!(mode & !MODE & 0o777, 0);
        assert_eq!(mode & 0o600, 0o600);
    }
}
