//! What cargo knows of the workspace.

use std::process::Command;

use serde_json::Value;

use super::binaries::workspace;

/// The output of `cargo metadata` with further options, from what is on the disk.
pub(crate) fn metadata(options: &[&str]) -> Value {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version=1", "--locked", "--offline"]).args(options);
    let output = cargo.current_dir(workspace()).output().expect("start cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON of cargo metadata")
}

/// The output of `cargo tree` with further options and a format, from what is on the disk.
pub(crate) fn tree(options: &[&str], format: &str) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--locked", "--offline", "--format", format]).args(options);
    let output = cargo.current_dir(workspace()).output().expect("start cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text of cargo tree")
}
