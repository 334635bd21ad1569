//! The disk of the archives: a small one of its own, where the kernel gives us one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::statvfs::statvfs;

/// Set where mounts are possible: in a namespace of one's own.
pub(super) const NAMESPACE: &str = "MMV_LONG_RUN_NAMESPACE";

/// What blocks of a tmpfs have.
const BLOCK: i64 = 4096;

/// A tmpfs; gone, with what is on it, when this is dropped, but for a copy where
/// the test has failed.
#[derive(Debug)]
pub(super) struct Disk {
    folder: PathBuf,
    ballast: PathBuf,
}

impl Disk {
    /// One of so many MB at a folder, or none.
    pub(super) fn mount(folder: &Path, megabytes: u64) -> Option<Self> {
        std::env::var_os(NAMESPACE)?;
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "none"]).arg(folder);
        assert!(command.status().expect("start mount").success(), "mount");
        Some(Self { folder: folder.to_owned(), ballast: folder.join("ballast") })
    }

    /// Takes all the room that there is.
    pub(super) fn fill(&self) {
        let ballast = File::options().append(true).create(true).open(&self.ballast);
        let ballast = ballast.expect("a file on the small disk");
        let mut at = ballast.metadata().expect("its size").len() as i64;
        loop {
            let free = statvfs(&self.folder).expect("the small disk");
            let mut more = (free.blocks_available() * free.fragment_size()) as i64;
            while more >= BLOCK && fallocate(&ballast, FallocateFlags::empty(), at, more).is_err() {
                more /= 2;
            }
            if more < BLOCK {
                return;
            }
            at += more;
        }
    }

    /// Gives it back.
    pub(super) fn empty(&self) {
        let _ = fs::remove_file(&self.ballast);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.empty();
        if std::thread::panicking() {
            let kept = self.folder.with_file_name("kept");
            let _ = Command::new("cp").arg("-a").arg(&self.folder).arg(kept).status();
        }
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}
