//! Skipping a test, which is reported, and forbidden by `PCP=require`.

use std::io::{self, Write as _};
use std::thread;

/// Reports that the running test skips something, and why.
///
/// Fails the test if `PCP=require` is set.
pub(crate) fn skip(reason: &str) {
    let required = std::env::var("PCP").is_ok_and(|value| value == "require");
    assert!(!required, "{reason} (PCP=require forbids to skip this)");
    report(reason);
}

/// Reports that the running test goes without something that no machine must have,
/// and why.
pub(crate) fn report(reason: &str) {
    let test = thread::current().name().unwrap_or("?").to_owned();
    // Not `eprintln!`: the test runner swallows what it prints in a test that passes.
    let _ = writeln!(io::stderr(), "skipped: {test}: {reason}");
}
