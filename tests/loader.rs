//! Files that cost much to load, with an honest program beside them whose samples are
//! counted. `MMV_LONG` in the environment asks for the long form, which `ci/long` runs.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, chown};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mmv_writer::pcp::{IndomMetricExt as _, RegistryExt as _};
use mmv_writer::{Counter, Label, Registry};

use crate::harness::agent::Agent;
use crate::harness::archive_facts;
use crate::harness::binaries;
use crate::harness::mmv_file::{image, patched};
use crate::harness::scratch::Scratch;
use crate::harness::silent_mount::SilentMount;
use crate::harness::wait;
use crate::storm::users;

/// The honest program, whose samples are counted. Files of other users are in the archive as
/// well, but have no part in the count.
const HONEST: &str = "honest";

const INTERVAL: Duration = Duration::from_millis(10);

fn seconds(short: u64, long: u64) -> Duration {
    Duration::from_secs(if std::env::var_os("MMV_LONG").is_some() { long } else { short })
}

/// Runs an agent while `attack` repeats; each call of it should be short. Of the ticks
/// in that time at most half may be missed (another process may have the processors),
/// and each record has the honest program's value.
fn attacked(mut attack: impl FnMut(&Scratch, u64) + Send) {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(0, 1, &[("steady", 7)]), HONEST);
    let mut agent = Agent::start_with(&scratch, &["--interval", "10ms"]);
    wait::until_true("first records", || agent.data_bytes() > 500);
    let (run, over) = (seconds(4, 60), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0.. {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                attack(&scratch, turn);
            }
        });
        let end = Instant::now() + run;
        while Instant::now() < end {
            agent.assert_alive();
            assert!(agent.memory() < 256 << 10, "{} KiB of memory", agent.memory());
            thread::sleep(Duration::from_millis(100));
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(agent.terminate().success(), "{}", agent.log());
    let ticks = (run.as_millis() / INTERVAL.as_millis()) as u64;
    let missed = agent.counted("missed");
    assert!(missed <= ticks / 2, "{missed} of {ticks} ticks\n{}", agent.log());
    let samples = honest_samples(&agent);
    assert!(
        samples >= ticks / 2 - ticks / 10,
        "{samples} samples of {ticks} ticks, {missed} missed"
    );
}

/// Counts the records of an agent, each of which must have the honest program's value.
fn honest_samples(agent: &Agent) -> u64 {
    let mut samples = 0;
    for base in agent.archives() {
        let facts = archive_facts::of_mmv_archive(&base);
        let name = format!("mmv.{HONEST}.steady");
        let found = facts.metrics.iter().find(|(_, metric)| metric.names.contains(&name));
        let Some((pmid, _)) = found else { continue };
        for record in facts.records.iter().filter(|record| record.has_samples()) {
            let values: Vec<_> = record.values(pmid).map(|(_, value)| value).collect();
            assert_eq!(values, [crate::harness::facts::number("7")]);
            samples += 1;
        }
    }
    samples
}

/// Returns the bytes of a section's line in the table of contents.
fn section(kind: u32, count: u32, offset: u64) -> Vec<u8> {
    [&kind.to_ne_bytes()[..], &count.to_ne_bytes(), &offset.to_ne_bytes()].concat()
}

/// Writes a file of version 3 with ten million empty instances and 250 labels of instances, which
/// takes 68 KB of disk.
fn put_sparse(scratch: &Scratch, name: &str) {
    const INSTANCES: u32 = 10_000_000;
    let hidden = scratch.mmv_dir().join(format!(".{name}"));
    let file = File::create(&hidden).expect("create a file");
    let (indoms, metrics, labels, values) = (200, 240, 400, 70_000);
    let instances = 80_000;
    file.set_len(instances + u64::from(INSTANCES) * 24).expect("make it long");
    let header = image(0, 1, &[("x", 1)]);
    let header = patched(&patched(&header, 4, &3_u32.to_ne_bytes()), 24, &5_u32.to_ne_bytes());
    let write = |bytes: &[u8], at| file.write_all_at(bytes, at).expect("write");
    write(&header[..40], 0);
    let toc = [
        section(1, 1, indoms),
        section(2, INSTANCES, instances),
        section(3, 1, metrics),
        section(4, 1, values),
        section(6, 250, labels),
    ];
    write(&toc.concat(), 40);
    let domain = [&1_u32.to_ne_bytes()[..], &INSTANCES.to_ne_bytes(), &instances.to_ne_bytes()];
    write(&domain.concat(), indoms);
    for label in 0..250_u32 {
        let entry = [32, 1, label].map(u32::to_ne_bytes).concat();
        let at = labels + 256 * u64::from(label);
        write(&[&entry[..], br#"{"a":1}"#].concat(), at);
    }
    fs::rename(&hidden, scratch.mmv_dir().join(name)).expect("rename it");
}

#[test]
fn empty_instances_and_their_labels_stop_no_tick() {
    attacked(|scratch, turn| {
        put_sparse(scratch, &format!("sparse{}", turn % 3));
        thread::sleep(Duration::from_millis(100));
    });
}

/// Writes a growing file of many values, as its program leaves it, of another user from the
/// beginning.
fn put_growing(scratch: &Scratch, name: &str, instances: usize) -> File {
    let elsewhere = tempfile::tempdir_in(scratch.path()).expect("a directory");
    let registry = Registry::builder(name).directory(elsewhere.path()).process(false);
    let registry = registry.build().expect("a registry");
    let domain = registry.indom("many").build().expect("a domain");
    let family = registry.counter("v").build_named(&domain).expect("counters");
    for number in 0..instances {
        family.get_or_create(&number.to_string()).expect("a counter").add(7);
    }
    registry.announce();
    let file = registry.path().to_owned();
    give_away(&file);
    let path = scratch.mmv_dir().join(name);
    fs::rename(file, &path).expect("move the file");
    std::mem::forget(registry);
    File::options().read(true).write(true).open(path).expect("open the file")
}

#[test]
#[ignore = "takes half a minute: ci/slow runs it"]
fn ever_changing_generations_stop_no_tick() {
    const GENERATIONS: u64 = 8;
    let mut files = Vec::new();
    attacked(move |scratch, turn| {
        if turn == 0 {
            files.extend((0..5).map(|number| put_growing(scratch, &format!("grow{number}"), 5000)));
        }
        let end = Instant::now() + Duration::from_millis(100);
        let mut generation = turn << 32;
        while Instant::now() < end {
            for file in &files {
                generation += 1;
                let word = generation.to_ne_bytes();
                file.write_all_at(&[word, word].concat(), GENERATIONS).expect("write both");
            }
        }
    });
}

/// Gives a file to a user who is neither root nor the honest one, where that is possible.
fn give_away(path: &Path) {
    if users::are_possible() {
        chown(path, Some(users::ATTACKERS[0]), None).expect("set an owner");
    }
}

fn put_many_values(scratch: &Scratch, name: &str, instances: usize) {
    let registry = Registry::builder(name).directory(scratch.mmv_dir()).process(false);
    let registry = registry.sealed().build().expect("a registry");
    let names: Vec<String> = (0..instances).map(|number| format!("instance {number}")).collect();
    let domain = registry.indom("many").names(names.iter().map(String::as_str));
    let domain = domain.build().expect("a domain");
    let _ = registry.counter("v").build_instances(&domain).expect("counters");
    let published = registry.publish().expect("a file");
    give_away(published.path());
    std::mem::forget(published);
}

/// Writes a file of many instances with long names, one of which has a label, without values.
fn put_many_names(scratch: &Scratch, name: &str, instances: i32) {
    let registry = Registry::builder(name).directory(scratch.mmv_dir()).process(false);
    let registry = registry.sealed().build().expect("a registry");
    let instance = |number: i32| format!("{number} {}", "name ".repeat(20));
    let domain = registry.indom("many").names((0..instances).map(instance));
    let label = Label::new("of", "one");
    let _domain = domain.instance_label(instance(1), label).build().expect("a domain");
    let _one: Counter<u64> = registry.counter("one").build().expect("a counter");
    let published = registry.publish().expect("a file");
    give_away(published.path());
    std::mem::forget(published);
}

/// Writes a file of which a value is beyond a terabyte, which takes 4 KB of disk.
fn put_terabyte(scratch: &Scratch, number: u64) {
    const VALUES: u64 = 1 << 40;
    let bytes = image(0, 1, &[("x", 1)]);
    let values_line = 40 + 16 + 8;
    let old = u64::from_ne_bytes(bytes[values_line..][..8].try_into().expect("eight bytes"));
    let value = bytes[old as usize..][..32].to_vec();
    let at = VALUES + (number << 16);
    let bytes = patched(&bytes, values_line, &at.to_ne_bytes());
    let hidden = scratch.mmv_dir().join(format!(".terabyte{number}"));
    fs::write(&hidden, bytes).expect("write a file");
    let file = File::options().write(true).open(&hidden).expect("open a file");
    file.write_all_at(&value, at).expect("write a value");
    give_away(&hidden);
    fs::rename(&hidden, scratch.mmv_dir().join(format!("terabyte{number}"))).expect("rename it");
}

/// Runs an agent in 300 MB of address space beside these files, which come, and which are there
/// when it starts again. Checks that it lives, states why it refuses one of them, logs an honest
/// program's values, and takes another one's file.
fn in_a_small_address_space(reason: &str, put_files: impl Fn(&Scratch)) {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(0, 1, &[("steady", 7)]), HONEST);
    let start = || {
        let mut command = Command::new("prlimit");
        command.arg("--as=300000000").arg(binaries::mmv_agent());
        Agent::spawn(command, &scratch, &["--interval", "200ms"])
    };
    let mut agent = start();
    wait::until_true("first records", || agent.data_bytes() > 500);
    put_files(&scratch);
    for turn in 0..2 {
        wait::until_true("a reason", || {
            agent.assert_alive();
            agent.log().lines().any(|line| line.contains("not harvested") && line.contains(reason))
        });
        let name = format!("late{turn}");
        scratch.install_bytes(&image(0, 1, &[("new", 1)]), &name);
        wait::until_true("another honest file", || {
            agent.assert_alive();
            agent.log().lines().any(|line| line.contains("harvested") && line.contains(&name))
        });
        wait::until_true("further records", || {
            agent.assert_alive();
            let bases = agent.archives();
            let facts = bases.get(turn).and_then(|base| archive_facts::so_far(base));
            facts.is_some_and(|facts| facts.records.len() > 4)
        });
        assert!(agent.terminate().success(), "{}", agent.log());
        assert_eq!((agent.counted("dropped"), agent.counted("lost")), (0, 0));
        assert!(agent.counted("records") > 3, "{}", agent.log());
        if turn == 0 {
            agent = start();
        }
    }
    assert!(honest_samples(&agent) > 6);
}

#[test]
#[ignore = "takes half a minute: ci/slow runs it"]
fn files_of_many_values_are_refused_in_little_memory() {
    in_a_small_address_space("metadata", |scratch| {
        for number in 0..12 {
            put_many_values(scratch, &format!("many{number}"), 100_000);
        }
    });
}

#[test]
#[ignore = "takes half a minute: ci/slow runs it"]
fn files_of_many_names_are_refused_in_little_memory() {
    in_a_small_address_space("metadata", |scratch| {
        for number in 0..12 {
            put_many_names(scratch, &format!("names{number}"), 20_000 * (number + 1));
        }
    });
}

#[test]
fn thousand_terabytes_are_refused_in_little_memory() {
    in_a_small_address_space("mapped", |scratch| (0..1000).for_each(|n| put_terabyte(scratch, n)));
}

/// Returns how long the agent's threads and this one have waited for a processor that others had
/// (the second number of `/proc/PID/task/*/schedstat`; nothing where the kernel does not count
/// it).
fn delayed(agent: &Agent) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{}/task", agent.id())).expect("the agent's threads");
    let tasks = tasks.map(|task| task.expect("a thread").path());
    let mut sum = Duration::ZERO;
    for task in tasks.chain(["/proc/thread-self".into()]) {
        let counts = fs::read_to_string(task.join("schedstat")).unwrap_or_default();
        let waited = counts.split(' ').nth(1).and_then(|nanos| nanos.parse().ok());
        sum += Duration::from_nanos(waited.unwrap_or(0));
    }
    sum
}

#[test]
fn file_of_a_thousand_metrics_is_logged_within_an_interval() {
    const INTERVAL: Duration = Duration::from_millis(200);
    let scratch = Scratch::new();
    scratch.install_bytes(&image(0, 1, &[("steady", 7)]), HONEST);
    let mut agent = Agent::start_with(&scratch, &["--interval", "200ms"]);
    wait::until_true("first records", || agent.data_bytes() > 200);
    let mut taken = Vec::new();
    for turn in 0..5 {
        let name = format!("app{turn}");
        let registry = Registry::builder(&name).directory(scratch.mmv_dir()).process(false);
        let registry = registry.sealed().build().expect("a registry");
        for number in 0..1000 {
            let _: Counter<u64> =
                registry.counter(format!("m{number}")).build().expect("a counter");
        }
        let before = agent.volume_bytes();
        let published = registry.publish().expect("a file");
        let (began, delayed_before) = (Instant::now(), delayed(&agent));
        // A record with a thousand values more, of 20 bytes and more each.
        wait::until_true("its values", || agent.volume_bytes() > before + 20_000);
        let delay = delayed(&agent).saturating_sub(delayed_before);
        taken.push(began.elapsed().saturating_sub(delay));
        published.withdraw();
        thread::sleep(2 * INTERVAL);
    }
    assert!(agent.terminate().success(), "{}", agent.log());
    taken.sort_unstable();
    assert!(taken[2] < INTERVAL + Duration::from_millis(50), "{taken:?}");
}

#[test]
fn silent_server_delays_no_program_and_no_exit() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(0, 1, &[("steady", 7)]), HONEST);
    let silent = scratch.install_bytes(&image(0, 1, &[("x", 7)]), "silent");
    let mut agent = Agent::start_with(&scratch, &["--interval", "50ms"]);
    wait::until_true("first records", || agent.data_bytes() > 500);
    let Some(_mount) = SilentMount::on(silent) else { return };
    scratch.install_bytes(&image(0, 1, &[("late", 7)]), "late");
    wait::until_true("a program that starts", || {
        agent.assert_alive();
        agent.log().lines().any(|line| line.contains("harvested file=late"))
    });
    let began = Instant::now();
    assert!(agent.terminate().success(), "{}", agent.log());
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    // And one that is there when the agent starts.
    let mut agent = Agent::start_with(&scratch, &["--interval", "50ms"]);
    wait::until_true("a reason", || {
        agent.assert_alive();
        agent.log().contains("on another file system, which is mounted there")
    });
    wait::until_true("records", || agent.data_bytes() > 500);
    assert!(agent.terminate().success(), "{}", agent.log());
}
