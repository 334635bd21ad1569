//! Removes the files of processes that have ended, after a time, if configured.
//!
//! A file is removed only if all of this holds. The sampler knows which processes were
//! harvested while they lived; the housekeeping thread checks everything else just
//! before the removal.
//!
//! | condition | reason |
//! |---|---|
//! | the file has the PROCESS flag | a file that is to outlast its program stays |
//! | this agent, or an earlier run of it, saw the process live and end, and logged its last values | a number that never belonged to a process here proves nothing |
//! | no process has had that number since that one was started | no living process is meant |
//! | no process has that number in another PID namespace | nor one over there |
//! | the name is still that inode's, and no link | no other file is removed |
//!
//! Between the last check and the removal are some microseconds in which another file
//! could get the name: a process that can do that can remove that file as well.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Duration;

use mmv_format::layout::Header;
use mmv_format::view::Flags;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use zerocopy::FromBytes as _;

use super::directory::{identity_in, open_in};
use super::{FileId, Producer, liveness};

/// A file whose process has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeadFile {
    pub directory: PathBuf,
    /// Name within the directory.
    pub name: OsString,
    pub id: FileId,
    pub process: Producer,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RemovalRefusal {
    #[error("its name is gone or refers to another file")]
    Another,
    #[error("its header names another process than {pid}")]
    TakenOver {
        /// Pid of its producer.
        pid: i32,
    },
    #[error("process {pid} may still be running")]
    Alive { pid: i32 },
    /// A process in another PID namespace may be meant.
    #[error("a process in another PID namespace may have pid {pid}")]
    Elsewhere { pid: i32 },
    #[error("{0}")]
    Refused(#[from] io::Error),
}

/// The housekeeping thread's answer to a removal request.
#[derive(Debug)]
pub(crate) struct RemovalOutcome {
    pub file: DeadFile,
    pub result: Result<(), RemovalRefusal>,
}

impl From<Errno> for RemovalRefusal {
    fn from(errno: Errno) -> Self {
        match errno {
            // No file, a link, or another file system.
            Errno::ENOENT | Errno::ELOOP | Errno::EXDEV => Self::Another,
            errno => Self::Refused(errno.into()),
        }
    }
}

/// Removal requests for files whose processes have ended.
#[derive(Debug, Default)]
pub(crate) struct Removal {
    /// Minimum time since the process has ended; `None` disables removal.
    after: Option<Duration>,
    /// Files that were requested already; removal is tried once for each.
    requested: HashSet<FileId>,
    due: Vec<DeadFile>,
}

impl Removal {
    /// Changes the minimum time. Files that could not be removed are tried once more.
    pub(crate) fn set_after(&mut self, after: Option<Duration>) {
        self.after = after;
        self.requested.clear();
    }

    /// Requests the removal of a file whose process ended `gone` ago, if that is long enough.
    pub(crate) fn request(&mut self, dead: DeadFile, gone: Duration) {
        if self.after.is_some_and(|after| gone >= after) && self.requested.insert(dead.id) {
            self.due.push(dead);
        }
    }

    pub(crate) fn retain(&mut self, listed: &HashSet<FileId>) {
        self.requested.retain(|id| listed.contains(id));
    }

    /// Returns the files requested since the last call.
    pub(crate) fn take_requests(&mut self) -> Vec<DeadFile> {
        std::mem::take(&mut self.due)
    }
}

/// Converts the error of a call for a file in the directory.
fn not_removed(error: io::Error) -> RemovalRefusal {
    match error.raw_os_error() {
        Some(errno) => Errno::from_raw(errno).into(),
        None => error.into(),
    }
}

/// Removes a file, if all conditions hold.
///
/// # Errors
///
/// [`RemovalRefusal`].
pub(crate) fn remove(dead: &DeadFile) -> Result<(), RemovalRefusal> {
    let DeadFile { directory, name, id, process } = dead;
    let pid = process.pid;
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let directory = open(directory, flags | OFlag::O_DIRECTORY, Mode::empty())?;
    let file = open_in(&directory, name).map_err(not_removed)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || FileId::new(&metadata) != *id {
        return Err(RemovalRefusal::Another);
    }
    let mut header = [0; Header::BYTES];
    file.read_exact_at(&mut header, 0)?;
    let is_fed_by_it = Header::read_from_bytes(&header).is_ok_and(|header| {
        Flags::from_raw(header.flags).contains(Flags::PROCESS)
            && (header.pid, header.generation1) == (pid, process.generation)
    });
    if !is_fed_by_it {
        return Err(RemovalRefusal::TakenOver { pid });
    }
    if !liveness::has_ended(pid, process.started) {
        return Err(RemovalRefusal::Alive { pid });
    }
    if liveness::may_be_elsewhere(pid) {
        return Err(RemovalRefusal::Elsewhere { pid });
    }
    if identity_in(&directory, name).map_err(not_removed)? != *id {
        return Err(RemovalRefusal::Another);
    }
    Ok(unlinkat(&directory, name.as_os_str(), UnlinkatFlags::NoRemoveDir)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use mmv_writer::Registry;
    use tempfile::TempDir;

    use super::*;
    use crate::discovery::Process;

    /// The file "app" of a process that has ended, with or without the PROCESS flag.
    fn left_behind(flagged: bool) -> (TempDir, DeadFile) {
        let workshop = tempfile::tempdir().unwrap();
        let registry = Registry::builder("app").directory(workshop.path()).process(flagged);
        let published = registry.build().unwrap().publish().unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        let started = Process::find(pid).unwrap().started;
        child.kill().unwrap();
        child.wait().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app");
        fs::copy(published.path(), &path).unwrap();
        set_pid(&path, pid);
        let id = FileId::new(&path.metadata().unwrap());
        let process = Producer { pid, generation: published.generation(), started, ended: true };
        let directory = dir.path().to_owned();
        (dir, DeadFile { directory, name: "app".into(), id, process })
    }

    fn set_pid(path: &std::path::Path, pid: i32) {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        let at = std::mem::offset_of!(Header, pid) as u64;
        file.write_all_at(&pid.to_ne_bytes(), at).unwrap();
    }

    #[test]
    fn a_file_whose_process_has_ended_is_removed() {
        let (dir, dead) = left_behind(true);
        remove(&dead).unwrap();
        assert!(!dir.path().join("app").exists());
        assert!(matches!(remove(&dead), Err(RemovalRefusal::Another)), "it is gone");
    }

    #[test]
    fn a_file_without_the_flag_stays() {
        let (dir, dead) = left_behind(false);
        assert!(matches!(remove(&dead), Err(RemovalRefusal::TakenOver { .. })));
        assert!(dir.path().join("app").exists());
    }

    #[test]
    fn a_file_of_a_living_process_stays() {
        let (dir, mut dead) = left_behind(true);
        let path = dir.path().join("app");
        let pid = std::process::id() as i32;
        set_pid(&path, pid);
        assert!(matches!(remove(&dead), Err(RemovalRefusal::TakenOver { .. })));
        dead.process.pid = pid;
        dead.process.started = Process::find(pid).unwrap().started;
        assert!(matches!(remove(&dead), Err(RemovalRefusal::Alive { .. })));
        assert!(path.exists());
        // Another process has got the number.
        dead.process.started -= 1;
        remove(&dead).unwrap();
    }

    #[test]
    fn a_file_that_took_the_name_stays() {
        let (dir, dead) = left_behind(true);
        let path = dir.path().join("app");
        let copy = dir.path().join("copy");
        fs::copy(&path, &copy).unwrap();
        fs::rename(&copy, &path).unwrap();
        assert!(matches!(remove(&dead), Err(RemovalRefusal::Another)));
        assert!(path.exists());
    }

    #[test]
    fn neither_a_link_nor_what_it_names_is_removed() {
        let (dir, dead) = left_behind(true);
        let path = dir.path().join("app");
        let aside = dir.path().join("aside");
        fs::rename(&path, &aside).unwrap();
        symlink(&aside, &path).unwrap();
        assert!(matches!(remove(&dead), Err(RemovalRefusal::Another)));
        assert!(aside.exists() && path.is_symlink());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(matches!(remove(&dead), Err(RemovalRefusal::Another)));
    }

    #[test]
    fn file_stays_if_another_namespace_has_its_pid() {
        let (_dir, dead) = left_behind(true);
        let pid = dead.process.pid;
        // The next process forked there gets the number of the dead one.
        let script = "echo $(($0 - 1)) > /proc/sys/kernel/ns_last_pid || exit; sleep 60 & wait";
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]);
        let Ok(mut child) = command.args(["sh", "-c", script, &pid.to_string()]).spawn() else {
            return;
        };
        let pause = || std::thread::sleep(Duration::from_millis(5));
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        let seen = loop {
            if liveness::may_be_elsewhere(pid) {
                break true;
            }
            if child.try_wait().unwrap().is_some() || std::time::Instant::now() > deadline {
                break false;
            }
            pause();
        };
        let outcome = remove(&dead);
        // unshare ends at once where namespaces may not be created.
        let works = child.try_wait().unwrap().is_none();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen, works);
        assert_eq!(matches!(outcome, Err(RemovalRefusal::Elsewhere { .. })), works);
        while liveness::may_be_elsewhere(pid) {
            pause();
        }
        assert_eq!(remove(&dead).is_ok(), works);
    }

    #[test]
    fn a_file_is_requested_once_after_the_configured_time() {
        const SECOND: Duration = Duration::from_secs(1);
        let (_dir, dead) = left_behind(true);
        let mut removal = Removal::default();
        removal.request(dead.clone(), SECOND * 1_000_000);
        assert_eq!(removal.take_requests(), [], "removal is disabled");
        removal.set_after(Some(SECOND * 10));
        removal.request(dead.clone(), SECOND * 9);
        assert_eq!(removal.take_requests(), []);
        removal.request(dead.clone(), SECOND * 10);
        removal.request(dead.clone(), SECOND * 11);
        assert_eq!(removal.take_requests(), std::slice::from_ref(&dead));
        removal.retain(&HashSet::from([dead.id]));
        removal.request(dead.clone(), SECOND * 12);
        assert_eq!(removal.take_requests(), [], "a file is requested once");
        removal.set_after(Some(SECOND * 10));
        removal.request(dead.clone(), SECOND * 13);
        assert_eq!(removal.take_requests(), [dead]);
        removal.retain(&HashSet::new());
        assert!(removal.requested.is_empty(), "files that are gone are forgotten");
    }
}
