use std::io::Write as _;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

const ALL: [Compression; 4] =
    [Compression::Xz, Compression::Bzip2, Compression::Gzip, Compression::Zstd];

/// Bytes that differ everywhere and yet compress: a counter in words.
fn counting(len: usize) -> Vec<u8> {
    (0..len.div_ceil(4) as u32).flat_map(u32::to_be_bytes).take(len).collect()
}

fn compress(compression: Compression, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match compression {
        Compression::Xz => {
            let mut encoder = liblzma::write::XzEncoder::new(&mut out, 0);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap();
        }
        Compression::Bzip2 => {
            let level = bzip2::Compression::fast();
            let mut encoder = bzip2::write::BzEncoder::new(&mut out, level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap();
        }
        Compression::Gzip => {
            let level = flate2::Compression::fast();
            let mut encoder = flate2::write::GzEncoder::new(&mut out, level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap();
        }
        Compression::Zstd => {
            let mut encoder = zstd::stream::write::Encoder::new(&mut out, 1).unwrap();
            // As zstd(1) does.
            encoder.include_checksum(true).unwrap();
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap();
        }
    }
    out
}

fn decompressed(compression: Compression, bytes: &[u8]) -> DecompressedFile {
    DecompressedFile { frames: None, ..of_records(compression, bytes) }
}

fn of_records(compression: Compression, bytes: &[u8]) -> DecompressedFile {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    DecompressedFile::new(file, bytes.len() as u64, compression, false)
}

fn read(file: &mut DecompressedFile, offset: usize, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    file.read_at(&mut bytes, offset as u64).map(|()| bytes)
}

fn damage(file: &DecompressedFile) -> Option<&str> {
    match &file.end {
        StreamEnd::Damaged(_, text) => Some(text),
        _ => None,
    }
}

#[test]
fn the_length_is_known_after_reading_past_the_end() {
    for compression in ALL {
        let bytes = counting(1_000_003);
        let mut file = decompressed(compression, &compress(compression, &bytes));
        assert_eq!(file.available(10, 1, 20).unwrap(), 20, "{compression:?}");
        assert_eq!(file.available(0, 0, u64::MAX).unwrap(), 1_000_003, "{compression:?}");
        assert_eq!(file.available(1_000_000, 9, 9).unwrap(), 3, "{compression:?}");
        assert_eq!(file.available(2_000_000, 9, 9).unwrap(), 0, "{compression:?}");
        assert!(read(&mut file, 1_000_000, 4).is_err(), "{compression:?}");
    }
}

#[test]
fn memory_stays_bounded_and_what_was_dropped_is_decoded_again() {
    let bytes = counting(5 * KEPT);
    let mut file = decompressed(Compression::Zstd, &compress(Compression::Zstd, &bytes));
    for step in (0..5 * KEPT - 64).rev().step_by(KEPT / 3) {
        assert_eq!(read(&mut file, step, 64).unwrap(), bytes[step..step + 64]);
        assert!(file.kept.len() <= 2 * KEPT + STEP);
    }
    assert!(file.kept.len() < file.known as usize);
}

#[test]
fn a_file_of_several_streams_is_entered_at_the_nearest() {
    for compression in ALL {
        let bytes = counting(600_000);
        let mut compressed = Vec::new();
        for part in bytes.chunks(200_000) {
            compressed.extend(compress(compression, part));
        }
        let mut file = decompressed(compression, &compressed);
        assert_eq!(read(&mut file, 0, 600_000).unwrap(), bytes, "{compression:?}");
        let starts: Vec<_> = file.streams.iter().map(|stream| stream.decompressed).collect();
        assert_eq!(starts, [0, 200_000, 400_000], "{compression:?}");
        // As if the first streams were kept no more.
        file.kept.clear();
        file.kept_start = 600_000;
        assert_eq!(read(&mut file, 250_000, 9).unwrap(), bytes[250_000..250_009]);
        assert_eq!(file.kept_start, 200_000, "{compression:?}");
    }
}

#[test]
fn zeros_after_a_stream_are_padding() {
    let mut compressed = compress(Compression::Xz, b"abc");
    compressed.extend([0; 8]);
    let mut file = decompressed(Compression::Xz, &compressed);
    assert_eq!(file.available(0, 0, u64::MAX).unwrap(), 3);
    assert!(damage(&file).is_none());
}

#[test]
fn every_cut_gives_the_bytes_before_it_and_then_an_error() {
    for compression in ALL {
        let bytes = counting(1000);
        let compressed = compress(compression, &bytes);
        for len in 1..compressed.len() {
            let mut file = decompressed(compression, &compressed[..len]);
            let there = file.available(0, 0, u64::MAX).unwrap() as usize;
            assert!(damage(&file).is_some(), "{compression:?} {len}");
            assert!(there <= bytes.len());
            assert_eq!(read(&mut file, 0, there).unwrap(), bytes[..there], "{compression:?} {len}");
            assert!(file.available(there as u64, 1, 1).is_err());
            assert!(read(&mut file, 0, there + 1).is_err());
        }
    }
}

#[test]
fn a_compression_that_is_not_supported_is_no_damage() {
    let mut file = decompressed(Compression::Gzip, &[0x1f, 0x9d, 0x90, 0x61, 0xc4, 0x28, 0]);
    // A damaged file ends here, without an error.
    let error = file.available(0, 0, 1).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    assert!(error.to_string().contains("gzip -d"), "{error}");
}

#[test]
fn a_flipped_bit_is_seen() {
    for compression in ALL {
        let bytes = counting(3000);
        let compressed = compress(compression, &bytes);
        // After the header, in which some flags have no effect.
        for at in (20..compressed.len()).step_by(7) {
            let mut flipped = compressed.clone();
            flipped[at] ^= 4;
            let mut file = decompressed(compression, &flipped);
            let there = file.available(0, 0, u64::MAX).unwrap() as usize;
            let same = read(&mut file, 0, there).unwrap() == bytes;
            assert!(damage(&file).is_some() || same, "{compression:?} {at}");
        }
    }
}

#[test]
fn a_bomb_is_stopped() {
    let compressed = compress(Compression::Bzip2, &vec![0; 20 << 20]);
    assert!(compressed.len() < 4096);
    let mut file = decompressed(Compression::Bzip2, &compressed);
    assert!(file.available(0, u64::MAX, u64::MAX).is_err());
    assert!(damage(&file).unwrap().contains("decompresses to more than 16777216 bytes"));
    assert!(file.kept.len() <= 2 * KEPT + STEP);
}

fn record() -> Vec<u8> {
    let mut bytes = Vec::new();
    let body = |out: &mut Vec<u8>| {
        out.extend(counting(1 << 19));
        Ok(())
    };
    crate::format::frame::encode(&mut bytes, body).unwrap();
    bytes
}

#[test]
fn only_damage_that_lasts_ends_a_file() {
    let record = record();
    let packed_record = compress(Compression::Xz, &record);
    let packed_zeros = compress(Compression::Xz, &vec![0; 4 << 20]);
    let good_len = 3 * record.len();
    let with = |zeros: usize, after: usize| {
        let file =
            [packed_record.repeat(3), packed_zeros.repeat(zeros), packed_record.repeat(after)];
        let file = file.concat();
        // As if it were compressed less: the ratio is not what ends it.
        let limit = u64::MAX;
        DecompressedFile { limit, ..of_records(Compression::Xz, &file) }
    };
    let mut bomb = with(100, 0);
    assert!(bomb.available(0, u64::MAX, u64::MAX).is_err());
    let text = format!("no record in the {MAX_DAMAGE} bytes from offset {good_len} on");
    assert_eq!(damage(&bomb), Some(text.as_str()));
    assert!(bomb.known <= good_len as u64 + MAX_DAMAGE + STEP as u64);
    let mut hole = with(7, 80);
    let all = (good_len + (28 << 20) + 80 * record.len()) as u64;
    assert_eq!(hole.available(0, u64::MAX, u64::MAX).unwrap(), all);
    // What is not a record need not be zeros.
    let text = [&b"a text"[..], &[0; 58]].concat().repeat(1 << 14);
    let packed_text = compress(Compression::Xz, &text).repeat(40);
    let mut text = of_records(Compression::Xz, &packed_text);
    assert!(text.available(0, u64::MAX, u64::MAX).is_err());
}

#[test]
fn an_empty_file_has_no_bytes() {
    for compression in ALL {
        assert_eq!(decompressed(compression, b"").available(0, 0, 9).unwrap(), 0);
    }
}

static MEGABYTE: LazyLock<Vec<u8>> = LazyLock::new(|| counting(1_000_000));
static PACKED_MEGABYTE: LazyLock<Vec<u8>> =
    LazyLock::new(|| compress(Compression::Zstd, &MEGABYTE));

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn reads_in_any_order_give_the_bytes(places in prop::collection::vec((0usize..900_000, 0usize..100_000), 1..8)) {
        let mut file = decompressed(Compression::Zstd, &PACKED_MEGABYTE);
        for (offset, len) in places {
            let found = read(&mut file, offset, len).unwrap();
            prop_assert!(found == MEGABYTE[offset..offset + len]);
        }
    }
}
