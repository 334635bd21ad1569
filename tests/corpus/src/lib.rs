//! Finds the corpus: archives and MMV files of other programs, and damaged ones, which
//! are too big for this repository.
//!
//! It is in `$MMV_CORPUS`, else in `shared/corpus` next to the workspace. A checkout
//! alone has none: tests that need it pass without, and say so. They are counted in the
//! file that `$MMV_LEFT_OUT` names, for the report of `ci/test`.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread;

/// Returns a directory of the corpus. Without a corpus, reports that and returns `None`.
///
/// # Panics
///
/// If `$MMV_CORPUS` is set and has no such directory.
#[must_use]
pub fn directory(name: &str) -> Option<PathBuf> {
    let found = find(name);
    if found.is_none() {
        leave_out();
    }
    found
}

/// Finds a directory without a report, for tests that have something else in its place.
///
/// # Panics
///
/// If `$MMV_CORPUS` is set and has no such directory.
#[must_use]
pub fn find(name: &str) -> Option<PathBuf> {
    let named = env::var_os("MMV_CORPUS").map(PathBuf::from);
    let is_named = named.is_some();
    let directory = named
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"))
        .join(name);
    let found = directory.is_dir();
    assert!(found || !is_named, "MMV_CORPUS is set, but there is no {}", directory.display());
    found.then_some(directory)
}

/// Reports that the running test is left out.
fn leave_out() {
    let test = thread::current().name().unwrap_or("?").to_owned();
    // Not `eprintln!`: the test runner swallows what it prints in a test that passes.
    let _ = writeln!(io::stderr(), "skipped: {test}: no corpus (set MMV_CORPUS)");
    if let Some(list) = env::var_os("MMV_LEFT_OUT") {
        let file = OpenOptions::new().append(true).create(true).open(list);
        let _ = file.and_then(|mut file| writeln!(file, "{test}"));
    }
}
