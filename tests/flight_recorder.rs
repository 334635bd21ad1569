//! The flight recorder: captures are valid archives, and clients do no harm.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use mmv_writer::{Counter, Family, LiveRegistry, Registry};
use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use serde_json::Value;

use crate::compliance;
use crate::harness::agent::Agent;
use crate::harness::archive_facts;
use crate::harness::binaries;
use crate::harness::facts::{Facts, Record, Stamp};
use crate::harness::mmv_file::{image, patched, set};
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;
use crate::harness::skip;
use crate::harness::wait;

/// An agent with this configuration.
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

/// Captures into the archive `name` of the scratch directory.
fn capture(scratch: &Scratch, name: &str, options: &[&str]) -> (PathBuf, Output) {
    let base = scratch.path().join(name);
    let output = command(scratch, &base, options).output().expect("run mmv-agent");
    (base, output)
}

/// Captures, and returns what is in the archive, which must be sound.
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

/// The status of the flight recorder.
fn recorder_status(scratch: &Scratch) -> Option<Value> {
    let mut command = Command::new(binaries::mmv_agent());
    command.args(["status", "--json", "--archive-dir"]).arg(scratch.archives());
    let output = command.output().expect("run mmv-agent");
    let status: Value = serde_json::from_slice(&output.stdout).ok()?;
    Some(status["hindsight"].clone()).filter(|value| !value.is_null())
}

/// Waits until the agent has `count` more samples than before.
#[track_caller]
fn wait_for_samples(scratch: &Scratch, count: u64) {
    let samples = || recorder_status(scratch)?["samples"].as_u64();
    let before = samples().unwrap_or(0);
    wait::until_true("samples in memory", || samples() >= Some(before + count));
}

/// The number of a metric.
#[track_caller]
fn pmid<'f>(facts: &'f Facts, name: &str) -> &'f str {
    let found = facts.metrics.iter().find(|(_, metric)| metric.names.contains(name));
    found.unwrap_or_else(|| panic!("no {name} among {:?}", facts.metrics)).0
}

/// The values of a metric without instances.
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
        // The user must reach the program and the sockets.
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
fn a_burst_between_two_samples_is_in_the_capture_and_not_in_the_archive() {
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
    for part in ["burst.0, .meta, .index: ", " samples of ", "the agent has no older samples"] {
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

/// A program whose values and instances change all the time, until it is dropped.
struct Busy {
    ended: AtomicBool,
}

impl Busy {
    fn run<R>(directory: &Path, meanwhile: impl FnOnce() -> R) -> R {
        let busy = Self { ended: AtomicBool::new(false) };
        let registry: LiveRegistry =
            Registry::builder("busy").directory(directory).live().build().expect("a file");
        let indom = registry.indom("workers").help("workers").build().expect("a domain");
        let done: Family<Counter<u64>> =
            registry.counter("done").build_family(&indom).expect("a metric");
        let rounds: Counter<u64> = registry.counter("rounds").build().expect("a metric");
        let ratio = registry.gauge::<f64>("ratio").build().expect("a metric");
        let words = registry.text("words").build().expect("a metric");
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0_u64.. {
                    if busy.ended.load(Ordering::Relaxed) {
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
            let result = meanwhile();
            busy.ended.store(true, Ordering::Relaxed);
            result
        })
    }
}

#[test]
fn what_is_captured_is_what_the_archive_has_at_the_same_moments() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("steady", 5)]), "app");
    let text =
        "interval = \"100ms\"\n[labels]\nsite = \"north\"\n[hindsight]\ninterval = \"20ms\"\n";
    let mut agent = agent(&scratch, text);
    let (base, capture) = Busy::run(&scratch.mmv_dir(), || {
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
    let printed = Command::new(binaries::mmv_archive()).arg("check").arg(&base).output();
    let printed = printed.expect("run mmv-archive");
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stdout));
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
    assert_eq!(output.status.code(), Some(74), "{}", stderr(&output));
    assert!(stderr(&output).contains("no agent answers"), "{}", stderr(&output));

    let mut agent = agent(&scratch, "interval = \"50ms\"\n");
    wait::until_true("an answer", || capture(&scratch, "a", &[]).1.status.code() == Some(78));
    assert!(stderr(&capture(&scratch, "a", &[]).1).contains("no [hindsight]"));
    assert_eq!(recorder_status(&scratch), None);

    // It is read like all of the configuration, and there is no sample yet.
    config(&scratch, "interval = \"50ms\"\n[hindsight]\ninterval = \"10ms\"\n");
    agent.signal(Signal::SIGHUP);
    wait::until_true("another answer", || capture(&scratch, "a", &[]).1.status.code() == Some(1));
    scratch.install_bytes(&image(9, 1, &[("queue", 5)]), "app");
    wait_for_samples(&scratch, 3);
    captured(&scratch, "a", &[]);

    let before = fs::read(format!("{}.0", base.display())).expect("its data");
    let (_, output) = capture(&scratch, "a", &[]);
    assert_eq!(output.status.code(), Some(74), "{}", stderr(&output));
    assert_eq!(fs::read(format!("{}.0", base.display())).expect("its data"), before);
    let (_, output) = capture(&scratch, "no/such/directory", &[]);
    assert_eq!(output.status.code(), Some(74), "{}", stderr(&output));

    config(&scratch, "interval = \"50ms\"\n");
    agent.signal(Signal::SIGHUP);
    wait::until_true("an end of it", || {
        // One that came before the end is in the way of the next.
        let _ = ["0", "meta", "index"]
            .map(|part| fs::remove_file(scratch.path().join(format!("b.{part}"))));
        capture(&scratch, "b", &[]).1.status.code() == Some(78)
    });
    assert!(agent.terminate().success());
    let left: Vec<_> = fs::read_dir(scratch.path()).expect("the directory").flatten().collect();
    let hidden = |name: &str| name.starts_with('.') || name.starts_with("b.");
    assert!(!left.iter().any(|entry| hidden(&entry.file_name().to_string_lossy())), "{left:?}");
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
    // The type of the first metric: MMV_TYPE_I64 in place of MMV_TYPE_U64.
    let other = patched(&image(9, 2, &[("queue", 5)]), 40 + 2 * 16 + 68, &2_u32.to_ne_bytes());
    scratch.install_bytes(&other, "app");
    let mut round = 0;
    wait::until_true("the new type", || {
        round += 1;
        let (base, output) = capture(&scratch, &format!("round{round}"), &[]);
        let facts = archive_facts::of_mmv_archive(&base);
        let found = &facts.metrics[pmid(&facts, "mmv.app.queue")].data_type;
        let divided = found == "64-bit int";
        assert!(divided || found == "64-bit unsigned int", "{found}");
        let reported = stderr(&output).contains("samples before are left out");
        assert_eq!(divided, reported, "{}", stderr(&output));
        divided
    });
}

/// The process's memory that is its own, in bytes.
fn memory(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).expect("the process");
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes * 1024
}

#[test]
fn a_client_that_does_not_read_or_disconnects_does_no_harm() {
    let scratch = Scratch::new();
    let counters = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| (name, 7));
    let file = scratch.install_bytes(&image(9, 1, &counters), "app");
    let text = "interval = \"50ms\"\n[hindsight]\ninterval = \"1ms\"\nmemory = \"1MB\"\n";
    let mut agent = agent(&scratch, text);
    wait_for_samples(&scratch, 100);
    let socket = agent.archive().with_file_name(".mmv-capture.sock");
    let connect = || UnixStream::connect(&socket).expect("the socket");
    // Nothing, a bit, nonsense, and a request whose client does not wait.
    drop(connect());
    for request in
        ["{", "\n", "{\"last\":-1.0}\n", "{\"last\":1e300}\n", "[[[[\n", "{\"lasst\":1}\n"]
    {
        let mut stream = connect();
        stream.write_all(request.as_bytes()).expect("ask");
        stream.shutdown(std::net::Shutdown::Write).expect("be silent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert_eq!(answer, "{\"refused\":\"request\"}\n", "{request}");
    }
    for _ in 0..5 {
        connect().write_all(b"{\"last\":null}\n").expect("ask");
    }
    // A silent client delays others only until its time-out.
    let silent = connect();
    let (_, facts) = captured(&scratch, "patient", &[]);
    assert!(samples(&facts).len() >= 100);
    drop(silent);
    // Values that change all the time, and captures at once.
    let before = memory(agent.id());
    let children: Vec<Child> = (0..3)
        .map(|number| {
            let base = scratch.path().join(format!("at-once-{number}"));
            command(&scratch, &base, &[]).stderr(Stdio::null()).spawn().expect("run mmv-agent")
        })
        .collect();
    for round in 0..500 {
        (0..8).for_each(|index| set(&file, index, round * round * 1_000_003));
        thread::sleep(Duration::from_millis(2));
    }
    for mut child in children {
        assert!(child.wait().expect("a capture").success());
    }
    // A capture that is killed leaves no archive.
    let base = scratch.path().join("killed");
    let mut killed = command(&scratch, &base, &[]).spawn().expect("run mmv-agent");
    thread::sleep(Duration::from_millis(5));
    killed.kill().expect("kill it");
    killed.wait().expect("its end");
    let status = recorder_status(&scratch).expect("a status");
    assert!(status["bytes"].as_u64() <= status["limit"].as_u64(), "{status}");
    let grown = memory(agent.id()).saturating_sub(before);
    assert!(grown < 8_000_000, "{grown}");
    assert!(!agent.log().contains("ERROR"), "{}", agent.log());
    assert!(agent.terminate().success());
    assert!(!socket.exists());
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
