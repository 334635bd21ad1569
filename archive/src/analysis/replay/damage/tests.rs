use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use proptest::prelude::*;

use crate::analysis::replay::tests::{answer, archive, at};
use crate::analysis::replay::{Gaps, Replay, ReplaySelection};
use crate::{Archive, Error, Value};

const RECORDS: [(i64, Option<u32>); 5] = [
    (0, Some(100)),
    (10_000, Some(203)),
    (20_000, Some(300)),
    (30_000, Some(400)),
    (40_000, Some(500)),
];

fn volume(archive: &Archive) -> PathBuf {
    archive.volume_path(0).unwrap().to_owned()
}

fn places(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let mut start = 808;
    while let Some(word) = bytes.get(start..).and_then(|rest| rest.first_chunk()) {
        let end = start + u32::from_be_bytes(*word) as usize;
        places.push(start..end);
        start = end;
    }
    places
}

/// Writes over some bytes of the archive's volume and opens it again.
fn damaged(archive: &Archive, range: Range<usize>) -> Archive {
    let path = volume(archive);
    let mut bytes = fs::read(&path).unwrap();
    let end = range.end.min(bytes.len());
    bytes[range.start..end].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    Archive::open(archive.base()).unwrap()
}

fn selection(archive: &Archive) -> ReplaySelection<'_> {
    let mut selection = Replay::open(archive);
    for name in ["t.counter", "t.instant", "t.discrete"] {
        selection.select(name);
    }
    selection
}

#[test]
fn a_damaged_record_is_a_gap_over_which_nothing_is_joined() {
    let (_directory, whole) = archive(&RECORDS);
    let place = places(&fs::read(volume(&whole)).unwrap())[2].clone();
    let archive = damaged(&whole, place.start..place.start + 4);
    let strict = selection(&archive).load();
    assert!(matches!(strict, Err(Error::Corrupt { offset, .. }) if offset == place.start as u64));
    let replay = selection(&archive).read_on().load().unwrap();
    let [lost] = replay.lost() else { panic!("{:?}", replay.lost()) };
    assert_eq!((lost.offset, lost.bytes), (place.start as u64, place.len() as u64));
    assert_eq!((lost.after, lost.before), (Some(at(10_000)), Some(at(30_000))));
    for (millis, expected) in [
        (5_000, [Some(152), Some(100), Some(100)]),
        (10_000, [Some(203); 3]),
        (15_000, [None; 3]),
        (20_000, [None; 3]),
        (30_000, [Some(400); 3]),
        (35_000, [Some(450), Some(400), Some(400)]),
    ] {
        assert_eq!(answer(&replay, millis), Some(expected), "{millis} ms");
    }
    let rates = replay.rates_at(at(35_000), at(5_000)).unwrap();
    let [(None, Value::Double(rate))] = rates.values[0].as_slice() else { panic!("{rates:?}") };
    // From 5 s to 10 s, where the line is at 151.5 first, and from 30 s to 35 s.
    let expected = (51.5 + 50.0) / 10.0;
    assert!((rate - expected).abs() < 1e-9, "of the parts that are there: {rate}");
    let joined = selection(&archive).gaps(Gaps::Join).read_on().load().unwrap();
    let rates = joined.rates_at(at(35_000), at(5_000)).unwrap();
    assert!(rates.values[0].is_empty(), "the gap lies in between");
}

#[test]
fn if_the_damage_decides_the_whole_archive_is_read() {
    let (_directory, whole) = archive(&RECORDS);
    let place = places(&fs::read(volume(&whole)).unwrap())[2].clone();
    let archive = damaged(&whole, place);
    let spans = |at| selection(&archive).read_on().load_spans(&[at..=at]);
    let replay = spans(at(15_000)).unwrap();
    assert_eq!(answer(&replay, 15_000), Some([None; 3]));
    assert_eq!(replay.lost().len(), 1);
    let replay = spans(at(35_000)).unwrap();
    assert_eq!(answer(&replay, 35_000), Some([Some(450), Some(400), Some(400)]));
}

proptest! {
    /// forall stretches of bytes from the start of a record on: what is whole
    /// has its values at its own time, and damage is reported
    #[test]
    fn what_is_whole_is_read(first in 0usize..4, len in 4usize..400) {
        let (_directory, whole) = archive(&RECORDS);
        let places = places(&fs::read(volume(&whole)).unwrap());
        let start = places[first].start;
        // Damage at the end of an archive is a torn tail, not a gap.
        let end = (start + len).min(places[4].start);
        let archive = damaged(&whole, start..end);
        let replay = selection(&archive).read_on().load().unwrap();
        for (place, (millis, value)) in places.iter().zip(RECORDS) {
            if place.end <= start || place.start >= end {
                prop_assert_eq!(answer(&replay, millis), Some([value; 3]), "{} ms", millis);
            }
        }
        prop_assert_eq!(replay.lost().len(), 1);
    }
}
