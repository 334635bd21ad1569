use std::fs;

use super::*;
use crate::format::{archive_label, encode_mark, frame};

fn at(seconds: i64) -> Timestamp {
    Timestamp::new(seconds, 0).unwrap()
}

fn mark(seconds: i64) -> Vec<u8> {
    let mut out = Vec::new();
    encode_mark(Version::V3, at(seconds), &mut out).unwrap();
    out
}

/// The seconds of the records of an archive whose volume has this after its
/// label, and offset and length of the lost bytes.
fn salvaged(data: &[u8]) -> (Vec<i64>, Vec<(u64, u64)>) {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("a");
    let label = ArchiveLabel {
        version: Version::V3,
        pid: 1,
        start: Timestamp::EPOCH,
        hostname: "host".into(),
        timezone: "UTC".into(),
        zoneinfo: "".into(),
    };
    for role in [Role::Metadata, Role::Data(0)] {
        let mut bytes = Vec::new();
        archive_label::encode(&label, role, &mut bytes).unwrap();
        if role == Role::Data(0) {
            bytes.extend(data);
        }
        fs::write(base.with_extension(role.extension()), bytes).unwrap();
    }
    let salvage = Salvage::open(&base).unwrap();
    let (mut seconds, mut lost) = (Vec::new(), Vec::new());
    let mut records = salvage.records();
    while let Some(next) = records.next().unwrap() {
        match next {
            SalvageItem::Record(record) => seconds.push(record.timestamp().seconds()),
            SalvageItem::Lost(stretch) => lost.push((stretch.offset - 808, stretch.bytes)),
        }
    }
    (seconds, lost)
}

#[test]
fn garbage_of_any_length_between_records_is_skipped() {
    for garbage in (1..40).chain(1020..1030) {
        for byte in [0, 1, 0xff] {
            let bytes = [mark(1), vec![byte; garbage], mark(2), mark(3)].concat();
            assert_eq!(salvaged(&bytes), (vec![1, 2, 3], vec![(24, garbage as u64)]), "{garbage}");
        }
    }
}

#[test]
fn garbage_that_is_longer_than_a_search_block_is_skipped() {
    let garbage = vec![0x55; (256 << 10) * 2 + 5];
    let bytes = [mark(1), garbage.clone(), mark(2)].concat();
    assert_eq!(salvaged(&bytes), (vec![1, 2], vec![(24, garbage.len() as u64)]));
}

#[test]
fn a_good_record_across_the_end_of_a_search_block_is_found() {
    for shift in 0..24 {
        let garbage = vec![0; (256 << 10) - shift];
        let bytes = [garbage.clone(), mark(2)].concat();
        assert_eq!(salvaged(&bytes), (vec![2], vec![(0, garbage.len() as u64)]), "{shift}");
    }
}

#[test]
fn two_damaged_places_are_two() {
    let bytes = [mark(1), vec![0; 5], mark(2), vec![0xff; 9], mark(3), vec![7; 2]].concat();
    assert_eq!(salvaged(&bytes), (vec![1, 2, 3], vec![(24, 5), (53, 9), (86, 2)]));
}

#[test]
fn a_record_with_good_lengths_and_bad_fields_is_lost_alone() {
    let mut bad = Vec::new();
    frame::encode(&mut bad, |out| {
        out.extend([0xff; 40]);
        Ok(())
    })
    .unwrap();
    let bytes = [mark(1), bad, mark(2)].concat();
    assert_eq!(salvaged(&bytes), (vec![1, 2], vec![(24, 48)]));
}

#[test]
fn every_flipped_bit_costs_at_most_its_record() {
    let good = [mark(1), mark(2), mark(3)].concat();
    for bit in 0..24 * 8 {
        let mut bytes = good.clone();
        bytes[24 + bit / 8] ^= 1 << (bit % 8);
        let (seconds, _) = salvaged(&bytes);
        assert_eq!((seconds.first(), seconds.last()), (Some(&1), Some(&3)), "{bit}");
    }
}

fn long_record(seconds: u32, bytes: u32) -> Vec<u8> {
    let mut record = Vec::new();
    frame::encode(&mut record, |out| {
        let sets = bytes / 8;
        for word in [seconds, 0, 0, sets] {
            out.extend(word.to_be_bytes());
        }
        (0..sets).for_each(|pmid| out.extend((u64::from(pmid) << 32).to_be_bytes()));
        Ok(())
    })
    .unwrap();
    record
}

#[test]
fn a_very_long_record_after_damage_is_found() {
    let bytes = [mark(1), vec![0; 5], long_record(2, 9 << 20), mark(3)].concat();
    assert_eq!(salvaged(&bytes), (vec![1, 2, 3], vec![(24, 5)]));
}

#[test]
fn false_lengths_are_skipped_in_bounded_time() {
    // To look into all of them would be half a million times half a megabyte.
    let word = (512u32 << 10).to_be_bytes();
    let bytes = [mark(1), vec![0xff], word.repeat(512 << 10), mark(2)].concat();
    assert_eq!(salvaged(&bytes), (vec![1, 2], vec![(24, (2 << 20) + 1)]));
}
