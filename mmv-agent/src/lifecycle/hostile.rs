//! Hostile and damaged files next to a good one.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mmv_format::layout::Header;
use mmv_writer::pcp::{IndomMetricExt as _, MetricBuilderExt as _, RegistryExt as _};
use mmv_writer::{Counter, Gauge, Registry, RegistryBuilder};
use pcp_archive::OwnedValue;

use super::rig::{Log, LoggedRecord, Rig, counter_file, entries_of};

fn large_file(dir: &Path) -> PathBuf {
    let registry =
        Registry::builder("large").sealed().directory(dir).process(false).build().unwrap();
    let indom = registry.indom("many").names((0..2000).map(|n| format!("n{n}"))).build().unwrap();
    let counts = registry.counter("count").build_instances(&indom).unwrap();
    counts.iter().for_each(|count: &Counter<u64>| count.add(1));
    registry.publish().unwrap();
    let path = dir.join("kept");
    fs::copy(registry.path(), &path).unwrap();
    path
}

fn good_is_whole(log: &Log, ticks: usize) {
    let expected = vec![Some(OwnedValue::U64(1)); ticks];
    assert_eq!(log.series("mmv.good.count"), expected);
    assert_eq!(log.marks(), 0);
}

#[test]
fn a_truncated_file_is_left_out_and_its_zeros_are_never_logged() {
    let workshop = tempfile::tempdir().unwrap();
    let bytes = fs::read(large_file(workshop.path())).unwrap();
    for keep in [0, 40, 4096, bytes.len() as u64 / 2, bytes.len() as u64 - 8] {
        let mut rig = Rig::new();
        let (good, _good) = counter_file(&rig, "good", "count");
        good.add(1);
        let path = rig.mmv_dir().join("victim");
        fs::write(&path, &bytes).unwrap();
        rig.tick();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(keep).unwrap();
        rig.tick();
        rig.tick();
        let log = rig.finish();
        good_is_whole(&log, 3);
        let victims = log.series("mmv.victim.count[n1999]");
        assert_eq!(victims, [Some(OwnedValue::U64(1)), None, None], "cut to {keep}");
    }
}

#[test]
fn truncation_during_the_pass_never_shows_in_the_archive() {
    const TICKS: usize = 300;
    let workshop = tempfile::tempdir().unwrap();
    let bytes = fs::read(large_file(workshop.path())).unwrap();
    let mut rig = Rig::new();
    let (good, _good) = counter_file(&rig, "good", "count");
    good.add(1);
    let path = rig.mmv_dir().join("victim");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let next = workshop.path().join("next");
                fs::write(&next, &bytes).unwrap();
                fs::rename(&next, &path).unwrap();
                std::thread::yield_now();
                if let Ok(file) = OpenOptions::new().write(true).open(&path) {
                    file.set_len(0).unwrap();
                }
            }
        });
        for _ in 0..TICKS {
            rig.tick();
        }
        over.store(true, Ordering::Relaxed);
    });
    // Where the instances come and go at many ticks, their metadata begins a further archive.
    let archives = rig.archives();
    let log = rig.finish();
    let entries: Vec<LoggedRecord> = archives.iter().flat_map(|base| entries_of(base)).collect();
    let good = entries.iter().filter(|entry| entry.values.contains_key("mmv.good.count"));
    assert_eq!(good.count(), TICKS);
    assert_eq!(log.marks(), 0);
    for entry in &entries {
        for (key, value) in &entry.values {
            assert_eq!(*value, OwnedValue::U64(1), "{key}");
        }
    }
}

#[test]
fn entries_that_are_no_files_neither_block_nor_disturb() {
    let mut rig = Rig::new();
    let (good, _good) = counter_file(&rig, "good", "count");
    good.add(1);
    let dir = rig.mmv_dir();
    nix::unistd::mkfifo(&dir.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::create_dir(dir.join("directory")).unwrap();
    symlink("/etc/passwd", dir.join("outside")).unwrap();
    symlink(dir.join("good"), dir.join("link")).unwrap();
    // A sparse terabyte, and the same after a valid header.
    File::create(dir.join("sparse")).unwrap().set_len(1 << 40).unwrap();
    let bytes = fs::read(dir.join("good")).unwrap();
    let huge = File::create(dir.join("long")).unwrap();
    huge.write_all_at(&bytes, 0).unwrap();
    huge.set_len(1 << 40).unwrap();
    for _ in 0..3 {
        rig.tick();
    }
    let log = rig.finish();
    good_is_whole(&log, 3);
    assert!(log.keys().iter().all(|key| ["mmv.good.count", "mmv.long.count"].contains(key)));
}

#[test]
fn a_file_that_claims_any_process_number_is_survived() {
    let mut rig = Rig::new();
    let (good, published) = counter_file(&rig, "good", "count");
    good.add(1);
    let bytes = fs::read(published.path()).unwrap();
    let at = std::mem::offset_of!(Header, pid);
    for pid in [-1, i32::MIN, i32::MAX] {
        let mut copy = bytes.clone();
        copy[at..at + 4].copy_from_slice(&i32::to_ne_bytes(pid));
        fs::write(rig.mmv_dir().join(format!("p{}", pid.unsigned_abs())), copy).unwrap();
    }
    rig.tick();
    let log = rig.finish();
    good_is_whole(&log, 1);
    assert_eq!(log.keys().len(), 1);
}

#[test]
fn damaged_corpus_files_leave_a_good_file_alone() {
    let Some(bad) = test_corpus::directory("mmv/bad") else { return };
    let expected = fs::read_to_string(bad.join("EXPECTED.json")).unwrap();
    let expected: Vec<serde_json::Value> = serde_json::from_str(&expected).unwrap();
    let mut rig = Rig::new();
    let (good, _good) = counter_file(&rig, "good", "count");
    good.add(1);
    for case in &expected {
        let file = case["file"].as_str().unwrap();
        // Without its dot, so that a metric name can begin with it.
        fs::copy(bad.join(file), rig.mmv_dir().join(file.replace('.', "_"))).unwrap();
    }
    for _ in 0..3 {
        rig.tick();
    }
    let log = rig.finish();
    good_is_whole(&log, 3);
    assert!(expected.len() > 50);
    for case in &expected {
        let file = case["file"].as_str().unwrap();
        let prefix = format!("mmv.{}.", file.replace('.', "_"));
        let logged = log.keys().iter().any(|key| key.starts_with(&prefix));
        match case["verdict"].as_str().unwrap() {
            "reject" | "not-ready" => assert!(!logged, "{file}: {}", case["what"]),
            _ => {}
        }
    }
}

/// Checks that with a change at each tick the number of archives is limited, and the
/// other file is in every sample.
fn archives_bounded(mut publish: impl FnMut(&Rig, u64) -> Registry) {
    const TICKS: u64 = 100;
    let mut rig = Rig::new();
    let (good, _good) = counter_file(&rig, "good", "count");
    good.add(1);
    for tick in 0..TICKS {
        let _published = publish(&rig, tick);
        rig.tick();
    }
    let archives = rig.archives();
    assert!((2..=11).contains(&archives.len()), "{} archives", archives.len());
    let _log = rig.finish();
    let entries = archives.iter().flat_map(|base| entries_of(base));
    let good = entries.filter(|entry| entry.values.contains_key("mmv.good.count"));
    assert_eq!(good.count() as u64, TICKS);
}

fn app(rig: &Rig) -> RegistryBuilder {
    Registry::builder("app").sealed().directory(rig.mmv_dir())
}

fn counter_of_item(rig: &Rig, item: u32) -> Registry {
    let registry = app(rig).sealed().build().unwrap();
    let _: Counter<u64> = registry.counter("count").item(item).build().unwrap();
    registry.publish().unwrap()
}

fn gauge(rig: &Rig) -> Registry {
    let registry = app(rig).sealed().build().unwrap();
    let _: Gauge<f64> = registry.gauge("count").item(1).build().unwrap();
    registry.publish().unwrap()
}

#[test]
fn descriptors_that_change_at_each_tick_begin_few_archives() {
    archives_bounded(|rig, tick| if tick % 2 == 0 { counter_of_item(rig, 1) } else { gauge(rig) });
}

#[test]
fn names_that_move_at_each_tick_begin_no_archive() {
    let mut rig = Rig::new();
    for tick in 0..100 {
        let _published = counter_of_item(&rig, 1 + tick % 2);
        rig.tick();
    }
    assert_eq!(rig.archives().len(), 1);
    // Each tick, and the last values of each file that was replaced.
    assert_eq!(rig.finish().series("mmv.app.count").len(), 100 + 99);
}

#[test]
fn names_that_are_new_at_each_tick_begin_few_archives() {
    archives_bounded(|rig, tick| {
        let registry = app(rig).sealed().build().unwrap();
        for number in 0..500 {
            let name = format!("count.n{}", 500 * tick + number);
            let _: Counter<u64> = registry.counter(name).build().unwrap();
        }
        registry.publish().unwrap()
    });
}

#[test]
fn names_that_become_branches_at_each_tick_begin_few_archives() {
    archives_bounded(|rig, tick| {
        let registry = app(rig).sealed().build().unwrap();
        let (name, item) = [("count", 1), ("count.more", 2)][tick as usize % 2];
        let _: Counter<u64> = registry.counter(name).item(item).build().unwrap();
        registry.publish().unwrap()
    });
}

#[test]
fn metric_left_out_is_logged_again_once_it_is_stable() {
    let mut rig = Rig::new();
    let mut published = None;
    for tick in 0..20 {
        drop(published.take());
        published = Some(if tick % 2 == 0 { counter_of_item(&rig, 1) } else { gauge(&rig) });
        rig.tick();
    }
    rig.skip(Duration::from_secs(400));
    rig.tick();
    let log = rig.finish();
    assert_eq!(log.series("mmv.app.count").pop(), Some(Some(OwnedValue::Double(0.0))));
}

#[test]
fn changing_instances_begin_archives_before_filling_memory() {
    let workshop = tempfile::tempdir().unwrap();
    let mut rig = Rig::new();
    let (good, _good) = counter_file(&rig, "good", "count");
    good.add(1);
    rig.tick();
    for state in 0..12 {
        let registry = Registry::builder("swarm").directory(workshop.path()).process(false);
        let registry = registry.sealed().build().unwrap();
        let names = (0..1_000).map(|number| format!("{state} {number} {}", "x".repeat(150)));
        let _ = registry.indom("many").names(names).build().unwrap();
        registry.counter("count").build().unwrap().add(1);
        registry.publish().unwrap();
        let hidden = rig.mmv_dir().join(".next");
        fs::copy(registry.path(), &hidden).unwrap();
        fs::rename(hidden, rig.mmv_dir().join("swarm")).unwrap();
        rig.tick();
    }
    let archives = rig.archives();
    assert!((2..=4).contains(&archives.len()), "{archives:?}");
    for base in &archives {
        let bytes = fs::metadata(format!("{}.meta", base.display())).unwrap().len();
        // The limit, and a state more.
        assert!(bytes < 2_000_000, "{bytes}");
        let entries = entries_of(base);
        let samples = entries.iter().filter(|entry| !entry.mark);
        let mut all = samples.map(|entry| entry.values.get("mmv.good.count"));
        // It is not in the records of last values.
        assert!(all.all(|value| value.is_none_or(|value| *value == OwnedValue::U64(1))));
    }
}
