//! Programs that restart, grow, appear and vanish while the agent runs, and how the
//! agent itself ends.

mod restarts;

use std::fs;
use std::path::Path;

use nix::sys::signal::Signal;

use crate::compliance::{self, finished};
use crate::flight_recorder;
use crate::harness::agent::Agent;
use crate::harness::archive_facts;
use crate::harness::facts::{Facts, number};
use crate::harness::mmv_file::{grow, image, remove, set};
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;
use crate::harness::wait;
use crate::producers::Producer;

/// The first value of the C program's counter.
const FIRST: u64 = 12_345_678_901_234;

#[test]
fn restarted_program_keeps_its_pmids_without_a_mark() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let counter = "mmv.app.requests.count";
    let mut first = Producer::c(&oracle, &scratch, "app", 3);
    let mut agent = Agent::start(&scratch);
    wait_for_value(&agent, counter, FIRST);
    first.order("add 1000");
    wait_for_value(&agent, counter, FIRST + 1000);
    drop(first);
    let mut second = Producer::c(&oracle, &scratch, "app", 3);
    wait_for_last_value(&agent, counter, FIRST);
    second.order("add 7");
    wait_for_value(&agent, counter, FIRST + 7);
    let facts = finished(&mut agent);
    assert_steps(&facts, counter, &[FIRST, FIRST + 1000, FIRST, FIRST + 7]);
    assert_no_mark(&facts);
}

#[test]
fn restart_is_marked_on_request_and_has_no_rate() {
    let Some(oracle) = Oracle::find() else { return };
    for wanted in [false, true] {
        let scratch = Scratch::new();
        scratch.install_bytes(&image(9, 1, &[("requests", 1)]), "app");
        scratch.install_bytes(&image(10, 1, &[("steady", 8)]), "other");
        let config = scratch.path().join("agent.toml");
        let text = format!("interval = \"50ms\"\nmark-on-restart = {wanted}\n[hindsight]\n");
        fs::write(&config, text).expect("write the configuration");
        let options = ["--config", config.to_str().expect("UTF-8")];
        let mut agent = Agent::start_with(&scratch, &options);
        // Ten samples of each run.
        let wait_for = |times: usize| {
            agent.wait_for("more samples", |base| {
                archive_facts::so_far(base)
                    .is_some_and(|facts| samples(&facts, "mmv.app.requests").len() >= times)
            });
        };
        wait_for(10);
        scratch.install_bytes(&image(9, 1, &[("requests", 3_000)]), "app");
        wait_for_last_value(&agent, "mmv.app.requests", 3_000);
        wait_for(20);
        let (_, captured) = flight_recorder::captured(&scratch, "captured", &[]);
        let facts = finished(&mut agent);
        assert_steps(&facts, "mmv.app.requests", &[1, 3_000]);
        assert_missing_in_last_values(&facts, "mmv.other.steady");
        let marks = |facts: &Facts| facts.records.iter().filter(|record| record.mark).count();
        assert_eq!(marks(&facts), usize::from(wanted));
        assert_eq!(marks(&captured), usize::from(wanted));
        // The new program's counter is already higher than the old one's, so only the mark
        // shows the restart to a reader. It also costs readers of the other program two rates.
        let base = agent.archive();
        let base = base.to_str().expect("UTF-8");
        let rates = |metric| oracle.run("pmval", &["-z", "-t", "0.05", "-a", base, metric]);
        for (metric, restarts) in [("mmv.app.requests", true), ("mmv.other.steady", false)] {
            let printed = rates(metric);
            // A time, and a rate or "No values available", as for the first sample.
            let lines = printed.lines().skip_while(|line| !line.starts_with("interval:")).skip(1);
            let rates =
                lines.map(|line| line.split_whitespace().nth(1).and_then(|word| word.parse().ok()));
            let rates: Vec<Option<f64>> = rates.skip_while(Option::is_none).collect();
            let most = rates.iter().flatten().copied().fold(0.0, f64::max);
            assert_eq!(most > 0.0, restarts && !wanted, "{printed}");
            assert_eq!(rates.contains(&None), wanted, "{printed}");
        }
    }
}

#[test]
fn a_file_replaced_with_other_metrics_is_logged_with_those() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    scratch.install_bytes(&image(10, 1, &[("steady", 8)]), "other");
    let mut agent = Agent::start(&scratch);
    wait_for_value(&agent, "mmv.app.requests", 3);
    scratch.install_bytes(&image(9, 2, &[("requests", 1), ("errors", 4)]), "app");
    wait_for_value(&agent, "mmv.app.errors", 4);
    let facts = finished(&mut agent);
    assert_steps(&facts, "mmv.app.requests", &[3, 1]);
    assert_missing_in_last_values(&facts, "mmv.other.steady");
    assert_no_mark(&facts);
}

#[test]
fn a_file_that_grows_in_place_goes_on_and_shows_its_new_metrics() {
    let scratch = Scratch::new();
    let path = scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let mut agent = Agent::start(&scratch);
    wait_for_value(&agent, "mmv.app.requests", 3);
    grow(&path, &image(9, 2, &[("requests", 4), ("errors", 1)]));
    wait_for_value(&agent, "mmv.app.errors", 1);
    set(&path, 1, 2);
    wait_for_value(&agent, "mmv.app.errors", 2);
    let facts = finished(&mut agent);
    assert_steps(&facts, "mmv.app.requests", &[3, 4]);
    assert_steps(&facts, "mmv.app.errors", &[1, 2]);
    // Only values that were read while the file changed may be missing.
    let missing =
        samples(&facts, "mmv.app.requests").iter().filter(|value| value.is_none()).count();
    assert!(missing <= 2, "{missing} samples without the file that grew");
    assert_no_mark(&facts);
}

#[test]
fn files_that_appear_and_vanish_are_logged_while_they_are_there() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(10, 1, &[("steady", 8)]), "other");
    let mut agent = Agent::start(&scratch);
    wait_for_value(&agent, "mmv.other.steady", 8);
    let path = scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    wait_for_value(&agent, "mmv.app.requests", 3);
    remove(&path);
    agent.wait_for("samples without the file", |base| vanished(base, "mmv.app.requests"));
    let facts = finished(&mut agent);
    assert_steps(&facts, "mmv.app.requests", &[3]);
    assert_in_every_sample(&facts, "mmv.other.steady");
    assert_no_mark(&facts);
}

#[test]
fn a_file_that_becomes_ready_late_is_logged_from_then_on() {
    let scratch = Scratch::new();
    let ready = image(9, 1, &[("requests", 3)]);
    let path = scratch.install_bytes(&image(9, 0, &[("requests", 3)]), "app");
    scratch.install_bytes(&image(10, 1, &[("steady", 8)]), "other");
    let mut agent = Agent::start(&scratch);
    wait_for_value(&agent, "mmv.other.steady", 8);
    grow(&path, &ready);
    wait_for_value(&agent, "mmv.app.requests", 3);
    assert_no_mark(&finished(&mut agent));
}

#[test]
fn dead_program_with_the_process_flag_leaves_last_values() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    scratch.install_bytes(&image(10, 1, &[("steady", 8)]), "other");
    let process = 2;
    let program = Producer::c_with(&oracle, &scratch, "app", 9, process, 1);
    let mut agent = Agent::start(&scratch);
    wait_for_value(&agent, "mmv.app.requests.count", FIRST);
    drop(program);
    agent.wait_for("samples without the dead program", |base| {
        vanished(base, "mmv.app.requests.count")
    });
    let facts = finished(&mut agent);
    assert_steps(&facts, "mmv.app.requests.count", &[FIRST]);
    assert_in_every_sample(&facts, "mmv.other.steady");
    assert_no_mark(&facts);
}

#[test]
fn program_that_stops_properly_ends_as_a_killed_one() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    scratch.install_bytes(&image(10, 1, &[("steady", 8)]), "other");
    let process = 2;
    let program = Producer::c_with(&oracle, &scratch, "app", 9, process, 1);
    let mut agent = Agent::start(&scratch);
    wait_for_value(&agent, "mmv.app.requests.count", FIRST);
    program.stop();
    agent.wait_for("samples without the program", |base| vanished(base, "mmv.app.requests.count"));
    assert_no_mark(&finished(&mut agent));
}

#[test]
fn a_full_disk_costs_samples_and_one_mark() {
    /// Bytes of a label, and of a record of three singular 64-bit values.
    const LABEL: u64 = 808;
    const RECORD: u64 = 4 + 12 + 4 + 3 * (20 + 12) + 4;
    let scratch = Scratch::new();
    let metrics = [("requests", 3), ("errors", 1), ("retries", 2)];
    scratch.install_bytes(&image(9, 1, &metrics), "app");
    // Room for the metadata and some records; after them for marks, but not for
    // another record.
    let room = LABEL + 20 * RECORD + 4 * 24;
    let agent = Agent::start_on_full_disk(&scratch, room, &["--interval", "50ms"]);
    let Some(mut agent) = agent else { return };
    wait::until_true("the disk to be full", || agent.log().contains("cannot write"));
    // Each of these is noticed in a later sample than the one before.
    for late in ["second", "third"] {
        scratch.install_bytes(&image(10, 1, &[("steady", 8)]), late);
        wait::until_true("another sample", || agent.log().contains(late));
    }
    agent.lift_limit();
    wait::until_true("writing to go on", || agent.log().contains("writing the archive again"));
    let facts = finished(&mut agent);
    assert_eq!(facts.records.iter().filter(|record| record.mark).count(), 1);
    assert_steps(&facts, "mmv.app.requests", &[3]);
}

#[test]
fn sigterm_writes_the_last_sample_and_index_entry() {
    ends_with_a_last_sample(Signal::SIGTERM);
}

#[test]
fn sigint_writes_the_last_sample_and_index_entry() {
    ends_with_a_last_sample(Signal::SIGINT);
}

/// Checks that the last sample has the second value: with an hour between samples no other can
/// have it.
#[track_caller]
fn ends_with_a_last_sample(signal: Signal) {
    let scratch = Scratch::new();
    let path = scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let mut agent = Agent::start_with(&scratch, &["--interval", "1h"]);
    wait_for_value(&agent, "mmv.app.requests", 3);
    set(&path, 0, 4);
    agent.signal(signal);
    agent.ended();
    let base = agent.archive();
    let facts = archive_facts::of_mmv_archive(&base);
    assert_steps(&facts, "mmv.app.requests", &[3, 4]);
    let last = facts.records.last().expect("records").timestamp;
    assert_eq!(facts.label.end, last, "the end that the index knows");
    if let Some(oracle) = Oracle::find() {
        compliance::check(&oracle, &base);
        let index = oracle.run("pmdumplog", &["-t", base.to_str().expect("a UTF-8 path")]);
        let nanoseconds = format!(".{:09}", last.1);
        let entry = index.lines().last().expect("an entry");
        assert!(entry.contains(&nanoseconds), "the last entry is for {last:?}: {entry}");
    }
}

/// Returns the samples of a singular counter: `None` where a sample has no value of it.
fn samples<'a>(facts: &'a Facts, metric: &str) -> Vec<Option<&'a str>> {
    let named = facts.metrics.iter().find(|(_, known)| known.names.contains(metric));
    let Some((pmid, _)) = named else { return Vec::new() };
    let records = facts.records.iter().filter(|record| record.has_samples());
    records.map(|record| record.value(pmid, None)).collect()
}

fn vanished(base: &Path, metric: &str) -> bool {
    archive_facts::so_far(base).is_some_and(|facts| samples(&facts, metric).last() == Some(&None))
}

#[track_caller]
fn wait_for_value(agent: &Agent, metric: &str, value: u64) {
    let value = number(&value.to_string());
    agent.wait_for(&format!("{metric} = {value}"), |base: &Path| {
        archive_facts::so_far(base)
            .is_some_and(|facts| samples(&facts, metric).contains(&Some(value.as_str())))
    });
}

#[track_caller]
fn wait_for_last_value(agent: &Agent, metric: &str, value: u64) {
    let value = number(&value.to_string());
    agent.wait_for(&format!("{metric} = {value} at last"), |base| {
        archive_facts::so_far(base)
            .is_some_and(|facts| samples(&facts, metric).last() == Some(&Some(value.as_str())))
    });
}

/// Checks that the values of a counter, without repetitions and gaps, are exactly
/// these. Zeros are ignored: libpcp_mmv publishes a file before its program can set
/// values.
#[track_caller]
fn assert_steps(facts: &Facts, metric: &str, expected: &[u64]) {
    let mut steps: Vec<_> = samples(facts, metric).into_iter().flatten().collect();
    steps.retain(|value| *value != "0");
    steps.dedup();
    let expected: Vec<_> = expected.iter().map(|value| number(&value.to_string())).collect();
    assert_eq!(steps, expected, "the values of {metric} in their order");
}

#[track_caller]
fn assert_in_every_sample(facts: &Facts, metric: &str) {
    let values = samples(facts, metric);
    assert!(!values.is_empty() && values.iter().all(Option::is_some), "{metric}: {values:?}");
}

/// Checks that a metric of another file is in all samples but that of the last values of a file
/// that was replaced. A tick that is due at that time logs both.
#[track_caller]
fn assert_missing_in_last_values(facts: &Facts, metric: &str) {
    let values = samples(facts, metric);
    let missing = values.iter().filter(|value| value.is_none()).count();
    assert!(missing <= 1, "{metric}: {values:?}");
}

#[track_caller]
fn assert_no_mark(facts: &Facts) {
    let marks: Vec<_> = facts.records.iter().filter(|record| record.mark).collect();
    assert!(marks.is_empty(), "{marks:?}");
}
