//! The check whether a file may be replaced: whether a running process publishes it.
//!
//! In comes a path; out goes a [`Claim`] on it. A registry holds the lock (`flock`) of its
//! file as long as its process lives, which is visible in each PID namespace and ends with
//! the process. Other writers take no lock: their file is held while the process of its
//! header lives, if that was started before the file was written last; a later process
//! has been given the number of one that ended.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use nix::unistd::{SysconfVar, sysconf};

use super::{identity, lock_holders, read_header};
use crate::layout::{Flags, Header, MAGIC};

/// Seconds by which a process may seem to have started after its file was last written:
/// timestamps of files and start times of processes come from clocks with different steps.
const SLACK: i64 = 2;

/// The state of the file at a path.
#[derive(Debug)]
pub(super) enum Claim {
    /// It may be replaced. The lock, if any, keeps others from replacing it.
    Free(Option<Flock<File>>),
    /// There is no such file any more.
    Gone,
    /// Another process has the lock, perhaps only to check the file. Contains the number of the
    /// process in the header.
    Locked(i32),
    /// The process with this number publishes it.
    Running(i32),
}

/// Claims the file at `path` for a replacement.
pub(super) fn claim(path: &Path) -> Claim {
    let flags = O_NONBLOCK | O_NOFOLLOW;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Claim::Gone,
        // Not ours to read, a link or no file at all: the system decides.
        Err(_) => return Claim::Free(None),
    };
    let Ok(metadata) = file.metadata() else { return Claim::Free(None) };
    if is_own(identity(&metadata)) {
        return Claim::Free(None);
    }
    let header = read_header(&file).filter(|header| header.magic == MAGIC);
    let process = header.as_ref().map_or(0, |header| header.pid);
    let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Some(lock),
        Err((_, Errno::EWOULDBLOCK)) if !lock_holders::is_locked_by_strangers(&metadata) => {
            return Claim::Locked(process);
        }
        // A lock of another user, or a file system without locks.
        Err(_) => None,
    };
    let now = path.symlink_metadata().ok();
    if now.is_none_or(|now| identity(&now) != identity(&metadata)) {
        return Claim::Gone;
    }
    if header.is_some_and(|header| is_fed(&header, metadata.ctime())) {
        return Claim::Running(process);
    }
    Claim::Free(lock)
}

/// Returns whether the process of a header is running and is the one that wrote the file, which
/// was last changed at `changed`, in seconds since 1970.
fn is_fed(header: &Header, changed: i64) -> bool {
    let own = std::process::id().cast_signed();
    Flags::from_raw(header.flags).contains(Flags::PROCESS)
        && header.pid != own
        && started(header.pid).is_some_and(|started| started <= changed + SLACK)
}

pub(super) fn is_running(process: i32) -> bool {
    started(process).is_some()
}

/// Returns the start time of a process, in seconds since 1970; `None` for one that has ended, even
/// if it is not reaped yet. Reads `/proc/PID/stat` and `/proc/stat`, see `proc(5)`.
fn started(process: i32) -> Option<i64> {
    let process = u32::try_from(process).ok().filter(|process| *process > 0)?;
    let stat = std::fs::read(format!("/proc/{process}/stat")).ok()?;
    // The command's name, in parentheses, may hold anything.
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = str::from_utf8(stat.get(close + 1..)?).ok()?.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X" | "x") {
        return None;
    }
    let ticks: i64 = fields.nth(18)?.parse().ok()?;
    let per_second = sysconf(SysconfVar::CLK_TCK).ok()??;
    let system = std::fs::read_to_string("/proc/stat").ok()?;
    let boot = system.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(boot.trim().parse::<i64>().ok()? + ticks.checked_div(per_second)?)
}

/// The files that this process has published and may replace: process, device, inode. A forked
/// child inherits the list, but owns none of the files.
static OWN: Mutex<Vec<(u32, (u64, u64))>> = Mutex::new(Vec::new());

/// Runs `work` on the list; `None` if a thread held it when this process was forked.
fn with_own<T>(work: impl FnOnce(&mut Vec<(u32, (u64, u64))>) -> T) -> Option<T> {
    for _ in 0..100 {
        if let Ok(mut own) = OWN.try_lock() {
            return Some(work(&mut own));
        }
        sleep(Duration::from_millis(1));
    }
    None
}

fn is_own(file: (u64, u64)) -> bool {
    with_own(|own| own.contains(&(std::process::id(), file))).unwrap_or(false)
}

/// An entry of [`OWN`], removed on drop.
#[derive(Debug)]
pub(super) struct OwnFile(u32, (u64, u64));

impl OwnFile {
    pub(super) fn new(file: (u64, u64)) -> Self {
        let process = std::process::id();
        with_own(|own| own.push((process, file)));
        Self(process, file)
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        with_own(|own| own.retain(|file| *file != (self.0, self.1)));
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{SystemTime, UNIX_EPOCH};

    use zerocopy::{FromBytes, IntoBytes};

    use super::*;

    fn now() -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed()
    }

    fn header(pid: i32, flags: Flags) -> Header {
        let header = Header::read_from_bytes(&[0; Header::BYTES]).unwrap();
        Header { magic: MAGIC, flags: flags.raw(), pid, ..header }
    }

    #[test]
    fn a_process_that_is_younger_than_the_file_does_not_feed_it() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id().cast_signed();
        let begun = started(pid).unwrap();
        assert!((begun - now()).abs() <= SLACK, "{begun}");
        let fed = header(pid, Flags::PROCESS);
        assert!(is_fed(&fed, begun) && is_fed(&fed, begun + 1_000));
        assert!(!is_fed(&fed, begun - SLACK - 1), "its number belonged to another process");
        assert!(!is_fed(&header(pid, Flags::from_raw(0)), begun));
        child.kill().unwrap();
        while is_running(pid) {
            sleep(Duration::from_millis(1));
        }
        assert!(!is_fed(&fed, begun), "it is dead, although not waited for");
        child.wait().unwrap();
        for pid in [0, -1, i32::MAX, std::process::id().cast_signed()] {
            assert!(!is_fed(&header(pid, Flags::PROCESS), now()), "{pid}");
        }
    }

    #[test]
    fn a_claim_depends_on_lock_process_and_owner() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app");
        assert!(matches!(claim(&path), Claim::Gone));
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(matches!(claim(&path), Claim::Free(None)));
        std::fs::remove_file(&path).unwrap();
        // The process that runs this test lives longer than the test.
        let parent = nix::unistd::getppid().as_raw();
        std::fs::write(&path, header(parent, Flags::PROCESS).as_bytes()).unwrap();
        assert!(matches!(claim(&path), Claim::Running(pid) if pid == parent));
        let file = File::open(&path).unwrap();
        let own = OwnFile::new(identity(&file.metadata().unwrap()));
        assert!(matches!(claim(&path), Claim::Free(None)));
        drop(own);
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).unwrap();
        assert!(matches!(claim(&path), Claim::Locked(pid) if pid == parent));
        drop(lock);
        std::fs::write(&path, "junk").unwrap();
        let free = claim(&path);
        assert!(matches!(free, Claim::Free(Some(_))));
        assert!(matches!(claim(&path), Claim::Locked(0)), "one replaces it at a time");
    }
}
