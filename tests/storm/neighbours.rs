//! Each attack alone beside an agent without real-time priority that samples every 100 ms, and
//! its effects on ticks, values and programs that start.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::attacks::{self, Attack};
use super::honest::{self, Rhythm};
use super::verdict::{Findings, Restart};
use super::watch::ProcessorWaits;
use super::{Outcome, Setting, run_in, users};
use crate::harness::scratch::Scratch;
use crate::harness::skip;

const INTERVAL: Duration = Duration::from_millis(100);
/// A tick that is later is late.
const LATE: Duration = Duration::from_millis(10);
/// Ticks that an attack may delay before it is recognized, and of all others the share that may be
/// late.
const STRIKES: u64 = 3;
const MOST_LATE: f64 = 0.01;
/// The share of ticks that may be late because the machine delays an agent without files as well, as
/// where its memory is not its own.
const MOST_OF_MACHINE: f64 = 0.1;
/// Time until a program that has started is in a record: the interval and a second. A loader that is
/// not optimized takes ten times as long for the largest file of another user, which it reads in one
/// go.
const LONGEST_RESTART: Duration =
    Duration::from_millis(if cfg!(debug_assertions) { 3100 } else { 1100 });

/// Kind of file system that the directory of MMV files is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Disk,
    Memory,
    /// A file system that attackers fill, with a quota where the kernel has one.
    SmallMemory,
}

/// Attackers and the circumstances that they need.
#[derive(Debug, Clone)]
struct Case {
    name: &'static str,
    attacks: Vec<Attack>,
    place: Place,
    descriptors: Option<u32>,
    /// A server that never answers is mounted on a file.
    has_silent_mount: bool,
}

impl Case {
    fn new(attack: Attack, place: Place) -> Self {
        let (name, attacks) = (attack.name(), vec![attack]);
        Self { name, attacks, place, descriptors: None, has_silent_mount: false }
    }
}

fn cases() -> Vec<Case> {
    let alone = attacks::ALL.map(|attack| Case::new(attack, Place::Memory));
    let mut all = Vec::from(alone);
    all.push(Case::new(attacks::SLOW_ON_DISK, Place::Disk));
    for attack in [
        attacks::SLOW_IN_MEMORY,
        attacks::LARGE_FILES,
        attacks::EMPTY_FILES,
        attacks::RENAMES,
        attacks::VALID_FILES,
        attacks::SQUAT,
        attacks::LINKS,
    ] {
        all.push(Case::new(attack, Place::Memory));
    }
    all.push(Case::new(attacks::FILL, Place::SmallMemory));
    let of_few = Case::new(attacks::VALID_FILES, Place::Memory);
    all.push(Case { name: "descriptors", descriptors: Some(80), ..of_few });
    let (name, attacks) = ("silent-server", Vec::new());
    let case =
        Case { name, attacks, place: Place::Memory, descriptors: None, has_silent_mount: true };
    all.push(case);
    all
}

#[derive(Debug)]
struct Measured {
    findings: Findings,
    /// Ticks in the time, and how many of them were late or missed, besides waits for a processor.
    ticks: u64,
    late: u64,
    /// The longest time from a program's start to its first record, besides waits for a processor.
    restart: Option<Duration>,
    /// Missing samples of the attacker's slow file.
    missing: u64,
    /// Values that are false, late or missing.
    faults: Vec<String>,
    delays: Vec<String>,
}

/// The heading of the lines that [`Measured`] prints.
const HEADING: &str = "attack         ticks   late  longest gap  latest value  restart  missing";

impl Display for Measured {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let millis = |time: Duration| 1000.0 * time.as_secs_f64();
        let gap = millis(self.findings.longest_gap());
        let value = millis(self.findings.latest_value);
        let restart = self.restart.map_or("none".to_owned(), |time| format!("{:.0}", millis(time)));
        let Self { ticks, late, missing, .. } = self;
        write!(
            f,
            "{ticks:>5} {late:>6} {gap:>9.0} ms {value:>10.1} ms {restart:>5} ms {missing:>8}"
        )
    }
}

impl Measured {
    fn new(case: &Case, outcome: Outcome, is_restart_judged: bool) -> Self {
        let Outcome { ticks, machine, missing, ref findings, ref waits, .. } = outcome;
        let mut faults: Vec<String> = outcome.faults().collect();
        let mut delays = Vec::new();
        let times = &findings.times;
        let late = late_ticks(times, waits);
        let first = times.first().copied().unwrap_or(0);
        let span = times.last().copied().unwrap_or(0).saturating_sub(first);
        let all = span / micros(INTERVAL);
        let share = |part: f64| (part * all as f64) as u64;
        let of_machine = machine.late().min(share(MOST_OF_MACHINE));
        if late > STRIKES + share(MOST_LATE) + of_machine {
            let machine = machine.late();
            delays.push(format!("{late} of {all} ticks are late, {machine} without files"));
        }
        // One may be under way.
        let lacking = (all + 1).saturating_sub(times.len() as u64);
        if lacking > ticks.missed() + 1 {
            let missed = ticks.missed();
            faults.push(format!("{lacking} of {all} ticks have no record, {missed} missed"));
        }
        // The last tick waits for the loader, for an interval at most.
        if let [.., before, last] = times[..] {
            let gap = Duration::from_micros(last - before);
            let gap = gap.saturating_sub(waits.of_sampler(before, last));
            if gap > 2 * INTERVAL + LATE {
                delays.push(format!("the last tick is {gap:?} after the one before"));
            }
        }
        let restarts = findings.restarts.iter();
        let restart = restarts.filter_map(|restart| time_until_seen(*restart, waits)).max();
        if is_restart_judged && restart.is_none_or(|time| time > LONGEST_RESTART) {
            let restarts = &findings.restarts;
            delays.push(format!("a start is seen after {restart:?}: {restarts:?}"));
        }
        for text in faults.iter_mut().chain(&mut delays) {
            *text = format!("{}: {text}", case.name);
        }
        Self { findings: outcome.findings, ticks: all, late, restart, missing, faults, delays }
    }
}

fn micros(time: Duration) -> u64 {
    time.as_micros() as u64
}

/// Returns the time from a start to its first record besides waits of the agent for a processor;
/// `None` if the program ended before it had to be seen.
fn time_until_seen(restart: Restart, waits: &ProcessorWaits) -> Option<Duration> {
    let until = restart.seen.unwrap_or(restart.ended);
    let time = Duration::from_micros(until.saturating_sub(restart.started));
    let time = time.saturating_sub(waits.of_agent(restart.started, until));
    (restart.seen.is_some() || time > LONGEST_RESTART).then_some(time)
}

/// Counts the ticks that were late or missed, besides waits of the sampler for a processor. Ticks
/// are at multiples of the interval.
fn late_ticks(times: &[u64], waits: &ProcessorWaits) -> u64 {
    let interval = micros(INTERVAL);
    let mut late = 0;
    for pair in times.windows(2) {
        // A timestamp may be a little before its tick.
        let due = ((pair[0] + micros(LATE)) / interval + 1) * interval;
        let lateness = Duration::from_micros(pair[1].saturating_sub(due));
        let lateness = lateness.saturating_sub(waits.of_sampler(due, pair[1]));
        if lateness > LATE {
            late += 1 + micros(lateness) / interval;
        }
    }
    late
}

/// Runs an agent beside a case; `None` where that is not possible.
fn measure(case: &Case, seed: u64, span: Duration) -> Option<Measured> {
    let scratch = match case.place {
        Place::Disk => Scratch::new(),
        Place::Memory | Place::SmallMemory => Scratch::in_memory(),
    };
    let mut is_restart_judged = true;
    let mut mounted = None;
    if case.place == Place::SmallMemory {
        let mount = SmallMount::new(&scratch)?;
        // Without quotas nobody can publish while another user has all of the file system.
        is_restart_judged = mount.has_quota;
        mounted = Some(mount);
    }
    let config = "interval = \"100ms\"\nrealtime = false\ncapture-group = \"*\"\n\
                  [limits]\nvalues = 100000\n";
    let rhythm = Rhythm { life: (3_000_000, 1_000_000), absence: (100_000, 300_000) };
    let setting = Setting {
        scratch,
        config: config.to_owned(),
        interval: INTERVAL,
        rhythm,
        fewest: (10, 3),
        descriptors: case.descriptors,
        has_silent_mount: case.has_silent_mount,
        waits_for_restart: is_restart_judged,
        waits_for_attacks: true,
    };
    let outcome = run_in(&setting, seed, span, &case.attacks);
    drop(mounted);
    let measured = Measured::new(case, outcome?, is_restart_judged);
    println!("{:<14}{measured}", case.name);
    Some(measured)
}

/// A file system of 64 MB on the directory of MMV files.
#[derive(Debug)]
struct SmallMount {
    path: PathBuf,
    has_quota: bool,
}

impl SmallMount {
    fn new(scratch: &Scratch) -> Option<Self> {
        let path = scratch.mmv_dir();
        let mount = |options: &str| {
            let mut command = Command::new("mount");
            command.args(["-t", "tmpfs", "-o", options, "none"]).arg(&path);
            command.output().is_ok_and(|output| output.status.success())
        };
        let limits = "mode=1777,size=64M,nr_inodes=20000";
        let quota = "usrquota,usrquota_block_hardlimit=16M,usrquota_inode_hardlimit=2000";
        let has_quota = mount(&format!("{limits},{quota}"));
        if !has_quota {
            skip::report("a quota in memory: the kernel has none");
            if !mount(limits) {
                skip::report("a file system that is filled: none can be mounted");
                return None;
            }
        }
        Some(Self { path, has_quota })
    }
}

impl Drop for SmallMount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

/// Runs cases for some seconds each, and prints a line of figures for each.
fn judge(cases: &[Case], seconds: u64) -> Vec<Measured> {
    if !users::are_possible() {
        skip::report("neighbours: only root can be several users");
        return Vec::new();
    }
    let seed = honest::micros();
    println!("MMV_SEED={seed}\n{HEADING}");
    let span = Duration::from_secs(seconds);
    // A delay in a short run may be the machine's: then a longer one decides.
    let all: Vec<Measured> = cases
        .iter()
        .filter_map(|case| match measure(case, seed, span) {
            Some(short) if short.faults.is_empty() && !short.delays.is_empty() => {
                measure(case, seed, 3 * span)
            }
            measured => measured,
        })
        .collect();
    let complaints: Vec<&String> =
        all.iter().flat_map(|one| one.faults.iter().chain(&one.delays)).collect();
    assert!(complaints.is_empty(), "MMV_SEED={seed}: {complaints:#?}");
    all
}

fn seconds(short: u64, long: u64) -> u64 {
    let asked = std::env::var("MMV_ATTACK_SECONDS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(if std::env::var_os("MMV_LONG").is_some() { long } else { short })
}

#[test]
#[ignore = "takes both processors, which would disturb other tests: ci/slow runs it alone"]
fn each_attack_alone_does_no_harm_without_realtime_priority() {
    let mut cases = cases();
    if let Ok(chosen) = std::env::var("MMV_STORM") {
        cases.retain(|case| chosen.split(',').any(|name| name == case.name));
    }
    judge(&cases, seconds(2, 20));
}

#[test]
#[ignore = "takes half a minute: ci/slow runs it"]
fn values_that_a_disk_has_to_find_each_time_delay_no_others() {
    judge(&[Case::new(attacks::SLOW_ON_DISK, Place::Disk)], seconds(6, 60));
}

#[test]
#[ignore = "takes half a minute: ci/slow runs it"]
fn values_whose_pages_are_taken_away_delay_no_others() {
    let all = judge(&[Case::new(attacks::SLOW_IN_MEMORY, Place::Memory)], seconds(6, 60));
    assert!(all.iter().all(|one| one.missing > 0), "what is left out is counted");
}

#[test]
#[ignore = "takes half a minute: ci/slow runs it"]
fn crowds_of_files_and_names_delay_no_program_that_returns() {
    let attacks = vec![attacks::EMPTY_FILES, attacks::RENAMES, attacks::VALID_FILES];
    let crowds = Case { name: "crowds", attacks, ..Case::new(attacks::EMPTY_FILES, Place::Memory) };
    judge(&[crowds], seconds(6, 60));
}

#[test]
fn ticks_that_are_late_or_missed_are_found() {
    let second = 1_000_000;
    let on_time = [second, second + 100_400, second + 199_900, second + 301_000];
    let none = ProcessorWaits::default();
    assert_eq!(late_ticks(&on_time, &none), 0);
    assert_eq!(late_ticks(&[second, second + 111_000, second + 200_000], &none), 1);
    assert_eq!(late_ticks(&[second, second + 650_000], &none), 6, "five without a record");
    let waits = ProcessorWaits::of(&[(second, 0, 0), (second + 700_000, 545_000, 600_000)]);
    assert_eq!(late_ticks(&[second, second + 650_000], &waits), 0);
    let restart = Restart { started: second, seen: None, ended: 6 * second };
    assert_eq!(time_until_seen(restart, &none), Some(Duration::from_secs(5)));
    let short = Restart { ended: second + 900_000, ..restart };
    assert_eq!(time_until_seen(short, &none), None);
    let seen = Restart { seen: Some(second + 700_000), ..restart };
    assert_eq!(time_until_seen(seen, &waits), Some(Duration::from_millis(100)));
}
