//! Runs of `mmv-archive`, with UTC as the local zone.

use std::path::Path;
use std::process::{Command, Output};

pub(crate) fn run(directory: &Path, arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
    program.current_dir(directory).args(arguments).env("TZ", "UTC").output().unwrap()
}

/// Runs a command on an archive, in its directory.
pub(crate) fn run_on(base: &Path, arguments: &[&str]) -> Output {
    let (command, options) = arguments.split_first().unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
    program.current_dir(base.parent().unwrap()).arg(command).arg(base).args(options);
    program.env("TZ", "UTC").output().unwrap()
}

/// Returns what a run printed that must have this status.
#[track_caller]
pub(crate) fn stdout(output: &Output, status: i32) -> &str {
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    text(&output.stdout)
}

pub(crate) fn text(output: &[u8]) -> &str {
    std::str::from_utf8(output).unwrap()
}

/// Runs a command on an archive, which must succeed.
#[track_caller]
pub(crate) fn printed_of(base: &Path, arguments: &[&str]) -> String {
    stdout(&run_on(base, arguments), 0).to_owned()
}

/// Runs a command in a directory, which must succeed and warn of nothing.
#[track_caller]
pub(crate) fn printed(directory: &Path, arguments: &[&str]) -> String {
    let output = run(directory, arguments);
    assert_eq!(text(&output.stderr), "", "{arguments:?}");
    stdout(&output, 0).to_owned()
}
