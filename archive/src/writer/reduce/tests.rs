mod extremes;
pub(super) mod growth;

use std::time::Duration;

use tempfile::TempDir;
use test_archives::{Builder, TestArchive};

use super::*;
use crate::check::{self, Severity};
use crate::{Archive, Source, Value, WriterOptions};

fn at(seconds: f64) -> Timestamp {
    Timestamp::from_nanos(1_700_000_000_000_000_000 + (seconds * 1e9).round() as i128)
}

#[track_caller]
fn reduced<'a>(source: impl Into<Source<'a>>, interval: Duration) -> (TempDir, Archive) {
    reduced_by(source, interval, 1 << 16)
}

/// As [`reduced`], reading that many rows at a time.
#[track_caller]
fn reduced_by<'a>(
    source: impl Into<Source<'a>>,
    interval: Duration,
    rows: usize,
) -> (TempDir, Archive) {
    let source = source.into();
    let mut selection = Selection::new(source);
    selection.select("");
    let directory = test_archives::scratch();
    let base = directory.path().join("reduced");
    let label = source.label().into();
    let mut writer = ArchiveWriter::create_with(&base, label, WriterOptions::default()).unwrap();
    let reduce = Reduce::new(selection, interval).origin(at(0.0));
    let Reduce { selection, window, grid } = &reduce;
    let pass = ReducePass::new(selection, *grid, window, &mut writer).unwrap();
    pass.by_rows(rows).run(|_| true).unwrap();
    writer.finish().unwrap();
    let report = check::check(&base).unwrap();
    assert!(report.worst() < Some(Severity::Warning), "{:?}", report.findings());
    let archive = Archive::open(&base).unwrap();
    (directory, archive)
}

/// Returns what an archive has of a metric: seconds, instance and number.
fn values(archive: &Archive, name: &str) -> Vec<(f64, Option<i32>, f64)> {
    let desc = archive.metadata().metric_by_name(name).unwrap().desc;
    let mut records = archive.records().unwrap();
    let mut found = Vec::new();
    while let Some(record) = records.next().unwrap() {
        let seconds = record.timestamp().seconds_since(at(0.0));
        for set in record.value_sets().filter(|set| set.pmid() == desc.pmid) {
            for (instance, value) in set.values(desc.value_type).map(Result::unwrap) {
                let instance = instance.map(crate::InstanceId::get);
                found.push((seconds, instance, value.as_f64().unwrap()));
            }
        }
    }
    found
}

fn singular(archive: &Archive, name: &str) -> Vec<(f64, f64)> {
    values(archive, name).into_iter().map(|(seconds, _, value)| (seconds, value)).collect()
}

fn open(made: &TestArchive) -> Archive {
    Archive::open(made.base()).unwrap()
}

const TEN: Duration = Duration::from_secs(10);

#[test]
fn counter_is_on_the_grid_and_at_the_ends_of_its_lines() {
    let rows = [1, 7, 13, 19, 25].map(|second| (second, [("n", 2 * second)]));
    let after = [31, 37, 43].map(|second| (second, [("n", second - 29)]));
    let made = Builder::new().metric("n", "u64 counter count").rows(rows).mark(27).rows(after);
    let (_directory, archive) = reduced(&open(&made.finish()), TEN);
    let expected = [(1.0, 2.0), (10.0, 20.0), (20.0, 40.0), (25.0, 50.0)];
    let next = [(31.0, 2.0), (40.0, 11.0), (43.0, 14.0)];
    assert_eq!(singular(&archive, "n"), [&expected[..], &next].concat());
    let marks = archive.records().unwrap();
    let mut marks = marks;
    let mut found = Vec::new();
    while let Some(record) = marks.next().unwrap() {
        if record.is_mark() {
            found.push(record.timestamp());
        }
    }
    assert_eq!(found, [at(27.0)]);
}

#[test]
fn counter_that_falls_keeps_both_values() {
    let rows = [(0, 5), (8, 50), (12, 3), (20, 7)].map(|(second, n)| (second, [("n", n)]));
    let made = Builder::new().metric("n", "u32 counter count").rows(rows).finish();
    let (_directory, archive) = reduced(&open(&made), TEN);
    assert_eq!(singular(&archive, "n"), [(0.0, 5.0), (8.0, 50.0), (12.0, 3.0), (20.0, 7.0)]);
}

#[test]
fn counter_logged_less_often_than_the_grid_keeps_values() {
    let rows = [(0, 0), (95, 1000), (210, 1700)].map(|(second, n)| (second, [("n", n)]));
    let made = Builder::new().metric("n", "i64 counter count").rows(rows).finish();
    let (_directory, archive) = reduced(&open(&made), TEN);
    assert_eq!(singular(&archive, "n"), [(0.0, 0.0), (95.0, 1000.0), (210.0, 1700.0)]);
}

#[test]
fn gauge_is_averaged_over_time() {
    // 1 for 2 s, as the first value for as long as until the next, 4 for 2 s, 10 for 6 s.
    let rows = [(2, 1.0), (4, 4.0), (10, 10.0), (15, 2.0), (19, 3.0), (26, 7.0)];
    let rows = rows.map(|(second, n)| (second, [("g", n)]));
    let made = Builder::new().metric("g", "double instant none").rows(rows).finish();
    let (_directory, archive) = reduced(&open(&made), TEN);
    let first = (2.0 * 1.0 + 2.0 * 4.0 + 6.0 * 10.0) / 10.0;
    let second = (5.0 * 2.0 + 4.0 * 3.0 + 1.0 * 3.0) / 10.0;
    assert_eq!(singular(&archive, "g"), [(10.0, first), (20.0, second), (26.0, 7.0)]);
}

#[test]
fn mean_of_integers_is_rounded_and_ends_before_a_mark() {
    let rows = [(1, -3), (2, -4), (3, -4)].map(|(second, n)| (second, [("g", n)]));
    let made = Builder::new().metric("g", "i32 instant none").rows(rows).mark(5);
    let made = made.row(6, [("g", 9)]).row(12, [("g", 9)]).finish();
    let (_directory, archive) = reduced(&open(&made), TEN);
    assert_eq!(singular(&archive, "g"), [(3.0, -4.0), (10.0, 9.0), (12.0, 9.0)]);
}

#[test]
fn discrete_value_is_the_last_of_each_interval() {
    let rows = [(3, 1), (5, 2), (9, 3), (12, 3), (35, 4)].map(|(second, n)| (second, [("d", n)]));
    let made = Builder::new().metric("d", "u32 discrete none").rows(rows).finish();
    let (_directory, archive) = reduced(&open(&made), TEN);
    let expected = [(3.0, 1.0), (10.0, 3.0), (20.0, 3.0), (35.0, 4.0)];
    assert_eq!(singular(&archive, "d"), expected);
}

#[test]
fn metadata_and_instances_are_carried_over() {
    let made = Builder::new()
        .metric("n", "u64 counter count")
        .instances("n", ["a", "b"])
        .help("n", "how many")
        .labels("n", &[("unit", "m")])
        .context_labels(&[("hostname", "web1")])
        .row(1, [("n[a]", 1), ("n[b]", 2)])
        .instances("n", ["a"])
        .row(4, [("n[a]", 3)])
        .row(20, [("n[a]", 9)])
        .finish();
    let source = open(&made);
    let (_directory, archive) = reduced(&source, TEN);
    let one = source.metadata();
    let other = archive.metadata();
    assert_eq!(one.metrics(), other.metrics());
    assert!(one.texts().eq(other.texts()) && one.texts().len() == 1);
    let labels =
        |metadata: &crate::Metadata| format!("{:?}", metadata.labels().collect::<Vec<_>>());
    assert_eq!(labels(one), labels(other));
    let states = |metadata: &crate::Metadata| -> Vec<_> {
        let indoms = metadata.indoms();
        indoms.flat_map(|(_, history)| history.states()).map(|state| format!("{state:?}")).collect()
    };
    assert_eq!(states(one), states(other));
    assert_eq!(archive.label(), source.label());
    let b = values(&archive, "n").into_iter().filter(|(_, id, _)| *id == Some(1));
    assert_eq!(b.collect::<Vec<_>>(), [(1.0, Some(1), 2.0)]);
}

#[test]
fn texts_hold_and_events_are_all_kept() {
    let (builder, _) = test_archives::changing::write(
        Builder::new(),
        &[test_archives::changing::Change::Restart; 7],
    );
    let made = builder.metric("t", "string discrete none").row(8, [("t", "x")]).finish();
    let source = open(&made);
    let (_directory, archive) = reduced(&source, TEN);
    let events = |archive: &Archive| {
        let mut found = Vec::new();
        programs::for_each_event(archive.into(), Timestamp::MIN..=Timestamp::MAX, |event| {
            found.push((event.at, event.kind.to_owned()));
        })
        .unwrap();
        found
    };
    assert_eq!(events(&source).len(), 7);
    assert_eq!(events(&source), events(&archive));
    let replay = {
        let mut selection = crate::replay::Replay::open(&archive);
        selection.select("t");
        selection.load().unwrap()
    };
    let sample = replay.sample_at(at(8.0)).unwrap();
    assert_eq!(sample.values[0].as_slice(), [(None, Value::String(b"x"))]);
}

#[test]
fn nothing_selected_writes_nothing() {
    let made = Builder::new().metric("n", "u32 counter count").row(0, [("n", 1)]).finish();
    let archive = open(&made);
    let directory = test_archives::scratch();
    let base = directory.path().join("none");
    let label = archive.label().into();
    let mut writer = ArchiveWriter::create_with(&base, label, WriterOptions::default()).unwrap();
    let reduce = Reduce::new(Selection::new(&archive), TEN);
    assert_eq!(reduce.write(&mut writer, |_| {}).unwrap(), ReducedSource::default());
    assert_eq!(writer.finish().unwrap().records, 0);
}

#[test]
fn window_has_its_own_records_only() {
    let rows = (0..60).map(|second| (second, [("n", second)]));
    let made = Builder::new().metric("n", "u32 counter count").rows(rows).finish();
    let archive = open(&made);
    let mut selection = Selection::new(&archive);
    selection.select("n");
    let directory = test_archives::scratch();
    let base = directory.path().join("part");
    let label = archive.label().into();
    let mut writer = ArchiveWriter::create_with(&base, label, WriterOptions::default()).unwrap();
    let reduce = Reduce::new(selection, TEN).origin(at(0.0)).window(at(15.0)..=at(43.0));
    reduce.write(&mut writer, |_| {}).unwrap();
    writer.finish().unwrap();
    let expected = [15.0, 20.0, 30.0, 40.0, 43.0].map(|second| (second, second));
    assert_eq!(singular(&Archive::open(&base).unwrap(), "n"), expected);
}

#[test]
fn damaged_archives_are_errors_and_no_panics() {
    let build = || {
        Builder::new()
            .metric("n", "u64 counter count")
            .metric("g", "double instant none")
            .metric("t", "string discrete none")
            .instances("n", ["a", "b"])
            .row(1, [("n[a]", 1), ("n[b]", 2)])
            .row(7, [("t", "x")])
            .row(9, [("g", 1.5)])
            .mark(11)
            .row(14, [("n[a]", 3), ("n[b]", 1)])
            .finish()
    };
    let made = build();
    let directory = test_archives::scratch();
    let mut written = 0;
    for member in ["0", "meta", "index"] {
        let path = made.member(member);
        let whole = std::fs::read(&path).unwrap();
        for place in (0..whole.len()).step_by(5) {
            for flip in [1u8, 0xff] {
                let mut bytes = whole.clone();
                bytes[place] ^= flip;
                std::fs::write(&path, &bytes).unwrap();
                let Ok(archive) = Archive::open(made.base()) else { continue };
                let mut selection = Selection::new(&archive);
                selection.select("");
                let base = directory.path().join(format!("{member}.{place}.{flip}"));
                let label = archive.label().into();
                let writer = ArchiveWriter::create_with(&base, label, WriterOptions::default());
                let Ok(mut writer) = writer else { continue };
                let reduce = Reduce::new(selection, TEN);
                written += usize::from(reduce.write(&mut writer, |_| {}).is_ok());
            }
        }
        std::fs::write(&path, &whole).unwrap();
    }
    assert!(written > 100, "most bits change a value only: {written}");
}
