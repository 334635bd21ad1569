//! `check` finds each contradiction between the type of a metric and its values that
//! pmlogcheck finds: the descriptors of archives of the corpus are given other types.

use std::fs;
use std::path::{Path, PathBuf};

use pcp_archive::Archive;
use pcp_archive::check::{Severity, check};
use pcp_types::ValueType;

use crate::harness::corpus;
use crate::harness::oracle::Oracle;

const ARCHIVES: [&str; 4] = ["reduce-1", "foo_plus", "sample-proc_v2", "ok-foo_v3"];
const TYPES: [ValueType; 8] = [
    ValueType::I32,
    ValueType::U32,
    ValueType::I64,
    ValueType::U64,
    ValueType::Float,
    ValueType::Double,
    ValueType::String,
    ValueType::Aggregate,
];
/// Metrics of each type that are changed in an archive.
const METRICS: usize = 2;

#[test]
fn check_finds_each_wrong_type_that_pmlogcheck_finds() {
    let (Some(oracle), Some(_)) = (Oracle::find(), test_corpus::directory("archives")) else {
        return;
    };
    let (mut compared, mut found_by_pcp, mut found) = (0, 0, 0);
    for archive in corpus::archives() {
        if !ARCHIVES.contains(&archive.name.as_str()) {
            continue;
        }
        let opened = Archive::open(&archive.base).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let base = copy(&archive.base, directory.path());
        let before = complaints(&oracle, &base);
        let meta = base.with_extension("meta");
        let whole = fs::read(&meta).unwrap();
        for value_type in TYPES {
            let metrics = opened.metadata().metrics();
            let metrics = metrics.iter().filter(|metric| metric.desc.value_type == value_type);
            for metric in metrics.filter(|m| has_values(&opened, m.desc.pmid)).take(METRICS) {
                let at = type_offset(&whole, metric.desc.pmid.raw());
                for other in TYPES.into_iter().filter(|other| *other != value_type) {
                    let mut bytes = whole.clone();
                    bytes[at..at + 4].copy_from_slice(&other.code().to_be_bytes());
                    fs::write(&meta, bytes).unwrap();
                    let is_found = has_errors(&base);
                    let is_found_by_pcp = complaints(&oracle, &base) > before;
                    let case =
                        format!("{}: {}: {value_type} as {other}", archive.name, metric.desc.pmid);
                    assert!(is_found || !is_found_by_pcp, "{case}");
                    compared += 1;
                    found += usize::from(is_found);
                    found_by_pcp += usize::from(is_found_by_pcp);
                }
            }
        }
    }
    println!("{compared} wrong types: {found} found, {found_by_pcp} by pmlogcheck");
    assert!(compared > 100 && found_by_pcp > 50, "{compared} {found_by_pcp}");
}

fn copy(base: &Path, to: &Path) -> PathBuf {
    let copy = to.join("copy");
    for file in pcp_archive::internal::member_files(base).unwrap() {
        let name = file.to_str().unwrap();
        let suffix = name.strip_prefix(base.to_str().unwrap()).unwrap();
        fs::copy(&file, format!("{}{suffix}", copy.display())).unwrap();
    }
    copy
}

/// Counts the values that pmlogcheck cannot convert, and the records it cannot read.
fn complaints(oracle: &Oracle, base: &Path) -> usize {
    let output = oracle.output("pmlogcheck", &[base.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines().filter(|line| line.contains("failed") || line.contains("botch")).count()
}

fn has_errors(base: &Path) -> bool {
    check(base).unwrap().worst() == Some(Severity::Error)
}

fn has_values(archive: &Archive, pmid: pcp_types::Pmid) -> bool {
    let mut records = archive.records().unwrap();
    while let Some(record) = records.next().unwrap() {
        if record.value_sets().any(|set| set.pmid() == pmid && !set.is_empty()) {
            return true;
        }
    }
    false
}

fn type_offset(meta: &[u8], pmid: u32) -> usize {
    let mut head = 1_u32.to_be_bytes().to_vec();
    head.extend(pmid.to_be_bytes());
    meta.windows(8).position(|words| words == head).unwrap() + 8
}
