//! Environment, user and file system, as far as the choice of directories depends on them.

use std::ffi::OsString;
use std::fs::{Metadata, read, read_to_string};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, User, faccessat, getegid, geteuid, getgid, getuid};

/// The entry of the auxiliary vector that is set if the process has more rights than the one
/// that started it: `AT_SECURE`, `getauxval(3)`.
const AT_SECURE: usize = 23;

/// The properties of a process that the choice of directories depends on.
pub(super) trait Process {
    /// Returns a variable of the environment, if it is set and not empty. A process with more
    /// rights than the one that started it has none.
    fn variable(&self, name: &str) -> Option<OsString>;
    /// Reads a file of PCP's configuration.
    fn text(&self, file: &Path) -> Option<String>;
    /// Returns the effective user.
    fn user(&self) -> u32;
    /// Returns the home directory of that user from the system's list of users.
    fn home(&self) -> Option<PathBuf>;
    /// Returns the directory with a runtime directory for each user who is logged in, see
    /// `pam_systemd(8)`.
    fn runtime_directories(&self) -> &Path;
    /// Returns whether the effective user may create files in a directory.
    fn may_write(&self, directory: &Path) -> bool;

    /// Returns the path in a variable, if it is absolute: the XDG base directory specification
    /// demands that others are ignored.
    fn absolute(&self, name: &str) -> Option<PathBuf> {
        self.variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// Returns whether only this user may write into a directory, so that nobody else can put a
    /// link there. For root, a directory of another user never qualifies.
    fn is_ours(&self, directory: &Path) -> bool {
        let Ok(found) = directory.metadata() else { return false };
        if !found.is_dir() || others_write(&found) {
            return false;
        }
        found.uid() == self.user() || (self.user() != 0 && self.may_write(directory))
    }

    /// Returns whether this user may create a directory and all missing ones above it: whether the
    /// nearest one that exists [is ours](Self::is_ours).
    fn may_create(&self, directory: &Path) -> bool {
        directory.ancestors().find(|path| path.exists()).is_some_and(|path| self.is_ours(path))
    }
}

fn others_write(found: &Metadata) -> bool {
    found.mode() & 0o002 != 0
}

/// The running process, with its real environment.
#[derive(Debug)]
pub(super) struct ThisProcess {
    secure: bool,
}

impl ThisProcess {
    pub(super) fn new() -> Self {
        Self { secure: is_secure() }
    }
}

impl Process for ThisProcess {
    fn variable(&self, name: &str) -> Option<OsString> {
        let value = if self.secure { None } else { std::env::var_os(name) };
        value.filter(|value| !value.is_empty())
    }

    fn text(&self, file: &Path) -> Option<String> {
        read_to_string(file).ok()
    }

    fn user(&self) -> u32 {
        geteuid().as_raw()
    }

    fn home(&self) -> Option<PathBuf> {
        let user = User::from_uid(geteuid()).ok().flatten()?;
        Some(user.dir).filter(|home| home.is_absolute())
    }

    fn runtime_directories(&self) -> &Path {
        Path::new("/run/user")
    }

    fn may_write(&self, directory: &Path) -> bool {
        let flags = AccessFlags::W_OK | AccessFlags::X_OK;
        faccessat(AT_FDCWD, directory, flags, AtFlags::AT_EACCESS).is_ok()
    }
}

/// Returns whether the process has more rights than the one that started it, by setuid, setgid
/// or capabilities of its program. Its environment is then chosen by somebody else.
fn is_secure() -> bool {
    let changed = getuid() != geteuid() || getgid() != getegid();
    changed
        || match read("/proc/self/auxv") {
            Ok(vector) => marked_secure(&vector),
            // The kernel hides it from processes that must not be traced.
            Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
        }
}

/// Returns whether an auxiliary vector, pairs of words, has a nonzero `AT_SECURE`.
fn marked_secure(vector: &[u8]) -> bool {
    let (words, _) = vector.as_chunks::<{ size_of::<usize>() }>();
    let (pairs, _) = words.as_chunks::<2>();
    let mut pairs = pairs.iter().map(|pair| pair.map(usize::from_ne_bytes));
    pairs.any(|[key, value]| key == AT_SECURE && value != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_auxiliary_vector_says_whether_a_process_is_secure() {
        let vector = |pairs: &[[usize; 2]]| {
            pairs.as_flattened().iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>()
        };
        assert!(marked_secure(&vector(&[[6, 4096], [AT_SECURE, 1], [0, 0]])));
        assert!(!marked_secure(&vector(&[[6, AT_SECURE], [AT_SECURE, 0], [0, 1]])));
        assert!(!marked_secure(&vector(&[[AT_SECURE, 1]])[..15]));
        assert!(!marked_secure(b""));
    }

    #[test]
    fn a_test_is_an_ordinary_process() {
        let process = ThisProcess::new();
        assert!(!is_secure());
        assert!(process.variable("PATH").is_some());
        assert!(process.may_write(&std::env::temp_dir()));
    }
}
