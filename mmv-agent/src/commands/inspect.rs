//! `mmv-agent inspect`: what is in an MMV file, and what is wrong with it.
//!
//! The file is read with `pread` only, so nothing that its producer does
//! meanwhile can hurt. [`Report`] is the whole answer, shown as text or as
//! JSON.

mod report;
mod text;
mod values;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::libc;

pub(crate) use report::Report;

use crate::error::{EXIT_DATA, EXIT_FINDINGS, EXIT_OK};

/// Reads and judges the file at `path`.
///
/// # Errors
///
/// From the system, when the file cannot be opened. A file that can be opened
/// always gets a report.
pub(crate) fn inspect(path: &Path) -> io::Result<Report> {
    // A FIFO must not block until another process writes to it.
    let file: File = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    Ok(Report::of(path, &file))
}

/// Prints a report to `out`.
///
/// # Errors
///
/// From the system, when `out` cannot be written to.
pub(crate) fn print(report: &Report, json: bool, out: &mut impl Write) -> io::Result<()> {
    if json {
        serde_json::to_writer(&mut *out, report)?;
        writeln!(out)
    } else {
        text::print(report, out)
    }
}

/// The exit status of the verdict: 0 sound, 1 something is left out,
/// 65 refused.
pub(crate) fn exit_code(report: &Report) -> u8 {
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
