//! Every archive of the corpus, copied by our writer: nothing is lost.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use pcp_archive::check::{Severity, check};
use pcp_archive::extract::Extract;
use pcp_archive::raw::{FetchResult, LabelSet, LabelTarget, TextKind, TextTarget};
use pcp_archive::scan::Selection;
use pcp_archive::{
    Archive, ArchiveWriter, ByteText, InDom, Instance, Metadata, Metric, Timestamp, Version,
    WriterOptions,
};

use super::golden::{Case, cases};

#[test]
fn copies_in_version_3_match_the_originals() {
    for case in cases() {
        let directory = tempfile::tempdir().unwrap();
        let copied = copy_to(&case, directory.path(), Version::V3);
        assert_same(&case, &copied);
        assert_eq!(copied.label().zoneinfo, case.archive.label().zoneinfo, "{}", case.name);
    }
}

#[test]
fn copies_in_version_2_match_to_the_microsecond() {
    for case in cases() {
        let directory = tempfile::tempdir().unwrap();
        let copied = copy_to(&case, directory.path(), Version::V2);
        assert_same(&case, &copied);
    }
}

fn copy_to(case: &Case, directory: &Path, version: Version) -> Archive {
    let base = directory.join("copy");
    let options = WriterOptions { version, ..WriterOptions::default() };
    let mut writer =
        ArchiveWriter::create_with(&base, case.archive.label().into(), options).unwrap();
    let mut everything = Selection::new(&case.archive);
    everything.select("");
    let extract = Extract::new(everything).keep_volumes();
    extract.write(&mut writer, |_| {}).unwrap_or_else(|error| panic!("{}: {error}", case.name));
    writer.finish().unwrap();
    let report = check(&base).unwrap();
    assert!(report.worst() < Some(Severity::Error), "{}: {:?}", case.name, report.findings());
    let copied = Archive::open(&base).unwrap();
    assert_eq!(copied.version(), version, "{}", case.name);
    copied
}

fn assert_same(case: &Case, copied: &Archive) {
    let (name, original) = (&case.name, &case.archive);
    let version = copied.version();
    assert_eq!(copied.label().start, kept(version, original.label().start), "{name}");
    assert_eq!(copied.end(), kept(version, original.end()), "{name}");
    assert_eq!(copied.label().pid, original.label().pid, "{name}");
    assert_eq!(copied.label().hostname, original.label().hostname, "{name}");
    assert_eq!(copied.label().timezone, original.label().timezone, "{name}");
    assert_eq!(contents(copied, version), contents(original, version), "{name}");
    assert_same_records(name, original, copied);
}

fn kept(version: Version, time: Timestamp) -> Timestamp {
    let lost = if version == Version::V2 { time.nanoseconds() % 1000 } else { 0 };
    Timestamp::from_nanos(time.as_nanos() - i128::from(lost))
}

type States<T> = Vec<(Timestamp, T)>;

/// All metadata up to the end, each state once.
#[derive(Debug, PartialEq)]
struct Contents<'m> {
    metrics: &'m [Metric],
    texts: Vec<(TextTarget, TextKind, &'m ByteText)>,
    indoms: BTreeMap<InDom, States<Cow<'m, [Instance]>>>,
    labels: BTreeMap<LabelTarget, States<&'m [LabelSet]>>,
}

fn contents(archive: &Archive, version: Version) -> Contents<'_> {
    let metadata: &Metadata = archive.metadata();
    let (start, end) = (archive.label().start, archive.end());
    let mut indoms = BTreeMap::new();
    for (indom, history) in metadata.indoms() {
        let timestamps = history.states().map(|state| state.timestamp);
        let states = changes(timestamps, start, end, |at| metadata.indom_at(indom, at).unwrap());
        let states =
            states.into_iter().map(|(timestamp, now)| (kept(version, timestamp), now)).collect();
        indoms.insert(indom, states);
    }
    let mut labels = BTreeMap::new();
    for (target, history) in metadata.labels() {
        let timestamps = history.states().iter().map(|state| state.timestamp);
        let states = changes(timestamps, start, end, |at| metadata.labels_at(target, at).unwrap());
        let states =
            states.into_iter().map(|(timestamp, now)| (kept(version, timestamp), now)).collect();
        labels.insert(target, states);
    }
    Contents { metrics: metadata.metrics(), texts: metadata.texts().collect(), indoms, labels }
}

fn changes<T: PartialEq>(
    timestamps: impl Iterator<Item = Timestamp>,
    start: Timestamp,
    end: Timestamp,
    at: impl Fn(Timestamp) -> T,
) -> States<T> {
    let mut states: States<T> = Vec::new();
    for timestamp in timestamps.filter(|timestamp| *timestamp <= end) {
        let now = at(timestamp.max(start));
        if states.last().is_none_or(|(_, last)| *last != now) {
            states.push((timestamp.max(start), now));
        }
    }
    states
}

fn assert_same_records(name: &str, original: &Archive, copied: &Archive) {
    let (mut old, mut new) = (original.records().unwrap(), copied.records().unwrap());
    let mut n = 0;
    while let Some(record) = old.next().unwrap() {
        let copy = new.next().unwrap().unwrap_or_else(|| panic!("{name}: {n} records"));
        let mut expected = record.to_owned(original.metadata()).unwrap();
        expected.timestamp = kept(copied.version(), expected.timestamp);
        let found = copy.to_owned(copied.metadata()).unwrap();
        assert!(same(&expected, &found), "{name} record {n}:\n{expected:?}\n{found:?}");
        n += 1;
    }
    assert!(new.next().unwrap().is_none(), "{name}");
}

/// Compares results, also as text: NaN is not equal to NaN.
fn same(expected: &FetchResult, found: &FetchResult) -> bool {
    expected == found || format!("{expected:?}") == format!("{found:?}")
}
