mod growth;

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tempfile::TempDir;

use super::*;
use crate::pcp::{
    Indom, IndomMetricExt as _, NamedFamily, RegistryBuilderExt as _, RegistryExt as _,
};
use crate::test_support::{contents_of, directory, name_of, names_in, values_of, word};
use crate::{Buckets, Counter, Gauge, Label, Registry, Text, Units};
use mmv_format::layout::{Flags, SectionKind};
use mmv_format::view::{Contents, Limits, MetricKind, Refusal};
use pcp_types::InstanceNumbers;

/// Returns options without absent values: the file has the requested ones only.
pub(crate) fn builder(directory: &TempDir) -> RegistryBuilder {
    Registry::builder("app").directory(directory.path()).cluster(7).no_sentinel()
}

/// Makes a registry whose changes are announced at once.
fn registry(directory: &TempDir) -> Registry {
    builder(directory).announce_interval(Duration::ZERO).build().unwrap()
}

fn open(registry: &Registry) -> File {
    File::open(registry.path()).unwrap()
}

fn contents(registry: &Registry) -> Contents {
    contents_of(registry.path())
}

fn values(registry: &Registry) -> Vec<(String, Option<String>, u64)> {
    values_of(registry.path())
}

/// Returns the number of a name that collides with no other.
pub(crate) fn number_of(name: &str) -> i32 {
    InstanceNumbers::default().choose(name).unwrap()
}

fn value(metric: &str, instance: Option<&str>, number: u64) -> (String, Option<String>, u64) {
    (metric.to_owned(), instance.map(str::to_owned), number)
}

fn used_instances(registry: &Registry) -> u32 {
    let state = registry.growing().unwrap().read();
    let first = state.registrations.files().next().unwrap();
    first.store.file.used(SectionKind::Instances)
}

#[test]
fn live_file_grows_by_metrics_of_every_kind() {
    let directory = directory();
    let registry = Registry::builder("app").directory(directory.path()).cluster(7);
    let registry = registry.announce_interval(Duration::ZERO).build().unwrap();
    let empty = contents(&registry);
    assert_eq!((empty.header.version, empty.metrics.len()), (3, 0));
    assert_eq!(empty.header.flags, Flags::PROCESS);
    registry.label(Label::new("tier", 2)).unwrap();
    let total = registry.counter("total").units(Units::count()).help("all").build().unwrap();
    let mut own = registry.gauge("own").owned().isolated().build().unwrap();
    let absent = registry.discrete::<i32>("absent").optional().build().unwrap();
    let mode = registry.text("mode").long_help("how").label(Label::new("a", 1)).build().unwrap();
    let mut busy = registry.metric::<crate::pcp::Elapsed>("busy").build().unwrap();
    total.add(5);
    own.set(0.5);
    mode.set("fast");
    busy.begin();
    let contents = contents(&registry);
    assert_eq!(contents.header.flags, Flags::PROCESS.with(Flags::SENTINEL));
    let names: Vec<_> = contents.metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["total", "own", "absent", "mode", "busy"]);
    assert_eq!(contents.metrics[0].short_help.as_deref(), Some("all"));
    assert_eq!(contents.metrics[3].long_help.as_deref(), Some("how"));
    assert_eq!(contents.metrics[4].kind, MetricKind::Elapsed);
    assert_eq!(contents.labels.len(), 2);
    let file = open(&registry);
    let cells: Vec<_> = contents.values.iter().map(|value| word(&file, value.cell)).collect();
    assert_eq!(cells[..3], [5, 0.5f64.to_bits(), u64::MAX]);
    assert_eq!(&word(&file, contents.values[3].string.unwrap()).to_ne_bytes(), b"fast\0\0\0\0");
    assert!(word(&file, contents.values[4].extra).cast_signed() < 0);
    assert_eq!(absent.value(), None);
}

#[test]
fn wrong_registrations_are_refused_and_leave_no_trace() {
    let directory = directory();
    let registry = registry(&directory);
    let _total = registry.counter("total").build().unwrap();
    let before = contents(&registry);
    assert!(matches!(
        registry.metric::<Gauge<u64>>("total").build().unwrap_err(),
        Error::NameTaken { .. }
    ));
    assert!(matches!(
        registry.metric::<Gauge<u64>>("total.max").build().unwrap_err(),
        Error::LeafAndBranch { .. }
    ));
    assert!(matches!(registry.text("x").optional().build(), Err(Error::NeedsSentinel { .. })));
    assert!(matches!(registry.indom("i").serial(2048).build(), Err(Error::OutOfRange { .. })));
    let other = super::tests::registry(&TempDir::new_in(directory.path()).unwrap());
    let foreign = other.indom("foreign").build().unwrap();
    let family = registry.counter("f").build_named(&foreign);
    assert!(matches!(family, Err(Error::OtherRegistry { .. })));
    let pinned = Registry::builder("old").directory(directory.path()).version(Version::V1);
    assert!(matches!(pinned.build(), Err(Error::Version { .. })));
    assert_eq!(contents(&registry), before);
}

#[test]
fn instance_is_created_once_with_values_on_request() {
    let directory = directory();
    let registry = registry(&directory);
    let paths = registry.indom("paths").help("what is asked for").build().unwrap();
    let hits = registry.counter("hits").build_named(&paths).unwrap();
    let size = registry.metric::<Gauge<u64>>("size").isolated().build_named(&paths).unwrap();
    assert!(hits.get("/a").is_none());
    hits.get_or_create("/a").unwrap().add(1);
    hits.get_or_create("/b").unwrap().add(2);
    hits.get_or_create("/a").unwrap().add(10);
    size.get_or_create("/b").unwrap().set(7);
    assert!(size.get("/a").is_none());
    assert_eq!(paths.names(), ["/a", "/b"]);
    assert_eq!(
        values(&registry),
        [value("hits", Some("/a"), 11), value("hits", Some("/b"), 2), value("size", Some("/b"), 7),]
    );
    assert_eq!(contents(&registry).indoms[0].short_help.as_deref(), Some("what is asked for"));
    assert!(matches!(hits.get_or_create(""), Err(Error::Length { .. })));
    assert!(matches!(hits.get_or_create("a\0b"), Err(Error::Nul { .. })));
}

#[test]
fn a_removed_instance_is_gone_and_its_handles_count_unseen() {
    let directory = directory();
    let registry = registry(&directory);
    let users = registry.indom("users").build().unwrap();
    let seen = registry.counter("seen").build_named(&users).unwrap();
    let mood = registry.text("mood").build_named(&users).unwrap();
    let ann = seen.get_or_create("ann").unwrap();
    let ann_mood: Text = mood.get_or_create("ann").unwrap();
    seen.get_or_create("bob").unwrap().add(2);
    ann.add(100);
    assert!(users.remove("ann"));
    assert!(!users.remove("ann"));
    ann.inc();
    ann_mood.set("lost");
    assert_eq!(ann.value(), 101);
    assert_eq!(values(&registry), [value("seen", Some("bob"), 2)]);
    assert_eq!(users.names(), ["bob"]);
    let ids = |registry| {
        contents(registry).indoms[0].instances.iter().map(|one| one.id.get()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&registry), [number_of("bob")]);
    std::thread::sleep(quarantine::QUARANTINE);
    seen.get_or_create("ann").unwrap().add(3);
    let contents = contents(&registry);
    assert_eq!(values(&registry), [value("seen", Some("bob"), 2), value("seen", Some("ann"), 3)]);
    assert_eq!(ids(&registry), [number_of("bob"), number_of("ann")]);
    assert_eq!(contents.indoms.len(), 1);
}

#[test]
fn a_removed_metric_is_gone_and_its_handles_count_unseen() {
    let directory = directory();
    let registry = registry(&directory);
    let users = registry.indom("users").build().unwrap();
    let labelled = registry.counter("seen").label(Label::new("a", 1).optional());
    let seen = labelled.build_named(&users).unwrap();
    let mood = registry.text("mood").build_named(&users).unwrap();
    let label = Label::new("b", 2);
    let plain = registry.metric::<Gauge<u64>>("plain").label(label.clone()).build().unwrap();
    let stays = registry.counter("stays").label(label.clone()).build().unwrap();
    let ann = seen.get_or_create("ann").unwrap();
    mood.get_or_create("ann").unwrap().set("good");
    assert!(registry.remove("seen") && registry.remove("plain") && registry.remove("mood"));
    assert!(!registry.remove("seen") && !registry.remove("other"));
    ann.add(3);
    plain.set(4);
    stays.add(5);
    seen.get_or_create("ann").unwrap().inc();
    seen.get_or_create("bob").unwrap().inc();
    mood.get_or_create("bob").unwrap().set("bad");
    assert_eq!((ann.value(), plain.value()), (4, 4));
    assert_eq!(seen.with("bob", Counter::value).unwrap(), 1);
    let found = contents(&registry);
    assert_eq!(found.metrics.len(), 1);
    assert_eq!(found.labels.len(), 1);
    assert_eq!(values(&registry), [value("stays", None, 5)]);
    assert_eq!(users.names(), ["ann"]);
    // As another kind, and as a branch; the old handles are not on it.
    let again = registry.gauge("seen.again").label(label).build().unwrap();
    let family = registry.counter("plain").build_named(&users).unwrap();
    family.get_or_create("ann").unwrap().add(7);
    again.set(0.0);
    ann.inc();
    plain.set(9);
    assert!(users.remove("ann") && users.is_empty());
    let mut items: Vec<_> = contents(&registry).metrics.iter().map(|one| one.item).collect();
    items.sort_unstable();
    assert_eq!(items, [4, 5, 6], "an item is used once");
    assert_eq!(values(&registry), [value("stays", None, 5), value("seen.again", None, 0)]);
    assert_eq!(contents(&registry).labels.len(), 2);
}

#[test]
fn removed_metric_of_an_overflow_file_leaves_its_place_unused() {
    let directory = directory();
    let registry = registry(&directory);
    let add = |index: usize| registry.counter(format!("m{index}")).build().unwrap();
    let handles: Vec<_> = (0..1100).map(add).collect();
    let overflow = registry.overflow();
    assert_eq!(overflow.len(), 1);
    assert!(registry.remove("m1090") && registry.remove("m3"));
    let again = registry.counter("m3").build().unwrap();
    std::thread::sleep(Duration::from_millis(150));
    registry.announce();
    handles.iter().for_each(Counter::inc);
    again.add(2);
    let (first, second) = (values(&registry), values_of(&overflow[0]));
    assert_eq!((first.len(), second.len()), (1022, 1100 - 1023));
    assert!(first.iter().all(|(name, _, count)| name != "m3" && *count == 1));
    assert!(second.iter().all(|(name, ..)| !name.ends_with("m1090")));
    assert_eq!(second.last().map(|(name, _, count)| (name.as_str(), *count)), Some(("app.m3", 2)));
}

#[test]
fn threads_count_while_their_metrics_are_removed() {
    let directory = directory();
    let registry = registry(&directory);
    let users = registry.indom("users").build().unwrap();
    for round in 0..50 {
        let seen = registry.counter("seen").build_named(&users).unwrap();
        let plain = registry.counter("plain").build().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (seen, plain) = (&seen, &plain);
                scope.spawn(move || {
                    for index in 0..50 {
                        seen.with(&format!("{thread}.{}", index % 5), Counter::inc).unwrap();
                        plain.inc();
                    }
                });
            }
            assert!(registry.remove("seen") && registry.remove("plain"), "{round}");
        });
        assert_eq!(plain.value(), 100);
    }
    registry.announce();
    assert!(values(&registry).is_empty() && contents(&registry).metrics.is_empty());
}

#[test]
fn a_handle_on_loan_counts_and_its_instance_is_created_for_it() {
    let directory = directory();
    let registry = registry(&directory);
    let paths = registry.indom("paths").build().unwrap();
    let hits = registry.counter("hits").build_named(&paths).unwrap();
    let size = registry.metric::<Gauge<u64>>("size").build_named(&paths).unwrap();
    for name in ["/a", "/b", "/a"] {
        hits.with(name, Counter::inc).unwrap();
    }
    assert_eq!(size.with("/b", Gauge::value).unwrap(), 0);
    assert!(matches!(hits.with("", Counter::inc), Err(Error::Length { .. })));
    let b = hits.get("/b").unwrap();
    assert!(paths.remove("/b"));
    b.add(10);
    assert!(hits.get("/b").is_none() && size.get("/b").is_none());
    assert_eq!(hits.with("/b", Counter::value).unwrap(), 0, "a new instance");
    assert_eq!(values(&registry), [value("hits", Some("/a"), 2), value("hits", Some("/b"), 0)]);
}

#[test]
fn a_removal_waits_for_handles_on_loan() {
    let directory = directory();
    let registry = registry(&directory);
    let paths = registry.indom("paths").build().unwrap();
    let hits = registry.counter("hits").build_named(&paths).unwrap();
    let (borrowed, removed) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            hits.with("/a", |handle| {
                borrowed.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(50));
                assert!(!removed.load(Ordering::SeqCst));
                handle.inc();
            })
        });
        while !borrowed.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        assert!(paths.remove("/a"));
        removed.store(true, Ordering::SeqCst);
    });
    assert!(hits.get("/a").is_none());
}

#[test]
fn place_is_reused_after_its_last_handle() {
    let directory = directory();
    let registry = registry(&directory);
    let users = registry.indom("users").build().unwrap();
    let seen = registry.counter("seen").build_named(&users).unwrap();
    let name = registry.text("name").build_named(&users).unwrap();
    let slots = || used_instances(&registry);
    let held = seen.get_or_create("held").unwrap();
    held.add(9);
    seen.get_or_create("free").unwrap().add(9);
    name.get_or_create("free").unwrap().set("of the first");
    let removed = std::time::Instant::now();
    users.remove("held");
    users.remove("free");
    let _soon = seen.get_or_create("soon").unwrap();
    if removed.elapsed() >= quarantine::QUARANTINE {
        eprintln!("skipped: the machine stalled for {:?}", removed.elapsed());
        return;
    }
    assert_eq!(slots(), 3, "too soon");
    std::thread::sleep(quarantine::QUARANTINE);
    let later = seen.get_or_create("later").unwrap();
    assert_eq!(slots(), 3);
    assert_eq!(later.value(), 0);
    assert!(name.get("later").is_none());
    let _more = seen.get_or_create("more").unwrap();
    assert_eq!(slots(), 4, "the other place is held");
    assert_eq!(
        values(&registry),
        ["later", "soon", "more"].map(|name| value("seen", Some(name), 0)).to_vec().as_slice()
    );
    held.inc();
    assert_eq!(held.value(), 10);
}

#[test]
fn what_does_not_fit_is_an_error_that_names_it() {
    let directory = directory();
    let builder = builder(&directory).max_instances(2).max_values(4).max_texts(0);
    let registry = builder.build().unwrap();
    let users = registry.indom("users").build().unwrap();
    let seen = registry.counter("seen").build_named(&users).unwrap();
    let alone = registry.counter("alone").isolated().build_named(&users).unwrap();
    let _a = seen.get_or_create("a").unwrap();
    let _b = seen.get_or_create("b").unwrap();
    let error = seen.get_or_create("c").unwrap_err();
    assert!(matches!(error, Error::Full { what: "instances", max: 2, .. }), "{error}");
    let error = alone.get_or_create("a").unwrap_err();
    assert!(matches!(error, Error::Full { what: "values", max: 4, .. }), "{error}");
    registry.announce();
    assert_eq!(contents(&registry).values.len(), 2);
}

#[test]
fn only_what_is_used_takes_disk_space() {
    let directory = directory();
    let registry = registry(&directory);
    let used = || open(&registry).metadata().unwrap().blocks() * 512;
    assert!(used() <= 64 << 10, "{}", used());
    let users = registry.indom("users").build().unwrap();
    let seen = registry.counter("seen").build_named(&users).unwrap();
    for index in 0..1000 {
        let _handle = seen.get_or_create(&index.to_string()).unwrap();
    }
    let instances = 1000 * (32 + 24 + 256 + 32);
    assert!((instances..instances + (512 << 10)).contains(&used()), "{}", used());
}

/// Registers a domain of two instances, two families that have a value for one of them each,
/// and a family after them.
fn with_gaps(registry: &Registry) -> (Indom, NamedFamily<Counter<u64>>, NamedFamily<Text>) {
    let users = registry.indom("users").build().unwrap();
    let seen: NamedFamily<Counter<u64>> = registry.counter("seen").build_named(&users).unwrap();
    let mood: NamedFamily<Text> = registry.text("mood").build_named(&users).unwrap();
    seen.with("ann", |seen| seen.add(3)).unwrap();
    mood.with("bob", |mood| mood.set("fine")).unwrap();
    let level: NamedFamily<Gauge<f64>> = registry.gauge("level").build_named(&users).unwrap();
    level.with("bob", |level| level.set(0.5)).unwrap();
    registry.announce();
    (users, seen, mood)
}

#[test]
fn each_instance_has_a_value_or_none_in_every_family() {
    let absent = u64::MAX;
    let (dir, other) = (directory(), directory());
    let with = Registry::builder("app").directory(dir.path()).build().unwrap();
    let (_users, seen, mood) = with_gaps(&with);
    let value = |metric: &str, instance: &str, number| value(metric, Some(instance), number);
    let half = 0.5f64.to_bits();
    let mut found = values(&with);
    found.sort();
    found.retain(|(metric, ..)| metric != "mood");
    let expected = [
        value("level", "ann", absent),
        value("level", "bob", half),
        value("seen", "ann", 3),
        value("seen", "bob", absent),
    ];
    assert_eq!(found, expected);
    let text = |instance: &str| {
        let contents = contents(&with);
        let is_its = |value: &&mmv_format::view::ValueLocation| {
            value.string.is_some() && name_of(&contents, 1, value.instance.unwrap()) == instance
        };
        word(&open(&with), contents.values.iter().find(is_its).unwrap().string.unwrap())
    };
    assert_eq!((text("ann"), &text("bob").to_ne_bytes()), (0, b"fine\0\0\0\0"));
    // It is a value once it is requested, in its place.
    let count = contents(&with).values.len();
    seen.with("bob", |seen| assert_eq!(seen.value(), 0)).unwrap();
    mood.with("ann", |mood| mood.set("good")).unwrap();
    with.announce();
    assert!(values(&with).contains(&value("seen", "bob", 0)));
    assert_eq!((count, contents(&with).values.len()), (6, 6));
    assert_eq!(&text("ann").to_ne_bytes(), b"good\0\0\0\0");
    // Without a sign of absence there is no value.
    assert!(contents(&with).header.flags.contains(Flags::SENTINEL));
    let without = builder(&other).build().unwrap();
    let _families = with_gaps(&without);
    assert_eq!(values(&without).len(), 3);
    assert!(!contents(&without).header.flags.contains(Flags::SENTINEL));
}

#[test]
fn live_file_gets_the_sentinel_flag_when_needed() {
    let gauge = |registry: &Registry| {
        drop(registry.metric::<Gauge<i64>>("depth").optional().build().unwrap());
    };
    let histogram = |registry: &Registry| {
        let buckets = Buckets::new(0, 3);
        drop(registry.histogram("latency").buckets(buckets).build().unwrap());
    };
    let family = |registry: &Registry| {
        let (first, second) = (registry.indom("a").build(), registry.indom("b").build());
        let _on_another = registry.text("x").build_named(&second.unwrap()).unwrap();
        let first = first.unwrap();
        let one = registry.text("one").build_named(&first).unwrap();
        let _ann = one.get_or_create("ann").unwrap();
        registry.announce();
        assert_eq!(contents(registry).header.flags, Flags::PROCESS, "with a family a domain");
        let _two = registry.text("two").build_named(&first).unwrap();
    };
    for needy in [&gauge as &dyn Fn(&Registry), &histogram, &family] {
        let directory = directory();
        let registry = Registry::builder("app").directory(directory.path());
        let registry = registry.build().unwrap();
        let level = registry.metric::<Gauge<i64>>("level").build().unwrap();
        level.set(-1);
        registry.announce();
        assert_eq!(contents(&registry).header.flags, Flags::PROCESS);
        needy(&registry);
        registry.announce();
        let after = contents(&registry);
        assert_eq!(after.header.flags, Flags::PROCESS.with(Flags::SENTINEL));
        assert_eq!(after.skipped, []);
    }
}

#[test]
fn an_instance_in_a_used_place_has_no_value_of_the_one_before() {
    let directory = directory();
    let registry = Registry::builder("app").directory(directory.path());
    let registry = registry.announce_interval(Duration::ZERO).build().unwrap();
    let (users, _seen, mood) = with_gaps(&registry);
    mood.with("ann", |mood| mood.set("old")).unwrap();
    assert!(users.remove("ann"));
    registry.announce();
    assert_eq!(values(&registry).len(), 3);
    std::thread::sleep(quarantine::QUARANTINE);
    mood.with("eve", |mood| mood.set("new")).unwrap();
    assert_eq!(used_instances(&registry), 2, "in the place of ann");
    registry.announce();
    let of_eve: Vec<_> = values(&registry)
        .into_iter()
        .filter(|(_, name, _)| name.as_deref() == Some("eve"))
        .collect();
    assert_eq!(of_eve.len(), 3);
    assert!(of_eve.contains(&value("seen", Some("eve"), u64::MAX)), "{of_eve:?}");
    assert!(of_eve.contains(&value("level", Some("eve"), u64::MAX)), "{of_eve:?}");
}

#[test]
fn absent_values_leave_room_for_others() {
    let directory = directory();
    let registry = Registry::builder("app").directory(directory.path());
    let registry = registry.max_values(8).build().unwrap();
    let users = registry.indom("users").build().unwrap();
    let families = ["a", "b", "c"].map(|name| {
        let family: NamedFamily<Counter<u64>> = registry.counter(name).build_named(&users).unwrap();
        family
    });
    for name in ["u1", "u2", "u3"] {
        families[0].with(name, Counter::inc).unwrap();
    }
    registry.announce();
    // Three and two others; then half of the room is used.
    assert_eq!(values(&registry).len(), 6);
    for name in ["u2", "u3"] {
        families[1].with(name, Counter::inc).unwrap();
    }
    registry.announce();
    assert_eq!(values(&registry).len(), 7);
}

fn size(registry: &Registry) -> u64 {
    open(registry).metadata().unwrap().len()
}

#[test]
fn a_file_is_as_long_as_its_use_makes_it() {
    let directory = directory();
    let registry = Registry::builder("app").directory(directory.path()).build().unwrap();
    let counter = |index: u64| {
        let counter = registry.counter(format!("m{index}")).help("help").build().unwrap();
        counter.add(index);
        counter
    };
    let one = counter(0);
    assert!(size(&registry) < 224 << 10, "{}", size(&registry));
    let all: Vec<_> = (1..1000).map(counter).collect();
    // Texts take 512 KB, all that is not used 800.
    assert!(size(&registry) < 1300 << 10, "{}", size(&registry));
    registry.announce();
    let expected: Vec<_> =
        (0..1000).map(|index| value(&format!("m{index}"), None, index)).collect();
    assert_eq!(values(&registry), expected);
    assert_eq!((one.value(), all.len(), names_in(&directory)), (0, 999, vec!["app".to_owned()]));
    // Instances need room that is kept before texts.
    let users = registry.indom("users").build().unwrap();
    let seen = registry.counter("seen").build_named(&users).unwrap();
    let _handle: Counter<u64> = seen.get_or_create("ann").unwrap();
    assert_eq!(names_in(&directory), ["app", "app.2"]);
}

#[test]
fn instances_are_read_with_names_texts_and_help() {
    let directory = directory();
    let registry = builder(&directory).build().unwrap();
    let users = registry.indom("users").help("who").build().unwrap();
    let seen = registry.counter("seen").build_named(&users).unwrap();
    let mood: NamedFamily<Text> = registry.text("mood").build_named(&users).unwrap();
    let add = |index: u64| {
        let name = format!("u{index}");
        seen.get_or_create(&name).unwrap().add(index);
        mood.get_or_create(&name).unwrap().set(&name);
    };
    (0..40).for_each(add);
    assert!(size(&registry) < 256 << 10, "{}", size(&registry));
    (40..400).for_each(add);
    let kept = (1 << 18) * 32 + (1 << 16) * (32 + 24);
    assert!((kept..kept + (1 << 20)).contains(&size(&registry)), "{}", size(&registry));
    let late = registry.indom("late").help("later").build().unwrap();
    assert!(users.remove("u7") && late.is_empty());
    registry.announce();
    let contents = contents(&registry);
    assert_eq!(contents.indom(1).unwrap().short_help.as_deref(), Some("who"));
    assert_eq!(contents.indom(2).unwrap().short_help.as_deref(), Some("later"));
    let values = values(&registry);
    assert_eq!(values.len(), 2 * 399);
    for index in (0..400).filter(|index| *index != 7) {
        assert!(values.contains(&value("seen", Some(&format!("u{index}")), index)), "{index}");
    }
    let file = open(&registry);
    for value in contents.values.iter().filter(|value| value.string.is_some()) {
        let name = name_of(&contents, 1, value.instance.unwrap());
        let text = word(&file, value.string.unwrap()).to_ne_bytes();
        assert!(text.starts_with(name.as_bytes()), "{name}: {text:?}");
    }
}

#[test]
fn growth_is_announced_a_while_after_the_file_became_longer() {
    let directory = directory();
    let registry = registry(&directory);
    let before = (size(&registry), contents(&registry).header.generation);
    let start = Instant::now();
    let users = registry.indom("users").build().unwrap();
    let seen = registry.counter("seen").build_named(&users).unwrap();
    for index in 0..200 {
        let _handle: Counter<u64> = seen.get_or_create(&index.to_string()).unwrap();
    }
    let late = Instant::now();
    assert!(size(&registry) > before.0);
    let counted = contents(&registry).values.len();
    // Unless this test itself was held up.
    assert!(counted < 200 || start.elapsed() > quarantine::QUARANTINE, "{counted}");
    registry.announce();
    assert_eq!(contents(&registry).values.len(), 200);
    assert!(contents(&registry).header.generation > before.1);
    assert!(start.elapsed() >= quarantine::QUARANTINE, "{:?}", late.elapsed());
}

#[test]
fn changes_are_announced_at_once_and_then_at_the_set_pace() {
    let directory = directory();
    let pace = Duration::from_millis(40);
    let registry = builder(&directory).announce_interval(pace).build().unwrap();
    let names = |contents: &Contents| contents.metrics.len();
    std::thread::sleep(pace);
    let start = Instant::now();
    let _first = registry.counter("first").build().unwrap();
    let seen = contents(&registry);
    assert_eq!(names(&seen), 1);
    let _second = registry.counter("second").build().unwrap();
    let _third = registry.counter("third").build().unwrap();
    while contents(&registry).header.generation == seen.header.generation {
        assert!(start.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(start.elapsed() >= pace, "{:?}", start.elapsed());
    while names(&contents(&registry)) < 3 {
        assert!(start.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn families_outlive_their_file() {
    let directory = directory();
    let registry = registry(&directory);
    let path = registry.path().to_owned();
    let users = registry.indom("users").build().unwrap();
    let seen = registry.counter("seen").build_named(&users).unwrap();
    drop(registry);
    assert!(path.exists());
    seen.with("ann", Counter::inc).unwrap();
    drop((seen, users));
    assert!(!path.exists());
}

#[test]
fn a_withdrawn_registry_counts_on() {
    let directory = directory();
    let registry = registry(&directory);
    let users = registry.indom("users").build().unwrap();
    let seen = registry.counter("seen").build_named(&users).unwrap();
    assert!(registry.is_published());
    registry.withdraw();
    assert!(!registry.is_published() && !registry.path().exists());
    let late = seen.get_or_create("late").unwrap();
    late.inc();
    assert_eq!((late.value(), users.len()), (1, 1));
}

#[test]
fn a_registry_that_is_dropped_announces_its_last_changes() {
    let directory = directory();
    let registry = builder(&directory).announce_interval(Duration::from_hours(1)).build().unwrap();
    let file = open(&registry);
    registry.counter("early").build().unwrap().add(1);
    registry.announce();
    registry.counter("late").build().unwrap().add(2);
    let read = || Contents::read(&file, &Limits::default()).unwrap();
    assert_eq!(read().metrics.len(), 1);
    drop(registry);
    let contents = read();
    let names: Vec<&str> = contents.metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["early", "late"]);
    assert_eq!(word(&file, contents.values[1].cell), 2);
}

/// Checks what a reader at full speed read: each instance under its own name, and a value
/// that it has had.
fn check_picture(contents: &Contents, file: &File, counted: u64) {
    assert_eq!(contents.skipped, []);
    for metric in &contents.metrics {
        assert!(["first", "count"].contains(&metric.name.as_str()), "{metric:?}");
    }
    let mut names = HashMap::new();
    for instance in contents.indoms.iter().flat_map(|indom| &indom.instances) {
        assert_eq!(instance.id.get(), number_of(&instance.name), "{}", instance.name);
        names.insert(instance.id, &instance.name);
    }
    for value in &contents.values {
        let Some(id) = value.instance else { continue };
        let index: u64 = names[&id].strip_prefix('i').unwrap().parse().unwrap();
        let found = word(file, value.cell);
        assert!(found == 0 || found == counted + index, "{found} of {id:?}");
    }
}

/// Reads as often as it can until stopped; returns how many snapshots it
/// got, and how many instances the last one had.
fn read_at_full_speed(file: &File, stop: &AtomicBool, counted: u64) -> (u32, usize) {
    let mut pictures = 0;
    loop {
        let last = stop.load(Ordering::Acquire);
        match Contents::read(file, &Limits::default()) {
            Ok(contents) => {
                check_picture(&contents, file, counted);
                pictures += 1;
                if last {
                    let users = contents.indoms.first();
                    return (pictures, users.map_or(0, |indom| indom.instances.len()));
                }
            }
            Err(Refusal::NotReady { .. } | Refusal::Changed { .. } | Refusal::Grew { .. }) => {}
            Err(refusal) => panic!("{refusal}"),
        }
    }
}

#[test]
fn reader_sees_no_half_change_of_10_000_instances() {
    let directory = directory();
    let registry = builder(&directory).announce_interval(Duration::from_millis(2)).build().unwrap();
    let first = registry.counter("first").build().unwrap();
    let file = open(&registry);
    let stop = AtomicBool::new(false);
    let (pictures, instances) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_at_full_speed(&file, &stop, 1000));
        let things = registry.indom("things").build().unwrap();
        let count = registry.counter("count").build_named(&things).unwrap();
        for index in 0..10_000u64 {
            let handle: Counter<u64> = count.get_or_create(&format!("i{index}")).unwrap();
            handle.add(1000 + index);
            first.inc();
            if index % 100 == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        registry.announce();
        stop.store(true, Ordering::Release);
        reader.join().unwrap()
    });
    assert_eq!(instances, 10_000);
    assert!(pictures > 10, "{pictures}");
    let contents = contents(&registry);
    let sum: u64 = contents.values.iter().skip(1).map(|value| word(&file, value.cell)).sum();
    assert_eq!(sum, 10_000 * 1000 + 9_999 * 10_000 / 2);
    assert_eq!(word(&file, contents.values[0].cell), 10_000);
}

#[test]
fn reader_never_takes_an_instance_for_its_predecessor() {
    let directory = directory();
    let builder = builder(&directory).announce_interval(Duration::from_millis(5)).max_instances(64);
    let registry = builder.build().unwrap();
    let file = open(&registry);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_at_full_speed(&file, &stop, 0));
        let things = registry.indom("things").build().unwrap();
        let count = registry.counter("count").build_named(&things).unwrap();
        let start = Instant::now();
        let mut next = 0u64;
        while start.elapsed() < Duration::from_millis(1200) {
            // Half of the places, so that each round needs those of the one before last.
            for index in next..next + 32 {
                count.get_or_create(&format!("i{index}")).unwrap().add(index);
            }
            std::thread::sleep(Duration::from_millis(10));
            for index in next..next + 32 {
                assert!(things.remove(&format!("i{index}")));
            }
            registry.announce();
            next += 32;
            std::thread::sleep(quarantine::QUARANTINE);
        }
        assert!(next > 64, "places were used again");
        stop.store(true, Ordering::Release);
        reader.join().unwrap();
    });
}

#[test]
fn many_threads_ask_for_the_same_instances_and_no_count_is_lost() {
    let directory = directory();
    let registry = builder(&directory).build().unwrap();
    let things = registry.indom("things").build().unwrap();
    let count = registry.counter("count").build_named(&things).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for index in 0..20_000 {
                    count.get_or_create(&format!("i{}", index % 500)).unwrap().inc();
                }
            });
        }
    });
    registry.announce();
    let values = values(&registry);
    assert_eq!(values.len(), 500);
    assert!(values.iter().all(|(_, _, count)| *count == 160));
}

#[test]
fn instances_that_come_and_go_reuse_their_room() {
    let directory = directory();
    let registry = builder(&directory).announce_interval(Duration::from_millis(1)).build().unwrap();
    let things = registry.indom("things").build().unwrap();
    let count = registry.counter("count").build_named(&things).unwrap();
    let places = || used_instances(&registry);
    for round in 0..20 {
        for index in 0..5_000 {
            let name = format!("i{}", round * 5_000 + index);
            count.get_or_create(&name).unwrap().inc();
            assert!(things.remove(&name));
        }
        registry.announce();
        std::thread::sleep(quarantine::QUARANTINE);
        assert!(places() <= 5_000, "{} in round {round}", places());
    }
    assert!(things.is_empty() && contents(&registry).values.is_empty());
}

#[test]
fn live_handles_and_registries_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Registry>();
    shared::<Indom>();
    shared::<NamedFamily<Gauge<f32>>>();
}
