//! Random walks through random archives, compared with a plain list of their
//! records.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::test_support::logger::{Logger, Step, step};
use crate::test_support::value_sets;
use crate::{
    Archive, ArchiveSet, ArchiveWriter, FetchResult, MetricDesc, OwnedValue, Pmid, Semantics,
    Units, ValueSet, ValueType, WriterOptions,
};

#[derive(Debug, Clone)]
struct Life {
    version: Version,
    /// Nanoseconds from the end of the archive before to the start.
    gap: i128,
    /// The sequence number of the server that the first record names, if it does.
    sequence: Option<u32>,
    first: Vec<ValueSet>,
    steps: Vec<Step>,
    has_index: bool,
}

fn life() -> impl Strategy<Value = Life> {
    (
        prop_oneof![2 => Just(Version::V3), 1 => Just(Version::V2)],
        prop::sample::select(vec![
            0,
            1000,
            500_000,
            1_000_000,
            1_001_000,
            5_000_000_000,
            60_000_000_000,
        ]),
        prop::option::of(1u32..3),
        value_sets(),
        vec(step(), 0..12),
        prop::bool::weighted(0.8),
    )
        .prop_map(|(version, gap, sequence, first, steps, has_index)| Life {
            version,
            gap,
            sequence,
            first,
            steps,
            has_index,
        })
}

/// A step through records, or a jump: of a new reader, or of the one there is.
#[derive(Debug, Clone, Copy)]
enum Move {
    Next,
    Previous,
    Start,
    From(Place),
    BackFrom(Place),
    To(Place),
    BackTo(Place),
}

/// The time of some record, or one close to it.
#[derive(Debug, Clone, Copy)]
struct Place {
    record: Index,
    more: i128,
}

fn place() -> impl Strategy<Value = Place> {
    let more = prop::sample::select(vec![-1_000_000_000, -1, 0, 1, 500_000, 1_000_000_000]);
    (any::<Index>(), more).prop_map(|(record, more)| Place { record, more })
}

impl Place {
    fn time(self, list: &[Listed]) -> Timestamp {
        let nanos = self.record.get(list).record.timestamp.as_nanos();
        Timestamp::from_nanos(nanos + self.more)
    }
}

fn walk() -> impl Strategy<Value = Vec<Move>> {
    let step = prop_oneof![
        6 => Just(Move::Next),
        6 => Just(Move::Previous),
        1 => Just(Move::Start),
        2 => place().prop_map(Move::From),
        2 => place().prop_map(Move::BackFrom),
        3 => place().prop_map(Move::To),
        3 => place().prop_map(Move::BackTo),
    ];
    vec(step, 1..60)
}

#[derive(Debug, Clone, PartialEq)]
struct Listed {
    archive: u32,
    record: FetchResult,
}

/// The values with which an archive begins whose writer names a server.
fn server(sequence: u32) -> Vec<ValueSet> {
    let values = [
        (3, 3, OwnedValue::U32(0)),
        (3, 0, OwnedValue::U32(0)),
        (3, 2, OwnedValue::U32(0)),
        (0, 23, OwnedValue::U64(7)),
        (0, 24, OwnedValue::U32(sequence)),
    ];
    let sets = values.map(|(cluster, item, value)| ValueSet {
        pmid: Pmid::new(2, cluster, item).unwrap(),
        values: Ok(vec![(None, value)]),
    });
    sets.to_vec()
}

fn declare_server(writer: &mut ArchiveWriter) {
    for set in server(0) {
        let (_, value) = &set.values.as_ref().unwrap()[0];
        let is_long = matches!(value, OwnedValue::U64(_));
        let value_type = if is_long { ValueType::U64 } else { ValueType::U32 };
        let desc = MetricDesc {
            pmid: set.pmid,
            value_type,
            indom: None,
            semantics: Semantics::Discrete,
            units: Units::NONE,
        };
        writer.declare_metric(&desc, &[&format!("server.m{}", set.pmid.raw())]).unwrap();
    }
}

/// Returns whether a start is so soon after the end of these records that no sample is missing.
fn is_soon(records: &[Listed], start: Timestamp) -> bool {
    let is_mark = |listed: &&Listed| listed.record.value_sets.is_empty();
    let from = records.iter().rev().take_while(|listed| !is_mark(listed)).count();
    let mut times: Vec<i128> =
        records[records.len() - from..].iter().map(|one| one.record.timestamp.as_nanos()).collect();
    times.dedup();
    let intervals = times.windows(2).rev().take(3).map(|pair| pair[1] - pair[0]);
    let end = records.last().unwrap().record.timestamp;
    // The same process has written all archives.
    let Some(interval) = intervals.max() else { return true };
    start.nanos_since(end) <= 3 * interval + 1_000_000_000
}

/// Writes archives. Returns their records, with a mark between two of them unless both begin with
/// one server and the second one soon after the first.
fn write(directory: &Path, lives: &[Life]) -> Vec<Listed> {
    let mut list: Vec<Listed> = Vec::new();
    let mut start_before = None;
    for (archive, life) in lives.iter().enumerate() {
        let base = directory.join(format!("archive.{archive}"));
        let end =
            list.last().map_or(1_700_000_000_000_000_000, |last| last.record.timestamp.as_nanos());
        // All versions know microseconds, and no two archives start together.
        let mut start = (end + life.gap + 999) / 1000 * 1000;
        start += i128::from(start_before == Some(start)) * 1000;
        start_before = Some(start);
        let start = Timestamp::from_nanos(start);
        let before = archive.checked_sub(1).and_then(|before| lives.get(before));
        let is_continued = before.is_some_and(|before| {
            let of_before = list.partition_point(|one| (one.archive as usize) < archive - 1);
            life.sequence.is_some()
                && life.sequence == before.sequence
                && is_soon(&list[of_before..], start)
        });
        if before.is_some() && !is_continued {
            let mark = (end + 1_000_000).min(start.as_nanos() - 1).max(end);
            let record =
                FetchResult { timestamp: Timestamp::from_nanos(mark), value_sets: Vec::new() };
            list.push(Listed { archive: archive as u32 - 1, record });
        }
        let options =
            WriterOptions { version: life.version, index_bytes: 300, ..WriterOptions::default() };
        let mut logger = Logger::new(&base, start, options);
        let first = match life.sequence {
            Some(sequence) => {
                declare_server(&mut logger.writer);
                server(sequence)
            }
            None => life.first.clone(),
        };
        logger.take(&Step::Result { after: 0, sets: first }).unwrap();
        life.steps.iter().for_each(|step| logger.take(step).unwrap());
        logger.writer.finish().unwrap();
        if !life.has_index {
            std::fs::remove_file(directory.join(format!("archive.{archive}.index"))).unwrap();
        }
        let records = logger.logged.records.into_iter();
        list.extend(records.map(|record| Listed { archive: archive as u32, record }));
    }
    list
}

fn assert_walk(source: Source<'_>, list: &[Listed], walk: &[Move]) {
    let mut records = source.records().unwrap();
    // How many records lie before the position.
    let mut position = 0;
    for (n, step) in walk.iter().enumerate() {
        let (found, expected) = match step {
            Move::Next => {
                let expected = list.get(position);
                position = (position + 1).min(list.len());
                (records.next().unwrap(), expected)
            }
            Move::Previous => {
                let before = position.checked_sub(1);
                position = before.unwrap_or(0);
                (records.previous().unwrap(), before.map(|before| &list[before]))
            }
            Move::Start => {
                (records, position) = (source.records().unwrap(), 0);
                continue;
            }
            Move::From(place) | Move::To(place) => {
                let time = place.time(list);
                if matches!(step, Move::From(_)) {
                    records = source.records_from(time).unwrap();
                } else {
                    records.move_to(time).unwrap();
                }
                position = list.partition_point(|one| one.record.timestamp < time);
                continue;
            }
            Move::BackFrom(place) | Move::BackTo(place) => {
                let time = place.time(list);
                if matches!(step, Move::BackFrom(_)) {
                    records = source.records_back_from(time).unwrap();
                } else {
                    records.move_back_to(time).unwrap();
                }
                position = list.partition_point(|one| one.record.timestamp <= time);
                continue;
            }
        };
        let found = found.map(|record| Listed {
            archive: record.archive(),
            record: record.to_owned(source.metadata()).unwrap(),
        });
        assert_eq!(found.as_ref(), expected, "move {n}");
    }
}

proptest! {
    /// forall archives, with and without an index, and all walks through them:
    /// every record is the one that the list has there
    #[test]
    fn a_walk_through_archives_is_one_through_a_list(
        lives in vec(life(), 1..=3),
        walk in walk(),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let list = write(directory.path(), &lives);
        let set = ArchiveSet::open([directory.path()]).unwrap();
        assert_walk(Source::from(&set), &list, &walk);
        let first = Archive::open(directory.path().join("archive.0")).unwrap();
        let alone = tempfile::tempdir().unwrap();
        let of_first = write(alone.path(), &lives[..1]);
        assert_walk(Source::from(&first), &of_first, &walk);
    }
}

#[test]
fn reading_ends_in_both_directions_once_it_is_cancelled() {
    let archive = test_archives::Builder::new()
        .metric("load", "u32 instant")
        .rows((0..9).map(|second| (second, [("load", second)])))
        .finish();
    let mut set = ArchiveSet::open([archive.base()]).unwrap();
    let flag = Arc::new(AtomicBool::new(false));
    set.cancel_reading_by(&flag);
    let mut records = Source::from(&set).records().unwrap();
    assert!(records.next().unwrap().is_some());
    flag.store(true, Ordering::Relaxed);
    let cancelled = |error: Error| matches!(error, Error::Io { source, .. } if source.kind() == ErrorKind::Interrupted);
    assert!(cancelled(records.next().unwrap_err()));
    assert!(cancelled(records.previous().unwrap_err()));
    flag.store(false, Ordering::Relaxed);
    assert!(records.next().unwrap().is_some());
}
