//! Marks where programs restart, if configured.

use std::fs;
use std::path::Path;

use mmv_writer::{Discrete, Registry};
use pcp_archive::OwnedValue;

use super::rig::{Log, Rig, counter_file};
use super::{overwrite, u64s};
use crate::config::{Group, LogMode};

fn marking() -> Rig {
    Rig::with(|settings| settings.reloadable.mark_on_restart = true)
}

fn marks(log: &Log) -> Vec<bool> {
    log.entries.iter().map(|entry| entry.mark).collect()
}

#[test]
fn a_file_that_is_replaced_is_marked_once() {
    let mut rig = marking();
    let (other, _other) = counter_file(&rig, "other", "count");
    let (count, published) = counter_file(&rig, "app", "count");
    count.add(10);
    rig.tick();
    published.withdraw();
    let (count, _published) = counter_file(&rig, "app", "count");
    count.add(3);
    other.add(1);
    rig.tick();
    rig.tick();
    let log = rig.finish();
    // The last values are of the first file.
    assert_eq!(marks(&log), [false, false, true, false, false]);
    assert_eq!(log.series("mmv.app.count"), u64s(&[10, 10, 3, 3]));
    assert_eq!(log.series("mmv.other.count").into_iter().flatten().count(), 3);
    assert_eq!(log.archives, 1);
}

#[test]
fn only_a_file_that_comes_back_is_marked() {
    let mut rig = marking();
    let (_other, _other_file) = counter_file(&rig, "other", "count");
    rig.tick();
    let (_count, published) = counter_file(&rig, "app", "count");
    rig.tick();
    published.withdraw();
    rig.tick();
    rig.tick();
    let (_count, _published) = counter_file(&rig, "app", "count");
    rig.tick();
    let log = rig.finish();
    assert_eq!(marks(&log), [false, false, false, false, true, false]);
}

#[test]
fn a_file_that_grows_is_not_marked() {
    let mut rig = marking();
    let workshop = tempfile::tempdir().unwrap();
    let build = |metrics: &[&str]| {
        let registry =
            Registry::builder("app").sealed().directory(workshop.path()).build().unwrap();
        for name in metrics {
            let _count = registry.counter(*name).build().unwrap();
        }
        registry.publish().unwrap()
    };
    let path = rig.mmv_dir().join("app");
    let small = build(&["first"]);
    fs::copy(small.path(), &path).unwrap();
    rig.tick();
    overwrite(&path, &build(&["first", "second"]));
    rig.tick();
    let log = rig.finish();
    assert!(log.keys().contains("mmv.app.second"));
    assert_eq!(marks(&log), [false, false]);
}

fn level_file(mmv_dir: &Path, file: &str, level: u64) -> Registry {
    let registry = Registry::builder(file).sealed().directory(mmv_dir).build().unwrap();
    let value: Discrete<u64> = registry.discrete("level").build().unwrap();
    value.set(level);
    registry.publish().unwrap()
}

#[test]
fn last_known_values_are_logged_again_after_a_mark() {
    let group = Group {
        name: "levels".into(),
        metrics: vec!["*.level".into()],
        instances: Vec::new(),
        interval: None,
        log: LogMode::OnChange,
    };
    for wanted in [false, true] {
        let mut rig = Rig::with(|settings| {
            settings.reloadable.groups = vec![group.clone()];
            settings.reloadable.mark_on_restart = wanted;
        });
        let mmv_dir = rig.mmv_dir();
        let _steady = level_file(&mmv_dir, "steady", 5);
        let published = level_file(&mmv_dir, "app", 1);
        rig.tick();
        rig.tick();
        published.withdraw();
        let _published = level_file(&mmv_dir, "app", 1);
        rig.tick();
        let log = rig.finish();
        assert_eq!(log.marks(), usize::from(wanted));
        let times = if wanted { 2 } else { 1 };
        for (metric, value) in [("mmv.steady.level", 5), ("mmv.app.level", 1)] {
            let known = log.series(metric).into_iter().flatten().collect::<Vec<_>>();
            assert_eq!(known, vec![OwnedValue::U64(value); times], "{metric}");
        }
    }
}
