//! A writer that dies at any moment: whatever had reached the disk, only the
//! tail is torn, and after a repair nothing is wrong.
//!
//! Each write is cut at its first and last bytes and some in between, and with
//! `MMV_LONG` at all. `tests/crashed.rs` of the workspace asks pmlogcheck the same.

use std::path::Path;

use pcp_archive::check::{Severity, check};
use pcp_archive::follow::{FollowedRecord, Follower};
use pcp_archive::repair::repair;
use pcp_archive::{Archive, Timestamp, Version};

use crate::workload::{State, Workload};

/// The findings that `check` may have on the remaining files.
const TAIL: [&str; 3] = ["torn-tail", "metadata-after-end", "no-records"];
/// And before the first record, while the files are created.
const BEGINNING: [&str; 3] = ["file-missing", "index-missing", "label"];

type Seen = (Timestamp, usize);

#[test]
fn v3_archive_survives_the_death_of_its_writer() {
    assert_survives(Version::V3);
}

#[test]
fn v2_archive_survives_the_death_of_its_writer() {
    assert_survives(Version::V2);
}

fn assert_survives(version: Version) {
    let is_long = std::env::var_os("MMV_LONG").is_some();
    let workload = Workload::new(version);
    let all = read(&Archive::open(&workload.base).unwrap());
    let cuts = |len| {
        let is_cut =
            move |cut: &u64| is_long || *cut < 16 || len - cut <= 16 || cut.is_multiple_of(23);
        (0..len).filter(is_cut)
    };
    for (n, state) in workload.states(cuts).into_iter().enumerate() {
        let directory = test_archives::scratch();
        let base = directory.path().join("a");
        workload.restore(&state, &base);
        if state.records == 0 {
            assert_nothing(&base, &state);
            continue;
        }
        let whole = &all[..state.records];
        assert_only_tail(&base, &state);
        assert_readable(&base, &state, whole);
        // A repair takes longer than all other steps.
        if is_long || state.torn.is_none() || n.is_multiple_of(11) {
            assert_repairable(&base, &state, whole);
        }
    }
}

/// The files as they grow, instead of what is left of them.
#[test]
fn who_follows_the_writer_sees_each_record_when_it_is_whole() {
    for version in [Version::V3, Version::V2] {
        let workload = Workload::new(version);
        let directory = test_archives::scratch();
        let base = directory.path().join("a");
        let (mut follower, mut seen) = (None, 0);
        for state in workload.states(|len| [0, 1, len / 2, len - 1]) {
            workload.restore(&state, &base);
            if follower.is_none() {
                follower = Follower::open(&base).ok();
            }
            while let Some(follower) = &mut follower
                && let Some(FollowedRecord { record, metadata, .. }) = follower.next().unwrap()
            {
                record.to_owned(metadata).unwrap();
                seen += 1;
            }
            assert_eq!(seen, state.records, "{state:?}");
        }
    }
}

/// Checks that without a record there is nothing to read or repair, and that the reason is
/// reported.
fn assert_nothing(base: &Path, state: &State) {
    let report = check(base).unwrap();
    assert!(!report.findings().is_empty(), "{state:?}");
    for finding in report.findings() {
        let rule = finding.defect.rule();
        assert!(TAIL.contains(&rule) || BEGINNING.contains(&rule), "{finding} {state:?}");
    }
    assert!(Archive::open(base).is_err(), "{state:?}");
    let repaired = base.with_file_name("repaired");
    assert!(repair(base, &repaired).is_err(), "{state:?}");
    assert!(Archive::open(&repaired).is_err());
}

/// Checks that the only findings are half a record at the end of a file, or metadata whose record
/// is missing.
fn assert_only_tail(base: &Path, state: &State) {
    let report = check(base).unwrap();
    for finding in report.findings() {
        assert!(TAIL.contains(&finding.defect.rule()), "{finding} {state:?}");
    }
    assert_eq!(report.records() as usize, state.records, "{state:?}");
    assert!(state.torn.is_none() || !report.findings().is_empty(), "{state:?}");
}

/// Checks that exactly the complete records are read, and that half a record is reported.
fn assert_readable(base: &Path, state: &State, whole: &[Seen]) {
    let archive = Archive::open(base).unwrap_or_else(|error| panic!("{error} {state:?}"));
    assert_eq!(read(&archive), whole, "{state:?}");
    assert_eq!(archive.end(), whole[whole.len() - 1].0, "{state:?}");
    let torn = archive.torn_tail().map(|tail| tail.file.extension().unwrap().to_str().unwrap());
    // An index that ends within an entry is as good as one that does not.
    let expected = state.torn.as_deref().filter(|file| *file != "index");
    assert_eq!(torn, expected, "{state:?}");
}

fn assert_repairable(base: &Path, state: &State, whole: &[Seen]) {
    let repaired = base.with_file_name("repaired");
    repair(base, &repaired).unwrap();
    let report = check(&repaired).unwrap();
    assert!(report.worst() < Some(Severity::Warning), "{state:?} {:?}", report.findings());
    assert_eq!(read(&Archive::open(&repaired).unwrap()), whole, "{state:?}");
}

fn read(archive: &Archive) -> Vec<Seen> {
    let mut records = archive.records().unwrap();
    let mut seen = Vec::new();
    while let Some(record) = records.next().unwrap() {
        seen.push((record.timestamp(), record.size()));
    }
    seen
}

/// Checks the preconditions of the other tests: an index entry for each possible reason,
/// domains that change in every way, labels at all levels.
#[test]
fn the_workload_has_all_that_an_archive_can_have() {
    for (version, sizes) in [(Version::V3, &[4, 5, 5, 0, 1][..]), (Version::V2, &[4, 5, 5, 1])] {
        let workload = Workload::new(version);
        let archive = Archive::open(&workload.base).unwrap();
        let expected = [
            (0, 0),  // the first record
            (2, 0),  // an instance came
            (3, 0),  // and one has another name
            (4, 1),  // a volume was asked for
            (5, 1),  // a metric came
            (9, 1),  // bytes
            (40, 1), // time
            (41, 1), // all instances went; version 2 has no empty domains
            (42, 1), // one came
            (43, 2), // the volume was full
            (44, 2), // bytes
            (45, 2), // the end
        ];
        let expected =
            expected.into_iter().filter(|(second, _)| version == Version::V3 || *second != 41);
        let entries = archive.index().entries().iter();
        let entries =
            entries.map(|entry| (entry.timestamp.seconds() - 1_700_000_000, entry.volume));
        assert_eq!(entries.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{version:?}");
        let (_, history) = archive.metadata().indoms().next().unwrap();
        let found: Vec<_> = history.states().map(|state| state.instances.len()).collect();
        assert_eq!(found, sizes, "{version:?}");
        assert_eq!(archive.metadata().labels().count(), 6);
        assert_eq!(archive.metadata().texts().count(), 9);
    }
}
