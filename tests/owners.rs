//! Hostile files of one user next to an honest program of another one.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use mmv_writer::pcp::{IndomMetricExt as _, RegistryExt as _};
use mmv_writer::{Counter, Registry};
use nix::sys::signal::Signal;
use nix::unistd::geteuid;

use crate::harness::agent::Agent;
use crate::harness::archive_facts;
use crate::harness::dice::Dice;
use crate::harness::facts::number;
use crate::harness::mmv_file::{image, set, with_first_discrete, without_prefix};
use crate::harness::scratch::Scratch;
use crate::harness::skip;
use crate::harness::wait;
use crate::self_monitoring::{count_so_far, types};

/// The user of the honest program.
const VICTIM: u32 = 4_001;
const ATTACKER: u32 = 4_002;
const TRUE: u64 = 7;
const FALSE: u64 = 666;
/// Number of events of a storm of one user's files that are logged at least.
const LOGGED_OF_STORM: usize = 1_000;

const OPTIONS: [&str; 2] = ["--interval", "20ms"];

fn put(scratch: &Scratch, name: &str, owner: u32, bytes: &[u8]) {
    let hidden = scratch.mmv_dir().join(format!(".{name}"));
    fs::write(&hidden, bytes).expect("write an MMV file");
    chown(&hidden, Some(owner), None).expect("give a file away");
    fs::rename(&hidden, scratch.mmv_dir().join(name)).expect("rename an MMV file");
}

fn is_root() -> bool {
    let root = geteuid().is_root();
    if !root {
        skip::report("only root can give files away");
    }
    root
}

/// Returns the values of a metric in all records with samples, of all archives in turn.
fn series(archives: &[impl AsRef<Path>], name: &str) -> Vec<Option<String>> {
    let mut all = Vec::new();
    for base in archives {
        let facts = archive_facts::of_mmv_archive(base.as_ref());
        let mut metrics = facts.metrics.iter();
        let pmid = metrics.find(|(_, metric)| metric.names.contains(name)).map(|(pmid, _)| pmid);
        let samples = facts.records.iter().filter(|record| record.has_samples());
        all.extend(
            samples.map(|record| pmid.and_then(|pmid| record.value(pmid, None)).map(str::to_owned)),
        );
    }
    all
}

fn wait_for_samples(agent: &Agent) {
    let bytes = agent.volume_bytes();
    wait::until_true("more records", || agent.volume_bytes() > bytes + 400);
}

#[test]
fn no_user_takes_the_names_of_anothers_program_in_any_form() {
    if !is_root() {
        return;
    }
    let shop = image(0, 1, &[("orders", TRUE), ("open.now", TRUE)]);
    for (what, attack) in [
        ("the names", vec![("shop.orders", FALSE), ("shop.open.now", FALSE)]),
        ("a leaf above", vec![("shop", FALSE)]),
        ("a leaf in between", vec![("shop.open", FALSE)]),
        ("leaves below", vec![("shop.orders.late", FALSE), ("shop.open.now.x", FALSE)]),
        ("a new name", vec![("shop.customers", FALSE)]),
        ("names of the agent", vec![("agent.records.lost", FALSE), ("agent.events", FALSE)]),
    ] {
        let scratch = Scratch::new();
        let attack = without_prefix(&image(0, 1, &attack));
        put(&scratch, "shop", VICTIM, &shop);
        let mut agent = Agent::start_with(&scratch, &OPTIONS);
        wait::until_true("first records", || agent.data_bytes() > 600);
        // It is the first in byte order.
        put(&scratch, "aaa", ATTACKER, &attack);
        wait_for_samples(&agent);
        assert!(agent.terminate().success(), "{}", agent.log());
        // Another agent finds both at once, and remembers who was first.
        let mut next = Agent::start_with(&scratch, &OPTIONS);
        wait::until_true("more records", || next.archives().len() > 1);
        wait_for_samples(&next);
        assert!(next.terminate().success(), "{}", next.log());
        let archives = next.archives();
        for name in ["mmv.shop.orders", "mmv.shop.open.now"] {
            let values = series(&archives, name);
            let expected = Some(number(&TRUE.to_string()));
            assert!(
                values.len() > 5 && values.iter().all(|value| *value == expected),
                "{what}: {values:?}"
            );
        }
        for base in &archives {
            let facts = archive_facts::of_mmv_archive(base);
            let names: Vec<_> = facts.metrics.values().flat_map(|metric| &metric.names).collect();
            let of_mmv = names.iter().filter(|name| name.starts_with("mmv."));
            assert_eq!(of_mmv.count(), 2, "{what}: {names:?}");
        }
        let log = agent.log();
        assert!(log.contains("left out file=aaa"), "{what}: {log}");
        assert!(
            what.contains("agent") || log.contains("belongs to user 4001, who has shop"),
            "{log}"
        );
    }
}

#[test]
fn linked_file_of_root_takes_no_names_of_a_third_user() {
    if !is_root() {
        return;
    }
    let shop = image(0, 1, &[("orders", FALSE)]);
    for in_own_directory in [true, false] {
        let scratch = Scratch::new();
        let directory = scratch.mmv_dir();
        if in_own_directory {
            chown(&directory, Some(ATTACKER), None).expect("set an owner");
        }
        put(&scratch, "zzz", VICTIM, &without_prefix(&image(0, 1, &[("shop.orders", TRUE)])));
        let mut agent = Agent::start_with(&scratch, &OPTIONS);
        wait::until_true("first records", || agent.data_bytes() > 600);
        // Root made it elsewhere, or under another name; the owner of the directory renames it.
        let made =
            if in_own_directory { directory.join(".root") } else { scratch.path().join("root") };
        fs::write(&made, &shop).expect("write a file");
        fs::rename(&made, directory.join("shop")).expect("rename it");
        wait::until_true("a complaint", || agent.log().contains("left out file=shop"));
        wait_for_samples(&agent);
        assert!(agent.terminate().success(), "{}", agent.log());
        let values = series(&agent.archives(), "mmv.shop.orders");
        let expected = Some(number(&TRUE.to_string()));
        assert!(values.len() > 5 && values.iter().all(|value| *value == expected), "{values:?}");
    }
}

#[test]
fn users_that_flip_the_meaning_of_a_name_cost_its_user_nothing() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    put(&scratch, "shop", VICTIM, &image(0, 1, &[("orders", TRUE)]));
    let mut agent = Agent::start_with(&scratch, &OPTIONS);
    wait::until_true("first records", || agent.data_bytes() > 600);
    for flip in 0..26_u32 {
        let name = ["shop.orders", "shop.orders.late", "shop"][flip as usize % 3];
        let attack = without_prefix(&image(7, u64::from(flip) + 1, &[(name, FALSE)]));
        put(&scratch, "aaa", ATTACKER + flip % 2, &attack);
        sleep(Duration::from_millis(60));
    }
    fs::remove_file(scratch.mmv_dir().join("aaa")).expect("remove a file");
    wait_for_samples(&agent);
    assert!(agent.terminate().success(), "{}", agent.log());
    let values = series(&[agent.archive()], "mmv.shop.orders");
    let expected = Some(number(&TRUE.to_string()));
    assert!(values.len() > 50 && values.iter().all(|value| *value == expected), "{values:?}");
}

#[test]
fn thousands_of_files_of_one_user_leave_clusters_for_others() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let tiny = image(0, 1, &[("x", FALSE)]);
    (0..2_100).for_each(|number| put(&scratch, &format!("a{number}"), ATTACKER, &tiny));
    let mut agent = Agent::start_with(&scratch, &["--interval", "100ms"]);
    wait::until_true("first records", || agent.data_bytes() > 10_000);
    put(&scratch, "shop", VICTIM, &image(0, 1, &[("orders", TRUE)]));
    let base = agent.archive();
    let meta = format!("{}.meta", base.display());
    let described = |name: &[u8]| {
        let bytes = fs::read(&meta).unwrap_or_default();
        bytes.windows(name.len()).filter(|window| *window == name).count()
    };
    wait::until_true("the program's metric", || described(b"mmv.shop.orders") > 0);
    wait::until_true("as many of the user's as it may have", || described(b"mmv.a") >= 991);
    wait_for_samples(&agent);
    assert!(agent.terminate().success(), "{}", agent.log());
    let facts = archive_facts::of_mmv_archive(&base);
    let clusters = facts.metrics.keys().filter(|pmid| pmid.starts_with("70."));
    assert_eq!(clusters.count(), 991 + 1);
}

/// Ends a thread that looks at the flag.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn storm_of_one_users_files_costs_others_no_event_or_line() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let options = ["--interval", "20ms", "--events", "true"];
    let mut agent = Agent::start_with(&scratch, &options);
    let (over, rounds) = (AtomicBool::new(false), AtomicU32::new(0));
    let tiny = image(0, 1, &[("x", FALSE)]);
    let shop = |generation| image(0, generation, &[("orders", TRUE)]);
    let logged = |line: &str, times: usize| {
        let found = || agent.log().lines().filter(|found| found.contains(line)).count();
        wait::until_true(line, || found() >= times);
    };
    thread::scope(|scope| {
        // Also if an assertion below fails.
        let _end = SetOnDrop(&over);
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for number in 0..100 {
                    put(&scratch, &format!("storm{number}"), ATTACKER, &tiny);
                }
                sleep(Duration::from_millis(40));
                for number in 0..100 {
                    let _ = fs::remove_file(scratch.mmv_dir().join(format!("storm{number}")));
                }
                sleep(Duration::from_millis(40));
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        logged("user=4002", 1);
        for generation in 1..6 {
            put(&scratch, "shop", VICTIM, &shop(generation));
            logged("harvested file=shop version=", generation as usize);
        }
        put(&scratch, "shop", VICTIM, b"MMV\0 but nothing else, and not all of it is zero");
        logged("not harvested file=shop", 1);
        fs::remove_file(scratch.mmv_dir().join("shop")).expect("remove a file");
        // 200 events each, of which an agent on a busy machine misses most.
        for _ in 0..300 {
            if count_so_far(&agent.archive(), "storm") >= LOGGED_OF_STORM {
                break;
            }
            let before = rounds.load(Ordering::Relaxed);
            wait::until_true("another round", || rounds.load(Ordering::Relaxed) > before);
        }
    });
    assert!(agent.terminate().success(), "{}", agent.log());
    let events = types(&agent.archive());
    let of_victim: Vec<_> = events.iter().filter(|event| event.ends_with(" shop")).collect();
    let expected = ["appeared", "restarted", "restarted", "restarted", "restarted", "quarantined"];
    let expected: Vec<_> =
        expected.iter().chain(&["vanished"]).map(|kind| format!("{kind} shop")).collect();
    assert_eq!(of_victim, expected.iter().collect::<Vec<_>>());
    let of_storm = events.iter().filter(|event| event.contains(" storm")).count();
    assert!((LOGGED_OF_STORM..1_100).contains(&of_storm), "{of_storm}");
}

fn limited(scratch: &Scratch, limits: &str) -> Agent {
    let config = scratch.path().join("agent.toml");
    let text = format!("interval = \"20ms\"\nown-metrics = false\nevents = false\n{limits}");
    fs::write(&config, text).expect("write a configuration");
    Agent::start_configured(scratch, &config)
}

fn log_with(agent: &Agent, text: &str) {
    wait::until_true(text, || agent.log().contains(text));
}

#[test]
fn files_beyond_a_users_share_cost_no_other_user_a_file() {
    if !is_root() {
        return;
    }
    for (limits, unit) in [("files = 32", "files"), ("values = 32", "values")] {
        let scratch = Scratch::new();
        let tiny = image(0, 1, &[("x", FALSE)]);
        (0..40).for_each(|number| put(&scratch, &format!("a{number}"), ATTACKER, &tiny));
        let mut agent = limited(&scratch, &format!("[limits]\n{limits}\n"));
        log_with(&agent, &format!("user 4002 has reached its limit of 15 {unit}"));
        put(&scratch, "shop", VICTIM, &image(0, 1, &[("orders", TRUE)]));
        log_with(&agent, "harvested file=shop");
        assert!(agent.terminate().success(), "{}", agent.log());
        assert!(!agent.log().contains("file=shop reason="), "{}", agent.log());
    }
}

#[test]
fn newest_files_of_the_largest_user_give_way() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let tiny = image(0, 1, &[("x", FALSE)]);
    for owner in [ATTACKER, ATTACKER + 1, ATTACKER + 2] {
        (0..15).for_each(|number| put(&scratch, &format!("a{owner}_{number}"), owner, &tiny));
    }
    let mut agent = limited(&scratch, "[limits]\nfiles = 32\n");
    log_with(&agent, "the limit of 30 files is reached (limits.files)");
    put(&scratch, "shop", VICTIM, &image(0, 1, &[("orders", TRUE)]));
    log_with(&agent, "harvested file=shop");
    sleep(Duration::from_millis(500));
    assert!(agent.terminate().success(), "{}", agent.log());
    assert!(agent.log().contains("has more than an equal share of all files"), "{}", agent.log());
    let values = series(&agent.archives(), "mmv.shop.orders");
    let since = values.iter().position(Option::is_some).expect("values");
    let values = &values[since..];
    assert!(values.len() > 10 && values.iter().all(Option::is_some), "{values:?}");
}

#[test]
fn user_gets_no_names_of_a_program_that_restarts() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let shop = image(0, 1, &[("orders", TRUE)]);
    put(&scratch, "shop", VICTIM, &shop);
    let mut agent = Agent::start_with(&scratch, &OPTIONS);
    wait::until_true("first records", || agent.data_bytes() > 600);
    // The program ends; its file name and its metric names are free in the directory.
    fs::remove_file(scratch.mmv_dir().join("shop")).expect("remove a file");
    sleep(Duration::from_millis(100));
    put(&scratch, "shop", ATTACKER, &image(0, 1, &[("orders", FALSE)]));
    put(&scratch, "aaa", ATTACKER, &without_prefix(&image(0, 1, &[("shop.orders", FALSE)])));
    sleep(Duration::from_millis(200));
    // It starts again, under another file name, with the same names of metrics.
    put(&scratch, "shop_2", VICTIM, &without_prefix(&image(0, 1, &[("shop.orders", TRUE)])));
    wait_for_samples(&agent);
    assert!(agent.terminate().success(), "{}", agent.log());
    let values = series(&agent.archives(), "mmv.shop.orders");
    let expected = number(&TRUE.to_string());
    let present: Vec<_> = values.iter().flatten().collect();
    assert!(present.iter().all(|value| **value == expected), "{present:?}\n{}", agent.log());
    assert_eq!(values.last(), Some(&Some(expected)), "{}", agent.log());
}

#[test]
fn names_stay_with_their_user_when_the_state_is_lost() {
    if !is_root() {
        return;
    }
    for damage in ["lost", "unreadable"] {
        let scratch = Scratch::new();
        put(&scratch, "shop", VICTIM, &image(0, 1, &[("orders", TRUE)]));
        let mut agent = Agent::start_with(&scratch, &OPTIONS);
        wait_for_samples(&agent);
        fs::remove_file(scratch.mmv_dir().join("shop")).expect("the program ends");
        assert!(agent.terminate().success(), "{}", agent.log());
        let states = fs::read_dir(scratch.archives().join(".state")).expect("the state");
        let states = states.map(|entry| entry.expect("a file").path());
        for state in states.filter(|path| path.extension().is_some_and(|suffix| suffix == "json")) {
            match damage {
                "lost" => fs::remove_file(state).expect("remove it"),
                _ => fs::write(state, "{").expect("damage it"),
            }
        }
        put(&scratch, "shop", ATTACKER, &image(0, 1, &[("orders", FALSE)]));
        let mut agent = Agent::start_with(&scratch, &OPTIONS);
        log_with(&agent, "belongs to user 4001");
        put(&scratch, "shop_2", VICTIM, &without_prefix(&image(0, 1, &[("shop.orders", TRUE)])));
        log_with(&agent, "harvested file=shop_2");
        sleep(Duration::from_millis(300));
        assert!(agent.terminate().success(), "{}", agent.log());
        let values = series(&agent.archives(), "mmv.shop.orders");
        let expected = number(&TRUE.to_string());
        let present: Vec<_> = values.iter().flatten().collect();
        assert!(present.iter().all(|value| **value == expected), "{present:?}\n{}", agent.log());
        assert_eq!(values.last(), Some(&Some(expected)), "{}", agent.log());
    }
}

#[test]
fn who_logs_too_much_is_cut_and_the_history_of_others_is_kept() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    put(&scratch, "shop", VICTIM, &image(0, 1, &[("orders", TRUE)]));
    // 200 ticks of the attacker are half of what is kept; on a busy machine some more are
    // logged until it is cut.
    let mut agent =
        limited(&scratch, "[retention]\nsize = \"8MB\"\n[compression]\nmethod = \"none\"\n");
    wait::until_true("history", || agent.volume_bytes() > 2_000);
    agent.signal(Signal::SIGUSR2);
    wait::until_true("another archive", || agent.archives().len() == 2);
    let history = agent.archives().remove(0);
    // Out of the agent's sight, which would give the names to the user of the test.
    let elsewhere = scratch.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("make a directory");
    let registry = Registry::builder("flood").directory(elsewhere).process(false);
    let registry = registry.sealed().build().expect("a registry");
    let many = registry.indom("many").names((0..1_000).map(|number| format!("n{number}")));
    let many = many.build().expect("a domain");
    let counts = registry.counter("count").build_instances(&many).expect("counters");
    counts.iter().for_each(|count: &Counter<u64>| count.add(FALSE));
    let published = registry.publish().expect("a file");
    let flood = fs::read(published.path()).expect("its bytes");
    published.withdraw();
    put(&scratch, "flood", ATTACKER, &flood);
    log_with(&agent, "user 4002 has reached its daily limit");
    sleep(Duration::from_millis(500));
    let bytes = agent.volume_bytes();
    // Retention is applied each minute, and after each archive.
    for _ in 0..3 {
        let archives = agent.archives().len();
        agent.signal(Signal::SIGUSR2);
        wait::until_true("another archive", || agent.archives().len() > archives);
        sleep(Duration::from_millis(500));
    }
    assert!(agent.terminate().success(), "{}", agent.log());
    let archives = agent.archives();
    assert!(archives.contains(&history), "{archives:?}");
    println!("cut after {bytes} bytes of the 8000000 that are kept");
    assert!(bytes < 8_000_000, "{bytes}");
    let values = series(&archives, "mmv.shop.orders");
    assert!(values.iter().all(Option::is_some), "nothing is missing of the others");
    let last = archive_facts::of_mmv_archive(archives.last().expect("archives"));
    let of_flood = last.metrics.values().any(|metric| metric.names.contains("mmv.flood.count"));
    assert!(!of_flood, "{}", agent.log());
}

#[test]
fn noise_is_cut_before_it_costs_others_their_history() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let names: Vec<String> = (0..8).map(|number| format!("orders{number}")).collect();
    let metrics: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), TRUE)).collect();
    put(&scratch, "shop", VICTIM, &image(0, 1, &metrics));
    let limits = "[retention]\nsize = \"16MB\"\n[compression]\nmethod = \"xz\"\nafter = \"6s\"\n\
                  [rotation]\nvolume-size = \"3MB\"\n";
    let mut agent = limited(&scratch, limits);
    // A volume that is a tenth or so of its size after compression.
    wait::until_true("history", || agent.volume_bytes() > 30_000);
    agent.signal(Signal::SIGUSR2);
    let directory = agent.archive().parent().expect("a directory").to_owned();
    let history = wait::for_idle_work("a compressed volume", || {
        let names = fs::read_dir(&directory).expect("a directory").flatten();
        names.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|x| x == "xz"))
    });
    let elsewhere = scratch.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("make a directory");
    let registry = Registry::builder("noise").directory(elsewhere).process(false);
    let registry = registry.sealed().build().expect("a registry");
    let many = registry.indom("many").names((0..2_000).map(|number| format!("n{number}")));
    let many = many.build().expect("a domain");
    let counts = registry.counter("count").build_instances(&many).expect("counters");
    let published = registry.publish().expect("a file");
    chown(published.path(), Some(ATTACKER), None).expect("give it away");
    fs::rename(published.path(), scratch.mmv_dir().join("noise")).expect("move it");
    let mut random = Dice::new(7);
    wait::until_true("it to be cut", || {
        counts.iter().for_each(|count: &Counter<u64>| count.add(random.below(u64::MAX)));
        agent.log().contains("user 4002 has reached its daily limit")
    });
    sleep(Duration::from_millis(500));
    assert!(history.exists(), "{}", agent.log());
    assert!(agent.terminate().success(), "{}", agent.log());
    let log = agent.log();
    assert!(!log.contains("deleted"), "{log}");
}

/// Builds a file with a counter and an instance domain that has no values.
fn with_instances(scratch: &Scratch, prefix: &str) -> Vec<u8> {
    let elsewhere = scratch.path().join("elsewhere");
    fs::create_dir_all(&elsewhere).expect("make a directory");
    let registry = Registry::builder("swarm").directory(elsewhere).process(false);
    let registry = registry.sealed().build().expect("a registry");
    let names = (0..1_000).map(|number| format!("{prefix} {number} {}", "x".repeat(150)));
    let _ = registry.indom("many").names(names).build().expect("a domain");
    registry.counter("count").build().expect("a counter").add(FALSE);
    let published = registry.publish().expect("a file");
    fs::read(published.path()).expect("its bytes")
}

#[test]
fn values_that_are_logged_on_change_count_for_their_user() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    put(&scratch, "shop", VICTIM, &image(0, 1, &[("orders", TRUE)]));
    let limits = "[limits]\ndisk-a-day = \"20kB\"\n\
                  [[group]]\nmetrics = [\"*\"]\nlog = \"on-change\"\n";
    let mut agent = limited(&scratch, limits);
    wait::until_true("history", || agent.data_bytes() > 600);
    put(&scratch, "swarm", ATTACKER, &with_first_discrete(&image(0, 1, &[("size", 0)])));
    let file = scratch.mmv_dir().join("swarm");
    let mut value = 0;
    while !agent.log().contains("user 4002 has reached its daily limit") {
        assert!(value < 3000, "{}", agent.log());
        value += 1;
        set(&file, 0, value);
        sleep(Duration::from_millis(10));
    }
    // A change takes less than 100 bytes.
    assert!(value > 200, "{value}");
    assert!(agent.terminate().success(), "{}", agent.log());
}

#[test]
fn metadata_counts_for_its_user_until_the_cut() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    put(&scratch, "shop", VICTIM, &image(0, 1, &[("orders", TRUE)]));
    // Each state of the domain is 160 KB of metadata; values would take hours.
    let limits = "[limits]\ndisk-a-day = \"2MB\"\n";
    let mut agent = limited(&scratch, limits);
    wait::until_true("history", || agent.data_bytes() > 600);
    let metadata = |agent: &Agent| {
        let files = agent.archives().into_iter().map(|base| format!("{}.meta", base.display()));
        files.map(|file| fs::metadata(file).map_or(0, |found| found.len())).sum::<u64>()
    };
    let log = || agent.log();
    let mut states = 0;
    while !log().contains("user 4002 has reached its daily limit") {
        assert!(states < 100, "{}", log());
        put(&scratch, "swarm", ATTACKER, &with_instances(&scratch, &format!("s{states}")));
        states += 1;
        sleep(Duration::from_millis(100));
    }
    // The writer may be behind.
    wait::until_true("the metadata", || metadata(&agent) >= 2_000_000);
    sleep(Duration::from_millis(300));
    let at_cut = metadata(&agent);
    assert!(at_cut < 8_000_000, "{at_cut}");
    for state in 0..5 {
        put(&scratch, "swarm", ATTACKER, &with_instances(&scratch, &format!("t{state}")));
        sleep(Duration::from_millis(100));
    }
    wait_for_samples(&agent);
    assert_eq!(metadata(&agent), at_cut);
    assert!(agent.terminate().success(), "{}", agent.log());
    // The next run has not forgotten it.
    let mut next = limited(&scratch, limits);
    wait::until_true("the cut", || next.log().contains("user 4002 has reached its daily limit"));
    wait::until_true("another archive", || next.archives().len() > 1);
    wait_for_samples(&next);
    for state in 0..5 {
        put(&scratch, "swarm", ATTACKER, &with_instances(&scratch, &format!("u{state}")));
        sleep(Duration::from_millis(100));
    }
    wait_for_samples(&next);
    assert!(next.terminate().success(), "{}", next.log());
    let more = metadata(&next) - at_cut;
    assert!(more < 500_000, "{more}");
    let values = series(&next.archives(), "mmv.shop.orders");
    // The last values of each file that was replaced may have a record of their own.
    let replaced = states + 5 + 5;
    let missing = values.iter().filter(|value| value.is_none()).count();
    assert!(missing <= replaced, "{missing} of {} are missing of the others", values.len());
}
