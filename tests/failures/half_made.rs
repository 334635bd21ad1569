//! Archives whose agent was killed while it made their files: readers of the directory pass
//! them by, and the next start removes them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use super::wait_for_samples;
use crate::harness::agent::Agent;
use crate::harness::mmv_archive::run_on;
use crate::harness::mmv_file::image;
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;

const METRIC: &str = "mmv.app.requests";
/// Archives of some milliseconds have no value at a whole second.
const REPORT: [&str; 5] = [METRIC, "-t", "1ms", "-S", "0s"];

fn mmv_archive(command: &str, directory: &Path, arguments: &[&str]) -> Output {
    run_on(directory, &[&[command], arguments].concat())
}

#[track_caller]
pub(crate) fn assert_readable(directory: &Path) {
    let report = mmv_archive("report", directory, &REPORT);
    let complaints = String::from_utf8_lossy(&report.stderr);
    assert!(report.status.success() && complaints.is_empty(), "{complaints}");
    assert_readable_by_pcp(directory);
}

/// Checks that PCP's readers and ours read a directory that a process was killed in; ours may
/// warn of records that are not complete.
#[track_caller]
pub(crate) fn assert_readable_after_kill(directory: &Path) {
    let report = mmv_archive("report", directory, &REPORT);
    let complaints = String::from_utf8_lossy(&report.stderr);
    assert!(report.status.success(), "{complaints}");
    assert_readable_by_pcp(directory);
}

#[track_caller]
fn assert_readable_by_pcp(directory: &Path) {
    let Some(oracle) = Oracle::find() else { return };
    let path = directory.to_str().expect("UTF-8");
    let output = oracle.output("pmval", &["-a", path, "-s", "1", METRIC]);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaints}{:?}", names(directory));
}

pub(super) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    names
}

#[test]
fn unfinished_archives_are_removed_at_the_next_start() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let base = Agent::harvest(&scratch);
    let host = base.parent().expect("a directory");
    let before = names(host);
    let [meta, index, data] = ["meta", "index", "0"].map(|suffix| {
        fs::read(PathBuf::from(format!("{}.{suffix}", base.display()))).expect("a member")[..808]
            .to_vec()
    });
    let half = &meta[..300];
    // Names of one day, as an agent that runs gives them.
    for (number, files) in [
        &[("meta", &[][..])][..],
        &[("meta", half)],
        &[("meta", &meta)],
        &[("meta", &meta), ("index", &[])],
        &[("meta", &meta), ("index", &index), ("0", &[])],
        &[("meta", &meta), ("index", &index), ("0", &data)],
        &[("meta", &[]), ("index", &[]), ("0", &[])],
        &[("index", &index)],
        &[("0", &[])],
        &[("0", &data), ("index", &index)],
        &[("0", &data), ("index", &index), ("meta.unfinished", &meta)],
        &[("meta.unfinished", half)],
    ]
    .into_iter()
    .enumerate()
    {
        for (suffix, bytes) in files {
            let file = host.join(format!("20200101.00.{number:02}.{suffix}"));
            fs::write(file, bytes).expect("write a member");
        }
    }
    for (command, arguments) in [
        ("report", &REPORT[..]),
        ("summary", &[METRIC]),
        ("events", &[]),
        ("info", &[]),
        ("metrics", &[]),
    ] {
        let output = mmv_archive(command, host, arguments);
        let complaints = String::from_utf8_lossy(&output.stderr);
        // An archive without events is not a failure of this test.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{command}: {complaints}");
        assert!(
            complaints.contains("20200101.00.00.0: missing from the archive; its writer stopped"),
            "{complaints}"
        );
        assert!(complaints.contains("20200101.00.04.0: offset 0: "), "{complaints}");
    }
    assert!(mmv_archive("report", host, &REPORT).status.success());
    let mut agent = Agent::start(&scratch);
    wait_for_samples(&agent, 1);
    assert!(agent.terminate().success(), "{}", agent.log());
    let after: Vec<_> = names(host).into_iter().filter(|name| name.starts_with("2020")).collect();
    assert_eq!(after, [""; 0], "{}", agent.log());
    assert!(before.iter().all(|name| names(host).contains(name)));
    assert_readable(host);
}
