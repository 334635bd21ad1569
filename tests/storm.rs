//! All attacks of hostile users at once, beside an honest program of another user that
//! counts: of its values nothing is lost, replaced or renamed, the agent samples on time in
//! bounded memory, and it is never restarted.
//!
//! | | |
//! |---|---|
//! | `users` | processes of other users |
//! | `honest` | the program that counts, and one that comes and goes |
//! | `files` | MMV files as an attacker makes them |
//! | `attacks` | what attackers do, one process each |
//! | `watch` | the agent's memory and ticks while it runs |
//! | `verdict` | whether each value of the honest programs is a true one |
//! | `neighbours` | each attack alone at a calm interval, with figures |
//!
//! The machine delays ticks as well: those of a second agent without files show how many. It delays
//! either agent for seconds now and then, so each attack that delays too many alone is run two times
//! more, and has to delay them in one of these too.
//!
//! `neighbours` judges ticks one by one instead, and subtracts how long the sampler waited for a
//! processor.
//!
//! Needs root, to be several users. `MMV_STORM_SECONDS` (75, a fifth of it calm); with `MMV_LONG`,
//! `MMV_SOAK_MINUTES` (60). Each attack alone takes `MMV_ATTACK_SECONDS` (20; of `neighbours` 2,
//! with `MMV_LONG` 20). `MMV_STORM` names the attacks to run, with commas between; `MMV_SEED`
//! repeats their decisions.

mod attacks;
mod files;
mod honest;
mod neighbours;
pub(crate) mod users;
mod verdict;
mod watch;

use std::fmt::{self, Display, Formatter};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::agent::{Agent, find_bases};
use crate::harness::binaries;
use crate::harness::mmv_file::image;
use crate::harness::scratch::Scratch;
use crate::harness::silent_mount::SilentMount;
use crate::harness::skip;
use crate::harness::wait;
use attacks::Attack;
use honest::{Honest, Rhythm};
use users::{AGENT, Process};
use verdict::{Findings, Verdict};
use watch::{ProcessorWaits, Ticks, WaitsWatcher, Watch};

const INTERVAL: Duration = Duration::from_millis(5);
/// A tick takes a microsecond or two for each file and 50 ns for each value: the limits, which
/// attackers use up, leave half of the interval.
const CONFIG: &str = "interval = \"5ms\"\ncapture-group = \"*\"\n\
                      [hindsight]\n\
                      [limits]\nfiles = 1000\nvalues = 20000\n";
/// The largest shares of ticks that may be missed, and that may begin late, beyond those of an
/// agent without files at the same time, which the machine causes. An agent with debug assertions
/// takes most of an interval for a tick.
const MOST_MISSED: f64 = if cfg!(debug_assertions) { 0.04 } else { 0.01 };
const MOST_LATE: f64 = if cfg!(debug_assertions) { 0.08 } else { 0.01 };
const MOST_MEMORY: u64 = 256 << 10;

/// An agent, its directories and programs.
#[derive(Debug)]
struct Setting {
    scratch: Scratch,
    config: String,
    interval: Duration,
    rhythm: Rhythm,
    /// The fewest records that each honest program must be in.
    fewest: (usize, u64),
    descriptors: Option<u32>,
    has_silent_mount: bool,
    /// The time begins when attacks have begun, and ends after a program has returned.
    waits_for_attacks: bool,
    waits_for_restart: bool,
}

impl Setting {
    /// Returns the setting of an agent at a short interval, where values may be late but not
    /// false.
    fn of_storm() -> Self {
        Self {
            scratch: Scratch::new(),
            config: CONFIG.to_owned(),
            interval: INTERVAL,
            rhythm: Rhythm { life: (1_000_000, 2_000_000), absence: (0, 1_000_000) },
            fewest: (100, 10),
            descriptors: None,
            has_silent_mount: false,
            waits_for_attacks: false,
            waits_for_restart: false,
        }
    }
}

#[derive(Debug)]
struct Plan {
    seed: u64,
    attacks: Vec<Attack>,
    /// Beside programs that compute, to compare with.
    calm: Duration,
    storm: Duration,
    alone: Duration,
}

impl Plan {
    fn of_environment() -> Self {
        let variable = |name| std::env::var(name).ok();
        let number = |name| variable(name).and_then(|text| text.parse::<u64>().ok());
        let chosen = variable("MMV_STORM");
        let attacks = match &chosen {
            Some(names) => attacks::of_names(names),
            None => attacks::ALL.to_vec(),
        };
        let seed = number("MMV_SEED").unwrap_or_else(honest::micros);
        let seconds = match std::env::var_os("MMV_LONG") {
            None => number("MMV_STORM_SECONDS").unwrap_or(75),
            Some(_) => 60 * number("MMV_SOAK_MINUTES").unwrap_or(60),
        };
        let alone = number("MMV_ATTACK_SECONDS").unwrap_or(20);
        let [calm, storm, alone] =
            [seconds / 5, seconds - seconds / 5, alone].map(Duration::from_secs);
        Self { seed, attacks, calm, storm, alone }
    }
}

/// All attacks once, in the ordinary run of the tests: what is asserted is what they do to values
/// and memory. What they do to ticks is measured where nothing else runs.
#[test]
#[ignore = "takes half a minute: ci/slow runs it"]
fn attacks_of_a_few_seconds_falsify_and_lose_no_value() {
    if !users::are_possible() {
        skip::report("the storm: only root can be several users");
        return;
    }
    let seed = honest::micros();
    let outcome = run(seed, Duration::from_secs(4), &attacks::ALL);
    println!("{outcome}");
    let faults: Vec<String> = outcome.faults().collect();
    assert!(faults.is_empty(), "MMV_SEED={seed}:\n{}", faults.join("\n"));
}

#[test]
#[ignore = "takes both processors, which would disturb other tests: ci/slow runs it alone"]
fn no_attack_of_other_users_costs_an_honest_program_anything() {
    let Some(plan) = plan() else { return };
    let calm = run(plan.seed, plan.calm, &[attacks::COMPUTE].repeat(plan.attacks.len().max(1)));
    println!("beside programs that compute: {calm}");
    let storm = run(plan.seed, plan.storm, &plan.attacks);
    println!("in the storm: {storm}");
    let mut complaints = calm.findings.complaints;
    complaints.extend(storm.faults().chain(storm.delays()));
    assert!(complaints.is_empty(), "MMV_SEED={}:\n{}", plan.seed, complaints.join("\n"));
}

#[test]
#[ignore = "takes both processors for minutes: ci/long runs it alone"]
fn no_attack_alone_costs_an_honest_program_anything() {
    let Some(plan) = plan() else { return };
    let mut complaints = Vec::new();
    for attack in &plan.attacks {
        let name = attack.name();
        let mut run = || {
            let outcome = run(plan.seed, plan.alone, &[*attack]);
            println!("{name:>12}: {outcome}");
            complaints.extend(outcome.faults().map(|text| format!("{name}: {text}")));
            outcome.delays()
        };
        let mut delays = run();
        if !delays.is_empty() {
            let again = [run(), run()].concat();
            delays = if again.is_empty() { again } else { [delays, again].concat() };
        }
        complaints.extend(delays.into_iter().map(|text| format!("{name}: {text}")));
    }
    assert!(complaints.is_empty(), "MMV_SEED={}:\n{}", plan.seed, complaints.join("\n"));
}

/// Returns the plan, which it prints, where the test is possible.
fn plan() -> Option<Plan> {
    if !users::are_possible() {
        skip::report("the storm: only root can be several users");
        return None;
    }
    let plan = Plan::of_environment();
    println!("MMV_SEED={}: {plan:?}", plan.seed);
    Some(plan)
}

#[derive(Debug)]
struct Outcome {
    ticks: Ticks,
    /// Ticks of an agent without files.
    machine: Ticks,
    memory: u64,
    /// Missing samples of the file [`attacks::SLOW`].
    missing: u64,
    findings: Findings,
    waits: ProcessorWaits,
}

impl Outcome {
    fn faults(&self) -> impl Iterator<Item = String> + use<> {
        let memory = (self.memory > MOST_MEMORY).then(|| format!("{} MiB", self.memory >> 10));
        self.findings.complaints.clone().into_iter().chain(memory)
    }

    fn delays(&self) -> Vec<String> {
        let missed = self.ticks.missed_share() - self.machine.missed_share();
        let late = self.ticks.late_share() - self.machine.late_share();
        let shares = [("missed", missed, MOST_MISSED), ("late", late, MOST_LATE)];
        let above = shares.into_iter().filter(|(_, share, most)| share > most);
        above
            .map(|(what, share, _)| {
                let share = 100.0 * share;
                format!("{share:.1} % of the ticks {what} beyond those of an agent without files")
            })
            .collect()
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { ticks, machine, memory, findings, .. } = self;
        let (memory, complaints) = (memory >> 10, findings.complaints.len());
        let (records, gap) = (findings.times.len(), findings.longest_gap());
        write!(f, "{records} records, the longest gap {gap:.0?}; {ticks}; {memory} MiB; ")?;
        write!(f, "{complaints} complaints; without files {machine}")
    }
}

fn run(seed: u64, span: Duration, attackers: &[Attack]) -> Outcome {
    let outcome = run_in(&Setting::of_storm(), seed, span, attackers);
    outcome.expect("nothing that is not possible everywhere")
}

/// Runs them in a setting; `None` where it is not possible.
fn run_in(setting: &Setting, seed: u64, span: Duration, attackers: &[Attack]) -> Option<Outcome> {
    let Setting { scratch, interval, .. } = setting;
    let quiet = Scratch::new();
    [scratch, &quiet].into_iter().for_each(open_to_all);
    let mut honest = Honest::start(scratch, seed, setting.rhythm);
    let mut agent = start_agent(scratch, &setting.config, setting.descriptors);
    let mut without_files = start_agent(&quiet, &setting.config, None);
    wait::until_true("the first records", || {
        agent.assert_alive();
        agent.data_bytes() > 1_000
    });
    let waits = WaitsWatcher::begin(&agent);
    let mut watch = Watch::begin(&agent, &scratch.archives());
    let machine = Watch::begin(&without_files, &quiet.archives());
    let mut silent = None;
    if setting.has_silent_mount {
        silent = Some(SilentMount::on(scratch.install_bytes(&image(0, 1, &[("x", 7)]), "silent"))?);
    }
    let mut running: Vec<Process> = Vec::new();
    for (number, attack) in attackers.iter().enumerate() {
        running.push(attack.start(scratch, seed.wrapping_add(number as u64)));
    }
    let mut end = Instant::now() + span;
    if setting.waits_for_attacks {
        wait::until_true("the attacks", || attackers.iter().all(|one| one.has_begun(scratch)));
        honest.hurry();
        end = Instant::now() + span;
    }
    let is_over = |honest: &Honest| {
        let late = Instant::now() > end + wait::PATIENCE;
        late || !setting.waits_for_restart || honest.has_returned_for(Duration::from_millis(1500))
    };
    let mut round = 0_u64;
    while Instant::now() < end || !is_over(&honest) {
        sleep(Duration::from_millis(50));
        honest.look();
        watch.look(&agent);
        agent.assert_alive();
        round += 1;
        // What an administrator does, now and then.
        if round.is_multiple_of(100) {
            agent.signal([Signal::SIGHUP, Signal::SIGUSR2][(round / 100 % 2) as usize]);
        }
    }
    let (ticks, memory) = watch.finish(&agent, *interval);
    let (machine, _) = machine.finish(&without_files, *interval);
    let missing = watch::missing(&scratch.archives(), attacks::SLOW);
    let waits = waits.finish();
    drop(running);
    without_files.terminate();
    let status = agent.terminate();
    drop(silent);
    let lives = honest.end();
    let mut bases = Vec::new();
    find_bases(&scratch.archives(), &mut bases);
    bases.sort();
    let mut verdict = Verdict::new(lives, *interval);
    verdict.fewest = setting.fewest;
    for base in &bases {
        verdict.read(base);
    }
    let mut findings = verdict.finish();
    if !status.success() {
        findings.complaints.push(format!("the agent ends with {status}: {}", agent.log()));
    }
    if !findings.complaints.is_empty() {
        let log = agent.log();
        let last: Vec<&str> = log.lines().rev().take(30).collect();
        println!("the agent's last lines, newest first:\n{}", last.join("\n"));
    }
    Some(Outcome { ticks, machine, memory, missing, findings, waits })
}

/// Starts an agent as a service of its own user. As such it may sample with real-time scheduling
/// (here by a capability, since not every container may raise `RLIMIT_RTPRIO`), and has a control
/// group of its own: attackers do not share its part of the processors.
fn start_agent(scratch: &Scratch, settings: &str, descriptors: Option<u32>) -> Agent {
    let program = scratch.path().join("mmv-agent");
    binaries::copy(&binaries::mmv_agent(), &program);
    let config = scratch.path().join("agent.toml");
    fs::write(&config, settings).expect("write the configuration");
    let mut command = Command::new("nice");
    let ids = [format!("--reuid={AGENT}"), format!("--regid={AGENT}")];
    command
        .args(["-n-10", "setpriv", "--inh-caps=+sys_nice", "--ambient-caps=+sys_nice"])
        .args(ids)
        .arg("--clear-groups");
    if let Some(descriptors) = descriptors {
        command.args(["prlimit", &format!("--nofile={descriptors}")]);
    }
    command.arg(&program);
    Agent::spawn(command, scratch, &["--config", config.to_str().expect("UTF-8")])
}

/// Opens the directories as on a machine with several users: anybody may put files into that of
/// MMV files, and read archives.
fn open_to_all(scratch: &Scratch) {
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
    mode(scratch.path(), 0o755).expect("set a mode");
    mode(&scratch.tmp_dir(), 0o755).expect("set a mode");
    mode(&scratch.mmv_dir(), 0o1777).expect("set a mode");
    mode(&scratch.archives(), 0o755).expect("set a mode");
    chown(scratch.archives(), Some(AGENT), Some(AGENT)).expect("set an owner");
    let ready = attacks::ready_directory(scratch);
    fs::create_dir(&ready).expect("a directory");
    mode(&ready, 0o1777).expect("set a mode");
}
