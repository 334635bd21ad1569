//! `check` against pmlogcheck, and what `repair` makes of bad archives.

use std::path::{Path, PathBuf};

use pcp_archive::check::{Finding, Severity, check};
use pcp_archive::repair::repair;
use pcp_archive::salvage::{Salvage, SalvageItem};
use pcp_archive::{Archive, Error};
use serde_json::Value;

use super::golden::{cases, corpus};

#[test]
fn good_archives_have_no_errors() {
    for case in cases() {
        let report = check(case.archive.base()).unwrap();
        assert!(report.worst() < Some(Severity::Error), "{}: {:?}", case.name, report.findings());
        assert_eq!(report.records(), case.lines("records", "total")[0]["records"], "{}", case.name);
    }
}

/// Archives that pmlogcheck 7.2.1 accepts although they break a rule.
const ACCEPTED_BY_PCP: [&str; 4] =
    ["v3-feature-bit", "v3-delta-first", "v3-delta-del-unknown", "v3-label-jsonoff"];

#[test]
fn all_that_pmlogcheck_finds_in_bad_archives_is_found() {
    let Some((directory, expected)) = bad_archives() else { return };
    for entry in &expected {
        let name = entry["name"].as_str().unwrap();
        let report = check(directory.join(name)).unwrap();
        let lines = entry["tools"]["7.2.1"]["pmlogcheck"].as_array().unwrap();
        let lines: Vec<_> = lines.iter().map(|line| line.as_str().unwrap()).collect();
        for line in &lines {
            assert_found(line, report.findings(), &directory);
        }
        let is_clean = report.worst() < Some(Severity::Warning);
        let accepted = entry["tools"]["7.2.1"]["pmlogcheck_rc"] == 0
            && lines.iter().all(|line| line.is_empty())
            && !ACCEPTED_BY_PCP.contains(&name);
        assert_eq!(is_clean, accepted, "{name}: {:?}", report.findings());
    }
}

/// Checks that a line of pmlogcheck that starts with a file's name has its counterpart in that
/// file, and where it names the end of what is good, at that place.
fn assert_found(line: &str, findings: &[Finding], directory: &Path) {
    let Some((file, rest)) = line.split_once([':', '[']) else { return };
    if file.is_empty() {
        return;
    }
    let path = directory.join(file);
    let in_file: Vec<_> = findings.iter().filter(|finding| finding.file == path).collect();
    if path.exists() {
        assert!(!in_file.is_empty(), "{line}: {findings:?}");
    }
    if let Some(offset) = rest.split_once("last valid record ends at offset ") {
        let digits: String = offset.1.chars().take_while(char::is_ascii_digit).collect();
        let offset: u64 = digits.parse().unwrap();
        assert!(in_file.iter().any(|finding| finding.offset <= offset), "{line}: {in_file:?}");
    }
}

fn bad_archives() -> Option<(PathBuf, Vec<Value>)> {
    let directory = corpus()?.join("badarchives");
    let expected = std::fs::read_to_string(directory.join("EXPECTED.json")).unwrap();
    let expected: Vec<Value> = serde_json::from_str(&expected).unwrap();
    assert!(expected.len() > 50);
    Some((directory, expected))
}

fn salvaged(salvage: &Salvage) -> u64 {
    let mut records = salvage.records();
    let mut n = 0;
    while let Some(next) = records.next().unwrap() {
        n += u64::from(matches!(next, SalvageItem::Record(_)));
    }
    n
}

#[test]
fn of_bad_archives_at_least_as_much_is_salvaged_as_pcp_reads() {
    let Some((directory, expected)) = bad_archives() else { return };
    for entry in &expected {
        let name = entry["name"].as_str().unwrap();
        let read = entry["tools"]["7.2.1"]["records"].as_u64().unwrap_or(0);
        match Salvage::open(directory.join(name)) {
            Ok(salvage) => assert!(salvaged(&salvage) >= read, "{name}"),
            // PCP means to refuse unknown feature bits, and has the test wrong.
            Err(error) => assert!(read == 0 || name == "v3-feature-bit", "{name}: {error}"),
        }
    }
}

#[test]
fn repaired_archives_are_clean_and_open() {
    let Some((directory, expected)) = bad_archives() else { return };
    let mut repairs = 0;
    for entry in &expected {
        let name = entry["name"].as_str().unwrap();
        let output = tempfile::tempdir().unwrap();
        let output = output.path().join("repaired");
        match repair(directory.join(name), &output) {
            Ok(repaired) => {
                repairs += 1;
                for part in std::iter::once(&repaired).chain(&repaired.further) {
                    assert_sound(name, &part.base, part.records + part.marks);
                }
            }
            Err(Error::NoData { .. } | Error::Corrupt { .. }) => {}
            Err(error) => panic!("{name}: {error}"),
        }
    }
    assert!(repairs > 40, "{repairs}");
}

#[track_caller]
fn assert_sound(name: &str, base: &Path, records: u64) {
    let report = check(base).unwrap();
    // A repair keeps labels that PCP's readers use.
    for defect in report.findings().iter().map(|finding| &finding.defect) {
        let is_fine = defect.severity() == Severity::Note || defect.is_foreign_text();
        assert!(is_fine, "{name}: {:?}", report.findings());
    }
    assert_eq!(report.records(), records, "{name}");
    Archive::open(base).unwrap_or_else(|error| panic!("{name}: {error}"));
}
