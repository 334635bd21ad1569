//! The flight recorder: archives in the runtime directory, bounded in time and bytes, and captures
//! of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mmv_writer::pcp::{IndomMetricExt as _, NamedFamily, RegistryExt as _};
use mmv_writer::{Counter, Registry};
use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use serde_json::Value;
use test_archives::Builder;

use crate::compliance;
use crate::full_disk;
use crate::harness::agent::{Agent, find_bases};
use crate::harness::archive_facts;
use crate::harness::binaries;
use crate::harness::facts::{Facts, Record, Stamp};
use crate::harness::mmv_archive::{printed_of, run_on};
use crate::harness::mmv_file::{image, patched, set};
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;
use crate::harness::skip;
use crate::harness::wait;

fn agent(scratch: &Scratch, text: &str) -> Agent {
    Agent::start_with(scratch, &["--config", config(scratch, text).to_str().expect("UTF-8")])
}

fn config(scratch: &Scratch, text: &str) -> PathBuf {
    let file = scratch.path().join("agent.toml");
    fs::write(&file, text).expect("write the configuration");
    file
}

fn command(scratch: &Scratch, base: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(binaries::mmv_agent());
    command.arg("capture").arg("--archive-dir").arg(scratch.archives());
    command.arg("--output").arg(base).args(options);
    command
}

fn capture(scratch: &Scratch, name: &str, options: &[&str]) -> (PathBuf, Output) {
    let base = scratch.path().join(name);
    let output = command(scratch, &base, options).output().expect("run mmv-agent");
    (base, output)
}

/// Captures, and returns the contents of the archive, which must be sound.
#[track_caller]
pub(crate) fn captured(scratch: &Scratch, name: &str, options: &[&str]) -> (PathBuf, Facts) {
    let (base, output) = capture(scratch, name, options);
    assert!(output.status.success(), "{}", stderr(&output));
    if let Some(oracle) = Oracle::find() {
        compliance::check(&oracle, &base);
    }
    let facts = archive_facts::of_mmv_archive(&base);
    (base, facts)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn status(scratch: &Scratch) -> Option<Value> {
    let mut command = Command::new(binaries::mmv_agent());
    command.args(["status", "--json", "--archive-dir"]).arg(scratch.archives());
    let output = command.output().expect("run mmv-agent");
    serde_json::from_slice(&output.stdout).ok()
}

fn recorder_status(scratch: &Scratch) -> Option<Value> {
    Some(status(scratch)?["hindsight"].clone()).filter(|value| !value.is_null())
}

fn recorder_directory(scratch: &Scratch) -> PathBuf {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name of this host");
    scratch.archives().join(host.trim()).join(".mmv-recorder")
}

fn recorded(scratch: &Scratch) -> Vec<PathBuf> {
    let mut bases = Vec::new();
    find_bases(&recorder_directory(scratch), &mut bases);
    bases.sort();
    bases
}

fn bytes_in(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => bytes_in(&entry.path()),
            // It may have been deleted meanwhile.
            found => found.map_or(0, |found| found.len()),
        })
        .sum()
}

fn report(scratch: &Scratch, metric: &str) -> Output {
    run_on(&recorder_directory(scratch), &["report", metric, "--raw"])
}

#[track_caller]
fn wait_for_samples(scratch: &Scratch, count: u64) {
    let samples = || recorder_status(scratch)?["samples"].as_u64();
    let before = samples().unwrap_or(0);
    wait::until_true("more samples", || samples() >= Some(before + count));
}

#[track_caller]
fn pmid<'f>(facts: &'f Facts, name: &str) -> &'f str {
    let found = facts.metrics.iter().find(|(_, metric)| metric.names.contains(name));
    found.unwrap_or_else(|| panic!("no {name} among {:?}", facts.metrics)).0
}

fn values<'f>(facts: &'f Facts, name: &str) -> Vec<&'f str> {
    let pmid = pmid(facts, name);
    facts.records.iter().filter_map(|record| record.value(pmid, None)).collect()
}

fn samples(facts: &Facts) -> BTreeMap<Stamp, &Record> {
    let records = facts.records.iter().filter(|record| record.has_samples());
    records.map(|record| (record.timestamp, record)).collect()
}

#[test]
fn only_members_of_the_group_may_capture() {
    if !geteuid().is_root() {
        skip::report("only root can run commands as other users");
        return;
    }
    for (group, users) in [
        ("", [(4711, 4711, 77), (4711, 0, 0), (0, 0, 0)]),
        ("capture-group = \"4712\"\n", [(4711, 4711, 77), (4711, 4712, 0), (0, 0, 0)]),
        ("capture-group = \"*\"\n", [(4711, 4711, 0), (4712, 0, 0), (0, 0, 0)]),
    ] {
        let scratch = Scratch::new();
        // The user must reach the program and the archives.
        fs::set_permissions(scratch.path(), Permissions::from_mode(0o755)).expect("open to all");
        let program = scratch.path().join("mmv-agent");
        binaries::copy(&binaries::mmv_agent(), &program);
        scratch.install_bytes(&image(9, 1, &[("queue", 5)]), "app");
        let text = format!("interval = \"50ms\"\n{group}[hindsight]\ninterval = \"10ms\"\n");
        let _agent = agent(&scratch, &text);
        wait_for_samples(&scratch, 10);
        for (number, (user, own, expected)) in users.into_iter().enumerate() {
            let directory = scratch.path().join(format!("of{number}"));
            fs::create_dir(&directory).expect("make a directory");
            chown(&directory, Some(user), None).expect("set an owner");
            let mut command = Command::new(&program);
            command.arg("capture").arg("--archive-dir").arg(scratch.archives());
            command.arg("--output").arg(directory.join("captured")).uid(user).gid(own);
            let output = command.output().expect("run mmv-agent");
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(expected), "{group}{user} {own}: {said}");
            let why = "permission denied: only members of the group";
            assert_eq!(said.contains(why), expected != 0, "{said}");
        }
    }
}

#[test]
fn burst_between_samples_is_in_the_capture_alone() {
    let scratch = Scratch::new();
    let file = scratch.install_bytes(&image(9, 1, &[("queue", 5)]), "app");
    let mut agent = agent(&scratch, "interval = \"1h\"\n[hindsight]\ninterval = \"10ms\"\n");
    wait_for_samples(&scratch, 10);
    set(&file, 0, 4711);
    wait_for_samples(&scratch, 10);
    set(&file, 0, 5);
    wait_for_samples(&scratch, 10);
    let (base, output) = capture(&scratch, "burst", &["--last", "1m"]);
    assert!(output.status.success(), "{}", stderr(&output));
    for part in
        ["burst.0, .meta, .index: ", " samples of ", "the flight recorder has no older samples"]
    {
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
    assert!(agent.terminate().success());
    let seen = |base: &Path| {
        let facts = archive_facts::of_mmv_archive(base);
        let mut values: Vec<_> =
            values(&facts, "mmv.app.queue").into_iter().map(str::to_owned).collect();
        values.dedup();
        values
    };
    assert_eq!(seen(&base), ["0.5e1", "0.4711e4", "0.5e1"]);
    assert_eq!(seen(&agent.archive()), ["0.5e1"]);
}

/// Sets a flag when it is dropped, also by a panic.
struct EndOnDrop<'f>(&'f AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a function beside a program whose values and instances change all the time.
fn beside_busy_program<R>(directory: &Path, meanwhile: impl FnOnce() -> R) -> R {
    let ended = AtomicBool::new(false);
    let registry: Registry =
        Registry::builder("busy").directory(directory).build().expect("a file");
    let indom = registry.indom("workers").help("workers").build().expect("a domain");
    let done: NamedFamily<Counter<u64>> =
        registry.counter("done").build_named(&indom).expect("a metric");
    let rounds: Counter<u64> = registry.counter("rounds").build().expect("a metric");
    let ratio = registry.gauge("ratio").build().expect("a metric");
    let words = registry.text("words").build().expect("a metric");
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0_u64.. {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                rounds.inc();
                ratio.set(round as f64 / 7.0);
                words.set(&"x".repeat((round % 40) as usize));
                done.get_or_create(&format!("w{}", round / 16 % 5)).expect("room").inc();
                if round % 64 == 63 {
                    indom.remove(&format!("w{}", round / 64 % 5));
                }
                thread::sleep(Duration::from_millis(2));
            }
        });
        let _end = EndOnDrop(&ended);
        meanwhile()
    })
}

#[test]
fn what_is_captured_is_what_the_archive_has_at_the_same_moments() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("steady", 5)]), "app");
    let text =
        "interval = \"100ms\"\n[labels]\nsite = \"north\"\n[hindsight]\ninterval = \"20ms\"\n";
    let mut agent = agent(&scratch, text);
    let (base, capture) = beside_busy_program(&scratch.mmv_dir(), || {
        wait_for_samples(&scratch, 120);
        captured(&scratch, "capture", &[])
    });
    assert!(agent.terminate().success(), "{}", agent.log());
    let archive = archive_facts::of_mmv_archive(&agent.archive());
    assert_eq!(capture.metrics, archive.metrics);
    let (close, coarse) = (samples(&capture), samples(&archive));
    let (first, last) = (capture.label.start, capture.label.end);
    let mut compared = 0;
    for (timestamp, record) in coarse.range(first..=last) {
        let found = close.get(timestamp).unwrap_or_else(|| panic!("no sample at {timestamp:?}"));
        assert_eq!(*found, *record);
        compared += 1;
    }
    assert!(compared >= 15 && close.len() >= 60, "{compared} of {}", close.len());
    assert!(!capture.records.iter().any(|record| record.mark), "a mark");
    // Metrics and labels of the host are the same, and instances come and go.
    let labels = |facts: &Facts| -> Vec<_> {
        facts.labels.iter().map(|(_, whose, json)| (whose.clone(), json.clone())).collect()
    };
    assert!(labels(&capture).iter().any(|(_, json)| json.contains("north")));
    assert_eq!(
        labels(&capture)
            .into_iter()
            .filter(|(whose, _)| whose.contains("Context"))
            .collect::<Vec<_>>(),
        labels(&archive)
            .into_iter()
            .filter(|(whose, _)| whose.contains("Context"))
            .collect::<Vec<_>>()
    );
    assert_eq!(capture.texts, archive.texts);
    assert!(capture.indoms.values().any(|states| states.len() > 3), "{:?}", capture.indoms);
    assert_eq!(capture.label.pid, archive.label.pid);
    assert_eq!(capture.label.host, archive.label.host);
    printed_of(&base, &["check"]);
}

#[test]
fn pcps_programs_read_a_capture_and_join_it_with_the_archive() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let file = scratch.install_bytes(&image(9, 1, &[("count", 0)]), "app");
    let mut agent = agent(&scratch, "interval = \"200ms\"\n[hindsight]\ninterval = \"20ms\"\n");
    for value in 0..40 {
        set(&file, 0, value);
        thread::sleep(Duration::from_millis(20));
    }
    let (base, facts) = captured(&scratch, "capture", &["--last", "10s"]);
    assert!(agent.terminate().success());
    let base = base.to_str().expect("UTF-8");
    let printed =
        oracle.run("pmval", &["-r", "-w", "20", "-U", base, "-Z", "UTC", "mmv.app.count"]);
    let numbers: Vec<u64> =
        printed.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse().ok()).collect();
    assert!(numbers.len() >= 20 && numbers.is_sorted(), "{printed}");
    assert_eq!(numbers.len(), samples(&facts).len(), "{printed}");
    let merged = scratch.path().join("merged");
    let archive = agent.archive();
    let paths = [base, archive.to_str().expect("UTF-8"), merged.to_str().expect("UTF-8")];
    let output = oracle.output("pmlogextract", &paths);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    let merged = archive_facts::of_mmv_archive(&merged);
    assert_eq!(merged.metrics, archive_facts::of_mmv_archive(&archive).metrics);
    assert!(!merged.records.iter().any(|record| record.mark), "a mark");
}

#[test]
fn without_samples_an_agent_or_a_free_name_there_is_no_archive() {
    let scratch = Scratch::new();
    let (base, output) = capture(&scratch, "a", &[]);
    assert_eq!(output.status.code(), Some(78), "{}", stderr(&output));
    assert!(stderr(&output).contains("no [hindsight]"), "{}", stderr(&output));

    let mut agent = agent(&scratch, "interval = \"50ms\"\n");
    wait::until_true("an answer", || status(&scratch).is_some());
    assert_eq!(capture(&scratch, "a", &[]).1.status.code(), Some(78));
    assert_eq!(recorder_status(&scratch), None);
    assert!(!recorder_directory(&scratch).exists());

    // It is read like all of the configuration.
    config(&scratch, "interval = \"50ms\"\n[hindsight]\ninterval = \"10ms\"\n");
    agent.signal(Signal::SIGHUP);
    wait::until_true("a flight recorder", || recorder_status(&scratch).is_some());
    scratch.install_bytes(&image(9, 1, &[("queue", 5)]), "app");
    wait_for_samples(&scratch, 3);
    captured(&scratch, "a", &[]);

    let before = fs::read(format!("{}.0", base.display())).expect("its data");
    let (_, output) = capture(&scratch, "a", &[]);
    assert_eq!(output.status.code(), Some(74), "{}", stderr(&output));
    assert_eq!(fs::read(format!("{}.0", base.display())).expect("its data"), before);
    let (_, output) = capture(&scratch, "no/such/directory", &[]);
    assert_eq!(output.status.code(), Some(74), "{}", stderr(&output));

    // What was recorded stays.
    config(&scratch, "interval = \"50ms\"\n");
    agent.signal(Signal::SIGHUP);
    wait::until_true("an end of it", || recorder_status(&scratch).is_none());
    captured(&scratch, "b", &[]);
    assert!(agent.terminate().success());
    let left: Vec<_> = fs::read_dir(scratch.path()).expect("the directory").flatten().collect();
    assert!(!left.iter().any(|entry| entry.file_name().to_string_lossy().starts_with('.')));
}

#[test]
fn a_capture_has_only_the_requested_span_and_metrics() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("queue", 5), ("other", 6)]), "app");
    let text = "interval = \"50ms\"\n[hindsight]\ninterval = \"10ms\"\nmetrics = [\"*.queue\"]\n";
    let _agent = agent(&scratch, text);
    wait_for_samples(&scratch, 150);
    let (_, all) = captured(&scratch, "all", &[]);
    let (_, some) = captured(&scratch, "some", &["--last", "500ms"]);
    let names: Vec<_> = all.metrics.values().flat_map(|metric| &metric.names).collect();
    assert!(!names.iter().any(|name| name.contains("other")), "{names:?}");
    assert!(samples(&all).len() >= 150);
    let nanos = |(seconds, nanos): Stamp| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let span = nanos(some.label.end) - nanos(some.label.start);
    assert!((300_000_000..=500_000_000).contains(&span), "{span}");
}

#[test]
fn a_metric_that_changes_its_meaning_divides_what_is_captured() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("queue", 5)]), "app");
    let _agent = agent(&scratch, "interval = \"50ms\"\n[hindsight]\ninterval = \"10ms\"\n");
    wait_for_samples(&scratch, 10);
    // Another dimension of the first metric: no value can be converted.
    let units = 40 + 2 * 16 + 76;
    let other = patched(&image(9, 2, &[("queue", 5)]), units, &0x1000_0000_u32.to_ne_bytes());
    scratch.install_bytes(&other, "app");
    let mut round = 0;
    wait::until_true("the new unit", || {
        round += 1;
        let (base, output) = capture(&scratch, &format!("round{round}"), &[]);
        let facts = archive_facts::of_mmv_archive(&base);
        let is_new = facts.metrics[pmid(&facts, "mmv.app.queue")].units.contains("byte");
        let reported = stderr(&output).contains("samples before are left out");
        assert_eq!(is_new, reported, "{}", stderr(&output));
        is_new
    });
}

#[test]
fn capture_names_damaged_archive_and_has_those_beside_it() {
    let scratch = Scratch::new();
    let directory = recorder_directory(&scratch);
    fs::create_dir_all(&directory).expect("a directory");
    for (name, second) in [("20231114.1", 0), ("20231114.2", 100)] {
        let rows = (0..3).map(|row| (second + row, [("mmv.app.queue", row)]));
        Builder::in_directory(&directory, name)
            .metric("mmv.app.queue", "u64 instant count")
            .rows(rows)
            .finish();
    }
    let metadata = directory.join("20231114.1.meta");
    let mut bytes = fs::read(&metadata).expect("metadata");
    bytes[4..8].fill(0xff);
    fs::write(&metadata, bytes).expect("damage it");
    let (base, output) = capture(&scratch, "capture", &[]);
    let said = [output.stdout.clone(), output.stderr.clone()].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("an archive of the flight recorder is left out: "), "{said}");
    assert!(said.contains("20231114.1.meta: offset 0: "), "{said}");
    let facts = archive_facts::of_mmv_archive(&base);
    assert_eq!(values(&facts, "mmv.app.queue"), ["0", "0.1e1", "0.2e1"]);
}

#[test]
fn captures_go_on_over_other_settings() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("queue", 5), ("other", 6)]), "app");
    let text = |interval: &str, metrics: &str| {
        format!(
            "interval = \"50ms\"\n[hindsight]\ninterval = \"{interval}\"\nmetrics = [{metrics}]\n"
        )
    };
    let mut agent = agent(&scratch, &text("10ms", ""));
    wait_for_samples(&scratch, 5);
    for round in 0..6 {
        let (interval, metrics) =
            if round % 2 == 0 { ("5ms", "\"*.queue\"") } else { ("20ms", "\"mmv\"") };
        config(&scratch, &text(interval, metrics));
        agent.signal(Signal::SIGHUP);
        wait_for_samples(&scratch, 5);
        let (_, facts) = captured(&scratch, &format!("round{round}"), &[]);
        assert!(!facts.records.iter().any(|record| record.mark), "a mark");
    }
    // What was sampled before is there as well.
    let (_, facts) = captured(&scratch, "last", &[]);
    let (queue, other) = (values(&facts, "mmv.app.queue"), values(&facts, "mmv.app.other"));
    assert!(queue.len() > other.len() && !other.is_empty(), "{} {}", queue.len(), other.len());
    assert!(agent.terminate().success());
    let archive = archive_facts::of_mmv_archive(&agent.archive());
    assert!(!archive.records.iter().any(|record| record.mark), "a mark");
}

#[test]
fn killed_agent_leaves_a_recording_that_is_read_and_continued() {
    let scratch = Scratch::new();
    let file = scratch.install_bytes(&image(9, 1, &[("queue", 5)]), "app");
    let text = "interval = \"1h\"\n[hindsight]\ninterval = \"10ms\"\n";
    let mut killed = agent(&scratch, text);
    wait_for_samples(&scratch, 20);
    set(&file, 0, 4711);
    wait_for_samples(&scratch, 20);
    killed.signal(Signal::SIGKILL);
    killed.gone();
    let report = report(&scratch, "mmv.app.queue");
    assert!(report.status.success(), "{}", stderr(&report));
    let text_of = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text_of(&report).contains("4711"), "{}", text_of(&report));
    let (_, facts) = captured(&scratch, "captured", &[]);
    assert_eq!(values(&facts, "mmv.app.queue").last(), Some(&"0.4711e4"));
    let before = samples(&facts).len();
    assert!(before >= 40, "{before}");

    let mut next = agent(&scratch, text);
    wait_for_samples(&scratch, 20);
    let (_, facts) = captured(&scratch, "both", &[]);
    assert!(samples(&facts).len() >= before + 20, "{} and {before}", samples(&facts).len());
    assert!(next.terminate().success(), "{}", next.log());
    for base in recorded(&scratch) {
        printed_of(&base, &["check"]);
    }
}

#[test]
fn capture_of_the_last_second_is_what_the_recording_has() {
    let scratch = Scratch::new();
    // An archive of the recording spans half a second.
    let text = "interval = \"1h\"\n[hindsight]\ninterval = \"10ms\"\nspan = \"4s\"\n";
    let mut agent = agent(&scratch, text);
    beside_busy_program(&scratch.mmv_dir(), || wait_for_samples(&scratch, 250));
    assert!(agent.terminate().success(), "{}", agent.log());
    let (_, capture) = captured(&scratch, "capture", &["--last", "1s"]);
    let recording: Vec<Facts> =
        recorded(&scratch).iter().map(|base| archive_facts::of_mmv_archive(base)).collect();
    assert!(recording.len() >= 3, "{}", recording.len());
    let mut whole = BTreeMap::new();
    for facts in &recording {
        whole.extend(samples(facts));
    }
    let nanos = |(seconds, nanos): Stamp| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let last = nanos(*whole.keys().last().expect("a sample"));
    whole.retain(|timestamp, _| nanos(*timestamp) >= last - 1_000_000_000);
    assert!(whole.len() >= 30, "{}", whole.len());
    assert_eq!(samples(&capture), whole);
}

#[test]
fn recording_keeps_its_span_and_not_much_more() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("queue", 5)]), "app");
    let text = "interval = \"1h\"\n[hindsight]\ninterval = \"10ms\"\nspan = \"2s\"\n";
    let _agent = agent(&scratch, text);
    wait_for_samples(&scratch, 600);
    let (_, facts) = captured(&scratch, "all", &[]);
    let nanos = |(seconds, nanos): Stamp| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let span = nanos(facts.label.end) - nanos(facts.label.start);
    assert!((1_900_000_000..=3_500_000_000).contains(&span), "{span}");
}

/// Publishes counters that grow by numbers without a pattern, until `is_done`.
#[track_caller]
fn with_noise(directory: &Path, mut is_done: impl FnMut() -> bool) {
    let registry =
        Registry::builder("noise").sealed().directory(directory).build().expect("a registry");
    let counters: Vec<Counter<u64>> = (0..200)
        .map(|number| registry.counter(format!("n{number}")).build().expect("a metric"))
        .collect();
    let _published = registry.publish().expect("a file");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let begun = Instant::now();
    while !is_done() {
        for counter in &counters {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            counter.add(state & 0xffff);
        }
        thread::sleep(Duration::from_millis(2));
        assert!(begun.elapsed() < Duration::from_secs(120), "this takes too long");
    }
}

/// The archives of a directory that were ever seen there.
#[derive(Default)]
struct Seen(BTreeSet<PathBuf>);

impl Seen {
    /// Looks again; returns how many of them were deleted.
    fn deleted(&mut self, directory: &Path) -> usize {
        let mut bases = Vec::new();
        find_bases(directory, &mut bases);
        let there = bases.len();
        self.0.extend(bases);
        self.0.len() - there
    }
}

#[test]
fn recording_never_has_more_bytes_than_configured() {
    const LIMIT: u64 = 1_000_000;
    let scratch = Scratch::in_memory();
    let text = "interval = \"100ms\"\n[hindsight]\ninterval = \"5ms\"\nmemory = \"1MB\"\n";
    let mut agent = agent(&scratch, text);
    let directory = recorder_directory(&scratch);
    let (mut most, mut seen) = (0, Seen::default());
    with_noise(&scratch.mmv_dir(), || {
        most = bytes_in(&directory).max(most);
        seen.deleted(&directory) >= 4
    });
    assert!((LIMIT / 2..=LIMIT).contains(&most), "{most} bytes");
    let status = status(&scratch).expect("a status");
    assert_eq!((&status["dropped"], &status["archive"]["lost"]), (&0.into(), &0.into()));
    assert!(status["hindsight"]["bytes"].as_u64() <= Some(LIMIT), "{status}");
    let (_, facts) = captured(&scratch, "capture", &[]);
    assert!(samples(&facts).len() > 100, "{}", samples(&facts).len());
    assert!(agent.terminate().success(), "{}", agent.log());
}

#[test]
fn recorder_without_room_for_a_sample_costs_the_archive_nothing() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &["a", "b", "c", "d"].map(|name| (name, 3))), "app");
    let text = "interval = \"20ms\"\n[hindsight]\ninterval = \"5ms\"\nmemory = \"2kB\"\n";
    let mut agent = agent(&scratch, text);
    agent.wait_for("samples", |base| {
        archive_facts::so_far(base).is_some_and(|facts| samples(&facts).len() >= 20)
    });
    assert!(bytes_in(&recorder_directory(&scratch)) < 2_000);
    assert!(agent.log().contains("the flight recorder has stopped"), "{}", agent.log());
    // More memory is a change like others.
    config(&scratch, &text.replace("2kB", "10MB"));
    agent.signal(Signal::SIGHUP);
    wait_for_samples(&scratch, 10);
    let status = status(&scratch).expect("a status");
    assert_eq!((&status["dropped"], &status["archive"]["lost"]), (&0.into(), &0.into()));
    assert!(agent.terminate().success(), "{}", agent.log());
}

#[test]
fn full_runtime_directory_costs_only_the_recording() {
    full_disk::run_on_small_disk("768k", "flight_recorder::recording_on_a_small_disk");
}

#[test]
#[ignore = "runs where a small disk is, within the test above"]
fn recording_on_a_small_disk() {
    let disk = full_disk::small_disk();
    let scratch = Scratch::new();
    let file = config(
        &scratch,
        "interval = \"20ms\"\n[hindsight]\ninterval = \"5ms\"\nmemory = \"2MB\"\n",
    );
    let mut command = Command::new(binaries::mmv_agent());
    command.env("RUNTIME_DIRECTORY", &disk);
    let options = ["--config", file.to_str().expect("UTF-8")];
    let mut agent = Agent::spawn(command, &scratch, &options);
    let status = || {
        let mut command = Command::new(binaries::mmv_agent());
        command.args(["status", "--json"]).env("RUNTIME_DIRECTORY", &disk);
        let output = command.output().expect("run mmv-agent");
        serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default()
    };
    let samples = || status()["hindsight"]["samples"].as_u64().unwrap_or(0);
    // More than fits: the oldest archives make room.
    let mut seen = Seen::default();
    with_noise(&scratch.mmv_dir(), || seen.deleted(&disk.join("recorder")) >= 2);
    assert_eq!(status()["hindsight"]["lost"], 0, "{}", status());
    // No room at all.
    let rest = disk.join("rest");
    let mut rounds = 0;
    with_noise(&scratch.mmv_dir(), || {
        let mut file =
            fs::OpenOptions::new().append(true).create(true).open(&rest).expect("a file");
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
        rounds += 1;
        rounds % 100 == 0 && status()["hindsight"]["lost"].as_u64() > Some(0)
    });
    let found = status();
    let losses = (&found["dropped"], &found["archive"]["lost"]);
    assert_eq!(losses, (&0.into(), &0.into()), "{found}");
    fs::remove_file(&rest).expect("make room");
    let before = samples();
    with_noise(&scratch.mmv_dir(), || samples() > before + 50);
    assert!(agent.terminate().success(), "{}", agent.log());
}
