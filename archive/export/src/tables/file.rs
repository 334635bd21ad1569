//! Files that are written atomically: under another name, synchronized, then renamed. Readers see
//! either the old file or the complete new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::WriteError;

/// A file that does not have its name yet.
#[derive(Debug)]
pub(super) struct NewFile {
    out: BufWriter<File>,
    temporary: PathBuf,
    target: PathBuf,
    bytes: u64,
    is_finished: bool,
}

impl NewFile {
    /// Creates a file and its directory. The temporary name begins with a dot, which engines ignore;
    /// a file that a killed process left there is removed.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub(super) fn create(directory: &Path, name: &str) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let temporary = directory.join(format!(".{name}.tmp"));
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        let target = directory.join(name);
        let out = BufWriter::with_capacity(1 << 16, file);
        Ok(Self { out, temporary, target, bytes: 0, is_finished: false })
    }

    /// Renames the complete file to its name, and returns its size in bytes.
    ///
    /// # Errors
    ///
    /// Those of the file system, after which there is no file, or still the old one.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        self.out.flush()?;
        self.out.get_ref().sync_all()?;
        fs::rename(&self.temporary, &self.target)?;
        self.is_finished = true;
        if let Some(directory) = self.target.parent() {
            File::open(directory)?.sync_all()?;
        }
        Ok(self.bytes)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Removes the files `STEM-N.EXTENSION` from a number on, up to the first that does not exist.
///
/// # Errors
///
/// Those of the file system.
pub(super) fn remove_from(
    directory: &Path,
    stem: &str,
    first: u32,
    extension: &str,
) -> Result<(), WriteError> {
    for part in first.. {
        let path = directory.join(format!("{stem}-{part}.{extension}"));
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(source) => return Err(WriteError { path, source }),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_appears_when_it_is_complete_and_replaces_the_old_one() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("a/b");
        let mut file = NewFile::create(&folder, "part").unwrap();
        file.write_all(b"one").unwrap();
        assert_eq!(names(&folder), [".part.tmp"]);
        assert_eq!(file.finish().unwrap(), 3);
        assert_eq!(names(&folder), ["part"]);
        let mut file = NewFile::create(&folder, "part").unwrap();
        file.write_all(b"other").unwrap();
        assert_eq!(fs::read(folder.join("part")).unwrap(), b"one");
        file.finish().unwrap();
        assert_eq!(fs::read(folder.join("part")).unwrap(), b"other");
    }

    #[test]
    fn a_file_that_is_not_finished_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(".part.tmp"), b"of a killed process").unwrap();
        drop(NewFile::create(directory.path(), "part").unwrap());
        assert!(names(directory.path()).is_empty());
    }
}
