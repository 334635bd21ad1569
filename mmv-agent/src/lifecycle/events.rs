//! Events of the agent in the archive.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use mmv_format::layout::Header;
use pcp_archive::raw::event::EventArray;
use pcp_archive::{Archive, OwnedValue, Value, ValueType};

use super::rig::{Log, Rig, counter_file};

/// The events of each record that has the metric, as `type file records`.
fn events_of(log: &Log) -> Vec<Vec<String>> {
    let arrays = log.samples().filter_map(|entry| entry.values.get("mmv.agent.events"));
    arrays.map(|value| events(log.archive(), value)).collect()
}

fn events(archive: &Archive, value: &OwnedValue) -> Vec<String> {
    let array = EventArray::unpack(value.as_value()).unwrap();
    let wanted = ["mmv.agent.event.type", "mmv.agent.event.file", "mmv.agent.event.records"];
    let mut events = Vec::new();
    for record in array.records() {
        let mut texts = Vec::new();
        for (pmid, value) in record.parameters() {
            let name = archive.metadata().metric(pmid).unwrap().display_name();
            if !wanted.contains(&&*name) {
                continue;
            }
            texts.push(match value {
                Value::String(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                Value::U64(number) => number.to_string(),
                other => panic!("{other:?}"),
            });
        }
        events.push(texts.join(" "));
    }
    events
}

fn telling(queue: u64) -> Rig {
    Rig::with(|settings| {
        settings.fixed.events = true;
        settings.reloadable.limits.queue_bytes = queue;
    })
}

#[test]
fn events_are_logged_once_and_an_empty_array_follows() {
    let mut rig = telling(1_000_000);
    let (_count, published) = counter_file(&rig, "app", "count");
    rig.tick();
    rig.tick();
    rig.tick();
    published.withdraw();
    // Its last values, then the event.
    rig.tick();
    rig.tick();
    rig.gap();
    rig.tick();
    let log = rig.finish();
    let expected = [&["started", "appeared app"][..], &[], &["vanished app"], &["gap"]];
    assert_eq!(events_of(&log), expected);
    assert_eq!(log.help("mmv.agent.event.type").as_deref(), Some("what happened"));
}

#[test]
fn events_go_on_beyond_2038_in_another_archive() {
    let mut rig = telling(1_000_000);
    let (_count, published) = counter_file(&rig, "app", "count");
    rig.tick();
    rig.tick();
    rig.set_clock_forward(Duration::from_secs(450_000_000));
    rig.tick();
    rig.tick();
    published.withdraw();
    rig.tick();
    rig.tick();
    let log = rig.finish();
    let metadata = log.archive().metadata();
    let events = metadata.metric_by_name("mmv.agent.events").unwrap();
    assert_eq!(events.desc.value_type, ValueType::HighresEvent);
    let logged = events_of(&log);
    assert!(logged.iter().flatten().any(|event| event == "vanished app"), "{logged:?}");
}

#[test]
fn missing_samples_are_events_at_begin_and_end() {
    let mut rig = telling(1_000_000);
    let (_count, published) = counter_file(&rig, "app", "count");
    let generation2 = |word: u64| {
        let file = OpenOptions::new().write(true).open(published.path()).unwrap();
        file.write_all_at(&word.to_ne_bytes(), Header::GENERATION2 as u64).unwrap();
    };
    rig.tick();
    for _ in 0..2 {
        generation2(0);
        (0..3).for_each(|_| rig.tick());
        generation2(published.generation());
        (0..2).for_each(|_| rig.tick());
    }
    assert_eq!(rig.missing("app"), 6);
    let log = rig.finish();
    let spell = [&["waiting app"][..], &["grew app"], &["recovered app 3"]];
    let expected = [&[&["started", "appeared app"][..]][..], &spell, &spell].concat();
    assert_eq!(events_of(&log), expected);
    // Each value of the file, with the events at the same time or since the one before.
    let values = log.series("mmv.app.count").into_iter().flatten().count();
    assert_eq!(values, 1 + 2 + 2);
}

#[test]
fn a_spell_that_begins_at_the_last_tick_is_an_event_of_it() {
    let mut rig = telling(1_000_000);
    let (_count, published) = counter_file(&rig, "app", "count");
    rig.tick();
    let file = OpenOptions::new().write(true).open(published.path()).unwrap();
    file.write_all_at(&0_u64.to_ne_bytes(), Header::GENERATION2 as u64).unwrap();
    rig.last_tick();
    let log = rig.finish();
    assert_eq!(events_of(&log), [["started", "appeared app"], ["waiting app", "stopped"]]);
}

#[test]
fn the_event_of_a_file_counts_the_values_that_are_logged_of_it() {
    let mut rig = telling(1_000_000);
    let (_count, published) = counter_file(&rig, "app", "count");
    // The names of its metrics would begin with it.
    fs::rename(published.path(), rig.mmv_dir().join("my-app")).unwrap();
    rig.tick();
    let log = rig.finish();
    let value = log.samples().find_map(|entry| entry.values.get("mmv.agent.events")).unwrap();
    let array = EventArray::unpack(value.as_value()).unwrap();
    let appeared = array.records().nth(1).unwrap();
    let metadata = log.archive().metadata();
    let parameter = |name: &str| {
        let pmid = metadata.metric_by_name(name).unwrap().desc.pmid;
        appeared.parameters().find(|(other, _)| *other == pmid).map(|(_, value)| value)
    };
    assert_eq!(parameter("mmv.agent.event.values"), Some(Value::U64(0)));
    let reason = "an entry is left out: the name \"mmv.my-app.count\" has byte 0x2d at offset \
                  6, which is not allowed there";
    assert_eq!(parameter("mmv.agent.event.reason"), Some(Value::String(reason.as_bytes())));
}

#[test]
fn events_are_logged_without_a_harvested_file() {
    let mut rig = telling(1_000_000);
    fs::write(rig.mmv_dir().join("junk"), "junk").unwrap();
    rig.tick();
    let log = rig.finish();
    assert_eq!(events_of(&log), [["started", "quarantined junk"]]);
}

#[test]
fn events_of_dropped_samples_are_in_the_next_one() {
    let mut rig = telling(0);
    let (_count, _published) = counter_file(&rig, "app", "count");
    rig.tick();
    let mut files = Vec::new();
    rig.stall(|rig| {
        for name in ["b", "c", "d", "e"] {
            files.push(counter_file(rig, name, "count"));
            rig.tick();
        }
    });
    rig.tick();
    rig.tick();
    assert_eq!(rig.dropped(), 2);
    let log = rig.finish();
    let expected = [
        &["started", "appeared app"][..],
        &["appeared b"],
        &["appeared c"],
        &["appeared d", "appeared e"],
        &["dropped 2"],
    ];
    assert_eq!(events_of(&log), expected);
}

#[test]
fn unwritten_events_wait_and_the_loss_is_an_event() {
    let mut rig = telling(1_000_000);
    let (_count, _published) = counter_file(&rig, "app", "count");
    fs::create_dir_all(rig.archive_dir()).unwrap();
    let obstacle = rig.host_directory();
    File::create(&obstacle).unwrap();
    rig.tick();
    rig.tick();
    fs::remove_file(&obstacle).unwrap();
    rig.tick();
    rig.skip(Duration::from_secs(1));
    rig.tick();
    let log = rig.finish();
    assert_eq!(events_of(&log), [&["started", "appeared app", "lost 2"][..], &[]]);
}

#[test]
fn no_file_can_take_the_names_of_events() {
    let mut rig = telling(1_000_000);
    let (_count, _published) = counter_file(&rig, "agent", "events.of.mine");
    let (_other, _published) = counter_file(&rig, "app", "count");
    rig.tick();
    let log = rig.finish();
    assert!(log.keys().contains("mmv.app.count"));
    assert!(!log.keys().contains("mmv.agent.events.of.mine"));
    assert_eq!(events_of(&log), [["started", "appeared agent", "appeared app", "left-out agent"]]);
}
