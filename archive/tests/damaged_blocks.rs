//! Archives whose compressed volume is damaged: what is read is right, and what is lost is
//! in one block.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use pcp_archive::repair::repair;
use pcp_archive::salvage::{Salvage, SalvageItem};
use pcp_archive::{Archive, Timestamp, Value, ValueType};
use tempfile::TempDir;
use test_archives::{Builder, at};

const RECORDS: i64 = 60;
const BLOCK: usize = 10;
/// Number of damages with `MMV_LONG` in the environment, and without.
const LONG_DAMAGES: usize = 1500;
const DAMAGES: usize = 300;

fn archive() -> (TempDir, PathBuf) {
    let builder = Builder::indexed(500).metric("a.b", "i64 instant");
    builder.rows((0..RECORDS).map(|n| (n, [("a.b", value(n))]))).finish().into_parts()
}

/// Returns a value that differs in all its bytes for each record.
const fn value(n: i64) -> i64 {
    n.wrapping_mul(0x1e37_79b9_7f4a_7c15)
}

fn offsets(volume: &[u8]) -> Vec<usize> {
    let mut offsets = vec![0];
    while let Some(len) = volume.get(offsets[offsets.len() - 1]..).and_then(|b| b.first_chunk()) {
        offsets.push(offsets[offsets.len() - 1] + u32::from_be_bytes(*len) as usize);
    }
    offsets
}

/// Cuts a volume into blocks. The label is a block; each further one has the same number of
/// records.
fn blocks(volume: &[u8]) -> Vec<&[u8]> {
    let offsets = offsets(volume);
    let mut cuts = vec![0];
    cuts.extend(offsets[1..].iter().step_by(BLOCK));
    cuts.push(volume.len());
    cuts.dedup();
    cuts.windows(2).map(|cut| &volume[cut[0]..cut[1]]).collect()
}

fn xz(volume: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
    for block in blocks(volume) {
        encoder.write_all(block).unwrap();
        encoder.flush().unwrap();
    }
    encoder.finish().unwrap()
}

fn zstd(volume: &[u8]) -> Vec<u8> {
    let (mut out, mut table) = (Vec::new(), Vec::new());
    let mut count = 0u32;
    for block in blocks(volume) {
        let mut encoder = zstd::bulk::Compressor::new(1).unwrap();
        encoder.set_parameter(zstd::zstd_safe::CParameter::ChecksumFlag(true)).unwrap();
        let frame = encoder.compress(block).unwrap();
        table.extend((frame.len() as u32).to_le_bytes());
        table.extend((block.len() as u32).to_le_bytes());
        out.extend(frame);
        count += 1;
    }
    out.extend(0x184d_2a5e_u32.to_le_bytes());
    out.extend((table.len() as u32 + 9).to_le_bytes());
    out.extend(table);
    out.extend(count.to_le_bytes());
    out.push(0);
    out.extend(0x8f92_eab1_u32.to_le_bytes());
    out
}

/// Returns the times of the records that can be read; panics for one that was never written.
fn salvaged(base: &Path) -> Vec<Timestamp> {
    let salvage = Salvage::open(base).unwrap();
    let mut records = salvage.records();
    let mut times = Vec::new();
    while let Some(found) = records.next().unwrap() {
        if let SalvageItem::Record(record) = found {
            let n = record.timestamp().seconds() - at(0).seconds();
            assert_eq!(record.timestamp(), at(n));
            let set = record.value_sets().next().unwrap();
            let found = set.values(ValueType::I64).next().unwrap().unwrap();
            assert_eq!(found, (None, Value::I64(value(n))));
            times.push(record.timestamp());
        }
    }
    assert!(times.is_sorted());
    times
}

fn read(base: &Path) {
    let Ok(archive) = Archive::open(base) else { return };
    let mut records = archive.records().unwrap();
    while let Ok(Some(record)) = records.next() {
        let n = record.timestamp().seconds() - at(0).seconds();
        let set = record.value_sets().next().unwrap();
        let found = set.values(ValueType::I64).next().unwrap().unwrap();
        assert_eq!(found, (None, Value::I64(value(n))));
    }
    let mut records = archive.records_back_from(archive.end()).unwrap();
    while let Ok(Some(_)) = records.previous() {}
}

fn random(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

fn damage(suffix: &str, pack: fn(&[u8]) -> Vec<u8>) {
    let (_directory, base) = archive();
    let plain = fs::read(base.with_extension("0")).unwrap();
    let packed = pack(&plain);
    fs::remove_file(base.with_extension("0")).unwrap();
    let file = base.with_extension(format!("0.{suffix}"));
    fs::write(&file, &packed).unwrap();
    assert_eq!(salvaged(&base).len(), RECORDS as usize);
    let damages = if std::env::var_os("MMV_LONG").is_some() { LONG_DAMAGES } else { DAMAGES };
    let (mut state, mut harmless) = (7, 0);
    for _ in 0..damages {
        let (at, bit) = (random(&mut state) % packed.len(), random(&mut state) % 8);
        if random(&mut state).is_multiple_of(4) {
            // What is before the cut is there, but for the block that is cut.
            fs::write(&file, &packed[..at]).unwrap();
            let found = salvaged(&base).len();
            let least = (RECORDS as usize * at / packed.len()).saturating_sub(3 * BLOCK);
            assert!(found >= least, "{suffix} cut at {at} of {}: {found}", packed.len());
        } else {
            let mut flipped = packed.clone();
            flipped[at] ^= 1 << bit;
            fs::write(&file, flipped).unwrap();
            let found = salvaged(&base).len();
            assert!(found >= RECORDS as usize - BLOCK, "{suffix} bit {bit} at {at}: {found}");
            harmless += usize::from(found == RECORDS as usize);
        }
        read(&base);
    }
    // Those in sums and lists.
    assert!(harmless < damages / 2, "{harmless} of {damages} did no harm");
}

#[test]
fn damage_of_xz_costs_no_more_than_a_block() {
    damage("xz", xz);
}

#[test]
fn damage_of_zstd_costs_no_more_than_a_block() {
    damage("zst", zstd);
}

#[test]
fn repair_loses_only_the_damaged_block() {
    for suffix in ["xz", "zst"] {
        let (directory, base) = archive();
        let plain = fs::read(base.with_extension("0")).unwrap();
        let mut packed = if suffix == "xz" { xz(&plain) } else { zstd(&plain) };
        fs::remove_file(base.with_extension("0")).unwrap();
        let middle = packed.len() / 2;
        packed[middle] ^= 1;
        fs::write(base.with_extension(format!("0.{suffix}")), packed).unwrap();
        let output = directory.path().join("repaired");
        repair(&base, &output).unwrap();
        let archive = Archive::open(&output).unwrap();
        assert_eq!(archive.end(), at(RECORDS - 1), "{suffix}");
        let mut records = archive.records().unwrap();
        let mut times = Vec::new();
        while let Some(record) = records.next().unwrap() {
            if !record.is_mark() {
                times.push(record.timestamp());
            }
        }
        assert_eq!(times.len(), RECORDS as usize - BLOCK, "{suffix}");
    }
}
