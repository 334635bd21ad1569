//! Fifty programs that die, restart changed and grow, an agent that is killed and
//! restarted, a disk that fills up and has room again: afterwards each logged value
//! is one that its program had at that time, each gap is marked or the end of a run,
//! all archives are sound, and PCP's programs join them.
//!
//! | | |
//! |---|---|
//! | `shape` | what a program publishes in each of its lives |
//! | `program` | the program itself: sets its values to the time |
//! | `programs` | starts and kills the programs |
//! | `agent_runs` | starts and kills the agent |
//! | `disk` | the disk that fills |
//! | `archives` | reads what was logged |
//! | `verdict` | whether each value was true |
//! | `archive_boundaries` | where samples are missing, and which archives join |
//!
//! Some forty seconds; with `MMV_LONG`, `MMV_SOAK_MINUTES` minutes (60).
//! `MMV_SEED` repeats a run, as far as timing permits.

mod agent_runs;
mod archive_boundaries;
mod archives;
mod disk;
mod program;
mod programs;
mod shape;
mod verdict;

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::compliance;
use crate::harness::binaries;
use crate::harness::dice::Dice;
use crate::harness::mmv_archive;
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;
use crate::harness::skip;
use crate::harness::wait;
use agent_runs::{Runs, Usage};
use archive_boundaries::Gaps;
use disk::{Disk, NAMESPACE};
use program::micros;
use programs::Crowd;
use shape::{PROGRAMS, STEADY};
use verdict::Verdict;

/// Interval of random events.
const STEP: Duration = Duration::from_millis(50);

#[derive(Debug)]
struct Plan {
    seed: u64,
    interval: Duration,
    /// Length of the part in which the agent is killed.
    chaos: Duration,
    /// Length of the part in which it is not.
    quiet: Duration,
    /// Measure of an agent's life in the first part, in steps: it is between a quarter and five
    /// quarters of this.
    life: u64,
    /// Average number of steps until one program dies.
    death: u64,
    /// Average number of steps until the disk is full once.
    full: u64,
    /// Growth of the agent's memory that is allowed, in KiB: a short run sees more of what the
    /// queue holds while a busy machine delays the writer.
    variation: u64,
}

impl Plan {
    fn of_environment() -> Self {
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let seed = number("MMV_SEED").unwrap_or_else(micros);
        if std::env::var_os("MMV_LONG").is_none() {
            let [chaos, quiet] = [22, 14].map(Duration::from_secs);
            let interval = Duration::from_millis(50);
            // An encoder of xz has some MB, in one of the halves perhaps.
            let variation = 8192;
            return Self { seed, interval, chaos, quiet, life: 60, death: 4, full: 60, variation };
        }
        let minutes = number("MMV_SOAK_MINUTES").unwrap_or(60);
        let [chaos, quiet] = [36, 24].map(|part| Duration::from_secs(part * minutes));
        let interval = Duration::from_millis(250);
        Self { seed, interval, chaos, quiet, life: 400, death: 10, full: 400, variation: 1024 }
    }
}

#[test]
#[ignore = "beside other tests an unoptimized agent takes its files for slow ones: ci/slow runs it"]
fn fifty_programs_under_all_mishaps_leave_no_false_value() {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount"]);
    let mut probe = Command::new("unshare");
    probe.args(["--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]);
    if probe.output().is_ok_and(|output| output.status.success()) {
        command.arg(std::env::current_exe().expect("this program")).env(NAMESPACE, "1");
    } else {
        skip::report("no mount in an own namespace: the disk is never full");
        command = Command::new(std::env::current_exe().expect("this program"));
    }
    command.args(["--ignored", "--exact", "--nocapture", "long_run::run"]);
    // Build the programs before anything is timed.
    let _ = (binaries::mmv_agent(), binaries::mmv_archive());
    let output = command.env("MMV_PROGRAMS", "built").output().expect("start unshare");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}\n{complaints}");
    println!("{complaints}");
}

#[test]
#[ignore = "runs in a namespace, within the test above"]
fn run() {
    let plan = Plan::of_environment();
    eprintln!("MMV_SEED={}: {plan:?}", plan.seed);
    let scratch = Scratch::new();
    let disk = Disk::mount(&scratch.archives(), 256);
    let mut world = World {
        dice: Dice::new(plan.seed),
        crowd: Crowd::start(&scratch, plan.seed),
        runs: Runs::new(&scratch, plan.interval),
        trouble: Trouble::None,
        full: 0,
        scratch: &scratch,
        disk,
        plan,
    };
    let files = || std::fs::read_dir(scratch.mmv_dir()).map_or(0, Iterator::count);
    wait::until_true("all programs", || files() as u64 >= PROGRAMS);
    world.chaos();
    let usage = world.quiet();
    assert_flat(&usage, world.plan.variation);
    let World { runs, crowd, disk, full, plan, .. } = world;
    judge(&scratch, &plan, &runs, crowd);
    eprintln!("the disk was full {full} times");
    drop(disk);
}

#[derive(Debug, Clone, Copy)]
enum Trouble {
    None,
    /// Nothing has any room until then.
    Full(Instant),
    /// No file of the agent may grow beyond a size until this time.
    Limited(Instant),
}

struct World<'s> {
    dice: Dice,
    crowd: Crowd,
    runs: Runs,
    disk: Option<Disk>,
    trouble: Trouble,
    full: u64,
    scratch: &'s Scratch,
    plan: Plan,
}

impl World<'_> {
    fn chaos(&mut self) {
        let end = Instant::now() + self.plan.chaos;
        while Instant::now() < end {
            self.runs.start(self.scratch);
            for _ in 0..self.plan.life / 4 + self.dice.below(self.plan.life) {
                self.step();
            }
            let is_hard = !self.dice.one_in(5);
            self.runs.end(is_hard);
            for _ in 0..self.dice.below(12) {
                self.step();
            }
        }
        self.relieve();
    }

    /// Leaves the agent alone, watches it, and ends it properly.
    fn quiet(&mut self) -> Vec<Usage> {
        self.runs.start(self.scratch);
        let end = Instant::now() + self.plan.quiet;
        let mut usage = Vec::new();
        while Instant::now() < end {
            self.step();
            usage.push(self.runs.usage());
        }
        self.relieve();
        (0..20).for_each(|_| self.step_in_peace());
        self.runs.end(false);
        usage
    }

    fn step_in_peace(&mut self) {
        std::thread::sleep(STEP);
        self.crowd.look();
    }

    fn step(&mut self) {
        self.step_in_peace();
        if self.dice.one_in(self.plan.death) {
            let program = STEADY + self.dice.below(PROGRAMS - STEADY);
            let pause = if self.dice.one_in(2) { 0 } else { self.dice.below(3_000_000) };
            self.crowd.kill(program, pause);
        }
        match self.trouble {
            Trouble::None if self.dice.one_in(self.plan.full) => self.trouble(),
            Trouble::Full(end) | Trouble::Limited(end) if Instant::now() >= end => self.relieve(),
            _ => {}
        }
        if self.runs.is_running() && self.dice.one_in(self.plan.life * 2) {
            let signals = [Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2];
            self.runs.agent().signal(signals[self.dice.below(3) as usize]);
        }
    }

    fn trouble(&mut self) {
        let end = Instant::now() + Duration::from_millis(100 + self.dice.below(2000));
        self.full += 1;
        match &self.disk {
            Some(disk) if self.dice.one_in(2) => {
                disk.fill();
                self.trouble = Trouble::Full(end);
            }
            _ if self.runs.is_running() => {
                let bytes = self.runs.agent().data_bytes() + self.dice.below(20_000);
                self.runs.limit(bytes);
                self.trouble = Trouble::Limited(end);
            }
            _ => {}
        }
    }

    fn relieve(&mut self) {
        if let Some(disk) = &self.disk {
            disk.empty();
        }
        if self.runs.is_running() {
            self.runs.agent().lift_limit();
        }
        self.trouble = Trouble::None;
    }
}

/// Checks that the second half takes no more than the first, within the usual variation.
fn assert_flat(usage: &[Usage], variation: u64) {
    // Start-up does not count.
    let usage = &usage[usage.len() / 5..];
    let (first, second) = usage.split_at(usage.len() / 2);
    let median = |usage: &[Usage], of: fn(&Usage) -> u64| {
        let mut numbers: Vec<u64> = usage.iter().map(of).collect();
        numbers.sort_unstable();
        numbers[numbers.len() / 2]
    };
    let memory = [first, second].map(|half| median(half, |usage| usage.memory));
    let files = [first, second].map(|half| median(half, |usage| usage.files));
    let most = usage.iter().map(|usage| usage.memory).max().unwrap_or(0);
    eprintln!("memory {memory:?} KiB (most {most}), files {files:?}: medians of both halves");
    assert!(memory[1] <= memory[0] + variation, "memory grows: {memory:?} KiB");
    assert!(files[1] <= files[0] + 8, "open files: {files:?}");
}

fn judge(scratch: &Scratch, plan: &Plan, runs: &Runs, crowd: Crowd) {
    let lives = crowd.end();
    let all_lives: usize = lives.iter().map(Vec::len).sum();
    let mut bases = Vec::new();
    crate::harness::agent::find_bases(&scratch.archives(), &mut bases);
    bases.sort();
    let oracle = Oracle::find();
    let runs = &runs.over;
    let interval = plan.interval.as_nanos() as u64;
    let mut verdict = Verdict::new(runs, lives);
    let mut gaps = Gaps::new(runs, interval);
    let mut volumes = Vec::new();
    for (number, base) in bases.iter().enumerate() {
        assert_sound(oracle.as_ref(), base);
        volumes.push(archives::read(base, |entry| {
            if entry.is_of_tick() {
                gaps.take(&entry, number);
            }
            verdict.take(entry);
        }));
    }
    let samples: usize = volumes.iter().map(|volume| volume.samples).sum();
    let marks: usize = volumes.iter().map(|volume| volume.marks).sum();
    let (values, latest, oldest) = (verdict.values, verdict.latest, verdict.oldest);
    let (mut complaints, seen) = verdict.finish();
    if seen * 5 < all_lives as u64 * 4 {
        complaints.push(format!("only {seen} of {all_lives} lives were seen"));
    }
    complaints.extend(gaps.finish(&volumes));
    complaints.extend(archive_boundaries::agree(&volumes));
    let groups = archive_boundaries::groups(&volumes);
    eprintln!(
        "{} runs, {} archives, {samples} records, {values} values, {marks} marks; \
         {seen} of {all_lives} lives seen; values {oldest} us old at most, {latest} us new; \
         {} groups of archives",
        runs.len(),
        volumes.len(),
        groups.len(),
    );
    let last = runs.last().expect("a run");
    eprintln!("{}", last.log.lines().last().unwrap_or_default());
    if let Some(oracle) = &oracle {
        for (number, group) in groups.iter().enumerate().filter(|(_, group)| group.len() > 1) {
            let merged = archive_boundaries::join(oracle, scratch.path(), number, group);
            assert_sound(Some(oracle), &merged);
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[track_caller]
fn assert_sound(oracle: Option<&Oracle>, base: &std::path::Path) {
    if let Some(oracle) = oracle {
        compliance::assert_without_finding(oracle, base);
    }
    let output = mmv_archive::run_on(base, &["check"]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.is_empty(), "{}: {stdout}", base.display());
}
