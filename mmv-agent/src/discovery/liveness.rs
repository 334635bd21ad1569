//! Tells whether the process that feeds an MMV file is alive.
//!
//! A file has the pid of its process in that process's own PID namespace. To an agent outside a
//! container such a pid belongs to no process, or by chance to another one. The
//! [`LockTable`](super::LockTable) still finds a process that holds the lock of its file, but no
//! others, so a missing pid does not prove that the process has ended: see [`may_be_elsewhere`].

use std::fs;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};

/// A process that was alive when it was looked up.
///
/// Its pid may be reused once it has ended. A pidfd stays with the process; where the system has
/// none, the start time is compared.
#[derive(Debug)]
pub(crate) struct Process {
    pub pid: i32,
    /// PID in the header of its file, which is valid in its own PID namespace.
    pub number: i32,
    /// Start time in clock ticks since boot.
    pub started: u64,
    pidfd: Option<OwnedFd>,
}

impl Process {
    /// Looks up a process; `None` if no process has that pid, or only one that has exited and
    /// waits to be reaped.
    pub(crate) fn find(pid: i32) -> Option<Self> {
        // A file may contain any number, and rustix accepts no negative one.
        let number = Pid::from_raw(pid.max(0))?;
        let pidfd = match pidfd_open(number, PidfdFlags::empty()) {
            Ok(pidfd) => Some(pidfd),
            Err(Errno::SRCH) => return None,
            // Not this process's leader, forbidden, or an old system.
            Err(_) => None,
        };
        let process = Self { pid, number: pid, started: stat(pid)?.started, pidfd };
        process.is_alive().then_some(process)
    }

    /// Describes a process that has ended.
    pub(crate) fn ended(pid: i32) -> Self {
        // No process that could get the number has this start time.
        Self { pid, number: pid, started: 0, pidfd: None }
    }

    /// Returns true if the process still runs.
    pub(crate) fn is_alive(&self) -> bool {
        let Some(pidfd) = &self.pidfd else {
            return stat(self.pid)
                .is_some_and(|stat| stat.started == self.started && !stat.has_exited());
        };
        let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
        // Readable means ended; a failed poll proves nothing.
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) != Ok(1)
    }
}

/// Returns true if the process with this pid and start time has certainly ended; false if the
/// system hides it.
pub(crate) fn has_ended(pid: i32, started: u64) -> bool {
    if let Some(process) = Process::find(pid) {
        return process.started != started;
    }
    let number = Pid::from_raw(pid.max(0));
    stat(pid).is_some_and(Stat::has_exited)
        || number.is_none_or(|number| test_kill_process(number) == Err(Errno::SRCH))
}

/// Returns true if a process may have that pid in a PID namespace below ours, and so in the header
/// of its file. Reads the status of all processes; namespaces next to ours or above are not
/// visible.
pub(crate) fn may_be_elsewhere(pid: i32) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    numbers.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).any(|number| {
        match fs::read(format!("/proc/{number}/status")) {
            Ok(status) => numbers_elsewhere(&status).contains(&pid),
            // It has ended meanwhile, or may not be read.
            Err(error) => Errno::from_io_error(&error)
                .is_none_or(|errno| !matches!(errno, Errno::NOENT | Errno::SRCH)),
        }
    })
}

/// Returns the PID of a process in its own PID namespace.
pub(super) fn number_in_innermost_namespace(pid: i32) -> Option<i32> {
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    Some(numbers_elsewhere(&status).last().copied().unwrap_or(pid))
}

/// Returns the pids that a process has in namespaces below ours, from `/proc/<pid>/status`
/// (`proc_pid_status(5)`, `NSpid`: ours first).
fn numbers_elsewhere(status: &[u8]) -> Vec<i32> {
    let mut lines = status.split(|&byte| byte == b'\n');
    let numbers = lines.find_map(|line| line.strip_prefix(b"NSpid:")).unwrap_or_default();
    let numbers = str::from_utf8(numbers).unwrap_or_default().split_ascii_whitespace();
    numbers.skip(1).filter_map(|number| number.parse().ok()).collect()
}

/// Fields of `/proc/<pid>/stat` (`proc_pid_stat(5)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    /// Field 3, a letter.
    state: u8,
    /// Field 22, in clock ticks after boot.
    started: u64,
}

impl Stat {
    /// Returns true if the process has exited and waits to be reaped. A process of which only the
    /// first thread has ended looks the same, so a pidfd is preferred.
    fn has_exited(self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses `/proc/<pid>/stat`. The command's name, field 2, is in parentheses and may hold
/// anything, so fields are counted from the last closing one.
fn parse_stat(stat: &[u8]) -> Option<Stat> {
    let close = stat.iter().rposition(|&byte| byte == b')')?;
    let fields = str::from_utf8(stat.get(close + 1..)?).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    Some(Stat { state, started: fields.nth(18)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn this_process_is_alive() {
        let process = Process::find(std::process::id() as i32).unwrap();
        assert!(process.is_alive());
        let by_start_time = Process { pidfd: None, ..process };
        assert!(by_start_time.is_alive());
        let another = Process { started: by_start_time.started + 1, ..by_start_time };
        assert!(!another.is_alive());
    }

    #[test]
    fn killed_process_is_dead_before_it_is_waited_for() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::find(child.id() as i32).unwrap();
        assert!(process.is_alive());
        child.kill().unwrap();
        let dead = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            !process.is_alive()
        });
        assert!(dead);
        let by_start_time = Process { pidfd: None, ..process };
        assert!(!by_start_time.is_alive());
        assert!(Process::find(child.id() as i32).is_none(), "found before it is reaped");
        child.wait().unwrap();
        assert!(Process::find(child.id() as i32).is_none());
    }

    #[test]
    fn process_has_ended_when_its_pid_is_free_or_reused() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        let started = Process::find(pid).unwrap().started;
        assert!(!has_ended(pid, started));
        assert!(has_ended(pid, started + 1));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(has_ended(pid, started));
    }

    #[test]
    fn a_number_in_a_namespace_below_ours_is_elsewhere() {
        let status = b"Name:\tNSpid: 9\nPid:\t812\nNSpid:\t812\t31\t7\nNSpgid:\t812\t5\n";
        assert_eq!(numbers_elsewhere(status), [31, 7]);
        assert_eq!(numbers_elsewhere(b"NSpid:\t812\n"), [0; 0]);
        assert_eq!(numbers_elsewhere(b"Name:\tx\n"), [0; 0]);
        let own = std::process::id() as i32;
        assert!(!may_be_elsewhere(own));
    }

    #[test]
    fn numbers_that_are_no_process_find_none() {
        for pid in [0, -1, i32::MAX] {
            assert!(Process::find(pid).is_none(), "{pid}");
        }
    }

    #[test]
    fn a_command_called_like_a_stat_line_does_not_shift_the_fields() {
        let stat = b"7 (x) S 1 (y) R 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 4711 23";
        assert_eq!(parse_stat(stat), Some(Stat { state: b'R', started: 4711 }));
        assert_eq!(parse_stat(b"7 (x"), None);
        assert_eq!(parse_stat(b"7 (x) S 1"), None);
    }
}
