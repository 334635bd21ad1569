//! The life of an MMV file, for crates that write one.
//!
//! A file is created under a hidden name that readers skip, filled, and renamed,
//! so that a reader finds a complete file or none. It is locked (`flock`) from
//! its creation on: a hidden file whose lock is free was left by a process that
//! was killed, and the next start under the same name removes it. The lock is held until
//! the process ends, so that another one does not
//! [replace](TemporaryFile::publish_unless_running) the file of a running program.
//!
//! [`TemporaryFile`] is the file before it is renamed, [`PublishedFile`] the file
//! after that. [`MappedFile`] does both for bytes that the caller provides.

mod error;
mod holder;
mod image;
mod lock_holders;
mod temporary;

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

pub use error::{FileError, PublishError};
pub use image::MappedFile;
pub use lock_holders::is_locked_by_strangers;
use nix::errno::Errno;
use nix::fcntl::posix_fallocate;
use nix::libc::O_NONBLOCK;
use nix::sys::resource::{Resource, getrlimit};
pub use temporary::{PublishedFile, TemporaryFile, is_taken};
use zerocopy::FromBytes;

use crate::layout::Header;

/// Returns the largest size in bytes that a file of this process may have now: the soft
/// `RLIMIT_FSIZE` of `getrlimit(2)`.
///
/// The system ends a process that exceeds it with SIGXFSZ, unless the program handles
/// that signal.
pub fn size_limit() -> u64 {
    getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(soft, _)| soft)
}

/// Fails if a file of `end` bytes would exceed [`size_limit`].
fn check_size(end: u64) -> io::Result<()> {
    if end <= size_limit() { Ok(()) } else { Err(Errno::EFBIG.into()) }
}

/// Allocates disk space, so that writing to the mapping cannot fail.
///
/// # Errors
///
/// The errors of `posix_fallocate(3)`; EFBIG, without SIGXFSZ, beyond [`size_limit`].
pub fn allocate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    check_size(offset.saturating_add(bytes))?;
    loop {
        match posix_fallocate(file, offset.cast_signed(), bytes.cast_signed()) {
            Err(Errno::EINTR) => {}
            other => return Ok(other?),
        }
    }
}

/// Extends a file without allocating disk space.
///
/// # Errors
///
/// The errors of `ftruncate(2)`; EFBIG, without SIGXFSZ, beyond [`size_limit`].
pub fn extend(file: &File, len: u64) -> io::Result<()> {
    check_size(len)?;
    file.set_len(len)
}

/// Returns a generation for the file that replaces the one at `path`.
///
/// Readers recognize new content by its generation. Nanoseconds distinguish two
/// publications; the comparison covers a clock that was set back.
pub fn next_generation(path: &Path) -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = since_epoch.as_nanos() as u64;
    match open(path).as_ref().and_then(read_header) {
        Some(header) if header.generation1 == now => now + 1,
        _ => now.max(1),
    }
}

/// Opens a file that any process may have made, without waiting if it is a FIFO.
pub fn open(path: &Path) -> Option<File> {
    OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path).ok()
}

/// Reads the header of a file, unchecked; `None` if the file is too short.
pub fn read_header(file: &File) -> Option<Header> {
    let mut bytes = [0; Header::BYTES];
    file.read_exact_at(&mut bytes, 0).ok()?;
    Header::read_from_bytes(&bytes).ok()
}

/// Returns device and inode, which identify a file whatever its name.
fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Name of an entry of a directory whose files stay when they are withdrawn, until the owner of the
/// directory has read them and removes it. The entry must belong to the owner of the directory.
pub const KEEP_FILES: &str = ".keep";

/// Returns whether files in a directory stay when they are withdrawn.
fn keeps_files(directory: &Path) -> bool {
    let owner = |path: &Path| path.symlink_metadata().map(|found| found.uid());
    owner(&directory.join(KEEP_FILES))
        .is_ok_and(|keeper| owner(directory).is_ok_and(|owner| owner == keeper))
}

/// Removes `path` if it leads to the file of this identity, unless its directory
/// [keeps files](KEEP_FILES).
fn remove_if_same(path: &Path, file: (u64, u64)) -> io::Result<()> {
    let is_kept = path.parent().is_some_and(keeps_files);
    if !is_kept && identity(&path.symlink_metadata()?) == file {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    #[test]
    fn a_generation_differs_from_an_equal_one_in_the_file_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app");
        for _ in 0..100 {
            let before = next_generation(&path);
            let header =
                Header { generation1: before, ..Header::read_from_bytes(&[0; 40]).unwrap() };
            std::fs::write(&path, header.as_bytes()).unwrap();
            assert_ne!(next_generation(&path), before);
        }
    }
}
