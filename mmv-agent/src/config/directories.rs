//! The directories and sockets that hold where neither the file nor an option names one.
//!
//! As a service of the system, which systemd tells by `$LOGS_DIRECTORY` and the like, and
//! as root the agent uses the system's; as any other user that user's own, in the same
//! places as the programs and commands of that user, whatever starts first.

use std::env;
use std::fs;
use std::path::{Component, Path, PathBuf};

use mmv_format::directory::{MmvDirectory, Reason, SYSTEM_ARCHIVES, UserDirectories};
use mmv_format::file::{open, read_header};
use mmv_format::layout::{Header, MAGIC};
use mmv_format::mmv_directory;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat, geteuid};
use pcp_types::printable;
use tracing::warn;

use crate::host::file_name;

/// The status socket in the runtime directory that systemd sets up.
const SOCKET: &str = "status.sock";
/// The directory of the flight recorder next to it, and next to a socket among archives.
const RECORDER: &str = "recorder";
const HIDDEN_RECORDER: &str = ".mmv-recorder";
/// The path of the socket with our unit.
const UNIT_SOCKET: &str = "/run/mmv-agent/status.sock";
/// How many files are listed where one is missing.
const LISTED: usize = 10;
/// Our part of the user's directories.
const OURS: &str = "mmv-agent";

/// The directory of MMV files: for a service of the system by PCP's rule, else the one
/// that programs of this user choose.
pub(crate) fn mmv_dir() -> PathBuf {
    if is_system_service() { mmv_directory() } else { MmvDirectory::choose().path().to_owned() }
}

/// The file that is meant by `file`: a name alone is also that of a file in the directory
/// of MMV files, unless the current directory has an MMV file of that name; the program of
/// that name may be there.
pub(crate) fn find_mmv_file(file: &Path) -> PathBuf {
    let is_meant = || open(file).and_then(|file| read_header(&file)).is_some_and(is_mmv);
    let published = || Some(mmv_dir().join(file)).filter(|path| path.exists());
    let published = if is_name(file) && !is_meant() { published() } else { None };
    published.unwrap_or_else(|| file.to_owned())
}

/// What to say of a file that does not exist: a name alone is that of a published file as
/// well.
pub(crate) fn missing_mmv_file(file: &Path) -> String {
    let directory = mmv_dir();
    let missing = format!("{}: no such file", printable::path(file));
    if !is_name(file) {
        return missing;
    }
    let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
    let names = entries.map(|entry| printable::path(Path::new(&entry.file_name())).into_owned());
    let mut names: Vec<_> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    let more = if names.len() > LISTED { ", ..." } else { "" };
    names.truncate(LISTED);
    let there =
        if names.is_empty() { "none".to_owned() } else { format!("{}{more}", names.join(", ")) };
    format!("{missing} here or in {}; files there: {there}", printable::path(&directory))
}

fn is_name(file: &Path) -> bool {
    file.components().eq(file.file_name().map(Component::Normal))
}

fn is_mmv(header: Header) -> bool {
    header.magic == MAGIC
}

/// The directory for archives: systemd's `$LOGS_DIRECTORY`, else that of the system if
/// this user may write there or is root, else one in the user's state directory.
pub(crate) fn archive_dir() -> PathBuf {
    let system = || PathBuf::from(SYSTEM_ARCHIVES);
    from_systemd("LOGS_DIRECTORY").unwrap_or_else(|| {
        if is_for_the_system() { system() } else { user_archives().unwrap_or_else(system) }
    })
}

/// Whether archives of this user are those of the whole system.
fn is_for_the_system() -> bool {
    let flags = AccessFlags::W_OK | AccessFlags::X_OK;
    let writable = || faccessat(AT_FDCWD, SYSTEM_ARCHIVES, flags, AtFlags::AT_EACCESS).is_ok();
    geteuid().is_root() || writable()
}

fn user_archives() -> Option<PathBuf> {
    UserDirectories::of_this_process().archives()
}

/// Whether these are the archives of this user by default.
pub(super) fn are_of_the_user(archives: &Path) -> bool {
    user_archives().is_some_and(|own| own == archives || resolved(&own) == resolved(archives))
}

/// A path without links; of a directory that does not exist, from the root.
fn resolved(path: &Path) -> PathBuf {
    let absolute = || std::path::absolute(path).ok();
    path.canonicalize().ok().or_else(absolute).unwrap_or_else(|| path.to_owned())
}

/// Whether `mmv-agent run` creates a directory of MMV files, which is the default one.
pub(super) fn is_made_by_run(directory: &Path) -> bool {
    let chosen = MmvDirectory::choose();
    let makes = matches!(chosen.reason(), Reason::System | Reason::Runtime | Reason::State);
    makes && directory == chosen.path() && !is_system_service()
}

/// Creates the directory of MMV files if it is the default one; a failure is for the log.
/// Returns why it is used, unless it was configured.
pub(super) fn prepare_mmv_dir(directory: &Path) -> Option<String> {
    if is_system_service() && directory == mmv_directory() {
        return Some(Reason::System.to_string());
    }
    let chosen = MmvDirectory::choose();
    if directory != chosen.path() {
        return None;
    }
    if let Err(error) = chosen.prepare() {
        warn!(%error, "no program can publish metrics");
    }
    Some(chosen.reason().to_string())
}

/// The status socket of an agent: in systemd's `$RUNTIME_DIRECTORY`; for the user's default
/// archives in the user's runtime directory; else in the directory for archives; `None`
/// without one.
pub(super) fn socket(archives: Option<&Path>, host: &str) -> Option<PathBuf> {
    if let Some(runtime) = from_systemd("RUNTIME_DIRECTORY") {
        return Some(runtime.join(SOCKET));
    }
    let archives = archives?;
    let runtime = UserDirectories::of_this_process().runtime;
    Some(match runtime.filter(|_| are_of_the_user(archives)) {
        Some(runtime) => runtime.join(OURS).join(SOCKET),
        None => socket_among_archives(archives, host),
    })
}

fn socket_among_archives(directory: &Path, host: &str) -> PathBuf {
    host_directory(directory, host).join(".mmv-agent.sock")
}

/// The directory of a host's archives.
pub(crate) fn host_directory(archives: &Path, host: &str) -> PathBuf {
    archives.join(file_name(host))
}

/// The directory of the flight recorder's archives, next to a status socket.
pub(crate) fn recorder_directory(status: &Path) -> PathBuf {
    let name = status.file_name().unwrap_or_default();
    status.with_file_name(if name == SOCKET { RECORDER } else { HIDDEN_RECORDER })
}

/// The status sockets at which an agent may answer, each list with the likeliest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sockets {
    /// Where only the agent answers that is meant.
    pub own: Vec<PathBuf>,
    /// Where it may answer if it has a runtime directory that is not this process's.
    pub others: Vec<PathBuf>,
}

impl Sockets {
    /// Those of the agent of a directory for archives, or without one that of this user,
    /// then that of the system.
    pub(crate) fn of(archive_dir: Option<&Path>, host: &str) -> Self {
        let Some(directory) = archive_dir else {
            return Self { own: default_sockets(host), others: Vec::new() };
        };
        let mut own: Vec<_> = socket(Some(directory), host).into_iter().collect();
        own.push(socket_among_archives(directory, host));
        own.dedup();
        let mut others = default_sockets(host);
        others.retain(|socket| !own.contains(socket));
        Self { own, others }
    }
}

fn default_sockets(host: &str) -> Vec<PathBuf> {
    let own = socket(Some(&archive_dir()), host);
    // Of an agent that had no runtime directory.
    let among = user_archives().map(|directory| socket_among_archives(&directory, host));
    let unit = PathBuf::from(UNIT_SOCKET);
    let system = socket_among_archives(Path::new(SYSTEM_ARCHIVES), host);
    let own = own.into_iter().chain(among);
    if is_for_the_system() && from_systemd("RUNTIME_DIRECTORY").is_none() {
        [unit, system].into_iter().chain(own).collect()
    } else {
        own.chain([unit, system]).collect()
    }
}

/// Whether systemd runs the agent for the whole system: a user's systemd sets
/// `$XDG_RUNTIME_DIR` as well.
fn is_system_service() -> bool {
    let variables = ["LOGS_DIRECTORY", "STATE_DIRECTORY", "RUNTIME_DIRECTORY"];
    env::var_os("XDG_RUNTIME_DIR").is_none()
        && variables.into_iter().any(|name| from_systemd(name).is_some())
}

/// The first directory of a variable that systemd sets for directories of a unit.
pub(super) fn from_systemd(variable: &str) -> Option<PathBuf> {
    let list = env::var(variable).ok()?;
    // With several directories in the unit this is a list; ours is first.
    list.split(':').next().filter(|first| !first.is_empty()).map(PathBuf::from)
}
