use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::*;
use memmap2::MmapRaw;

use crate::mapping::{CellPlan, ReadMapping};

const PAGE: u64 = 4096;
const PAGES: u64 = 4;

fn mapped() -> (File, Arc<ReadMapping>) {
    let file = tempfile::tempfile().unwrap();
    file.set_len(PAGES * PAGE).unwrap();
    let map = ReadMapping::map(&file).unwrap();
    (file, Arc::new(map))
}

/// Harvests every mapping that it receives three times, and confirms it.
fn harvest(maps: &Receiver<Arc<ReadMapping>>, done: &SyncSender<()>) {
    let offsets = (0..PAGES * PAGE).step_by(256);
    let plan = CellPlan::new(offsets, (PAGES * PAGE) as usize).unwrap();
    let mut words = vec![0; plan.len()];
    while let Ok(map) = maps.recv() {
        for _ in 0..3 {
            assert!(map.load_while(&plan, &mut words, || true));
        }
        done.send(()).unwrap();
    }
}

/// Truncates a mapped file `rounds` times, to zero or in part, while another
/// thread harvests it.
fn truncate_under_harvest(rounds: u64) {
    install().unwrap();
    let (send_map, maps) = sync_channel(1);
    let (send_done, done) = sync_channel(1);
    let harvester = std::thread::spawn(move || harvest(&maps, &send_done));
    for round in 0..rounds {
        let (file, map) = mapped();
        send_map.send(Arc::clone(&map)).unwrap();
        file.set_len(round % PAGES * PAGE).unwrap();
        done.recv().unwrap();
        // The harvester may have been through before the cut; this has not.
        assert_eq!(map.load_u64(((PAGES - 1) * PAGE) as usize), Some(0));
        assert!(map.is_dead(), "round {round}");
    }
    drop(send_map);
    harvester.join().unwrap();
}

#[test]
fn thousand_truncations_under_a_harvest_are_survived() {
    truncate_under_harvest(1200);
}

#[test]
fn a_dead_mapping_takes_no_other_with_it() {
    install().unwrap();
    let (file, map) = mapped();
    let (_kept, neighbour) = mapped();
    file.set_len(0).unwrap();
    assert_eq!(map.load_u64(0), Some(0));
    assert!(map.is_dead() && !neighbour.is_dead());
    let (_file, fresh) = mapped();
    drop(map);
    let (_file, reused) = mapped();
    assert!(!fresh.is_dead() && !reused.is_dead(), "a slot starts its next life alive");
}

#[test]
fn a_slot_has_its_range_until_it_is_dropped() {
    // Addresses that nothing maps.
    let ranges: Vec<_> = (1..=64).map(|index| register(index << 40, 4096)).collect();
    let version = ranges[0].0.version.load(Ordering::Relaxed);
    assert!(version.is_multiple_of(2));
    assert_eq!(ranges[5].0.range_around((6 << 40) + 4095), Some((6 << 40, 4096)));
    assert_eq!(ranges[5].0.range_around((6 << 40) + 4096), None);
    assert_eq!(ranges[5].0.range_around((6 << 40) - 1), None);
    let slot = ranges[5].0;
    drop(ranges);
    assert_eq!(slot.range_around((6 << 40) + 1), None);
}

#[test]
fn ten_thousand_mappings_are_guarded_at_a_time() {
    install().unwrap();
    let file = tempfile::tempfile().unwrap();
    file.set_len(PAGE).unwrap();
    let maps: Vec<_> = (0..10_000).map(|_| ReadMapping::map(&file).unwrap()).collect();
    file.set_len(0).unwrap();
    for map in maps.iter().rev().step_by(99) {
        assert_eq!(map.load_u64(0), Some(0));
        assert!(map.is_dead());
    }
    let grown = chunks().count();
    assert!(grown >= 10_000 / CHUNK, "{grown}");
    drop(maps);
    let again: Vec<_> = (0..9_000).map(|index| register(index << 40, 4096)).collect();
    assert_eq!((again.len(), chunks().count()), (9_000, grown), "slots are used again");
}

/// Runs an ignored test of this file in a process of its own; the signal that
/// ended it.
fn signal_of_child(test: &str) -> Option<i32> {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--test-threads=1"])
        .arg(format!("mapping::guard::tests::{test}"))
        .env("MMV_TEST_CHILD", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    child.signal()
}

#[test]
fn a_fault_in_a_mapping_that_is_not_registered_still_kills() {
    assert_eq!(signal_of_child("child_faults_elsewhere"), Some(Signal::SIGBUS as i32));
}

#[test]
fn a_sigbus_that_was_sent_still_kills() {
    assert_eq!(signal_of_child("child_is_sent_the_signal"), Some(Signal::SIGBUS as i32));
}

/// Runs only as a child: as an ordinary test it would end the test process.
fn is_child() -> bool {
    std::env::var_os("MMV_TEST_CHILD").is_some()
}

#[test]
#[ignore = "a child process of a_fault_in_a_mapping_that_is_not_registered_still_kills"]
fn child_faults_elsewhere() {
    if !is_child() {
        return;
    }
    // After some faults that were survived, so that the handler is known to
    // have run and to be still there.
    truncate_under_harvest(10);
    let file = tempfile::tempfile().unwrap();
    file.set_len(PAGE).unwrap();
    let map = MmapRaw::map_raw(&file).unwrap();
    file.set_len(0).unwrap();
    // SAFETY: the pointer is that of a page mapped until `map` is dropped; all access
    // to it is atomic. The load raises SIGBUS, which ends this process.
    let byte = unsafe { &*map.as_ptr().cast::<AtomicU8>() };
    unreachable!("read {} beyond the end of a file", byte.load(Ordering::Relaxed));
}

#[test]
#[ignore = "a child process of a_sigbus_that_was_sent_still_kills"]
fn child_is_sent_the_signal() {
    if !is_child() {
        return;
    }
    truncate_under_harvest(1);
    raise(Signal::SIGBUS).unwrap();
    unreachable!("survived a SIGBUS that was sent");
}
