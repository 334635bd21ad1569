//! Archives of one directory that contradict each other about a metric: other metrics are read as
//! if it was not there, and no copy is made that lacks it.

use std::path::Path;
use std::process::{Command, Output};

use pcp_archive::Pmid;
use tempfile::TempDir;
use test_archives::{Builder, scratch};

/// Two archives of ten seconds each, of `acme.changed`, which has another type in the second,
/// of `acme.moved`, which has another PMID there, and of `acme.same`.
fn directory() -> TempDir {
    let directory = scratch();
    let pmid = |item| Pmid::new(70, 1, item).unwrap();
    Builder::in_directory(directory.path(), "a")
        .metric_with(pmid(1), "acme.changed", "u64 instant")
        .metric_with(pmid(2), "acme.same", "u64 instant")
        .metric_with(pmid(3), "acme.moved", "u64 instant")
        .rows((0..10).map(|n| (n, [("acme.changed", 1), ("acme.same", 2), ("acme.moved", 3)])))
        .finish();
    Builder::in_directory(directory.path(), "b")
        .metric_with(pmid(1), "acme.changed", "u32 instant")
        .metric_with(pmid(2), "acme.same", "u64 instant")
        .metric_with(pmid(4), "acme.moved", "u64 instant")
        .rows((10..20).map(|n| (n, [("acme.changed", 4711), ("acme.same", 2), ("acme.moved", 4)])))
        .finish();
    directory
}

fn run(directory: &Path, command: &str, arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
    program.current_dir(directory).arg(command).args(arguments).env("TZ", "UTC").output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn metrics_that_are_the_same_in_all_archives_are_read_and_the_others_named() {
    let directory = directory();
    for arguments in
        [&["report", "--format", "csv", "-t", "1s", ".", "acme"][..], &["summary", "."]]
    {
        let output = run(directory.path(), arguments[0], &arguments[1..]);
        let (printed, warnings) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{warnings}");
        assert!(printed.contains("acme.same"), "{printed}");
        assert!(!printed.contains("acme.changed") && !printed.contains("4711"), "{printed}");
        let changed = "b: metric acme.changed (70.1.1) has another type than in ";
        assert_eq!(warnings.matches(changed).count(), 1, "{warnings}");
        assert!(warnings.contains("; the metric is left out\n"), "{warnings}");
        assert!(warnings.contains("b: metric acme.moved is 70.1.4, but 70.1.3 in "), "{warnings}");
        assert!(warnings.contains("; only 70.1.4 has the name here\n"), "{warnings}");
    }
    let arguments = ["--format", "csv", "-t", "1s", ".", "acme.same"];
    let same = run(directory.path(), "report", &arguments);
    let rows = text(&same.stdout).lines().filter(|line| line.ends_with(",2")).count();
    assert_eq!(rows, 20, "{}", text(&same.stdout));
    assert_eq!(text(&same.stderr), "", "no warning about a metric that the command does not read");
}

#[test]
fn a_metric_that_differs_is_none_if_it_is_named() {
    let directory = directory();
    let output = run(directory.path(), "report", &["-t", "1s", ".", "acme.changed"]);
    assert_ne!(output.status.code(), Some(0));
    let warnings = text(&output.stderr);
    assert!(warnings.contains("has another type than in"), "{warnings}");
}

#[test]
fn a_copy_of_everything_is_refused_and_one_of_other_metrics_made() {
    let directory = directory();
    for command in [&["extract", ".", "-o", "copy"][..], &["convert", ".", "-o", "copy"]] {
        let output = run(directory.path(), command[0], &command[1..]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("acme.changed"), "{}", text(&output.stderr));
        assert!(!directory.path().join("copy.meta").exists());
    }
    let output = run(directory.path(), "extract", &[".", "acme.same", "-o", "copy"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let pmid = Pmid::new(70, 1, 2).unwrap();
    let copy = pcp_archive::Archive::open(directory.path().join("copy")).unwrap();
    let metrics: Vec<Pmid> = copy.metadata().metrics().iter().map(|one| one.desc.pmid).collect();
    assert_eq!(metrics, [pmid]);
}
