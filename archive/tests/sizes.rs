//! Replay of archives that are large in one way or another: many marks, many
//! instances, many compressed volumes. What is asserted of the time taken is
//! generous, and the measured ratio is printed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pcp_archive::replay::Replay;
use pcp_archive::{Archive, InstanceId, Timestamp, Value};
use tempfile::TempDir;
use test_archives::Builder;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_nanos((1_700_000_000_000 + i128::from(millis)) * 1_000_000)
}

fn load(archive: &Archive) -> Replay<'_> {
    let mut selection = Replay::open(archive);
    assert_eq!(selection.select("a.b"), 1);
    selection.load().unwrap()
}

fn single(replay: &Replay<'_>, millis: i64) -> Option<u64> {
    match replay.sample_at(at(millis))?.values[0].first() {
        Some((None, Value::U64(value))) => Some(*value),
        _ => None,
    }
}

/// Writes 14 000 records, one a second, each counting its milliseconds; a mark after every
/// `marked` records.
fn counted(marked: i32, volumes: i32) -> (TempDir, PathBuf) {
    let mut builder = Builder::new().metric("a.b", "u64 counter");
    for second in 0..14_000 {
        if volumes > 0 && second % (14_000 / volumes) == 0 {
            builder = builder.volume();
        }
        builder = builder.row(second, [("a.b", 1000 * second)]);
        if marked > 0 && second % marked == marked - 1 {
            builder = builder.mark_at(at(1000 * i64::from(second) + 1));
        }
    }
    builder.finish().into_parts()
}

/// Opens and loads an archive, and returns the value of every third second in milliseconds, with
/// the time taken.
fn replayed(base: &Path) -> (Vec<Option<u64>>, Duration) {
    let start = Instant::now();
    let archive = Archive::open(base).unwrap();
    let replay = load(&archive);
    let answers = (0..14_000).step_by(3).map(|second| single(&replay, 1000 * second + 500));
    (answers.collect(), start.elapsed())
}

fn ratio(what: &str, took: Duration, plain: Duration) {
    let ratio = took.as_secs_f64() / plain.as_secs_f64();
    eprintln!("{what}: {took:?}, plain {plain:?}, ratio {ratio:.2}");
    assert!(took < plain * 10 + Duration::from_secs(2), "{what}");
}

#[test]
fn seven_hundred_marks() {
    let (_plain, plain) = counted(0, 0);
    let (_marked, marked) = counted(20, 0);
    let (without, plain_time) = replayed(&plain);
    let (with, time) = replayed(&marked);
    for (step, (with, without)) in with.iter().zip(&without).enumerate() {
        let second = 3 * step;
        let expected = (second < 13_999).then_some(1000 * second as u64 + 500);
        assert_eq!(*without, expected, "{second}");
        let is_cut = second % 20 == 19;
        assert_eq!(*with, expected.filter(|_| !is_cut), "{second}");
    }
    let archive = Archive::open(&marked).unwrap();
    let replay = load(&archive);
    assert_eq!(replay.observations().filter(|sample| sample.is_mark).count(), 700);
    ratio("700 marks", time, plain_time);
}

#[test]
fn a_hundred_thousand_instances_come_and_go() {
    const STEP: i32 = 1000;
    // At second k the 2000 instances from 1000 k on: each is there at two
    // records, and counts 7 in between.
    let mut builder = Builder::new().metric("a.b", "u64 counter");
    for second in 0..99 {
        let ids = STEP * second..STEP * (second + 2);
        let names: Vec<_> = ids.map(|n| (n, format!("i{n}"))).collect();
        let value = |n| if n < STEP * (second + 1) { 107 } else { 100 };
        let values = names.iter().map(|(n, name)| (format!("a.b[{name}]"), value(*n)));
        let instances = names.iter().map(|(n, name)| (*n, name.as_str()));
        builder = builder.numbered_instances("a.b", instances).row(second, values);
    }
    let archive = builder.finish();
    let start = Instant::now();
    let archive = Archive::open(&archive).unwrap();
    let replay = load(&archive);
    assert_eq!(replay.instances(0).count(), 100_000);
    for second in [0, 1, 50, 97] {
        let sample = replay.sample_at(at(1000 * i64::from(second) + 500)).unwrap();
        // Those that are there before and after.
        let expected: Vec<_> = (STEP * (second + 1)..STEP * (second + 2))
            .map(|n| (Some(InstanceId::new(n).unwrap()), Value::U64(104)))
            .collect();
        assert_eq!(sample.values[0].as_slice(), expected, "{second} s");
        let exact = replay.sample_at(at(1000 * i64::from(second))).unwrap();
        assert!(exact.values[0].len() >= 2 * STEP as usize, "{second} s");
    }
    let took = start.elapsed();
    eprintln!("100 000 instances: opened, read and asked in {took:?}");
    assert!(took < Duration::from_secs(30));
}

#[cfg(feature = "compression")]
#[test]
fn ten_compressed_volumes() {
    use std::io::Write as _;
    let compress = |suffix: &str, bytes: &[u8]| {
        if suffix == "zst" {
            return zstd::stream::encode_all(bytes, 1).unwrap();
        }
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let (_plain, plain) = counted(0, 10);
    let (expected, plain_time) = replayed(&plain);
    for suffix in ["xz", "zst"] {
        let (_directory, base) = counted(0, 10);
        let mut volumes = 0;
        for number in 0..12 {
            let path = base.with_extension(number.to_string());
            let Ok(bytes) = fs::read(&path) else { continue };
            let compressed = base.with_extension(format!("{number}.{suffix}"));
            fs::write(compressed, compress(suffix, &bytes)).unwrap();
            fs::remove_file(path).unwrap();
            volumes += 1;
        }
        assert_eq!(volumes, 10);
        let (answers, time) = replayed(&base);
        assert_eq!(answers, expected, "{suffix}");
        ratio(&format!("10 volumes, {suffix}"), time, plain_time);
    }
}
