//! Archives of one directory that contradict each other about a metric: numbers are converted, of
//! other values the larger part is kept, and no copy is made that lacks the others.

use std::path::Path;
use std::process::Output;

use pcp_archive::Pmid;
use tempfile::TempDir;
use test_archives::{Builder, scratch};

use crate::program::text;

/// Writes two archives, of ten and of five seconds: of `acme.changed`, which is a counter in the
/// second, of `acme.moved`, which has another PMID there, and of `acme.same`.
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
        .metric_with(pmid(1), "acme.changed", "u64 counter")
        .metric_with(pmid(2), "acme.same", "u64 instant")
        .metric_with(pmid(4), "acme.moved", "u64 instant")
        .rows((10..15).map(|n| (n, [("acme.changed", 4711), ("acme.same", 2), ("acme.moved", 4)])))
        .finish();
    directory
}

fn run(directory: &Path, command: &str, arguments: &[&str]) -> Output {
    crate::program::run(directory, &[&[command], arguments].concat())
}

#[test]
fn metrics_that_differ_between_archives_are_named() {
    let directory = directory();
    for arguments in
        [&["report", "--format", "csv", "-t", "1s", ".", "acme"][..], &["summary", "--exact", "."]]
    {
        let output = run(directory.path(), arguments[0], &arguments[1..]);
        let (printed, warnings) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{warnings}");
        assert!(printed.contains("acme.same"), "{printed}");
        assert!(printed.contains("acme.changed") && !printed.contains("4711"), "{printed}");
        let changed = "b: metric acme.changed (70.1.1) has semantics counter, but instant in ";
        assert_eq!(warnings.matches(changed).count(), 1, "{warnings}");
        assert!(warnings.contains("; its values there are left out\n"), "{warnings}");
        assert!(warnings.contains("b: metric acme.moved is 70.1.4, but 70.1.3 in "), "{warnings}");
        assert!(warnings.contains("; only 70.1.4 has the name here\n"), "{warnings}");
    }
    let arguments = ["--format", "csv", "-t", "1s", ".", "acme.same"];
    let same = run(directory.path(), "report", &arguments);
    let rows = text(&same.stdout).lines().filter(|line| line.ends_with(",2")).count();
    assert_eq!(rows, 15, "{}", text(&same.stdout));
    assert_eq!(text(&same.stderr), "", "no warning about a metric that the command does not read");
}

#[test]
fn of_a_metric_that_differs_the_larger_part_is_read() {
    let directory = directory();
    let output = run(directory.path(), "report", &["--raw", ".", "acme.changed"]);
    assert_eq!(output.status.code(), Some(0));
    let rows = text(&output.stdout).lines().filter(|line| line.ends_with(" 1")).count();
    assert_eq!(rows, 10, "{}", text(&output.stdout));
    let warnings = text(&output.stderr);
    assert_eq!(warnings.lines().count(), 1, "{warnings}");
    assert!(warnings.contains("has semantics counter, but instant in"), "{warnings}");
}

/// Writes two archives of a minute each of a counter that rises by 10 a second throughout, which
/// has more bits in the second, and of a size that is in other units there.
fn widened() -> TempDir {
    let directory = scratch();
    for (name, counter, size, span, unit) in [
        ("a", "u32 counter count", "u32 instant Mbyte", 0..6, 1),
        ("b", "u64 counter count", "u64 instant Kbyte", 6..12, 1024),
    ] {
        let names = ["app.errors[x]", "app.requests", "app.size"];
        let values = |n: u64| [n, 100 * n, 7 * unit];
        Builder::in_directory(directory.path(), name)
            .metric("app.requests", counter)
            .metric("app.errors", counter)
            .metric("app.size", size)
            .instances("app.errors", ["x"])
            .rows(span.map(|n: u64| (n * 10, names.into_iter().zip(values(n)))))
            .finish();
    }
    directory
}

#[test]
fn numbers_of_another_type_or_unit_are_one_timeline() {
    let directory = widened();
    let raw = run(directory.path(), "report", &["--raw", "--format", "csv", ".", "app"]);
    assert_eq!(text(&raw.stderr), "");
    let rows: Vec<&str> = text(&raw.stdout).lines().skip(1).collect();
    let values = rows.iter().filter_map(|row| row.splitn(3, ',').nth(2));
    let values: Vec<&str> = values.filter(|values| *values != ",,").collect();
    let expected: Vec<String> = (0..12).map(|n| format!("{n},{},7168", 100 * n)).collect();
    assert_eq!(values, expected, "{rows:?}");
    let summary = run(directory.path(), "summary", &["--format", "csv", ".", "app"]);
    let summary = text(&summary.stdout);
    for (name, count) in [("app.errors", 10), ("app.requests", 10), ("app.size", 12)] {
        let line = summary.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line.split(',').any(|field| field == count.to_string()), "{summary}");
    }
    let rates = run(directory.path(), "report", &["-t", "10s", "--exact", ".", "app.requests"]);
    assert_eq!(text(&rates.stdout).matches("10.000").count(), 10, "{}", text(&rates.stdout));
}

#[test]
fn a_copy_of_archives_with_other_types_has_all_values() {
    let directory = widened();
    for command in [
        &["extract", "a,b", "-o", "copy"][..],
        &["extract", "a,b", "app.requests", "-o", "requests"],
        &["convert", "a,b", "--archive-version", "2", "-o", "v2"],
    ] {
        let output = run(directory.path(), command[0], &command[1..]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let name = command[command.len() - 1];
        let check = run(directory.path(), "check", &[name]);
        assert_eq!(check.status.code(), Some(0), "{}", text(&check.stdout));
        let raw = run(directory.path(), "report", &["--raw", "--json", name, "app.requests"]);
        let values = text(&raw.stdout).lines().filter(|line| line.contains("\"value\":"));
        assert_eq!(values.count(), 12, "{}", text(&raw.stdout));
        assert!(text(&raw.stdout).lines().last().unwrap().contains("\"value\":1100}"));
    }
}

#[test]
fn copy_of_everything_is_refused_and_of_others_made() {
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
