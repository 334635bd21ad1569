//! A file whose every byte the caller lays out: for interfaces that promise a
//! layout of their own, as the C interface does.
//!
//! It comes as any other file of this crate does: filled under a hidden name,
//! with disk space allocated, and renamed when it is whole.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use memmap2::{MmapOptions, MmapRaw};

use crate::Error;
use crate::layout::Header;
use crate::publish::{Temporary, allocate, next_generation};

/// The most characters of a file's name that its hidden name repeats.
const HIDDEN_NAME: usize = 48;

/// A published file, mapped for reading and writing until this is dropped.
///
/// Dropping it does not remove the file. Unlike the files of a
/// [`Registry`](crate::Registry), it is shared with forked children, which count
/// into it as their parent does.
#[derive(Debug)]
pub struct Image {
    map: MmapRaw,
    /// Device and inode: which file it is, whatever name it has.
    identity: (u64, u64),
}

impl Image {
    /// Publishes `bytes` under `path` in place of a file that is there. They are
    /// a whole MMV file but for both generations, which are set here.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] with what the system said; [`io::ErrorKind::InvalidInput`]
    /// for fewer bytes than a header, or a path without a file name. Then a file
    /// that is there stays.
    pub fn publish(path: &Path, mut bytes: Vec<u8>) -> Result<Self, Error> {
        let invalid = || Error::io("publish", path)(io::ErrorKind::InvalidInput.into());
        let directory = path.parent().ok_or_else(invalid)?;
        let name = path.file_name().ok_or_else(invalid)?.to_string_lossy();
        let hidden: String = name.chars().take(HIDDEN_NAME).collect();
        let generations = bytes.get_mut(Header::GENERATION1..Header::BYTES).ok_or_else(invalid)?;
        let generation = next_generation(path).to_ne_bytes();
        for (to, from) in generations.iter_mut().zip([generation, generation].as_flattened()) {
            *to = *from;
        }
        let temporary = Temporary::create(directory, &hidden)?;
        let image = Self::fill(temporary.file(), &bytes).map_err(Error::io("write", path))?;
        temporary.rename(path)?;
        Ok(image)
    }

    fn fill(file: &File, bytes: &[u8]) -> io::Result<Self> {
        allocate(file, 0, bytes.len() as u64)?;
        file.write_all_at(bytes, 0)?;
        let map = MmapOptions::new().len(bytes.len()).map_raw(file)?;
        Ok(Self { map, identity: identity(&file.metadata()?) })
    }

    /// Where it is mapped: the address of a page.
    pub fn as_ptr(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    /// Bytes of the file.
    #[expect(clippy::len_without_is_empty, reason = "never shorter than a header")]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Removes `path` if it still leads to this file.
    ///
    /// # Errors
    ///
    /// What stat and unlink say.
    pub fn withdraw(&self, path: &Path) -> io::Result<()> {
        if identity(&path.symlink_metadata()?) == self.identity {
            std::fs::remove_file(path)?;
        }
        Ok(())
    }
}

fn identity(metadata: &std::fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header alone; enough for the file's life.
    fn bytes() -> Vec<u8> {
        vec![0; Header::BYTES]
    }

    #[test]
    fn a_file_is_published_whole_and_only_its_own_is_withdrawn() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x".repeat(255));
        let first = Image::publish(&path, bytes()).unwrap();
        let second = Image::publish(&path, bytes()).unwrap();
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
    fn what_is_no_file_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app");
        assert!(Image::publish(&path, vec![0; Header::BYTES - 1]).is_err());
        assert!(Image::publish(Path::new("/"), bytes()).is_err());
        assert!(Image::publish(&path.join("missing"), bytes()).is_err());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
