//! Output that cannot be written, or whose reader has closed it.

use std::fs::File;
use std::process::{Command, Stdio};

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
    command.args(arguments);
    command
}

#[test]
fn help_on_a_full_disk_is_an_output_error() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = program(&["--help"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(74));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.starts_with("mmv-archive: cannot write the output: "), "{errors}");
}

#[test]
fn help_with_a_closed_output_is_no_error() {
    let mut command = program(&["report", "--help"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    // Written before the pipe was closed, or not at all: all is well.
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn the_exit_status_is_explained() {
    let output = program(&["--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    for status in ["0  success", "1  no data", "2  invalid command", "65  ", "74  ", "75  "] {
        assert!(help.contains(status), "{status}: {help}");
    }
}
