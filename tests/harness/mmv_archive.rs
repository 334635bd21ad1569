//! Runs of `mmv-archive`, with UTC as the local zone.

use std::path::Path;
use std::process::{Command, Output};

use super::binaries;

pub(crate) fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(binaries::mmv_archive());
    command.args(arguments).env("TZ", "UTC").output().expect("start mmv-archive")
}

/// Runs a command, the first argument, on an archive.
pub(crate) fn run_on(base: &Path, arguments: &[&str]) -> Output {
    let (command, options) = arguments.split_first().expect("a command");
    let base = base.to_str().expect("UTF-8");
    run(&[&[command, base], options].concat())
}

/// Returns what a run printed that must have succeeded.
#[track_caller]
pub(crate) fn success(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Runs a command on an archive, which must succeed.
#[track_caller]
pub(crate) fn printed_of(base: &Path, arguments: &[&str]) -> String {
    success(run_on(base, arguments))
}
