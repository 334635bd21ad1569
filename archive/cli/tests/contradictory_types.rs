//! Values whose blocks state another type than the descriptor of their metric are left
//! out and reported once, and cost nothing else.

use std::fs;
use std::path::PathBuf;

use pcp_archive::{Pmid, ValueType};
use tempfile::TempDir;
use test_archives::Builder;

use crate::program::{run_on, text};

/// Writes ten records of two metrics, `acme.bad` and `acme.good`. The descriptor of the first
/// says `double`, the blocks are of 64-bit integers.
fn archive() -> (TempDir, PathBuf) {
    archive_with(ValueType::Double)
}

/// Writes the same archive with this type in the descriptor of the first metric.
fn archive_with(value_type: ValueType) -> (TempDir, PathBuf) {
    let (directory, base) = Builder::named("acme")
        .metric("acme.bad", "u64 instant")
        .metric("acme.good", "u64 instant")
        .rows((0..10).map(|n| (n, [("acme.bad", 26_767_720), ("acme.good", 26_767_720)])))
        .finish()
        .into_parts();
    let meta = directory.path().join("acme.meta");
    let mut bytes = fs::read(&meta).unwrap();
    let pmid = Pmid::new(70, 1, 1).unwrap().raw().to_be_bytes();
    let at = bytes.windows(4).position(|word| word == pmid).unwrap();
    bytes[at + 4..at + 8].copy_from_slice(&value_type.code().to_be_bytes());
    fs::write(&meta, bytes).unwrap();
    (directory, base)
}

const CONFLICT: &str = "acme.0: offset 808: metric 70.1.1: found a value of type \
                        64-bit unsigned int, expected double as in the descriptor; such values are left out\n";

#[test]
fn each_command_reports_a_bad_metric_once() {
    let (_directory, base) = archive();
    for arguments in [
        &["report", "--format", "csv", "-t", "1s", "acme"][..],
        &["report", "--raw", "--format", "csv", "acme"],
        &["report", "--format", "csv", "--stepping", "acme"],
        &["summary", "--format", "csv"],
        &["dump"],
        &["dump", "--json"],
    ] {
        let output = run_on(&base, arguments);
        let (printed, warnings) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(warnings.matches(CONFLICT).count(), 1, "{arguments:?}: {warnings}");
        assert_eq!(warnings.matches("70.1.1").count(), 1, "{arguments:?}: {warnings}");
        assert_eq!(output.status.code(), Some(65), "{arguments:?}");
        assert!(printed.contains("26767720"), "{arguments:?}: {printed}");
        assert!(!printed.contains("e-3"), "{arguments:?}: {printed}");
    }
    let dump = run_on(&base, &["dump"]);
    let bad = "    70.1.1 (acme.bad): value ?\n    70.1.2 (acme.good): value 26767720\n";
    assert_eq!(text(&dump.stdout).matches(bad).count(), 10);
}

#[test]
fn a_metric_of_which_all_values_are_left_out_has_none() {
    let (_directory, base) = archive();
    for command in ["report", "summary"] {
        let output = run_on(&base, &[command, "acme.bad"]);
        assert_eq!(output.status.code(), Some(65), "{command}");
        assert_eq!(text(&output.stdout), "", "{command}");
        assert!(text(&output.stderr).contains(CONFLICT), "{}", text(&output.stderr));
    }
}

#[test]
fn a_copy_has_the_same_values_and_the_same_contradiction() {
    // A value of 32 bits is stored in place of the offset of a block.
    for value_type in [ValueType::Double, ValueType::I32] {
        let (directory, base) = archive_with(value_type);
        let copy = directory.path().join("copy");
        let to = copy.to_str().unwrap();
        let output = run_on(&base, &["convert", "-o", to, "--archive-version", "2"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        for base in [&base, &copy] {
            let check = run_on(base, &["check"]);
            assert_eq!(check.status.code(), Some(1));
            let findings = text(&check.stdout);
            assert_eq!(findings.lines().count(), 10, "{findings}");
            assert_eq!(findings.matches("[data-type]").count(), 10, "{findings}");
        }
    }
}
