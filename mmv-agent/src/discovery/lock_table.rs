//! Finds the process of a file by the lock that it holds.
//!
//! The PID in a header is valid in the process's own PID namespace. For a program in a container no
//! process of the host has that PID, or an unrelated one. mmv-writer holds a lock (`flock(2)`) on
//! its file until its process ends, and `/proc/locks` (`proc_locks(5)`) lists the PID of the holder in
//! the namespace of the reader.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use nix::sys::stat::makedev;

use super::liveness::{Process, number_in_innermost_namespace};
use crate::limits::ROOT;

/// Time for which a known lock is not looked up again. An agent that starts may open thousands of
/// files, and each lookup reads all locks of the system.
const KEEP: Duration = Duration::from_millis(100);

/// Device and inode of a file.
type FileKey = (u64, u64);

/// The locks of the system when they were last read.
#[derive(Debug, Default)]
pub(crate) struct LockTable {
    holders: HashMap<FileKey, i32>,
    read_at: Option<Instant>,
}

impl LockTable {
    /// Finds the process of a file by the PID in its header. Locks are consulted if no process of the
    /// file's owner has that PID, and always for files of root: PIDs in containers are small, and
    /// most small PIDs of the host are those of root's processes.
    pub(crate) fn find_process(&mut self, number: i32, file: &Metadata) -> Option<Process> {
        let owner = file.uid();
        let named = Process::find(number);
        let is_owners = named.as_ref().is_some_and(|process| user_of(process.pid) == Some(owner));
        if is_owners && owner != ROOT {
            return named;
        }
        self.holder(number, file).or(named)
    }

    /// Returns the process that holds the lock of a file, if it has this PID in its own namespace and
    /// runs as the owner of the file or as root: anyone who can read a file can lock it.
    fn holder(&mut self, number: i32, file: &Metadata) -> Option<Process> {
        let key = (file.dev(), file.ino());
        let is_recent = self.read_at.is_some_and(|read_at| read_at.elapsed() < KEEP);
        if !is_recent || !self.holders.contains_key(&key) {
            let locks = fs::read_to_string("/proc/locks").ok()?;
            self.holders = locks.lines().filter_map(parse_line).collect();
            self.read_at = Some(Instant::now());
        }
        let pid = *self.holders.get(&key)?;
        let user = user_of(pid)?;
        let is_publisher = [file.uid(), ROOT].contains(&user);
        if !is_publisher || number_in_innermost_namespace(pid) != Some(number) {
            return None;
        }
        let mut process = Process::find(pid)?;
        process.number = number;
        Some(process)
    }
}

/// Returns the file and the holder of an `flock(2)` lock. Lines of waiting processes have an arrow
/// in front of the kind.
fn parse_line(line: &str) -> Option<(FileKey, i32)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    if fields.next() != Some("FLOCK") {
        return None;
    }
    let pid = fields.nth(2)?.parse().ok()?;
    let mut file = fields.next()?.split(':');
    let major = u64::from_str_radix(file.next()?, 16).ok()?;
    let minor = u64::from_str_radix(file.next()?, 16).ok()?;
    let inode = file.next()?.parse().ok()?;
    Some(((makedev(major, minor), inode), pid))
}

fn user_of(pid: i32) -> Option<u32> {
    Some(fs::metadata(format!("/proc/{pid}")).ok()?.uid())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::{Child, Command, Stdio};

    use nix::fcntl::{Flock, FlockArg};
    use tempfile::NamedTempFile;

    use super::*;

    /// Starts a process that holds the lock of a file, in this PID namespace or as PID 1 of its own;
    /// `None` if namespaces are not permitted.
    fn lock_holder(file: &NamedTempFile, in_namespace: bool) -> Option<Child> {
        let mut command = Command::new(if in_namespace { "unshare" } else { "flock" });
        if in_namespace {
            command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "flock"]);
        }
        let mut child = command
            .arg("--no-fork")
            .arg(file.path())
            .args(["sh", "-c", "echo locked; exec sleep 60"])
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut line = String::new();
        let output = child.stdout.take()?;
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).ok()?;
        if line.is_empty() {
            let _ = child.wait();
            return None;
        }
        Some(child)
    }

    #[test]
    fn process_in_a_container_is_found_by_its_lock_until_it_ends() {
        let file = NamedTempFile::new().unwrap();
        let metadata = file.as_file().metadata().unwrap();
        let Some(mut child) = lock_holder(&file, true) else {
            eprintln!("skipped: this system permits no namespaces");
            return;
        };
        let mut locks = LockTable::default();
        let found = locks.find_process(1, &metadata).expect("the process with the lock");
        assert_ne!(found.pid, 1, "that is the first process of the host");
        assert_eq!(found.number, 1);
        assert!(found.is_alive());
        // The lock holder is not returned for any other number.
        let other = locks.find_process(2, &metadata);
        assert!(other.is_none_or(|other| other.pid == 2));
        child.kill().unwrap();
        child.wait().unwrap();
        let has_ended = (0..1_000).any(|_| {
            std::thread::sleep(Duration::from_millis(2));
            !found.is_alive()
        });
        assert!(has_ended);
    }

    #[test]
    fn process_with_the_lock_and_the_number_is_the_one_named() {
        let file = NamedTempFile::new().unwrap();
        let metadata = file.as_file().metadata().unwrap();
        let mut child = lock_holder(&file, false).expect("flock");
        let pid = child.id().cast_signed();
        let found = LockTable::default().find_process(pid, &metadata).expect("the process");
        assert_eq!((found.pid, found.number), (pid, pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(LockTable::default().find_process(pid, &metadata).is_none());
    }

    #[test]
    fn locks_of_other_kinds_are_no_locks_of_files() {
        let file = NamedTempFile::new().unwrap();
        let metadata = file.as_file().metadata().unwrap();
        let lock = Flock::lock(File::open(file.path()).unwrap(), FlockArg::LockShared).unwrap();
        let locks = fs::read_to_string("/proc/locks").unwrap();
        let key = (metadata.dev(), metadata.ino());
        let line = locks.lines().find(|line| parse_line(line).is_some_and(|(file, _)| file == key));
        let line = line.expect("the lock of this test");
        assert_eq!(parse_line(line).unwrap().1, std::process::id().cast_signed());
        for other in [
            line.replace("FLOCK", "POSIX"),
            line.replace("FLOCK", "-> FLOCK"),
            String::new(),
            "1: FLOCK  ADVISORY  WRITE 12 zz:00:5 0 EOF".to_owned(),
            "1: FLOCK  ADVISORY  WRITE 12".to_owned(),
        ] {
            assert_eq!(parse_line(&other), None, "{other}");
        }
        drop(lock);
    }
}
