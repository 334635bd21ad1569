use mmv_writer::pcp::{IndomMetricExt as _, RegistryExt as _};
use mmv_writer::{Counter, Registry};

use super::*;
use crate::limits::TokenBucket;
use crate::loading::admission::COST_OF_OPENING;

fn publish(dir: &std::path::Path, name: &str, process: bool) -> Registry {
    let registry =
        Registry::builder(name).sealed().directory(dir).process(process).build().unwrap();
    let _count: Counter<u64> = registry.counter("count").build().unwrap();
    registry.publish().unwrap()
}

fn refresh(sources: &mut Sources, now: Duration) {
    let mut reporter = Reporter::of_files(false);
    while sources.discover(now, &mut reporter) {}
    while sources.admit(now, &mut reporter) {}
}

fn names(sources: &Sources) -> Vec<&str> {
    sources.members().iter().map(|member| member.file.to_str().unwrap()).collect()
}

#[test]
fn hard_links_are_not_harvested_and_free_of_charge() {
    let dir = tempfile::tempdir().unwrap();
    let files = publish_all(dir.path(), &["victim"]);
    let mut sources = with_limits(dir.path(), Limits { files: 5, ..Limits::default() });
    refresh(&mut sources, Duration::ZERO);
    for number in 0..9 {
        std::fs::hard_link(files[0].path(), dir.path().join(format!("a{number}"))).unwrap();
    }
    refresh(&mut sources, Duration::from_secs(1));
    let _second = publish(dir.path(), "victims_second", false);
    refresh(&mut sources, Duration::from_secs(2));
    assert_eq!(names(&sources), ["victim", "victims_second"]);
    let reason = sources.watcher.table.get("a0".as_ref()).unwrap().reason();
    assert_eq!(reason, Some("it is already harvested under the name \"victim\""));
    // Another agent knows the name from the state file.
    let mut sources = with_limits(dir.path(), Limits { files: 5, ..Limits::default() });
    sources.known_files = HashSet::from(["victim".into()]);
    refresh(&mut sources, Duration::ZERO);
    assert_eq!(names(&sources), ["victim", "victims_second"]);
}

#[test]
fn file_that_replaces_a_listed_one_is_its_successor() {
    let dir = tempfile::tempdir().unwrap();
    let _files = publish_all(dir.path(), &["app"]);
    let mut sources = with_limits(dir.path(), Limits::default());
    let mut reporter = Reporter::of_files(false);
    while sources.discover(Duration::ZERO, &mut reporter) {}
    // Another run has the name before the listed file is opened.
    let _second = publish(dir.path(), "app", false);
    sources.admit(Duration::ZERO, &mut reporter);
    assert!(names(&sources).is_empty(), "it would have the place of the first one");
    refresh(&mut sources, Duration::from_secs(1));
    assert_eq!(names(&sources), ["app"]);
    assert!(sources.active[0].departure.is_none());
    refresh(&mut sources, Duration::from_secs(2));
    assert!(sources.active[0].departure.is_none(), "nothing has replaced it");
}

#[test]
fn successor_is_opened_once_the_last_values_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let _files = publish_all(dir.path(), &["app"]);
    let mut sources = with_limits(dir.path(), Limits::default());
    refresh(&mut sources, Duration::ZERO);
    let _second = publish(dir.path(), "app", false);
    let mut now = Duration::from_secs(1);
    for _ in 0..20 {
        refresh(&mut sources, now);
        now += Duration::from_millis(5);
    }
    assert!(sources.active[0].departure.is_some(), "its last values are not read yet");
    sources.close_read(&BTreeSet::from(["app".into()]), &mut Reporter::of_files(false));
    refresh(&mut sources, now);
    assert_eq!(names(&sources), ["app"]);
    assert!(sources.active[0].departure.is_none());
}

#[test]
fn files_beyond_the_descriptors_wait_until_others_are_gone() {
    mmv_format::mapping::guard::install().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let first = publish(dir.path(), "a", true);
    let _others = [("b", false), ("c", false)].map(|(name, fed)| publish(dir.path(), name, fed));
    let mut sources = with_limits(dir.path(), Limits::default());
    sources.admission.set_descriptors(4);
    refresh(&mut sources, Duration::ZERO);
    assert_eq!(names(&sources), ["a", "b"]);
    drop(first);
    refresh(&mut sources, Duration::from_secs(60));
    assert_eq!(names(&sources), ["b", "c"]);
}

fn publish_all(dir: &std::path::Path, names: &[&str]) -> Vec<Registry> {
    mmv_format::mapping::guard::install().unwrap();
    names.iter().map(|name| publish(dir, name, false)).collect()
}

fn with_limits(dir: &std::path::Path, limits: Limits) -> Sources {
    Sources::new(dir.to_owned(), None, limits, LoaderState::default())
}

#[test]
fn files_beyond_the_limits_wait_until_others_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = publish_all(dir.path(), &["a", "b", "c"]);
    for limits in
        [Limits { files: 2, ..Limits::default() }, Limits { values: 2, ..Limits::default() }]
    {
        let mut sources = with_limits(dir.path(), limits);
        refresh(&mut sources, Duration::ZERO);
        assert_eq!(names(&sources), ["a", "b"], "{limits:?}");
    }
    let mut sources = with_limits(dir.path(), Limits { files: 2, ..Limits::default() });
    refresh(&mut sources, Duration::ZERO);
    drop(files.remove(0));
    refresh(&mut sources, Duration::from_secs(60));
    assert_eq!(names(&sources), ["b", "c"]);
}

#[test]
fn metadata_and_address_space_of_all_files_have_limits() {
    let dir = tempfile::tempdir().unwrap();
    let _files = publish_all(dir.path(), &["a", "b", "c"]);
    let mut sources = with_limits(dir.path(), Limits::default());
    refresh(&mut sources, Duration::ZERO);
    let source = &sources.active[0].source;
    let metadata = source.metadata;
    let mapped = source.mapped();
    let two = |one: u64| 2 * one + one / 2;
    for limits in [
        Limits { metadata_total: two(metadata), ..Limits::default() },
        Limits { mapped: two(mapped), ..Limits::default() },
    ] {
        let mut sources = with_limits(dir.path(), limits);
        refresh(&mut sources, Duration::ZERO);
        assert_eq!(names(&sources), ["a", "b"], "{limits:?}");
        let waits = sources.watcher.table.get("c".as_ref()).unwrap();
        assert_eq!(waits.state, FileState::Waiting, "{:?}", waits.reason());
    }
}

#[test]
fn what_follows_the_values_of_a_file_takes_no_address_space() {
    let dir = tempfile::tempdir().unwrap();
    let files = publish_all(dir.path(), &["a", "b", "c"]);
    for file in &files {
        let file = std::fs::OpenOptions::new().write(true).open(file.path()).unwrap();
        file.set_len(1 << 40).unwrap();
    }
    let limits = Limits { mapped: 100_000, ..Limits::default() };
    let mut sources = with_limits(dir.path(), limits);
    refresh(&mut sources, Duration::ZERO);
    assert_eq!(names(&sources), ["a", "b", "c"]);
}

#[test]
fn a_file_with_too_much_metadata_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let _files = publish_all(dir.path(), &["a"]);
    let limits = Limits { metadata_bytes: 100, ..Limits::default() };
    let mut sources = with_limits(dir.path(), limits);
    refresh(&mut sources, Duration::ZERO);
    assert_eq!(names(&sources), [""; 0]);
}

#[test]
fn rereading_of_changing_metadata_is_limited() {
    let dir = tempfile::tempdir().unwrap();
    let files = publish_all(dir.path(), &["a", "b"]);
    let mut sources = with_limits(dir.path(), Limits::default());
    refresh(&mut sources, Duration::ZERO);
    // Three times what opening it costs, and a time in two hours.
    let bucket = TokenBucket::new(3.0 * COST_OF_OPENING, COST_OF_OPENING / 7200.0);
    sources.admission.set_reading("a", bucket);
    let file = std::fs::OpenOptions::new().write(true).open(files[0].path()).unwrap();
    let mut harvested = 0;
    for tick in 1..3600u64 {
        for at in [mmv_format::layout::Header::GENERATION1, mmv_format::layout::Header::GENERATION2]
        {
            let generation = (files[0].generation() + tick).to_ne_bytes();
            std::os::unix::fs::FileExt::write_all_at(&file, &generation, at as u64).unwrap();
        }
        let now = Duration::from_secs(tick);
        refresh(&mut sources, now);
        let checked = sources.active.iter();
        let checked = checked.map(|active| (active.ticket, active.source.check(true)));
        let checked: Vec<_> = checked.collect();
        for (ticket, checked) in checked {
            let Err(fault) = checked else { continue };
            let mut reporter = Reporter::of_files(false);
            sources.take_finding(ticket, SourceFinding::Fault(fault), now, &mut reporter);
        }
        assert_eq!(names(&sources).last(), Some(&"b"), "it is not touched by the other one");
        harvested += usize::from(names(&sources).len() == 2);
    }
    assert!((3..=5).contains(&harvested), "{harvested}");
}

#[test]
fn instance_that_was_away_between_two_plans_was_created_again() {
    mmv_format::mapping::guard::install().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let registry = Registry::builder("app").directory(dir.path());
    let registry = registry.announce_interval(Duration::ZERO).build().unwrap();
    let things = registry.indom("things").build().unwrap();
    let count = registry.counter("count").build_named(&things).unwrap();
    let add = |name| count.get_or_create(name).unwrap().inc();
    add("a");
    add("b");
    let mut sources = with_limits(dir.path(), Limits::default());
    refresh(&mut sources, Duration::ZERO);
    sources.hand_over();
    let reload = |sources: &mut Sources| {
        let mut reporter = Reporter::of_files(false);
        sources.reload("app".as_ref(), false, Duration::from_secs(1), &mut reporter);
        let counts: Vec<u32> = sources.members()[0].recreations.values().copied().collect();
        counts
    };
    assert!(things.remove("a"));
    assert_eq!(reload(&mut sources), [0; 0]);
    add("a");
    assert_eq!(reload(&mut sources), [1], "no plan knows that it was away");
    sources.hand_over();
    assert_eq!(reload(&mut sources), [1]);
    assert!(things.remove("a"));
    assert_eq!(reload(&mut sources), [1]);
    sources.hand_over();
    assert_eq!(reload(&mut sources), [0; 0], "a plan without it shows that it is gone");
}

#[test]
fn files_that_are_tried_again_and_again_do_not_delay_a_listing() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..4_500 {
        std::fs::write(dir.path().join(number.to_string()), "").unwrap();
    }
    let mut sources = with_limits(dir.path(), Limits::default());
    refresh(&mut sources, Duration::ZERO);
    let now = Duration::from_secs(60);
    let mut reporter = Reporter::of_files(false);
    let due = |sources: &Sources| sources.watcher.table.due(now, |_| false, usize::MAX).len();
    assert_eq!(due(&sources), 4_500);
    assert!(sources.discover(now, &mut reporter), "a listing is in progress");
    assert!(sources.admit(now, &mut reporter), "files are left");
    let tried = 4_500 - due(&sources);
    assert!((1..=100).contains(&tried), "{tried} files are tried beside a slice");
    assert!(!sources.discover(now, &mut reporter));
    assert!(sources.admit(now, &mut reporter));
    assert!(4_500 - due(&sources) > tried + 400, "a whole turn");
}
