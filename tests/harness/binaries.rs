//! Our own programs, as built by cargo.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

pub(crate) fn mmv_agent() -> PathBuf {
    directory().join("mmv-agent")
}

pub(crate) fn mmv_archive() -> PathBuf {
    directory().join("mmv-archive")
}

pub(crate) fn example(name: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let directory =
        DIRECTORY.get_or_init(|| built(&["-p", "mmv-writer", "-p", "pcp-archive", "--examples"]));
    directory.join("examples").join(name)
}

/// Returns the path of the static library with the C interface.
pub(crate) fn capi_archive() -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| built(&["-p", "mmv-capi", "--lib"])).join("libpcp_mmv.a")
}

/// Returns the directory of the programs, which are built at the first call.
pub(crate) fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| built(&["--workspace", "--bins"]))
}

/// Builds with `options`; returns Cargo's output directory.
///
/// Cargo builds the programs of a package for the tests of that package only, so it runs again
/// here, unless `MMV_PROGRAMS=built` is set.
fn built(options: &[&str]) -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    // target/<profile>/deps/integration-<hash>
    let profile = test.ancestors().nth(2).expect("a profile directory").to_owned();
    if std::env::var("MMV_PROGRAMS").is_ok_and(|state| state == "built") {
        return profile;
    }
    let target = profile.parent().expect("a target directory");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet"]).args(options).arg("--target-dir").arg(target);
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.current_dir(workspace()).status().expect("start cargo");
    assert!(status.success(), "cargo could not build {options:?}");
    profile
}

/// Copies a program that is to be run. Another process writes the copy: a file cannot be run
/// while any process has it open for writing, and children of other tests inherit what this one
/// has open.
pub(crate) fn copy(program: &Path, to: &Path) {
    let status = Command::new("cp").arg(program).arg(to).status().expect("start cp");
    assert!(status.success(), "no copy of {}", program.display());
}

pub(crate) fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace")
}
