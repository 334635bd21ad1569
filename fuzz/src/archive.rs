//! An archive of several files, through all functions of the library.
//!
//! | | |
//! |---|---|
//! | `Archive` | records read forwards to the end are also read backwards, and from any time, with any index |
//! | `Salvage` | finds all records that `Archive` reads |
//! | `Replay` | two runs agree; the observations end |
//! | `check` | ends, and has a finding where an archive does not open |
//! | `repair`, `reindex` | the result has notes at most, and the reported records |

use std::path::Path;
use std::time::Duration;

use pcp_archive::check::{self, Defect, Severity};
use pcp_archive::raw::Record;
use pcp_archive::repair::{reindex, repair};
use pcp_archive::replay::Replay;
use pcp_archive::salvage::{Salvage, SalvageItem};
use pcp_archive::{Archive, Error, Timestamp};

use crate::allocator;
use crate::split::Files;

/// Opens, reads, salvages, replays, checks and repairs the archive that the
/// bytes stand for (`split.rs`).
pub fn archive(bytes: &[u8]) {
    let Some(files) = Files::new(bytes) else { return };
    let directory = test_archives::scratch();
    let base = directory.path().join("a");
    files.write(&base);
    let len = files.len();
    if let Ok(archive) = Archive::open(&base) {
        allocator::within(len, || read(&archive));
        allocator::within(len, || replay(&archive));
    }
    allocator::within(len, || drop(Archive::open(&base)));
    allocator::within(len, || checked(&base));
    allocator::within(len, || repaired(&base, &directory.path().join("b")));
}

type RecordPlace = (u32, u64);

fn place(record: &Record<'_>) -> RecordPlace {
    (record.volume(), record.offset())
}

/// The records with their times, as far as they can be read, and whether that
/// is to the end.
fn forwards(archive: &Archive) -> (Vec<(Timestamp, RecordPlace)>, bool) {
    let mut found = Vec::new();
    let Ok(mut records) = archive.records() else { return (found, false) };
    loop {
        match records.next() {
            Ok(Some(record)) => {
                found.push((record.timestamp(), place(&record)));
                let _ = record.to_owned(archive.metadata());
            }
            Ok(None) => return (found, true),
            Err(_) => return (found, false),
        }
    }
}

fn read(archive: &Archive) {
    let (found, is_whole) = forwards(archive);
    if is_whole {
        assert_backwards(archive, &found);
        assert_times(archive, &found);
    }
    let places: Vec<_> = found.iter().map(|(_, place)| *place).collect();
    let salvaged = salvaged(archive.base());
    assert!(salvaged.starts_with(&places), "{places:?} are read, {salvaged:?} are salvaged");
    for (_, history) in archive.metadata().indoms() {
        for state in history.states().take(20) {
            assert!(state.instances.is_sorted_by(|one, next| one.id < next.id));
        }
        let union = history.union();
        assert!(union.is_sorted_by(|one, next| one.id < next.id));
    }
}

fn assert_backwards(archive: &Archive, found: &[(Timestamp, RecordPlace)]) {
    let mut records = archive.records_back_from(Timestamp::MAX).expect("all was read");
    let mut back = Vec::new();
    while let Some(record) = records.previous().expect("all was read") {
        back.push((record.timestamp(), place(&record)));
    }
    back.reverse();
    assert_eq!(found, back);
}

fn assert_times(archive: &Archive, found: &[(Timestamp, RecordPlace)]) {
    if !found.is_sorted_by_key(|(time, _)| *time) {
        return;
    }
    for (from, _) in found.iter().step_by(found.len().div_ceil(8).max(1)) {
        let mut records = archive.records_from(*from).expect("all was read");
        let first = records.next().expect("all was read").map(|record| place(&record));
        let expected = found.iter().find(|(time, _)| time >= from);
        assert_eq!(first, expected.map(|(_, place)| *place), "from {from}");
    }
}

fn salvaged(base: &Path) -> Vec<RecordPlace> {
    let salvage = Salvage::open(base).expect("the archive opens");
    let mut places = Vec::new();
    let mut records = salvage.records();
    while let Some(next) = records.next().expect("no input or output fails") {
        if let SalvageItem::Record(record) = next {
            places.push(place(&record));
        }
    }
    places
}

fn replay(archive: &Archive) {
    let mut selection = Replay::open(archive);
    selection.select("");
    let Ok(replay) = selection.load() else { return };
    let start = archive.label().start;
    let end = replay.end();
    let middle = Timestamp::from_nanos(i128::midpoint(start.as_nanos(), end.as_nanos()));
    for moment in [end, start, middle, Timestamp::MAX, Timestamp::EPOCH] {
        let sample = replay.sample_at(moment);
        let _ = replay.rates_at(moment, moment.saturating_sub(Duration::from_secs(1)));
        // As text: a number that is none differs from itself.
        assert_eq!(format!("{sample:?}"), format!("{:?}", replay.sample_at(moment)));
    }
    replay.observations().for_each(drop);
}

fn checked(base: &Path) {
    match check::check(base) {
        Ok(report) => {
            let opens = Archive::open(base).is_ok();
            assert!(opens || !report.findings().is_empty(), "does not open, and nothing is found");
        }
        Err(Error::NotFound { .. } | Error::Ambiguous { .. } | Error::SeveralHosts { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

fn repaired(base: &Path, output: &Path) {
    let Ok(repaired) = repair(base, output) else { return };
    for part in std::iter::once(&repaired).chain(&repaired.further) {
        assert_sound(&part.base, part.records + part.marks);
    }
    reindex(output, &mut |_, _| {}).expect("a whole archive");
    assert_sound(output, repaired.records + repaired.marks);
}

fn assert_sound(base: &Path, records: u64) {
    let report = check::check(base).expect("an archive");
    let findings = report.findings();
    // A repair keeps labels that PCP's readers use.
    let mut defects = findings.iter().map(|finding| &finding.defect);
    let is_fine = |defect: &Defect| defect.severity() == Severity::Note || defect.is_foreign_text();
    assert!(defects.all(is_fine), "{findings:?}");
    let archive = Archive::open(base).expect("an archive without errors opens");
    let (found, is_whole) = forwards(&archive);
    assert_eq!((found.len() as u64, is_whole), (records, true));
}
