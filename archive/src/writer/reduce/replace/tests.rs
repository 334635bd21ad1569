use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tempfile::TempDir;
use test_archives::changing::{self, BYTES, Change, ORDERS};
use test_archives::{Builder, TestArchive, at};

use super::super::tests::growth::{
    Second, assert_alike, histogram, quantiles, reported, second, summarized,
};
use super::*;
use crate::analysis::replay::Decrease;
use crate::analysis::summary::summarize;
use crate::check::{Severity, check};
use crate::extract::Extract;
use crate::files::{existing_file, original_base, remove_archive};
use crate::test_support::fault;
use crate::{ArchiveSet, Source, Timestamp};

const SECONDS: i64 = 10;

/// A record: the name of its archive, its time, and its values as text.
type Row = (String, Timestamp, String);

/// An archive of counters, and the second of its last record.
fn counters(changes: &[Change]) -> (TestArchive, i64) {
    let (builder, model) = changing::write(Builder::new(), changes);
    (builder.finish(), model.last)
}

/// An archive of a gauge, of which the reduced one has extremes.
fn gauge() -> (TestArchive, i64) {
    let builder = Builder::new().metric("queue", "u32 instant").instances("queue", ["a", "b"]);
    let rows = (0..40).map(|second| (second, [("queue[a]", second * 37 % 11), ("queue[b]", 2)]));
    (builder.rows(rows).finish(), 39)
}

/// Divides an archive into those of a host, each of [`SECONDS`] seconds.
fn divided((made, last): &(TestArchive, i64)) -> TempDir {
    let whole = Archive::open(made.base()).unwrap();
    let directory = test_archives::scratch();
    for (number, start) in (0..=*last).step_by(SECONDS as usize).enumerate() {
        let mut selection = Selection::new(&whole);
        selection.select("");
        let base = directory.path().join(format!("20231114.22.{number:02}"));
        let options = WriterOptions::default();
        let mut writer = ArchiveWriter::create_with(&base, whole.label().into(), options).unwrap();
        let window = at(start as f64)..=at((start + SECONDS) as f64 - 0.001);
        Extract::new(selection).window(window).write(&mut writer, |_| {}).unwrap();
        writer.finish().unwrap();
    }
    directory
}

fn copied(directory: &TempDir) -> TempDir {
    let copy = test_archives::scratch();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

/// Returns all records of a directory, as a reader finds them.
fn rows(directory: &Path) -> Vec<Row> {
    let set = ArchiveSet::open([directory]).unwrap();
    let mut rows = Vec::new();
    for archive in set.archives() {
        let name = archive.base().file_name().unwrap().display().to_string();
        let mut records = archive.records().unwrap();
        while let Some(record) = records.next().unwrap() {
            let mut text = String::new();
            for set in record.value_sets() {
                let desc = archive.metadata().metric(set.pmid()).unwrap().desc;
                for value in set.values(desc.value_type) {
                    let (instance, value) = value.unwrap();
                    write!(text, "{} {instance:?} {value:?};", set.pmid()).unwrap();
                }
            }
            rows.push((name.clone(), record.timestamp(), text));
        }
    }
    rows
}

/// Returns what each counter has grown by in all archives of a directory.
fn growth(directory: &Path) -> BTreeMap<String, f64> {
    let set = ArchiveSet::open([directory]).unwrap();
    let source = Source::from(&set);
    let mut selection = Selection::new(source);
    selection.select(ORDERS);
    selection.select(BYTES);
    let mut found = BTreeMap::new();
    for summary in summarize(&selection, source.start()..=source.end(), Decrease::Reset).unwrap() {
        for instance in &summary.instances {
            let sum = instance.statistics.as_ref().map_or(0.0, |statistics| statistics.sum);
            let identities =
                summary.metric.desc.indom.and_then(|of| source.metadata().identities(of));
            let name = identities.zip(instance.instance);
            let name = name.and_then(|(all, id)| all.name_at(id, Timestamp::MAX));
            let name = format!("{} {}", summary.metric.name, name.unwrap_or_default());
            *found.entry(name).or_default() += sum;
        }
    }
    found
}

#[track_caller]
fn assert_growth(directory: &Path, expected: &BTreeMap<String, f64>) {
    let found = growth(directory);
    assert!(found.keys().eq(expected.keys()), "{found:?}\n{expected:?}");
    for (found_value, value) in found.values().zip(expected.values()) {
        assert!((found_value - value).abs() < 1e-9, "{found:?}\n{expected:?}");
    }
}

fn replace(base: &Path, seconds: u64) -> Result<ReplaceOutcome> {
    replace_by_reduced(base, Duration::from_secs(seconds), None, &mut || true)
}

#[track_caller]
fn assert_valid(base: &Path) {
    let report = check(base).unwrap();
    assert!(report.worst() < Some(Severity::Warning), "{:?}", report.findings());
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    vec((0..Change::KINDS).prop_map(Change::numbered), 25..40)
}

#[test]
fn kills_leave_either_the_old_or_the_new_archive() {
    let wanted = if std::env::var_os("MMV_LONG").is_some() { 1000 } else { 200 };
    let mut runner = TestRunner::deterministic();
    let mut kills = 0;
    let mut metadata_is_compressed = false;
    while kills < wanted {
        let changes = changes().new_tree(&mut runner).unwrap().current();
        let original = divided(&if kills == 0 { gauge() } else { counters(&changes) });
        if metadata_is_compressed {
            compress_metadata(original.path(), Compression::Zstd);
        }
        metadata_is_compressed = !metadata_is_compressed;
        let grown = growth(original.path());
        // Each of the steps from seconds to intervals of two, and of four.
        let mut before = original;
        for seconds in [2, 4] {
            let old = rows(before.path());
            let after = copied(&before);
            let names = |directory: &TempDir| ArchiveSet::bases([directory.path()]).unwrap();
            let number = kills % names(&before).len();
            assert!(matches!(
                replace(&names(&after)[number], seconds),
                Ok(ReplaceOutcome::Replaced(_))
            ));
            let new = rows(after.path());
            assert!(old != new);
            assert_growth(after.path(), &grown);
            for step in 0.. {
                let directory = copied(&before);
                let base = names(&directory)[number].clone();
                let done = fault::killed_before(step, || replace(&base, seconds).unwrap());
                let found = rows(directory.path());
                assert!(found == old || found == new, "{seconds} s, step {step}");
                if let Some(ReplaceOutcome::Replaced(new_base)) = done {
                    assert!(found == new);
                    assert_valid(&new_base);
                    remove_archive(&base).unwrap();
                    assert!(rows(directory.path()) == new);
                    break;
                }
                kills += 1;
                let is_replaced = found == new;
                // The next process removes what has no metadata, and goes on.
                let reduced = reduced_base(&base, Duration::from_secs(seconds));
                let half = if is_replaced { &base } else { &reduced };
                remove_archive(half).unwrap();
                assert_eq!(existing_file(half).unwrap(), None);
                assert_valid(if is_replaced { &reduced } else { &base });
                if !is_replaced {
                    fs::remove_dir_all(directory.path().join(format!(
                        ".{}.{}",
                        reduced.file_name().unwrap().display(),
                        std::process::id()
                    )))
                    .unwrap();
                    assert!(matches!(replace(&base, seconds), Ok(ReplaceOutcome::Replaced(_))));
                    assert!(rows(directory.path()) == new);
                }
            }
            before = after;
            for base in names(&before) {
                let original = original_base(&base);
                if original != base {
                    remove_archive(&original).unwrap();
                }
            }
        }
    }
}

fn compress_metadata(directory: &Path, method: Compression) {
    for base in ArchiveSet::bases([directory]).unwrap() {
        let metadata = metadata_of(&base).unwrap();
        compress_member(metadata, method, Effort::Least, &mut || true).unwrap();
    }
}

#[test]
fn compressed_metadata_is_replaced_by_compressed_metadata() {
    for method in [Compression::Xz, Compression::Zstd] {
        let directory = divided(&counters(&[Change::Nothing; 12]));
        let grown = growth(directory.path());
        compress_metadata(directory.path(), method);
        let base = ArchiveSet::bases([directory.path()]).unwrap().remove(0);
        let ReplaceOutcome::Replaced(new) = replace(&base, 2).unwrap() else { panic!("given up") };
        let metadata = metadata_of(&new).unwrap();
        assert_eq!(Compression::from_path(metadata), Some(method));
        assert!(metadata_of(&base).is_err(), "the old archive has gone");
        assert_valid(&new);
        assert_growth(directory.path(), &grown);
    }
}

#[test]
fn readers_find_each_archive_once_while_all_are_replaced() {
    let changes: Vec<_> = (0..200).map(|number| Change::numbered(number * 7 % 17)).collect();
    let directory = divided(&counters(&changes));
    let bases = ArchiveSet::bases([directory.path()]).unwrap();
    let count = bases.len();
    let grown = growth(directory.path());
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut answers = 0;
            while !has_ended.load(Ordering::Relaxed) || answers < 100 {
                let set = ArchiveSet::open([directory.path()]).unwrap();
                assert_eq!(set.archives().len(), count);
                assert_growth(directory.path(), &grown);
                answers += 1;
            }
        });
        for seconds in [2, 4, 8] {
            for base in &bases {
                let present =
                    [4, 2].map(|seconds| reduced_base(base, Duration::from_secs(seconds)));
                let present =
                    present.into_iter().find(|base| base.with_added_extension("meta").exists());
                let present = present.as_ref().unwrap_or(base);
                let interval = Duration::from_secs(seconds);
                let method = Some(Compression::Zstd);
                let replaced = replace_by_reduced(present, interval, method, &mut || true);
                assert!(matches!(replaced, Ok(ReplaceOutcome::Replaced(_))));
            }
        }
        has_ended.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

#[test]
fn archive_that_cannot_be_replaced_stays() {
    let directory = divided(&counters(&[Change::Nothing; 12]));
    let base = ArchiveSet::bases([directory.path()]).unwrap().remove(0);
    let before = rows(directory.path());
    let mut calls = 0;
    let interval = Duration::from_secs(2);
    let given_up = replace_by_reduced(&base, interval, None, &mut || {
        calls += 1;
        false
    });
    assert_eq!((given_up.unwrap(), calls), (ReplaceOutcome::Cancelled, 1));
    assert_eq!(existing_file(&reduced_base(&base, interval)).unwrap(), None);
    assert_eq!(rows(directory.path()), before);

    fs::write(reduced_base(&base, interval).with_added_extension("0"), "taken").unwrap();
    assert!(matches!(replace(&base, 2), Err(Error::Exists { .. })));

    let metadata = base.with_added_extension("meta");
    let mut bytes = fs::read(&metadata).unwrap();
    bytes.extend([0, 0, 0, 99, 0]);
    fs::write(&metadata, bytes).unwrap();
    let error = replace(&base, 4).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert_eq!(rows(directory.path()), before);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 7);
}

/// Replaces the first archives of a directory by reduced ones: as many as `hours` with a value each
/// four seconds, and as many as `minutes` after them with one each two seconds.
fn make_tiers(directory: &Path, hours: usize, minutes: usize) {
    let bases = ArchiveSet::bases([directory]).unwrap();
    let bases = bases.iter().take(hours + minutes).enumerate();
    for (number, base) in bases {
        // An archive without values, as in a pause of all programs, stays.
        if let Ok(ReplaceOutcome::Replaced(new)) = replace(base, 2) {
            remove_archive(base).unwrap();
            if number < hours {
                assert!(matches!(replace(&new, 4), Ok(ReplaceOutcome::Replaced(_))));
                remove_archive(&new).unwrap();
            }
        }
    }
}

proptest! {
    /// forall archives of a program that changes, sizes of two tiers, and spans on the grid of the
    /// longer interval, also over the joints: summary and report find the same growth, rates and
    /// values as before.
    #[test]
    fn growth_over_the_joint_of_tiers_is_that_of_the_original(
        changes in vec((0..Change::KINDS).prop_map(Change::numbered), 20..50),
        hours in 0usize..3,
        minutes in 0usize..3,
        ends in (0i64..13, 0i64..13),
    ) {
        let made = counters(&changes);
        let original = divided(&made);
        let tiers = copied(&original);
        make_tiers(tiers.path(), hours, minutes);
        let [one, other] = [&original, &tiers].map(|of| ArchiveSet::open([of.path()]).unwrap());
        let last = made.1 / 4;
        let span = at((ends.0.min(ends.1).min(last) * 4) as f64)
            ..=at((ends.0.max(ends.1).min(last) * 4) as f64);
        for decrease in [Decrease::Reset, Decrease::Wrap] {
            let summaries = [&one, &other].map(|set| summarized(set, decrease, span.clone()));
            let reports = [&one, &other].map(|set| reported(set, decrease, &span));
            for [original, reduced] in [summaries, reports] {
                assert_alike(&original[0], &reduced[0], 1e-9)?;
                assert_alike(&original[1], &reduced[1], 1e-9)?;
            }
        }
    }

    /// forall histograms, sizes of two tiers, and spans on the grid of the longer interval:
    /// quantiles are those before, to the bit.
    #[test]
    fn quantiles_over_the_joint_of_tiers_are_those_of_the_original(
        seconds in vec(second(), 20..50),
        hours in 0usize..3,
        minutes in 0usize..3,
        ends in (0i64..13, 0i64..13),
    ) {
        let mut seconds = seconds;
        for place in (0..seconds.len()).step_by(SECONDS as usize) {
            seconds[place] = Second::Counts(1);
        }
        // The archives end with a record.
        seconds.push(Second::Counts(1));
        let last = seconds.len() as i64 - 1;
        let original = divided(&(histogram(&seconds), last));
        let tiers = copied(&original);
        make_tiers(tiers.path(), hours, minutes);
        let [one, other] = [&original, &tiers].map(|of| ArchiveSet::open([of.path()]).unwrap());
        let span = at((ends.0.min(ends.1).min(last / 4) * 4) as f64)
            ..=at((ends.0.max(ends.1).min(last / 4) * 4) as f64);
        prop_assert_eq!(quantiles(&one, &span), quantiles(&other, &span));
    }
}
