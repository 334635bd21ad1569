//! The users whose processes hold the lock of a file.
//!
//! A file that everybody may read can be locked by everybody. Only a lock of the file's
//! owner or of root means that the file is being published.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;

use nix::sys::stat::{major, minor};

/// Returns whether the lock of a locked file belongs to users other than the file's owner and root,
/// or to processes that have ended (a child has the lock of its parent), by `proc_locks(5)`.
///
/// Returns false if the holders are unknown: locks of processes in other PID namespaces are not
/// listed.
pub fn is_locked_by_strangers(file: &Metadata) -> bool {
    let Ok(locks) = fs::read_to_string("/proc/locks") else { return false };
    let mut holders = holders(&locks, file).peekable();
    holders.peek().is_some() && holders.all(|process| is_stranger(process, file.uid()))
}

/// Returns the processes that hold a `flock(2)` lock on a file.
fn holders<'l>(locks: &'l str, file: &Metadata) -> impl Iterator<Item = &'l str> {
    let device = file.dev();
    let inode = file.ino();
    let place = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    locks.lines().filter_map(move |line| {
        // Those that wait for a lock have an arrow in the second field.
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        match fields.as_slice() {
            [_, "FLOCK", _, _, process, found, ..] if *found == place => Some(*process),
            _ => None,
        }
    })
}

fn is_stranger(process: &str, owner: u32) -> bool {
    // Processes of its own user are visible to everybody.
    fs::metadata(format!("/proc/{process}"))
        .map_or(true, |found| found.uid() != owner && found.uid() != 0)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use nix::fcntl::{Flock, FlockArg};
    use nix::unistd::geteuid;

    use super::*;

    /// Starts a process, perhaps of another user, that holds the lock of a file.
    fn locked(path: &std::path::Path, user: Option<u32>) -> Child {
        let mut command = Command::new("flock");
        if let Some(user) = user {
            command = Command::new("setpriv");
            let user = user.to_string();
            command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "flock"]);
        }
        command.arg("--no-fork").arg(path).args(["sleep", "60"]);
        let child = command.spawn().unwrap();
        while Flock::lock(fs::File::open(path).unwrap(), FlockArg::LockSharedNonblock).is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child
    }

    #[test]
    fn a_lock_of_another_user_means_nothing() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = directory.path().join("app");
        fs::write(&path, "words").unwrap();
        assert!(!is_locked_by_strangers(&path.metadata().unwrap()), "there is no lock");
        let mut users = vec![(None, false)];
        if geteuid().is_root() {
            users.push((Some(61_001), true));
        }
        for (user, expected) in users {
            let mut child = locked(&path, user);
            assert_eq!(is_locked_by_strangers(&path.metadata().unwrap()), expected, "{user:?}");
            let claim = super::super::holder::claim(&path);
            let is_free = matches!(claim, super::super::holder::Claim::Free(None));
            assert_eq!(is_free, expected, "{claim:?}");
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn only_locks_of_this_file_that_are_held_count() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().metadata().unwrap();
        let device = file.dev();
        let inode = file.ino();
        let place = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
        let text = format!(
            "1: FLOCK  ADVISORY  WRITE 12 {place} 0 EOF\n\
             1: -> FLOCK  ADVISORY  WRITE 13 {place} 0 EOF\n\
             2: POSIX  ADVISORY  WRITE 14 {place} 0 EOF\n\
             3: FLOCK  ADVISORY  WRITE 15 {place}1 0 EOF\n\
             4: FLOCK  ADVISORY  READ  16 {place} 0 EOF\n\
             5: FLOCK\n"
        );
        assert_eq!(holders(&text, &file).collect::<Vec<_>>(), ["12", "16"]);
    }
}
