//! The agent from files to archives, one tick at a time: sampler, queue and archive
//! writer on one thread, real files, and a clock that the test moves.

mod events;
mod groups;
mod growth;
mod hostile;
mod housekeeping;
mod marks;
mod own_metrics;
mod removal;
mod restarts;
mod rig;
mod tiers;

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use mmv_format::layout::Header;
use mmv_writer::pcp::{
    IndomMetricExt as _, MetricBuilderExt as _, RegistryBuilderExt as _, RegistryExt as _,
};
use mmv_writer::{Buckets, Counter, Gauge, Label, Registry, RegistryBuilder, Text, Units};
use pcp_archive::OwnedValue;

use crate::config::{Destination, Settings};
use rig::{Rig, counter_file, entries_of};

fn builder(rig: &Rig, name: &str) -> RegistryBuilder {
    Registry::builder(name).directory(rig.mmv_dir())
}

fn u64s(values: &[u64]) -> Vec<Option<OwnedValue>> {
    values.iter().map(|value| Some(OwnedValue::U64(*value))).collect()
}

#[test]
fn values_of_every_kind_are_logged_with_their_metadata() {
    let mut rig = Rig::new();
    let registry = builder(&rig, "shop").cluster(77).sealed().build().unwrap();
    registry.label(Label::new("team", "blue")).unwrap();
    let tills = registry.indom("tills").names(["left", "right"]).help("The tills").build().unwrap();
    let sold: Counter<u64> =
        registry.counter("sold").units(Units::count()).help("Things sold").build().unwrap();
    let heat: Gauge<f64> = registry.gauge("heat").build().unwrap();
    let cold: Gauge<i32> = registry.metric("cold").build().unwrap();
    let open = registry.counter("open").build_instances(&tills).unwrap();
    let mood: Text = registry.text("mood").build().unwrap();
    registry.publish().unwrap();
    sold.add(5);
    heat.set(21.5);
    cold.set(-3);
    open.by_name("right").unwrap().add(2);
    mood.set("fine");
    rig.tick();
    mood.set("very much better than before");
    rig.tick();

    let log = rig.finish();
    assert_eq!(log.series("mmv.shop.sold"), u64s(&[5, 5]));
    assert_eq!(log.series("mmv.shop.heat"), vec![Some(OwnedValue::Double(21.5)); 2]);
    assert_eq!(log.series("mmv.shop.cold"), vec![Some(OwnedValue::I32(-3)); 2]);
    assert_eq!(log.series("mmv.shop.open[left]"), u64s(&[0, 0]));
    assert_eq!(log.series("mmv.shop.open[right]"), u64s(&[2, 2]));
    assert_eq!(
        log.series("mmv.shop.mood"),
        [&b"fine"[..], b"very much better than before"]
            .map(|text| Some(OwnedValue::String(text.to_vec())))
    );
    let metric = log.archive().metadata().metric_by_name("mmv.shop.sold").unwrap();
    assert_eq!(metric.desc.pmid.to_string(), "70.77.1");
    assert_eq!(metric.desc.units, Units::count());
    assert_eq!(log.help("mmv.shop.sold").as_deref(), Some("Things sold"));
    assert_eq!(log.labels("Context").len(), 3);
    assert_eq!(log.labels("Domain"), [("agent".to_owned(), "\"mmv\"".to_owned())]);
    assert_eq!(log.labels("Cluster"), [("team".to_owned(), "\"blue\"".to_owned())]);
}

#[test]
fn without_files_nothing_is_written_and_later_ones_are_found() {
    let mut rig = Rig::new();
    fs::remove_dir(rig.mmv_dir()).unwrap();
    rig.tick();
    fs::create_dir(rig.mmv_dir()).unwrap();
    rig.tick();
    assert!(rig.archives().is_empty());
    let (count, published) = counter_file(&rig, "app", "count");
    count.add(1);
    rig.tick();
    published.withdraw();
    rig.tick();
    rig.tick();
    let log = rig.finish();
    // The last values are read after the file is gone, once.
    assert_eq!(log.series("mmv.app.count"), u64s(&[1, 1]));
}

#[test]
fn a_restarted_application_keeps_its_pmids_without_a_mark() {
    let mut rig = Rig::new();
    let (other, _other) = counter_file(&rig, "other", "count");
    let (count, published) = counter_file(&rig, "app", "count");
    count.add(10);
    other.add(1);
    rig.tick();
    published.withdraw();
    let (count, _published) = counter_file(&rig, "app", "count");
    count.add(3);
    rig.tick();
    rig.tick();
    let log = rig.finish();
    assert_eq!(log.marks(), 0);
    assert_eq!(log.series("mmv.app.count"), u64s(&[10, 10, 3, 3]));
    let [one, none] = [Some(OwnedValue::U64(1)), None];
    assert_eq!(log.series("mmv.other.count"), [one.clone(), none, one.clone(), one]);
    assert_eq!(log.archives, 1);
}

#[test]
fn last_values_of_a_replaced_file_are_logged_with_others() {
    let mut rig = Rig::new();
    let directory = rig.mmv_dir();
    let publish = |name: &str, instance: &str, value: u64| {
        let registry = Registry::builder(name).directory(&directory).cluster(500).no_prefix();
        let registry = registry.sealed().build().unwrap();
        let indom = registry.indom("processes").serial(1).names([instance]).build().unwrap();
        let counts = registry.counter("app.count").item(1).build_instances(&indom).unwrap();
        counts.iter().for_each(|count| count.add(value));
        (counts, registry.publish().unwrap())
    };
    let (counts, first) = publish("app.1", "one", 10);
    let (_counts, _second) = publish("app.2", "two", 20);
    let (_other, _others) = counter_file(&rig, "other", "count");
    rig.tick();
    counts.iter().for_each(|count| count.add(5));
    first.withdraw();
    let (_counts, _first) = publish("app.1", "one", 1);
    rig.tick();
    let log = rig.finish();
    assert_eq!(log.series("mmv.app.count[one]"), u64s(&[10, 15, 1]));
    assert_eq!(log.series("mmv.app.count[two]"), u64s(&[20, 20, 20]));
    assert_eq!(log.series("mmv.other.count").iter().flatten().count(), 2);
}

/// Overwrites the file at `path` in place with what `with` publishes.
fn overwrite(path: &Path, with: &Registry) {
    let bytes = fs::read(with.path()).unwrap();
    let file = OpenOptions::new().write(true).open(path).unwrap();
    // Like a growing producer: the content first, the generations last.
    file.set_len(bytes.len() as u64).unwrap();
    file.write_all_at(&bytes[Header::BYTES..], Header::BYTES as u64).unwrap();
    file.write_all_at(&bytes[..Header::BYTES], 0).unwrap();
}

#[test]
fn a_file_that_grows_in_place_loses_no_sample_and_gets_no_mark() {
    let mut rig = Rig::new();
    let workshop = tempfile::tempdir().unwrap();
    let build = |metrics: &[&str]| {
        let registry =
            Registry::builder("app").sealed().directory(workshop.path()).build().unwrap();
        let handles: Vec<Counter<u64>> =
            metrics.iter().map(|name| registry.counter(*name).build().unwrap()).collect();
        registry.publish().unwrap();
        for handle in &handles {
            handle.add(7);
        }
        registry
    };
    let path = rig.mmv_dir().join("app");
    let small = build(&["first"]);
    fs::copy(small.path(), &path).unwrap();
    rig.tick();
    overwrite(&path, &build(&["first", "second"]));
    rig.tick();
    rig.tick();
    let log = rig.finish();
    assert_eq!(log.series("mmv.app.first"), u64s(&[7, 7, 7]));
    assert_eq!(
        log.series("mmv.app.second"),
        [None, Some(OwnedValue::U64(7)), Some(OwnedValue::U64(7))]
    );
    assert_eq!((log.marks(), log.archives), (0, 1));
}

#[test]
fn changing_file_is_left_out_until_it_is_complete() {
    let mut rig = Rig::new();
    let (good, _good) = counter_file(&rig, "good", "count");
    let (count, published) = counter_file(&rig, "app", "count");
    count.add(4);
    good.add(1);
    rig.tick();
    let file = OpenOptions::new().write(true).open(published.path()).unwrap();
    file.write_all_at(&0u64.to_ne_bytes(), Header::GENERATION2 as u64).unwrap();
    rig.tick();
    let generation = published.generation().to_ne_bytes();
    file.write_all_at(&generation, Header::GENERATION2 as u64).unwrap();
    rig.tick();
    let log = rig.finish();
    let [four, none] = [Some(OwnedValue::U64(4)), None];
    assert_eq!(log.series("mmv.app.count"), [four.clone(), none, four]);
    assert_eq!(log.series("mmv.good.count"), u64s(&[1, 1, 1]));
}

const PID_AT: u64 = std::mem::offset_of!(Header, pid) as u64;

fn file_of(rig: &Rig, process: u32) -> File {
    let workshop = tempfile::tempdir().unwrap();
    let registry = Registry::builder("app").sealed().directory(workshop.path()).build().unwrap();
    let count: Counter<u64> = registry.counter("count").build().unwrap();
    registry.publish().unwrap();
    count.add(9);
    publish_for(rig, registry.path(), process)
}

/// A copy of a file as "app", whose producer is `process`.
fn publish_for(rig: &Rig, file: &Path, process: u32) -> File {
    let path = rig.mmv_dir().join("app");
    fs::copy(file, &path).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&process.to_ne_bytes(), PID_AT).unwrap();
    file
}

#[test]
fn a_process_that_is_not_reaped_is_logged_once_more() {
    let mut rig = Rig::new();
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let _file = file_of(&rig, child.id());
    rig.tick();
    child.kill().unwrap();
    let stat = format!("/proc/{}/stat", child.id());
    while !fs::read_to_string(&stat).unwrap().contains(") Z ") {
        std::thread::yield_now();
    }
    for _ in 0..8 {
        rig.tick();
    }
    child.wait().unwrap();
    let log = rig.finish();
    assert_eq!(log.series("mmv.app.count"), u64s(&[9, 9]));
}

#[test]
fn the_last_values_of_a_process_are_logged_and_none_after_that() {
    let mut rig = Rig::new();
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let file = file_of(&rig, child.id());
    rig.tick();
    child.kill().unwrap();
    child.wait().unwrap();
    for _ in 0..3 {
        rig.tick();
    }
    // Another process becomes the producer of the file.
    file.write_all_at(&std::process::id().to_ne_bytes(), PID_AT).unwrap();
    rig.skip(Duration::from_secs(60));
    rig.tick();
    let log = rig.finish();
    assert_eq!(log.series("mmv.app.count"), u64s(&[9, 9, 9]));
}

#[test]
fn last_values_of_a_grown_and_ended_process_are_logged() {
    let mut rig = Rig::new();
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let file = file_of(&rig, child.id());
    rig.tick();
    let workshop = tempfile::tempdir().unwrap();
    let registry = Registry::builder("app").sealed().directory(workshop.path()).build().unwrap();
    let count: Counter<u64> = registry.counter("count").build().unwrap();
    let second: Counter<u64> = registry.counter("second").build().unwrap();
    registry.publish().unwrap();
    count.add(11);
    second.add(3);
    overwrite(&rig.mmv_dir().join("app"), &registry);
    file.write_all_at(&child.id().to_ne_bytes(), PID_AT).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    for _ in 0..4 {
        rig.tick();
    }
    let log = rig.finish();
    assert_eq!(log.series("mmv.app.count"), u64s(&[9, 11]), "its last values are logged once");
    assert_eq!(log.series("mmv.app.second").into_iter().flatten().count(), 1);
}

#[test]
fn processes_sharing_a_cluster_are_merged() {
    let mut rig = Rig::new();
    let publish = |name: &str, instances: &[(i32, &str)], value: u64| {
        let registry = builder(&rig, name).cluster(500).no_prefix().sealed().build().unwrap();
        let indom = registry.indom("processes").serial(1);
        let indom = instances.iter().fold(indom, |indom, (id, name)| indom.instance(*id, *name));
        let indom = indom.build().unwrap();
        let counts = registry.counter("app.count").item(1).build_instances(&indom).unwrap();
        counts.iter().for_each(|count| count.add(value));
        registry.publish().unwrap()
    };
    let _first = publish("app.1", &[(1, "one"), (3, "both")], 10);
    let _second = publish("app.2", &[(2, "two"), (3, "both")], 20);
    // The same number with another name is ambiguous and left out.
    let _third = publish("app.3", &[(1, "another"), (4, "four")], 30);
    rig.tick();
    let log = rig.finish();
    for (instance, value) in [("one", 10), ("two", 20), ("both", 10), ("four", 30)] {
        assert_eq!(log.series(&format!("mmv.app.count[{instance}]")), u64s(&[value]));
    }
    assert_eq!(log.keys().len(), 4);
    let metric = log.archive().metadata().metric_by_name("mmv.app.count").unwrap();
    assert_eq!(metric.desc.pmid.to_string(), "70.500.1");
}

#[test]
fn with_the_sentinel_flag_values_come_and_go() {
    let mut rig = Rig::new();
    let registry = builder(&rig, "app").sentinel().sealed().build().unwrap();
    let level: Gauge<f64> = registry.metric("level").build().unwrap();
    let text: Text = registry.text("text").build().unwrap();
    let count: Counter<u64> = registry.counter("count").build().unwrap();
    registry.publish().unwrap();
    count.add(1);
    for (value, words) in [(1.0, ""), (f64::NAN, "on"), (2.0, "on")] {
        level.set(value);
        text.set(words);
        rig.tick();
    }
    let log = rig.finish();
    assert_eq!(
        log.series("mmv.app.level"),
        [Some(OwnedValue::Double(1.0)), None, Some(OwnedValue::Double(2.0))]
    );
    let on = Some(OwnedValue::String(b"on".to_vec()));
    assert_eq!(log.series("mmv.app.text"), [None, on.clone(), on]);
    assert_eq!(log.series("mmv.app.count"), u64s(&[1, 1, 1]));
    assert!(log.entries.iter().all(|entry| entry.sets == 3), "a set stays without values");
}

#[test]
fn sentinel_flag_of_a_live_file_takes_effect() {
    let mut rig = Rig::new();
    let registry = builder(&rig, "app").build().unwrap();
    let level: Gauge<i64> = registry.metric("level").build().unwrap();
    level.set(-1);
    registry.announce();
    rig.tick();
    let buckets = Buckets::new(0, 3);
    let took = registry.histogram("took").buckets(buckets).build().unwrap();
    took.record(2);
    registry.announce();
    // The first tick finds the new generation, the second one reads by it.
    rig.tick();
    rig.tick();
    level.set(-2);
    rig.tick();
    let log = rig.finish();
    let levels = log.series("mmv.app.level");
    assert_eq!(levels.first(), Some(&Some(OwnedValue::I64(-1))), "a value like others");
    assert_eq!(levels[levels.len() - 2..], [None, Some(OwnedValue::I64(-2))]);
    let keys = log.keys();
    let hit: Vec<&str> = keys
        .iter()
        .map(AsRef::as_ref)
        .filter(|key: &&str| key.starts_with("mmv.app.took.bucket"))
        .collect();
    assert_eq!(hit, ["mmv.app.took.bucket[2..3]"], "only the bucket that was hit");
}

#[test]
fn a_metric_that_changes_its_meaning_begins_a_new_archive() {
    let mut rig = Rig::new();
    let (count, registry) = counter_file(&rig, "app", "count");
    count.add(1);
    rig.tick();
    registry.withdraw();
    let registry = builder(&rig, "app").sealed().build().unwrap();
    let count: Gauge<f64> = registry.gauge("count").item(1).build().unwrap();
    registry.publish().unwrap();
    count.set(0.5);
    rig.tick();
    let archives = rig.archives();
    let _log = rig.finish();
    assert_eq!(archives.len(), 2);
    let logged: Vec<_> = archives.iter().flat_map(|base| entries_of(base)).collect();
    assert_eq!(logged[0].values["mmv.app.count"], OwnedValue::U64(1));
    assert_eq!(logged[1].values["mmv.app.count"], OwnedValue::U64(1), "its last value");
    assert_eq!(logged[2].values["mmv.app.count"], OwnedValue::Double(0.5));
}

#[test]
fn a_rebuilt_program_keeps_the_pmids_of_its_metrics() {
    let mut rig = Rig::new();
    for (run, names) in [&["a", "b"][..], &["new", "b", "a"], &["a"]].into_iter().enumerate() {
        let registry = builder(&rig, "app").sealed().build().unwrap();
        for name in names {
            let count: Counter<u64> = registry.counter(*name).build().unwrap();
            count.add(run as u64);
        }
        registry.publish().unwrap();
        rig.tick();
        if run == 0 {
            rig.restart();
        }
    }
    let log = rig.finish();
    assert_eq!(log.series("mmv.app.a"), u64s(&[1, 1, 2]), "of the second run of the agent");
    for (name, expected) in [("a", "70.1.1"), ("b", "70.1.2"), ("new", "70.1.3")] {
        let metric = log.archive().metadata().metric_by_name(&format!("mmv.app.{name}")).unwrap();
        assert_eq!(metric.desc.pmid.to_string(), expected, "{name}");
    }
}

#[test]
fn clock_set_back_begins_archive_in_sibling_directory() {
    let mut rig = Rig::new();
    let (_count, _published) = counter_file(&rig, "app", "count");
    rig.tick();
    rig.set_clock_back(Duration::from_secs(3600));
    rig.tick();
    rig.tick();
    let archives = rig.archives();
    let log = rig.finish();
    assert_eq!(archives.len(), 2);
    assert_eq!(archives[1].parent().unwrap().file_name(), Some(OsStr::new("step-1")));
    assert_eq!(log.entries.len(), 2);
    assert_eq!(log.marks(), 0);
}

#[test]
fn start_before_newest_archive_ends_uses_sibling_directory() {
    let mut rig = Rig::new();
    let (_count, _published) = counter_file(&rig, "app", "count");
    rig.tick();
    rig.tick();
    rig.restart();
    rig.tick();
    assert_eq!(rig.archives()[0].file_name(), Some(OsStr::new("20231114.22.13-01")));
    rig.restart();
    rig.set_clock_back(Duration::from_secs(2));
    rig.tick();
    assert_eq!(rig.archives()[0].parent().unwrap(), rig.host_directory().join("step-1"));
    rig.finish();
}

#[test]
fn dropped_samples_are_counted_and_marked() {
    let mut rig = Rig::with_queue(0);
    let (count, _published) = counter_file(&rig, "app", "count");
    rig.stall(|rig| {
        for _ in 0..5 {
            count.add(1);
            rig.tick();
        }
    });
    count.add(1);
    rig.tick();
    assert_eq!(rig.dropped(), 3);
    let log = rig.finish();
    assert_eq!(log.marks(), 1);
    assert_eq!(log.series("mmv.app.count"), u64s(&[1, 2, 6]));
    let marked: Vec<bool> = log.entries.iter().map(|entry| entry.mark).collect();
    assert_eq!(marked, [false, false, true, false]);
}

#[test]
fn sampling_continues_while_writing_fails() {
    let mut rig = Rig::new();
    let (count, _published) = counter_file(&rig, "app", "count");
    // A file in place of the host's directory.
    fs::create_dir_all(rig.archive_dir()).unwrap();
    let obstacle = rig.host_directory();
    File::create(&obstacle).unwrap();
    count.add(1);
    rig.tick();
    rig.tick();
    assert_eq!(rig.lost(), 2);
    fs::remove_file(&obstacle).unwrap();
    rig.tick();
    let log = rig.finish();
    assert_eq!(log.series("mmv.app.count"), u64s(&[1]));
}

#[test]
fn an_agent_on_threads_stops_with_a_last_sample() {
    let rig = Rig::new();
    let (count, _published) = counter_file(&rig, "app", "count");
    let base = rig.archive_dir().join("run");
    let destination = Destination::Base(base.clone());
    let settings = Settings::new(rig.mmv_dir(), destination, Duration::from_secs(3600));
    let agent = crate::run::start(&settings).unwrap();
    // The first sample is taken at once; it shows as a file.
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while !base.with_extension("0").exists() {
        assert!(std::time::Instant::now() < deadline, "no first sample");
        std::thread::yield_now();
    }
    count.add(5);
    let summary = agent.stop().unwrap();
    assert_eq!(summary.archiver.written, 2);
    assert_eq!(summary.archiver.archives, std::slice::from_ref(&base));
    let last = entries_of(&base).pop().unwrap();
    assert_eq!(last.values["mmv.app.count"], OwnedValue::U64(5));
}

#[test]
fn an_agent_ends_by_itself_after_the_requested_samples() {
    let rig = Rig::new();
    let destination = Destination::Directory(rig.archive_dir());
    let settings = Settings {
        samples: Some(3),
        ..Settings::new(rig.mmv_dir(), destination, Duration::from_millis(5))
    };
    let (_count, _published) = counter_file(&rig, "app", "count");
    let summary = crate::run::start(&settings).unwrap().wait().unwrap();
    assert_eq!(summary.sampler.records, 3);
    assert_eq!(summary.archiver.written, 3);
}
