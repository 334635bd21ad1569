//! `check` against pmlogcheck.

use std::path::Path;

use mmv_archive::check::{Finding, Severity, check};
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
const ACCEPTED_BY_PCP: [&str; 3] = ["v3-feature-bit", "v3-delta-first", "v3-delta-del-unknown"];

#[test]
fn all_that_pmlogcheck_finds_in_bad_archives_is_found() {
    let Some(corpus) = corpus() else { return };
    let directory = corpus.join("badarchives");
    let expected = std::fs::read_to_string(directory.join("EXPECTED.json")).unwrap();
    let expected: Vec<Value> = serde_json::from_str(&expected).unwrap();
    assert!(expected.len() > 50);
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

/// A line of pmlogcheck that starts with a file's name has its counterpart in
/// that file, and where it names the end of what is good, at that place.
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
