//! `mmv-agent demo`: the main job in one command.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::compliance;
use crate::harness::archive_facts;
use crate::harness::binaries;
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;
use crate::harness::wait;

#[test]
fn demo_reports_a_program_and_suggests_commands() {
    let scratch = Scratch::new();
    let temporary = scratch.path().join("temporary");
    fs::create_dir(&temporary).expect("a directory");
    let output = Command::new(binaries::mmv_agent())
        .arg("demo")
        .env("TMPDIR", &temporary)
        .env("PATH", &temporary)
        .env_remove("PCP_TMP_DIR")
        .output()
        .expect("start mmv-agent");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{stdout}\n{complaints}", output.status);
    let archive =
        archive_named(&stdout).unwrap_or_else(|| panic!("no archive is named in\n{stdout}"));
    assert!(archive.starts_with(scratch.path()), "{}", archive.display());
    let lines = || stdout.lines().chain(complaints.lines());
    let mut others = lines().filter(|line| !line.contains("/mmv-demo-"));
    let too_long = others.find(|line| line.chars().count() > 80);
    assert_eq!(too_long, None, "lines are short enough for a terminal");
    assert!(!lines().any(|line| line.contains("pmrep")), "PCP is not there:\n{stdout}");
    check_numbers(&stdout);

    let commands: Vec<_> = stdout.lines().filter(|line| line.contains("/mmv-archive ")).collect();
    assert_eq!(commands.len(), 2, "commands to look further in\n{stdout}");
    for command in commands {
        let shell = Command::new("sh").args(["-c", command]).output().expect("start a shell");
        assert!(shell.status.success() && !shell.stdout.is_empty(), "{command}: {shell:?}");
    }
    let facts = archive_facts::of_mmv_archive(&archive);
    let samples = facts.records.iter().filter(|record| record.has_samples()).count();
    assert!(samples >= 10, "{samples} samples in about five seconds");
    if let Some(oracle) = Oracle::find() {
        compliance::check(&oracle, &archive);
    }
    let removal = stdout.lines().find(|line| line.trim_start().starts_with("rm -r "));
    let removal = removal.unwrap_or_else(|| panic!("no command that removes it in\n{stdout}"));
    let left = |folder: &Path| {
        let entries = fs::read_dir(folder).expect("a directory");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        names.collect::<BTreeSet<OsString>>()
    };
    let files = ["shop.0", "shop.index", "shop.meta"].map(OsString::from);
    assert_eq!(left(archive.parent().expect("a directory")), BTreeSet::from(files));
    let shell = Command::new("sh").args(["-c", removal]).status().expect("start a shell");
    assert!(shell.success(), "{removal}: {shell}");
    assert_eq!(left(&temporary), BTreeSet::new(), "nothing is left of the demo");
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let scratch = Scratch::new();
        let temporary = scratch.path().join("temporary");
        fs::create_dir(&temporary).expect("a directory");
        let mut command = Command::new(binaries::mmv_agent());
        command.arg("demo").env("TMPDIR", &temporary).env_remove("PCP_TMP_DIR");
        let demo = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let demo = demo.expect("start mmv-agent");
        wait::until_true("records", || {
            let folder = fs::read_dir(&temporary).expect("a directory").flatten().next();
            let data = folder.and_then(|folder| fs::metadata(folder.path().join("shop.0")).ok());
            data.is_some_and(|data| data.len() > 500)
        });
        kill(Pid::from_raw(demo.id().cast_signed()), signal).expect("send the signal");
        let output = demo.wait_with_output().expect("wait for mmv-agent");
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(128 + signal as i32), "{complaints}");
        assert!(complaints.contains("interrupted"), "{complaints}");
        let left: Vec<_> = fs::read_dir(&temporary).expect("a directory").flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn check_numbers(stdout: &str) {
    let number = |text: &str| text.parse::<f64>().unwrap_or_else(|_| panic!("{text} in\n{stdout}"));
    let head: Vec<&str> = stdout.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    assert_eq!(head, ["Last", "Rate", "p50", "p99", "Unit"], "in\n{stdout}");
    let workers = stdout.lines().skip_while(|line| !line.starts_with("worker.busy "));
    let workers = workers.skip(1).take_while(|line| line.starts_with(' '));
    let workers: Vec<Vec<&str>> = workers.map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(workers.len(), 3, "a line for each worker in\n{stdout}");
    for cells in workers {
        let utilisation = number(cells[2]);
        assert!(0.0 < utilisation && utilisation < 1.1, "{cells:?}");
    }
    let histogram = stdout.lines().find(|line| line.starts_with("latency ")).unwrap_or_default();
    let cells: Vec<&str> = histogram.split_whitespace().collect();
    // Serving takes 0.5 ms, and some visitors wait.
    let unit = if cells.last() == Some(&"s") { 1e3 } else { 1.0 };
    let [median, high] = [cells[3], cells[4]].map(|cell| unit * number(cell));
    assert!(0.5 * 0.94 < median && median < high && high < 5e3, "{cells:?}");
    assert!(!stdout.contains("latency.bucket"), "a histogram as itself in\n{stdout}");
}

fn archive_named(text: &str) -> Option<PathBuf> {
    let words = text.split_whitespace().map(|word| word.trim_matches(['\'', '"', '`', ',']));
    let mut bases = words.map(|word| PathBuf::from(word.trim_end_matches(".meta")));
    bases.find(|base| base.is_absolute() && meta(base).is_file())
}

fn meta(base: &Path) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(".meta");
    name.into()
}
