//! Files that programs left behind when they died: removed after a time, if that is
//! wanted.
//!
//! A file goes only if all of this holds. The sampler knows who was harvested, lived
//! and ended; the keeper looks at all the rest just before.
//!
//! | | so that |
//! |---|---|
//! | it has the PROCESS flag | a file that is to outlast its program does |
//! | this agent, or an earlier run of it, saw its process live and end, and took its last values | a number that was never anybody's here proves nothing |
//! | no process has that number since that was started then | nothing that lives is meant |
//! | no process has that number for itself in another namespace | nor there |
//! | the name is still that inode's, and no link | nothing else is hit |
//!
//! Between the last look and the removal are some microseconds in which somebody
//! could put another file under the name: who may do so may remove that one as well.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Duration;

use mmv_writer::layout::Header;
use mmv_writer::view::Flags;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{Mode, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use zerocopy::FromBytes as _;

use crate::liveness;
use crate::roster::FileId;
use crate::state::Feeder;

/// A file whose process is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dead {
    /// Where it is.
    pub directory: PathBuf,
    /// Its name there.
    pub name: OsString,
    /// Which file it is.
    pub id: FileId,
    /// The process that it counted with.
    pub process: Feeder,
}

/// Why a file stays that was to be removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stays {
    /// Somebody was faster.
    #[error("another file has its name, or none")]
    Another,
    /// Its header has changed.
    #[error("it does not count with process {pid} any more")]
    TakenOver {
        /// The process that it counted with.
        pid: i32,
    },
    /// Its process may live.
    #[error("its process {pid} may live")]
    Alive {
        /// The process.
        pid: i32,
    },
    /// A process in another namespace may be meant.
    #[error("a process in another PID namespace may have the number {pid}")]
    Elsewhere {
        /// The number.
        pid: i32,
    },
    /// The system does not let us.
    #[error("{0}")]
    Refused(#[from] io::Error),
}

impl From<Errno> for Stays {
    fn from(errno: Errno) -> Self {
        match errno {
            // No file, or a link.
            Errno::ENOENT | Errno::ELOOP => Self::Another,
            errno => Self::Refused(errno.into()),
        }
    }
}

/// Which files are due.
#[derive(Debug, Default)]
pub(crate) struct Removal {
    /// How long a process has to be gone; `None`: nothing is removed.
    after: Option<Duration>,
    /// What was due already: each file once, so that what is refused is not tried, and
    /// told, again and again.
    asked: HashSet<FileId>,
    due: Vec<Dead>,
}

impl Removal {
    /// Another time from now on. What was refused may be tried once more.
    pub(crate) fn change(&mut self, after: Option<Duration>) {
        self.after = after;
        self.asked.clear();
    }

    /// A file's process has been gone for so long.
    pub(crate) fn note(&mut self, dead: Dead, gone: Duration) {
        if self.after.is_some_and(|after| gone >= after) && self.asked.insert(dead.id) {
            self.due.push(dead);
        }
    }

    /// Only these files are there.
    pub(crate) fn keep(&mut self, listed: &HashSet<FileId>) {
        self.asked.retain(|id| listed.contains(id));
    }

    /// Those that have become due.
    pub(crate) fn take(&mut self) -> Vec<Dead> {
        std::mem::take(&mut self.due)
    }
}

/// Removes a file, if nothing speaks against it.
///
/// # Errors
///
/// Why it [`Stays`].
pub(crate) fn remove(dead: &Dead) -> Result<(), Stays> {
    let Dead { directory, name, id, process } = dead;
    let pid = process.pid;
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let directory = open(directory, flags | OFlag::O_DIRECTORY, Mode::empty())?;
    let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = File::from(openat(&directory, name.as_os_str(), flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() || FileId::of(&metadata) != *id {
        return Err(Stays::Another);
    }
    let mut header = [0; Header::BYTES];
    file.read_exact_at(&mut header, 0)?;
    let counts = Header::read_from_bytes(&header).is_ok_and(|header| {
        Flags::from_raw(header.flags).contains(Flags::PROCESS)
            && (header.pid, header.generation1) == (pid, process.generation)
    });
    if !counts {
        return Err(Stays::TakenOver { pid });
    }
    if !liveness::has_ended(pid, process.started) {
        return Err(Stays::Alive { pid });
    }
    if liveness::may_be_elsewhere(pid) {
        return Err(Stays::Elsewhere { pid });
    }
    let found = fstatat(&directory, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
    if (found.st_dev, found.st_ino) != (id.device, id.inode) {
        return Err(Stays::Another);
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
    use crate::liveness::Process;

    /// The file "app" of a process that was there; `flagged`: it counts with it.
    fn left_behind(flagged: bool) -> (TempDir, Dead) {
        let workshop = tempfile::tempdir().unwrap();
        let registry = Registry::builder("app").directory(workshop.path()).process(flagged);
        let published = registry.build().unwrap().publish().unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        let started = Process::find(pid).unwrap().started();
        child.kill().unwrap();
        child.wait().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app");
        fs::copy(published.path(), &path).unwrap();
        set_pid(&path, pid);
        let id = FileId::of(&path.metadata().unwrap());
        let process = Feeder { pid, generation: published.generation(), started, ended: true };
        let directory = dir.path().to_owned();
        (dir, Dead { directory, name: "app".into(), id, process })
    }

    fn set_pid(path: &std::path::Path, pid: i32) {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        let at = std::mem::offset_of!(Header, pid) as u64;
        file.write_all_at(&pid.to_ne_bytes(), at).unwrap();
    }

    #[test]
    fn what_a_dead_process_left_is_removed() {
        let (dir, dead) = left_behind(true);
        remove(&dead).unwrap();
        assert!(!dir.path().join("app").exists());
        assert!(matches!(remove(&dead), Err(Stays::Another)), "it is gone");
    }

    #[test]
    fn a_file_without_the_flag_stays() {
        let (dir, dead) = left_behind(false);
        assert!(matches!(remove(&dead), Err(Stays::TakenOver { .. })));
        assert!(dir.path().join("app").exists());
    }

    #[test]
    fn a_file_of_a_living_process_stays() {
        let (dir, mut dead) = left_behind(true);
        let path = dir.path().join("app");
        let pid = std::process::id() as i32;
        set_pid(&path, pid);
        assert!(matches!(remove(&dead), Err(Stays::TakenOver { .. })));
        dead.process.pid = pid;
        dead.process.started = Process::find(pid).unwrap().started();
        assert!(matches!(remove(&dead), Err(Stays::Alive { .. })));
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
        assert!(matches!(remove(&dead), Err(Stays::Another)));
        assert!(path.exists());
    }

    #[test]
    fn neither_a_link_nor_what_it_names_is_removed() {
        let (dir, dead) = left_behind(true);
        let (path, aside) = (dir.path().join("app"), dir.path().join("aside"));
        fs::rename(&path, &aside).unwrap();
        symlink(&aside, &path).unwrap();
        assert!(matches!(remove(&dead), Err(Stays::Another)));
        assert!(aside.exists() && path.is_symlink());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(matches!(remove(&dead), Err(Stays::Another)));
    }

    #[test]
    fn a_file_of_a_number_that_a_process_has_in_another_namespace_stays() {
        let (_dir, dead) = left_behind(true);
        let pid = dead.process.pid;
        // Whoever is forked there next has the dead one's number, there.
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
        let stays = remove(&dead);
        // Not everybody may make a namespace, and then unshare has ended.
        let works = child.try_wait().unwrap().is_none();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen, works);
        assert_eq!(matches!(stays, Err(Stays::Elsewhere { .. })), works);
        while liveness::may_be_elsewhere(pid) {
            pause();
        }
        assert_eq!(remove(&dead).is_ok(), works);
    }

    #[test]
    fn a_file_is_due_once_when_its_time_is_over() {
        const SECOND: Duration = Duration::from_secs(1);
        let (_dir, dead) = left_behind(true);
        let mut removal = Removal::default();
        removal.note(dead.clone(), SECOND * 1_000_000);
        assert_eq!(removal.take(), [], "unless that is wanted");
        removal.change(Some(SECOND * 10));
        removal.note(dead.clone(), SECOND * 9);
        assert_eq!(removal.take(), []);
        removal.note(dead.clone(), SECOND * 10);
        removal.note(dead.clone(), SECOND * 11);
        assert_eq!(removal.take(), std::slice::from_ref(&dead));
        removal.keep(&HashSet::from([dead.id]));
        removal.note(dead.clone(), SECOND * 12);
        assert_eq!(removal.take(), [], "also when it stays");
        removal.change(Some(SECOND * 10));
        removal.note(dead.clone(), SECOND * 13);
        assert_eq!(removal.take(), [dead]);
        removal.keep(&HashSet::new());
        assert!(removal.asked.is_empty(), "what is gone is forgotten");
    }
}
