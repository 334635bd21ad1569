//! Snapshots in a real browser, without a screen: Debian's chromium, which `ci/browser` fetches.
//!
//! `browser.py` drives it: it presses keys, turns the wheel, and fails if the page does not do
//! what it should, writes to the console, or requests anything but itself. The pictures that it
//! takes stay in the target directory for inspection.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use test_archives::{Builder, scratch};

use crate::incident;
use crate::pictures;
use crate::programs;
use crate::sides;
use crate::view_server::Server;

/// Returns the browser; `None`, with a message, where it is not.
fn browser() -> Option<PathBuf> {
    let browser = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/browser");
    let is_there = browser.join("complete").exists();
    if !is_there {
        let required = std::env::var("PCP").is_ok_and(|value| value == "require");
        assert!(!required, "no browser: ci/browser fetches it (PCP=require forbids to skip this)");
        // Not `eprintln!`: the test runner swallows what it prints in a test that passes.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: pages in a browser: there is none; ci/browser fetches it"
        );
    }
    is_there.then_some(browser)
}

fn directory() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser");
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

fn drive(browser: &Path, address: &str, part: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser.py");
    let mut python = Command::new(browser.join("python/bin/python"));
    python.arg(script).arg(browser.join("root")).arg(address).arg(directory()).arg(part);
    let output = python.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{part}: {said}");
    // Measurements, with `--nocapture`.
    println!("{}", said.trim());
}

fn snapshot(arguments: &[&str], name: &str) -> String {
    let page = directory().join(format!("{name}.html"));
    let mut snapshot = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
    snapshot.arg("snapshot").args(arguments).arg("-o").arg(&page);
    let output = snapshot.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    format!("file://{}", page.canonicalize().unwrap().display())
}

#[test]
#[ignore = "needs the browser that ci/browser fetches"]
fn snapshots_do_what_they_should_in_a_browser() {
    let Some(browser) = browser() else { return };
    let (_directory, base) = pictures::archive();
    drive(&browser, &snapshot(&[base.to_str().unwrap(), "-Z", "UTC"], "pictures"), "pictures");
    let (_directory, base) = programs::shop(true);
    drive(&browser, &snapshot(&[base.to_str().unwrap(), "-Z", "UTC"], "shop"), "shop");
}

#[test]
#[ignore = "needs the browser that ci/browser fetches"]
fn pages_of_a_server_do_the_same() {
    let Some(browser) = browser() else { return };
    let (_directory, base) = pictures::archive();
    let server = Server::start(&[base.to_str().unwrap(), "-Z", "UTC"]);
    drive(&browser, server.address(), "live");
    let (_directory, base) = programs::shop(true);
    let server = Server::start(&[base.to_str().unwrap(), "-Z", "UTC"]);
    drive(&browser, server.address(), "live-shop");
}

#[test]
#[ignore = "needs the browser that ci/browser fetches"]
fn an_incident_is_in_the_first_screen_without_typing() {
    let Some(browser) = browser() else { return };
    let (_directory, base) = incident::jobs();
    let server = Server::start(&[base.to_str().unwrap(), "-Z", "UTC"]);
    drive(&browser, server.address(), "incident");
    let page = snapshot(&[base.to_str().unwrap(), "-Z", "UTC"], "incident-file");
    drive(&browser, &page, "incident-file");
}

#[test]
#[ignore = "needs the browser that ci/browser fetches"]
fn the_program_with_an_incident_is_the_first_of_several() {
    let Some(browser) = browser() else { return };
    let (_directory, base) = incident::jobs_among_others();
    let server = Server::start(&[base.to_str().unwrap(), "-Z", "UTC"]);
    drive(&browser, server.address(), "others");
    let page = snapshot(&[base.to_str().unwrap(), "-Z", "UTC"], "others-file");
    drive(&browser, &page, "others-file");
}

#[test]
#[ignore = "needs the browser that ci/browser fetches"]
fn the_last_day_of_two_weeks_is_shown_first() {
    let Some(browser) = browser() else { return };
    // Five minutes of an incident, three hours before the end.
    let end = 14 * 86_400;
    let depth = |second: i64| if (end - 10_800..end - 10_500).contains(&second) { 500 } else { 5 };
    let archive = Builder::new()
        .metric("mmv.jobs.depth", "u32 instant count")
        .rows((0..=end).step_by(60).map(|second| (second, [("mmv.jobs.depth", depth(second))])))
        .finish();
    let server = Server::start(&[archive.base().to_str().unwrap(), "-Z", "UTC"]);
    drive(&browser, server.address(), "fortnight");
}

/// Prints how long the first picture of an archive takes, and a frame of ten charts, for `ci/bench
/// page`. The program and the archive are those of `MMV_VIEW="PROGRAM ARCHIVE"`, else this program
/// and an incident of four minutes.
#[test]
#[ignore = "measures, for ci/bench page"]
fn the_first_picture_of_an_archive() {
    let Some(browser) = browser() else { return };
    let (_directory, base) = incident::jobs();
    let named = std::env::var("MMV_VIEW").ok();
    let named = named.as_deref().and_then(|named| named.split_once(' '));
    let own = (env!("CARGO_BIN_EXE_mmv-archive"), base.to_str().unwrap());
    let (program, archive) = named.unwrap_or(own);
    let server = Server::of(program, &[archive, "-Z", "UTC"]);
    drive(&browser, server.address(), "measure");
}

#[test]
#[ignore = "needs the browser that ci/browser fetches"]
fn archives_are_compared_in_a_browser() {
    let Some(browser) = browser() else { return };
    for (later, options, part) in [
        (Duration::ZERO, &[][..], "compared"),
        (Duration::from_secs(86_400), &["--align", "start"][..], "compared-aligned"),
    ] {
        let [(_one, one), (_other, other)] = sides::pair(later);
        let (a, b) = (format!("A={}", one.display()), format!("B={}", other.display()));
        let arguments = [&[&*a, &b, "-Z", "UTC"], options].concat();
        let server = Server::start(&arguments);
        drive(&browser, server.address(), part);
        drive(&browser, &snapshot(&arguments, part), part);
    }
}

#[test]
#[ignore = "needs the browser that ci/browser fetches"]
fn differences_of_histograms_are_heat_maps() {
    let Some(browser) = browser() else { return };
    let [(_one, one), (_other, other)] = sides::histograms();
    let (a, b) = (format!("A={}", one.display()), format!("B={}", other.display()));
    let arguments = [&*a, &b, "-Z", "UTC"];
    let server = Server::start(&arguments);
    drive(&browser, server.address(), "difference");
    drive(&browser, &snapshot(&arguments, "difference-file"), "difference-file");
}

#[test]
#[ignore = "needs the browser that ci/browser fetches"]
fn a_page_follows_an_archive_that_grows() {
    let Some(browser) = browser() else { return };
    let directory = scratch();
    let row = |name, tenth| (f64::from(tenth) / 10.0, [(name, tenth)]);
    let mut builder = Builder::in_directory(directory.path(), "grows")
        .metric("grows.first", "u32 instant")
        .rows((0..100).map(|tenth| row("grows.first", tenth)));
    let base = directory.path().join("grows");
    let server = Server::start(&[base.to_str().unwrap(), "-Z", "UTC"]);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for tenth in 100..6000 {
                if is_done.load(Ordering::Relaxed) {
                    break;
                }
                if tenth == 250 {
                    builder = builder.metric("grows.second", "u32 instant");
                }
                let is_second = tenth % 10 == 0 && tenth > 250;
                let name = if is_second { "grows.second" } else { "grows.first" };
                builder = builder.rows([row(name, tenth)]);
                thread::sleep(Duration::from_millis(100));
            }
        });
        let driven = std::panic::catch_unwind(|| drive(&browser, server.address(), "grows"));
        is_done.store(true, Ordering::Relaxed);
        if let Err(failed) = driven {
            std::panic::resume_unwind(failed);
        }
    });
}

#[test]
#[ignore = "needs the browser that ci/browser fetches"]
fn a_page_goes_on_when_its_archive_is_truncated_and_restored() {
    let Some(browser) = browser() else { return };
    let (_directory, base) = pictures::archive();
    let server = Server::start(&[base.to_str().unwrap(), "-Z", "UTC"]);
    let volume = base.with_extension("0");
    let bytes = std::fs::read(&volume).unwrap();
    // The script asks for each by making a file.
    let [truncate, restore] = ["truncate", "restore"].map(|name| directory().join(name));
    let forget = || [&truncate, &restore].map(|file| std::fs::remove_file(file).ok());
    forget();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let wait = |file: &Path| {
                while !file.exists() && !is_done.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(10));
                }
            };
            wait(&truncate);
            std::fs::File::options().write(true).open(&volume).unwrap().set_len(20_000).unwrap();
            wait(&restore);
            std::fs::write(&volume, &bytes).unwrap();
        });
        let driven = std::panic::catch_unwind(|| drive(&browser, server.address(), "truncated"));
        is_done.store(true, Ordering::Relaxed);
        if let Err(failed) = driven {
            std::panic::resume_unwind(failed);
        }
    });
    forget();
}
