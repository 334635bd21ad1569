use proptest::prelude::*;

use super::*;
use crate::format::metadata_record::test_support::{every_bit_flipped, hex};
use crate::format::{ResultBuilder, encode_mark};
use crate::reader::fast::RecordShapes;
use crate::test_support::{descs, metadata, value_sets};
use crate::{FetchResult, OwnedValue, ValueSet};

/// A u32 in place, an i64 of two instances in blocks, a metric without
/// values, one with `PM_ERR_VALUE`.
const EXAMPLE: &str = "
    00000070  6553f100 00000000 075bcd15  00000004
    11800402 00000001 00000000  ffffffff 00000064
    11800405 00000002 00000001  00000001 00000017  00000007 0000001a
    11800404 00000000
    11800406 ffffcfc1
    0200000c 0000000000000003
    0200000c ffffffffffffffff
    00000070";

/// Where the index of the first block is, and where the blocks are.
const FIRST_INDEX: usize = 56;
const SECOND_INDEX: usize = 64;
const BLOCKS: usize = 84;

fn timestamp() -> Timestamp {
    Timestamp::new(0x6553_f100, 0x075b_cd15).unwrap()
}

fn example() -> FetchResult {
    let set = |item: usize, values| ValueSet { pmid: descs()[item].pmid, values };
    let id = |id| InstanceId::new(id).ok();
    FetchResult {
        timestamp: timestamp(),
        value_sets: vec![
            set(2, Ok(vec![(None, OwnedValue::U32(100))])),
            set(5, Ok(vec![(id(1), OwnedValue::I64(3)), (id(7), OwnedValue::I64(-1))])),
            set(4, Ok(vec![])),
            set(6, Err(ErrorCode::VALUE)),
        ],
    }
}

fn encoded(version: Version, result: &FetchResult) -> Vec<u8> {
    let (mut builder, mut out) = (ResultBuilder::default(), Vec::new());
    let type_of = |pmid| descs().iter().find(|desc| desc.pmid == pmid).unwrap().value_type;
    builder.put_result(result, type_of).unwrap();
    builder.encode(version, result.timestamp, &mut out).unwrap();
    out
}

fn parsed(version: Version, bytes: &[u8]) -> Result<FetchResult, RecordError> {
    Record::parse(version, bytes, 0, 808)?.to_owned(&metadata())
}

fn with_word(at: usize, word: u32) -> Vec<u8> {
    let mut bytes = hex(EXAMPLE);
    bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
    bytes
}

#[test]
fn bytes_both_ways() {
    assert_eq!(encoded(Version::V3, &example()), hex(EXAMPLE));
    assert_eq!(parsed(Version::V3, &hex(EXAMPLE)), Ok(example()));
}

#[test]
fn marks_both_ways() {
    for (version, bytes, nanos) in [
        (Version::V3, "00000018 6553f10a 00000000 076b0f55 00000000 00000018", 0x076b_0f55),
        (Version::V2, "00000014 6553f10a 0001e628 00000000 00000014", 124_456_000),
    ] {
        let timestamp = Timestamp::new(0x6553_f10a, nanos).unwrap();
        let mut out = Vec::new();
        encode_mark(version, timestamp, &mut out).unwrap();
        assert_eq!(out, hex(bytes));
        let record = Record::parse(version, &out, 0, 0).unwrap();
        assert!(record.is_mark());
        assert_eq!((record.timestamp(), record.value_sets().count()), (timestamp, 0));
    }
}

#[test]
fn a_mark_of_another_length_is_refused() {
    let bytes = hex("0000001c 6553f10a 00000000 076b0f55 00000000 7e7e7e7e 0000001c");
    let error = RecordError::Length { record: "mark", found: 28, expected: 24 };
    assert_eq!(parsed(Version::V3, &bytes), Err(error));
}

#[test]
fn every_truncation_is_refused_even_in_a_frame_that_fits() {
    let bytes = hex(EXAMPLE);
    for len in 0..bytes.len() {
        assert!(parsed(Version::V3, &bytes[..len]).is_err(), "{len}");
    }
    for len in 4..bytes.len() - 4 {
        let mut out = Vec::new();
        let body = &bytes[4..len];
        frame::encode(&mut out, |out| {
            out.extend(body);
            Ok(())
        })
        .unwrap();
        assert!(parsed(Version::V3, &out).is_err(), "{len}");
    }
}

#[test]
fn flipped_bits_never_panic_nor_pass_unseen() {
    let good = hex(EXAMPLE);
    for bytes in every_bit_flipped(&good, 0..good.len()) {
        // The type in a block's header is not believed.
        let free = bytes[BLOCKS] != good[BLOCKS] || bytes[BLOCKS + 12] != good[BLOCKS + 12];
        assert!(parsed(Version::V3, &bytes) != Ok(example()) || free);
    }
}

#[test]
fn absurd_numbers_are_refused_before_anything_is_allocated() {
    for (at, word) in [(16, 5), (16, i32::MAX as u32), (24, 2), (24, i32::MAX as u32)] {
        assert!(parsed(Version::V3, &with_word(at, word)).is_err(), "{at} {word}");
    }
    assert_eq!(
        parsed(Version::V3, &with_word(16, u32::MAX)),
        Err(RecordError::Negative { field: "number of value sets", found: -1 })
    );
}

#[test]
fn blocks_in_another_order_than_their_values_are_accepted() {
    let (mut bytes, good) = (hex(EXAMPLE), hex(EXAMPLE));
    bytes[FIRST_INDEX..FIRST_INDEX + 4].copy_from_slice(&good[SECOND_INDEX..SECOND_INDEX + 4]);
    bytes[SECOND_INDEX..SECOND_INDEX + 4].copy_from_slice(&good[FIRST_INDEX..FIRST_INDEX + 4]);
    let result = parsed(Version::V3, &bytes).unwrap();
    let values = result.value_sets[1].values.as_ref().unwrap();
    assert_eq!(values[0].1, OwnedValue::I64(-1));
    assert_eq!(values[1].1, OwnedValue::I64(3));
}

#[test]
fn a_block_that_two_values_share_is_refused() {
    let bytes = with_word(SECOND_INDEX, 0x17);
    let error = RecordError::BlockOrder { found: 84, expected: 96 };
    assert_eq!(parsed(Version::V3, &bytes), Err(error));
}

#[test]
fn the_record_itself_is_no_block() {
    let record = "0000002c  6553f100 00000000 075bcd15  00000001
        11800405 00000001 00000001  ffffffff 00000002  0000002c";
    let refused = RecordError::BlockOrder { found: 0, expected: 40 };
    assert_eq!(parsed(Version::V3, &hex(record)), Err(refused));
}

#[test]
fn overlapping_blocks_and_gaps_are_refused() {
    for (at, word) in [
        // The first block reaches into the second, or ends before it.
        (BLOCKS, 0x0200_0010),
        (BLOCKS, 0x0200_0008),
        // The last block ends before the trailer, or reaches into it.
        (BLOCKS + 12, 0x0200_0008),
        (BLOCKS + 12, 0x0200_0010),
        // The first block starts after the end of the value sets.
        (FIRST_INDEX, 0x18),
    ] {
        assert!(parsed(Version::V3, &with_word(at, word)).is_err(), "{at} {word:#x}");
    }
}

#[test]
fn value_formats_above_2_and_negative_instances_are_refused() {
    assert!(parsed(Version::V3, &with_word(48, 2)).is_ok());
    assert_eq!(
        parsed(Version::V3, &with_word(48, 3)),
        Err(RecordError::Field { field: "value format", found: 3 })
    );
    assert_eq!(
        parsed(Version::V3, &with_word(52, -2i32 as u32)),
        Err(RecordError::Negative { field: "instance", found: -2 })
    );
}

#[test]
fn floats_are_read_in_place_and_other_mismatches_are_refused() {
    let bytes = hex(EXAMPLE);
    let record = Record::parse(Version::V3, &bytes, 0, 0).unwrap();
    let set = record.value_sets().next().unwrap();
    let first = |value_type| set.values(value_type).next().unwrap().map(|(_, value)| value);
    assert_eq!(first(ValueType::Float), Ok(Value::Float(f32::from_bits(100))));
    assert_eq!(first(ValueType::I32), Ok(Value::I32(100)));
    let pmid = set.pmid();
    for value_type in [ValueType::U64, ValueType::String, ValueType::NoSupport] {
        let error = RecordError::ValueEncoding { pmid, format: 0, len: 4, value_type };
        assert_eq!(first(value_type), Err(error));
    }
}

proptest! {
    /// forall r: parse(encode(r)) = r, in both versions (to the microsecond
    /// in version 2), and encode(parse(b)) = b
    #[test]
    fn results_read_back(sets in value_sets(), seconds in 0..i32::MAX, micros in 0u32..1_000_000) {
        let timestamp = Timestamp::new(i64::from(seconds), micros * 1000).unwrap();
        let result = FetchResult { timestamp, value_sets: sets };
        for version in [Version::V2, Version::V3] {
            let bytes = encoded(version, &result);
            prop_assert_eq!(bytes.len() % WORD, 0);
            let back = parsed(version, &bytes).unwrap();
            prop_assert_eq!(&back, &result);
            prop_assert_eq!(encoded(version, &back), bytes);
        }
    }

    #[test]
    fn no_bytes_panic(mut words in prop::collection::vec(0u32..40, 4..40)) {
        let len = 4 * (words.len() + 2) as u32;
        words.insert(0, len);
        words.push(len);
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
        if let Ok(record) = Record::parse(Version::V3, &bytes, 0, 0) {
            prop_assert_eq!(record.value_sets().count(), record.len() as usize);
            for set in record.value_sets() {
                for value_type in ValueType::ALL {
                    prop_assert_eq!(set.values(value_type).count(), set.len());
                }
            }
        }
    }
}

/// Returns what a reader that knows the shape of `known` reads from other bytes, and
/// whether it takes them for the same shape.
fn parsed_like(known: &[u8], bytes: &[u8]) -> (Result<FetchResult, RecordError>, bool) {
    let mut shapes = RecordShapes::default();
    let layout = shapes.parse(Version::V3, known, 0, 808).unwrap().shape();
    let record = shapes.parse(Version::V3, bytes, 0, 808);
    let is_same = record.as_ref().is_ok_and(|record| record.shape() == layout);
    (record.and_then(|record| record.to_owned(&metadata())), is_same)
}

#[test]
fn a_known_layout_changes_no_answer() {
    let known = hex(EXAMPLE);
    let mut same = Vec::new();
    for (bit, bytes) in every_bit_flipped(&known, 0..known.len()).enumerate() {
        let (found, is_same) = parsed_like(&known, &bytes);
        assert_eq!(found, parsed(Version::V3, &bytes), "bit {bit}");
        same.extend(is_same.then_some(bit / 8));
    }
    same.dedup();
    // The value in place and the payloads of the blocks; and the time.
    let values: Vec<_> = (36..40).chain(88..96).chain(100..108).collect();
    assert!(values.iter().all(|byte| same.contains(byte)), "{same:?}");
    assert!(same.iter().all(|byte| values.contains(byte) || (4..16).contains(byte)), "{same:?}");
}

#[test]
fn shapes_are_distinguished() {
    let mut shapes = RecordShapes::default();
    let mut of = |bytes: &[u8]| shapes.parse(Version::V3, bytes, 0, 808).unwrap().shape();
    let whole = hex(EXAMPLE);
    // Another instance of the same domain, and the metrics without the last.
    let other = with_word(SECOND_INDEX - 4, 8);
    let shorter = {
        let FetchResult { timestamp, mut value_sets } = example();
        value_sets.pop();
        encoded(Version::V3, &FetchResult { timestamp, value_sets })
    };
    let mut mark = Vec::new();
    encode_mark(Version::V3, timestamp(), &mut mark).unwrap();
    let [first, second, third] = [&whole, &other, &shorter].map(|bytes| of(bytes).unwrap());
    assert!(first != second && second != third && first != third);
    assert_eq!([&whole, &other, &shorter].map(|bytes| of(bytes)), [first, second, third].map(Some));
    assert_eq!(of(&mark), None);
}
