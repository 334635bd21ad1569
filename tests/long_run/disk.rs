//! The disk of the archives: a small one of its own, where the kernel gives us one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::statvfs::statvfs;

/// Set where mounts are possible: in an own namespace.
pub(super) const NAMESPACE: &str = "MMV_LONG_RUN_NAMESPACE";

/// The size of a block of a tmpfs.
const BLOCK: i64 = 4096;

/// A tmpfs, removed with its content on drop; a failed test keeps a copy.
#[derive(Debug)]
pub(super) struct Disk {
    directory: PathBuf,
    ballast: PathBuf,
}

impl Disk {
    /// Mounts a disk of `megabytes` at a directory, where that is possible.
    pub(super) fn mount(directory: &Path, megabytes: u64) -> Option<Self> {
        std::env::var_os(NAMESPACE)?;
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "none"]).arg(directory);
        assert!(command.status().expect("start mount").success(), "mount");
        Some(Self { directory: directory.to_owned(), ballast: directory.join("ballast") })
    }

    pub(super) fn fill(&self) {
        let ballast = File::options().append(true).create(true).open(&self.ballast);
        let ballast = ballast.expect("a file on the small disk");
        let mut at = ballast.metadata().expect("its size").len() as i64;
        loop {
            let free = statvfs(&self.directory).expect("the small disk");
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

    pub(super) fn empty(&self) {
        let _ = fs::remove_file(&self.ballast);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.empty();
        if std::thread::panicking() {
            let kept = self.directory.with_file_name("kept");
            let _ = Command::new("cp").arg("-a").arg(&self.directory).arg(kept).status();
        }
        let _ = Command::new("umount").arg("-l").arg(&self.directory).status();
    }
}
