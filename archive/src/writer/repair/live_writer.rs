//! Finds the process that still writes an archive whose files are to be replaced.
//!
//! What it writes afterwards would be in files without a name. The processes of this machine
//! that the caller may look at are asked, by what they have open (proc(5): `fd`, `fdinfo`);
//! that includes those of the same user, and for root all.

use std::fs;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use crate::files::MemberFiles;
use crate::{Error, Result};

/// Refuses an archive that another process has open for writing.
///
/// # Errors
///
/// [`Error::Written`].
pub(super) fn check_unwritten(files: &MemberFiles) -> Result<()> {
    let own: Vec<PathBuf> =
        files.all().filter_map(|(file, _)| fs::canonicalize(file).ok()).collect();
    let Ok(processes) = fs::read_dir("/proc") else { return Ok(()) };
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if pid == std::process::id() {
            continue;
        }
        if let Some(file) = written_by(&process.path(), &own) {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Err(Error::Written { file, pid, name: name.trim_end().to_owned() });
        }
    }
    Ok(())
}

/// Returns one of the files that the process has open for writing.
fn written_by(process: &Path, files: &[PathBuf]) -> Option<PathBuf> {
    fs::read_dir(process.join("fd")).ok()?.flatten().find_map(|open| {
        let file = fs::read_link(open.path()).ok().filter(|file| files.contains(file))?;
        let state = fs::read_to_string(process.join("fdinfo").join(open.file_name())).ok()?;
        let flags = state.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = i32::from_str_radix(flags.trim(), 8).ok()?;
        let reads_only = flags & OFlag::O_ACCMODE.bits() == OFlag::O_RDONLY.bits();
        (!reads_only).then_some(file)
    })
}
