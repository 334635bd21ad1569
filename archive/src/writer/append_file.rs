//! A file that only grows, and is cut back after a partial write.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use crate::files::{create_new, show};
#[cfg(test)]
use crate::test_support::fault;
use crate::{Error, Result, io_error};

/// Writeback of a buffered file starts each time that this number of bytes was written.
const WRITEBACK: u64 = 8 << 20;

#[derive(Debug)]
pub(super) struct AppendFile {
    path: PathBuf,
    file: File,
    /// Up to here the file is whole, with what is in the buffer.
    len: u64,
    /// There may be bytes after those that were written.
    ragged: bool,
    /// The last bytes, which were not written yet.
    buffer: Vec<u8>,
    /// Limit on the bytes that may wait.
    capacity: usize,
    /// Up to here the system was asked to begin to put the file on disk.
    on_the_way: u64,
}

impl AppendFile {
    /// Creates a file with its first bytes. If they cannot be written the file is removed.
    pub(super) fn create(path: PathBuf, bytes: &[u8]) -> Result<Self> {
        let file = create_new(&path)?;
        let buffer = Vec::new();
        let mut created =
            Self { path, file, len: 0, ragged: false, buffer, capacity: 0, on_the_way: 0 };
        match created.append(bytes) {
            Ok(()) => Ok(created),
            Err(error) => {
                created.remove();
                Err(error)
            }
        }
    }

    /// Buffers up to `capacity` bytes until they are written, or until [`flush`](Self::flush).
    pub(super) fn buffered(self, capacity: usize) -> Self {
        Self { capacity, ..self }
    }

    /// Returns the number of bytes that are whole.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Returns the number of bytes that were written.
    const fn written(&self) -> u64 {
        self.len - self.buffer.len() as u64
    }

    /// Adds bytes after the last valid one: by one write, or to the buffer. After an error
    /// the file has none of them.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.buffer.len() + bytes.len() > self.capacity {
            self.flush()?;
        }
        if bytes.len() > self.capacity {
            self.write(bytes)?;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Writes what is in the buffer; after an error it is still there.
    pub(super) fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        self.len -= buffer.len() as u64;
        let written = self.write(&buffer);
        self.len += buffer.len() as u64;
        if written.is_ok() {
            buffer.clear();
        }
        self.buffer = buffer;
        self.begin_writeback();
        written
    }

    /// Asks the system to put on disk what was written since the last time, so that
    /// [`sync`](Self::sync) does not have to wait for all of it.
    fn begin_writeback(&mut self) {
        let start = self.on_the_way;
        let end = self.written();
        if end.saturating_sub(start) >= WRITEBACK {
            let advice = PosixFadviseAdvice::POSIX_FADV_DONTNEED;
            // Only advice: without it all goes to disk by `sync`.
            let _ = posix_fadvise(&self.file, start as i64, (end - start) as i64, advice);
            self.on_the_way = end;
        }
    }

    /// Writes once, after the last byte that was written.
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.cut_back()?;
        // A write would fill what another program has cut off with zeros.
        let found = self.file.metadata().map_err(io_error("inspect", &self.path))?.len();
        if found < self.written() {
            return Err(Error::Disturbed { file: self.path.clone(), change: "truncated" });
        }
        self.ragged = true;
        self.write_at_end(bytes).map_err(io_error("write", &self.path))?;
        self.ragged = false;
        Ok(())
    }

    /// Drops the bytes after `len`. If the system fails to,
    /// [`cut_back`](Self::cut_back) tries again.
    pub(super) fn cut(&mut self, len: u64) {
        let written = self.written();
        let kept = len.saturating_sub(written) as usize;
        self.buffer.truncate(kept);
        self.len = len;
        if self.ragged || len < written {
            self.ragged = self.truncate().is_err();
        }
    }

    /// Cuts off what [`cut`](Self::cut) could not.
    pub(super) fn cut_back(&mut self) -> Result<()> {
        if self.ragged {
            self.truncate().map_err(io_error("truncate", &self.path))?;
            self.ragged = false;
        }
        Ok(())
    }

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
        } else if open.len() < self.written() {
            disturbed("truncated")
        } else {
            Ok(())
        }
    }

    pub(super) fn sync(&mut self) -> Result<()> {
        self.flush()?;
        self.file.sync_data().map_err(io_error("sync", &self.path))
    }

    fn write_at_end(&self, bytes: &[u8]) -> io::Result<()> {
        #[cfg(test)]
        fault::before_write(&self.file, &self.path, bytes, self.written())?;
        self.file.write_all_at(bytes, self.written())
    }

    fn truncate(&self) -> io::Result<()> {
        #[cfg(test)]
        fault::before_change()?;
        self.file.set_len(self.written())
    }

    /// Makes the file the metadata by which readers find the archive called `base`.
    pub(super) fn show(&mut self, base: &Path) -> Result<()> {
        #[cfg(test)]
        fault::before_change().map_err(io_error("rename", &self.path))?;
        self.path = show(&self.path, base)?;
        Ok(())
    }

    /// Removes the file, which holds nothing but a label. If that fails, an empty volume stays.
    pub(super) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }

    /// Extends the file to a length, with a hole.
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
    fn a_buffer_is_written_when_it_is_full() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.0");
        let mut file = AppendFile::create(path.clone(), b"label").unwrap().buffered(10);
        let found = || String::from_utf8(fs::read(&path).unwrap()).unwrap();
        file.append(b" one").unwrap();
        file.append(b" two").unwrap();
        assert_eq!((found().as_str(), file.len()), ("label", 13));
        file.append(b" three").unwrap();
        assert_eq!((found().as_str(), file.len()), ("label one two", 19));
        file.append(b" more than ten").unwrap();
        assert_eq!(found(), "label one two three more than ten");
        file.append(b" four").unwrap();
        file.append(b" five").unwrap();
        // Into the buffer, and then into what was written.
        file.cut(38);
        file.flush().unwrap();
        assert_eq!(found(), "label one two three more than ten four");
        file.append(b" six").unwrap();
        file.cut(19);
        file.flush().unwrap();
        assert_eq!((found().as_str(), file.len()), ("label one two three", 19));
        file.append(b" seven").unwrap();
        file.sync().unwrap();
        assert_eq!(found(), "label one two three seven");
    }

    #[test]
    fn a_buffer_that_cannot_be_written_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.0");
        let mut file = AppendFile::create(path.clone(), b"label").unwrap().buffered(10);
        file.append(b" one two").unwrap();
        fault::plan(fault::Fault { after: 0, bytes: 3, is_lasting: false });
        assert!(file.append(b" three").is_err());
        file.cut(13);
        assert_eq!((fs::read(&path).unwrap().as_slice(), file.len()), (&b"label"[..], 13));
        file.append(b" four").unwrap();
        file.flush().unwrap();
        fault::heal();
        assert_eq!(fs::read(&path).unwrap(), b"label one two four");
    }

    #[test]
    fn everybody_may_read_the_file() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.0");
        AppendFile::create(path.clone(), b"label").unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        // A stricter umask may take away more.
        assert_eq!(mode & !0o644 & 0o777, 0);
        assert_eq!(mode & 0o600, 0o600);
    }
}
