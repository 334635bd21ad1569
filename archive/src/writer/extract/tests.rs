mod events;
mod order;
mod rules;

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use test_archives::Builder;

use super::*;
use crate::check::Severity;
use crate::{
    Archive, ArchiveSet, Error, FetchResult, InDom, Instance, InstanceId, LabelClass, LabelSet,
    LabelTarget, MetricDesc, OwnedValue, Semantics, TextKind, TextTarget, Units, ValueSet,
    ValueType, Version, WriterLabel, WriterOptions, check,
};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_nanos(i128::from(millis) * 1_000_000)
}

fn id(number: i32) -> InstanceId {
    InstanceId::new(number).unwrap()
}

fn indom() -> InDom {
    InDom::new(70, 1).unwrap()
}

fn descs() -> [MetricDesc; 2] {
    let desc = |item, value_type, indom, semantics| MetricDesc {
        pmid: Pmid::new(70, 1, item).unwrap(),
        value_type,
        indom,
        semantics,
        units: Units::count(),
    };
    [
        desc(1, ValueType::U32, None, Semantics::Instant),
        desc(2, ValueType::U64, Some(indom()), Semantics::Counter),
    ]
}

fn writer(base: &Path) -> ArchiveWriter {
    let label = WriterLabel {
        pid: 1,
        hostname: "host".into(),
        timezone: "UTC".into(),
        zoneinfo: "".into(),
    };
    ArchiveWriter::create_with(base, label, WriterOptions::default()).unwrap()
}

fn level(value: i64) -> ValueSet {
    ValueSet { pmid: descs()[0].pmid, values: Ok(vec![(None, OwnedValue::U32(value as u32))]) }
}

fn counts(value: i64, instances: &[i32]) -> ValueSet {
    let values = instances.iter().map(|n| (Some(id(*n)), OwnedValue::U64(value as u64)));
    ValueSet { pmid: descs()[1].pmid, values: Ok(values.collect()) }
}

/// Ten records, a second apart, and a mark at 4.5 s. The level is in all of
/// them, the counter in the even ones. Its domain is {1}, from 3 s on {1, 2},
/// from 6 s on {2}.
fn archive(directory: &TempDir) -> Archive {
    let mut builder = Builder::in_directory(directory.path(), "old")
        .metric("acme.level", "u32 instant count")
        .metric("acme.made.count", "u64 counter count")
        .in_domain("acme.made.count", 1)
        .help("acme.level", "how high")
        .help("acme.made.count", "how many")
        .labels("acme.level", &[("unit", "m")]);
    for n in 0..10 {
        let instances: &[(i32, &str)] = match n {
            0..3 => &[(1, "i1 x")],
            3..6 => &[(1, "i1 x"), (2, "i2 x")],
            _ => &[(2, "i2 x")],
        };
        let counts = instances.iter().filter(|_| n % 2 == 0);
        let counts = counts.map(|(id, _)| (format!("acme.made.count[{id}]"), n));
        let values = [("acme.level".to_owned(), n)].into_iter().chain(counts);
        builder = builder
            .numbered_instances("acme.made.count", instances.iter().copied())
            .row_at(at(i64::from(n) * 1000), values);
        if n == 4 {
            builder = builder.mark_at(at(4500));
        }
    }
    builder.finish();
    Archive::open(directory.path().join("old")).unwrap()
}

fn selection<'a>(source: impl Into<Source<'a>>, names: &[&str]) -> Selection<'a> {
    let mut selection = Selection::new(source);
    for name in names {
        assert!(selection.select(name) > 0, "{name}");
    }
    selection
}

#[track_caller]
fn written(directory: &TempDir, extract: &Extract<'_>) -> PathBuf {
    let base = directory.path().join("new");
    let mut writer = writer(&base);
    extract.write(&mut writer, |_| {}).unwrap();
    writer.finish().unwrap();
    let report = check::check(&base).unwrap();
    assert!(report.worst() < Some(Severity::Warning), "{:?}", report.findings());
    base
}

/// Milliseconds of the records and what is in them: `m` a mark, `l` the level,
/// a digit an instance of the counter, `-` the counter without any.
fn rows(archive: &Archive) -> Vec<(i64, String)> {
    let mut records = archive.records().unwrap();
    let mut rows = Vec::new();
    while let Some(record) = records.next().unwrap() {
        let mut row = String::from(if record.is_mark() { "m" } else { "" });
        for set in record.value_sets() {
            let ids: Vec<_> = set.instances().collect();
            match ids.as_slice() {
                [] => row.push('-'),
                [None] => row.push('l'),
                ids => row.extend(ids.iter().flatten().map(ToString::to_string)),
            }
        }
        rows.push(((record.timestamp().as_nanos() / 1_000_000) as i64, row));
    }
    rows
}

#[track_caller]
fn assert_rows(base: &Path, expected: &[(i64, &str)]) -> Archive {
    let archive = Archive::open(base).unwrap();
    let rows = rows(&archive);
    let rows: Vec<(i64, &str)> = rows.iter().map(|(at, row)| (*at, row.as_str())).collect();
    assert_eq!(rows, expected);
    archive
}

#[test]
fn records_that_are_wanted_whole_are_copied_byte_by_byte() {
    let directory = tempfile::tempdir().unwrap();
    let archive = archive(&directory);
    let base = written(&directory, &Extract::new(selection(&archive, &[""])));
    let bytes = |base: &Path, member| std::fs::read(base.with_extension(member)).unwrap();
    assert!(bytes(&base, "0") == bytes(archive.base(), "0"));
    // Metadata may be in another order.
    assert_eq!(bytes(&base, "meta").len(), bytes(archive.base(), "meta").len());
}

#[test]
fn other_metrics_leave_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let old = archive(&directory);
    let base = written(&directory, &Extract::new(selection(&old, &["acme.made"])));
    let new = assert_rows(
        &base,
        &[(0, "1"), (2000, "1"), (4000, "12"), (4500, "m"), (6000, "2"), (8000, "2")],
    );
    let metadata = new.metadata();
    assert_eq!(metadata.metrics().len(), 1);
    assert_eq!(metadata.texts().map(|(.., text)| text).collect::<Vec<_>>(), ["how many"]);
    assert_eq!(metadata.labels().len(), 0);
    let base = directory.path().join("level");
    let mut writer = writer(&base);
    Extract::new(selection(&old, &["acme.level"])).write(&mut writer, |_| {}).unwrap();
    writer.finish().unwrap();
    let new = Archive::open(&base).unwrap();
    assert_eq!((new.metadata().indoms().len(), new.metadata().labels().len()), (0, 1));
}

#[test]
fn a_window_has_both_ends_and_begins_with_what_held_then() {
    let directory = tempfile::tempdir().unwrap();
    let old = archive(&directory);
    let extract = Extract::new(selection(&old, &[""])).window(at(3500)..=at(6000));
    let base = written(&directory, &extract);
    let new = assert_rows(&base, &[(4000, "l12"), (4500, "m"), (5000, "l"), (6000, "l2")]);
    assert_eq!(new.label().start, at(4000));
    let history = new.metadata().indom_history(indom()).unwrap();
    let states = history.states().map(|state| (state.timestamp, state.instances.len()));
    assert_eq!(states.collect::<Vec<_>>(), [(at(4000), 2), (at(6000), 1)]);
}

#[test]
fn a_mark_with_nothing_before_it_is_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let old = archive(&directory);
    let extract = Extract::new(selection(&old, &["acme.made"])).window(at(4100)..=at(7000));
    assert_rows(&written(&directory, &extract), &[(6000, "2")]);
}

#[test]
fn domain_change_before_a_mark_keeps_its_time() {
    let directory = tempfile::tempdir().unwrap();
    let counted = "acme.made.count";
    Builder::in_directory(directory.path(), "old")
        .metric("acme.level", "u32 instant count")
        .metric(counted, "u64 counter count")
        .in_domain(counted, 1)
        .numbered_instances(counted, [(1, "i1"), (2, "i2")])
        .row_at(at(0), [("acme.made.count[i1]", 0)])
        .numbered_instances(counted, [(1, "i1"), (3, "i3")])
        .row_at(at(1000), [("acme.level", 1)])
        .mark_at(at(2000))
        .numbered_instances(counted, [(1, "i1"), (4, "i4")])
        .row_at(at(3000), [("acme.made.count[i1]", 3)])
        .finish();
    let old = Archive::open(directory.path().join("old")).unwrap();
    let extract = Extract::new(selection(&old, &["acme.made"]));
    let new = assert_rows(&written(&directory, &extract), &[(0, "1"), (2000, "m"), (3000, "1")]);
    let states = new.metadata().indom_history(indom()).unwrap().states();
    assert_eq!(
        states.map(|state| state.timestamp).collect::<Vec<_>>(),
        [at(0), at(1000), at(3000)]
    );
}

#[test]
fn of_a_metric_only_the_instances_asked_for_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let old = archive(&directory);
    let mut some = selection(&old, &[""]);
    some.select_instance("i1");
    let base = written(&directory, &Extract::new(some).window(at(3000)..=at(6000)));
    let rows = [(3000, "l"), (4000, "l1"), (4500, "m"), (5000, "l"), (6000, "l-")];
    let new = assert_rows(&base, &rows);
    let history = new.metadata().indom_history(indom()).unwrap();
    let ids: Vec<_> = history.union().iter().map(|instance| instance.id).collect();
    assert_eq!(ids, [id(1)]);
}

#[test]
fn values_are_those_of_the_source() {
    let directory = tempfile::tempdir().unwrap();
    let old = archive(&directory);
    let extract = Extract::new(selection(&old, &["acme.made"])).window(at(4000)..=at(4000));
    let new = Archive::open(written(&directory, &extract)).unwrap();
    let mut records = new.records().unwrap();
    let result = records.next().unwrap().unwrap().to_owned(new.metadata()).unwrap();
    assert_eq!(result, FetchResult { timestamp: at(4000), value_sets: vec![counts(4, &[1, 2])] });
    assert_eq!(new.version(), Version::V3);
}

#[test]
fn a_window_without_the_metrics_gives_no_files() {
    let directory = tempfile::tempdir().unwrap();
    let old = archive(&directory);
    let mut writer = writer(&directory.path().join("new"));
    let extract = Extract::new(selection(&old, &["acme.made"])).window(at(4100)..=at(5000));
    let mut seen = Vec::new();
    extract.write(&mut writer, |record| seen.push(record.timestamp())).unwrap();
    assert_eq!(seen, [at(4500), at(5000)]);
    assert_eq!(writer.finish().unwrap().records, 0);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3);
}

fn server(process: u64, sequence: u32) -> Vec<ValueSet> {
    let set = |cluster, item, value| ValueSet {
        pmid: Pmid::new(2, cluster, item).unwrap(),
        values: Ok(vec![(None, value)]),
    };
    vec![
        set(3, 3, OwnedValue::U32(0)),
        set(3, 0, OwnedValue::U32(0)),
        set(3, 2, OwnedValue::U32(0)),
        set(0, 23, OwnedValue::U64(process)),
        set(0, 24, OwnedValue::U32(sequence)),
    ]
}

/// Two archives that follow each other, whose first and last records name
/// these servers; all of them extracted.
fn joined(servers: [(u64, u32); 2]) -> Vec<(i64, String)> {
    let directory = tempfile::tempdir().unwrap();
    for ((process, sequence), from) in servers.into_iter().zip([0, 10]) {
        let mut writer = writer(&directory.path().join(from.to_string()));
        for (set, name) in server(0, 0).iter().zip(["p.a", "p.b", "p.c", "p.pid", "p.seqnum"]) {
            let (_, value) = &set.values.as_ref().unwrap()[0];
            let is_long = matches!(value, OwnedValue::U64(_));
            let value_type = if is_long { ValueType::U64 } else { ValueType::U32 };
            let desc = MetricDesc { pmid: set.pmid, value_type, ..descs()[0] };
            writer.declare_metric(&desc, &[name]).unwrap();
        }
        writer.declare_metric(&descs()[0], &["acme.level"]).unwrap();
        let level = vec![level(from)];
        let ends = || server(process, sequence);
        for (n, value_sets) in [ends(), level, ends()].into_iter().enumerate() {
            let timestamp = at((from + n as i64) * 1000);
            writer.write_result(&FetchResult { timestamp, value_sets }).unwrap();
        }
        writer.finish().unwrap();
    }
    let set = ArchiveSet::open([directory.path()]).unwrap();
    let base = written(&directory, &Extract::new(selection(&set, &[""])));
    rows(&Archive::open(base).unwrap())
}

#[test]
fn archives_are_joined_with_a_mark_unless_they_name_one_server() {
    let marks = |servers| {
        let rows = joined(servers).into_iter();
        rows.filter(|(_, row)| row == "m").map(|(at, _)| at).collect::<Vec<_>>()
    };
    assert_eq!(joined([(7, 1), (7, 1)]).len(), 6);
    assert_eq!(marks([(7, 1), (7, 1)]), [0; 0]);
    assert_eq!(marks([(7, 1), (7, 2)]), [2001]);
    assert_eq!(marks([(7, 1), (8, 1)]), [2001]);
}

#[test]
fn metrics_get_new_names_and_numbers_with_all_that_is_theirs() {
    let directory = tempfile::tempdir().unwrap();
    let old = archive(&directory);
    let pmid = Pmid::new(71, 5, 9).unwrap();
    let extract = Extract::new(selection(&old, &[""]))
        .renumber("acme.level", pmid)
        .rename("acme.made", "plant.output")
        .rename("acme", "works");
    let new = Archive::open(written(&directory, &extract)).unwrap();
    let metadata = new.metadata();
    let level = metadata.metric_by_name("works.level").unwrap();
    assert_eq!(level.desc, MetricDesc { pmid, ..descs()[0] });
    assert_eq!(metadata.metric_by_name("plant.output.count").unwrap().desc, descs()[1]);
    assert_eq!(metadata.metrics().len(), 2);
    assert_eq!(metadata.text(TextTarget::Metric(pmid), TextKind::OneLine).unwrap(), "how high");
    assert!(metadata.labels_at(LabelTarget::Item(pmid), at(0)).is_some());
    let mut records = new.records().unwrap();
    let record = records.next().unwrap().unwrap();
    let pmids: Vec<_> = record.value_sets().map(|set| set.pmid()).collect();
    assert_eq!(pmids, [pmid, descs()[1].pmid]);
}

#[test]
fn labels_of_a_cluster_go_where_its_metrics_go() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(&directory.path().join("old"));
    let [a, b] = descs();
    writer.declare_metric(&a, &["acme.level"]).unwrap();
    writer.declare_metric(&b, &["acme.made.count"]).unwrap();
    writer.declare_indom(indom(), &[Instance { id: id(1), name: "i1".into() }]).unwrap();
    let target = |cluster| LabelTarget::Cluster { domain: 70, cluster };
    let labels = LabelSet::from_pairs(LabelClass::Cluster, [("of", "\"acme\"", false)]).unwrap();
    writer.declare_labels(target(1), &[labels]).unwrap();
    writer.write_result(&FetchResult { timestamp: at(0), value_sets: vec![level(1)] }).unwrap();
    writer.finish().unwrap();
    let old = Archive::open(directory.path().join("old")).unwrap();
    let labelled = |moved: &[&str]| {
        let mut extract = Extract::new(selection(&old, &[""]));
        for (item, name) in moved.iter().enumerate() {
            extract = extract.renumber(name, Pmid::new(70, 5, item as u32).unwrap());
        }
        let directory = tempfile::tempdir().unwrap();
        let new = Archive::open(written(&directory, &extract)).unwrap();
        [1, 5].map(|cluster| new.metadata().labels_at(target(cluster), at(0)).is_some())
    };
    assert_eq!(labelled(&[]), [true, false]);
    assert_eq!(labelled(&["acme.level"]), [true, true]);
    assert_eq!(labelled(&["acme.level", "acme.made.count"]), [false, true]);
}

#[test]
fn names_and_numbers_that_cannot_be_given_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let old = archive(&directory);
    let refused = |extract: Extract<'_>| {
        let mut writer = writer(&directory.path().join("new"));
        extract.write(&mut writer, |_| {}).unwrap_err()
    };
    let all = || Extract::new(selection(&old, &[""]));
    let [_, made] = descs();
    assert!(matches!(refused(all().rename("acm", "x")), Error::NoMetric { .. }));
    assert!(matches!(refused(all().renumber("acme", made.pmid)), Error::NoMetric { .. }));
    let taken = refused(all().renumber("acme.level", made.pmid));
    assert_eq!(
        taken.to_string(),
        "metric acme.level cannot get PMID 70.1.2, which metric acme.made.count has"
    );
    let same = refused(all().rename("acme.level", "acme.made.count"));
    assert!(matches!(same, Error::NameTaken { .. }), "{same}");
    let branch = refused(all().rename("acme.level", "acme.made"));
    assert!(matches!(branch, Error::LeafAndBranch { .. }), "{branch}");
}
