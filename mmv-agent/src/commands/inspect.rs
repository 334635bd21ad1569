//! `mmv-agent inspect`: shows and checks the contents of an MMV file.
//!
//! The result is a [`MmvReport`], printed as text or as JSON. The file is read with `pread` only,
//! so its producer cannot disturb the command.

mod report;
mod text;
mod values;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::libc;
use pcp_types::printable;

pub(crate) use report::MmvReport;

use crate::error::{EXIT_DATA, EXIT_FINDINGS, EXIT_OK};

/// Reads and checks the file at `path`.
///
/// # Errors
///
/// Those of open(2). There is a report on every file that can be opened.
pub(crate) fn inspect(path: &Path) -> io::Result<MmvReport> {
    // A FIFO must not block until another process writes to it.
    let file: File = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    Ok(MmvReport::new(path, &file))
}

/// Prints a report to `out`.
///
/// # Errors
///
/// Those of `out`.
pub(crate) fn print(report: &MmvReport, json: bool, out: &mut impl Write) -> io::Result<()> {
    if json {
        writeln!(out, "{}", printable::json(&serde_json::to_string(report)?))
    } else {
        text::print(report, out)
    }
}

/// Returns the exit status for a report: 0 sound, 1 entries are left out, 65 refused.
pub(crate) fn exit_code(report: &MmvReport) -> u8 {
    if report.refusal.is_some() {
        EXIT_DATA
    } else if report.skipped.is_empty() && report.misnamed.is_empty() {
        EXIT_OK
    } else {
        EXIT_FINDINGS
    }
}

#[cfg(test)]
mod tests;
