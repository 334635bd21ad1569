use std::sync::Once;

use tempfile::TempDir;
use test_archives::Builder;

use super::*;
use crate::analysis::replay::Replay;
use crate::error::date::Date;
use crate::{Pmid, Source, Timestamp, Value, ValueType};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_nanos(i128::from(millis) * 1_000_000)
}

fn pmid(item: u32) -> Pmid {
    Pmid::new(70, 1, item).unwrap()
}

struct Plan<'a> {
    name: &'a str,
    host: &'a str,
    metric: (&'a str, Pmid, &'a str),
    instance: &'a str,
    /// Milliseconds of the records; a value is the time in seconds.
    times: &'a [i64],
}

/// An archive of one metric; what differs is replaced.
fn plan<'a>() -> Plan<'a> {
    Plan {
        name: "a",
        host: "host",
        metric: ("m", pmid(1), "u32 instant"),
        instance: "one",
        times: &[],
    }
}

fn write(directory: &TempDir, plan: &Plan<'_>) -> PathBuf {
    let base = directory.path().join(plan.name);
    let (name, pmid, description) = plan.metric;
    let mut builder = Builder::of_host(plan.host, &base)
        .metric_with(pmid, name, description)
        .in_domain(name, 1)
        .numbered_instances(name, [(1, plan.instance)]);
    for &millis in plan.times {
        builder = builder.row_at(at(millis), [(format!("{name}[1]"), millis / 1000)]);
    }
    builder.finish();
    base
}

/// Three archives; between the first two there is time, between the last two
/// less than a millisecond would need.
fn three() -> (TempDir, ArchiveSet) {
    let directory = tempfile::tempdir().unwrap();
    write(&directory, &Plan { name: "z", instance: "uno", times: &[10_000, 20_000], ..plan() });
    write(&directory, &Plan { name: "b", times: &[40_000, 50_000], ..plan() });
    write(&directory, &Plan { name: "a", times: &[50_000, 60_000], ..plan() });
    let set = ArchiveSet::open([directory.path()]).unwrap();
    (directory, set)
}

type Seen = (Timestamp, u32, bool);

const fn seen(record: &crate::Record<'_>) -> Seen {
    (record.timestamp(), record.archive(), record.is_mark())
}

fn forwards(mut records: crate::Records<'_>) -> Vec<Seen> {
    let mut all = Vec::new();
    while let Some(record) = records.next().unwrap() {
        all.push(seen(&record));
    }
    all
}

fn backwards(mut records: crate::Records<'_>) -> Vec<Seen> {
    let mut all = Vec::new();
    while let Some(record) = records.previous().unwrap() {
        all.push(seen(&record));
    }
    all.reverse();
    all
}

fn all_of_three() -> Vec<Seen> {
    let rows = [
        (10_000, 0, false),
        (20_000, 0, false),
        (20_001, 0, true),
        (40_000, 1, false),
        (50_000, 1, false),
        (50_000, 1, true),
        (50_000, 2, false),
        (60_000, 2, false),
    ];
    rows.map(|(millis, archive, is_mark)| (at(millis), archive, is_mark)).to_vec()
}

#[test]
fn archives_are_ordered_by_time_and_separated_by_marks() {
    let (_directory, set) = three();
    let source = Source::from(&set);
    assert_eq!((source.start(), source.end()), (at(10_000), at(60_000)));
    assert_eq!(forwards(source.records().unwrap()), all_of_three());
    assert_eq!(backwards(source.records_back_from(Timestamp::MAX).unwrap()), all_of_three());
}

#[test]
fn any_position_is_found_from_both_sides() {
    let (_directory, set) = three();
    let source = Source::from(&set);
    for millis in
        [0, 10_000, 15_000, 20_000, 20_001, 20_002, 40_000, 50_000, 55_000, 60_000, 1 << 40]
    {
        let time = at(millis);
        let (before, after): (Vec<Seen>, Vec<Seen>) =
            all_of_three().into_iter().partition(|(timestamp, ..)| *timestamp < time);
        let from = || source.records_from(time).unwrap();
        assert_eq!((backwards(from()), forwards(from())), (before, after), "from {millis}");
        let (before, after): (Vec<Seen>, Vec<Seen>) =
            all_of_three().into_iter().partition(|(timestamp, ..)| *timestamp <= time);
        let back = || source.records_back_from(time).unwrap();
        assert_eq!((backwards(back()), forwards(back())), (before, after), "back from {millis}");
    }
}

#[test]
fn turning_round_at_a_mark_between_archives_returns_it_again() {
    let (_directory, set) = three();
    let mut records = Source::from(&set).records().unwrap();
    for _ in 0..2 {
        records.next().unwrap();
    }
    for _ in 0..3 {
        assert_eq!(records.next().unwrap().map(|r| seen(&r)), Some((at(20_001), 0, true)));
        assert_eq!(records.previous().unwrap().map(|r| seen(&r)), Some((at(20_001), 0, true)));
    }
}

#[test]
fn instances_keep_their_history_over_archives() {
    let (_directory, set) = three();
    let (_, history) = set.metadata().indoms().next().unwrap();
    let names =
        history.states().map(|state| (state.timestamp, state.instances[0].name.to_string()));
    let expected = [(at(10_000), "uno".to_owned()), (at(40_000), "one".to_owned())];
    assert_eq!(names.collect::<Vec<_>>(), expected);
    assert_eq!(set.metadata().metrics().len(), 1);
}

#[test]
fn nothing_is_interpolated_between_archives() {
    let (_directory, set) = three();
    let mut selection = Replay::open(&set);
    selection.select("m");
    let whole = selection.load().unwrap();
    for (millis, expected) in [
        (10_000, Some(10)),
        (14_000, Some(10)),
        (30_000, None),
        (50_000, Some(50)),
        (59_000, Some(60)),
    ] {
        let value = |replay: &Replay<'_>| {
            replay.sample_at(at(millis)).unwrap().values[0].first().map(|(_, value)| match value {
                Value::U32(value) => *value,
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(value(&whole), expected, "{millis}");
        let mut selection = Replay::open(&set);
        selection.select("m");
        let searched = selection.load_spans(&[at(millis)..=at(millis)]).unwrap();
        assert_eq!(value(&searched), expected, "{millis}, searched");
    }
}

#[test]
fn an_archive_counts_once_and_one_without_records_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let a = write(&directory, &Plan { times: &[1000], ..plan() });
    let b = write(&directory, &Plan { name: "b", times: &[2000], ..plan() });
    let data = b.with_extension("0");
    std::fs::write(&data, &std::fs::read(&data).unwrap()[..808]).unwrap();
    let member = a.with_extension("meta");
    let set = ArchiveSet::open([&a, &member, &directory.path().to_owned()]).unwrap();
    assert_eq!(set.archives().len(), 1);
    assert!(matches!(ArchiveSet::open([&b]), Err(Error::NoData { .. })));
    assert!(matches!(ArchiveSet::open::<&Path>([]), Err(Error::NotFound { .. })));
}

#[track_caller]
fn refused(first: &Plan<'_>, second: &Plan<'_>) -> String {
    let directory = tempfile::tempdir().unwrap();
    let bases = [write(&directory, first), write(&directory, second)];
    let message = ArchiveSet::open(&bases).unwrap_err().to_string();
    message.replace(&format!("{}/", directory.path().display()), "")
}

#[test]
fn archives_of_two_hosts_are_refused() {
    let other = Plan { name: "b", host: "guest", times: &[2000], ..plan() };
    let message = refused(&Plan { times: &[1000], ..plan() }, &other);
    assert_eq!(message, "b: recorded on host guest, but a on host");
}

#[test]
fn archives_that_overlap_are_refused_with_both_times() {
    let a = Plan { times: &[1000, 3000], ..plan() };
    let message = refused(&a, &Plan { name: "b", times: &[2000], ..plan() });
    let expected = format!("b: begins at {}, before a ends at {}", Date(at(2000)), Date(at(3000)));
    assert_eq!(message, expected);
    let same_start = refused(&a, &Plan { name: "b", times: &[1000], ..plan() });
    assert!(same_start.contains("begins at"), "{same_start}");
}

/// What two archives contradict each other about, and the names of the metrics that are left.
#[track_caller]
fn contradictions(first: &Plan<'_>, second: &Plan<'_>) -> (Vec<String>, Vec<(String, Pmid)>) {
    let directory = tempfile::tempdir().unwrap();
    let bases = [write(&directory, first), write(&directory, second)];
    let set = ArchiveSet::open(&bases).unwrap();
    let path = format!("{}/", directory.path().display());
    let left_out = set.left_out().iter().map(|error| error.to_string().replace(&path, ""));
    let metrics = set.metadata().select("");
    let metrics = metrics.map(|(name, metric)| (name.to_owned(), metric.desc.pmid)).collect();
    let mut records = Source::from(&set).records().unwrap();
    let mut count = 0;
    while records.next().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, first.times.len() + second.times.len() + 1, "with the mark between");
    (left_out.collect(), metrics)
}

#[test]
fn larger_part_of_a_changed_metric_is_kept() {
    let counter = ("m", pmid(1), "u32 counter");
    let expected = |left_out: &str, kept: &str| {
        let (found, expected) =
            if left_out == "b" { ("counter", "instant") } else { ("instant", "counter") };
        format!(
            "{left_out}: metric m (70.1.1) has semantics {found}, but {expected} in {kept}: make \
             them two metrics first, with convert --rename and --pmid"
        )
    };
    let left = vec![("m".to_owned(), pmid(1))];
    for (times, left_out, kept) in [(&[2000][..], "b", "a"), (&[2000, 5000], "a", "b")] {
        let a = Plan { times: &[1000, 1500], ..plan() };
        let b = Plan { name: "b", metric: counter, times, ..plan() };
        assert_eq!(contradictions(&a, &b), (vec![expected(left_out, kept)], left.clone()));
    }
}

/// The values of the first metric in all records, as the merged descriptor has them.
fn values(set: &ArchiveSet) -> Vec<Value<'static>> {
    let value_type = set.metadata().metrics()[0].desc.value_type;
    let mut records = Source::from(set).records().unwrap();
    let mut values = Vec::new();
    while let Some(record) = records.next().unwrap() {
        for set in record.value_sets() {
            let found = set.values(value_type).map(|value| value.unwrap().1.as_f64().unwrap());
            values.extend(found.map(Value::Double));
        }
    }
    values
}

#[test]
fn numbers_of_other_types_and_units_are_converted() {
    let cases = [
        ("u32 instant", "u64 instant", ValueType::U64, [1.0, 2.0]),
        ("u64 instant", "u32 instant", ValueType::U64, [1.0, 2.0]),
        ("i32 instant", "u32 instant", ValueType::I64, [1.0, 2.0]),
        ("i64 instant", "u64 instant", ValueType::Double, [1.0, 2.0]),
        ("u32 instant", "double instant", ValueType::Double, [1.0, 2.0]),
        ("float instant", "u64 instant", ValueType::Double, [1.0, 2.0]),
        ("u64 instant Mbyte", "u64 instant Kbyte", ValueType::Double, [1024.0, 2.0]),
        ("u64 instant none", "u64 instant count", ValueType::U64, [1.0, 2.0]),
    ];
    for (first, second, value_type, expected) in cases {
        let directory = tempfile::tempdir().unwrap();
        for (name, description, second, value) in [("a", first, 1000, 1), ("b", second, 2000, 2)] {
            Builder::in_directory(directory.path(), name)
                .metric("m", description)
                .row_at(at(second), [("m", value)])
                .finish();
        }
        let set = ArchiveSet::open([directory.path()]).unwrap();
        assert_eq!(set.left_out().len(), 0, "{first}, {second}");
        let [metric] = set.metadata().metrics() else { panic!("{:?}", set.metadata().metrics()) };
        assert_eq!(metric.desc.value_type, value_type, "{first}, {second}");
        assert_eq!(values(&set), expected.map(Value::Double), "{first}, {second}");
    }
}

#[test]
fn a_name_that_moved_is_that_of_the_later_metric() {
    let a = Plan { times: &[1000], ..plan() };
    let moved = Plan { name: "b", metric: ("m", pmid(2), "u32 instant"), times: &[2000], ..plan() };
    let expected = "b: metric m is 70.1.2, but 70.1.1 in a: if they are the same, use \
                    convert --pmid m=70.1.1 first, else convert --rename";
    let left = vec![("m".to_owned(), pmid(2))];
    assert_eq!(contradictions(&a, &moved), (vec![expected.to_owned()], left));
}

#[test]
fn metrics_that_did_not_change_are_read_beside_one_that_did() {
    let directory = tempfile::tempdir().unwrap();
    let changed = [("a", "u32 instant"), ("b", "string instant"), ("c", "u32 instant")];
    for (number, (archive, hostile)) in (0..).zip(changed) {
        let mut builder = Builder::in_directory(directory.path(), archive);
        for (name, description) in
            [("hostile", hostile), ("kept", "u32 instant"), ("other", "u32 instant")]
        {
            builder = builder.metric(name, description).in_domain(name, 1);
        }
        builder.row_at(at(1000 * (number + 1)), [("kept[1]", number)]).finish();
    }
    let set = ArchiveSet::open([directory.path()]).unwrap();
    assert_eq!(set.left_out().len(), 1, "once: {:?}", set.left_out());
    let names: Vec<&str> = set.metadata().select("").map(|(name, _)| name).collect();
    assert_eq!(names, ["hostile", "kept", "other"]);
    assert_eq!(set.metadata().metric(pmid(1)).unwrap().desc.value_type, ValueType::U32);
    assert_eq!(set.metadata().metric(pmid(3)).unwrap().names, ["other"]);
}

#[test]
fn a_name_of_values_that_are_left_out_is_no_name_of_the_others() {
    let a = Plan { metric: ("n", pmid(1), "u32 counter"), times: &[1000], ..plan() };
    let b = Plan { name: "b", times: &[2000, 3000], ..plan() };
    let (left_out, names) = contradictions(&a, &b);
    assert_eq!(names, [("m".to_owned(), pmid(1))]);
    assert!(
        left_out[0].starts_with("a: metric n (70.1.1) has semantics counter, but "),
        "{left_out:?}"
    );
}

#[test]
fn a_metric_may_have_further_names_in_later_archives() {
    let directory = tempfile::tempdir().unwrap();
    let a = write(&directory, &Plan { times: &[1000], ..plan() });
    let b = write(
        &directory,
        &Plan { name: "b", metric: ("n", pmid(1), "u32 instant"), times: &[2000], ..plan() },
    );
    let set = ArchiveSet::open([b, a]).unwrap();
    assert_eq!(set.metadata().metrics()[0].names, ["m", "n"]);
}

fn times(set: &ArchiveSet) -> Vec<Timestamp> {
    let records = forwards(Source::from(set).records().unwrap());
    records.into_iter().filter(|(_, _, is_mark)| !is_mark).map(|(time, ..)| time).collect()
}

#[test]
fn archives_removed_while_read_are_read_to_their_end() {
    let (directory, before) = three();
    let expected = times(&before);
    let held = ArchiveSet::open_held([directory.path()]).unwrap();
    for name in ["z", "b", "a"] {
        crate::internal::remove_archive(&directory.path().join(name)).unwrap();
    }
    assert_eq!(times(&held), expected);
    assert_eq!(times(&held), expected, "a second time");
    assert!(before.archives()[0].open_volume(0).unwrap_err().is_missing_file());
}

#[test]
fn an_archive_that_is_removed_after_the_listing_is_left_out() {
    for (removed, left) in [(&["z"][..], &["b", "a"][..]), (&["a", "b", "z"], &["c"])] {
        let (directory, _) = three();
        let removal = Once::new();
        let open = |files: &MemberFiles| {
            if removed.iter().any(|name| files.base.ends_with(name)) {
                removal.call_once(|| {
                    for name in removed {
                        crate::internal::remove_archive(&directory.path().join(name)).unwrap();
                    }
                    if removed.len() == 3 {
                        // As by the program that writes the archives.
                        let times = &[70_000, 80_000];
                        write(&directory, &Plan { name: "c", times, ..plan() });
                    }
                });
            }
            Archive::open_listed(files, false)
        };
        let set = ArchiveSet::open_with(&[directory.path()], false, open).unwrap();
        let bases = set.archives().iter().map(Archive::base);
        let names: Vec<_> = bases.map(|base| base.file_name().unwrap()).collect();
        assert_eq!(names, left);
    }
}

#[cfg(feature = "compression")]
#[test]
fn volume_compressed_while_read_is_read_compressed() {
    use crate::writer::compress::Effort;
    use crate::writer::compress::compress_member;

    let (directory, set) = three();
    let expected = times(&set);
    for name in ["z.0", "b.0"] {
        let volume = directory.path().join(name);
        compress_member(&volume, crate::Compression::Zstd, Effort::Least, &mut || true).unwrap();
        assert!(!volume.exists());
    }
    assert_eq!(times(&set), expected);
}
