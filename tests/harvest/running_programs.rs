//! Running programs: pmdammv and our agent read the same directory.

use super::{assert_same, logged};
use crate::compliance;
use crate::harness::agent::Agent;
use crate::harness::oracle::Oracle;
use crate::harness::pmcd::Pmcd;
use crate::harness::pminfo;
use crate::harness::scratch::Scratch;
use crate::producers::Producer;

#[test]
fn files_of_libpcp_mmv_are_logged_as_pmdammv_serves_them() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let _running =
        [1, 2, 3].map(|version| Producer::c(&oracle, &scratch, &format!("c_v{version}"), version));
    compare(&oracle, &scratch, 3 * 10 + 1);
}

#[test]
fn a_file_of_perl_is_logged_as_pmdammv_serves_it() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let Some(_running) = Producer::perl(&oracle, &scratch, "paint") else { return };
    compare(&oracle, &scratch, 4);
}

#[test]
fn a_file_of_python_is_logged_as_pmdammv_serves_it() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let Some(_running) = Producer::python(&oracle, &scratch, "house") else { return };
    compare(&oracle, &scratch, 3);
}

#[test]
fn unprefixed_file_is_logged_as_pmdammv_serves_it() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    // Not a legal part of a metric name, which is no matter without the prefix.
    let (no_prefix, process) = (1, 2);
    let _running = Producer::c_with(&oracle, &scratch, "my-app.1", 77, no_prefix | process, 3);
    compare(&oracle, &scratch, 10);
}

/// Compares the values that pmdammv serves now with those that our agent logs now.
#[track_caller]
fn compare(oracle: &Oracle, scratch: &Scratch, metrics: usize) {
    let pmcd = Pmcd::start(oracle, scratch);
    let served = pminfo::ask(oracle, ["-h", &pmcd.host()]);
    assert_eq!(served.len(), metrics, "metrics that pmdammv serves");
    let archive = Agent::harvest(scratch);
    let mut found = logged(oracle, &archive);
    found.retain(|name, _| !name.starts_with("mmv.agent."));
    assert_same("live", &found, &served);
    compliance::check(oracle, &archive);
}
