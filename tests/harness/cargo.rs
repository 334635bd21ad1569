use std::process::Command;

use serde_json::Value;

use super::binaries::workspace;

/// Returns the output of `cargo metadata` with further options, without the network.
pub(crate) fn metadata(options: &[&str]) -> Value {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version=1", "--locked", "--offline"]).args(options);
    let output = cargo.current_dir(workspace()).output().expect("start cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON of cargo metadata")
}

/// Returns the output of `cargo tree` with further options and a format, without the network.
pub(crate) fn tree(options: &[&str], format: &str) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--locked", "--offline", "--format", format]).args(options);
    let output = cargo.current_dir(workspace()).output().expect("start cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text of cargo tree")
}
