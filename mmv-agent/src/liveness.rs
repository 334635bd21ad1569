//! Whether the process that feeds an MMV file is still there.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A process that was alive when asked for.
///
/// Its number may be given to another process once it has ended. A pidfd is
/// not fooled by that; where the system has none, the start time tells.
#[derive(Debug)]
pub(crate) struct Process {
    pid: i32,
    started: u64,
    pidfd: Option<OwnedFd>,
}

impl Process {
    /// Looks for the process; `None` if there is none with that number.
    pub(crate) fn find(pid: i32) -> Option<Self> {
        // A file may claim any number, and rustix takes no negative one.
        let number = Pid::from_raw(pid.max(0))?;
        let pidfd = match pidfd_open(number, PidfdFlags::empty()) {
            Ok(pidfd) => Some(pidfd),
            Err(Errno::SRCH) => return None,
            // Not this process's leader, forbidden, or an old system.
            Err(_) => None,
        };
        Some(Self { pid, started: start_time(pid)?, pidfd })
    }

    /// The process number.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// When it started, in clock ticks after boot: with the number this names
    /// one process for as long as the machine runs.
    pub(crate) fn started(&self) -> u64 {
        self.started
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&self) -> bool {
        let Some(pidfd) = &self.pidfd else {
            return start_time(self.pid) == Some(self.started);
        };
        let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
        // Readable means ended; a poll that fails says nothing.
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) != Ok(1)
    }
}

/// Field 22 of `/proc/<pid>/stat` (`proc_pid_stat(5)`).
fn start_time(pid: i32) -> Option<u64> {
    parse_start_time(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The command's name, field 2, is in parentheses and may hold anything, so
/// fields are counted from the last closing one.
fn parse_start_time(stat: &[u8]) -> Option<u64> {
    let close = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = str::from_utf8(stat.get(close + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
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
    fn a_process_that_was_killed_is_dead_even_before_it_is_waited_for() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::find(child.id() as i32).unwrap();
        assert!(process.is_alive());
        child.kill().unwrap();
        let dead = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            !process.is_alive()
        });
        assert!(dead);
        child.wait().unwrap();
        assert!(Process::find(child.id() as i32).is_none());
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
        assert_eq!(parse_start_time(stat), Some(4711));
        assert_eq!(parse_start_time(b"7 (x"), None);
        assert_eq!(parse_start_time(b"7 (x) S 1"), None);
    }
}
