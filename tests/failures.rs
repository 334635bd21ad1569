//! Failures around the agent, one at a time. `docs/operators.md` has the table of their effects.

mod clock_and_disk;
mod descriptors;
mod disturbed;
pub(crate) mod half_made;
mod killed;
mod reused_pid;
mod start;
mod startup;

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::compliance::finished;
use crate::harness::agent::Agent;
use crate::harness::archive_facts;
use crate::harness::binaries;
use crate::harness::facts::{Facts, Record, number};
use crate::harness::mmv_file::{image, set};
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;
use crate::harness::skip::skip;
use crate::harness::wait;
use crate::producers::Producer;

/// Sampling interval of [`Agent::start`].
const INTERVAL: Duration = Duration::from_millis(50);

fn samples_so_far(base: &Path) -> usize {
    archive_facts::so_far(base).map_or(0, |facts| samples(&facts).count())
}

fn samples(facts: &Facts) -> impl Iterator<Item = &Record> {
    facts.records.iter().filter(|record| record.has_samples())
}

#[track_caller]
fn wait_for_samples(agent: &Agent, more: usize) {
    let enough = agent.archives().last().map_or(0, |base| samples_so_far(base)) + more;
    agent.wait_for("more samples", |base| samples_so_far(base) >= enough);
}

fn nanos(record: &Record) -> i64 {
    record.timestamp.0 * 1_000_000_000 + i64::from(record.timestamp.1)
}

/// Stops the agent for some time, while its file changes twice. Returns the values that were
/// logged, each once, and the number of marks.
#[track_caller]
fn stopped_for(time: Duration) -> (Vec<String>, usize) {
    let scratch = Scratch::new();
    let path = scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let mut agent = Agent::start(&scratch);
    wait_for_samples(&agent, 3);
    agent.signal(Signal::SIGSTOP);
    let stat = format!("/proc/{}/stat", agent.id());
    wait::until_true("it to stop", || {
        fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T "))
    });
    set(&path, 0, 4);
    sleep(time / 2);
    set(&path, 0, 5);
    sleep(time / 2);
    agent.signal(Signal::SIGCONT);
    wait_for_samples(&agent, 3);
    let facts = finished(&mut agent);
    // Each tick is a record or one that came too late, and that is counted.
    let interval = INTERVAL.as_nanos() as i64;
    let ticks: Vec<i64> = samples(&facts).map(|record| nanos(record) / interval).collect();
    // The last one is that of the stop, at any time. One that is late by almost an
    // interval is still of its own tick.
    let [earliest, .., latest, _] = ticks[..] else { panic!("{ticks:?}") };
    let missing = latest - earliest - (ticks.len() as i64 - 2);
    assert_eq!(agent.counted("missed"), missing.cast_unsigned());
    let least = (time.as_nanos() / INTERVAL.as_nanos()) as i64 - 2;
    assert!(missing >= least, "{missing} ticks are missing");
    let mut values: Vec<_> =
        samples(&facts).filter_map(|record| record.value("70.9.1", None)).collect();
    values.dedup();
    let values = values.into_iter().map(str::to_owned).collect();
    (values, facts.records.iter().filter(|record| record.mark).count())
}

#[test]
fn agent_stopped_for_long_marks_the_gap_and_logs_nothing() {
    let (values, marks) = stopped_for(Duration::from_millis(1600));
    assert_eq!(values, [number("3"), number("5")]);
    assert_eq!(marks, 1);
}

#[test]
fn agent_stopped_for_some_intervals_counts_them() {
    let (values, marks) = stopped_for(Duration::from_millis(500));
    assert_eq!(values, [number("3"), number("5")]);
    assert_eq!(marks, 0);
}

#[test]
fn invalid_file_that_appears_while_running_is_harmless() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(10, 1, &[("steady", 8)]), "other");
    let mut agent = Agent::start(&scratch);
    wait_for_samples(&agent, 3);
    let directory = scratch.mmv_dir();
    // A good file, but not in this directory.
    let outside = scratch.path().join("outside");
    fs::write(&outside, image(9, 1, &[("secret", 7)])).expect("a file outside");
    symlink(&outside, directory.join("link")).expect("a link");
    symlink("/dev/zero", directory.join("zeros")).expect("a link to a device");
    nix::unistd::mkfifo(&directory.join("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    let path = scratch.install_bytes(&image(11, 1, &[("hidden", 5)]), "sparse");
    let sparse = File::options().write(true).open(path).expect("open it");
    // Some file systems cannot hold such a file; then the others must do.
    let _ = sparse.set_len(1 << 40);
    File::create(directory.join("nothing")).expect("a file").set_len(1 << 40).unwrap_or_default();
    for name in ["link", "zeros", "fifo", "nothing"] {
        wait::until_true(name, || {
            agent.log().lines().any(|line| line.contains(&format!("file={name} reason=")))
        });
    }
    wait_for_samples(&agent, 5);
    assert!(agent.memory() < 32 * 1024, "{} KiB", agent.memory());
    let facts = finished(&mut agent);
    assert!(!facts.metrics.values().any(|metric| metric.names.contains("mmv.link.secret")));
    let steady = number("8");
    assert!(samples(&facts).all(|record| record.value("70.10.1", None) == Some(&steady)));
    assert!(!facts.records.iter().any(|record| record.mark));
}

/// Prepares a command that mounts an empty file system that is read-only at a directory, and then
/// becomes the agent; `None`, with a message, where that is impossible.
fn read_only_at(directory: &Path) -> Option<Command> {
    let command = |then: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
        unshare.arg(format!("mount -t tmpfs -o ro none \"$0\" && exec {then}")).arg(directory);
        unshare
    };
    let works = command("true").output().is_ok_and(|output| output.status.success());
    if !works {
        skip("no mount in a namespace of one's own");
        return None;
    }
    let mut agent = command("\"$@\"");
    agent.arg(binaries::mmv_agent());
    Some(agent)
}

#[test]
fn unwritable_archive_directory_ends_the_agent() {
    let scratch = Scratch::new();
    let outcome = |agent: &mut Agent| (agent.gone().code(), agent.log());
    if let Some(command) = read_only_at(&scratch.archives()) {
        let (status, log) = outcome(&mut Agent::spawn(command, &scratch, &[]));
        assert_eq!(status, Some(77), "EX_NOPERM: {log}");
        assert!(log.contains("cannot write archives here: Read-only file system"), "{log}");
    }
    fs::remove_dir(scratch.archives()).expect("an empty directory");
    fs::write(scratch.archives(), "").expect("a file in its place");
    let (status, log) = outcome(&mut Agent::start(&scratch));
    assert_eq!(status, Some(74), "EX_IOERR: {log}");
    let directory = scratch.archives();
    assert!(log.contains(directory.to_str().expect("UTF-8")), "{log}");
    assert!(log.contains("cannot write archives here: Not a directory"), "{log}");
}

#[test]
fn read_only_state_directory_is_reported() {
    let scratch = Scratch::new();
    let state = scratch.path().join("state");
    fs::create_dir(&state).expect("a directory");
    let Some(command) = read_only_at(&state) else { return };
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let config = scratch.path().join("agent.toml");
    let text = format!("interval = \"20ms\"\nstate-dir = \"{}\"\n", state.display());
    fs::write(&config, text).expect("write the configuration");
    let options = ["--config", config.to_str().expect("UTF-8"), "--samples", "5"];
    let mut agent = Agent::spawn(command, &scratch, &options);
    agent.ended();
    assert_eq!(agent.log().matches("the state cannot be written").count(), 1, "{}", agent.log());
    let facts = archive_facts::of_mmv_archive(&agent.archive());
    assert_eq!(samples(&facts).count(), 5);
}

#[test]
fn a_log_that_cannot_be_written_costs_nothing_but_its_lines() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    // Whatever is written there, there is no space left on the device.
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" 2>/dev/full"]).arg(binaries::mmv_agent());
    let options = ["--interval", "20ms", "--samples", "5"];
    let mut agent = Agent::spawn(command, &scratch, &options);
    agent.ended();
    assert_eq!(samples(&archive_facts::of_mmv_archive(&agent.archive())).count(), 5);
}

const CRASHES: u32 = 20;

#[test]
fn crashing_application_costs_others_no_sample() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let path = scratch.install_bytes(&image(10, 1, &[("steady", 0)]), "other");
    let process = 2;
    let mut agent = Agent::start(&scratch);
    for crash in 1..=CRASHES {
        let program = Producer::c_with(&oracle, &scratch, "app", 9, process, 1);
        set(&path, 0, u64::from(crash));
        sleep(Duration::from_millis(300));
        // SIGKILL; the file stays.
        drop(program);
    }
    let facts = finished(&mut agent);
    let count = samples(&facts).count();
    assert!(count as u128 > (u128::from(CRASHES) * 300) / INTERVAL.as_millis() * 9 / 10, "{count}");
    assert!(!facts.records.iter().any(|record| record.mark), "a mark");
    let steady = samples(&facts).filter_map(|record| record.value("70.10.1", None));
    let steady = steady.count();
    // The last values of a crashed program may have a record of their own.
    let apart = samples(&facts).filter(|record| {
        record.value("70.9.1", None).is_some() && record.value("70.10.1", None).is_none()
    });
    let apart = apart.count();
    assert_eq!(steady + apart, count, "in our reader");
    assert!(apart < CRASHES as usize, "{apart} records of last values");
    let crashed = samples(&facts).filter_map(|record| record.value("70.9.1", None)).count();
    assert!(crashed > count / 2, "the other was harvested {crashed} times");

    let base = agent.archive();
    let base = base.to_str().expect("UTF-8");
    let metric = "mmv.other.steady";
    let dumped = oracle.run("pmdumplog", &[base, metric]);
    let values = dumped.lines().filter(|line| line.contains(metric) && line.contains("value"));
    assert_eq!(values.count(), steady, "in pmdumplog: {dumped}");
    // Interpolated at twice the pace: a single sample without it would show.
    let printed = oracle.run("pmval", &["-r", "-t", "0.025", "-a", base, metric]);
    // pmval begins a microsecond before the first sample or so.
    let lines = printed.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let numbers: Vec<Option<u64>> =
        lines.map(|line| line.split_whitespace().nth(1)?.parse().ok()).skip(1).collect();
    let is_whole = numbers.iter().all(Option::is_some) && numbers.is_sorted();
    assert!(numbers.len() >= steady && is_whole, "in pmval: {printed}");
    assert_eq!(numbers.last(), Some(&Some(u64::from(CRASHES))));
}
