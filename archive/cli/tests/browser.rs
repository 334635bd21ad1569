//! Snapshots in a real browser, without a screen: Debian's chromium, which `ci/browser` fetches.
//!
//! `browser.py` drives it: it presses keys, turns the wheel, and fails if the page does not do
//! what it should, writes to the console, or requests anything but itself. The pictures that it
//! takes stay in the target directory for inspection.

#[path = "../../tests/shared/archives.rs"]
mod archives;
#[path = "../../tests/shared/pictures.rs"]
mod pictures;
#[path = "../../tests/shared/programs.rs"]
mod programs;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The browser; `None`, with a message, where it is not.
fn browser() -> Option<PathBuf> {
    let browser = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/browser");
    let is_there = browser.join("complete").exists();
    if !is_there {
        // Not `eprintln!`: the test runner swallows what it prints in a test that passes.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: pages in a browser: there is none; ci/browser fetches it"
        );
    }
    is_there.then_some(browser)
}

/// Writes a snapshot and runs a part of the script with it.
fn drive(browser: &Path, base: &Path, part: &str) {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser");
    std::fs::create_dir_all(&directory).unwrap();
    let page = directory.join(format!("{part}.html"));
    let mut snapshot = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
    snapshot.arg("snapshot").arg(base).arg("-o").arg(&page).args(["-Z", "UTC"]);
    assert!(snapshot.output().unwrap().status.success());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser.py");
    let mut python = Command::new(browser.join("python/bin/python"));
    python.arg(script).arg(browser.join("root")).arg(&page).arg(part);
    let output = python.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{part}: {}", String::from_utf8_lossy(&said));
}

#[test]
fn pages_do_what_they_should_in_a_browser() {
    let Some(browser) = browser() else { return };
    let (_directory, base) = pictures::archive();
    drive(&browser, &base, "pictures");
    let (_directory, base) = programs::shop(true);
    drive(&browser, &base, "shop");
}
