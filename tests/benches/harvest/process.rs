//! A child process with its CPU time.

use std::fs;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use wait4::Wait4 as _;

pub(crate) struct Process {
    child: Child,
    name: String,
}

impl Process {
    pub(crate) fn spawn(command: &mut Command, name: &str) -> Result<Self, String> {
        let child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        Ok(Self { child, name: name.to_owned() })
    }

    /// Returns the CPU time of all threads now alive (`/proc/PID/task/*/schedstat`, first field,
    /// nanoseconds).
    pub(crate) fn cpu(&self) -> Result<Duration, String> {
        let tasks = format!("/proc/{}/task", self.child.id());
        let context = |error| format!("{}: {tasks}: {error}", self.name);
        let mut nanos = 0;
        for task in fs::read_dir(&tasks).map_err(context)? {
            let path = task.map_err(context)?.path().join("schedstat");
            // A thread may end between the listing and the reading.
            let Ok(text) = fs::read_to_string(path) else { continue };
            nanos += text.split_ascii_whitespace().next().map_or(0, |n| n.parse().unwrap_or(0));
        }
        Ok(Duration::from_nanos(nanos))
    }

    /// Returns the process's anonymous memory in bytes (`RssAnon`).
    pub(crate) fn memory(&self) -> Result<u64, String> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let kilobytes = field(&text, "RssAnon:").ok_or_else(|| format!("{path}: no RssAnon"))?;
        Ok(kilobytes * 1024)
    }

    /// Returns how many times its threads have waited and been woken up.
    pub(crate) fn wakeups(&self) -> Result<u64, String> {
        let tasks = format!("/proc/{}/task", self.child.id());
        let context = |error| format!("{}: {tasks}: {error}", self.name);
        let mut count = 0;
        for task in fs::read_dir(&tasks).map_err(context)? {
            let path = task.map_err(context)?.path().join("status");
            let Ok(text) = fs::read_to_string(path) else { continue };
            count += field(&text, "voluntary_ctxt_switches:").unwrap_or(0);
        }
        Ok(count)
    }

    /// Checks that the process still runs; an error states how it ended.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("{} ended early: {status}", self.name)),
            Err(error) => Err(format!("{}: {error}", self.name)),
        }
    }

    pub(crate) fn stop(mut self) -> Result<(), String> {
        self.terminate();
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            if self.child.try_wait().map_err(|error| error.to_string())?.is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(format!("{} does not end on SIGTERM", self.name))
    }

    /// Asks the process to end and waits. Returns its CPU time, of threads that have ended
    /// as well.
    pub(crate) fn stop_counted(mut self) -> Result<Duration, String> {
        self.terminate();
        let used = self.child.wait4().map_err(|error| format!("{}: {error}", self.name))?;
        Ok(used.rusage.utime + used.rusage.stime)
    }

    fn terminate(&self) {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        // Fails only if the process has ended, which is what is wanted.
        let _ = kill(pid, Signal::SIGTERM);
    }
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
