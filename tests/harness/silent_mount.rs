//! A file system that makes whoever asks it for anything wait without end.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::process::Command;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::harness::skip;

/// A file system in user space whose server never answers, mounted on a file until it is dropped.
#[derive(Debug)]
pub(crate) struct SilentMount {
    path: PathBuf,
    _server: File,
}

impl SilentMount {
    /// Mounts it on an existing file; `None`, with a message, where that is not permitted.
    pub(crate) fn on(path: PathBuf) -> Option<Self> {
        let server = File::options().read(true).write(true).open("/dev/fuse");
        let mounted = server.and_then(|server| {
            fcntl(&server, FcntlArg::F_SETFD(FdFlag::empty()))?;
            let fd = server.as_raw_fd();
            let options = format!("fd={fd},rootmode=100644,user_id=1,group_id=1,allow_other");
            let mut command = Command::new("mount");
            command.args(["-i", "-t", "fuse", "-o", &options, "silent"]).arg(&path);
            let output = command.output()?;
            Ok(output.status.success().then_some(server))
        });
        let mounted = mounted.ok().flatten();
        if mounted.is_none() {
            skip::report("no file system in user space can be mounted");
        }
        mounted.map(|server| Self { path, _server: server })
    }
}

impl Drop for SilentMount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}
