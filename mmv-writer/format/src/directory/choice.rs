//! The directory of a program's files, in which an agent looks for them.
//!
//! In come environment, user and file system; out goes a path. The choice itself creates
//! nothing, and what [`MmvDirectory::prepare`] creates does not change the next choice:
//! programs and agents of a user find the same directory in any order of their start.
//!
//! A user's runtime directory comes before the state directory: it is a tmpfs, and of this
//! host alone even if homes are on a network. `/tmp/mmv-UID` would be cleaned by age while
//! files are in use, and is private to services with `PrivateTmp`.

use std::fmt;
use std::fs::{DirBuilder, Permissions, set_permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use super::pcp;
use super::process::{Process, ThisProcess};
use super::user::UserDirectories;
use crate::file::FileError;

/// Mode of the system's directory: any user may create files and remove their own.
const SYSTEM_MODE: u32 = 0o1777;
/// Mode of a user's directory: no access for others.
const USER_MODE: u32 = 0o700;

/// A directory of MMV files, and why it was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MmvDirectory {
    path: PathBuf,
    reason: Reason,
}

/// The reason for a choice of directory. Printed, it is a part of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// PCP's rule with this variable of the environment.
    Variable(&'static str),
    /// PCP's rule without the environment: this user may write there, or create it as
    /// root.
    System,
    /// `mmv` in the user's [runtime directory](UserDirectories::runtime).
    Runtime,
    /// `mmv` in the user's [state directory](UserDirectories::state).
    State,
    /// None suits; the system's directory is named, and cannot be prepared.
    Nowhere,
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(out, "named by ${name}"),
            Self::System => out.write_str("of the whole system"),
            Self::Runtime => out.write_str("of this user, who may not write into the system's"),
            Self::State => out.write_str(
                "of this user, who may not write into the system's and has no runtime directory",
            ),
            Self::Nowhere => out.write_str(
                "of the whole system; this user may not write there and has no other directory",
            ),
        }
    }
}

impl MmvDirectory {
    /// Chooses the directory for files of this process, and for an agent of the same user:
    ///
    /// 1. by PCP's rule, if `PCP_TMP_DIR`, `PCP_CONF` or `PCP_DIR` is set;
    /// 2. by PCP's rule, if it exists and the user may write there, or can be created
    ///    by root;
    /// 3. `mmv` in the user's [runtime directory](UserDirectories::runtime);
    /// 4. `mmv` in the user's [state directory](UserDirectories::state).
    ///
    /// Nothing is created. A program with more rights than the process that started it
    /// does not look at the environment.
    pub fn choose() -> Self {
        Self::from_process(&ThisProcess::new())
    }

    fn from_process(process: &impl Process) -> Self {
        let path = pcp::locate(|name| process.variable(name), |file| process.text(file));
        let named = pcp::VARIABLES.into_iter().find(|name| process.variable(name).is_some());
        if let Some(name) = named {
            return Self { path, reason: Reason::Variable(name) };
        }
        if is_open(&path, process) {
            return Self { path, reason: Reason::System };
        }
        let UserDirectories { runtime, state } = UserDirectories::from_process(process);
        let runtime = runtime.map(|directory| (directory, Reason::Runtime));
        match runtime.or_else(|| state.map(|directory| (directory, Reason::State))) {
            Some((directory, reason)) => Self { path: directory.join("mmv"), reason },
            None => Self { path, reason: Reason::Nowhere },
        }
    }

    /// Returns the path. It need not exist before it was [prepared](Self::prepare).
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the reason for the choice.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Creates the directory if it is missing: with mode 0700 for a user, 1777 for the
    /// system. One that the environment names is left as it is.
    ///
    /// # Errors
    ///
    /// [`FileError`] if it cannot be created, if a user's directory belongs to another
    /// user, is a link of another one, or is open for others to write, and if
    /// [none](Reason::Nowhere) suits.
    pub fn prepare(&self) -> Result<(), FileError> {
        let prepared = match self.reason {
            Reason::Variable(_) => Ok(()),
            Reason::System => make_for_all(&self.path),
            Reason::Runtime | Reason::State => make_private(&self.path, geteuid().as_raw()),
            Reason::Nowhere => Err(io::Error::other(
                "it is missing or this user may not write there, and neither $XDG_RUNTIME_DIR nor \
                 $HOME is a directory of this user; set PCP_TMP_DIR",
            )),
        };
        prepared.map_err(FileError::with("prepare the directory of MMV files", &self.path))
    }
}

/// Returns true if the system's directory is open for this user, or root can create it.
fn is_open(path: &Path, process: &impl Process) -> bool {
    if path.exists() {
        return path.is_dir() && process.may_write(path);
    }
    let above = path.ancestors().find(|above| above.exists());
    process.user() == 0 && above.is_some_and(|above| process.may_write(above))
}

fn make_for_all(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent() {
        std::fs::create_dir_all(above)?;
    }
    match std::fs::create_dir(path) {
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => {
            created.and_then(|()| set_permissions(path, Permissions::from_mode(SYSTEM_MODE)))
        }
    }
}

fn make_private(path: &Path, user: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(USER_MODE).create(path)?;
    let name = path.symlink_metadata()?;
    let directory = path.metadata()?;
    if let Some(owner) = [name.uid(), directory.uid()].into_iter().find(|owner| *owner != user) {
        return Err(io::Error::other(format!("it belongs to user {owner}, not to user {user}")));
    }
    if directory.mode() & 0o002 != 0 {
        let mode = directory.mode() & 0o7777;
        return Err(io::Error::other(format!("any user may write there: its mode is {mode:o}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
