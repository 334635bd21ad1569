pub(crate) mod trace;

use std::io::Write;
use std::io::{PipeReader, PipeWriter};

use mmv_format::mapping::ReadMapping;
use nix::libc;

use super::*;

fn file(words: u64) -> File {
    let mut file = tempfile::tempfile().unwrap();
    let bytes: Vec<u8> = (0..words).flat_map(u64::to_ne_bytes).collect();
    file.write_all(&bytes).unwrap();
    file
}

#[test]
fn a_segment_gives_out_aligned_cells_inside_only() {
    let segment = Arc::new(Segment::private(4));
    for at in [1, 4, 25, 32, usize::MAX] {
        assert!(segment.cell(at).is_none(), "{at}");
        assert!(!segment.store_u64(at, 1, Ordering::Relaxed));
    }
    assert!(!segment.copy_in(24, [1, 2].into_iter()));
    assert!(!segment.copy_in(usize::MAX, [1].into_iter()));
    let cell = segment.cell(24).unwrap();
    assert_eq!(cell.load(), 0, "a refused copy writes nothing");
    assert!(segment.copy_in(16, [8, 9].into_iter()));
    assert_eq!(cell.load(), 9);
}

#[test]
fn a_cell_outlives_everything_but_itself() {
    let segment = Arc::new(Segment::private(1));
    let cell = segment.cell(0).unwrap();
    let other = cell.clone();
    drop(segment);
    cell.add(2);
    drop(cell);
    other.update(|word| word * 21);
    assert_eq!(other.load(), 42);
}

#[test]
fn what_a_cell_stores_is_in_the_file_for_every_other_mapping() {
    let file = file(1024);
    let file = Arc::new(file);
    let segment = Arc::new(Segment::map(&file, 4096, 4096).unwrap());
    let cell = segment.cell(8).unwrap();
    assert_eq!(cell.load(), 513);
    cell.add(1000);
    let map = ReadMapping::map(&file).unwrap();
    assert_eq!(map.load_u64(4104), Some(1513));
    cell.store(u64::MAX);
    cell.add(1);
    assert_eq!(map.load_u64(4104), Some(0), "adding wraps around");
}

#[test]
fn a_segment_needs_a_length_and_an_aligned_offset() {
    for (offset, len) in [(0, 0), (4, 8)] {
        let error = Segment::map(&Arc::new(file(8)), offset, len).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}

/// Runs `check` in a forked child; returns its result.
pub(crate) fn in_a_fork(check: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child of a process with threads must not wait for locks that
    // others hold. It touches mappings and files, may allocate, which the C
    // library's own fork handlers make safe, and ends without running anything
    // else.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        let passed = check();
        // SAFETY: _exit has no requirements.
        unsafe { libc::_exit(i32::from(!passed)) };
    }
    // What it owns is the child's to drop.
    std::mem::forget(check);
    let mut status = -1;
    // SAFETY: `status` is a valid place for the result.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    waited == child && status == 0
}

/// Forks a child that does nothing until a pipe is closed in all other processes. Its
/// parent need not wait for it.
pub(crate) fn idle_fork(end: &mut PipeReader, keeper: &mut Option<PipeWriter>) {
    // SAFETY: as in `in_a_fork`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        drop(keeper.take());
        let _ = io::Read::read(end, &mut [0]);
        // SAFETY: _exit has no requirements.
        unsafe { libc::_exit(0) };
    }
}

#[test]
fn a_forked_child_counts_for_itself_in_the_same_cells() {
    let file = file(2048);
    file.set_len(16384).unwrap();
    let file = Arc::new(file);
    // Not at the start of a page.
    let segment = Arc::new(Segment::map(&file, 4096 + 64, 4096).unwrap());
    let cell = segment.cell(0).unwrap();
    let far = segment.cell(4088).unwrap();
    cell.store(5);
    far.store(6);
    assert!(in_a_fork(|| {
        cell.add(100);
        far.add(100);
        (cell.load(), far.load()) == (105, 106)
    }));
    assert_eq!((cell.load(), far.load()), (5, 6));
    cell.add(1);
    let map = ReadMapping::map(&file).unwrap();
    assert_eq!(map.load_u64(4096 + 64), Some(6), "the parent still counts in the file");
}

#[test]
fn a_segment_that_is_gone_does_not_matter_to_a_fork() {
    let file = Arc::new(file(1024));
    drop(Segment::map(&file, 0, 4096).unwrap());
    assert!(in_a_fork(|| true));
}

#[test]
fn strip_is_aligned_and_within_the_file() {
    let segment = Arc::new(Segment::private(8));
    let strip = segment.strip(8, 24, 3).unwrap();
    for (index, word) in strip.iter().enumerate() {
        word.add(1 + index as u64);
    }
    let words: Vec<_> = (0..8).map(|index| segment.cell(index * 8).unwrap().load()).collect();
    assert_eq!(words, [0, 1, 0, 0, 2, 0, 0, 3]);
    assert_eq!(
        (strip.len(), strip.get_or_last(3).load(), strip.get_or_last(usize::MAX).load()),
        (3, 3, 3)
    );
    for (at, stride, len) in
        [(8, 24, 4), (16, 24, 3), (4, 8, 1), (0, 12, 2), (0, 8, 0), (0, usize::MAX - 7, 3)]
    {
        assert!(segment.strip(at, stride, len).is_none(), "{len} words at {at}, each {stride}");
    }
}

#[test]
fn lines_are_words_of_a_strip_with_that_distance() {
    let segment = Arc::new(Segment::private(32));
    let strip = segment.strip(64, LINE, 3).unwrap();
    let lines = LineStrip::new(strip.clone(), 2).unwrap();
    for (index, word) in lines.iter().enumerate() {
        word.add(1 + index as u64);
    }
    let words: Vec<_> = strip.iter().map(Word::load).collect();
    assert_eq!(words, [1, 2, 0]);
    assert_eq!(lines.get(1).map(Word::load), Some(2));
    for index in [2, 3, usize::MAX] {
        assert!(lines.get(index).is_none(), "{index}");
    }
    assert!(LineStrip::new(strip, 4).is_none(), "more than the strip has");
    assert!(LineStrip::new(segment.strip(0, 32, 3).unwrap(), 2).is_none(), "half a line");
}

#[test]
fn a_strip_outlives_its_segment_s_owner() {
    let segment = Arc::new(Segment::map(&Arc::new(file(8)), 0, 64).unwrap());
    let strip = segment.strip(0, 16, 4).unwrap();
    drop(segment);
    let words: Vec<_> = strip.iter().map(Word::load).collect();
    assert_eq!(words, [0, 2, 4, 6]);
}
