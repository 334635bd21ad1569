//! Our libpcp_mmv: linked once a run, and C programs with it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use super::binaries::{capi_archive, workspace};

/// Returns the directory with `lib/libpcp_mmv.so.1` and `include/`.
pub(crate) fn library() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let directory = new_directory();
        let mut link = Command::new(workspace().join("mmv-writer/capi/link"));
        succeed(link.arg(capi_archive()).arg(&directory));
        directory
    })
}

/// Makes a command load our library in place of libpcp_mmv.
pub(crate) fn on_ours(mut command: Command) -> Command {
    let ours = library().join("lib");
    let other = command
        .get_envs()
        .find_map(|(name, value)| {
            (name == "LD_LIBRARY_PATH").then(|| value.map(ToOwned::to_owned)).flatten()
        })
        .unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(ours).chain(std::env::split_paths(&other)));
    command.env("LD_LIBRARY_PATH", path.expect("paths without colons"));
    command
}

/// Compiles a C program; `gcc` may have an environment, `options` come last.
pub(crate) fn compile(mut gcc: Command, source: &Path, options: &[&str]) -> PathBuf {
    let program = new_directory().join("program");
    gcc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-pthread", "-o"]).arg(&program);
    succeed(gcc.arg(source).args(options));
    program
}

#[track_caller]
pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{complaints}", output.status);
    output
}

fn new_directory() -> PathBuf {
    let directory =
        tempfile::Builder::new().prefix("capi-").tempdir_in(env!("CARGO_TARGET_TMPDIR"));
    directory.expect("a temporary directory").keep()
}
