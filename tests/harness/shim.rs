//! A library that tests put under the agent with `LD_PRELOAD`; `shim.c` lists its abilities.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{binaries, capi, skip};

/// Returns the library, which is compiled once a run; `None`, with a message, without a C
/// compiler.
pub(crate) fn library() -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let library = LIBRARY
        .get_or_init(|| {
            Command::new("cc").arg("--version").output().ok()?;
            let source = binaries::workspace().join("tests/harness/shim.c");
            Some(capi::compile(Command::new("cc"), &source, &["-shared", "-fPIC"]))
        })
        .as_deref();
    if library.is_none() {
        skip::skip("no C compiler");
    }
    library
}

/// Has a program kill itself before a thread's nth change of the file system, n from 1; does
/// nothing without the library. The first thread has the name of the program.
pub(crate) fn kill_before(command: &mut Command, thread: &str, step: u64) {
    if let Some(library) = library() {
        command.env("LD_PRELOAD", library);
        command.env("SHIM_KILL", step.to_string()).env("SHIM_THREAD", thread);
    }
}
