//! A program that is killed at any moment leaves the old file, the new one, or
//! none: never a bad one, and nothing under a hidden name after the next start.
//!
//! The program is this test again, in a child process that publishes without end.
//! `MMV_LONG` in the environment asks for ten times as many kills.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use mmv_format::view::{Contents, Flags, Limits, Refusal};
use mmv_writer::pcp::{IndomMetricExt as _, RegistryBuilderExt as _, RegistryExt as _};
use mmv_writer::{Buckets, Error, Gauge, Label, Registry, RegistryBuilder};

use crate::child;

fn kills() -> u32 {
    if std::env::var_os("MMV_LONG").is_some() { 340 } else { 34 }
}

/// Limit on the time after which a child is killed.
const MAX_MOMENT: Duration = Duration::from_millis(400);

const COUNTERS: u64 = 30;
const QUEUES: [&str; 3] = ["in", "out", "retry"];

fn builder(directory: &Path) -> RegistryBuilder {
    Registry::builder("app").directory(directory).cluster(9)
}

/// Publishes a file whose names and values all identify its round.
fn publish(directory: &Path, round: u64) -> Result<Registry, Error> {
    let registry = builder(directory).sealed().build()?;
    registry.label(Label::new("round", round))?;
    let queues = registry.indom("queues").names(QUEUES).help("for work").build()?;
    let buckets = Buckets::new(1, 1000);
    for index in 0..COUNTERS {
        let counter = registry.counter(format!("r{round}.c{index}"));
        counter.help("counts").build()?.add(round + index);
    }
    let lengths =
        registry.metric::<Gauge<u64>>(format!("r{round}.length")).build_instances(&queues)?;
    lengths.iter().for_each(|length| length.set(round));
    registry.text(format!("r{round}.text")).build()?.set("there");
    let sizes = registry.histogram(format!("r{round}.size")).buckets(buckets).build()?;
    sizes.record(round);
    registry.publish()?;
    Ok(registry)
}

fn check_sealed(file: &File) {
    let contents = Contents::read(file, &Limits::default()).unwrap();
    assert_eq!(contents.skipped, []);
    let round = contents.labels.iter().find(|label| label.name == "round").unwrap();
    let round: u64 = round.json_value.parse().unwrap();
    let prefix = format!("r{round}.");
    assert!(contents.metrics.iter().all(|metric| metric.name.starts_with(&prefix)), "{round}");
    // The counters, the gauge, the text, the histogram's buckets and its sum.
    assert_eq!(contents.metrics.len() as u64, COUNTERS + 4);
    for (index, metric) in contents.metrics.iter().enumerate() {
        let found: Vec<u64> = contents.values_of(index).map(|at| word(file, at.cell)).collect();
        let name = metric.name.strip_prefix(&prefix).unwrap();
        if let Some(index) = name.strip_prefix('c') {
            assert_eq!(found, [round + index.parse::<u64>().unwrap()], "{name}");
        } else if name == "length" {
            assert_eq!(found, [round; QUEUES.len()]);
        }
    }
}

/// More counters than one file holds: the last seven are in an overflow file.
const MANY: u64 = 1030;
const ONE_FILE: u64 = 1023;

fn publish_many(directory: &Path, round: u64) -> Result<Registry, Error> {
    let registry = builder(directory).sealed().overflow_cluster(10).build()?;
    for index in 0..MANY {
        registry.counter(format!("r{round}.c{index}")).build()?.add(round + index);
    }
    registry.publish()?;
    Ok(registry)
}

fn check_one_of_many(file: &File) {
    let contents = Contents::read(file, &Limits::default()).unwrap();
    assert_eq!(contents.skipped, []);
    let is_overflow = contents.header.flags.contains(Flags::NO_PREFIX);
    let (first, count) = if is_overflow { (ONE_FILE, MANY - ONE_FILE) } else { (0, ONE_FILE) };
    assert_eq!(contents.metrics.len() as u64, count);
    let prefix = if is_overflow { "app.r" } else { "r" };
    let number = |name: &str| name.strip_prefix(prefix)?.split_once(".c")?.0.parse::<u64>().ok();
    let round = number(&contents.metrics[0].name).unwrap();
    for (metric, index) in contents.metrics.iter().zip(first..) {
        assert_eq!(metric.name, format!("{prefix}{round}.c{index}"));
        let place = (index - first) as usize;
        let found: Vec<u64> = contents.values_of(place).map(|at| word(file, at.cell)).collect();
        assert_eq!(found, [round + index], "{}", metric.name);
    }
}

/// Publishes a file that has instances added and removed for a while.
fn grow(directory: &Path, round: u64) -> Result<Registry, Error> {
    let registry =
        builder(directory).max_instances(200).announce_interval(Duration::ZERO).build()?;
    for domain in 0..4 {
        let things = registry.indom(format!("things {domain}")).build()?;
        let count = registry.counter(format!("count{domain}")).build_named(&things)?;
        let about = registry.text(format!("about{domain}")).build_named(&things)?;
        for index in 0..30 {
            let name = format!("i{index}");
            count.get_or_create(&name)?.add(round);
            about.get_or_create(&name)?.set(&name);
            things.label(&name, Label::new("round", round))?;
            if index % 3 == 2 {
                things.remove(&format!("i{}", index - 1));
            }
        }
    }
    Ok(registry)
}

/// Checks that a file is one of [`grow`] at any time; returns whether readers take it.
///
/// Between the stores of its two generations, which follow each other, a file is "not ready".
/// Killed there, it stays so, and as its process is gone readers pass it by.
fn check_live(file: &File) -> bool {
    let contents = match Contents::read(file, &Limits::default()) {
        Err(Refusal::NotReady { .. }) => return false,
        contents => contents.unwrap(),
    };
    assert_eq!(contents.skipped, []);
    for metric in &contents.metrics {
        let (kind, _) = metric.name.split_at(5);
        assert!(["count", "about"].contains(&kind), "{}", metric.name);
    }
    // A name has one number in all domains, and no other name has it.
    let (mut ids, mut names) = (BTreeMap::new(), BTreeMap::new());
    for instance in contents.indoms.iter().flat_map(|indom| &indom.instances) {
        let index = instance.name.strip_prefix('i').and_then(|index| index.parse::<u32>().ok());
        assert!(index.is_some_and(|index| index < 30), "{}", instance.name);
        assert_eq!(*ids.entry(&instance.name).or_insert(instance.id), instance.id);
        assert_eq!(*names.entry(instance.id).or_insert(&instance.name), &instance.name);
    }
    true
}

fn word(file: &File, at: u64) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at).unwrap();
    u64::from_ne_bytes(bytes)
}

/// Lists the names in a directory: of all files that readers see, and of hidden ones.
fn names(directory: &Path) -> (Vec<String>, Vec<String>) {
    let entries = std::fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.partition(|name| !name.starts_with('.'))
}

#[derive(Debug, Default)]
struct Found {
    files: u32,
    none: u32,
    /// Kills that left the overflow file alone.
    overflow: u32,
    /// Kills that left something under a hidden name, too.
    hidden: u32,
}

/// Kills a child that runs `mode` again and again, `check`s what is left, and
/// starts again. It has the file `app`, and perhaps an overflow file.
fn kill_again_and_again(directory: &Path, mode: &str, check: impl Fn(&File)) -> Found {
    let mut found = Found::default();
    let mut longest = Duration::from_millis(if mode == "overflow" { 40 } else { 4 });
    for kill in 0..kills() {
        let mut child = start(directory, mode);
        // Moments that are spread evenly, and as the machine will have it.
        let moment = f64::from(kill) * 0.618_033_988_749_895 % 1.0;
        std::thread::sleep(longest.mul_f64(moment));
        child.kill().unwrap();
        child.wait().unwrap();

        let (seen, hidden) = names(directory);
        let most = if mode == "overflow" { 2 } else { 1 };
        assert!(seen.iter().all(|name| ["app", "app.2"][..most].contains(&&**name)), "{seen:?}");
        assert!(most == 1 || seen != ["app"], "the first file without the overflow file");
        found.none += u32::from(seen.is_empty());
        if seen.is_empty() {
            // Perhaps too early, as on a busy machine.
            longest = (longest + longest / 8).min(MAX_MOMENT);
        }
        found.files += seen.len() as u32;
        found.overflow += u32::from(seen == ["app.2"]);
        for name in &seen {
            check(&File::open(directory.join(name)).unwrap());
        }
        assert!(hidden.len() <= most, "what the kill before left was not removed: {hidden:?}");
        found.hidden += u32::from(!hidden.is_empty());
    }
    drop(builder(directory).sealed().build().unwrap());
    assert_eq!(names(directory).1, Vec::<String>::new());
    println!("{mode}: {found:?}");
    found
}

fn start(directory: &Path, mode: &str) -> Child {
    let mut command = child::running("killed::publishes_until_it_is_killed");
    command.env("MMV_TEST_DIRECTORY", directory).env("MMV_TEST_MODE", mode);
    // The test runner talks on standard output.
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut byte = [0];
    child.stderr.as_mut().unwrap().read_exact(&mut byte).unwrap();
    child
}

#[test]
#[ignore = "the child process of the other tests"]
fn publishes_until_it_is_killed() {
    let Some(directory) = std::env::var_os("MMV_TEST_DIRECTORY") else { return };
    let directory = Path::new(&directory);
    let mode = std::env::var("MMV_TEST_MODE").unwrap();
    let mut last = None;
    eprint!("x");
    for round in 0.. {
        match mode.as_str() {
            "withdraw" => drop(publish(directory, round).unwrap()),
            // The new one takes the place of the old one, which goes after that.
            "replace" => last = Some(publish(directory, round).unwrap()),
            "overflow" => {
                let published = publish_many(directory, round).unwrap();
                std::thread::sleep(Duration::from_millis(2));
                drop(published);
            }
            "grow" => drop(grow(directory, round).unwrap()),
            other => panic!("{other}"),
        }
    }
    drop(last);
}

#[test]
fn program_killed_while_publishing_leaves_a_file_or_none() {
    let directory = tempfile::tempdir().unwrap();
    let found = kill_again_and_again(directory.path(), "withdraw", check_sealed);
    // Else the moments were all the same.
    assert!(found.hidden > 0, "{found:?}");
}

#[test]
fn program_killed_while_replacing_leaves_either_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = start(directory.path(), "replace");
    while !directory.path().join("app").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let found = kill_again_and_again(directory.path(), "replace", check_sealed);
    assert!(found.none == 0 && found.hidden > 0, "{found:?}");
}

/// The overflow file comes before the first and goes after it: a reader that finds the first
/// finds all metrics.
#[test]
fn a_program_killed_between_its_files_leaves_whole_ones() {
    let directory = tempfile::tempdir().unwrap();
    let found = kill_again_and_again(directory.path(), "overflow", check_one_of_many);
    assert!(found.files > 0 && found.hidden > 0, "{found:?}");
    // The next one under the name, which needs one file, takes the other away.
    drop(publish(directory.path(), 0).unwrap());
    assert_eq!(names(directory.path()), (Vec::new(), Vec::new()));
}

#[test]
fn program_killed_while_its_file_grows_leaves_it_readable() {
    let directory = tempfile::tempdir().unwrap();
    let not_ready = std::cell::Cell::new(0);
    let found = kill_again_and_again(directory.path(), "grow", |file| {
        not_ready.set(not_ready.get() + u32::from(!check_live(file)));
    });
    assert!(found.files > 0 && not_ready.get() <= 1, "{found:?}, {not_ready:?} not ready");
}
