//! A published file whose bytes the caller provides, for interfaces that promise a certain order
//! of sections, as the C interface does.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use memmap2::{MmapOptions, MmapRaw};

use super::{FileError, TemporaryFile, allocate, identity, next_generation, remove_if_same};
use crate::layout::Header;

/// Limit on the characters of a file's name that its hidden name repeats.
const HIDDEN_NAME: usize = 48;

/// A published file, mapped for reading and writing until it is dropped.
///
/// Dropping it does not remove the file. A forked child shares the mapping with its
/// parent.
#[derive(Debug)]
pub struct MappedFile {
    map: MmapRaw,
    /// Device and inode.
    identity: (u64, u64),
}

impl MappedFile {
    /// Publishes `bytes` under `path`, where they replace an older file. They are a
    /// complete MMV file except for both generations, which are set here.
    ///
    /// # Errors
    ///
    /// [`FileError`]; its source is [`io::ErrorKind::InvalidInput`] for fewer bytes
    /// than a header, or a path without a file name. The older file then stays.
    pub fn publish(path: &Path, mut bytes: Vec<u8>) -> Result<Self, FileError> {
        let invalid = || FileError::with("publish", path)(io::ErrorKind::InvalidInput.into());
        let directory = path.parent().ok_or_else(invalid)?;
        let name = path.file_name().ok_or_else(invalid)?.to_string_lossy();
        let hidden: String = name.chars().take(HIDDEN_NAME).collect();
        let generations = bytes.get_mut(Header::GENERATION1..Header::BYTES).ok_or_else(invalid)?;
        let generation = next_generation(path).to_ne_bytes();
        for (to, from) in generations.iter_mut().zip([generation, generation].as_flattened()) {
            *to = *from;
        }
        let mut temporary = TemporaryFile::create(directory, &hidden)?;
        let mapped =
            Self::fill(temporary.file(), &bytes).map_err(FileError::with("write", path))?;
        temporary.publish(path)?;
        Ok(mapped)
    }

    fn fill(file: &File, bytes: &[u8]) -> io::Result<Self> {
        allocate(file, 0, bytes.len() as u64)?;
        file.write_all_at(bytes, 0)?;
        let map = MmapOptions::new().len(bytes.len()).map_raw(file)?;
        Ok(Self { map, identity: identity(&file.metadata()?) })
    }

    /// Returns the address of the mapping, the start of a page.
    pub fn as_ptr(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    /// Returns the size of the file.
    #[expect(clippy::len_without_is_empty, reason = "never shorter than a header")]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Removes `path` if it still leads to this file.
    ///
    /// # Errors
    ///
    /// The errors of stat and unlink.
    pub fn withdraw(&self, path: &Path) -> io::Result<()> {
        remove_if_same(path, self.identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::KEEP_FILES;

    /// Returns a header alone, which suffices to publish and withdraw a file.
    fn bytes() -> Vec<u8> {
        vec![0; Header::BYTES]
    }

    #[test]
    fn a_file_is_published_whole_and_only_its_own_is_withdrawn() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x".repeat(255));
        let first = MappedFile::publish(&path, bytes()).unwrap();
        let second = MappedFile::publish(&path, bytes()).unwrap();
        let found = std::fs::read(&path).unwrap();
        assert_eq!(found.len(), second.len());
        assert_ne!(found[8..16], [0; 8]);
        assert_eq!(found[8..16], found[16..24]);
        first.withdraw(&path).unwrap();
        assert!(path.exists());
        second.withdraw(&path).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(second.withdraw(&path).is_err());
    }

    #[test]
    fn withdrawn_file_stays_in_a_directory_that_keeps_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app");
        let keeper = directory.path().join(KEEP_FILES);
        std::fs::write(&keeper, "").unwrap();
        let kept = MappedFile::publish(&path, bytes()).unwrap();
        kept.withdraw(&path).unwrap();
        assert!(path.exists());
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(&keeper, Some(12345), None).unwrap();
        } else {
            std::fs::remove_file(&keeper).unwrap();
        }
        kept.withdraw(&path).unwrap();
        assert!(!path.exists(), "another user cannot keep it");
    }

    #[test]
    fn bytes_that_are_no_file_leave_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app");
        assert!(MappedFile::publish(&path, vec![0; Header::BYTES - 1]).is_err());
        assert!(MappedFile::publish(Path::new("/"), bytes()).is_err());
        assert!(MappedFile::publish(&path.join("missing"), bytes()).is_err());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
