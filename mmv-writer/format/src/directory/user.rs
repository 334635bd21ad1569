//! Directories of a user, by the XDG base directory specification.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::process::{Process, ThisProcess};

/// Directories in which this user's programs may create their own.
///
/// They are the same in all processes of the user whose environment does not name others,
/// even in those without an environment. A program with more rights than the process that
/// started it (setuid, capabilities) does not look at the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UserDirectories {
    /// Directory that lasts while the user is logged in: `$XDG_RUNTIME_DIR`, else
    /// `/run/user/UID`, if it exists and belongs to this user.
    pub runtime: Option<PathBuf>,
    /// Directory that lasts: `$XDG_STATE_HOME`, else `.local/state` in the home directory, which
    /// is `$HOME` or that of the list of users. It need not exist, but nobody else may write
    /// where it is to be created.
    pub state: Option<PathBuf>,
}

/// Directory for archives of the system's agent.
pub const SYSTEM_ARCHIVES: &str = "/var/log/mmv-agent";

/// Name of the agent's directory inside a user's directories.
const AGENT: &str = "mmv-agent";

impl UserDirectories {
    /// Returns the directories of the effective user of this process.
    pub fn of_this_process() -> Self {
        Self::from_process(&ThisProcess::new())
    }

    /// Returns the directory for archives of this user's agent, inside the state directory.
    pub fn archives(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join(AGENT).join("archives"))
    }

    pub(super) fn from_process(process: &impl Process) -> Self {
        let usual = process.runtime_directories().join(process.user().to_string());
        let runtime = process.absolute("XDG_RUNTIME_DIR").into_iter().chain([usual]);
        let homes = process.absolute("HOME").into_iter().chain(process.home());
        let state = process.absolute("XDG_STATE_HOME").into_iter();
        let mut state = state.chain(homes.map(|home| home.join(".local/state")));
        Self {
            runtime: runtime.into_iter().find(|path| is_private(path, process)),
            state: state.find(|path| process.may_create(path)),
        }
    }
}

/// Returns whether a directory belongs to this user and nobody else may write into it.
fn is_private(directory: &Path, process: &impl Process) -> bool {
    directory.metadata().is_ok_and(|found| found.uid() == process.user())
        && process.is_ours(directory)
}
