//! Our archives through PCP's programs, and PCP's archives through ours.

use std::ffi::OsStr;
use std::path::Path;

use crate::harness::agent::Agent;
use crate::harness::archive_facts;
use crate::harness::facts::Facts;
use crate::harness::mmv_file::image;
use crate::harness::oracle::Oracle;
use crate::harness::pmcd::Pmcd;
use crate::harness::pmlogger::Pmlogger;
use crate::harness::scratch::Scratch;
use crate::producers::Producer;

/// Checks what holds for every archive that any test writes: `pmlogcheck` finds nothing in it,
/// and `pmdumplog` gives the same account of it as `mmv-archive`.
#[track_caller]
pub(crate) fn check(oracle: &Oracle, archive: &Path) {
    assert_without_finding(oracle, archive);
    assert_same_account(oracle, archive);
}

/// Ends the agent by SIGTERM, and reads its archive, which must be sound.
#[track_caller]
pub(crate) fn finished(agent: &mut Agent) -> Facts {
    let status = agent.terminate();
    assert!(status.success(), "on SIGTERM: {status}\n{}", agent.log());
    let base = agent.archive();
    if let Some(oracle) = Oracle::find() {
        check(&oracle, &base);
    }
    archive_facts::of_mmv_archive(&base)
}

#[track_caller]
pub(crate) fn assert_without_finding(oracle: &Oracle, archive: &Path) {
    // -w: that a counter went down is a fact about a program, not about the archive.
    let output = oracle.output("pmlogcheck", &[OsStr::new("-w"), archive.as_os_str()]);
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(
        output.status.success() && text.is_empty(),
        "pmlogcheck {}: {}\n{text}",
        archive.display(),
        output.status
    );
}

/// Compares the accounts part by part, so that a failure does not print the whole archive.
#[track_caller]
fn assert_same_account(oracle: &Oracle, archive: &Path) {
    let theirs = archive_facts::of_pmdumplog(oracle, archive);
    let ours = archive_facts::of_mmv_archive(archive);
    let name = archive.display();
    assert_eq!(ours.label, theirs.label, "label of {name}: ours left, pmdumplog's right");
    assert_eq!(ours.metrics, theirs.metrics, "metrics of {name}");
    assert_eq!(ours.indoms, theirs.indoms, "instance domains of {name}");
    assert_eq!(ours.labels, theirs.labels, "labels of {name}");
    assert_eq!(ours.texts, theirs.texts, "help of {name}");
    for (number, (ours, theirs)) in ours.records.iter().zip(&theirs.records).enumerate() {
        assert_eq!(ours, theirs, "record {number} of {name}");
    }
    assert_eq!(ours.records.len(), theirs.records.len(), "number of records of {name}");
}

#[test]
fn pmval_pmrep_pmlogsummary_and_pmlogextract_read_archives() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 42)]), "app");
    let archive = Agent::harvest(&scratch);
    let archive = archive.to_str().expect("a UTF-8 path");
    let metric = "mmv.app.requests";
    let values = oracle.run("pmval", &["-r", "-t", "0.05", "-a", archive, metric]);
    assert!(values.lines().any(|line| line.ends_with(" 42")), "pmval: {values}");
    let rows = oracle.run("pmrep", &["-r", "-o", "csv", "-t", "0.05", "-a", archive, metric]);
    assert!(rows.lines().any(|line| line.ends_with(",42")), "pmrep: {rows}");
    let summary = oracle.run("pmlogsummary", &["-N", archive, metric]);
    assert!(summary.starts_with(metric), "pmlogsummary: {summary}");
    let extract = scratch.path().join("extract");
    oracle.run("pmlogextract", &[archive, extract.to_str().expect("a UTF-8 path")]);
    check(&oracle, &extract);
    let whole = archive_facts::of_pmdumplog(&oracle, Path::new(archive));
    let extracted = archive_facts::of_pmdumplog(&oracle, &extract);
    assert_eq!(values_of(&extracted), values_of(&whole), "all that was logged is extracted");
}

#[test]
fn two_archives_of_one_agent_are_joined_by_pmlogextract() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 42)]), "app");
    let mut bases = Vec::new();
    for _ in 0..2 {
        let mut agent = Agent::start_for(&scratch, 2);
        agent.ended();
        bases = agent.archives();
    }
    assert_eq!(bases.len(), 2, "each run has its own archive: {bases:?}");
    let joined = scratch.path().join("joined");
    let arguments: Vec<_> = bases.iter().chain([&joined]).collect();
    oracle.run("pmlogextract", &arguments);
    assert_without_finding(&oracle, &joined);
}

#[test]
fn an_archive_of_pmlogger_is_read_by_us_as_pmdumplog_reads_it() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let _running =
        [1, 2, 3].map(|version| Producer::c(&oracle, &scratch, &format!("c_v{version}"), version));
    let pmcd = Pmcd::start(&oracle, &scratch);
    let archive = scratch.path().join("pmlogger");
    Pmlogger::start(&oracle, &scratch, &pmcd, &archive, Some(4)).ended();
    assert_same_account(&oracle, &archive);
}

fn values_of(facts: &Facts) -> Vec<String> {
    let records = facts.records.iter().filter(|record| record.has_samples());
    records.map(|record| format!("{record:?}")).collect()
}
