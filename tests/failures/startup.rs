//! The agent repairs at its start what earlier runs left, and may be killed before any
//! step of that.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use nix::sys::signal::Signal;
use pcp_archive::Archive;
use pcp_archive::Compression;
use pcp_archive::check::{Severity, check};
use pcp_archive::compress::{Effort, compress_member};

use super::half_made::assert_readable_after_kill;
use super::killed::{each_step, member};
use super::wait_for_samples;
use crate::compliance;
use crate::harness::agent::{Agent, find_bases};
use crate::harness::binaries;
use crate::harness::mmv_file::{image, remove};
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;
use crate::harness::shim;
use crate::harness::wait;

fn archive(scratch: &Scratch, signal: Signal) -> PathBuf {
    let mut bases = Vec::new();
    find_bases(&scratch.archives(), &mut bases);
    let mut agent = Agent::start(scratch);
    wait::until_true("another archive", || agent.archives().len() > bases.len());
    wait_for_samples(&agent, 3);
    agent.signal(signal);
    agent.gone();
    agent.archives().pop().expect("an archive")
}

/// Creates all that a start repairs: a plain volume next to its compressed twin, a
/// half-compressed one, a torn record, a missing index, the archive of a killed agent, and one
/// half-deleted.
fn disorder() -> Scratch {
    let scratch = Scratch::new();
    let app = scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let [twins, torn, bare, open, doomed] =
        [Signal::SIGTERM, Signal::SIGKILL, Signal::SIGKILL, Signal::SIGKILL, Signal::SIGTERM]
            .map(|signal| archive(&scratch, signal));
    // Each start repairs what the one before left, so the damage is done after all.
    let plain = member(&twins, "0");
    let bytes = fs::read(&plain).expect("a volume");
    compress_member(&plain, Compression::Xz, Effort::Least, &mut || true).expect("compress it");
    fs::write(&plain, bytes).expect("the plain one again");
    fs::write(member(&twins, "1.xz.unfinished"), "half").expect("an unfinished one");
    let cut = |base: &Path, suffix: &str, bytes: u64| {
        let file = File::options().write(true).open(member(base, suffix)).expect("a member");
        let len = file.metadata().expect("its size").len();
        file.set_len(len - bytes).expect("cut it");
    };
    cut(&torn, "0", 7);
    cut(&torn, "index", 20);
    fs::remove_file(member(&bare, "index")).expect("an index");
    cut(&open, "index", 20);
    fs::rename(member(&doomed, "meta"), member(&doomed, "meta.deleting")).expect("rename it");
    remove(&app);
    scratch
}

/// Runs an agent that has nothing to log until it has put the directory in order, or until
/// its housekeeping thread is about to take this step.
fn start(scratch: &Scratch, step: Option<u64>) -> ExitStatus {
    let mut command = Command::new(binaries::mmv_agent());
    if let Some(step) = step {
        shim::kill_before(&mut command, "housekeeper", step);
    }
    let config = scratch.path().join("agent.toml");
    // What is compressed in so short a time is chance.
    fs::write(&config, "[compression]\nmethod = \"none\"\n").expect("write the configuration");
    let config = config.to_str().expect("UTF-8");
    // The thread does all this before it ends, however short the run is.
    let options = ["--config", config, "--interval", "20ms", "--duration", "20ms"];
    Agent::spawn(command, scratch, &options).gone()
}

/// Returns all files of archives with the number of records of each archive, none of which has a
/// finding.
fn order(scratch: &Scratch) -> BTreeMap<PathBuf, u64> {
    let mut order = BTreeMap::new();
    let directories = fs::read_dir(scratch.archives()).expect("the directory of archives");
    let directories = directories.map(|entry| entry.expect("an entry").path());
    // Neither the lock nor the state.
    let shown = |path: &Path| {
        path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b"."))
    };
    for directory in directories.filter(|path| shown(path)) {
        for entry in fs::read_dir(&directory).expect("a host's directory") {
            let path = entry.expect("an entry").path();
            if !shown(&path) {
                assert!(!path.is_dir(), "{}: left by a repair", path.display());
                continue;
            }
            let mut records = 0;
            if path.extension() == Some(OsStr::new("meta")) {
                let base = path.with_extension("");
                let archive = Archive::open(&base).expect("an archive");
                let mut all = archive.records().expect("records");
                while all.next().expect("a record").is_some() {
                    records += 1;
                }
                let report = check(&base).expect("an archive that can be read");
                let wrong = report.findings().iter().find(|f| f.defect.severity() > Severity::Note);
                assert!(wrong.is_none(), "{}: {wrong:?}", base.display());
            }
            let name = path.strip_prefix(scratch.archives()).expect("within").to_owned();
            order.insert(name, records);
        }
    }
    order
}

#[test]
fn agent_killed_while_repairing_at_start_is_harmless() {
    if shim::library().is_none() {
        return;
    }
    let disorder = disorder();
    let whole = Scratch::with_archives_of(&disorder);
    assert!(start(&whole, None).success());
    let expected = order(&whole);
    let archives: Vec<u64> = expected.values().copied().filter(|records| *records > 0).collect();
    assert!(archives.len() == 4 && expected.len() == 4 * 3, "{expected:?}");
    assert!(archives.iter().all(|records| *records >= 3), "{expected:?}");
    if let Some(oracle) = Oracle::find() {
        for (name, _) in expected.iter().filter(|(_, records)| **records > 0) {
            compliance::assert_without_finding(
                &oracle,
                &whole.archives().join(name).with_extension(""),
            );
        }
    }
    let steps = each_step(|step| {
        let scratch = Scratch::with_archives_of(&disorder);
        let status = start(&scratch, Some(step));
        assert_readable_after_kill(&Agent::host_directory(&scratch));
        assert!(start(&scratch, None).success());
        assert_eq!(order(&scratch), expected);
        status
    });
    assert!(steps >= 20, "only {steps} steps");
}
