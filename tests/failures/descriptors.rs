//! A lack of file descriptors.

use std::process::Command;

use super::wait_for_samples;
use crate::harness::agent::Agent;
use crate::harness::binaries;
use crate::harness::mmv_archive::printed_of;
use crate::harness::mmv_file::image;
use crate::harness::scratch::Scratch;
use crate::harness::wait;
use crate::status_command::status_json;

fn limit(agent: &Agent, files: u32) {
    let id = agent.id().to_string();
    let status =
        Command::new("prlimit").args(["--pid", &id, &format!("--nofile={files}:")]).status();
    assert!(status.expect("run prlimit").success());
}

#[test]
fn an_agent_that_may_open_too_few_files_says_so_and_ends() {
    let scratch = Scratch::new();
    let mut command = Command::new("prlimit");
    command.arg("--nofile=20:20").arg(binaries::mmv_agent());
    let mut agent = Agent::spawn(command, &scratch, &[]);
    assert_eq!(agent.gone().code(), Some(74));
    let log = agent.log();
    assert!(log.contains("the limit of 20 open files is too low: the agent needs 64"), "{log}");
}

#[test]
fn lack_of_descriptors_is_reported_and_its_end_logged() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let mut agent = Agent::start_with(&scratch, &["--interval", "50ms", "--events", "true"]);
    wait_for_samples(&agent, 3);
    let last_error = || status_json(&scratch)?["last-error"]["what"].as_str().map(str::to_owned);
    assert_eq!(last_error(), None);
    limit(&agent, 12);
    scratch.install_bytes(&image(10, 1, &[("requests", 3)]), "other");
    wait::until_true("the error", || {
        last_error().is_some_and(|error| error.contains("Too many open files"))
    });
    limit(&agent, 1024);
    wait::until_true("the end of the lack", || {
        agent.log().contains("descriptors and memory are available again")
    });
    wait::until_true("the other file", || agent.log().contains("harvested file=other"));
    assert!(agent.terminate().success(), "{}", agent.log());
    let mut events = String::new();
    for base in agent.archives() {
        events += &printed_of(&base, &["events"]);
    }
    let lost = events.lines().find(|line| line.contains("lost"));
    let lost = lost.unwrap_or_else(|| panic!("no event in\n{events}"));
    assert!(lost.contains("Too many open files") && lost.contains("since="), "{lost}");
}
