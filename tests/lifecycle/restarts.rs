//! Programs that restart within an interval of the agent.

use std::process::Command;

use mmv_writer::{Counter, Registry};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::harness::agent::Agent;
use crate::harness::binaries;
use crate::harness::scratch::Scratch;
use crate::harness::wait;

struct Runs<'s> {
    scratch: &'s Scratch,
    registry: Option<Registry>,
    count: u64,
    total: u64,
}

impl<'s> Runs<'s> {
    fn new(scratch: &'s Scratch) -> Self {
        Self { scratch, registry: None, count: 0, total: 0 }
    }

    /// Starts another run, after the agent has the file of the one before. One in two leaves its
    /// file to be replaced, as a program that is killed does.
    fn restart(&mut self, agent: &Agent) {
        if let Some(before) = self.registry.take()
            && self.count.is_multiple_of(2)
        {
            before.withdraw();
        }
        let registry = Registry::builder("app").sealed().directory(self.scratch.mmv_dir());
        let registry = registry.build().expect("a registry");
        let counter: Counter<u64> = registry.counter("count").build().expect("a counter");
        registry.publish().expect("a file");
        self.registry = Some(registry);
        self.count += 1;
        wait::until_true("the file", || {
            agent.log().matches("harvested file=app version").count() as u64 == self.count
        });
        counter.add(1000 + self.count);
        self.total += 1000 + self.count;
    }
}

fn lines(command: &mut Command) -> Vec<Value> {
    let output = command.output().expect("start a command");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn restarts_within_an_interval_lose_no_count() {
    let scratch = Scratch::new();
    let mut agent = Agent::start_with(&scratch, &["--interval", "1h", "--events", "true"]);
    wait::until_true("the first tick", || agent.log().contains("writing archive="));
    let mut runs = Runs::new(&scratch);
    for _ in 0..7 {
        runs.restart(&agent);
    }
    assert!(agent.terminate().success(), "{}", agent.log());
    let archive = agent.archive();
    let mut summary = Command::new(binaries::mmv_archive());
    let found = lines(summary.arg("summary").arg(&archive).args(["mmv.app", "--total", "--json"]));
    assert_eq!(found[0]["sum"], runs.total as f64, "{found:?}\n{}", agent.log());
}

#[test]
fn last_values_before_their_turn_are_limited_by_user() {
    const RUNS: u64 = 40;
    let scratch = Scratch::new();
    let mut agent = Agent::start_with(&scratch, &["--interval", "1h"]);
    wait::until_true("the agent", || agent.log().contains("MMV files: "));
    let start = std::time::Instant::now();
    let mut runs = Runs::new(&scratch);
    for _ in 0..RUNS {
        runs.restart(&agent);
    }
    let seconds = start.elapsed().as_secs();
    let mut status = Command::new(binaries::mmv_agent());
    status.args(["status", "--json", "--archive-dir"]).arg(scratch.archives());
    let status: Value =
        serde_json::from_slice(&status.output().expect("the status").stdout).expect("JSON");
    let missing = status["sources"][0]["missing"].as_u64().expect("a number");
    assert!(agent.terminate().success(), "{}", agent.log());
    let mut report = Command::new(binaries::mmv_archive());
    report.arg("report").arg(agent.archive()).args(["mmv.app.count", "--raw", "--json"]);
    let logged = lines(&mut report).iter().filter(|line| line["value"].is_number()).count() as u64;
    assert!((10..=12 + seconds).contains(&logged), "{logged} in {seconds} s");
    // Values that are read after the limit of time count as missing, and are logged.
    let known = logged + missing;
    assert!((RUNS..RUNS + 4).contains(&known), "{missing} are missing, {logged} are logged");
}

#[test]
fn restarts_of_the_agent_lose_no_count() {
    let scratch = Scratch::new();
    let registry = Registry::builder("app").directory(scratch.mmv_dir()).build();
    let registry = registry.expect("a registry");
    let counter: Counter<u64> = registry.counter("count").build().expect("a counter");
    let mut total: u32 = 0;
    for is_killed in [false, true, false] {
        let mut agent = Agent::start_with(&scratch, &["--interval", "1s", "--events", "true"]);
        for _ in 0..2 {
            counter.add(1000);
            total += 1000;
            let before = agent.volume_bytes();
            wait::until_true("another record", || agent.volume_bytes() > before);
        }
        if is_killed {
            agent.signal(Signal::SIGKILL);
            agent.gone();
        } else {
            assert!(agent.terminate().success(), "{}", agent.log());
        }
    }
    let asked = |command: &str, option: &str| {
        let mut asked = Command::new(binaries::mmv_archive());
        asked.arg(command).arg(scratch.archives()).args(["mmv.app.count", option, "--json"]);
        lines(&mut asked)
    };
    let values = asked("report", "--raw");
    // What was counted before is unknown.
    let first = values.iter().find_map(|line| line["value"].as_f64()).expect("a value");
    let found = asked("summary", "--total");
    assert_eq!(found[0]["sum"], f64::from(total) - first, "{found:?}");
}
