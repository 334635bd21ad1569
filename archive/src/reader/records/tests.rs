//! Random walks through random archives, compared with a plain list of their
//! records.

use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::test_support::logger::{Logger, Step, step};
use crate::test_support::value_sets;
use crate::{Archive, ArchiveSet, FetchResult, ValueSet, WriterOptions};

#[derive(Debug, Clone)]
struct Life {
    version: Version,
    /// Nanoseconds from the end of the archive before to the start.
    gap: i128,
    first: Vec<ValueSet>,
    steps: Vec<Step>,
    has_index: bool,
}

fn life() -> impl Strategy<Value = Life> {
    (
        prop_oneof![2 => Just(Version::V3), 1 => Just(Version::V2)],
        prop::sample::select(vec![0, 1000, 500_000, 1_000_000, 1_001_000, 5_000_000_000]),
        value_sets(),
        vec(step(), 0..12),
        prop::bool::weighted(0.8),
    )
        .prop_map(|(version, gap, first, steps, has_index)| Life {
            version,
            gap,
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
        if archive > 0 {
            let mark = (end + 1_000_000).min(start.as_nanos() - 1).max(end);
            let record =
                FetchResult { timestamp: Timestamp::from_nanos(mark), value_sets: Vec::new() };
            list.push(Listed { archive: archive as u32 - 1, record });
        }
        let options =
            WriterOptions { version: life.version, index_bytes: 300, ..WriterOptions::default() };
        let mut logger = Logger::new(&base, start, options);
        logger.take(&Step::Result { after: 0, sets: life.first.clone() }).unwrap();
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
    #![proptest_config(ProptestConfig::with_cases(128))]

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
        let of_first = list.iter().filter(|one| one.archive == 0).count();
        // The mark after it is the set's.
        let of_first = &list[..of_first - usize::from(lives.len() > 1)];
        assert_walk(Source::from(&first), of_first, &walk);
    }
}
