//! Programs in containers: in a PID namespace of their own, and in a control group.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::Value;

use crate::compliance::finished;
use crate::harness::agent::Agent;
use crate::harness::archive_facts;
use crate::harness::binaries;
use crate::harness::facts::{Facts, Record};
use crate::harness::mmv_archive::printed_of;
use crate::harness::scratch::Scratch;
use crate::harness::skip::skip;

const CONTAINER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const POD: &str = "0f4b4a3c-5d6e-4f70-8192-a3b4c5d6e7f8";

fn has_values(facts: &Facts) -> bool {
    facts.records.iter().any(Record::has_samples)
}

/// Types of the events of the program "web", in the order of their times.
fn events_of_web(base: &Path) -> Vec<String> {
    let mut types = Vec::new();
    for line in printed_of(base, &["events", "--json"]).lines() {
        let event: Value = serde_json::from_str(line).expect("JSON");
        if event["program"] == "web" {
            types.push(event["type"].as_str().expect("a type").to_owned());
        }
    }
    types
}

#[test]
fn program_in_a_pid_namespace_is_logged_until_it_ends() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.mmv_dir()).expect("the directory of MMV files");
    let in_namespace = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]);
        command.arg(program).args(arguments).spawn().expect("start unshare")
    };
    let is_possible = in_namespace(Path::new("true"), &[]).wait();
    if !is_possible.is_ok_and(|status| status.success()) {
        return skip("no PID namespace of one's own");
    }
    // The program is PID 1 there, which on the host is another process.
    let directory = scratch.mmv_dir();
    let directory = directory.to_str().expect("a UTF-8 path");
    let mut program = in_namespace(&binaries::example("web"), &[directory, "600"]);
    let config = scratch.path().join("agent.toml");
    fs::write(&config, "interval = \"50ms\"\n").expect("write the configuration");
    let mut agent = Agent::start_configured(&scratch, &config);
    agent.wait_for("values of the program", |base| {
        archive_facts::so_far(base).is_some_and(|facts| has_values(&facts))
    });
    program.kill().expect("kill the program");
    program.wait().expect("wait for the program");
    agent.wait_for("the end of the program", |base| events_of_web(base).contains(&"ended".into()));
    finished(&mut agent);
}

/// A control group that is removed on drop.
struct ControlGroup(PathBuf);

impl ControlGroup {
    /// Creates the control group of a container in a pod; `None` where that is not permitted.
    fn create() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?;
        let root = Path::new(mount.split(' ').nth(1)?);
        let pod = root.join(format!("kubepods-pod{}.slice", POD.replace('-', "_")));
        let container = pod.join(format!("cri-containerd-{CONTAINER}.scope"));
        fs::create_dir_all(&container).ok()?;
        Some(Self(container))
    }

    fn spawn(&self, program: &Path, arguments: &[&str]) -> Child {
        Command::new("sh")
            .args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""])
            .arg(&self.0)
            .arg(program)
            .args(arguments)
            .spawn()
            .expect("start a program")
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
        let _ = self.0.parent().map(fs::remove_dir);
    }
}

#[test]
fn program_in_a_container_has_labels_of_container_and_pod() {
    let scratch = Scratch::new();
    let Some(group) = ControlGroup::create() else {
        return skip("no control group can be made");
    };
    fs::create_dir_all(scratch.mmv_dir()).expect("the directory of MMV files");
    let directory = scratch.mmv_dir();
    let directory = directory.to_str().expect("a UTF-8 path");
    let mut program = group.spawn(&binaries::example("web"), &[directory, "600"]);
    let mut agent = Agent::start_with(&scratch, &["--interval", "50ms"]);
    agent.wait_for("values of the program", |base| {
        archive_facts::so_far(base).is_some_and(|facts| has_values(&facts))
    });
    let facts = finished(&mut agent);
    program.kill().expect("kill the program");
    program.wait().expect("wait for the program");
    let expected = [("container", CONTAINER), ("pod", POD)];
    for (name, value) in expected {
        let is_there = facts.labels.iter().any(|(_, owner, json)| {
            let labels: Value = serde_json::from_str(json).expect("JSON");
            owner.starts_with("Cluster ") && labels[name] == value
        });
        assert!(is_there, "no {name} in {:?}", facts.labels);
    }
}
