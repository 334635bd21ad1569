//! Instances that come and go take no more memory than those that are there.
//!
//! The test runs again in a process of its own, since it looks at the memory of all of it.
//! `MMV_LONG` in the environment asks for the 100 000 cycles.

use std::collections::BTreeSet;
use std::fs::File;
use std::time::Duration;

use mmv_format::view::{Contents, Limits};
use mmv_writer::pcp::{Indom, IndomMetricExt as _, NamedFamily, RegistryExt as _};
use mmv_writer::{Counter, Label, Registry};

use crate::child;

const ROUND: u64 = 2_500;

/// Rounds after which the allocator has what the largest tables of handles need.
const WARM_UP: u64 = 12;

/// Time for which a place rests before it is used again, and a little more.
const REST: Duration = Duration::from_millis(120);

/// Returns the kilobytes of the process that are in memory, its files' pages included.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Creates instances under new names and removes them again. In between a reader
/// finds all of them, and then none.
fn round(registry: &Registry, things: &Indom, count: &NamedFamily<Counter<u64>>, first: u64) {
    for number in first..first + ROUND {
        let name = format!("thing {number}");
        let handle = count.get_or_create(&name).unwrap();
        if number % 10 == 0 {
            things.label(&name, Label::new("number", number)).unwrap();
        }
        handle.add(number);
    }
    let handle = count.get(&format!("thing {first}")).unwrap();
    registry.announce();
    let file = File::open(registry.path()).unwrap();
    let contents = Contents::read(&file, &Limits::default()).unwrap();
    assert_eq!(contents.skipped, []);
    let instances = &contents.indoms[0].instances;
    let names: BTreeSet<String> = instances.iter().map(|instance| instance.name.clone()).collect();
    assert_eq!(names, (first..first + ROUND).map(|number| format!("thing {number}")).collect());
    let ids: BTreeSet<i32> = instances.iter().map(|instance| instance.id.get()).collect();
    assert_eq!(ids.len(), ROUND as usize, "a number each");
    for number in first..first + ROUND {
        assert!(things.remove(&format!("thing {number}")));
    }
    handle.inc();
    assert_eq!(handle.value(), first + 1);
    registry.announce();
    let contents = Contents::read(&file, &Limits::default()).unwrap();
    assert_eq!((contents.values.len(), contents.labels.len()), (0, 0), "a handle is not a value");
    drop(handle);
    std::thread::sleep(REST);
}

#[test]
fn memory_stays_flat_while_instances_come_and_go() {
    let output = child::running("flat::memory_of_this_process_stays_flat").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    assert!(printed.contains("kB after"), "{printed}");
}

#[test]
#[ignore = "run by the test above"]
fn memory_of_this_process_stays_flat() {
    let rounds = if std::env::var_os("MMV_LONG").is_some() { 40 } else { 8 };
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::builder("app").directory(directory.path());
    let registry = registry.announce_interval(Duration::ZERO).build().unwrap();
    let things = registry.indom("things").build().unwrap();
    let count: NamedFamily<Counter<u64>> = registry.counter("count").build_named(&things).unwrap();
    // The first rounds find out how much is needed; the allocator keeps more or less of it.
    let mut before = 0;
    for index in 0..WARM_UP {
        round(&registry, &things, &count, index * ROUND);
        before = before.max(resident());
    }
    for index in WARM_UP..WARM_UP + rounds {
        round(&registry, &things, &count, index * ROUND);
    }
    let after = resident();
    eprintln!("{before} kB before, {after} kB after {} instances", rounds * ROUND);
    assert!(after < before + 1024, "{before} kB became {after} kB");
}
