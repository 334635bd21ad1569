//! A process number that is reused: only in a namespace of its own can a test
//! choose the next number.

use std::fs;
use std::process::{Child, Command};

use crate::harness::agent::Agent;
use crate::harness::archive_facts;
use crate::harness::facts::number;
use crate::harness::mmv_file::{image, patched, set};
use crate::harness::scratch::Scratch;
use crate::harness::skip::skip;
use crate::harness::wait;

/// Set in the namespace where the test chooses process numbers.
const NAMESPACE: &str = "MMV_PROCESS_NAMESPACE";
/// Holds the next number, less one.
const LAST: &str = "/proc/sys/kernel/ns_last_pid";

/// Offsets of flags and process in a header, and the flag that makes the latter count.
const FLAGS_AT: usize = 28;
const PROCESS_AT: usize = 32;
const PROCESS: u32 = 2;

#[test]
fn reused_process_number_revives_no_dead_program() {
    let within = |command: &[&str]| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]);
        unshare.arg("--kill-child").args(command).env(NAMESPACE, "1").output()
    };
    let probe = format!("echo 1000 > {LAST}");
    if !within(&["sh", "-c", &probe]).is_ok_and(|output| output.status.success()) {
        return skip("no process numbers of one's own");
    }
    let program = std::env::current_exe().expect("this program");
    let program = program.to_str().expect("a UTF-8 path");
    let test = "failures::reused_pid::with_numbers_of_ones_own";
    let output = within(&[program, "--ignored", "--exact", test]).expect("start unshare");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
}

/// A process that does nothing; killed on drop.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(Command::new("sleep").arg("60").spawn().expect("start sleep"))
    }

    /// Starts a process with this number, which must be free.
    fn numbered(number: u32) -> Self {
        for _ in 0..100 {
            fs::write(LAST, (number - 1).to_string()).expect("set the next number");
            let sleeper = Self::start();
            if sleeper.0.id() == number {
                return sleeper;
            }
        }
        panic!("no process gets the number {number}");
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "runs where process numbers can be chosen, within the test above"]
fn with_numbers_of_ones_own() {
    assert!(std::env::var_os(NAMESPACE).is_some(), "no {NAMESPACE}");
    let scratch = Scratch::new();
    scratch.install_bytes(&image(10, 1, &[("steady", 8)]), "other");
    let first = Sleeper::start();
    let process = first.0.id();
    let of_process = |value| {
        let bytes = image(9, value, &[("requests", value)]);
        let bytes = patched(&bytes, FLAGS_AT, &PROCESS.to_ne_bytes());
        patched(&bytes, PROCESS_AT, &process.to_ne_bytes())
    };
    let path = scratch.install_bytes(&of_process(3), "app");
    let mut agent = Agent::start(&scratch);
    wait_for(&agent, &["3"]);
    drop(first);
    // While the agent runs ...
    agent.wait_for("its end", |_| agent.log().contains("its process"));
    let other = Sleeper::numbered(process);
    set(&path, 0, 4);
    wait_for_samples(&agent, 10);
    // ... and when another one starts.
    assert!(agent.terminate().success(), "{}", agent.log());
    let mut agent = Agent::start(&scratch);
    wait_for_samples(&agent, 10);
    assert!(agent.terminate().success(), "{}", agent.log());
    for base in agent.archives() {
        let facts = archive_facts::of_mmv_archive(&base);
        let values = facts.records.iter().filter_map(|record| record.value("70.9.1", None));
        assert!(values.clone().all(|value| value == number("3")), "{}", agent.log());
    }
    // A file of the other process is its own.
    scratch.install_bytes(&of_process(5), "app");
    let mut agent = Agent::start(&scratch);
    wait_for(&agent, &["5"]);
    drop(other);
    assert!(agent.terminate().success(), "{}", agent.log());
}

#[track_caller]
fn wait_for(agent: &Agent, expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(|value| number(value)).collect();
    agent.wait_for("values", |base| {
        archive_facts::so_far(base).is_some_and(|facts| {
            let values = facts.records.iter().filter_map(|record| record.value("70.9.1", None));
            let mut values: Vec<_> = values.collect();
            values.dedup();
            values == expected
        })
    });
}

#[track_caller]
fn wait_for_samples(agent: &Agent, more: usize) {
    let samples = || {
        let all = agent.archives().into_iter().filter_map(|base| archive_facts::so_far(&base));
        all.map(|facts| facts.records.iter().filter(|r| r.has_samples()).count()).sum::<usize>()
    };
    let enough = samples() + more;
    wait::until_true("more samples", || samples() >= enough);
}
