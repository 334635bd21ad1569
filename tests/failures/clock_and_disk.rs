//! A clock that is set and a disk that stalls, under the real agent: a preloaded
//! library sets the time and delays writes.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::compliance;
use crate::harness::agent::Agent;
use crate::harness::archive_facts;
use crate::harness::binaries;
use crate::harness::facts::{Facts, Stamp, number};
use crate::harness::mmv_file::{image, set};
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;
use crate::harness::shim;
use crate::harness::wait;

const HOUR: i64 = 3600;

/// A clock that begins at noon, UTC, so that no test meets midnight.
struct Clock {
    file: PathBuf,
    offset: i64,
}

impl Clock {
    fn new(scratch: &Scratch) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
        let into_day = (now.as_secs() % 86_400).cast_signed();
        let clock = Self { file: scratch.path().join("clock"), offset: 12 * HOUR - into_day };
        fs::write(&clock.file, [0; 8]).expect("make the clock's file");
        clock.show();
        clock
    }

    fn step(&mut self, seconds: i64) {
        self.offset += seconds;
        self.show();
    }

    fn show(&self) {
        let file = fs::OpenOptions::new().write(true).open(&self.file).expect("open the clock");
        let nanos = self.offset * 1_000_000_000;
        file.write_all_at(&nanos.to_ne_bytes(), 0).expect("set the clock");
    }
}

/// Starts an agent with a clock of its own. It compresses nothing: files have the times of the
/// real clock, so before noon they would be hours old for it.
fn start(shim: &Path, scratch: &Scratch, clock: &Clock) -> Agent {
    let mut command = Command::new(binaries::mmv_agent());
    command.env("LD_PRELOAD", shim).env("SHIM_CLOCK", &clock.file);
    let config = scratch.path().join("agent.toml");
    let text = "interval = \"50ms\"\n[compression]\nmethod = \"none\"\n";
    fs::write(&config, text).expect("write the configuration");
    Agent::spawn(command, scratch, &["--config", config.to_str().expect("UTF-8")])
}

#[track_caller]
fn wait_for_samples(agent: &Agent, archives: usize) {
    let samples = || {
        let bases = agent.archives();
        let newest = by_time(&bases).pop();
        (
            bases.len(),
            newest.and_then(|base| archive_facts::so_far(&base)).map_or(0, |facts| samples(&facts)),
        )
    };
    let before = samples();
    wait::until_true("more samples", || {
        let (count, samples) = samples();
        count == archives && samples >= 3 && (count, samples) > before
    });
}

fn samples(facts: &Facts) -> usize {
    facts.records.iter().filter(|record| record.has_samples()).count()
}

/// Sorts archives in the order in which they were begun: those of `step-2` after those of
/// `step-1` and these after all others.
fn by_time(bases: &[PathBuf]) -> Vec<PathBuf> {
    let mut bases = bases.to_vec();
    bases.sort_by_key(|base| (directory(base), base.clone()));
    bases
}

fn directory(base: &Path) -> String {
    let parent = base.parent().and_then(Path::file_name).expect("a directory").to_string_lossy();
    if parent.starts_with("step-") { parent.into_owned() } else { String::new() }
}

/// Reads an archive, which must be sound, and in which time never goes back.
#[track_caller]
fn read(base: &Path) -> Facts {
    if let Some(oracle) = Oracle::find() {
        compliance::check(&oracle, base);
    }
    let facts = archive_facts::of_mmv_archive(base);
    let timestamps: Vec<Stamp> = facts.records.iter().map(|record| record.timestamp).collect();
    assert!(timestamps.is_sorted(), "{}: {timestamps:?}", base.display());
    let values = facts.records.iter().flat_map(|record| record.sets.iter());
    let other = values.filter(|(pmid, _)| pmid.starts_with("70.9.")).count();
    assert_eq!(other, samples(&facts), "{}: the file is in every sample", base.display());
    facts
}

fn marks(facts: &Facts) -> usize {
    facts.records.iter().filter(|record| record.mark).count()
}

/// Marks between samples that are less than a second apart. A longer time is one in which the
/// machine was too busy to let the agent sample, and has a mark for that.
fn marks_without_a_gap(facts: &Facts) -> usize {
    let samples: Vec<_> = facts.records.iter().filter(|record| !record.mark).collect();
    let is_gap = |mark: Stamp| {
        let after = samples.partition_point(|record| record.timestamp <= mark);
        let around = samples.get(after.saturating_sub(1)).zip(samples.get(after));
        around.is_some_and(|(before, after)| {
            let nanos = i64::from(after.timestamp.1) - i64::from(before.timestamp.1);
            (after.timestamp.0 - before.timestamp.0) * 1_000_000_000 + nanos >= 1_000_000_000
        })
    };
    facts.records.iter().filter(|record| record.mark && !is_gap(record.timestamp)).count()
}

#[test]
fn clock_set_back_twice_loses_no_sample() {
    let Some(shim) = shim::library() else { return };
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let mut clock = Clock::new(&scratch);
    let mut agent = start(shim, &scratch, &clock);
    wait_for_samples(&agent, 1);
    for archives in 2..=3 {
        clock.step(-HOUR);
        wait_for_samples(&agent, archives);
    }
    assert!(agent.terminate().success(), "{}", agent.log());
    let bases = by_time(&agent.archives());
    let directories: Vec<String> = bases.iter().map(|base| directory(base)).collect();
    assert_eq!(directories, ["", "step-1", "step-2"]);
    let all: Vec<Facts> = bases.iter().map(|base| read(base)).collect();
    for (before, after) in all.iter().zip(&all[1..]) {
        let seconds = before.label.end.0 - after.label.start.0;
        assert!((HOUR - 60..=HOUR).contains(&seconds), "{seconds} s back");
    }
    assert_eq!(all.iter().map(marks_without_a_gap).sum::<usize>(), 0);
    let written: usize = all.iter().map(samples).sum();
    assert_eq!(agent.counted("records"), written as u64);
    assert_eq!((agent.counted("lost"), agent.counted("dropped")), (0, 0));
}

#[test]
fn a_clock_set_forward_is_a_mark_in_the_same_archive() {
    let Some(shim) = shim::library() else { return };
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let mut clock = Clock::new(&scratch);
    let mut agent = start(shim, &scratch, &clock);
    wait_for_samples(&agent, 1);
    clock.step(HOUR);
    wait_for_samples(&agent, 1);
    assert!(agent.terminate().success(), "{}", agent.log());
    let facts = read(&agent.archive());
    assert_eq!(marks(&facts), 1);
    let at = facts.records.iter().position(|record| record.mark).expect("a mark");
    let around = [&facts.records[at - 1], &facts.records[at + 1]].map(|record| record.timestamp.0);
    assert!((HOUR - 1..=HOUR + 1).contains(&(around[1] - around[0])), "{around:?}");
    assert_eq!(facts.records[at].timestamp.0, around[0], "it is where the gap begins");
}

#[test]
fn agent_begins_a_directory_before_its_newest_archive_ends() {
    let Some(shim) = shim::library() else { return };
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let mut clock = Clock::new(&scratch);
    for archives in 1..=2 {
        let mut agent = start(shim, &scratch, &clock);
        wait_for_samples(&agent, archives);
        assert!(agent.terminate().success(), "{}", agent.log());
        clock.step(-HOUR);
        let newest = by_time(&agent.archives()).pop().expect("an archive");
        assert_eq!(directory(&newest), ["", "step-1"][archives - 1]);
        read(&newest);
    }
}

#[test]
fn stalled_disk_costs_no_tick_and_drops_are_counted_once() {
    let Some(shim) = shim::library() else { return };
    let scratch = Scratch::new();
    let path = scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let config = scratch.path().join("agent.toml");
    // Records of 56 bytes and 0.7 seconds may wait: a thread that waits for a processor does not
    // fill the queue.
    let text = "interval = \"20ms\"\n[limits]\nqueue = \"2kB\"\n";
    fs::write(&config, text).expect("write the configuration");
    let stall = scratch.path().join("stall");
    let mut command = Command::new(binaries::mmv_agent());
    command.env("LD_PRELOAD", shim).env("SHIM_STALL", &stall);
    let config = config.to_str().expect("UTF-8");
    let mut agent = Agent::spawn(command, &scratch, &["--config", config]);
    wait_for_samples(&agent, 1);
    fs::write(&stall, "").expect("stop the disk");
    wait::until_true("the queue to be full", || agent.log().contains("the queue is full"));
    set(&path, 0, 4);
    std::thread::sleep(Duration::from_millis(400));
    set(&path, 0, 5);
    fs::remove_file(&stall).expect("let it go on");
    wait::until_true("samples to be taken", || agent.log().contains("sampling has resumed"));
    wait_for_samples(&agent, 1);
    assert!(agent.terminate().success(), "{}", agent.log());
    let facts = read(&agent.archive());
    assert_eq!(marks(&facts), 1);
    let mut values: Vec<_> = facts.records.iter().filter_map(|r| r.value("70.9.1", None)).collect();
    values.dedup();
    assert_eq!(values, [number("3"), number("5")], "nothing of the time between");
    let dropped = agent.counted("dropped");
    assert!(dropped >= 15, "{dropped} were dropped");
    // Each tick is a record, one that was dropped, or one that came too late.
    let ticks: Vec<i64> = facts
        .records
        .iter()
        .filter(|record| record.has_samples())
        .map(|record| {
            (record.timestamp.0 * 1_000_000_000 + i64::from(record.timestamp.1)) / 20_000_000
        })
        .collect();
    let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
    let accounted = ticks.len() as u64 + dropped + agent.counted("missed");
    let due = (last - first + 1).cast_unsigned();
    assert!(accounted.abs_diff(due) <= 1, "{accounted} of {due} ticks");
}
