//! A writer that dies at any moment: whatever had reached the disk, only the
//! tail is torn, and after a repair nothing is wrong.
//!
//! All files only grow, so the state after the n-th write is the finished
//! archive with its files cut to the lengths that they had then.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use mmv_archive::check::{Severity, check};
use mmv_archive::repair::repair;
use mmv_archive::{
    Archive, ArchiveWriter, Error, FetchResult, InDom, Instance, InstanceId, MetricDesc,
    OwnedValue, Pmid, Semantics, Timestamp, Units, ValueSet, ValueType, WriterLabel, WriterOptions,
};
use tempfile::TempDir;

const RECORDS: i64 = 6;
/// The order in which the files of one call grow.
const ORDER: [&str; 4] = ["meta", "0", "1", "index"];

type Lengths = BTreeMap<&'static str, u64>;

/// Files by their extension, with the lengths that they had after each call.
fn archive() -> (TempDir, PathBuf, Vec<Lengths>) {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("a");
    let label = WriterLabel {
        pid: 1,
        hostname: "host".to_owned(),
        timezone: "UTC".to_owned(),
        zoneinfo: String::new(),
    };
    let options = WriterOptions { index_bytes: 1, ..WriterOptions::default() };
    let mut writer = ArchiveWriter::create(&base, label, options).unwrap();
    let indom = InDom::new(70, 1).unwrap();
    let desc = MetricDesc {
        pmid: Pmid::new(70, 1, 1).unwrap(),
        value_type: ValueType::U64,
        indom: Some(indom),
        semantics: Semantics::Counter,
        units: Units::count(),
    };
    writer.declare_metric(&desc, &["a.b"]).unwrap();
    let mut lengths = Vec::new();
    for second in 0..RECORDS {
        if second == RECORDS / 2 {
            writer.switch_volume();
        }
        let ids = (0..=second as i32 / 2).map(|id| InstanceId::new(id).unwrap());
        let instances: Vec<_> = ids.map(|id| Instance { id, name: "x".into() }).collect();
        writer.declare_indom(indom, &instances).unwrap();
        let value = |one: &Instance| (Some(one.id), OwnedValue::U64(second as u64));
        let values = Ok(instances.iter().map(value).collect());
        let timestamp = Timestamp::new(1_700_000_000 + second, 0).unwrap();
        let value_sets = vec![ValueSet { pmid: desc.pmid, values }];
        writer.write_result(&FetchResult { timestamp, value_sets }).unwrap();
        lengths.push(sizes(&base));
    }
    writer.finish().unwrap();
    lengths.push(sizes(&base));
    (directory, base, lengths)
}

fn sizes(base: &Path) -> Lengths {
    let size = |file| Some((file, fs::metadata(base.with_extension(file)).ok()?.len()));
    ORDER.into_iter().filter_map(size).collect()
}

/// Every state between two calls: one file after the other grows, a part of
/// its bytes first. With each state the number of records that are whole.
fn states(lengths: &[Lengths]) -> Vec<(Lengths, u64)> {
    let mut states = Vec::new();
    for (n, (before, after)) in lengths.iter().zip(lengths.iter().skip(1)).enumerate() {
        let mut state = before.clone();
        let mut whole = n as u64 + 1;
        for file in ORDER {
            let Some(&end) = after.get(file) else { continue };
            let start = before.get(file).copied().unwrap_or(0);
            for len in (start..end).step_by(5) {
                state.insert(file, len);
                states.push((state.clone(), whole));
            }
            state.insert(file, end);
            whole += u64::from(end > start && file.parse::<u32>().is_ok());
            states.push((state.clone(), whole));
        }
    }
    states
}

fn copy_cut(base: &Path, to: &Path, state: &Lengths) {
    for (file, len) in state {
        let bytes = fs::read(base.with_extension(file)).unwrap();
        fs::write(to.with_extension(file), &bytes[..*len as usize]).unwrap();
    }
}

#[test]
fn at_every_moment_only_the_tail_is_torn_and_a_repair_makes_the_archive_clean() {
    let (_directory, base, lengths) = archive();
    let states = states(&lengths);
    assert!(states.len() > 150, "{}", states.len());
    for (state, whole) in states {
        let directory = tempfile::tempdir().unwrap();
        let cut = directory.path().join("cut");
        copy_cut(&base, &cut, &state);
        assert_only_tail(&cut, &state);
        match Archive::open(&cut) {
            Ok(archive) => assert_eq!(count(&archive), whole, "{state:?}"),
            // Half a metadata record is refused, as PCP does.
            Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "{error} {state:?}"),
        }
        let mended = directory.path().join("mended");
        let repaired = repair(&cut, &mended).unwrap();
        assert_eq!(repaired.records, whole, "{state:?}");
        let report = check(&mended).unwrap();
        assert!(report.worst() < Some(Severity::Warning), "{state:?} {:?}", report.findings());
        assert_eq!(count(&Archive::open(&mended).unwrap()), whole);
    }
}

/// Half a record at the end of a file, or metadata whose record is missing.
#[track_caller]
fn assert_only_tail(base: &Path, state: &Lengths) {
    let report = check(base).unwrap();
    for finding in report.findings() {
        let rule = finding.defect.rule();
        let is_tail = ["torn-tail", "metadata-after-end", "no-records"].contains(&rule);
        assert!(is_tail, "{finding} {state:?}");
    }
}

fn count(archive: &Archive) -> u64 {
    let mut records = archive.records().unwrap();
    let mut n = 0;
    while records.next().unwrap().is_some() {
        n += 1;
    }
    n
}
