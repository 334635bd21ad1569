//! The scheduling of the agent's threads.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use nix::unistd::geteuid;

use crate::harness::agent::Agent;
use crate::harness::binaries;
use crate::harness::mmv_file::image;
use crate::harness::scratch::Scratch;
use crate::harness::skip;
use crate::harness::wait;

/// Policy `SCHED_OTHER` of sched(7).
const OTHER: u32 = 0;
const ROUND_ROBIN: u32 = 2;
const BATCH: u32 = 3;

/// Returns the policy and the real-time priority of each thread, by its name
/// (`proc_pid_stat(5)`).
fn policies(agent: &Agent) -> BTreeMap<String, (u32, u32)> {
    let tasks = fs::read_dir(format!("/proc/{}/task", agent.id())).expect("its threads");
    let policy = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        // The third field is the first of these.
        let field = |number: usize| rest.split_whitespace().nth(number - 3)?.parse().ok();
        Some((name.to_owned(), (field(41)?, field(40)?)))
    };
    tasks.filter_map(|task| policy(task.ok()?)).collect()
}

/// Starts an agent; returns the policies once there are samples.
fn of_agent(start: &[&str], config: &str) -> BTreeMap<String, (u32, u32)> {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(0, 1, &[("steady", 7)]), "steady");
    let path = scratch.path().join("agent.toml");
    fs::write(&path, config).expect("write the configuration");
    let mut command = Command::new(start.first().expect("a program"));
    command.args(&start[1..]).arg(binaries::mmv_agent());
    let mut agent =
        Agent::spawn(command, &scratch, &["--config", path.to_str().expect("a path in UTF-8")]);
    wait::until_true("samples", || agent.data_bytes() > 500);
    let policies = policies(&agent);
    assert!(agent.terminate().success(), "{}", agent.log());
    policies
}

#[test]
fn only_the_sampler_is_scheduled_in_real_time() {
    let is_possible = Command::new("chrt").args(["--rr", "1", "true"]).output();
    if !is_possible.is_ok_and(|output| output.status.success()) {
        skip::report("real-time scheduling: this user may not, or there is no chrt");
        return;
    }
    let interval = "interval = \"20ms\"\n";
    let mut found = of_agent(&["env"], interval);
    assert_eq!(found.remove("sampler"), Some((ROUND_ROBIN, 1)));
    assert!(found.len() > 4 && found.values().all(|(policy, _)| *policy == OTHER), "{found:?}");

    let found = of_agent(&["env"], &format!("realtime = false\n{interval}"));
    assert!(found.values().all(|(policy, _)| *policy == OTHER), "{found:?}");
    if geteuid().is_root() {
        let without = ["prlimit", "--rtprio=0:0", "setpriv", "--bounding-set=-sys_nice"];
        let found = of_agent(&without, interval);
        assert!(found.values().all(|(policy, _)| *policy == OTHER), "{found:?}");
    }
}

#[test]
fn compression_leaves_processors_to_others() {
    let scratch = Scratch::new();
    let counters: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| (name, 7)).to_vec();
    (0..200).for_each(|file| {
        scratch.install_bytes(&image(0, 1, &counters), &format!("steady{file}"));
    });
    let path = scratch.path().join("agent.toml");
    // Volumes of eight records.
    let config = "interval = \"20ms\"\n[rotation]\nvolume-size = \"400kB\"\n\
                  [compression]\nmethod = \"xz\"\nafter = \"1ms\"\n";
    fs::write(&path, config).expect("write the configuration");
    let mut agent = Agent::start_configured(&scratch, &path);
    wait::until_true("a thread that compresses", || {
        let found = policies(&agent).remove("compressor");
        assert!(found.is_none_or(|(policy, _)| [OTHER, BATCH].contains(&policy)), "{found:?}");
        found == Some((BATCH, 0))
    });
    let found = policies(&agent);
    let others = found.iter().filter(|(name, _)| *name != "compressor");
    assert!(others.clone().count() > 4, "{found:?}");
    assert!(others.clone().all(|(_, (policy, _))| *policy != BATCH), "{found:?}");
    assert!(agent.terminate().success(), "{}", agent.log());
}
