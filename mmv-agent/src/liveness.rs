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
    /// Looks for the process; `None` if there is none with that number, or
    /// only what its parent has yet to reap.
    pub(crate) fn find(pid: i32) -> Option<Self> {
        // A file may claim any number, and rustix takes no negative one.
        let number = Pid::from_raw(pid.max(0))?;
        let pidfd = match pidfd_open(number, PidfdFlags::empty()) {
            Ok(pidfd) => Some(pidfd),
            Err(Errno::SRCH) => return None,
            // Not this process's leader, forbidden, or an old system.
            Err(_) => None,
        };
        let process = Self { pid, started: stat(pid)?.started, pidfd };
        process.is_alive().then_some(process)
    }

    /// The process number.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// When it was started, in clock ticks after the system was: no other process
    /// with its number was started then.
    pub(crate) fn started(&self) -> u64 {
        self.started
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&self) -> bool {
        let Some(pidfd) = &self.pidfd else {
            return stat(self.pid)
                .is_some_and(|stat| stat.started == self.started && !stat.is_over());
        };
        let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
        // Readable means ended; a poll that fails says nothing.
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) != Ok(1)
    }
}

/// What `/proc/<pid>/stat` says of a process (`proc_pid_stat(5)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    /// Field 3, a letter.
    state: u8,
    /// Field 22, in clock ticks after boot.
    started: u64,
}

impl Stat {
    /// Whether it has exited and only waits to be reaped. A process whose first
    /// thread alone has ended looks the same here, so a pidfd goes first.
    fn is_over(self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The command's name, field 2, is in parentheses and may hold anything, so
/// fields are counted from the last closing one.
fn parse_stat(stat: &[u8]) -> Option<Stat> {
    let close = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = str::from_utf8(stat.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
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
        let by_start_time = Process { pidfd: None, ..process };
        assert!(!by_start_time.is_alive());
        assert!(Process::find(child.id() as i32).is_none(), "found before it is reaped");
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
        assert_eq!(parse_stat(stat), Some(Stat { state: b'R', started: 4711 }));
        assert_eq!(parse_stat(b"7 (x"), None);
        assert_eq!(parse_stat(b"7 (x) S 1"), None);
    }
}
