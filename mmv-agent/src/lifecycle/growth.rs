//! Files that grow: what is known of them is logged at each tick, whatever they add.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::time::Duration;

use mmv_format::growth::REUSE_DELAY;
use mmv_writer::pcp::{Indom, IndomMetricExt as _, NamedFamily, RegistryExt as _};
use mmv_writer::{Counter, Gauge, Registry, Text};
use pcp_archive::{ArchiveSet, OwnedValue};

use super::rig::{Rig, counter_file, increase};
use super::{PID_AT, builder, file_of, overwrite, u64s};
use crate::config::Limits;

/// A file that grows, with a counter and counters by instance.
struct GrowingProgram {
    registry: Registry,
    things: Indom,
    total: Counter<u64>,
    count: NamedFamily<Counter<u64>>,
}

impl GrowingProgram {
    fn new(rig: &Rig) -> Self {
        let registry = builder(rig, "app").announce_interval(Duration::ZERO);
        let registry = registry.build().unwrap();
        let total = registry.counter("total").build().unwrap();
        let things = registry.indom("things").build().unwrap();
        let count = registry.counter("count").build_named(&things).unwrap();
        Self { registry, things, total, count }
    }

    fn add(&self, name: &str, value: u64) {
        self.count.get_or_create(name).unwrap().add(value);
    }
}

/// An agent with a limit on values, beyond which it cannot read what a file adds.
fn agent_with_room_for(values: usize) -> Rig {
    Rig::with(|settings| {
        settings.reloadable.limits = Limits { values, ..Limits::default() };
    })
}

#[test]
fn known_values_are_logged_while_metadata_is_unreadable() {
    let mut rig = agent_with_room_for(3);
    let (other, _other) = counter_file(&rig, "other", "count");
    let growing = GrowingProgram::new(&rig);
    growing.add("a", 1);
    growing.total.add(10);
    rig.tick();
    for name in ["b", "c", "d"] {
        growing.add(name, 1);
        growing.add("a", 1);
        growing.total.add(10);
        other.inc();
        rig.tick();
    }
    let log = rig.finish();
    assert_eq!(log.series("mmv.other.count"), u64s(&[0, 1, 2, 3]));
    assert_eq!(log.series("mmv.app.total"), u64s(&[10, 20, 30, 40]));
    assert_eq!(log.series("mmv.app.count[a]"), u64s(&[1, 2, 3, 4]));
    assert!(!log.keys().contains("mmv.app.count[b]"), "there is no room for it");
    assert_eq!((log.marks(), log.archives), (0, 1));
}

#[test]
fn removed_instance_is_left_out_and_its_cell_unused() {
    let mut rig = agent_with_room_for(3);
    let growing = GrowingProgram::new(&rig);
    growing.add("a", 1);
    growing.add("b", 2);
    rig.tick();
    growing.add("c", 3);
    growing.add("d", 4);
    assert!(growing.things.remove("a"));
    rig.tick();
    std::thread::sleep(Duration::from_millis(150));
    growing.add("e", 5);
    growing.add("b", 10);
    rig.tick();
    let log = rig.finish();
    assert_eq!(log.series("mmv.app.count[a]"), [Some(OwnedValue::U64(1)), None, None]);
    assert_eq!(log.series("mmv.app.count[b]"), u64s(&[2, 2, 12]));
    assert_eq!(log.series("mmv.app.total"), u64s(&[0, 0, 0]));
}

#[test]
fn instance_created_again_is_not_logged_as_the_removed_one() {
    let mut rig = Rig::new();
    let growing = GrowingProgram::new(&rig);
    growing.add("a", 1);
    growing.add("other", 3);
    rig.tick();
    rig.delay_plans();
    // The loader reads the file while the instance is away.
    assert!(growing.things.remove("a"));
    rig.tick();
    std::thread::sleep(REUSE_DELAY + REUSE_DELAY / 2);
    // It gets its former entries back.
    growing.add("a", 5);
    rig.tick();
    // The plan without it, and then the plan with the new one.
    for _ in 0..2 {
        growing.add("a", 1);
        rig.deliver_plan();
        rig.tick();
    }
    let log = rig.finish();
    let [before, after] = [1, 7].map(|value| Some(OwnedValue::U64(value)));
    assert_eq!(log.series("mmv.app.count[a]"), [before, None, None, None, after]);
    assert_eq!(log.series("mmv.app.count[other]"), u64s(&[3; 5]));
    assert_eq!(log.increase("mmv.app.count"), 7, "of the second one, counted once");
}

#[test]
fn instance_created_again_above_its_old_value_counts_from_0() {
    // With a pause it gets its former entry back.
    for pause in [Duration::ZERO, REUSE_DELAY + REUSE_DELAY / 2] {
        let mut rig = Rig::new();
        let growing = GrowingProgram::new(&rig);
        growing.add("a", 1);
        growing.add("other", 3);
        rig.tick();
        assert!(growing.things.remove("a"));
        std::thread::sleep(pause);
        growing.add("a", 5);
        growing.add("other", 4);
        for _ in 0..3 {
            rig.tick();
        }
        let log = rig.finish();
        assert_eq!(log.series("mmv.app.count[other]")[1..], u64s(&[7; 3]));
        assert_eq!(log.series("mmv.app.count[a]").last(), Some(&Some(OwnedValue::U64(5))));
        assert_eq!(log.increase("mmv.app.count"), 5 + 4, "after a pause of {pause:?}");
    }
}

#[test]
fn growth_over_the_end_of_an_archive_is_counted() {
    let mut rig = Rig::with(|settings| settings.reloadable.rotation.daily = true);
    // The second tick is at midnight.
    rig.skip(Duration::from_secs(6_398));
    let growing = GrowingProgram::new(&rig);
    growing.add("a", 1);
    rig.tick();
    growing.add("a", 4);
    growing.add("b", 2);
    rig.tick();
    growing.add("a", 3);
    rig.tick();
    let log = rig.finish();
    assert_eq!(log.archives, 2);
    assert_eq!(log.increase("mmv.app.count"), 4 + 2 + 3);
}

#[test]
fn growth_over_a_restart_of_the_agent_is_counted_unless_it_was_away() {
    let away = [(Duration::ZERO, 4 + 3 + 2 + 1), (Duration::from_secs(60), 4 + 1)];
    for (away, expected) in away {
        let mut rig = Rig::with(|settings| settings.fixed.events = true);
        let growing = GrowingProgram::new(&rig);
        growing.add("a", 1);
        rig.tick();
        growing.add("a", 4);
        rig.tick();
        rig.restart();
        rig.skip(away);
        growing.add("a", 3);
        growing.add("b", 2);
        rig.tick();
        growing.add("a", 1);
        rig.tick();
        let directory = rig.host_directory();
        let _log = rig.finish();
        let set = ArchiveSet::open([directory]).unwrap();
        assert_eq!(set.archives().len(), 2);
        assert_eq!(increase(&set, "mmv.app.count"), expected, "after {away:?}");
    }
}

#[test]
fn instance_created_again_when_an_archive_begins_does_not_continue() {
    let mut rig = Rig::with(|settings| settings.reloadable.rotation.daily = true);
    // The second tick is at midnight.
    rig.skip(Duration::from_secs(6_398));
    let growing = GrowingProgram::new(&rig);
    growing.add("a", 1);
    rig.tick();
    assert!(growing.things.remove("a"));
    growing.add("a", 5);
    rig.tick();
    growing.add("a", 3);
    rig.tick();
    let log = rig.finish();
    assert_eq!(log.archives, 2);
    assert_eq!(log.increase("mmv.app.count"), 3, "what lies between the archives is unknown");
}

#[test]
fn only_instance_of_a_domain_is_removed_and_created_again() {
    let mut rig = Rig::new();
    let growing = GrowingProgram::new(&rig);
    growing.add("a", 1);
    rig.tick();
    assert!(growing.things.remove("a"));
    rig.tick();
    std::thread::sleep(REUSE_DELAY + REUSE_DELAY / 2);
    rig.tick();
    growing.add("a", 5);
    rig.tick();
    growing.add("a", 2);
    rig.tick();
    let log = rig.finish();
    let [first, second, third] = [1, 5, 7].map(|value| Some(OwnedValue::U64(value)));
    assert_eq!(log.series("mmv.app.count[a]"), [first, None, None, second, third]);
    assert_eq!(log.increase("mmv.app.count"), 7);
}

#[test]
fn values_that_become_absent_by_a_new_flag_are_absent_at_once() {
    let mut rig = agent_with_room_for(1);
    let registry = builder(&rig, "app").announce_interval(Duration::ZERO).build().unwrap();
    let level: Gauge<i64> = registry.metric("level").build().unwrap();
    level.set(-1);
    rig.tick();
    for name in ["a", "b", "c"] {
        drop(registry.metric::<Gauge<i64>>(name).optional().build().unwrap());
    }
    rig.tick();
    level.set(4);
    rig.tick();
    let log = rig.finish();
    let [before, after] = [-1, 4].map(|value| Some(OwnedValue::I64(value)));
    assert_eq!(log.series("mmv.app.level"), [before, None, after]);
}

#[test]
fn texts_and_instances_are_read_while_a_file_grows() {
    let mut rig = agent_with_room_for(202);
    let growing = GrowingProgram::new(&rig);
    let words: Text = growing.registry.text("words").build().unwrap();
    words.set("first");
    let name = |number: u64| format!("i{number}");
    for number in 0..200 {
        growing.add(&name(number), number);
    }
    growing.registry.announce();
    rig.tick();
    words.set("second, and longer");
    growing.add(&name(0), 1000);
    growing.add(&name(199), 1000);
    growing.add("one more", 1);
    growing.registry.announce();
    rig.tick();
    let log = rig.finish();
    let texts = ["first", "second, and longer"];
    let texts = texts.map(|text| Some(OwnedValue::String(text.as_bytes().to_vec())));
    assert_eq!(log.series("mmv.app.words"), texts);
    assert_eq!(log.series("mmv.app.count[i0]"), u64s(&[0, 1000]));
    assert_eq!(log.series("mmv.app.count[i199]"), u64s(&[199, 1199]));
}

#[test]
fn the_last_values_of_a_killed_program_that_grew_are_all_logged() {
    for readable in [true, false] {
        let mut rig = agent_with_room_for(if readable { 10 } else { 2 });
        let growing = GrowingProgram::new(&rig);
        growing.add("a", 1);
        // Another process than this one counts as the program.
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let path = growing.registry.path().to_owned();
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&child.id().to_ne_bytes(), PID_AT).unwrap();
        rig.tick();
        growing.add("b", 2);
        growing.add("a", 3);
        child.kill().unwrap();
        child.wait().unwrap();
        for _ in 0..4 {
            rig.tick();
        }
        growing.add("a", 10);
        rig.tick();
        let log = rig.finish();
        let a: Vec<_> = log.series("mmv.app.count[a]").into_iter().flatten().collect();
        let a: Vec<_> = a.into_iter().map(Some).collect();
        assert_eq!(a, u64s(&[1, 4]), "its last values are logged once");
        let b = log.series("mmv.app.count[b]").into_iter().flatten().count();
        assert_eq!(b, usize::from(readable));
    }
}

#[test]
fn what_a_killed_program_had_not_announced_is_logged() {
    for is_replaced in [false, true] {
        let mut rig = Rig::new();
        let registry = builder(&rig, "app").announce_interval(Duration::from_hours(1));
        let registry = registry.build().unwrap();
        let things = registry.indom("things").build().unwrap();
        let count = registry.counter("count").build_named(&things).unwrap();
        let add = |name: &str, value: u64| {
            let counter: Counter<u64> = count.get_or_create(name).unwrap();
            counter.add(value);
        };
        add("a", 1);
        registry.announce();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let path = registry.path().to_owned();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&child.id().to_ne_bytes(), PID_AT).unwrap();
        rig.tick();
        add("a", 1);
        add("b", 5);
        let late: Counter<u64> = registry.counter("late").build().unwrap();
        late.add(7);
        child.kill().unwrap();
        child.wait().unwrap();
        if is_replaced {
            let (_, next) = counter_file(&rig, "other", "total");
            fs::rename(next.path(), &path).unwrap();
        }
        rig.tick();
        rig.tick();
        let log = rig.finish();
        let last = |key: &str| log.series(key).into_iter().flatten().next_back();
        for (key, value) in [("mmv.app.count[a]", 2), ("mmv.app.count[b]", 5), ("mmv.app.late", 7)]
        {
            assert_eq!(last(key), Some(OwnedValue::U64(value)), "{key}, replaced: {is_replaced}");
        }
        let b = log.series("mmv.app.count[b]").into_iter().flatten().count();
        assert_eq!(b, 1, "last values are logged once");
    }
}

#[test]
fn file_of_an_ended_process_is_logged_once_where_that_is_wanted() {
    for reads_ended in [true, false] {
        let mut rig = Rig::with(|settings| settings.reads_ended = reads_ended);
        let (_other, _file) = counter_file(&rig, "other", "count");
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let _file = file_of(&rig, child.id());
        for _ in 0..4 {
            rig.tick();
        }
        let log = rig.finish();
        let samples = log.series("mmv.app.count").into_iter().flatten();
        assert_eq!(samples.count(), usize::from(reads_ended));
    }
}

#[test]
fn last_values_are_logged_though_another_file_changes() {
    let mut rig = Rig::new();
    let workshop = tempfile::tempdir().unwrap();
    let path = rig.mmv_dir().join("other");
    let other = |metrics: &[&str]| {
        let registry =
            Registry::builder("other").sealed().directory(workshop.path()).build().unwrap();
        for metric in metrics {
            let _count: Counter<u64> = registry.counter(*metric).build().unwrap();
        }
        registry.publish().unwrap()
    };
    fs::copy(other(&["first"]).path(), &path).unwrap();
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let _file = file_of(&rig, child.id());
    rig.tick();
    child.kill().unwrap();
    child.wait().unwrap();
    overwrite(&path, &other(&["first", "second"]));
    rig.tick();
    rig.tick();
    let log = rig.finish();
    let nine = Some(OwnedValue::U64(9));
    assert_eq!(log.series("mmv.app.count"), [nine.clone(), nine, None]);
    assert_eq!(log.series("mmv.other.first"), u64s(&[0, 0, 0]));
}

#[test]
fn last_values_of_a_grown_and_removed_file_are_logged() {
    for wait in [false, true] {
        let mut rig = Rig::new();
        let growing = GrowingProgram::new(&rig);
        growing.add("a", 1);
        rig.tick();
        growing.add("b", 2);
        growing.add("a", 3);
        if wait {
            rig.tick();
            growing.add("a", 5);
        }
        drop(growing);
        rig.tick();
        rig.tick();
        rig.tick();
        let log = rig.finish();
        let a = log.series("mmv.app.count[a]");
        let last = if wait { 9 } else { 4 };
        assert_eq!(a.last(), u64s(&[last]).last(), "{a:?}");
        let b = log.series("mmv.app.count[b]");
        assert_eq!(b.last(), u64s(&[2]).last());
    }
}
