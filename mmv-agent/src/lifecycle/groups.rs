//! Groups: their intervals, and metrics that are logged on change.

use std::process::Command;

use mmv_writer::pcp::{IndomMetricExt as _, RegistryExt as _};
use mmv_writer::{Discrete, Registry};
use pcp_archive::OwnedValue;

use super::rig::{LoggedRecord, Rig, counter_file, entries_of};
use super::{file_of, publish_for, u64s};
use crate::config::{Group, InstancePattern, LogMode};
use crate::loading::partition::GroupId;
use crate::logging::Order;

fn group(metrics: &str, log: LogMode) -> Group {
    Group {
        name: metrics.to_owned(),
        metrics: vec![metrics.to_owned()],
        instances: Vec::new(),
        interval: None,
        log,
    }
}

fn value(second: i128, value: u64) -> (i128, OwnedValue) {
    (second * SECOND, OwnedValue::U64(value))
}

fn values(entries: &[LoggedRecord], metric: &str) -> Vec<(i128, OwnedValue)> {
    let start = 1_700_000_000_000_000_000;
    let values = entries.iter().filter_map(|entry| {
        let value = entry.values.get(metric)?.clone();
        Some((entry.timestamp.as_nanos() - start, value))
    });
    values.collect()
}

const FIRST: GroupId = GroupId::Configured(0);
const SECOND: i128 = 1_000_000_000;

#[test]
fn each_group_has_own_records_in_one_archive() {
    let mut rig = Rig::with_groups(vec![group("mmv.slow", LogMode::Every)]);
    let (slow, _slow) = counter_file(&rig, "slow", "count");
    let (fast, _fast) = counter_file(&rig, "fast", "count");
    for round in 0..4 {
        slow.add(1);
        fast.add(1);
        rig.tick_of(if round % 2 == 0 { &[FIRST, GroupId::Default] } else { &[GroupId::Default] });
    }
    let log = rig.finish();
    assert_eq!(values(&log.entries, "mmv.slow.count"), [value(1, 1), value(3, 3)]);
    let fast = [1, 2, 3, 4].map(|n| value(n.into(), n));
    assert_eq!(values(&log.entries, "mmv.fast.count"), fast);
    let samples: Vec<usize> = log.samples().map(|entry| entry.sets).collect();
    assert_eq!(samples, [1; 6], "a record for each group and tick");
    assert_eq!(log.archives, 1);
}

#[test]
fn what_no_group_may_log_is_not_in_the_archive() {
    let mut rig = Rig::with_groups(vec![group("mmv.secret", LogMode::Never)]);
    let (_count, _secret) = counter_file(&rig, "secret", "count");
    rig.tick();
    assert!(rig.archives().is_empty());
    let (_count, _app) = counter_file(&rig, "app", "count");
    rig.tick();
    let log = rig.finish();
    assert!(log.archive().metadata().metric_by_name("mmv.secret.count").is_none());
    assert_eq!(log.series("mmv.app.count"), u64s(&[0]));
}

#[test]
fn ended_process_is_logged_by_groups_that_are_not_due() {
    let mut rig = Rig::with_groups(vec![group("mmv.app", LogMode::Every)]);
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let _file = file_of(&rig, child.id());
    let (_count, _other) = counter_file(&rig, "other", "count");
    rig.tick();
    child.kill().unwrap();
    child.wait().unwrap();
    rig.tick_of(&[GroupId::Default]);
    rig.tick_of(&[FIRST, GroupId::Default]);
    rig.tick_of(&[FIRST, GroupId::Default]);
    let log = rig.finish();
    assert_eq!(values(&log.entries, "mmv.app.count"), [value(1, 9), value(3, 9)]);
}

#[test]
fn values_are_logged_only_at_the_time_of_their_pass() {
    // Both files are in the slow group, one of them in the fast one as well.
    let fast = Group {
        instances: vec![InstancePattern::Matching("fast".into())],
        ..group("mmv.app", LogMode::Every)
    };
    let mut rig = Rig::with_groups(vec![fast, group("mmv", LogMode::Every)]);
    let (count, _published) = counter_file(&rig, "other", "count");
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let workshop = tempfile::tempdir().unwrap();
    let registry = Registry::builder("app").sealed().directory(workshop.path()).build().unwrap();
    let indom = registry.indom("speeds").names(["fast", "slow"]).build().unwrap();
    let _values = registry.counter("count").build_instances(&indom).unwrap();
    registry.publish().unwrap();
    publish_for(&rig, registry.path(), child.id());
    rig.tick_of(&[FIRST, GroupId::Configured(1), GroupId::Default]);
    count.add(5);
    child.kill().unwrap();
    child.wait().unwrap();
    rig.tick_of(&[FIRST]);
    let log = rig.finish();
    assert_eq!(values(&log.entries, "mmv.app.count[slow]"), [value(1, 0), value(2, 0)]);
    assert_eq!(values(&log.entries, "mmv.other.count"), [value(1, 0), value(2, 5)]);
}

fn rig_with(log: LogMode) -> (Rig, Discrete<u64>, mmv_writer::Registry) {
    let rig = Rig::with_groups(vec![group("mmv.app", log)]);
    let registry = Registry::builder("app").sealed().directory(rig.mmv_dir()).build().unwrap();
    let mode: Discrete<u64> = registry.discrete("mode").build().unwrap();
    let _count = registry.counter("count").build().unwrap();
    registry.publish().unwrap();
    (rig, mode, registry)
}

fn tick_with(rig: &mut Rig, mode: &Discrete<u64>, value: u64) {
    mode.set(value);
    rig.tick();
}

#[test]
fn on_change_logs_the_old_value_a_nanosecond_before_the_new_one() {
    let (mut rig, mode, _published) = rig_with(LogMode::OnChange);
    for value in [5, 5, 7, 7, 7, 5] {
        tick_with(&mut rig, &mode, value);
    }
    let log = rig.finish();
    let expected =
        [(SECOND, 5), (3 * SECOND - 1, 5), (3 * SECOND, 7), (6 * SECOND - 1, 7), (6 * SECOND, 5)];
    let expected = expected.map(|(at, value)| (at, OwnedValue::U64(value)));
    assert_eq!(values(&log.entries, "mmv.app.mode"), expected);
    assert_eq!(values(&log.entries, "mmv.app.count").len(), 6, "a counter is never skipped");
}

#[test]
fn last_known_values_repeat_in_archives_and_after_marks() {
    for log in [LogMode::OnChange, LogMode::Once] {
        let (mut rig, mode, _published) = rig_with(log);
        for _ in 0..3 {
            tick_with(&mut rig, &mode, 5);
        }
        rig.gap();
        tick_with(&mut rig, &mode, 5);
        tick_with(&mut rig, &mode, 5);
        rig.order(Order::NewArchive);
        tick_with(&mut rig, &mode, 6);
        tick_with(&mut rig, &mode, 6);
        let archives = rig.archives();
        assert_eq!(archives.len(), 2);
        let _log = rig.finish();
        let first = values(&entries_of(&archives[0]), "mmv.app.mode");
        assert_eq!(first, [value(1, 5), value(4, 5)], "{log:?}");
        let second = values(&entries_of(&archives[1]), "mmv.app.mode");
        assert_eq!(second, [value(6, 6)], "{log:?}");
    }
}

#[test]
fn a_change_of_groups_loses_no_tick() {
    let (mut rig, mode, _published) = rig_with(LogMode::OnChange);
    tick_with(&mut rig, &mode, 5);
    tick_with(&mut rig, &mode, 5);
    rig.regroup(Vec::new());
    tick_with(&mut rig, &mode, 5);
    tick_with(&mut rig, &mode, 5);
    rig.regroup(vec![group("mmv.app.count", LogMode::Never)]);
    tick_with(&mut rig, &mode, 5);
    let log = rig.finish();
    let at = |metric| -> Vec<i128> {
        values(&log.entries, metric).iter().map(|(at, _)| at / SECOND).collect()
    };
    assert_eq!(at("mmv.app.mode"), [1, 3, 4, 5]);
    assert_eq!(at("mmv.app.count"), [1, 2, 3, 4]);
    assert_eq!((log.archives, log.marks()), (1, 0));
}
