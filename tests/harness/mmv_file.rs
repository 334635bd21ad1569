//! Small MMV files made byte by byte, so that a test can do to them what no
//! producer would.
//!
//! Version 1 with singular U64 counters of items 1, 2, ...; metrics and values have
//! room for [`ROOM`] entries each, so that a file can grow in place.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

pub(crate) const ROOM: usize = 8;

const HEADER: usize = 40;
const TOC_ENTRY: usize = 16;
const METRIC: usize = 104;
const VALUE: usize = 32;
const METRICS_AT: usize = HEADER + 2 * TOC_ENTRY;
const VALUES_AT: usize = METRICS_AT + ROOM * METRIC;

pub(crate) fn image(cluster: u32, generation: u64, counters: &[(&str, u64)]) -> Vec<u8> {
    assert!(counters.len() <= ROOM, "room for {ROOM} metrics");
    let mut bytes = vec![0; VALUES_AT + ROOM * VALUE];
    put(&mut bytes, 0, b"MMV\0");
    put(&mut bytes, 4, &1_u32.to_ne_bytes());
    put(&mut bytes, 8, &generation.to_ne_bytes());
    put(&mut bytes, 16, &generation.to_ne_bytes());
    put(&mut bytes, 24, &2_u32.to_ne_bytes());
    put(&mut bytes, 36, &cluster.to_ne_bytes());
    let count = u32::try_from(counters.len()).expect("a small number");
    for (entry, (section, offset)) in [(3_u32, METRICS_AT), (4, VALUES_AT)].iter().enumerate() {
        let at = HEADER + entry * TOC_ENTRY;
        put(&mut bytes, at, &section.to_ne_bytes());
        put(&mut bytes, at + 4, &count.to_ne_bytes());
        put(&mut bytes, at + 8, &(*offset as u64).to_ne_bytes());
    }
    for (index, (name, value)) in counters.iter().enumerate() {
        put_counter(&mut bytes, index, name, *value);
    }
    bytes
}

fn put_counter(bytes: &mut [u8], index: usize, name: &str, value: u64) {
    let metric = METRICS_AT + index * METRIC;
    let (item, u64_type, counter, count_units) = (index as u32 + 1, 3_u32, 1_u32, 1_u32 << 20);
    put(bytes, metric, name.as_bytes());
    for (field, number) in [item, u64_type, counter, count_units, u32::MAX].iter().enumerate() {
        put(bytes, metric + 64 + 4 * field, &number.to_ne_bytes());
    }
    put(bytes, value_at(index), &value.to_ne_bytes());
    put(bytes, value_at(index) + 16, &(metric as u64).to_ne_bytes());
}

fn value_at(index: usize) -> usize {
    VALUES_AT + index * VALUE
}

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    bytes[at..at + what.len()].copy_from_slice(what);
}

pub(crate) fn set(file: &Path, index: usize, value: u64) {
    let file = OpenOptions::new().write(true).open(file).expect("open the MMV file");
    file.write_all_at(&value.to_ne_bytes(), value_at(index) as u64).expect("set a value");
}

/// Replaces the contents of a file by another image, in place and the generations last.
pub(crate) fn grow(path: &Path, image: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).expect("open the MMV file");
    let generations = 8..24;
    file.write_all_at(&image[generations.end..], generations.end as u64)
        .expect("write the remaining bytes");
    file.write_all_at(&image[generations.clone()], generations.start as u64).expect("write both");
}

/// Copies an image and marks its metrics as named without the file's name (`MMV_FLAG_NOPREFIX`).
pub(crate) fn without_prefix(image: &[u8]) -> Vec<u8> {
    const FLAGS_AT: usize = 28;
    patched(image, FLAGS_AT, &1_u32.to_ne_bytes())
}

pub(crate) fn with_first_item(image: &[u8], item: u32) -> Vec<u8> {
    patched(image, METRICS_AT + 64, &item.to_ne_bytes())
}

pub(crate) fn with_first_discrete(image: &[u8]) -> Vec<u8> {
    const PM_SEM_DISCRETE: u32 = 4;
    patched(image, METRICS_AT + 64 + 8, &PM_SEM_DISCRETE.to_ne_bytes())
}

/// Changes some bytes of a copy of a file's image.
pub(crate) fn patched(image: &[u8], at: usize, what: &[u8]) -> Vec<u8> {
    let mut bytes = image.to_vec();
    put(&mut bytes, at, what);
    bytes
}

pub(crate) fn remove(path: &Path) {
    fs::remove_file(path).expect("remove the MMV file");
}
