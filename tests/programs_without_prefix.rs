//! Programs whose metrics do not have the name of the file (`MMV_FLAG_NOPREFIX`): that they
//! were away is known by the cluster that an event has.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::agent::Agent;
use crate::harness::archive_facts;
use crate::harness::mmv_archive::printed_of;
use crate::harness::mmv_file::{image, remove, with_first_item, without_prefix};
use crate::harness::scratch::Scratch;
use crate::harness::wait;

/// Returns the clusters that the events about each file name, in their order.
fn clusters(base: &Path, file: &str) -> Vec<Option<u64>> {
    let text = printed_of(base, &["events", "--json"]);
    let parameters = text.lines().map(|line| {
        let event: Value = serde_json::from_str(line).expect("JSON");
        event["parameters"].as_array().cloned().unwrap_or_default()
    });
    let of_file = parameters.filter(|all| all.iter().any(|one| one["value"] == file));
    of_file
        .map(|all| {
            let one = all.into_iter().find(|one| one["metric"] == "mmv.agent.event.cluster");
            one.and_then(|one| one["value"].as_u64())
        })
        .collect()
}

#[track_caller]
fn wait_for_samples(agent: &Agent, more: usize) {
    let samples = |base: &Path| {
        let facts = archive_facts::so_far(base);
        facts.map_or(0, |facts| facts.records.iter().filter(|r| r.has_samples()).count())
    };
    let enough = agent.archives().last().map_or(0, |base| samples(base)) + more;
    agent.wait_for("more samples", |base| samples(base) >= enough);
}

#[test]
fn absent_program_has_no_values_of_its_own() {
    let scratch = Scratch::new();
    let install = |name: &str, cluster, generation, metric, item| -> PathBuf {
        let image = without_prefix(&image(cluster, generation, &[(metric, generation)]));
        scratch.install_bytes(&with_first_item(&image, item), name)
    };
    let shop = install("shop", 9, 3, "orders", 1);
    let left = install("left", 11, 3, "east", 1);
    let _right = install("right", 11, 3, "west", 2);
    let mut agent = Agent::start_with(&scratch, &["--interval", "20ms", "--events", "true"]);
    wait_for_samples(&agent, 10);
    remove(&shop);
    remove(&left);
    wait_for_samples(&agent, 20);
    install("shop", 9, 4, "orders", 1);
    install("left", 11, 4, "east", 1);
    wait::until_true("both to be harvested again", || {
        let log = agent.log();
        ["shop", "left"]
            .iter()
            .all(|name| log.matches(&format!("mmv-agent: harvested file={name} ")).count() == 2)
    });
    wait_for_samples(&agent, 10);
    assert!(agent.terminate().success(), "{}", agent.log());
    let base = agent.archive();
    assert_eq!(clusters(&base, "shop"), [Some(9); 3]);
    // The file "right" was not there yet.
    assert_eq!(clusters(&base, "left"), [Some(11), None, None]);
    assert_eq!(clusters(&base, "right"), [None]);

    let metrics = ["mmv.orders", "mmv.east", "mmv.west"];
    let report = ["report", "--format", "csv", "-t", "20ms"];
    let table = printed_of(&base, &[&report[..], &metrics].concat());
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|row| row.split(',').collect()).collect();
    let missing = |column: usize| rows.iter().filter(|row| row[column].is_empty()).count();
    assert!(rows.len() >= 30, "{table}");
    assert!(missing(2) >= 15, "{table}");
    let mut orders: Vec<&str> = rows.iter().map(|row| row[2]).collect();
    orders.dedup();
    assert_eq!(orders, ["3", "", "4"], "{table}");
    // Nothing says whose end it was.
    assert_eq!([missing(3), missing(4)], [0, 0], "{table}");
}
