//! Tests that need a process of their own run this program again, for one test.

use std::env;
use std::process::Command;

pub(crate) fn running(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "--ignored", "--nocapture", test]);
    command
}
