//! The agent's data about itself: events and its own metrics.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use mmv_writer::{Counter, Registry};
use nix::sys::signal::Signal;
use pcp_archive::raw::event::EventArray;
use pcp_archive::{Archive, OwnedValue, Timestamp, Value};

use crate::compliance;
use crate::harness::agent::Agent;
use crate::harness::mmv_archive::printed_of;
use crate::harness::mmv_file::{grow, image, patched, remove, set};
use crate::harness::oracle::Oracle;
use crate::harness::pmcd::Pmcd;
use crate::harness::pminfo;
use crate::harness::scratch::Scratch;
use crate::harness::skip::skip;
use crate::harness::wait;
use crate::status_command::status_json;

const WITH_EVENTS: [&str; 4] = ["--interval", "50ms", "--events", "true"];
const WITH_OWN_METRICS: [&str; 4] = ["--interval", "50ms", "--own-metrics", "true"];

const GENERATION2: u64 = 16;
const FLAGS: usize = 28;
const PROCESS: usize = 32;
/// The flag for a file that is valid as long as its process lives.
const WITH_PROCESS: u32 = 2;

#[derive(Debug, Default)]
struct Event {
    timestamp: Option<Timestamp>,
    kind: String,
    file: String,
    reason: String,
    since: String,
    pid: u32,
    values: u64,
    records: u64,
}

/// Reads the events of an archive in their order; `None` if it cannot be read right now.
fn events(base: &Path) -> Option<Vec<Event>> {
    let archive = Archive::open(base).ok()?;
    let metadata = archive.metadata();
    let mut records = archive.records().ok()?;
    let mut events = Vec::new();
    while let Some(record) = records.next().ok()? {
        let result = record.to_owned(metadata).ok()?;
        for set in result.value_sets {
            for (_, value) in set.values.unwrap_or_default() {
                if let OwnedValue::Event(_) = value {
                    let array = EventArray::unpack(value.as_value()).expect("an event array");
                    events.extend(array.records().map(|record| {
                        let mut event =
                            Event { timestamp: Some(record.timestamp()), ..Event::default() };
                        for (pmid, value) in record.parameters() {
                            let name = metadata.metric(pmid).expect("described").display_name();
                            event.put(name.strip_prefix("mmv.agent.event.").expect("ours"), value);
                        }
                        event
                    }));
                }
            }
        }
    }
    Some(events)
}

/// Counts the events of files whose names begin so, in an archive that is being written.
pub(crate) fn count_so_far(base: &Path, files: &str) -> usize {
    let events = events(base).unwrap_or_default();
    events.iter().filter(|event| event.file.starts_with(files)).count()
}

pub(crate) fn types(base: &Path) -> Vec<String> {
    let events = events(base).expect("a whole archive");
    events
        .iter()
        .map(|event| format!("{} {}", event.kind, event.file).trim_end().to_owned())
        .collect()
}

impl Event {
    fn put(&mut self, name: &str, value: Value<'_>) {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        match (name, value) {
            ("type", Value::String(bytes)) => self.kind = text(bytes),
            ("file", Value::String(bytes)) => self.file = text(bytes),
            ("reason", Value::String(bytes)) => self.reason = text(bytes),
            ("since", Value::String(bytes)) => self.since = text(bytes),
            ("pid", Value::U32(pid)) => self.pid = pid,
            ("values", Value::U64(values)) => self.values = values,
            ("records", Value::U64(records)) => self.records = records,
            other => panic!("{other:?}"),
        }
    }
}

#[track_caller]
fn wait_for(agent: &Agent, file: &str, kind: &str) {
    agent.wait_for(&format!("{file} to be {kind}"), |base| {
        let events = events(base).unwrap_or_default();
        events.iter().rev().find(|event| event.file == file).is_some_and(|last| last.kind == kind)
    });
}

/// Ends the agent and reads the events of its archive, which PCP's programs can as well.
#[track_caller]
fn finished(agent: &mut Agent) -> Vec<Event> {
    assert!(agent.terminate().success(), "{}", agent.log());
    let base = agent.archive();
    if let Some(oracle) = Oracle::find() {
        compliance::check(&oracle, &base);
        let printed = oracle.run("pmdumplog", &[base.to_str().unwrap(), "mmv.agent.events"]);
        assert!(printed.contains("(mmv.agent.event.type): value \"started\""), "{printed}");
        let listed = oracle.run("pmval", &["-a", base.to_str().unwrap(), "mmv.agent.events"]);
        assert!(listed.contains("mmv.agent.event.type \"stopped\""), "{listed}");
        // What the parameters are is not lost when PCP joins the archives of a day.
        let joined = base.with_file_name("joined");
        oracle.run("pmlogextract", &[&base, &joined]);
        let joined = oracle.run("pmdumplog", &[joined.to_str().unwrap(), "mmv.agent.events"]);
        assert_eq!(
            joined.matches("(mmv.agent.event.type): value").count(),
            printed.matches("(mmv.agent.event.type): value").count()
        );
    }
    events(&base).expect("a whole archive")
}

fn kinds<'e>(events: &'e [Event], file: &str) -> Vec<&'e str> {
    let of_file = events.iter().filter(|event| event.file == file);
    of_file.map(|event| event.kind.as_str()).collect()
}

/// A process that does nothing; killed on drop.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        let mut command = Command::new("sleep");
        command.arg("600").stdin(Stdio::null());
        Self(command.spawn().expect("start a process"))
    }

    /// Builds a file that counts as long as this process lives.
    fn image(&self) -> Vec<u8> {
        let image = image(9, 1, &[("requests", 3)]);
        let image = patched(&image, FLAGS, &WITH_PROCESS.to_ne_bytes());
        patched(&image, PROCESS, &self.0.id().to_ne_bytes())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_life_of_a_file_is_logged_as_events() {
    let scratch = Scratch::new();
    let mut agent = Agent::start_with(&scratch, &WITH_EVENTS);
    let path = scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    wait_for(&agent, "app", "appeared");
    grow(&path, &image(9, 2, &[("requests", 4), ("errors", 1)]));
    agent.wait_for("app to have grown", |base| {
        kinds(&events(base).unwrap_or_default(), "app").contains(&"grew")
    });
    scratch.install_bytes(&image(9, 3, &[("requests", 1)]), "app");
    wait_for(&agent, "app", "restarted");
    remove(&path);
    wait_for(&agent, "app", "vanished");
    let id = agent.id();
    let mut events = finished(&mut agent);
    let printed = printed_of(&agent.archives()[0], &["events"]);
    assert_eq!(printed.lines().count(), events.len(), "{printed}");
    assert!(printed.contains("  restarted    file=app  values=1\n"), "{printed}");
    assert!(events.is_sorted_by_key(|event| event.timestamp), "{events:?}");
    // A sample may be missing at the tick that finds the new metadata.
    events.retain(|event| !["waiting", "recovered"].contains(&event.kind.as_str()));
    assert_eq!(kinds(&events, "app"), ["appeared", "grew", "restarted", "vanished"]);
    let values: Vec<u64> = events.iter().map(|event| event.values).collect();
    assert_eq!(values, [0, 1, 2, 1, 0, 0]);
    let [first, .., last] = &events[..] else { panic!("{events:?}") };
    assert_eq!((first.kind.as_str(), first.pid), ("started", id));
    assert!(first.reason.starts_with("mmv-agent "), "{first:?}");
    assert_eq!((last.kind.as_str(), last.pid), ("stopped", id));
}

#[test]
fn samples_not_taken_are_counted_and_a_gap_to_readers() {
    let scratch = Scratch::new();
    let path = scratch.install_bytes(&image(9, 1, &[("requests", 1000)]), "app");
    scratch.install_bytes(&image(10, 1, &[("steady", 5)]), "other");
    let mut agent = Agent::start_with(&scratch, &WITH_EVENTS);
    wait_for(&agent, "app", "appeared");
    let bytes = agent.data_bytes();
    wait::until_true("samples", || agent.data_bytes() > bytes + 500);
    let file = File::options().write(true).open(&path).expect("open the file");
    let set_generation2 = |word: u64| {
        file.write_all_at(&word.to_ne_bytes(), GENERATION2).expect("change the file");
    };
    set_generation2(0);
    wait_for(&agent, "app", "waiting");
    set_generation2(1);
    wait_for(&agent, "app", "recovered");
    set(&path, 0, 9000);
    let bytes = agent.data_bytes();
    wait::until_true("more samples", || agent.data_bytes() > bytes + 500);
    let status = wait::until("the status", || status_json(&scratch));
    let sources = status["sources"].as_array().expect("files");
    let missing = |file: &str| {
        let source = sources.iter().find(|source| source["file"] == file).expect("the file");
        source["missing"].as_u64().expect("a number")
    };
    assert!(missing("app") > 0, "{status}");
    assert_eq!(missing("other"), 0, "{status}");
    let events = finished(&mut agent);
    let of_app: Vec<_> = events.iter().filter(|event| event.file == "app").collect();
    let at = |kind: &str| of_app.iter().find(|event| event.kind == kind).unwrap().timestamp;
    let (since, until) = (at("waiting").unwrap(), at("recovered").unwrap());
    // A file that is read again before it is reported as waiting has recovered by then.
    let counted: u64 = of_app.iter().map(|event| event.records).sum();
    assert!(counted == 0 || counted == missing("app"), "{of_app:?}");
    let report = ["report", "mmv.app.requests", "mmv.other.steady"];
    let options = ["--interval", "10ms", "--no-rate", "--format", "jsonl"];
    let printed = printed_of(&agent.archives()[0], &[&report[..], &options].concat());
    let mut shown = BTreeMap::new();
    for line in printed.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let time: jiff::Timestamp = line["time"].as_str().expect("a text").parse().expect("a time");
        let time = Timestamp::from_nanos(time.as_nanosecond());
        let metric = line["metric"].as_str().expect("a name").to_owned();
        *shown.entry(metric).or_insert(0) += u32::from(since <= time && time < until);
    }
    assert_eq!(shown["mmv.app.requests"], 0, "{printed}");
    assert!(shown["mmv.other.steady"] > 3, "{printed}");
}

#[test]
fn a_rejected_file_and_its_recovery_are_events() {
    let scratch = Scratch::new();
    let good = image(9, 1, &[("requests", 3)]);
    let mut bad = good.clone();
    bad[..3].copy_from_slice(b"XYZ");
    let path = scratch.install_bytes(&bad, "app");
    let mut agent = Agent::start_with(&scratch, &WITH_EVENTS);
    wait_for(&agent, "app", "quarantined");
    fs::write(&path, &good).expect("write the file");
    wait_for(&agent, "app", "recovered");
    fs::write(&path, &good[..60]).expect("cut the file");
    wait_for(&agent, "app", "quarantined");
    let events = finished(&mut agent);
    assert_eq!(kinds(&events, "app")[..2], ["quarantined", "recovered"]);
    let of_file: Vec<&Event> = events.iter().filter(|event| event.file == "app").collect();
    assert!(!of_file[0].reason.is_empty(), "{of_file:?}");
    assert!(of_file[2].reason.contains("truncated"), "{of_file:?}");
}

#[test]
fn the_end_of_a_process_is_an_event_that_names_it() {
    let scratch = Scratch::new();
    let (alive, dead) = (Sleeper::new(), Sleeper::new());
    let (pid, gone) = (alive.0.id(), dead.0.id());
    scratch.install_bytes(&alive.image(), "app");
    scratch.install_bytes(&dead.image(), "late");
    drop(dead);
    let mut agent = Agent::start_with(&scratch, &WITH_EVENTS);
    wait_for(&agent, "app", "appeared");
    wait_for(&agent, "late", "waiting");
    drop(alive);
    wait_for(&agent, "app", "ended");
    let events = finished(&mut agent);
    assert_eq!(kinds(&events, "app"), ["appeared", "ended"]);
    assert_eq!(kinds(&events, "late"), ["waiting"]);
    for event in &events {
        match event.file.as_str() {
            "app" => assert_eq!(event.pid, pid, "{event:?}"),
            "late" => assert_eq!(event.reason, format!("its process {gone} is gone")),
            _ => {}
        }
    }
}

#[test]
fn replacing_the_file_of_a_running_process_is_a_warning() {
    let scratch = Scratch::new();
    let (first, second, third) = (Sleeper::new(), Sleeper::new(), Sleeper::new());
    let path = scratch.install_bytes(&first.image(), "app");
    let mut agent = Agent::start_with(&scratch, &WITH_EVENTS);
    wait_for(&agent, "app", "appeared");
    scratch.install_bytes(&second.image(), "app");
    wait_for(&agent, "app", "restarted");
    let warning = format!(
        "process {} has replaced the file of process {}, which is running",
        second.0.id(),
        first.0.id()
    );
    wait::until_true("a warning", || agent.log().contains(&warning));
    // After the end of a process, and after it has withdrawn its file, all is well.
    drop(second);
    scratch.install_bytes(&third.image(), "app");
    wait::until_true("the third", || agent.log().matches(" harvested").count() >= 3);
    remove(&path);
    wait_for(&agent, "app", "vanished");
    scratch.install_bytes(&first.image(), "app");
    wait::until_true("the first", || agent.log().matches(" harvested").count() >= 4);
    let events = finished(&mut agent);
    assert_eq!(agent.log().matches("has replaced the file").count(), 1, "{}", agent.log());
    let restarted = events.iter().find(|event| event.kind == "restarted").expect("the event");
    let reason = format!("replaces the file of process {}, which runs", first.0.id());
    assert_eq!(restarted.reason, reason);
}

fn removing(scratch: &Scratch, after: &str) -> std::path::PathBuf {
    let config = scratch.path().join("agent.toml");
    let text =
        format!("interval = \"50ms\"\nown-metrics = false\nremove-dead-after = \"{after}\"\n");
    fs::write(&config, text).expect("write the configuration");
    config
}

#[test]
fn a_dead_programs_file_is_removed_with_an_event() {
    let scratch = Scratch::new();
    let (alive, dying) = (Sleeper::new(), Sleeper::new());
    let living = scratch.install_bytes(&alive.image(), "living");
    let left = scratch.install_bytes(&dying.image(), "left");
    let lasting = scratch.install_bytes(&image(10, 1, &[("steady", 8)]), "lasting");
    let pid = dying.0.id();
    let mut agent = Agent::start_configured(&scratch, &removing(&scratch, "300ms"));
    wait_for(&agent, "left", "appeared");
    drop(dying);
    wait_for(&agent, "left", "removed");
    assert!(!left.exists() && living.exists() && lasting.exists());
    let line = format!("removed: its process ended long ago file=left pid={pid}");
    assert!(agent.log().contains(&line), "{}", agent.log());
    let events = finished(&mut agent);
    assert_eq!(kinds(&events, "left")[..2], ["appeared", "ended"]);
    let removed = events.iter().find(|event| event.kind == "removed").expect("an event");
    assert_eq!((removed.file.as_str(), removed.pid), ("left", pid));
    assert_eq!(kinds(&events, "living"), ["appeared"]);
    assert_eq!(kinds(&events, "lasting"), ["appeared"]);
}

#[test]
fn the_next_agent_removes_what_one_before_saw_end() {
    let scratch = Scratch::new();
    let dying = Sleeper::new();
    let left = scratch.install_bytes(&dying.image(), "left");
    let mut first = Agent::start_configured(&scratch, &removing(&scratch, "1h"));
    wait_for(&first, "left", "appeared");
    drop(dying);
    wait_for(&first, "left", "ended");
    assert!(first.terminate().success(), "{}", first.log());
    assert!(left.exists(), "an hour is not over");
    let mut second = Agent::start_configured(&scratch, &removing(&scratch, "100ms"));
    wait::until_true("the file to go", || !left.exists());
    assert!(second.terminate().success(), "{}", second.log());
}

#[test]
fn a_failed_removal_is_logged_once() {
    let scratch = Scratch::new();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    command.arg("mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"");
    command.arg(scratch.mmv_dir());
    let mut works = Command::new(command.get_program());
    works.args(command.get_args()).arg("true");
    if !works.output().is_ok_and(|output| output.status.success()) {
        return skip("no mount in a namespace of one's own");
    }
    let dying = Sleeper::new();
    let left = scratch.install_bytes(&dying.image(), "left");
    let config = removing(&scratch, "100ms");
    let options = ["--config", config.to_str().expect("UTF-8"), "--events", "true"];
    command.arg(crate::harness::binaries::mmv_agent());
    let mut agent = Agent::spawn(command, &scratch, &options);
    wait_for(&agent, "left", "appeared");
    drop(dying);
    let failures = || agent.log().matches("cannot remove the file").count();
    wait::until_true("a line in the log", || failures() == 1);
    assert!(agent.log().contains("Read-only file system"), "{}", agent.log());
    // The file is tried again after 0.1, 0.2, 0.4 s and so on, its removal is not.
    thread::sleep(Duration::from_secs(2));
    assert_eq!(failures(), 1, "{}", agent.log());
    assert!(left.exists());
    agent.signal(Signal::SIGHUP);
    wait::until_true("another try with other settings", || failures() == 2);
    assert!(agent.terminate().success(), "{}", agent.log());
    assert!(!kinds(&events(&agent.archive()).expect("whole"), "left").contains(&"removed"));
}

#[test]
fn a_gap_is_an_event_with_its_beginning() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let mut agent = Agent::start_with(&scratch, &WITH_EVENTS);
    wait_for(&agent, "app", "appeared");
    agent.signal(Signal::SIGSTOP);
    thread::sleep(Duration::from_millis(1_500));
    agent.signal(Signal::SIGCONT);
    agent.wait_for("the gap", |base| {
        events(base).unwrap_or_default().iter().any(|event| event.kind == "gap")
    });
    let events = finished(&mut agent);
    let gap = events.iter().find(|event| event.kind == "gap").expect("a gap");
    assert!(gap.since.starts_with("20") && gap.since.ends_with('Z'), "{gap:?}");
}

#[test]
fn lost_records_are_an_event_once_writing_works_again() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let agent = Agent::start_on_full_disk(&scratch, 6_000, &WITH_EVENTS);
    let Some(mut agent) = agent else { return };
    wait::until_true("the disk to be full", || agent.log().contains("cannot write"));
    let path = scratch.install_bytes(&image(10, 1, &[("errors", 3)]), "meanwhile");
    wait::until_true("the file to be seen", || agent.log().contains("file=meanwhile"));
    remove(&path);
    wait::until_true("and its end", || agent.log().contains("no longer harvested"));
    agent.lift_limit();
    wait_for(&agent, "meanwhile", "vanished");
    let events = finished(&mut agent);
    // What happened meanwhile was not lost.
    assert_eq!(kinds(&events, "meanwhile"), ["appeared", "vanished"]);
    let lost: Vec<&Event> = events.iter().filter(|event| event.kind == "lost").collect();
    let [lost] = lost[..] else { panic!("{events:?}") };
    assert!(lost.records > 0 && lost.since.starts_with("20"), "{lost:?}");
    assert!(!lost.reason.is_empty(), "{lost:?}");
}

/// A record of events fits in the last bytes of a disk on which no sample does.
#[test]
fn events_on_a_full_disk_count_each_lost_record_once() {
    let scratch = Scratch::new();
    let registry = Registry::builder("app").sealed().directory(scratch.mmv_dir()).build().unwrap();
    for number in 0..200 {
        let _: Counter<u64> = registry.counter(format!("count{number}")).build().unwrap();
    }
    registry.publish().unwrap();
    let agent = Agent::start_on_full_disk(&scratch, 62_000, &WITH_EVENTS);
    let Some(mut agent) = agent else { return };
    let lost = |base: &Path| {
        let events = events(base).unwrap_or_default();
        events.iter().filter(|event| event.kind == "lost").count()
    };
    agent.wait_for("events of lost records", |base| lost(base) > 2);
    agent.lift_limit();
    wait::until_true("samples again", || agent.log().contains("writing the archive again"));
    let events = finished(&mut agent);
    let counts = events.iter().filter(|event| event.kind == "lost").map(|event| event.records);
    assert_eq!(counts.sum::<u64>(), agent.counted("lost"), "{events:?}");
    assert_eq!(kinds(&events, "app"), ["appeared"]);
}

fn last(base: &Path, name: &str) -> Option<u64> {
    let archive = Archive::open(base).ok()?;
    let pmid = archive.metadata().metric_by_name(name)?.desc.pmid;
    let mut records = archive.records().ok()?;
    let mut last = None;
    while let Some(record) = records.next().ok()? {
        let result = record.to_owned(archive.metadata()).ok()?;
        for set in result.value_sets.iter().filter(|set| set.pmid == pmid) {
            match set.values.iter().flatten().next() {
                Some((_, OwnedValue::U64(value))) => last = Some(*value),
                Some((_, OwnedValue::U32(value))) => last = Some(u64::from(*value)),
                _ => {}
            }
        }
    }
    last
}

#[test]
fn an_agent_counts_what_it_does() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let mut agent = Agent::start_with(&scratch, &WITH_OWN_METRICS);
    agent.wait_for("ten records", |base| last(base, "mmv.app.requests").is_some());
    thread::sleep(Duration::from_secs(1));
    assert!(agent.terminate().success(), "{}", agent.log());
    assert!(!scratch.mmv_dir().join("agent").exists(), "the file goes with the agent");
    let base = agent.archive();
    if let Some(oracle) = Oracle::find() {
        compliance::check(&oracle, &base);
    }
    for name in [
        "ticks.taken",
        "ticks.duration.sum",
        "ticks.lateness.sum",
        "ticks.lateness.bucket",
        "values.sampled",
        "records.sampled",
        "records.written",
        "bytes.written",
        "queue.limit",
        "files",
        "happened",
    ] {
        let value = last(&base, &format!("mmv.agent.{name}"));
        assert!(value.is_some_and(|value| value > 0), "{name}: {value:?}");
    }
    for name in ["records.dropped", "records.lost", "archives.deleted"] {
        assert_eq!(last(&base, &format!("mmv.agent.{name}")), Some(0), "{name}");
    }
}

fn pmid(base: &Path, name: &str) -> String {
    let archive = Archive::open(base).expect("an archive");
    archive.metadata().metric_by_name(name).expect(name).desc.pmid.to_string()
}

#[test]
fn files_have_the_pmids_of_pmdammv_beside_own_metrics() {
    let scratch = Scratch::new();
    // Every cluster that a file can have at the ends, and one without any.
    for (name, cluster) in [("first", 1), ("free", 0), ("own", 2047), ("top", 4095)] {
        scratch.install_bytes(&image(cluster, 1, &[("requests", 3)]), name);
    }
    let all = [&WITH_OWN_METRICS[..], &WITH_EVENTS[2..]].concat();
    let mut agent = Agent::start_with(&scratch, &all);
    agent.wait_for("own metrics", |base| last(base, "mmv.agent.ticks.taken").is_some());
    let expected = [("first", 1), ("free", 2), ("own", 2047), ("top", 4095)];
    if let Some(oracle) = Oracle::find() {
        let pmcd = Pmcd::start(&oracle, &scratch);
        let served = pminfo::ask(&oracle, ["-h", &pmcd.host()]);
        for (name, cluster) in expected {
            let served = &served[&format!("mmv.{name}.requests")];
            assert_eq!(served.pmid, format!("70.{cluster}.1"), "{name}");
        }
    }
    assert!(agent.terminate().success(), "{}", agent.log());
    let base = agent.archive();
    assert!(types(&base).contains(&"appeared top".to_owned()));
    if let Some(oracle) = Oracle::find() {
        compliance::check(&oracle, &base);
    }
    for (name, cluster) in expected {
        let name = format!("mmv.{name}.requests");
        assert_eq!((pmid(&base, &name), last(&base, &name)), (format!("70.{cluster}.1"), Some(3)));
    }
    assert_eq!(pmid(&base, "mmv.agent.events"), "70.0.1001");
    assert!(pmid(&base, "mmv.agent.ticks.taken").starts_with("70.0.1"));
    assert!(!agent.log().contains("moved"), "{}", agent.log());
    // The next archive has the same.
    let before = pmid(&base, "mmv.agent.bytes.written");
    let mut next = Agent::start_with(&scratch, &all);
    wait::until_true("its archive", || next.archives().len() == 2);
    next.wait_for("own metrics", |base| last(base, "mmv.agent.ticks.taken").is_some());
    assert!(next.terminate().success());
    let base = next.archives().pop().expect("an archive");
    assert_eq!(pmid(&base, "mmv.agent.bytes.written"), before);
    assert_eq!(pmid(&base, "mmv.free.requests"), "70.2.1");
}

#[test]
fn agent_replaces_a_killed_one_but_no_living_one() {
    let scratch = Scratch::new();
    let file = scratch.mmv_dir().join("agent");
    let mut first = Agent::start_with(&scratch, &WITH_OWN_METRICS);
    wait::until_true("its file", || file.exists());
    first.signal(Signal::SIGKILL);
    first.gone();
    assert!(file.exists(), "it was not removed");
    let mut second = Agent::start_with(&scratch, &WITH_OWN_METRICS);
    agent_is(&second, &file);
    let mut command = Command::new(crate::harness::binaries::mmv_agent());
    command.arg("run").arg("--mmv-dir").arg(scratch.mmv_dir());
    command.arg("--output").arg(scratch.path().join("other")).args(["--samples", "2"]);
    let other = command.args(WITH_OWN_METRICS).output().expect("run another agent");
    assert!(other.status.success(), "{other:?}");
    assert!(last(&scratch.path().join("other"), "mmv.agent.ticks.taken").is_some());
    agent_is(&second, &file);
    assert!(second.terminate().success());
    assert!(!file.exists() && !file.with_file_name("agent_2").exists());
}

#[track_caller]
fn agent_is(agent: &Agent, file: &Path) {
    wait::until_true("the agent's file", || {
        let bytes = fs::read(file).unwrap_or_default();
        bytes.get(PROCESS..PROCESS + 4) == Some(&agent.id().to_ne_bytes()[..])
    });
}

#[test]
fn a_new_file_of_the_agent_itself_is_no_loss() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    for life in 1..=2 {
        let mut agent = Agent::start_with(&scratch, &WITH_OWN_METRICS);
        wait::until_true("its archive", || agent.archives().len() == life);
        assert!(agent.terminate().success(), "{}", agent.log());
        let last_one = agent.archives().pop().expect("an archive");
        assert_eq!(last(&last_one, "pmcd.seqnum"), Some(1), "life {life}");
    }
}

#[test]
fn agent_without_a_place_for_its_file_warns_once() {
    let scratch = Scratch::new();
    fs::remove_dir(scratch.mmv_dir()).expect("remove the directory");
    let mut agent = Agent::start_with(&scratch, &WITH_OWN_METRICS);
    wait::until_true("a line in the log", || {
        agent.log().contains("cannot publish the agent's own metrics")
    });
    fs::create_dir(scratch.mmv_dir()).expect("make the directory");
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    agent.wait_for("a sample", |base| last(base, "mmv.app.requests") == Some(3));
    assert!(agent.terminate().success());
    assert_eq!(agent.log().matches("cannot publish the agent's own metrics").count(), 1);
}
