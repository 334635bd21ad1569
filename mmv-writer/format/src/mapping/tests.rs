use std::io::Write;

use super::*;

fn file(words: u64) -> File {
    let mut file = tempfile::tempfile().unwrap();
    let bytes: Vec<u8> = (0..words).flat_map(u64::to_ne_bytes).collect();
    file.write_all(&bytes).unwrap();
    file
}

#[test]
fn a_load_is_inside_and_aligned_or_none() {
    let map = ReadMapping::map(&file(8)).unwrap();
    assert_eq!(map.len(), 64);
    assert_eq!(map.load_u64(56), Some(7));
    for at in [1, 4, 57, 64, usize::MAX, usize::MAX - 7] {
        assert_eq!(map.load_u64(at), None, "{at}");
    }
    assert_eq!(map.generations(), (1, 2));
    assert!(!map.is_dead());
}

#[test]
fn a_file_shorter_than_a_header_is_not_mapped() {
    for words in [0, 4] {
        let error = ReadMapping::map(&file(words)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}

#[test]
fn a_part_of_a_file_is_mapped_from_a_page_on() {
    let words = PART_ALIGNMENT / 8;
    let file = file(2 * words);
    let part = ReadMapping::map_part(&file, PART_ALIGNMENT, 16).unwrap();
    assert_eq!((part.len(), part.load_u64(8), part.load_u64(16)), (16, Some(words + 1), None));
    for (from, len, error) in [
        (4096, 16, io::ErrorKind::InvalidInput),
        (PART_ALIGNMENT, 0, io::ErrorKind::InvalidInput),
        (PART_ALIGNMENT, PART_ALIGNMENT + 1, io::ErrorKind::UnexpectedEof),
        (u64::MAX - PART_ALIGNMENT + 1, PART_ALIGNMENT, io::ErrorKind::UnexpectedEof),
    ] {
        assert_eq!(ReadMapping::map_part(&file, from, len).unwrap_err().kind(), error);
    }
}

#[test]
fn copying_out_takes_any_offset_and_length_inside() {
    let map = ReadMapping::map(&file(8)).unwrap();
    let bytes: Vec<u8> = (0..8u64).flat_map(u64::to_ne_bytes).collect();
    for at in 0..=64 {
        for len in 0..=64 - at {
            let mut buffer = vec![0xee; len];
            assert!(map.copy_out(at, &mut buffer));
            assert_eq!(buffer, bytes[at..at + len], "{len} bytes at {at}");
        }
    }
    let mut buffer = [0xee; 9];
    for at in [56, 64, usize::MAX] {
        assert!(!map.copy_out(at, &mut buffer));
    }
    assert_eq!(buffer, [0xee; 9], "a refused copy writes nothing");
}

#[test]
fn a_plan_is_checked_once_and_for_the_mapping_it_is_used_on() {
    let long = ReadMapping::map(&file(16)).unwrap();
    let short = ReadMapping::map(&file(8)).unwrap();
    let plan = CellPlan::new([120, 40, 0], long.len()).unwrap();
    let mut words = [0; 3];
    assert!(long.load_while(&plan, &mut words, || true));
    assert_eq!(words, [15, 5, 0]);
    assert!(!short.load_while(&plan, &mut words, || true), "too short for the plan");
    assert!(!long.load_while(&plan, &mut [0; 2], || true), "no room for all");
    for offset in [4, 121, 128, u64::from(u32::MAX) + 1, u64::MAX - 7] {
        assert!(CellPlan::new([0, offset], long.len()).is_none(), "{offset}");
    }
    let nothing = CellPlan::new([], 0).unwrap();
    assert!(nothing.is_empty() && short.load_while(&nothing, &mut [], || true));
}

#[test]
fn a_pass_can_be_stopped_after_a_number_of_pages() {
    const PAGES: u64 = 40;
    let map = ReadMapping::map(&file(PAGES * 512)).unwrap();
    let one_a_page = CellPlan::new((0..PAGES).map(|page| page * 4096), map.len()).unwrap();
    let dense = CellPlan::new((0..PAGES * 512).map(|word| word * 8), map.len()).unwrap();
    for (plan, of_a_stretch) in [(&one_a_page, STRETCH_PAGES), (&dense, STRETCH_PAGES * 512)] {
        let mut words = vec![u64::MAX; plan.len()];
        let mut asked = 0;
        let goes_on = || {
            asked += 1;
            true
        };
        assert!(map.load_while(plan, &mut words, goes_on));
        assert_eq!(asked, 2, "the last pages are no whole stretch");
        assert!(words.iter().zip(words.iter().skip(1)).all(|(one, next)| one < next));
        words.fill(u64::MAX);
        assert!(!map.load_while(plan, &mut words, || false));
        let loaded = words.iter().filter(|word| **word != u64::MAX).count();
        assert_eq!(loaded, of_a_stretch);
    }
}
