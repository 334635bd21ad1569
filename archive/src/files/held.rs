//! Files that stay open, so that they can be read after another program has removed them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::fcntl::OFlag;
use nix::sys::resource::{Resource, getrlimit};

/// This part of the descriptors that a process may have is used for files that stay open.
const SHARE: u64 = 4;

/// The files that all archives of this process hold.
static HELD: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
pub(crate) struct HeldFile(File);

impl HeldFile {
    /// Opens a file; `None` where too many are held already.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Self>> {
        let most = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft / SHARE);
        if HELD.load(Ordering::Relaxed) >= most {
            return Ok(None);
        }
        let file = open(path)?;
        HELD.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Self(file)))
    }

    /// Opens the file again, with an offset of its own.
    pub(crate) fn reopen(&self) -> io::Result<File> {
        open(&PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd())))
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Opens a file without waiting if it is a FIFO.
pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)
}
