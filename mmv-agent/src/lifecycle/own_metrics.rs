//! Tests of the agent's own metrics and their cost.

use std::fs;
use std::path::Path;

use super::rig::{LoggedRecord, Rig, entries_of};
use crate::loading::partition::GroupId;

fn size(base: &Path) -> u64 {
    let files = ["0", "meta", "index"].map(|suffix| format!("{}.{suffix}", base.display()));
    files.iter().map(|file| fs::metadata(file).unwrap().len()).sum()
}

#[test]
fn they_need_less_than_two_megabytes_a_day() {
    const HOUR: u64 = 3600;
    let mut rig = Rig::with_own_metrics();
    let own_groups = rig.own_groups();
    rig.tick();
    let base = rig.archives()[0].clone();
    // An hour, after half an hour, when each histogram has buckets for all times of a busy machine:
    // 3 microseconds to a second.
    let mut before = 0;
    for second in 1..=HOUR / 2 + HOUR {
        let own = rig.own();
        for histogram in [&own.duration, &own.lateness, &own.sync] {
            histogram.record(3 * 10_u64.pow(second as u32 % 6) * (1 + second % 9));
        }
        let due = own_groups.iter().filter(|(_, interval)| second % interval == 0);
        let groups: Vec<_> = due.map(|(group, _)| *group).chain([GroupId::Default]).collect();
        rig.tick_of(&groups);
        if second == HOUR / 2 {
            before = size(&base);
        }
    }
    let bytes = (size(&base) - before) * 24;
    println!("{bytes} bytes a day");
    assert!(bytes < 2_000_000, "{bytes} bytes a day");
    assert_eq!(rig.archives().len(), 1);
    let _log = rig.finish();
}

#[test]
fn losses_are_logged_each_minute_and_nothing_is_left_out() {
    let mut rig = Rig::with_own_metrics();
    let own_groups = rig.own_groups();
    rig.tick();
    let [_, (often, 60)] = own_groups[..] else { panic!("{own_groups:?}") };
    rig.tick_of(&[often]);
    let base = rig.archives()[0].clone();
    let entries = entries_of(&base);
    let names = |at: usize| entries[at].values.keys().map(String::as_str).collect::<Vec<_>>();
    let minute = names(entries.len() - 1);
    for name in ["ticks.late", "ticks.missed", "records.dropped", "records.lost", "ticks.taken"] {
        let name = format!("mmv.agent.{name}");
        assert!(minute.contains(&name.as_str()), "{name}: {minute:?}");
    }
    let first: Vec<_> = (0..entries.len() - 1).flat_map(names).collect();
    for name in ["happened[appeared]", "archives.kept", "compression.volumes", "queue.limit"] {
        let name = format!("mmv.agent.{name}");
        assert!(first.contains(&name.as_str()) && !minute.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn file_is_published_again_in_a_recreated_directory() {
    let mut rig = Rig::with_own_metrics();
    let groups: Vec<_> = rig.own_groups().iter().map(|(group, _)| *group).collect();
    let samples_of = |entries: &[LoggedRecord]| {
        let names = entries.iter().flat_map(|entry| entry.values.keys());
        names.filter(|name| *name == "mmv.agent.ticks.taken").count()
    };
    for _ in 0..3 {
        rig.tick_of(&groups);
    }
    let base = rig.archives()[0].clone();
    let before = samples_of(&entries_of(&base));
    assert!(before >= 2, "{before}");
    fs::remove_dir_all(rig.mmv_dir()).unwrap();
    rig.tick_of(&groups);
    rig.tick_of(&groups);
    let away = samples_of(&entries_of(&base));
    fs::create_dir(rig.mmv_dir()).unwrap();
    for _ in 0..4 {
        rig.tick_of(&groups);
    }
    assert!(rig.mmv_dir().join("agent").exists());
    let after = samples_of(&entries_of(&base));
    assert!(after >= away + 2, "{before} {away} {after}");
}
