//! Default directories and sockets.
//!
//! As a service of the system, which systemd indicates by `$LOGS_DIRECTORY` and the like, and as
//! root the agent uses the system's. As any other user it uses that user's own, in the same places
//! as the programs and commands of that user, whichever starts first.

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

/// Status socket in the runtime directory that systemd sets up.
const SOCKET: &str = "status.sock";
/// Directory of the flight recorder next to that socket, and next to a socket among archives.
const RECORDER: &str = "recorder";
const HIDDEN_RECORDER: &str = ".mmv-recorder";
const UNIT_SOCKET: &str = "/run/mmv-agent/status.sock";
/// Limit on files that are listed when one is missing.
const LISTED: usize = 10;
const OURS: &str = "mmv-agent";

/// Returns the directory of MMV files: for a service of the system by PCP's rule, else the one
/// that programs of this user choose.
pub(crate) fn mmv_dir() -> PathBuf {
    if is_system_service() { mmv_directory() } else { MmvDirectory::choose().path().to_owned() }
}

/// Returns the MMV file that `file` stands for. A plain name also stands for a file in the
/// directory of MMV files, unless the current directory has an MMV file of that name; it may have
/// the program of that name instead.
pub(crate) fn find_mmv_file(file: &Path) -> PathBuf {
    if is_name(file) && !open(file).and_then(|file| read_header(&file)).is_some_and(is_mmv) {
        let published = mmv_dir().join(file);
        if published.exists() {
            return published;
        }
    }
    file.to_owned()
}

/// Returns the message for a file that does not exist. A plain name may also be that of a
/// published file.
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

/// Returns the archive directory: systemd's `$LOGS_DIRECTORY`, else that of the system if this
/// user may write there or is root, else one in the user's state directory.
pub(crate) fn archive_dir() -> PathBuf {
    if let Some(directory) = from_systemd("LOGS_DIRECTORY") {
        return directory;
    }
    let user = if is_for_the_system() { None } else { user_archives() };
    user.unwrap_or_else(|| PathBuf::from(SYSTEM_ARCHIVES))
}

/// Returns true if archives of this user belong to the whole system.
fn is_for_the_system() -> bool {
    let flags = AccessFlags::W_OK | AccessFlags::X_OK;
    geteuid().is_root() || faccessat(AT_FDCWD, SYSTEM_ARCHIVES, flags, AtFlags::AT_EACCESS).is_ok()
}

fn user_archives() -> Option<PathBuf> {
    UserDirectories::of_this_process().archives()
}

pub(super) fn are_of_the_user(archives: &Path) -> bool {
    user_archives().is_some_and(|own| own == archives || resolved(&own) == resolved(archives))
}

/// Returns a path without links; for a directory that does not exist, an absolute path.
fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

/// Returns true if `mmv-agent run` creates this directory of MMV files, which is the default one.
pub(super) fn is_made_by_run(directory: &Path) -> bool {
    let chosen = MmvDirectory::choose();
    let makes = matches!(chosen.reason(), Reason::System | Reason::Runtime | Reason::State);
    makes && directory == chosen.path() && !is_system_service()
}

/// Creates the directory of MMV files if it is the default one; a failure is logged later. Returns
/// why it is used, unless it was configured.
pub(super) fn prepare_mmv_dir(directory: &Path) -> Option<String> {
    if is_system_service() && directory == mmv_directory() {
        return Some(Reason::System.to_string());
    }
    let chosen = MmvDirectory::choose();
    if directory != chosen.path() {
        return None;
    }
    if let Err(error) = chosen.prepare() {
        let directory = directory.display();
        warn!(
            %directory, %error,
            "cannot create the directory of MMV files: programs cannot publish metrics"
        );
    }
    Some(chosen.reason().to_string())
}

/// Returns the status socket of an agent: in systemd's `$RUNTIME_DIRECTORY`; for the user's
/// default archives in the user's runtime directory; else in the archive directory; `None` without
/// one.
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

pub(crate) fn host_directory(archives: &Path, host: &str) -> PathBuf {
    archives.join(file_name(host))
}

/// Returns the directory of the flight recorder's archives, next to a status socket.
pub(crate) fn recorder_directory(status: &Path) -> PathBuf {
    let name = status.file_name().unwrap_or_default();
    status.with_file_name(if name == SOCKET { RECORDER } else { HIDDEN_RECORDER })
}

/// Status sockets at which an agent may answer, each list with the likeliest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sockets {
    /// Sockets of the intended agent only.
    pub own: Vec<PathBuf>,
    /// Sockets that it may have in a runtime directory that this process does not have.
    pub others: Vec<PathBuf>,
}

impl Sockets {
    /// Returns the sockets of the agent of an archive directory, or without one those of this
    /// user's agent, then those of the system's.
    pub(crate) fn new(archive_dir: Option<&Path>, host: &str) -> Self {
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

/// Returns true if systemd runs the agent for the whole system: a user's systemd sets
/// `$XDG_RUNTIME_DIR` as well.
fn is_system_service() -> bool {
    let variables = ["LOGS_DIRECTORY", "STATE_DIRECTORY", "RUNTIME_DIRECTORY"];
    env::var_os("XDG_RUNTIME_DIR").is_none()
        && variables.into_iter().any(|name| from_systemd(name).is_some())
}

/// Returns the first directory of a variable that systemd sets for directories of a unit.
pub(super) fn from_systemd(variable: &str) -> Option<PathBuf> {
    let list = env::var(variable).ok()?;
    // With several directories in the unit this is a list; ours is first.
    list.split(':').next().filter(|first| !first.is_empty()).map(PathBuf::from)
}
